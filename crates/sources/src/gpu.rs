//! Opens the source of GPU readings: NVML or the simulated GPU.

use std::path::Path;

pub use super::gpu_reader::GpuReader;
use super::nvml::NvmlReader;
pub use super::nvml::run_part;
use super::simulated_gpu::SimulatedReader;
use super::{Ask, AskedSource, Roots, SourceOptions};
use trainmon_sample::{GpuSample, SourceState, SourceStatus};

/// Opens the simulated GPU in the file `simulated` if given, else NVML from the library `nvml_lib`, else NVML from
/// where the loader finds it. May block while the driver starts (seconds without persistence mode).
///
/// # Errors
/// If there is nothing to read, or it cannot be read; the state says which.
pub fn open(nvml_lib: Option<&Path>, simulated: Option<&Path>) -> Result<Box<dyn GpuReader>, SourceStatus> {
    open_in(&Roots::default(), nvml_lib, simulated)
}

/// Like [`open`], with another /proc in which the simulated GPU looks up its processes.
///
/// # Errors
/// Same as [`open`].
pub(crate) fn open_in(
    roots: &Roots,
    nvml_lib: Option<&Path>,
    simulated: Option<&Path>,
) -> Result<Box<dyn GpuReader>, SourceStatus> {
    match simulated {
        Some(file) => Ok(Box::new(SimulatedReader::open(file, roots)?)),
        None => Ok(Box::new(NvmlReader::open(nvml_lib)?)),
    }
}

/// The state of a driver that has not answered for so many seconds, and what to do about it.
pub fn hangs(seconds: u64) -> SourceStatus {
    let reason = format!("NVML hangs: the NVIDIA driver has not answered for {seconds} s");
    let sudo = if rustix::process::geteuid().is_root() { "" } else { "sudo " };
    SourceStatus::new(SourceState::Hung, reason)
        .fixed_by(format!("if nvidia-smi hangs, too, look for Xid errors ({sudo}dmesg | grep -i xid) and reboot"))
}

impl AskedSource for Box<dyn GpuReader> {
    type Value = GpuSample;
    const THREAD: &'static str = "tm-gpu";
    const WITH_RIGHTS: bool = false; // NVML is a library

    fn open(options: &SourceOptions) -> Result<Self, SourceStatus> {
        let SourceOptions { roots, nvml_lib, simulated_gpu } = options;
        open_in(roots, nvml_lib.as_deref(), simulated_gpu.as_deref())
    }

    fn read(&mut self, ask: &Ask) -> Result<GpuSample, SourceStatus> {
        GpuReader::read(&mut **self, ask.now_ns)
    }
}
