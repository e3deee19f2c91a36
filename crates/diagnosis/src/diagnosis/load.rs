//! Other load that comes and goes. A cause inside the job and one outside are both true then, and a verdict that followed each
//! change would say one thing now and another half a minute later.

use super::causes::{Finding, Judgment};
use super::verdict::Verdict;
use super::windows::{LONG_S, LONGEST_S};

/// Remembers both: the cause that costs more over a minute is the verdict, and the other one is the first finding.
#[derive(Debug, Clone, Default)]
pub(super) struct Load {
    /// When the verdict changed between the two, CLOCK_MONOTONIC nanoseconds.
    swapped_ns: Option<u64>,
    /// When it would have changed back within a minute, and the other of the two causes.
    held: Option<(u64, Finding)>,
    /// Since when the whole minute has favored the other of the two.
    against_ns: Option<u64>,
}

impl Load {
    /// Whether one of the two is a cause inside the job and the other one outside.
    pub fn is_swap(standing: &Judgment, rival: &Judgment) -> bool {
        standing.cause.zip(rival.cause).is_some_and(|(one, other)| one.is_outside() != other.is_outside())
    }

    fn is_recent(since_ns: u64, now_ns: u64) -> bool {
        now_ns.saturating_sub(since_ns) as f64 <= LONGEST_S * 1e9
    }

    /// The load has come and gone within the last minute.
    pub fn comes_and_goes(&self, now_ns: u64) -> bool {
        self.held.as_ref().is_some_and(|(since_ns, _)| Self::is_recent(*since_ns, now_ns))
    }

    /// Keeps the verdict from changing back and forth: whether `rival` has to wait.
    pub fn holds(&mut self, standing: &Judgment, rival: &Judgment, now_ns: u64) -> bool {
        let recent = self.comes_and_goes(now_ns) || self.swapped_ns.is_some_and(|at| Self::is_recent(at, now_ns));
        let holds = recent && Self::is_swap(standing, rival);
        if holds {
            self.hold(rival, now_ns);
        }
        holds
    }

    /// The verdict changes between the two after all.
    pub fn swap(&mut self, standing: &Judgment, now_ns: u64) {
        self.swapped_ns = Some(now_ns);
        if self.comes_and_goes(now_ns) {
            self.hold(standing, now_ns);
        }
    }

    fn hold(&mut self, other: &Judgment, now_ns: u64) {
        self.held = other.cause.map(|cause| {
            let text = format!("for part of the last minute, {}", cause.spec_in(other.class).meaning);
            (now_ns, Finding { class: other.class, ..Finding::new(cause, other.confidence, text) })
        });
    }

    /// Whether the whole minute has favored the other of the two for long enough.
    pub fn is_settled(&mut self, standing: &Judgment, judged: &Judgment, now_ns: u64) -> bool {
        let against = self.comes_and_goes(now_ns) && Self::is_swap(standing, judged);
        let since_ns = if against { self.against_ns.unwrap_or(now_ns) } else { now_ns };
        self.against_ns = against.then_some(since_ns);
        now_ns.saturating_sub(since_ns) as f64 >= LONG_S * 1e9
    }

    /// Names the other of the two as the first finding.
    pub fn name_both(&self, verdict: &mut Verdict, now_ns: u64) {
        let held = if self.comes_and_goes(now_ns) && verdict.cause.is_some() { self.held.as_ref() } else { None };
        let Some((_, other)) = held.filter(|(_, other)| verdict.cause != other.cause) else { return };
        let findings = &mut verdict.other_findings;
        match findings.iter().position(|known| known.cause == other.cause) {
            Some(at) => {
                let known = findings.remove(at);
                findings.insert(0, known);
            }
            None => findings.insert(0, other.clone()),
        }
    }
}
