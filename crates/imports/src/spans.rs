//! How long each stack of frames lasted, in a bounded number of stacks.

use std::cmp::Reverse;
use std::collections::HashMap;

use trainmon_sample::stacks::STACKS;

/// How long each stack lasted, nanoseconds; the frames leaf first.
#[derive(Debug, Clone, Default)]
pub(super) struct StackTimes(HashMap<Vec<u32>, u64>);

impl StackTimes {
    /// Adds time to a stack. With too many different ones it goes to what the stack is in.
    pub(super) fn add(&mut self, mut stack: Vec<u32>, ns: u64) {
        while self.0.len() >= STACKS && stack.len() > 1 && !self.0.contains_key(&stack) {
            stack.remove(0);
        }
        if self.0.len() < 2 * STACKS || self.0.contains_key(&stack) {
            *self.0.entry(stack).or_default() += ns;
        }
    }

    /// All of it, nanoseconds.
    pub(super) fn total_ns(&self) -> u64 {
        self.0.values().sum()
    }

    /// The stacks, in no order.
    pub(super) fn stacks(&self) -> impl Iterator<Item = &[u32]> {
        self.0.keys().map(Vec::as_slice)
    }

    /// Whole samples of this length for each stack, which add up to the total: short stacks of one kind share them.
    pub(super) fn samples(&self, each_ns: u64) -> Vec<(&[u32], u32)> {
        let mut sorted: Vec<(&[u32], u64)> = self.0.iter().map(|(stack, ns)| (stack.as_slice(), *ns)).collect();
        sorted.sort_unstable_by(|a, b| a.0.iter().rev().cmp(b.0.iter().rev()));
        let (mut sum, mut given) = (0_u64, 0_u64);
        let mut samples = Vec::new();
        for (stack, ns) in sorted {
            sum = sum.saturating_add(ns);
            let upto = (sum + each_ns / 2) / each_ns.max(1);
            let own = u32::try_from(upto - given).unwrap_or(u32::MAX);
            given = upto;
            samples.extend((own > 0).then_some((stack, own)));
        }
        samples.sort_by_key(|(_, count)| Reverse(*count));
        samples
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn samples_add_up(times in proptest::collection::vec((0_u32..300, 1_u64..5_000_000), 1..400)) {
            let mut stacks = StackTimes::default();
            for (frame, ns) in &times {
                stacks.add(vec![*frame, 1000], *ns);
            }
            let all: u64 = stacks.samples(1_000_000).iter().map(|(_, count)| u64::from(*count)).sum();
            prop_assert!(all.abs_diff(stacks.total_ns() / 1_000_000) <= 1);
        }
    }
}
