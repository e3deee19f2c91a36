//! Scans of the machine: which processes may be training, and what they use meanwhile.
//!
//! A GPU may hang with its driver, so the GPUs are asked on a thread of its own (tm-candidates-gpu), which is waited for only for
//! a moment.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use super::JobCandidate;
use trainmon_sample::GpuSample;
use trainmon_sources::processes::{self, Listed};
use trainmon_sources::{SourceOptions, clock, gpu};

/// Most processes below candidates that are read in one scan.
const MOST_READ: usize = 4096;
/// A process that is older than this has loaded its libraries, or never will, seconds.
const SETTLED_S: u64 = 120;

/// What one process does on all GPUs.
#[derive(Debug, Clone, Copy, Default)]
struct ProcessGpuUse {
    memory_bytes: u64,
    /// Percent, summed over GPUs.
    pct: Option<f64>,
}

type GpuUsers = BTreeMap<u32, ProcessGpuUse>;

/// The GPUs, asked on a thread of their own, one call outstanding.
#[derive(Debug)]
struct Devices {
    ask: SyncSender<()>,
    answers: Receiver<(GpuUsers, Option<Arc<GpuSample>>)>,
    outstanding: bool,
    latest: GpuUsers,
    /// The reading itself, of the last scan.
    sample: Option<Arc<GpuSample>>,
    /// How long a scan waits for them; a later answer is taken at the next one.
    wait: Duration,
}

impl Devices {
    fn start(options: SourceOptions, wait: Duration) -> Option<Self> {
        let (ask, asked) = sync_channel::<()>(1);
        let (send, answers) = sync_channel(1);
        let read = move || {
            let mut reader = None;
            while asked.recv().is_ok() {
                if reader.is_none() {
                    reader = gpu::open(&options).ok();
                }
                let now_ns = clock::monotonic_ns();
                let sample = reader.as_mut().and_then(|reader| reader.read(now_ns).ok());
                let mut users = GpuUsers::new();
                for process in sample.iter().flat_map(|sample| &sample.devices).flat_map(|device| &device.processes) {
                    let used = users.entry(process.pid).or_default();
                    used.memory_bytes = used.memory_bytes.saturating_add(process.memory_bytes.unwrap_or(0));
                    if let Some(pct) = process.sm_utilization_pct {
                        used.pct = Some(used.pct.unwrap_or(0.0) + f64::from(pct));
                    }
                }
                if send.send((users, sample.map(Arc::new))).is_err() {
                    return;
                }
            }
        };
        thread::Builder::new().name("tm-candidates-gpu".to_owned()).spawn(read).ok()?;
        Some(Self { ask, answers, outstanding: false, latest: GpuUsers::new(), sample: None, wait })
    }

    /// The processes that use the GPUs now; the last ones known, without rates, where a driver does not answer in time.
    fn users(&mut self) -> &GpuUsers {
        self.outstanding = self.outstanding || self.ask.try_send(()).is_ok();
        match self.answers.recv_timeout(self.wait) {
            Ok((users, sample)) => (self.latest, self.sample, self.outstanding) = (users, sample, false),
            Err(_) => {
                self.sample = None;
                self.latest.values_mut().for_each(|used| used.pct = None);
            }
        }
        &self.latest
    }
}

/// One scan after the other.
#[derive(Debug)]
pub struct Scan {
    options: SourceOptions,
    devices: Option<Devices>,
    users: BTreeMap<u32, String>,
    /// Libraries of processes, with the command lines by which a PID that is used again is noticed.
    libraries: HashMap<u32, (String, Option<String>)>,
    /// CPU time at the scan before, and when that was.
    before: HashMap<(u32, u64), u64>,
    at: Option<Instant>,
}

impl Scan {
    /// Before the first scan. It waits for the GPUs no longer than `gpu_wait` each time.
    pub fn new(options: SourceOptions, gpu_wait: Duration) -> Self {
        let devices = Devices::start(options.clone(), gpu_wait);
        let users = processes::user_names(std::path::Path::new("/etc/passwd"));
        Self { options, devices, users, libraries: HashMap::new(), before: HashMap::new(), at: None }
    }

