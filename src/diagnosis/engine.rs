//! Which judgement stands: a verdict must not flicker, and must follow a real change within ten seconds.
//!
//! Two windows are judged at every frame: a long one, whose numbers are shown, and a short one, which notices a
//! change. A new class or cause takes over when it has been seen for long enough without a break; from then on the
//! long window begins where the change did, so that the two regimes are not mixed.

use crate::rates::Frame;
use crate::rates::frame::{TrainerRates, WorkerRates};
use crate::sample::Sample;

use super::explain;
use super::ranks;
use super::rules::{self, Judgement, Known};
use super::stacks::StacksWindow;
use super::stats;
use super::thresholds as limit;
use super::verdict::{Class, Verdict};
use super::window::Window;

/// Length of the long window, seconds.
const LONG_S: f64 = 12.0;
/// Length of the short window, seconds.
const SHORT_S: f64 = 4.0;
/// Windows grow to this many steps' length, so that a stall every N-th step lies in every window…
const STEPS: f64 = 6.0;
/// … and at most to this, seconds.
const LONGEST_S: f64 = 60.0;
/// Stacks reach back this far, seconds: they are taken seldom while nothing changes.
const STACKS_S: f64 = 60.0;
/// Those of the short window; where there are none so new, the newest of each process.
const SHORT_STACKS_S: f64 = 6.0;
/// Frames that ended longer ago than this are not looked at, seconds: the longest of these.
pub const LOOK_BACK_S: f64 = 60.0;
/// Cheap signals that differ by this much, as a share, have moved.
const MOVED: f64 = 0.2;
/// A challenger that the long window agrees with takes over after this time, seconds.
const AGREED_S: f64 = 1.5;
/// One that only the short window sees takes over after this time, seconds, or half the short window where that is longer.
const ALONE_S: f64 = 4.0;

/// What the verdict says about the session.
#[derive(Debug, Clone, Default)]
pub struct Context {
    /// The attached PID.
    pub pid: u32,
    /// Its command line, ready to show.
    pub command: String,
    /// When watching began, RFC 3339.
    pub started: String,
}

/// Judges frame after frame.
#[derive(Debug, Clone, Default)]
pub struct Diagnosis {
    context: Context,
    standing: Option<Judgement>,
    challenger: Option<Challenger>,
    /// Frames before this are not looked at: another regime. CLOCK_MONOTONIC, nanoseconds.
    regime_ns: u64,
    begun_ns: Option<u64>,
    known: Known,
    steps: Option<u64>,
    /// When the last set of workers was started, CLOCK_MONOTONIC nanoseconds.
    set_started_ns: Option<u64>,
    first_verdict_s: Option<f64>,
    last_sequence: Option<u64>,
}

#[derive(Debug, Clone)]
struct Challenger {
    class: Class,
    cause: Option<&'static str>,
    since_ns: u64,
}

/// The stacks of the short window. Older ones still speak for it while the cheap signals have not moved since.
fn newest_stacks(all: &[&Frame], short: &[&Frame], last: &Frame) -> StacksWindow {
    let before = all.get(..all.len().saturating_sub(short.len())).unwrap_or_default();
    // What they said when the last of the older stacks were taken.
    let taken = before.iter().rposition(|frame| !frame.stacks.is_empty());
    let around = taken.and_then(|at| before.get((at + 1).saturating_sub(short.len())..=at)).unwrap_or_default();
    if let (Some(then), Some(now)) = (Mix::of(around), Mix::of(short))
        && then.distance(&now) > MOVED
    {
        return StacksWindow::of(short.iter().copied());
    }
    StacksWindow::newest(all, last.monotonic_ns.saturating_sub((SHORT_STACKS_S * 1e9) as u64))
}

/// What the cheap signals say of some frames: shares of the main thread, of the workers, and the device's use.
#[derive(Debug)]
struct Mix([f64; 9]);

