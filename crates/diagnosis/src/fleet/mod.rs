//! A run that spans machines: what Prometheus is asked ([`query`]), what it answers ([`answer`]), and what that says of runs, ranks and
//! machines ([`join`]). Pure: nothing here asks, prints or reads a clock.
//!
//! A Prometheus server may be slow, down or wrong. What it says is checked when it is read: no number that is no measurement and no
//! text that could steer a terminal gets further than [`answer`].

pub mod answer;
pub mod join;
mod labels;
pub mod late;
pub mod query;

use std::time::Duration;

use serde::Serialize;

use crate::diagnosis::causes::Cause;
use crate::diagnosis::verdict::Class;
use trainmon_base::text::named_enum;

/// Everything at one moment.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Fleet {
    /// Version of this object's shape: 1.
    pub schema: u32,
    /// Length of the window that all means are over, seconds.
    pub window_s: f64,
    /// The moment by Prometheus' clock, seconds since 1970; `null` if there is no series at all.
    pub unix_s: Option<f64>,
    /// What an hour of one GPU costs, if --price says so. Times `idle_time`, it is what GPUs without work cost an hour.
    pub price: Option<String>,
    /// Sums over everything.
    pub totals: FleetTotals,
    /// The runs: those with a late rank first, then the largest.
    pub runs: Vec<FleetRun>,
    /// Machines with GPUs that no rank uses.
    pub unused: Vec<UnusedGpus>,
    /// Machines whose exporter does not answer Prometheus, or has a job that does not answer.
    pub down: Vec<DownExporter>,
    /// What Prometheus warns of.
    pub warnings: Vec<String>,
}

/// Sums.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct FleetTotals {
    /// Ranks.
    pub ranks: usize,
    /// Late ranks that could be named.
    pub late_ranks: usize,
    /// Machines with a rank or a GPU.
    pub machines: usize,
    /// GPUs that are measured.
    pub gpus: GpuCount,
}

/// GPUs, and how much of them is unused.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct GpuCount {
    /// How many there are.
    pub count: usize,
    /// How many of them stayed below 5% utilization for the whole window.
    pub idle: usize,
    /// The time in which no kernel ran on them, as a number of GPUs: two GPUs that are idle half of the time are 1.
    pub idle_time: f64,
}

impl GpuCount {
    fn add(&mut self, gpu: &FleetGpu) {
        self.count += 1;
        self.idle += usize::from(gpu.idle);
        self.idle_time += gpu.utilization.map_or(0.0, |busy| 1.0 - busy);
    }
}

/// A run: all ranks with the same name and Slurm job.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct FleetRun {
    /// Its name, if it has one.
    pub training_job: Option<String>,
    /// Slurm's number of the job.
    pub slurm_job_id: Option<String>,
    /// The cluster, if Prometheus says so.
    pub cluster: Option<String>,
    /// How many ranks it has, as its launcher says.
    pub world_size: Option<u32>,
    /// Which of its ranks the others wait for.
    pub late: LateRanks,
    /// Class of what holds it back: that of the late rank's machine, otherwise the most frequent one.
    pub class: Option<Class>,
    /// The cause.
    pub cause: Option<Cause>,
    /// Its GPUs.
    pub gpus: GpuCount,
    /// Its ranks, in order.
    pub ranks: Vec<FleetRank>,
}

named_enum! {
    /// What is known of a run's late rank.
    #[derive(Default)]
    pub enum LateKind {
        /// The ranks wait equally, or for nothing.
        #[default]
        Even = "none",
        /// One rank is late.
        One = "rank",
        /// All ranks of one machine are.
        Machine = "machine",
        /// A few of them wait equally little, on several machines.
        Few = "several",
        /// Some ranks wait and others do not, and no few of them stand out.
        Unclear = "unclear",
        /// All measured ranks wait, and some are not measured.
        Unmeasured = "not-measured",
    }
}

/// Which ranks of a run the others wait for.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct LateRanks {
    /// What is known of it.
    pub kind: LateKind,
    /// The ranks, if they are few.
    pub ranks: Vec<u32>,
    /// The machine, if it is one.
    pub machine: Option<String>,
    /// The share of the time that these ranks wait.
    pub waits: Option<f64>,
    /// The share that the others wait: their median.
    pub others_wait: Option<f64>,
}

