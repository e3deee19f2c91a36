//! The split of the loop's time, corrected by stacks: the one place where the sampler's and the stacks' findings become
//! one number, before anything shows, logs or judges it.
//!
//! The sampler knows how long a thread was blocked, and in what, to within a few points; the stacks know where in the
//! code it was. So the sampler provides the time and the stacks divide it: a thread that is not in the loader's poll
//! may still be inside the loader, receiving a batch or making it.
//!
//! A frame's `split_s` is one sampler interval, divided by the newest stacks of that training process
//! ([`RecentActivities`]). A verdict's shares are the times of its whole window, divided by all stacks of the window.
//! Both call [`correct`], which is not linear (a prior, floors, an order of moving), so the mean of the frames comes
//! close to the verdict's number without being equal to it. What is shown and logged of an interval is therefore corrected by the
//! verdict: see `loop_time` of the diagnosis. Without stacks both are what the sampler measured.

use std::collections::VecDeque;

use super::Activities;
use crate::taxonomy::Activity;
use crate::time_split::TimeSplit;
use trainmon_rates::levels::{BEYOND_CHANCE, CLEARLY};

/// From this many samples on, the stacks of a loop are believed …
pub const ENOUGH_SAMPLES: u64 = 15;
/// … and the sampler's own estimate keeps the weight of this many samples.
const PRIOR: f64 = 2.0;
/// A thread whose wait for the GPU is over queues for a CPU, and its code is still in the wait. Of the time that the thread
/// queues, this part is such a wait, to within as much …
const QUEUED_IN_SYNC: f64 = 0.3;
/// … of this much of it, share of the wall time, and of what is beyond this many times the time that it runs: the rest of the
/// queueing comes from being interrupted at work.
const QUEUED_AFTER_WAITS: f64 = 0.02;
const QUEUED_AT_WORK: f64 = 5.0;
/// py-spy's share of a wait is off by this much even with many samples: it gets a CPU when the others wait. Share.
const OFF_BY: f64 = 0.01;
/// Beyond this many standard errors two shares are not the same.
const NOT_THE_SAME: f64 = 3.0;

/// What the sampler measured of a loop's thread, as shares of its time.
#[derive(Debug, Clone, Copy, Default)]
pub struct Measured {
    /// The split.
    pub split: TimeSplit,
    /// Of the time waiting for data: in the loader's own poll, which is not a guess.
    pub polled: f64,
    /// Waiting for written data to reach a disk.
    pub disk_write: f64,
    /// Blocked in a way that may be a wait for the GPU, whatever it was taken for.
    pub may_sync: f64,
    /// Running or queueing for a CPU, own compute threads running, or unknown: the upper bound for work.
    pub able_to_work: f64,
    /// Waiting for a known other process that makes no batches.
    pub elsewhere: f64,
    /// Share of its runnable time spent queueing for a CPU.
    pub run_delay: Option<f64>,
    /// Queueing for a CPU.
    pub queued: f64,
}

/// What the loop's thread did, as shares of its wall time that add up to 1.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LoopShares([f64; Activity::COUNT]);

impl LoopShares {
    /// Share of one activity.
    pub fn get(&self, activity: Activity) -> f64 {
        self.0.get(activity.index()).copied().unwrap_or(0.0)
    }

    /// The activities with their shares, in order.
    pub fn iter(&self) -> impl Iterator<Item = (Activity, f64)> {
        Activity::ALL.into_iter().zip(self.0)
    }

    /// Share of the activities that match.
    pub fn share_where(&self, wanted: impl Fn(Activity) -> bool) -> f64 {
        self.iter().filter(|(activity, _)| wanted(*activity)).map(|(_, share)| share).sum()
    }

    /// Share in the model and its training: forward, backward, optimizer, copies, fitting, generating.
    pub fn of_model(&self) -> f64 {
        self.share_where(Activity::is_model)
    }

    /// Share in the loop's own code: Python outside of the model, callbacks, logs and metrics.
    pub fn of_own_code(&self) -> f64 {
        self.get(Activity::Python) + self.get(Activity::Report)
    }

