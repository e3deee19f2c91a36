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
/// Of fewer steps of a profile their spread is not known. A profile lasts for a second, so its steps are drawn, not blocks of seconds …
const FEWEST_STEPS: usize = 3;
/// … or blocks of so many steps, from so many blocks on.
const STEPS_OF_BLOCK: usize = 4;
/// How much longer runs would have to be is not said beyond this, seconds: shorter ones are no use then.
const MOST_NEEDED_S: f64 = 3600.0;
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
    /// The ends of its 99% interval. Of short runs they are not known.
    pub interval: Option<[f64; 2]>,
    /// The run, 0 or 1, that is too short for an interval.
    pub too_short: Option<usize>,
    noise: Noise,
}

/// How much the mean step times vary, and over how much training.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Noise {
    /// Standard deviation of the logarithm of the change; `None` if the runs are too short for a guess.
    deviation: Option<f64>,
    /// Blocks of the shorter run.
    blocks: f64,
    /// Seconds of the longer run.
    known_s: f64,
    /// Seconds that a run needs for an interval.
    least_s: f64,
}

/// A run, 0 or 1, that has no steps: nothing can be compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoSteps(pub usize);

impl StepChange {
    /// Seconds of training that each of two runs which vary as much would need, so that the interval keeps off from one of these
    /// changes: 0.05 is 5% longer. `None` if it is more than an hour.
    pub fn needed_s(&self, changes: &[f64]) -> Option<f64> {
        let Noise { deviation, blocks, known_s, least_s } = self.noise;
        let logarithm = self.change.ln_1p();
        let distances = changes.iter().map(|change| (change.ln_1p() - logarithm).abs());
        let distance = distances.fold(0.0, f64::max);
        let Some(deviation) = deviation else { return Some(least_s) };
        // Twice the blocks vary by half of the square.
        let half = |times: f64| deviation / times.sqrt() * student(blocks * times);
        let longest = MOST_NEEDED_S / known_s;
        let mut times = (least_s / known_s).max(1.0);
        while half(times) >= distance {
            times *= 1.1;
            if times > longest {
                return None;
            }
        }
        Some(times * known_s)
    }

    /// How the steps of a profile differ from those of another, by the length of each, seconds.
    ///
    /// # Errors
    /// A profile has no steps.
    pub fn of_profiles(lengths_s: [&[f64]; 2]) -> Result<Self, NoSteps> {
        let mean = |run: usize| {
            let lengths = lengths_s.get(run).copied().unwrap_or_default();
            let mean = lengths.iter().sum::<f64>() / lengths.len() as f64;
            if mean > 0.0 && mean.is_finite() { Ok(mean) } else { Err(NoSteps(run)) }
        };
        let step_s = [mean(0)?, mean(1)?];
        let too_short = lengths_s.iter().position(|lengths| lengths.len() < FEWEST_STEPS);
        let blocks = lengths_s.map(|lengths| {
            let many = lengths.len() >= STEPS_OF_BLOCK * FEWEST_BLOCKS;
            let block = lengths.chunks(if many { STEPS_OF_BLOCK } else { 1 });
            block.map(|steps| (steps.iter().sum(), steps.len() as f64)).collect::<Vec<_>>()
        });
        let known_s = lengths_s.map(|lengths| lengths.iter().sum::<f64>()).into_iter().fold(0.0, f64::max);
        let least_s = step_s.into_iter().fold(0.0, f64::max) * FEWEST_STEPS as f64;
        Ok(Self::of_blocks(step_s, &blocks, too_short, [known_s, least_s]))
    }

    fn of_blocks(
        step_s: [f64; 2],
        blocks: &[Vec<(f64, f64)>; 2],
        too_short: Option<usize>,
        [known_s, least_s]: [f64; 2],
    ) -> Self {
        let count = blocks.iter().map(Vec::len).min().unwrap_or(0) as f64;
        let noise = Noise { deviation: deviation(blocks), blocks: count, known_s, least_s };
        let [before, after] = step_s;
        let logarithm = (after / before).ln();
        let deviation = if too_short.is_none() { noise.deviation } else { None };
        let interval = deviation.map(|deviation| {
            let half = deviation * student(noise.blocks);
            [logarithm - half, logarithm + half].map(f64::exp_m1)
        });
        Self { step_s, change: logarithm.exp_m1(), interval, too_short, noise }
    }
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

