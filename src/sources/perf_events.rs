//! Sampled instruction pointers: in which library threads spend their CPU time, without stopping them.
//!
//! The kernel's software clock counts a thread's CPU time and notes the instruction pointer some fifty times a second
//! (`perf_event_open`, PERF_COUNT_SW_CPU_CLOCK), outside of the kernel only, which an ordinary user may ask of his own
//! processes where `perf_event_paranoid` is 2 or less. `/proc/PID/maps` says which file is mapped there. Nothing rests on
//! this: many machines refuse it.

mod raw;
mod ring;

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::io::Errno;

use super::Roots;
use super::descriptors::{Permit, Use as OpenFor, permit};
use super::fields::number;
use super::files::{READ_LIMIT, read_once};
use super::maps::Maps;
use crate::sample::addresses::{MOST_FILES, MOST_THREADS};
use crate::sample::{AddressesSample, JobSample, ProcessId, SourceState, SourceStatus, ThreadAddresses};
use raw::Event;
use ring::{Record, records};

/// Samples for each second of CPU time. Not 50: a loop whose steps take 20 ms of it would be seen at one place only.
const RATE_HZ: u32 = 49;
/// A thread is worth an event when it ran for this share of the time between two reads.
const RUNS: f64 = 0.02;
/// A thread that is given a CPU more often than this each second is left alone: the kernel sets and stops the clock each
/// time, which costs the thread 3.5 µs in a virtual machine, so at this rate 0.09 %. Beside that 49 samples a second are
/// nothing (0.01 %); both are printed by the measurements among the tests.
const SWITCHES_S: f64 = 250.0;
/// Who is sampled already goes before others of its use up to this factor: changing costs, and begins a window anew.
const STAYS: f64 = 1.5;
/// A process in which an address was still unknown with its maps just read is not read again for so many reads.
const MAPS_REST: u32 = 10;

type Key = (ProcessId, u32);

/// What one planned thread did since the job was last looked at.
#[derive(Debug, Clone, Copy)]
struct Use {
    key: Key,
    /// Share of the time on a CPU, 0–1.
    share: f64,
    /// How often a second it was given one.
    switches_s: f64,
}

/// Samples the threads that the sampler goes through and that use CPU time.
#[derive(Debug, Default)]
pub struct AddressReader {
    proc_root: PathBuf,
    threads: BTreeMap<Key, Thread>,
    maps: HashMap<ProcessId, Known>,
    /// CPU time of the planned threads, and how often they were given one, when the job was last looked at; and when that
    /// was.
    used: HashMap<Key, (u64, u64)>,
    used_at_ns: u64,
    began_ns: u64,
    lost: u64,
    bytes: Vec<u8>,
}

#[derive(Debug)]
struct Thread {
    event: Event,
    files: HashMap<Arc<str>, u32>,
    rest: u32,
    _permit: Permit,
}

/// The maps of a process.
#[derive(Debug, Default)]
struct Known {
    maps: Maps,
    /// Reads until they may be read again.
    rest: u32,
    /// How often the process had executed another program.
    execs: u32,
}

impl AddressReader {
    /// Tries the call on ourselves.
    ///
    /// # Errors
    /// Why there is nothing to be had here, and what mends it.
    pub fn open(roots: &Roots, now_ns: u64) -> Result<Self, SourceStatus> {
        if roots.proc != Path::new("/proc") {
            // Its PIDs may be those of other processes to the system call.
            return Err(refusal(SourceState::Absent, "another tree than /proc is read".to_owned(), None));
        }
        Event::open(0, RATE_HZ).map_err(|error| refused(&roots.proc, &error, None))?;
        Ok(Self { proc_root: roots.proc.clone(), began_ns: now_ns, ..Self::default() })
    }

    /// What was sampled since the last call; from now on the threads of `job` that are worth it.
    ///
    /// # Errors
    /// Where none of them may be sampled: why, and what mends it.
    pub fn read(&mut self, now_ns: u64, job: Option<&JobSample>) -> Result<AddressesSample, SourceStatus> {
        self.maps.values_mut().for_each(|known| known.rest = known.rest.saturating_sub(1));
        self.drain();
        let sample = self.take(now_ns);
        if let Some(job) = job.filter(|job| job.monotonic_ns > self.used_at_ns) {
            self.follow(job)?;
        }
        Ok(sample)
    }

