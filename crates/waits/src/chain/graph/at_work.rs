//! The processes and threads that work in a round.

use std::collections::BTreeSet;

use super::{Graph, GraphThread};
use crate::wait::Wait;
use trainmon_sample::Channel;

impl Graph<'_> {
    /// Processes with a thread at work in this round, not counting the loop's own: they run, or wait for a disk or a
    /// remote answer (like a process that fetches ahead), or have something for the loop that it has not taken yet.
    pub(in crate::chain) fn at_work(&self, (rank, tid): (u32, u32)) -> BTreeSet<u32> {
        let fetches = |thread: &GraphThread<'_>| {
            let elsewhere = |channel: &Channel| channel.remote.is_some() && !channel.writers.contains(&rank);
            self.waits_on(thread).any(|(_, channel)| elsewhere(channel))
        };
        let hands_over = |thread: &GraphThread<'_>| {
            let to_loop = |channel: &Channel| channel.readers.contains(&rank) || channel.writers.contains(&rank);
            self.waits_on(thread).any(|(descriptor, channel)| descriptor.writes && to_loop(channel))
        };
        let works = |thread: &&GraphThread<'_>| match thread.wait {
            Wait::Running | Wait::DiskRead | Wait::Memory => (thread.pid, thread.tid) != (rank, tid),
            Wait::Pipe | Wait::Socket if thread.pid != rank && hands_over(thread) => true,
            Wait::Socket => thread.pid != rank && fetches(thread),
            _ => false,
        };
        self.threads.iter().filter(works).map(|thread| thread.pid).collect()
    }

    /// Threads of the job that run in this round, except the loop's own and those of torch workers: process and thread.
    pub(in crate::chain) fn busy_threads(&self, of_loop: (u32, u32)) -> Vec<(u32, u32)> {
        let runs = |thread: &&GraphThread<'_>| {
            thread.active && thread.wait == Wait::Running && (thread.pid, thread.tid) != of_loop
        };
        let of_job =
            |thread: &&GraphThread<'_>| self.inside_pids.contains(&thread.pid) && !self.is_torch_worker(thread.pid);
        self.threads.iter().filter(runs).filter(of_job).map(|thread| (thread.pid, thread.tid)).collect()
    }
}
