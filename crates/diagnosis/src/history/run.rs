//! A whole run for a report, tick by tick: its sums, its timeline, and its verdicts one after another. Its memory does not
//! grow with its length beyond the bounds of the timeline and [`SPANS`].

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use super::archive::Limits;
use super::environment::Environment;
use super::interval::{Interval, WatchedTime};
use super::step_series::StepSeries;
use super::surroundings::SurroundingsSum;
use super::timeline::{Timeline, TimelinePoint, TimelineWindow};
use super::totals::Totals;
use crate::diagnosis::Verdict;
use crate::diagnosis::causes::Cause;
use crate::diagnosis::verdict::Class;
use crate::pipeline::Tick;
use crate::watch::{RunStory, WatchOptions, Watcher};
use trainmon_waits::Frame;

/// Most verdicts that are kept one by one, the newest.
const SPANS: usize = 1000;
/// The timeline goes back so far. With so much memory it has a point a second for half a day, and coarser ones before.
const LIMITS: Limits = Limits { span: Duration::from_secs(30 * 24 * 3600), bytes: 96 << 20 };
/// A bottleneck that took less of the run than this is not what the report is about.
const WORTH_A_REPORT: f64 = 0.1;

/// The time for which class and cause did not change.
#[derive(Debug, Clone, PartialEq)]
pub struct VerdictSpan {
    /// The class.
    pub class: Class,
    /// The cause, if it is known.
    pub cause: Option<Cause>,
    /// Wall clock at its begin, milliseconds since 1970.
    pub from_unix_ms: i64,
    /// Its length, seconds, without gaps.
    pub seconds: f64,
}

/// A run from its first sample to its last.
#[derive(Debug)]
pub struct WholeRun {
    /// Sums over the run.
    pub totals: Totals,
    /// Its verdicts, oldest first.
    pub spans: VecDeque<VerdictSpan>,
    /// Verdicts before those.
    pub dropped: u64,
    /// The newest frame, where there are ticks.
    pub frame: Option<Arc<Frame>>,
    /// Where it ran.
    pub environment: Environment,
    /// Most workers at a time.
    pub most_workers: u32,
    /// Its steps over time.
    pub steps: StepSeries,
    /// What else the machine did.
    pub surroundings: SurroundingsSum,
    /// What happened in it.
    pub story: RunStory,
    watcher: Watcher,
    timeline: Timeline,
    /// The newest verdict.
    last: Option<Arc<Verdict>>,
}

impl Default for WholeRun {
    fn default() -> Self {
        Self {
            totals: Totals::default(),
            spans: VecDeque::new(),
            dropped: 0,
            frame: None,
            environment: Environment::default(),
            most_workers: 0,
            steps: StepSeries::default(),
            surroundings: SurroundingsSum::default(),
            story: RunStory::default(),
            watcher: Watcher::new(WatchOptions::default()),
            timeline: Timeline::new(LIMITS),
            last: None,
        }
    }
}

impl WholeRun {
    /// Adds the next tick.
    pub fn push(&mut self, tick: &Tick) {
        self.add(&Interval::new(&tick.frame, &tick.verdict, tick.shares), &tick.verdict);
        self.watcher.push(tick).iter().for_each(|event| self.story.push(event));
        self.environment.update(tick);
        self.frame = Some(Arc::clone(&tick.frame));
    }

    /// Adds the next interval, of which there is no tick.
    pub fn add(&mut self, interval: &Interval, verdict: &Arc<Verdict>) {
        self.timeline.add(interval.point);
        self.totals.add(interval, verdict);
        self.span(interval.time, verdict);
        self.steps.push(interval);
        self.surroundings.add(interval.surroundings, interval.time.seconds);
        self.most_workers = self.most_workers.max(interval.workers);
        self.last = Some(Arc::clone(verdict));
    }

    /// Whether nothing was added.
    pub fn is_empty(&self) -> bool {
        self.last.is_none()
    }

    fn span(&mut self, WatchedTime { unix_ms, seconds, .. }: WatchedTime, verdict: &Verdict) {
        match self.spans.back_mut() {
            Some(last) if (last.class, last.cause) == (verdict.class, verdict.cause) => last.seconds += seconds,
            _ => {
                let from_unix_ms = unix_ms.saturating_sub((seconds * 1000.0) as i64);
                let (class, cause) = (verdict.class, verdict.cause);
                self.spans.push_back(VerdictSpan { class, cause, from_unix_ms, seconds });
            }
        }
        if self.spans.len() > SPANS {
            self.spans.pop_front();
            self.dropped += 1;
        }
    }

    /// The verdict that the report is about, and for how many seconds it held in total: what cost most, if it was more than a
    /// moment; otherwise the last.
    pub fn verdict(&self) -> Option<(&Arc<Verdict>, f64)> {
        let costliest =
            self.totals.costliest().filter(|cause| cause.seconds >= WORTH_A_REPORT * self.totals.watched_s);
        let last = || {
            let verdict = self.last.as_ref()?;
            // The totals know its profile.
            let known = self.totals.of_cause(verdict);
            Some(known.map_or((verdict, 0.0), |cause| (&cause.verdict, cause.seconds)))
        };
        costliest.map(|cause| (&cause.verdict, cause.seconds)).or_else(last)
    }

