//! What one interval amounts to: rates, and where the time of the loops and workers went, ready for the history, the
//! diagnosis and the screens.
//!
//! `None` means not measured: no previous sample, a counter that went backwards, or a source that is missing.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::chain::paths::ChainRates;
use super::stacks::ProcessStacks;
use super::time_split::TimeSplit;
use super::wait::Wait;
use trainmon_libraries::StepUnit;
use trainmon_rates::frame::{GpuLink, GpuRates, HostRates, JobRates, ProcessRates, StorageRates};
use trainmon_rates::other_processes::OtherProcesses;
use trainmon_rates::threads::{ThreadRates, ThreadRoleRates};
use trainmon_sample::{ProcessId, ProgressBar, RankPlace};

/// One interval between two samples.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Frame {
    /// Sequence of the later sample.
    pub sequence: u64,
    /// Wall clock at its end, milliseconds since 1970.
    pub unix_ms: i64,
    /// CLOCK_MONOTONIC at its end, nanoseconds.
    pub monotonic_ns: u64,
    /// Its length, seconds; 0 for the first sample of a session.
    pub seconds: f64,
    /// The series is broken before this frame (first sample, suspend, missing ticks).
    pub gap: bool,
    /// Nothing was read of the job's processes, as in an imported recording of a GPU alone.
    #[serde(default)]
    pub unwatched: bool,
    /// Whether the target is alive.
    pub alive: bool,
    /// State letter of the target's first thread.
    pub state: char,
    /// The attached job as a whole.
    pub job: JobRates,
    /// Where each training loop's time went, one per rank; the attached process first.
    pub ranks: Vec<RankRates>,
    /// The workers.
    pub workers: Vec<WorkerRates>,
    /// All processes of the job, target first.
    pub processes: Vec<ProcessRates>,
    /// Threads of the job that were on a CPU or queueing for at least 0.5% of the interval, busiest first, at most 256.
    pub threads: Vec<ThreadRates>,
    /// All threads of the job by the roles of process and thread, in the order of the roles.
    pub thread_roles: Vec<ThreadRoleRates>,
    /// The host.
    pub host: HostRates,
    /// The busiest processes outside the job; `None` if not shown.
    pub other_processes: Option<OtherProcesses>,
    /// Storage.
    pub storage: StorageRates,
    /// GPUs by index.
    pub gpus: Vec<GpuRates>,
    /// How the job's GPUs were identified.
    pub gpu_link: GpuLink,
    /// Version of the GPU driver.
    pub gpu_driver: Option<Arc<str>>,
    /// The stacks that ended in the interval, one entry per sampled process.
    pub stacks: Vec<ProcessStacks>,
    /// CPU use of trainmon and the programs it starts, percent of one CPU.
    pub own_cpu_pct: Option<f64>,
    /// trainmon's own resident set, bytes.
    pub own_rss_bytes: Option<u64>,
}

/// Where one training loop's wall time went in the interval.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct RankRates {
    /// Which process.
    pub id: ProcessId,
    /// Its place among the ranks of its run, if its launcher set it.
    #[serde(default)]
    pub place: Option<RankPlace>,
    /// Seconds that the samples represent.
    pub seconds_seen: f64,
    /// Number of samples.
    pub samples: u32,
    /// Another tool recorded all of its time: see [`ProfileSample`](trainmon_sample::ProfileSample).
    #[serde(default)]
    pub profiled: bool,
    /// True if waits were identified by `/proc/PID/syscall`, false if only by wchan and state.
    pub exact: bool,
    /// Seconds by what they were spent on; they add up to `seconds_seen`. Corrected by the last minute's stacks, if
    /// any: see [`correction`](super::stacks::correction).
    pub split_s: TimeSplit,
    /// The split as the sampler measured it, if stacks corrected it.
    pub measured_s: Option<TimeSplit>,
    /// Of the measured [`TimeSplit::host_busy`]: seconds in which the loop's thread itself ran or queued.
    pub running_s: f64,
    /// Of the measured [`TimeSplit::other`]: seconds of waits that lead straight to another process that makes no
    /// batches.
    pub elsewhere_s: f64,
    /// Seconds by raw kind of wait, in the order of [`Wait::ALL`].
    pub by_wait_s: [f32; Wait::COUNT],
    /// What it waited for, if that could be followed.
    pub chain: Option<ChainRates>,
    /// Seconds with the GPU idle by what the loop did meanwhile, if the GPU's use is known.
    pub gpu_idle_s: Option<TimeSplit>,
    /// Separate waits for a batch that ended in this interval, seconds each (at most 64, longest kept).
    pub wait_lengths_s: Vec<f32>,
    /// Waits for a batch of 30 ms and more, with the number of batches requested by then (at most 64).
    pub stalls: Vec<Stall>,
    /// Steps started in the interval (batches requested from the workers).
    pub steps: Option<u64>,
    /// Length of each step that ended in the interval, seconds (at most 256 entries; several steps between two samples
    /// share their time).
    pub step_lengths_s: Vec<f32>,
    /// When these steps began and ended. Only at the newest moment: see [`TimedSteps`].
    #[serde(skip)]
    pub timed_steps: Vec<TimedSteps>,
    /// Steps by the loop's own variable, if nothing else counts them.
    pub counted: Option<CountedSteps>,
    /// Share of the loop's runnable time spent queueing for a CPU, 0–1.
    pub run_delay_share: Option<f64>,
    /// CPU use of the whole process, percent of one CPU.
    pub cpu_pct: Option<f64>,
    /// Bytes per second read by this process through read calls.
    pub read_chars_per_s: Option<f64>,
}

