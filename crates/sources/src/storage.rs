//! Disks, and the mounts that hold the job's data files: block device counters every time, files and mounts when due,
//! NFS counters if a data mount is NFS.

use std::io;

use trainmon_sample::{BlockDevice, DataMount, SourceStatus, StorageSample};

use super::block::{device, disk_lines};
use super::data_mounts::DataMounts;
use super::files::{KeptPath, ReadFailure};
use super::mounts::is_nfs;
use super::mountstats::nfs_reads;
use super::{Ask, AskedSource, Roots, SourceOptions, unreadable};

/// Reads [`StorageSample`]s.
#[derive(Debug)]
pub struct StorageReader {
    roots: Roots,
    diskstats: KeptPath,
    data: DataMounts,
    mountstats: Option<KeptPath>,
    buffer: Vec<u8>,
}

impl StorageReader {
    /// Opens nothing yet.
    pub fn new(roots: &Roots) -> Self {
        Self {
            roots: roots.clone(),
            diskstats: KeptPath::new(roots.proc.join("diskstats")),
            data: DataMounts::new(roots),
            mountstats: None,
            buffer: Vec::new(),
        }
    }

    /// Reads the block devices, and scans the files of `pids` when due, less often if `sparing`. `pids` are the job's,
    /// the most informative first; at most 64 are scanned. `now_ns` is CLOCK_MONOTONIC.
    ///
    /// Neither mounts nor files are opened or touched, so a server that does not answer cannot hang it.
    ///
    /// # Errors
    /// If diskstats exists but cannot be read. If it does not exist (some sandboxes), there are no block devices.
    pub fn read(&mut self, now_ns: u64, pids: &[u32], sparing: bool) -> io::Result<StorageSample> {
        let devices = self.devices()?;
        self.data.scan(now_ns, pids, sparing);
        let mut mounts = self.data.data_mounts();
        if let Some(mounts) = &mut mounts {
            self.add_nfs(mounts, pids);
        }
        Ok(StorageSample { monotonic_ns: now_ns, devices, mounts })
    }

    fn devices(&mut self) -> io::Result<Vec<BlockDevice>> {
        let text_of_file = match self.diskstats.read(&mut self.buffer) {
            Ok(text) => text,
            Err(ReadFailure::Absent) => return Ok(Vec::new()),
            Err(failure) => return Err(failure.into()),
        };
        let topology = &mut self.data.topology;
        let devices = disk_lines(text_of_file).map(|disk| device(&disk, topology.names(disk.name.as_bytes())));
        Ok(devices.collect())
    }

    /// Adds the NFS client's counters, from a process that sees the mount, else from trainmon's own view.
    fn add_nfs(&mut self, mounts: &mut [DataMount], pids: &[u32]) {
        let kept = self.mountstats.take();
        if !mounts.iter().any(|mount| is_nfs(mount.fs_type.as_bytes())) {
            return;
        }
        let seen_by = self.data.mounts.iter().filter(|known| is_nfs(&known.mount.fs_type)).map(|known| known.pid);
        let path_of = |process: &str| self.roots.proc.join(process).join("mountstats");
        let of_processes = seen_by.chain(pids.iter().copied().take(2)).map(|pid| path_of(&pid.to_string()));
        let others = of_processes.chain([path_of("self")]).map(KeptPath::new);
        for mut file in kept.into_iter().chain(others) {
            let Ok(text_of_file) = file.read(&mut self.buffer) else { continue };
            let reads = nfs_reads(text_of_file);
            for mount in mounts {
                if let Some((_, reads)) = reads.iter().rfind(|(point, _)| **point == *mount.mount_point) {
                    (mount.nfs_read_bytes, mount.nfs_read_ops, mount.nfs_read_rtt_ms) =
                        (reads.bytes, reads.ops, reads.rtt_ms);
                }
            }
            self.mountstats = Some(file);
            return;
        }
    }
}

impl AskedSource for StorageReader {
    type Value = StorageSample;
    const THREAD: &'static str = "tm-storage";
    const WITH_RIGHTS: bool = true;

    fn open(options: &SourceOptions) -> Result<Self, SourceStatus> {
        Ok(Self::new(&options.roots))
    }

    fn read(&mut self, ask: &Ask) -> Result<StorageSample, SourceStatus> {
        self.read(ask.now_ns, &ask.pids, ask.sparing).map_err(|error| unreadable("/proc/diskstats", &error))
    }
}

#[cfg(test)]
mod tests;
