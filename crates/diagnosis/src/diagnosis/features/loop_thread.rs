//! The loop's thread: where its time goes, by the sampler and by its stacks.
//!
//! Long because each of the two corrects the other.

use std::collections::{BTreeMap, HashMap};

mod kind;

use super::{Device, Span, WeightedMean};
use crate::diagnosis::code::{
    SyncParts, at_lock_lines, hottest_functions, hottest_loading, hottest_own, sleep_line, sync_lines,
};
use crate::diagnosis::parts::Hottest;
use crate::diagnosis::place;
use crate::diagnosis::thresholds::{
    ALL_ALONG, BUSY, CLEARLY_LOST, HARDLY, INLINE_READ, LARGER_HALF, LOST_WAIT, PHASE, Threshold,
};
use trainmon_libraries::JobKind;
use trainmon_sample::{ProcessId, ThreadRole};
use trainmon_waits::Frame;
use trainmon_waits::Wait;
use trainmon_waits::stacks::ProcessStacks;
use trainmon_waits::stacks::correction::{Corrected, LoopShares, Measured, correct};
use trainmon_waits::stacks::sums::StackSums;
use trainmon_waits::stacks::{Activity, MODULE};
use trainmon_waits::time_split::TimeSplit;

/// Its values: shares of its time unless they say otherwise.
#[derive(Debug, Clone, Default)]
pub(in crate::diagnosis) struct LoopThread {
    /// Where the time goes, corrected by the stacks.
    pub shares: TimeSplit,
    /// The part of the waits for the GPU that spins, and so takes a CPU.
    pub spins: f64,
    /// Running or queueing, except to get a batch.
    pub running: f64,
    /// By kind of wait, wherever the code was. Running includes getting a batch.
    by_wait: [f64; Wait::COUNT],
    /// Waits were identified by `syscall`.
    pub exact: bool,
    /// Share of runnable time spent queueing.
    pub run_delay: Option<f64>,
    /// CPU use of the loop's process, percent of a CPU.
    pub cpu_pct: Option<f64>,
    /// Data read by the loop's process, bytes/s.
    pub read_chars_per_s: Option<f64>,
    /// Share of frames in which it read more than [`INLINE_READ`].
    pub reading: f64,
    /// Share of frames in which it saved, for however long.
    pub saving: f64,
    /// Waits for a batch, seconds each.
    pub waits_s: Vec<f64>,
    /// The other threads of its process.
    pub other_threads: OtherThreads,
    /// For each thread of the job: the seconds in which it ran or queued, and those of queueing.
    scheduled: HashMap<(u32, u32), (f64, f64)>,
    /// What the stacks say, if there are enough.
    pub stacks: Option<LoopStacks>,
}

/// The other threads of the loop's process, by the share of the time in which they run or queue.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::diagnosis) struct OtherThreads {
    /// Number of busy ones among those that belong neither to torch nor to a queue.
    pub busy: usize,
    /// The use of the busiest of these.
    pub busiest: f64,
    /// The use of the busiest of torch's own: autograd, communication.
    pub torch: f64,
}

impl OtherThreads {
    fn from_span(span: &Span<'_>) -> Self {
        let mut seconds: BTreeMap<(ProcessId, u32, ThreadRole), f64> = BTreeMap::new();
        for frame in &span.frames {
            for rank in span.ranks(frame) {
                for thread in frame.threads.iter().filter(|thread| thread.process == rank.id) {
                    let runnable = f64::from(thread.cpu_pct + thread.run_delay_pct) / 100.0;
                    *seconds.entry((thread.process, thread.tid, thread.role)).or_default() +=
                        runnable * frame.seconds;
                }
            }
        }
        let total: f64 = span.frames.iter().map(|frame| frame.seconds).sum();
        let mut out = Self::default();
        for ((.., role), seconds) in seconds {
            let share = seconds / total;
            match role {
                ThreadRole::Other => {
                    out.busy += usize::from(share >= BUSY);
                    out.busiest = out.busiest.max(share);
                }
                ThreadRole::Autograd | ThreadRole::Communication => out.torch = out.torch.max(share),
                ThreadRole::Main | ThreadRole::Pin | ThreadRole::QueueThread => {}
            }
        }
        out
    }
}

