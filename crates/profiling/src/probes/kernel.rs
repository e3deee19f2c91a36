//! The counting part inside the kernel: its tables and programs, and the links that run them where calls begin and return. All of it
//! goes with this value, and with the process.

use std::io;
use std::os::fd::OwnedFd;
use std::os::linux::fs::MetadataExt;
use std::thread::JoinHandle;

use super::bpf::{self, Map, MapKind};
use super::libraries::{ProbedCall, ProbedFile};
use super::program::{self, KernelTables, Switch, Tally};
use super::symbols::KnownCall;
use trainmon_sample::probe_counts::GpuCallKind;

/// Most rows of threads and calls.
pub(super) const MOST_COUNTED_ROWS: u32 = 4096;

/// The tables and the programs.
#[derive(Debug)]
pub(super) struct KernelCounter {
    rows: Map,
    inside: Map,
    tally: Map,
    switches: Map,
    call: OwnedFd,
    enter: OwnedFd,
    leave: OwnedFd,
}

/// What was counted of a call in a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CountedRow {
    pub tid: u32,
    /// Index of the call.
    pub call: u32,
    pub count: u64,
    pub waited_ns: u64,
}

/// Two groups of probes, each with windows of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ProbeGroup {
    /// Launches, copies, allocations: counted.
    Calls,
    /// Calls that wait: timed too.
    Waits,
}

impl KernelCounter {
    pub(super) fn load() -> io::Result<Self> {
        let namespace = std::fs::metadata("/proc/self/ns/pid").map(|found| (found.st_dev(), found.st_ino()))?;
        let rows = Map::create(MapKind::Hash, 8, 16, MOST_COUNTED_ROWS)?;
        let inside = Map::create(MapKind::Hash, 4, 24, MOST_COUNTED_ROWS)?;
        let tally = Map::create(MapKind::Array, 4, Tally::BYTES, 1)?;
        let switches = Map::create(MapKind::Array, 4, Switch::BYTES, 1)?;
        let tables = KernelTables { rows: &rows, inside: &inside, tally: &tally, switches: &switches, namespace };
        let call = bpf::load(&program::call(&tables))?;
        let enter = bpf::load(&program::enter(&tables))?;
        let leave = bpf::load(&program::leave(&tables))?;
        Ok(Self { rows, inside, tally, switches, call, enter, leave })
    }

    /// Puts the probes of a group into a process. `calls` are all calls by their index.
    pub(super) fn attach(
        &self,
        group: ProbeGroup,
        files: &[ProbedFile],
        calls: &[KnownCall],
        pid: u32,
    ) -> io::Result<Vec<OwnedFd>> {
        let mut links = Vec::new();
        let waits = group == ProbeGroup::Waits;
        // What is noted at a begin is to be found at the return.
        let programs: &[(&OwnedFd, bool)] =
            if waits { &[(&self.leave, true), (&self.enter, false)] } else { &[(&self.call, false)] };
        for (program, returns) in programs {
            for file in files {
                let wanted = file.calls.iter().filter(|found| (found.call.kind == GpuCallKind::Sync) == waits);
                let place = |found: &ProbedCall| {
                    let cookie = calls.iter().position(|call| *call == found.call)?;
                    Some((found.offset, cookie as u64))
                };
                let places: Vec<(u64, u64)> = wanted.filter_map(place).collect();
                if !places.is_empty() {
                    links.push(bpf::attach(program, &file.path, &places, *returns, pid)?);
                }
            }
        }
        Ok(links)
    }

    /// Counts a place of a file in a process, for a test of its cost.
    pub(super) fn attach_at(&self, file: &std::ffi::CStr, offset: u64, pid: u32) -> io::Result<OwnedFd> {
        bpf::attach(&self.call, file, &[(offset, 0)], false, pid)
    }

    /// Which groups are counted from now on.
    pub(super) fn switch(&self, calls: bool, waits: bool) -> io::Result<()> {
        let values = [calls, waits].map(|on| u64::from(on).to_ne_bytes());
        self.switches.set(&0_u32.to_ne_bytes(), values.as_flattened())
    }

    /// Hits of both groups, and calls that found no room.
    pub(super) fn tally(&self) -> io::Result<[u64; 3]> {
        let value = self.tally.get(&0_u32.to_ne_bytes())?;
        Ok([0, 1, 2].map(|nth| number(&value, nth)))
    }

    /// All rows.
    pub(super) fn rows(&self) -> io::Result<Vec<CountedRow>> {
        let mut rows = Vec::new();
        for key in self.rows.keys(MOST_COUNTED_ROWS as usize)? {
            let value = self.rows.get(&key)?;
            let (tid, call) = (half(&key, 0), half(&key, 1));
            rows.push(CountedRow { tid, call, count: number(&value, 0), waited_ns: number(&value, 1) });
        }
        Ok(rows)
    }

    /// Calls that have not returned: thread, call, and since when, in nanoseconds of the monotonic clock.
    pub(super) fn unfinished(&self) -> io::Result<Vec<(u32, u32, u64)>> {
        let mut all = Vec::new();
        for key in self.inside.keys(MOST_COUNTED_ROWS as usize)? {
            // It may return meanwhile.
            if let Ok(value) = self.inside.get(&key) {
                all.push((half(&key, 0), number(&value, 2) as u32, number(&value, 0)));
            }
        }
        Ok(all)
    }

    /// Forgets them, once nothing of the group is attached.
    pub(super) fn forget_unfinished(&self) -> io::Result<()> {
        for key in self.inside.keys(MOST_COUNTED_ROWS as usize)? {
            // It is there: nothing else removes any now.
            self.inside.remove(&key)?;
        }
        Ok(())
    }
}

/// Takes probes out. The kernel waits for the calls that are being counted, some tens of milliseconds for each link, so this is done
/// for all at once, and elsewhere.
pub(super) fn detach(links: Vec<OwnedFd>) -> Vec<JoinHandle<()>> {
    links.into_iter().map(|link| std::thread::spawn(move || drop(link))).collect()
}

/// The number at this place of a value.
fn number(value: &[u8], nth: usize) -> u64 {
    let bytes = value.get(8 * nth..8 * nth + 8).and_then(|bytes| bytes.try_into().ok());
    bytes.map_or(0, u64::from_ne_bytes)
}

fn half(key: &[u8], nth: usize) -> u32 {
    let bytes = key.get(4 * nth..4 * nth + 4).and_then(|bytes| bytes.try_into().ok());
    bytes.map_or(0, u32::from_ne_bytes)
}
