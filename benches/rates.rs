//! What a frame costs: the fold of one sample for jobs of 1, 33 and 1,000 processes.

#![allow(missing_docs, reason = "what criterion's macros make has none")]

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use criterion::{BatchSize, BenchmarkId, Criterion, criterion_group, criterion_main};
use trainmon::rates::RatesOptions;
use trainmon::sample::{
    Access, BlockDevice, CpuTimes, DataMount, GpuProcess, GpuReading, GpuSample, HostSample, IoCounters, JobSample,
    Observation, ProcessId, ProcessRole, ProcessSample, Sample, SampledProcess, SampledThread, SamplerSample,
    StorageSample, ThreadRole, ThreadSample, UtilizationPoint,
};
use trainmon::waits::Frames;

const SECOND: u64 = 1_000_000_000;

/// Threads of each process, CPUs, and rounds of the sampler a second.
const THREADS: u32 = 4;
const CPUS: u16 = 64;
const ROUNDS: u32 = 50;

fn id(pid: u32) -> ProcessId {
    ProcessId { pid, start_ticks: pid.into() }
}

fn process(pid: u32, tick: u64) -> ProcessSample {
    let thread = |tid| ThreadSample {
        tid,
        on_cpu_ns: Some(tick * SECOND / 2),
        run_delay_ns: Some(tick * SECOND / 10),
        ..ThreadSample::default()
    };
    let io = IoCounters {
        read_chars: tick << 20,
        read_calls: tick * 100,
        read_bytes: tick << 18,
        ..IoCounters::default()
    };
    ProcessSample {
        id: id(pid),
        parent: 1,
        role: if pid == 1 { ProcessRole::Rank } else { ProcessRole::Worker },
        state: 'S',
        user_ticks: tick * 50,
        rss_bytes: 1 << 30,
        thread_count: THREADS,
        io: Some(io),
        threads: (0..THREADS).map(|at| thread(pid + at * 100_000)).collect(),
        ..ProcessSample::default()
    }
}

fn sampler(processes: u32, tick: u64) -> SamplerSample {
    let running = Observation { state: Some('R'), ..Observation::default() };
    let poll = Observation { call: Some(7), nfds: Some(1), timeout_ms: Some(5000), ..Observation::default() };
    let every = |step: u32| (0..ROUNDS).filter(move |round| round.is_multiple_of(step));
    let process = |pid| {
        let rank = pid == 1;
        let rounds: Vec<u32> = if rank { Vec::new() } else { every(3).collect() };
        let seen = every(if rank { 1 } else { 3 }).map(|round| u32::from(!round.is_multiple_of(3))).collect();
        let fed = |round: u32| (round, tick * 20 + u64::from(round) / 5);
        SampledProcess {
            id: id(pid),
            role: if rank { ProcessRole::Rank } else { ProcessRole::Worker },
            rank: (!rank).then_some(1),
            threads: vec![SampledThread {
                tid: pid,
                role: ThreadRole::Main,
                rounds,
                seen,
                ..SampledThread::default()
            }],
            queue_threads: if rank { 8 } else { 1 },
            fed: if rank { every(5).map(fed).collect() } else { vec![fed(ROUNDS)] },
            written: if rank { every(5).map(|round| (round, 4096)).collect() } else { Vec::new() },
        }
    };
    SamplerSample {
        syscall: Access::Ok,
        began_ns: tick * SECOND,
        gaps_us: vec![20_000; ROUNDS as usize],
        seen: vec![running, poll],
        processes: (1..=processes).map(process).collect(),
        ..SamplerSample::default()
    }
}

fn sample(processes: u32, tick: u64) -> Arc<Sample> {
    let monotonic_ns = (tick + 1) * SECOND;
    let job = JobSample {
        monotonic_ns,
        target: id(1),
        alive: true,
        processes: (1..=processes).map(|pid| process(pid, tick)).collect(),
        sampler: sampler(processes, tick),
        allowed_cpus: (0..CPUS).collect(),
        ticks_per_second: 100,
        ..JobSample::default()
    };
    let cpu = |cpu| CpuTimes { cpu, user: tick * 60, idle: tick * 40, ..CpuTimes::default() };
    let host = HostSample { monotonic_ns, cpus: (0..CPUS).map(cpu).collect(), ..HostSample::default() };
    let disk = BlockDevice {
        name: "nvme0n1".into(),
        whole: "nvme0n1".into(),
        reads: tick * 100,
        read_sectors: tick * 6400,
        busy_ms: tick * 300,
        ..BlockDevice::default()
    };
    let mount = DataMount { disks: vec!["nvme0n1".into()], ..DataMount::default() };
    let storage = StorageSample { monotonic_ns, devices: vec![disk], mounts: Some(vec![mount]) };
    let point = |at: u64| UtilizationPoint { unix_us: (tick * SECOND + at * SECOND / 6) / 1000, pct: 60 };
    let gpu = GpuReading {
        utilization_pct: Some(60),
        utilization_points: (1..=6).map(point).collect(),
        processes: vec![GpuProcess {
            pid: 1,
            memory_bytes: Some(1 << 33),
            sm_utilization_pct: Some(60),
            compute: true,
        }],
        ..GpuReading::default()
    };
    let gpus = GpuSample { monotonic_ns, devices: vec![gpu], ..GpuSample::default() };
    Arc::new(Sample {
        sequence: tick,
        unix_ms: i64::try_from(monotonic_ns / 1_000_000).unwrap_or(0),
        monotonic_ns,
        boottime_ns: monotonic_ns,
        job: Some(Arc::new(job)),
        host: Some(Arc::new(host)),
        storage: Some(Arc::new(storage)),
        gpus: Some(Arc::new(gpus)),
        ..Sample::default()
    })
}

fn frames(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("frame");
    for processes in [1, 33, 1000] {
        let (before, now) = (sample(processes, 0), sample(processes, 1));
        let begun = || {
            let mut rates = Frames::new(RatesOptions::default());
            rates.next(Arc::clone(&before));
            rates
        };
        // The fold is handed back so that what is timed does not hold the release of its samples.
        let next = |mut rates: Frames| (black_box(rates.next(Arc::clone(&now))), rates);
        group.bench_function(BenchmarkId::from_parameter(processes), |bencher| {
            bencher.iter_batched(begun, next, BatchSize::SmallInput);
        });
    }
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default().warm_up_time(Duration::from_millis(500)).measurement_time(Duration::from_secs(2));
    targets = frames
}
criterion_main!(benches);
