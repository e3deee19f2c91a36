//! What a change would gain: the laws of a loop fed by workers, solved for another number of them.
//!
//! Let T be the time a worker needs for a batch, C the loop's own time for a step, and N the number of workers. A step takes
//! max(C, T/N). It also takes at least the GPU's own time, and the CPU time of everything divided by the CPUs, where two
//! hardware threads of one core are little more than one. Every number is that of a steady loop, so the result is an upper
//! bound of the gain, not a promise.

use super::features::{Cpus, Features};
use super::thresholds::thresholds;

thresholds! {
    /// What the second hardware thread of a busy core adds.
    SMT_YIELD = 0.25, "cores", "vendors claim up to 0.3; going from 4 to 8 workers on 4 cores with 8 threads gained 1.11x";
}

/// The CPUs that a job has.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Capacity {
    /// CPUs that it can have.
    pub cpus: f64,
    /// CPUs that other processes use.
    pub others: f64,
    /// Physical cores of all of them; infinite if unknown.
    pub physical: f64,
}

impl Capacity {
    /// For a window, with the current use by other processes.
    pub fn left(cpu: &Cpus) -> Self {
        let physical = cpu.physical.unwrap_or(f64::INFINITY);
        Self { cpus: cpu.left(), others: cpu.others.unwrap_or(0.0), physical }
    }

    /// The same without other processes.
    pub fn undisturbed(cpu: &Cpus) -> Self {
        Self { cpus: cpu.usable(), others: 0.0, ..Self::left(cpu) }
    }

    /// Work per second of a job that keeps this many CPUs busy, in CPUs with a core of their own.
    pub fn work(&self, busy: f64) -> f64 {
        let all = busy + self.others;
        let done = all.min(self.physical) + SMT_YIELD.value * (all - self.physical).max(0.0);
        if all > 0.0 { done * busy / all } else { 0.0 }
    }

    /// The least part of its time that a job needs which uses this many CPUs now, if all of its CPUs were busy.
    pub fn floor(&self, used: f64) -> f64 {
        self.work(used.min(self.cpus)) / self.work(self.cpus)
    }
}

/// A loop with its workers, in seconds per step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Loop {
    /// A step now.
    pub step_s: f64,
    /// C: the loop's own time, with the cost of receiving a batch.
    pub own_s: f64,
    /// T: one worker's time for a batch, without queueing for a CPU.
    pub batch_s: f64,
    /// CPU time of the workers and the loop's process for a step.
    pub cpu_s: f64,
    /// The GPU's time for a step; 0 if no GPU is known.
    pub gpu_s: f64,
    /// CPUs that the job can have.
    pub capacity: Capacity,
    /// Workers now.
    pub workers: usize,
}

/// The result of a change.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Prediction {
    /// Workers after it.
    pub workers: usize,
    /// More workers would still help, but there are no CPUs for them.
    pub capped: bool,
    /// Seconds of a step after it.
    pub step_s: f64,
    /// Times faster than now, at least 1.
    pub speedup: f64,
}

/// Smallest divisor, seconds.
const LEAST_S: f64 = 1e-9;
/// A time that exceeds a whole number of steps by less than this part needs no further worker.
const TOLERANCE: f64 = 0.05;

/// CPUs in whole workers: a CPU that other processes use a little still carries a worker.
fn whole(cores: f64) -> f64 {
    (cores + 0.5).floor().max(1.0)
}

impl Loop {
    /// The loop of this window; `None` if steps or workers are unknown.
    pub fn from_window(window: &Features) -> Option<Self> {
        let main = window.main.as_ref()?;
        let workers = window.workers.as_ref().filter(|workers| workers.count > 0)?;
        // A steady loop makes as many batches as it takes. A window begins and ends in the middle of some.
        let per_s = window.steps.per_s.filter(|rate| *rate > 0.0)?;
        let step_s = 1.0 / per_s;
        let rank_cores = main.cpu_pct.unwrap_or(0.0) / 100.0;
        let worker_cores = workers.cpu_cores.unwrap_or(workers.busy * workers.count as f64);
        Some(Self {
            step_s,
            own_s: (1.0 - main.shares.input_wait + window.receiving()).min(1.0) * step_s,
            batch_s: (workers.busy + workers.io_wait) * workers.count as f64 / per_s,
            cpu_s: (rank_cores + worker_cores) / per_s,
            gpu_s: window.gpu.as_ref().map_or(0.0, |gpu| gpu.job_busy) * step_s,
            capacity: Capacity::left(&window.cpu),
            workers: workers.count,
        })
    }

    /// The same loop without other processes on its CPUs.
    pub fn undisturbed(self, window: &Features) -> Self {
        Self { capacity: Capacity::undisturbed(&window.cpu), ..self }
    }

    /// A step with `workers` of them.
    pub fn step_with(&self, workers: usize) -> f64 {
        let fed = self.batch_s / workers.max(1) as f64;
        let cpu = self.capacity.floor(self.cpu_s / self.step_s.max(LEAST_S)) * self.step_s;
        self.own_s.max(fed).max(self.gpu_s).max(cpu)
    }

    /// The least time of a step, however it is fed: the loop's own time and the GPU's.
    pub fn floor_s(&self) -> f64 {
        self.own_s.max(self.gpu_s)
    }

    /// N*: the workers that keep up, ceil(T/C), capped at the CPUs.
    pub fn enough_workers(&self) -> Prediction {
        let needed = ((self.batch_s / self.floor_s().max(LEAST_S)) - TOLERANCE).ceil().max(1.0);
        let cap = whole(self.capacity.cpus).max(self.workers as f64);
        let workers = needed.min(cap) as usize;
        self.predict(workers, needed > cap)
    }

