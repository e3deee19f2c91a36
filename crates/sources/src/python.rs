//! What a Python process counts, read from its own memory through `/proc/PID/mem` while it runs: the whole numbers among the
//! variables of its frames, and how far its `for` loops have come. One reading takes a millisecond, an hundredth of what a run of
//! py-spy takes, and it sees three things that py-spy does not show: variables of a module, attributes of `self`, and the iterators of
//! loops that have no counter of their own.
//!
//! It needs the same right as py-spy (ptrace(2)), stops nothing, and writes nothing. The memory changes while it is read, and belongs
//! to somebody else: every address is tried, every length is bounded, and a reading that follows more than a few thousand of them
//! ends there. Interpreters without a known layout, those without a GIL, and other machines are left to py-spy.

mod dynamic;
mod frames;
mod layout;
mod memory;
mod objects;

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::clock::monotonic_ns;
use super::fields::lines;
use super::files::{KeptFile, READ_LIMIT, read_once};
use super::maps::mapping;
use super::process::{main_tids, stat_of};
use super::software::python_of;
use frames::Threads;
use layout::Layout;
use memory::Memory;
use trainmon_sample::{LocalsSample, ProcessId};

/// The Python interpreter of one process, as found in its memory.
#[derive(Debug, Clone, Copy)]
pub struct PythonMemory {
    process: ProcessId,
    /// The ID of its first thread: outside, and inside its PID namespace.
    main_tids: [u32; 2],
    layout: &'static Layout,
    places: Places,
}

/// Addresses that stay the same.
#[derive(Debug, Clone, Copy)]
struct Places {
    /// The variable `_PyRuntime`.
    runtime: u64,
    /// The function that objects have for `next` that are no iterators.
    no_next: u64,
}

impl PythonMemory {
    /// Finds the interpreter; `None` if it has none of a known layout, if its memory may not be read, or if it has only begun.
    pub fn find(proc_root: &Path, process: ProcessId) -> Option<Self> {
        let folder = proc_root.join(process.pid.to_string());
        let maps = read_once(folder.join("maps"), READ_LIMIT).ok()?;
        let file = KeptFile::open(folder.join("mem")).ok()?;
        let memory = Memory::new(&file);
        // The first mapping of a file holds its header.
        let mut interpreters = lines(&maps).filter_map(mapping).filter(|mapping| mapping.offset == 0);
        let (layout, runtime) = interpreters.find_map(|mapping| {
            let minor = python_of(Path::new(OsStr::from_bytes(mapping.file)))?;
            let layout = Layout::of(minor.strip_prefix("3.")?.parse().ok()?)?;
            Some((layout, dynamic::symbol(&memory, mapping.addresses.0, b"_PyRuntime")?))
        })?;
        let main_tids = main_tids(proc_root, process);
        let no_next = Threads::new(&memory, layout, Places { runtime, no_next: 0 }).no_next(&main_tids)?;
        Some(Self { process, main_tids, layout, places: Places { runtime, no_next } })
    }

    /// What its threads count, now, its first thread's before the others'. `None` if they count nothing, or if the process is another
    /// one by now.
    pub fn read(&self, proc_root: &Path) -> Option<LocalsSample> {
        let Self { process, main_tids, layout, places } = *self;
        let file = KeptFile::open(proc_root.join(format!("{}/mem", process.pid))).ok()?;
        let memory = Memory::new(&file);
        let began_ns = monotonic_ns();
        let threads = Threads::new(&memory, layout, places).read(&main_tids);
        let is_same = stat_of(proc_root, process.pid).is_some_and(|stat| stat.start_ticks == process.start_ticks);
        (is_same && !threads.is_empty()).then_some(LocalsSample { process, began_ns, threads })
    }
}
