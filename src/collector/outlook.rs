//! The thread that reads how a run will go on, where jobs are followed for days. It pauses long enough for its readings to cost
//! little however large the processes are.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::{Shared, rest, spawn};
use crate::sources::clock;
use crate::sources::outlook::OutlookReader;

/// Shortest time between two readings, at intervals of a second.
const EVERY: Duration = Duration::from_secs(5);
/// The pause after a reading is at least this many times as long as the reading: at most 0.2% of a CPU.
const REST_FACTOR: u32 = 500;

/// Starts the thread. If that is impossible, nothing is known of these things.
pub(super) fn start(shared: &Arc<Shared>) -> Option<JoinHandle<()>> {
    spawn("tm-outlook", shared, watch).ok()
}

fn watch(shared: &Shared) {
    let Shared { options, latest, stop, .. } = shared;
    let mut reader = OutlookReader::new(options.sources.roots.proc.clone());
    while !stop.load(Ordering::Relaxed) {
        let begun = Instant::now();
        let (processes, writers) = latest.values().processes_and_writers();
        let seen = reader.read(clock::monotonic_ns(), &processes, &writers);
        latest.values().sample.outlook = Some(Arc::new(seen));
        let took = begun.elapsed();
        let pause = EVERY.max(took.saturating_mul(REST_FACTOR)).saturating_sub(took);
        rest(stop, || pause);
    }
}
