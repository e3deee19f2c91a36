//! One attached job or one recording on the screen: its past, and the moment of it that is shown.
//!
//! Without a cursor, the newest moment is shown and the charts keep moving. With a cursor, the screen is paused at its
//! moment while data keeps coming in; in a replay, the cursor plays through the recording.

mod replay;

pub use replay::Replay;

use super::format;
use trainmon_attach::jobs::{JobKey, Target};
use trainmon_diagnosis::diagnosis::Verdict;
use trainmon_diagnosis::history::History;
use trainmon_diagnosis::history::archive::{Archive, Limits, Moment, MomentId};
use trainmon_diagnosis::history::interval::Interval;
use trainmon_diagnosis::history::recent_use::RecentUse;
use trainmon_diagnosis::history::step_series::StepSeries;
use trainmon_diagnosis::history::totals::Totals;
use trainmon_diagnosis::pipeline::{Tick, same_cause};
use trainmon_sample::Sources;
use trainmon_views::earlier_run::{Before, EarlierRun};
use trainmon_waits::Frame;

/// How long numbers stay unchanged at low bandwidth, nanoseconds.
const HOLD_NS: u64 = 5_000_000_000;

/// Seconds that the charts eventually show, if no scale is chosen.
const LONGEST_AUTO_S: f64 = 60.0;
/// Until then they grow in these steps: samples, or seconds if samples come more often. At most a fifth of a chart stays
/// empty, from ten steps on.
const AUTO_STEPS: [f64; 16] =
    [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 12.0, 15.0, 18.0, 22.0, 27.0, 33.0, 40.0, 50.0];

/// The selected moment.
#[derive(Debug, Clone)]
struct Cursor {
    /// A copy: the screen may be paused for longer than the archive keeps the moment.
    moment: Moment,
    /// Right edge of the charts, CLOCK_MONOTONIC nanoseconds.
    edge_ns: u64,
}

/// A job and its past.
#[derive(Debug, Clone, Default)]
pub struct Job {
    /// Identifies it.
    pub key: JobKey,
    /// The process.
    pub target: Target,
    /// Its owner.
    pub uid: Option<u32>,
    /// Seconds between two samples.
    pub interval_s: f64,
    /// Its past.
    pub history: History,
    /// How busy its processes were in the last minutes.
    pub recent: RecentUse,
    /// The steps of its training so far.
    pub steps: StepSeries,
    /// An earlier run to compare with.
    pub before: Option<Before>,
    /// The states of the sources.
    pub sources: Sources,
    /// How it ended: `process 1234 ended after 12 m`.
    pub ended: Option<String>,
    /// Whether it is a recording.
    pub replay: Option<Replay>,
    cursor: Option<Cursor>,
    /// Seconds that the charts show, if they do not depend on how much has been recorded.
    scale_s: Option<f64>,
    /// Few bytes: numbers change only every few seconds.
    low_bandwidth: bool,
    /// Sample and hold, at low bandwidth: the moment whose words and numbers stay for a few seconds.
    held: Option<Moment>,
    /// Whether its end has been announced.
    pub(crate) announced: bool,
}

impl Job {
    /// A job without data yet.
    pub fn new(key: JobKey, target: Target, interval_s: f64, limits: Limits) -> Self {
        Self { key, target, interval_s, history: History::new(limits), ..Self::default() }
    }

    /// Shows every frame, or holds numbers for a few seconds.
    pub fn set_low_bandwidth(&mut self, on: bool) {
        self.low_bandwidth = on;
        self.held = None;
        self.hold();
    }

    /// Holds the words and numbers of the current moment from now on.
    fn hold(&mut self) {
        if self.low_bandwidth {
            let played = if self.replay.is_some() { self.cursor() } else { None };
            self.held = played.or(self.archive().latest()).cloned();
        }
    }

    /// Whether the held moment is too old.
    fn held_too_long(&self, now_ns: u64) -> bool {
        // In the viewer's time: a recording may play faster than it was made.
        let speed = self.replay.map_or(1.0, |replay| replay.speed());
        let hold_ns = ((HOLD_NS as f64 * speed) as u64).max(1);
        self.held.as_ref().is_none_or(|held| held.frame.monotonic_ns / hold_ns != now_ns / hold_ns)
    }

    /// The moments so far.
    pub fn archive(&self) -> &Archive {
        &self.history.archive
    }

    /// The moment whose words and numbers are on the screen.
    pub fn shown(&self) -> Option<&Moment> {
        let held = if !self.is_paused() { self.held.as_ref() } else { None };
        held.or(self.cursor()).or(self.archive().latest())
    }

    /// The frame on the screen.
    pub fn frame(&self) -> Option<&Frame> {
        self.shown().map(|moment| &*moment.frame)
    }

    /// The verdict on the screen.
    pub fn verdict(&self) -> Option<&Verdict> {
        self.shown().map(|moment| &*moment.verdict)
    }

