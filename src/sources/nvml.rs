//! placeholder
use std::path::Path;

use super::gpu::{GpuError, GpuErrorKind, GpuReader};
use crate::sample::gpu::GpuSample;
/// placeholder
pub struct NvmlReader;
impl NvmlReader {
    /// placeholder
    ///
    /// # Errors
    /// always
    pub fn open(_: Option<&Path>) -> Result<Self, GpuError> {
        Err(GpuError::new(GpuErrorKind::Absent, "not built yet"))
    }
}
impl GpuReader for NvmlReader {
    fn read(&mut self, _: u64) -> Result<GpuSample, GpuError> {
        Err(GpuError::new(GpuErrorKind::Absent, "not built yet"))
    }
}
