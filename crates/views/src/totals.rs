//! The summary of a run in words: on the screen when the run ends, and in the terminal after the screen closes.

use jiff::tz::TimeZone;

use crate::cost::{self, Price};
use crate::labels;
use crate::run_summary::steps_words;
use trainmon_base::text::format;
use trainmon_base::zone;
use trainmon_diagnosis::diagnosis::Verdict;
use trainmon_diagnosis::diagnosis::causes::verdict_name;
use trainmon_diagnosis::history::totals::Totals;

/// Smaller shares are left out.
const NAMED_SHARE: f64 = 0.005;

/// What a line of the summary says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SummaryLine {
    /// A fact: how long the run was watched, the longest and the costliest verdict, what the GPUs cost.
    Fact,
    /// Time by the class of the verdict.
    Classes,
    /// What the loop's thread did.
    Activities,
    /// What to do first.
    Advice,
}

/// The totals in words, one line each, without anything that could control a terminal; times of day in `zone`, an hour of a GPU at `price`.
pub fn lines(run: &Totals, zone: &TimeZone, price: Option<&Price>) -> Vec<(SummaryLine, String)> {
    let watched = format::duration(run.watched_s);
    let watched = match steps_words(&run.steps) {
        Some(steps) => format!("Watched for {watched}: {steps}"),
        None => format!("Watched for {watched}; no steps could be counted"),
    };
    let mut lines = vec![(SummaryLine::Fact, watched)];
    let name = |verdict: &Verdict| verdict_name(verdict.class, verdict.cause);
    let classes = shares(run.classes().into_iter().map(|(class, seconds)| (class.name(), seconds)), run.watched_s);
    lines.extend(classes.map(|classes| (SummaryLine::Classes, format!("Time by verdict: {classes}"))));
    lines.extend(run.longest.as_ref().map(|longest| {
        let (length, from) = (format::duration(longest.seconds), zone::clock(longest.from_unix_ms, zone));
        (SummaryLine::Fact, format!("Longest verdict: {} for {length}, from {from}", name(&longest.verdict)))
    }));
    lines.extend(run.costliest().map(|costliest| {
        let length = format::duration(costliest.seconds);
        (SummaryLine::Fact, format!("Most costly: {}, {length} in total", name(&costliest.verdict)))
    }));
    let split = run.split_s.iter().map(|(activity, seconds)| (activity.word(), seconds));
    let split = shares(split, run.split_s.total());
    lines.extend(split.map(|split| (SummaryLine::Activities, format!("Training loop: {split}"))));
    lines.extend(cost::lines(run, price).into_iter().map(|text| (SummaryLine::Fact, text)));
    let advice = run.advice();
    let advice = advice.map(|a| labels::advice_line("▶ ", a, usize::MAX));
    lines.extend(advice.map(|text| (SummaryLine::Advice, text)));
    lines
}

