//! The open ends of a process, read from its descriptors.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;

use super::descriptors::{fdinfo, inode};
use super::{MOST_DESCRIPTORS, SocketEnd, is_channel};
use crate::files::ReadFailure;
use crate::links::{Link, each_link};

/// Most named pipes remembered.
const MOST_FIFOS: usize = 256;

/// Named pipes that were waited on, by path: a descriptor of a named pipe shows its path like any file (fifo(7)).
#[derive(Debug, Default)]
pub(super) struct Fifos(BTreeMap<Box<str>, Arc<str>>);

impl Fifos {
    /// The name of the named pipe behind a descriptor that shows this path.
    pub(super) fn name(&mut self, proc_root: &Path, pid: u32, fd: u32, path: &str) -> Option<Arc<str>> {
        if let Some(known) = self.0.get(path) {
            return Some(Arc::clone(known));
        }
        let inode = inode(&fdinfo(&proc_root.join(pid.to_string()), fd)?)?;
        if self.0.len() >= MOST_FIFOS {
            self.0.clear();
        }
        let link: Arc<str> = format!("pipe:[fifo {inode}]").into();
        self.0.insert(path.into(), Arc::clone(&link));
        Some(link)
    }

    /// The channel behind a descriptor's target: a pipe, a socket or a known named pipe.
    fn channel<'a>(&'a self, target: &'a str) -> Option<&'a str> {
        if is_channel(target) { Some(target) } else { self.0.get(target).map(AsRef::as_ref) }
    }
}

/// The pipes and sockets that a process holds open, how many descriptors were read, and whether reading them was
/// denied.
pub(super) fn open_ends(proc_root: &Path, pid: u32, fifos: &Fifos) -> (Vec<SocketEnd>, usize, bool) {
    let mut ends: HashMap<Arc<str>, (bool, bool)> = HashMap::new();
    let (count, denied) = each_end(proc_root, pid, fifos, |name, link| {
        let (reads, writes) = ways(name, link);
        let end = ends.entry(name.into()).or_default();
        *end = (end.0 | reads, end.1 | writes);
    });
    let ends = ends.into_iter().map(|(link, (reads, writes))| SocketEnd { link, reads, writes });
    (ends.collect(), count, denied)
}

/// The directions in which an end is open: read, write. Sockets are open both ways.
pub(super) fn ways(name: &str, link: &Link<'_>) -> (bool, bool) {
    if name.starts_with("pipe:") { link.ways() } else { (true, true) }
}

/// Visits the pipes and sockets that a process holds open, each under its name. Returns how many descriptors were read
/// (the process itself counts as one), and whether reading them was denied.
pub(super) fn each_end(
    proc_root: &Path,
    pid: u32,
    fifos: &Fifos,
    mut found: impl FnMut(&str, &Link<'_>),
) -> (usize, bool) {
    let (count, read) = each_link(&proc_root.join(pid.to_string()), MOST_DESCRIPTORS, |link| {
        let name = std::str::from_utf8(link.target).ok().and_then(|target| fifos.channel(target));
        if let Some(name) = name {
            found(name, &link);
        }
    });
    (count + 1, read == Err(ReadFailure::Denied))
}
