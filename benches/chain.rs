//! What following the waits costs: the fold of one sample with its chain, and knowing who holds what, for a job of one
//! rank with 8 workers and one of 16 ranks with 16 workers each, every process with 100 threads.
#![allow(clippy::unwrap_used, missing_docs, reason = "a benchmark")]

use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;

use criterion::{BatchSize, BenchmarkId, Criterion, criterion_group, criterion_main};
use trainmon::rates::RatesOptions;
use trainmon::sample::{
    Access, Channel, ConnectionsSample, Descriptor, JobSample, Observation, ProcessId, ProcessRole, ProcessSample,
    Sample, SampledProcess, SampledThread, SamplerSample, ThreadRole, ThreadSample,
};
use trainmon::sources::sampler::{ProcessPlan, Sampler, SamplerPlan, ThreadPlan};
use trainmon::waits::Frames;

const SECOND: u64 = 1_000_000_000;
const ROUNDS: u32 = 50;
/// Threads of a process that are sampled, the main one and those that move.
const SAMPLED: u32 = 13;

/// How many ranks, workers of each, and threads of every process.
type Size = (u32, u32, u32);

fn id(pid: u32) -> ProcessId {
    ProcessId { pid, start_ticks: pid.into() }
}

/// Ranks, each followed by its workers.
fn processes((ranks, workers, _): Size) -> Vec<(u32, Option<u32>)> {
    let of = |rank: u32| {
        let pid = 1000 + rank * 100;
        std::iter::once((pid, None)).chain((1..=workers).map(move |worker| (pid + worker, Some(pid))))
    };
    (0..ranks).flat_map(of).collect()
}

fn role(rank: Option<u32>) -> ProcessRole {
    if rank.is_some() { ProcessRole::Worker } else { ProcessRole::Rank }
}

fn tid(pid: u32, thread: u32) -> u32 {
    if thread == 0 { pid } else { pid * 1000 + thread }
}

/// What the waits of a made-up job are like.
#[derive(Clone, Copy, PartialEq)]
enum Waits {
    /// Nothing is known of them.
    None,
    /// The loop waits for its workers, which run or wait for it.
    Plain,
    /// All of them wait for all others.
    Tangled,
}

/// A job of this size in which each rank waits like this. Long because it is one literal with all that a tick has.
fn job(size: Size, tick: u64, waits: Waits) -> JobSample {
    let all = processes(size);
    let process = |(pid, rank): (u32, Option<u32>)| {
        let threads = (0..size.2).map(|thread| ThreadSample {
            tid: tid(pid, thread),
            role: if thread == 0 { ThreadRole::Main } else { ThreadRole::Other },
            on_cpu_ns: Some(tick * SECOND / 20),
            run_delay_ns: Some(0),
            timeslices: Some(tick * 20),
            ..ThreadSample::default()
        });
        ProcessSample {
            id: id(pid),
            parent: rank.unwrap_or(1),
            role: role(rank),
            state: 'S',
            threads: threads.collect(),
            ..ProcessSample::default()
        }
    };
    let pipe = |pid: u32| -> Arc<str> { format!("pipe:[{pid}]").into() };
    let mut seen = vec![
        Observation { state: Some('R'), ..Observation::default() },
        Observation { call: Some(202), operation: Some(137), ..Observation::default() },
    ];
    let mut sampled = Vec::new();
    for (pid, rank) in &all {
        let of_rank = all.iter().filter(|(_, of)| *of == Some(rank.unwrap_or(*pid)));
        let of_rank = of_rank.map(|(worker, _)| *worker);
        let links: Vec<Arc<str>> = match rank {
            Some(_) if waits == Waits::Plain => vec![pipe(pid + 100_000)],
            _ => of_rank.map(pipe).collect(),
        };
        let descriptors = links.into_iter().map(|link| Descriptor { link, writes: false });
        seen.push(Observation { call: Some(7), descriptors: descriptors.collect(), ..Observation::default() });
        let polls = u32::try_from(seen.len() - 1).unwrap();
        let thread = |thread: u32| {
            let rounds: Vec<u32> = if thread == 0 { (0..ROUNDS).collect() } else { (0..ROUNDS).step_by(3).collect() };
            let what = |round: u32| match (thread, (round / 3 + pid) % 4) {
                (0, 0) => 0,
                (0, _) => polls,
                (_, 0) => polls,
                _ => 1,
            };
            SampledThread {
                tid: tid(*pid, thread),
                role: if thread == 0 { ThreadRole::Main } else { ThreadRole::Other },
                aside: thread > 0,
                seen: rounds.iter().map(|round| what(*round)).collect(),
                rounds,
            }
        };
        sampled.push(SampledProcess {
            id: id(*pid),
            role: role(*rank),
            rank: *rank,
            threads: (0..SAMPLED.min(size.2)).map(thread).collect(),
            ..SampledProcess::default()
        });
    }
    let workers = all.iter().filter_map(|(pid, rank)| Some((*pid, (*rank)?)));
    let channels = workers.flat_map(|(pid, rank)| {
        let answers =
            Channel { link: pipe(pid), readers: vec![rank], writers: vec![pid, rank], ..Channel::default() };
        let asks =
            Channel { link: pipe(pid + 100_000), readers: vec![pid], writers: vec![rank], ..Channel::default() };
        [answers, asks]
    });
    let connections = ConnectionsSample { channels: channels.collect(), ..ConnectionsSample::default() };
    JobSample {
        monotonic_ns: (tick + 1) * SECOND,
        target: id(1000),
        alive: true,
        processes: all.into_iter().map(process).collect(),
        sampler: SamplerSample {
            syscall: Access::Ok,
            began_ns: tick * SECOND,
            gaps_us: vec![20_000; ROUNDS as usize],
            followed: Some((0, 3)),
            seen,
            processes: sampled,
            ..SamplerSample::default()
        },
        connections: (waits != Waits::None).then(|| Arc::new(connections)),
        ticks_per_second: 100,
        ..JobSample::default()
    }
}

