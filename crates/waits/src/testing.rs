//! Hand-made samples for the tests of this folder.

use super::sampled::{SampledPoint, SampledRank, SampledWorker};
use super::wait::Wait;
use trainmon_sample::syscall::Machine;
use trainmon_sample::{Access, Observation, ProcessRole, SampledProcess, SampledThread, SamplerSample, ThreadRole};

#[path = "../../rates/src/testing.rs"]
mod counters;
pub(super) use counters::*;

/// A rank's sample.
pub(super) fn point(ms: u64, main: Wait) -> SampledPoint {
    SampledPoint { at_ns: ms * MS, main, ..SampledPoint::default() }
}

/// Observations that mean each kind of wait, in the order of the kinds.
pub(super) fn of_each_kind() -> Vec<Observation> {
    let symbol = |symbol: &str| Observation { wchan: Some(symbol.into()), ..Observation::default() };
    let seen = Wait::ALL.map(|wait| match wait {
        Wait::Running => Observation { state: Some('R'), ..Observation::default() },
        Wait::LoaderPoll => {
            Observation { call: Some(7), nfds: Some(1), timeout_ms: Some(5000), ..Observation::default() }
        }
        Wait::Poll => symbol("do_select"),
        Wait::Futex => symbol("futex_do_wait"),
        Wait::Pipe => symbol("pipe_read"),
        Wait::Socket => symbol("unix_stream_read_generic"),
        Wait::Sleep => symbol("hrtimer_nanosleep"),
        Wait::DiskRead => symbol("folio_wait_bit_common"),
        Wait::DiskWrite => symbol("jbd2_log_wait_commit"),
        Wait::Memory => symbol("shrink_lruvec"),
        Wait::Child => symbol("do_wait"),
        Wait::Gpu => symbol("nvidia_wait"),
        Wait::Stopped => symbol("do_signal_stop"),
        Wait::Other => symbol("somewhere_else"),
        Wait::Unknown => Observation::default(),
    });
    assert!(
        seen.iter().zip(Wait::ALL).all(|(seen, wait)| Wait::from_observation(seen, Machine::X86_64) == wait),
        "{seen:?}"
    );
    seen.into()
}

/// What the sampler would have seen: the inverse of [`sampled`](super::sampled). Long because it is one literal for each kind
/// of process.
pub(super) fn sampler(ranks: &[SampledRank], workers: &[SampledWorker]) -> SamplerSample {
    let mut times: Vec<u64> = ranks.iter().flat_map(|rank| &rank.points).map(|point| point.at_ns).collect();
    times.sort_unstable();
    times.dedup();
    let place = |wait: Wait| u32::try_from(wait.index()).unwrap();
    let round = |at_ns: u64| u32::try_from(times.binary_search(&at_ns).unwrap()).unwrap();
    let rank = |rank: &SampledRank| {
        let thread = |role, wait: &dyn Fn(&SampledPoint) -> Option<Wait>| {
            let seen = rank.points.iter().filter_map(|point| Some((round(point.at_ns), place(wait(point)?))));
            let (rounds, seen) = seen.unzip();
            SampledThread { tid: rank.id.pid, role, aside: false, rounds, seen }
        };
        let counts = |count: fn(&SampledPoint) -> Option<u64>| {
            rank.points.iter().filter_map(|point| Some((round(point.at_ns), count(point)?))).collect()
        };
        SampledProcess {
            id: rank.id,
            role: ProcessRole::Rank,
            threads: vec![
                thread(ThreadRole::Main, &|point| Some(point.main)),
                thread(ThreadRole::Pin, &|point| point.pin),
                thread(ThreadRole::Other, &|point| point.helper_running.then_some(Wait::Running)),
            ],
            queue_threads: rank.queue_threads,
            fed: counts(|point| point.batches_requested),
            written: counts(|point| point.written_chars),
            ..SampledProcess::default()
        }
    };
    let worker = |worker: &SampledWorker| {
        let seen = worker.counts.iter();
        let seen = seen.flat_map(|(wait, count)| std::iter::repeat_n(place(*wait), *count as usize)).collect();
        SampledProcess {
            id: worker.id,
            role: ProcessRole::Worker,
            rank: Some(worker.rank),
            threads: vec![SampledThread {
                tid: worker.id.pid,
                role: ThreadRole::Main,
                seen,
                ..SampledThread::default()
            }],
            fed: worker.batches.map(|batches| (0, batches)).into_iter().collect(),
            ..SampledProcess::default()
        }
    };
    let exact = ranks.iter().all(|rank| rank.exact) && workers.iter().all(|worker| worker.exact);
    SamplerSample {
        machine: Machine::X86_64,
        syscall: if exact { Access::Ok } else { Access::Denied },
        began_ns: times.first().copied().unwrap_or(0),
        gaps_us: times
            .iter()
            .scan(times.first().copied().unwrap_or(0), |before, at| {
                let gap = (at - std::mem::replace(before, *at)) / 1000;
                Some(u32::try_from(gap).unwrap())
            })
            .collect(),
        seen: of_each_kind(),
        processes: ranks.iter().map(rank).chain(workers.iter().map(worker)).collect(),
        ..SamplerSample::default()
    }
}
