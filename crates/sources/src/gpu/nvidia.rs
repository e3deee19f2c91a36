//! The GPUs through NVML, the library that comes with the driver (`libnvidia-ml.so.1`).
//!
//! Nothing is taken on trust: a function that the library lacks, a reading that the GPU does not offer, and an
//! impossible value (see `plausible.rs`) all become `None`. A call to a sick GPU can hang forever, so the collector
//! gives this reader its own thread.
//!
//! Cost: slow readings are read every five seconds, and so are lists of processes unless the memory in use changes. One
//! direction of one GPU's PCIe rate is read per tick (the driver measures each for 20 ms). A reading that the GPU does
//! not offer is tried once a minute.

use std::path::Path;
use std::sync::Arc;

use nvml_wrapper::enum_wrappers::device::PcieUtilCounter;
use nvml_wrapper::error::NvmlError;

use crate::SourceOptions;
use crate::clock::unix_us;
use crate::gpu_reader::Vendor;
use device::DeviceReader;
use host::HostFiles;
use library_file::Unusable;
use raw::{Buffers, NvmlLibrary};
use trainmon_base::trust::privileged;
use trainmon_sample::{GpuReading, SourceState, SourceStatus};
use xids::XidWatch;

mod device;
mod host;
mod library_file;
mod loader;
mod processes;
mod query;
mod raw;
mod readings;
mod trial;
mod xids;

pub use trial::run_part;

/// Where NVML is searched for if no library is named: where the loader finds it, then where WSL and NixOS keep the
/// driver's files.
const LIBRARIES: [&str; 4] = [
    "libnvidia-ml.so.1",
    "libnvidia-ml.so",
    "/usr/lib/wsl/lib/libnvidia-ml.so.1",
    "/run/opengl-driver/lib/libnvidia-ml.so.1",
];
/// How to fix a named library that is not NVML.
const NAME_ANOTHER: &str = "name the driver's libnvidia-ml.so.1 with --nvml-lib, or leave the option out";
/// Whether this build cannot load libraries: `dlopen` of a static musl always fails ("Dynamic loading not supported").
const STATIC: bool = cfg!(all(target_env = "musl", target_feature = "crt-static"));
/// The file of all GPUs under WSL.
const DXG: &str = "/dev/dxg";
/// Files that exist where an NVIDIA driver is installed: the driver's README, "Device files"; the second one under WSL.
const DRIVER_FILES: [&str; 2] = ["dev/nvidiactl", "dev/dxg"];
/// Where there is one of these, there is or may be a GPU of NVIDIA's that is not on PCI: WSL's, Jetson's.
const OTHER_GPU_FILES: [&str; 4] = ["dev/nvidiactl", "dev/dxg", "dev/nvhost-gpu", "dev/nvgpu"];
/// Most GPUs read; the largest machines hold 16.
const MOST_DEVICES: u32 = 64;
/// How often slow readings, facts still missing, and lists of processes are read, nanoseconds.
const SLOW_EVERY_NS: u64 = 5_000_000_000;
/// Least time between two PCIe rates, nanoseconds.
const PCIE_EVERY_NS: u64 = 500_000_000;
/// Points are never requested further back than this, microseconds; the driver keeps about 20 s.
const FURTHEST_BACK_US: u64 = 5_000_000;

/// A blocking reader of all GPUs that NVML knows.
pub struct NvmlReader {
    // Before the library: fields are dropped in this order, and the library shuts NVML down.
    devices: Vec<DeviceReader>,
    xids: XidWatch,
    library: NvmlLibrary,
    driver: Option<Arc<str>>,
    buffers: Buffers,
    pcie_turn: usize,
    pcie_next_ns: u64,
    host: HostFiles,
    /// Under WSL, whose only file is that of all GPUs.
    dxg: Option<Arc<str>>,
}