fn sample(size: Size, tick: u64, waits: Waits) -> Arc<Sample> {
    let monotonic_ns = (tick + 1) * SECOND;
    let job = Some(Arc::new(job(size, tick, waits)));
    Arc::new(Sample { sequence: tick, monotonic_ns, boottime_ns: monotonic_ns, job, ..Sample::default() })
}

const SIZES: [Size; 2] = [(1, 8, 100), (16, 16, 100)];

fn name((ranks, workers, threads): Size) -> String {
    format!("{ranks}x{workers}x{threads}")
}

fn folds(criterion: &mut Criterion) {
    for (group, waits) in [("chain", Waits::Plain), ("chain, tangled", Waits::Tangled), ("chain, none", Waits::None)]
    {
        let mut group = criterion.benchmark_group(group);
        group.sample_size(10);
        for size in SIZES {
            let (before, now) = (sample(size, 0, waits), sample(size, 1, waits));
            let begun = || {
                let mut rates = Frames::new(RatesOptions::default());
                rates.next(Arc::clone(&before));
                rates
            };
            let next = |mut rates: Frames| (black_box(rates.next(Arc::clone(&now))), rates);
            group.bench_function(BenchmarkId::from_parameter(name(size)), |bencher| {
                bencher.iter_batched(begun, next, BatchSize::LargeInput);
            });
        }
        group.finish();
    }
}

/// A `/proc` of our own: each process holds 40 descriptors, 4,000 of the first; `others` are no part of the job.
fn tree(root: &Path, size: Size, others: u32) {
    let process = |pid: u32, links: u32| {
        let folder = root.join(format!("{pid}/fd"));
        std::fs::create_dir_all(&folder).unwrap();
        for fd in 0..links {
            let link = if fd % 2 == 0 { format!("pipe:[{}]", pid + fd) } else { "/some/file".to_owned() };
            std::os::unix::fs::symlink(link, folder.join(fd.to_string())).unwrap();
        }
    };
    processes(size).iter().enumerate().for_each(|(at, (pid, _))| process(*pid, if at == 0 { 4000 } else { 40 }));
    (0..others).for_each(|other| process(100_000 + other, 10));
}

fn listing(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("connections");
    group.sample_size(10);
    for (size, others) in [(SIZES[0], 200), (SIZES[1], 5000)] {
        let folder = tempfile::tempdir().unwrap();
        tree(folder.path(), size, others);
        for no_syscall in [false, true] {
            let mut sampler = Sampler::new(folder.path());
            let plan = |(pid, rank): (u32, Option<u32>)| ProcessPlan {
                id: id(pid),
                execs: 0,
                role: role(rank),
                rank,
                threads: vec![ThreadPlan::new(pid, ThreadRole::Main)],
                queue_threads: Vec::new(),
            };
            sampler.follow(SamplerPlan { no_syscall, processes: processes(size).into_iter().map(plan).collect() });
            let how = if no_syscall { "without calls" } else { "with calls" };
            group.bench_function(format!("{}, {others} others, {how}", name(size)), |bencher| {
                bencher.iter(|| black_box(sampler.connections()));
            });
        }
    }
    group.finish();
}

criterion_group!(benches, folds, listing);
criterion_main!(benches);
