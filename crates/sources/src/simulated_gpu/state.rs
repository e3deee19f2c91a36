//! The layout of the simulated GPU's state file. Pure: bytes in, numbers out.
//!
//! The file is 256 × (1 + 16) bytes, little-endian: a header (magic, version, GPU count), then one record per GPU. A
//! GPU is an in-order queue of work, so its exact busy time follows from two numbers (see [`Queue`]).
//!
//! Every field comes from another process and may be anything: arithmetic saturates, text is read lossily.

use std::borrow::Cow;

use thiserror::Error;

use super::queue::Queue;
use crate::fields::head;

/// Bytes of the header and of each record.
pub const RECORD_BYTES: usize = 256;
/// Most simulated GPUs in one file.
pub const MAX_DEVICES: u32 = 16;
/// Bytes of a whole file.
pub const FILE_BYTES: usize = RECORD_BYTES * (1 + MAX_DEVICES as usize);
/// First bytes of a file.
pub const MAGIC: [u8; 8] = *b"TMSIMGPU";
/// Layout version.
pub const VERSION: u32 = 1;
/// Bytes reserved for a GPU's name.
pub const NAME_BYTES: usize = 48;
/// Offset of the name in a record.
const NAME_OFFSET: usize = 168;

/// Why bytes are not a state file.
#[derive(Debug, Error, Clone, Copy, PartialEq, Eq)]
pub enum StateError {
    /// A folder, a pipe or a device file.
    #[error("not a regular file")]
    NoFile,
    /// Shorter than a header and its records.
    #[error("{0} bytes long, expected {FILE_BYTES}")]
    Size(u64),
    /// Does not begin with the magic.
    #[error("not a simulated GPU (bad magic)")]
    Magic,
    /// Written in another layout.
    #[error("layout version {0}, this build reads {VERSION}")]
    Version(u32),
    /// Zero, or more than [`MAX_DEVICES`].
    #[error("{0} GPUs, expected 1 to {MAX_DEVICES}")]
    DeviceCount(u32),
}