impl Vendor for NvmlReader {
    /// Loads and initializes NVML from the library of the options, or from where the loader finds it.
    ///
    /// # Errors
    /// `Absent` without library, driver or GPU; `Denied`, `Gone` or `Hung` if there may be GPUs but none can be
    /// reached.
    fn discover(options: &SourceOptions) -> Result<Self, SourceStatus> {
        let library = load(options.nvml_lib.as_deref())?;
        let nvml = library.nvml;
        let count = nvml.device_count().map_err(|error| explain("cannot count the GPUs", &error))?;
        if count == 0 {
            return Err(SourceStatus::new(SourceState::Absent, "the NVIDIA driver lists no GPU"));
        }
        let devices: Vec<_> = (0..count.min(MOST_DEVICES)).map(|index| DeviceReader::open(nvml, index)).collect();
        let refusals: Option<Vec<_>> = devices.iter().map(DeviceReader::refusal).collect();
        if let Some(first) = refusals.as_deref().and_then(<[_]>::first) {
            return Err(explain("cannot open the GPU", first));
        }
        let driver = raw::driver_version(nvml).ok().filter(|version| !version.is_empty()).map(Arc::from);
        let host = HostFiles::new(&options.roots.proc);
        let xids = XidWatch::new(nvml, devices.len());
        let dxg = Path::new(DXG).exists().then(|| DXG.into());
        Ok(Self {
            devices,
            xids,
            library,
            driver,
            buffers: Buffers::default(),
            pcie_turn: 0,
            pcie_next_ns: 0,
            host,
            dxg,
        })
    }

    fn read(&mut self, now_ns: u64) -> Result<Vec<GpuReading>, SourceStatus> {
        let (now_us, turn) = (unix_us(), self.pcie_turn(now_ns));
        let mut readings = Vec::with_capacity(self.devices.len());
        for (position, device) in self.devices.iter_mut().enumerate() {
            device.reopen(self.library.nvml, now_ns);
            let pcie = turn.filter(|&(whose, _)| whose == position).map(|(_, direction)| direction);
            let read = device.read(now_ns, now_us, pcie, &mut self.buffers, &mut self.host);
            let files = if read.minor.is_none() { self.dxg.iter().cloned().collect() } else { Vec::new() };
            readings.push(GpuReading { files, ..read });
            if let Some(error) = device.driver_gone() {
                return Err(explain("the NVIDIA driver no longer answers", error));
            }
        }
        // Only now it is known which GPUs are divided (MIG).
        self.xids.read(&self.devices, now_ns);
        for (position, reading) in readings.iter_mut().enumerate() {
            reading.xids = self.xids.reported(position);
        }
        Ok(readings)
    }

    fn driver(&self) -> Option<Arc<str>> {
        self.driver.clone()
    }
}

impl NvmlReader {
    /// Which PCIe rate is read in this tick: (position, direction).
    fn pcie_turn(&mut self, now_ns: u64) -> Option<(usize, PcieUtilCounter)> {
        if now_ns < self.pcie_next_ns || self.devices.is_empty() {
            return None;
        }
        self.pcie_next_ns = now_ns.saturating_add(PCIE_EVERY_NS);
        let turn = self.pcie_turn;
        self.pcie_turn = self.pcie_turn.wrapping_add(1);
        let direction = if turn.is_multiple_of(2) { PcieUtilCounter::Receive } else { PcieUtilCounter::Send };
        Some(((turn / 2) % self.devices.len(), direction))
    }
}

/// Whether nothing on this machine is a GPU of NVIDIA's: neither on PCI, nor what WSL and Jetson have instead. A container sees
/// the PCI bus of its host.
fn has_no_gpu(root: &Path) -> bool {
    let Ok(entries) = std::fs::read_dir(root.join("sys/bus/pci/devices")) else { return false };
    let vendor =
        |device: std::fs::DirEntry| std::fs::read_to_string(device.path().join("vendor")).unwrap_or_default();
    let is_theirs = entries.flatten().map(vendor).any(|vendor| vendor.trim() == "0x10de");
    !is_theirs && !OTHER_GPU_FILES.iter().any(|file| root.join(file).exists())
}

