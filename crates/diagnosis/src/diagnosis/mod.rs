//! Recent frames → verdict. Pure, without a clock or I/O: the same samples give the same verdicts. It knows frames, but
//! neither their source nor how a verdict is shown.
//!
//! ```text
//! features (the last seconds in numbers) → causes/ (a file each) → decision (their order) → stability (which judgment is
//! shown) → compose and summary (the words), culprits (the names) → verdict
//! ```

mod account;
mod advice;
mod calibration;
pub mod causes;
mod ceiling;
pub mod chain;
mod class;
mod clean;
mod code;
mod compose;
pub mod counter_evidence;
pub mod culprits;
mod decision;
mod evidence;
mod features;
mod job;
mod load;
pub mod loop_parts;
pub mod loop_time;
mod mix;
mod named_waits;
mod parts;
mod phases;
mod place;
pub mod plan;
pub mod profiled;
pub mod ranks;
mod requests;
mod restarts;
mod rhythm;
mod shown_place;
mod signals;
mod stability;
mod stalls;
mod subject;
mod summary;
mod thresholds;
pub mod verdict;
mod visibility;
mod what_if;
mod windows;

pub use signals::{Side, Signal};
pub use stability::{Diagnosis, LOOK_BACK_S};
pub use verdict::{Context, Verdict};
