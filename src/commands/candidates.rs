//! The processes that may be training, looked for again and again while somebody looks at the list of them.
//!
//! ```text
//!  loop of the screen ──ask──▶ tm-candidates: walks /proc, one look at a time
//!                     ◀─list──      │ asks, and waits only for a moment
//!                                   ▼
//!                              tm-candidates-gpu: NVML, which may hang with the driver
//! ```
//!
//! Both threads sleep while nobody asks, and end with the program.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::mpsc as waking;

use super::pick;
use crate::config::Settings;
use crate::sources::processes::{self, Listed, Usage};
use crate::tui::jobs::Candidate;

/// Time between two looks.
const EVERY: Duration = Duration::from_secs(2);
/// Time to the second look: rates need two.
const SECOND: Duration = Duration::from_millis(500);
/// How long a look waits for the devices; a later answer is taken at the next one.
const GPU_WAIT: Duration = Duration::from_millis(400);
/// Most processes below candidates that are read in one look.
const MOST_READ: usize = 4096;
/// A process that is older than this has loaded its libraries, or never will, seconds.
const SETTLED_S: u64 = 120;

/// The looks at the processes, from the screen's side.
#[derive(Debug)]
pub struct Candidates {
    /// Where to ask; none before the first question.
    thread: Option<(SyncSender<()>, waking::Receiver<Vec<Candidate>>)>,
    places: Places,
    wanted: bool,
    /// A look has been asked for and has not come back.
    outstanding: bool,
    looks: u32,
    due: Instant,
}

/// Where to look.
#[derive(Debug, Clone)]
struct Places {
    proc_root: PathBuf,
    nvml_lib: Option<PathBuf>,
}

impl Candidates {
    /// Looks at nothing yet.
    #[must_use]
    pub fn new(settings: &Settings) -> Self {
        let places = Places { proc_root: settings.proc_root.clone(), nvml_lib: settings.nvml_lib.clone() };
        Self { thread: None, places, wanted: false, outstanding: false, looks: 0, due: Instant::now() }
    }

    /// Says whether somebody looks at the list.
    pub fn want(&mut self, wanted: bool) {
        if wanted && !self.wanted {
            // What has come since nobody looked is old.
            if let Some((_, lists)) = &mut self.thread
                && lists.try_recv().is_ok()
            {
                self.outstanding = false;
            }
            (self.looks, self.due) = (0, Instant::now());
        }
        self.wanted = wanted;
    }

    /// The next list; for ever while none is wanted, or where no thread could be started. Cancel safe.
    pub async fn next(&mut self) -> Vec<Candidate> {
        if !self.wanted {
            std::future::pending::<()>().await;
        }
        if !self.outstanding {
            tokio::time::sleep_until(self.due.into()).await;
            if self.thread.is_none() {
                self.thread = start(&self.places);
            }
            self.outstanding = self.thread.as_ref().is_some_and(|(ask, _)| ask.try_send(()).is_ok());
        }
        let list = match &mut self.thread {
            Some((_, lists)) if self.outstanding => lists.recv().await,
            _ => None,
        };
        let Some(list) = list else { return std::future::pending().await };
        self.outstanding = false;
        self.looks = self.looks.saturating_add(1);
        self.due = Instant::now() + if self.looks == 1 { SECOND } else { EVERY };
        list
    }
}

fn start(places: &Places) -> Option<(SyncSender<()>, waking::Receiver<Vec<Candidate>>)> {
    let (ask, asked) = sync_channel::<()>(1);
    let (send, lists) = waking::channel(1);
    let places = places.clone();
    let look = move || {
        let mut scan = Scan::new(places);
        while asked.recv().is_ok() {
            if send.blocking_send(scan.look()).is_err() {
                return;
            }
        }
    };
    thread::Builder::new().name("tm-candidates".to_owned()).spawn(look).ok()?;
    Some((ask, lists))
}

/// What one process does on all devices.
#[derive(Debug, Clone, Copy, Default)]
struct GpuUse {
    memory_bytes: u64,
    /// Percent, summed over devices.
    pct: Option<f64>,
}

type GpuUsers = BTreeMap<u32, GpuUse>;

/// The devices, asked on a thread of their own, one call outstanding.
struct Devices {
    ask: SyncSender<()>,
    answers: Receiver<GpuUsers>,
    outstanding: bool,
    latest: GpuUsers,
}

