//! The parts of a frame that differences of counters make: rates and shares of one interval.
//!
//! `None` means not measured: no previous sample, a counter that went backwards, or a source that is missing.
//!
//! Long because it is only a list: the fields of a frame's parts, one plain struct after another.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use trainmon_sample::{GpuProcess, MountKind, ProcessId, ProcessRole, ProgressBar};

/// The job as a whole.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct JobRates {
    /// CPU use, percent of one CPU.
    pub cpu_pct: Option<f64>,
    /// Share of the job's runnable time spent queueing for a CPU, 0–1.
    pub run_delay_share: Option<f64>,
    /// Number of CPUs that the job may use.
    pub cpus_allowed: Option<u32>,
    /// Physical cores behind those CPUs: hardware threads of one core count once.
    pub cores_allowed: Option<u32>,
    /// CFS quota in CPUs, if set.
    pub cpu_quota_cores: Option<f64>,
    /// Share of enforcement periods in which the cgroup was throttled, 0–1.
    pub throttled_share: Option<f64>,
    /// Sum of resident sets, bytes.
    pub rss_bytes: Option<u64>,
    /// Memory of the job with shared pages counted once, bytes, as of the last readings of its processes; only where jobs are
    /// followed for days.
    #[serde(default)]
    pub pss_bytes: Option<u64>,
    /// The last progress bar in the job's output, if that is a file; only where jobs are followed for days.
    #[serde(default)]
    pub progress: Option<ProgressBar>,
    /// Bytes per second fetched from storage.
    pub read_bytes_per_s: Option<f64>,
    /// Bytes per second sent to storage.
    pub write_bytes_per_s: Option<f64>,
    /// Bytes per second through read calls, page cache hits included.
    pub read_chars_per_s: Option<f64>,
    /// Bytes per second through write calls.
    pub write_chars_per_s: Option<f64>,
    /// Read calls per second.
    pub read_calls_per_s: Option<f64>,
    /// Page faults served from storage, per second.
    pub major_faults_per_s: Option<f64>,
    /// The cgroup is frozen, as by `docker pause`.
    pub frozen: bool,
    /// The command that thaws it, if known.
    pub thaw: Option<Arc<str>>,
    /// Memory limit of the cgroup, bytes.
    pub memory_limit_bytes: Option<u64>,
    /// Memory charged to the cgroup, bytes.
    pub memory_cgroup_bytes: Option<u64>,
    /// File pages of the cgroup read again soon after eviction, per second.
    pub refaults_per_s: Option<f64>,
    /// Read limits on the cgroup: bytes per second, operations per second.
    pub io_read_limit: (Option<u64>, Option<u64>),
    /// Threads of the job that were on a CPU or queueing for at least a tenth of the interval: the measure for more
    /// runnable threads than CPUs.
    pub active_threads: Option<u32>,
    /// A machine-learning library that the job has mapped.
    pub library: Option<Arc<str>>,
    /// Device files of accelerators that the job uses and trainmon cannot read.
    #[serde(default)]
    pub accelerators: Vec<Arc<str>>,
    /// Number of threads.
    pub thread_count: u32,
    /// Seconds since the target started.
    pub age_s: Option<f64>,
}

/// One process of the job, for the table.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct ProcessRates {
    /// Which process.
    pub id: ProcessId,
    /// Parent PID.
    pub parent: u32,
    /// Role.
    pub role: ProcessRole,
    /// Command line, raw: sanitize before showing.
    pub command: Arc<str>,
    /// `comm`, raw.
    pub comm: Arc<str>,
    /// Owner.
    pub uid: Option<u32>,
    /// Nice value, −20 (most favorable) to 19.
    pub nice: Option<i32>,
    /// State letter.
    pub state: char,
    /// CPU use, percent of one CPU.
    pub cpu_pct: Option<f64>,
    /// CPU time since its start, seconds.
    pub cpu_time_s: Option<f64>,
    /// Share of runnable time spent queueing, 0–1.
    pub run_delay_share: Option<f64>,
    /// Resident set, bytes.
    pub rss_bytes: u64,
    /// Bytes per second through read calls, page cache hits included.
    pub read_chars_per_s: Option<f64>,
    /// Bytes per second fetched from storage.
    pub read_bytes_per_s: Option<f64>,
    /// Bytes per second sent to storage.
    pub write_bytes_per_s: Option<f64>,
    /// Page faults served from memory, per second.
    pub minor_faults_per_s: Option<f64>,
    /// Page faults served from storage, per second.
    pub major_faults_per_s: Option<f64>,
    /// Threads.
    pub threads: u32,
    /// GPU memory held, bytes, over all GPUs.
    pub gpu_memory_bytes: Option<u64>,
}

