//! One attached job, or one recording, as the screen knows it: its past, and which moment of it is looked at.
//!
//! Without a cursor the newest moment is shown and the charts run on. With one the picture stands at its moment, while
//! data keeps coming behind it; in a replay the cursor plays through the recording.

use std::sync::Arc;

use super::labels;
use super::message::{JobKey, Target};
use super::summary::{Summary, Tally};
use super::timeline::{self, Timeline, Window};
use crate::diagnosis::verdict::Verdict;
use crate::history::archive::{Archive, Limits, Moment, MomentId, Stamp};
use crate::history::{History, Mark};
use crate::rates::Frame;
use crate::sample::Sources;

/// Speeds of a replay.
pub const SPEEDS: [f64; 7] = [0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 100.0];
/// Longest wait for the next moment of a replay, seconds: a night's gap is not sat through.
const WAIT_MAX_S: f64 = 3.0;
/// Shortest, seconds: 30 pictures a second.
const WAIT_MIN_S: f64 = 0.033;
/// The same on a thin line: no more pictures than a live job gives there.
const WAIT_THIN_S: f64 = 1.0;

/// The moment looked at.
#[derive(Debug, Clone)]
struct Cursor {
    /// Kept here: a picture may stand for longer than the archive keeps its moment.
    stamp: Stamp,
    moment: Box<Moment>,
    /// Right edge of the charts, CLOCK_MONOTONIC nanoseconds.
    edge_ns: u64,
}

/// What words and numbers show on a thin line while the picture moves: one moment for a few seconds.
#[derive(Debug, Clone)]
struct Held {
    frame: Frame,
    verdict: Option<Arc<Verdict>>,
    since_ns: Option<u64>,
}

/// How long numbers stand on a thin line, nanoseconds.
const HOLD_NS: u64 = 5_000_000_000;

/// How a recording is played.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Replay {
    /// It runs.
    pub playing: bool,
    /// Place in [`SPEEDS`].
    speed: usize,
    /// Seconds since the moment shown was reached.
    waited_s: f64,
    /// All of the recording has been read.
    pub loaded: bool,
}

impl Replay {
    /// Seconds of the recording in a second.
    #[must_use]
    pub fn speed(&self) -> f64 {
        SPEEDS.get(self.speed).copied().unwrap_or(1.0)
    }
}

/// A job and its past.
#[derive(Debug, Clone)]
pub struct Job {
    /// Names it.
    pub key: JobKey,
    /// The process.
    pub target: Target,
    /// Seconds between two samples.
    pub interval_s: f64,
    /// What the charts draw.
    pub timeline: Timeline,
    /// How the sources stand.
    pub sources: Sources,
    /// How it has ended.
    pub ended: Option<String>,
    /// It is a recording.
    pub replay: Option<Replay>,
    history: History,
    archive: Archive,
    verdict: Option<Arc<Verdict>>,
    since_ns: Option<u64>,
    cursor: Option<Cursor>,
    /// Few bytes: numbers change every few seconds only.
    thin: bool,
    held: Option<Box<Held>>,
    tally: Tally,
    /// That it has ended has been said.
    pub(in crate::tui) announced: bool,
}

impl Job {
    /// A job of which nothing has been seen yet.
    #[must_use]
    pub fn new(key: JobKey, target: Target, interval_s: f64, limits: Limits) -> Self {
        Self {
            key,
            target,
            interval_s,
            timeline: Timeline::new(limits),
            sources: Sources::default(),
            ended: None,
            replay: None,
            history: History::default(),
            archive: Archive::new(limits),
            verdict: None,
            since_ns: None,
            cursor: None,
            thin: false,
            held: None,
            tally: Tally::default(),
            announced: false,
        }
    }

    /// Shows every frame, or lets numbers stand for a few seconds.
    pub fn set_thin(&mut self, thin: bool) {
        self.thin = thin;
        self.held = None;
        self.hold();
    }

    /// Lets the newest moment stand from now on.
    fn hold(&mut self) {
        if !self.thin {
            return;
        }
        let held = match (&self.cursor, &self.replay) {
            (Some(Cursor { moment, .. }), Some(_)) => {
                Held { frame: moment.frame.clone(), verdict: moment.verdict.clone(), since_ns: moment.since_ns }
            }
            _ => {
                let Some(frame) = self.history.latest() else { return };
                Held { frame: frame.clone(), verdict: self.verdict.clone(), since_ns: self.since_ns }
            }
        };
        self.held = Some(Box::new(held));
    }

    /// Whether what is held is older than it may be.
    fn held_too_long(&self, now_ns: u64) -> bool {
        // Of the viewer's time: a recording may play faster than it was made.
        let speed = self.replay.map_or(1.0, |replay| replay.speed());
        let hold_ns = ((HOLD_NS as f64 * speed) as u64).max(1);
        self.held.as_ref().is_none_or(|held| held.frame.monotonic_ns / hold_ns != now_ns / hold_ns)
    }

