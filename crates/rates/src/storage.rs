//! Disks and data mounts over the interval between two readings.

use std::collections::HashSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::delta::{by_key, copied, delta, rate, span};
use trainmon_sample::{BlockDevice, DataMount, MountKind, Sample};

/// `/proc/diskstats` counts in sectors of 512 bytes, whatever the disk's own sector size
/// (Documentation/admin-guide/iostats.rst).
const SECTOR: f64 = 512.0;

/// Block devices without storage of their own: memory and images.
const NEVER: [&str; 4] = ["loop", "ram", "zram", "sr"];

/// Block devices built on others, which would count twice, along with their members.
const STACKED: [&str; 3] = ["dm-", "md", "bcache"];

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

pub(super) fn fold(before: Option<&Sample>, sample: &Sample) -> StorageRates {
    let Some(storage) = sample.storage.as_deref() else { return StorageRates::default() };
    let before = before.and_then(|before| before.storage.as_deref());
    let seconds = span(before.map(|before| before.monotonic_ns), storage.monotonic_ns);
    let before = if seconds.is_some() { before } else { None };
    let data: HashSet<&str> =
        storage.mounts.iter().flatten().flat_map(|mount| &mount.disks).map(AsRef::as_ref).collect();

    let mut out = StorageRates {
        data_devices_known: storage.devices.iter().any(|device| data.contains(device.name.as_ref())),
        ..StorageRates::default()
    };
    let shown = shown(&storage.devices, &data);
    let earlier = by_key(before.map_or(&[][..], |before| &before.devices), |device| device.number);
    let mut sum = Moved::default();
    for device in shown {
        let was = earlier.get(&device.number).copied().filter(|was| was.name == device.name);
        let (Some(moved), Some(seconds)) = (was.and_then(|was| Moved::between(was, device)), seconds) else {
            continue;
        };
        let is_data = data.contains(device.name.as_ref());
        let rates = moved.rates(&device.name, is_data, seconds);
        if is_data || !out.data_devices_known {
            sum.add(&moved);
            let busiest = out.utilization_pct.unwrap_or(0.0).max(rates.utilization_pct);
            out.utilization_pct = Some(busiest);
        }
        out.devices.push(rates);
    }
    if let (Some(seconds), Some(_)) = (seconds, out.utilization_pct) {
        let all = sum.rates(&"".into(), true, seconds);
        out.read_bytes_per_s = Some(all.read_bytes_per_s);
        out.write_bytes_per_s = Some(all.write_bytes_per_s);
        out.reads_per_s = Some(all.reads_per_s);
        out.queue = Some(all.queue);
        out.await_ms = all.await_ms;
        out.read_size_bytes = (all.reads_per_s > 0.0).then(|| all.read_bytes_per_s / all.reads_per_s);
    }
    let before_mounts = before.and_then(|before| before.mounts.as_deref()).unwrap_or_default();
    let rates_of = |mount| mount_rates(mount, before_mounts, seconds, &out.devices);
    out.mounts = storage.mounts.iter().flatten().map(rates_of).collect();
    out
}

/// The whole disks worth showing: partitions count toward their disk, stacked block devices toward their members if
/// these are listed. A disk that holds the job's data is always included.
fn shown<'a>(devices: &'a [BlockDevice], data: &HashSet<&str>) -> Vec<&'a BlockDevice> {
    let is = |prefixes: &[&str], device: &BlockDevice| prefixes.iter().any(|prefix| device.name.starts_with(prefix));
    let whole = |device: &&BlockDevice| device.name == device.whole && !is(&NEVER, device);
    let members = devices.iter().filter(whole).any(|device| !is(&STACKED, device));
    let wanted = |device: &&BlockDevice| {
        data.contains(device.name.as_ref()) || whole(device) && !(members && is(&STACKED, device))
    };
    devices.iter().filter(wanted).collect()
}

/// Differences of the counters of one or more block devices: reads, sectors read and milliseconds spent reading; the
/// same for writes; milliseconds with I/O in flight, and weighted.
#[derive(Debug, Clone, Copy, Default)]
struct Moved([f64; 8]);

impl Moved {
    /// `None` if a counter went backwards: the device was replaced, or a 32-bit counter wrapped.
    fn between(before: &BlockDevice, now: &BlockDevice) -> Option<Self> {
        let counters = |d: &BlockDevice| {
            [d.reads, d.read_sectors, d.read_ms, d.writes, d.written_sectors, d.write_ms, d.busy_ms, d.weighted_ms]
        };
        let mut moved = Self::default();
        for ((to, now), before) in moved.0.iter_mut().zip(counters(now)).zip(counters(before)) {
            *to = delta(Some(now), Some(before))? as f64;
        }
        Some(moved)
    }

