//! Which rank of a run do the others wait for? The rule is that of a job's own ranks ([`crate::diagnosis::ranks`]). Over machines it
//! names a rank only if no other one waits as little.

use super::LateKind;
use crate::diagnosis::ranks::{RankLoad, is_late, late_by_gpu, waits};

/// Ranks that wait this much longer than the one that waits least are no candidates. Half of the least difference that makes a rank
/// late: means of equal ranks over a window differ less.
const APART: f64 = 0.125;
/// More ranks than this are not named one by one.
const MOST_NAMED: usize = 4;
/// More than this part of the ranks cannot be those that the others wait for.
const PART: usize = 4;

/// The late ranks by their places, each rank with its load and its machine. `missing` says whether the run has more.
pub fn judge(ranks: &[(RankLoad, &str)], missing: bool) -> (LateKind, Vec<usize>) {
    let loads: Vec<RankLoad> = ranks.iter().map(|(load, _)| *load).collect();
    let waits = waits(&loads);
    let most = waits.iter().copied().fold(0.0, f64::max);
    let least = waits.iter().copied().fold(f64::INFINITY, f64::min);
    if ranks.len() < 2 || !is_late(most, least) {
        return match late_by_gpu(&loads) {
            Some(at) if ranks.len() > 1 => (LateKind::One, vec![at]),
            _ if missing && !ranks.is_empty() && is_late(least, 0.0) => (LateKind::Unmeasured, Vec::new()),
            _ => (LateKind::Even, Vec::new()),
        };
    }
    let near: Vec<usize> =
        waits.iter().enumerate().filter(|(_, waits)| **waits < least + APART).map(|(at, _)| at).collect();
    let machine = |at: &usize| ranks.get(*at).map(|(_, machine)| *machine);
    let on_one = near.iter().all(|at| machine(at) == near.first().and_then(machine));
    let elsewhere = ranks.iter().any(|(_, other)| near.first().and_then(machine) != Some(other));
    match near.len() {
        1 => (LateKind::One, near),
        _ if on_one && elsewhere => (LateKind::Machine, near),
        few if few <= MOST_NAMED && few * PART <= ranks.len() => (LateKind::Few, near),
        _ => (LateKind::Unclear, Vec::new()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::diagnosis::ranks::GpuLoad;

    /// Four ranks on each machine.
    fn run(waits: &[f64]) -> Vec<(RankLoad, &'static str)> {
        let machines = ["a", "b", "c", "d"];
        let load = |blocked| RankLoad { blocked, ..RankLoad::default() };
        waits.iter().enumerate().map(|(at, waits)| (load(*waits), machines[at / 4])).collect()
    }

    fn judged(waits: &[f64]) -> (LateKind, Vec<usize>) {
        judge(&run(waits), false)
    }

    #[test]
    fn the_rank_that_does_not_wait() {
        let mut waits = [0.6; 16];
        assert_eq!(judged(&waits), (LateKind::Even, vec![]));
        waits[5] = 0.1;
        assert_eq!(judged(&waits), (LateKind::One, vec![5]));
        waits[5] = 0.4;
        assert_eq!(judged(&waits), (LateKind::Even, vec![]), "less than a quarter of the time");
    }

    #[test]
    fn several_that_wait_equally_little_are_not_told_apart() {
        let mut waits = [0.6; 16];
        (waits[4], waits[5]) = (0.1, 0.2);
        assert_eq!(judged(&waits), (LateKind::Machine, vec![4, 5]));
        (waits[5], waits[9]) = (0.6, 0.15);
        assert_eq!(judged(&waits), (LateKind::Few, vec![4, 9]));
        let halves: Vec<f64> = (0..16).map(|at| if at < 8 { 0.1 } else { 0.6 }).collect();
        assert_eq!(judged(&halves), (LateKind::Unclear, vec![]));
        let one_waits: Vec<f64> = (0..16).map(|at| if at == 3 { 0.9 } else { 0.1 }).collect();
        assert_eq!(judged(&one_waits), (LateKind::Unclear, vec![]));
    }

    #[test]
    fn what_the_stacks_say_counts_if_all_have_them() {
        let rank = |blocked, collectives| (RankLoad { blocked, collectives, gpu: None }, "a");
        let mixed = [rank(0.1, Some(0.7)), rank(0.1, Some(0.7)), rank(0.1, None)];
        assert_eq!(judge(&mixed, false).0, LateKind::Even);
        let all = [rank(0.1, Some(0.7)), rank(0.1, Some(0.7)), rank(0.1, Some(0.05))];
        assert_eq!(judge(&all, false), (LateKind::One, vec![2]));
    }

    #[test]
    fn among_ranks_that_all_wait_for_their_gpus_the_throttled_one() {
        let rank = |held_down| {
            (RankLoad { blocked: 0.9, collectives: None, gpu: Some(GpuLoad { held_down, power: None }) }, "a")
        };
        assert_eq!(judge(&[rank(false), rank(true), rank(false)], false), (LateKind::One, vec![1]));
        assert_eq!(judge(&[rank(true), rank(true), rank(false)], false).0, LateKind::Even);
    }

    #[test]
    fn a_rank_that_is_not_measured_may_be_the_late_one() {
        assert_eq!(judge(&run(&[0.6; 16]), true).0, LateKind::Unmeasured);
        assert_eq!(judge(&run(&[0.05; 16]), true).0, LateKind::Even);
        assert_eq!(judge(&[], true).0, LateKind::Even);
    }

    proptest! {
        #[test]
        fn only_ranks_that_wait_clearly_less_are_named(waits in proptest::collection::vec(0.0..1.0f64, 0..16)) {
            let (kind, named) = judged(&waits);
            prop_assert_eq!(named.is_empty(), matches!(kind, LateKind::Even | LateKind::Unclear | LateKind::Unmeasured));
            let most = waits.iter().copied().fold(0.0, f64::max);
            for at in named {
                prop_assert!(most - waits[at] >= 0.125);
            }
        }
    }
}