    /// Whether it is a trace of a profiler: one verdict, and no samples.
    pub fn is_trace(&self) -> bool {
        let profile = self.verdict().and_then(|verdict| verdict.profile.as_deref());
        let seen = self.frame().is_some_and(|frame| frame.monotonic_ns > 0);
        self.replay.is_some() && !seen && profile.is_some()
    }

    /// The newest verdict, wherever the cursor is.
    pub fn latest_verdict(&self) -> Option<&Verdict> {
        self.archive().latest().map(|moment| &*moment.verdict)
    }

    /// Totals of the run, from the first moment recorded to the newest; `None` before the first.
    pub fn summary(&self) -> Option<&Totals> {
        Some(&self.history.totals).filter(|totals| totals.watched_s > 0.0)
    }

    /// Whether the newest moment is shown as it arrives, not a past moment and not a recording.
    pub fn is_live(&self) -> bool {
        self.cursor.is_none()
    }

    /// Whether the screen stays at one moment; otherwise it moves on with a live job or a playing recording.
    pub fn is_paused(&self) -> bool {
        self.cursor.is_some() && !self.replay.is_some_and(|replay| replay.playing)
    }

    /// The selected moment, unless it is the newest of a live job.
    pub fn cursor(&self) -> Option<&Moment> {
        self.cursor.as_ref().map(|cursor| &cursor.moment)
    }

    /// CLOCK_MONOTONIC nanoseconds of the moment shown; at low bandwidth its numbers may be a few seconds older.
    pub fn moment_ns(&self) -> u64 {
        self.cursor().or(self.shown()).map_or(0, |moment| moment.frame.monotonic_ns)
    }

    /// The right edge of the charts.
    pub fn edge_ns(&self) -> u64 {
        let newest = || self.history.timeline.latest().map_or(0, |point| point.end_ns);
        self.cursor.as_ref().map_or_else(newest, |cursor| cursor.edge_ns)
    }

    /// Seconds that the charts show. Without a chosen scale, that is all data up to their right edge, at most a minute,
    /// so that the charts are full from the first second on. At low bandwidth the scale does not change.
    pub fn span_s(&self) -> f64 {
        if let Some(scale_s) = self.scale_s {
            return scale_s;
        }
        let first_ns = if !self.low_bandwidth { self.history.timeline.first_ns() } else { None };
        let seen_s = first_ns.map_or(LONGEST_AUTO_S, |first| self.edge_ns().saturating_sub(first) as f64 / 1e9);
        // Charts that are rescaled with every sample cost bytes and cannot be read.
        let steps = AUTO_STEPS.map(|step| step * self.interval_s.max(1.0));
        let grown = steps.into_iter().find(|step_s| *step_s >= seen_s).unwrap_or(LONGEST_AUTO_S);
        grown.min(LONGEST_AUTO_S)
    }

    /// For how long class and cause had been the same at the moment shown, seconds.
    pub fn verdict_age_s(&self) -> Option<f64> {
        let shown = self.shown()?;
        Some(shown.frame.monotonic_ns.saturating_sub(shown.since_ns) as f64 / 1e9)
    }

    /// Takes in the newest tick.
    pub fn take(&mut self, tick: &Tick) {
        let before = self.latest_verdict();
        let same = before.is_some_and(|before| same_cause(before, &tick.verdict));
        // After an exec it is another program.
        if before.is_some_and(|before| before.command != tick.verdict.command) {
            self.target.command.clone_from(&tick.verdict.command);
        }
        self.history.push(tick);
        self.recent.take(&tick.frame);
        let process = tick.frame.processes.iter().find(|process| process.id.pid == self.target.pid);
        self.uid = process.and_then(|process| process.uid).or(self.uid);
        self.count_steps(tick);
        self.sources = tick.sample.sources.clone();
        if self.replay.is_some() {
            if self.cursor.is_none() {
                self.go_to(self.archive().first().map(|stamp| stamp.id), None);
            }
            return;
        }
        // A new verdict is worth its bytes at once, and so is a profile.
        if !same || tick.sample.account.is_some() || self.held_too_long(tick.frame.monotonic_ns) {
            self.hold();
        }
        if !tick.alive {
            let after = tick.frame.job.age_s.map(|age| format!(" after {}", format::duration(age)));
            self.ended = Some(format!("process {} ended{}", self.target.pid, after.unwrap_or_default()));
        }
    }

    /// Adds the steps of an interval of training, and compares them with those of an earlier run.
    fn count_steps(&mut self, tick: &Tick) {
        if let Some((seconds, steps)) = Interval::new(&tick.frame, &tick.verdict, tick.shares).trained() {
            self.steps.add(seconds, steps);
        }
        if let Some(before) = &mut self.before {
            before.compare(&self.steps, tick.verdict.steps.unit);
        }
    }

