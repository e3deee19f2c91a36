//! What the rules look at: a window, and where in it the loop loses its time.

use super::{Cause, Judgement};
use crate::diagnosis::features::{Chain, Device, Features, LoopThread, Part, Workers};
use crate::diagnosis::thresholds::*;
use crate::rates::stacks::Activity;

/// What is known besides the window.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::diagnosis) struct Known {
    /// Steps have been counted, or batches waited for, since attaching.
    pub has_stepped: bool,
    /// Stacks were seen in the backward pass or the optimizer since attaching.
    pub has_trained: bool,
    /// Whole sets of workers were started again and again, the last two within the restart threshold.
    pub restarts: bool,
    /// Since the last step that was counted, seconds.
    pub since_step_s: Option<f64>,
    /// The longest time between two counted steps so far, seconds.
    pub longest_step_s: f64,
}

/// Where the loop loses its time. Each of them has its own causes.
#[derive(Debug, Clone, Copy)]
pub(in crate::diagnosis) enum Loss<'a> {
    /// It waits for batches of its workers.
    Workers(&'a Workers),
    /// It waits for batches and has no workers.
    InProcess,
    /// Nowhere: the device is busy.
    Busy(&'a Device),
    /// The device runs dry, and batches are not why.
    Dry(&'a Device),
    /// No device is in use, and batches are not waited for.
    NoDevice,
    /// It waits for something that is neither a batch nor the device, and the wait could be followed.
    Wait(Part),
}

impl<'a> Loss<'a> {
    fn of_batches(workers: Option<&'a Workers>) -> Self {
        workers.map_or(Self::InProcess, Self::Workers)
    }
}

/// What a rule looks at.
#[derive(Debug, Clone)]
pub(in crate::diagnosis) struct Case<'a> {
    pub window: &'a Features,
    pub main: &'a LoopThread,
    pub known: Known,
    /// Share of the time lost to waits for batches.
    pub lost: f64,
    pub loss: Loss<'a>,
    /// How sure a cause of this loss can be.
    pub sure: f64,
    /// Judged as if the CPUs were there: what is left to blame without whoever holds them.
    pub undisturbed: bool,
}

/// How sure a lost wait of this size is one: the threshold itself is a coin toss.
pub(super) const LOST: Sureness = Sureness { least: 0.50, most: 0.95, from: LOST_WAIT, to: CLEARLY_LOST };
const BUSY_DEVICE: Sureness = Sureness { least: 0.65, most: 0.95, from: DEVICE_BUSY, to: ALWAYS_BUSY };
const DRY_DEVICE: Sureness = Sureness { least: 0.55, most: 0.95, from: DEVICE_IDLE, to: LARGER_HALF };

thresholds! {
    FOLLOWED = 30.0, "samples", "two seconds of them: a share of 0.3 is known to within 9 points";
    NO_LEAD_AT_ALL = 0.0, "share", "the two are equal";
}

/// How sure it is that the largest group is that, by the part that the second largest is smaller by.
const BY_LEAD: Sureness = Sureness { least: GUESSED.value, most: 1.0, from: NO_LEAD_AT_ALL, to: LARGER_HALF };

/// Whom the loop waits for, where that was followed long enough.
pub(super) fn followed_chain(window: &Features) -> Option<&Chain> {
    window.chain.as_ref().filter(|chain| f64::from(chain.samples) >= FOLLOWED)
}

/// The code stands in collectives meanwhile: what is waited for is other ranks of this run, or the exchange with them.
pub(super) fn is_of_ranks(window: &Features, part: Part) -> bool {
    let collectives = window.main.as_ref().map_or(0.0, |main| main.share(Activity::Collective));
    let lost = window.chain.as_ref().map_or(0.0, |chain| chain.lost(Part::Process));
    part == Part::Process && collectives > LARGER_HALF.value * lost
}

/// What the loop loses time to; the groups add up to no more than its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Group {
    /// Waits for batches, and making them.
    Batches,
    /// Its own work.
    Own,
    /// A wait that was followed to somebody who is no loader and no device.
    Wait(Part),
}

/// The groups, the largest first. Waits that lead to nobody known may be of any kind, so a smaller one is not told beside them.
fn groups(window: &Features) -> Vec<(Group, f64)> {
    let (mut batches, mut own) = (window.lost_wait(), window.lost_work());
    let mut groups = Vec::new();
    if let Some(chain) = followed_chain(window) {
        let unknown = chain.lost(Part::Unknown);
        let waits = super::followed(window).map(|(_, wait)| (wait.part, chain.lost(wait.part)));
        // A loop that streams its data itself waits for batches.
        let loads =
            |lost: f64| window.loop_stacks().is_some_and(|stacks| stacks.loading() > LARGER_HALF.value * lost);
        let waits = waits.filter(|(part, lost)| *lost >= unknown && !(*part == Part::Remote && loads(*lost)));
        groups.extend(waits.map(|(part, lost)| (Group::Wait(part), lost)));
        // Whoever is waited for is the answer where that is for a batch: no second counts twice.
        let all: f64 = chain.ways.iter().map(|way| way.lost).sum();
        let told: f64 = groups.iter().map(|(_, lost)| lost).sum();
        batches = batches.min(all - chain.lost(Part::Own) - told);
        // Two threads that take turns at the interpreter lock leave each half of it: the wait is the smaller part even where it
        // doubles the step.
        if chain.lost(Part::InterpreterLock) >= LOST_WAIT.value {
            own *= LARGER_HALF.value;
        }
    }
    groups.extend([(Group::Batches, batches), (Group::Own, own)]);
    groups.sort_by(|a, b| b.1.total_cmp(&a.1));
    groups
}

