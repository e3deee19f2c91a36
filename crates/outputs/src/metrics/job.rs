//! Metrics of each job: its verdict first.

use std::sync::Arc;

use super::{FollowedJob, JobCounters, Labeled, count, label, metrics, ratio};
use trainmon_diagnosis::diagnosis::causes::Cause;
use trainmon_diagnosis::diagnosis::verdict::{Class, Phase, Verdict};
use trainmon_diagnosis::pipeline::Tick;
use trainmon_sample::SourceState;
use trainmon_waits::time_split::LoopActivity;

/// One job.
pub(super) struct JobScope {
    pub(super) tick: Arc<Tick>,
    pub(super) counters: JobCounters,
}

impl JobScope {
    /// A job that answers.
    pub(super) fn labeled(job: &FollowedJob) -> Option<Labeled<Self>> {
        let tick = Arc::clone(job.tick.as_ref()?);
        let run = tick.sample.job.as_ref().map(|job| job.run.clone()).unwrap_or_default();
        let name = job.name.clone().or(run.name).map(|name| ("training_job", label(&name)));
        let slurm = run.slurm_job_id.map(|id| ("slurm_job_id", label(&id)));
        let labels = [("pid", job.pid.to_string())].into_iter().chain(name).chain(slurm);
        Some(Labeled::new(labels, Self { tick, counters: job.counters.clone() }))
    }

    fn verdict(&self) -> &Verdict {
        &self.tick.verdict
    }
}

fn one_if(yes: bool) -> f64 {
    f64::from(u8::from(yes))
}

metrics! {
    /// Of each job.
    JOB of JobScope {
        /// what holds the job back: 1 for the class of the verdict, 0 for the others
        Gauge verdict "" ["class"], |of, out| {
            Class::ALL.iter().for_each(|class| out.labeled([class.word()], one_if(*class == of.verdict().class)));
        };
        /// cause of the verdict; always 1
        Gauge verdict_info "" ["class", "cause"], |of, out| {
            let verdict = of.verdict();
            out.labeled([verdict.class.word(), verdict.cause.map_or("", Cause::name)], 1.0);
        };
        /// confidence in the verdict: the part of such verdicts that is right
        Gauge verdict_confidence "ratio", |of, out| out.value(of.verdict().confidence);
        /// how long the verdict has been the same
        Gauge verdict_age "seconds", |of, out| {
            let age_ns = of.tick.frame.monotonic_ns.saturating_sub(of.tick.since_ns);
            out.value(age_ns as f64 / 1e9);
        };
        /// time by the class of its verdict
        Counter verdict "seconds" ["class"], |of, out| {
            Class::ALL.iter().zip(of.counters.class_s).for_each(|(class, seconds)| out.labeled([class.word()], seconds));
        };
        /// what the job is doing: 1 for its phase, 0 for the others
        Gauge phase "" ["phase"], |of, out| {
            Phase::ALL.iter().for_each(|phase| out.labeled([phase.word()], one_if(*phase == of.verdict().phase)));
        };
        /// the most that the first advice can gain, as a factor of the speed
        Gauge advice_speedup_at_most "ratio", |of, out| {
            out.value(of.verdict().advice.first().and_then(|advice| advice.speedup_at_most));
        };
        /// steps per second
        Gauge steps "per_second", |of, out| out.value(of.verdict().steps.per_s);
        /// length of a step: median and 95th percentile of the last minute
        Gauge step_duration "seconds" ["quantile"], |of, out| {
            let steps = &of.verdict().steps;
            out.labeled(["0.5"], steps.p50_ms.map(|ms| ms / 1e3));
            out.labeled(["0.95"], steps.p95_ms.map(|ms| ms / 1e3));
        };
        /// share of the time in which the job's GPUs were idle, and what the loop did meanwhile
        Gauge job_gpu_idle "ratio" ["activity"], |of, out| {
            let Some(idle) = of.verdict().gpu_idle else { return };
            out.labeled(["any"], idle.total);
            out.labeled([LoopActivity::InputWait.key()], idle.while_input_wait);
            out.labeled([LoopActivity::HostBusy.key()], idle.while_host_busy);
            out.labeled([LoopActivity::DeviceSync.key()], idle.while_sync);
            out.labeled([LoopActivity::Other.key()], idle.while_other);
        };
        /// GPUs that the job uses
        Gauge job_gpus "", |of, out| {
            let known = of.tick.sample.sources.gpu.state == SourceState::Fresh;
            let gpus = of.tick.frame.gpus.iter().filter(|gpu| gpu.attached).count();
            out.value(known.then_some(gpus as f64));
        };
        /// data-loader workers
        Gauge job_workers "", |of, out| out.value(of.tick.frame.workers.len() as f64);
        /// CPU time of the job's processes
        Counter job_cpu "seconds", |of, out| out.value(of.counters.cpu_s);
        /// CPUs that the job may use
        Gauge job_cpus_allowed "", |of, out| out.value(of.tick.frame.job.cpus_allowed.map(f64::from));
        /// share of its runnable time that the job queued for a CPU
        Gauge job_cpu_queueing "ratio", |of, out| out.value(of.tick.frame.job.run_delay_share);
        /// share of the quota's periods in which the job was throttled
        Gauge job_cpu_throttled "ratio", |of, out| out.value(of.tick.frame.job.throttled_share);
        /// sum of the resident sets of the job's processes
        Gauge job_resident_memory "bytes", |of, out| out.value(count(of.tick.frame.job.rss_bytes));
        /// memory of the job's processes, with shared pages counted once
        Gauge job_proportional_memory "bytes", |of, out| out.value(count(of.tick.frame.job.pss_bytes));
        /// memory charged to the job's cgroup
        Gauge job_cgroup_memory "bytes", |of, out| out.value(count(of.tick.frame.job.memory_cgroup_bytes));
        /// memory limit of the job's cgroup
        Gauge job_cgroup_memory_limit "bytes", |of, out| out.value(count(of.tick.frame.job.memory_limit_bytes));
        /// bytes that the job fetched from storage
        Counter job_storage_read "bytes", |of, out| out.value(of.counters.read_bytes);
        /// bytes that the job sent to storage
        Counter job_storage_written "bytes", |of, out| out.value(of.counters.written_bytes);
        /// utilization of the busiest disk that holds the job's data
        Gauge job_disk_utilization "ratio", |of, out| out.value(ratio(of.tick.frame.storage.utilization_pct));
        /// mean time of an I/O on these disks
        Gauge job_disk_latency "seconds", |of, out| {
            out.value(of.tick.frame.storage.await_ms.map(|ms| ms / 1e3));
        };
        /// turns done by the last progress bar in its output
        Gauge job_progress_done "", |of, out| out.value(of.tick.frame.job.progress.map(|bar| bar.done));
        /// turns in all by that bar
        Gauge job_progress_total "", |of, out| out.value(of.tick.frame.job.progress.map(|bar| bar.total));
        /// when the time limit ends the run, since 1970
        Gauge job_end_time "seconds", |of, out| {
            let ends = of.tick.sample.job.as_ref().and_then(|job| job.run.ends_unix_s);
            out.value(ends.map(|ends| ends as f64));
        };
        /// whether a source can be read (1) or not (0)
        Gauge source_up "" ["source"], |of, out| {
            for (source, status) in of.tick.sample.sources.all() {
                out.labeled([source.title()], one_if(status.state == SourceState::Fresh));
            }
        };
    }
}
