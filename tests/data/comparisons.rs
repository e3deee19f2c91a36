//! `compare` held against runs whose difference is known: two minutes drawn from a bundled recording, seconds at a time, once
//! more, and once more with steps that take 5% longer.
//!
//! `cargo test --test data comparisons -- --nocapture` prints the figures of docs/compare.md.

use std::sync::Arc;

use trainmon::history::interval::Interval;
use trainmon::history::step_series::StepSeries;
use trainmon::outputs::comparison::worth_saying;
use trainmon::pipeline::Pipeline;
use trainmon::sources::recording::Recording;

use crate::recordings::recordings;

/// Seconds of a run.
const RUN_S: f32 = 120.0;
/// Consecutive intervals that are drawn together: what lasts for a few seconds in a recording lasts as long in a run.
const TOGETHER: usize = 3;
/// Fewer intervals of a recording are not a sample of anything.
const FEWEST_INTERVALS: usize = 10;

/// Seconds and steps of a recording's intervals, the first of which are left out: stacks are read for the first time then.
fn intervals(path: &std::path::Path) -> Vec<(f32, f32)> {
    let mut recording = Recording::open(path).unwrap();
    let mut pipeline = Pipeline::of_recording(&recording.header, None);
    let ticks = recording.by_ref().map(|sample| pipeline.push(Arc::new(sample.unwrap())));
    let all = ticks.filter_map(|tick| {
        let interval = Interval::new(&tick.frame, &tick.verdict, None);
        let counted = tick.frame.trainers.first()?.steps.is_some();
        Some((interval.time.seconds as f32, interval.steps.get().filter(|_| counted)?))
    });
    all.skip(2).collect()
}

/// Two minutes of it, in another order each time.
fn run(intervals: &[(f32, f32)], longer: f32, random: &mut fastrand::Rng) -> StepSeries {
    let mut series = StepSeries::default();
    let mut seconds = 0.0;
    while seconds < RUN_S {
        let from = random.usize(..=intervals.len() - TOGETHER);
        for (length, steps) in &intervals[from..from + TOGETHER] {
            series.add(*length, steps / longer);
            seconds += length;
        }
    }
    series
}

/// Recordings whose steps are counted.
fn with_steps() -> Vec<(String, Vec<(f32, f32)>)> {
    let all = recordings().into_iter().map(|(name, path)| (name, intervals(&path)));
    let enough = |intervals: &[(f32, f32)]| {
        intervals.len() >= FEWEST_INTERVALS && intervals.iter().map(|(_, steps)| steps).sum::<f32>() >= 20.0
    };
    all.filter(|(_, intervals)| enough(intervals)).collect()
}

/// How many of so many pairs are said to differ, and half the width of the widest of their intervals.
fn said_to_differ(intervals: &[(f32, f32)], longer: f32, pairs: usize, random: &mut fastrand::Rng) -> (usize, f64) {
    let changes = (0..pairs).map(|_| run(intervals, 1.0, random).change_to(&run(intervals, longer, random)).unwrap());
    changes.fold((0, 0.0), |(differ, widest): (usize, f64), change| {
        (differ + usize::from(worth_saying(change) != 0), widest.max((change.high - change.low) / 2.0))
    })
}

#[test]
fn equal_runs_are_the_same_and_five_percent_are_found() {
    let mut random = fastrand::Rng::with_seed(7);
    let (mut alarms, mut pairs, mut sharp, mut all) = (0, 0, 0, 0);
    for (name, intervals) in with_steps() {
        let (differ, _) = said_to_differ(&intervals, 1.0, 100, &mut random);
        let (found, widest) = said_to_differ(&intervals, 1.05, 20, &mut random);
        println!("{name:36} {differ:3} of 100 equal, {found:2} of 20 slower, ±{:.1}%", widest * 100.0);
        (alarms, pairs, all) = (alarms + differ, pairs + 100, all + 1);
        sharp += usize::from(found >= 19);
        // Where less is found, the interval says that two minutes tell less.
        assert!(found >= 19 || widest > 0.02, "{name}: {found} of 20, but ±{widest}");
    }
    println!(
        "{alarms} of {pairs} equal pairs said to differ; 5% found in 19 of 20 pairs of {sharp} of {all} recordings"
    );
    assert!(alarms * 1000 <= pairs, "{alarms} of {pairs}");
    assert!(sharp * 10 >= all * 7, "{sharp} of {all}");
}
