//! What one verdict costs with ten minutes of history behind it.
#![allow(missing_docs, clippy::indexing_slicing, reason = "a benchmark; what criterion's macros make has no docs")]

use std::sync::Arc;

use criterion::{Criterion, criterion_group, criterion_main};
use trainmon::diagnosis::{Context, Diagnosis};
use trainmon::rates::frame::GpuRates;
use trainmon::sample::{ProcessId, Sample};
use trainmon::waits::Frame;
use trainmon::waits::frame::{RankRates, WorkerRates};
use trainmon::waits::time_split::TimeSplit;

/// A second of a job with eight workers and one device, waiting two thirds of its time.
fn frame(sequence: u64) -> Frame {
    let id = |pid| ProcessId { pid, start_ticks: 1 };
    let mut frame = Frame {
        sequence,
        monotonic_ns: sequence * 1_000_000_000,
        seconds: 1.0,
        alive: true,
        state: 'S',
        ..Frame::default()
    };
    frame.job.library = Some("libtorch_cpu".into());
    frame.job.cpu_pct = Some(400.0);
    frame.job.cpus_allowed = Some(8);
    frame.host.allowed_cpu_pct = Some(50.0);
    frame.ranks = vec![RankRates {
        id: id(10),
        seconds_seen: 1.0,
        samples: 50,
        exact: true,
        split_s: TimeSplit { input_wait: 0.66, host_busy: 0.34, ..TimeSplit::default() },
        running_s: 0.34,
        gpu_idle_s: Some([0.6, 0.0, 0.1, 0.0, 0.0].into()),
        wait_lengths_s: vec![0.06; 10],
        steps: Some(10),
        step_lengths_s: vec![0.1; 10],
        ..RankRates::default()
    }];
    frame.workers = (0..8)
        .map(|at| WorkerRates {
            id: id(11 + at),
            rank: 10,
            busy: Some(0.95),
            io_wait: Some(0.01),
            runnable: Some(0.02),
            idle: Some(0.02),
            active_threads: 1,
            batches_per_s: Some(1.25),
            ..WorkerRates::default()
        })
        .collect();
    frame.gpus = vec![GpuRates {
        attached: true,
        utilization_pct: Some(30.0),
        job_utilization_pct: Some(30.0),
        ..GpuRates::default()
    }];
    frame
}

/// Ten minutes at one a second.
const FRAMES: u64 = 600;

fn diagnosis(c: &mut Criterion) {
    let frames: Vec<Frame> = (1..=FRAMES).map(frame).collect();
    let sample = Arc::new(Sample::default());
    let judge_all = || {
        let mut diagnosis = Diagnosis::new(Context::default());
        for newest in 1..=frames.len() {
            diagnosis.observe(frames[..newest].iter(), &sample);
        }
        diagnosis
    };
    let mut diagnosis = judge_all();
    c.bench_function("verdict with ten minutes of history", |b| b.iter(|| diagnosis.observe(frames.iter(), &sample)));
    c.bench_function("ten minutes of history, judged second by second", |b| b.iter(judge_all));
}

criterion_group!(benches, diagnosis);
criterion_main!(benches);