    /// Takes what is new out of the rings: to be called before they are full.
    pub fn drain(&mut self) {
        for ((process, tid), thread) in &mut self.threads {
            self.bytes.clear();
            thread.event.drain(&mut self.bytes);
            for record in records(&self.bytes) {
                match record {
                    Record::Sample { address, tid: of } if of == *tid => {
                        let known = self.maps.entry(*process).or_default();
                        match known.file(&self.proc_root, process.pid, address) {
                            Some(file) => *thread.files.entry(file).or_default() += 1,
                            None => thread.rest += 1,
                        }
                    }
                    Record::Sample { .. } => thread.rest += 1,
                    Record::Lost(count) => self.lost = self.lost.saturating_add(count),
                }
            }
        }
    }

    fn take(&mut self, now_ns: u64) -> AddressesSample {
        let mut table: Vec<Arc<str>> = Vec::new();
        let mut places: HashMap<Arc<str>, u32> = HashMap::new();
        let threads = self.threads.iter_mut().map(|((process, tid), thread)| {
            let mut files: Vec<(Arc<str>, u32)> = thread.files.drain().collect();
            files.sort_unstable_by(|a, b| (Reverse(a.1), &a.0).cmp(&(Reverse(b.1), &b.0)));
            let further =
                files.split_off(files.len().min(MOST_FILES)).iter().map(|(_, samples)| samples).sum::<u32>();
            let mut place = |file: Arc<str>| {
                *places.entry(file).or_insert_with_key(|file| {
                    table.push(Arc::clone(file));
                    u32::try_from(table.len() - 1).unwrap_or(u32::MAX)
                })
            };
            let files = files.into_iter().map(|(file, samples)| (place(file), samples)).collect();
            ThreadAddresses { process: *process, tid: *tid, files, rest: std::mem::take(&mut thread.rest) + further }
        });
        let threads = threads.collect();
        let window_ns = now_ns.saturating_sub(std::mem::replace(&mut self.began_ns, now_ns));
        let lost = std::mem::take(&mut self.lost);
        AddressesSample { monotonic_ns: now_ns, window_ns, rate_hz: RATE_HZ, files: table, threads, lost }
    }

    /// Opens and closes events, so that those remain that are worth it.
    fn follow(&mut self, job: &JobSample) -> Result<(), SourceStatus> {
        let uses = self.uses(job);
        let wanted = choose(&uses, |key| self.threads.contains_key(key));
        self.threads.retain(|key, _| wanted.contains(key));
        let mut first_refusal = None;
        for key in wanted {
            if self.threads.contains_key(&key) {
                continue;
            }
            let Some(permit) = permit(OpenFor::Rounds) else { continue };
            match Event::open(key.1, RATE_HZ) {
                Ok(event) => {
                    self.threads.insert(key, Thread { event, files: HashMap::new(), rest: 0, _permit: permit });
                }
                // It has ended.
                Err(error) if Errno::from_io_error(&error) == Some(Errno::SRCH) => {}
                Err(error) => first_refusal = first_refusal.or(Some((key.0.pid, error))),
            }
        }
        let alive: HashSet<ProcessId> = self.threads.keys().map(|(process, _)| *process).collect();
        self.maps.retain(|process, _| alive.contains(process));
        for process in &job.processes {
            // Another program lies elsewhere in memory.
            let executed = |known: &mut Known| std::mem::replace(&mut known.execs, process.execs) != process.execs;
            if self.maps.get_mut(&process.id).is_some_and(executed) {
                self.maps.insert(process.id, Known { execs: process.execs, ..Known::default() });
            }
        }
        match first_refusal {
            Some((pid, error)) if self.threads.is_empty() => Err(refused(&self.proc_root, &error, Some(pid))),
            _ => Ok(()),
        }
    }

