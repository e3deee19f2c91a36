//! The verdict: what `diagnose --json` prints and recordings hold.
//!
//! An unknown number is `None` and prints as `null`.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use super::causes::Finding;
use super::causes::{self, Cause};
pub use super::ceiling::{Ceiling, Limit};
pub use super::chain::ChainNode;
pub use super::class::{Class, Phase};
pub use super::culprits::{Culprit, CulpritKind, ShareOf};
pub use super::job::JobDoes;
use super::loop_parts::{LoopPart, LoopWait, parts};
pub use super::parts::{Advice, GpuIdle, Hottest, Stages, WorkerVerdict};
pub use super::plan::PlanStep;
pub use super::shown_place::PlaceOf;
pub use super::signals::{Evidence, EvidenceFrom};
pub use super::subject::{Missing, Subject};
use trainmon_base::text::format::SURE;
use trainmon_libraries::StepUnit;
use trainmon_profiles::account::ProfileAccount;
use trainmon_waits::time_split::TimeSplit;

/// The session that a verdict belongs to.
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
    /// Seconds at their end that the numbers are of: twelve, more with long steps, less after a change.
    #[serde(default)]
    pub window_s: f64,
    /// What the job is doing.
    pub phase: Phase,
    /// The class.
    pub class: Class,
    /// The cause, if it is known.
    #[serde(default, deserialize_with = "causes::known")]
    pub cause: Option<Cause>,
    /// 0–1: the part of such verdicts that is right.
    pub confidence: f64,
    /// 0–1: the confidence of the rules alone, before it is fitted to how often they were right.
    #[serde(default)]
    pub confidence_by_rules: f64,
    /// One or two sentences: what is lost, and why.
    pub summary: String,
    /// Seconds from attaching to the first verdict other than unknown.
    pub first_verdict_s: Option<f64>,
    /// Where the loop's time went: shares that add up to 1.
    pub shares: Option<TimeSplit>,
    /// What the loop waits for during `shares.other`, as far as that was followed; the longest wait first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waits: Vec<LoopWait>,
    /// The GPU's idle time, by what the loop did meanwhile.
    pub gpu_idle: Option<GpuIdle>,
    /// The steps of the loop.
    pub steps: Steps,
    /// What the job does, and which library runs its loop.
    #[serde(default)]
    pub job: JobDoes,
    /// The path of the time, at most three functions, outermost first: the user's last one, the one where the time divides, and
    /// the innermost one that takes a large part. Empty without stacks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub place: Vec<Hottest>,
    /// Of what that path is: `loop`, or what the loop waits for: `workers`, `threads`. `loop` if it is missing.
    #[serde(default, skip_serializing_if = "PlaceOf::is_loop")]
    pub place_of: PlaceOf,
    /// The loop in detail, if stacks were read.
    #[serde(default)]
    pub main_thread: Option<MainThread>,
    /// The ranks of a distributed run, if there are several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ranks: Vec<Rank>,
    /// The data-loader workers.
    pub workers: Vec<WorkerVerdict>,
    /// The numbers that the verdict rests on.
    pub evidence: Vec<Evidence>,
    /// What to do, the first thing first.
    pub advice: Vec<Advice>,
    /// What to do one after the other, if more than one thing limits the loop: each with the step time that is left.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub plan: Vec<PlanStep>,
    /// The most that tuning can gain without changing code, while the job trains.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ceiling: Option<Ceiling>,
    /// What else was found, and what makes the verdict less certain.
    pub other_findings: Vec<Finding>,
    /// The exact account of a profile, if the verdict has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<Arc<ProfileAccount>>,
    /// Seconds since the profile was taken, if the run is watched further; without it the verdict is on the profile alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile_age_s: Option<f64>,
    /// When the profile was taken, milliseconds since 1970; null for a trace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile_unix_ms: Option<i64>,
    /// What the cause blames, most to blame first.
    #[serde(default)]
    pub culprits: Vec<Culprit>,
    /// What the loop waits for, and what that waits for: a tree. Empty if no wait was traced.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub chain: Vec<ChainNode>,
    /// The state of each source: `ok`, `denied`, `absent`, `hung` or another short word.
    pub seen: BTreeMap<Subject, String>,
    /// What could not be read.
    pub not_seen: Vec<Unavailable>,
    /// trainmon's own cost.
    #[serde(rename = "self")]
    pub own: OwnCost,
}

impl Verdict {
    /// Where the loop's time went over the verdict's window, the largest part first; they add up to what was seen. Parts that
    /// would be shown as 0% are left out. Empty if nothing is known.
    pub fn loop_parts(&self) -> Vec<(LoopPart, f64)> {
        self.shares.map_or_else(Vec::new, |shares| parts(&shares, &self.waits))
    }

    /// The part of the loop's time that has the name of a wait, 0–1.
    pub fn named_waits(&self) -> f64 {
        self.waits.iter().map(|wait| wait.share).sum()
    }

    /// Whether the first answer is still to come.
    pub fn is_pending(&self) -> bool {
        let is_unknown = self.class == Class::Unknown && self.phase == Phase::Unknown;
        is_unknown && self.observed_s < PENDING_S && self.profile.is_none()
    }

