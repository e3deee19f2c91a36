//! Reads the GPUs of all vendors, or the simulated GPU.
//!
//! A vendor is a file and a folder here and a line in [`VENDORS`]: docs/architecture.md, "Add a vendor of GPUs".

use std::sync::Arc;

use amd::AmdGpus;
use drm::DrmGpus;
use nvidia::NvmlReader;
use trainmon_sample::{GpuReading, GpuSample, SourceState, SourceStatus};

use super::clock::monotonic_ns;
pub use super::gpu_reader::GpuReader;
use super::gpu_reader::Vendor;
use super::simulated_gpu::SimulatedReader;
use super::{Ask, AskedSource, SourceOptions};
pub use nvidia::run_part;

mod amd;
mod drm;
mod nvidia;
mod plausible;

type Discover = fn(&SourceOptions) -> Result<Box<dyn Vendor>, SourceStatus>;

/// In the order in which their GPUs are numbered.
const VENDORS: [Discover; 3] = [discover::<NvmlReader>, discover::<AmdGpus>, discover::<DrmGpus>];

fn discover<V: Vendor + 'static>(options: &SourceOptions) -> Result<Box<dyn Vendor>, SourceStatus> {
    Ok(Box::new(V::discover(options)?))
}

/// Opens the simulated GPU if the options name one, else the GPUs of all vendors. May block while a driver starts (seconds
/// with NVIDIA's without persistence mode).
///
/// # Errors
/// If there is nothing to read, or a vendor's GPUs cannot be read; the state says which. If one vendor's cannot be read, the others'
/// are not read either: a job that uses the first would seem to use none.
pub fn open(options: &SourceOptions) -> Result<Box<dyn GpuReader>, SourceStatus> {
    if let Some(file) = &options.simulated_gpu {
        return Ok(Box::new(SimulatedReader::open(file, &options.roots)?));
    }
    let (mut vendors, mut none) = (Vec::new(), None);
    for discover in VENDORS {
        match discover(options) {
            Ok(vendor) => vendors.push(vendor),
            Err(status) if status.state == SourceState::Absent => none = none.or(Some(status)),
            Err(status) => return Err(status),
        }
    }
    let mut all = AllGpus { vendors };
    let Some(status) = none else { return Ok(Box::new(all)) };
    // Beside a GPU that draws the screen, one to compute on that could be read after a fix is what counts.
    let only_displays = |all: &mut AllGpus| {
        let read = all.read(monotonic_ns()).unwrap_or_default();
        read.devices.iter().all(|gpu| gpu.for_display)
    };
    if all.vendors.is_empty() || status.fix.is_some() && only_displays(&mut all) {
        return Err(status);
    }
    Ok(Box::new(all))
}

/// The GPUs of all vendors.
struct AllGpus {
    vendors: Vec<Box<dyn Vendor>>,
}

impl GpuReader for AllGpus {
    fn read(&mut self, now_ns: u64) -> Result<GpuSample, SourceStatus> {
        let mut devices: Vec<GpuReading> = Vec::new();
        for vendor in &mut self.vendors {
            let before = u32::try_from(devices.len()).unwrap_or(u32::MAX);
            let read = vendor.read(now_ns)?;
            devices.extend(read.into_iter().map(|gpu| GpuReading { index: gpu.index.saturating_add(before), ..gpu }));
        }
        let drivers: Vec<Arc<str>> = self.vendors.iter().filter_map(|vendor| vendor.driver()).collect();
        let driver = (!drivers.is_empty()).then(|| drivers.join(", ").into());
        Ok(GpuSample { monotonic_ns: now_ns, driver, simulated: false, devices })
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
        open(options)
    }

    fn read(&mut self, ask: &Ask) -> Result<GpuSample, SourceStatus> {
        GpuReader::read(&mut **self, ask.now_ns)
    }
}
