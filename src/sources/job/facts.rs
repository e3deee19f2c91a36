//! What is found out about a process now and then: what may be read of it, which libraries it has mapped and which GPU
//! devices it holds.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;

use crate::sample::{Access, JobAccess};
use crate::sources::fields::{lines, text};
use crate::sources::files::{READ_LIMIT, read_once};

/// Most descriptors of one process that are looked at for GPU device files.
const MOST_DESCRIPTORS: usize = 4096;
/// Libraries whose presence in the memory map marks a process of machine learning.
const LIBRARIES: &[&str] = &[
    "libtorch_cpu",
    "libtorch",
    "libtensorflow",
    "xla_extension",
    "libjax",
    "libmegengine",
    "libpaddle",
    "libmxnet",
    "libmindspore",
    "libxgboost",
    "lib_lightgbm",
    "_catboost",
    "libcudart",
    "libcuda.so",
    NUMPY,
];
/// NumPy's own: many programs use it that do not train, so beside other libraries' processes one of it alone has no role.
const NUMPY: &str = "_multiarray_umath";

/// Whether a library of [`mapped_library`] is of machine learning alone.
pub(crate) fn is_of_learning(library: &str) -> bool {
    library != NUMPY
}

/// What may be read of the process in `folder`.
pub(super) fn access(folder: &Path, no_ptrace: bool) -> JobAccess {
    let access = |answer: io::Result<()>| match answer {
        Ok(()) => Access::Ok,
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Access::Denied,
        Err(_) => Access::Absent,
    };
    let of = |name: &str| access(fs::read(folder.join(name)).map(drop));
    let fd = access(fs::read_dir(folder.join("fd")).map(drop));
    JobAccess {
        syscall: if no_ptrace { Access::Denied } else { of("syscall") },
        // `wchan` can always be opened and reads `0` where it is not allowed; the rule is that of `fd`
        // (PTRACE_MODE_READ_FSCREDS, fs/proc/base.c).
        wchan: if folder.join("wchan").exists() { fd } else { Access::Absent },
        io: of("io"),
        fd,
    }
}

pub(super) fn visible_devices(folder: &Path) -> Option<Arc<str>> {
    let environ = read_once(folder.join("environ"), READ_LIMIT).ok()?;
    let value = environ.split(|&byte| byte == 0).find_map(|entry| entry.strip_prefix(b"CUDA_VISIBLE_DEVICES="))?;
    Some(text(value.get(..256).unwrap_or(value)))
}

pub(super) fn other_namespace(proc_root: &Path, folder: &Path) -> bool {
    let own = fs::read_link(proc_root.join("self/ns/pid"));
    let theirs = fs::read_link(folder.join("ns/pid"));
    matches!((own, theirs), (Ok(own), Ok(theirs)) if own != theirs)
}

/// The first library of [`LIBRARIES`] in the memory map.
pub(crate) fn mapped_library(folder: &Path) -> Option<Arc<str>> {
    let maps = read_once(folder.join("maps"), READ_LIMIT).ok()?;
    let mapped = lines(&maps).filter_map(|line| {
        // Only the file name counts: a program that lies in a folder called libtorch is none.
        let slash = line.iter().rposition(|&byte| byte == b'/')?;
        let name = line.get(slash + 1..)?;
        LIBRARIES.iter().position(|library| name.starts_with(library.as_bytes()))
    });
    let best = mapped.min()?;
    LIBRARIES.get(best).map(|library| Arc::from(library.trim_end_matches(".so")))
}

/// Minors of the `/dev/nvidiaN` files that are open.
pub(super) fn open_devices(folder: &Path) -> Vec<u32> {
    let Ok(entries) = fs::read_dir(folder.join("fd")) else { return Vec::new() };
    let mut minors: Vec<u32> = entries
        .filter_map(Result::ok)
        .take(MOST_DESCRIPTORS)
        .filter_map(|entry| fs::read_link(entry.path()).ok())
        .filter_map(|path| path.to_str()?.strip_prefix("/dev/nvidia")?.parse().ok())
        .collect();
    minors.sort_unstable();
    minors.dedup();
    minors
}
