//! Namespaces of processes, namespaces(7).

use std::fs;
use std::path::Path;

/// Whether the process in `folder` is in the same namespace of a kind (`pid`, `net`, `mnt`) as trainmon; `None` where that cannot
/// be read.
pub fn is_same(proc_root: &Path, folder: &Path, kind: &str) -> Option<bool> {
    let [ours, theirs] =
        [&proc_root.join("self"), folder].map(|process| fs::read_link(process.join("ns").join(kind)));
    Some(ours.ok()? == theirs.ok()?)
}
