//! What to do first, what then, and what limits the loop in the end: the limits of a window in the order of what they cost, each with
//! the step time that is left without it and those before.

use serde::{Deserialize, Serialize};

use super::account::OF_TWO;
use super::advice::first_title;
use super::causes::{Cause, Judgment};
use super::ceiling::WORTH_TUNING;
use super::features::Features;
use super::parts::Advice;
use super::thresholds::*;
use trainmon_base::stats::round;
use trainmon_base::text::format::step_time;
use trainmon_libraries::StepUnit;

/// One thing to do, after those before it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PlanStep {
    /// What to do: short, imperative.
    pub title: String,
    /// The mean step time then, milliseconds, at best; null if steps are not counted.
    pub step_ms: Option<f64>,
    /// How many times faster than now, at most.
    pub speedup_at_most: f64,
}

impl PlanStep {
    /// What is left then: `83 ms a step at best, 1.5× faster than now`.
    pub fn left(&self, unit: StepUnit) -> String {
        match self.step_ms.filter(|ms| ms.is_finite()) {
            Some(ms) => {
                format!("{} {} at best, {:.1}× faster than now", step_time(ms), unit.each(), self.speedup_at_most)
            }
            None => format!("up to {:.1}× faster than now", self.speedup_at_most),
        }
    }
}

/// The plan of a verdict with this advice. Empty if the first advice promises no number, and where there is only one thing to do.
pub(super) fn plan(judgment: &Judgment, advice: &[Advice], window: &Features) -> Vec<PlanStep> {
    let Some((first, gain)) = advice.first().and_then(|first| Some((first, first.speedup_at_most?))) else {
        return Vec::new();
    };
    let step_ms = window.steps.rate().filter(|rate| *rate > 0.0).map(|rate| 1000.0 / rate);
    let step = |title: String, speedup: f64| PlanStep {
        title,
        step_ms: step_ms.map(|now| round(now / speedup, 1)),
        speedup_at_most: round(speedup, 2),
    };
    let mut plan = vec![step(first.title.clone(), gain)];
    let mut lost = 1.0 - 1.0 / gain;
    // The model's own computing does not vanish.
    let model = window.loop_stacks().filter(|_| window.gpu.is_none()).map_or(0.0, |stacks| stacks.shares.of_model());
    let limits = judgment.others.iter().filter_map(|other| Some((other, other.cause?, other.share?)));
    let by_first = lost;
    // What the loop does beside its model is the first thing to do already.
    let is_first = |cause: Cause, share: f64| {
        let beside = judgment.cause == Some(Cause::CpuTraining) && cause == Cause::MainThread;
        beside && by_first >= LARGER_HALF.value * share
    };
    // Threads wait for the interpreter lock because of what the other limits are.
    let is_whole = |cause: Cause| !matches!(cause, Cause::GilContention | Cause::CpuTraining);
    let limits = limits.filter(|(_, cause, share)| *share >= OF_TWO && is_whole(*cause) && !is_first(*cause, *share));
    for (other, cause, share) in limits {
        lost = (lost + share).min((1.0 - model).max(lost));
        let title = first_title(cause.spec_in(other.class).for_window(window), window);
        let speedup = window.without(lost.min(1.0));
        let before = plan.last().map_or(1.0, |last| last.speedup_at_most);
        if let Some(title) = title.filter(|_| speedup >= (1.0 + WORTH_TUNING.value) * before) {
            plan.push(step(title, speedup));
        }
    }
    if plan.len() > 1 { plan } else { Vec::new() }
}
