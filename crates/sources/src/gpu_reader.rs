//! What all sources of GPU readings have in common.

use std::sync::Arc;

use trainmon_sample::{GpuReading, GpuSample, SourceStatus};

use super::SourceOptions;

/// A blocking reader of all GPUs. A call may hang in the driver, so call it on a thread of its own.
pub trait GpuReader: Send {
    /// Reads all GPUs. `now_ns` is CLOCK_MONOTONIC in nanoseconds; the sample carries it.
    ///
    /// # Errors
    /// Only if no GPU at all can be read: why, and how to fix it. A single GPU that fails has no readings.
    fn read(&mut self, now_ns: u64) -> Result<GpuSample, SourceStatus>;
}

/// The GPUs of one vendor. What is special about it stays in its folder: the rest of the program knows only readings.
pub trait Vendor: Send {
    /// Finds the vendor's GPUs. May block while a driver starts.
    ///
    /// # Errors
    /// `Absent` if the machine has none of them, or no driver; anything else if there are some that cannot be read.
    fn discover(options: &SourceOptions) -> Result<Self, SourceStatus>
    where
        Self: Sized;

    /// Reads each of them once, with its processes, always in the same order. Their `index` counts from 0 in the order of the
    /// vendor's own tools. `now_ns` is CLOCK_MONOTONIC in nanoseconds.
    ///
    /// # Errors
    /// Only if none of them can be read any more.
    fn read(&mut self, now_ns: u64) -> Result<Vec<GpuReading>, SourceStatus>;

    /// The driver's version.
    fn driver(&self) -> Option<Arc<str>>;
}
