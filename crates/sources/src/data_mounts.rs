//! The mounts that hold the job's data files, remembered across scans.
//!
//! A worker opens a file only while reading it, so one scan finds little. Descriptors are scanned every second, a
//! bounded number at a time, and mappings every five seconds, both less often later; what was found counts for minutes.
//! A process's files are placed by its own mountinfo, because a container sees other mounts than trainmon.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::PathBuf;
use std::sync::Arc;

use trainmon_sample::DataMount;
use trainmon_sample::storage::{EXAMPLE_BYTES, EXAMPLES};

use super::Roots;
use super::block::Topology;
use super::data_files::{DataFile, descriptor_facts, mapped_files, open_files};
use super::fields::{path_text, text};
use super::files::{READ_LIMIT, ReadFailure, read_once};
use super::mounts::{Mount, mount_of, parse_mountinfo};

const SECOND: u64 = 1_000_000_000;
/// An open file counts for this long after it was last seen.
const OPEN_REMEMBERED_NS: u64 = 60 * SECOND;
/// A mapped file counts longer: at two processes per scan, 64 processes take up to 320 seconds.
const MAPPED_REMEMBERED_NS: u64 = 360 * SECOND;
/// Descriptors are scanned no more often than this.
const DESCRIPTORS_EVERY_NS: u64 = SECOND * 9 / 10;
/// Mappings are read no more often than this: reading them takes the lock of the process's address space.
const MAPPINGS_EVERY_NS: u64 = 5 * SECOND;
/// After this long most of a job's mounts are known, and scans become rarer.
const SETTLED_NS: u64 = 30 * SECOND;
/// Then descriptors are scanned, and mappings read, no more often than this.
const SETTLED_DESCRIPTORS_EVERY_NS: u64 = 3 * SECOND - SECOND / 10;
const SETTLED_MAPPINGS_EVERY_NS: u64 = 10 * SECOND;
/// … and in sparing mode this many times less often; files are then remembered longer.
const SPARING: u64 = 5;
/// Mountinfo is read again after this long, or when a file is on a mount that it lacks.
const MOUNTINFO_EVERY_NS: u64 = 30 * SECOND;
/// But not more often than this.
const MOUNTINFO_RETRY_NS: u64 = 5 * SECOND;
/// Links read in one scan, about 2 µs each; the rest waits for the next scan.
const LINKS_PER_SCAN: usize = 256;
/// Bytes of maps read in one scan; the file that crosses the limit is read to its end. The kernel takes about 18 ns per
/// byte, and a torch process has some 80 KiB.
const MAPS_BYTES_PER_SCAN: usize = 128 << 10;
/// Most processes scanned.
const MOST_WITH_FILES: usize = 64;
/// Files remembered.
const MOST_DATA_FILES: usize = 4096;
/// Mounts and mount namespaces remembered.
const MOST_DATA_MOUNTS: usize = 256;
const MOST_NAME_SPACES: usize = 16;

/// The files and mounts found so far.
#[derive(Debug, Default)]
pub struct DataMounts {
    roots: Roots,
    /// What is known about block devices.
    pub topology: Topology,
    /// All known mounts, whether or not files were seen on them lately.
    pub mounts: Vec<KnownMount>,
    files: HashMap<u64, SeenFile>,
    name_spaces: HashMap<PathBuf, NameSpace>,
    readable: Option<bool>,
    settled_ns: u64,
    descriptors_due_ns: u64,
    mappings_due_ns: u64,
    next_for_descriptors: usize,
    next_for_mappings: usize,
    maps_buffer: Vec<u8>,
}

/// When a file was seen, by hash of its path, and the mount it is on; no mount for a file that is not read.
#[derive(Debug, Clone, Copy)]
struct SeenFile {
    mount: Option<usize>,
    until_ns: u64,
}

/// A mount and what is known about it.
#[derive(Debug)]
pub struct KnownMount {
    pub mount: Mount,
    /// A process that sees it.
    pub pid: u32,
    /// How it is shown, without its files.
    shown: DataMount,
    /// Some of its files, with the hash of each path; each stays as long as the file is remembered.
    examples: Vec<(u64, Arc<str>)>,
}

#[derive(Debug)]
struct NameSpace {
    mounts: Vec<Mount>,
    read_ns: u64,
}

/// How a process uses a file.
#[derive(Debug, Clone, Copy)]
enum FileUse {
    Open,
    Mapped,
}

/// A file found in a scan, its path copied from the kernel's text.
struct MountCandidate {
    hash: u64,
    path: Vec<u8>,
    number: Option<(u32, u32)>,
    descriptor: Option<u32>,
    until_ns: u64,
}