    fn predict(&self, workers: usize, capped: bool) -> Prediction {
        let step_s = self.step_with(workers).min(self.step_s);
        Prediction { workers, capped, step_s, speedup: (self.step_s / step_s.max(LEAST_S)).max(1.0) }
    }

    /// The speed-up with only the loop's own time and the GPU's: the most that fixing the input can gain.
    pub fn without_waits(&self) -> f64 {
        (self.step_s / self.floor_s().max(LEAST_S)).max(1.0)
    }

    /// The speed-up if a part of the workers' time (0–1 of their active time) took none.
    pub fn without_stage(&self, part: f64) -> f64 {
        let left = Self {
            batch_s: self.batch_s * (1.0 - part.clamp(0.0, 1.0)),
            cpu_s: self.cpu_s * (1.0 - part.clamp(0.0, 1.0)),
            ..*self
        };
        left.predict(self.workers, false).speedup
    }
}

/// Workers for a loop that loads its own batches. With I the share of loading, ceil(I / (1 − I)), at least one and at most the
/// CPUs; and the upper bound of the speed-up, 1 / max(1 − I, I / N, GPU, CPU), where the last is the CPU use of the loop's
/// process divided by the CPUs.
pub fn workers_for_inline(loading: f64, used: f64, capacity: &Capacity, gpu: f64) -> (usize, f64) {
    let loading = loading.clamp(0.0, 0.99);
    let workers = ((loading / (1.0 - loading)) - TOLERANCE).ceil().clamp(1.0, whole(capacity.cpus));
    let step = (1.0 - loading).max(loading / workers).max(gpu).max(capacity.floor(used));
    (workers as usize, (1.0 / step).max(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CPUs of which each has a core to itself.
    fn cpus(cpus: f64) -> Capacity {
        Capacity { cpus, others: 0.0, physical: f64::INFINITY }
    }

    fn fed(batch_s: f64, own_s: f64, workers: usize, cores: f64) -> Loop {
        let step_s = own_s.max(batch_s / workers as f64);
        Loop { step_s, own_s, batch_s, cpu_s: own_s + batch_s, gpu_s: 0.0, capacity: cpus(cores), workers }
    }

    #[test]
    fn hardware_threads_are_no_cores() {
        // Eight CPUs on four cores, four workers busy all the time, and a loop that hardly works.
        let threads = Capacity { cpus: 8.0, others: 0.0, physical: 4.0 };
        let found = Loop { capacity: threads, ..fed(0.8, 0.0, 4, 8.0) }.enough_workers();
        assert_eq!(found.workers, 8);
        assert!((found.speedup - 1.25).abs() < 1e-9, "{found:?}");
        // With cores of their own they would be twice as fast, and so are two workers made four.
        assert!((fed(0.8, 0.0, 4, 8.0).enough_workers().speedup - 2.0).abs() < 1e-9);
        let two = Loop { capacity: threads, ..fed(0.4, 0.1, 2, 8.0) }.enough_workers();
        assert!((two.speedup - 2.0).abs() < 1e-9, "{two:?}");
    }

    #[test]
    fn what_is_left_of_cores_that_others_use() {
        let shared = Capacity { cpus: 6.0, others: 2.0, physical: 4.0 };
        // Six of eight busy threads do three quarters of five cores' work.
        assert!((shared.work(6.0) - 3.75).abs() < 1e-9);
        assert!((shared.work(2.0) - 2.0).abs() < 1e-9 && shared.work(0.0) < 1e-9);
        assert!((shared.floor(2.0) - 2.0 / 3.75).abs() < 1e-9);
        assert!((shared.floor(100.0) - 1.0).abs() < 1e-9, "more than all is all");
        assert!((cpus(4.0).floor(1.0) - 0.25).abs() < 1e-9);
    }

    #[test]
    fn workers_that_keep_up() {
        let found = fed(0.4, 0.1, 2, 8.0).enough_workers();
        assert_eq!((found.workers, found.capped), (4, false));
        assert!((found.step_s - 0.1).abs() < 1e-9 && (found.speedup - 2.0).abs() < 1e-9);
    }

    #[test]
    fn cpus_cap_workers_and_step() {
        let found = fed(0.8, 0.02, 2, 4.0).enough_workers();
        assert_eq!((found.workers, found.capped), (4, true));
        // 0.82 s of CPU a step on four CPUs.
        assert!((found.step_s - 0.205).abs() < 1e-9, "{found:?}");
    }

    #[test]
    fn a_busy_device_leaves_nothing() {
        let busy = Loop { gpu_s: 0.19, ..fed(0.4, 0.1, 2, 8.0) };
        assert!((busy.enough_workers().speedup - 0.2 / 0.19).abs() < 1e-9);
        assert!((busy.without_waits() - 0.2 / 0.19).abs() < 1e-9);
    }

    #[test]
    fn a_stage_that_took_no_time() {
        let half = fed(0.4, 0.1, 2, 8.0).without_stage(0.5);
        assert!((half - 2.0).abs() < 1e-9, "{half}");
        assert!((fed(0.4, 0.1, 2, 8.0).without_stage(0.0) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn loading_moved_out_of_the_loop() {
        assert_eq!(workers_for_inline(0.75, 1.0, &cpus(8.0), 0.0), (3, 4.0));
        let (workers, speedup) = workers_for_inline(0.75, 1.0, &cpus(2.0), 0.0);
        assert_eq!(workers, 2);
        assert!((speedup - 2.0).abs() < 1e-9);
    }
}
