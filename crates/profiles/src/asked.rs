//! A profile that a running job is asked for: what is recorded, how far it is, and the side that asks.

use std::fmt;
use std::time::Duration;

use trainmon_base::text::format::{duration, precise};

/// What is recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProfileWindow {
    /// So long.
    For(Duration),
    /// So many steps of the optimizer.
    Steps(u32),
}

/// Half a second.
impl Default for ProfileWindow {
    fn default() -> Self {
        Self::For(Duration::from_millis(500))
    }
}

/// As in `recording 0.5 s`.
impl fmt::Display for ProfileWindow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::For(length) => write!(f, "{} s", precise(length.as_secs_f64())),
            Self::Steps(1) => f.write_str("1 step"),
            Self::Steps(steps) => write!(f, "{steps} steps"),
        }
    }
}

/// How far a profile is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProfileStage {
    /// The job is asked, for so long at most.
    Asking(Duration),
    /// The job records.
    Recording(ProfileWindow),
    /// The job has been writing its trace for so many whole seconds.
    Writing(u64),
    /// trainmon reads the trace.
    Reading,
}

/// In a few words, for a line that is written anew with each stage.
impl fmt::Display for ProfileStage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Asking(at_most) => write!(f, "asking the job (up to {})", duration(at_most.as_secs_f64())),
            Self::Recording(window) => write!(f, "recording {window}"),
            Self::Writing(seconds) => write!(f, "the job writes its trace ({})", duration(*seconds as f64)),
            Self::Reading => f.write_str("reading the trace"),
        }
    }
}

/// The side that wants a profile. A closure says whether to go on, and does not hear how far it is.
pub trait ProfileAsker {
    /// Whether it is still wanted.
    fn wanted(&self) -> bool;

    /// Hears how far it is, again and again, also while the stage stays the same.
    fn reached(&self, _stage: ProfileStage) {}
}

impl<F: Fn() -> bool> ProfileAsker for F {
    fn wanted(&self) -> bool {
        self()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stage_is_told_in_a_few_words() {
        let told = |stage: ProfileStage| stage.to_string();
        assert_eq!(told(ProfileStage::Asking(Duration::from_secs(12))), "asking the job (up to 12 s)");
        assert_eq!(told(ProfileStage::Recording(ProfileWindow::default())), "recording 0.5 s");
        assert_eq!(told(ProfileStage::Recording(ProfileWindow::Steps(3))), "recording 3 steps");
        assert_eq!(told(ProfileStage::Writing(8)), "the job writes its trace (8 s)");
        assert_eq!(told(ProfileStage::Writing(75)), "the job writes its trace (1m15s)");
        assert_eq!(told(ProfileStage::Reading), "reading the trace");
    }
}