    /// What is held, while the picture moves by itself.
    fn held(&self) -> Option<&Held> {
        self.held.as_deref().filter(|_| self.runs())
    }

    /// A recording: it is played from its first moment on.
    #[must_use]
    pub fn recording(mut self) -> Self {
        self.replay = Some(Replay { playing: true, speed: 1, waited_s: 0.0, loaded: false });
        self
    }

    /// The frames and marks so far, for the diagnosis.
    #[must_use]
    pub fn history(&self) -> &History {
        &self.history
    }

    /// The moments so far.
    #[must_use]
    pub fn archive(&self) -> &Archive {
        &self.archive
    }

    /// The frame on the screen.
    #[must_use]
    pub fn frame(&self) -> Option<&Frame> {
        match (self.held(), &self.cursor) {
            (Some(held), _) => Some(&held.frame),
            (None, Some(cursor)) => Some(&cursor.moment.frame),
            (None, None) => self.history.latest(),
        }
    }

    /// The verdict on the screen.
    #[must_use]
    pub fn verdict(&self) -> Option<&Arc<Verdict>> {
        match (self.held(), &self.cursor) {
            (Some(held), _) => held.verdict.as_ref(),
            (None, Some(cursor)) => cursor.moment.verdict.as_ref(),
            (None, None) => self.verdict.as_ref(),
        }
    }

    /// The newest verdict, wherever the cursor stands.
    #[must_use]
    pub fn latest_verdict(&self) -> Option<&Arc<Verdict>> {
        self.verdict.as_ref()
    }

    /// What the run was like, from the first moment watched to the newest; none before.
    #[must_use]
    pub fn summary(&self) -> Option<Summary> {
        self.tally.summary(self.archive.last())
    }

    /// Whether the picture stands at a moment of the past.
    #[must_use]
    pub fn stands(&self) -> bool {
        self.cursor.is_some()
    }

    /// Whether the picture moves by itself: it shows the newest moment, or a recording plays.
    #[must_use]
    pub fn runs(&self) -> bool {
        self.cursor.is_none() || self.replay.is_some_and(|replay| replay.playing)
    }

    /// The moment that is looked at, where the picture stands.
    #[must_use]
    pub fn cursor(&self) -> Option<&Stamp> {
        self.cursor.as_ref().map(|cursor| &cursor.stamp)
    }

    /// CLOCK_MONOTONIC nanoseconds of the moment shown; on a thin line its numbers may be a few seconds older.
    #[must_use]
    pub fn moment_ns(&self) -> u64 {
        let frame = self.cursor.as_ref().map(|cursor| &cursor.moment.frame).or_else(|| self.frame());
        frame.map_or(0, |frame| frame.monotonic_ns)
    }

    /// The right edge of the charts.
    #[must_use]
    pub fn edge_ns(&self) -> u64 {
        match &self.cursor {
            Some(cursor) => cursor.edge_ns,
            None => self.timeline.latest().map_or(0, |point| point.end_ns),
        }
    }

    /// Seconds that charts show which begin short and grow with what has been seen by their right edge: their first minute
    /// is not mostly empty then. Fewer than ten samples are no chart.
    #[must_use]
    pub fn seen_span_s(&self) -> f64 {
        let edge_ns = self.edge_ns();
        let holds_all = |s: f64| {
            let column_ns = (s * 1e9) as u64;
            let window = Window { edge_ns, end_ns: edge_ns, column_ns, columns: 1, sweep: false };
            !self.timeline.began_before(window)
        };
        [15.0, 30.0].into_iter().find(|s| *s >= 10.0 * self.interval_s && holds_all(*s)).unwrap_or(60.0)
    }

    /// Seconds for which the verdict on the screen has stood by then.
    #[must_use]
    pub fn verdict_age_s(&self) -> Option<f64> {
        let since = match (self.held(), &self.cursor) {
            (Some(held), _) => held.since_ns,
            (None, Some(cursor)) => cursor.moment.since_ns,
            (None, None) => self.since_ns,
        }?;
        Some(self.frame()?.monotonic_ns.saturating_sub(since) as f64 / 1e9)
    }

    /// Takes in a new interval.
    pub fn take_frame(&mut self, frame: Frame) {
        self.timeline.push(&frame);
        // The verdict of the moment before is final now.
        if let Some(last) = self.archive.last() {
            self.tally.add(last);
        }
        if let Some(shares) = timeline::parts(&frame).filter(|_| !frame.gap) {
            self.tally.add_parts(shares, frame.seconds);
        }
        self.archive.push(&frame);
        let now_ns = frame.monotonic_ns;
        self.history.push(frame);
        if self.replay.is_none() {
            if self.held_too_long(now_ns) {
                self.hold();
            }
        } else if self.cursor.is_none() {
            self.go_to(self.archive.first().map(|stamp| stamp.id), None);
        }
    }

