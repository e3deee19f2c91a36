//! An exporter that watches a training job and writes its bottleneck as a metric. Its readings are made up here; yours come
//! from `/proc`, NVML or wherever you have them. What you do not have stays `None`, and the verdict says less.

use std::sync::Arc;

use trainmon_diagnosis::diagnosis::causes::Cause;
use trainmon_diagnosis::diagnosis::verdict::Class;
use trainmon_diagnosis::sample::{
    Access, CpuTimes, GpuProcess, GpuReading, GpuSample, HostSample, JobSample, Observation, ProcessId, ProcessRole,
    ProcessSample, Sample, SampledProcess, SampledThread, SamplerSample, ThreadRole, ThreadSample,
};
use trainmon_diagnosis::{Context, Pipeline, RatesOptions};

const LOOP: u32 = 100;
const WORKERS: [u32; 2] = [101, 102];
const SECOND_NS: u64 = 1_000_000_000;

/// A process after so many seconds on a CPU. All counters of a sample count from the start, as the kernel's do.
fn process(pid: u32, on_cpu_s: f64) -> ProcessSample {
    let main = ThreadSample {
        tid: pid,
        role: ThreadRole::Main,
        on_cpu_ns: Some((on_cpu_s * 1e9) as u64),
        run_delay_ns: Some(0),
        ..ThreadSample::default()
    };
    ProcessSample {
        id: ProcessId { pid, start_ticks: 5 },
        parent: if pid == LOOP { 1 } else { LOOP },
        role: if pid == LOOP { ProcessRole::Rank } else { ProcessRole::Worker },
        command: "python train.py".into(),
        state: 'S',
        user_ticks: (on_cpu_s * 100.0) as u64,
        thread_count: 1,
        threads: vec![main],
        ..ProcessSample::default()
    }
}

/// What the first thread of each process did in the last second, looked at every 20 ms: the loop waits for a batch in 7 of 10 looks, the workers
/// compute all the time.
fn sampler(now_ns: u64) -> SamplerSample {
    // torch's loader waits in poll(2) on one pipe for 5 s at most; system call 7 of x86-64 is poll.
    let waits = Observation { call: Some(7), nfds: Some(1), timeout_ms: Some(5000), ..Observation::default() };
    let runs = Observation { state: Some('R'), ..Observation::default() };
    let looked_at = |pid: u32, seen: Vec<u32>| SampledProcess {
        id: ProcessId { pid, start_ticks: 5 },
        role: if pid == LOOP { ProcessRole::Rank } else { ProcessRole::Worker },
        rank: (pid != LOOP).then_some(LOOP),
        threads: vec![SampledThread { tid: pid, role: ThreadRole::Main, seen, ..SampledThread::default() }],
        ..SampledProcess::default()
    };
    let of_loop = looked_at(LOOP, (0..50).map(|round| u32::from(round % 10 >= 7)).collect());
    SamplerSample {
        syscall: Access::Ok,
        began_ns: now_ns.saturating_sub(SECOND_NS),
        gaps_us: std::iter::once(0).chain([20_000; 49]).collect(),
        // `seen` of a thread are places in this list.
        seen: vec![waits, runs],
        processes: std::iter::once(of_loop).chain(WORKERS.map(|pid| looked_at(pid, vec![1; 50]))).collect(),
        ..SamplerSample::default()
    }
}

/// Everything read at one second.
fn sample(second: u64) -> Sample {
    let monotonic_ns = second * SECOND_NS;
    let processes = [(LOOP, 0.3), (WORKERS[0], 1.0), (WORKERS[1], 1.0)];
    let job = JobSample {
        monotonic_ns,
        target: ProcessId { pid: LOOP, start_ticks: 5 },
        alive: true,
        processes: processes.map(|(pid, share)| process(pid, share * second as f64)).into(),
        sampler: sampler(monotonic_ns),
        allowed_cpus: (0..8).collect(),
        library: Some("libtorch".into()),
        ticks_per_second: 100,
        ..JobSample::default()
    };
    // 30% of 8 CPUs are busy.
    let cpu = |cpu| CpuTimes { cpu, user: 30 * second, idle: 70 * second, ..CpuTimes::default() };
    let host = HostSample { monotonic_ns, cpus: (0..8).map(cpu).collect(), ..HostSample::default() };
    let gpu = GpuReading {
        utilization_pct: Some(25),
        processes: vec![GpuProcess { pid: LOOP, compute: true, ..GpuProcess::default() }],
        ..GpuReading::default()
    };
    let gpus = GpuSample { monotonic_ns, devices: vec![gpu], ..GpuSample::default() };
    Sample {
        sequence: second,
        monotonic_ns,
        boottime_ns: monotonic_ns,
        job: Some(Arc::new(job)),
        host: Some(Arc::new(host)),
        gpus: Some(Arc::new(gpus)),
        ..Sample::default()
    }
}

fn main() {
    let context = Context { pid: LOOP, command: "python train.py".into(), ..Context::default() };
    let mut pipeline = Pipeline::new(context, RatesOptions::default());
    let mut verdict = Arc::default();
    // Yours reads and pushes once a second.
    for second in 0..20 {
        verdict = Arc::clone(&pipeline.push(Arc::new(sample(second))).verdict);
    }
    let (class, cause) = (verdict.class.word(), verdict.cause.map_or("", Cause::name));
    println!("training_bottleneck{{class=\"{class}\",cause=\"{cause}\"}} {}", verdict.confidence);
    println!("{}", verdict.summary);
    for advice in &verdict.advice {
        println!("- {}", advice.title);
    }
    assert_eq!((verdict.class, verdict.cause), (Class::DataLoader, Some(Cause::TooFewWorkers)));
}