impl DataMounts {
    /// Starts with nothing scanned.
    pub fn new(roots: &Roots) -> Self {
        Self { roots: roots.clone(), topology: Topology::new(&roots.sys), ..Self::default() }
    }

    /// Scans the descriptors and mappings of `pids` where due; less often when `sparing`.
    pub fn scan(&mut self, now_ns: u64, pids: &[u32], sparing: bool) {
        let pids = pids.get(..MOST_WITH_FILES).unwrap_or(pids);
        if pids.is_empty() {
            return;
        }
        let first = self.readable.is_none();
        if first {
            self.settled_ns = now_ns.saturating_add(SETTLED_NS);
        }
        let settled = now_ns >= self.settled_ns;
        let longer = if sparing { SPARING } else { 1 };
        let every =
            |early: u64, late: u64| now_ns.saturating_add(if settled { late.saturating_mul(longer) } else { early });
        let descriptors_next_ns = every(DESCRIPTORS_EVERY_NS, SETTLED_DESCRIPTORS_EVERY_NS);
        let mappings_next_ns = every(MAPPINGS_EVERY_NS, SETTLED_MAPPINGS_EVERY_NS);
        // Back to the usual pace soon after sparing mode ends.
        self.descriptors_due_ns = self.descriptors_due_ns.min(descriptors_next_ns);
        self.mappings_due_ns = self.mappings_due_ns.min(mappings_next_ns);
        if now_ns >= self.descriptors_due_ns || first {
            self.descriptors_due_ns = descriptors_next_ns;
            // The first scan covers everything; later ones take turns.
            let most = if first { usize::MAX } else { LINKS_PER_SCAN };
            let readable = self.take_turns(now_ns, pids, FileUse::Open, most);
            self.readable = readable.or(self.readable);
        }
        if (now_ns >= self.mappings_due_ns || first) && self.readable == Some(true) {
            self.mappings_due_ns = mappings_next_ns;
            self.take_turns(now_ns, pids, FileUse::Mapped, MAPS_BYTES_PER_SCAN);
        }
        self.files.retain(|_, file| file.until_ns >= now_ns);
        for mount in &mut self.mounts {
            mount.examples.retain(|(hash, _)| self.files.contains_key(hash));
        }
    }

    /// Mounts with data files of the job, most files first; `None` if its descriptors cannot be read.
    pub(crate) fn data_mounts(&self) -> Option<Vec<DataMount>> {
        if self.readable != Some(true) {
            return None;
        }
        let mut counts = vec![0_u32; self.mounts.len()];
        for file in self.files.values() {
            if let Some(count) = file.mount.and_then(|mount| counts.get_mut(mount)) {
                *count += 1;
            }
        }
        let with_files = self.mounts.iter().zip(counts).filter(|(_, count)| *count > 0);
        let mut found: Vec<DataMount> = with_files
            .map(|(known, files)| {
                let examples = known.examples.iter().map(|(_, path)| Arc::clone(path)).collect();
                DataMount { files, examples, ..known.shown.clone() }
            })
            .collect();
        found.sort_by(|a, b| b.files.cmp(&a.files).then_with(|| a.mount_point.cmp(&b.mount_point)));
        Some(found)
    }

    /// Scans one process after another, starting with the one whose turn it is, until `left` links or bytes are read.
    /// Returns whether any could be read, if any was tried.
    fn take_turns(&mut self, now_ns: u64, pids: &[u32], kind: FileUse, mut left: usize) -> Option<bool> {
        let mut readable = None;
        for pid in in_turn(pids, self.next_of(kind)) {
            match self.look(now_ns, pid, kind) {
                Ok(looked) => {
                    readable = Some(true);
                    left = left.saturating_sub(looked.max(1));
                }
                Err(ReadFailure::Denied) => readable = readable.or(Some(false)),
                Err(_) => {}
            }
            *self.next_of(kind) += 1;
            if left == 0 {
                break;
            }
        }
        readable
    }

    fn next_of(&mut self, kind: FileUse) -> &mut usize {
        match kind {
            FileUse::Open => &mut self.next_for_descriptors,
            FileUse::Mapped => &mut self.next_for_mappings,
        }
    }

    /// Scans one process; returns how many links or bytes were read.
    fn look(&mut self, now_ns: u64, pid: u32, kind: FileUse) -> Result<usize, ReadFailure> {
        let process = self.roots.proc.join(pid.to_string());
        let mut new = Vec::new();
        let each = |file: DataFile<'_>| note(&mut self.files, now_ns, file, &mut new);
        let looked = match kind {
            FileUse::Open => open_files(&process, each),
            FileUse::Mapped => mapped_files(&process, &mut self.maps_buffer, each),
        }?;
        self.place(now_ns, pid, new);
        Ok(looked)
    }

