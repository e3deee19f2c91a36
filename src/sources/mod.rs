//! What trainmon reads: one file per thing read, each a blocking reader under an injectable root.
//!
//! A reader opens what it needs once, keeps the descriptors, and hands back plain data of [`crate::sample`]. Cutting
//! up the kernel's text is done by pure functions of bytes, which treat every file as untrusted. Readers know
//! nothing of threads or time-outs: `collector` decides when to call them.

pub mod block;
pub mod bytes;

pub mod cgroup;
pub mod data_files;
pub mod data_mounts;
pub mod host;
pub mod mounts;
pub mod mountstats;
pub mod storage;

use std::path::PathBuf;

/// Where the kernel's file systems are mounted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Roots {
    /// Mount point of procfs.
    pub proc: PathBuf,
    /// Mount point of sysfs.
    pub sys: PathBuf,
}

impl Default for Roots {
    fn default() -> Self {
        Self { proc: PathBuf::from("/proc"), sys: PathBuf::from("/sys") }
    }
}