/// Where there is no library. Without a GPU there is nothing to fix.
fn without_library(root: &Path) -> SourceStatus {
    if has_no_gpu(root) {
        return SourceStatus::new(SourceState::Absent, "this machine has no NVIDIA GPU");
    }
    SourceStatus::new(SourceState::Absent, "no NVIDIA driver library (libnvidia-ml.so.1) on this machine")
        .fixed_by("in a container, start it with --gpus all; elsewhere, name the library with --nvml-lib PATH")
}

/// Why a static build reads no GPU. If there is a driver this does not mean "no GPU", which a verdict would build on.
fn cannot_load(root: &Path, library: Option<&Path>) -> SourceStatus {
    if library.is_none() && !DRIVER_FILES.iter().any(|file| root.join(file).exists()) {
        if has_no_gpu(root) {
            return without_library(root);
        }
        return SourceStatus::new(SourceState::Absent, "no NVIDIA driver (/dev/nvidiactl) on this machine")
            .fixed_by("in a container, start it with --gpus all");
    }
    SourceStatus::new(
        SourceState::Denied,
        "this trainmon is linked statically, so it cannot load NVML, the driver's library",
    )
    .fixed_by("install the wheel or the .deb to see the GPU: pip install trainmon")
}

fn load(path: Option<&Path>) -> Result<NvmlLibrary, SourceStatus> {
    if STATIC {
        return Err(cannot_load(Path::new("/"), path));
    }
    if let Some(path) = path {
        let name = path.display();
        return load_from(path).map_err(|trouble| match trouble {
            Trouble::Missing => {
                let reason = format!("no NVML library at {name}");
                SourceStatus::new(SourceState::Absent, reason).fixed_by(NAME_ANOTHER)
            }
            Trouble::Unfit(error) => error.fixed_by(NAME_ANOTHER),
            Trouble::Refused(error) => explain(&format!("cannot use {name} as NVML"), &error),
        });
    }
    for name in LIBRARIES {
        match load_from(Path::new(name)) {
            Ok(library) => return Ok(library),
            // A missing library is the normal case; a file that exists but does not load is worth reporting.
            Err(Trouble::Missing) => {}
            Err(Trouble::Unfit(error)) => return Err(error),
            Err(Trouble::Refused(error)) => return Err(explain("cannot start NVML", &error)),
        }
    }
    Err(without_library(Path::new("/")))
}

/// Why a library is not used.
enum Trouble {
    /// It does not exist.
    Missing,
    /// The file cannot be loaded, or loading it hangs.
    Unfit(SourceStatus),
    /// It is loaded, but the driver refuses.
    Refused(NvmlError),
}

impl Trouble {
    fn unfit(state: SourceState, file: &Path, why: impl std::fmt::Display) -> Self {
        Self::Unfit(SourceStatus::new(state, format!("cannot use {} as NVML: {why}", file.display())))
    }

    /// The library failed its trial.
    fn failed(file: &Path, why: &trial::Failed) -> Self {
        let hangs = matches!(why, trial::Failed::Hung);
        Self::unfit(if hangs { SourceState::Hung } else { SourceState::Gone }, file, why)
    }

    /// The file at `path`, which the loader got as `given`, did not load, or the driver refused.
    fn of_loader(error: NvmlError, path: &Path, given: &Path) -> Self {
        match error {
            NvmlError::LibloadingError(_) | NvmlError::FailedToLoadSymbol(_) => {
                let why = error.to_string().replace(&format!("{}: ", given.display()), "");
                Self::unfit(SourceState::Gone, path, why)
            }
            error => Self::Refused(error),
        }
    }
}

