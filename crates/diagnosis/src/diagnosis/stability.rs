//! Which judgment is shown: a verdict must not flicker, and must follow a real change within ten seconds.
//!
//! Two windows are judged at every frame: a long one, whose numbers are shown, and a short one, which notices a change. A new
//! class or cause takes over once it has held for long enough without a break. From then on the long window begins where the
//! change did, so that it does not mix two regimes.
//!
//! Long because the windows, what they are compared with and when a judgment takes over depend on each other.

use std::collections::BTreeMap;

use trainmon_sample::{ProcessId, ProcessRole, Sample};
use trainmon_waits::Frame;
use trainmon_waits::stacks::sums::StackSums;
use trainmon_waits::stacks::{Activities, Activity};

use super::causes::{Cause, Judgment, Known};
use super::class::{Class, Phase};
use super::clean::cleaned;
use super::culprits::Culprit;
use super::features::{Features, LoopStacks, WeightedMean};
use super::load::Load;
use super::mix::Mix;
use super::restarts::Restarts;
use super::thresholds::{DEVICE_UNUSED, HARDLY, thresholds};
use super::verdict::{Context, Rank, Verdict};
use super::windows::{LONG_S, LONGEST_S, SHORT_S};
use super::{compose, decision, phases, ranks, rhythm};
use trainmon_base::stats::{mean, round};

thresholds! {
    /// Windows grow to this many steps, and at most to a minute.
    STEPS_LATE = 6.0, "steps", "a stall at every Nth step is then in every window";
    /// A loop whose GPU works in turns is judged by this many of them.
    TURNS = 2.0, "turns", "one turn alone may be longer than the others";
    /// Stacks reach back this far.
    STACKS_S = 120.0, "s", "they are rarely taken while nothing changes";
    /// The stacks of the short window reach back this far; without such new ones, the newest of each process.
    SHORT_STACKS_S = 6.0, "s", "a few windows of the stack sampler";
    /// Shortest time that gives a verdict.
    FIRST_VERDICT_S = 2.4, "s", "120 samples give a share of 0.3 to within 4 points";
    BEYOND_DOUBT = 0.95, "confidence", "nothing can change any more: the job has ended or is stopped";
    /// With a GPU in use for so long, there are steps.
    STEPPING = 3.0, "frames", "moving a model to a GPU takes one or two";
    /// The newest stacks show another share of making batches.
    STACKS_MOVED = 0.35, "share", "three standard deviations of the stacks of one second";
    STACKS_LEAST = 20.0, "samples", "fewer stacks of one second give no share to compare";
    /// A challenger that the long window agrees with takes over after this time.
    AGREED_S = 1.5, "s", "the second frame that says so";
    /// A challenger that only the short window sees, while the cheap signals show a change …
    SURE_ENOUGH = 0.80, "confidence", "between seen with an equal and seen throughout";
    /// … takes over after this time.
    SURE_S = 2.9, "s", "three samples after the first";
    /// Any other that only the short window sees takes over after this time, or after half the short window if that is longer.
    ALONE_S = 3.9, "s", "four samples after the first, none of which comes exactly a second after the last";
}

/// Older frames are not used, seconds: the longest of the above.
pub const LOOK_BACK_S: f64 = STACKS_S.value;

/// Judges frame after frame.
#[derive(Debug, Clone, Default)]
pub struct Diagnosis {
    context: Context,
    standing: Option<Judgment>,
    challenger: Option<Challenger>,
    load: Load,
    /// Earlier frames belong to another regime. CLOCK_MONOTONIC, nanoseconds.
    regime_ns: u64,
    begun_ns: Option<u64>,
    /// When a step was counted last, CLOCK_MONOTONIC nanoseconds.
    stepped_ns: Option<u64>,
    /// Since when stacks have shown nothing but a validation, CLOCK_MONOTONIC nanoseconds.
    validates_ns: Option<u64>,
    known: Known,
    /// Frames in which a GPU of the job was in use.
    gpu_used: u32,
    /// Use of the GPUs over all frames without a job, percent.
    gpu_alone: WeightedMean,
    /// Steps so far, however they are counted.
    steps: Option<f64>,
    restarts: Restarts,
    first_verdict_s: Option<f64>,
    last_sequence: Option<u64>,
    /// The cheap signals of the short window differ from those of the long one.
    counters_moved: bool,
    /// The newest stacks differ from those before.
    stacks_moved: bool,
}

