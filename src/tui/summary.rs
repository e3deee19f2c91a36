//! What a run was like, added up moment by moment: for how long it was watched, what it waited for, what to do about it.
//!
//! The sums are fed with the stamps of the archive once they are final, and stay after the archive has let go of the
//! moments themselves: a night is summed up from its beginning.

use std::sync::Arc;

use jiff::tz::TimeZone;

use super::{format, labels};
use crate::diagnosis::verdict::{Advice, Class, Verdict};
use crate::history::archive::Stamp;
use crate::rates::time_split::LoopActivity;
use crate::text::sanitise;
use crate::tui::theme::activity_word;

/// Pairs of class and cause that are told apart: more than the taxonomy has. A recording may hold any strings.
const PAIRS: usize = 64;

/// TimeSplit below this are not named.
const NAMED: f64 = 0.005;

/// A stretch of time in which one class and cause stood.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Stretch {
    /// The class.
    pub class: Class,
    /// The cause.
    pub cause: Option<Arc<str>>,
    /// Its length, seconds.
    pub seconds: f64,
    /// Wall clock at the end of its first moment, milliseconds since 1970.
    pub from_unix_ms: i64,
}

impl Stretch {
    /// `data-loader: too-few-workers`.
    fn name(&self) -> String {
        name(self.class, self.cause.as_deref())
    }
}

fn name(class: Class, cause: Option<&str>) -> String {
    format!("{}{}", class.word(), cause.map(|c| format!(": {}", sanitise(c))).unwrap_or_default())
}

/// All the time of one class and cause.
#[derive(Debug, Clone)]
struct Stood {
    class: Class,
    cause: Option<Arc<str>>,
    seconds: f64,
    /// The newest verdict that said so.
    verdict: Option<Arc<Verdict>>,
}

/// The sums so far.
#[derive(Debug, Clone, Default)]
pub struct Tally {
    watched_s: f64,
    classes: [f64; Class::ALL.len()],
    stood: Vec<Stood>,
    running: Option<Stretch>,
    longest: Option<Stretch>,
    parts: [f64; LoopActivity::ALL.len()],
    steps: Option<u64>,
}

impl Tally {
    /// Adds a moment whose verdict is final. Time before which nobody watched counts for nothing.
    pub fn add(&mut self, stamp: &Stamp) {
        let seconds = if stamp.gap || !stamp.seconds.is_finite() { 0.0 } else { stamp.seconds.max(0.0) };
        self.watched_s += seconds;
        let Some(class) = stamp.class else {
            self.running = None;
            return;
        };
        if let Some(sum) = Class::ALL.iter().position(|c| *c == class).and_then(|place| self.classes.get_mut(place)) {
            *sum += seconds;
        }
        if let Some(stood) = self.of(class, stamp.cause.as_ref()) {
            stood.seconds += seconds;
        }
        match &mut self.running {
            Some(running) if !stamp.gap && running.class == class && running.cause == stamp.cause => {
                running.seconds += seconds;
            }
            running => {
                *running = Some(Stretch { class, cause: stamp.cause.clone(), seconds, from_unix_ms: stamp.unix_ms });
            }
        }
        if let Some(running) = &self.running
            && self.longest.as_ref().is_none_or(|longest| running.seconds > longest.seconds)
        {
            self.longest = Some(running.clone());
        }
    }

    /// Notes what the main threads did for so many seconds: shares of wait, sync, host, saving, other.
    pub fn add_parts(&mut self, shares: [f64; LoopActivity::ALL.len()], seconds: f64) {
        for (sum, share) in self.parts.iter_mut().zip(shares) {
            let time = share * seconds;
            *sum += if time.is_finite() { time.max(0.0) } else { 0.0 };
        }
    }

    /// Notes what a verdict advises, and how many steps it has counted.
    pub fn note(&mut self, verdict: &Arc<Verdict>) {
        self.steps = verdict.steps.count.or(self.steps);
        let known = self
            .stood
            .iter_mut()
            .find(|s| s.class == verdict.class && s.cause.as_deref() == verdict.cause.as_deref());
        let stood = match known {
            Some(stood) => Some(stood),
            None => self.of(verdict.class, verdict.cause.as_deref().map(Arc::from).as_ref()),
        };
        if let Some(stood) = stood {
            stood.verdict = Some(Arc::clone(verdict));
        }
    }

    fn of(&mut self, class: Class, cause: Option<&Arc<str>>) -> Option<&mut Stood> {
        let place = self.stood.iter().position(|s| s.class == class && s.cause.as_ref() == cause);
        let place = place.unwrap_or(self.stood.len());
        if place == self.stood.len() {
            if place >= PAIRS {
                return None;
            }
            self.stood.push(Stood { class, cause: cause.cloned(), seconds: 0.0, verdict: None });
        }
        self.stood.get_mut(place)
    }

    /// The summary, with `last` as the newest moment, which has not been added yet; none while nothing was watched.
    #[must_use]
    pub fn summary(&self, last: Option<&Stamp>) -> Option<Summary> {
        let mut all = self.clone();
        if let Some(last) = last {
            all.add(last);
        }
        (all.watched_s > 0.0).then(|| all.close())
    }

