//! Reads the state file of a simulated GPU while its owner writes it.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::state::{RECORD_BYTES, SimulatedGpuState, StateError, parse_header};
use crate::regular_file;

/// How often a half-written record is retried. A write takes microseconds; one that takes longer than this died
/// halfway.
const FILE_ATTEMPTS: u32 = 64;

/// An open state file with a valid header.
#[derive(Debug)]
pub struct StateFile {
    file: File,
    /// Number of simulated GPUs, 1–16.
    pub device_count: u32,
}

impl StateFile {
    /// Opens `path` and checks its header. Never blocks: anything except a regular file is refused.
    ///
    /// # Errors
    /// If the file cannot be opened, is not a regular file, or has no valid header (`InvalidData`).
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = regular_file::open(path)?.map_err(|_| StateError::NoFile)?;
        let bytes = file.metadata()?.len();
        let mut header = [0; 16];
        if bytes < header.len() as u64 {
            return Err(StateError::Size(bytes).into());
        }
        file.read_exact_at(&mut header, 0)?;
        let device_count = parse_header(&header, bytes)?;
        Ok(Self { file, device_count })
    }

    /// Reads the record of one simulated GPU. `None` if it stayed half-written for as long as we tried.
    ///
    /// # Errors
    /// If the file can no longer be read (it was cut short).
    pub fn read(&self, index: u32) -> io::Result<Option<SimulatedGpuState>> {
        let offset = (u64::from(index) + 1) * RECORD_BYTES as u64;
        let (mut record, mut sequence) = ([0; RECORD_BYTES], [0; 8]);
        for attempt in 0..FILE_ATTEMPTS {
            self.file.read_exact_at(&mut record, offset)?;
            self.file.read_exact_at(&mut sequence, offset)?;
            let state = SimulatedGpuState::parse(&record);
            if state.sequence.is_multiple_of(2) && state.sequence == u64::from_le_bytes(sequence) {
                return Ok(Some(state));
            }
            if attempt > 4 {
                std::thread::yield_now();
            }
        }
        Ok(None)
    }
}