    /// Share outside getting batches and waiting for something unnamed.
    pub fn outside(&self) -> f64 {
        1.0 - self.share_where(|activity| activity.is_input() || activity == Activity::OtherWait)
    }
}

/// The split as shown and judged.
#[derive(Debug, Clone, Default)]
pub struct Corrected {
    /// The split, shares that add up to 1.
    pub split: TimeSplit,
    /// What the thread did.
    pub activities: LoopShares,
    /// The time outside of waiting as a share, and the number of samples that represent it.
    rest: (f64, f64),
}

/// The share in waits for the GPU, 0–1. The sampler knows how long the thread was blocked from many more samples than there are
/// stacks; the stacks know which of its waits were for the GPU, and that a thread that queues for a CPU, or spins, is still in
/// one. So the share is what the stacks say within the sampler's bounds, and beyond them as far as the stacks are certain.
fn in_sync(measured: &Measured, sync: f64, total: f64) -> f64 {
    let seen = sync / total;
    let taken = measured.split.device_sync;
    // Some of what was taken for such a wait, or for another, may have been the other.
    let unclear = (measured.may_sync - taken).max(0.0);
    let blocked = seen.clamp((taken - unclear).max(0.0), taken + unclear);
    let beyond = seen - blocked;
    let expected = if blocked > 0.0 { QUEUED_IN_SYNC * queued_after_waits(measured) } else { 0.0 };
    let likely = (sync + 1.0) / (total + 2.0);
    let error = (likely * (1.0 - likely) / total + OFF_BY * OFF_BY).sqrt();
    let unlike = (beyond - expected).abs() - NOT_THE_SAME * (error + expected);
    let spread = expected.max(OFF_BY * QUEUED_IN_SYNC).hypot(unlike.max(0.0));
    let weight = spread * spread / (spread * spread + error * error);
    (blocked + expected + (beyond - expected) * weight).clamp(0.0, 1.0)
}

/// The time that the thread queues for a CPU because a wait is over, share of the wall time.
fn queued_after_waits(measured: &Measured) -> f64 {
    let queued = measured.queued.clamp(0.0, 1.0);
    let runs = measured.run_delay.map_or(0.0, |delay| if delay > 0.0 { queued * (1.0 - delay) / delay } else { 0.0 });
    queued.min(QUEUED_AFTER_WAITS).max(queued - QUEUED_AT_WORK * runs)
}

impl Corrected {
    /// Share of the wall time that this many samples outside of waiting represent.
    pub fn share(&self, samples: u32) -> f64 {
        let (rest, active) = self.rest;
        if active > 0.0 { rest * f64::from(samples) / active } else { 0.0 }
    }
}

