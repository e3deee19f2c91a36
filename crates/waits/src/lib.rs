//! What each second of a training loop was spent on, and what its waits were for: differences of samples in, frames out.
//!
//! What belongs here: the meaning of a thread's wait or stack, the wait chain, the steps of a loop, and the state between
//! samples that this needs. What does not: subtracting counters (`trainmon-rates`), reading anything, a clock, and any judgment
//! of the run, which is up to the diagnosis.
//!
//! [`Frames`] is a deterministic fold: the same samples give the same frames, so a recording can be judged again. It keeps one
//! `RankState` per training process: an unfinished wait, the last step, what is waited for, the newest stacks.

mod batches;
pub mod chain;
mod classify_wait;
pub mod counters;
#[cfg(test)]
mod counters_tests;
pub mod frame;
mod loop_variable;
mod overlap;
mod profile;
#[cfg(test)]
mod properties;
mod rank;
mod sampled;
mod short_lived;
pub mod stacks;
mod steps;
pub mod taxonomy;
#[cfg(test)]
mod testing;
pub mod time_split;
pub mod wait;
mod workers;

use std::collections::HashMap;
use std::sync::Arc;

pub use frame::Frame;
pub use wait::Wait;

use batches::Loaders;
use chain::ChainState;
use frame::RankRates;
use loop_variable::LoopVariable;
use rank::SplitState;
use sampled::{SampledRank, SampledWorker};
use stacks::correction::RecentActivities;
use trainmon_rates::frame::GpuRates;
use trainmon_rates::gpu::GpuFold;
use trainmon_rates::job::{self, JobFold};
use trainmon_rates::{Difference, Rates, RatesOptions};
use trainmon_sample::{JobSample, ProcessId, ProcessRole, ProfileSample, Sample, SourceState};

/// The fold of samples into frames.
#[derive(Debug, Default)]
pub struct Frames {
    rates: Rates,
    ranks: HashMap<ProcessId, RankState>,
}

/// The state of one training process between ticks.
#[derive(Debug, Default)]
struct RankState {
    split: SplitState,
    chain: ChainState,
    loaders: Loaders,
    stacks: RecentActivities,
    variable: LoopVariable,
}

impl Frames {
    /// A fold without samples.
    pub fn new(options: RatesOptions) -> Self {
        Self { rates: Rates::new(options), ..Self::default() }
    }

    /// Starts over: the next samples are from another program.
    pub fn begin_anew(&mut self) {
        self.rates.begin_anew();
        self.ranks.clear();
    }

    /// The frame between the previous sample and this one; without rates where the series breaks: see [`Rates::next`].
    pub fn next(&mut self, sample: Arc<Sample>) -> Frame {
        let Difference { before, gap, seconds, job: folded, host, other_processes, storage, gpu, own_cpu_pct } =
            self.rates.next(Arc::clone(&sample));
        let mut frame = Frame {
            sequence: sample.sequence,
            unix_ms: sample.unix_ms,
            monotonic_ns: sample.monotonic_ns,
            seconds,
            gap,
            unwatched: sample.job.is_none() && sample.sources.job.state == SourceState::Absent,
            alive: sample.job.as_ref().map_or(sample.sources.job.state != SourceState::Gone, |job| job.alive),
            state: sample.job.as_deref().map_or('?', job::state),
            host,
            other_processes,
            storage,
            own_cpu_pct,
            own_rss_bytes: sample.own.rss_bytes,
            gpu_driver: sample.gpus.as_deref().and_then(|gpus| gpus.driver.clone()),
            ..Frame::default()
        };
        match (sample.job.as_deref(), folded) {
            (Some(job), Some(folded)) => {
                let before_job = before.as_deref().and_then(|before| before.job.as_deref());
                self.fold_job(&mut frame, before_job, &sample, job, &gpu, folded);
                self.fold_stacks(&mut frame, &sample, job);
            }
            _ => self.ranks.clear(),
        }
        if before.is_some()
            && let Some(profile) = sample.profile.as_deref()
        {
            fold_profile(&mut frame, profile, &gpu.rates, &sample);
        }
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
        folded: JobFold,
    ) {
        let stale = folded.stale;
        for window in sample.stacks.iter().flat_map(|stacks| &stacks.windows) {
            self.ranks.get_mut(&window.process).into_iter().for_each(|state| state.chain.take_stacks(window));
        }
        let waits = sampled::waits(&job.sampler);
        let mut graph = chain::Graph::new(job, before, &waits, &folded.short_lived);
        let mut ranks = sampled::ranks(job, &waits, |process| {
            let chain = &mut self.ranks.entry(process.id).or_default().chain;
            match &graph {
                Some(graph) if !stale => {
                    chain.loop_of(&chain::ProcessTick { process, graph, devices: gpu.gpus_of(process.id.pid) })
                }
                _ => chain.loop_tid().unwrap_or(process.id.pid),
            }
        });
        self.forget_all_but(&ranks, job.target);
        let mut workers = sampled::workers(job, &waits);
        let mut chains = vec![None; ranks.len()];
        if let Some(graph) = &mut graph {
            chain::resolve_worker_waits(graph, job, &mut workers);
            let mut states: HashMap<_, _> =
                self.ranks.iter_mut().map(|(id, state)| (*id, &mut state.chain)).collect();
            let followed =
                ranks.iter_mut().filter_map(|rank| Some((states.remove(&rank.id)?, gpu.gpus_of(rank.id.pid), rank)));
            match folded.seconds {
                Some(_) => chains = chain::follow(graph, job, followed),
                None if stale => {}
                None => followed.for_each(|(state, _, rank)| state.rebase(rank)),
            }
        }
        for (rank, chain) in ranks.iter().zip(chains) {
            let state = self.ranks.entry(rank.id).or_default();
            let mut rates = rank::fold(&mut state.split, rank, job, &workers, &folded, gpu, stale);
            rates.chain = chain;
            let own = |worker: &SampledWorker| worker.torch && worker.rank == rank.id.pid;
            let written_per_s = folded.process(job, rank.id).and_then(|(_, delta)| delta.write_chars_per_s);
            let shared = gpu.gpus_of(rank.id.pid).iter().any(|device| device.shared);
            rates.leave_gpu(workers.iter().any(own), shared, written_per_s);
            frame.ranks.push(rates);
        }
        if ranks.is_empty() {
            frame.ranks.extend(rank::target(job, &folded));
        }
        frame.workers = workers::fold(before, job, &workers, &folded, stale);
        for rank in &mut frame.ranks {
            let state = self.ranks.entry(rank.id).or_default();
            state.loaders.correct(rank, &mut frame.workers, folded.seconds);
        }
        frame.job = folded.rates;
        frame.processes = folded.processes;
        (frame.threads, frame.thread_roles) = (folded.threads, folded.thread_roles);
    }