/// Samples of other threads that say what they do: a share of a half to within 22 points.
const ENOUGH_SAMPLES_ASIDE: u32 = 20;
/// Threads that make batches show it in more than this part of their samples. The rest is their own loop, and queues.
const OF_BATCHES: f64 = 0.2;

/// Samples in the backward pass or the optimizer that prove a training loop: one or two may be a stack that changed while it
/// was read.
const TRAINS: f64 = 3.0;

/// What the stacks say of the loop's thread.
#[derive(Debug, Clone, Default)]
pub(in crate::diagnosis) struct LoopStacks {
    pub shares: LoopShares,
    /// Share in validation loops, by name or under `torch.no_grad()`.
    validation: f64,
    /// The part of that which only `torch.no_grad()` shows.
    under_no_grad: f64,
    /// The part of that which only the name of a function shows.
    by_name: f64,
    /// Samples that get a batch outside validation loops.
    fed: u32,
    /// Share in the model below validation loops.
    pub validated: f64,
    /// torch's loader makes batches in this thread.
    pub in_fetch: bool,
    /// Number of samples.
    pub samples: u32,
    /// Functions, the largest share first.
    pub hottest: Vec<Hottest>,
    /// The hottest function apart from waits for the GPU and for other ranks.
    pub hottest_own: Option<Hottest>,
    /// The hottest function that makes batches.
    pub hottest_loading: Option<Hottest>,
    /// The path of its own time: at most three functions, outermost first.
    pub place: Vec<Hottest>,
    /// Lines that wait for the GPU.
    pub sync_lines: Vec<Hottest>,
    /// The line where it sleeps most.
    pub sleep_line: Option<Hottest>,
    /// Share at lines that take a lock or join a thread.
    pub at_lock_lines: f64,
    /// Samples of the process's other threads working in Python, and those of them that make batches.
    pub aside: (u32, u32),
    /// Samples of these threads in what a library fits a model with.
    fits_aside: u32,
    /// The path of the time of those that make batches or fit a model, as shares of it.
    pub place_aside: Vec<Hottest>,
    /// What the lines are named from: the stacks, and how much time a sample stands for.
    sum: ProcessStacks,
    corrected: Corrected,
    /// The loop was seen to block on the GPU for so long that a blocked line may be such a wait.
    blocked_waits: bool,
}

impl LoopStacks {
    /// Whether it was seen in the backward pass or in the optimizer, which only a training loop has.
    pub fn trains(&self) -> bool {
        let of_training = self.shares.get(Activity::Backward) + self.shares.get(Activity::Optimizer);
        of_training * f64::from(self.samples) >= TRAINS
    }

    /// Whether it was seen in what a library does for it again and again: fitting, generating, stepping environments.
    pub fn has_work_done(&self) -> bool {
        let done = |activity| matches!(activity, Activity::Fit | Activity::Generate | Activity::Environment);
        self.shares.share_where(done) * f64::from(self.samples) >= TRAINS
    }

    /// Whether it trains, or takes batches outside validation loops: then validation is not a phase.
    pub fn trains_meanwhile(&self) -> bool {
        self.trains() || f64::from(self.fed) >= TRAINS
    }

    /// Whether it was seen in a model's forward pass, and in nothing that only a training loop does.
    pub fn predicts(&self) -> bool {
        self.shares.get(Activity::Forward) * f64::from(self.samples) >= TRAINS && !self.trains()
    }

    /// Share in validation loops. A loop that never trained and is always under `no_grad` generates or predicts instead. A
    /// function that only has the name and runs no model does not count.
    pub fn validating(&self, has_trained: bool) -> f64 {
        let generates = if has_trained { 0.0 } else { self.under_no_grad };
        self.validation - generates - if self.validated >= HARDLY { 0.0 } else { self.by_name }
    }

    /// Share in validation loops that run a model, beside training.
    pub fn validates(&self) -> f64 {
        let between = if self.validated >= HARDLY { self.validating(self.trains()).clamp(0.0, 1.0) } else { 0.0 };
        let (in_step, of_model) = self.sum.validates_in_step;
        let of_all = |samples: u32| f64::from(samples) / f64::from(self.samples.max(1));
        let validates = self.trains() && of_all(of_model) >= HARDLY.value;
        between + if validates { of_all(in_step) } else { 0.0 }
    }

