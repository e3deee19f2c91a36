//! Which files of a process stay open between two reads, and what of it is not watched.

use super::{MOST_THREADS, Process};
use crate::sources::descriptors::Use;

/// Below a process's folder: the children of its main thread.
pub(super) fn children_of(pid: u32) -> String {
    format!("task/{pid}/children")
}

/// Below a process's folder: the counters of one of its threads.
pub(super) fn schedstat_of(tid: u32) -> String {
    format!("task/{tid}/schedstat")
}

impl Process {
    /// Keeps its files open as far as that is permitted, or opens them for each read.
    pub fn set_kept(&mut self, keep: bool) {
        let keep = keep.then_some(Use::Tick);
        self.keep = keep;
        let folder = &self.folder;
        self.stat_file.set_kept(keep, || folder.join("stat"));
        if let Some(file) = &mut self.io_file {
            file.set_kept(keep, || folder.join("io"));
        }
        if let Some(file) = &mut self.children_file {
            file.set_kept(keep, || folder.join(children_of(self.id.pid)));
        }
        for thread in &mut self.threads {
            let tid = thread.tid;
            if let Some(file) = &mut thread.schedstat {
                file.set_kept(keep, || folder.join(schedstat_of(tid)));
            }
        }
    }

    /// Whether its files are kept open.
    pub fn is_kept(&self) -> bool {
        self.stat_file.is_kept()
    }

    /// How much it has computed of late, cores.
    pub fn cpu(&self) -> f64 {
        self.threads.iter().map(|thread| thread.pace.cpu).sum()
    }

    /// Files that are kept open for it where that is permitted.
    pub fn files(&self) -> usize {
        3 + self.threads.len()
    }

    /// Threads that are not watched, because there are too many.
    pub fn unwatched_threads(&self) -> u32 {
        self.stat.threads.saturating_sub(u32::try_from(MOST_THREADS).unwrap_or(u32::MAX))
    }
}
