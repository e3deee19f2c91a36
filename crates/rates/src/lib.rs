//! (previous, current) sample → frame of rates. The only place that subtracts counters.
//!
//! What belongs here: everything computed from two samples, including the meaning of a thread's wait or stack, and the
//! state between samples that this needs. What does not: reading anything, a clock, and any judgment of the run, which
//! is up to the diagnosis.
//!
//! [`Rates`] is a deterministic fold: the same samples give the same frames, so a recording can be judged again. It
//! keeps the previous sample and one `TrainerState` per training process: an unfinished wait, the last step, what is
//! waited for, the newest stacks.
//!
//! Rules that hold everywhere below:
//! - A counter that went backwards gives `None` for its field: a gap, never a spike. So does the first sample, and a
//!   process or thread that is new (identity is PID plus start time, so a reused PID is a new process).
//! - Each part (job, host, storage, GPUs) has its own reading time, and its rates are computed over that. A part whose
//!   reading time has not moved is stale: its rates are `None`, not zero, and its counts are not counted twice.
//! - A break in the series (see [`Rates::next`]) gives one frame with `gap: true` and without rates.

mod batches;
pub mod chain;
mod classify_wait;
pub mod counters;
#[cfg(test)]
mod counters_tests;
mod delta;
mod device;
pub mod frame;
mod gpu;
mod gpu_choice;
mod host;
mod job;
mod levels;
mod loop_variable;
pub mod neighbours;
mod profile;
#[cfg(test)]
mod properties;
mod sampled;
mod short_lived;
pub mod stacks;
mod steps;
mod storage;
#[cfg(test)]
mod testing;
pub mod threads;
pub mod time_split;
mod trainer;
pub mod wait;
mod workers;

use std::collections::HashMap;
use std::sync::Arc;

pub use frame::Frame;
pub use gpu_choice::GpuChoice;
pub use job::PAGE;
pub use wait::Wait;

use batches::Loaders;
use chain::ChainState;
use delta::{rate, span};
use frame::{GpuRates, TrainerRates};
use gpu::GpuFold;
use loop_variable::LoopVariable;
use sampled::{SampledTrainer, SampledWorker};
use stacks::correction::RecentActivities;
use trainer::SplitState;
use trainmon_sample::{JobSample, ProcessId, ProcessRole, ProfileSample, Sample, SourceState};

/// CLOCK_MONOTONIC stops during suspend, CLOCK_BOOTTIME does not (clock_gettime(2)). If they drift apart by more than
/// this in one interval, the machine was suspended. Nanoseconds.
const SUSPEND_NS: u64 = 1_000_000_000;

/// An interval this many times longer than the previous one has lost ticks …
const LATE_FACTOR: u64 = 3;

/// … if it is also longer by this much, so that a quick first frame, or switching between short `--interval`s, is not a
/// break. Nanoseconds.
const LATE_NS: u64 = 1_000_000_000;

/// What the fold cannot learn from the samples.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RatesOptions {
    /// GPUs named with `--gpu`; if empty, the GPUs that the job is found to use.
    pub gpus: Vec<GpuChoice>,
}

/// The fold of samples into frames.
#[derive(Debug, Default)]
pub struct Rates {
    options: RatesOptions,
    previous: Option<Arc<Sample>>,
    previous_interval_ns: Option<u64>,
    trainers: HashMap<ProcessId, TrainerState>,
}

/// The state of one training process between ticks.
#[derive(Debug, Default)]
struct TrainerState {
    split: SplitState,
    chain: ChainState,
    loaders: Loaders,
    stacks: RecentActivities,
    variable: LoopVariable,
}

impl Rates {
    /// A fold without samples.
    pub fn new(options: RatesOptions) -> Self {
        Self { options, ..Self::default() }
    }

    /// Starts over: the next samples are from another program.
    pub fn begin_anew(&mut self) {
        *self = Self::new(std::mem::take(&mut self.options));
    }

    /// The frame between the previous sample and this one.
    ///
    /// The series breaks (`gap`, no rates) at the first sample, if the sequence does not increase by one, if the clock
    /// went backwards, over a suspend, and if the interval is both more than three times the previous one and more than
    /// a second longer. Readings that are not differences (memory, temperatures, the GPU's own utilization) are in such
    /// a frame too.
    pub fn next(&mut self, sample: Arc<Sample>) -> Frame {
        let interval_ns =
            self.previous.as_deref().and_then(|before| sample.monotonic_ns.checked_sub(before.monotonic_ns));
        let gap = self.is_gap(&sample, interval_ns);
        self.previous_interval_ns = interval_ns;
        let previous = self.previous.replace(Arc::clone(&sample));
        let frame = self.fold(previous.as_deref().filter(|_| !gap), &sample, previous.as_deref());
        Frame { gap, seconds: interval_ns.map_or(0.0, |ns| ns as f64 / 1e9), ..frame }
    }

