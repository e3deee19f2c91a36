//! Parts of a verdict that features, causes and outputs share.

use std::fmt;

use serde::{Deserialize, Serialize};

use trainmon_base::stats::{percent, round};
use trainmon_base::text::format::step_time;

/// Share of the time in which the job's GPUs were idle, by what the loop did meanwhile.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct GpuIdle {
    /// All of it.
    pub total: f64,
    /// While the loop waited for data.
    pub while_input_wait: f64,
    /// While it did its own work.
    pub while_host_busy: f64,
    /// While it waited for the GPU.
    pub while_sync: f64,
    /// While it did anything else.
    pub while_other: f64,
}

/// A function with its share of the time.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Hottest {
    /// Its name.
    pub function: String,
    /// Its file.
    pub file: String,
    /// Its line; null if it is not known.
    #[serde(default, with = "line_or_null")]
    pub line: u32,
    /// Its share of the time, 0–1.
    pub share: f64,
}

/// Lines as JSON: code without line numbers has line 0, which is null.
mod line_or_null {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    pub fn serialize<S: Serializer>(line: &u32, serializer: S) -> Result<S::Ok, S::Error> {
        Some(*line).filter(|line| *line > 0).serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
        Ok(Option::deserialize(deserializer)?.unwrap_or(0))
    }
}

/// `decode_image (work.py:22)`.
impl fmt::Display for Hottest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.function, self.at())
    }
}

impl Hottest {
    /// Its file and line: `work.py:22`; only the file if the line is not known.
    pub fn at(&self) -> String {
        if self.line == 0 { self.file.clone() } else { format!("{}:{}", self.file, self.line) }
    }

    /// The same with its share: `decode_image (work.py:22, 61%)`.
    pub(super) fn with_share(&self) -> String {
        format!("{} ({}, {})", self.function, self.at(), percent(self.share))
    }
}

/// Share of a worker's time by stage.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Stages {
    /// Reading samples.
    pub load: f64,
    /// Decoding them.
    pub decode: f64,
    /// The user's transforms.
    pub transform: f64,
    /// Collating them into batches.
    pub collate: f64,
    /// Moving batches to the loop.
    pub hand_over: f64,
}

/// A worker's time budget; the four shares add up to 1.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct WorkerVerdict {
    /// Its PID.
    pub pid: u32,
    /// On a CPU.
    pub busy: Option<f64>,
    /// Waiting for data.
    pub io_wait: Option<f64>,
    /// Queueing for a CPU.
    pub runnable: Option<f64>,
    /// With nothing to do.
    pub idle: Option<f64>,
    /// Batches it makes per second.
    pub batches_per_s: Option<f64>,
    /// Share of its time by stage, if stacks were read.
    pub stages: Option<Stages>,
    /// Its hottest function, if stacks were read.
    pub hottest: Option<Hottest>,
}

/// The smallest gain that is shown as a number of times: less is within the noise of a step's length.
const SMALLEST_SHOWN: f64 = 1.05;
/// The largest one: a share of 90% is measured to a point or two, so its bound lies between 8 and 12 times.
pub(super) const MOST_TIMES: f64 = 10.0;

/// Something to do.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Advice {
    /// What to do: short, imperative.
    pub title: String,
    /// Why it helps.
    pub why: String,
    /// Upper bound of the speed-up.
    pub speedup_at_most: Option<f64>,
    /// The step time to expect, milliseconds.
    pub predicted_step_ms: Option<f64>,
}

impl Advice {
    /// What it can gain: `up to 1.7× faster`. Above ten times, a bound says no more than that nearly all of a step may go, so the
    /// share is told: `saves up to 97% of a step`.
    pub fn gain(&self) -> Option<String> {
        let times = self.speedup_at_most.filter(|times| times.is_finite())?;
        Some(match times {
            times if times < SMALLEST_SHOWN => format!("less than {} faster", percent(SMALLEST_SHOWN - 1.0)),
            times if times > MOST_TIMES => format!("saves up to {} of a step", percent(1.0 - 1.0 / times)),
            times => format!("up to {times:.1}× faster"),
        })
    }

    /// The mean step time to expect: `0.76 s a step`.
    pub fn step(&self) -> Option<String> {
        self.predicted_step_ms.filter(|ms| ms.is_finite()).map(|ms| format!("{} a step", step_time(ms)))
    }

    /// Gain and step time on one line: `up to 1.7× faster · 0.76 s a step`; `None` where nothing is promised.
    pub fn worth(&self) -> Option<String> {
        match (self.gain(), self.step()) {
            (Some(gain), Some(step)) if gain.starts_with("saves") => Some(format!("{gain}, which leaves {step}")),
            (gain, step) => {
                let parts: Vec<_> = gain.into_iter().chain(step).collect();
                (!parts.is_empty()).then(|| parts.join(" · "))
            }
        }
    }

    /// Makes the expected step time agree with the other numbers: not shorter than `step_s`, the mean step now, divided by the
    /// bound of the speed-up. It is a mean too. Where a few long steps make the mean, it may exceed the median that is
    /// shown beside it, `median_ms`: then it is left out.
    pub(super) fn agree_with(&mut self, step_s: f64, median_ms: Option<f64>) {
        if let (Some(ms), Some(speedup)) = (self.predicted_step_ms, self.speedup_at_most) {
            let ms = ms.max(1000.0 * step_s / speedup);
            self.predicted_step_ms = Some(round(ms, 1)).filter(|ms| median_ms.is_none_or(|median| *ms < median));
        }
    }

    /// Lowers the bound of the speed-up, to 1 at least: nothing is gained.
    pub(super) fn limit(&mut self, bound: f64) {
        let most = self.speedup_at_most.unwrap_or(f64::INFINITY);
        self.speedup_at_most = Some(round(bound.min(most), 2).max(1.0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn advice(speedup_at_most: Option<f64>, predicted_step_ms: Option<f64>) -> Advice {
        Advice { speedup_at_most, predicted_step_ms, ..Advice::default() }
    }

    #[test]
    fn a_gain_is_a_number_that_can_be_believed() {
        for (times, words) in [
            (None, None),
            (Some(f64::INFINITY), None),
            (Some(1.0), Some("less than 5% faster")),
            (Some(1.05), Some("up to 1.1× faster")),
            (Some(1.71), Some("up to 1.7× faster")),
            (Some(10.0), Some("up to 10.0× faster")),
            (Some(31.0), Some("saves up to 97% of a step")),
            (Some(100.0), Some("saves up to 99% of a step")),
        ] {
            assert_eq!(advice(times, None).gain().as_deref(), words, "{times:?}");
        }
    }

    #[test]
    fn a_target_is_neither_faster_than_the_bound_nor_slower_than_the_median() {
        let target = |ms, median| {
            let mut advice = advice(Some(2.0), Some(ms));
            advice.agree_with(0.1, median);
            advice.predicted_step_ms
        };
        assert_eq!(target(30.0, None), Some(50.0), "half of the mean step");
        assert_eq!(target(60.0, Some(90.0)), Some(60.0));
        assert_eq!(target(60.0, Some(44.0)), None, "a few long steps make the mean");
    }

    #[test]
    fn nothing_is_gained_at_least() {
        let mut one = advice(Some(1.8), None);
        one.limit(0.7);
        assert_eq!(one.speedup_at_most, Some(1.0));
    }
}