/// Builds the record from its numbers: each has a name, an offset in bytes, and its value in [`SimulatedGpuState::default`].
macro_rules! record {
    ($(#[doc = $doc:literal] $field:ident @ $offset:literal = $default:expr,)*) => {
        /// The record of one simulated GPU. Percentages are of the time it is busy; rates hold while it is busy.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub struct SimulatedGpuState {
            /// Name, UTF-8, NUL padded.
            pub name: [u8; NAME_BYTES],
            /// The owner's work.
            pub queue: Queue,
            /// The other process's work.
            pub other_queue: Queue,
            $(#[doc = $doc] pub $field: u64,)*
        }

        impl Default for SimulatedGpuState {
            /// A GPU like an A10G: 24 GiB, 300 W, 1,710 MHz, idle, without processes.
            fn default() -> Self {
                let (queue, other_queue) = (Queue::default(), Queue::default());
                Self { name: name_bytes("Simulated GPU"), queue, other_queue, $($field: $default,)* }
            }
        }

        impl SimulatedGpuState {
            /// Every number and its offset.
            fn numbers(&mut self) -> impl Iterator<Item = (usize, &mut u64)> {
                let (ours, theirs) = (&mut self.queue, &mut self.other_queue);
                [
                    (8, &mut ours.enqueued_ns),
                    (16, &mut ours.free_at_ns),
                    (144, &mut theirs.enqueued_ns),
                    (152, &mut theirs.free_at_ns),
                    $(($offset, &mut self.$field),)*
                ]
                .into_iter()
            }
        }
    };
}

// tests/workloads/simulated_gpu.py and assets/demo/simulated_gpu.py write the same layout.
record! {
    /// Sequence lock: odd while the record is being written.
    sequence @ 0 = 0,
    /// Memory in use by all processes, bytes.
    memory_used_bytes @ 24 = 0,
    /// Memory fitted, bytes.
    memory_total_bytes @ 32 = 24 << 30,
    /// Power drawn while nothing runs, milliwatts.
    power_idle_mw @ 40 = 30_000,
    /// Power drawn while work runs, milliwatts.
    power_busy_mw @ 48 = 220_000,
    /// Power limit, milliwatts.
    power_limit_mw @ 56 = 300_000,
    /// Temperature, °C.
    temperature_c @ 64 = 45,
    /// SM clock, MHz.
    sm_clock_mhz @ 72 = 1_710,
    /// Highest SM clock, MHz.
    sm_clock_max_mhz @ 80 = 1_710,
    /// Memory controller use while busy, percent.
    memory_busy_pct @ 88 = 40,
    /// NVML's clock event reasons.
    clock_event_reasons @ 96 = 0,
    /// PCIe rate to the GPU while busy, KiB/s.
    pcie_rx_kib_per_s @ 104 = 200_000,
    /// PCIe rate from the GPU while busy, KiB/s.
    pcie_tx_kib_per_s @ 112 = 20_000,
    /// PID of the owner; 0: none.
    owner_pid @ 120 = 0,
    /// GPU memory of the owner, bytes.
    owner_memory_bytes @ 128 = 0,
    /// PID of another process on the GPU; 0: none.
    other_pid @ 136 = 0,
    /// GPU memory of the other process, bytes.
    other_memory_bytes @ 160 = 0,
    /// If not 0, every call answers that the GPU is lost.
    lost @ 216 = 0,
    /// Every call first sleeps this long (fake NVML library only), milliseconds.
    hang_ms @ 224 = 0,
    /// If not 0, GPU performance monitoring is available.
    gpm_supported @ 232 = 0,
    /// SMs active while busy, percent.
    sm_active_pct @ 240 = 70,
    /// DRAM bandwidth used while busy, percent.
    dram_active_pct @ 248 = 35,
}

impl From<StateError> for std::io::Error {
    fn from(error: StateError) -> Self {
        Self::new(std::io::ErrorKind::InvalidData, error)
    }
}

impl SimulatedGpuState {
    /// Reads a record. Any bytes are a record; the user of a field judges what they mean.
    pub fn parse(record: &[u8; RECORD_BYTES]) -> Self {
        let mut state = Self { name: bytes_at(record, NAME_OFFSET), ..Self::default() };
        for (offset, field) in state.numbers() {
            *field = u64::from_le_bytes(bytes_at(record, offset));
        }
        state
    }

    /// Writes a record; the inverse of [`SimulatedGpuState::parse`].
    pub fn encode(mut self) -> [u8; RECORD_BYTES] {
        let mut record = [0; RECORD_BYTES];
        put(&mut record, NAME_OFFSET, &self.name);
        for (offset, field) in self.numbers() {
            put(&mut record, offset, &field.to_le_bytes());
        }
        record
    }

    /// The name, up to its first NUL.
    pub fn name(&self) -> Cow<'_, str> {
        let end = self.name.iter().position(|&byte| byte == 0).unwrap_or(NAME_BYTES);
        String::from_utf8_lossy(self.name.get(..end).unwrap_or_default())
    }

    /// The owner's PID, if it names one.
    pub fn owner(&self) -> Option<u32> {
        pid(self.owner_pid)
    }

    /// The other process's PID, if there is one.
    pub fn other_process(&self) -> Option<u32> {
        pid(self.other_pid)
    }

    /// The record as a driver would report it: what an ended process held is free again. `alive` says whether a PID
    /// exists. A queue without a PID belongs to no process and stays.
    pub fn without_the_dead(mut self, alive: impl Fn(u32) -> bool) -> Self {
        let dead = |pid_field: u64| pid_field != 0 && !pid(pid_field).is_some_and(&alive);
        if dead(self.owner_pid) {
            self.memory_used_bytes = self.memory_used_bytes.saturating_sub(self.owner_memory_bytes);
            (self.owner_pid, self.owner_memory_bytes, self.queue) = (0, 0, Queue::default());
        }
        if dead(self.other_pid) {
            self.memory_used_bytes = self.memory_used_bytes.saturating_sub(self.other_memory_bytes);
            (self.other_pid, self.other_memory_bytes, self.other_queue) = (0, 0, Queue::default());
        }
        self
    }

    /// Whether anything runs at `now_ns`.
    pub fn running(&self, now_ns: u64) -> bool {
        self.queue.running(now_ns) || self.other_queue.running(now_ns)
    }

    /// Power drawn when busy for `share` (0–1) of the time, milliwatts.
    pub fn power_mw(&self, share: f64) -> u64 {
        let (idle, busy) = (self.power_idle_mw as f64, self.power_busy_mw as f64);
        (idle + (busy - idle) * share.clamp(0.0, 1.0)) as u64
    }
}

/// Reads a header: the number of simulated GPUs. `file_bytes` is the length of the whole file.
///
/// # Errors
/// If the file is too short, starts with something else, or has another version or an impossible number of GPUs.
pub fn parse_header(header: &[u8], file_bytes: u64) -> Result<u32, StateError> {
    if header.get(..8) != Some(MAGIC.as_slice()) {
        return Err(StateError::Magic);
    }
    let version = u32::from_le_bytes(bytes_at(header, 8));
    if version != VERSION {
        return Err(StateError::Version(version));
    }
    let count = u32::from_le_bytes(bytes_at(header, 12));
    if !(1..=MAX_DEVICES).contains(&count) {
        return Err(StateError::DeviceCount(count));
    }
    if file_bytes < FILE_BYTES as u64 {
        return Err(StateError::Size(file_bytes));
    }
    Ok(count)
}

