//! What changed between two traces in a sentence, why, and how certain that is.

use super::super::{NO_CHANGE, between, needed, tenths};
use super::{StepResult, TraceComparison};
use crate::history::step_series::{Needed, NoSteps, StepChange};
use crate::profiles::comparison::{PartChange, PartsOf, Per, StepPart};
use crate::text::format::step_time;

/// A part that contributes less of the change is not worth words.
const CONTRIBUTES: f64 = 0.2;
/// Most parts that move with the change and are named.
const PARTS_NAMED: usize = 2;
/// Shares of a step below which a part is as good as gone, and from which it was there.
const GONE: f64 = 0.02;
const THERE: f64 = 0.05;
/// What waits.
const SUBJECTS: [&str; 2] = ["the GPU", "the loop"];
/// No profile has more steps than this.
const PROFILE_STEPS: f64 = 1000.0;

impl TraceComparison<'_> {
    /// What changed.
    pub(super) fn answer(&self) -> String {
        let change = match self.steps {
            Ok(change) => change,
            Err(why) => return self.unknown(why),
        };
        let (subject, takes) = match self.change.per {
            Per::Step => ("A step", "takes"),
            Per::Window => ("The window", "lasts"),
        };
        let [before, after] = change.step_s.map(|seconds| step_time(seconds * 1000.0));
        let reasons = || self.reasons().map(|reasons| format!(": {reasons}")).unwrap_or_default();
        let size = format!("{}% {}", tenths(change.change.abs()), if change.change > 0.0 { "more" } else { "less" });
        match (self.result(), change.interval) {
            (StepResult::Same, Some(interval)) => {
                let between = between(interval);
                format!(
                    "{subject} takes the same time: {before} before and {after} after (the change is {between}, 99% sure)."
                )
            }
            (StepResult::Slower | StepResult::Faster, Some([low, high])) => {
                let [low, high] = if change.change > 0.0 { [low, high] } else { [-high, -low] }.map(tenths);
                let reasons = reasons();
                format!(
                    "{subject} {takes} {after} instead of {before} ({size}; {low}% to {high}%, 99% sure){reasons}."
                )
            }
            _ if change.change.abs() < NO_CHANGE => {
                format!("{subject} {takes} about the same time: {before} before and {after} after.")
            }
            _ => format!("{subject} {takes} about {after} instead of {before} ({size}){}.", reasons()),
        }
    }

    pub(super) fn unknown(&self, NoSteps(run): NoSteps) -> String {
        let name = self.sides().get(run).map_or("", |side| side.name.as_str());
        format!("The traces cannot be compared: {name} covers no time.")
    }

    /// Why it is not certain, and what makes it certain; `None` where it is.
    pub(super) fn doubt(&self) -> Option<String> {
        let change = self.steps.ok()?;
        if self.result() != StepResult::Unclear {
            return None;
        }
        if self.change.per == Per::Window {
            let without: Vec<&str> = self
                .sides()
                .into_iter()
                .filter(|side| side.account.steps == 0)
                .map(|side| side.name.as_str())
                .collect();
            let of = if without.len() == 2 { "either trace".to_owned() } else { without.concat() };
            return Some(format!(
                "No steps are known of {of}, so whole windows are compared: that cannot be distinguished from noise. Mark steps \
                 with prof.step()."
            ));
        }
        let counts = self.sides().map(|side| side.account.steps);
        match (change.too_short, change.interval) {
            (None, Some(interval)) => {
                let known = format!(
                    "Not certain: the change is {} (99% sure) by how much the steps vary.",
                    between(interval)
                );
                let [before, after] = change.step_s;
                let more = match self.needed(change) {
                    Needed::Seconds(seconds) if seconds / before.min(after) <= PROFILE_STEPS => {
                        format!("Profile {:.0} steps of each.", (seconds / before.min(after)).ceil())
                    }
                    _ => "Compare recordings instead (trainmon record): they cover minutes.".to_owned(),
                };
                Some(format!("{known} {more}"))
            }
            _ => {
                let few = match counts {
                    [1, 1] => "One step each".to_owned(),
                    [before, after] if before == after => format!("{before} steps each"),
                    [before, after] => format!("{before} and {after} steps"),
                };
                Some(format!(
                    "{few} cannot be distinguished from noise. Profile 6 or more of each: schedule(active=6)."
                ))
            }
        }
    }

    /// How much of each run makes it certain.
    pub(super) fn needed(&self, change: StepChange) -> Needed {
        needed(change, self.limit)
    }

    /// The parts that contribute most to the change, and the largest that works against it.
    fn reasons(&self) -> Option<String> {
        let of = self.change.parts_of?;
        let whole_ms = self.change.length_ms.change();
        let mut parts: Vec<&PartChange> = self.change.parts.iter().collect();
        parts.retain(|part| part.change_ms.abs() >= CONTRIBUTES * whole_ms.abs() && part.change_ms != 0.0);
        parts.sort_by(|a, b| b.change_ms.abs().total_cmp(&a.change_ms.abs()));
        let (with, against): (Vec<_>, Vec<_>) = parts.into_iter().partition(|part| part.change_ms * whole_ms > 0.0);
        if with.is_empty() {
            return None;
        }
        let against: Vec<&PartChange> = against.into_iter().take(1).collect();
        let mut said = String::new();
        let mut last = String::new();
        for (part, nth) in with.into_iter().take(PARTS_NAMED).chain(against).zip(0..) {
            let works = part.change_ms * whole_ms > 0.0;
            let join = match (nth, works) {
                (0, _) => "",
                (_, true) => " and ",
                (_, false) => ", but ",
            };
            let phrase = self.phrase(of, part);
            let subject =
                SUBJECTS.into_iter().find(|subject| phrase.starts_with(subject) && last.starts_with(subject));
            let short = subject.and_then(|subject| phrase.strip_prefix(subject)).map(|rest| format!("it{rest}"));
            said += &format!("{join}{} ({})", short.as_ref().unwrap_or(&phrase), signed_ms(part.change_ms));
            last = phrase;
        }
        Some(said)
    }

    /// `the GPU no longer waits for data`.
    fn phrase(&self, of: PartsOf, part: &PartChange) -> String {
        let [before, after] = self.shares(part);
        let moved = if after < GONE && before >= THERE {
            PartMove::Gone
        } else if before < GONE && after >= THERE {
            PartMove::New
        } else if part.change_ms < 0.0 {
            PartMove::Less
        } else {
            PartMove::More
        };
        let waits = |tail: &str| {
            let subject = if of == PartsOf::Gpu { "the GPU" } else { "the loop" };
            match moved {
                PartMove::Gone => format!("{subject} no longer waits {tail}"),
                PartMove::New => format!("{subject} now waits {tail}"),
                PartMove::Less => format!("{subject} waits less {tail}"),
                PartMove::More => format!("{subject} waits longer {tail}"),
            }
        };
        let takes = |what: &str, verb: &str| match moved {
            PartMove::Gone | PartMove::Less => format!("{what} {verb} less time"),
            PartMove::New | PartMove::More => format!("{what} {verb} more time"),
        };
        let is_gpu = of == PartsOf::Gpu;
        match part.part {
            StepPart::Compute => takes("kernels", "take"),
            StepPart::Copies => takes("copies without a kernel beside them", "take"),
            StepPart::Communication | StepPart::Collective => waits("for collectives"),
            StepPart::InputWait => waits("for data"),
            StepPart::Sync if is_gpu => waits("while the host waits for it"),
            StepPart::Sync => waits("for the GPU"),
            StepPart::Blocked => waits("in sleeps and locks"),
            StepPart::Launch if is_gpu => waits("for launches"),
            StepPart::Operator if is_gpu => waits("for operators on the host"),
            StepPart::Python if is_gpu => waits("for Python"),
            StepPart::Launch => takes("launches", "take"),
            StepPart::Operator => takes("operators", "take"),
            StepPart::Python => takes("Python", "takes"),
            StepPart::Nothing => takes("what the trace does not show", "takes"),
        }
    }

    /// Shares of a step that a part is.
    pub(super) fn shares(&self, part: &PartChange) -> [f64; 2] {
        let [of_before, of_after] = self.change.length_ms.values();
        let [before, after] = part.ms.values();
        [before / of_before, after / of_after]
    }
}

#[derive(Clone, Copy)]
enum PartMove {
    Gone,
    New,
    Less,
    More,
}

/// `−61 ms`.
pub(super) fn signed_ms(ms: f64) -> String {
    let text = milliseconds(ms.abs());
    if text == "0 ms" { text } else { format!("{}{text}", if ms < 0.0 { "−" } else { "+" }) }
}

/// `61 ms`; small ones with two decimals, and nothing as 0.
pub(super) fn milliseconds(ms: f64) -> String {
    if ms.abs() < 0.005 { "0 ms".to_owned() } else { step_time(ms) }
}