/// Another judgment than the shown one, CLOCK_MONOTONIC nanoseconds.
#[derive(Debug, Clone)]
struct Challenger {
    what: (Class, Option<Cause>),
    /// Since when it has been this judgment.
    since_ns: u64,
    /// Since when it has been any other than the shown one: while a window holds two regimes it may be a third.
    contradicted_ns: u64,
}

impl Judgment {
    /// What it says, without the confidence.
    fn what(&self) -> (Class, Option<Cause>) {
        (self.class, self.cause)
    }

    /// The end or a stop of the job needs no confirmation.
    fn is_certain(&self) -> bool {
        self.class == Class::Idle && self.confidence > BEYOND_DOUBT
    }
}

/// The stacks of the short window. Older ones still count while the cheap signals have not moved.
fn newest_stacks(all: &[&Frame], short: &[&Frame], now: Option<&Mix>, last: &Frame) -> StackSums {
    let before = all.get(..all.len().saturating_sub(short.len())).unwrap_or_default();
    // What they said when the last of the older stacks were taken.
    let taken = before.iter().rposition(|frame| !frame.stacks.is_empty());
    let around = taken.and_then(|at| before.get((at + 1).saturating_sub(short.len())..=at)).unwrap_or_default();
    if now.is_some_and(|now| now.has_moved_since(around)) {
        return StackSums::from_stacks(short.iter().flat_map(|frame| &frame.stacks));
    }
    let moments = all.iter().rev().map(|frame| (frame.monotonic_ns, &*frame.stacks));
    StackSums::newest(moments, last.monotonic_ns.saturating_sub((SHORT_STACKS_S.value * 1e9) as u64))
}

/// Whether the loop's newest stacks clearly differ from those before: its own work may have changed where no counter shows it,
/// from making batches to computing with them.
fn stacks_have_moved(frames: &[&Frame]) -> bool {
    let Some((last, earlier)) = frames.split_last() else { return false };
    let input = |main: &Activities| {
        let all = main.total() as f64;
        (all >= STACKS_LEAST).then(|| main.samples_where(Activity::is_input) as f64 / all)
    };
    last.stacks.iter().filter(|now| now.role == ProcessRole::Rank).any(|now| {
        let mut before = Activities::default();
        let of_process = earlier.iter().flat_map(|frame| &frame.stacks).filter(|stacks| stacks.id == now.id);
        of_process.for_each(|stacks| before.merge(&stacks.main));
        input(&now.main).zip(input(&before)).is_some_and(|(now, before)| (now - before).abs() > STACKS_MOVED)
    })
}

/// Whether the loop's stacks show that it steps: they wait for results from the GPU, or they show the model in a rank that
/// others wait for.
fn steps_by_stacks(window: &Features, late_rank: bool) -> bool {
    let stacks = window.loop_stacks();
    stacks.is_some_and(|seen| {
        seen.shares.get(Activity::Sync) >= HARDLY.value || late_rank && seen.shares.of_model() >= HARDLY.value
    })
}

/// Says which rank the others wait for, if one is late.
fn name_straggler(verdict: &mut Verdict) {
    if let Some((at, rank)) = verdict.ranks.iter().enumerate().find(|(_, rank)| rank.straggler) {
        let late = Culprit::rank(rank.number(at), Some(rank.pid));
        // What is said is of this rank and its GPU.
        let of_rank = format!("The loop of rank {} ", rank.number(at));
        verdict.summary =
            verdict.summary.replacen("The loop ", &of_rank, 1).replacen("the GPU sits", "its GPU sits", 1);
        verdict.summary += &format!(" The other ranks wait for {}.", late.who());
        verdict.culprits.insert(0, late);
    }
}

impl Diagnosis {
    /// A diagnosis without any frames.
    pub fn new(context: Context) -> Self {
        Self { context, ..Self::default() }
    }

    /// The attached process has another command line, ready to show.
    pub fn rename(&mut self, command: &str) {
        self.context.command.clear();
        self.context.command.push_str(command);
    }

    /// Whether a change may have begun: the last judgment or the signals differ.
    pub fn moves(&self) -> bool {
        self.challenger.is_some() || self.counters_moved || self.stacks_moved
    }