    /// Forgets outdated state of the sampled training processes, and everything about others except the target.
    fn forget_all_but(&mut self, ranks: &[SampledRank], target: ProcessId) {
        self.ranks.retain(|id, state| {
            if ranks.is_empty() {
                // Only its counters are known.
                (state.split, state.chain) = Default::default();
                return *id == target;
            }
            if state.chain.has_moved() {
                // These stacks are from a thread that no longer runs the loop.
                state.stacks = RecentActivities::default();
            }
            ranks.iter().any(|rank| rank.id == *id)
        });
    }

    /// Adds what stacks and local variables say to the frame, and to its splits.
    fn fold_stacks(&mut self, frame: &mut Frame, sample: &Sample, job: &JobSample) {
        for read in sample.stacks.iter().flat_map(|stacks| &stacks.locals) {
            if let Some(state) = self.ranks.get_mut(&read.process) {
                state.variable.take(read, state.chain.loop_tid().unwrap_or(read.process.pid));
            }
        }
        let loop_of = |id| {
            let state = self.ranks.get(&id);
            (state.and_then(|state| state.chain.loop_tid()), state.and_then(|state| state.variable.stepping()))
        };
        frame.stacks = stacks::fold(sample.stacks.as_deref(), job, loop_of);
        for rank in &mut frame.ranks {
            let Some(state) = self.ranks.get_mut(&rank.id) else { continue };
            let own = frame.stacks.iter().filter(|stacks| stacks.id == rank.id);
            let own = own.filter(|stacks| stacks.role == ProcessRole::Rank);
            state.stacks.take(sample.monotonic_ns, own.map(|stacks| stacks.main));
            if rank.steps.is_none() {
                rank.counted = state.variable.steps(sample.monotonic_ns);
            }
            rank.correct(&state.stacks.sum());
        }
    }
}

/// Puts what another tool recorded of the loop into the frame, in place of what counters alone show of its process.
fn fold_profile(frame: &mut Frame, profile: &ProfileSample, gpus: &[GpuRates], sample: &Sample) {
    let (rates, stacks) = profile::fold(profile, gpus, sample);
    let by_counters = frame.ranks.iter().position(|rank| rank.id == rates.id);
    let by_counters = by_counters.map(|at| frame.ranks.swap_remove(at)).unwrap_or_default();
    let RankRates { cpu_pct, read_chars_per_s, run_delay_share, .. } = by_counters;
    frame.ranks.insert(0, RankRates { cpu_pct, read_chars_per_s, run_delay_share, ..rates });
    frame.stacks.push(stacks);
    if frame.job.library.is_none() {
        frame.job.library = profile::library(profile).map(Into::into);
    }
}

#[cfg(test)]
mod tests {
    use super::testing::*;
    use super::*;
    use trainmon_sample::ProcessSample;

    fn sample(sequence: u64, ms: u64) -> Sample {
        tick(sequence, ms)
    }

    #[test]
    fn a_rank_that_is_gone_is_forgotten() {
        let mut frames = Frames::default();
        let rank = ProcessSample { role: ProcessRole::Rank, ..process(10) };
        let with = |sequence, processes| Arc::new(job_tick(sequence, processes));
        frames.next(with(0, vec![rank.clone()]));
        frames.next(with(1, vec![rank]));
        assert_eq!(frames.ranks.keys().copied().collect::<Vec<_>>(), [id(10)], "by its counters alone");
        frames.next(with(2, vec![process(11)]));
        assert!(!frames.ranks.contains_key(&id(10)));
        frames.next(Arc::new(sample(3, 3000)));
        assert!(frames.ranks.is_empty());
    }

    #[test]
    fn a_target_that_is_gone_is_not_alive() {
        let mut frames = Frames::default();
        let mut gone = sample(0, 0);
        gone.sources.job.state = SourceState::Gone;
        assert!(!frames.next(Arc::new(gone.clone())).alive);
        gone.sources.job.state = SourceState::Pending;
        assert!(frames.next(Arc::new(gone.clone())).alive);
        gone.job = Some(Arc::new(JobSample { alive: false, ..JobSample::default() }));
        let frame = frames.next(Arc::new(gone));
        assert!(!frame.alive);
        assert_eq!(frame.state, 'X');
    }
}
