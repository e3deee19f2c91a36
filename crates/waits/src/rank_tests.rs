//! Hand-made samples through the whole fold.

use std::sync::Arc;

use super::*;
use crate::stacks::Activity;
use crate::testing::*;
use crate::{Frame, Frames};
use trainmon_sample::{GpuReading, GpuSample, ProcessSample, Sample, UtilizationPoint};

/// Samples of the rank with this PID.
fn of_rank(pid: u32, points: Vec<SampledPoint>) -> SampledRank {
    SampledRank { id: id(pid), tid: pid, exact: true, points, ..SampledRank::default() }
}

/// A tick with one rank (PID 10) whose samples are these.
fn sampled_tick(sequence: u64, points: Vec<SampledPoint>) -> JobSample {
    JobSample {
        sampler: sampler(&[of_rank(10, points)], &[]),
        ..job(sequence * 1000, vec![ProcessSample { role: ProcessRole::Rank, ..process(10) }])
    }
}

fn sample(sequence: u64, job: JobSample) -> Sample {
    Sample { job: Some(Arc::new(job)), ..tick(sequence, sequence * 1000) }
}

/// Samples every 20 ms over the second before tick `sequence`, each by its position 0–49.
fn points(sequence: u64, of: impl Fn(u64) -> SampledPoint) -> Vec<SampledPoint> {
    let start = (sequence - 1) * 1000;
    (0..50).map(|at| SampledPoint { at_ns: (start + (at + 1) * 20) * MS, ..of(at) }).collect()
}

fn main_in(wait: Wait) -> SampledPoint {
    SampledPoint { main: wait, ..SampledPoint::default() }
}

/// Tick 0 with one sample at its end, then these jobs.
fn run(jobs: impl IntoIterator<Item = JobSample>) -> Vec<Frame> {
    run_with(jobs, |sample| sample)
}

fn run_with(jobs: impl IntoIterator<Item = JobSample>, mut change: impl FnMut(Sample) -> Sample) -> Vec<Frame> {
    let mut rates = Frames::default();
    let first = sampled_tick(0, vec![main_in(Wait::Running)]);
    rates.next(Arc::new(change(sample(0, first))));
    let rest = jobs.into_iter().zip(1..);
    rest.map(|(job, sequence)| rates.next(Arc::new(change(sample(sequence, job))))).collect()
}

fn with_gpu(pct: u32) -> impl Fn(Sample) -> Sample {
    move |sample| {
        let gpu = GpuReading { utilization_pct: Some(pct), ..GpuReading::default() };
        with_gpus(sample, vec![gpu])
    }
}

/// All of them are the job's.
fn with_gpus(sample: Sample, mut devices: Vec<GpuReading>) -> Sample {
    for (device, index) in devices.iter_mut().zip(0..) {
        (device.index, device.minor) = (index, Some(index));
    }
    let mut job = (**sample.job.as_ref().unwrap()).clone();
    job.nvidia_minors = Some((0..8).collect());
    let gpus = GpuSample { monotonic_ns: sample.monotonic_ns, devices, ..GpuSample::default() };
    Sample { gpus: Some(Arc::new(gpus)), job: Some(Arc::new(job)), ..sample }
}

fn shares(rank: &RankRates) -> [f64; 5] {
    rank.split_s.values()
}

fn assert_shares(rank: &RankRates, expected: [f64; 5]) {
    let found = shares(rank);
    let equal = found.iter().zip(expected).all(|(found, expected)| (found - expected).abs() < 1e-6);
    assert!(equal, "{found:?}, not {expected:?}");
    assert!((found.iter().sum::<f64>() - rank.seconds_seen).abs() < 1e-6);
}

#[test]
fn samples_stand_for_the_time_since_the_one_before() {
    let seen = points(1, |at| main_in(if at < 30 { Wait::LoaderPoll } else { Wait::Running }));
    let frames = run([sampled_tick(1, seen)]);
    let rank = &frames[0].ranks[0];
    assert_shares(rank, [0.6, 0.0, 0.4, 0.0, 0.0]);
    assert!(rank.exact && rank.samples == 50);
    assert!(close(rank.running_s, 0.4) && close(rank.seconds_seen, 1.0));
    assert!((rank.by_wait_s[Wait::LoaderPoll.index()] - 0.6).abs() < 1e-6);
    assert_eq!(rank.gpu_idle_s, None);
    assert_eq!(rank.wait_lengths_s.len(), 1);
    assert!((rank.wait_lengths_s[0] - 0.6).abs() < 1e-6);
}

