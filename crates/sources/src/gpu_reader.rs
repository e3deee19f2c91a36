//! What NVML and the simulated GPU have in common: a blocking reader of all GPUs.

use trainmon_sample::{GpuSample, SourceStatus};

/// A blocking reader of all GPUs. A call may hang in the driver, so call it on a thread of its own.
pub trait GpuReader: Send {
    /// Reads all GPUs. `now_ns` is CLOCK_MONOTONIC in nanoseconds; the sample carries it.
    ///
    /// # Errors
    /// Only if no GPU at all can be read: why, and how to fix it. A single GPU that fails has no readings.
    fn read(&mut self, now_ns: u64) -> Result<GpuSample, SourceStatus>;
}
