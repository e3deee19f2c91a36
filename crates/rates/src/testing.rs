//! Hand-made samples for the tests of this crate, and of the one that says what waits are for.

use std::sync::Arc;

use trainmon_sample::{JobSample, ProcessId, ProcessRole, ProcessSample, Sample, ThreadRole, ThreadSample};

/// Nanoseconds in a millisecond.
pub(crate) const MS: u64 = 1_000_000;

/// An empty sample at a moment of a machine that was never suspended.
pub(crate) fn tick(sequence: u64, ms: u64) -> Sample {
    let monotonic_ns = ms * MS;
    let unix_ms = 1_700_000_000_000 + i64::try_from(ms).unwrap();
    Sample { sequence, unix_ms, monotonic_ns, boottime_ns: monotonic_ns + 5, ..Sample::default() }
}

/// A process with its main thread; all counters 0, started at tick `pid`.
pub(crate) fn process(pid: u32) -> ProcessSample {
    ProcessSample {
        id: id(pid),
        parent: 1,
        role: ProcessRole::Other,
        state: 'S',
        thread_count: 1,
        threads: vec![thread(pid, ThreadRole::Main, 0, 0)],
        ..ProcessSample::default()
    }
}

/// Identity of [`process`].
pub(crate) fn id(pid: u32) -> ProcessId {
    ProcessId { pid, start_ticks: pid.into() }
}

/// A thread with milliseconds on a CPU and queueing.
pub(crate) fn thread(tid: u32, role: ThreadRole, on_cpu_ms: u64, delay_ms: u64) -> ThreadSample {
    ThreadSample {
        tid,
        role,
        on_cpu_ns: Some(on_cpu_ms * MS),
        run_delay_ns: Some(delay_ms * MS),
        ..ThreadSample::default()
    }
}

/// A job of these processes, the first being the target.
pub(crate) fn job(ms: u64, processes: Vec<ProcessSample>) -> JobSample {
    JobSample {
        monotonic_ns: ms * MS,
        target: processes.first().map(|process| process.id).unwrap_or_default(),
        alive: true,
        processes,
        ticks_per_second: 100,
        ..JobSample::default()
    }
}

/// A sample with only a job, one tick a second.
pub(crate) fn job_tick(sequence: u64, processes: Vec<ProcessSample>) -> Sample {
    let ms = sequence * 1000;
    Sample { job: Some(Arc::new(job(ms, processes))), ..tick(sequence, ms) }
}

/// Equal but for rounding.
pub(crate) fn close(left: impl Into<Option<f64>>, right: f64) -> bool {
    left.into().is_some_and(|left| (left - right).abs() < 1e-6)
}
