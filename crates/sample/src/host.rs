//! The host: CPUs, memory, pressure, network, and the cgroup that the job lives in.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::private::Private;

/// Host-wide counters at one tick.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct HostSample {
    /// CLOCK_MONOTONIC when read, nanoseconds.
    pub monotonic_ns: u64,
    /// One entry for each online CPU.
    pub cpus: Vec<CpuTimes>,
    /// Runnable processes averaged over 1, 5 and 15 minutes.
    pub load: Option<[f32; 3]>,
    /// Total memory, bytes.
    pub memory_total_bytes: Option<u64>,
    /// Memory available without swapping, bytes (`MemAvailable`).
    pub memory_available_bytes: Option<u64>,
    /// Size of a memory page, bytes: 4 KiB on x86-64, up to 64 KiB on ARM. `None` in older recordings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page_bytes: Option<u32>,
    /// Pages swapped in since boot (`/proc/vmstat` pswpin).
    pub swapped_in_pages: Option<u64>,
    /// File pages read again soon after they were evicted (`workingset_refault_file`), since boot.
    pub refaulted_file_pages: Option<u64>,
    /// CPU pressure stall information, if the kernel has it.
    pub cpu_pressure: Option<Pressure>,
    /// I/O pressure.
    pub io_pressure: Option<Pressure>,
    /// Memory pressure.
    pub memory_pressure: Option<Pressure>,
    /// Network interfaces, without loopback.
    pub net: Vec<NetInterface>,
    /// The machine's name. `None` in older and in anonymized recordings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<Arc<str>>,
    /// Model of its CPUs, raw. `None` in older recordings, and where nothing names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_model: Option<Arc<str>>,
}

impl Private for HostSample {
    fn leave_out(&mut self) {
        self.name = None;
    }
}

/// Times of one CPU since boot, clock ticks (`/proc/stat`, proc(5)).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuTimes {
    /// CPU number.
    pub cpu: u16,
    /// User mode, without nice.
    pub user: u64,
    /// User mode with low priority.
    pub nice: u64,
    /// Kernel mode.
    pub system: u64,
    /// Idle.
    pub idle: u64,
    /// Idle while I/O was outstanding.
    pub iowait: u64,
    /// Hardware interrupts.
    pub irq: u64,
    /// Software interrupts.
    pub softirq: u64,
    /// Taken by the hypervisor.
    pub steal: u64,
}

/// Totals of one pressure file, microseconds stalled since boot
/// (Documentation/accounting/psi.rst).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pressure {
    /// At least one task stalled.
    pub some_us: u64,
}

/// One network interface, counters since boot.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetInterface {
    /// Name.
    pub name: Arc<str>,
    /// Bytes received.
    pub rx_bytes: u64,
    /// Bytes sent.
    pub tx_bytes: u64,
}

/// The job's cgroup. Limits are the tightest of the group and all its ancestors.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct CgroupSample {
    /// `v1`, `v2` or `hybrid`; `None` if no hierarchy is mounted.
    pub version: Option<Arc<str>>,
    /// Path inside the hierarchy that limits CPU (in v1 the cpu controller's).
    pub path: Option<Arc<str>>,
    /// CPU bandwidth limit in CPUs (quota / period), if set.
    pub cpu_quota_cores: Option<f64>,
    /// Enforcement periods in which the group could run (`nr_periods`).
    pub periods: Option<u64>,
    /// Periods in which it was throttled (`nr_throttled`).
    pub throttled_periods: Option<u64>,
    /// Memory used by the group, bytes.
    pub memory_bytes: Option<u64>,
    /// Memory limit, bytes, if set.
    pub memory_limit_bytes: Option<u64>,
    /// File pages of the group read again soon after eviction (v2 memory.stat `workingset_refault_file`; not in v1).
    pub refaulted_file_pages: Option<u64>,
    /// Processes of the group that the kernel killed because memory ran out (`oom_kill` of v2's memory.events, which counts the groups
    /// below too, and of v1's memory.oom_control).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oom_kills: Option<u64>,
    /// The lowest read limit on a block device in the group or an ancestor, bytes per second.
    #[serde(rename = "io_read_limit_bytes_s")]
    pub io_read_limit_bytes_per_s: Option<u64>,
    /// The lowest read limit on a block device, operations per second.
    pub io_read_limit_iops: Option<u64>,
    /// The group or an ancestor is frozen, as by `docker pause`: none of its processes run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frozen: Option<bool>,
    /// The command that thaws a frozen group, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thaw: Option<Arc<str>>,
}
