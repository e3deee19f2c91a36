//! Readers of the outside world, one file for each thing read. They block, take their root as an argument, and know
//! neither threads nor time; parsing is a pure function of bytes.

pub mod block;
pub mod bytes;
pub mod cgroup;
pub mod data_files;
pub mod data_mounts;
pub mod gpu;
mod gpu_reader;
pub mod host;
pub mod job;
pub mod kept;
pub mod lane;
pub mod mounts;
pub mod mountstats;
pub mod neighbours;
pub mod nvml;
mod nvml_raw;
pub mod process;
pub mod processes;
pub mod py_spy;
pub mod recording;
pub mod roles;
pub mod simulated_device;
pub mod storage;
pub mod task_files;

use std::path::PathBuf;

/// Where the kernel's file systems are found; a test or a container's host mount gives others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Roots {
    /// `/proc`.
    pub proc: PathBuf,
    /// `/sys`.
    pub sys: PathBuf,
}

impl Default for Roots {
    fn default() -> Self {
        Self { proc: "/proc".into(), sys: "/sys".into() }
    }
}
