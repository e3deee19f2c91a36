//! What Prometheus is asked: a few instant queries, each of which gives one number for each rank, job, GPU or machine. Prometheus
//! computes the means over the window.

use std::time::Duration;

use trainmon_base::text::named_enum;

/// A GPU that stays below this utilization for the whole window is idle.
pub const IDLE: f64 = 0.05;

/// Clock event reasons that hold a GPU down, besides the power cap, where any busy GPU may end up.
pub const HOLD_DOWN: [&str; 4] = ["hw-slowdown", "sw-thermal", "hw-thermal", "power-brake"];

named_enum! {
    /// A query; its word is the name in errors.
    pub enum FleetQuery {
        /// The share of its time that each rank is blocked.
        Blocked = "rank_blocked",
        /// The share that each rank spends in collectives, by its stacks.
        Collectives = "rank_collectives",
        /// The steps per second of each rank.
        RankSteps = "rank_steps",
        /// How many ranks the run of each rank has.
        World = "rank_world_size",
        /// Which GPUs each rank uses.
        RankGpus = "rank_gpu_info",
        /// Which jobs are there now.
        Jobs = "jobs",
        /// How often each verdict was given on each job.
        Verdicts = "verdict_info",
        /// The length of a step of each job.
        StepTime = "step_duration",
        /// The share of its runnable time that each job queues for a CPU.
        Queueing = "job_cpu_queueing",
        /// The utilization of the disk of each job.
        Disk = "job_disk_utilization",
        /// The mean utilization of each GPU.
        GpuUse = "gpu_utilization",
        /// Which GPUs are idle.
        GpuIdle = "gpu_idle",
        /// The power of each GPU, as a share of its limit.
        GpuPower = "gpu_power",
        /// Which GPUs are held down.
        HeldDown = "gpu_clock_event",
        /// The clock of each GPU.
        Clock = "gpu_sm_clock",
        /// Machines on which a job does not answer.
        Silent = "trainmon_up",
        /// Machines that Prometheus cannot scrape.
        Down = "up",
        /// When those were scraped last.
        LastSeen = "last_seen",
    }
}

impl FleetQuery {
    /// Its text, over such a window.
    pub fn text(self, window: Duration) -> String {
        let window = format!("[{}ms]", window.as_millis());
        let mean = |metric: &str| format!("avg_over_time(trainmon_{metric}{window})");
        match self {
            Self::Blocked => mean("rank_blocked_ratio"),
            Self::Collectives => mean("rank_collectives_ratio"),
            Self::RankSteps => mean("rank_steps_per_second"),
            Self::World => mean("rank_world_size"),
            Self::RankGpus => format!("last_over_time(trainmon_rank_gpu_info{window})"),
            Self::Jobs => "trainmon_verdict_confidence_ratio".to_owned(),
            Self::Verdicts => format!("count_over_time(trainmon_verdict_info{window})"),
            Self::StepTime => mean("step_duration_seconds{quantile=\"0.5\"}"),
            Self::Queueing => mean("job_cpu_queueing_ratio"),
            Self::Disk => mean("job_disk_utilization_ratio"),
            Self::GpuUse => mean("gpu_utilization_ratio"),
            Self::GpuIdle => format!("max_over_time(trainmon_gpu_utilization_ratio{window}) < {IDLE}"),
            Self::GpuPower => format!("{} / {}", mean("gpu_power_watts"), mean("gpu_power_limit_watts")),
            Self::HeldDown => {
                format!("{} > 0", mean(&format!("gpu_clock_event{{reason=~\"{}\"}}", HOLD_DOWN.join("|"))))
            }
            Self::Clock => mean("gpu_sm_clock_hertz"),
            Self::Silent => "trainmon_up == 0".to_owned(),
            // Other machines that the same scrape job finds belong here, too.
            Self::Down => "up == 0 and on (job) group by (job) (last_over_time(trainmon_build_info[1h]))".to_owned(),
            Self::LastSeen => {
                "max_over_time(timestamp(trainmon_build_info)[1h:1m]) and on (job, instance) up == 0".to_owned()
            }
        }
    }
}
