//! A recording as a job on the screen: how it plays through its moments.

use super::Job;

/// Speeds of a replay.
const SPEEDS: [f64; 7] = [0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 100.0];
/// Longest wait for the next moment of a replay, seconds, so that a gap of a night is skipped.
const WAIT_MAX_S: f64 = 3.0;
/// Shortest wait, seconds: 30 frames a second.
const WAIT_MIN_S: f64 = 0.033;
/// The same at low bandwidth: no more frames than from a live job.
const WAIT_LOW_BANDWIDTH_S: f64 = 1.0;

/// How a recording is played.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Replay {
    /// Whether it is playing.
    pub playing: bool,
    /// Index in the list of speeds.
    speed: usize,
    /// Seconds since the moment shown was reached.
    pub(super) waited_s: f64,
    /// Whether all of the recording has been read.
    pub loaded: bool,
}

impl Replay {
    /// Seconds of the recording per second.
    pub fn speed(&self) -> f64 {
        SPEEDS.get(self.speed).copied().unwrap_or(1.0)
    }

    /// Seconds of the viewer's time from one moment to the next.
    fn wait_s(&self, from_ns: u64, to_ns: u64) -> f64 {
        (to_ns.saturating_sub(from_ns) as f64 / 1e9 / self.speed()).min(WAIT_MAX_S)
    }
}

impl Job {
    /// A recording, played from its first moment on.
    pub fn recording(mut self) -> Self {
        self.replay = Some(Replay { playing: true, speed: 1, waited_s: 0.0, loaded: false });
        self
    }

    /// Notes that all of the recording has been read: if it has already played to its end, it pauses.
    pub fn loaded(&mut self) {
        let last = self.archive().last().map(|last| last.id);
        if let Some(replay) = &mut self.replay {
            replay.loaded = true;
            replay.playing &= self.cursor.as_ref().is_some_and(|cursor| Some(cursor.moment.id) != last);
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

    /// Seconds until a replay moves on; `None` while it is paused.
    pub fn due_s(&self) -> Option<f64> {
        let replay = self.replay.filter(|replay| replay.playing)?;
        let next = self.archive().stamp(self.archive().step(self.here()?, 1)?)?;
        if Some(next.id) == self.here() {
            // At the end of what has been read: more may come.
            return None;
        }
        let wait = replay.wait_s(self.moment_ns(), next.monotonic_ns);
        let least = if self.low_bandwidth { WAIT_LOW_BANDWIDTH_S } else { WAIT_MIN_S };
        Some((wait - replay.waited_s).max(least))
    }

    /// Advances a replay by so many seconds of the viewer's time. Returns whether another moment is shown.
    pub fn advance(&mut self, seconds: f64) -> bool {
        let (Some(mut replay), Some(start)) = (self.replay.filter(|replay| replay.playing), self.here()) else {
            return false;
        };
        let mut here = start;
        let mut now = self.moment_ns();
        replay.waited_s += seconds.clamp(0.0, 60.0);
        while let Some(next) = self.archive().step(here, 1).and_then(|id| self.archive().stamp(id)) {
            let wait = replay.wait_s(now, next.monotonic_ns);
            if next.id == here || replay.waited_s + 1e-9 < wait {
                break;
            }
            replay.waited_s -= wait;
            (here, now) = (next.id, next.monotonic_ns);
        }
        if self.archive().last().is_some_and(|last| last.id == here) {
            replay.playing &= !replay.loaded;
            replay.waited_s = 0.0;
        }
        self.replay = Some(replay);
        if here != start {
            self.go_to(Some(here), None);
        }
        here != start
    }
}
