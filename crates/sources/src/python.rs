//! What a Python process counts, read from its own memory through `/proc/PID/mem` while it runs: the whole numbers among the
//! variables of its frames, and how far its `for` loops have come. One reading takes a millisecond, a hundredth of what a run of
//! py-spy takes, and it sees three things that py-spy does not show: variables of a module, attributes of `self`, and the iterators of
//! loops that have no counter of their own.
//!
//! It needs the same right as py-spy (ptrace(2)), stops nothing, and writes nothing. The memory changes while it is read, and belongs
//! to another program: every address is tried, every length is bounded, and a reading that follows more than a few thousand of them
//! ends there. Interpreters without a known layout, those without a GIL, and other machines are left to py-spy.

mod dynamic;
mod frames;
mod iterators;
mod layout;
mod memory;
mod objects;
mod tensor;
mod written;

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
use layout::PythonLayout;
use memory::Memory;
use trainmon_sample::{LocalsSample, ProcessId};

/// The Python interpreter of one process, as found in its memory.
#[derive(Debug, Clone, Copy)]
pub struct PythonMemory {
    process: ProcessId,
    /// The ID of its first thread: outside, and inside its PID namespace.
    main_tids: [u32; 2],
    layout: &'static PythonLayout,
    places: PythonPlaces,
}

/// Addresses that stay the same.
#[derive(Debug, Clone, Copy)]
struct PythonPlaces {
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
            let layout = PythonLayout::of_version(minor.strip_prefix("3.")?.parse().ok()?)?;
            Some((layout, dynamic::symbol(&memory, mapping.addresses.0, b"_PyRuntime")?))
        })?;
        let main_tids = main_tids(proc_root, process);
        let no_next = Threads::new(&memory, layout, PythonPlaces { runtime, no_next: 0 }).no_next(&main_tids)?;
        Some(Self { process, main_tids, layout, places: PythonPlaces { runtime, no_next } })
    }

    /// What its threads count, now, its first thread's before the others'. `None` if they count nothing, or if the process is another
    /// one by now.
    pub fn read(&self, proc_root: &Path) -> Option<LocalsSample> {
        let Self { process, main_tids, layout, places } = *self;
        let file = KeptFile::open(proc_root.join(format!("{}/mem", process.pid))).ok()?;
        let memory = Memory::new(&file);
        let began_ns = monotonic_ns();
        let mut threads = Threads::new(&memory, layout, places).read(&main_tids);
        let frames = threads.iter_mut().flat_map(|thread| &mut thread.frames);
        if let Some(native) = frames.filter(|frame| frame.file.ends_with(written::CODE)).last() {
            let number = written::last_number(proc_root, process.pid);
            native.numbers.extend(number.map(|number| (written::TIME_LEFT.into(), number)));
        }
        threads.retain(|thread| thread.frames.iter().any(|frame| !frame.numbers.is_empty()));
        let is_same = stat_of(proc_root, process.pid).is_some_and(|stat| stat.start_ticks == process.start_ticks);
        (is_same && !threads.is_empty()).then_some(LocalsSample { process, began_ns, threads })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::memory::Bytes;
    use super::*;

    /// Memory in which every address holds something: some words are what CPython's structures begin with, many are addresses.
    struct Noise {
        seed: u64,
        addresses: u64,
        names: Vec<&'static [u8]>,
    }

    impl Bytes for Noise {
        fn fill(&self, address: u64, room: &mut [u8]) -> bool {
            for (at, byte) in (address..).zip(room) {
                let mixed = (at >> 3 ^ self.seed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                let word = match mixed >> 61 {
                    0 => mixed & 0xff,
                    1 => 0,
                    2 => u64::MAX,
                    3 => mixed,
                    // Few places, so that much of it refers to the same.
                    _ => ((mixed >> 8) % self.addresses) << 3,
                };
                let name = usize::try_from(mixed >> 32).unwrap_or(0) % (4 * self.names.len());
                let name = self.names.get(name).filter(|_| mixed & 1 == 0);
                let word = name.map_or(word, |name| u64::from_le_bytes(*name.first_chunk().unwrap()));
                *byte = word.to_le_bytes()[(at & 7) as usize];
            }
            !address.is_multiple_of(11)
        }
    }

    proptest! {
        #[test]
        fn any_memory_is_survived(seed: u64, addresses in 1_u64..5000, minor in 9_u32..15, runtime in 8_u64..100_000) {
            let names = vec![&b"int\0\0\0\0\0"[..], b"code\0\0\0\0", b"xdebugpy", b"generato", b"\x7fELF\x02\x01\x01\0", b"self\0\0\0\0"];
            let noise = Noise { seed, addresses, names };
            let memory = Memory::new(&noise);
            let layout = PythonLayout::of_version(minor).unwrap();
            let threads = Threads::new(&memory, layout, PythonPlaces { runtime, no_next: 8 });
            let _ = threads.no_next(&[7]);
            let read = threads.read(&[7]);
            prop_assert!(read.len() <= trainmon_sample::locals::THREADS);
            let _ = dynamic::symbol(&Memory::new(&noise), runtime, b"_PyRuntime");
        }
    }

    #[test]
    fn only_known_versions_have_a_layout() {
        assert!(
            PythonLayout::of_version(8).is_none()
                && PythonLayout::of_version(15).is_none()
                && PythonLayout::of_version(311).is_none()
        );
    }
}
