//! Recent frames → verdict. Pure: no clock, no I/O; the same samples give the same verdicts.
//!
//! ```text
//! window (the last seconds in numbers) → rules (phase, class, cause) → engine (which judgement stands) → explain (words)
//! ```

pub mod causes;
mod engine;
mod explain;
mod ranks;
pub mod rules;
pub mod stacks;
mod stalls;
pub mod stats;
pub mod thresholds;
pub mod verdict;
mod what_if;
pub mod window;

pub use engine::{Context, Diagnosis, LOOK_BACK_S};
pub use verdict::Verdict;