#[test]
fn a_starved_sampler_leaves_time_unseen() {
    let frames = run([sampled_tick(1, vec![point(900, Wait::Running), point(1000, Wait::Running)])]);
    assert!(close(frames[0].ranks[0].seconds_seen, 0.35));
}

#[test]
fn the_first_sample_a_gap_and_a_stale_job_count_nothing() {
    let mut rates = Frames::default();
    let waiting = |sequence| sampled_tick(sequence, points(sequence, |_| main_in(Wait::LoaderPoll)));
    let first = rates.next(Arc::new(sample(1, waiting(1))));
    assert_eq!((first.ranks[0].seconds_seen, first.ranks[0].samples), (0.0, 0));
    let shared = Arc::new(waiting(2));
    let at = |sequence| Sample { job: Some(shared.clone()), ..tick(sequence, sequence * 1000) };
    assert!(close(rates.next(Arc::new(at(2))).ranks[0].seconds_seen, 1.0));
    let stale = rates.next(Arc::new(at(3)));
    assert_eq!((stale.ranks[0].seconds_seen, stale.ranks[0].steps), (0.0, None));
    let gap = rates.next(Arc::new(sample(9, waiting(9))));
    assert!(gap.gap && gap.ranks[0].seconds_seen == 0.0);
    assert!(close(rates.next(Arc::new(sample(10, waiting(10)))).ranks[0].seconds_seen, 1.0));
}

#[test]
fn a_wait_may_span_ticks() {
    let from = |sequence, first: u64, last: u64| {
        let of = |at| main_in(if (first..last).contains(&at) { Wait::LoaderPoll } else { Wait::Running });
        sampled_tick(sequence, points(sequence, of))
    };
    let frames = run([from(1, 40, 50), from(2, 0, 50), from(3, 0, 5)]);
    assert!(frames[0].ranks[0].wait_lengths_s.is_empty() && frames[1].ranks[0].wait_lengths_s.is_empty());
    let lengths = &frames[2].ranks[0].wait_lengths_s;
    assert!(lengths.len() == 1 && (lengths[0] - 1.3).abs() < 1e-5, "{lengths:?}");
}

#[test]
fn a_batch_taken_between_two_samples_ends_the_wait() {
    let of = |at| SampledPoint { batches_requested: Some(100 + at / 10), ..main_in(Wait::LoaderPoll) };
    let mut job = sampled_tick(1, points(1, of));
    job.sampler.processes[0].queue_threads = 2;
    let frames = run([job]);
    let rank = &frames[0].ranks[0];
    assert_eq!((rank.wait_lengths_s.len(), rank.steps), (4, Some(4)));
    assert_eq!(rank.step_lengths_s.len(), 3);
    assert!(rank.step_lengths_s.iter().all(|length| (length - 0.2).abs() < 1e-6));
}

#[test]
fn checkpoints_show_in_written_bytes() {
    let of = |at: u64| SampledPoint {
        written_chars: at.is_multiple_of(10).then(|| 5000 + if at >= 20 { 8 << 20 } else { 0 }),
        ..main_in(Wait::Running)
    };
    let frames = run([sampled_tick(1, points(1, of))]);
    // Between the readings at samples 10 and 20 eight MiB were written.
    assert_shares(&frames[0].ranks[0], [0.0, 0.0, 0.8, 0.2, 0.0]);
    assert!(close(frames[0].ranks[0].running_s, 0.8));
}

#[test]
fn a_checkpoint_goes_on_over_the_end_of_a_tick() {
    let at = |sequence: u64| {
        let of = |at: u64| SampledPoint {
            written_chars: (at == 24).then_some(sequence * (4 << 20)),
            ..main_in(Wait::Running)
        };
        sampled_tick(sequence, points(sequence, of))
    };
    let frames = run([at(1), at(2)]);
    assert_shares(&frames[1].ranks[0], [0.0, 0.0, 0.0, 1.0, 0.0]);
}