/// Writes a header; the inverse of [`parse_header`].
pub fn encode_header(device_count: u32) -> [u8; RECORD_BYTES] {
    let mut header = [0; RECORD_BYTES];
    put(&mut header, 0, &MAGIC);
    put(&mut header, 8, &VERSION.to_le_bytes());
    put(&mut header, 12, &device_count.to_le_bytes());
    header
}

/// A name as stored in a record: cut between characters, NUL padded.
pub fn name_bytes(name: &str) -> [u8; NAME_BYTES] {
    let mut bytes = [0; NAME_BYTES];
    put(&mut bytes, 0, head(name, NAME_BYTES).as_bytes());
    bytes
}

/// The `N` bytes at an offset; zeros if there are not that many.
fn bytes_at<const N: usize>(bytes: &[u8], offset: usize) -> [u8; N] {
    bytes.get(offset..).and_then(<[u8]>::first_chunk).copied().unwrap_or([0; N])
}

fn put(into: &mut [u8], offset: usize, bytes: &[u8]) {
    if let Some(place) = into.get_mut(offset..offset + bytes.len()) {
        place.copy_from_slice(bytes);
    }
}

fn pid(field: u64) -> Option<u32> {
    u32::try_from(field).ok().filter(|&pid| pid > 0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::meter::activity;
    use super::*;

    #[test]
    fn fields_lie_where_the_layout_puts_them() {
        let mut record = [0; RECORD_BYTES];
        for offset in (0..RECORD_BYTES).step_by(8) {
            record[offset..offset + 8].copy_from_slice(&(offset as u64).to_le_bytes());
        }
        record[168..216].copy_from_slice(&name_bytes("A10G"));
        let state = SimulatedGpuState::parse(&record);
        assert_eq!(
            [state.sequence, state.queue.free_at_ns, state.memory_used_bytes, state.power_limit_mw, state.owner_pid],
            [0, 16, 24, 56, 120]
        );
        assert_eq!(
            [state.other_memory_bytes, state.lost, state.hang_ms, state.dram_active_pct],
            [160, 216, 224, 248]
        );
        assert_eq!(state.name(), "A10G");
    }

    #[test]
    fn the_dead_hold_nothing() {
        let mut state =
            SimulatedGpuState { owner_pid: 7, owner_memory_bytes: 30, memory_used_bytes: 50, ..Default::default() };
        state.queue.launch(0, 1_000);
        state.other_pid = 8;
        state.other_memory_bytes = 10;
        let seen = state.without_the_dead(|pid| pid == 8);
        assert_eq!((seen.owner(), seen.other_process(), seen.memory_used_bytes), (None, Some(8), 20));
        assert!(!seen.running(500));
    }

    #[test]
    fn headers_are_checked() {
        let good = encode_header(2);
        assert_eq!(parse_header(&good, FILE_BYTES as u64), Ok(2));
        assert_eq!(parse_header(&good, 4_351), Err(StateError::Size(4_351)));
        assert_eq!(parse_header(&[], 0), Err(StateError::Magic));
        assert_eq!(parse_header(&encode_header(17), 4_352), Err(StateError::DeviceCount(17)));
        let mut other = good;
        other[8] = 9;
        assert_eq!(parse_header(&other, 4_352), Err(StateError::Version(9)));
    }

    proptest! {
        #[test]
        fn any_record_survives_a_round_trip_and_any_use(record in prop::collection::vec(any::<u8>(), RECORD_BYTES),
            other in prop::collection::vec(any::<u8>(), RECORD_BYTES), t0 in any::<u64>(), t1 in any::<u64>()) {
            let record: [u8; RECORD_BYTES] = record.try_into().unwrap();
            let state = SimulatedGpuState::parse(&record);
            prop_assert_eq!(state.encode(), record);
            let other: [u8; RECORD_BYTES] = other.try_into().unwrap();
            let other = SimulatedGpuState::parse(&other);
            let _ = (state.name(), state.without_the_dead(|pid| pid % 2 == 0), state.power_mw(t0 as f64));
            if let Some(seen) = activity(&(state, t0), &(other, t1)) {
                prop_assert!((0.0..=1.0).contains(&seen.device) && seen.device >= seen.owner.max(seen.other_process));
            }
        }

        #[test]
        fn any_header_is_judged(bytes in prop::collection::vec(any::<u8>(), 0..300), length in any::<u64>(), count in any::<u32>()) {
            let _ = parse_header(&bytes, length);
            prop_assert_eq!(parse_header(&encode_header(count), FILE_BYTES as u64).is_ok(), (1..=16).contains(&count));
        }

        #[test]
        fn names_are_cut_between_characters(name in "\\PC{0,80}") {
            let state = SimulatedGpuState { name: name_bytes(&name), ..Default::default() };
            prop_assert!(name.starts_with(state.name().as_ref()));
        }
    }
}
