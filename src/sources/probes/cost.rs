//! What a hit costs here, measured on a function of trainmon itself: the job was slower by that much while it was counted.

use std::hint::black_box;
use std::path::Path;
use std::time::Instant;

use super::kernel::{KernelCounter, detach};
use crate::sources::fields::lines;
use crate::sources::files::{READ_LIMIT, read_once};
use crate::sources::maps::mapping;

/// Calls of the function. On a slow virtual machine they take two milliseconds.
const CALLS: u32 = 200;

/// The function.
#[inline(never)]
fn called(number: u32) -> u32 {
    black_box(number).wrapping_add(1)
}

/// Seconds for a hit; `None` if it cannot be measured.
pub(super) fn hit_s() -> Option<f64> {
    let counter = KernelCounter::load().ok()?;
    counter.switch(true, true).ok()?;
    let link = counter.attach_at(c"/proc/self/exe", offset_of_called()?, std::process::id()).ok()?;
    let timed = |calls: u32| {
        let begun = Instant::now();
        (0..calls).for_each(|number| {
            black_box(called(number));
        });
        begun.elapsed().as_secs_f64()
    };
    // The first of them are slower.
    timed(CALLS / 4);
    let with = timed(CALLS);
    let hits = counter.tally().ok()?.first().copied()?;
    // It ends on its own, while the job is counted.
    detach(vec![link]);
    (hits >= u64::from(CALLS)).then(|| with / f64::from(CALLS))
}

/// Where the function begins in the program's file.
fn offset_of_called() -> Option<u64> {
    let address = (called as fn(u32) -> u32 as *const ()).addr() as u64;
    let maps = read_once(Path::new("/proc/self/maps"), READ_LIMIT).ok()?;
    let found = lines(&maps).filter_map(mapping).find(|found| {
        let (start, end) = found.addresses;
        found.is_code && (start..end).contains(&address)
    })?;
    Some(address - found.addresses.0 + found.offset)
}
