use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use super::*;
use trainmon_sample::MountKind;

const MOUNTINFO: &str = "27 1 8:1 / / rw - ext4 /dev/sda1 rw
40 27 0:50 / /mnt/data rw - nfs4 server:/export rw
41 27 0:51 / /dev/shm rw - tmpfs tmpfs rw
";

struct Tree {
    folder: tempfile::TempDir,
}

impl Tree {
    fn new() -> Self {
        let tree = Self { folder: tempfile::tempdir().unwrap() };
        tree.write("proc/self/mountinfo", MOUNTINFO);
        tree
    }

    fn roots(&self) -> Roots {
        Roots { proc: self.folder.path().join("proc"), sys: self.folder.path().join("sys") }
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn process(&self, pid: u32, mountinfo: &str, files: &[(&str, &str, u64)], maps: &str) {
        self.write(&format!("proc/{pid}/mountinfo"), mountinfo);
        self.write(&format!("proc/{pid}/maps"), maps);
        let process = self.folder.path().join(format!("proc/{pid}"));
        let _ = fs::remove_dir_all(process.join("fd"));
        fs::create_dir_all(process.join("fd")).unwrap();
        fs::create_dir_all(process.join("ns")).unwrap();
        let _ = symlink(format!("mnt:[{pid}]"), process.join("ns/mnt"));
        for (fd, (path, flags, mount)) in files.iter().enumerate() {
            symlink(path, process.join(format!("fd/{fd}"))).unwrap();
            self.write(
                &format!("proc/{pid}/fdinfo/{fd}"),
                &format!("pos:\t0\nflags:\t{flags}\nmnt_id:\t{mount}\nino:\t1\n"),
            );
        }
    }
}

fn points(mounts: &DataMounts) -> Vec<(String, u32)> {
    mounts.data_mounts().unwrap().iter().map(|mount| (mount.mount_point.to_string(), mount.files)).collect()
}

#[test]
fn files_are_placed_by_mount_id_and_by_path() {
    let tree = Tree::new();
    tree.process(
        7,
        MOUNTINFO,
        &[
            ("/mnt/data/a.tar", "0100000", 40),
            ("/mnt/data/b.tar", "0100000", 40),
            ("/mnt/data/out.bin", "0100001", 40),
            ("/home/u/index.bin", "0100000", 27),
            ("pipe:[1]", "0", 9),
            ("/home/u/train.py", "0100000", 27),
        ],
        "7f00-7f01 r--s 00000000 00:32 12      /mnt/data/c.npy\n7f01-7f02 r--p 00000000 00:33 9    /dev/shm/mine.bin\n",
    );
    let mut mounts = DataMounts::new(&tree.roots());
    assert_eq!(mounts.data_mounts(), None);
    mounts.scan(SECOND, &[7], false);
    let expected = [("/mnt/data", 3), ("/", 1), ("/dev/shm", 1)];
    assert_eq!(points(&mounts), expected.map(|(point, files)| (point.to_owned(), files)));
    let kinds: Vec<_> = mounts.data_mounts().unwrap().iter().map(|mount| mount.kind).collect();
    assert_eq!(kinds, [MountKind::Network, MountKind::Local, MountKind::Memory]);
}

#[test]
fn each_container_has_its_own_mounts() {
    let tree = Tree::new();
    let inside = "90 1 0:77 / / rw - overlay overlay rw\n91 90 259:1 /set /mnt/data ro - xfs /dev/nvme1n1p1 rw\n";
    tree.process(7, MOUNTINFO, &[("/mnt/data/a.tar", "0100000", 40)], "");
    tree.process(8, inside, &[("/mnt/data/b.tar", "0100000", 91)], "");
    let mut mounts = DataMounts::new(&tree.roots());
    mounts.scan(SECOND, &[7, 8], false);
    let mut types: Vec<_> = mounts.data_mounts().unwrap().iter().map(|mount| mount.fs_type.to_string()).collect();
    types.sort();
    assert_eq!(types, ["nfs4", "xfs"]);
}

#[test]
fn briefly_open_files_count_for_a_minute() {
    let tree = Tree::new();
    tree.process(7, MOUNTINFO, &[("/mnt/data/a.tar", "0100000", 40)], "");
    let mut mounts = DataMounts::new(&tree.roots());
    mounts.scan(SECOND, &[7], false);
    tree.process(7, MOUNTINFO, &[("/mnt/data/b.tar", "0100000", 40)], "");
    mounts.scan(SECOND * 3 / 2, &[7], false);
    assert_eq!(points(&mounts), [("/mnt/data".to_owned(), 1)], "not due yet");
    mounts.scan(SECOND * 2, &[7], false);
    assert_eq!(points(&mounts), [("/mnt/data".to_owned(), 2)]);
    tree.process(7, MOUNTINFO, &[], "");
    mounts.scan(SECOND * 30, &[7], false);
    assert_eq!(points(&mounts), [("/mnt/data".to_owned(), 2)]);
    mounts.scan(SECOND * 70, &[7], false);
    assert_eq!(points(&mounts), []);
}

#[test]
fn where_little_is_asked_for_files_are_looked_at_more_seldom() {
    let tree = Tree::new();
    let mut mounts = DataMounts::new(&tree.roots());
    // Something new in each second: in which of them is it seen?
    let mut seen = |seconds: std::ops::Range<u64>, sparing| {
        let looks = seconds.filter(|second| {
            let name = format!("/mnt/data/{second}.tar");
            tree.process(7, MOUNTINFO, &[(&name, "0100000", 40)], "");
            mounts.scan(SECOND * second, &[7], sparing);
            mounts.files.values().any(|file| file.until_ns == SECOND * second + OPEN_REMEMBERED_NS)
        });
        looks.count()
    };
    assert_eq!(seen(1..31, true), 30, "a young job is looked at as often");
    seen(31..90, false);
    let [usual, seldom] = [seen(90..150, false), seen(150..210, true)];
    assert!(usual >= 19 && (4..=5).contains(&seldom), "{usual} {seldom}");
    assert!(seen(210..213, false) >= 1, "soon where much is asked for again");
}

#[test]
fn some_files_are_named_for_as_long_as_they_are_remembered() {
    let tree = Tree::new();
    let long = format!("/mnt/data/{}.tar", "x".repeat(EXAMPLE_BYTES));
    let first: Vec<String> = [long].into_iter().chain((0..20).map(|at| format!("/mnt/data/{at}.tar"))).collect();
    let open = |paths: &[String]| {
        let files: Vec<(&str, &str, u64)> = paths.iter().map(|path| (path.as_str(), "0100000", 40)).collect();
        tree.process(7, MOUNTINFO, &files, "");
    };
    let mut mounts = DataMounts::new(&tree.roots());
    let mut named = |second: u64| {
        mounts.scan(SECOND * second, &[7], false);
        let mut found = mounts.data_mounts().unwrap();
        assert!(found.len() <= 1, "{found:?}");
        found.pop().map(|mount| (mount.files, mount.examples)).unwrap_or_default()
    };
    open(&first);
    let (files, examples) = named(1);
    assert_eq!((files, examples.len()), (21, EXAMPLES));
    assert!(examples.iter().all(|path| path.len() < 20 && path.starts_with("/mnt/data/")), "{examples:?}");
    open(&["/mnt/data/late.tar".to_owned()]);
    assert_eq!(named(40), (22, examples), "no change while they are remembered");
    assert_eq!(named(90), (1, vec![]), "no room was left when it was found");
    open(&["/mnt/data/later.tar".to_owned()]);
    assert_eq!(named(94), (2, vec!["/mnt/data/later.tar".into()]));
}

#[test]
fn memory_stays_bounded() {
    let tree = Tree::new();
    let mut maps = String::new();
    for at in 0..3 * MOST_DATA_FILES {
        maps += &format!("7f00-7f01 r--s 00000000 00:32 {}      /mnt/data/{at}.npy\n", at + 1);
    }
    tree.process(7, MOUNTINFO, &[], &maps);
    let mut mounts = DataMounts::new(&tree.roots());
    for second in 1..20 {
        mounts.scan(SECOND * second, &[7], false);
    }
    assert_eq!(mounts.files.len(), MOST_DATA_FILES);
    // Thousands of mounts cannot pile up either.
    for id in 0..1000 {
        mounts.intern(Mount { id, ..Mount::default() }, 7);
    }
    assert_eq!(mounts.mounts.len(), MOST_DATA_MOUNTS);
}

#[test]
fn an_ended_process_keeps_what_was_seen() {
    let tree = Tree::new();
    tree.process(7, MOUNTINFO, &[("/mnt/data/a.tar", "0100000", 40)], "");
    let mut mounts = DataMounts::new(&tree.roots());
    mounts.scan(SECOND, &[7], false);
    fs::remove_dir_all(tree.folder.path().join("proc/7")).unwrap();
    mounts.scan(SECOND * 3, &[7], false);
    assert_eq!(points(&mounts), [("/mnt/data".to_owned(), 1)]);
}

#[test]
fn turns_reach_every_process() {
    let mut next = 5;
    assert_eq!(in_turn(&[1, 2, 3], &mut next), [3, 1, 2]);
    assert!(in_turn(&[], &mut next).is_empty());
}

#[test]
fn without_rights_mounts_are_unknown() {
    // Only this thread gives up its rights: ids are per thread in the kernel.
    let mounts = std::thread::spawn(|| {
        let nobody = rustix::fs::Uid::from_raw(65534);
        rustix::thread::set_thread_res_uid(nobody, nobody, nobody).ok()?;
        let mut mounts = DataMounts::new(&Roots::default());
        mounts.scan(SECOND, &[1], false);
        Some(mounts)
    })
    .join()
    .unwrap();
    match mounts {
        Some(mounts) => assert_eq!((mounts.readable, mounts.data_mounts()), (Some(false), None)),
        None => println!("skipped: this needs the right to become another user"),
    }
}

#[test]
fn a_file_of_this_process_is_found_on_its_mount() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().canonicalize().unwrap().join("set.bin");
    fs::write(&path, "data").unwrap();
    let file = fs::File::open(&path).unwrap();
    let mut mounts = DataMounts::new(&Roots::default());
    mounts.scan(SECOND, &[std::process::id()], false);
    let found = mounts.data_mounts().unwrap();
    assert!(
        found.iter().any(|mount| path.starts_with(Path::new(&*mount.mount_point)) && mount.files > 0),
        "{found:?}"
    );
    println!("{found:?}");
    drop(file);
}
