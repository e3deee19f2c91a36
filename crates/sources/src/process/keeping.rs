//! Which files of a process stay open between two reads, and what of it is not watched.

use super::{MOST_THREADS, Process};
use crate::descriptors::Use;

impl Process {
    /// Keeps its files open as far as permitted, or opens them for each read.
    pub(crate) fn set_kept(&mut self, keep: bool) {
        self.keep = keep.then_some(Use::Tick);
        let of_threads = self.threads.iter_mut().filter_map(|thread| thread.schedstat.as_mut());
        let files = [&mut self.stat_file].into_iter().chain(&mut self.io_file).chain(&mut self.children_file);
        files.chain(of_threads).for_each(|file| file.set_kept(self.keep));
    }

    /// Whether its files are kept open.
    pub fn is_kept(&self) -> bool {
        self.stat_file.is_kept()
    }

    /// How much it has computed lately, in CPUs.
    pub fn cpu(&self) -> f64 {
        self.threads.iter().map(|thread| thread.pace.cpu).sum()
    }

    /// How many files are kept open for it if permitted.
    pub fn files(&self) -> usize {
        3 + self.threads.len()
    }

    /// Threads not watched because there are too many.
    pub(crate) fn unwatched_threads(&self) -> u32 {
        self.stat.threads.saturating_sub(u32::try_from(MOST_THREADS).unwrap_or(u32::MAX))
    }
}
