//! The functions that the job's Python code spends its time in: selection and folds.

use super::{Reply, Seen};
use crate::tui::keys::Action;

/// What the page remembers.
#[derive(Debug, Clone, Default)]
pub struct Stacks {
    /// First line shown.
    pub top: usize,
}

impl Stacks {
    /// Another frame is shown, or the body has another size.
    pub fn refresh(&mut self, _seen: &Seen<'_>) {}

    /// What a key does here.
    pub fn act(&mut self, _action: Action, _seen: &Seen<'_>) -> Reply {
        Reply::Ignored
    }
}