    /// Whether nothing holds the run back: no resource costs more than a few percent, or the GPU computes all the time. A profile
    /// shows whether it does: with several small losses, or far below its peak, the verdict on it is less than sure.
    pub fn is_healthy(&self) -> bool {
        let computes = self.cause == Some(Cause::ComputeBound);
        let of_profile = self.profile.is_some() && self.profile_age_s.is_none();
        self.class == Class::Balanced || (computes && (!of_profile || self.confidence >= SURE))
    }

    /// Class and cause as a heading: `DATA LOADER · too few workers`.
    pub fn heading(&self) -> String {
        let class = self.class.title();
        let spec = causes::spec_of(self.class, self.cause, self.phase);
        spec.map_or_else(|| class.to_owned(), |spec| format!("{class} · {}", spec.headline))
    }

    /// What limits the loop once an advice has gained all that it promises, in words for `until …`: the GPU or the CPUs,
    /// if they are why it gains no more.
    pub fn limit_beyond(&self, advice: &Advice) -> Option<&'static str> {
        let gain = advice.speedup_at_most?;
        let is_gain = |most: f64| (gain / most - 1.0).abs() <= SAME_GAIN;
        let by_gpu = self.gpu_idle.is_some_and(|idle| is_gain(1.0 / (1.0 - idle.total).max(SAME_GAIN)));
        let full = self.ceiling.filter(|ceiling| is_gain(ceiling.speedup_at_most)).map(|ceiling| ceiling.limit);
        match full {
            Some(Limit::Gpu) => Some("the GPU is the limit"),
            _ if by_gpu => Some("the GPU is the limit"),
            Some(Limit::Cpus) => Some("the CPUs are full"),
            Some(Limit::Loop) | None => None,
        }
    }
}

/// Within so many seconds, an unknown verdict only means that the first one is still to come.
const PENDING_S: f64 = 8.0;

/// Gains that differ by no more than this are the same, relative.
const SAME_GAIN: f64 = 0.03;

/// Steps of the training loop.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Steps {
    /// Steps/s.
    pub per_s: Option<f64>,
    /// Median step time, milliseconds.
    pub p50_ms: Option<f64>,
    /// 95th percentile of the step time, milliseconds.
    pub p95_ms: Option<f64>,
    /// Steps since attaching, as far as they were counted.
    pub count: Option<u64>,
    /// The loop stalls once in this many steps.
    pub stall_every: Option<u32>,
    /// What is counted: `steps`, `trees`, …
    #[serde(default)]
    pub unit: StepUnit,
    /// How steps are counted: `feeder-writes`, `profile` (a trace of torch.profiler), or `variable step in train (train.py)`.
    pub source: Option<StepSource>,
}

/// How steps are counted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum StepSource {
    /// By the batches that the loop requests from its workers.
    #[serde(rename = "feeder-writes")]
    QueueWrites,
    /// By the steps in a profile.
    #[serde(rename = "profile")]
    Profile,
    /// By a variable of the loop, `variable step in train (train.py)`, or by the loop itself, `for loop in train (train.py)`.
    #[serde(untagged)]
    Variable(String),
}

impl StepSource {
    /// The words of the JSON.
    pub fn as_str(&self) -> &str {
        match self {
            Self::QueueWrites => "feeder-writes",
            Self::Profile => "profile",
            Self::Variable(variable) => variable,
        }
    }

    /// How the steps are counted, after "8 counted".
    pub fn how(&self) -> String {
        match self {
            Self::QueueWrites => " (one for each batch)".to_owned(),
            Self::Profile => " in the profile".to_owned(),
            Self::Variable(variable) => format!(" by {variable}"),
        }
    }
}

/// What the loop was doing, by its stacks.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct MainThread {
    /// Share of its time by activity (`waiting`, `loading`, `forward`, `backward`, `optimizer`, …); adds up to 1.
    pub activities: BTreeMap<String, f64>,
    /// Functions of the user's own code by their share of the time, the largest first, at most five.
    pub hottest: Vec<Hottest>,
    /// Lines that wait for the GPU, the largest share first, at most five.
    pub sync_lines: Vec<Hottest>,
    /// Number of stack samples.
    pub samples: u32,
}

/// One rank of a distributed run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Rank {
    /// PID of its training process.
    pub pid: u32,
    /// Its number in the run, if its launcher has set one.
    #[serde(default)]
    pub rank: Option<u32>,
    /// Where its loop's time went.
    pub shares: TimeSplit,
    /// Share of its time in collectives, if stacks were read.
    pub collectives: Option<f64>,
    /// Steps per second, if its steps are counted.
    #[serde(default)]
    pub steps_per_s: Option<f64>,
    /// The other ranks wait for this one.
    pub straggler: bool,
    /// Its hottest line of code, if stacks were read.
    #[serde(default)]
    pub at: Option<Hottest>,
}

impl Rank {
    /// Its number from the launcher, else its place in the order of PIDs.
    pub fn number(&self, place: usize) -> u32 {
        self.rank.unwrap_or_else(|| u32::try_from(place).unwrap_or(u32::MAX))
    }
}

/// Something that could not be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unavailable {
    /// What could not be read.
    pub what: Missing,
    /// Why, and what that means.
    pub why: String,
    /// The command that fixes it, if there is one.
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