    /// The run in so many columns at most, oldest first: wall clock at the end of each, milliseconds since 1970, and the means
    /// of the values in it; `None` where nothing was measured.
    pub fn columns<const N: usize>(
        &self,
        most: u16,
        values: impl Fn(&TimelinePoint) -> [Option<f32>; N],
    ) -> Vec<(i64, [Option<f32>; N])> {
        let (Some(first_ns), Some(latest), Some(last_unix_ms)) =
            (self.timeline.first_ns(), self.timeline.latest(), self.totals.ended_unix_ms)
        else {
            return Vec::new();
        };
        let length_ns = latest.end_ns.saturating_sub(first_ns);
        let column_ns = (length_ns / u64::from(most.max(1))).max(SHORTEST_NS);
        let columns = usize::try_from(length_ns.div_ceil(column_ns)).unwrap_or(0).max(1);
        let window =
            TimelineWindow { edge_ns: latest.end_ns, end_ns: latest.end_ns, column_ns, columns, sweep: false };
        let mut sums = vec![[(0.0f32, 0.0f32); N]; columns];
        self.timeline.spread(window, |column, seconds, point| {
            let Some(sums) = sums.get_mut(column) else { return };
            for ((sum, weight), value) in sums.iter_mut().zip(values(point)) {
                if let Some(value) = value {
                    *sum += value * seconds;
                    *weight += seconds;
                }
            }
        });
        let mean = |(sum, weight): (f32, f32)| (weight > 0.0).then(|| sum / weight);
        let columns = sums.into_iter().rev().enumerate().map(|(back, sums)| {
            let ago_ms = (back as u64).saturating_mul(column_ns) / 1_000_000;
            let unix_ms = last_unix_ms.saturating_sub(i64::try_from(ago_ms).unwrap_or(i64::MAX));
            (unix_ms, sums.map(mean))
        });
        let mut columns: Vec<_> = columns.collect();
        columns.reverse();
        columns
    }
}

/// Shortest column, nanoseconds: finer ones would only repeat a sample.
const SHORTEST_NS: u64 = 1_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;
    use trainmon_rates::frame::HostRates;

    fn tick(second: u64, class: Class, cpu_pct: Option<f64>) -> Arc<Tick> {
        let frame = Frame {
            seconds: 1.0,
            monotonic_ns: second * 1_000_000_000,
            unix_ms: second as i64 * 1000,
            host: HostRates { allowed_cpu_pct: cpu_pct, ..HostRates::default() },
            ..Frame::default()
        };
        let verdict = Verdict { class, ..Verdict::default() };
        Arc::new(Tick { frame: Arc::new(frame), verdict: Arc::new(verdict), ..Tick::default() })
    }

    fn run(ticks: impl IntoIterator<Item = Arc<Tick>>) -> WholeRun {
        let mut run = WholeRun::default();
        for tick in ticks {
            run.push(&tick);
        }
        run
    }

    #[test]
    fn verdicts_follow_each_other_with_their_begin_and_length() {
        let class = |second| if second <= 30 { Class::Balanced } else { Class::Io };
        let run = run((1..=90).map(|second| tick(second, class(second), None)));
        let spans: Vec<_> = run.spans.iter().map(|span| (span.class, span.from_unix_ms, span.seconds)).collect();
        assert_eq!(spans, [(Class::Balanced, 0, 30.0), (Class::Io, 30_000, 60.0)]);
        assert_eq!(run.verdict().map(|(verdict, seconds)| (verdict.class, seconds)), Some((Class::Io, 60.0)));
    }

    #[test]
    fn a_short_bottleneck_is_not_what_the_report_is_about() {
        let class = |second| if second <= 5 { Class::Io } else { Class::Balanced };
        let run = run((1..=90).map(|second| tick(second, class(second), None)));
        assert_eq!(run.verdict().map(|(verdict, seconds)| (verdict.class, seconds)), Some((Class::Balanced, 85.0)));
        assert!(WholeRun::default().verdict().is_none());
    }

    #[test]
    fn columns_are_means_with_gaps_where_nothing_was_measured() {
        let cpu = |second: u64| (second > 20).then_some(second as f64);
        let run = run((1..=40).map(|second| tick(second, Class::Cpu, cpu(second))));
        let columns = run.columns(4, |point| [point.cpu.get()]);
        assert_eq!(columns.iter().map(|(unix_ms, _)| *unix_ms).collect::<Vec<_>>(), [10_000, 20_000, 30_000, 40_000]);
        // Runs of a few seconds may lie across the border of two columns.
        assert_eq!((columns[0].1, columns[1].1), ([None], [None]));
        assert!((columns[2].1[0].unwrap() - 25.5).abs() < 0.5 && (columns[3].1[0].unwrap() - 35.5).abs() < 0.5);
        assert!(WholeRun::default().columns(4, |point| [point.cpu.get()]).is_empty());
        assert_eq!(run.columns(1000, |point| [point.cpu.get()]).len(), 40, "no column is shorter than a second");
    }

    #[test]
    fn verdicts_that_change_all_the_time_are_bounded() {
        let class = |second| if second % 2 == 0 { Class::Io } else { Class::Cpu };
        let run = run((1..=2500).map(|second| tick(second, class(second), None)));
        assert_eq!((run.spans.len(), run.dropped), (SPANS, 1500));
    }
}