    /// Finds the mount of each new file. `fdinfo` is read only here: once a minute per path.
    fn place(&mut self, now_ns: u64, pid: u32, new: Vec<MountCandidate>) {
        let process = self.roots.proc.join(pid.to_string());
        for file in new {
            let facts = file.descriptor.and_then(|descriptor| descriptor_facts(&process, descriptor));
            let mount = match facts {
                // Mapped, or closed since: only the path is left.
                None => self.mount_of(now_ns, pid, &file, None),
                Some(facts) if facts.for_reading => self.mount_of(now_ns, pid, &file, facts.mount),
                Some(_) => None,
            };
            let known = mount.and_then(|mount| self.mounts.get_mut(mount));
            if let Some(examples) = known.map(|known| &mut known.examples)
                && examples.len() < EXAMPLES
                && file.path.len() <= EXAMPLE_BYTES
            {
                examples.push((file.hash, path_text(&file.path)));
            }
            self.files.insert(file.hash, SeenFile { mount, until_ns: file.until_ns });
        }
    }

    fn mount_of(&mut self, now_ns: u64, pid: u32, file: &MountCandidate, mount_id: Option<u64>) -> Option<usize> {
        let process = self.roots.proc.join(pid.to_string());
        // One copy per mount namespace, or per process if the namespace cannot be read.
        let key = std::fs::read_link(process.join("ns/mnt")).unwrap_or_else(|_| process.clone());
        let is_fresh = self.name_spaces.get(&key).is_some_and(|space| {
            let has_it = mount_id.is_none_or(|id| space.mounts.iter().any(|mount| mount.id == id));
            let longest_ns = if has_it { MOUNTINFO_EVERY_NS } else { MOUNTINFO_RETRY_NS };
            now_ns.saturating_sub(space.read_ns) <= longest_ns
        });
        if !is_fresh {
            let mounts = parse_mountinfo(&read_once(process.join("mountinfo"), READ_LIMIT).ok()?);
            if self.name_spaces.len() >= MOST_NAME_SPACES {
                self.name_spaces.clear();
            }
            self.name_spaces.insert(key.clone(), NameSpace { mounts, read_ns: now_ns });
        }
        let mounts = &self.name_spaces.get(&key)?.mounts;
        let by_id = mount_id.and_then(|id| mounts.iter().find(|mount| mount.id == id));
        let mount = by_id.or_else(|| mount_of(mounts, &file.path, file.number))?.clone();
        self.intern(mount, pid)
    }

    fn intern(&mut self, mount: Mount, pid: u32) -> Option<usize> {
        if let Some(place) = self.mounts.iter().position(|known| known.mount == mount) {
            if let Some(known) = self.mounts.get_mut(place) {
                known.pid = pid;
            }
            return Some(place);
        }
        if self.mounts.len() >= MOST_DATA_MOUNTS {
            return None;
        }
        let own = read_once(self.roots.proc.join("self/mountinfo"), READ_LIMIT).unwrap_or_default();
        let own = parse_mountinfo(&own);
        let (kind, disks) = self.topology.under(&mount, &own);
        let (mount_point, fs_type, source) =
            (path_text(&mount.point), text(&mount.fs_type), path_text(&mount.source));
        let shown = DataMount { mount_point, fs_type, source, kind, disks, ..DataMount::default() };
        self.mounts.push(KnownMount { mount, pid, shown, examples: Vec::new() });
        Some(self.mounts.len() - 1)
    }
}

/// Refreshes a known file, and stores a new one while there is room.
fn note(files: &mut HashMap<u64, SeenFile>, now_ns: u64, file: DataFile<'_>, new: &mut Vec<MountCandidate>) {
    let mut hasher = DefaultHasher::new();
    file.path.hash(&mut hasher);
    let hash = hasher.finish();
    let remembered = if file.descriptor.is_some() { OPEN_REMEMBERED_NS } else { MAPPED_REMEMBERED_NS };
    let until_ns = now_ns.saturating_add(remembered);
    if let Some(seen) = files.get_mut(&hash) {
        // A file that is only written is checked again after a minute.
        if seen.mount.is_some() {
            seen.until_ns = seen.until_ns.max(until_ns);
        }
    } else if files.len() + new.len() < MOST_DATA_FILES && !new.iter().any(|candidate| candidate.hash == hash) {
        let (path, number, descriptor) = (file.path.to_vec(), file.number, file.descriptor);
        new.push(MountCandidate { hash, path, number, descriptor, until_ns });
    }
}

/// The processes, starting with the one whose turn it is.
fn in_turn(pids: &[u32], next: &mut usize) -> Vec<u32> {
    *next %= pids.len().max(1);
    pids.iter().cycle().skip(*next).take(pids.len()).copied().collect()
}

#[cfg(test)]
mod tests;
