//! Which parts of a large job are not watched, and which processes have their files kept open.

use super::{JobReader, MOST_PROCESSES};
use crate::descriptors::{self, Use};
use crate::process::{MOST_THREADS, Process};
use trainmon_sample::{ProcessRole, Unwatched};

impl JobReader {
    /// If not all files may be kept open, training processes and workers come first, then the processes that compute
    /// most.
    pub(super) fn share_descriptors(&mut self) {
        let Some(total) = descriptors::scarce(Use::Tick) else { return };
        let mut order: Vec<_> = self
            .processes
            .iter()
            .map(|(pid, process)| (process.role.min(ProcessRole::Launcher), process.cpu(), *pid, process.files()))
            .collect();
        order.sort_by(|a, b| a.0.cmp(&b.0).then(b.1.total_cmp(&a.1)).then(a.2.cmp(&b.2)));
        let mut taken = 0;
        let (kept, closed): (Vec<_>, Vec<_>) = order.into_iter().partition(|(_, _, _, files)| {
            let fits = taken < total;
            taken += files;
            fits
        });
        // Permits must be returned before others can get them.
        for (all, keep) in [(closed, false), (kept, true)] {
            for (_, _, pid, _) in all {
                if let Some(process) = self.processes.get_mut(&pid) {
                    process.set_kept(keep);
                }
            }
        }
    }

    /// What is not watched.
    pub(super) fn unwatched(&self) -> Unwatched {
        let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        let threads = self.processes.values().map(Process::unwatched_threads).fold(0, u32::saturating_add);
        let processes = number(self.left_out.len());
        Unwatched {
            processes,
            most_processes: if processes > 0 { number(MOST_PROCESSES) } else { 0 },
            threads,
            most_threads: if threads > 0 { number(MOST_THREADS) } else { 0 },
            reopened: number(self.processes.values().filter(|process| !process.is_kept()).count()),
            unread: self.unread,
            ..Unwatched::default()
        }
    }
}

/// Adds what the sampler leaves out or has no room for, and why files are not kept open or not opened at all.
pub fn complete(unwatched: &mut Unwatched, waits: u32) {
    unwatched.waits = waits;
    let room_for_waits = descriptors::room_for_waits();
    unwatched.room_for_waits = room_for_waits.map_or(0, |threads| u32::try_from(threads.max(1)).unwrap_or(u32::MAX));
    let (reason, fix) = match () {
        () if unwatched.unread > 0 => {
            let (reason, fix) = descriptors::too_few();
            (reason, Some(fix))
        }
        () if waits > 0 || unwatched.reopened > 0 || room_for_waits.is_some() => descriptors::reason(),
        () => return,
    };
    if fix.is_none() {
        // It cannot be helped, and nothing is lost.
        unwatched.reopened = 0;
    }
    if *unwatched != Unwatched::default() {
        (unwatched.reason, unwatched.fix) = (Some(reason.into()), fix.map(Into::into));
    }
}