    /// Whether waits that take this share of the time are in the loop's own code rather than in its loading, which is hardly seen to
    /// read.
    pub fn waits_beside_loading(&self, waits: f64) -> bool {
        let own = self.shares.of_own_code() + self.shares.get(Activity::OtherWait);
        let half = LARGER_HALF.value * waits;
        self.shares.get(Activity::Load) < half && own >= half
    }

    /// Share loading batches in the loop's process.
    pub fn loading(&self) -> f64 {
        self.shares.share_where(Activity::is_loading).min(1.0)
    }

    /// Whether its other threads were seen working often enough, and hardly ever made batches.
    pub fn works_aside_at_something_else(&self) -> bool {
        let (all, make) = self.aside;
        all >= ENOUGH_SAMPLES_ASIDE && f64::from(make) < OF_BATCHES * f64::from(all)
    }

    /// Whether its other threads were seen working often enough, and hardly at anything but making batches.
    pub fn makes_batches_aside(&self) -> bool {
        let (all, make) = self.aside;
        all >= ENOUGH_SAMPLES_ASIDE && f64::from(make) >= ALL_ALONG.value * f64::from(all)
    }

    /// Share of its own code and share of the model, if both take a large part of its time. Where a library computes by algorithms of
    /// its own, Python code is the library's unless it is in a function of the user's.
    pub fn beside_the_model(&self) -> Option<(f64, f64)> {
        let by_library = self.job().kind.is_some_and(|kind| !kind.moves_to_gpu());
        let of_user = || self.own_function().map_or(0.0, |(_, share)| share);
        let own = if by_library { of_user() } else { self.shares.of_own_code() };
        let model = self.shares.of_model();
        (own >= CLEARLY_LOST && model >= CLEARLY_LOST).then_some((own, model))
    }

    /// The user's function that takes most of its own work, apart from those that run the model: share of the loop's time.
    pub fn own_function(&self) -> Option<(&str, f64)> {
        let mut own: BTreeMap<(&str, &str), (u32, bool)> = BTreeMap::new();
        for place in self.sum.places.iter().filter(|place| place.user && &*place.function != MODULE) {
            let (samples, runs) = own.entry((&place.file, &place.function)).or_default();
            *samples += if place.activity == Activity::Python { place.samples } else { 0 };
            *runs |= place.activity.is_model();
        }
        let alone = own.into_iter().filter(|(_, (_, runs))| !runs);
        let ((_, function), (samples, _)) = alone.max_by_key(|(_, (samples, _))| *samples)?;
        Some((function, self.corrected.share(samples)))
    }

    /// Whether it only shows a compiled step, which may fetch its batch as well as compute.
    pub fn is_compiled(&self) -> bool {
        self.shares.get(Activity::Graph) >= PHASE
    }

    /// Share of the time in which a server's code answers requests, whether it computes or waits.
    pub fn answering(&self) -> f64 {
        f64::from(self.sum.answering) / self.sum.main.total().max(1) as f64
    }

    /// Whether its other threads fit a library's model for longer than they make batches for it.
    pub fn fits_aside(&self) -> bool {
        self.fits_aside >= ENOUGH_SAMPLES_ASIDE && self.fits_aside > self.aside.1
    }

    /// Whether the larger part of waits that take this share of the time is in the model's own code: native threads compute it.
    pub fn waits_in_model(&self, waits: f64) -> bool {
        self.shares.of_model() + waits - 1.0 >= LARGER_HALF.value * waits
    }

    /// Names the lines that wait for the GPU, and the hottest other function.
    fn name_lines(&mut self, parts: SyncParts) {
        let share = |samples: u32| self.corrected.share(samples);
        self.sync_lines = sync_lines(&self.sum, share, self.blocked_waits, parts);
        self.hottest_own = hottest_own(&self.sum, share, self.blocked_waits, parts);
    }

    /// Lets its lines wait for the GPU no longer than the loop does.
    fn wait_within(&mut self, device_sync: f64) {
        let share = |samples: u32| self.corrected.share(samples);
        self.name_lines(SyncParts::within(device_sync, &self.sum, share, self.blocked_waits));
    }