    /// Takes in the verdict that stands at the newest frame.
    pub fn take_verdict(&mut self, verdict: Arc<Verdict>) {
        let Some(latest) = self.history.latest() else { return };
        let same = self.verdict.as_ref().is_some_and(|v| v.class == verdict.class && v.cause == verdict.cause);
        if !same || self.since_ns.is_none() {
            self.since_ns = Some(latest.monotonic_ns);
        }
        self.timeline.mark(verdict.class);
        let sequence = latest.sequence;
        let mark = Mark {
            sequence,
            class: verdict.class,
            cause: verdict.cause.as_deref().and_then(labels::known_cause),
            phase: verdict.phase,
            confidence: verdict.confidence,
        };
        self.history.mark(mark);
        self.archive.judge(&verdict, self.since_ns);
        // What was seen first of the newest moment gets its verdict; another verdict is worth its bytes at once.
        let hold = !same || self.held.as_ref().is_some_and(|held| held.frame.sequence == sequence);
        self.tally.note(&verdict);
        self.verdict = Some(verdict);
        if hold && self.replay.is_none() {
            self.hold();
        }
        // The first moment of a recording is on the screen before it is judged.
        if let Some(cursor) = &self.cursor
            && self.archive.last().is_some_and(|last| last.id == cursor.stamp.id)
        {
            let (id, edge) = (cursor.stamp.id, cursor.edge_ns);
            self.go_to(Some(id), Some(edge));
        }
    }

    /// Stops the picture, or lets it run on: at the newest moment, or through a recording from where it stands.
    pub fn pause(&mut self) {
        if let Some(replay) = &mut self.replay {
            replay.playing = !replay.playing;
            replay.waited_s = 0.0;
            let at_end = self.cursor.as_ref().map(|c| c.stamp.id) == self.archive.last().map(|s| s.id);
            if replay.playing && replay.loaded && at_end {
                self.go_to(self.archive.first().map(|stamp| stamp.id), None);
            }
        } else if self.cursor.is_some() {
            self.cursor = None;
        } else {
            self.go_to(self.archive.last().map(|stamp| stamp.id), None);
        }
    }

    /// Moves by so many moments; past the newest one a live picture runs on.
    pub fn step(&mut self, by: i64, span_s: f64) {
        let Some(here) = self.here() else { return };
        // Who looks at single moments wants them to stand.
        if let Some(replay) = &mut self.replay {
            replay.playing = false;
        }
        self.travel(self.archive.step(here, by), span_s);
    }

    /// Moves by a stretch of time, seconds.
    pub fn move_by(&mut self, seconds: f64, span_s: f64) {
        let Some(here) = self.here() else { return };
        let from = if self.stands() { self.moment_ns() } else { self.edge_ns() };
        let to = from as f64 + seconds * 1e9;
        let to = self.archive.near(here, to.clamp(0.0, 1.8e19) as u64);
        // Over a long gap, at the end of a series, or with a long interval, a small move is at least a step.
        let to = if to == Some(here) { self.archive.step(here, seconds.signum() as i64) } else { to };
        self.travel(to, span_s);
    }

    /// Moves to the next moment at which the verdict changed, or the one before.
    pub fn next_change(&mut self, forward: bool, span_s: f64) -> bool {
        let to = self.here().and_then(|here| self.archive.change(here, forward));
        self.travel(to, span_s);
        to.is_some()
    }

    /// Moves to the moment at this time.
    pub fn seek(&mut self, monotonic_ns: u64, span_s: f64) {
        self.travel(self.archive.at(monotonic_ns), span_s);
    }

    /// Moves to the oldest moment kept.
    pub fn first(&mut self, span_s: f64) {
        self.travel(self.archive.first().map(|stamp| stamp.id), span_s);
    }

    /// Moves to the newest moment; a live picture runs on from there.
    pub fn last(&mut self, span_s: f64) {
        if self.replay.is_some() {
            self.travel(self.archive.last().map(|stamp| stamp.id), span_s);
        } else {
            self.cursor = None;
        }
    }

    /// All of the recording has been read: where it has been played to its end already, it stands.
    pub fn loaded(&mut self) {
        let last = self.archive.last().map(|last| last.id);
        if let Some(replay) = &mut self.replay {
            replay.loaded = true;
            replay.playing &= self.cursor.as_ref().is_some_and(|cursor| Some(cursor.stamp.id) != last);
        }
    }

