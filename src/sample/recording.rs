//! The shape of a recording: JSON lines inside zstd frames, a [`Header`] first, then one [`Sample`](super::Sample) a line.
//!
//! Anything that reads zstd and JSON lines reads it: `zstdcat run.tmz | jq .job.alive`.

use serde::{Deserialize, Serialize};

/// Version of the shape that this program writes, and the only one that it reads. Fields may be added within one. Version 1
/// held what the sampler made of its observations instead of these.
pub const SCHEMA: u32 = 2;

/// No line is longer than this, bytes without the line end: whoever reads one needs no more room than that.
pub const LINE_MAX: usize = 8 << 20;

/// The first line of a recording.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// [`SCHEMA`].
    pub schema: u32,
    /// Version of the trainmon that recorded.
    pub trainmon: String,
    /// The attached PID.
    pub pid: u32,
    /// Its command line, ready to show.
    pub command: String,
    /// When watching began, RFC 3339.
    pub started: String,
    /// Time asked for between two samples, seconds.
    pub interval_s: f64,
    /// Devices named with `--gpu`, as written there; empty where the choice was left to what the job is seen to use.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gpus: Vec<String>,
}
