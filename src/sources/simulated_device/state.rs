//! The layout of the simulated device's state file, and the arithmetic of its work queue. Pure: bytes in, numbers out.
//!
//! The file is 256 × (1 + 16) bytes, little-endian: a header (magic, version, device count), then one record per device.
//! A device is an in-order queue of work: launching work of length `d` at time `t` starts it when the queue is free, so the
//! time the device was busy up to `t` is known exactly from two numbers and nobody has to tick.
//!
//! Every field comes from another process and may be anything: arithmetic saturates, text is read lossily.

use std::borrow::Cow;

use thiserror::Error;

/// Bytes of the header and of each device's record.
pub const RECORD_BYTES: usize = 256;
/// Most devices a file describes.
pub const MAX_DEVICES: u32 = 16;
/// Bytes of a whole file.
pub const FILE_BYTES: usize = RECORD_BYTES * (1 + MAX_DEVICES as usize);
/// First bytes of a file.
pub const MAGIC: [u8; 8] = *b"TMSIMGPU";
/// Layout version.
pub const VERSION: u32 = 1;
/// Bytes kept for a device's name.
pub const NAME_BYTES: usize = 48;

/// Why bytes are not a state file.
#[derive(Debug, Error, Clone, Copy, PartialEq, Eq)]
pub enum StateError {
    /// Shorter than a header and its records.
    #[error("{0} bytes long, expected {FILE_BYTES}")]
    Size(u64),
    /// Does not begin with the magic.
    #[error("not a simulated device (bad magic)")]
    Magic,
    /// Written in another layout.
    #[error("layout version {0}, this build reads {VERSION}")]
    Version(u32),
    /// Zero or more than [`MAX_DEVICES`] devices.
    #[error("{0} devices, expected 1 to {MAX_DEVICES}")]
    DeviceCount(u32),
}

/// An in-order queue of work on a device. Times are CLOCK_MONOTONIC nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Queue {
    /// Length of all work ever launched.
    pub enqueued_ns: u64,
    /// When the last launched work ends.
    pub free_at_ns: u64,
}

impl Queue {
    /// Launches work of `length_ns` at `now_ns`.
    pub fn launch(&mut self, now_ns: u64, length_ns: u64) {
        self.free_at_ns = self.free_at_ns.max(now_ns).saturating_add(length_ns);
        self.enqueued_ns = self.enqueued_ns.saturating_add(length_ns);
    }

    /// Time the queue was busy up to `now_ns`.
    #[must_use]
    pub fn busy_ns(&self, now_ns: u64) -> u64 {
        self.enqueued_ns.saturating_sub(self.free_at_ns.saturating_sub(now_ns))
    }

    /// Whether work runs at `now_ns`.
    #[must_use]
    pub fn running(&self, now_ns: u64) -> bool {
        self.free_at_ns > now_ns
    }
}

/// A field of a record: how it is read from the bytes where it begins, and written there. What lies beyond the record
/// reads as 0.
trait Field: Sized {
    fn take(bytes: &[u8]) -> Self;
    fn put(&self, bytes: &mut [u8]);
}

impl Field for u64 {
    fn take(bytes: &[u8]) -> Self {
        bytes.first_chunk().map_or(0, |bytes| Self::from_le_bytes(*bytes))
    }

    fn put(&self, bytes: &mut [u8]) {
        if let Some(place) = bytes.first_chunk_mut() {
            *place = self.to_le_bytes();
        }
    }
}

impl Field for Queue {
    fn take(bytes: &[u8]) -> Self {
        Self { enqueued_ns: u64::take(bytes), free_at_ns: u64::take(bytes.get(8..).unwrap_or_default()) }
    }

    fn put(&self, bytes: &mut [u8]) {
        self.enqueued_ns.put(bytes);
        self.free_at_ns.put(bytes.get_mut(8..).unwrap_or_default());
    }
}

impl Field for [u8; NAME_BYTES] {
    fn take(bytes: &[u8]) -> Self {
        bytes.first_chunk().copied().unwrap_or([0; NAME_BYTES])
    }

    fn put(&self, bytes: &mut [u8]) {
        if let Some(place) = bytes.first_chunk_mut() {
            *place = *self;
        }
    }
}