impl Mix {
    fn of(frames: &[&Frame]) -> Option<Self> {
        let mut sums = [0.0; 9];
        let mut seen = 0.0;
        for frame in frames.iter().filter(|frame| frame.seconds > 0.0) {
            let mean = |values: &mut dyn Iterator<Item = f64>| stats::mean(values).unwrap_or(0.0);
            let main = |part: fn(&TrainerRates) -> f64| {
                mean(&mut frame.trainers.iter().map(|trainer| part(trainer) / trainer.seconds_seen.max(1e-9)))
            };
            let worker = |part: fn(&WorkerRates) -> Option<f64>| mean(&mut frame.workers.iter().filter_map(part));
            let device = frame.gpus.iter().filter(|gpu| gpu.attached).filter_map(|gpu| gpu.job_utilization_pct);
            let now = [
                main(|trainer| trainer.split_s.input_wait),
                main(|trainer| trainer.split_s.device_sync),
                main(|trainer| trainer.split_s.host_busy),
                main(|trainer| trainer.split_s.checkpoint),
                main(|trainer| trainer.split_s.other),
                worker(|worker| worker.busy),
                worker(|worker| worker.io_wait),
                worker(|worker| worker.runnable),
                stats::mean(device).unwrap_or(0.0) / 100.0,
            ];
            for (sum, value) in sums.iter_mut().zip(now) {
                *sum += value * frame.seconds;
            }
            seen += frame.seconds;
        }
        (seen >= SHORT_S * 0.5).then(|| Self(sums.map(|sum| sum / seen)))
    }

    /// Largest difference of any share.
    fn distance(&self, other: &Self) -> f64 {
        self.0.iter().zip(other.0).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max)
    }
}

/// What ends or stops the job needs no second look.
fn is_certain(judged: &Judgement) -> bool {
    judged.class == Class::Idle && judged.confidence > 0.95
}

impl Diagnosis {
    /// A diagnosis that has seen nothing yet.
    #[must_use]
    pub fn new(context: Context) -> Self {
        Self { context, ..Self::default() }
    }

