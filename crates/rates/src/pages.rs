//! Pages of memory. Kernels count them in their own size, which on ARM may be 16 or 64 KiB; rates count them in pages of 4 KiB, so
//! that limits and shares mean the same on every machine.

use trainmon_sample::Sample;

/// Bytes of a page in rates.
pub const PAGE: f64 = 4096.0;

/// Bytes of one of the machine's pages; 4 KiB in recordings that do not say.
pub(super) fn bytes(sample: &Sample) -> f64 {
    let known = sample.host.as_deref().and_then(|host| host.page_bytes).filter(|bytes| *bytes > 0);
    known.map_or(PAGE, f64::from)
}

/// How many pages of 4 KiB one of the machine's pages has.
pub(super) fn of_4_kib(sample: &Sample) -> f64 {
    bytes(sample) / PAGE
}
