//! Both accounts, and what their numbers are divided by.

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
