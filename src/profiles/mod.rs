//! What ran inside the GPU: a profiler's trace → its exact account.
//!
//! A trace is exact to a nanosecond, and milliseconds to minutes long. Its events become spans of the host's threads and of the
//! GPU's streams on one clock, and these become the account: where each share of the window went. All of it is pure and in bounded
//! memory. What does not belong here: opening files, and any judgment. `diagnosis` judges the account.

pub mod account;
pub mod asked;
mod build;
pub mod calls;
pub mod comparison;
mod copies;
pub mod course;
mod deeds;
mod drawing;
pub mod drawn;
pub mod efficiency;
mod event;
mod gaps;
mod gpu_time;
mod host_time;
mod idle_rows;
mod intervals;
pub mod json;
pub mod kernel_names;
mod kernels;
mod names;
mod operators;
mod packed_lane;
mod parts;
mod places;
pub mod ranks;
pub mod ranks_account;
mod roofline;
mod scope;
mod slice_label;
mod spans;
mod syncs;
mod threads;
pub mod timeline;

use std::io::{self, Read};

use account::ProfileAccount;
use course::Course;
pub use idle_rows::NOTHING as NOTHING_RECORDED;
pub use names::{blocks, is_of_standard_library};
use parts::AccountParts;
use ranks::trace::RankTrace;
pub use slice_label::NO_OPERATOR;
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
    /// It is of another profiler.
    #[error("{0}")]
    OtherFormat(&'static str),
    /// It is one, and nothing in it lasts.
    #[error(
        "the trace has no operator and no kernel: record some steps with `with torch.profiler.profile() as prof`, then \
         `prof.export_chrome_trace(\"trace.json\")`"
    )]
    Nothing,
    /// The profiler ran in a thread that does nothing.
    #[error(
        "the profiler recorded no operator and no kernel: torch records only the thread that starts it, so start it in the thread \
         that runs the model"
    )]
    NothingInThread,
}

/// Longest trace, bytes of JSON: an hour of a large job has less. What follows is left out.
const LENGTH_MAX: u64 = 4 << 30;

/// Files of others, by a key that they have, and what makes a file that can be read.
const OTHERS: [(&str, &str); 3] = [
    (
        "rocprofiler-sdk-tool",
        "a file of rocprof, which has nothing of the host: record with torch.profiler, or make a readable file with \
         `rocprofv3 --output-format pftrace` for Perfetto",
    ),
    (
        "nodes",
        "an execution trace of torch, which has no times: record with torch.profiler and `prof.export_chrome_trace(\"trace.json\")`",
    ),
    (
        "resourceSpans",
        "a trace of OpenTelemetry: record with torch.profiler and `prof.export_chrome_trace(\"trace.json\")`",
    ),
];

/// How a file begins that is no JSON, and what it is then: protocol buffers of XLA's profiler begin with the first field of `XSpace`,
/// its planes (tsl/profiler/protobuf/xplane.proto).
pub fn other_format(head: &[u8], name: &str) -> Option<ProfileError> {
    let planes = head.first() == Some(&0x0a) && name.contains("xplane");
    planes.then_some(ProfileError::OtherFormat(
        "a profile of XLA, as JAX and TensorFlow write it: trainmon does not read these; `xprof --port 6006 FOLDER` shows it",
    ))
}

/// Reads a trace: JSON that is not packed.
///
/// # Errors
/// It cannot be read, or there is nothing in it.
pub fn read(input: impl Read) -> Result<ProfileAccount, ProfileError> {
    let timeline = timeline(input)?;
    Ok(build::account(&parts_of(&timeline)?))
}

/// Reads a trace, and divides it into intervals beside its account.
///
/// # Errors
/// As [`read`].
pub fn read_course(input: impl Read) -> Result<Course, ProfileError> {
    let timeline = timeline(input)?;
    let parts = parts_of(&timeline)?;
    let course = Course::new(&parts, build::account(&parts));
    Ok(Course { names: timeline.names, ..course })
}

/// Reads a trace that is one of several ranks of a run: its account, and what is compared with the other ranks.
///
/// # Errors
/// As [`read`].
pub fn read_rank(input: impl Read) -> Result<RankTrace, ProfileError> {
    let timeline = timeline(input)?;
    let parts = parts_of(&timeline)?;
    Ok(RankTrace::new(&parts, build::account(&parts)))
}

/// What the account of a trace is computed from.
fn parts_of(timeline: &TraceTimeline) -> Result<AccountParts<'_>, ProfileError> {
    // What was lost was perhaps recorded.
    let is_whole = timeline.end.damaged + timeline.untimed == 0 && !timeline.end.cut_off;
    let nothing = if timeline.of_torch && is_whole { ProfileError::NothingInThread } else { ProfileError::Nothing };
    AccountParts::new(timeline).ok_or(nothing)
}

/// Reads the spans of a trace.
///
/// # Errors
/// It cannot be read, or it is no trace.
pub fn timeline(input: impl Read) -> Result<TraceTimeline, ProfileError> {
    let mut timeline = TraceTimeline::default();
    timeline.end = json::read_trace(input.take(LENGTH_MAX), &mut timeline)?;
    if timeline.end.lists == 0 {
        return Err(OTHERS
            .iter()
            .find(|(key, _)| timeline.has_key(key))
            .map_or(ProfileError::NoTrace, |(_, why)| ProfileError::OtherFormat(why)));
    }
    timeline.finish();
    Ok(timeline)
}

#[cfg(test)]
#[path = "damaged_tests.rs"]
mod tests;
