//! Reads the GPUs of all vendors, or the simulated GPU.
//!
//! A vendor is a file and a folder here and a line in [`VENDORS`]: docs/architecture.md, "Add a vendor of GPUs".

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

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
mod uevent;

/// A vendor, or whoever writes a standard.
struct VendorEntry {
    discover: fn(&SourceOptions) -> Result<Box<dyn Vendor>, SourceStatus>,
    /// What does not answer if a call hangs.
    asks: &'static str,
    /// What to do then, up to the words that look into the kernel's log.
    if_it_hangs: &'static str,
    /// What the kernel's log then holds.
    logs: &'static str,
}

/// In the order in which their GPUs are numbered.
static VENDORS: [VendorEntry; 3] = [
    VendorEntry {
        discover: discover::<NvmlReader>,
        asks: "NVML hangs: the NVIDIA driver",
        if_it_hangs: "if nvidia-smi hangs, too, look for Xid errors",
        logs: "xid",
    },
    VendorEntry {
        discover: discover::<AmdGpus>,
        asks: "the AMD driver (amdgpu)",
        if_it_hangs: "if rocm-smi hangs, too, look for errors of the GPU",
        logs: "amdgpu",
    },
    VendorEntry {
        discover: discover::<DrmGpus>,
        asks: "a GPU's driver",
        if_it_hangs: "look for errors of the GPU",
        logs: "drm",
    },
];

/// Which of them is being asked.
static DRIVER_ASKED: AtomicUsize = AtomicUsize::new(0);

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
    for (place, entry) in VENDORS.iter().enumerate() {
        DRIVER_ASKED.store(place, Ordering::Relaxed);
        match (entry.discover)(options) {
            Ok(vendor) => vendors.push((place, vendor)),
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
    /// With their places in [`VENDORS`].
    vendors: Vec<(usize, Box<dyn Vendor>)>,
}

impl GpuReader for AllGpus {
    fn read(&mut self, now_ns: u64) -> Result<GpuSample, SourceStatus> {
        let mut devices: Vec<GpuReading> = Vec::new();
        for (place, vendor) in &mut self.vendors {
            DRIVER_ASKED.store(*place, Ordering::Relaxed);
            let before = u32::try_from(devices.len()).unwrap_or(u32::MAX);
            let read = vendor.read(now_ns)?;
            devices.extend(read.into_iter().map(|gpu| GpuReading { index: gpu.index.saturating_add(before), ..gpu }));
        }
        let drivers: Vec<Arc<str>> = self.vendors.iter().filter_map(|(_, vendor)| vendor.driver()).collect();
        let driver = (!drivers.is_empty()).then(|| drivers.join(", ").into());
        Ok(GpuSample { monotonic_ns: now_ns, driver, simulated: false, devices })
    }
}

/// The state of the driver that is asked and has not answered for so many seconds, and what to do about it.
pub fn hangs(seconds: u64) -> SourceStatus {
    let [first, ..] = &VENDORS;
    VENDORS.get(DRIVER_ASKED.load(Ordering::Relaxed)).unwrap_or(first).hangs(seconds)
}

impl VendorEntry {
    fn hangs(&self, seconds: u64) -> SourceStatus {
        let Self { asks, if_it_hangs, logs, .. } = self;
        let sudo = if rustix::process::geteuid().is_root() { "" } else { "sudo " };
        SourceStatus::new(SourceState::Hung, format!("{asks} has not answered for {seconds} s"))
            .fixed_by(format!("{if_it_hangs} ({sudo}dmesg | grep -i {logs}) and reboot"))
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hang_names_the_driver_that_is_asked() {
        let said =
            VENDORS.each_ref().map(|vendor| vendor.hangs(3)).map(|status| (status.to_string(), status.fix.unwrap()));
        let [(nvidia, nvidia_fix), (amd, amd_fix), (_, fix)] = said;
        assert_eq!(nvidia, "NVML hangs: the NVIDIA driver has not answered for 3 s");
        assert!(nvidia_fix.contains("nvidia-smi") && nvidia_fix.contains("grep -i xid) and reboot"), "{nvidia_fix}");
        assert_eq!(amd, "the AMD driver (amdgpu) has not answered for 3 s");
        assert!(amd_fix.contains("grep -i amdgpu) and reboot") && fix.contains("grep -i drm"), "{amd_fix} {fix}");
    }
}