    fn add(&mut self, other: &Self) {
        self.0.iter_mut().zip(other.0).for_each(|(sum, more)| *sum += more);
    }

    fn rates(&self, name: &Arc<str>, data: bool, seconds: f64) -> DeviceRates {
        let [reads, read_sectors, read_ms, writes, written_sectors, write_ms, busy_ms, weighted_ms] = self.0;
        DeviceRates {
            name: Arc::clone(name),
            data,
            read_bytes_per_s: read_sectors * SECTOR / seconds,
            write_bytes_per_s: written_sectors * SECTOR / seconds,
            reads_per_s: reads / seconds,
            writes_per_s: writes / seconds,
            await_ms: mean(read_ms + write_ms, reads + writes),
            read_await_ms: mean(read_ms, reads),
            write_await_ms: mean(write_ms, writes),
            queue: weighted_ms / 1e3 / seconds,
            utilization_pct: (busy_ms / 10.0 / seconds).min(100.0),
        }
    }
}

/// Mean milliseconds; `None` if the count is 0.
fn mean(ms: f64, count: f64) -> Option<f64> {
    (count > 0.0).then(|| ms / count)
}

fn mount_rates(mount: &DataMount, before: &[DataMount], seconds: Option<f64>, devices: &[DeviceRates]) -> MountRates {
    // Known only if known for every disk underneath.
    let of_disks = |bytes_s: fn(&DeviceRates) -> f64| {
        let of_disk = |disk: &Arc<str>| devices.iter().find(|device| device.name == *disk).map(bytes_s);
        let sum = mount.disks.iter().map(of_disk).sum::<Option<f64>>();
        if !mount.disks.is_empty() { sum } else { None }
    };
    let was = before.iter().find(|was| was.mount_point == mount.mount_point && was.source == mount.source);
    let ops = delta(mount.nfs_read_ops, was.and_then(|was| was.nfs_read_ops));
    let rtt_ms = delta(mount.nfs_read_rtt_ms, was.and_then(|was| was.nfs_read_rtt_ms));
    let rtt = ops.filter(|ops| *ops > 0).zip(rtt_ms).map(|(ops, ms)| ms as f64 / ops as f64);
    MountRates {
        disks_read_bytes_per_s: of_disks(|device| device.read_bytes_per_s),
        disks_write_bytes_per_s: of_disks(|device| device.write_bytes_per_s),
        nfs_read_bytes_per_s: rate(mount.nfs_read_bytes, was.and_then(|was| was.nfs_read_bytes), seconds),
        nfs_read_rtt_ms: if seconds.is_some() { rtt } else { None },
        ..copied!(mount => MountRates: mount_point fs_type kind disks files examples)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::*;
    use trainmon_sample::StorageSample;

    fn device(name: &str, minor: u32, factor: u64) -> BlockDevice {
        BlockDevice {
            name: name.into(),
            number: (259, minor),
            whole: name.into(),
            reads: 100 * factor,
            read_sectors: 6400 * factor,
            read_ms: 300 * factor,
            writes: 50 * factor,
            written_sectors: 100 * factor,
            write_ms: 150 * factor,
            busy_ms: 500 * factor,
            weighted_ms: 4000 * factor,
        }
    }

    fn at(ms: u64, devices: Vec<BlockDevice>, mounts: Option<Vec<DataMount>>) -> Sample {
        let storage = StorageSample { monotonic_ns: ms * MS, devices, mounts };
        Sample { storage: Some(Arc::new(storage)), ..tick(ms / 1000, ms) }
    }

    fn on(disks: &[&str]) -> Option<Vec<DataMount>> {
        let disks = disks.iter().map(|disk| (*disk).into()).collect();
        Some(vec![DataMount { mount_point: "/data".into(), disks, ..DataMount::default() }])
    }

    #[test]
    fn rates_of_the_data_disk() {
        let devices = |factor| {
            let partition = BlockDevice { whole: "nvme0n1".into(), ..device("nvme0n1p1", 1, 9 * factor) };
            vec![device("nvme0n1", 0, factor), partition, device("sda", 8, 3 * factor), device("loop0", 7, factor)]
        };
        let out = fold(Some(&at(1000, devices(1), None)), &at(3000, devices(2), on(&["nvme0n1"])));
        assert!(out.data_devices_known);
        assert!(close(out.read_bytes_per_s, 1_638_400.0) && close(out.write_bytes_per_s, 25_600.0));
        assert!(close(out.reads_per_s, 50.0) && close(out.await_ms, 3.0) && close(out.queue, 2.0));
        assert!(close(out.utilization_pct, 25.0) && close(out.read_size_bytes, 32_768.0));
        let names: Vec<_> = out.devices.iter().map(|device| (device.name.as_ref(), device.data)).collect();
        assert_eq!(names, [("nvme0n1", true), ("sda", false)]);
        assert_eq!((out.devices[0].read_await_ms, out.devices[0].write_await_ms), (Some(3.0), Some(3.0)));
        let mount = &out.mounts[0];
        assert!(close(mount.disks_read_bytes_per_s, 1_638_400.0) && close(mount.disks_write_bytes_per_s, 25_600.0));
        let two = fold(Some(&at(1000, devices(1), None)), &at(3000, devices(2), on(&["nvme0n1", "sda"])));
        assert!(close(two.mounts[0].disks_read_bytes_per_s, 4.0 * 1_638_400.0));
        let missing = fold(Some(&at(1000, devices(1), None)), &at(3000, devices(2), on(&["nvme0n1", "sdz"])));
        assert_eq!(missing.mounts[0].disks_read_bytes_per_s, None, "one of its disks is not known");
        let out = fold(Some(&at(1000, devices(1), None)), &at(3000, devices(2), None));
        assert!(!out.data_devices_known && close(out.reads_per_s, 200.0) && close(out.utilization_pct, 75.0));
        assert!(close(out.await_ms, 3.0));
    }

    #[test]
    fn stacked_devices_count_once() {
        let devices = |factor| vec![device("dm-0", 0, factor), device("sda", 8, factor)];
        let out = fold(Some(&at(0, devices(1), None)), &at(1000, devices(2), None));
        assert_eq!(out.devices.len(), 1);
        let only = |factor| vec![device("dm-0", 0, factor)];
        let out = fold(Some(&at(0, only(1), None)), &at(1000, only(2), None));
        assert!(close(out.reads_per_s, 100.0));
        let out = fold(Some(&at(0, devices(1), None)), &at(1000, devices(2), on(&["dm-0"])));
        assert_eq!(out.devices.len(), 2, "data files lie on it");
        assert!(close(out.reads_per_s, 100.0));
    }

    #[test]
    fn no_rates_without_a_difference() {
        let sample = at(1000, vec![device("sda", 0, 2)], on(&["sda"]));
        for out in [
            fold(None, &sample),
            fold(Some(&sample), &sample),
            fold(Some(&at(0, vec![device("sda", 0, 3)], None)), &sample),
            fold(Some(&at(0, vec![device("sdb", 0, 1)], None)), &sample),
        ] {
            assert!(out.devices.is_empty() && out.read_bytes_per_s.is_none() && out.utilization_pct.is_none());
            assert_eq!((out.mounts.len(), out.mounts[0].disks_read_bytes_per_s), (1, None));
        }
    }

    #[test]
    fn idle_disk_has_rates_but_no_await() {
        let out = fold(Some(&at(0, vec![device("sda", 0, 1)], None)), &at(1000, vec![device("sda", 0, 1)], None));
        assert_eq!((out.reads_per_s, out.await_ms, out.read_size_bytes), (Some(0.0), None, None));
        assert_eq!((out.devices[0].read_await_ms, out.devices[0].write_await_ms), (None, None));
    }

    #[test]
    fn nfs() {
        let mount = |factor: u64| {
            Some(vec![DataMount {
                mount_point: "/nfs".into(),
                nfs_read_bytes: Some(1000 * factor),
                nfs_read_ops: Some(10 * factor),
                nfs_read_rtt_ms: Some(70 * factor),
                ..DataMount::default()
            }])
        };
        let out = fold(Some(&at(0, vec![], mount(1))), &at(2000, vec![], mount(3)));
        assert!(close(out.mounts[0].nfs_read_bytes_per_s, 1000.0) && close(out.mounts[0].nfs_read_rtt_ms, 7.0));
        let out = fold(Some(&at(0, vec![], mount(3))), &at(2000, vec![], mount(3)));
        assert_eq!((out.mounts[0].nfs_read_bytes_per_s, out.mounts[0].nfs_read_rtt_ms), (Some(0.0), None));
        assert_eq!(out.mounts[0].disks_read_bytes_per_s, None, "no disks, no sum");
    }
}