/// The measured split, corrected by the stacks. `None` if there are too few stacks.
///
/// With Lp the share in the loader's poll and Ls that in waits for the GPU ([`in_sync`]), the rest 1 − Lp − Ls is divided by the
/// samples that are neither.
/// Samples inside the loader's `next()` (receiving, loading in the process itself) are waiting for data too; the
/// sampler's own estimate counts like [`PRIOR`] samples. Samples in a wait that the code does not name do not show its
/// purpose: that much of the time stays what the sampler took it for. The same holds for samples at one of the
/// program's own queues, as far as the waits were found to be for another process that makes no batches: answers come
/// through queues too.
pub fn correct(measured: &Measured, stacks: &Activities) -> Option<Corrected> {
    let total = stacks.total();
    if total < ENOUGH_SAMPLES {
        return None;
    }
    let mut split = measured.split;
    let polled = measured.polled.min(split.input_wait).clamp(0.0, 1.0);
    let stacks = &with_polls_as_waits(polled, stacks);
    let waiting = f64::from(stacks.get(Activity::Waiting)) / total as f64;
    // Loaders that wait in another way than torch's: the sampler does not recognize their waits. And if the thread
    // queues for a CPU after its wait is over, the sampler sees it running while the code is still in the wait.
    let queues = (measured.run_delay.unwrap_or(0.0) / CLEARLY).clamp(0.0, 1.0);
    let polled = if waiting - polled > BEYOND_CHANCE {
        waiting
    } else {
        polled + (queues * (waiting - polled)).clamp(0.0, measured.queued.max(0.0))
    };
    let sync = f64::from(stacks.get(Activity::Sync));
    let in_sync = in_sync(measured, sync, total as f64).min(1.0 - polled);
    let outside = (1.0 - polled, total.saturating_sub(stacks.get(Activity::Waiting).into()) as f64);
    let (rest, active) = (outside.0 - in_sync, outside.1 - sync);
    let part_of_rest = |samples: f64| if active > 0.0 { rest * samples / active } else { 0.0 };
    // Making the iterator is outside its `next()`.
    let in_next = stacks.samples_where(|activity| {
        activity.is_input() && !matches!(activity, Activity::Waiting | Activity::LoaderStart)
    });
    let other_waits = f64::from(stacks.get(Activity::OtherWait));
    let answers =
        (measured.elsewhere * total as f64 - other_waits).max(0.0).min(stacks.get(Activity::QueueWait).into());
    let (in_next, unnamed) = (in_next as f64 - answers, other_waits + answers);
    let guessed = (split.input_wait - polled).max(0.0);
    let kept = (guessed - part_of_rest(in_next)).clamp(0.0, part_of_rest(unnamed));
    let named = rest - part_of_rest(unnamed);
    let weigh = |samples: f64, prior: f64| named * (samples + PRIOR * prior) / (active - unnamed + PRIOR);
    let of_named = |share: f64| if named > 0.0 { (share / named).clamp(0.0, 1.0) } else { 0.0 };
    let input = polled + kept + weigh(in_next, of_named(guessed - kept));
    // The sampler takes a thread that writes a lot for one that saves state; stacks tell saving from heavy logging.
    let saving = stacks.get(Activity::Checkpoint);
    let written = measured.disk_write.min(split.checkpoint);
    // A separate thread may save while the loop waits for it.
    let saved = split.checkpoint.min(part_of_rest(unnamed) - kept).max(written);
    let checkpoint = if saving > 0 { weigh(f64::from(saving), of_named(split.checkpoint)).max(saved) } else { saved };
    // A wait found to be for the GPU is not saving, whatever the function is called.
    let checkpoint = checkpoint.min((split.checkpoint + split.host_busy + split.other).max(saved));
    let elsewhere = in_sync + part_of_rest(stacks.samples_where(waits_by_name) as f64);
    let host_most = measured.able_to_work.max(split.host_busy);
    shift(&mut split, input, checkpoint, host_most, elsewhere);

    let mut corrected = Corrected { split, rest: outside, ..Corrected::default() };
    let share = |activity: Activity| corrected.share(stacks.get(activity));
    let is_waiting = |activity: Activity| activity == Activity::Waiting;
    let active: f64 = Activity::ALL.into_iter().filter(|activity| !is_waiting(*activity)).map(share).sum();
    corrected.activities =
        LoopShares(Activity::ALL.map(|activity| if is_waiting(activity) { 1.0 - active } else { share(activity) }));
    Some(corrected)
}

/// The samples, with those at the program's own queues counted as waits for a batch as far as the sampler saw the
/// thread in the loader's poll meanwhile: loaders modeled on torch's poll like it, under other names. Otherwise the
/// same time would count twice, as the poll and as part of the rest.
fn with_polls_as_waits(polled: f64, stacks: &Activities) -> Activities {
    let of_polls = (polled * stacks.total() as f64).round() as u32;
    let moved = of_polls.saturating_sub(stacks.get(Activity::Waiting)).min(stacks.get(Activity::QueueWait));
    let mut counted = Activities::default();
    for (activity, samples) in stacks.iter() {
        counted.add(activity, if activity == Activity::QueueWait { samples.saturating_sub(moved) } else { samples });
    }
    counted.add(Activity::Waiting, moved);
    counted
}

