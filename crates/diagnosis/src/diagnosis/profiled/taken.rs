//! A profile that was taken while the run is watched: for how long it speaks for the run, and what of it stays after that.

use std::sync::Arc;

use super::super::causes::Cause;
use super::super::class::Class;
use super::super::subject::Subject;
use super::super::verdict::{Context, Verdict};
use super::beside::beside;
use super::verdict;
use trainmon_profiles::account::ProfileAccount;

/// How long a profile speaks for the run, seconds …
const SPEAKS_S: f64 = 60.0;
/// … and how long where all that is seen from outside agrees with it.
const AGREES_S: f64 = 600.0;
/// Once class or cause as seen from outside have been others for so long, seconds, the profile is of another time. It is longer
/// than the window of a verdict: what the profile itself costs changes nothing.
const CHANGED_S: f64 = 15.0;

/// The latest profile of a run.
#[derive(Debug, Clone)]
pub struct TakenProfile {
    /// The verdict on it alone.
    alone: Verdict,
    taken_ns: u64,
    taken_unix_ms: i64,
    /// Class and cause as seen from outside when it was taken; `None` until they are known.
    before: Option<(Class, Option<Cause>)>,
    /// Since when they have been others, CLOCK_MONOTONIC nanoseconds.
    changed_ns: Option<u64>,
    /// It still speaks for the run.
    speaks: bool,
}

impl TakenProfile {
    /// A profile that came with the sample of this time: CLOCK_MONOTONIC nanoseconds, and milliseconds since 1970.
    pub fn new(account: Arc<ProfileAccount>, context: &Context, (taken_ns, taken_unix_ms): (u64, i64)) -> Self {
        let alone = verdict(account, context);
        Self { alone, taken_ns, taken_unix_ms, before: None, changed_ns: None, speaks: true }
    }

    /// The verdict of both, where `live` is what is seen from outside at this time.
    pub fn beside(&mut self, live: Verdict, now_ns: u64) -> Verdict {
        let age_s = seconds_between(self.taken_ns, now_ns);
        self.speaks = self.speaks && self.is_of_now(&live, age_s, now_ns);
        let both = if self.speaks { self.speaking(live) } else { live };
        Verdict {
            profile: self.alone.profile.clone(),
            profile_age_s: Some(age_s),
            profile_unix_ms: Some(self.taken_unix_ms),
            ..both
        }
    }

    /// Whether the run is still as it was in the profile.
    fn is_of_now(&mut self, live: &Verdict, age_s: f64, now_ns: u64) -> bool {
        if live.class == Class::Unknown {
            return age_s <= SPEAKS_S;
        }
        let now = (live.class, live.cause);
        let before = *self.before.get_or_insert(now);
        if before == now {
            self.changed_ns = None;
        }
        let is_other = before != now && seconds_between(*self.changed_ns.get_or_insert(now_ns), now_ns) >= CHANGED_S;
        let agrees = live.class == self.alone.class && (self.alone.cause.is_none() || self.alone.cause == live.cause);
        !is_other && age_s <= if agrees { AGREES_S } else { SPEAKS_S }
    }

    /// What both say, with what is measured of the run now: its steps and threads go on.
    fn speaking(&self, live: Verdict) -> Verdict {
        let both = beside(self.alone.clone(), &live);
        let of_profile = both.summary == self.alone.summary;
        let others = if of_profile {
            both.other_findings
        } else {
            both.other_findings.into_iter().take(1).chain(live.other_findings).collect()
        };
        // Why nothing could be judged from outside is no longer true.
        let (mut not_seen, judged) = (live.not_seen, both.class != Class::Unknown);
        not_seen.retain(|missing| !(judged && missing.what == Subject::Verdict.into()));
        Verdict {
            not_seen,
            phase: both.phase,
            class: both.class,
            cause: both.cause,
            confidence: both.confidence,
            summary: both.summary,
            advice: both.advice,
            culprits: both.culprits,
            evidence: both.evidence,
            other_findings: others,
            ..live
        }
    }
}

