//! A run in sums, added up tick by tick: how long it was watched, what held it back, what its loop did.
//!
//! The sums remain after the archive has dropped the moments themselves: a night is summed up from its beginning.

use std::sync::Arc;

use super::interval::{Interval, WatchedTime};
use crate::diagnosis::verdict::{Advice, Class, Phase, Verdict};
use crate::pipeline::same_cause;
use trainmon_libraries::StepUnit;
use trainmon_waits::time_split::TimeSplit;

/// A stretch of time with one class and cause.
#[derive(Debug, Clone)]
pub struct Stretch {
    /// The first verdict with them.
    pub verdict: Arc<Verdict>,
    /// Its length, seconds.
    pub seconds: f64,
    /// Wall clock at the end of its first interval, milliseconds since 1970.
    pub from_unix_ms: i64,
}

/// All the time of one class and cause.
#[derive(Debug, Clone)]
pub struct CauseTime {
    /// The newest verdict with them.
    pub verdict: Arc<Verdict>,
    /// Seconds.
    pub seconds: f64,
    /// What the loops did meanwhile, seconds.
    pub split_s: TimeSplit,
}

/// Steps of a run while it trained, and the time over which they are known: imports, validations and whatever else takes no
/// steps is not in it.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct TrainedSteps {
    /// Number of steps.
    pub count: f64,
    /// Seconds of training.
    pub seconds: f64,
    /// What they are.
    pub unit: StepUnit,
}

impl TrainedSteps {
    fn add(&mut self, interval: &Interval, unit: StepUnit) {
        if let Some((seconds, steps)) = interval.trained() {
            self.unit = unit;
            self.count += f64::from(steps);
            self.seconds += f64::from(seconds);
        }
    }

    /// Mean number of steps per second; `None` if no steps are known.
    pub fn per_s(&self) -> Option<f64> {
        (self.count > 0.0 && self.seconds > 0.0).then(|| self.count / self.seconds)
    }
}

/// The sums so far.
#[derive(Debug, Clone, Default)]
pub struct Totals {
    /// Time watched, seconds, without gaps.
    pub watched_s: f64,
    /// Wall clock at the end of the first interval, milliseconds since 1970.
    pub began_unix_ms: Option<i64>,
    /// Wall clock at the end of the newest interval, milliseconds since 1970.
    pub ended_unix_ms: Option<i64>,
    /// Time by phase, seconds.
    phases_s: [f64; Phase::COUNT],
    /// Steps of its training.
    pub steps: TrainedSteps,
    /// The longest time for which class and cause did not change.
    pub longest: Option<Stretch>,
    /// What the loops did, seconds.
    pub split_s: TimeSplit,
    /// Seconds times the job's GPUs.
    pub gpu_s: f64,
    /// Those of them in which a GPU was idle; `None` if their use is not known.
    pub gpu_idle_s: Option<f64>,
    /// Energy of the GPUs, joules, over the seconds of [`Self::power_s`].
    pub energy_j: f64,
    /// Seconds for which their power is known.
    pub power_s: f64,
    running: Option<Stretch>,
    causes: Vec<CauseTime>,
}

impl Totals {
    /// Adds an interval with its verdict. A gap, which was not watched, does not count.
    pub fn add(&mut self, interval: &Interval, verdict: &Arc<Verdict>) {
        let (time, shares) = (interval.time, interval.shares());
        let seconds = time.seconds;
        self.gpus(interval);
        self.watched_s += seconds;
        self.began_unix_ms.get_or_insert(time.unix_ms);
        self.ended_unix_ms = Some(time.unix_ms);
        if let Some(phase_s) = self.phases_s.get_mut(interval.phase.index()) {
            *phase_s += seconds;
        }
        self.steps.add(interval, verdict.steps.unit);
        let split_s = shares.map(|shares| shares.map(|share| share * seconds)).unwrap_or_default();
        self.split_s += split_s;
        self.keep_profile(verdict);
        if let Some(known) = self.causes.iter_mut().find(|known| same_cause(&known.verdict, verdict)) {
            known.seconds += seconds;
            known.split_s += split_s;
            let before = std::mem::replace(&mut known.verdict, Arc::clone(verdict));
            // Read from the middle of a recording, verdicts have no account of what came before.
            if verdict.profile.is_none() && before.profile.is_some() {
                take_profile(Arc::make_mut(&mut known.verdict), &before);
            }
        } else {
            self.causes.push(CauseTime { verdict: Arc::clone(verdict), seconds, split_s });
        }
        self.stretch(time, verdict);
    }

    /// The latest profile of the run belongs to all of it, also to what had cost most before it.
    fn keep_profile(&mut self, verdict: &Verdict) {
        let Some(account) = &verdict.profile else { return };
        for known in &mut self.causes {
            if known.verdict.profile.as_ref().is_none_or(|other| !Arc::ptr_eq(other, account)) {
                take_profile(Arc::make_mut(&mut known.verdict), verdict);
            }
        }
    }

    fn gpus(&mut self, Interval { time, gpus, point, power_w, .. }: &Interval) {
        let gpu_s = time.seconds * f64::from(*gpus);
        self.gpu_s += gpu_s;
        if gpu_s > 0.0
            && let Some(used_pct) = point.gpu.get()
        {
            *self.gpu_idle_s.get_or_insert(0.0) += gpu_s * (1.0 - f64::from(used_pct) / 100.0).clamp(0.0, 1.0);
        }
        if let Some(power_w) = power_w.get() {
            self.energy_j += f64::from(power_w) * time.seconds;
            self.power_s += time.seconds;
        }
    }