/// Loads a library by its path, or by a name for the loader to find. The file used is the file that was checked.
fn load_from(path: &Path) -> Result<NvmlLibrary, Trouble> {
    let is_name = path.components().count() == 1;
    let (named, of_system) = if is_name { loader::places(path) } else { (vec![path.to_path_buf()], Vec::new()) };
    let named = named.into_iter().map(|place| (place, privileged()));
    for (place, by_trusted_only) in named.chain(of_system.into_iter().map(|place| (place, false))) {
        match library_file::open(&place, by_trusted_only) {
            Ok(file) => {
                trial::load(Ok(&file)).map_err(|why| Trouble::failed(&place, &why))?;
                let given = library_file::loader_path(&file);
                return NvmlLibrary::open(given.as_os_str())
                    .map_err(|error| Trouble::of_loader(error, &place, &given));
            }
            Err(Unusable::Missing) => {}
            // The loader skips it too.
            Err(Unusable::OtherMachine) if is_name => {}
            Err(why) => return Err(Trouble::unfit(SourceState::Gone, &place, why)),
        }
    }
    if !is_name {
        return Err(Trouble::Missing);
    }
    // It is in a folder that only the loader knows, if anywhere.
    trial::load(Err(path)).map_err(|why| Trouble::failed(path, &why))?;
    NvmlLibrary::open(path.as_os_str()).map_err(|error| match &error {
        NvmlError::LibloadingError(why) if why.to_string().contains("No such file") => Trouble::Missing,
        _ => Trouble::of_loader(error, path, path),
    })
}

/// An NVML error in one line, with what it means for the source and how to fix it.
fn explain(what: &str, error: &NvmlError) -> SourceStatus {
    use SourceState::{Absent, Denied, Gone};
    let (state, fix) = match error {
        NvmlError::DriverNotLoaded => (Absent, Some("sudo modprobe nvidia")),
        NvmlError::NotFound => (Absent, None),
        NvmlError::NoPermission | NvmlError::OperatingSystem => {
            (Denied, Some("run as a user who may read /dev/nvidiactl and /dev/nvidia0"))
        }
        NvmlError::GpuLost => (Gone, Some("reboot, or reset the GPU: sudo nvidia-smi --gpu-reset")),
        NvmlError::ResetRequired => (Gone, Some("sudo nvidia-smi --gpu-reset")),
        // The answer to a library that did initialize, once the driver was unloaded.
        NvmlError::Uninitialized => {
            (Gone, Some("sudo modprobe nvidia (the driver was unloaded or is being replaced)"))
        }
        NvmlError::LibRmVersionMismatch => (Gone, Some("reboot: the driver was updated while it was in use")),
        _ => (Gone, None),
    };
    SourceStatus { fix: fix.map(Into::into), ..SourceStatus::new(state, format!("{what}: {error}")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_without_a_gpu_has_nothing_to_fix() {
        let root = tempfile::tempdir().unwrap();
        let device = root.path().join("sys/bus/pci/devices/0000:00:02.0");
        // Nothing is known of its devices.
        assert!(without_library(root.path()).fix.is_some());
        std::fs::create_dir_all(&device).unwrap();
        std::fs::write(device.join("vendor"), "0x1af4\n").unwrap();
        let status = without_library(root.path());
        assert_eq!(status.reason.as_deref(), Some("this machine has no NVIDIA GPU"));
        assert_eq!((status.state, status.fix), (SourceState::Absent, None));
        std::fs::create_dir(root.path().join("dev")).unwrap();
        std::fs::write(root.path().join("dev/nvhost-gpu"), "").unwrap();
        assert!(without_library(root.path()).fix.is_some());
        std::fs::remove_file(root.path().join("dev/nvhost-gpu")).unwrap();
        std::fs::write(device.join("vendor"), "0x10de\n").unwrap();
        assert!(without_library(root.path()).fix.is_some());
    }

    #[test]
    fn a_static_program_never_takes_a_driver_for_none() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(cannot_load(root.path(), None).state, SourceState::Absent);
        assert_eq!(cannot_load(root.path(), Some(Path::new("libnvidia-ml.so.1"))).state, SourceState::Denied);
        std::fs::create_dir(root.path().join("dev")).unwrap();
        std::fs::write(root.path().join("dev/nvidiactl"), "").unwrap();
        let error = cannot_load(root.path(), None);
        assert_eq!(error.state, SourceState::Denied);
        assert!(error.to_string().contains("linked statically") && error.fix.is_some(), "{error}");
    }
}