/// A rank.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct FleetRank {
    /// Its number.
    pub rank: Option<u32>,
    /// The machine that it runs on.
    pub machine: String,
    /// Its process, or the one that started it: what trainmon is attached to there.
    pub pid: Option<u32>,
    /// Its GPUs.
    pub gpus: Vec<FleetGpu>,
    /// Class of the verdict on its machine.
    pub class: Option<Class>,
    /// Cause of that verdict.
    pub cause: Option<Cause>,
    /// Length of a step, milliseconds: the mean of the medians in the window, or from the rank's steps per second.
    pub step_ms: Option<f64>,
    /// The share of its time that it waits for other ranks, or may.
    pub waits: Option<f64>,
    /// Mean utilization of its GPUs, 0–1.
    pub gpu_utilization: Option<f64>,
    /// What is conspicuous about it.
    pub marks: Vec<Mark>,
}

/// A GPU.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct FleetGpu {
    /// NVML's index.
    pub index: String,
    /// UUID.
    pub uuid: Option<String>,
    /// Share of the window in which a kernel ran, 0–1.
    pub utilization: Option<f64>,
    /// It stayed below 5% for the whole window.
    pub idle: bool,
}

named_enum! {
    /// What is conspicuous about a rank; the words are shown.
    pub enum Mark {
        /// The other ranks wait for it.
        Late = "LATE",
        /// Its GPU's clocks are held down, by more than the power cap.
        Throttled = "throttled",
        /// Its busy GPU's clock is clearly lower than that of the run's other busy GPUs.
        LowClock = "low clock",
        /// Its job queues for CPUs.
        CpuQueue = "queues for CPUs",
        /// The disk with its data is busy.
        DiskBusy = "busy disk",
        /// A GPU of it is idle.
        IdleGpu = "idle GPU",
        /// Its job does not answer trainmon.
        Silent = "no answer",
        /// The exporter of its machine does not answer Prometheus.
        Down = "exporter down",
        /// Another rank of the run has the same number.
        Twice = "number used twice",
    }
}

/// A machine with GPUs that no rank uses.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct UnusedGpus {
    /// The machine.
    pub machine: String,
    /// These GPUs.
    pub gpus: GpuCount,
}

/// An exporter that is down, or a job that does not answer it.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct DownExporter {
    /// The machine.
    pub machine: String,
    /// For how long, to a minute, if it was seen within the last hour, seconds.
    pub last_seen_s: Option<f64>,
    /// Prometheus cannot scrape it; otherwise, a job on it does not answer.
    pub unreachable: bool,
}

impl FleetRun {
    /// Name and Slurm job, for a heading.
    pub fn title(&self) -> String {
        let slurm = self.slurm_job_id.as_ref().map(|id| format!("Slurm {id}"));
        let machine = || self.ranks.first().map_or_else(String::new, |rank| format!(" on {}", rank.machine));
        match (&self.training_job, slurm) {
            (Some(name), Some(slurm)) => format!("{name} ({slurm})"),
            (Some(name), None) => name.clone(),
            (None, Some(slurm)) => slurm,
            (None, None) => format!("run without a name{}", machine()),
        }
    }

    /// Whether it is called this.
    pub fn is_called(&self, name: &str) -> bool {
        [&self.training_job, &self.slurm_job_id].into_iter().any(|known| known.as_deref() == Some(name))
    }
}

impl Fleet {
    /// An empty one over such a window.
    pub fn new(window: Duration) -> Self {
        Self { schema: 1, window_s: window.as_secs_f64(), ..Self::default() }
    }

    /// The same with only the runs of this name or Slurm job.
    pub fn only(mut self, name: &str) -> Self {
        self.runs.retain(|run| run.is_called(name));
        (self.unused, self.down) = (Vec::new(), Vec::new());
        self.sum();
        self
    }

    /// Sums up.
    fn sum(&mut self) {
        let ranks = || self.runs.iter().flat_map(|run| &run.ranks);
        let machines = ranks().map(|rank| &rank.machine).chain(self.unused.iter().map(|unused| &unused.machine));
        let mut gpus = GpuCount::default();
        for part in self.runs.iter().map(|run| run.gpus).chain(self.unused.iter().map(|unused| unused.gpus)) {
            gpus.count += part.count;
            gpus.idle += part.idle;
            gpus.idle_time += part.idle_time;
        }
        self.totals = FleetTotals {
            ranks: ranks().count(),
            late_ranks: ranks().filter(|rank| rank.marks.contains(&Mark::Late)).count(),
            machines: machines.collect::<std::collections::BTreeSet<_>>().len(),
            gpus,
        };
    }
}
