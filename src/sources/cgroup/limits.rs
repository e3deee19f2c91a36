//! The limits along a path of cgroups: the tightest quota, memory limit and read limits.

use std::path::PathBuf;

use super::find::Hierarchy;
use super::{only_number, small_file};
use crate::sources::fields::{Fields, lines, number};

/// v1 writes "no limit" as the largest page-aligned number (PAGE_COUNTER_MAX pages, mm/page_counter.c); nothing that
/// is meant as a limit comes near 4 EiB.
const V1_NO_LIMIT: u64 = 1 << 62;

/// The tightest CPU bandwidth limit in cores, with the folder of the group that sets it.
pub(super) fn cpu(hierarchy: Option<&Hierarchy>, buffer: &mut Vec<u8>) -> Option<(f64, PathBuf)> {
    let hierarchy = hierarchy?;
    let mut tightest: Option<(f64, PathBuf)> = None;
    for folder in &hierarchy.folders {
        let cores = if hierarchy.v2 {
            small_file(folder, "cpu.max", buffer).and_then(cpu_max)
        } else {
            let quota = small_file(folder, "cpu.cfs_quota_us", buffer).and_then(only_number);
            let period = small_file(folder, "cpu.cfs_period_us", buffer).and_then(only_number);
            quota.zip(period).and_then(|(quota, period)| cores(quota, period))
        };
        // The group nearest to the job wins a tie: its counters are the job's own.
        if let Some(cores) = cores
            && tightest.as_ref().is_none_or(|(least, _)| cores < *least)
        {
            tightest = Some((cores, folder.clone()));
        }
    }
    tightest
}

/// `QUOTA PERIOD` or `max PERIOD`, microseconds (Documentation/admin-guide/cgroup-v2.rst).
pub(super) fn cpu_max(text: &[u8]) -> Option<f64> {
    let mut fields = Fields::of(text.trim_ascii());
    let quota = fields.number()?;
    cores(quota, fields.number()?)
}

/// v1 writes -1 for no quota, which is no number here.
fn cores(quota_us: u64, period_us: u64) -> Option<f64> {
    // Both are below 2^53 wherever they mean anything: the kernel takes quotas up to about 200 days.
    #[allow(clippy::cast_precision_loss, reason = "microseconds of a quota")]
    (period_us > 0 && quota_us > 0).then(|| quota_us as f64 / period_us as f64)
}

/// The tightest memory limit, bytes, with the folder of the group that sets it. v2's `memory.high` counts as well as
/// `memory.max`: at both the group's page cache is reclaimed.
pub(super) fn memory(hierarchy: Option<&Hierarchy>, buffer: &mut Vec<u8>) -> Option<(u64, PathBuf)> {
    let hierarchy = hierarchy?;
    let names: &[&str] = if hierarchy.v2 { &["memory.max", "memory.high"] } else { &["memory.limit_in_bytes"] };
    let mut tightest: Option<(u64, PathBuf)> = None;
    for folder in &hierarchy.folders {
        for name in names {
            let limit = small_file(folder, name, buffer).and_then(only_number).filter(|&bytes| bytes < V1_NO_LIMIT);
            if let Some(limit) = limit
                && tightest.as_ref().is_none_or(|(least, _)| limit < *least)
            {
                tightest = Some((limit, folder.clone()));
            }
        }
    }
    tightest
}

/// Lowest limits on reading from any block device.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct ReadLimits {
    /// Bytes per second.
    pub(super) bytes_s: Option<u64>,
    /// Operations per second.
    pub(super) iops: Option<u64>,
}

/// v2: over the group and its ancestors. v1: of the group alone, whose throttling knows no hierarchy
/// (Documentation/admin-guide/cgroup-v1/blkio-controller.rst).
pub(super) fn io(hierarchy: Option<&Hierarchy>, buffer: &mut Vec<u8>) -> ReadLimits {
    let mut limits = ReadLimits::default();
    let Some(hierarchy) = hierarchy else { return limits };
    if hierarchy.v2 {
        for folder in &hierarchy.folders {
            if let Some(text) = small_file(folder, "io.max", buffer) {
                io_max(text, &mut limits);
            }
        }
    } else if let Some(folder) = hierarchy.folders.first() {
        let mut lowest = |name: &str| small_file(folder, name, buffer).and_then(v1_lowest);
        limits.bytes_s = lowest("blkio.throttle.read_bps_device");
        limits.iops = lowest("blkio.throttle.read_iops_device");
    }
    limits
}

fn lower(place: &mut Option<u64>, value: u64) {
    *place = Some(place.map_or(value, |before| before.min(value)));
}

/// `8:16 rbps=2097152 wbps=max riops=max wiops=120`, a line for each limited device.
pub(super) fn io_max(text: &[u8], limits: &mut ReadLimits) {
    for line in lines(text) {
        for field in Fields::of(line).skip(1) {
            if let Some(value) = field.strip_prefix(b"rbps=").and_then(number) {
                lower(&mut limits.bytes_s, value);
            } else if let Some(value) = field.strip_prefix(b"riops=").and_then(number) {
                lower(&mut limits.iops, value);
            }
        }
    }
}

/// `8:16 1048576`, a line for each limited device.
pub(super) fn v1_lowest(text: &[u8]) -> Option<u64> {
    lines(text).filter_map(|line| Fields::of(line).nth(1).and_then(number)).min()
}
