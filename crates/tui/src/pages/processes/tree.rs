//! Which process started which: a forest, even if parent PIDs form no tree.
//!
//! A parent may have ended or be hidden by the filter. If PIDs were reused between two reads, it may even be its own
//! descendant. Every process is still shown exactly once: those without a visible parent are at the root, and cycles
//! are cut.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;

use trainmon_rates::frame::ProcessRates;

/// No parent.
const NONE: u32 = u32::MAX;

/// Position of a row in the tree.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Branch {
    /// Number of ancestors.
    pub depth: u16,
    /// Bit n is set if the branch of depth n continues below: a line is drawn there. Only the deepest 64 are stored.
    pub lines: u64,
    /// Whether it is its parent's last child.
    pub last: bool,
}

impl Branch {
    /// The branch of a child.
    pub(super) fn child(self, last: bool) -> Self {
        let goes_on = self.depth > 0 && !self.last;
        let line = if goes_on { 1u64.checked_shl(u32::from(self.depth)).unwrap_or(0) } else { 0 };
        Self { depth: self.depth.saturating_add(1), lines: self.lines | line, last }
    }
}

/// Visits the processes of `rows` (indexes into `processes`, siblings in order) in tree order: `each` gets the process,
/// its branch, and whether it has children.
pub(super) fn walk(processes: &[ProcessRates], rows: &[u32], mut each: impl FnMut(u32, Branch, bool)) {
    let mut parents = parents(processes);
    skip_hidden(&mut parents, rows);
    let mut children = grouped(rows.iter().map(|row| (parent(&parents, *row), *row)));
    let roots = children.remove(&NONE).unwrap_or_default().into_iter().rev();
    let mut stack: Vec<(u32, Branch)> = roots.map(|row| (row, Branch::default())).collect();
    while let Some((row, branch)) = stack.pop() {
        let below = children.remove(&row).unwrap_or_default();
        each(row, branch, !below.is_empty());
        let last = below.len().saturating_sub(1);
        stack.extend(below.into_iter().enumerate().rev().map(|(nth, child)| (child, branch.child(nth == last))));
    }
}

fn parent(parents: &[u32], row: u32) -> u32 {
    parents.get(row as usize).copied().unwrap_or(NONE)
}

fn set(parents: &mut [u32], row: u32, to: u32) {
    if let Some(parent) = parents.get_mut(row as usize) {
        *parent = to;
    }
}

/// The index of each process's parent; cycles are cut.
fn parents(processes: &[ProcessRates]) -> Vec<u32> {
    // The first one, if several have the same PID.
    let by_pid: HashMap<u32, u32> = processes.iter().map(|p| p.id.pid).zip(0..NONE).rev().collect();
    let mut parents: Vec<u32> = processes.iter().map(|p| by_pid.get(&p.parent).copied().unwrap_or(NONE)).collect();
    // Walk up from each process. A process that an earlier walk visited is known to lead to a root.
    let mut met = vec![0u32; parents.len()];
    for (row, walk) in (0..).zip(1..).take(parents.len()) {
        let (mut below, mut here) = (NONE, row);
        while let Some(mark) = met.get_mut(here as usize) {
            if *mark == walk {
                set(&mut parents, below, NONE);
                break;
            }
            if *mark != 0 {
                break;
            }
            *mark = walk;
            below = here;
            here = parent(&parents, here);
        }
    }
    parents
}

/// Maps each process to its nearest ancestor in `rows`.
fn skip_hidden(parents: &mut [u32], rows: &[u32]) {
    if rows.len() == parents.len() {
        return;
    }
    let visible: HashSet<u32> = rows.iter().copied().collect();
    let mut path = Vec::new();
    for row in rows {
        let mut here = parent(parents, *row);
        path.push(*row);
        while here != NONE && !visible.contains(&here) {
            path.push(here);
            here = parent(parents, here);
        }
        // From now on, hidden processes on the path point straight to it: no path is walked twice.
        for passed in path.drain(..) {
            set(parents, passed, here);
        }
    }
}

/// Indexes grouped by parent, in their original order.
pub(super) fn grouped<K: Eq + Hash>(places: impl Iterator<Item = (K, u32)>) -> HashMap<K, Vec<u32>> {
    let mut groups = HashMap::<K, Vec<u32>>::new();
    for (whose, place) in places {
        groups.entry(whose).or_default().push(place);
    }
    groups
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use trainmon_sample::ProcessId;

    fn processes(pairs: &[(u32, u32)]) -> Vec<ProcessRates> {
        let process = |(pid, parent): &(u32, u32)| ProcessRates {
            id: ProcessId { pid: *pid, start_ticks: 1 },
            parent: *parent,
            ..ProcessRates::default()
        };
        pairs.iter().map(process).collect()
    }

    fn drawn(pairs: &[(u32, u32)], rows: &[u32]) -> Vec<(u32, u16, bool)> {
        let processes = processes(pairs);
        let mut out = Vec::new();
        walk(&processes, rows, |row, branch, _| {
            out.push((processes[row as usize].id.pid, branch.depth, branch.last))
        });
        out
    }

    #[test]
    fn children_stand_below_their_parents() {
        let all = [(1, 0), (2, 1), (3, 1), (4, 2), (9, 77)];
        let tree = drawn(&all, &[4, 0, 2, 1, 3]);
        assert_eq!(tree, [(9, 0, false), (1, 0, false), (3, 1, false), (2, 1, true), (4, 2, true)]);
        let mut lines = Vec::new();
        walk(&processes(&[(1, 0), (2, 1), (3, 2), (4, 1)]), &[0, 1, 2, 3], |_, branch, _| lines.push(branch.lines));
        assert_eq!(lines, [0, 0, 0b10, 0]);
    }

    #[test]
    fn a_hidden_parent_gives_its_children_to_its_own() {
        let all = [(1, 0), (2, 1), (3, 2), (4, 2)];
        assert_eq!(drawn(&all, &[0, 2, 3]), [(1, 0, false), (3, 1, false), (4, 1, true)]);
        assert_eq!(drawn(&all, &[2, 3]), [(3, 0, false), (4, 0, false)]);
    }

    #[test]
    fn circles_are_cut_open() {
        assert_eq!(drawn(&[(5, 5)], &[0]), [(5, 0, false)]);
        assert_eq!(drawn(&[(1, 2), (2, 3), (3, 1), (4, 1)], &[0, 1, 2, 3]).len(), 4);
    }

    #[test]
    fn a_very_long_line_of_forebears_is_walked() {
        let chain: Vec<_> = (1..200_000).map(|pid| (pid, pid - 1)).collect();
        let rows: Vec<u32> = (0..).take(chain.len()).collect();
        assert_eq!(drawn(&chain, &rows).len(), chain.len());
        assert_eq!(drawn(&chain, &[199_998, 0]), [(1, 0, false), (199_999, 1, true)]);
    }

    proptest! {
        #[test]
        fn no_process_is_lost_or_shown_twice(
            pairs in proptest::collection::vec((0u32..30, 0u32..30), 0..40),
            hidden in any::<u64>(),
        ) {
            let rows: Vec<u32> = (0..).take(pairs.len()).filter(|row| hidden >> row & 1 == 0).collect();
            let processes = processes(&pairs);
            let (mut seen, mut before) = (Vec::new(), None::<u16>);
            let mut sound = true;
            walk(&processes, &rows, |row, branch, _| {
                seen.push(row);
                sound &= branch.depth <= before.map_or(0, |depth| depth + 1);
                before = Some(branch.depth);
            });
            seen.sort_unstable();
            prop_assert_eq!(seen, rows);
            prop_assert!(sound);
        }
    }
}
