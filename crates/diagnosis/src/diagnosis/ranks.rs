//! Several ranks under one PID: which one do the others wait for?
//!
//! The ranks of a distributed run meet at every collective, so all of them step at the pace of the slowest. The slow rank is the
//! one that does not wait there, and its bottleneck is that of the run. If all of them wait for their GPUs, it is the rank whose
//! GPU computes while the others' GPUs only wait in a collective kernel.

use std::collections::BTreeMap;

use trainmon_sample::{ProcessId, RankPlace};
use trainmon_waits::Frame;
use trainmon_waits::frame::RankRates;
use trainmon_waits::stacks::Activity;
use trainmon_waits::stacks::correction::ENOUGH_SAMPLES;
use trainmon_waits::stacks::sums::StackSums;
use trainmon_waits::time_split::TimeSplit;

use super::features::{Device, LoopThread};
use super::thresholds::*;
use super::verdict::Rank;

thresholds! {
    DRAWS_MORE = 0.20, "of the limit", "the power of like ranks' GPUs differs by less than a tenth";
}

/// What is known of one rank.
#[derive(Debug)]
struct RankSeen {
    id: ProcessId,
    place: Option<RankPlace>,
    main: LoopThread,
    /// Share of the time in collectives, by its stacks.
    collectives: Option<f64>,
    /// Its own GPU, if it is known which one that is.
    gpu: Option<Device>,
}

impl RankSeen {
    fn load(&self) -> RankLoad {
        let gpu = self.gpu.as_ref().map(|device| GpuLoad {
            held_down: device.held_down && device.throttled >= LARGER_HALF,
            power: device.power,
        });
        let busy = self.gpu.as_ref().map_or(0.0, |device| device.job_busy);
        RankLoad { blocked: blocked(&self.main.shares, busy), collectives: self.collectives, gpu }
    }
}

/// Share of the time in waits for neither data nor work. What a rank's thread runs while its GPU is busy all along is a spinning
/// wait, or work that costs nothing.
pub fn blocked(shares: &TimeSplit, gpu_busy: f64) -> f64 {
    shares.other + shares.device_sync + (shares.host_busy + gpu_busy - 1.0).max(0.0)
}

/// Share of the time in which a rank waits for others, or may, given its share in collectives by its stacks. Reductions in the hooks
/// of a backward pass have no frame of their own, so the larger of the two counts.
pub fn waits_for_others(shares: &TimeSplit, collectives: Option<f64>, gpu_busy: f64) -> f64 {
    collectives.unwrap_or(0.0).max(blocked(shares, gpu_busy))
}

/// Whether ranks that wait for such shares of their time, the most and the least, wait for the one that waits least.
pub fn is_late(most: f64, least: f64) -> bool {
    most - least >= STRAGGLER
}

/// Whether a job queues for CPUs so much that it is slower for it, given that share of its runnable time.
pub fn queues_long(share: f64) -> bool {
    share >= RUN_DELAY
}

/// Whether a disk is busy, given its utilization, 0–1.
pub fn is_busy_disk(utilization: f64) -> bool {
    utilization * 100.0 >= DISK_BUSY
}

/// Whether something that holds for such a share of the time holds for most of it.
pub fn is_most(share: f64) -> bool {
    share >= LARGER_HALF
}

/// The ranks with their time, in the order of their PIDs; empty for a single rank.
pub(super) fn ranks(frames: &[&Frame], stacks: &StackSums) -> Vec<(ProcessId, Rank)> {
    // A rank that has ended does not count.
    let last = frames.last().map_or(&[][..], |last| &last.ranks);
    let is_there = |rank: &&RankRates| last.iter().any(|there| there.id == rank.id);
    let seen = frames.iter().flat_map(|frame| &frame.ranks).filter(|rank| rank.seconds_seen > 0.0);
    let seen = seen.filter(is_there);
    let ids: BTreeMap<ProcessId, Option<RankPlace>> = seen.map(|rank| (rank.id, rank.place)).collect();
    if ids.len() < 2 {
        return Vec::new();
    }
    let of_rank = |(id, place): (ProcessId, Option<RankPlace>)| {
        let gpu = Device::of_rank(frames, stacks, id);
        let main = LoopThread::of_rank(frames, stacks, id, gpu.as_ref())?;
        Some(RankSeen { id, place, main, collectives: collectives(stacks, id), gpu })
    };
    let ranks: Vec<RankSeen> = ids.into_iter().filter_map(of_rank).collect();
    let loads: Vec<RankLoad> = ranks.iter().map(RankSeen::load).collect();
    let late = late_by_waits(&loads).or_else(|| late_by_gpu(&loads));
    let rank = |(at, seen): (usize, RankSeen)| {
        let RankSeen { id, place, main, collectives, .. } = seen;
        let rank = place.map(|place| place.rank);
        let most = main.stacks.and_then(|stacks| stacks.hottest.into_iter().next());
        let steps_per_s = steps_per_s(frames, id);
        let straggler = late == Some(at);
        (id, Rank { pid: id.pid, rank, shares: main.shares, collectives, steps_per_s, straggler, at: most })
    };
    ranks.into_iter().enumerate().map(rank).collect()
}