/// The layout of a record: each field with its offset, its type and its default.
macro_rules! record {
    ($($(#[$doc:meta])* $offset:literal $field:ident: $type:ty = $default:expr;)*) => {
        /// One device's record. Percentages are of the time the device is busy; rates hold while it is busy.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub struct DeviceState {
            $($(#[$doc])* pub $field: $type,)*
        }

        impl Default for DeviceState {
            /// A device of an A10G's size: 24 GiB, 300 W, 1,710 MHz, nothing running, nobody on it.
            fn default() -> Self {
                Self { $($field: $default,)* }
            }
        }

        impl DeviceState {
            /// Reads a record. Any bytes are a record: what they mean is judged by whoever uses a field.
            #[must_use]
            pub fn parse(record: &[u8; RECORD_BYTES]) -> Self {
                Self { $($field: Field::take(record.get($offset..).unwrap_or_default()),)* }
            }

            /// Writes a record; the inverse of [`DeviceState::parse`].
            #[must_use]
            pub fn encode(&self) -> [u8; RECORD_BYTES] {
                let mut record = [0; RECORD_BYTES];
                $(self.$field.put(record.get_mut($offset..).unwrap_or_default());)*
                record
            }
        }
    };
}

record! {
    /// Sequence lock: odd while the record is being written.
    0 sequence: u64 = 0;
    /// The owner's work.
    8 queue: Queue = Queue::default();
    /// Memory in use by everybody, bytes.
    24 memory_used_bytes: u64 = 0;
    /// Memory fitted, bytes.
    32 memory_total_bytes: u64 = 24 << 30;
    /// Power drawn while nothing runs, milliwatts.
    40 power_idle_mw: u64 = 30_000;
    /// Power drawn while work runs, milliwatts.
    48 power_busy_mw: u64 = 220_000;
    /// Power limit, milliwatts.
    56 power_limit_mw: u64 = 300_000;
    /// Temperature, °C.
    64 temperature_c: u64 = 45;
    /// SM clock, MHz.
    72 sm_clock_mhz: u64 = 1_710;
    /// Highest SM clock, MHz.
    80 sm_clock_max_mhz: u64 = 1_710;
    /// Memory controller use while busy, percent.
    88 memory_busy_pct: u64 = 40;
    /// NVML's clock event reasons.
    96 clock_event_reasons: u64 = 0;
    /// PCIe towards the device while busy, KiB/s.
    104 pcie_rx_kib_s: u64 = 200_000;
    /// PCIe from the device while busy, KiB/s.
    112 pcie_tx_kib_s: u64 = 20_000;
    /// PID of the owner; 0: none.
    120 owner_pid: u64 = 0;
    /// Device memory of the owner, bytes.
    128 owner_memory_bytes: u64 = 0;
    /// PID of another process on the device; 0: none.
    136 neighbour_pid: u64 = 0;
    /// The neighbour's work.
    144 neighbour_queue: Queue = Queue::default();
    /// Device memory of the neighbour, bytes.
    160 neighbour_memory_bytes: u64 = 0;
    /// Name, UTF-8, NUL padded.
    168 name: [u8; NAME_BYTES] = name_bytes("Simulated GPU");
    /// Not 0: every call answers that the GPU is lost.
    216 lost: u64 = 0;
    /// Every call sleeps this long first (the fake NVML library only), milliseconds.
    224 hang_ms: u64 = 0;
    /// Not 0: GPU performance monitoring is offered.
    232 gpm_supported: u64 = 0;
    /// SMs active while busy, percent.
    240 sm_active_pct: u64 = 70;
    /// DRAM bandwidth used while busy, percent.
    248 dram_active_pct: u64 = 35;
}

impl DeviceState {
    /// The name, up to its first NUL.
    #[must_use]
    pub fn name(&self) -> Cow<'_, str> {
        let end = self.name.iter().position(|&byte| byte == 0).unwrap_or(NAME_BYTES);
        String::from_utf8_lossy(self.name.get(..end).unwrap_or_default())
    }

    /// The owner's PID, if it names one.
    #[must_use]
    pub fn owner(&self) -> Option<u32> {
        pid(self.owner_pid)
    }

    /// The neighbour's PID, if it names one.
    #[must_use]
    pub fn neighbour(&self) -> Option<u32> {
        pid(self.neighbour_pid)
    }

    /// The record as a driver would see it: what a process held that no longer exists is free again. `alive` says whether
    /// a PID exists. A queue without a PID is nobody's and stays.
    #[must_use]
    pub fn without_the_dead(mut self, alive: impl Fn(u32) -> bool) -> Self {
        let dead = |pid_field: u64| pid_field != 0 && !pid(pid_field).is_some_and(&alive);
        if dead(self.owner_pid) {
            self.memory_used_bytes = self.memory_used_bytes.saturating_sub(self.owner_memory_bytes);
            (self.owner_pid, self.owner_memory_bytes, self.queue) = (0, 0, Queue::default());
        }
        if dead(self.neighbour_pid) {
            self.memory_used_bytes = self.memory_used_bytes.saturating_sub(self.neighbour_memory_bytes);
            (self.neighbour_pid, self.neighbour_memory_bytes, self.neighbour_queue) = (0, 0, Queue::default());
        }
        self
    }

    /// Whether anything runs at `now_ns`.
    #[must_use]
    pub fn running(&self, now_ns: u64) -> bool {
        self.queue.running(now_ns) || self.neighbour_queue.running(now_ns)
    }

    /// Power drawn when busy for `share` (0–1) of the time, milliwatts.
    #[must_use]
    pub fn power_mw(&self, share: f64) -> u64 {
        let (idle, busy) = (self.power_idle_mw as f64, self.power_busy_mw as f64);
        (idle + (busy - idle) * share.clamp(0.0, 1.0)) as u64
    }
}

/// Reads a header: the number of devices. `file_bytes` is the length of the whole file.
///
/// # Errors
/// When the file is too short, begins with something else, or has another version or an impossible number of devices.
pub fn parse_header(header: &[u8], file_bytes: u64) -> Result<u32, StateError> {
    if header.get(..8) != Some(MAGIC.as_slice()) {
        return Err(StateError::Magic);
    }
    let field =
        |offset: usize| header.get(offset..).and_then(<[u8]>::first_chunk).map_or(0, |at| u32::from_le_bytes(*at));
    let (version, count) = (field(8), field(12));
    if version != VERSION {
        return Err(StateError::Version(version));
    }
    if !(1..=MAX_DEVICES).contains(&count) {
        return Err(StateError::DeviceCount(count));
    }
    if file_bytes < FILE_BYTES as u64 {
        return Err(StateError::Size(file_bytes));
    }
    Ok(count)
}

/// Writes a header; the inverse of [`parse_header`].
#[must_use]
pub fn encode_header(device_count: u32) -> [u8; RECORD_BYTES] {
    let mut header = [0; RECORD_BYTES];
    let fields = MAGIC.into_iter().chain(VERSION.to_le_bytes()).chain(device_count.to_le_bytes());
    for (place, byte) in header.iter_mut().zip(fields) {
        *place = byte;
    }
    header
}

/// A name as a record keeps it: cut at a character's border, NUL padded.
#[must_use]
pub fn name_bytes(name: &str) -> [u8; NAME_BYTES] {
    let mut bytes = [0; NAME_BYTES];
    let mut end = name.len().min(NAME_BYTES);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    for (place, byte) in bytes.iter_mut().zip(name.bytes().take(end)) {
        *place = byte;
    }
    bytes
}

/// How busy a device was over a stretch of time, shares 0–1.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Activity {
    /// By the owner's work.
    pub owner: f64,
    /// By the neighbour's work.
    pub neighbour: f64,
    /// By either: their sum, at most 1 (two processes take turns on a device).
    pub device: f64,
}

/// Activity between two readings of a device, each with its CLOCK_MONOTONIC time. `None` when no time has passed.
#[must_use]
pub fn activity(before: (&DeviceState, u64), after: (&DeviceState, u64)) -> Option<Activity> {
    let elapsed = after.1.checked_sub(before.1).filter(|&elapsed| elapsed > 0)? as f64;
    let share = |old: &Queue, new: &Queue| {
        (new.busy_ns(after.1).saturating_sub(old.busy_ns(before.1)) as f64 / elapsed).clamp(0.0, 1.0)
    };
    let owner = share(&before.0.queue, &after.0.queue);
    let neighbour = share(&before.0.neighbour_queue, &after.0.neighbour_queue);
    Some(Activity { owner, neighbour, device: (owner + neighbour).min(1.0) })
}

fn pid(field: u64) -> Option<u32> {
    u32::try_from(field).ok().filter(|&pid| pid > 0)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_queue_knows_its_busy_time_exactly() {
        let mut queue = Queue::default();
        queue.launch(1_000, 100);
        queue.launch(1_050, 100);
        assert_eq!(queue.free_at_ns, 1_200);
        assert_eq!([900, 1_000, 1_100, 1_200, 5_000].map(|t| queue.busy_ns(t)), [0, 0, 100, 200, 200]);
        queue.launch(2_000, 50);
        assert_eq!(queue.busy_ns(2_025), 225);
        assert!(queue.running(2_049) && !queue.running(2_050));
    }

    #[test]
    fn fields_lie_where_the_layout_puts_them() {
        let mut record = [0; RECORD_BYTES];
        for offset in (0..RECORD_BYTES).step_by(8) {
            record[offset..offset + 8].copy_from_slice(&(offset as u64).to_le_bytes());
        }
        record[168..216].copy_from_slice(&name_bytes("A10G"));
        let state = DeviceState::parse(&record);
        assert_eq!(
            [state.sequence, state.queue.free_at_ns, state.memory_used_bytes, state.power_limit_mw, state.owner_pid],
            [0, 16, 24, 56, 120]
        );
        assert_eq!(
            [state.neighbour_memory_bytes, state.lost, state.hang_ms, state.dram_active_pct],
            [160, 216, 224, 248]
        );
        assert_eq!(state.name(), "A10G");
    }

    #[test]
    fn the_dead_hold_nothing() {
        let mut state =
            DeviceState { owner_pid: 7, owner_memory_bytes: 30, memory_used_bytes: 50, ..Default::default() };
        state.queue.launch(0, 1_000);
        state.neighbour_pid = 8;
        state.neighbour_memory_bytes = 10;
        let seen = state.without_the_dead(|pid| pid == 8);
        assert_eq!((seen.owner(), seen.neighbour(), seen.memory_used_bytes), (None, Some(8), 20));
        assert!(!seen.running(500));
    }

    #[test]
    fn a_shared_device_is_busy_at_most_all_the_time() {
        let before = DeviceState::default();
        let mut after = before;
        after.queue.launch(0, 800);
        after.neighbour_queue.launch(0, 500);
        let seen = activity((&before, 0), (&after, 1_000)).unwrap();
        assert_eq!(seen, Activity { owner: 0.8, neighbour: 0.5, device: 1.0 });
        assert_eq!(activity((&before, 5), (&after, 5)), None);
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
            let state = DeviceState::parse(&record);
            prop_assert_eq!(state.encode(), record);
            let other: [u8; RECORD_BYTES] = other.try_into().unwrap();
            let other = DeviceState::parse(&other);
            let _ = (state.name(), state.without_the_dead(|pid| pid % 2 == 0), state.power_mw(t0 as f64));
            if let Some(seen) = activity((&state, t0), (&other, t1)) {
                prop_assert!((0.0..=1.0).contains(&seen.device) && seen.device >= seen.owner.max(seen.neighbour));
            }
        }

        #[test]
        fn any_header_is_judged(bytes in prop::collection::vec(any::<u8>(), 0..300), length in any::<u64>(), count in any::<u32>()) {
            let _ = parse_header(&bytes, length);
            prop_assert_eq!(parse_header(&encode_header(count), FILE_BYTES as u64).is_ok(), (1..=16).contains(&count));
        }

        #[test]
        fn names_are_cut_between_characters(name in "\\PC{0,80}") {
            let state = DeviceState { name: name_bytes(&name), ..Default::default() };
            prop_assert!(name.starts_with(state.name().as_ref()));
        }
    }
}
