//! The thread that scans the host's other processes while they are shown.
//!
//! It starts when first needed, is parked when not needed, and pauses long enough for its scans to cost little whatever
//! the host's size.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::{Shared, rest, spawn, wake};
use trainmon_sources::clock;
use trainmon_sources::other_processes::OtherProcessesReader;

/// Shortest time between two scans …
const EVERY: Duration = Duration::from_secs(2);
/// … and between the first two: the first answer should come soon.
const SOON: Duration = Duration::from_millis(500);
/// The pause after a scan is at least this many times as long as the scan: at most 1% of a CPU.
const REST_FACTOR: u32 = 100;

/// Sets whether other processes are wanted from now on. If no thread can be started, none are listed.
pub(super) fn want(wanted: bool, shared: &Arc<Shared>, thread: &mut Option<JoinHandle<()>>) {
    if shared.other_processes_wanted.swap(wanted, Ordering::Relaxed) == wanted {
        return;
    }
    if thread.is_none() {
        *thread = spawn("tm-hosts", shared, watch).ok();
    }
    wake(thread.as_ref());
}

/// Scans until `stop`.
fn watch(shared: &Shared) {
    let Shared { options, latest, stop, other_processes_wanted: wanted, .. } = shared;
    let mut reader: Option<OtherProcessesReader> = None;
    while !stop.load(Ordering::Relaxed) {
        if !wanted.load(Ordering::Relaxed) {
            // Its counters would be outdated when it is wanted again.
            reader = None;
            latest.values().sample.other_processes = None;
            thread::park();
            continue;
        }
        let begun = Instant::now();
        let is_first = reader.is_none();
        let reader = reader.get_or_insert_with(|| OtherProcessesReader::new(&options.sources.roots));
        let job = {
            let values = latest.values();
            let cpus = values.sample.job.as_ref().map(|job| job.allowed_cpus.as_slice());
            reader.ask(cpus.unwrap_or_default(), values.gpu_pids());
            values.pids()
        };
        let seen = reader.read(clock::monotonic_ns(), &job).ok();
        latest.values().sample.other_processes = seen.map(Arc::new);
        let took = begun.elapsed();
        let every = if is_first { SOON } else { EVERY.max(took.saturating_mul(REST_FACTOR)) };
        let left = every.saturating_sub(took);
        rest(stop, || if wanted.load(Ordering::Relaxed) { left } else { Duration::ZERO });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn until(what: &str, condition: impl Fn() -> bool) {
        let begun = Instant::now();
        while !condition() {
            assert!(begun.elapsed() < Duration::from_secs(20), "{what}");
            thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn it_scans_while_it_is_wanted_and_ends_when_told() {
        let shared = Shared::new(super::super::tests::options(std::process::id()));
        let (latest, mut thread) = (&shared.latest, None);
        want(false, &shared, &mut thread);
        assert!(thread.is_none());
        want(true, &shared, &mut thread);
        until("a first scan", || latest.values().sample.other_processes.is_some());
        want(false, &shared, &mut thread);
        until("nothing when unwanted", || latest.values().sample.other_processes.is_none());
        want(true, &shared, &mut thread);
        until("a scan again", || {
            latest.values().sample.other_processes.as_ref().is_some_and(|seen| seen.window_ns == 0)
        });
        shared.stop.store(true, Ordering::Relaxed);
        wake(thread.as_ref());
        until("the end", || thread.as_ref().unwrap().is_finished());
    }
}