    fn is_gap(&self, sample: &Sample, interval_ns: Option<u64>) -> bool {
        let (Some(before), Some(interval_ns)) = (self.previous.as_deref(), interval_ns) else { return true };
        let suspended = sample
            .boottime_ns
            .checked_sub(before.boottime_ns)
            .is_none_or(|boot_ns| boot_ns.abs_diff(interval_ns) > SUSPEND_NS);
        let late = self
            .previous_interval_ns
            .is_some_and(|usual| interval_ns > usual.saturating_mul(LATE_FACTOR) && interval_ns - usual > LATE_NS);
        before.sequence.checked_add(1) != Some(sample.sequence) || suspended || late
    }

    /// `before` is `None` across a gap. `stale_against` is the previous sample even then, so that stale parts are
    /// recognized.
    fn fold(&mut self, before: Option<&Sample>, sample: &Sample, stale_against: Option<&Sample>) -> Frame {
        let gpu = gpu::fold(&self.options.gpus, before, sample, stale_against);
        let mut frame = Frame {
            sequence: sample.sequence,
            unix_ms: sample.unix_ms,
            monotonic_ns: sample.monotonic_ns,
            unwatched: sample.job.is_none() && sample.sources.job.state == SourceState::Absent,
            alive: sample.job.as_ref().map_or(sample.sources.job.state != SourceState::Gone, |job| job.alive),
            state: sample.job.as_deref().map_or('?', job::state),
            own_cpu_pct: before.and_then(|before| {
                let seconds = span(Some(before.monotonic_ns), sample.monotonic_ns);
                let own = rate(sample.own.cpu_ns, before.own.cpu_ns, seconds)?;
                let children = rate(sample.own.children_cpu_ns, before.own.children_cpu_ns, seconds).unwrap_or(0.0);
                Some((own + children) / 1e7)
            }),
            own_rss_bytes: sample.own.rss_bytes,
            storage: storage::fold(before, sample),
            neighbours: neighbours::fold(sample.neighbours.as_deref()),
            gpu_driver: sample.gpus.as_deref().and_then(|gpus| gpus.driver.clone()),
            ..Frame::default()
        };
        match sample.job.as_deref() {
            Some(job) => {
                let before_job = before.and_then(|before| before.job.as_deref());
                let stale = stale_against
                    .and_then(|before| before.job.as_deref())
                    .is_some_and(|before| before.monotonic_ns == job.monotonic_ns);
                self.fold_job(&mut frame, before_job, sample, job, &gpu, stale);
                self.fold_stacks(&mut frame, sample, job);
            }
            None => self.trainers.clear(),
        }
        if before.is_some()
            && let Some(profile) = sample.profile.as_deref()
        {
            fold_profile(&mut frame, profile, &gpu.rates, sample);
        }
        frame.host = host::fold(before, sample, frame.job.cpu_pct);
        Frame { gpu_link: gpu.link, gpus: gpu.rates, ..frame }
    }

