//! The parts of a frame that differences of counters make: rates and shares of one interval. Each is declared in the file that
//! computes it.
//!
//! `None` means not measured: no previous sample, a counter that went backwards, or a source that is missing.

pub use super::gpu::{GpuProcessRates, GpuRates};
pub use super::gpu_link::GpuLink;
pub use super::host::{CpuRates, HostRates, NetRates};
pub use super::job::{JobRates, ProcessRates};
pub use super::storage::{DeviceRates, MountRates, StorageRates};
