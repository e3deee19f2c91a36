//! A comparison as JSON.

use serde::Serialize;

use super::commands::CommandChange;
use super::tables::{RESOURCES, mean_of};
use super::{ComparedRun, Comparison, StepResult};
use crate::history::environment::Environment;
use crate::history::step_series::{Needed, StepChange};
use crate::history::surroundings::Surroundings;
use crate::rates::time_split::TimeSplit;

impl Comparison<'_> {
    /// The comparison as JSON.
    pub fn json(&self) -> impl Serialize {
        let [before, after] = self.sides().map(json_of);
        let result = self.result();
        let step_change = self.steps.ok().map(ChangeJson::new);
        let needed_s = match self.needed() {
            Needed::Seconds(seconds) if result == StepResult::Unclear => Some(seconds.ceil()),
            _ => None,
        };
        ComparisonJson {
            schema: 1,
            result,
            limit: self.limit,
            summary: self.summary(),
            step_change,
            needed_s,
            command_change: self.command_change(),
            cautions: self.cautions(),
            before,
            after,
        }
    }
}

/// The whole, for programs.
#[derive(Serialize)]
struct ComparisonJson {
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
    /// The arguments that only one of the command lines has.
    command_change: Option<CommandChange>,
    cautions: Vec<String>,
    before: RunJson,
    after: RunJson,
}

/// A relative change with its 99% interval.
#[derive(Serialize)]
pub(super) struct ChangeJson {
    pub(super) change: f64,
    pub(super) low: Option<f64>,
    pub(super) high: Option<f64>,
}

impl ChangeJson {
    pub(super) fn new(StepChange { change, interval, .. }: StepChange) -> Self {
        let [low, high] = interval.map_or([None; 2], |ends| ends.map(Some));
        Self { change, low, high }
    }
}

#[derive(Serialize)]
struct RunJson {
    file: String,
    command: String,
    watched_s: f64,
    class: Option<&'static str>,
    cause: Option<&'static str>,
    confidence: Option<f64>,
    step_ms: Option<f64>,
    shares: Option<TimeSplit>,
    workers: u32,
    resources: serde_json::Map<String, serde_json::Value>,
    surroundings: Surroundings,
    environment: Environment,
}

fn json_of(side: &ComparedRun<'_>) -> RunJson {
    let verdict = side.verdict();
    let resources = RESOURCES.iter().filter_map(|(name, _, value)| {
        let value = mean_of(side.run, *value).filter(|value| value.is_finite())?;
        Some(((*name).to_owned(), serde_json::Value::from(value)))
    });
    RunJson {
        file: side.name.clone(),
        command: side.header.command.clone(),
        watched_s: side.run.totals.watched_s,
        class: verdict.map(|verdict| verdict.class.word()),
        cause: verdict.and_then(|verdict| Some(verdict.cause?.name())),
        confidence: verdict.map(|verdict| verdict.confidence),
        step_ms: side.run.steps.mean_s().map(|seconds| seconds * 1000.0),
        shares: side.shares(),
        workers: side.run.most_workers,
        resources: resources.collect(),
        surroundings: side.run.surroundings.mean(),
        environment: side.run.environment.clone(),
    }
}
