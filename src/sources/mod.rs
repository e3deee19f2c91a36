//! Everything trainmon reads from outside, one file per thing read.
//!
//! Readers block, take an injectable root and hold no policy; parsing is a pure function of bytes. When to read, on which
//! thread and with which time-out is the collector's business.

use std::path::PathBuf;

pub mod gpu;
pub mod nvml;
mod nvml_raw;
pub mod simulated_device;

/// Where the kernel's file systems are mounted; tests point these at fixture trees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Roots {
    /// The proc file system.
    pub proc: PathBuf,
    /// The sys file system.
    pub sys: PathBuf,
}

impl Default for Roots {
    fn default() -> Self {
        Self { proc: PathBuf::from("/proc"), sys: PathBuf::from("/sys") }
    }
}