impl Devices {
    fn start(nvml_lib: Option<PathBuf>) -> Option<Self> {
        let (ask, asked) = sync_channel::<()>(1);
        let (send, answers) = sync_channel(1);
        let read = move || {
            let mut reader = None;
            while asked.recv().is_ok() {
                if reader.is_none() {
                    reader = crate::sources::gpu::open(nvml_lib.as_deref(), None).ok();
                }
                let now_ns = crate::sources::simulated_device::monotonic_ns();
                let sample = reader.as_mut().and_then(|reader| reader.read(now_ns).ok());
                let mut users = GpuUsers::new();
                for process in sample.iter().flat_map(|sample| &sample.devices).flat_map(|device| &device.processes) {
                    let used = users.entry(process.pid).or_default();
                    used.memory_bytes = used.memory_bytes.saturating_add(process.memory_bytes.unwrap_or(0));
                    if let Some(pct) = process.sm_utilization_pct {
                        used.pct = Some(used.pct.unwrap_or(0.0) + f64::from(pct));
                    }
                }
                if send.send(users).is_err() {
                    return;
                }
            }
        };
        thread::Builder::new().name("tm-candidates-gpu".to_owned()).spawn(read).ok()?;
        Some(Self { ask, answers, outstanding: false, latest: GpuUsers::new() })
    }

    /// Who uses the devices now; who used them last, without rates, where they do not answer in time.
    fn users(&mut self) -> &GpuUsers {
        self.outstanding = self.outstanding || self.ask.try_send(()).is_ok();
        match self.answers.recv_timeout(GPU_WAIT) {
            Ok(users) => (self.latest, self.outstanding) = (users, false),
            Err(_) => self.latest.values_mut().for_each(|used| used.pct = None),
        }
        &self.latest
    }
}

/// One look after the other.
struct Scan {
    places: Places,
    devices: Option<Devices>,
    users: BTreeMap<u32, String>,
    /// Libraries of processes, with the command lines by which a PID that is used again is noticed.
    libraries: HashMap<u32, (String, Option<String>)>,
    /// CPU time at the look before, and when that was.
    before: HashMap<(u32, u64), u64>,
    at: Option<Instant>,
}

impl Scan {
    fn new(places: Places) -> Self {
        let devices = Devices::start(places.nvml_lib.clone());
        let users = processes::user_names(std::path::Path::new("/etc/passwd"));
        Self { places, devices, users, libraries: HashMap::new(), before: HashMap::new(), at: None }
    }

    fn look(&mut self) -> Vec<Candidate> {
        let gpu = self.devices.as_mut().map(|devices| devices.users().clone()).unwrap_or_default();
        let memory: BTreeMap<u32, u64> = gpu.iter().map(|(pid, used)| (*pid, used.memory_bytes)).collect();
        let list = processes::list(&self.places.proc_root);
        let by_pid: HashMap<u32, &Listed> = list.iter().map(|process| (process.pid, process)).collect();
        let (libraries, root) = (&mut self.libraries, &self.places.proc_root);
        libraries.retain(|pid, (command, library)| {
            by_pid.get(pid).is_some_and(|now| {
                now.command == *command && (library.is_some() || now.age_s.is_some_and(|age| age > SETTLED_S))
            })
        });
        let mut found = pick::candidates(&list, &memory, std::process::id(), |pid| {
            let known = libraries.entry(pid).or_insert_with(|| {
                let command = by_pid.get(&pid).map(|process| process.command.clone()).unwrap_or_default();
                (command, processes::library(root, pid))
            });
            known.1.clone()
        });
        self.measure(&mut found, &list, &gpu);
        for candidate in &mut found {
            let uid = by_pid.get(&candidate.pid).and_then(|process| process.uid);
            candidate.user = uid.map(|uid| self.users.get(&uid).cloned().unwrap_or_else(|| format!("user {uid}")));
        }
        found
    }

    /// Adds what candidates and everything below them use.
    fn measure(&mut self, found: &mut [Candidate], list: &[Listed], gpu: &GpuUsers) {
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
            while let Some(pid) = tree.get(next).copied().filter(|_| seen.len() < MOST_READ) {
                next += 1;
                // A ring of parents, which PIDs that are used again could close, ends here.
                let fresh = below.remove(&pid).unwrap_or_default();
                tree.extend(fresh);
                if let Some(pct) = gpu.get(&pid).and_then(|used| used.pct) {
                    candidate.gpu_pct = Some(candidate.gpu_pct.unwrap_or(0.0) + pct);
                }
                let Some(used) = processes::usage(&self.places.proc_root, pid) else { continue };
                let Usage { state, cpu_ticks, start_ticks, rss_pages } = used;
                if pid == candidate.pid {
                    candidate.state = Some(state);
                }
                let rss = candidate.rss_bytes.unwrap_or(0).saturating_add(rss_pages.saturating_mul(page));
                candidate.rss_bytes = Some(rss);
                if let Some(before) = self.before.get(&(pid, start_ticks)) {
                    ticks = Some(ticks.unwrap_or(0_u64).saturating_add(cpu_ticks.saturating_sub(*before)));
                }
                seen.insert((pid, start_ticks), cpu_ticks);
            }
            candidate.cpu_pct =
                ticks.zip(seconds).map(|(ticks, seconds)| ticks as f64 / per_second / seconds * 100.0);
        }
        (self.before, self.at) = (seen, Some(now));
    }
}
