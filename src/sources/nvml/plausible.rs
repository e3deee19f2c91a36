//! Which values of a driver are believed. What is not measured arrives from NVML as all ones, as −1, or as a number no
//! device can reach; such a value is no value.

use std::ops::RangeInclusive;

use crate::sample::gpu::UtilizationPoint;

/// Believed values of one reading.
pub(super) type Range = RangeInclusive<u32>;

pub(super) const PERCENT: Range = 0..=100;
pub(super) const POWER_LIMIT_MW: Range = 1..=20_000_000;
pub(super) const TEMPERATURE_C: Range = 0..=199;
pub(super) const CLOCK_MHZ: Range = 0..=20_000;
pub(super) const CLOCK_MAX_MHZ: Range = 1..=20_000;
/// 1 TiB/s, four times sixteen lanes of generation 7.
pub(super) const PCIE_KIB_S: Range = 0..=1 << 30;
pub(super) const PCIE_GENERATION: Range = 1..=16;
pub(super) const PCIE_LANES: Range = 1..=64;
/// `PID_MAX_LIMIT` of include/linux/threads.h.
pub(super) const PID: Range = 1..=1 << 22;
/// Minor numbers of Linux have 20 bits (`MINORBITS` of include/linux/kdev_t.h).
pub(super) const MINOR: Range = 0..=(1 << 20) - 1;

/// Largest memory believed, bytes: 1 PiB.
const MEMORY_BYTES: u64 = 1 << 50;
/// A driver's time stamp may be this far ahead of our clock, microseconds. They are the same clock; what is further ahead
/// is no time, or was taken before the clock was set back.
const AHEAD_US: u64 = 2_000_000;

/// Keeps a value that lies in the range.
pub(super) fn within(range: Range) -> impl Fn(u32) -> Option<u32> {
    move |value| range.contains(&value).then_some(value)
}

/// GPM percentages may overshoot by rounding.
pub(super) fn gpm_percent(value: f64) -> Option<f64> {
    (value.is_finite() && (0.0..=101.0).contains(&value)).then_some(value.min(100.0))
}

/// Milliwatts. Devices overshoot their limit for moments, but not tenfold.
pub(super) fn power(milliwatts: u32, limit: Option<u32>) -> Option<u32> {
    let highest = limit.map_or(*POWER_LIMIT_MW.end(), |limit| limit.saturating_mul(10));
    (milliwatts <= highest).then_some(milliwatts)
}

/// (used, total): used only with a total that holds it.
pub(super) fn memory(used: u64, total: u64) -> (Option<u64>, Option<u64>) {
    let total = (1..=MEMORY_BYTES).contains(&total).then_some(total);
    (total.and_then(|total| (used <= total).then_some(used)), total)
}

/// Memory of a process; all ones when the driver does not account for it (`NVML_VALUE_NOT_AVAILABLE`).
pub(super) fn process_memory(bytes: u64, total: Option<u64>) -> Option<u64> {
    (bytes <= total.unwrap_or(MEMORY_BYTES)).then_some(bytes)
}

pub(super) fn counter(value: u64) -> Option<u64> {
    (value != u64::MAX).then_some(value)
}

/// A time stamp newer than `since_us` and not from the future.
pub(super) fn time(unix_us: u64, since_us: u64, now_us: u64) -> Option<u64> {
    (unix_us > since_us && unix_us <= now_us.saturating_add(AHEAD_US)).then_some(unix_us)
}

pub(super) fn point(unix_us: u64, value: u64, since_us: u64, now_us: u64) -> Option<UtilizationPoint> {
    let pct = u32::try_from(value).ok().and_then(within(PERCENT))?;
    Some(UtilizationPoint { unix_us: time(unix_us, since_us, now_us)?, pct })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentinels_are_no_values() {
        let all = u32::MAX;
        let ranges = [
            PERCENT,
            POWER_LIMIT_MW,
            TEMPERATURE_C,
            CLOCK_MHZ,
            CLOCK_MAX_MHZ,
            PCIE_KIB_S,
            PCIE_GENERATION,
            PCIE_LANES,
            PID,
            MINOR,
        ];
        for range in ranges {
            assert_eq!(within(range)(all), None);
        }
        assert_eq!((power(all, None), power(3_000_001, Some(300_000)), counter(u64::MAX)), (None, None, None));
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
