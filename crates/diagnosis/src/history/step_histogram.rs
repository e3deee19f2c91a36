//! How the step times of a run are distributed. Only means of intervals are known, so a single slow step among many fast ones does
//! not show: a stall shows in the second that it belongs to.

use super::step_series::StepSeries;

/// Most bins.
const BINS: usize = 10;
/// Part of the steps that may lie beyond the last bin, so that one long pause does not squeeze all others into one.
const BEYOND: f64 = 0.01;

/// Steps with about the same time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StepBin {
    /// From this time on, milliseconds.
    pub from_ms: f64,
    /// Up to this one; the last bin has all that is longer.
    pub to_ms: f64,
    /// Share of the steps, 0–1.
    pub share: f64,
}

/// The step times of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct StepHistogram {
    /// From short to long, without gaps.
    pub bins: Vec<StepBin>,
    /// Half of the steps take no longer, milliseconds.
    pub p50_ms: f64,
    /// 95% of them take no longer.
    pub p95_ms: f64,
}

impl StepHistogram {
    /// The distribution, weighted by steps; `None` without steps.
    pub fn of_series(series: &StepSeries) -> Option<Self> {
        let mut means: Vec<(f64, f64)> = series.means().collect();
        means.sort_by(|a, b| a.0.total_cmp(&b.0));
        let all: f64 = means.iter().map(|(_, steps)| steps).sum();
        let at = |part: f64| {
            let mut sum = 0.0;
            let reaches = |(_, steps): &&(f64, f64)| {
                sum += steps;
                sum >= part * all
            };
            means.iter().find(reaches).or(means.last()).map(|(ms, _)| *ms)
        };
        let (first, last) = (means.first()?.0, at(1.0 - BEYOND)?);
        let width = nice(((last - first) / BINS as f64).max(first * LEAST_WIDTH));
        let begin = (first / width).floor() * width;
        let count = (((last - begin) / width).floor() as usize + 1).clamp(1, BINS + 2);
        let bin = |ms: f64| (((ms - begin) / width).max(0.0) as usize).min(count - 1);
        let mut bins: Vec<StepBin> = (0..count)
            .map(|n| StepBin { from_ms: begin + n as f64 * width, to_ms: begin + (n + 1) as f64 * width, share: 0.0 })
            .collect();
        for (ms, steps) in &means {
            if let Some(bin) = bins.get_mut(bin(*ms)) {
                bin.share += steps / all;
            }
        }
        Some(Self { bins, p50_ms: at(0.5)?, p95_ms: at(0.95)? })
    }
}

/// A bin is at least this part of the shortest step wide: less is within what a clock's rounding does.
const LEAST_WIDTH: f64 = 0.02;

/// The smallest of 1, 2, 5, 10 … or a tenth, hundredth … of one that is at least `v`.
fn nice(v: f64) -> f64 {
    let power = 10f64.powf(v.max(f64::MIN_POSITIVE).log10().floor());
    [1.0, 2.0, 5.0].into_iter().map(|step| step * power).find(|step| *step >= v).unwrap_or(10.0 * power)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn steps_are_shared_out_among_bins() {
        let mut series = StepSeries::default();
        (0..90).for_each(|_| series.add(1.0, 10.0));
        (0..10).for_each(|_| series.add(1.0, 5.0));
        let histogram = StepHistogram::of_series(&series).unwrap();
        assert_eq!((histogram.p50_ms, histogram.p95_ms), (100.0, 200.0));
        assert_eq!((histogram.bins[0].from_ms, histogram.bins[0].to_ms), (100.0, 110.0));
        assert!((histogram.bins[0].share - 900.0 / 950.0).abs() < 1e-9);
        assert_eq!(StepHistogram::of_series(&StepSeries::default()), None);
    }

    proptest! {
        #[test]
        fn any_run_has_few_bins_that_add_up(
            cells in prop::collection::vec((any::<f32>(), any::<f32>()), 0..300),
        ) {
            let mut series = StepSeries::default();
            cells.iter().for_each(|(seconds, steps)| series.add(*seconds, *steps));
            if let Some(histogram) = StepHistogram::of_series(&series) {
                let sum: f64 = histogram.bins.iter().map(|bin| bin.share).sum();
                prop_assert!((sum - 1.0).abs() < 1e-3 && histogram.bins.len() <= BINS + 2, "{histogram:?}");
                prop_assert!(histogram.p50_ms <= histogram.p95_ms);
            }
        }
    }
}