    /// The function to name for the loop's own work: the user's hottest one, unless it only calls what runs the loop.
    pub fn place_of_work(&self) -> Option<&Hottest> {
        let own = self.hottest_own.as_ref();
        let innermost = self.place.last().filter(|place| place.share >= place::NAMED);
        // Where a server's own thread is says nothing of its answers.
        if self.job().kind == Some(JobKind::Serving) {
            return innermost.or(own);
        }
        let only_calls = |own: &&Hottest| place::only_calls(&self.sum.calls, own);
        if own.filter(only_calls).is_some() { innermost.or(own) } else { own }
    }

    /// The function to name for what it loads itself.
    pub fn place_of_loading(&self) -> Option<&Hottest> {
        self.hottest_loading.as_ref().filter(|place| place.share >= place::NAMED).or_else(|| self.place_of_work())
    }

    /// Share at lines that wait for the GPU.
    pub fn at_sync_lines(&self) -> f64 {
        self.sync_lines.iter().map(|line| line.share).sum()
    }
}

impl LoopThread {
    /// The loop of one rank, with its own GPU if that is known.
    pub fn of_rank(frames: &[&Frame], stacks: &StackSums, rank: ProcessId, gpu: Option<&Device>) -> Option<Self> {
        let mut main = Self::from_span(&Span::new(frames, stacks, Some(rank)))?;
        main.take_spins(gpu.map_or(0.0, |gpu| gpu.job_busy));
        Some(main)
    }

    pub(super) fn from_span(span: &Span<'_>) -> Option<Self> {
        let mut measured = Measured::default();
        let mut main = Self { exact: true, ..Self::default() };
        let (mut seen, mut able_to_work, mut elsewhere, mut may_sync) = (0.0, 0.0, 0.0, 0.0);
        let (mut delay, mut cpu, mut read) =
            (WeightedMean::default(), WeightedMean::default(), WeightedMean::default());
        for frame in &span.frames {
            let (mut reads, mut saves) = (false, false);
            for rank in span.ranks(frame) {
                seen += rank.seconds_seen;
                measured.split += rank.measured();
                measured.polled += rank.polled_s();
                able_to_work += rank.able_to_work_s();
                may_sync += rank.may_sync_s();
                elsewhere += rank.elsewhere_s;
                main.running += rank.running_s;
                main.by_wait.iter_mut().zip(rank.by_wait_s).for_each(|(sum, wait)| *sum += f64::from(wait));
                main.exact &= rank.exact || rank.samples == 0;
                main.waits_s.extend(rank.wait_lengths_s.iter().map(|length| f64::from(*length)));
                delay.add(rank.run_delay_share, frame.seconds);
                cpu.add(rank.cpu_pct, frame.seconds);
                read.add(rank.read_chars_per_s, frame.seconds);
                saves |= rank.measured().checkpoint > 0.0;
                reads |= reaches(rank.read_chars_per_s, INLINE_READ);
            }
            main.reading += f64::from(u8::from(reads));
            main.saving += f64::from(u8::from(saves));
            for thread in &frame.threads {
                let (ran, queued) = (f64::from(thread.cpu_pct), f64::from(thread.run_delay_pct));
                let sums = main.scheduled.entry((thread.process.pid, thread.tid)).or_default();
                sums.0 += (ran + queued) / 100.0 * frame.seconds;
                sums.1 += queued / 100.0 * frame.seconds;
            }
        }
        if seen <= 0.0 {
            return None;
        }
        main.running /= seen;
        main.by_wait = main.by_wait.map(|seconds| seconds / seen);
        let measured = Measured {
            split: measured.split.map(|seconds| seconds / seen),
            polled: measured.polled / seen,
            disk_write: main.waits(Wait::DiskWrite),
            may_sync: may_sync / seen,
            able_to_work: able_to_work / seen,
            elsewhere: elsewhere / seen,
            run_delay: delay.get(),
            queued: delay.get().unwrap_or(0.0) * main.waits(Wait::Running),
        };
        let frames = span.frames.len().max(1) as f64;
        (main.reading, main.saving) = (main.reading / frames, main.saving / frames);
        (main.run_delay, main.cpu_pct, main.read_chars_per_s) = (delay.get(), cpu.get(), read.get());
        main.shares = measured.split;
        main.other_threads = OtherThreads::from_span(span);
        main.correct(&measured, span);
        Some(main)
    }

