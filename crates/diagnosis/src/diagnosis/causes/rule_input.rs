//! What a rule is given: a window, and where in it the loop loses its time.

use super::{Cause, Judgement};
use crate::diagnosis::account::{Account, LossGroup};
use crate::diagnosis::features::{Device, Features, LoopThread, PathPart, Workers};
use crate::diagnosis::thresholds::*;

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

/// Where the loop loses its time. Each bottleneck has its own causes.
#[derive(Debug, Clone, Copy)]
pub(in crate::diagnosis) enum Bottleneck<'a> {
    /// It waits for batches of its workers.
    Workers(&'a Workers),
    /// It waits for batches and has no workers.
    InProcess,
    /// It waits for batches, and the tool that recorded it did not record what makes them.
    Unrecorded,
    /// Nowhere: the GPU is busy.
    Busy(&'a Device),
    /// The GPU runs dry, and not for lack of batches.
    Dry(&'a Device),
    /// No GPU is in use, and the loop does not wait for batches.
    NoDevice,
    /// It waits for something that is neither a batch nor the GPU, and the wait could be followed.
    Wait(PathPart),
}

impl<'a> Bottleneck<'a> {
    /// `None` for the loop's own work, which is judged by the GPU.
    fn from_group(window: &'a Features, group: LossGroup) -> Option<Self> {
        match group {
            LossGroup::Batches => Some(match &window.workers {
                Some(workers) => Self::Workers(workers),
                None if window.profiled && !window.makes_its_batches() => Self::Unrecorded,
                None => Self::InProcess,
            }),
            LossGroup::Wait(part) => Some(Self::Wait(part)),
            LossGroup::Own => None,
        }
    }
}

/// What a rule is given.
#[derive(Debug, Clone)]
pub(in crate::diagnosis) struct RuleInput<'a> {
    pub window: &'a Features,
    pub main: &'a LoopThread,
    pub known: Known,
    /// Share of the time lost to waits for batches.
    pub lost: f64,
    pub bottleneck: Bottleneck<'a>,
    pub group: LossGroup,
    pub account: Account,
    /// The most certain that a cause of this bottleneck can be, 0–1.
    pub sure: f64,
    /// Judged as if the CPUs were free: what else is left to blame.
    pub undisturbed: bool,
}

/// Certainty that a wait this long costs anything: at the threshold it is a coin toss.
pub(super) const LOST: ConfidenceRamp = ConfidenceRamp { least: 0.50, most: 0.95, from: LOST_WAIT, to: CLEARLY_LOST };
const BUSY_DEVICE: ConfidenceRamp = ConfidenceRamp { least: 0.65, most: 0.95, from: DEVICE_BUSY, to: ALWAYS_BUSY };
const DRY_DEVICE: ConfidenceRamp = ConfidenceRamp { least: 0.55, most: 0.95, from: DEVICE_IDLE, to: LARGER_HALF };

thresholds! {
    NO_LEAD_AT_ALL = 0.0, "share", "the two are equal";
}

/// Certainty about the largest group, by how much smaller the second group is.
const BY_LEAD: ConfidenceRamp =
    ConfidenceRamp { least: GUESSED.value, most: 1.0, from: NO_LEAD_AT_ALL, to: LARGER_HALF };

impl<'a> RuleInput<'a> {
    pub fn new(window: &'a Features, main: &'a LoopThread, known: Known) -> Self {
        let account = Account::from_window(window);
        let (group, lost, second) = account.largest();
        let lead = BY_LEAD.at(1.0 - second / lost.max(LOST_WAIT.value));
        let (bottleneck, sure) = match (Bottleneck::from_group(window, group), &window.gpu) {
            (Some(bottleneck), _) => (bottleneck, LOST.at(lost) * lead),
            (None, Some(gpu)) if gpu.job_busy >= DEVICE_BUSY => (Bottleneck::Busy(gpu), BUSY_DEVICE.at(gpu.job_busy)),
            (None, Some(gpu)) => (Bottleneck::Dry(gpu), DRY_DEVICE.at(1.0 - gpu.job_busy)),
            (None, None) => (Bottleneck::NoDevice, LIKELY.value),
        };
        let exact = window.chain.as_ref().is_none_or(|chain| chain.exact);
        let sure = if matches!(bottleneck, Bottleneck::Wait(_)) && !exact { sure * INFERRED.value } else { sure };
        let lost = account.lost(LossGroup::Batches);
        Self { window, main, known, lost, bottleneck, group, account, sure, undisturbed: false }
    }

    /// The smaller losses that are worth a cause of their own, with their shares, the largest first.
    pub fn smaller(&self) -> impl Iterator<Item = (Self, f64)> {
        self.account.worth_telling().filter(|(group, _)| *group != self.group).filter_map(|(group, lost)| {
            let bottleneck = Bottleneck::from_group(self.window, group)?;
            Some((Self { bottleneck, group, sure: LOST.at(lost), ..self.clone() }, lost))
        })
    }

    /// Blames a cause of this bottleneck; `factor` is below 1 if a sign is missing.
    pub fn found(&self, cause: Cause, factor: impl Into<f64>) -> Judgement {
        Judgement::new(cause, self.sure * factor.into())
    }

    /// The loop's largest loss is this wait.
    pub fn waits_for(&self, part: PathPart) -> bool {
        matches!(self.bottleneck, Bottleneck::Wait(waits) if waits == part)
    }

    /// Share of the time that is lost to a part of the wait chain.
    pub fn lost_to(&self, part: PathPart) -> f64 {
        self.window.chain.as_ref().map_or(0.0, |chain| chain.lost(part))
    }

    /// The workers, if the loop waits for them.
    pub fn slow_workers(&self) -> Option<&'a Workers> {
        if let Bottleneck::Workers(workers) = self.bottleneck { Some(workers) } else { None }
    }

    /// The GPU, if it is busy.
    pub fn busy_device(&self) -> Option<&'a Device> {
        if let Bottleneck::Busy(gpu) = self.bottleneck { Some(gpu) } else { None }
    }

    /// The GPU, if the host keeps it idle. Only idle time outside waits for the GPU counts: a loop that waits for the GPU most of
    /// the time and lets it idle a little is as good as GPU-bound.
    pub fn device_kept_idle(&self) -> Option<&'a Device> {
        let shares = &self.main.shares;
        match self.bottleneck {
            Bottleneck::Dry(gpu)
                if 1.0 - gpu.job_busy >= DRY || shares.input_wait >= HARDLY || shares.checkpoint >= HARDLY =>
            {
                Some(gpu)
            }
            _ => None,
        }
    }

    /// The same, but not if the loop waits most of the time, or most of the GPU's idle time, for something unknown: that must be
    /// found first.
    pub fn device_idle_by_host(&self) -> Option<&'a Device> {
        let other = self.main.shares.other;
        self.device_kept_idle()
            .filter(|gpu| other < LARGER_HALF.value && gpu.idle.while_other < LARGER_HALF.value * gpu.idle.total)
    }

    /// No GPU is in use, and the loop computes.
    pub fn computes_on_cpu(&self) -> bool {
        // A wait for the GPU that spins looks like computing.
        let spins = self.window.load_unknown();
        matches!(self.bottleneck, Bottleneck::NoDevice) && !spins && self.main.shares.host_busy >= BUSY
    }
}
