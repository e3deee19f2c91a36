//! The counting thread: how far the loops of the training processes have come, read from the memory of their Python, if nothing
//! else counts their steps.
//!
//! Three readings close to each other, again and again: some counters begin anew all the time, and readings at two distances show
//! whether they did in between. A reading takes a millisecond. What cannot be read this way is left to py-spy (`stacks`). Where torch's
//! loader feeds the loop, its threads count the steps, unless its workers are started anew all the time.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::stacks::has_queue_threads;
use super::{Shared, rest};
use trainmon_sample::{JobSample, ProcessId, ProcessRole};
use trainmon_sources::python::PythonMemory;

/// Between close readings.
const CLOSE: [Duration; 2] = [Duration::from_millis(40), Duration::from_millis(110)];
/// Behind them, before the next ones: how far a counter gets that begins anew all the time is known only once it was seen there.
const APART: Duration = Duration::from_millis(250);
/// WorkersAnew that were started anew within this time may be so again.
const ANEW: Duration = Duration::from_secs(10);
/// For a settled verdict, they are read so often while stacks pause.
const IN_A_PAUSE: u32 = 4;
/// A process whose memory could not be read more often in a row runs another program, or none.
const FAILURES: u32 = 9;
/// Pauses before Python is looked for again in a process that has none: it may be about to start.
const LOOK_AGAIN: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// Reads until `stop`.
pub(super) fn watch(shared: &Shared) {
    let (mut counting, mut workers) = (Counting::default(), WorkersAnew::default());
    let stop = &shared.stop;
    while !stop.load(Ordering::Relaxed) {
        let job = shared.latest.values().sample.job.clone();
        if job.as_ref().is_some_and(|job| !job.alive) {
            return;
        }
        let are_anew = job.as_ref().is_some_and(|job| workers.are_anew(job));
        let is_fed = |id: ProcessId| has_queue_threads(job.as_ref()?, id);
        let counts = |id: &ProcessId| is_fed(*id).is_some_and(|is_fed| !is_fed || are_anew);
        let ranks = job.iter().flat_map(|job| &job.processes).filter(|process| process.role == ProcessRole::Rank);
        let ranks: Vec<ProcessId> = ranks.map(|process| process.id).filter(counts).collect();
        counting.read(shared, &ranks);
        for pause in CLOSE {
            rest(stop, || pause);
            counting.read(shared, &ranks);
        }
        let between_ticks = shared.options.interval / IN_A_PAUSE;
        rest(stop, || APART.max(shared.effort.get().stacks_rest() / IN_A_PAUSE).max(between_ticks));
    }
}

/// The job's workers.
#[derive(Default)]
struct WorkersAnew {
    known: HashSet<ProcessId>,
    anew: Option<Instant>,
}

impl WorkersAnew {
    /// Whether some took the place of others lately.
    fn are_anew(&mut self, job: &JobSample) -> bool {
        let workers = job.processes.iter().filter(|process| process.role == ProcessRole::Worker);
        let now: HashSet<ProcessId> = workers.map(|process| process.id).collect();
        if !self.known.is_empty() && !now.is_subset(&self.known) {
            self.anew = Some(Instant::now());
        }
        if !now.is_empty() {
            self.known = now;
        }
        self.anew.is_some_and(|anew| anew.elapsed() < ANEW)
    }
}

/// What is known of the processes.
#[derive(Default)]
struct Counting(HashMap<ProcessId, CountingOf>);

enum CountingOf {
    /// It can be read, but could not be so often in a row.
    Found(PythonMemory, u32),
    /// It has none that can be read: when to look again, and how long that waited.
    Without(Instant, Duration),
}

impl Counting {
    /// Reads each of the processes once.
    fn read(&mut self, shared: &Shared, ranks: &[ProcessId]) {
        let proc_root = &shared.options.sources.roots.proc;
        self.0.retain(|id, _| {
            let is_rank = ranks.contains(id);
            if !is_rank {
                shared.latest.values().stacks.cannot_count(*id);
            }
            is_rank
        });
        for &id in ranks {
            let waited = match self.0.get(&id) {
                Some(CountingOf::Without(until, _)) if Instant::now() < *until => continue,
                Some(CountingOf::Without(_, waited)) => waited.saturating_mul(2),
                Some(CountingOf::Found(..)) | None => LOOK_AGAIN.0,
            };
            let found = match self.0.get(&id) {
                Some(CountingOf::Found(python, _)) => Some(*python),
                _ => PythonMemory::find(proc_root, id),
            };
            let read = found.and_then(|python| Some((python, python.read(proc_root)?)));
            let mut values = shared.latest.values();
            match read {
                Some((python, locals)) => {
                    self.0.insert(id, CountingOf::Found(python, 0));
                    values.stacks.add_counts(locals);
                }
                None => {
                    // It runs while it is read, so a reading may come to nothing.
                    if let Some(CountingOf::Found(_, failures)) = self.0.get_mut(&id)
                        && *failures < FAILURES
                    {
                        *failures += 1;
                        continue;
                    }
                    let waited = waited.min(LOOK_AGAIN.1);
                    self.0.insert(id, CountingOf::Without(Instant::now() + waited, waited));
                    values.stacks.cannot_count(id);
                }
            }
        }
    }
}
