//! What a hit costs here, measured on functions of trainmon itself: the job was slower by that much while it was counted.
//!
//! The kernel emulates some instructions, and steps over the others with a second trap. On bare metal that hardly matters; on some
//! virtual machines the second trap costs 10 µs, where the first one costs half of one.

use std::fs::File;
use std::hint::black_box;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Instant;

use super::kernel::{KernelCounter, detach};
use super::libraries::is_stepped;
use trainmon_sources::fields::lines;
use trainmon_sources::files::{READ_LIMIT, read_once};
use trainmon_sources::maps::mapping;

/// Calls of a function. On a slow virtual machine they take two milliseconds.
const TIMED_CALLS: u32 = 200;
/// What a hit costs where that cannot be measured, seconds: as on virtual machines.
const EMULATED_S: f64 = 1e-6;
const STEPPED_S: f64 = 10e-6;

/// Seconds for a hit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct HitCost {
    /// On an instruction that the kernel emulates.
    emulated_s: f64,
    /// On another one.
    stepped_s: f64,
}

impl HitCost {
    /// Measures it.
    pub(super) fn measured() -> Self {
        let both = [measured(adds), measured(keeps)];
        let of = |wanted: bool| both.into_iter().flatten().find(|(stepped, _)| *stepped == wanted).map(|(_, s)| s);
        Self { emulated_s: of(false).unwrap_or(EMULATED_S), stepped_s: of(true).unwrap_or(STEPPED_S) }
    }

    pub(super) fn of_hit(self, stepped: bool) -> f64 {
        if stepped { self.stepped_s } else { self.emulated_s }
    }

    /// The larger one.
    pub(super) fn most_s(self) -> f64 {
        self.emulated_s.max(self.stepped_s)
    }
}

/// A function that the compiler needs no stack for, and one that keeps a number on it.
#[inline(never)]
fn adds(number: u32) -> u32 {
    black_box(number).wrapping_add(1)
}

#[inline(never)]
fn keeps(number: u32) -> u32 {
    let kept = black_box(number).wrapping_mul(3);
    black_box(adds(number)).wrapping_add(kept)
}

/// Whether the function's first instruction is stepped over, and the seconds for a hit on it.
fn measured(function: fn(u32) -> u32) -> Option<(bool, f64)> {
    let counter = KernelCounter::load().ok()?;
    counter.switch(true, true).ok()?;
    let offset = offset_in_own_file(function)?;
    let mut code = [0; 4];
    File::open("/proc/self/exe").ok()?.read_exact_at(&mut code, offset).ok()?;
    let timed = |calls: u32| {
        let begun = Instant::now();
        (0..calls).for_each(|number| {
            black_box(function(number));
        });
        begun.elapsed().as_secs_f64()
    };
    let link = counter.attach_at(c"/proc/self/exe", offset, std::process::id()).ok()?;
    // The first of them are slower.
    timed(TIMED_CALLS / 4);
    let with = timed(TIMED_CALLS);
    let hits = counter.tally().ok()?.first().copied()?;
    // It ends on its own, while the job is counted.
    detach(vec![link]);
    (hits >= u64::from(TIMED_CALLS)).then(|| (is_stepped(&code), with / f64::from(TIMED_CALLS)))
}

/// Where a function begins in the program's file.
fn offset_in_own_file(function: fn(u32) -> u32) -> Option<u64> {
    let address = (function as *const ()).addr() as u64;
    let maps = read_once(Path::new("/proc/self/maps"), READ_LIMIT).ok()?;
    let found = lines(&maps).filter_map(mapping).find(|found| {
        let (start, end) = found.addresses;
        found.is_code && (start..end).contains(&address)
    })?;
    Some(address - found.addresses.0 + found.offset)
}