#[test]
fn no_more_sync_than_the_device_works() {
    let of = |at| main_in(if at < 20 { Wait::Sleep } else { Wait::Running });
    let frames = run_with([sampled_tick(1, points(1, of))], with_gpu(40));
    let rank = &frames[0].ranks[0];
    assert_shares(rank, [0.0, 0.4, 0.6, 0.0, 0.0]);
    let idle = rank.gpu_idle_s.unwrap().values();
    assert!(idle[1].abs() < 1e-6 && (idle[2] - 0.6).abs() < 1e-6, "{idle:?}");

    let of = |at| main_in(if at < 40 { Wait::Sleep } else { Wait::Running });
    let frames = run_with([sampled_tick(1, points(1, of))], with_gpu(40));
    // 0.4 s busy × 1.1 + 2% of a second.
    assert_shares(&frames[0].ranks[0], [0.0, 0.46, 0.2, 0.0, 0.34]);
    let frames = run_with([sampled_tick(1, points(1, of))], with_gpu(3));
    assert_shares(&frames[0].ranks[0], [0.0, 0.0, 0.2, 0.0, 0.8]);
}

#[test]
fn device_idle_time_falls_where_its_windows_say() {
    let of = |at| main_in(if at < 25 { Wait::LoaderPoll } else { Wait::Running });
    let change = |sample: Sample| {
        let point = |ms_ago, pct| {
            let unix_ms = u64::try_from(sample.unix_ms).unwrap() - ms_ago;
            UtilizationPoint { unix_us: unix_ms * 1000, pct }
        };
        let points = vec![point(500, 10), point(0, 90)];
        let gpu = GpuReading { utilization_pct: Some(90), utilization_points: points, ..GpuReading::default() };
        with_gpus(sample, vec![gpu])
    };
    let frames = run_with([sampled_tick(1, points(1, of))], change);
    let idle = frames[0].ranks[0].gpu_idle_s.unwrap().values();
    assert!((idle[0] - 0.45).abs() < 1e-6 && (idle[2] - 0.05).abs() < 1e-6, "{idle:?}");
}

#[test]
fn idle_time_is_the_mean_of_the_devices() {
    let of = |_| main_in(Wait::Running);
    let change = |sample| {
        let device = |pct| GpuReading { utilization_pct: Some(pct), ..GpuReading::default() };
        with_gpus(sample, vec![device(100), device(0)])
    };
    let frames = run_with([sampled_tick(1, points(1, of))], change);
    let idle = frames[0].ranks[0].gpu_idle_s.unwrap().values();
    assert!((idle[2] - 0.5).abs() < 1e-6, "{idle:?}");
}

#[test]
fn stale_devices_tell_waits_apart_but_give_no_idle_time() {
    let of = |_| main_in(Wait::Sleep);
    let change = |sample: Sample| {
        let mut sample = with_gpu(100)(sample);
        let mut gpus = (**sample.gpus.as_ref().unwrap()).clone();
        gpus.monotonic_ns = 1;
        sample.gpus = Some(Arc::new(gpus));
        sample
    };
    let frames = run_with([sampled_tick(1, points(1, of))], change);
    let rank = &frames[0].ranks[0];
    assert_shares(rank, [0.0, 1.0, 0.0, 0.0, 0.0]);
    assert_eq!(rank.gpu_idle_s, None);
}

#[test]
fn a_rank_is_held_against_its_own_device() {
    let of = |_| main_in(Wait::Sleep);
    let change = |sample: Sample| {
        let mut sample = with_gpus(sample, vec![GpuReading::default(), GpuReading::default()]);
        let mut gpus = (**sample.gpus.as_ref().unwrap()).clone();
        for (device, (pid, pct)) in gpus.devices.iter_mut().zip([(10, 0), (11, 100)]) {
            device.processes = vec![trainmon_sample::GpuProcess { pid, ..Default::default() }];
            device.utilization_pct = Some(pct);
        }
        sample.gpus = Some(Arc::new(gpus));
        sample
    };
    let mut job = sampled_tick(1, points(1, of));
    job.processes.push(ProcessSample { role: ProcessRole::Rank, ..process(11) });
    job.sampler = sampler(&[11, 10].map(|pid| of_rank(pid, points(1, of))), &[]);
    let mut next = job.clone();
    next.monotonic_ns = 2000 * MS;
    next.sampler = sampler(&[11, 10].map(|pid| of_rank(pid, points(2, of))), &[]);
    let frames = run_with([job, next], change);
    let ranks = &frames[1].ranks;
    assert_eq!((ranks[0].id, ranks[1].id), (id(10), id(11)), "the target first");
    assert_shares(&ranks[0], [0.0, 0.0, 0.0, 0.0, 1.0]);
    assert_shares(&ranks[1], [0.0, 1.0, 0.0, 0.0, 0.0]);
}

