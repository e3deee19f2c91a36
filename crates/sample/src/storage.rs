//! Block devices, and the mounts that hold the job's data files.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::private::{Private, TextKind, Visit};

/// Most example files kept for one mount.
pub const EXAMPLES: usize = 8;
/// Longest path of an example, bytes: longer ones are not kept.
pub const EXAMPLE_BYTES: usize = 512;

/// Disks and mounts at one tick.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct StorageSample {
    /// CLOCK_MONOTONIC when the block devices were read, nanoseconds.
    pub monotonic_ns: u64,
    /// Block devices that have seen any I/O, partitions included.
    pub devices: Vec<BlockDevice>,
    /// Mounts with files that the job has open or mapped and that look like data (not libraries, not `/dev`, not
    /// `/proc`), most files first. `None` if the job's descriptors cannot be read.
    pub mounts: Option<Vec<DataMount>>,
}

impl Private for StorageSample {
    fn visit_texts(&mut self, visit: Visit<'_>) {
        for mount in self.mounts.iter_mut().flatten() {
            let texts = [&mut mount.mount_point, &mut mount.source].into_iter().chain(&mut mount.examples);
            texts.for_each(|text| visit(TextKind::Path, text));
        }
    }

    fn leave_out(&mut self) {
        self.mounts.iter_mut().flatten().for_each(|mount| mount.examples.clear());
    }
}

/// One line of `/proc/diskstats`, counters since boot
/// (Documentation/admin-guide/iostats.rst).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockDevice {
    /// Kernel name (`nvme0n1p1`).
    pub name: Arc<str>,
    /// Major and minor number.
    pub number: (u32, u32),
    /// The whole disk that this partition belongs to, or the device itself.
    pub whole: Arc<str>,
    /// Reads completed.
    pub reads: u64,
    /// Sectors of 512 bytes read.
    pub read_sectors: u64,
    /// Milliseconds spent by all reads.
    pub read_ms: u64,
    /// Writes completed.
    pub writes: u64,
    /// Sectors of 512 bytes written.
    pub written_sectors: u64,
    /// Milliseconds spent by all writes.
    pub write_ms: u64,
    /// Milliseconds in which at least one I/O was in flight.
    pub busy_ms: u64,
    /// Milliseconds of I/O weighted by the number in flight.
    pub weighted_ms: u64,
}

/// A mount with data files of the job on it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct DataMount {
    /// Mount point, raw.
    pub mount_point: Arc<str>,
    /// Type (`ext4`, `nfs4`, `overlay`…).
    pub fs_type: Arc<str>,
    /// Source column of mountinfo, raw (`/dev/nvme0n1p1`, `server:/export`).
    pub source: Arc<str>,
    /// Kind of storage.
    pub kind: MountKind,
    /// Names of the whole disks underneath (device-mapper and md resolved to their members), if any.
    pub disks: Vec<Arc<str>>,
    /// Data files open or mapped by the job.
    pub files: u32,
    /// Some of them, full paths as the process sees them, raw; at most [`EXAMPLES`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub examples: Vec<Arc<str>>,
    /// Bytes read by the NFS client from the server for this mount, since mount (`mountstats`).
    pub nfs_read_bytes: Option<u64>,
    /// NFS READ operations since mount.
    pub nfs_read_ops: Option<u64>,
    /// Milliseconds of all NFS READ round trips since mount.
    pub nfs_read_rtt_ms: Option<u64>,
}

/// Kind of storage under a mount.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MountKind {
    /// A local block device.
    Local,
    /// nfs, cifs, lustre, ceph, gpfs, 9p, …
    Network,
    /// A user-space file system: its storage may be anywhere.
    Fuse,
    /// tmpfs, ramfs, hugetlbfs: memory.
    Memory,
    /// Unknown.
    #[default]
    Other,
}
