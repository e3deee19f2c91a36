//! Both accounts, what their numbers are divided by, and rows of both that are of the same thing.

use std::collections::HashMap;
use std::hash::Hash;

use serde::Serialize;

use crate::profiles::account::ProfileAccount;
use crate::text::named_enum;

named_enum! {
    /// What the numbers are of.
    pub enum Per {
        /// A step.
        Step = "step",
        /// The window: what was recorded.
        Window = "window",
    }
}

/// A number before and after; `None` where it is not known or has nothing to be of.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct BeforeAfter {
    /// In the first profile.
    pub before: Option<f64>,
    /// In the second.
    pub after: Option<f64>,
}

impl BeforeAfter {
    /// Both are known.
    pub fn new([before, after]: [f64; 2]) -> Self {
        Self { before: Some(before), after: Some(after) }
    }

    /// Both in order.
    pub fn sides(self) -> [Option<f64>; 2] {
        [self.before, self.after]
    }

    /// Both, with 0 for what is not there.
    pub fn values(self) -> [f64; 2] {
        self.sides().map(Option::unwrap_or_default)
    }

    /// By how much the second is larger.
    pub fn change(self) -> f64 {
        let [before, after] = self.values();
        after - before
    }
}

/// An account, and what its numbers are divided by.
#[derive(Debug, Clone, Copy)]
pub struct ComparedSide<'a> {
    /// What ran.
    pub account: &'a ProfileAccount,
    /// Mean length of a step, milliseconds.
    pub length_ms: f64,
    /// Steps in the window.
    pub count: f64,
}

impl<'a> ComparedSide<'a> {
    /// The account, per step or of its window.
    pub fn new(account: &'a ProfileAccount, per: Per) -> Self {
        match account.step_ms {
            // The window may begin before the first step, or end after the last.
            Some(length_ms) if per == Per::Step => {
                let count = account.window_ms / length_ms;
                let whole = account.steps as f64;
                let count = if (count - whole).abs() < 0.01 * whole { whole } else { count };
                Self { account, length_ms, count }
            }
            _ => Self { account, length_ms: account.window_ms, count: 1.0 },
        }
    }
}

/// Both accounts.
pub type Sides<'a> = [ComparedSide<'a>; 2];

/// Rows of both accounts by what makes them the same, in the order in which they come.
pub struct JoinedRows<'a, R, K> {
    keys: Vec<K>,
    rows: HashMap<K, [Vec<&'a R>; 2]>,
    counts: [f64; 2],
}

/// The rows of one key.
pub struct RowsOfKey<'a, 'r, R> {
    /// Those of each account.
    pub rows: [&'r [&'a R]; 2],
    counts: [f64; 2],
}

impl<'a, R, K: Clone + Eq + Hash> JoinedRows<'a, R, K> {
    /// Joins them.
    pub fn new(sides: &Sides<'a>, rows: impl Fn(&'a ProfileAccount) -> &'a [R], key: impl Fn(&R) -> K) -> Self {
        let mut joined = Self { keys: Vec::new(), rows: HashMap::new(), counts: sides.map(|side| side.count) };
        for (place, side) in sides.iter().enumerate() {
            for row in rows(side.account) {
                let key = key(row);
                let of = joined.rows.entry(key.clone()).or_insert_with(|| {
                    joined.keys.push(key);
                    [Vec::new(), Vec::new()]
                });
                of.get_mut(place).into_iter().for_each(|of| of.push(row));
            }
        }
        joined
    }

    /// What changed in each of them.
    pub fn each<C>(self, change: impl Fn(K, RowsOfKey<'a, '_, R>) -> C) -> Vec<C> {
        let Self { keys, rows, counts } = self;
        let of = |key: K| {
            let rows = rows.get(&key)?.each_ref().map(Vec::as_slice);
            Some(change(key, RowsOfKey { rows, counts }))
        };
        keys.into_iter().filter_map(of).collect()
    }
}

impl<R> RowsOfKey<'_, '_, R> {
    /// The sum of a number, per step.
    pub fn per_step(&self, value: impl Fn(&R) -> f64) -> BeforeAfter {
        let [before, after] = self.rows;
        let [of_before, of_after] = self.counts;
        let mean = |rows: &[&R], count: f64| {
            let sum: f64 = rows.iter().map(|row| value(row)).sum();
            if rows.is_empty() { None } else { Some(sum / count) }
        };
        BeforeAfter { before: mean(before, of_before), after: mean(after, of_after) }
    }
}