/// The parts of `whole` that are worth naming: `gpu 39%, idle 29%`; `None` if there are no such parts.
fn shares(parts: impl Iterator<Item = (&'static str, f64)>, whole: f64) -> Option<String> {
    let named = parts.map(|(name, part)| (name, part / whole)).filter(|(_, share)| *share >= NAMED_SHARE);
    let named: Vec<_> = named.map(|(name, share)| format!("{name} {}", format::share(Some(share)))).collect();
    (!named.is_empty()).then(|| named.join(", "))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;
    use trainmon_diagnosis::diagnosis::causes::Cause;
    use trainmon_diagnosis::diagnosis::verdict::{Advice, Class, Phase};
    use trainmon_diagnosis::history::interval::Interval;
    use trainmon_waits::Frame;
    use trainmon_waits::frame::{CountedSteps, RankRates};
    use trainmon_waits::time_split::TimeSplit;

    /// A second with a step.
    fn frame(second: u64) -> Frame {
        let split_s = TimeSplit { input_wait: 0.6, device_sync: 0.1, host_busy: 0.3, ..TimeSplit::default() };
        let ranks = vec![RankRates { split_s, steps: Some(1), ..RankRates::default() }];
        Frame { seconds: 1.0, unix_ms: second as i64 * 1000, ranks, ..Frame::default() }
    }

    fn verdict(class: Class, cause: Option<Cause>, advice: &str) -> Arc<Verdict> {
        let phase = if class == Class::Idle { Phase::Validation } else { Phase::Training };
        let mut verdict = Verdict { class, cause, phase, ..Verdict::default() };
        verdict.advice = vec![Advice { title: advice.to_owned(), speedup_at_most: Some(1.7), ..Advice::default() }];
        Arc::new(verdict)
    }

    /// 30 s data-loader, 55 s gpu and healthy, 15 s data-loader, 40 s validation.
    fn run() -> Totals {
        let mut totals = Totals::default();
        for second in 0..140 {
            let (class, cause) = match second {
                0..30 | 85..100 => (Class::DataLoader, Some(Cause::TooFewWorkers)),
                30..85 => (Class::Gpu, Some(Cause::ComputeBound)),
                _ => (Class::Idle, None),
            };
            let advice = if class == Class::Gpu { "Use a larger batch" } else { "Raise num_workers" };
            let frame = frame(second);
            let verdict = verdict(class, cause, advice);
            totals.add(&Interval::new(&frame, &verdict, frame.loop_shares()), &verdict);
        }
        totals
    }

    #[test]
    fn time_is_summed_by_class_and_stretches_are_told_from_sums() {
        let run = run();
        assert_eq!(run.watched_s, 140.0);
        assert_eq!(run.classes(), [(Class::Gpu, 55.0), (Class::DataLoader, 45.0), (Class::Idle, 40.0)]);
        let longest = run.longest.as_ref().unwrap();
        assert_eq!((longest.verdict.class, longest.seconds, longest.from_unix_ms), (Class::Gpu, 55.0, 30_000));
        // A GPU that computes all the time costs nothing.
        let costliest = run.costliest().unwrap();
        assert_eq!(
            (verdict_name(costliest.verdict.class, costliest.verdict.cause).as_str(), costliest.seconds),
            ("data loader · too few workers", 45.0)
        );
        assert_eq!(run.advice().unwrap().title, "Use a larger batch");
        let lines: Vec<String> = lines(&run, &TimeZone::UTC, None).into_iter().map(|(_, text)| text).collect();
        assert_eq!(lines[0], "Watched for 2m20s: 100 steps in 1m40s of training, 1 per second");
        assert_eq!(lines[1], "Time by verdict: GPU 39%, data loader 32%, not training 29%");
        assert_eq!(lines[2], "Longest verdict: GPU · kept busy by the job for 55 s, from 00:00:30");
        assert_eq!(lines[3], "Most costly: data loader · too few workers, 45 s in total");
        assert_eq!(lines[4], "Training loop: waiting for data 60%, waiting for the GPU 10%, own work 30%");
        assert_eq!(lines[5], "▶ Use a larger batch: up to 1.7× faster");
    }

    #[test]
    fn steps_that_a_variable_counts_are_counted_at_the_end_too() {
        // Nine seconds of imports, then 13 steps a second, which the loop's own variable shows after four seconds.
        let mut totals = Totals::default();
        for second in 0..31 {
            let counted = CountedSteps {
                per_s: 13.0,
                variable: "step in train (train.py)".into(),
                place: None,
                unit: Default::default(),
                ..CountedSteps::default()
            };
            let mut frame = frame(second);
            frame.ranks[0].steps = None;
            frame.ranks[0].counted = (second >= 13).then_some(counted);
            let phase = if second < 9 { Phase::Init } else { Phase::Training };
            let verdict = Arc::new(Verdict { phase, ..Verdict::default() });
            totals.add(&Interval::new(&frame, &verdict, frame.loop_shares()), &verdict);
        }
        let lines = lines(&totals, &TimeZone::UTC, None);
        assert_eq!(lines[0].1, "Watched for 31 s: 234 steps in 18 s of training, 13 per second");
    }

    proptest! {
        #[test]
        fn any_run_gives_few_safe_lines(
            ticks in prop::collection::vec((any::<f64>(), any::<bool>(), 0usize..7, "\\PC{0,8}|\x1b\\[2J|a[0-9]{0,3}"), 0..100),
        ) {
            let mut totals = Totals::default();
            for (n, (seconds, gap, class, advice)) in ticks.into_iter().enumerate() {
                let verdict = verdict(Class::ALL[class], Cause::ALL.get(n).copied(), &advice);
                let frame = Frame { seconds, gap, ..frame(n as u64) };
                totals.add(&Interval::new(&frame, &verdict, frame.loop_shares()), &verdict);
            }
            let lines: Vec<String> = lines(&totals, &TimeZone::UTC, None).into_iter().map(|(_, text)| text).collect();
            prop_assert!((1..=7).contains(&lines.len()));
            prop_assert!(lines.iter().all(|line| !line.chars().any(char::is_control)));
        }
    }
}