    /// The candidates now, best first; rates of CPU from the second scan on.
    pub fn candidates(&mut self) -> Vec<JobCandidate> {
        let gpu = self.devices.as_mut().map(|devices| devices.users().clone()).unwrap_or_default();
        let memory: BTreeMap<u32, u64> = gpu.iter().map(|(pid, used)| (*pid, used.memory_bytes)).collect();
        let list = processes::list(&self.options.roots.proc);
        let by_pid: HashMap<u32, &Listed> = list.iter().map(|process| (process.pid, process)).collect();
        let (libraries, root) = (&mut self.libraries, &self.options.roots.proc);
        libraries.retain(|pid, (command, library)| {
            by_pid.get(pid).is_some_and(|now| {
                now.command == *command && (library.is_some() || now.age_s.is_some_and(|age| age > SETTLED_S))
            })
        });
        let mut found = super::list(&list, &memory, std::process::id(), |pid| {
            let known = libraries.entry(pid).or_insert_with(|| {
                let command = by_pid.get(&pid).map(|process| process.command.clone()).unwrap_or_default();
                (command, processes::library(root, pid))
            });
            known.1.clone()
        });
        self.measure(&mut found, &list, &gpu);
        for candidate in &mut found {
            let uid = by_pid.get(&candidate.pid).and_then(|process| process.uid);
            candidate.uid = uid;
            candidate.user = uid.map(|uid| self.users.get(&uid).cloned().unwrap_or_else(|| format!("user {uid}")));
        }
        found
    }

    /// What the last scan read of the GPUs; `None` where they did not answer in time.
    pub fn gpus(&self) -> Option<Arc<GpuSample>> {
        self.devices.as_ref()?.sample.clone()
    }

    /// Adds what candidates and everything below them use.
    fn measure(&mut self, found: &mut [JobCandidate], list: &[Listed], gpu: &GpuUsers) {
        let mut below: HashMap<u32, Vec<u32>> = HashMap::new();
        for process in list {
            below.entry(process.parent).or_default().push(process.pid);
        }
        let now = Instant::now();
        let seconds = self.at.map(|at| now.duration_since(at).as_secs_f64()).filter(|seconds| *seconds > 0.05);
        let per_second = rustix::param::clock_ticks_per_second().max(1) as f64;
        let page = rustix::param::page_size() as u64;
        let mut seen = HashMap::new();
        for candidate in found {
            let mut ticks = None;
            let mut tree = vec![candidate.pid];
            let mut next = 0;
            while seen.len() < MOST_READ
                && let Some(pid) = tree.get(next).copied()
            {
                next += 1;
                // A ring of parents, which PIDs that are used again could close, ends here.
                let fresh = below.remove(&pid).unwrap_or_default();
                tree.extend(fresh);
                if let Some(pct) = gpu.get(&pid).and_then(|used| used.pct) {
                    candidate.gpu_pct = Some(candidate.gpu_pct.unwrap_or(0.0) + pct);
                }
                let Some(stat) = processes::stat_of(&self.options.roots.proc, pid) else { continue };
                if pid == candidate.pid {
                    candidate.state = Some(stat.state);
                }
                let rss = candidate.rss_bytes.unwrap_or(0).saturating_add(stat.rss_pages.saturating_mul(page));
                candidate.rss_bytes = Some(rss);
                if let Some(before) = self.before.get(&(pid, stat.start_ticks)) {
                    ticks = Some(ticks.unwrap_or(0_u64).saturating_add(stat.cpu_ticks().saturating_sub(*before)));
                }
                seen.insert((pid, stat.start_ticks), stat.cpu_ticks());
            }
            candidate.cpu_pct =
                ticks.zip(seconds).map(|(ticks, seconds)| ticks as f64 / per_second / seconds * 100.0);
        }
        (self.before, self.at) = (seen, Some(now));
    }
}
