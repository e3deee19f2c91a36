//! The owner's side of the simulated GPU: a training-like program creates the file and launches work on it.
//!
//! Work is a length of time. Launching returns at once, like a kernel launch. Readers see a record through its sequence
//! lock, so nothing but plain writes to the file is needed. One process writes a file at a time, from one thread: the demo's
//! file is made here and then belongs to its Python program.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::time::Duration;

use super::monotonic_ns;
use super::state::{FILE_BYTES, MAX_DEVICES, RECORD_BYTES, SimulatedGpuState, encode_header};

/// Simulated GPUs owned by this process.
#[derive(Debug)]
pub struct SimulatedGpu {
    file: File,
    devices: Vec<SimulatedGpuState>,
}

impl SimulatedGpu {
    /// Creates (or overwrites) the state file at `path` with these simulated GPUs. The calling process becomes the
    /// owner of each that names no other. [`SimulatedGpuState::default`] is the size of an A10G.
    ///
    /// # Errors
    /// If `devices` is empty or has more than 16 entries, or the file cannot be written.
    pub fn create(path: &Path, devices: &[SimulatedGpuState]) -> io::Result<Self> {
        let count = u32::try_from(devices.len()).unwrap_or(u32::MAX);
        if !(1..=MAX_DEVICES).contains(&count) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "a simulated GPU file holds 1 to 16 GPUs"));
        }
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(true).mode(0o600).open(path)?;
        let mut bytes = Vec::with_capacity(FILE_BYTES);
        let mut devices = devices.to_vec();
        for device in &mut devices {
            device.sequence = 0;
            if device.owner_pid == 0 {
                device.owner_pid = u64::from(std::process::id());
            }
            device.memory_used_bytes =
                device.memory_used_bytes.max(device.owner_memory_bytes.saturating_add(device.other_memory_bytes));
            bytes.extend_from_slice(&device.encode());
        }
        bytes.resize(FILE_BYTES - RECORD_BYTES, 0);
        // The header is written last: a reader that comes too early finds no magic, and says so.
        file.write_all_at(&bytes, RECORD_BYTES as u64)?;
        file.write_all_at(&encode_header(count), 0)?;
        Ok(Self { file, devices })
    }

    /// Launches work of `length` on GPU 0 and returns at once.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn launch(&mut self, length: Duration) -> io::Result<()> {
        self.launch_on(0, length)
    }

    /// Launches work of `length` on GPU `index` and returns at once.
    ///
    /// # Errors
    /// If `index` is out of range or the file cannot be written.
    pub fn launch_on(&mut self, index: usize, length: Duration) -> io::Result<()> {
        let (now, length) = (monotonic_ns(), nanoseconds(length));
        self.update(index, |device| device.queue.launch(now, length))
    }

    /// Time GPU 0 has been busy up to now: the truth against which a monitor's readings are checked.
    pub fn busy(&self) -> Duration {
        let busy_ns = self.devices.first().map_or(0, |device| device.queue.busy_ns(monotonic_ns()));
        Duration::from_nanos(busy_ns)
    }

    /// Changes the record of GPU `index` under its sequence lock.
    ///
    /// # Errors
    /// If `index` is out of range or the file cannot be written.
    pub fn update(&mut self, index: usize, change: impl FnOnce(&mut SimulatedGpuState)) -> io::Result<()> {
        let Some(device) = self.devices.get_mut(index) else {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "no such simulated GPU"));
        };
        let sequence = device.sequence;
        let offset = ((index + 1) * RECORD_BYTES) as u64;
        change(device);
        device.sequence = sequence.wrapping_add(1);
        self.file.write_all_at(&device.sequence.to_le_bytes(), offset)?;
        self.file.write_all_at(device.encode().get(8..).unwrap_or_default(), offset + 8)?;
        device.sequence = sequence.wrapping_add(2);
        self.file.write_all_at(&device.sequence.to_le_bytes(), offset)
    }
}

fn nanoseconds(length: Duration) -> u64 {
    u64::try_from(length.as_nanos()).unwrap_or(u64::MAX)
}