/// The host in the interval.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct HostRates {
    /// Use of each CPU, percent, with its number.
    pub cpus: Vec<CpuRates>,
    /// Use of the CPUs that the job may run on, percent of all of them.
    pub allowed_cpu_pct: Option<f64>,
    /// CPU use of everything outside the job on the allowed CPUs, percent of one CPU.
    pub others_cpu_pct: Option<f64>,
    /// Share of the allowed CPUs' time taken by the hypervisor, percent.
    pub steal_pct: Option<f64>,
    /// Load averages.
    pub load: Option<[f32; 3]>,
    /// Memory in use (total minus available), bytes.
    pub memory_used_bytes: Option<u64>,
    /// Memory available, bytes.
    pub memory_available_bytes: Option<u64>,
    /// Memory fitted, bytes.
    pub memory_total_bytes: Option<u64>,
    /// Pages swapped in per second.
    pub swap_in_per_s: Option<f64>,
    /// File pages read again soon after eviction, per second.
    pub refaults_per_s: Option<f64>,
    /// PSI: percent of the interval in which some task waited for a CPU.
    pub psi_cpu_some_pct: Option<f64>,
    /// PSI: percent in which some task waited for I/O.
    pub psi_io_some_pct: Option<f64>,
    /// PSI: percent in which some task waited for memory.
    pub psi_memory_some_pct: Option<f64>,
    /// Bytes per second received on all interfaces except loopback.
    pub net_rx_bytes_per_s: Option<f64>,
    /// Bytes per second sent.
    pub net_tx_bytes_per_s: Option<f64>,
    /// Each interface counted in the two totals, in the kernel's order, at most 32.
    pub net: Vec<NetRates>,
}

/// One network interface in the interval.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct NetRates {
    /// Name, raw.
    pub name: Arc<str>,
    /// Bytes per second received.
    pub rx_bytes_per_s: Option<f64>,
    /// Bytes per second sent.
    pub tx_bytes_per_s: Option<f64>,
}

/// One CPU in the interval, percent of its time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct CpuRates {
    /// CPU number.
    pub cpu: u16,
    /// Whether the job may run on it.
    pub allowed: bool,
    /// Busy: user, nice, system and interrupts.
    pub busy_pct: f32,
    /// Idle with I/O outstanding.
    pub iowait_pct: f32,
    /// Taken by the hypervisor.
    pub steal_pct: f32,
}

/// Storage in the interval. The totals cover the disks that hold the job's data files; if those are unknown, all whole
/// disks, and `data_devices_known` is false.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct StorageRates {
    /// The totals below are of the job's own disks.
    pub data_devices_known: bool,
    /// Bytes per second read.
    pub read_bytes_per_s: Option<f64>,
    /// Bytes per second written.
    pub write_bytes_per_s: Option<f64>,
    /// Highest utilization among the disks, percent.
    pub utilization_pct: Option<f64>,
    /// Mean time of an I/O, milliseconds.
    pub await_ms: Option<f64>,
    /// Reads per second.
    pub reads_per_s: Option<f64>,
    /// Mean size of a read, bytes.
    pub read_size_bytes: Option<f64>,
    /// Mean queue length.
    pub queue: Option<f64>,
    /// Whole disks.
    pub devices: Vec<DeviceRates>,
    /// Mounts with data files of the job.
    pub mounts: Vec<MountRates>,
}

/// One whole disk in the interval.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct DeviceRates {
    /// Kernel name.
    pub name: Arc<str>,
    /// It holds data files of the job.
    pub data: bool,
    /// Bytes per second read.
    pub read_bytes_per_s: f64,
    /// Bytes per second written.
    pub write_bytes_per_s: f64,
    /// Reads per second.
    pub reads_per_s: f64,
    /// Writes per second.
    pub writes_per_s: f64,
    /// Mean time of an I/O, milliseconds; `None` without I/O.
    pub await_ms: Option<f64>,
    /// Mean time of a read, milliseconds; `None` without reads.
    pub read_await_ms: Option<f64>,
    /// Mean time of a write, milliseconds; `None` without writes.
    pub write_await_ms: Option<f64>,
    /// Mean queue length.
    pub queue: f64,
    /// Share of time with at least one I/O in flight, percent.
    pub utilization_pct: f64,
}

/// One mount in the interval.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct MountRates {
    /// Mount point, raw.
    pub mount_point: Arc<str>,
    /// Type.
    pub fs_type: Arc<str>,
    /// Kind of storage.
    pub kind: MountKind,
    /// Whole disks underneath.
    pub disks: Vec<Arc<str>>,
    /// Data files of the job on it, open or mapped now or within the last few minutes.
    pub files: u32,
    /// Some of these files, full paths as the process sees them, raw, at most 8.
    pub examples: Vec<Arc<str>>,
    /// Bytes per second read from the whole disks underneath, by any process; `None` if the disks are unknown.
    pub disks_read_bytes_per_s: Option<f64>,
    /// Bytes per second written to the whole disks underneath, by any process.
    pub disks_write_bytes_per_s: Option<f64>,
    /// NFS: bytes per second read from the server.
    pub nfs_read_bytes_per_s: Option<f64>,
    /// NFS: mean round trip of a READ, milliseconds.
    pub nfs_read_rtt_ms: Option<f64>,
}

