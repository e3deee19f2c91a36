//! A comparison as JSON.

use serde::Serialize;

use super::tables::{RESOURCES, mean_of};
use super::{ComparedRun, Comparison, StepVerdict};
use crate::history::environment::Environment;
use crate::rates::time_split::TimeSplit;

impl Comparison<'_> {
    /// The comparison as JSON.
    pub fn json(&self) -> impl Serialize {
        let change = match self.steps {
            StepVerdict::Longer(change) | StepVerdict::Shorter(change) | StepVerdict::Same(change) => Some(change),
            StepVerdict::Unknown(_) => None,
        };
        let word = match self.steps {
            StepVerdict::Longer(_) => "slower",
            StepVerdict::Shorter(_) => "faster",
            StepVerdict::Same(_) => "same",
            StepVerdict::Unknown(_) => "unknown",
        };
        let [before, after] = self.sides().map(json_of);
        let step_change =
            change.map(|change| ChangeJson { change: change.change, low: change.low, high: change.high });
        let (summary, cautions) = (self.sentence(), self.cautions());
        ComparisonJson { schema: 1, result: word, summary, step_change, cautions, before, after }
    }
}

/// The whole, for programs.
#[derive(Serialize)]
struct ComparisonJson {
    schema: u32,
    /// `slower`, `faster`, `same` or `unknown`: the second run against the first.
    result: &'static str,
    summary: String,
    /// Relative change of the mean step time, with its 99% interval.
    step_change: Option<ChangeJson>,
    cautions: Vec<String>,
    before: RunJson,
    after: RunJson,
}

#[derive(Serialize)]
struct ChangeJson {
    change: f64,
    low: f64,
    high: f64,
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
        environment: side.run.environment.clone(),
    }
}
