//! The steps of the loops and the batches of the workers as slices, as exactly as the samples time them. Each is written once it has
//! ended.
//!
//! Readings of the counter of batches that a loop took are 20 to 40 ms apart, so the steps of a fast loop share a slice. The counter
//! of a worker is read once an interval: its slices begin and end with intervals.

use std::collections::HashMap;
use std::io::{self, Write};

use super::packets::{Looks, Track};
use super::proto::TrackEvent;
use super::{TraceWriter, number};
use trainmon_diagnosis::pipeline::Tick;
use trainmon_waits::frame::TimedSteps;

/// A slice is at least so many times longer than what its ends may be off by.
const LEAST_LENGTH: u64 = 2;
/// A worker that rests for this share of an interval in which it finishes nothing has no batch in the making.
const RESTING: f64 = 0.5;

/// What has begun and not ended.
#[derive(Debug, Default)]
pub(super) struct Unended {
    /// Steps too short for a slice, by the PID of their loop.
    steps: HashMap<u32, TimedSteps>,
    /// By the PID of their worker.
    batches: HashMap<u32, UnendedBatch>,
    /// Where the latest slice of each track ended.
    ended: HashMap<u64, u64>,
}

/// What a worker has not finished.
#[derive(Debug, Clone, Copy)]
struct UnendedBatch {
    /// The end of the interval in which it finished its latest batch, nanoseconds since 1970.
    since_ns: u64,
    /// What is left of its count: a batch may be written in several parts.
    part: f64,
}

/// Adds steps to those just before them; after a pause in the counting they begin anew.
fn joined(before: Option<TimedSteps>, more: TimedSteps) -> TimedSteps {
    match before.filter(|before| before.to_ns == more.from_ns) {
        Some(before) => TimedSteps {
            from_ns: before.from_ns,
            steps: before.steps.saturating_add(more.steps),
            within_ns: before.within_ns.max(more.within_ns),
            ..more
        },
        None => more,
    }
}

impl<W: Write> TraceWriter<W> {
    /// Draws the steps that ended in the interval.
    pub(super) fn steps(&mut self, tick: &Tick) -> io::Result<()> {
        for rank in &tick.frame.ranks {
            let pid = rank.id.pid;
            for more in &rank.timed_steps {
                let steps = joined(self.unended.steps.remove(&pid), *more);
                if steps.to_ns.saturating_sub(steps.from_ns) < steps.within_ns.saturating_mul(LEAST_LENGTH) {
                    self.unended.steps.insert(pid, steps);
                    continue;
                }
                let parent = self.loop_thread(tick, rank)?;
                let about = "from one batch taken by the loop to the next; each end is read up to `within_ms` late";
                let times = (self.clock.at(steps.from_ns), self.clock.at(steps.to_ns));
                let within_ms = steps.within_ns as f64 / 1e6;
                self.timed((parent, "steps", about), times, ("step", steps.steps), within_ms)?;
            }
        }
        Ok(())
    }

    /// Draws the batches that workers finished in the interval that ends at `to`.
    pub(super) fn batches(&mut self, tick: &Tick, to: u64) -> io::Result<()> {
        for worker in &tick.frame.workers {
            let pid = worker.id.pid;
            let Some(per_s) = worker.batches_per_s else {
                self.unended.batches.remove(&pid);
                continue;
            };
            let before = self.unended.batches.get(&pid).copied();
            let count = before.map_or(0.0, |before| before.part) + per_s * tick.frame.seconds;
            // A hundredth of a batch is a rounding error.
            let batches = (count + 0.01).floor().max(0.0);
            let rests = batches == 0.0 && worker.idle.is_some_and(|idle| idle >= RESTING);
            let since_ns = if batches > 0.0 || rests { Some(to) } else { before.map(|before| before.since_ns) };
            if let Some(since_ns) = since_ns {
                self.unended.batches.insert(pid, UnendedBatch { since_ns, part: count - batches });
            }
            // When the first of them was begun is not known.
            let (Some(UnendedBatch { since_ns, .. }), true) = (before, batches > 0.0) else { continue };
            let parent = self.thread(tick, pid, pid)?;
            let about = "batches that the worker finished in an interval; when in it is not known";
            self.timed(
                (parent, "batches", about),
                (since_ns, to),
                ("batch", batches as u64),
                tick.frame.seconds * 1e3,
            )?;
        }
        Ok(())
    }

    /// Nothing that has begun goes on across a gap.
    pub(super) fn forget_unended(&mut self) {
        self.unended.steps.clear();
        self.unended.batches.clear();
    }

    fn timed(
        &mut self,
        (parent, track, about): (Option<u64>, &str, &str),
        (from, to): (u64, u64),
        (one, count): (&str, u64),
        within_ms: f64,
    ) -> io::Result<()> {
        let looks = Looks { about, rank: 2, ..Looks::default() };
        let Some(track) = self.packets.track(Track::Named(parent, track.to_owned()), looks)? else { return Ok(()) };
        let from = from.max(self.unended.ended.get(&track).copied().unwrap_or(0));
        let to = to.max(from);
        self.unended.ended.insert(track, to);
        let name = match (one, count) {
            (one, 1) => one.to_owned(),
            ("batch", count) => format!("{count} batches"),
            (one, count) => format!("{count} {one}s"),
        };
        let each_ms = (to - from) as f64 / 1e6 / count.max(1) as f64;
        let rounded = |ms: f64| (ms * 10.0).round() / 10.0;
        let debug_annotations = vec![number("ms_each", rounded(each_ms)), number("within_ms", rounded(within_ms))];
        let begin = TrackEvent { name: Some(name), debug_annotations, ..TrackEvent::default() };
        self.packets.slice(track, (from, to), begin)
    }
}
