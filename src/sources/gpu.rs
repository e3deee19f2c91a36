//! One face for everything that can answer "what do the GPUs do?": NVML, or the simulated device.

use std::borrow::Cow;
use std::path::Path;

use thiserror::Error;

use super::Roots;
use super::nvml::NvmlReader;
use super::simulated_device::SimulatedReader;
use crate::sample::gpu::GpuSample;

/// A blocking reader of all GPUs. A call may hang with the driver: call it from a thread of its own.
pub trait GpuReader: Send {
    /// Reads all devices. `now_ns` is CLOCK_MONOTONIC in nanoseconds; the sample carries it.
    ///
    /// # Errors
    /// Only when no device at all can be read. One device that fails is a device without readings.
    fn read(&mut self, now_ns: u64) -> Result<GpuSample, GpuError>;
}

/// What kind of failure keeps the GPUs from being read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GpuErrorKind {
    /// No library, no driver, or no device: nothing is broken, there is no GPU to see.
    Absent,
    /// There may be one, and we are not allowed to see it.
    Denied,
    /// The driver has lost the devices.
    Lost,
    /// Anything else.
    Failed,
}

/// Why the GPUs cannot be read, in one line, and the command that mends it where there is one.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{reason}")]
pub struct GpuError {
    /// Kind.
    pub kind: GpuErrorKind,
    /// What failed and why: one line.
    pub reason: String,
    /// What to run or change, if anything can be done.
    pub mend: Option<Cow<'static, str>>,
}

impl GpuError {
    /// An error without a mend. Line breaks in `reason` (texts of the loader have them) become blanks.
    pub fn new(kind: GpuErrorKind, reason: impl Into<String>) -> Self {
        let reason: String = reason.into();
        let reason = if reason.contains(['\n', '\r']) {
            reason.split(['\n', '\r']).map(str::trim).filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")
        } else {
            reason
        };
        Self { kind, reason, mend: None }
    }

    /// The same error with what mends it.
    #[must_use]
    pub fn mended_by(mut self, mend: impl Into<Cow<'static, str>>) -> Self {
        self.mend = Some(mend.into());
        self
    }
}

/// Opens the simulated device in the file `simulated` when one is given, else NVML from the library `nvml_lib`, else NVML
/// from where the loader finds it. May block for as long as the driver takes to start (seconds without persistence mode).
///
/// # Errors
/// When there is nothing to read, or it cannot be read; the kind says which.
pub fn open(nvml_lib: Option<&Path>, simulated: Option<&Path>) -> Result<Box<dyn GpuReader>, GpuError> {
    open_in(&Roots::default(), nvml_lib, simulated)
}

/// [`open`] with another /proc, which the simulated device asks whether its processes still exist.
///
/// # Errors
/// As [`open`].
pub fn open_in(
    roots: &Roots,
    nvml_lib: Option<&Path>,
    simulated: Option<&Path>,
) -> Result<Box<dyn GpuReader>, GpuError> {
    match simulated {
        Some(file) => Ok(Box::new(SimulatedReader::open(file, roots)?)),
        None => Ok(Box::new(NvmlReader::open(nvml_lib)?)),
    }
}