    /// Plays faster or slower.
    pub fn change_speed(&mut self, faster: bool) {
        if let Some(replay) = &mut self.replay {
            let speed = if faster { replay.speed + 1 } else { replay.speed.saturating_sub(1) };
            replay.speed = speed.min(SPEEDS.len() - 1);
            replay.waited_s = 0.0;
        }
    }

    /// Seconds until a replay wants to go on; none while it stands.
    #[must_use]
    pub fn due_s(&self) -> Option<f64> {
        let replay = self.replay.filter(|replay| replay.playing)?;
        let next = self.archive.stamp(self.archive.step(self.here()?, 1)?)?;
        if Some(next.id) == self.here() {
            // At the end of what has been read: more may come.
            return None;
        }
        let wait = next.monotonic_ns.saturating_sub(self.moment_ns()) as f64 / 1e9 / replay.speed();
        let least = if self.thin { WAIT_THIN_S } else { WAIT_MIN_S };
        Some((wait.min(WAIT_MAX_S) - replay.waited_s).max(least))
    }

    /// Lets a replay go on by so many seconds of the viewer's time. True when another moment is shown.
    pub fn advance(&mut self, seconds: f64) -> bool {
        let (Some(mut replay), Some(start)) = (self.replay.filter(|replay| replay.playing), self.here()) else {
            return false;
        };
        let mut here = start;
        let mut now = self.moment_ns();
        replay.waited_s += seconds.clamp(0.0, 60.0);
        while let Some(next) = self.archive.step(here, 1).and_then(|id| self.archive.stamp(id)) {
            let wait = next.monotonic_ns.saturating_sub(now) as f64 / 1e9 / replay.speed();
            let wait = wait.min(WAIT_MAX_S);
            if next.id == here || replay.waited_s + 1e-9 < wait {
                break;
            }
            replay.waited_s -= wait;
            (here, now) = (next.id, next.monotonic_ns);
        }
        if self.archive.last().is_some_and(|last| last.id == here) {
            replay.playing &= !replay.loaded;
            replay.waited_s = 0.0;
        }
        self.replay = Some(replay);
        if here != start {
            self.go_to(Some(here), None);
        }
        here != start
    }

    /// The charts' scale has changed: the cursor stays in the picture.
    pub fn rescale(&mut self, span_s: f64) {
        if let Some(id) = self.cursor.as_ref().map(|cursor| cursor.stamp.id) {
            self.show(id, span_s);
        }
    }

    fn here(&self) -> Option<MomentId> {
        self.cursor.as_ref().map(|cursor| cursor.stamp.id).or_else(|| self.archive.last().map(|stamp| stamp.id))
    }

    /// A person has moved: a replay stops, and a live picture runs on once it has come to the newest moment.
    fn travel(&mut self, to: Option<MomentId>, span_s: f64) {
        let Some(to) = to else { return };
        if let Some(replay) = &mut self.replay {
            replay.waited_s = 0.0;
        } else if self.cursor.is_some() && self.archive.last().is_some_and(|last| last.id == to) {
            self.cursor = None;
            return;
        }
        self.show(to, span_s);
    }

    /// Puts the cursor on a moment, and moves the charts no more than is needed to have it in them.
    fn show(&mut self, to: MomentId, span_s: f64) {
        let Some(at) = self.archive.stamp(to).map(|stamp| stamp.monotonic_ns) else { return };
        let span_ns = (span_s.max(1.0) * 1e9) as u64;
        let newest = self.archive.last().map_or(at, |last| last.monotonic_ns);
        let mut edge = self.edge_ns().max(at).min(newest.max(at));
        // A cursor at the very left would have nothing before it: keep a tenth.
        let from = at.saturating_sub(span_ns / 10);
        if edge.saturating_sub(span_ns) > from {
            edge = from.saturating_add(span_ns);
        }
        self.go_to(Some(to), Some(edge));
    }

    /// Shows a moment; without an edge it stands at the right end of the charts.
    fn go_to(&mut self, id: Option<MomentId>, edge_ns: Option<u64>) {
        let found = id.and_then(|id| Some((self.archive.stamp(id)?.clone(), self.archive.load(id)?)));
        let Some((stamp, moment)) = found else { return };
        let edge_ns = edge_ns.unwrap_or(moment.frame.monotonic_ns);
        let Some(replay) = &self.replay else {
            self.cursor = Some(Cursor { stamp, moment: Box::new(moment), edge_ns });
            return;
        };
        let judged = |verdict: Option<&Arc<Verdict>>| verdict.map(|v| (v.class, v.cause.clone()));
        let same =
            judged(self.held.as_ref().and_then(|held| held.verdict.as_ref())) == judged(moment.verdict.as_ref());
        let hold = !replay.playing || !same || self.held_too_long(moment.frame.monotonic_ns);
        self.cursor = Some(Cursor { stamp, moment: Box::new(moment), edge_ns });
        if hold {
            self.hold();
        }
    }
}