    /// Judges the recent frames, oldest first, the newest of which comes from `sample`. Call it once per frame.
    pub fn observe<'a>(
        &mut self,
        recent: impl DoubleEndedIterator<Item = &'a Frame> + Clone,
        sample: &Sample,
    ) -> Verdict {
        let Some(last) = recent.clone().next_back() else {
            return cleaned(compose::verdict(&self.context, &Judgment::default(), &Features::default(), sample));
        };
        let begun = *self.begun_ns.get_or_insert(last.monotonic_ns);
        let observed_s = last.monotonic_ns.saturating_sub(begun) as f64 / 1e9;
        if self.last_sequence != Some(last.sequence) {
            self.last_sequence = Some(last.sequence);
            self.count(last);
        }
        let of_last = |seconds: f64| self.frames(recent.clone(), last, seconds);
        let (long_frames, stack_frames) = (of_last(LONG_S), of_last(STACKS_S.value));
        let stacks = StackSums::from_stacks(stack_frames.iter().flat_map(|frame| &frame.stacks));
        let ranks = ranks::ranks(&long_frames, &stacks);
        let only = ranks::straggler(&ranks);
        let long = Features::from_frames(&long_frames, &stacks, only);
        // Steps longer than the windows need longer windows.
        let stretch = long.steps.quantile_ms(0.95).map_or(0.0, |ms| ms / 1000.0 * STEPS_LATE.value);
        let is_recent =
            |frame: &&Frame| last.monotonic_ns.saturating_sub(frame.monotonic_ns) as f64 <= LONGEST_S * 1e9;
        let turn_s = rhythm::turn_s(recent.clone().filter(is_recent)).filter(|turn| *turn > stretch);
        let comes_and_goes = self.load.comes_and_goes(last.monotonic_ns);
        let (long_s, short_s) = match turn_s {
            Some(turn_s) => ((TURNS.value * turn_s).clamp(LONG_S, LONGEST_S), turn_s),
            None if comes_and_goes => (LONGEST_S, stretch.clamp(SHORT_S, LONGEST_S / 3.0)),
            None => (stretch.clamp(LONG_S, LONGEST_S), stretch.clamp(SHORT_S, LONGEST_S / 3.0)),
        };
        // Whole turns, whatever the verdict was meanwhile: their halves are not regimes.
        let whole = turn_s.is_some() || comes_and_goes;
        if whole {
            self.regime_ns = 0;
        }
        let long = self.averaged(if whole || long_s > LONG_S {
            Features::from_frames(&self.frames(recent.clone(), last, long_s), &stacks, only)
        } else {
            long
        });
        self.known.has_stepped |= long.is_stepping() || steps_by_stacks(&long, only.is_some());
        self.known.has_trained |= long.loop_stacks().is_some_and(LoopStacks::trains);
        let judged = decision::judge(&long, self.known);
        self.stacks_moved = stacks_have_moved(&stack_frames);
        self.counters_moved = false;
        // Not before the first verdict, nor for what needs no confirmation.
        let short = (self.may_change() && !judged.is_certain()).then(|| {
            let frames = self.frames(recent.clone(), last, short_s);
            let now = Mix::from_frames(&frames);
            let newest = newest_stacks(&stack_frames, &frames, now.as_ref(), last);
            self.counters_moved = now.is_some_and(|now| now.has_moved_since(&long_frames));
            decision::judge(&Features::from_frames(&frames, &newest, only), self.known)
        });
        self.decide(last.monotonic_ns, long.seconds, judged, short, short_s);
        let ranks = ranks.into_iter().map(|(_, rank)| rank).collect();
        let mut verdict = self.tell(&long, ranks, sample, last.monotonic_ns, observed_s);
        verdict.own.cpu_pct = mean(long_frames.iter().filter_map(|frame| frame.own_cpu_pct)).map(|pct| round(pct, 2));
        cleaned(verdict)
    }

    /// Whether another judgment may take over: a short validation is a part of training.
    fn may_change(&self) -> bool {
        let is_part =
            |standing: &Judgment| standing.phase == Phase::Training && phases::validates_briefly(self.known);
        self.standing.as_ref().is_some_and(|standing| !is_part(standing))
    }

    /// The numbers of a window; where nothing but GPUs is known, with their use over all frames.
    fn averaged(&self, mut window: Features) -> Features {
        let alone = window.unwatched && window.main.is_none();
        if let (true, Some(gpu), Some(pct)) = (alone, &mut window.gpu, self.gpu_alone.get()) {
            gpu.average(pct / 100.0);
        }
        window
    }

    /// The full current verdict, for a window that ends at `now_ns`.
    fn tell(&mut self, long: &Features, ranks: Vec<Rank>, sample: &Sample, now_ns: u64, observed_s: f64) -> Verdict {
        let standing = self.standing.clone().unwrap_or_default();
        if self.first_verdict_s.is_none() && standing.class != Class::Unknown {
            self.first_verdict_s = Some(observed_s);
        }
        let mut verdict = compose::verdict(&self.context, &standing, long, sample);
        verdict.ranks = ranks::agreeing(ranks, verdict.shares);
        if standing.cause.is_some() {
            name_straggler(&mut verdict);
        }
        self.load.name_both(&mut verdict, now_ns);
        verdict.observed_s = observed_s;
        verdict.window_s = round(long.seconds, 1);
        verdict.first_verdict_s = self.first_verdict_s;
        verdict.steps.count = self.steps.map(|steps| steps.round() as u64);
        verdict
    }

    fn decide(&mut self, now_ns: u64, seconds: f64, judged: Judgment, short: Option<Judgment>, short_s: f64) {
        let certain = judged.is_certain();
        let Some(standing) = &self.standing else {
            if certain || seconds >= FIRST_VERDICT_S {
                self.standing = Some(judged);
            }
            return;
        };
        if certain || self.load.is_settled(standing, &judged, now_ns) {
            self.take_over(judged, now_ns, now_ns);
            return;
        }
        let Some(short) = short else { return };
        // Another cause of the same class, or the first verdict after an unknown, needs little proof. The same goes for any
        // verdict once a job that was said to be starting has stepped.
        let from_nothing =
            standing.class == Class::Unknown || standing.phase == Phase::Init && self.known.has_stepped;
        let confirmed = judged.what() == standing.what();
        let agreed = !confirmed && judged.class == short.class;
        let blind = short.class == Class::Unknown && judged.class != Class::Unknown;
        let rival = if short.what() == standing.what() || blind {
            if confirmed {
                self.challenger = None;
                self.standing = Some(judged);
                return;
            }
            &judged
        } else {
            &short
        };
        let known = self.challenger.take();
        let contradicted_ns = known.as_ref().map_or(now_ns, |old| old.contradicted_ns);
        let since_ns = known.filter(|old| old.what == rival.what()).map_or(now_ns, |old| old.since_ns);
        let seconds_since = |ns: u64| now_ns.saturating_sub(ns) as f64 / 1e9;
        // A short window that is stretched for slow steps holds several of them, so half of it is proof enough. With all of
        // it, the verdict would follow a change in a loop of one-second steps only after twelve seconds.
        let sure = self.counters_moved && rival.confidence >= SURE_ENOUGH;
        let needed = match () {
            () if agreed || from_nothing => AGREED_S.value,
            () if sure => SURE_S.value.max(short_s * 0.5),
            () => ALONE_S.value.max(short_s * 0.5),
        };
        let stood = seconds_since(contradicted_ns) >= needed && seconds_since(since_ns) >= needed.min(AGREED_S.value);
        if stood && !self.load.holds(standing, rival, now_ns) {
            // The change began about half a short window before it was first seen.
            let began = contradicted_ns.saturating_sub((short_s * 0.5e9) as u64);
            self.take_over(rival.clone(), began, now_ns);
            return;
        }
        self.challenger = Some(Challenger { what: rival.what(), since_ns, contradicted_ns });
        // Until then the shown judgment stays, with up-to-date numbers while the long window agrees.
        if confirmed {
            self.standing = Some(judged);
        }
    }

    fn take_over(&mut self, judgment: Judgment, began_ns: u64, now_ns: u64) {
        // Another cause of the same class may be the same loss, better understood. A wait that now leads elsewhere is not.
        let waits = |one: &Judgment| one.cause.and_then(|cause| cause.spec().followed).map(|wait| wait.part);
        let other_regime =
            self.standing.as_ref().is_none_or(|old| old.class != judgment.class || waits(old) != waits(&judgment));
        if let Some(old) = self.standing.as_ref().filter(|old| Load::is_swap(old, &judgment)) {
            self.load.swap(old, now_ns);
        }
        self.standing = Some(judgment);
        self.challenger = None;
        if other_regime {
            self.regime_ns = self.regime_ns.max(began_ns);
        }
    }

    fn count(&mut self, frame: &Frame) {
        if let Some(rank) = frame.ranks.first() {
            let seconds = if frame.gap { 0.0 } else { frame.seconds };
            if let Some(steps) = rank.steps_in(seconds) {
                self.steps = Some(self.steps.unwrap_or(0.0) + steps);
            }
            if let Some(steps) = rank.steps {
                self.known.has_stepped |= steps > 0;
                self.count_time(frame, steps);
            }
            // Without workers a wait may be an import that reads from disk.
            self.known.has_stepped |= rank.wait_lengths_s.len() >= 2 && !frame.workers.is_empty();
        }
        self.count_validation(frame);
        self.known.restarts = self.restarts.count(frame, self.begun_ns == Some(frame.monotonic_ns));
        let attached = || frame.gpus.iter().filter(|gpu| gpu.attached);
        if frame.unwatched {
            attached().for_each(|gpu| self.gpu_alone.add(gpu.utilization_pct, frame.seconds));
        }
        let use_pct = attached().filter_map(|gpu| gpu.job_utilization_pct);
        let used = use_pct.fold(0.0, f64::max) / 100.0 >= DEVICE_UNUSED;
        self.gpu_used = self.gpu_used.saturating_add(u32::from(used));
        self.known.has_stepped |= f64::from(self.gpu_used) >= STEPPING;
    }

    /// The time in which stacks show nothing but a validation. Frames without stacks say nothing.
    fn count_validation(&mut self, frame: &Frame) {
        for stacks in frame.stacks.iter().filter(|stacks| stacks.role == ProcessRole::Rank) {
            let begins_ns = frame.monotonic_ns.saturating_sub((frame.seconds * 1e9) as u64);
            let since = stacks.only_validates().then(|| self.validates_ns.unwrap_or(begins_ns));
            self.validates_ns = since;
            self.known.validated_s = since.map_or(0.0, |since| frame.monotonic_ns.saturating_sub(since) as f64 / 1e9);
        }
    }

    /// The time since the last step, and the longest step.
    fn count_time(&mut self, frame: &Frame, steps: u64) {
        let since = self.stepped_ns.map(|before| frame.monotonic_ns.saturating_sub(before) as f64 / 1e9);
        self.known.since_step_s = since;
        if steps > 0 {
            self.known.longest_step_s = self.known.longest_step_s.max(since.unwrap_or(0.0));
            (self.known.since_step_s, self.stepped_ns) = (Some(0.0), Some(frame.monotonic_ns));
        }
    }

    /// Frames of the last `seconds`, of this regime, since the last gap.
    fn frames<'a>(
        &self,
        recent: impl DoubleEndedIterator<Item = &'a Frame>,
        last: &Frame,
        seconds: f64,
    ) -> Vec<&'a Frame> {
        let from_ns = last.monotonic_ns.saturating_sub((seconds * 1e9) as u64);
        let mut frames: Vec<&Frame> = Vec::new();
        let mut loops: BTreeMap<ProcessId, u32> = BTreeMap::new();
        let rank = |frame: &Frame| frame.ranks.first().map(|rank| rank.id);
        for frame in recent.rev() {
            // What was seen of another process that was mistaken for the loop's says nothing about it …
            let other = rank(last).is_some_and(|one| rank(frame).is_some_and(|before| before != one));
            if other && !frames.is_empty() {
                break;
            }
            // … and neither does what was seen of another thread than the loop's.
            let chains = frame.ranks.iter().filter_map(|rank| rank.chain.as_ref());
            let moved = chains.filter(|chain| *loops.entry(chain.process).or_insert(chain.tid) != chain.tid).count();
            if moved > 0 && !frames.is_empty() {
                break;
            }
            let begins_ns = frame.monotonic_ns.saturating_sub((frame.seconds * 1e9) as u64);
            let begins_ns = begins_ns.saturating_add(1_000_000);
            let outside = begins_ns < from_ns || begins_ns < self.regime_ns;
            if outside && !frames.is_empty() {
                break;
            }
            frames.push(frame);
            if frame.gap {
                break;
            }
        }
        frames.reverse();
        frames
    }
}
