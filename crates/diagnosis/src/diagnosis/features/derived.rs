//! Values that follow from the numbers of a window alone.

use trainmon_waits::Wait;
use trainmon_waits::stacks::Activity;

use super::{Features, LoopStacks, LoopThread};
use crate::diagnosis::thresholds::{DEVICE_UNUSED, GOES_ROUND, GROWING, HARDLY, LARGER_HALF, LOST_WAIT};
use trainmon_base::stats;
use trainmon_sample::job::unread_accelerators;
use trainmon_waits::taxonomy::Purpose;

impl Features {
    /// The stacks of the loop's thread, if there are any.
    pub fn loop_stacks(&self) -> Option<&LoopStacks> {
        self.main.as_ref()?.stacks.as_ref()
    }

    /// Share of the time in which the job does not use its GPUs; all of it without GPUs.
    pub fn device_idle(&self) -> f64 {
        self.gpu.as_ref().map_or(1.0, |gpu| (1.0 - gpu.job_busy).max(0.0))
    }

    /// The job holds a GPU whose load cannot be read, as under MIG. It may be in use.
    pub fn load_unknown(&self) -> bool {
        self.gpu_held && self.gpu.is_none()
    }

    /// Whether steps are counted. With a GPU in use, only the loader's count: the loop of a preparation has turns too, and so has any
    /// `for` loop, and any loop of a script.
    pub fn is_stepping(&self) -> bool {
        let is_guess = self.steps.counted.as_ref().is_some_and(|counted| counted.is_guess);
        let per_s = if self.gpu.is_some() || is_guess { self.steps.per_s } else { self.steps.rate() };
        per_s.is_some_and(|rate| rate > 0.0)
    }

    /// Whether a GPU works for the job, or may.
    pub fn uses_gpu(&self) -> bool {
        self.load_unknown() || self.gpu.as_ref().is_some_and(|gpu| gpu.job_busy >= DEVICE_UNUSED)
    }

    /// That the job uses a GPU or accelerator whose load cannot be read, and which.
    pub fn unread_gpu(&self) -> String {
        match self.accelerators.as_slice() {
            [] => "the job uses a GPU whose load cannot be read (as under MIG)".to_owned(),
            files => unread_accelerators(files),
        }
    }

    /// Whether its memory grows, as in a program that imports or loads. A loop's memory does not.
    pub fn is_growing(&self) -> bool {
        self.growth_s.is_some_and(|rate| rate >= GROWING)
    }

    /// The loop's thread neither reads nor imports, and memory does not grow, for longer than preparations take: some loop
    /// computes.
    pub fn goes_round(&self) -> bool {
        let prepares = |main: &LoopThread| main.reading.max(main.share(Activity::Import)) >= HARDLY;
        let computes = self.main.as_ref().is_some_and(|main| !prepares(main));
        self.seconds >= GOES_ROUND && computes && self.growth_s.is_some() && !self.is_growing()
    }

    /// Whether the loop's thread was seen making batches for most of what it loses to them.
    pub fn makes_its_batches(&self) -> bool {
        self.loop_stacks().is_some_and(|stacks| stacks.loading() >= LARGER_HALF.value * self.lost_wait())
    }

    /// The part of the waits for data that costs something: with a GPU, only those in which it idles. Starting workers is not a
    /// wait for data, but is lost for the same reason.
    pub fn lost_wait(&self) -> f64 {
        let Some(main) = &self.main else { return 0.0 };
        let waits = self.gpu.as_ref().map_or(main.shares.input_wait, |gpu| gpu.idle.while_input_wait);
        (waits + main.share(Activity::LoaderStart)).min(1.0).min(self.device_idle())
    }

    /// The loop's own work, as far as it leaves a GPU idle. Without a GPU the model's part is the training, not a loss, unless it is
    /// nearly all that the loop does: then the missing GPU is the cost. Without stacks, loading in the loop looks like work, so only
    /// the work of a loop with workers counts.
    pub fn lost_work(&self) -> f64 {
        let Some(main) = &self.main else { return 0.0 };
        let own = main.shares.host_busy;
        match (&main.stacks, &self.gpu) {
            (Some(_), Some(_)) => own.min(self.device_idle()),
            (Some(stacks), None) if stacks.shares.of_model() - self.lost_wait() >= LARGER_HALF => own,
            (Some(stacks), None) => own - stacks.shares.of_model(),
            (None, Some(_)) if self.workers.is_some() => {
                self.chain.as_ref().map_or(0.0, |chain| chain.lost(Purpose::Own))
            }
            (None, _) => 0.0,
        }
    }

    /// Whether more is lost to waits for data than to the loop's own work.
    pub fn waits_lead(&self) -> bool {
        self.lost_wait() >= LOST_WAIT && self.lost_wait() >= self.lost_work()
    }

    /// Upper bound of the speed-up without something that takes this share of the time: never more than the GPU's busy time
    /// leaves. A GPU counts as busy for at least one percent.
    pub fn without(&self, vanishing: f64) -> f64 {
        let speedup = 1.0 / (1.0 - vanishing.clamp(0.0, 0.99));
        let device = self.gpu.as_ref().map(|gpu| gpu.job_busy.max(DEVICE_UNUSED.value));
        stats::round(device.map_or(speedup, |busy| speedup.min(1.0 / busy)), 2)
    }

    /// The same for something that the loop does itself: it never gets faster than its workers make batches now.
    pub fn without_own(&self, vanishing: f64) -> f64 {
        let at_work =
            self.workers.as_ref().map(|workers| workers.busy + workers.io_wait).filter(|at_work| *at_work > 0.0);
        let pace = at_work.map_or(f64::INFINITY, |at_work| stats::round(1.0 / at_work, 2));
        self.without(vanishing).min(pace.max(1.0))
    }

    /// Share of the loop's time spent on receiving batches: that of the stacks, without the time blocked on a worker too busy
    /// to hand over its descriptors. Stacks only know where the code is. Whatever the call is blocked in (a socket, a pipe, a
    /// lock), work is done by a thread that runs or queues for a CPU, so that part of getting batches, as sampled, is the
    /// upper bound. The rest is waiting for data.
    pub fn receiving(&self) -> f64 {
        let Some(main) = &self.main else { return 0.0 };
        let at_work = main.waits(Wait::Running) - main.running;
        (main.share(Activity::Receiving) - main.waits(Wait::Socket)).min(at_work).max(0.0)
    }

    /// Seconds of one step without its waits for data.
    pub fn step_without_wait_s(&self) -> Option<f64> {
        let main = self.main.as_ref()?;
        let per_s = self.steps.rate().filter(|rate| *rate > 0.0)?;
        Some((1.0 - main.shares.input_wait) / per_s)
    }
}
