//! `bottleneck`: another class or cause holds the job back.

use super::lasting::{LastingRule, Patience};
use super::{EventDetails, EventKind, EventState, WatchEvent, WatchedMoment};
use crate::diagnosis::Verdict;
use crate::diagnosis::causes::Cause;
use crate::diagnosis::verdict::{Class, Phase};

/// Less certain verdicts are not told. Right verdicts of rules that cannot be very sure, as without stacks, are above it.
const SURE_ENOUGH: f64 = 0.6;
/// The verdict follows a change within ten seconds and does not flicker; what lasts for less than this needs no person.
const RULE: LastingRule = LastingRule { begins_s: 20.0, most_s: 1200.0, ends_s: 0.0 };
/// Saving takes a minute or two with large models, at the end of each epoch: that is no new bottleneck.
const SAVING: LastingRule = LastingRule { begins_s: 180.0, ..RULE };

/// Part of the time for which the verdict itself must last, if it has been another than the told one all the while.
const SETTLED_S: f64 = 10.0;

/// What holds a job back; `None` is nothing.
type Holds = Option<(Class, Option<Cause>)>;

/// What is told to hold the job back.
#[derive(Debug, Default)]
pub(super) struct HeldBack {
    told: Option<ToldVerdict>,
    /// What it may be instead. There are no more than there are causes.
    candidates: Vec<(Holds, Patience)>,
    /// It is anything else.
    other: Patience,
}

#[derive(Debug)]
struct ToldVerdict {
    holds: Holds,
    words: String,
    lasted_s: f64,
    /// What was told before it.
    earlier: Option<Holds>,
}

fn rule(holds: Holds) -> LastingRule {
    if holds.is_some_and(|(_, cause)| cause == Some(Cause::CheckpointWrite)) { SAVING } else { RULE }
}

/// What a verdict says; `None` where it says nothing about a bottleneck.
fn holds(verdict: &Verdict) -> Option<Holds> {
    let is_about_it = matches!(verdict.phase, Phase::Training | Phase::Checkpoint)
        && !matches!(verdict.class, Class::Idle | Class::Unknown)
        && verdict.confidence >= SURE_ENOUGH;
    is_about_it.then(|| (!verdict.is_healthy()).then_some((verdict.class, verdict.cause)))
}

impl HeldBack {
    pub(super) fn push(&mut self, moment: WatchedMoment<'_>) -> Option<WatchEvent> {
        let verdict = &moment.tick.verdict;
        let now = holds(verdict)?;
        if let Some(told) = &mut self.told {
            told.lasted_s += moment.seconds;
        }
        let is_told = self.told.as_ref().is_some_and(|told| told.holds == now);
        if !is_told && self.candidates.iter().all(|(holds, _)| *holds != now) {
            self.candidates.push((now, Patience::default()));
        }
        let mut lasts = false;
        self.other.push(RULE, !is_told, moment.seconds);
        let other_s = self.other.lasted_s();
        for (holds, patience) in &mut self.candidates {
            let (rule, there) = (rule(*holds), *holds == now && !is_told);
            let lasted = patience.push(rule, there, moment.seconds);
            // On its way to a verdict the diagnosis may say something third for some seconds.
            let settled = patience.lasted_s() >= SETTLED_S && other_s >= patience.needed_s(rule);
            lasts |= (lasted || settled) && there;
        }
        lasts.then(|| self.tell(now, verdict))?
    }

    #[cfg(test)]
    pub(super) fn is_small(&self) -> bool {
        self.candidates.len() <= Class::COUNT * (Cause::COUNT + 1)
    }

    fn tell(&mut self, now: Holds, verdict: &Verdict) -> Option<WatchEvent> {
        let words = if now.is_some() { verdict.heading() } else { "nothing holds the job back".to_owned() };
        let earlier = self.told.as_ref().map(|told| told.holds);
        let lasting = self.candidates.iter().find(|(holds, _)| *holds == now);
        let lasted_s = lasting.map_or(0.0, |(_, patience)| patience.lasted_s());
        let before = self.told.replace(ToldVerdict { holds: now, words, lasted_s: 0.0, earlier });
        // What gives way to what was there before it may only have passed by.
        let passing = before.as_ref().filter(|before| before.earlier == Some(now));
        for (holds, patience) in &mut self.candidates {
            if let Some(passing) = passing.filter(|passing| passing.holds == *holds) {
                patience.went_away(rule(*holds), passing.lasted_s);
            }
            patience.begin_anew();
        }
        self.other.begin_anew();
        let state = match (&before, now) {
            // A healthy job at the begin is no news.
            (None, None) => return None,
            (Some(ToldVerdict { holds: Some(_), .. }), None) => EventState::Ends,
            (Some(ToldVerdict { holds: Some(_), .. }), Some(_)) => EventState::Changed,
            _ => EventState::Begins,
        };
        let words = self.told.as_ref().map_or("", |told| &told.words);
        let text = match &before {
            Some(before) => format!("{words} (before: {})", before.words),
            None => words.to_owned(),
        };
        let before = before.and_then(|before| before.holds);
        let details = EventDetails::Bottleneck {
            class: verdict.class,
            cause: verdict.cause,
            confidence: verdict.confidence,
            before_class: before.map(|(class, _)| class),
            before_cause: before.and_then(|(_, cause)| cause),
            lasted_s,
            summary: verdict.summary.clone(),
        };
        Some(WatchEvent::new(EventKind::Bottleneck, Some(state), text, details))
    }
}