    fn stretch(&mut self, WatchedTime { seconds, gap, unix_ms }: WatchedTime, verdict: &Arc<Verdict>) {
        match &mut self.running {
            Some(running) if !gap && same_cause(&running.verdict, verdict) => running.seconds += seconds,
            running => {
                let verdict = Arc::clone(verdict);
                *running = Some(Stretch { verdict, seconds, from_unix_ms: unix_ms });
            }
        }
        if let Some(running) = &self.running
            && self.longest.as_ref().is_none_or(|longest| running.seconds > longest.seconds)
        {
            self.longest = Some(running.clone());
        }
    }

    /// Phases with their time, seconds.
    pub fn phases(&self) -> impl Iterator<Item = (Phase, f64)> {
        Phase::ALL.into_iter().zip(self.phases_s)
    }

    /// All classes and causes with their time.
    pub fn causes(&self) -> &[CauseTime] {
        &self.causes
    }

    /// Classes with their time, seconds, longest first.
    pub fn classes(&self) -> Vec<(Class, f64)> {
        let of = |class| self.causes.iter().filter(move |known| known.verdict.class == class);
        let sums = Class::ALL.map(|class| (class, of(class).map(|known| known.seconds).sum()));
        let mut classes: Vec<(Class, f64)> = sums.into_iter().filter(|(_, seconds)| *seconds > 0.0).collect();
        classes.sort_by(|a, b| b.1.total_cmp(&a.1));
        classes
    }

    /// The class and cause that held the run back for the longest total time.
    pub fn costliest(&self) -> Option<&CauseTime> {
        self.longest_of(|v| !v.is_healthy() && !matches!(v.class, Class::Idle | Class::Unknown))
    }

    /// The first advice of the verdict that has advice and lasted longest in total.
    pub fn advice(&self) -> Option<&Advice> {
        self.longest_of(|verdict| !verdict.advice.is_empty())?.verdict.advice.first()
    }

    /// All the time for which class and cause were those of this verdict.
    pub fn of_cause(&self, verdict: &Verdict) -> Option<&CauseTime> {
        self.causes.iter().find(|known| same_cause(&known.verdict, verdict))
    }

    fn longest_of(&self, wanted: impl Fn(&Verdict) -> bool) -> Option<&CauseTime> {
        let found = self.causes.iter().filter(|known| known.seconds > 0.0 && wanted(&known.verdict));
        found.max_by(|a, b| a.seconds.total_cmp(&b.seconds))
    }
}

/// Gives a verdict the profile of another one.
fn take_profile(verdict: &mut Verdict, of: &Verdict) {
    verdict.profile.clone_from(&of.profile);
    (verdict.profile_age_s, verdict.profile_unix_ms) = (of.profile_age_s, of.profile_unix_ms);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::diagnosis::causes::Cause;
    use trainmon_profiles::account::ProfileAccount;
    use trainmon_waits::Frame;

    fn frame(second: u64) -> Frame {
        Frame { seconds: 1.0, unix_ms: second as i64 * 1000, ..Frame::default() }
    }

    fn verdict(class: Class, cause: Option<Cause>) -> Arc<Verdict> {
        Arc::new(Verdict { class, cause, ..Verdict::default() })
    }

    #[test]
    fn a_gap_is_no_time_and_ends_a_stretch() {
        let mut totals = Totals::default();
        for second in 0..10 {
            let mut frame = frame(second);
            if second == 6 {
                (frame.gap, frame.seconds) = (true, 28_800.0);
            }
            let verdict = verdict(Class::Cpu, None);
            totals.add(&Interval::new(&frame, &verdict, frame.loop_shares()), &verdict);
        }
        assert_eq!((totals.watched_s, totals.longest.unwrap().seconds), (9.0, 6.0));
    }

    #[test]
    fn the_latest_profile_belongs_to_what_cost_most_before_it_too() {
        let account = |steps| Arc::new(ProfileAccount { steps, ..ProfileAccount::default() });
        let (first, second) = (account(1), account(2));
        let mut totals = Totals::default();
        for (seconds, class, profile) in
            [(60, Class::Io, None), (5, Class::Cpu, Some(&first)), (9, Class::Gpu, Some(&second))]
        {
            let verdict = Verdict {
                class,
                profile: profile.map(Arc::clone),
                profile_age_s: profile.map(|_| 3.0),
                ..Verdict::default()
            };
            for second in 0..seconds {
                let verdict = Arc::new(verdict.clone());
                totals.add(&Interval::new(&frame(second), &verdict, None), &verdict);
            }
        }
        let costliest = totals.costliest().unwrap();
        let of = |known: &CauseTime| {
            (known.verdict.profile.as_ref().map(|account| account.steps), known.verdict.profile_age_s)
        };
        assert_eq!((costliest.verdict.class, of(costliest)), (Class::Io, (Some(2), Some(3.0))));
        assert!(totals.causes.iter().all(|known| of(known).0 == Some(2)), "one account alone is kept");
    }

    proptest! {
        #[test]
        fn any_ticks_give_bounded_sums(
            ticks in prop::collection::vec((any::<f64>(), any::<bool>(), 0usize..7, prop::option::of(0..Cause::ALL.len())), 0..100),
        ) {
            let mut totals = Totals::default();
            for (n, (seconds, gap, class, cause)) in ticks.into_iter().enumerate() {
                let verdict = verdict(Class::ALL[class], cause.map(|cause| Cause::ALL[cause]));
                let frame = Frame { seconds, gap, ..frame(n as u64) };
                totals.add(&Interval::new(&frame, &verdict, frame.loop_shares()), &verdict);
            }
            prop_assert!(totals.causes.len() <= 100 && totals.watched_s >= 0.0);
        }
    }
}