impl<'a> Case<'a> {
    pub fn new(window: &'a Features, main: &'a LoopThread, known: Known) -> Self {
        let groups = groups(window);
        let mut largest = groups.iter().copied().filter(|(_, lost)| *lost >= LOST_WAIT);
        let first = largest.next().unwrap_or((Group::Own, 0.0));
        let second = groups.get(1).map_or(0.0, |(_, lost)| *lost);
        let sure = LOST.at(first.1) * BY_LEAD.at(1.0 - second / first.1.max(LOST_WAIT.value));
        let (loss, sure) = match (first.0, &window.gpu) {
            (Group::Batches, _) => (Loss::of_batches(window.workers.as_ref()), sure),
            (Group::Wait(part), _) => {
                let seen = if window.chain.as_ref().is_some_and(|chain| chain.exact) { 1.0 } else { INFERRED.value };
                (Loss::Wait(part), sure * seen)
            }
            (_, Some(gpu)) if gpu.job_busy >= DEVICE_BUSY => (Loss::Busy(gpu), BUSY_DEVICE.at(gpu.job_busy)),
            (_, Some(gpu)) => (Loss::Dry(gpu), DRY_DEVICE.at(1.0 - gpu.job_busy)),
            (_, None) => (Loss::NoDevice, LIKELY.value),
        };
        let lost = if matches!(first.0, Group::Wait(_)) { 0.0 } else { window.lost_wait() };
        Self { window, main, known, lost, loss, sure, undisturbed: false }
    }

    /// The waits for batches, where there are some and something else costs the loop more.
    pub fn beside(&self) -> Option<Self> {
        let thread = followed_chain(self.window).filter(|_| self.waits_for(Part::OwnThread));
        let lost = self.window.lost_wait() - thread.map_or(0.0, |chain| chain.lost(Part::OwnThread));
        let other = matches!(self.loss, Loss::Dry(_) | Loss::NoDevice | Loss::Wait(_)) && lost >= LOST_WAIT;
        let loss = Loss::of_batches(self.window.workers.as_ref());
        other.then(|| Self { loss, lost, sure: LOST.at(lost), ..self.clone() })
    }

    /// The followed waits that are not the largest part and are worth a cause: which, how surely, and in words.
    pub fn waits_beside(&self) -> Vec<(Cause, f64, String)> {
        let Some(chain) = followed_chain(self.window) else {
            return Vec::new();
        };
        let others = super::followed(self.window).filter(|(_, wait)| !self.waits_for(wait.part));
        let waits = others.filter_map(|(cause, wait)| {
            let lost = chain.lost(wait.part);
            let words = super::in_words(self.window, &wait, lost)?;
            (lost >= LOST_WAIT).then(|| (cause, LOST.at(lost), words))
        });
        waits.collect()
    }

    /// A judgement on the case's own loss; `factor` below 1 where a sign is missing.
    pub fn of(&self, cause: Cause, factor: impl Into<f64>) -> Judgement {
        Judgement::of(cause, self.sure * factor.into())
    }

    /// The loop waits for this most of all.
    pub fn waits_for(&self, part: Part) -> bool {
        matches!(self.loss, Loss::Wait(waits) if waits == part)
    }

    /// Share of the time lost to a part of the chain.
    pub fn lost_to(&self, part: Part) -> f64 {
        self.window.chain.as_ref().map_or(0.0, |chain| chain.lost(part))
    }

    /// The workers, where they are waited for.
    pub fn slow_workers(&self) -> Option<&'a Workers> {
        if let Loss::Workers(workers) = self.loss { Some(workers) } else { None }
    }

    /// The device, where it is busy.
    pub fn busy_device(&self) -> Option<&'a Device> {
        if let Loss::Busy(gpu) = self.loss { Some(gpu) } else { None }
    }

    /// The device, where it idles for what the host does. What the host holds back is the idle time outside of waits for the
    /// device: a loop that waits for the device most of the time and lets it idle a little is as good as device-bound.
    pub fn device_kept_idle(&self) -> Option<&'a Device> {
        let shares = &self.main.shares;
        match self.loss {
            Loss::Dry(gpu)
                if 1.0 - gpu.job_busy >= DRY || shares.input_wait >= HARDLY || shares.checkpoint >= HARDLY =>
            {
                Some(gpu)
            }
            _ => None,
        }
    }

    /// The device, where it idles for what the host does: not where the loop waits most of the time, or most of the device's
    /// idle time, for something that could not be told. That is then to be found first.
    pub fn device_idle_by_host(&self) -> Option<&'a Device> {
        let other = self.main.shares.other;
        self.device_kept_idle()
            .filter(|gpu| other < LARGER_HALF.value && gpu.idle.while_other < LARGER_HALF.value * gpu.idle.total)
    }

    /// No device is in use, and the main thread computes.
    pub fn computes_on_cpu(&self) -> bool {
        // A wait for a device that spins looks like computing.
        let spins = self.window.load_unknown();
        matches!(self.loss, Loss::NoDevice) && !spins && self.main.shares.host_busy >= BUSY
    }

    /// CPU use of the trainer, cores.
    pub fn trainer_cores(&self) -> f64 {
        self.main.cpu_pct.unwrap_or(0.0) / 100.0
    }
}
