//! What NVML and the simulated device have in common: a blocking reader of all GPUs.

use crate::sample::{GpuSample, SourceStatus};

/// A blocking reader of all GPUs. A call may hang with the driver: call it from a thread of its own.
pub trait GpuReader: Send {
    /// Reads all devices. `now_ns` is CLOCK_MONOTONIC in nanoseconds; the sample carries it.
    ///
    /// # Errors
    /// Only when no device at all can be read: why, and what fixes it. One device that fails is a device without readings.
    fn read(&mut self, now_ns: u64) -> Result<GpuSample, SourceStatus>;
}
