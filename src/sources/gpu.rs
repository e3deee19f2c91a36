//! Opens whatever can answer "what do the GPUs do?": NVML, or the simulated device.

use std::path::Path;

use super::Roots;
pub use super::gpu_reader::{GpuError, GpuReader};
use super::nvml::NvmlReader;
pub use super::nvml::run_part;
use super::simulated_device::SimulatedReader;

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
