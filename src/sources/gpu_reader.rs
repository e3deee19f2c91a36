//! What NVML and the simulated device have in common: a blocking reader of all GPUs, and why there is nothing to read.

use std::borrow::Cow;

use thiserror::Error;

use crate::sample::SourceState;
use crate::sample::gpu::GpuSample;

/// A blocking reader of all GPUs. A call may hang with the driver: call it from a thread of its own.
pub trait GpuReader: Send {
    /// Reads all devices. `now_ns` is CLOCK_MONOTONIC in nanoseconds; the sample carries it.
    ///
    /// # Errors
    /// Only when no device at all can be read. One device that fails is a device without readings.
    fn read(&mut self, now_ns: u64) -> Result<GpuSample, GpuError>;
}

/// Why the GPUs cannot be read, in one line, and the command that mends it where there is one.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{reason}")]
pub struct GpuError {
    /// What becomes of the source.
    pub state: SourceState,
    /// What failed and why: one line.
    pub reason: String,
    /// What to run or change, if anything can be done.
    pub fix: Option<Cow<'static, str>>,
}

impl GpuError {
    /// An error without a mend. Line breaks in `reason` (texts of the loader have them) become blanks.
    pub fn new(state: SourceState, reason: impl Into<String>) -> Self {
        let mut reason: String = reason.into();
        if reason.contains(['\n', '\r']) {
            let lines = reason.split(['\n', '\r']).map(str::trim).filter(|line| !line.is_empty());
            reason = lines.collect::<Vec<_>>().join(" ");
        }
        Self { state, reason, fix: None }
    }

    /// The same error with what mends it.
    #[must_use]
    pub fn mended_by(mut self, fix: impl Into<Cow<'static, str>>) -> Self {
        self.fix = Some(fix.into());
        self
    }
}