    /// What the planned threads did since the last call. Of those that are new it is not known yet whether they are
    /// switched too often.
    fn uses(&mut self, job: &JobSample) -> Vec<Use> {
        let span_ns = job.monotonic_ns.saturating_sub(std::mem::replace(&mut self.used_at_ns, job.monotonic_ns));
        let span_s = span_ns.max(1) as f64 / 1e9;
        let outside = job.connections.iter().flat_map(|connections| &connections.outside);
        let processes: HashMap<ProcessId, _> =
            job.processes.iter().chain(outside).map(|process| (process.id, process)).collect();
        let planned = job.sampler.processes.iter().flat_map(|planned| {
            let process = processes.get(&planned.id);
            planned.threads.iter().filter_map(move |thread| {
                let counters = process?.threads.iter().find(|found| found.tid == thread.tid)?;
                Some(((planned.id, thread.tid), (counters.on_cpu_ns?, counters.timeslices?)))
            })
        });
        let used: HashMap<Key, (u64, u64)> = planned.collect();
        let before = std::mem::replace(&mut self.used, used);
        let since = |(key, now): (&Key, &(u64, u64))| {
            let before = before.get(key)?;
            let share = now.0.saturating_sub(before.0) as f64 / 1e9 / span_s;
            Some(Use { key: *key, share, switches_s: now.1.saturating_sub(before.1) as f64 / span_s })
        };
        self.used.iter().filter_map(since).collect()
    }
}

/// The busiest that are not switched too often, at most [`MOST_THREADS`]; who is sampled already stays while there is room.
fn choose(uses: &[Use], is_sampled: impl Fn(&Key) -> bool) -> HashSet<Key> {
    let weighed = uses.iter().filter_map(|&Use { key, share, switches_s }| {
        let (least, factor) = if is_sampled(&key) { (0.0, STAYS) } else { (RUNS, 1.0) };
        (share >= least && switches_s <= SWITCHES_S * factor).then_some((share * factor, key))
    });
    let mut weighed: Vec<(f64, Key)> = weighed.collect();
    weighed.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    weighed.into_iter().take(MOST_THREADS).map(|(_, key)| key).collect()
}

impl Known {
    /// The file at an address, with the maps read again where it falls outside of what is known.
    fn file(&mut self, proc_root: &Path, pid: u32, address: u64) -> Option<Arc<str>> {
        if let Some(file) = self.maps.file(address) {
            return Some(Arc::clone(file));
        }
        if self.rest > 0 {
            return None;
        }
        let text = read_once(proc_root.join(format!("{pid}/maps")), READ_LIMIT).unwrap_or_default();
        self.maps = Maps::parse(&text);
        let file = self.maps.file(address).map(Arc::clone);
        // One that has just been read is not read again before the next tick.
        self.rest = if file.is_some() { 1 } else { MAPS_REST };
        file
    }
}

fn refusal(state: SourceState, reason: String, mend: Option<&str>) -> SourceStatus {
    SourceStatus { state, reason: Some(reason.into()), mend: mend.map(Into::into), ..SourceStatus::default() }
}

/// What an answer of the kernel means: about ourselves, or about the process `of`.
fn refused(proc_root: &Path, error: &io::Error, of: Option<u32>) -> SourceStatus {
    let errno = Errno::from_io_error(error);
    if matches!(errno, Some(Errno::NOSYS | Errno::NOENT | Errno::OPNOTSUPP | Errno::NODEV)) {
        return refusal(SourceState::Absent, format!("the kernel samples no instruction pointers: {error}"), None);
    }
    if !matches!(errno, Some(Errno::ACCESS | Errno::PERM)) {
        return refusal(SourceState::Gone, format!("perf_event_open: {error}"), None);
    }
    let text = read_once(proc_root.join("sys/kernel/perf_event_paranoid"), 64).unwrap_or_default();
    // Those beyond 2 are Debian's and Ubuntu's own.
    let paranoid = number(text.trim_ascii()).filter(|paranoid| *paranoid > 2);
    let (reason, mend) = match (paranoid, of) {
        (Some(paranoid), _) => (
            format!("perf_event_paranoid {paranoid}: only root may sample instruction pointers"),
            "sudo trainmon …, or: sudo sysctl kernel.perf_event_paranoid=2",
        ),
        (None, Some(pid)) => (format!("the kernel does not let us sample process {pid}: {error}"), "sudo trainmon …"),
        (None, None) => (
            format!("perf_event_open is refused, as containers do: {error}"),
            "run trainmon on the host, or start the container with --cap-add PERFMON",
        ),
    };
    refusal(SourceState::Denied, reason, Some(mend))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::print_stderr, reason = "tests")]
mod tests;
