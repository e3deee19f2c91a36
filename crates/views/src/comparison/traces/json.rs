//! One of two traces as JSON.

use serde::Serialize;

use super::ComparedTrace;
use super::cautions::gpu;
use trainmon_waits::time_split::TimeSplit;

/// A trace, for programs.
#[derive(Serialize)]
pub struct TraceJson {
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

impl TraceJson {
    pub(super) fn new(ComparedTrace { name, verdict, account }: &ComparedTrace<'_>) -> Self {
        Self {
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
}
