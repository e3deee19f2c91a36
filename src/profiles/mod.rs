//! What ran inside the GPU: a profiler's trace → its exact account.
//!
//! A trace is exact to a nanosecond, and milliseconds to minutes long. Its events become spans of the host's threads and of the
//! GPU's streams on one clock, and these become the account: where each share of the window went. All of it is pure and in bounded
//! memory. What does not belong here: opening files, and any judgment. `diagnosis` judges the account.

mod build;
mod copies;
pub mod course;
pub mod efficiency;
mod event;
mod gpu_time;
mod host_time;
mod idle_rows;
mod intervals;
pub mod json;
pub mod kernel_names;
mod kernels;
mod names;
mod operators;
mod places;
mod roofline;
mod scope;
mod spans;
mod syncs;
mod threads;
mod timeline;

use std::io::{self, Read};

pub use crate::sample::profile_account as account;
use account::ProfileAccount;
use course::Course;
pub use idle_rows::NOTHING as NOTHING_RECORDED;
use timeline::TraceTimeline;

/// Why a file has no account, in one line each.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    /// It cannot be read.
    #[error("{0}")]
    Read(#[from] io::Error),
    /// It is no trace.
    #[error("not a trace of torch.profiler: it has no list of `traceEvents`")]
    NoTrace,
    /// It is one, and nothing in it lasts.
    #[error(
        "the trace has no operator and no kernel: record some steps with `with torch.profiler.profile() as prof`, then \
         `prof.export_chrome_trace(\"trace.json\")`"
    )]
    Nothing,
}

/// Reads a trace: JSON that is not packed.
///
/// # Errors
/// It cannot be read, or there is nothing in it.
pub fn read(input: impl Read) -> Result<ProfileAccount, ProfileError> {
    build::account(&timeline_of(input)?).ok_or(ProfileError::Nothing)
}

/// Reads a trace, and divides it into intervals beside its account.
///
/// # Errors
/// As [`read`].
pub fn read_course(input: impl Read) -> Result<Course, ProfileError> {
    let timeline = timeline_of(input)?;
    let account = build::account(&timeline).ok_or(ProfileError::Nothing)?;
    Course::new(timeline, account).ok_or(ProfileError::Nothing)
}

fn timeline_of(input: impl Read) -> Result<TraceTimeline, ProfileError> {
    let mut timeline = TraceTimeline::default();
    timeline.end = json::read_trace(input, &mut timeline)?;
    if timeline.end.lists == 0 {
        return Err(ProfileError::NoTrace);
    }
    timeline.finish();
    Ok(timeline)
}
