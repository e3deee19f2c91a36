//! A comparison of traces as JSON: the object of a comparison of runs, with what changed under `profile`.

use serde::Serialize;

use super::cautions::gpu;
use super::{ComparedTrace, StepResult, TraceComparison};
use crate::history::step_series::Needed;
use crate::outputs::comparison::json::ChangeJson;
use crate::profiles::comparison::ProfileChange;
use crate::rates::time_split::TimeSplit;

impl TraceComparison<'_> {
    /// The comparison as JSON.
    pub fn json(&self) -> impl Serialize {
        let [before, after] = self.sides().map(json_of);
        let result = self.result();
        let step_change = self.steps.ok().map(ChangeJson::new);
        let needed_s = match self.steps.ok().map(|change| self.needed(change)) {
            Some(Needed::Seconds(seconds)) if result == StepResult::Unclear => Some(seconds),
            _ => None,
        };
        TraceComparisonJson {
            schema: 1,
            result,
            limit: self.limit,
            summary: self.summary(),
            step_change,
            needed_s,
            command_change: None,
            cautions: self.cautions(),
            before,
            after,
            profile: self.change.clone(),
        }
    }
}

#[derive(Serialize)]
struct TraceComparisonJson {
    schema: u32,
    result: StepResult,
    limit: Option<f64>,
    summary: String,
    step_change: Option<ChangeJson>,
    needed_s: Option<f64>,
    /// A trace knows no command line.
    command_change: Option<String>,
    cautions: Vec<String>,
    before: TraceJson,
    after: TraceJson,
    /// What changed, per step or in the window.
    profile: ProfileChange,
}

#[derive(Serialize)]
struct TraceJson {
    file: String,
    watched_s: f64,
    class: Option<&'static str>,
    cause: Option<&'static str>,
    confidence: Option<f64>,
    step_ms: Option<f64>,
    steps: u64,
    shares: Option<TimeSplit>,
    gpu: Option<String>,
    rank: Option<u32>,
    world_size: Option<u32>,
}

fn json_of(side: &ComparedTrace<'_>) -> TraceJson {
    let ComparedTrace { name, verdict, account } = side;
    TraceJson {
        file: name.clone(),
        watched_s: account.window_ms / 1000.0,
        class: Some(verdict.class.word()),
        cause: verdict.cause.map(|cause| cause.name()),
        confidence: Some(verdict.confidence),
        step_ms: account.step_ms,
        steps: account.steps,
        shares: verdict.shares,
        gpu: gpu(account),
        rank: account.rank,
        world_size: account.world_size,
    }
}
