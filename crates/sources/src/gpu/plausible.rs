//! Which of a driver's values are believed. NVML reports an unmeasured value as all ones, as −1, or as a number that
//! no GPU can reach; such a value counts as missing.

use std::ops::RangeInclusive;

use trainmon_sample::gpu::UtilizationPoint;

pub(in crate::gpu) const PERCENT: RangeInclusive<u32> = 0..=100;
/// Milliwatts.
pub(in crate::gpu) const POWER_LIMIT_MW: RangeInclusive<u32> = 1..=20_000_000;
pub(in crate::gpu) const TEMPERATURE_C: RangeInclusive<u32> = 0..=199;
pub(in crate::gpu) const CLOCK_MHZ: RangeInclusive<u32> = 0..=20_000;
pub(in crate::gpu) const CLOCK_MAX_MHZ: RangeInclusive<u32> = 1..=20_000;
/// Up to 1 TiB/s, four times sixteen lanes of generation 7.
pub(in crate::gpu) const PCIE_KIB_S: RangeInclusive<u32> = 0..=1 << 30;
pub(in crate::gpu) const PCIE_GENERATION: RangeInclusive<u32> = 1..=16;
/// Lanes.
pub(in crate::gpu) const PCIE_WIDTH: RangeInclusive<u32> = 1..=64;
/// Up to Linux's `PID_MAX_LIMIT` (include/linux/threads.h).
pub(in crate::gpu) const PID: RangeInclusive<u32> = 1..=1 << 22;
/// Minor numbers of Linux have 20 bits (`MINORBITS` of include/linux/kdev_t.h).
pub(in crate::gpu) const MINOR: RangeInclusive<u32> = 0..=(1 << 20) - 1;
/// Numbers of errors: NVIDIA's catalog ends below 200.
pub(in crate::gpu) const XID: RangeInclusive<u32> = 1..=9_999;
pub(in crate::gpu) const COUNTER: RangeInclusive<u64> = 0..=u64::MAX - 1;
/// Up to 1 PiB.
const MEMORY_BYTES: RangeInclusive<u64> = 1..=1 << 50;
/// A driver's timestamp may be this far ahead of trainmon's clock, microseconds. Both use the same clock; anything
/// further ahead is not a time, or was taken before the clock was set back.
const AHEAD_US: u64 = 2_000_000;

/// A check that keeps values inside a range.
pub(in crate::gpu) fn within<T: PartialOrd>(range: RangeInclusive<T>) -> impl FnOnce(T) -> Option<T> {
    move |value| range.contains(&value).then_some(value)
}

/// GPM percentages may overshoot by rounding.
pub(in crate::gpu) fn gpm_percent(value: f64) -> Option<f64> {
    within(0.0..=101.0)(value).map(|value| value.min(100.0))
}

/// GPUs briefly exceed their power limit, but never tenfold.
pub(in crate::gpu) fn power(milliwatts: u32, limit: Option<u32>) -> Option<u32> {
    let highest = limit.map_or(*POWER_LIMIT_MW.end(), |limit| limit.saturating_mul(10));
    (milliwatts <= highest).then_some(milliwatts)
}

/// (used, total): used only if the total is known and at least as large.
pub(in crate::gpu) fn memory(used: u64, total: u64) -> (Option<u64>, Option<u64>) {
    let total = within(MEMORY_BYTES)(total);
    (total.and_then(|total| within(0..=total)(used)), total)
}

/// Memory of a process; all ones if the driver does not account for it (`NVML_VALUE_NOT_AVAILABLE`).
pub(in crate::gpu) fn process_memory(bytes: u64, total: Option<u64>) -> Option<u64> {
    within(0..=total.unwrap_or(*MEMORY_BYTES.end()))(bytes)
}

/// A timestamp newer than `since_us` and not in the future.
pub(in crate::gpu) fn time(unix_us: u64, since_us: u64, now_us: u64) -> Option<u64> {
    (unix_us > since_us && unix_us <= now_us.saturating_add(AHEAD_US)).then_some(unix_us)
}

pub(in crate::gpu) fn point(unix_us: u64, value: u64, since_us: u64, now_us: u64) -> Option<UtilizationPoint> {
    let pct = u32::try_from(value).ok().and_then(within(PERCENT))?;
    Some(UtilizationPoint { unix_us: time(unix_us, since_us, now_us)?, pct })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentinels_are_no_values() {
        for range in [
            PERCENT,
            POWER_LIMIT_MW,
            TEMPERATURE_C,
            CLOCK_MHZ,
            CLOCK_MAX_MHZ,
            PCIE_KIB_S,
            PCIE_GENERATION,
            PCIE_WIDTH,
            PID,
            MINOR,
        ] {
            assert_eq!(within(range)(u32::MAX), None);
        }
        assert_eq!((power(u32::MAX, None), power(3_000_001, Some(300_000))), (None, None));
        assert_eq!(within(COUNTER)(u64::MAX), None);
        assert_eq!(power(2_900_000, Some(300_000)), Some(2_900_000));
        assert_eq!((gpm_percent(f64::NAN), gpm_percent(-1.0), gpm_percent(100.4)), (None, None, Some(100.0)));
        assert_eq!(process_memory(u64::MAX, None), None);
        assert_eq!(process_memory(u64::MAX >> 32, Some(1 << 20)), None);
    }

    #[test]
    fn memory_needs_a_total_that_holds_it() {
        assert_eq!(memory(5, 10), (Some(5), Some(10)));
        assert_eq!(memory(11, 10), (None, Some(10)));
        assert_eq!(memory(5, 0), (None, None));
        assert_eq!(memory(u64::MAX, u64::MAX), (None, None));
    }

    #[test]
    fn points_are_new_and_not_from_the_future() {
        assert_eq!(point(100, 50, 100, 200), None);
        assert_eq!(point(101, 50, 100, 200), Some(UtilizationPoint { unix_us: 101, pct: 50 }));
        assert_eq!(point(u64::MAX, 50, 100, 200), None);
        assert_eq!(point(101, 101, 100, 200), None);
    }
}
