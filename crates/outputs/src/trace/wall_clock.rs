//! When intervals begin and end on the time axis of a trace.

use trainmon_waits::Frame;

/// Latest time of a trace, nanoseconds since 1970.
pub(super) const LATEST_NS: u64 = i64::MAX as u64;

/// Wall-clock times that do not go back. Within a series they follow the monotonic clock, as a wall clock that is set would tear
/// intervals apart; after a gap they follow the wall clock again.
#[derive(Debug, Default)]
pub(super) struct WallClock {
    /// CLOCK_MONOTONIC and wall clock at one moment, nanoseconds.
    anchor: Option<(u64, u64)>,
    /// Begin of the first interval, nanoseconds since 1970.
    pub(super) began_ns: Option<u64>,
    /// End of the latest interval, nanoseconds since 1970.
    pub(super) end_ns: u64,
}

impl WallClock {
    /// Begin and end of a frame's interval; they are the same where it has none.
    pub(super) fn interval(&mut self, frame: &Frame) -> (u64, u64) {
        let is_first = self.anchor.is_none();
        let by_wall = u64::try_from(frame.unix_ms).unwrap_or(0).saturating_mul(1_000_000).min(LATEST_NS);
        let by_anchor = self
            .anchor
            .and_then(|(monotonic, wall)| Some(wall.saturating_add(frame.monotonic_ns.checked_sub(monotonic)?)));
        let wall =
            by_anchor.filter(|at| !frame.gap || by_wall < self.end_ns && *at >= self.end_ns).unwrap_or(by_wall);
        let end = wall.clamp(self.end_ns, LATEST_NS);
        self.anchor = Some((frame.monotonic_ns, end));
        let before = std::mem::replace(&mut self.end_ns, end);
        let begin = match (frame.gap, is_first) {
            (true, _) => end,
            (false, true) => end.saturating_sub((frame.seconds.max(0.0) * 1e9) as u64),
            (false, false) => before,
        };
        self.began_ns.get_or_insert(begin);
        (begin, end)
    }

    /// The time of a moment of this series, by CLOCK_MONOTONIC nanoseconds, up to the end of the latest interval.
    pub(super) fn at(&self, monotonic_ns: u64) -> u64 {
        let before = self.anchor.map_or(0, |(monotonic, _)| monotonic.saturating_sub(monotonic_ns));
        self.end_ns.saturating_sub(before)
    }
}