    /// The job, its training processes and its workers. Long because it is the sequence of a tick: each step needs the
    /// result of the one before.
    fn fold_job(
        &mut self,
        frame: &mut Frame,
        before: Option<&JobSample>,
        sample: &Sample,
        job: &JobSample,
        gpu: &GpuFold,
        stale: bool,
    ) {
        let folded = job::fold(before, sample, job, &gpu.memory_by_pid);
        for window in sample.stacks.iter().flat_map(|stacks| &stacks.windows) {
            self.trainers.get_mut(&window.process).into_iter().for_each(|state| state.chain.take_stacks(window));
        }
        let waits = sampled::waits(&job.sampler);
        let mut graph = chain::Graph::new(job, before, &waits, &folded.short_lived);
        let mut trainers = sampled::trainers(job, &waits, |process| {
            let chain = &mut self.trainers.entry(process.id).or_default().chain;
            match &graph {
                Some(graph) if !stale => {
                    chain.loop_of(&chain::ProcessTick { process, graph, devices: gpu.devices_of(process.id.pid) })
                }
                _ => chain.loop_tid().unwrap_or(process.id.pid),
            }
        });
        self.forget_all_but(&trainers, job.target);
        let mut workers = sampled::workers(job, &waits);
        let mut chains = vec![None; trainers.len()];
        if let Some(graph) = &mut graph {
            chain::resolve_worker_waits(graph, job, &mut workers);
            let mut states: HashMap<_, _> =
                self.trainers.iter_mut().map(|(id, state)| (*id, &mut state.chain)).collect();
            let followed = trainers
                .iter_mut()
                .filter_map(|trainer| Some((states.remove(&trainer.id)?, gpu.devices_of(trainer.id.pid), trainer)));
            match folded.seconds {
                Some(_) => chains = chain::follow(graph, job, followed),
                None => followed.filter(|_| !stale).for_each(|(state, _, trainer)| state.rebase(trainer)),
            }
        }
        for (trainer, chain) in trainers.iter().zip(chains) {
            let state = self.trainers.entry(trainer.id).or_default();
            let mut rates = trainer::fold(&mut state.split, trainer, job, &workers, &folded, gpu, stale);
            rates.chain = chain;
            let own = |worker: &SampledWorker| worker.torch && worker.trainer == trainer.id.pid;
            let written_per_s = folded.process(job, trainer.id).and_then(|(_, delta)| delta.write_chars_per_s);
            let shared = gpu.devices_of(trainer.id.pid).iter().any(|device| device.shared);
            rates.leave_device(workers.iter().any(own), shared, written_per_s);
            frame.trainers.push(rates);
        }
        if trainers.is_empty() {
            frame.trainers.extend(trainer::target(job, &folded));
        }
        frame.workers = workers::fold(before, job, &workers, &folded, stale);
        for trainer in &mut frame.trainers {
            let state = self.trainers.entry(trainer.id).or_default();
            state.loaders.correct(trainer, &mut frame.workers, folded.seconds);
        }
        frame.job = folded.job;
        frame.processes = folded.processes;
        (frame.threads, frame.thread_roles) = folded.threads.finish();
    }

    /// Forgets outdated state of the sampled training processes, and everything about others except the target.
    fn forget_all_but(&mut self, trainers: &[SampledTrainer], target: ProcessId) {
        self.trainers.retain(|id, state| {
            if trainers.is_empty() {
                // Only its counters are known.
                (state.split, state.chain) = Default::default();
                return *id == target;
            }
            if state.chain.has_moved() {
                // These stacks are from a thread that no longer runs the loop.
                state.stacks = RecentActivities::default();
            }
            trainers.iter().any(|trainer| trainer.id == *id)
        });
    }

    /// Adds what stacks and local variables say to the frame, and to its splits.
    fn fold_stacks(&mut self, frame: &mut Frame, sample: &Sample, job: &JobSample) {
        for read in sample.stacks.iter().flat_map(|stacks| &stacks.locals) {
            if let Some(state) = self.trainers.get_mut(&read.process) {
                state.variable.take(read, state.chain.loop_tid().unwrap_or(read.process.pid));
            }
        }
        let loop_of = |id| {
            let state = self.trainers.get(&id);
            (state.and_then(|state| state.chain.loop_tid()), state.and_then(|state| state.variable.stepping()))
        };
        frame.stacks = stacks::fold(sample.stacks.as_deref(), job, loop_of);
        for trainer in &mut frame.trainers {
            let Some(state) = self.trainers.get_mut(&trainer.id) else { continue };
            let own = frame.stacks.iter().filter(|stacks| stacks.id == trainer.id);
            let own = own.filter(|stacks| stacks.role == ProcessRole::Trainer);
            state.stacks.take(sample.monotonic_ns, own.map(|stacks| stacks.main));
            if trainer.steps.is_none() {
                trainer.counted = state.variable.steps(sample.monotonic_ns);
            }
            trainer.correct(&state.stacks.sum());
        }
    }
}

/// Puts what another tool recorded of the loop into the frame, in place of what counters alone show of its process.
fn fold_profile(frame: &mut Frame, profile: &ProfileSample, gpus: &[GpuRates], sample: &Sample) {
    let (rates, stacks) = profile::fold(profile, gpus, sample);
    let by_counters = frame.trainers.iter().position(|trainer| trainer.id == rates.id);
    let by_counters = by_counters.map(|at| frame.trainers.swap_remove(at)).unwrap_or_default();
    let TrainerRates { cpu_pct, read_chars_per_s, run_delay_share, .. } = by_counters;
    frame.trainers.insert(0, TrainerRates { cpu_pct, read_chars_per_s, run_delay_share, ..rates });
    frame.stacks.push(stacks);
    if frame.job.library.is_none() {
        frame.job.library = profile::library(profile).map(Into::into);
    }
}

#[cfg(test)]
mod tests {
    use super::testing::*;
    use super::*;
    use trainmon_sample::{OwnSample, ProcessSample};