    fn close(self) -> Summary {
        let mut classes: Vec<(Class, f64)> =
            Class::ALL.into_iter().zip(self.classes).filter(|(_, seconds)| *seconds > 0.0).collect();
        classes.sort_by(|a, b| b.1.total_cmp(&a.1));
        let longest_of = |wanted: &dyn Fn(&Stood) -> bool| {
            let found = self.stood.iter().filter(|s| s.seconds > 0.0 && wanted(s));
            found.max_by(|a, b| a.seconds.total_cmp(&b.seconds))
        };
        let healthy = |s: &Stood| s.class == Class::Gpu && s.cause.as_deref() == Some("compute-bound");
        let costs = |s: &Stood| !healthy(s) && !matches!(s.class, Class::Balanced | Class::Idle | Class::Unknown);
        let advised = |s: &Stood| s.verdict.as_ref().is_some_and(|v| !v.advice.is_empty());
        let advice = longest_of(&advised).and_then(|s| s.verdict.as_ref()?.advice.first().cloned());
        let costliest = longest_of(&costs).map(|s| (s.class, s.cause.clone(), s.seconds));
        Summary {
            watched_s: self.watched_s,
            steps: self.steps,
            classes,
            longest: self.longest,
            costliest,
            parts: self.parts,
            advice,
        }
    }
}

/// What a run was like.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Summary {
    /// Time watched, seconds; gaps not counted.
    pub watched_s: f64,
    /// Steps counted.
    pub steps: Option<u64>,
    /// Classes with their time, seconds, longest first. Time that was not judged is in none of them.
    pub classes: Vec<(Class, f64)>,
    /// The longest time for which class and cause did not change.
    pub longest: Option<Stretch>,
    /// The class and cause that held the run back for the longest time in all, and that time, seconds.
    pub costliest: Option<(Class, Option<Arc<str>>, f64)>,
    /// What the main threads did, seconds: wait, sync, host, saving, other.
    pub parts: [f64; LoopActivity::ALL.len()],
    /// First advice of the verdict with advice that stood longest in all.
    pub advice: Option<Advice>,
}

impl Summary {
    /// The summary in words, one line each, at most seven, nothing in them that could steer a terminal; times of the
    /// day as in `zone`.
    #[must_use]
    pub fn lines(&self, zone: &TimeZone) -> Vec<String> {
        let watched = format::duration(self.watched_s);
        let mut lines = vec![match self.steps {
            Some(steps) if self.watched_s > 0.0 => {
                let rate = format::number(Some(steps as f64 / self.watched_s));
                format!("Watched for {watched}: {steps} steps, {rate} a second")
            }
            _ => format!("Watched for {watched}; steps could not be counted"),
        }];
        let classes: Vec<String> = self.shares().map(|(class, share)| format!("{} {share}", class.word())).collect();
        if !classes.is_empty() {
            lines.push(format!("Time by verdict: {}", classes.join(", ")));
        }
        if let Some(longest) = &self.longest {
            let (length, from) = (format::duration(longest.seconds), labels::clock(longest.from_unix_ms, zone));
            lines.push(format!("Longest stretch: {} for {length}, from {from} on", longest.name()));
        }
        if let Some((class, cause, seconds)) = &self.costliest {
            let length = format::duration(*seconds);
            let meaning = cause.as_deref().and_then(labels::cause_in_words).map(|w| format!(" ({w})"));
            let name = name(*class, cause.as_deref());
            lines.push(format!("Cost most: {name}{}, {length} in all", meaning.unwrap_or_default()));
        }
        let all: f64 = self.parts.iter().sum();
        if all > 0.0 {
            let parts = LoopActivity::ALL.into_iter().zip(self.parts).filter(|(_, seconds)| *seconds / all >= NAMED);
            let parts: Vec<String> = parts
                .map(|(part, seconds)| format!("{} {}", activity_word(part), format::share(Some(seconds / all))))
                .collect();
            lines.push(format!("Main thread: {}", parts.join(", ")));
        }
        lines.extend(self.advice.as_ref().map(|a| format!("► Do first: {}{}", sanitise(&a.title), labels::bound(a))));
        lines
    }