    /// Mean step time of each interval in which steps ended, milliseconds, and how many did.
    pub fn means(&self) -> impl Iterator<Item = (f64, f64)> {
        let mean =
            |(seconds, steps): &(f32, f32)| (f64::from(*seconds) / f64::from(*steps) * 1000.0, f64::from(*steps));
        self.cells.iter().filter(|(_, steps)| *steps > 0.0).map(mean).filter(|(ms, _)| ms.is_finite())
    }

    /// Mean time of a step, seconds.
    pub fn mean_s(&self) -> Option<f64> {
        let (seconds, steps) = total(self.cells.iter().copied());
        (steps > 0.0 && seconds > 0.0).then(|| seconds / steps)
    }

    /// The least seconds of a block.
    fn block_s(&self) -> f64 {
        BLOCK_S.max(BLOCK_STEPS * self.mean_s().unwrap_or(0.0))
    }

    /// Seconds and steps in blocks of so many seconds.
    fn blocks(&self, wanted_s: f64) -> Vec<(f64, f64)> {
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
    /// A run has no steps.
    pub fn change_to(&self, after: &Self) -> Result<StepChange, NoSteps> {
        let runs = [self, after];
        let of = |run: usize| runs.get(run).and_then(|run| run.mean_s()).ok_or(NoSteps(run));
        let step_s = [of(0)?, of(1)?];
        let mut blocks = runs.map(|run| run.blocks(run.block_s()));
        let too_short = blocks.iter().position(|blocks| blocks.len() < FEWEST_BLOCKS);
        if too_short.is_some() {
            // Good enough for a guess at how much more it takes.
            blocks = runs.map(|run| run.blocks(run.block_s().min(run.known_s() / FEWEST_BLOCKS as f64)));
        }
        let longest = |of: fn(&Self) -> f64| runs.map(of).into_iter().fold(0.0, f64::max);
        let times_s = [longest(Self::known_s), longest(Self::block_s) * FEWEST_BLOCKS as f64];
        Ok(StepChange::of_blocks(step_s, &blocks, too_short, times_s))
    }
}

/// The standard deviation of the logarithm of the change between two runs, each in blocks; `None` where there are too few.
fn deviation(blocks: &[Vec<(f64, f64)>; 2]) -> Option<f64> {
    let mut random = fastrand::Rng::with_seed(SEED);
    let [before, after] = blocks.each_ref().map(|blocks| (blocks.len() > 1).then(|| spread(blocks, &mut random)));
    Some(before?.hypot(after?))
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
fn student(values: f64) -> f64 {
    let free = (values - 1.0).max(1.0);
    // The expansion is too low for so few.
    match free {
        ..2.0 => return 63.657,
        2.0..3.0 => return 9.925,
        3.0..4.0 => return 5.841,
        _ => {}
    }
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
        let [low, high] = change.interval.unwrap();
        assert!((0.06..0.14).contains(&change.change) && low > 0.0 && high < 0.2, "{change:?}");
        let [before, after] = change.step_s;
        assert!((before - 0.1).abs() < 0.005 && (after - 0.11).abs() < 0.005);
        let back = run(120, 0.11, 0.2, 2).change_to(&run(120, 0.1, 0.2, 1)).unwrap();
        assert!(back.interval.unwrap()[1] < 0.0 && ((1.0 + back.change) * (1.0 + change.change) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn an_interval_holds_the_truth_as_often_as_it_says() {
        let holds = |seed| {
            let change = run(120, 0.1, 0.4, seed).change_to(&run(120, 0.1, 0.4, seed + 1000)).unwrap();
            let [low, high] = change.interval.unwrap();
            low <= 0.0 && high >= 0.0
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
        assert_eq!(long.change_to(&without), Err(NoSteps(1)));
        let short = run(30, 0.1, 0.1, 1).change_to(&long).unwrap();
        assert_eq!((short.too_short, short.interval), (Some(0), None));
        assert!(short.change.abs() < 0.05, "{short:?}");
        // 20 steps of 6 seconds are five blocks of four.
        assert_eq!(long.change_to(&run(120, 6.0, 0.0, 1)).unwrap().too_short, Some(1));
    }

    #[test]
    fn so_much_training_tells_the_difference_that_more_of_it_has() {
        for (seconds, noise) in [(120, 0.4), (120, 0.6)] {
            let equal = run(seconds, 0.1, noise, 1).change_to(&run(seconds, 0.1, noise, 2)).unwrap();
            let Some(needed_s) = equal.needed_s(&[(1.0 + equal.change) * 1.05 - 1.0]) else {
                panic!("{equal:?}");
            };
            assert!((60.0..MOST_NEEDED_S).contains(&needed_s), "{needed_s}");
            // With twice as much, 5% are told as a rule.
            let seconds = 2 * needed_s as usize;
            let told = (0..20).filter(|seed| {
                let change = run(seconds, 0.1, noise, *seed).change_to(&run(seconds, 0.105, noise, seed + 50));
                change.is_ok_and(|change| change.interval.is_some_and(|[low, _]| low > 0.0))
            });
            let told = told.count();
            assert!(told >= 15, "{seconds} s, noise {noise}: {needed_s} s tell it in {told} of 20");
        }
        let [one, other] = [1, 2].map(|seed| run(120, 0.1, 0.4, seed));
        let change = one.change_to(&other).unwrap();
        assert_eq!(change.needed_s(&[change.change]), None);
        // A minute is the least.
        let change = run(20, 0.1, 0.0, 1).change_to(&run(20, 0.2, 0.0, 2)).unwrap();
        assert!(matches!(change.needed_s(&[0.0]), Some(seconds) if (seconds - 60.0).abs() < 1.0), "{change:?}");
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
    fn the_steps_of_profiles_are_compared_by_the_length_of_each() {
        let steps = |count: usize, step_s: f64, seed| {
            let mut random = fastrand::Rng::with_seed(seed);
            (0..count).map(|_| step_s * (1.0 + 0.02 * (random.f64() - 0.5))).collect::<Vec<_>>()
        };
        let [before, after] = [steps(6, 0.2, 1), steps(8, 0.16, 2)];
        let change = StepChange::of_profiles([&before, &after]).unwrap();
        let [low, high] = change.interval.unwrap();
        assert!((-0.22..-0.18).contains(&change.change) && low > -0.25 && high < -0.15, "{change:?}");
        // Two steps, and one, are too few.
        for few in [1, 2] {
            let change = StepChange::of_profiles([&before, &after[..few]]).unwrap();
            assert_eq!((change.too_short, change.interval), (Some(1), None));
        }
        assert_eq!(StepChange::of_profiles([&before, &[]]), Err(NoSteps(1)));
        // The truth is in 99% of the intervals, as they say.
        let missed = (0..400).filter(|seed| {
            let [one, other] = [steps(5, 0.2, *seed), steps(7, 0.2, seed + 1000)];
            let [low, high] = StepChange::of_profiles([&one, &other]).unwrap().interval.unwrap();
            low > 0.0 || high < 0.0
        });
        assert!(missed.count() <= 9);
        let same = StepChange::of_profiles([&before[..3], &after[..3]]).unwrap();
        assert!(matches!(same.needed_s(&[same.change * 0.9]), Some(seconds) if seconds > 0.6), "{same:?}");
    }

    #[test]
    fn students_quantile_is_that_of_the_tables() {
        for (values, tabled) in
            [(2.0, 63.66), (3.0, 9.925), (4.0, 5.841), (6.0, 4.032), (12.0, 3.106), (31.0, 2.750), (121.0, 2.617)]
        {
            assert!((student(values) - tabled).abs() < 0.02 * tabled, "{values}: {}", student(values));
        }
    }
}
