//! Which of the job's files look like its data, judged by name alone from its open descriptors and mappings.
//!
//! The links in `/proc/PID/fd`, `fdinfo` and `maps` come from the kernel's memory. The files themselves are never
//! opened or touched: one on a server that does not answer would hang trainmon. Each scan is bounded; the next ones
//! cover what it does not reach. (The procfs crate reads all maps and descriptors of a process, each into a string.)

use std::path::Path;

use rustix::fs::OFlags;

use super::fields::{keyed_number, lines};
use super::files::{KeptFile, ReadFailure, read_once};
use super::links::each_link;
use super::maps::{Mapping, mapping};
use super::mounts::below;

/// Most descriptors read for one process.
const MOST_DESCRIPTORS: usize = 4096;

/// An open or mapped file that looks like data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DataFile<'p> {
    /// Path as the process sees it, raw.
    pub path: &'p [u8],
    /// The file's device number, where known (mappings).
    pub number: Option<(u32, u32)>,
    /// Its descriptor, for [`descriptor_facts`] (open files).
    pub descriptor: Option<u32>,
}

/// Calls `each` for every link in `/proc/PID/fd` that looks like data. Returns how many links were read.
///
/// # Errors
/// Denied without ptrace read rights; gone if the process has ended.
pub(crate) fn open_files(process: &Path, mut each: impl FnMut(DataFile<'_>)) -> Result<usize, ReadFailure> {
    let (count, read) = each_link(process, MOST_DESCRIPTORS, |link| {
        if looks_like_data(link.target) {
            each(DataFile { path: link.target, number: None, descriptor: Some(link.fd) });
        }
    });
    read.map(|()| count)
}

/// What `fdinfo` says about a descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DescriptorFacts {
    /// Opened for reading, and not for appending like logs.
    pub for_reading: bool,
    /// The mount it was opened through.
    pub mount: Option<u64>,
}

/// Reads `/proc/PID/fdinfo/FD`.
pub(crate) fn descriptor_facts(process: &Path, descriptor: u32) -> Option<DescriptorFacts> {
    parse_fdinfo(&read_once(process.join(format!("fdinfo/{descriptor}")), 4096).ok()?)
}

/// `flags:` is octal (proc(5)).
fn parse_fdinfo(text: &[u8]) -> Option<DescriptorFacts> {
    let flags = lines(text).find_map(|line| line.strip_prefix(b"flags:"))?.trim_ascii();
    let flags = i32::from_str_radix(std::str::from_utf8(flags).ok()?, 8).ok()?;
    let flags = OFlags::from_bits_retain(u32::from_ne_bytes(flags.to_ne_bytes()));
    let writes_only = flags & OFlags::ACCMODE == OFlags::WRONLY;
    let for_reading = !writes_only && !flags.contains(OFlags::APPEND);
    Some(DescriptorFacts { for_reading, mount: keyed_number(text, b"mnt_id:") })
}

