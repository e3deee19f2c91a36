//! Which values of a driver are believed. What is not measured arrives from NVML as all ones, as −1, or as a number no
//! device can reach; such a value is no value.

use crate::sample::gpu::UtilizationPoint;

/// Highest board power believed without a limit to compare with, milliwatts.
const POWER_MW: u32 = 20_000_000;
/// Highest clock believed, MHz.
const CLOCK_MHZ: u32 = 20_000;
/// Highest PCIe rate believed, KiB/s: 1 TiB/s, four times sixteen lanes of generation 7.
const PCIE_KIB_S: u32 = 1 << 30;
/// Largest memory believed, bytes: 1 PiB.
const MEMORY_BYTES: u64 = 1 << 50;
/// Largest PID of Linux (`PID_MAX_LIMIT` of include/linux/threads.h).
const PID_MAX: u32 = 1 << 22;
/// A driver's time stamp may be this far ahead of our clock, microseconds. They are the same clock; what is further ahead
/// is no time, or was taken before the clock was set back.
const AHEAD_US: u64 = 2_000_000;

pub(super) fn percent(value: u32) -> Option<u32> {
    (value <= 100).then_some(value)
}

/// GPM percentages may overshoot by rounding.
pub(super) fn gpm_percent(value: f64) -> Option<f64> {
    (value.is_finite() && (0.0..=101.0).contains(&value)).then_some(value.min(100.0))
}

pub(super) fn power_limit(milliwatts: u32) -> Option<u32> {
    (1..=POWER_MW).contains(&milliwatts).then_some(milliwatts)
}

/// Devices overshoot their limit for moments, but not tenfold.
pub(super) fn power(milliwatts: u32, limit: Option<u32>) -> Option<u32> {
    let highest = limit.map_or(POWER_MW, |limit| limit.saturating_mul(10));
    (milliwatts <= highest).then_some(milliwatts)
}

pub(super) fn temperature(celsius: u32) -> Option<u32> {
    (celsius < 200).then_some(celsius)
}

pub(super) fn clock(megahertz: u32) -> Option<u32> {
    (megahertz <= CLOCK_MHZ).then_some(megahertz)
}

pub(super) fn clock_maximum(megahertz: u32) -> Option<u32> {
    clock(megahertz).filter(|&megahertz| megahertz > 0)
}

pub(super) fn pcie_rate(kib_s: u32) -> Option<u32> {
    (kib_s <= PCIE_KIB_S).then_some(kib_s)
}

pub(super) fn pcie_generation(generation: u32) -> Option<u32> {
    (1..=16).contains(&generation).then_some(generation)
}

pub(super) fn pcie_width(lanes: u32) -> Option<u32> {
    (1..=64).contains(&lanes).then_some(lanes)
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

pub(super) fn pid(pid: u32) -> Option<u32> {
    (1..=PID_MAX).contains(&pid).then_some(pid)
}

pub(super) fn counter(value: u64) -> Option<u64> {
    (value != u64::MAX).then_some(value)
}

/// Minor numbers of Linux have 20 bits (`MINORBITS` of include/linux/kdev_t.h).
pub(super) fn minor(minor: u32) -> Option<u32> {
    (minor < 1 << 20).then_some(minor)
}

/// A time stamp newer than `since_us` and not from the future.
pub(super) fn time(unix_us: u64, since_us: u64, now_us: u64) -> Option<u64> {
    (unix_us > since_us && unix_us <= now_us.saturating_add(AHEAD_US)).then_some(unix_us)
}

pub(super) fn point(unix_us: u64, value: u64, since_us: u64, now_us: u64) -> Option<UtilizationPoint> {
    let pct = u32::try_from(value).ok().and_then(percent)?;
    Some(UtilizationPoint { unix_us: time(unix_us, since_us, now_us)?, pct })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentinels_are_no_values() {
        let all = u32::MAX;
        for check in [
            percent,
            power_limit,
            temperature,
            clock,
            clock_maximum,
            pcie_rate,
            pcie_generation,
            pcie_width,
            pid,
            minor,
        ] {
            assert_eq!(check(all), None);
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