fn seconds_between(from_ns: u64, to_ns: u64) -> f64 {
    to_ns.saturating_sub(from_ns) as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnosis::verdict::{Steps, Unavailable};
    use trainmon_profiles::account::{GpuAccount, IdleBy, LoopAccount};

    const SECOND_NS: u64 = 1_000_000_000;

    /// A profile in which the GPU waits for the host most of the time.
    fn profile() -> TakenProfile {
        let idle_by = IdleBy { launch: 0.6, ..IdleBy::default() };
        let account = ProfileAccount {
            window_ms: 500.0,
            steps: 5,
            step_ms: Some(100.0),
            devices: vec![GpuAccount { busy: 0.4, compute: 0.4, idle_by, kernels: 500, ..GpuAccount::default() }],
            of_loop: Some(LoopAccount { python: 1.0, ..LoopAccount::default() }),
            ..ProfileAccount::default()
        };
        TakenProfile::new(Arc::new(account), &Context::default(), (100 * SECOND_NS, 100_000))
    }

    fn live(class: Class, cause: Option<Cause>) -> Verdict {
        let steps = Steps { per_s: Some(9.0), ..Steps::default() };
        Verdict { class, cause, confidence: 0.6, summary: "From outside.".into(), steps, ..Verdict::default() }
    }

    /// The seconds after the profile at which it speaks.
    fn speaks(profile: &mut TakenProfile, until: u64, live: impl Fn(u64) -> Verdict) -> u64 {
        let mut last = 0;
        for second in 0..until {
            let both = profile.beside(live(second), (100 + second) * SECOND_NS);
            assert_eq!((both.profile_age_s, both.profile.is_some()), (Some(second as f64), true));
            assert_eq!(both.steps.per_s, Some(9.0), "steps go on");
            if both.summary != "From outside." {
                assert_eq!(second, last, "it began to speak again");
                last = second + 1;
            }
        }
        last
    }

    #[test]
    fn a_profile_speaks_for_a_minute_and_longer_where_all_agree() {
        let of_profile = profile().alone;
        assert_eq!((of_profile.class, of_profile.cause), (Class::Cpu, Some(Cause::LaunchBound)));
        let other = |_| live(Class::Cpu, Some(Cause::MainThread));
        assert_eq!(speaks(&mut profile(), 700, other), 61);
        let agrees = |_| live(Class::Cpu, Some(Cause::LaunchBound));
        assert_eq!(speaks(&mut profile(), 700, agrees), 601);
        let missing = |what: Subject| Unavailable { what: what.into(), why: "x".into(), fix: None };
        let unknown = Verdict {
            not_seen: vec![missing(Subject::Verdict), missing(Subject::Stacks)],
            ..live(Class::Unknown, None)
        };
        assert_eq!(speaks(&mut profile(), 700, |_| unknown.clone()), 61);
        assert_eq!(profile().beside(unknown, 101 * SECOND_NS).not_seen, [missing(Subject::Stacks)]);
    }

    #[test]
    fn a_run_that_changes_for_long_is_told_from_outside() {
        // The profile's own cost shows for some seconds.
        let changes = |second| match second {
            2..10 | 20.. => live(Class::Gpu, Some(Cause::ComputeBound)),
            _ => live(Class::Cpu, Some(Cause::LaunchBound)),
        };
        assert_eq!(speaks(&mut profile(), 100, changes), 35);
        // The first verdict of all is no change.
        let young = |second| {
            if second < 5 { live(Class::Unknown, None) } else { live(Class::Cpu, Some(Cause::LaunchBound)) }
        };
        assert_eq!(speaks(&mut profile(), 200, young), 200);
    }

    #[test]
    fn where_what_is_seen_from_outside_leads_the_profile_is_told_below() {
        let mut profile = profile();
        (profile.alone.confidence, profile.alone.other_findings) = (0.5, Vec::new());
        let seen = Verdict { confidence: 0.95, ..live(Class::Io, Some(Cause::NetworkStorage)) };
        let both = profile.beside(seen, 101 * SECOND_NS);
        assert_eq!((both.class, both.summary.as_str(), both.other_findings.len()), (Class::Io, "From outside.", 1));
        assert!(both.other_findings[0].text.starts_with("The profile: CPU"), "{:?}", both.other_findings);
    }
}
