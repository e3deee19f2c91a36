//! What changed between two traces in a sentence, why, and how certain that is.

use super::super::tables::signed_ms;
use super::super::{AnyComparison, NO_CHANGE, StepResult, between, tenths};
use super::TraceComparison;
use trainmon_base::text::format::step_time;
use trainmon_profiles::comparison::{PartChange, PartsOf, Per, StepPart};

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

/// What changed.
pub(super) fn answer(of: &TraceComparison<'_>) -> String {
    let change = match &of.compared.steps {
        Ok(change) => change,
        Err(why) => return why.clone(),
    };
    let (subject, takes) = match of.change.per {
        Per::Step => ("A step", "takes"),
        Per::Window => ("The window", "lasts"),
    };
    let [before, after] = change.step_s.map(|seconds| step_time(seconds * 1000.0));
    let reasons = || of.reasons().map(|reasons| format!(": {reasons}")).unwrap_or_default();
    let is_longer = change.change > 0.0;
    let size = format!("{}% {}", tenths(change.change.abs()), if is_longer { "more" } else { "less" });
    match (of.result(), change.interval) {
        (StepResult::Same, Some(interval)) => {
            let between = between(interval);
            format!(
                "{subject} takes the same time: {before} before and {after} after (the change is {between}, 99% sure)."
            )
        }
        (StepResult::Slower | StepResult::Faster, Some([low, high])) => {
            let [low, high] = if is_longer { [low, high] } else { [-high, -low] }.map(tenths);
            let reasons = reasons();
            format!("{subject} {takes} {after} instead of {before} ({size}; {low}% to {high}%, 99% sure){reasons}.")
        }
        _ if change.change.abs() < NO_CHANGE => {
            format!("{subject} {takes} about the same time: {before} before and {after} after.")
        }
        _ => format!("{subject} {takes} about {after} instead of {before} ({size}){}.", reasons()),
    }
}

/// Why it is not certain, and what makes it certain; `None` where it is.
pub(super) fn doubt(of: &TraceComparison<'_>) -> Option<String> {
    let change = of.compared.steps.as_ref().ok()?;
    if of.result() != StepResult::Unclear {
        return None;
    }
    if of.change.per == Per::Window {
        let without = of.sides().into_iter().filter(|side| side.account.steps == 0);
        let without: Vec<&str> = without.map(|side| side.name.as_str()).collect();
        let of = if without.len() == 2 { "either trace".to_owned() } else { without.concat() };
        return Some(format!(
            "No steps are known of {of}, so whole windows are compared: that cannot be distinguished from noise. Mark steps \
             with prof.step()."
        ));
    }
    let (None, Some(interval)) = (change.too_short, change.interval) else {
        let few = match of.sides().map(|side| side.account.steps) {
            [1, 1] => "One step each".to_owned(),
            [before, after] if before == after => format!("{before} steps each"),
            [before, after] => format!("{before} and {after} steps"),
        };
        return Some(format!(
            "{few} cannot be distinguished from noise. Profile 6 or more of each: schedule(active=6)."
        ));
    };
    let [before, after] = change.step_s;
    let steps = of.needed_s().map(|seconds| (seconds / before.min(after)).ceil());
    let more = steps.filter(|steps| *steps <= PROFILE_STEPS).map_or_else(
        || "Compare recordings instead (trainmon record): they cover minutes.".to_owned(),
        |steps| format!("Profile {steps:.0} steps of each."),
    );
    let between = between(interval);
    Some(format!("Not certain: the change is {between} (99% sure) by how much the steps vary. {more}"))
}

impl TraceComparison<'_> {
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
        let is_gpu = of == PartsOf::Gpu;
        let waits = match part.part {
            StepPart::Communication | StepPart::Collective => "for collectives",
            StepPart::InputWait => "for data",
            StepPart::Sync if is_gpu => "while the host waits for it",
            StepPart::Sync => "for the GPU",
            StepPart::Copies if !is_gpu => "for copies",
            StepPart::Blocked => "in sleeps and locks",
            StepPart::Launch if is_gpu => "for launches",
            StepPart::Operator if is_gpu => "for operators on the host",
            StepPart::Python if is_gpu => "for Python",
            works => {
                let not_shown = format!("what the {} does not show", self.before.account.noun());
                let (what, takes) = match works {
                    StepPart::Compute => ("kernels", "take"),
                    StepPart::Copies => ("copies without a kernel beside them", "take"),
                    StepPart::Launch => ("launches", "take"),
                    StepPart::Operator => ("operators", "take"),
                    StepPart::Python => ("Python", "takes"),
                    StepPart::Saving => ("saving", "takes"),
                    _ => (not_shown.as_str(), "takes"),
                };
                return format!("{what} {takes} {} time", if part.change_ms < 0.0 { "less" } else { "more" });
            }
        };
        let subject = if is_gpu { "the GPU" } else { "the loop" };
        let [before, after] = self.shares(part);
        let verb = if after < GONE && before >= THERE {
            "no longer waits"
        } else if before < GONE && after >= THERE {
            "now waits"
        } else if part.change_ms < 0.0 {
            "waits less"
        } else {
            "waits longer"
        };
        format!("{subject} {verb} {waits}")
    }

    /// Shares of a step that a part is.
    pub(super) fn shares(&self, part: &PartChange) -> [f64; 2] {
        let [of_before, of_after] = self.change.length_ms.values();
        let [before, after] = part.ms.values();
        [before / of_before, after / of_after]
    }
}