/// Whether being blocked inside it is a wait for something other than a batch or the GPU.
fn waits_by_name(activity: Activity) -> bool {
    matches!(activity, Activity::Collective | Activity::Checkpoint | Activity::Report | Activity::Import)
}

/// Moves the shares to the given amounts of waiting for data and of saving. An increase is taken from the host's work
/// first, then from the unknown. A decrease goes to the host's work up to `host_most`: a blocked thread did not work,
/// wherever its code was. Anything beyond stays a wait for a batch, except for the share `elsewhere` in which the code
/// names another wait.
fn shift(shares: &mut TimeSplit, input: f64, checkpoint: f64, host_most: f64, elsewhere: f64) {
    let less_input = (shares.input_wait - input).max(0.0);
    let mut wanted = (input - shares.input_wait) + (checkpoint - shares.checkpoint);
    shares.input_wait = input;
    shares.checkpoint = checkpoint;
    let blocked = -wanted - (host_most - shares.host_busy).max(0.0);
    if blocked > 0.0 {
        let stays = (blocked - elsewhere).clamp(0.0, less_input);
        shares.input_wait += stays;
        shares.other += blocked - stays;
        wanted += blocked;
    }
    for from in [&mut shares.host_busy, &mut shares.other, &mut shares.device_sync] {
        let taken = wanted.min(*from);
        *from -= taken;
        wanted -= taken;
        if wanted.abs() < 1e-12 {
            break;
        }
    }
    // If there was nothing left to take from, the parts are scaled to fit.
    let parts = shares.map(|part| part.max(0.0));
    if let Some(fitting) = parts.shares_of(parts.total()) {
        *shares = fitting;
    }
}

/// The newest stacks of one training loop: when the interval that contains them ended, and what they show.
#[derive(Debug, Default)]
pub(crate) struct RecentActivities(VecDeque<(u64, Activities)>);

impl RecentActivities {
    /// Older stacks are not used, nanoseconds: stacks are taken rarely while nothing changes.
    const SPAN_NS: u64 = 120_000_000_000;
    /// How many of the newest samples are used: shares to within 5 points, and a change shows within a few windows.
    pub(crate) const NEWEST_SAMPLES: u64 = 100;

    /// Takes the stacks of an interval that ended at `now_ns`.
    pub(crate) fn take(&mut self, now_ns: u64, stacks: impl Iterator<Item = Activities>) {
        self.0.retain(|(end_ns, _)| (now_ns.saturating_sub(Self::SPAN_NS)..=now_ns).contains(end_ns));
        self.0.extend(stacks.map(|main| (now_ns, main)));
    }