    /// What a later run of the same program is compared with, if steps were counted.
    pub fn as_earlier(&self) -> Option<EarlierRun> {
        let unit = self.latest_verdict()?.steps.unit;
        self.steps.mean_s().map(|_| EarlierRun { steps: self.steps.clone(), unit })
    }

    /// Pauses, or resumes: at the newest moment, or in a recording from its position.
    pub fn pause(&mut self) {
        if let Some(mut replay) = self.replay {
            replay.playing = !replay.playing;
            replay.waited_s = 0.0;
            self.replay = Some(replay);
            let at_end = self.here() == self.archive().last().map(|last| last.id);
            if replay.playing && replay.loaded && at_end {
                self.go_to(self.archive().first().map(|stamp| stamp.id), None);
            }
        } else if self.cursor.is_some() {
            self.cursor = None;
        } else {
            self.go_to(self.archive().last().map(|stamp| stamp.id), None);
        }
    }

    /// Moves by so many moments; past the newest one, a live job resumes.
    pub fn step(&mut self, by: i64) {
        let Some(here) = self.here() else { return };
        // A person stepping through single moments wants them to stay.
        if let Some(replay) = &mut self.replay {
            replay.playing = false;
        }
        self.travel(self.archive().step(here, by));
    }

    /// Moves by a time span, seconds.
    pub fn move_by(&mut self, seconds: f64) {
        let Some(here) = self.here() else { return };
        let from = if self.is_live() { self.edge_ns() } else { self.moment_ns() };
        let to = from as f64 + seconds * 1e9;
        let to = self.archive().near(here, to.clamp(0.0, 1.8e19) as u64);
        // Over a long gap, at the end of a series, or with a long interval, a small move is at least one step.
        let to = if to == Some(here) { self.archive().step(here, seconds.signum() as i64) } else { to };
        self.travel(to);
    }

    /// Moves to the next or previous moment at which the verdict changed.
    pub fn next_change(&mut self, forward: bool) -> bool {
        let to = self.here().and_then(|here| self.archive().change(here, forward));
        self.travel(to);
        to.is_some()
    }

    /// Moves to the moment at this time.
    pub fn seek(&mut self, monotonic_ns: u64) {
        self.travel(self.archive().at(monotonic_ns));
    }

    /// Moves to the oldest sample kept.
    pub fn first(&mut self) {
        self.travel(self.archive().first().map(|stamp| stamp.id));
    }

    /// Moves to the newest moment; a live job resumes there.
    pub fn last(&mut self) {
        if self.replay.is_some() {
            self.travel(self.archive().last().map(|stamp| stamp.id));
        } else {
            self.cursor = None;
        }
    }

    /// Makes the charts show so many seconds, or all that is recorded; the cursor stays visible.
    pub fn set_scale(&mut self, scale_s: Option<f64>) {
        self.scale_s = scale_s;
        if let Some(id) = self.cursor().map(|moment| moment.id) {
            self.show(id);
        }
    }

    fn here(&self) -> Option<MomentId> {
        self.cursor().map(|moment| moment.id).or(self.archive().last().map(|stamp| stamp.id))
    }

    /// After a person has moved: a replay pauses, and a live job resumes once it reaches the newest moment.
    fn travel(&mut self, to: Option<MomentId>) {
        let Some(to) = to else { return };
        if let Some(replay) = &mut self.replay {
            replay.waited_s = 0.0;
        } else if self.cursor.is_some() && self.archive().last().is_some_and(|last| last.id == to) {
            self.cursor = None;
            return;
        }
        self.show(to);
    }

    /// Puts the cursor on a moment, and moves the charts only as far as needed to keep it visible.
    fn show(&mut self, to: MomentId) {
        let Some(at) = self.archive().stamp(to).map(|stamp| stamp.monotonic_ns) else { return };
        let span_ns = (self.span_s().max(1.0) * 1e9) as u64;
        let newest = self.archive().last().map_or(at, |last| last.monotonic_ns);
        let mut edge = self.edge_ns().max(at).min(newest.max(at));
        // A cursor at the very left would have nothing before it: keep a tenth.
        let from = at.saturating_sub(span_ns / 10);
        if edge.saturating_sub(span_ns) > from {
            edge = from.saturating_add(span_ns);
        }
        self.go_to(Some(to), Some(edge));
    }

    /// Shows a moment; without an edge, at the right end of the charts.
    fn go_to(&mut self, id: Option<MomentId>, edge_ns: Option<u64>) {
        let Some(moment) = id.and_then(|id| self.archive().load(id)) else { return };
        let now_ns = moment.frame.monotonic_ns;
        let same = self.held.as_ref().is_some_and(|held| same_cause(&held.verdict, &moment.verdict));
        self.cursor = Some(Cursor { moment, edge_ns: edge_ns.unwrap_or(now_ns) });
        // At low bandwidth, a paused live job shows its own moment; only moving numbers are held.
        if self.replay.is_some_and(|replay| !replay.playing || !same || self.held_too_long(now_ns)) {
            self.hold();
        }
    }
}
