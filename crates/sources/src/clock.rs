//! All clocks are read here.

use rustix::time::{ClockId, clock_gettime};

fn nanoseconds(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    let (seconds, rest) = (u64::try_from(time.tv_sec).unwrap_or(0), u64::try_from(time.tv_nsec).unwrap_or(0));
    seconds.saturating_mul(1_000_000_000).saturating_add(rest)
}

/// Clock ticks per second, the unit of the kernel's CPU time counters (`sysconf(_SC_CLK_TCK)`).
pub fn ticks_per_second() -> u32 {
    u32::try_from(rustix::param::clock_ticks_per_second()).unwrap_or(100).max(1)
}

/// CLOCK_MONOTONIC, nanoseconds.
pub fn monotonic_ns() -> u64 {
    nanoseconds(ClockId::Monotonic)
}

/// CLOCK_BOOTTIME, nanoseconds: like the monotonic clock, but it also counts suspend.
pub fn boottime_ns() -> u64 {
    nanoseconds(ClockId::Boottime)
}

/// CPU time of all of trainmon's threads, nanoseconds.
pub fn own_cpu_ns() -> u64 {
    nanoseconds(ClockId::ProcessCPUTime)
}

/// Wall clock, microseconds since 1970.
pub fn unix_us() -> u64 {
    nanoseconds(ClockId::Realtime) / 1000
}
