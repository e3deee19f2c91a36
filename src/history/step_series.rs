//! The steps of a run over its time, and by how much those of two runs differ.

use super::interval::Interval;

/// Most cells: eighteen hours of seconds. Beyond that each holds twice the time.
const CELLS: usize = 1 << 16;
/// Steps that follow each other are alike: a slow disk, a warm cache or a long sample lasts for seconds. So blocks of this many
/// seconds are drawn, not single steps …
const BLOCK_S: f64 = 10.0;
/// … or of so many steps, where they are long.
const BLOCK_STEPS: f64 = 4.0;
/// … or a little less, because seconds are never exactly that long.
const NEARLY: f64 = 0.95;
/// Of fewer blocks their spread is not known.
const FEWEST_BLOCKS: usize = 6;
/// Times that both runs are drawn anew. The spread of so many differs by 2% from that of any number.
const DRAWS: usize = 1000;
/// The same runs always give the same answer.
const SEED: u64 = 0x7261_696E;
/// An interval holds the truth in 99% of cases. This is the quantile of the normal distribution for it, two-sided.
const SURE_99: f64 = 2.575_829_3;

/// Time and steps of a run's intervals, in order.
#[derive(Debug, Clone, Default)]
pub struct StepSeries {
    /// Seconds and steps.
    cells: Vec<(f32, f32)>,
    /// The last cell, and the intervals in it.
    open: (f32, f32, usize),
    /// Intervals in a cell; 0 stands for 1.
    each: usize,
}

/// By how much the steps of a run are longer than those of another.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StepChange {
    /// Mean step time before and after, seconds.
    pub step_s: [f64; 2],
    /// Relative change: 0.05 is 5% longer.
    pub change: f64,
    /// The ends of its 99% interval.
    pub low: f64,
    /// See [`Self::low`].
    pub high: f64,
}

/// Why steps cannot be compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotCompared {
    /// This run, 0 or 1, has no steps.
    NoSteps(usize),
    /// This run is too short.
    TooShort(usize),
}

impl StepSeries {
    /// Adds an interval, if it belongs to training and its steps are known.
    pub(super) fn push(&mut self, interval: &Interval) {
        if let Some((seconds, steps)) = interval.trained() {
            self.add(seconds, steps);
        }
    }

    /// Adds so many seconds with so many steps.
    pub fn add(&mut self, seconds: f32, steps: f32) {
        if !(seconds > 0.0 && seconds.is_finite() && steps >= 0.0 && steps.is_finite()) {
            return;
        }
        let (so_far_s, so_far, intervals) = self.open;
        self.open = (so_far_s + seconds, so_far + steps, intervals + 1);
        if self.open.2 >= self.each.max(1) {
            let (seconds, steps, _) = std::mem::take(&mut self.open);
            self.cells.push((seconds, steps));
        }
        if self.cells.len() >= CELLS {
            self.each = self.each.max(1) * 2;
            self.cells = self.cells.chunks(2).map(sum).collect();
        }
    }

    /// Seconds for which steps are known.
    pub fn known_s(&self) -> f64 {
        total(self.cells.iter().copied()).0
    }

    /// Mean time of a step, seconds.
    pub fn mean_s(&self) -> Option<f64> {
        let (seconds, steps) = total(self.cells.iter().copied());
        (steps > 0.0 && seconds > 0.0).then(|| seconds / steps)
    }

    /// Seconds and steps in blocks that differ from each other as little as chance allows.
    fn blocks(&self) -> Vec<(f64, f64)> {
        let wanted_s = BLOCK_S.max(BLOCK_STEPS * self.mean_s().unwrap_or(0.0));
        let mut blocks: Vec<(f64, f64)> = Vec::new();
        let mut open = (0.0, 0.0);
        for (seconds, steps) in &self.cells {
            open = (open.0 + f64::from(*seconds), open.1 + f64::from(*steps));
            if open.0 >= NEARLY * wanted_s {
                blocks.push(std::mem::take(&mut open));
            }
        }
        // The rest is too short for a block, but belongs to the run.
        if let Some(last) = blocks.last_mut() {
            *last = (last.0 + open.0, last.1 + open.1);
        }
        blocks
    }

    /// How the steps of `after` differ from these.
    ///
    /// # Errors
    /// Why that cannot be told.
    pub fn change_to(&self, after: &Self) -> Result<StepChange, NotCompared> {
        let runs = [self, after];
        let of = |run: usize| runs.get(run).and_then(|run| run.mean_s()).ok_or(NotCompared::NoSteps(run));
        let step_s = [of(0)?, of(1)?];
        let blocks = runs.map(Self::blocks);
        if let Some(short) = blocks.iter().position(|blocks| blocks.len() < FEWEST_BLOCKS) {
            return Err(NotCompared::TooShort(short));
        }
        let mut random = fastrand::Rng::with_seed(SEED);
        let spreads = blocks.each_ref().map(|blocks| spread(blocks, &mut random));
        let logarithm = (step_s[1] / step_s[0]).ln();
        let half: f64 = spreads.iter().map(|spread| spread * spread).sum::<f64>().sqrt();
        let half = half * student(blocks.iter().map(Vec::len).min().unwrap_or(2));
        let end = |at: f64| at.exp() - 1.0;
        Ok(StepChange { step_s, change: end(logarithm), low: end(logarithm - half), high: end(logarithm + half) })
    }
}

