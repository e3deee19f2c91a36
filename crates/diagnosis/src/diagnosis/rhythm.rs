//! The rhythm of a loop whose steps are not counted and are longer than the usual windows: the GPU works for several seconds
//! and rests for several, again and again. A window must hold whole turns, or the verdict follows each half.

use trainmon_base::stats::mean;
use trainmon_waits::Frame;

/// A GPU that is used more than this works …
const DEVICE_WORKS: f64 = 0.7;
/// … and one that is used less than this rests; between the two it does what it did before.
const DEVICE_RESTS: f64 = 0.3;
/// Shorter turns fit into every window often enough, seconds.
const SHORTEST_S: f64 = 6.0;
/// If the next turn is later than this part of the last one, the rhythm is over.
const LATE: f64 = 1.5;

/// Turns from work to work and from rest to rest have the same length, to within this part. A change or two is not a rhythm.
const ALIKE: f64 = 0.3;

/// Length of the last whole turn, seconds: from one moment at which the GPU begins to rest, or to work, to the next. `None`
/// without two of each kind at the same distance, and if the newest is long past. Frames are in order, the oldest first.
pub(super) fn turn_s<'a>(frames: impl Iterator<Item = &'a Frame>) -> Option<f64> {
    // When the GPU last began to rest, and to work; and the turn that ended then.
    let (mut began, mut turns): ([Option<u64>; 2], [Option<f64>; 2]) = ([None; 2], [None; 2]);
    let (mut working, mut last_ns) = (None, 0);
    for frame in frames {
        last_ns = frame.monotonic_ns;
        let used = frame.gpus.iter().filter(|gpu| gpu.attached).filter_map(|gpu| gpu.job_utilization_pct);
        let Some(used) = mean(used).map(|pct| pct / 100.0) else { continue };
        let now = match working {
            _ if used >= DEVICE_WORKS => true,
            _ if used <= DEVICE_RESTS => false,
            Some(before) => before,
            None => continue,
        };
        if working.is_some_and(|before| before != now)
            && let (Some(began), Some(turn)) = (began.get_mut(usize::from(now)), turns.get_mut(usize::from(now)))
        {
            *turn = began.map(|since| last_ns.saturating_sub(since) as f64 / 1e9);
            *began = Some(last_ns);
        }
        working = Some(now);
    }
    let [Some(to_rest_s), Some(to_work_s)] = turns else { return None };
    let (length_s, ended_ns) = (to_rest_s.max(to_work_s), began.into_iter().flatten().max()?);
    if to_rest_s.min(to_work_s) < (1.0 - ALIKE) * length_s {
        return None;
    }
    let is_on = last_ns.saturating_sub(ended_ns) as f64 / 1e9 <= LATE * length_s;
    (length_s >= SHORTEST_S && is_on).then_some(length_s)
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainmon_rates::frame::GpuRates;

    /// The turn of a GPU with these uses in percent, each for so many seconds, in order.
    fn turn_of(uses: &[(u32, f64)]) -> Option<f64> {
        let seconds = uses.iter().flat_map(|(seconds, pct)| std::iter::repeat_n(*pct, *seconds as usize));
        let frames: Vec<Frame> = (0_u64..)
            .zip(seconds)
            .map(|(at, pct)| Frame {
                monotonic_ns: at * 1_000_000_000,
                gpus: vec![GpuRates { attached: true, job_utilization_pct: Some(pct), ..GpuRates::default() }],
                ..Frame::default()
            })
            .collect();
        turn_s(frames.iter())
    }

    #[test]
    fn turns_are_told_by_the_device() {
        let (work, rest, half) = (100.0, 0.0, 50.0);
        assert_eq!(turn_of(&[(8, work), (12, rest), (8, work), (12, rest), (3, work)]), Some(20.0));
        let turns = [(8, rest), (1, half), (11, work), (1, half), (7, rest), (12, work), (3, rest)];
        assert_eq!(turn_of(&turns), Some(19.0));
        // Changes at other distances, or two of them.
        assert_eq!(turn_of(&[(8, work), (3, rest), (8, work), (20, rest), (5, work)]), None);
        assert_eq!(turn_of(&[(8, work), (12, rest), (8, work), (3, rest)]), None);
        // One change is not a rhythm, short turns need no longer window, and a rhythm that is over does not count.
        assert_eq!(turn_of(&[(20, work), (20, rest)]), None);
        assert_eq!(turn_of(&[(2, work), (2, rest), (2, work), (2, rest), (2, work)]), None);
        assert_eq!(turn_of(&[(8, work), (12, rest), (8, work), (12, rest), (32, work)]), None);
        assert_eq!(turn_of(&[(60, half)]), None);
        assert_eq!(turn_s([Frame::default()].iter()), None);
    }
}
