//! The verdict as the contract shows it: what `diagnose --json` prints and recordings hold.
//!
//! Unknown numbers are `None` and print as `null`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use super::causes::Finding;
use super::causes::{self, Cause};
pub use super::ceiling::{Ceiling, Limit};
pub use super::chain::ChainNode;
pub use super::class::{Class, Phase};
pub use super::culprits::{Culprit, CulpritKind, ShareOf};
pub use super::parts::{Advice, GpuIdle, Hottest, Stages, WorkerVerdict};
pub use super::signals::Evidence;
pub use super::subject::{Missing, Subject};
use crate::rates::time_split::TimeSplit;

/// What the verdict says about the session.
#[derive(Debug, Clone, Default)]
pub struct Context {
    /// The attached PID.
    pub pid: u32,
    /// Its command line, ready to show.
    pub command: String,
    /// When the session began, RFC 3339.
    pub started: String,
}

/// One verdict.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// Version of this object's shape: 1.
    pub schema: u32,
    /// Version of trainmon.
    pub trainmon: String,
    /// The attached PID.
    pub pid: u32,
    /// Its command line, control characters replaced.
    pub command: String,
    /// When watching began, RFC 3339.
    pub started: String,
    /// Seconds watched.
    pub observed_s: f64,
    /// What the job is doing.
    pub phase: Phase,
    /// The class.
    pub class: Class,
    /// The cause, where it can be known.
    #[serde(default, deserialize_with = "causes::known")]
    pub cause: Option<Cause>,
    /// 0–1: so many of such verdicts are right.
    pub confidence: f64,
    /// How sure the rules alone are, before that is held against how often they were right, 0–1.
    #[serde(default)]
    pub confidence_by_rules: f64,
    /// One sentence: what and why, with numbers.
    pub summary: String,
    /// Seconds from attaching to the first verdict that was neither unknown nor pending.
    pub first_verdict_s: Option<f64>,
    /// Where the main thread's wall time went, shares that add up to 1.
    pub shares: Option<TimeSplit>,
    /// Device idle time by what the main thread did meanwhile.
    pub gpu_idle: Option<GpuIdle>,
    /// Steps.
    pub steps: Steps,
    /// The main thread in detail, where stacks were seen.
    #[serde(default)]
    pub main_thread: Option<MainThread>,
    /// The ranks of a distributed run, where there are several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ranks: Vec<Rank>,
    /// Workers.
    pub workers: Vec<WorkerVerdict>,
    /// The numbers that the verdict rests on.
    pub evidence: Vec<Evidence>,
    /// What to do, first thing first.
    pub advice: Vec<Advice>,
    /// The most that tuning can bring with the code as it is, while the job trains.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ceiling: Option<Ceiling>,
    /// What else was found.
    pub other_findings: Vec<Finding>,
    /// Whom or what the cause blames, most to blame first.
    #[serde(default)]
    pub culprits: Vec<Culprit>,
    /// Whom the loop waits for, and whom that one waits for: a tree from the loop to the ends. Empty where nothing of it is seen.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub chain: Vec<ChainNode>,
    /// How each source stands: source → `ok`, `denied`, `absent`, `hung` or a short kind.
    pub seen: BTreeMap<Subject, String>,
    /// What could not be seen.
    pub not_seen: Vec<Unavailable>,
    /// trainmon's own cost.
    #[serde(rename = "self")]
    pub own: OwnCost,
}

impl Verdict {
    /// Whether nothing holds the run back: no resource costs more than a few percent, or the GPU computes all the time.
    pub fn is_healthy(&self) -> bool {
        self.class == Class::Balanced || self.cause == Some(Cause::ComputeBound)
    }

    /// Class and cause as a heading: `DATA LOADER · too few workers`.
    pub fn heading(&self) -> String {
        let class = self.class.title();
        let spec = causes::spec_of(self.class, self.cause, self.phase);
        spec.map_or_else(|| class.to_owned(), |spec| format!("{class} · {}", spec.headline))
    }
}

/// Steps of the training loop.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Steps {
    /// Per second.
    pub per_s: Option<f64>,
    /// Median length, milliseconds.
    pub p50_ms: Option<f64>,
    /// 95th percentile, milliseconds.
    pub p95_ms: Option<f64>,
    /// Seen since attaching.
    pub count: Option<u64>,
    /// A stall comes every so many steps.
    pub stall_every: Option<u32>,
    /// Where the steps were counted: `feeder-writes`, or by `variable step in train (train.py)`.
    pub source: Option<StepSource>,
}

/// By what steps are counted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum StepSource {
    /// The batches that the loop asks its workers for.
    #[serde(rename = "feeder-writes")]
    FeederWrites,
    /// A variable of the loop, in words: `variable step in train (train.py)`.
    #[serde(untagged)]
    Variable(String),
}

impl StepSource {
    /// The words of the JSON and of a sentence.
    pub fn as_str(&self) -> &str {
        match self {
            Self::FeederWrites => "feeder-writes",
            Self::Variable(variable) => variable,
        }
    }
}

/// What the main thread was doing, by its stacks.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct MainThread {
    /// Share of its wall time by activity (`waiting`, `loading`, `forward`, `backward`, `optimizer`, …); adds up to 1.
    pub activities: BTreeMap<String, f64>,
    /// Functions of the user's own code by their share of the wall time, largest first, at most five.
    pub hottest: Vec<Hottest>,
    /// Lines at which the host waits for the device, largest share first, at most five.
    pub sync_lines: Vec<Hottest>,
    /// Stack samples that this rests on.
    pub samples: u32,
}

/// One rank of a distributed run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Rank {
    /// PID of its trainer.
    pub pid: u32,
    /// Its number among the ranks of its run, where its launcher has told it.
    #[serde(default)]
    pub rank: Option<u32>,
    /// Where its main thread's time went.
    pub shares: TimeSplit,
    /// Share of its time in collectives, where stacks told.
    pub collectives: Option<f64>,
    /// The others wait for this one.
    pub straggler: bool,
    /// Where its code stands most of the time, where stacks told.
    #[serde(default)]
    pub at: Option<Hottest>,
}

impl Rank {
    /// What it is called: its number where the launcher has told it, else its place in the order of PIDs.
    pub fn number(&self, place: usize) -> u32 {
        self.rank.unwrap_or_else(|| u32::try_from(place).unwrap_or(u32::MAX))
    }
}

/// Something that could not be seen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unavailable {
    /// What.
    pub what: Missing,
    /// Why.
    pub why: String,
    /// The command that fixes it, if any.
    pub fix: Option<String>,
}

/// What trainmon itself costs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct OwnCost {
    /// Percent of one core.
    pub cpu_pct: Option<f64>,
    /// Resident set, MiB.
    pub rss_mib: Option<f64>,
}
