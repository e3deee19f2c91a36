//! The format of a recording: JSON lines inside zstd frames, first a [`Header`], then one [`Sample`](super::Sample) per
//! line.
//!
//! Any program that reads zstd and JSON lines can read it: `zstdcat run.tmz | jq .job.alive`.
//!
//! Between the frames are digests, in frames that such a program skips (RFC 8878, 3.1.2): what a report needs of the samples
//! since the digest before. Each ends with three numbers, little-endian: the bytes between the end of the frame before and its
//! own begin (8 bytes), its own length (4 bytes), and [`DIGEST_MARK`]. So they are found from the last one back to the first.

use serde::{Deserialize, Serialize};

/// The format version that this program writes. Fields may be added within a version.
pub const SCHEMA: u32 = 2;
/// The oldest version that it reads. A version is read for a year after the last release that wrote it: what changed is
/// undone in a file of `sources/recording`. Version 1 stored the sampler's conclusions instead of its observations.
pub const OLDEST_SCHEMA: u32 = 1;

/// Longest line, bytes without the newline, so that readers know how much room they need.
pub const LINE_MAX: usize = 8 << 20;

/// The number that begins a digest: one of those of skippable frames.
pub const DIGEST_FRAME: u32 = 0x184D_2A5D;
/// The last bytes of a digest.
pub const DIGEST_MARK: [u8; 8] = *b"tm-digst";
/// The numbers that end a digest, bytes.
pub const DIGEST_END: usize = 8 + 4 + DIGEST_MARK.len();

/// The first line of a recording.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// From [`OLDEST_SCHEMA`] to [`SCHEMA`].
    pub schema: u32,
    /// Version of the trainmon that recorded.
    pub trainmon: String,
    /// The attached PID.
    pub pid: u32,
    /// Its command line, ready to show.
    pub command: String,
    /// When watching started, RFC 3339.
    pub started: String,
    /// Requested time between two samples, seconds.
    pub interval_s: f64,
    /// GPUs named with `--gpu`, as written there; empty if trainmon chose the GPUs that the job uses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gpus: Vec<String>,
}
