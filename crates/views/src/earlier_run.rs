//! An earlier run of the same job: how long its steps took, and whether they take more or less time now.

use std::cmp::Ordering;

use trainmon_diagnosis::history::step_series::StepSeries;
use trainmon_libraries::StepUnit;

/// Steps are compared once both runs have trained for this long, seconds: the warm-up of a run says little.
const TRAINED_S: f64 = 10.0;
/// They are compared again after this much more training, seconds.
const AGAIN_S: f64 = 5.0;
/// Step times that differ by no more count as equal, as in a comparison of two recordings.
const SAME: f64 = 0.03;

/// The steps of an earlier run.
#[derive(Debug, Clone, Default)]
pub struct EarlierRun {
    /// How long they took.
    pub steps: StepSeries,
    /// What was counted.
    pub unit: StepUnit,
}

impl EarlierRun {
    /// The mean time of a step, milliseconds.
    pub fn step_ms(&self) -> Option<f64> {
        self.steps.mean_s().map(|seconds| seconds * 1000.0)
    }
}

/// An earlier run, and how this one compares with it.
#[derive(Debug, Clone, Default)]
pub struct Before {
    /// The earlier run.
    pub run: EarlierRun,
    /// What is said of the difference, and whether steps take less time now, more, or as much.
    pub change: Option<(String, Ordering)>,
    /// Seconds of training of this run that the change was told from.
    told_after_s: f64,
}

impl Before {
    /// Steps of an earlier run to compare with.
    pub fn new(run: EarlierRun) -> Self {
        Self { run, ..Self::default() }
    }

    /// Compares with this run again, if it has trained for long enough since the last time.
    pub fn compare(&mut self, now: &StepSeries, unit: StepUnit) {
        let trained_s = now.known_s();
        let is_known = trained_s >= TRAINED_S && self.run.steps.known_s() >= TRAINED_S;
        if !is_known || unit != self.run.unit || trained_s - self.told_after_s < AGAIN_S {
            return;
        }
        self.told_after_s = trained_s;
        self.change = self.run.steps.change_to(now).ok().and_then(|change| {
            let is_sure = change.interval.is_none_or(|[low, high]| low > 0.0 || high < 0.0);
            let percent = format!("{:.0}%", change.change.abs() * 100.0);
            let each = unit.each();
            match change.change {
                c if c.abs() <= SAME => Some(("as fast as before".to_owned(), Ordering::Equal)),
                _ if !is_sure => None,
                c if c < 0.0 => Some((format!("{percent} less time {each} than before"), Ordering::Less)),
                _ => Some((format!("{percent} more time {each} than before"), Ordering::Greater)),
            }
        });
    }
}

/// Whether steps take more or less time than at the beginning of the time shown.
pub fn trend(change: f32) -> String {
    let percent = format!("{:.0}%", change.abs() * 100.0);
    match change {
        c if c.abs() < SAME_RATE => "steady".to_owned(),
        c if c < 0.0 => format!("{percent} faster"),
        _ => format!("{percent} slower"),
    }
}

/// Step times that change by less are steady: a rate over twelve seconds varies by as much.
const SAME_RATE: f32 = 0.05;

#[cfg(test)]
mod tests {
    use super::*;

    fn series(per_s: f32, seconds: usize) -> StepSeries {
        let mut series = StepSeries::default();
        (0..seconds).for_each(|_| series.add(1.0, per_s));
        series
    }

    fn told(before: f32, now: f32, seconds: usize, unit: StepUnit) -> Option<String> {
        let mut compared = Before::new(EarlierRun { steps: series(before, 120), unit: StepUnit::Step });
        compared.compare(&series(now, seconds), unit);
        compared.change.map(|(words, _)| words)
    }

    #[test]
    fn the_difference_is_said_once_it_is_known() {
        let steps = |before, now, seconds| told(before, now, seconds, StepUnit::Step);
        assert_eq!(steps(10.0, 14.5, 60).as_deref(), Some("31% less time a step than before"));
        assert_eq!(steps(10.0, 9.0, 60).as_deref(), Some("11% more time a step than before"));
        assert_eq!(steps(10.0, 10.1, 60).as_deref(), Some("as fast as before"));
        assert_eq!(steps(10.0, 20.0, 5), None, "too early");
        assert_eq!(told(10.0, 20.0, 60, StepUnit::Token), None, "another unit");
    }
}