/// The standard deviation of the logarithm of the mean step time, over runs made of blocks that are drawn from this one.
fn spread(blocks: &[(f64, f64)], random: &mut fastrand::Rng) -> f64 {
    let drawn = (0..DRAWS).filter_map(|_| {
        let picked = (0..blocks.len()).filter_map(|_| blocks.get(random.usize(..blocks.len())));
        let (seconds, steps) = picked.fold((0.0, 0.0), |sum, block| (sum.0 + block.0, sum.1 + block.1));
        (steps > 0.0).then(|| (seconds / steps).ln())
    });
    let drawn: Vec<f64> = drawn.collect();
    let count = drawn.len().max(2) as f64;
    let mean = drawn.iter().sum::<f64>() / count;
    let variance = drawn.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0);
    // What is drawn from n blocks varies by (n − 1)/n of what new blocks would.
    let blocks = blocks.len() as f64;
    (variance * blocks / (blocks - 1.0)).sqrt()
}

/// Student's quantile for [`SURE_99`] of so many values, by the expansion of Cornish and Fisher (Abramowitz and Stegun, 26.7.5).
fn student(values: usize) -> f64 {
    let free = values.saturating_sub(1).max(1) as f64;
    let z = SURE_99;
    z + (z.powi(3) + z) / (4.0 * free)
        + (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / (96.0 * free.powi(2))
        + (3.0 * z.powi(7) + 19.0 * z.powi(5) + 17.0 * z.powi(3) - 15.0 * z) / (384.0 * free.powi(3))
}

fn sum(cells: &[(f32, f32)]) -> (f32, f32) {
    cells.iter().fold((0.0, 0.0), |sum, cell| (sum.0 + cell.0, sum.1 + cell.1))
}

fn total(cells: impl Iterator<Item = (f32, f32)>) -> (f64, f64) {
    cells.fold((0.0, 0.0), |sum, (seconds, steps)| (sum.0 + f64::from(seconds), sum.1 + f64::from(steps)))
}

#[cfg(test)]
mod tests {
    use super::super::interval::WatchedTime;
    use super::super::timeline::Compact;
    use super::*;
    use crate::diagnosis::verdict::Phase;

    /// A run of so many seconds with steps of `step_s`, that vary by `noise` from second to second, and as much from ten
    /// seconds to ten seconds.
    fn run(seconds: usize, step_s: f64, noise: f64, seed: u64) -> StepSeries {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut series = StepSeries::default();
        let (mut slow, mut left) = (1.0, 0.0);
        for second in 0..seconds {
            if second % 10 == 0 {
                slow = 1.0 + noise * (random.f64() - 0.5);
            }
            left += 1.0 / (step_s * slow * (1.0 + noise * (random.f64() - 0.5)));
            let steps = f64::floor(left);
            left -= steps;
            series.push(&interval(1.0, Some(steps), Phase::Training));
        }
        series
    }

    fn interval(seconds: f64, steps: Option<f64>, phase: Phase) -> Interval {
        let time = WatchedTime { seconds, ..WatchedTime::default() };
        Interval { time, steps: Compact::new(steps), phase, ..Interval::default() }
    }

    #[test]
    fn a_change_is_found_with_its_size() {
        let change = run(120, 0.1, 0.2, 1).change_to(&run(120, 0.11, 0.2, 2)).unwrap();
        assert!((0.06..0.14).contains(&change.change) && change.low > 0.0 && change.high < 0.2, "{change:?}");
        let [before, after] = change.step_s;
        assert!((before - 0.1).abs() < 0.005 && (after - 0.11).abs() < 0.005);
        let back = run(120, 0.11, 0.2, 2).change_to(&run(120, 0.1, 0.2, 1)).unwrap();
        assert!(back.high < 0.0 && ((1.0 + back.change) * (1.0 + change.change) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn an_interval_holds_the_truth_as_often_as_it_says() {
        let holds = |seed| {
            let change = run(120, 0.1, 0.4, seed).change_to(&run(120, 0.1, 0.4, seed + 1000)).unwrap();
            change.low <= 0.0 && change.high >= 0.0
        };
        let missed = (0..400).filter(|seed| !holds(*seed)).count();
        assert!(missed <= 9, "99% of 400 runs: {missed} missed");
    }

    #[test]
    fn what_has_no_steps_or_is_short_is_not_compared() {
        let long = run(120, 0.1, 0.1, 1);
        let mut without = StepSeries::default();
        for phase in [Phase::Init, Phase::Training] {
            without.push(&interval(1.0, if phase == Phase::Init { Some(10.0) } else { None }, phase));
        }
        assert_eq!(long.change_to(&without), Err(NotCompared::NoSteps(1)));
        assert_eq!(run(30, 0.1, 0.1, 1).change_to(&long), Err(NotCompared::TooShort(0)));
        // 20 steps of 6 seconds are five blocks of four.
        assert_eq!(long.change_to(&run(120, 6.0, 0.0, 1)), Err(NotCompared::TooShort(1)));
    }

    #[test]
    fn a_long_run_takes_bounded_memory_and_keeps_its_mean() {
        let mut series = StepSeries::default();
        for second in 0..(CELLS * 3) {
            series.push(&interval(1.0, Some((second % 4) as f64), Phase::Training));
        }
        assert!(series.cells.len() <= CELLS);
        assert!((series.mean_s().unwrap() - 1.0 / 1.5).abs() < 1e-3);
    }

    #[test]
    fn students_quantile_is_that_of_the_tables() {
        for (values, tabled) in [(6, 4.032), (12, 3.106), (31, 2.750), (121, 2.617)] {
            assert!((student(values) - tabled).abs() < 0.02 * tabled, "{values}: {}", student(values));
        }
    }
}
