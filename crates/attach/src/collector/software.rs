//! Looks up what the job runs on, once, on a thread of its own: the files may lie on a file system that hangs.

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};

use super::start_thread;
use trainmon_base::trust::rights;
use trainmon_sample::{JobSample, ProcessId, ProcessRole, Software};
use trainmon_sources::software;

/// Which process was looked at, how many programs it had executed, and which library the job had mapped.
type LookedAt = (ProcessId, u32, Option<Arc<str>>);

/// What is known so far.
#[derive(Debug, Default)]
pub(super) struct SoftwareLookup {
    looked_at: Option<LookedAt>,
    coming: Option<Receiver<Software>>,
    known: Software,
}

impl SoftwareLookup {
    /// Adds what is known to the sample. Looks again if another process trains, executes something or has mapped a library,
    /// unless the last look still hangs.
    pub(super) fn add_to(&mut self, job: &mut JobSample, proc_root: &Path) {
        match self.coming.as_ref().map(Receiver::try_recv) {
            Some(Err(TryRecvError::Empty)) => {}
            Some(Err(TryRecvError::Disconnected)) => self.coming = None,
            Some(Ok(software)) => (self.coming, self.known) = (None, software),
            None => self.look(job, proc_root),
        }
        job.software = self.known.clone();
    }

    fn look(&mut self, job: &JobSample, proc_root: &Path) {
        let rank = job.processes.iter().find(|process| process.role == ProcessRole::Rank);
        let Some(process) = rank.or(job.processes.first()) else { return };
        let now = (process.id, process.execs, job.library.clone());
        if self.looked_at.as_ref() == Some(&now) {
            return;
        }
        let (told, answer) = sync_channel(1);
        let (proc_root, pid) = (proc_root.to_path_buf(), process.id.pid);
        let started = start_thread("tm-software", move || {
            // The job's user chooses what these files are, so they are read with the caller's rights only.
            if rights::lay_down().is_ok() {
                // The receiver is gone if the job has ended.
                drop(told.send(software::read(&proc_root, pid)));
            }
        });
        self.coming = started.is_ok().then_some(answer);
        self.looked_at = Some(now);
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;
    use trainmon_sample::ProcessSample;

    #[test]
    fn a_process_is_looked_at_once_and_again_when_it_has_changed() {
        let mut lookup = SoftwareLookup::default();
        let own =
            ProcessSample { id: ProcessId { pid: std::process::id(), start_ticks: 1 }, ..ProcessSample::default() };
        let job =
            |execs| JobSample { processes: vec![ProcessSample { execs, ..own.clone() }], ..JobSample::default() };
        let mut answered = |execs| {
            lookup.add_to(&mut job(execs), Path::new("/proc"));
            let looked = lookup.coming.is_some();
            let until = Instant::now() + Duration::from_secs(10);
            while lookup.coming.is_some() && Instant::now() < until {
                lookup.add_to(&mut job(execs), Path::new("/proc"));
            }
            (looked, lookup.known.is_unknown())
        };
        assert_eq!([answered(0), answered(0), answered(1)], [(true, true), (false, true), (true, true)]);
    }
}
