//! The thread that reads the sampled instruction pointers: asked once a tick, and emptying the rings in between where a
//! tick is long.

use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use super::latest::status;
use super::{Options, RETRY, Shared};
use crate::sample::{SourceState, SourceStatus};
use crate::sources::clock;
use crate::sources::perf_events::AddressReader;

/// The rings are emptied at least so often: they hold three times as much.
const DRAIN_EVERY: Duration = Duration::from_secs(2);

/// Reads whenever it is asked to, until nobody can ask any more.
pub(super) fn watch(shared: &Shared, asks: &Receiver<u64>) {
    let Shared { options, latest, .. } = shared;
    let mut reader: Option<AddressReader> = None;
    let mut failed_ns: Option<u64> = None;
    loop {
        let asked = match reader {
            Some(_) => asks.recv_timeout(DRAIN_EVERY),
            None => asks.recv().map_err(RecvTimeoutError::from),
        };
        let tick = match asked {
            Ok(tick) => tick,
            Err(RecvTimeoutError::Timeout) => {
                reader.iter_mut().for_each(AddressReader::drain);
                continue;
            }
            Err(RecvTimeoutError::Disconnected) => return,
        };
        let begun_ns = clock::monotonic_ns();
        if reader.is_none() && failed_ns.is_some_and(|at| begun_ns.saturating_sub(at) < RETRY.as_nanos() as u64) {
            continue;
        }
        let job = {
            let mut values = latest.values();
            values.addresses.begin(begun_ns);
            values.job.value.clone()
        };
        let opened = match &mut reader {
            Some(open) => Ok(open),
            None => AddressReader::open(&options.roots, begun_ns).map(|opened| reader.insert(opened)),
        };
        let answer = opened.and_then(|open| open.read(clock::monotonic_ns(), job.as_deref()));
        let now_ns = clock::monotonic_ns();
        failed_ns = answer.is_err().then_some(now_ns);
        reader = reader.filter(|_| answer.is_ok());
        latest.write(|values| values.addresses.answer(answer, tick, now_ns));
    }
}

/// The state of addresses that are not wanted at all.
pub(super) fn switched_off(options: &Options) -> Option<SourceStatus> {
    options.no_addresses.then(|| status(SourceState::Absent, "switched off by --no-addresses"))
}