    /// Judges the recent frames, oldest first, of which the newest comes from `sample`. Call it once for each frame.
    pub fn observe<'a>(
        &mut self,
        recent: impl DoubleEndedIterator<Item = &'a Frame> + Clone,
        sample: &Sample,
    ) -> Verdict {
        let Some(last) = recent.clone().next_back() else {
            return explain::verdict(&self.context, &Judgement::default(), &Window::default(), sample);
        };
        let begun = *self.begun_ns.get_or_insert(last.monotonic_ns);
        let observed_s = last.monotonic_ns.saturating_sub(begun) as f64 / 1e9;
        if self.last_sequence != Some(last.sequence) {
            self.last_sequence = Some(last.sequence);
            self.count(last);
        }
        let long_frames = self.frames(recent.clone(), last, LONG_S);
        let stack_frames = self.frames(recent.clone(), last, STACKS_S);
        let stacks = StacksWindow::of(stack_frames.iter().copied());
        let ranks = ranks::ranks(&long_frames, &stacks);
        let only = ranks::straggler(&ranks);
        let long = Window::of(&long_frames, &stacks, only);
        // Steps longer than the windows need longer windows.
        let stretch = long.steps.quantile_ms(0.95).map_or(0.0, |ms| ms / 1000.0 * STEPS);
        let (long, short_s) = if stretch > SHORT_S {
            let frames = self.frames(recent.clone(), last, stretch.clamp(LONG_S, LONGEST_S));
            (Window::of(&frames, &stacks, only), stretch.min(LONGEST_S / 3.0))
        } else {
            (long, SHORT_S)
        };
        let judged = rules::judge(&long, self.known);
        let short = self.needs_short(&judged).then(|| {
            let frames = self.frames(recent.clone(), last, short_s);
            let newest = newest_stacks(&stack_frames, &frames, last);
            Window::of(&frames, &newest, only)
        });
        self.decide(last, &long, judged, short.as_ref(), short_s);
        let standing = self.standing.clone().unwrap_or_default();
        if self.first_verdict_s.is_none() && standing.class != Class::Unknown {
            self.first_verdict_s = Some(observed_s);
        }
        let mut verdict = explain::verdict(&self.context, &standing, &long, sample);
        verdict.ranks = ranks.into_iter().map(|(_, rank)| rank).collect();
        verdict.observed_s = observed_s;
        verdict.first_verdict_s = self.first_verdict_s;
        verdict.steps.count = self.steps;
        verdict.own.cpu_pct = stats::mean(long_frames.iter().filter_map(|frame| frame.own_cpu_pct))
            .map(|pct| (pct * 100.0).round() / 100.0);
        verdict
    }

    /// Whether the short window is wanted: not before the first verdict, and not for what needs no second look.
    fn needs_short(&self, judged: &Judgement) -> bool {
        self.standing.is_some() && !is_certain(judged)
    }

    fn decide(&mut self, last: &Frame, long: &Window, judged: Judgement, short: Option<&Window>, short_s: f64) {
        let certain = is_certain(&judged);
        let Some(standing) = &self.standing else {
            if certain || long.seconds >= limit::FIRST_SECONDS.value {
                self.standing = Some(judged);
            }
            return;
        };
        let same = |judgement: &Judgement| judgement.class == standing.class && judgement.cause == standing.cause;
        // Another cause of the same class, or the first word after an unknown, needs no long proof.
        let from_nothing = standing.class == Class::Unknown;
        if certain {
            self.take_over(judged, last.monotonic_ns);
            return;
        }
        let Some(short) = short.map(|window| rules::judge(window, self.known)) else { return };
        let agreed = !same(&judged) && judged.class == short.class;
        let rival = if same(&short) || short.class == Class::Unknown && judged.class != Class::Unknown {
            if same(&judged) {
                self.challenger = None;
                self.standing = Some(judged);
                return;
            }
            &judged
        } else {
            &short
        };
        let kept = self.challenger.take().filter(|old| old.class == rival.class && old.cause == rival.cause);
        let challenger =
            kept.unwrap_or(Challenger { class: rival.class, cause: rival.cause, since_ns: last.monotonic_ns });
        let held_s = last.monotonic_ns.saturating_sub(challenger.since_ns) as f64 / 1e9;
        // A short window stretched for slow steps holds several of them, so half of it again is proof enough: with the
        // whole of it the verdict would follow a change in a loop of one-second steps only after twelve seconds.
        let needed = if agreed || from_nothing { AGREED_S } else { ALONE_S.max(short_s * 0.5) };
        if held_s >= needed {
            // The change began about half a short window before it was first seen.
            let began = challenger.since_ns.saturating_sub((short_s * 0.5e9) as u64);
            let rival = rival.clone();
            self.take_over(rival, began);
            return;
        }
        // Until then the standing judgement stays, with its numbers kept up to date where the long window still agrees.
        if same(&judged) {
            self.standing = Some(judged);
        }
        self.challenger = Some(challenger);
    }

    fn take_over(&mut self, judgement: Judgement, began_ns: u64) {
        let other_class = self.standing.as_ref().is_none_or(|old| old.class != judgement.class);
        self.standing = Some(judgement);
        self.challenger = None;
        if other_class {
            self.regime_ns = self.regime_ns.max(began_ns);
        }
    }

    fn count(&mut self, frame: &Frame) {
        if let Some(trainer) = frame.trainers.first() {
            if let Some(steps) = trainer.steps {
                self.steps = Some(self.steps.unwrap_or(0).saturating_add(steps));
                self.known.has_stepped |= steps > 0;
            }
            // Without workers a wait may be an import that reads from disk.
            self.known.has_stepped |= trainer.wait_lengths_s.len() >= 2 && !frame.workers.is_empty();
        }
        self.count_restarts(frame);
        self.known.has_stepped |=
            frame.gpus.iter().any(|gpu| gpu.attached && gpu.job_utilization_pct.is_some_and(|pct| pct > 5.0));
    }

    /// Workers that are new in the same second or two belong to one set. A set that follows another one soon, and is
    /// itself not old yet, makes a restart.
    fn count_restarts(&mut self, frame: &Frame) {
        let within =
            |earlier_ns: u64, seconds: f64| frame.monotonic_ns.saturating_sub(earlier_ns) as f64 / 1e9 < seconds;
        let new = frame.workers.iter().any(|worker| worker.new) && self.begun_ns != Some(frame.monotonic_ns);
        match self.set_started_ns {
            Some(before) if new && !within(before, 2.0) => {
                self.known.restarts = within(before, limit::RESTART.value);
                self.set_started_ns = Some(frame.monotonic_ns);
            }
            None if new => self.set_started_ns = Some(frame.monotonic_ns),
            Some(before) if !within(before, limit::RESTART.value) => self.known.restarts = false,
            _ => {}
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
        for frame in recent.rev() {
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
