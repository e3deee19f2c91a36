use std::fs;
use std::path::Path;

use proptest::prelude::*;

use super::limits::{cpu_max, io_max, v1_lowest};
use super::*;

const PID: u32 = 42;

/// A tree whose `/proc/self/mountinfo` names folders inside itself.
struct Tree {
    folder: tempfile::TempDir,
}

impl Tree {
    fn new(membership: &str, mounts: &[(&str, &str, &str, &str)]) -> Self {
        let tree = Self { folder: tempfile::tempdir().unwrap() };
        let mut mountinfo = String::from("1 0 8:1 / / rw - ext4 /dev/sda1 rw\n");
        for (at, (point, root, fs_type, options)) in mounts.iter().enumerate() {
            let point = tree.path(point);
            mountinfo += &format!("{} 1 0:9 {root} {} rw - {fs_type} cgroup {options}\n", at + 2, point.display());
        }
        tree.write("proc/self/mountinfo", &mountinfo);
        tree.write("proc/42/cgroup", membership);
        tree
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn group(&self, name: &str, files: &[(&str, &str)]) {
        self.write(&format!("{name}/cgroup.procs"), "");
        for (file, text) in files {
            self.write(&format!("{name}/{file}"), text);
        }
    }

    fn reader(&self) -> CgroupReader {
        CgroupReader::for_process(&Roots { proc: self.path("proc"), sys: self.path("sys") }, PID)
    }
}

#[test]
fn v2_with_limits_at_several_levels() {
    let tree = Tree::new("0::/pods/pod1/train\n", &[("cg", "/", "cgroup2", "rw")]);
    tree.group("cg", &[("cpu.stat", "usage_usec 1\n")]);
    tree.group(
        "cg/pods/pod1",
        &[
            ("cpu.max", "150000 100000\n"),
            ("cpu.stat", "usage_usec 5\nnr_periods 100\nnr_throttled 7\nthrottled_usec 9000\n"),
            ("memory.max", "1000000\n"),
            ("memory.high", "900000\n"),
            ("memory.current", "800000\n"),
            ("io.max", "8:0 rbps=100 wbps=max riops=max wiops=max\n8:16 rbps=50 wbps=1 riops=9 wiops=1\n"),
        ],
    );
    tree.group("cg/pods", &[("cpu.max", "max 100000\n"), ("memory.max", "max\n")]);
    tree.group(
        "cg/pods/pod1/train",
        &[
            ("cpu.max", "400000 100000\n"),
            ("cpu.stat", "nr_periods 1\nnr_throttled 1\nthrottled_usec 1\n"),
            ("memory.max", "max\n"),
            ("memory.current", "1\n"),
            ("memory.stat", "anon 1\nworkingset_refault_file 77\n"),
            ("memory.events", "low 0\nhigh 9\nmax 5\noom 4\noom_kill 2\noom_group_kill 0\n"),
            ("io.max", "8:0 rbps=60 wbps=max riops=3 wiops=max\n"),
        ],
    );
    let sample = tree.reader().read();
    let expected = CgroupSample {
        version: Some("v2".into()),
        path: Some("/pods/pod1/train".into()),
        cpu_quota_cores: Some(1.5),
        periods: Some(100),
        throttled_periods: Some(7),
        memory_bytes: Some(800_000),
        memory_limit_bytes: Some(900_000),
        refaulted_file_pages: Some(77),
        oom_kills: Some(2),
        io_read_limit_bytes_per_s: Some(50),
        io_read_limit_iops: Some(3),
        frozen: None,
        thaw: None,
    };
    assert_eq!(sample, expected);
}

#[test]
fn v1_in_a_container_that_shares_the_host_name_space() {
    let membership =
        "4:memory:/docker/abc\n3:cpu,cpuacct:/docker/abc\n2:blkio:/docker/abc\n1:name=systemd:/docker/abc\n";
    let tree = Tree::new(
        membership,
        &[
            ("cg/cpu", "/docker/abc", "cgroup", "rw,cpu,cpuacct"),
            ("cg/memory", "/docker/abc", "cgroup", "rw,memory"),
            ("cg/blkio", "/docker/abc", "cgroup", "rw,blkio"),
        ],
    );
    tree.group(
        "cg/cpu",
        &[
            ("cpu.cfs_quota_us", "50000\n"),
            ("cpu.cfs_period_us", "100000\n"),
            ("cpu.stat", "nr_periods 10\nnr_throttled 5\nthrottled_time 1234567\n"),
        ],
    );
    tree.group(
        "cg/memory",
        &[
            ("memory.limit_in_bytes", "9223372036854771712\n"),
            ("memory.usage_in_bytes", "5\n"),
            ("memory.stat", "cache 1\nworkingset_refault_file 2\ntotal_workingset_refault_file 20\n"),
            ("memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n"),
        ],
    );
    tree.group("cg/blkio", &[("blkio.throttle.read_bps_device", "8:0 1048576\n8:16 99\n")]);
    let sample = tree.reader().read();
    assert_eq!(sample.version.as_deref(), Some("v1"));
    assert_eq!(sample.cpu_quota_cores, Some(0.5));
    assert_eq!((sample.periods, sample.throttled_periods), (Some(10), Some(5)));
    assert_eq!((sample.memory_bytes, sample.memory_limit_bytes), (Some(5), None));
    assert_eq!((sample.refaulted_file_pages, sample.oom_kills), (Some(20), Some(3)));
    assert_eq!((sample.io_read_limit_bytes_per_s, sample.io_read_limit_iops), (Some(99), None));
}

#[test]
fn hybrid_takes_controllers_from_where_they_are() {
    let tree = Tree::new(
        "2:cpu,cpuacct:/a/b\n0::/a.slice\n",
        &[("cg/unified", "/", "cgroup2", "rw"), ("cg/cpu", "/", "cgroup", "rw,cpu,cpuacct")],
    );
    tree.group("cg/unified/a.slice", &[("memory.max", "100\n"), ("memory.current", "7\n")]);
    tree.group("cg/cpu", &[]);
    tree.group("cg/cpu/a", &[("cpu.cfs_quota_us", "300000\n"), ("cpu.cfs_period_us", "100000\n")]);
    tree.group("cg/cpu/a/b", &[("cpu.cfs_quota_us", "-1\n"), ("cpu.cfs_period_us", "100000\n")]);
    let sample = tree.reader().read();
    assert_eq!(sample.version.as_deref(), Some("hybrid"));
    assert_eq!(sample.path.as_deref(), Some("/a/b"));
    assert_eq!(
        (sample.cpu_quota_cores, sample.memory_limit_bytes, sample.memory_bytes),
        (Some(3.0), Some(100), Some(7))
    );
}

#[test]
fn a_moved_process_and_changed_limits_are_noticed() {
    let tree = Tree::new("0::/one\n", &[("cg", "/", "cgroup2", "rw")]);
    tree.group("cg", &[]);
    tree.group("cg/one", &[("cpu.max", "100000 100000\n"), ("cpu.stat", "nr_periods 1\n")]);
    tree.group("cg/two", &[("cpu.max", "200000 100000\n"), ("cpu.stat", "nr_periods 2\n")]);
    let mut reader = tree.reader();
    assert_eq!(reader.read().cpu_quota_cores, Some(1.0));
    tree.write("proc/42/cgroup", "0::/two\n");
    let later: Vec<_> = (0..10).map(|_| reader.read()).collect();
    assert_eq!((later[9].cpu_quota_cores, later[9].periods), (Some(2.0), Some(2)));
    tree.write("cg/two/cpu.max", "50000 100000\n");
    let later: Vec<_> = (0..10).map(|_| reader.read()).collect();
    assert_eq!(later[9].cpu_quota_cores, Some(0.5));
}

#[test]
fn another_containers_group_is_unknown_unless_its_own_mounts_show_it() {
    let tree = Tree::new("0::/../other\n", &[("cg", "/", "cgroup2", "rw")]);
    tree.group("cg", &[("cpu.max", "100000 100000\n")]);
    assert_eq!(tree.reader().read().cpu_quota_cores, None);
    tree.write("proc/42/mountinfo", "9 1 0:9 /../other /sys/fs/cgroup rw - cgroup2 cgroup rw\n");
    tree.group("proc/42/root/sys/fs/cgroup", &[("cpu.max", "700000 100000\n")]);
    assert_eq!(tree.reader().read().cpu_quota_cores, Some(7.0));
}

#[test]
fn a_path_that_is_not_mounted_falls_back_to_the_ancestors() {
    let tree = Tree::new("0::/kubepods/pod/abc\n", &[("cg", "/", "cgroup2", "rw")]);
    tree.group("cg", &[("cpu.max", "100000 100000\n")]);
    assert_eq!(tree.reader().read().cpu_quota_cores, Some(1.0));
}

#[test]
fn nothing_at_all_is_none() {
    let tree = Tree::new("", &[]);
    assert_eq!(tree.reader().read(), CgroupSample::default());
    let mut reader = CgroupReader::for_process(&Roots::default(), u32::MAX);
    assert_eq!(reader.read().cpu_quota_cores, None);
}

#[test]
fn allowed_cpus_of_a_fixture_and_of_ourselves() {
    let tree = Tree::new("", &[]);
    tree.write(
        "proc/42/status",
        "Name:\tpython\nCpus_allowed:\tf0f\nCpus_allowed_list:\t0-3,8-11\nMems_allowed:\t1\n",
    );
    let roots = Roots { proc: tree.path("proc"), sys: tree.path("sys") };
    assert_eq!(allowed_cpus(&roots, 42), [0, 1, 2, 3, 8, 9, 10, 11]);
    assert!(allowed_cpus(&roots, 43).is_empty());
    let own = allowed_cpus(&Roots::default(), std::process::id());
    assert!(!own.is_empty());
    assert!(physical_cores(&Roots::default(), &own).is_none_or(|cores| usize::from(cores) <= own.len()));
}

#[test]
fn hardware_threads_of_one_core_count_once() {
    let tree = Tree::new("", &[]);
    let siblings = |cpu: u16, list: &str| {
        tree.write(&format!("sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"), list);
    };
    // As on a g5.2xlarge: CPU 0 and 4 are one core.
    (0..8).for_each(|cpu| siblings(cpu, &format!("{},{}\n", cpu % 4, cpu % 4 + 4)));
    let roots = Roots { proc: tree.path("proc"), sys: tree.path("sys") };
    assert_eq!(physical_cores(&roots, &[0, 1, 2, 3, 4, 5, 6, 7]), Some(4));
    assert_eq!(physical_cores(&roots, &[0, 4, 5]), Some(2));
    assert_eq!((physical_cores(&roots, &[]), physical_cores(&roots, &[0, 9])), (None, None));
    siblings(0, "rubbish");
    assert_eq!(physical_cores(&roots, &[0, 1]), None);
}

/// A real group with a quota, on a machine that lets us make one.
struct RealGroup {
    folder: PathBuf,
    child: std::process::Child,
}

impl RealGroup {
    fn make() -> Option<Self> {
        let v1 = Path::new("/sys/fs/cgroup/cpu");
        let (top, v2) = if v1.join("cpu.cfs_quota_us").exists() || v1.join("cpu.shares").exists() {
            (v1, false)
        } else {
            (Path::new("/sys/fs/cgroup"), true)
        };
        let folder = top.join(format!("trainmon-test-{}", std::process::id()));
        fs::create_dir(&folder).ok()?;
        let child = std::process::Command::new("sh").args(["-c", "while :; do :; done"]).spawn().ok()?;
        let group = Self { folder, child };
        let set = |name: &str, text: &str| fs::write(group.folder.join(name), text).is_ok();
        let limited = if v2 {
            set("cpu.max", "20000 100000")
        } else {
            set("cpu.cfs_period_us", "100000") && set("cpu.cfs_quota_us", "20000")
        };
        (limited && set("cgroup.procs", &group.child.id().to_string())).then_some(group)
    }
}

impl Drop for RealGroup {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        // The kernel needs a moment to let go of the last member.
        for _ in 0..50 {
            if fs::remove_dir(&self.folder).is_ok() {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }
}

#[test]
fn a_real_quota_throttles() {
    let Some(group) = RealGroup::make() else {
        println!("skipped: this needs the right to make a cgroup with a CPU quota");
        return;
    };
    let mut reader = CgroupReader::for_process(&Roots::default(), group.child.id());
    let before = reader.read();
    assert_eq!(before.cpu_quota_cores, Some(0.2));
    assert!(before.path.as_deref().is_some_and(|path| path.contains("trainmon-test")));
    let mut after = before.clone();
    // A busy machine may give the group less than its quota for a while.
    for _ in 0..40 {
        std::thread::sleep(std::time::Duration::from_millis(250));
        after = reader.read();
        if after.throttled_periods > before.throttled_periods {
            break;
        }
    }
    assert!(after.periods > before.periods, "{before:?} {after:?}");
    assert!(after.throttled_periods > before.throttled_periods);
}

proptest! {
    #[test]
    fn cpu_lists_round_trip(cpus in proptest::collection::btree_set(0..MOST_CPUS, 0..60)) {
        let cpus: Vec<u16> = cpus.into_iter().collect();
        let single = cpus.iter().map(u16::to_string).collect::<Vec<_>>().join(",");
        prop_assert_eq!(cpu_list(single.as_bytes()), cpus);
    }

    #[test]
    fn cpu_ranges_round_trip(first in 0..MOST_CPUS - 1, count in 1_u16..100) {
        let last = (first + count).min(MOST_CPUS - 1);
        let expected: Vec<u16> = (first..=last).collect();
        prop_assert_eq!(cpu_list(format!("{first}-{last}").as_bytes()), expected);
    }

    #[test]
    fn hostile_cpu_lists_stay_small(text in "[0-9,-]{0,200}") {
        prop_assert!(cpu_list(text.as_bytes()).len() <= usize::from(MOST_CPUS));
    }

    #[test]
    fn quotas_round_trip(quota in 1_u64..1 << 40, period in 1_u64..1 << 40) {
        #[allow(clippy::cast_precision_loss, reason = "below 2^53")]
        let cores = quota as f64 / period as f64;
        prop_assert_eq!(cpu_max(format!("{quota} {period}\n").as_bytes()), Some(cores));
    }

    #[test]
    fn read_limits_round_trip(rows in proptest::collection::vec((any::<u64>(), any::<u64>()), 1..5)) {
        let text: String = rows.iter().map(|(b, i)| format!("8:0 rbps={b} wbps=max riops={i} wiops=5\n")).collect();
        let limits = (io_max(text.as_bytes(), b"rbps="), io_max(text.as_bytes(), b"riops="));
        let lowest = (rows.iter().map(|r| r.0).min(), rows.iter().map(|r| r.1).min());
        prop_assert_eq!(limits, lowest);
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes: Vec<u8>) {
        let _ = (cpu_list(&bytes), cpu_max(&bytes), v1_lowest(&bytes));
        let _ = io_max(&bytes, b"rbps=");
        let _ = (find::group_path(&bytes, Some("cpu")), find::group_path(&bytes, None));
        find::find(&Roots { proc: "/nowhere".into(), sys: "/nowhere".into() }, 1, &bytes);
    }
}

#[test]
fn a_frozen_group_is_seen_in_either_hierarchy() {
    let membership = "3:freezer:/job\n0::/job\n";
    let tree = Tree::new(membership, &[("v1", "/", "cgroup", "rw,freezer"), ("v2", "/", "cgroup2", "rw")]);
    tree.group("v2/job", &[("cgroup.events", "populated 1\nfrozen 0\n"), ("cgroup.freeze", "0\n")]);
    tree.group("v1/job", &[("freezer.state", "THAWED\n"), ("freezer.self_freezing", "0\n")]);
    let mut reader = tree.reader();
    let mut read = || {
        let sample = reader.read();
        (sample.frozen, sample.thaw.map(|thaw| thaw.to_string()))
    };
    assert_eq!(read(), (Some(false), None));
    tree.group("v1/job", &[("freezer.state", "FROZEN\n"), ("freezer.self_freezing", "1\n")]);
    let (frozen, thaw) = read();
    assert!(frozen == Some(true) && thaw.unwrap().ends_with("v1/job/freezer.state"));
    tree.group("v1/job", &[("freezer.state", "THAWED\n")]);
    assert_eq!(read(), (Some(false), None));
    tree.group("v2/job", &[("cgroup.events", "populated 1\nfrozen 1\n"), ("cgroup.freeze", "1\n")]);
    let (frozen, thaw) = read();
    assert!(frozen == Some(true) && thaw.unwrap().ends_with("v2/job/cgroup.freeze"));
}

#[test]
fn the_root_group_is_neither_frozen_nor_thawed() {
    let tree = Tree::new("0::/\n", &[("cg", "/", "cgroup2", "rw")]);
    tree.group("cg", &[]);
    assert_eq!(tree.reader().read().frozen, None);
}
