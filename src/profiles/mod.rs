//! What ran inside the GPU: a profiler's trace → its exact account.
//!
//! A trace is exact to a nanosecond, and milliseconds to minutes long. Its events become spans of the host's threads and of the
//! GPU's streams on one clock, and these become the account: where each share of the window went. All of it is pure and in bounded
//! memory. What does not belong here: opening files, and any judgment. `diagnosis` judges the account.

pub mod efficiency;
pub mod kernel_names;
