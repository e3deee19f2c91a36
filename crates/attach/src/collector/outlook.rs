//! The thread that reads how a run will go on, where jobs are followed for days. It pauses long enough for its readings to cost
//! little however large the processes are.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::{Shared, rest, spawn};
use trainmon_sources::clock;
use trainmon_sources::outlook::OutlookReader;

/// Shortest time between two readings.
const EVERY: Duration = Duration::from_secs(10);
/// No memory is read for at least this many times as long as the last such reading took: at most 0.02% of a CPU. A process of 4 GB takes 5 ms.
const REST_FACTOR: u32 = 5000;

/// Starts the thread. If that is impossible, nothing is known of these things.
pub(super) fn start(shared: &Arc<Shared>) -> Option<JoinHandle<()>> {
    spawn("tm-outlook", shared, watch).ok()
}

fn watch(shared: &Shared) {
    let Shared { options, latest, stop, .. } = shared;
    let mut reader = OutlookReader::new(options.sources.roots.proc.clone());
    let mut memory_due = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        let begun = Instant::now();
        let with_memory = memory_due <= begun;
        let (processes, writers) = latest.values().processes_and_writers();
        let seen = reader.read(clock::monotonic_ns(), &processes, &writers, with_memory);
        latest.values().sample.outlook = Some(Arc::new(seen));
        let took = begun.elapsed();
        if with_memory {
            memory_due = begun + took.saturating_mul(REST_FACTOR);
        }
        let pause = EVERY.saturating_sub(took);
        rest(stop, || pause);
    }
}
