//! One of two runs as JSON.

use serde::Serialize;

use super::ComparedRun;
use super::tables::{RESOURCES, mean_of};
use trainmon_diagnosis::history::environment::Environment;
use trainmon_diagnosis::history::surroundings::Surroundings;
use trainmon_waits::time_split::TimeSplit;

/// A run, for programs.
#[derive(Serialize)]
pub struct RunJson {
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

impl RunJson {
    pub(super) fn new(side: &ComparedRun<'_>) -> Self {
        let verdict = side.verdict();
        let resources = RESOURCES.iter().filter_map(|(name, _, value)| {
            let value = mean_of(side.run, *value).filter(|value| value.is_finite())?;
            Some(((*name).to_owned(), serde_json::Value::from(value)))
        });
        Self {
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
}
