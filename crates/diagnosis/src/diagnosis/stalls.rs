//! The stall period: N workers that take turns and are too slow make the loop wait at every Nth step.
//!
//! Each wait is recorded with the number of batches requested so far. That number does not change while the loop waits, so the
//! distance between two stalls is exact to the step, however short the steps between them are.

use std::collections::BTreeMap;

use trainmon_base::stats::{median, quantile};
use trainmon_waits::frame::Stall;

/// Waits shorter than this part of the longest ones are not stalls.
const OF_LONGEST: f64 = 0.4;
/// Fewest stalls that make a period.
const LEAST_STALLS: usize = 4;
/// Part of the distances that must agree.
const AGREE: f64 = 0.7;

/// The period of the stalls.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Period {
    /// The loop stalls once in this many steps, 2 or more.
    pub every: u32,
    /// Median stall, seconds.
    pub stall_s: f64,
}

/// The period of `stalls`, oldest first; `None` without one, and if every step waits.
pub fn period(stalls: &[Stall]) -> Option<Period> {
    // The counter starts again with each set of workers: only the latest set counts.
    let mut waits: Vec<(u64, f64)> = Vec::new();
    for stall in stalls {
        match waits.last_mut() {
            Some(last) if last.0 == stall.count => {
                last.1 += f64::from(stall.seconds);
                continue;
            }
            Some(last) if last.0 > stall.count => waits.clear(),
            _ => {}
        }
        waits.push((stall.count, f64::from(stall.seconds)));
    }
    let lengths: Vec<f64> = waits.iter().map(|(_, seconds)| *seconds).collect();
    let least = quantile(&lengths, 0.9)? * OF_LONGEST;
    waits.retain(|(_, seconds)| *seconds >= least);
    if waits.len() < LEAST_STALLS {
        return None;
    }
    let mut distances: BTreeMap<u64, usize> = BTreeMap::new();
    for (before, after) in waits.iter().zip(waits.iter().skip(1)) {
        *distances.entry(after.0.saturating_sub(before.0)).or_default() += 1;
    }
    let (every, agreeing) = distances.into_iter().max_by_key(|(distance, seen)| (*seen, *distance))?;
    let enough = agreeing as f64 >= AGREE * (waits.len() - 1) as f64;
    let lengths: Vec<f64> = waits.iter().map(|(_, seconds)| *seconds).collect();
    let every = u32::try_from(every).ok().filter(|every| *every >= 2 && enough)?;
    Some(Period { every, stall_s: median(&lengths)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stalls(waits: &[(u64, f32)]) -> Vec<Stall> {
        waits.iter().map(|(count, seconds)| Stall { count: *count, seconds: *seconds }).collect()
    }

    #[test]
    fn every_fourth_step() {
        let found =
            period(&stalls(&[(8, 0.288), (12, 0.313), (16, 0.3), (18, 0.04), (20, 0.3), (24, 0.31)])).unwrap();
        assert_eq!(found.every, 4);
        assert!((found.stall_s - 0.3).abs() < 1e-3);
    }

    #[test]
    fn a_wait_seen_in_two_parts_is_one() {
        let found = period(&stalls(&[(2, 0.1), (2, 0.2), (4, 0.3), (6, 0.3), (6, 0.04), (8, 0.3)])).unwrap();
        assert_eq!(found.every, 2);
    }

    #[test]
    fn waiting_at_each_step_is_no_period() {
        assert_eq!(period(&stalls(&[(1, 0.3), (2, 0.3), (3, 0.3), (4, 0.3), (5, 0.3)])), None);
    }

    #[test]
    fn irregular_or_few_stalls_have_none() {
        assert_eq!(period(&stalls(&[(1, 0.3), (25, 0.3), (30, 0.3), (77, 0.3), (78, 0.3)])), None);
        assert_eq!(period(&stalls(&[(4, 0.3), (8, 0.3)])), None);
        assert_eq!(period(&[]), None);
    }

    #[test]
    fn a_new_set_of_workers_begins_anew() {
        let waits = [(400, 0.3), (403, 0.3), (3, 0.3), (7, 0.3), (11, 0.3), (15, 0.3), (19, 0.3)];
        assert_eq!(period(&stalls(&waits)).unwrap().every, 4);
    }
}
