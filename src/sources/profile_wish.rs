//! What a profile of a running job is to record.

use std::time::Duration;

/// What is recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProfileWindow {
    /// So long.
    For(Duration),
    /// So many steps of the optimizer.
    Steps(u32),
}

/// A wish for a profile.
#[derive(Debug, Clone, Copy)]
pub struct ProfileWish {
    /// What is recorded.
    pub window: ProfileWindow,
    /// Python's functions as well. They slow the window down.
    pub stacks: bool,
}