    fn shares(&self) -> impl Iterator<Item = (Class, String)> {
        let named = self.classes.iter().filter(|(_, seconds)| seconds / self.watched_s >= NAMED);
        named.map(|(class, seconds)| (*class, format::share(Some(seconds / self.watched_s))))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::history::archive::MomentId;

    fn stamp(second: u64, class: Class, cause: Option<&str>) -> Stamp {
        Stamp {
            id: MomentId(second),
            monotonic_ns: second * 1_000_000_000,
            seconds: 1.0,
            unix_ms: second as i64 * 1000,
            gap: false,
            class: Some(class),
            cause: cause.map(Arc::from),
            phase: None,
        }
    }

    fn verdict(class: Class, cause: Option<&str>, advice: &str, steps: u64) -> Arc<Verdict> {
        let mut verdict = Verdict { class, cause: cause.map(Into::into), ..Verdict::default() };
        verdict.steps.count = Some(steps);
        verdict.advice = vec![Advice { title: advice.to_owned(), speedup_at_most: Some(1.7), ..Advice::default() }];
        Arc::new(verdict)
    }

    /// 30 s data-loader, 55 s gpu and healthy, 15 s data-loader, 40 s idle.
    fn run() -> Tally {
        let mut tally = Tally::default();
        for second in 0..140 {
            let (class, cause) = match second {
                0..30 | 85..100 => (Class::DataLoader, Some("too-few-workers")),
                30..85 => (Class::Gpu, Some("compute-bound")),
                _ => (Class::Idle, None),
            };
            let advice = if class == Class::Gpu { "Use a larger batch" } else { "Raise num_workers" };
            tally.note(&verdict(class, cause, advice, second + 1));
            tally.add(&stamp(second, class, cause));
            tally.add_parts([0.6, 0.1, 0.3, 0.0, 0.0], 1.0);
        }
        tally
    }

    #[test]
    fn time_is_summed_by_class_and_stretches_are_told_from_sums() {
        let summary = run().summary(None).unwrap();
        assert_eq!(summary.watched_s, 140.0);
        assert_eq!(summary.classes, [(Class::Gpu, 55.0), (Class::DataLoader, 45.0), (Class::Idle, 40.0)]);
        let longest = summary.longest.as_ref().unwrap();
        assert_eq!((longest.class, longest.seconds, longest.from_unix_ms), (Class::Gpu, 55.0, 30_000));
        // A device that computes all the time costs nothing.
        assert_eq!(summary.costliest, Some((Class::DataLoader, Some(Arc::from("too-few-workers")), 45.0)));
        assert_eq!(summary.advice.as_ref().unwrap().title, "Use a larger batch");
        let lines = summary.lines(&TimeZone::UTC);
        assert_eq!(lines[0], "Watched for 2 m 20 s: 140 steps, 1.0 a second");
        assert_eq!(lines[1], "Time by verdict: gpu 39 %, data-loader 32 %, idle 29 %");
        assert_eq!(lines[2], "Longest stretch: gpu: compute-bound for 55 s, from 00:00:30 on");
        assert_eq!(
            lines[3],
            "Cost most: data-loader: too-few-workers (all workers busy, CPUs left over), 45 s in all"
        );
        assert_eq!(lines[4], "Main thread: wait for batch 60 %, wait for GPU 10 %, host work 30 %");
        assert_eq!(lines[5], "► Do first: Use a larger batch (at most 1.7× faster)");
    }

    #[test]
    fn the_newest_moment_counts_and_nothing_is_summed_up_before_the_first() {
        assert_eq!(Tally::default().summary(None), None);
        let last = stamp(140, Class::Idle, None);
        assert_eq!(run().summary(Some(&last)).unwrap().watched_s, 141.0);
    }

    #[test]
    fn a_gap_is_no_time_and_ends_a_stretch() {
        let mut tally = Tally::default();
        for second in 0..10 {
            let mut stamp = stamp(second, Class::Cpu, None);
            if second == 6 {
                (stamp.gap, stamp.seconds) = (true, 28_800.0);
            }
            tally.add(&stamp);
        }
        let summary = tally.summary(None).unwrap();
        assert_eq!(summary.watched_s, 9.0);
        assert_eq!(summary.longest.unwrap().seconds, 6.0);
    }

    #[test]
    fn moments_without_a_verdict_are_watched_and_of_no_class() {
        let mut tally = Tally::default();
        tally.add(&Stamp { class: None, ..stamp(0, Class::Gpu, None) });
        tally.add(&stamp(1, Class::Gpu, None));
        let summary = tally.summary(None).unwrap();
        assert_eq!((summary.watched_s, summary.classes), (2.0, vec![(Class::Gpu, 1.0)]));
    }

    proptest! {
        #[test]
        fn any_stamps_give_bounded_finite_safe_lines(
            stamps in prop::collection::vec((any::<f64>(), any::<bool>(), 0usize..7, "\\PC{0,8}|\x1b\\[2J|a[0-9]{0,3}"), 0..100),
        ) {
            let mut tally = Tally::default();
            for (n, (seconds, gap, class, cause)) in stamps.into_iter().enumerate() {
                let class = Class::ALL[class];
                tally.note(&verdict(class, Some(&cause), &cause, n as u64));
                tally.add(&Stamp { seconds, gap, ..stamp(n as u64, class, Some(&cause)) });
            }
            prop_assert!(tally.stood.len() <= PAIRS);
            if let Some(summary) = tally.summary(None) {
                let lines = summary.lines(&TimeZone::UTC);
                prop_assert!((1..=7).contains(&lines.len()));
                prop_assert!(lines.iter().all(|line| !line.chars().any(char::is_control)));
            }
        }
    }
}