#[test]
fn workers_make_a_poll_an_input_wait_when_calls_are_hidden() {
    let with = |polls: u32| {
        let mut worker = SampledWorker { id: id(20), rank: 10, ..SampledWorker::default() };
        worker.counts.insert(Wait::Poll, polls);
        worker.counts.insert(Wait::Running, 50 - polls);
        let rank = SampledRank { exact: false, ..of_rank(10, points(1, |_| main_in(Wait::Poll))) };
        JobSample { sampler: sampler(&[rank], &[worker]), ..sampled_tick(1, vec![]) }
    };
    let frames = run_with([with(5)], with_gpu(90));
    assert_shares(&frames[0].ranks[0], [1.0, 0.0, 0.0, 0.0, 0.0]);
    assert!(!frames[0].ranks[0].exact);
    let frames = run_with([with(50)], with_gpu(90));
    assert_shares(&frames[0].ranks[0], [0.0, 1.0, 0.0, 0.0, 0.0]);
}

#[test]
fn counters_of_the_main_thread() {
    let at = |sequence, on_cpu, delay| {
        let mut job = sampled_tick(sequence, vec![]);
        job.processes[0].threads = vec![thread(10, trainmon_sample::ThreadRole::Main, on_cpu, delay)];
        job
    };
    let frames = run([at(1, 500, 0), at(2, 800, 100)]);
    let rank = &frames[1].ranks[0];
    assert!(close(rank.run_delay_share, 0.25));
}

#[test]
fn without_samples_the_target_has_its_counters() {
    let bare = |sequence: u64| job(sequence * 1000, vec![process(10), process(11)]);
    let frames = run([bare(1), bare(2)]);
    assert_eq!(frames[1].ranks.len(), 1);
    assert_eq!((frames[1].ranks[0].id, frames[1].ranks[0].cpu_pct), (id(10), Some(0.0)));
}

#[test]
fn only_the_longest_waits_are_kept() {
    let mut lengths: Vec<f32> = (0..100).map(|at| if at % 2 == 0 { 1.0 } else { at as f32 + 2.0 }).collect();
    keep_longest(&mut lengths);
    assert_eq!(lengths.len(), WAITS);
    assert_eq!(lengths.iter().filter(|length| **length > 1.0).count(), 50);
    let mut short = vec![3.0, 1.0];
    keep_longest(&mut short);
    assert_eq!(short, [3.0, 1.0]);
}

#[test]
fn receiving_a_batch_is_still_waiting_for_it() {
    // Each five samples: two in the poll, one running before the next index is handed out, one after, one in a sync.
    let seen = points(1, |at| {
        let (step, part) = (at / 5, at % 5);
        let main = match part {
            0 | 1 => Wait::LoaderPoll,
            2 | 3 => Wait::Running,
            _ => Wait::Futex,
        };
        SampledPoint { main, batches_requested: Some(100 + step + u64::from(part >= 3)), ..SampledPoint::default() }
    });
    let frames = run([sampled_tick(1, seen)]);
    assert_shares(&frames[0].ranks[0], [0.6, 0.0, 0.2, 0.0, 0.2]);
}

#[test]
fn a_count_that_stands_still_for_long_says_nothing() {
    // The end of an epoch: no index is handed out any more, and the loop works on.
    let seen = points(1, |at| {
        let main = if at < 10 { Wait::LoaderPoll } else { Wait::Running };
        SampledPoint { main, batches_requested: Some(7), ..SampledPoint::default() }
    });
    let frames = run([sampled_tick(1, seen)]);
    let rank = &frames[0].ranks[0];
    assert!(rank.split_s.input_wait < 0.36 && rank.split_s.host_busy > 0.63, "{:?}", shares(rank));
}

#[test]
fn stacks_correct_the_split_and_the_measured_one_stays_beside_it() {
    let measured = TimeSplit { input_wait: 1.0, host_busy: 1.0, ..TimeSplit::default() };
    let mut rank = RankRates { seconds_seen: 2.0, exact: true, split_s: measured, ..RankRates::default() };
    rank.by_wait_s[Wait::LoaderPoll.index()] = 1.0;
    let mut stacks = Activities::default();
    stacks.add(Activity::Waiting, 50);
    rank.correct(&Activities::default());
    assert_eq!((rank.split_s, rank.measured_s), (measured, None), "no stacks, nothing to correct with");
    stacks.add(Activity::Receiving, 50);
    rank.correct(&stacks);
    assert!(rank.split_s.input_wait > 1.8 && (rank.split_s.total() - 2.0).abs() < 1e-9, "{rank:?}");
    assert_eq!(rank.measured(), measured);
}