    /// The newest, added up.
    pub(crate) fn sum(&self) -> Activities {
        let mut sum = Activities::default();
        for (_, main) in self.0.iter().rev() {
            if sum.total() >= Self::NEWEST_SAMPLES {
                break;
            }
            sum.merge(main);
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(samples: &[(Activity, u32)]) -> Activities {
        let mut sum = Activities::default();
        samples.iter().for_each(|(activity, samples)| sum.add(*activity, *samples));
        sum
    }

    fn measured(input_wait: f64, polled: f64, host_busy: f64) -> Measured {
        let split = TimeSplit { input_wait, host_busy, other: 1.0 - input_wait - host_busy, ..TimeSplit::default() };
        Measured { split, polled, able_to_work: host_busy, ..Measured::default() }
    }

    #[test]
    fn blocked_time_never_becomes_work() {
        // The kernel saw it blocked in a pipe to whoever makes the batches; the code stands in a call of the user's own.
        let blocked = measured(0.85, 0.0, 0.12);
        for activity in [Activity::Python, Activity::Forward, Activity::OtherWait] {
            let split = correct(&blocked, &samples(&[(activity, 200)])).unwrap().split;
            assert!((split.input_wait - 0.85).abs() < 0.01 && split.host_busy < 0.13, "{activity:?} {split:?}");
        }
        // Work that the sampler took for receiving a batch is work again, and no more than that.
        let ran = Measured { able_to_work: 0.5, ..blocked };
        let split = correct(&ran, &samples(&[(Activity::Python, 200)])).unwrap().split;
        assert!((split.host_busy - 0.5).abs() < 0.01 && (split.input_wait - 0.47).abs() < 0.01, "{split:?}");
    }

    #[test]
    fn a_wait_that_the_code_names_is_no_wait_for_a_batch() {
        let stacks = samples(&[(Activity::Collective, 180), (Activity::Forward, 20)]);
        let split = correct(&measured(0.85, 0.0, 0.12), &stacks).unwrap().split;
        assert!(split.other > 0.8 && split.input_wait < 0.05 && split.host_busy < 0.13, "{split:?}");
    }

    #[test]
    fn waits_for_nobody_known_stay_what_they_were() {
        // A tenth receives batches; the futures that are waited for were found to be another process' batches.
        let stacks = samples(&[(Activity::OtherWait, 140), (Activity::Receiving, 20), (Activity::Forward, 40)]);
        let split = correct(&measured(0.70, 0.0, 0.30), &stacks).unwrap().split;
        assert!((split.input_wait - 0.70).abs() < 0.03, "{split:?}");
        // An answer that comes through a queue is no batch, where it was seen who gives it.
        let asks = Measured { elsewhere: 0.6, ..measured(0.0, 0.0, 0.4) };
        for (elsewhere, input_wait, host_busy) in [(0.6, 0.0, 0.4), (0.1, 0.15, 0.25), (0.0, 0.25, 0.15)] {
            let stacks = samples(&[(Activity::Python, 150), (Activity::QueueWait, 50)]);
            let split = correct(&Measured { elsewhere, ..asks }, &stacks).unwrap().split;
            assert!((split.input_wait - input_wait).abs() < 0.02, "{elsewhere}: {split:?}");
            assert!((split.host_busy - host_busy).abs() < 0.02, "{elsewhere}: {split:?}");
        }
        let nobody = correct(&measured(0.0, 0.0, 0.30), &samples(&[(Activity::OtherWait, 140)])).unwrap().split;
        assert!(nobody.other > 0.69 && nobody.input_wait < 0.01, "{nobody:?}");
    }

    #[test]
    fn waits_for_the_gpu_are_what_the_stacks_say_within_what_was_blocked() {
        // Pinned batches: a fifth of the time is in a futex that was taken for the queue of batches; the loop hardly runs.
        let pinned = Measured { may_sync: 0.19, able_to_work: 0.02, ..measured(0.98, 0.79, 0.02) };
        let split = correct(&pinned, &samples(&[(Activity::Waiting, 28), (Activity::Sync, 11)])).unwrap().split;
        assert!((split.input_wait - 0.80).abs() < 0.015, "{split:?}");
        // The loop makes its batches itself: how long it waited for the GPU is known far better than 39 stacks show.
        let split = TimeSplit { device_sync: 0.23, host_busy: 0.77, ..TimeSplit::default() };
        let own = Measured { split, may_sync: 0.23, able_to_work: 0.77, ..Measured::default() };
        for sync in [5, 9, 13] {
            let stacks = samples(&[(Activity::Decode, 39 - sync), (Activity::Sync, sync)]);
            let split = correct(&own, &stacks).unwrap().split;
            assert!((split.input_wait - 0.76).abs() < 0.05, "{sync}: {split:?}");
        }
        // A wait that spins runs, and only the stacks show it.
        let spins = Measured { able_to_work: 0.9, ..measured(0.1, 0.1, 0.9) };
        let split = correct(&spins, &samples(&[(Activity::Waiting, 20), (Activity::Sync, 180)])).unwrap().split;
        assert!((split.input_wait - 0.1).abs() < 0.01, "{split:?}");
    }

    #[test]
    fn queueing_bounds_how_much_longer_the_code_waits_than_the_thread() {
        // Stacks that were all taken in one long wait say nothing of the seconds between.
        let queues = Measured { run_delay: Some(0.8), queued: 0.02, ..measured(0.87, 0.85, 0.03) };
        let split = correct(&queues, &samples(&[(Activity::Waiting, 156)])).unwrap().split;
        assert!((0.85..0.90).contains(&split.input_wait), "{split:?}");
    }

    #[test]
    fn a_wait_for_the_gpu_is_no_saving() {
        let split = TimeSplit { device_sync: 0.6, checkpoint: 0.3, host_busy: 0.1, ..TimeSplit::default() };
        let saves = Measured { split, disk_write: 0.3, able_to_work: 0.1, ..Measured::default() };
        let split = correct(&saves, &samples(&[(Activity::Checkpoint, 200)])).unwrap().split;
        assert!((split.device_sync - 0.6).abs() < 0.01 && (split.checkpoint - 0.4).abs() < 0.01, "{split:?}");
    }

    #[test]
    fn receiving_is_waiting() {
        // Half of the time in the poll; of the rest three quarters receive batches.
        let stacks = samples(&[(Activity::Waiting, 200), (Activity::Receiving, 150), (Activity::Forward, 50)]);
        let corrected = correct(&measured(0.5, 0.5, 0.5), &stacks).unwrap();
        assert!((corrected.split.input_wait - 0.864).abs() < 0.01, "{:?}", corrected.split);
        assert!((corrected.split.host_busy - 0.136).abs() < 0.01);
        assert!((corrected.activities.get(Activity::Waiting) - 0.5).abs() < 1e-9);
        assert!((corrected.activities.get(Activity::Receiving) - 0.375).abs() < 1e-9);
        assert!((corrected.activities.share_where(|_| true) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn a_poll_of_a_loader_of_ones_own_counts_once() {
        // Eight tenths of the time in the poll, under a queue's name; the rest waits for the gpu.
        let stacks = samples(&[(Activity::QueueWait, 160), (Activity::Sync, 40)]);
        let corrected = correct(&measured(0.8, 0.8, 0.0), &stacks).unwrap();
        assert!((corrected.split.input_wait - 0.8).abs() < 0.01, "{:?}", corrected.split);
        assert!((corrected.activities.get(Activity::Sync) - 0.2).abs() < 1e-6);
        assert!((corrected.activities.share_where(|_| true) - 1.0).abs() < 1e-9);
        // A queue beside torch's loader, whose poll its own stacks explain, is what it was.
        let stacks = samples(&[(Activity::Waiting, 100), (Activity::QueueWait, 60), (Activity::Forward, 40)]);
        let corrected = correct(&measured(0.5, 0.5, 0.5), &stacks).unwrap();
        assert!((corrected.activities.get(Activity::QueueWait) - 0.3).abs() < 1e-9);
    }

    #[test]
    fn too_few_samples_change_nothing() {
        assert!(correct(&measured(0.5, 0.5, 0.5), &samples(&[(Activity::Receiving, 10)])).is_none());
    }

    #[test]
    fn loading_in_process_is_input_wait() {
        let stacks = samples(&[(Activity::Decode, 80), (Activity::Load, 10), (Activity::Forward, 10)]);
        let corrected = correct(&measured(0.02, 0.0, 0.97), &stacks).unwrap();
        assert!(corrected.split.input_wait > 0.8 && corrected.split.host_busy < 0.2);
        assert!((corrected.activities.share_where(Activity::is_loading) - 0.9).abs() < 1e-9);
    }

    #[test]
    fn the_newest_stacks_of_a_rank_count() {
        let mut recent = RecentActivities::default();
        for second in 0..80 {
            let activity = if second < 75 { Activity::Python } else { Activity::Forward };
            let stacks = (second < 78).then(|| samples(&[(activity, 40)]));
            recent.take(second * 1_000_000_000, stacks.into_iter());
        }
        // Three windows of 40 samples, all from after the change.
        assert_eq!(recent.sum(), samples(&[(Activity::Forward, 120)]));
        recent.take(78_000_000_000 + RecentActivities::SPAN_NS, std::iter::empty());
        assert_eq!(recent.sum().total(), 0, "too old");
    }
}