    fn sample(sequence: u64, ms: u64) -> Sample {
        tick(sequence, ms)
    }

    #[test]
    fn first_sample_is_a_gap_without_rates() {
        let mut rates = Rates::default();
        let frame = rates.next(Arc::new(sample(7, 1000)));
        assert!(frame.gap);
        assert_eq!(frame.seconds, 0.0);
        assert_eq!(frame.own_cpu_pct, None);
    }

    #[test]
    fn own_cpu_is_over_the_samples_clock() {
        let mut rates = Rates::default();
        let own = |cpu_ns| OwnSample { cpu_ns: Some(cpu_ns), rss_bytes: Some(9), ..OwnSample::default() };
        rates.next(Arc::new(Sample { own: own(0), ..sample(0, 0) }));
        let frame = rates.next(Arc::new(Sample { own: own(20_000_000), ..sample(1, 2000) }));
        assert!(!frame.gap);
        assert_eq!(frame.seconds, 2.0);
        assert!((frame.own_cpu_pct.unwrap() - 1.0).abs() < 1e-9);
        let frame = rates.next(Arc::new(Sample { own: own(10_000_000), ..sample(2, 4000) }));
        assert_eq!(frame.own_cpu_pct, None, "went backwards");
    }

    #[test]
    fn breaks_of_the_series() {
        let gap_after = |later: Sample| {
            let mut rates = Rates::default();
            rates.next(Arc::new(sample(0, 1000)));
            rates.next(Arc::new(sample(1, 2000)));
            rates.next(Arc::new(later)).gap
        };
        assert!(!gap_after(sample(2, 3000)));
        assert!(!gap_after(sample(2, 4900)), "late, but less than three times");
        assert!(gap_after(sample(2, 5100)), "more than three times the interval");
        assert!(gap_after(sample(3, 3000)), "a tick is missing");
        assert!(gap_after(sample(1, 3000)), "the same sequence again");
        assert!(gap_after(sample(2, 1500)), "clock went backwards");
        let suspended = Sample { boottime_ns: sample(2, 3000).boottime_ns + 2_000_000_000, ..sample(2, 3000) };
        assert!(gap_after(suspended));
    }

    #[test]
    fn a_quick_first_interval_is_no_break() {
        let mut rates = Rates::default();
        rates.next(Arc::new(sample(0, 0)));
        rates.next(Arc::new(sample(1, 100)));
        assert!(!rates.next(Arc::new(sample(2, 1100))).gap);
    }

    #[test]
    fn after_a_gap_rates_come_back() {
        let own = |cpu_ns| OwnSample { cpu_ns: Some(cpu_ns), ..OwnSample::default() };
        let mut rates = Rates::default();
        rates.next(Arc::new(Sample { own: own(0), ..sample(0, 0) }));
        let frame = rates.next(Arc::new(Sample { own: own(50), ..sample(5, 1000) }));
        assert!(frame.gap && frame.own_cpu_pct.is_none());
        let frame = rates.next(Arc::new(Sample { own: own(50 + 10_000_000), ..sample(6, 2000) }));
        assert!((frame.own_cpu_pct.unwrap() - 1.0).abs() < 1e-9);
    }

    #[test]
    fn a_trainer_that_is_gone_is_forgotten() {
        let mut rates = Rates::default();
        let trainer = ProcessSample { role: ProcessRole::Trainer, ..process(10) };
        let with = |sequence, processes| {
            let job = Some(Arc::new(job(sequence * 1000, processes)));
            Arc::new(Sample { job, ..sample(sequence, sequence * 1000) })
        };
        rates.next(with(0, vec![trainer.clone()]));
        rates.next(with(1, vec![trainer]));
        assert_eq!(rates.trainers.keys().copied().collect::<Vec<_>>(), [id(10)], "by its counters alone");
        rates.next(with(2, vec![process(11)]));
        assert!(!rates.trainers.contains_key(&id(10)));
        rates.next(Arc::new(sample(3, 3000)));
        assert!(rates.trainers.is_empty());
    }

    #[test]
    fn a_target_that_is_gone_is_not_alive() {
        let mut rates = Rates::default();
        let mut gone = sample(0, 0);
        gone.sources.job.state = SourceState::Gone;
        assert!(!rates.next(Arc::new(gone.clone())).alive);
        gone.sources.job.state = SourceState::Pending;
        assert!(rates.next(Arc::new(gone.clone())).alive);
        gone.job = Some(Arc::new(JobSample { alive: false, ..JobSample::default() }));
        let frame = rates.next(Arc::new(gone));
        assert!(!frame.alive);
        assert_eq!(frame.state, 'X');
    }
}