/// Steps with the time that they took, as far as the samples show it: from one batch taken by the loop to a later one. Moments
/// that are kept for the screen do not have them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TimedSteps {
    /// When the first of them began, CLOCK_MONOTONIC nanoseconds: read up to `within_ns` after that.
    pub from_ns: u64,
    /// When the last of them ended, the same.
    pub to_ns: u64,
    /// How many there are: several end between two readings of a fast loop.
    pub steps: u64,
    /// Time from the reading before that still did not show the end, nanoseconds.
    pub within_ns: u64,
}

impl Frame {
    /// What the loops of all ranks did, shares that add up to 1; `None` without samples.
    pub fn loop_shares(&self) -> Option<TimeSplit> {
        let mut seconds = TimeSplit::default();
        for rank in &self.ranks {
            seconds += rank.split_s.map(|s| if s.is_finite() { s.max(0.0) } else { 0.0 });
        }
        seconds.shares_of(seconds.total())
    }

    /// The processes of the loops: the attached one may have started them. Where none is known, the attached one.
    pub fn loop_pids(&self, attached: u32) -> Vec<u32> {
        let pids: Vec<u32> = self.ranks.iter().map(|rank| rank.id.pid).collect();
        if pids.is_empty() { vec![attached] } else { pids }
    }
}

impl RankRates {
    /// Steps that began in an interval of so many seconds: those that were counted, else those that the loop's own variable
    /// makes of its length, in fractions. Screen, log, summaries and metrics all take them from here.
    pub fn steps_in(&self, seconds: f64) -> Option<f64> {
        let by_variable = || self.counted.as_ref().map(|counted| counted.per_s * seconds);
        self.steps.map(|steps| steps as f64).or_else(by_variable)
    }

    /// The same for each second; `None` for an interval without length.
    pub fn steps_per_s(&self, seconds: f64) -> Option<f64> {
        if seconds > 0.0 { self.steps_in(seconds).map(|steps| steps / seconds) } else { None }
    }
}

/// Steps counted by a variable of the loop, over about the last ten seconds.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct CountedSteps {
    /// Per second.
    pub per_s: f64,
    /// Which variable: `step in train (train.py)`; raw.
    pub variable: Arc<str>,
    /// How far the loop has come, if a variable beside it holds the number of turns in all.
    #[serde(default)]
    pub place: Option<ProgressBar>,
    /// What is counted.
    #[serde(default)]
    pub unit: StepUnit,
    /// They are turns of a `for` loop without a counter of its own, or of a script's variable that is not called like steps: these may
    /// prepare data, or validate.
    #[serde(default)]
    pub is_guess: bool,
}

/// A wait for a batch, and its place in the run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Stall {
    /// Batches requested since the workers started: rises by one with each step.
    pub count: u64,
    /// Length, seconds.
    pub seconds: f32,
}

/// One worker in the interval.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct WorkerRates {
    /// Which process.
    pub id: ProcessId,
    /// PID of its training process.
    pub rank: u32,
    /// Share of wall time on a CPU, 0–1, of the worker's first thread.
    pub busy: Option<f64>,
    /// Share waiting for data: disk, socket, pipe, sleep.
    pub io_wait: Option<f64>,
    /// Share runnable but queueing for a CPU.
    pub runnable: Option<f64>,
    /// Share with nothing to do.
    pub idle: Option<f64>,
    /// Of `idle`: share at a lock that another worker of the same loop held while working.
    pub lock_wait: Option<f64>,
    /// Of `io_wait`: share waiting for a disk; the rest was a socket, pipe, sleep or unknown.
    pub disk_wait: Option<f64>,
    /// Of `io_wait`: share waiting on a socket.
    pub socket_wait: Option<f64>,
    /// Of `io_wait`: share sleeping.
    pub sleep: Option<f64>,
    /// CPU use of the whole process, percent of one CPU.
    pub cpu_pct: Option<f64>,
    /// Threads of the worker that were busy for at least a tenth of the interval.
    pub active_threads: u32,
    /// Batches per second.
    pub batches_per_s: Option<f64>,
    /// Bytes per second through read calls.
    pub read_chars_per_s: Option<f64>,
    /// Read calls per second.
    pub read_calls_per_s: Option<f64>,
    /// Bytes per second fetched from storage.
    pub read_bytes_per_s: Option<f64>,
    /// Page faults served from storage, per second.
    pub major_faults_per_s: Option<f64>,
    /// First seen in this interval.
    pub new: bool,
    /// It lacks the name that recent torch versions give their workers.
    pub unnamed: bool,
}
