//! The limits along a path of cgroups: the tightest quota, memory limit and read limits.

use std::path::{Path, PathBuf};

use super::find::Hierarchy;
use super::{only_number, small_file};
use crate::fields::{Fields, lines, number};

/// v1 writes "no limit" as the largest page-aligned number (PAGE_COUNTER_MAX pages, mm/page_counter.c); no real limit
/// comes near 4 EiB.
const V1_NO_LIMIT: u64 = 1 << 62;

/// The lowest limit along the path, with the folder of the group that sets it. On a tie the group nearest to the job
/// wins, because its counters are the job's own.
fn tightest<T: PartialOrd>(hierarchy: &Hierarchy, mut limit: impl FnMut(&Path) -> Option<T>) -> Option<(T, PathBuf)> {
    let found = hierarchy.folders.iter().filter_map(|folder| Some((limit(folder)?, folder)));
    let least = found.reduce(|least, next| if next.0 < least.0 { next } else { least });
    least.map(|(limit, folder)| (limit, folder.clone()))
}

/// The tightest CPU bandwidth limit, in CPUs.
pub(super) fn cpu(hierarchy: &Hierarchy) -> Option<(f64, PathBuf)> {
    tightest(hierarchy, |folder| {
        if hierarchy.v2 {
            return cpu_max(&small_file(folder, "cpu.max")?);
        }
        let number = |name| only_number(&small_file(folder, name)?);
        cores(number("cpu.cfs_quota_us")?, number("cpu.cfs_period_us")?)
    })
}

/// `QUOTA PERIOD` or `max PERIOD`, microseconds (Documentation/admin-guide/cgroup-v2.rst).
pub(super) fn cpu_max(text: &[u8]) -> Option<f64> {
    let mut fields = Fields::new(text.trim_ascii());
    let quota = fields.number()?;
    cores(quota, fields.number()?)
}

/// v1 writes -1 for no quota, which does not parse as a number here.
fn cores(quota_us: u64, period_us: u64) -> Option<f64> {
    // Both are below 2^53 in any sensible setting: the kernel accepts quotas of up to about 200 days.
    #[allow(clippy::cast_precision_loss, reason = "microseconds of a quota")]
    (period_us > 0 && quota_us > 0).then(|| quota_us as f64 / period_us as f64)
}

/// The tightest memory limit, bytes. v2's `memory.high` counts like `memory.max`: at either one, the group's page cache
/// is reclaimed.
pub(super) fn memory(hierarchy: &Hierarchy) -> Option<(u64, PathBuf)> {
    let names: &[&str] = if hierarchy.v2 { &["memory.max", "memory.high"] } else { &["memory.limit_in_bytes"] };
    tightest(hierarchy, |folder| {
        let limits = names.iter().filter_map(|name| only_number(&small_file(folder, name)?));
        limits.filter(|&bytes| bytes < V1_NO_LIMIT).min()
    })
}

/// The lowest read limits on any block device, in bytes and operations per second. In v2 over the group and its
/// ancestors; in v1 of the group alone, because v1 does not throttle hierarchically
/// (Documentation/admin-guide/cgroup-v1/blkio-controller.rst).
pub(super) fn io(hierarchy: &Hierarchy) -> (Option<u64>, Option<u64>) {
    if hierarchy.v2 {
        let files: Vec<_> = hierarchy.folders.iter().filter_map(|folder| small_file(folder, "io.max")).collect();
        let lowest = |key: &[u8]| files.iter().filter_map(|text| io_max(text, key)).min();
        return (lowest(b"rbps="), lowest(b"riops="));
    }
    let lowest = |name| v1_lowest(&small_file(hierarchy.folders.first()?, name)?);
    (lowest("blkio.throttle.read_bps_device"), lowest("blkio.throttle.read_iops_device"))
}

/// The lowest limit of one kind in `8:16 rbps=2097152 wbps=max riops=max wiops=120`, one line per limited block device.
pub(super) fn io_max(text: &[u8], key: &[u8]) -> Option<u64> {
    let fields = lines(text).flat_map(|line| Fields::new(line).skip(1));
    fields.filter_map(|field| number(field.strip_prefix(key)?)).min()
}

/// The lowest limit in `8:16 1048576`, one line per limited block device.
pub(super) fn v1_lowest(text: &[u8]) -> Option<u64> {
    lines(text).filter_map(|line| Fields::new(line).nth(1).and_then(number)).min()
}