    fn correct(&mut self, measured: &Measured, span: &Span<'_>) {
        let sum = span.stacks.all_ranks(span.only);
        let Some(corrected) = correct(measured, &sum.activities()) else { return };
        self.shares = corrected.split;
        // Time that turned out to be getting a batch is not other work.
        self.running = (self.running - (self.shares.input_wait - measured.split.input_wait).max(0.0)).max(0.0);
        let total = sum.main.total();
        let share = |samples: u32| corrected.share(samples);
        let mut stacks = LoopStacks {
            validation: (f64::from(sum.validation) / total as f64).min(1.0),
            under_no_grad: (f64::from(sum.under_no_grad) / total as f64).min(1.0),
            by_name: (f64::from(sum.by_name) / total as f64).min(1.0),
            fed: sum.fed,
            validated: share(sum.validated),
            in_fetch: sum.in_fetch > 0,
            samples: u32::try_from(total).unwrap_or(u32::MAX),
            hottest: hottest_functions(&sum, share),
            hottest_own: None,
            hottest_loading: hottest_loading(&sum, share),
            place: place::path(&sum.calls, share),
            sync_lines: Vec::new(),
            blocked_waits: measured.split.device_sync >= LOST_WAIT,
            sleep_line: sleep_line(&sum, share),
            at_lock_lines: share(at_lock_lines(&sum)),
            aside: sum.aside,
            fits_aside: sum.fits_aside,
            place_aside: place::path(&sum.calls_aside, |samples| {
                f64::from(samples) / f64::from(sum.calls_aside.samples.max(1))
            }),
            shares: corrected.activities.clone(),
            sum,
            corrected,
        };
        stacks.name_lines(SyncParts::ALL);
        self.stacks = Some(stacks);
    }

    /// A spinning wait for the GPU looks like work: the time that stacks see at lines that read a value back is such a wait,
    /// as far as the GPU is `busy`.
    pub fn take_spins(&mut self, busy: f64) {
        let waits = self.stacks.as_ref().map_or(0.0, LoopStacks::at_sync_lines).min(busy);
        let spins = (waits - self.shares.device_sync).clamp(0.0, self.shares.host_busy.max(0.0));
        self.shares.device_sync += spins;
        self.shares.host_busy -= spins;
        self.spins = spins;
        let device_sync = self.shares.device_sync;
        self.stacks.iter_mut().for_each(|stacks| stacks.wait_within(device_sync));
    }

    /// No line waits for a GPU.
    pub fn wait_for_no_gpu(&mut self) {
        self.stacks.iter_mut().for_each(|stacks| stacks.wait_within(0.0));
    }

    /// Share of a kind of wait.
    pub fn waits(&self, wait: Wait) -> f64 {
        self.by_wait.get(wait.index()).copied().unwrap_or(0.0)
    }

    /// Queueing as a share of the time in which a thread of the job could run.
    pub fn run_delay_of(&self, pid: u32, tid: u32) -> f64 {
        let sums = self.scheduled.get(&(pid, tid)).filter(|(runnable, _)| *runnable > 0.0);
        sums.map_or(0.0, |(runnable, queued)| queued / runnable)
    }

    /// CPU use of its process, CPUs.
    pub fn cores(&self) -> f64 {
        self.cpu_pct.unwrap_or(0.0) / 100.0
    }

    /// Waiting for a read, or for the data to be in memory.
    pub fn disk(&self) -> f64 {
        self.waits(Wait::DiskRead) + self.waits(Wait::Memory)
    }

    /// Share of the time in which it runs while its code is in a collective: its work beyond all other work.
    pub fn runs_in_collectives(&self) -> f64 {
        let Some(stacks) = &self.stacks else { return 0.0 };
        let waits = |activity| matches!(activity, Activity::Sync | Activity::Collective | Activity::OtherWait);
        let other = stacks.shares.share_where(|activity| !waits(activity) && !activity.is_input());
        (self.shares.host_busy - other).clamp(0.0, stacks.shares.get(Activity::Collective))
    }

    /// Share of an activity in the stacks; 0 without them.
    pub fn share(&self, activity: Activity) -> f64 {
        self.stacks.as_ref().map_or(0.0, |stacks| stacks.shares.get(activity))
    }
}

/// Whether a number is known and reaches a threshold.
fn reaches(value: Option<f64>, threshold: Threshold) -> bool {
    value.is_some_and(|value| value >= threshold)
}