/// What tells the late rank of a run from the others.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct RankLoad {
    /// Share of its time in waits for neither data nor work: [`blocked`].
    pub blocked: f64,
    /// Share of its time in collectives, by its stacks.
    pub collectives: Option<f64>,
    /// Its own GPU, if it is known which one that is.
    pub gpu: Option<GpuLoad>,
}

/// What a rank's GPU does.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct GpuLoad {
    /// Its clocks are held down most of the time, by more than the power cap.
    pub held_down: bool,
    /// Its power as a share of its limit.
    pub power: Option<f64>,
}

/// The ranks with the verdict's shares for the late one, whose verdict it is: one split of its time, wherever it is shown.
pub(super) fn agreeing(mut ranks: Vec<Rank>, shares: Option<TimeSplit>) -> Vec<Rank> {
    if let Some((late, shares)) = ranks.iter_mut().find(|rank| rank.straggler).zip(shares) {
        late.shares = shares;
    }
    ranks
}

/// Steps per second of a rank's loop: by the batches that it requests, or by its own variable.
fn steps_per_s(frames: &[&Frame], id: ProcessId) -> Option<f64> {
    let seen = || frames.iter().filter_map(|frame| Some((frame.ranks.iter().find(|of| of.id == id)?, frame.seconds)));
    let counted = seen().filter_map(|(rank, seconds)| Some((rank.steps? as f64, seconds)));
    let (steps, seconds) = counted.fold((0.0, 0.0), |sum, (steps, seconds)| (sum.0 + steps, sum.1 + seconds));
    let by_variable =
        || seen().filter_map(|(rank, _)| rank.counted.as_ref()).next_back().map(|counted| counted.per_s);
    if steps > 0.0 && seconds > 0.0 { Some(steps / seconds) } else { by_variable() }
}

/// The share of its time that each rank waits for others, or may.
pub fn waits(ranks: &[RankLoad]) -> Vec<f64> {
    // Only like shares compare: those of the stacks count only if every rank has them.
    let by_stacks = ranks.iter().all(|rank| rank.collectives.is_some());
    let collectives = |rank: &RankLoad| if by_stacks { rank.collectives.unwrap_or(0.0) } else { 0.0 };
    let waits = |rank: &RankLoad| rank.blocked.max(collectives(rank));
    ranks.iter().map(waits).collect()
}

/// The rank that waits least, if that is clearly less than the others.
fn late_by_waits(ranks: &[RankLoad]) -> Option<usize> {
    let waits = waits(ranks);
    let most = waits.iter().copied().fold(0.0, f64::max);
    let least = waits.iter().enumerate().min_by(|a, b| a.1.total_cmp(b.1));
    least.filter(|(_, least)| is_late(most, **least)).map(|(at, _)| at)
}

/// The rank whose GPU holds up the others: it alone is throttled, or it draws clearly more power than each of the others, which
/// spend most of their time waiting in a collective kernel.
pub fn late_by_gpu(ranks: &[RankLoad]) -> Option<usize> {
    let gpus: Option<Vec<GpuLoad>> = ranks.iter().map(|rank| rank.gpu).collect();
    let gpus = gpus?;
    if !ranks.iter().all(|rank| rank.blocked >= LARGER_HALF.value) {
        return None;
    }
    let mut held: Vec<usize> = gpus.iter().enumerate().filter(|(_, gpu)| gpu.held_down).map(|(at, _)| at).collect();
    if let (Some(only), true) = (held.pop(), held.is_empty()) {
        return Some(only);
    }
    let power: Option<Vec<f64>> = gpus.iter().map(|gpu| gpu.power).collect();
    let power = power?;
    let (at, most) = power.iter().copied().enumerate().max_by(|a, b| a.1.total_cmp(&b.1))?;
    let next =
        power.iter().enumerate().filter(|(other, _)| *other != at).map(|(_, power)| *power).fold(0.0, f64::max);
    (most - next >= DRAWS_MORE).then_some(at)
}

/// The rank that the others wait for, if there is one.
pub(super) fn straggler(ranks: &[(ProcessId, Rank)]) -> Option<ProcessId> {
    ranks.iter().find(|(_, rank)| rank.straggler).map(|(id, _)| *id)
}