/// One GPU in the interval.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct GpuRates {
    /// NVML index.
    pub index: u32,
    /// UUID.
    pub uuid: Option<Arc<str>>,
    /// Product name, raw.
    pub name: Option<Arc<str>>,
    /// The job uses it.
    pub attached: bool,
    /// It no longer answers.
    pub lost: bool,
    /// Values come from the simulated GPU.
    pub simulated: bool,
    /// Utilization over the interval, percent: mean of the samples buffer if there is one, else the last reading.
    pub utilization_pct: Option<f64>,
    /// The job's own part of it, percent.
    pub job_utilization_pct: Option<f64>,
    /// Memory controller use, percent.
    pub memory_utilization_pct: Option<f64>,
    /// Memory used, bytes.
    pub memory_used_bytes: Option<u64>,
    /// Memory fitted, bytes.
    pub memory_total_bytes: Option<u64>,
    /// Memory held by the job, bytes.
    pub job_memory_bytes: Option<u64>,
    /// Power, watts (from the energy counter if it moves, else the reading).
    pub power_w: Option<f64>,
    /// Power limit, watts.
    pub power_limit_w: Option<f64>,
    /// Temperature, °C.
    pub temperature_c: Option<u32>,
    /// SM clock, MHz.
    pub sm_clock_mhz: Option<u32>,
    /// Highest SM clock, MHz.
    pub sm_clock_max_mhz: Option<u32>,
    /// Memory clock, MHz.
    pub memory_clock_mhz: Option<u32>,
    /// Highest memory clock, MHz.
    pub memory_clock_max_mhz: Option<u32>,
    /// Clock event reasons, bit mask.
    pub clock_event_reasons: Option<u64>,
    /// PCIe receive, bytes per second in a 20 ms window.
    pub pcie_rx_bytes_per_s: Option<f64>,
    /// PCIe send.
    pub pcie_tx_bytes_per_s: Option<f64>,
    /// The link's capacity in one direction, bytes per second.
    pub pcie_capacity_bytes_per_s: Option<f64>,
    /// Current PCIe generation: an idle GPU trains its link down.
    pub pcie_generation: Option<u32>,
    /// Current PCIe width, lanes.
    pub pcie_width: Option<u32>,
    /// Highest PCIe generation of GPU and slot.
    pub pcie_generation_max: Option<u32>,
    /// Highest PCIe width of GPU and slot.
    pub pcie_width_max: Option<u32>,
    /// Uncorrected ECC errors since driver load.
    pub ecc_uncorrected: Option<u64>,
    /// Whether MIG is on.
    pub mig: Option<bool>,
    /// SMs active, percent (GPM).
    pub sm_active_pct: Option<f64>,
    /// Tensor cores active, percent (GPM).
    pub tensor_active_pct: Option<f64>,
    /// DRAM bandwidth used, percent (GPM).
    pub dram_active_pct: Option<f64>,
    /// Encoder use, percent.
    pub encoder_pct: Option<u32>,
    /// Decoder use, percent.
    pub decoder_pct: Option<u32>,
    /// Processes outside the job.
    pub others: Vec<GpuProcess>,
    /// PIDs of the job on it, if NVML's PIDs are from trainmon's namespace.
    pub job_pids: Vec<u32>,
    /// All processes on it, the job's first, then by memory held.
    pub processes: Vec<GpuProcessRates>,
}

/// A process on a GPU.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuProcessRates {
    /// PID in the host's PID namespace.
    pub pid: u32,
    /// Whether it belongs to the job; `None` if NVML's PIDs are from another namespace, so that it is unclear.
    pub ours: Option<bool>,
    /// GPU memory held, bytes.
    pub memory_bytes: Option<u64>,
    /// SM utilization of this process in the interval, 0–100.
    pub sm_utilization_pct: Option<u32>,
    /// Whether it runs compute work; false for graphics only.
    pub compute: bool,
}

/// How the job's GPUs were identified.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GpuLink {
    /// NVML lists a process of the tree on the GPU.
    Processes,
    /// A process of the tree has `/dev/nvidiaN` open.
    OpenDevice,
    /// `CUDA_VISIBLE_DEVICES` of the target names it.
    VisibleDevices,
    /// `--gpu` names it.
    Chosen,
    /// The job uses no GPU that trainmon can see.
    #[default]
    None,
}
