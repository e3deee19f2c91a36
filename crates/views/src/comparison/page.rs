//! What a comparison says, of whatever kind the runs are: its result, its page, which every format lays out, and its JSON.

use serde::Serialize;

use super::commands::CommandChange;
use super::{StepResult, needed_s, reaches, result_of};
use crate::report::Section;
use trainmon_diagnosis::diagnosis::Verdict;
use trainmon_diagnosis::diagnosis::verdict::Class;
use trainmon_diagnosis::history::step_series::StepChange;
use trainmon_profiles::comparison::ProfileChange;

/// A comparison in reading order.
pub struct ComparisonPage {
    /// The names of both files.
    pub title: String,
    /// The class that gives it its color.
    pub accent: &'static str,
    /// What changed, in a sentence or two.
    pub answer: String,
    /// What to know of the answer: its doubt first.
    pub more: Vec<String>,
    /// What to bear in mind.
    pub cautions: Vec<String>,
    /// Everything else.
    pub sections: Vec<Section>,
}

/// What every comparison has.
#[derive(Debug)]
pub struct Compared {
    /// The names of both files.
    pub(super) names: [String; 2],
    /// How much longer steps may take: 0.05 is 5%.
    pub(super) limit: Option<f64>,
    /// By how much steps differ, or why that cannot be known, in a sentence.
    pub(super) steps: Result<StepChange, String>,
}

impl Compared {
    /// The name of one of the two.
    pub(super) fn name(&self, run: usize) -> &str {
        self.names.get(run).map_or("", String::as_str)
    }

    /// Seconds of each that make it certain; `None` where an hour does not.
    pub(super) fn needed_s(&self) -> Option<f64> {
        needed_s(*self.steps.as_ref().ok()?, self.limit)
    }
}

/// Two runs, or two traces, side by side.
pub trait AnyComparison {
    /// One of the two as JSON.
    type Side: Serialize;

    /// What is compared, and by how much steps differ.
    fn compared(&self) -> &Compared;

    /// The verdict on the second one.
    fn verdict(&self) -> Option<&Verdict>;

    /// What changed.
    fn answer(&self) -> String;

    /// Why it is not certain, and what makes it certain; `None` where it is.
    fn doubt(&self) -> Option<String>;

    /// Seconds of each that make it certain; `None` where an hour does not.
    fn needed_s(&self) -> Option<f64> {
        self.compared().needed_s()
    }

    /// What to bear in mind.
    fn cautions(&self) -> Vec<String>;

    /// Everything else; some may be empty.
    fn sections(&self) -> Vec<Section>;

    /// Both as JSON.
    fn sides_json(&self) -> [Self::Side; 2];

    /// The arguments that only one of the command lines has.
    fn command_change(&self) -> Option<CommandChange> {
        None
    }

    /// What changed in the profile.
    fn profile_change(&self) -> Option<&ProfileChange> {
        None
    }

    /// The second against the first.
    fn result(&self) -> StepResult {
        let Compared { steps, limit, .. } = self.compared();
        steps.as_ref().map_or(StepResult::Unknown, |change| result_of(*change, *limit))
    }

    /// Whether the second is slower by the limit; `None` where that is not certain.
    ///
    /// # Errors
    /// Why they cannot be compared, in one line.
    fn is_slower_by(&self, limit: f64) -> Result<Option<bool>, String> {
        self.compared().steps.as_ref().map(|change| reaches(*change, limit)).map_err(Clone::clone)
    }

    /// What changed, and how certain that is.
    fn summary(&self) -> String {
        [self.answer(), self.doubt().unwrap_or_default()].join(" ").trim_end().to_owned()
    }

    /// All that it says, for a format to lay out.
    fn page(&self) -> ComparisonPage {
        let [before, after] = &self.compared().names;
        let command = self.command_change().map(|change| change.sentence());
        let mut sections = self.sections();
        sections.retain(|section| !section.is_empty());
        ComparisonPage {
            title: format!("{before} → {after}"),
            accent: self.verdict().map_or(Class::Unknown, |verdict| verdict.class).word(),
            answer: self.answer(),
            more: self.doubt().into_iter().chain(command).collect(),
            cautions: self.cautions(),
            sections,
        }
    }

    /// The same for programs.
    fn json(&self) -> impl Serialize {
        let [before, after] = self.sides_json();
        let result = self.result();
        let step_change = self.compared().steps.as_ref().ok().map(|steps| {
            let [low, high] = steps.interval.map_or([None; 2], |ends| ends.map(Some));
            ChangeJson { change: steps.change, low, high }
        });
        ComparisonJson {
            schema: 1,
            result,
            limit: self.compared().limit,
            summary: self.summary(),
            step_change,
            needed_s: if result == StepResult::Unclear { self.needed_s() } else { None },
            command_change: self.command_change(),
            cautions: self.cautions(),
            before,
            after,
            profile: self.profile_change().cloned(),
        }
    }
}

/// The whole, for programs.
#[derive(Serialize)]
struct ComparisonJson<S> {
    schema: u32,
    /// The second run against the first.
    result: StepResult,
    /// How much longer steps may take: 0.05 is 5%.
    limit: Option<f64>,
    summary: String,
    /// Relative change of the mean step time, with its 99% interval; a guess where that is null.
    step_change: Option<ChangeJson>,
    /// Where the result is unclear: seconds of training of each run that would make it clear; null if an hour would not.
    needed_s: Option<f64>,
    /// The arguments that only one of the command lines has. A trace knows no command line.
    command_change: Option<CommandChange>,
    cautions: Vec<String>,
    before: S,
    after: S,
    /// Of two traces, or of the profiles of two runs: what changed, per step or in the window.
    #[serde(skip_serializing_if = "Option::is_none")]
    profile: Option<ProfileChange>,
}

/// A relative change with its 99% interval.
#[derive(Serialize)]
struct ChangeJson {
    change: f64,
    low: Option<f64>,
    high: Option<f64>,
}