/// Share of a rank's time in collectives, if it has enough stack samples.
fn collectives(stacks: &StackSums, rank: ProcessId) -> Option<f64> {
    let main = &stacks.ranks.get(&rank)?.main;
    let total = main.total();
    (total >= ENOUGH_SAMPLES).then(|| f64::from(main.get(Activity::Collective)) / total as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainmon_rates::frame::GpuRates;
    use trainmon_waits::frame::CountedSteps;

    fn frame(others: &[f64]) -> Frame {
        let ranks = others.iter().zip(10..).map(|(other, pid)| RankRates {
            id: ProcessId { pid, start_ticks: 1 },
            seconds_seen: 1.0,
            split_s: TimeSplit { other: *other, host_busy: 1.0 - other, ..TimeSplit::default() },
            ..RankRates::default()
        });
        Frame { seconds: 1.0, ranks: ranks.collect(), ..Frame::default() }
    }

    #[test]
    fn the_one_that_does_not_wait() {
        let frame = frame(&[0.7, 0.05, 0.6]);
        let ranks = ranks(&[&frame], &StackSums::default());
        assert_eq!(straggler(&ranks).unwrap().pid, 11);
        assert_eq!(ranks.iter().filter(|(_, rank)| rank.straggler).count(), 1);
    }

    #[test]
    fn each_rank_has_its_own_steps() {
        let at = |requested: [Option<u64>; 3]| {
            let mut frame = frame(&[0.4, 0.4, 0.4]);
            frame.ranks.iter_mut().zip(requested).for_each(|(rank, steps)| rank.steps = steps);
            let counted = CountedSteps { per_s: 7.5, variable: "step".into(), ..CountedSteps::default() };
            frame.ranks.iter_mut().skip(1).for_each(|rank| rank.counted = Some(counted.clone()));
            frame
        };
        let frames = [at([Some(3), None, None]), at([Some(6), None, Some(0)])];
        let ranks = ranks(&frames.iter().collect::<Vec<_>>(), &StackSums::default());
        let steps: Vec<_> = ranks.iter().map(|(_, rank)| rank.steps_per_s).collect();
        assert_eq!(steps, [Some(4.5), Some(7.5), Some(7.5)]);
    }

    #[test]
    fn the_late_rank_has_the_shares_of_its_verdict() {
        let shares = TimeSplit { input_wait: 0.6, host_busy: 0.4, ..TimeSplit::default() };
        let ranks = [false, true].map(|straggler| Rank { straggler, ..Rank::default() });
        let agreed = agreeing(ranks.to_vec(), Some(shares));
        assert_eq!([agreed[0].shares, agreed[1].shares], [TimeSplit::default(), shares]);
        assert_eq!(agreeing(ranks.to_vec(), None), ranks);
    }

    /// The gpu of the rank at this place.
    fn device(at: usize, busy_pct: f64) -> GpuRates {
        GpuRates {
            index: at as u32,
            attached: true,
            job_pids: vec![10 + at as u32],
            utilization_pct: Some(busy_pct),
            ..GpuRates::default()
        }
    }

    #[test]
    fn the_one_whose_device_holds_up_the_others() {
        let of = |reasons: [u64; 3], power: [f64; 3]| {
            let gpu = |at: usize| GpuRates {
                power_w: Some(power[at]),
                power_limit_w: Some(700.0),
                clock_event_reasons: Some(reasons[at]),
                ..device(at, 97.0)
            };
            let frame = Frame { gpus: (0..3).map(gpu).collect(), ..frame(&[0.9, 0.92, 0.95]) };
            straggler(&ranks(&[&frame], &StackSums::default())).map(|id| id.pid)
        };
        // Hot; at work while the others' kernels wait; all alike; all of them capped.
        assert_eq!(of([0, 0x20, 0], [300.0; 3]), Some(11));
        assert_eq!(of([0; 3], [250.0, 260.0, 600.0]), Some(12));
        assert_eq!(of([0; 3], [250.0, 260.0, 300.0]), None);
        assert_eq!(of([0x20; 3], [300.0; 3]), None);
        assert_eq!(of([0x4, 0, 0], [300.0; 3]), None, "a power cap is where a busy device ends up");
    }

    #[test]
    fn who_spins_beside_a_busy_device_waits() {
        let gpus = [100.0, 20.0, 99.0].into_iter().enumerate().map(|(at, busy)| device(at, busy)).collect();
        let frame = Frame { gpus, ..frame(&[0.0, 0.05, 0.0]) };
        assert_eq!(straggler(&ranks(&[&frame], &StackSums::default())).unwrap().pid, 11);
    }

    #[test]
    fn even_ranks_and_a_single_one_have_none() {
        assert_eq!(straggler(&ranks(&[&frame(&[0.4, 0.45])], &StackSums::default())), None);
        assert!(ranks(&[&frame(&[0.4])], &StackSums::default()).is_empty());
    }
}
