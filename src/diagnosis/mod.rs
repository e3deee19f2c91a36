//! History → verdict. Pure: no clock, no I/O.

pub mod verdict;

pub use verdict::Verdict;
