//! What a rule is given: a window, and where in it the loop loses its time.

use super::{Cause, Judgment};
use crate::diagnosis::account::{Account, OF_TWO};
use crate::diagnosis::features::{Device, Features, LoopThread, Workers};
use crate::diagnosis::thresholds::*;
use trainmon_waits::taxonomy::Purpose;

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
    /// How long stacks have shown nothing but a validation, seconds.
    pub validated_s: f64,
}

/// What a rule is given.
#[derive(Debug, Clone)]
pub(in crate::diagnosis) struct RuleInput<'a> {
    pub window: &'a Features,
    pub main: &'a LoopThread,
    pub known: Known,
    /// Share of the time lost to waits for batches.
    pub lost: f64,
    /// What the loop loses its time to. Each of these bottlenecks has its own causes.
    pub purpose: Purpose,
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
        let (purpose, lost, second) = account.largest();
        let lead = BY_LEAD.at(1.0 - second / lost.max(LOST_WAIT.value));
        let sure = match (purpose, &window.gpu) {
            (Purpose::Own, Some(gpu)) if gpu.job_busy >= DEVICE_BUSY => BUSY_DEVICE.at(gpu.job_busy),
            (Purpose::Own, Some(gpu)) => DRY_DEVICE.at(1.0 - gpu.job_busy),
            (Purpose::Own, None) => LIKELY.value,
            _ => LOST.at(lost) * lead,
        };
        let lost = account.lost(Purpose::Batch);
        let mut input = Self { window, main, known, lost, purpose, account, sure, undisturbed: false };
        if input.waits_elsewhere() && !window.chain.as_ref().is_none_or(|chain| chain.exact) {
            input.sure *= INFERRED.value;
        }
        input
    }

    /// The smaller losses that are worth a cause of their own, with their shares, the largest first.
    pub fn smaller(&self) -> impl Iterator<Item = (Self, f64)> {
        let others = self
            .account
            .worth_telling()
            .filter(|(purpose, lost)| *purpose != self.purpose && (*purpose != Purpose::Own || *lost >= OF_TWO));
        others.map(|(purpose, lost)| (Self { purpose, sure: LOST.at(lost), ..self.clone() }, lost))
    }

    /// Blames a cause of this bottleneck; `factor` is below 1 if a sign is missing.
    pub fn found(&self, cause: Cause, factor: impl Into<f64>) -> Judgment {
        Judgment::new(cause, self.sure * factor.into())
    }

    /// The loop's largest loss is this wait.
    pub fn waits_for(&self, purpose: Purpose) -> bool {
        self.purpose == purpose
    }

    /// It waits for something that is neither a batch nor the GPU, and the wait could be followed.
    pub fn waits_elsewhere(&self) -> bool {
        !matches!(self.purpose, Purpose::Batch | Purpose::Own)
    }

    /// Share of the time that is lost to a part of the wait chain.
    pub fn lost_to(&self, purpose: Purpose) -> f64 {
        self.window.chain.as_ref().map_or(0.0, |chain| chain.lost(purpose))
    }

    /// The workers, if the loop waits for their batches.
    pub fn slow_workers(&self) -> Option<&'a Workers> {
        if self.purpose == Purpose::Batch { self.window.workers.as_ref() } else { None }
    }

    /// It waits for batches, and the tool that recorded it did not record what makes them.
    pub fn is_unrecorded(&self) -> bool {
        let unrecorded = self.window.profiled && !self.window.makes_its_batches();
        self.purpose == Purpose::Batch && self.window.workers.is_none() && unrecorded
    }

    /// It waits for batches and has no workers.
    pub fn loads_in_process(&self) -> bool {
        self.purpose == Purpose::Batch && self.window.workers.is_none() && !self.is_unrecorded()
    }

    /// The GPU, if the loop loses time to its own work alone.
    pub fn device(&self) -> Option<&'a Device> {
        if self.purpose == Purpose::Own { self.window.gpu.as_ref() } else { None }
    }

    /// The GPU, if it is busy: the loop loses nothing.
    pub fn busy_gpu(&self) -> Option<&'a Device> {
        self.device().filter(|gpu| gpu.job_busy >= DEVICE_BUSY)
    }

    /// The GPU, if it runs dry, and not for lack of batches.
    pub fn dry_device(&self) -> Option<&'a Device> {
        self.device().filter(|gpu| gpu.job_busy < DEVICE_BUSY)
    }

    /// No GPU is in use, and the loop does not wait for batches.
    pub fn has_no_device(&self) -> bool {
        self.purpose == Purpose::Own && self.window.gpu.is_none()
    }

    /// The GPU, if the host keeps it idle. Only idle time outside waits for the GPU counts: a loop that waits for the GPU most of
    /// the time and lets it idle a little is as good as GPU-bound.
    pub fn gpu_kept_idle(&self) -> Option<&'a Device> {
        let shares = &self.main.shares;
        let is_kept =
            |gpu: &&Device| 1.0 - gpu.job_busy >= DRY || shares.input_wait >= HARDLY || shares.checkpoint >= HARDLY;
        self.dry_device().filter(is_kept)
    }

    /// The same, but not if the loop waits most of the time, or most of the GPU's idle time, for something unknown: that must be
    /// found first.
    pub fn gpu_idle_by_host(&self) -> Option<&'a Device> {
        let other = self.main.shares.other;
        self.gpu_kept_idle()
            .filter(|gpu| other < LARGER_HALF.value && gpu.idle.while_other < LARGER_HALF.value * gpu.idle.total)
    }

    /// No GPU is in use, and the loop computes.
    pub fn computes_on_cpu(&self) -> bool {
        // A wait for the GPU that spins looks like computing.
        let spins = self.window.load_unknown();
        self.has_no_device() && !spins && self.main.shares.host_busy >= BUSY
    }
}