/// Calls `each` for every file in `/proc/PID/maps` that looks like data. Returns how many bytes were read.
///
/// # Errors
/// Same as [`open_files`].
pub(crate) fn mapped_files(
    process: &Path,
    buffer: &mut Vec<u8>,
    each: impl FnMut(DataFile<'_>),
) -> Result<usize, ReadFailure> {
    let text = KeptFile::open(process.join("maps"))?.read(buffer)?;
    parse_maps(text, each);
    Ok(text.len())
}

/// Parses `7f31c000-7f31d000 r--p 00000000 103:02 1234    /path`. The mappings of one file are adjacent. A file with
/// any executable part is a program or library.
fn parse_maps(text: &[u8], mut each: impl FnMut(DataFile<'_>)) {
    // Most lines are anonymous memory; only lines with a slash can name a file.
    let named = lines(text).filter(|line| line.contains(&b'/'));
    let mappings: Vec<Mapping<'_>> = named.filter_map(mapping).filter(|mapping| mapping.inode != 0).collect();
    for of_file in mappings.chunk_by(|one, next| one.file == next.file) {
        if let Some(Mapping { file, device, .. }) = of_file.first()
            && !of_file.iter().any(|mapping| mapping.is_code)
            && looks_like_data(file)
        {
            each(DataFile { path: file, number: Some(*device), descriptor: None });
        }
    }
}

/// System folders: programs, settings, and files of the kernel and of services.
const SYSTEM_FOLDERS: [&str; 27] = [
    "/proc",
    "/sys",
    "/dev",
    "/run",
    "/var/run",
    "/etc",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/boot",
    "/usr/bin",
    "/usr/sbin",
    "/usr/lib",
    "/usr/lib32",
    "/usr/lib64",
    "/usr/libexec",
    "/usr/share",
    "/usr/include",
    "/usr/local/lib",
    "/usr/local/bin",
    "/usr/local/share",
    "/var/cache/ldconfig",
    "/var/lib/sss",
    "/var/db/nscd",
];

/// Where removable and user mounts appear inside system folders.
const MOUNTS_IN_SYSTEM_FOLDERS: [&str; 3] = ["/run/media", "/run/mount", "/run/user"];

/// Shared memory that is not data the user put there: tensors and semaphores on their way between processes (torch,
/// multiprocessing, NCCL).
const SHARED_MEMORY_TRAFFIC: [&str; 7] = ["torch_", "sem.", "pym-", "psm_", "nccl", "cuda.", "shm-"];

/// Names of folders without data: installed packages, caches of compiled code, version control, notebooks, results of
/// experiment trackers.
const FOLDERS_WITHOUT_DATA: [&str; 14] = [
    "site-packages",
    "dist-packages",
    "__pycache__",
    "lib-dynload",
    ".git",
    ".nv",
    ".triton",
    ".ipython",
    ".jupyter",
    "jupyter",
    "wandb",
    "mlruns",
    "tensorboard",
    "torch_extensions",
];

/// Extensions of programs, bookkeeping files and fonts.
const ENDINGS_WITHOUT_DATA: [&str; 24] = [
    "py", "pyc", "pyi", "pyd", "so", "sh", "a", "o", "log", "lock", "pid", "sock", "mo", "ttf", "otf", "pfb", "afm",
    "pem", "crt", "cubin", "fatbin", "ptx", "swp", "egg",
];

/// Whether a path may be a data file (or folder) that the job reads. When in doubt it says no for what every Python
/// process has open, and yes for the rest.
pub(crate) fn looks_like_data(path: &[u8]) -> bool {
    // Sockets, pipes and anonymous inodes read `kind:[number]`; `/memfd:` and `/SYSV…` are memory.
    if !path.starts_with(b"/") || path == b"/" || path.starts_with(b"/memfd:") || path.starts_with(b"/SYSV") {
        return false;
    }
    if path.ends_with(b" (deleted)") {
        return false;
    }
    if let Some(name) = below(path, b"/dev/shm") {
        return !name.is_empty() && !SHARED_MEMORY_TRAFFIC.iter().any(|prefix| name.starts_with(prefix.as_bytes()));
    }
    let lies_in = |folders: &[&str]| folders.iter().any(|folder| below(path, folder.as_bytes()).is_some());
    if lies_in(&SYSTEM_FOLDERS) && !lies_in(&MOUNTS_IN_SYSTEM_FOLDERS) {
        return false;
    }
    let mut after_lib = false;
    for part in path.split(|&byte| byte == b'/') {
        if FOLDERS_WITHOUT_DATA.iter().any(|folder| folder.as_bytes() == part) {
            return false;
        }
        // The standard library: `…/lib/python3.12/…`.
        if after_lib && part.starts_with(b"python") {
            return false;
        }
        after_lib = part == b"lib" || part == b"lib64";
    }
    let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
    // `libfoo.so.1.2`.
    if name.windows(4).any(|window| window == b".so.") {
        return false;
    }
    let ending = name.iter().rposition(|&byte| byte == b'.').and_then(|dot| name.get(dot + 1..)).unwrap_or_default();
    !ENDINGS_WITHOUT_DATA.iter().any(|without| without.as_bytes() == ending)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_looks_like_data() {
        for path in [
            "/data/train/0001.jpg",
            "/mnt/nfs/shard-000.tar",
            "/opt/ml/input/data/x.tfrecord",
            "/home/u/.cache/huggingface/datasets/a.arrow",
            "/dev/shm/staged/x.bin",
            "/run/media/u/disk/x.png",
            "/data",
            "/library/x.png",
            "/usr/local/data/x.bin",
        ] {
            assert!(looks_like_data(path.as_bytes()), "{path}");
        }
        for path in [
            "socket:[123]",
            "pipe:[9]",
            "anon_inode:[eventpoll]",
            "/dev/null",
            "/dev/nvidia0",
            "/dev/shm/torch_12_34",
            "/memfd:x (deleted)",
            "/SYSV00000000 (deleted)",
            "/data/x.bin (deleted)",
            "/usr/lib/locale/locale-archive",
            "/opt/conda/lib/python3.12/json/decoder.pyc",
            "/home/u/venv/lib/python3.11/site-packages/torch/lib/libtorch.bin",
            "/opt/x/libfoo.so.1.2",
            "/opt/x/libfoo.so",
            "/home/u/train.py",
            "/home/u/run.log",
            "/etc/passwd",
            "/",
            "",
        ] {
            assert!(!looks_like_data(path.as_bytes()), "{path}");
        }
    }

    const MAPS: &str = "55d0-55d1 r--p 00000000 103:02 11                   /usr/bin/python3.11
7f00-7f01 r--s 00000000 103:05 12                   /data/my set/a.arrow
7f01-7f02 r--s 00001000 103:05 12                   /data/my set/a.arrow
7f02-7f03 rw-p 00000000 00:00 0
7f03-7f04 r--p 00000000 103:02 13                   /opt/tool/engine
7f04-7f05 r-xp 00000000 103:02 13                   /opt/tool/engine
7f05-7f06 rw-s 00000000 00:01 14                    /memfd:x (deleted)
7f06-7f07 rw-p 00000000 00:00 0                     [heap]
7f07-7f08 r--p 00000000 00:32 15                    /nfs/b.npy
";

    #[test]
    fn mappings_of_data() {
        let mut found = Vec::new();
        parse_maps(MAPS.as_bytes(), |file| found.push((String::from_utf8(file.path.to_vec()).unwrap(), file.number)));
        let expected = [("/data/my set/a.arrow", Some((0x103, 5))), ("/nfs/b.npy", Some((0, 0x32)))];
        assert_eq!(found, expected.map(|(path, number)| (path.to_owned(), number)));
    }

    #[test]
    fn descriptors_for_reading() {
        let facts =
            |flags: &str| parse_fdinfo(format!("pos:\t0\nflags:\t{flags}\nmnt_id:\t27\nino:\t5\n").as_bytes());
        assert_eq!(facts("0100000"), Some(DescriptorFacts { for_reading: true, mount: Some(27) }));
        assert_eq!(facts("02100002").map(|facts| facts.for_reading), Some(true));
        assert_eq!(facts("0100001").map(|facts| facts.for_reading), Some(false));
        assert_eq!(facts("0102002").map(|facts| facts.for_reading), Some(false));
        assert_eq!(facts("x"), None);
    }

    #[test]
    fn files_of_this_process() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().canonicalize().unwrap().join("set.bin");
        std::fs::write(&path, "x").unwrap();
        let file = std::fs::File::open(&path).unwrap();
        let process = Path::new("/proc/self");
        let mut descriptor = None;
        let wanted = std::os::unix::ffi::OsStrExt::as_bytes(path.as_os_str());
        open_files(process, |found| {
            if found.path == wanted {
                descriptor = found.descriptor;
            }
        })
        .unwrap();
        let facts = descriptor_facts(process, descriptor.unwrap()).unwrap();
        assert!(facts.for_reading && facts.mount.is_some());
        assert!(mapped_files(process, &mut Vec::new(), |_| ()).unwrap() > 0);
        drop(file);
        assert_eq!(open_files(Path::new("/proc/0"), |_| ()), Err(ReadFailure::Absent));
    }

    proptest! {
        #[test]
        fn mappings_round_trip(name in "[a-z ]{1,20}", major in 0_u32..4096, minor in 0_u32..1 << 20, inode in 1_u64..) {
            let path = format!("/data/{name}x");
            let line = format!("7f00-7f01 r--s 00000000 {major:02x}:{minor:02x} {inode}      {path}\n");
            let mut found = 0;
            parse_maps(line.as_bytes(), |file| {
                assert_eq!((file.path, file.number), (path.as_bytes(), Some((major, minor))));
                found += 1;
            });
            prop_assert_eq!(found, 1);
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes: Vec<u8>) {
            parse_maps(&bytes, |_| ());
            let _ = (looks_like_data(&bytes), parse_fdinfo(&bytes));
        }

        #[test]
        fn mangled_maps_never_panic(at in 0..MAPS.len(), byte: u8) {
            let mut bytes = MAPS.as_bytes().to_vec();
            bytes[at] = byte;
            parse_maps(&bytes, |_| ());
        }
    }
}
