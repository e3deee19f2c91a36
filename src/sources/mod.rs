//! Readers of the outside world, one file for each thing read. They block, take their root as an argument, and know
//! neither threads nor time; parsing is a pure function of bytes.

pub(crate) mod accelerators;
mod block;
pub(crate) mod cgroup;
pub(crate) mod clock;
pub(crate) mod connections;
mod data_files;
mod data_mounts;
pub(crate) mod descriptors;
mod fields;
pub(crate) mod files;
pub mod gpu;
mod gpu_reader;
pub(crate) mod hidepid;
pub mod host;
pub mod job;
mod links;
mod maps;
mod mounts;
mod mountstats;
pub(crate) mod neighbours;
mod nvml;
mod nvml_raw;
mod process;
pub(crate) mod processes;
pub mod py_spy;
pub mod recording;
mod regular_file;
mod roles;
pub mod sampler;
mod secrets;
pub mod simulated_device;
pub(crate) mod storage;
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
