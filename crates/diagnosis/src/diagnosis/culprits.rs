//! What a verdict blames, by name: processes, disks, files, addresses, lines. A cause names the searches that it uses.
//!
//! Everything that shows a culprit, the summary included, takes it from the list made here.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::chain::WORKER;
use super::features::{ChainPath, Features, program, program_of};
use super::thresholds::*;
use trainmon_base::stats::{percent, round};
use trainmon_base::text::named_enum;
use trainmon_rates::frame::MountRates;
use trainmon_sample::MountKind;
use trainmon_waits::Frame;
use trainmon_waits::chain::paths::Peer;
use trainmon_waits::taxonomy::{End, Purpose};

thresholds! {
    MOST_OF_OTHERS = 0.80, "of what other processes use", "without this one, the job has nearly all that it can have";
}

/// Most culprits of a verdict, and ranks in a sentence.
pub(super) const MOST_CULPRITS: usize = 8;
/// Smaller use of CPUs by other processes is not shown, CPUs.
pub(super) const OTHERS_SHOWN: f64 = 0.2;

named_enum! {
    /// What a culprit is.
    pub enum CulpritKind {
        /// A process, of the job or not.
        Process = "process",
        /// A disk, by the kernel's name of it.
        Disk = "disk",
        /// A mounted file system, by where it is mounted.
        Mount = "mount",
        /// A file.
        File = "file",
        /// A lock, by the file that is locked.
        Lock = "lock",
        /// An address on the network.
        Address = "address",
        /// A line of code, with its function.
        Line = "line",
        /// A rank of a distributed run, by its number.
        Rank = "rank",
        /// A GPU, by its index.
        Gpu = "gpu",
    }
}

named_enum! {
    /// What a culprit's share is of.
    #[derive(Default)]
    pub enum ShareOf {
        /// A number of CPUs that it keeps busy.
        Cpus = "cpus",
        /// Of the GPU's time.
        Gpu = "gpu",
        /// Of the disk's time.
        Disk = "disk",
        /// Of the time of the loop or of the worker that is held back.
        #[default]
        Time = "time",
    }
}

/// Something that a verdict blames.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Culprit {
    /// What it is.
    pub kind: CulpritKind,
    /// The process, if it is one.
    pub pid: Option<u32>,
    /// Its name.
    pub name: String,
    /// Number of further processes of that name; the share is that of all of them.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub more: usize,
    /// How much of `unit` it takes; `None` if unknown.
    pub share: Option<f64>,
    /// What `share` is of.
    pub unit: Option<ShareOf>,
}

/// Whether an address is one of the machine's own: 127.0.0.0/8 (RFC 1122, 3.2.1.3) or ::1 (RFC 4291, 2.5.3).
pub(super) fn is_loopback(address: &str) -> bool {
    address.starts_with("127.") || address.starts_with("[::1]")
}

impl Culprit {
    pub(super) fn new(kind: CulpritKind, name: impl Into<String>) -> Self {
        Self { kind, pid: None, name: name.into(), more: 0, share: None, unit: None }
    }

    fn process(pid: u32, name: impl Into<String>) -> Self {
        Self { pid: Some(pid), ..Self::new(CulpritKind::Process, name) }
    }

    /// A rank that the others wait for.
    pub(super) fn rank(number: u32, pid: Option<u32>) -> Self {
        Self { pid, ..Self::new(CulpritKind::Rank, number.to_string()) }
    }

    pub(super) fn taking(self, share: impl Into<Option<f64>>, of: ShareOf) -> Self {
        let share = share.into().map(|share| round(share, 3));
        Self { share, unit: share.map(|_| of), ..self }
    }

    /// Its name alone: `rustc (PID 24077)`, `worker 1301`.
    pub fn who(&self) -> String {
        let Self { kind, name, .. } = self;
        match (kind, self.pid) {
            (CulpritKind::Process, Some(pid)) if self.is_worker() => format!("worker {pid}"),
            (CulpritKind::Process, Some(pid)) if self.more > 0 => {
                format!("{name} (PID {pid} and {} more)", self.more)
            }
            (CulpritKind::Process, Some(pid)) => format!("{name} (PID {pid})"),
            (CulpritKind::Rank, Some(pid)) => format!("rank {name} (PID {pid})"),
            (CulpritKind::Rank, _) => format!("rank {name}"),
            (CulpritKind::Gpu, _) => format!("GPU {name}"),
            _ => name.clone(),
        }
    }

    fn is_worker(&self) -> bool {
        self.name == WORKER
    }

    /// The same for brackets in a sentence: `rustc, PID 24077: 0.9 CPUs`, `vda, 90% busy`.
    pub(super) fn in_brackets(&self) -> String {
        let Self { kind, name, more, .. } = self;
        let more = if *more > 0 { format!(" and {more} more") } else { String::new() };
        let mark = if self.pid.is_some() { ": " } else { ", " };
        let who = match (kind, self.pid) {
            (CulpritKind::Process, Some(pid)) if !self.is_worker() => format!("{name}, PID {pid}{more}"),
            (CulpritKind::Mount, _) => format!("mounted at {name}"),
            _ => self.who(),
        };
        who + &self.how_much().map(|much| mark.to_owned() + &much).unwrap_or_default()
    }

    /// How much it takes: `0.9 CPUs`, `90% busy`.
    pub fn how_much(&self) -> Option<String> {
        let share = self.share.filter(|share| share.is_finite())?;
        let part = percent(share);
        Some(match (self.kind, self.unit?) {
            (_, ShareOf::Cpus) => format!("{share:.1} CPUs"),
            (CulpritKind::Gpu, ShareOf::Gpu) | (_, ShareOf::Disk) => format!("{part} busy"),
            (_, ShareOf::Gpu) => format!("{part} of the GPU"),
            (_, ShareOf::Time) if self.is_worker() => format!("active {part} of the time"),
            (_, ShareOf::Time) => format!("{part} of the time"),
        })
    }
}

/// `rustc (PID 24077): 0.9 CPUs`.
impl fmt::Display for Culprit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.who())?;
        self.how_much().map_or(Ok(()), |much| write!(f, ": {much}"))
    }
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde calls")]
fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// Finds the culprits of one kind, most to blame first.
pub(super) type Search = fn(&Features) -> Vec<Culprit>;

/// Whether to look at the machine's other processes: they take CPUs that the job queues for or could use, or compute on its GPU.
pub fn wants_other_processes(frame: &Frame) -> bool {
    let cpus = frame.job.cpus_allowed.map(f64::from).into_iter().chain(frame.job.cpu_quota_cores);
    let cpus = cpus.reduce(f64::min).unwrap_or(1.0);
    let held = frame.host.others_cpu_pct.is_some_and(|pct| pct / 100.0 >= NEIGHBOUR.value * cpus);
    let delays = frame.ranks.iter().map(|rank| rank.run_delay_share).chain([frame.job.run_delay_share]);
    let queues = delays.flatten().any(|share| share >= HARDLY.value);
    let shared = frame.gpus.iter().filter(|gpu| gpu.attached && gpu.others.iter().any(|other| other.compute));
    let theirs = shared.filter_map(|gpu| Some(gpu.utilization_pct? - gpu.job_utilization_pct?));
    let full = frame.host.allowed_cpu_pct.is_some_and(|pct| pct / 100.0 >= CORES_FULL.value);
    held && (queues || full) || theirs.map(|pct| pct / 100.0).any(|share| share >= SHARED_GPU.value)
}

/// Processes of one name count together: a compiler that runs once per CPU is one culprit.
pub(super) fn cpu_users(window: &Features) -> Vec<Culprit> {
    let mut users: Vec<(Culprit, f64)> = Vec::new();
    for (process, cpus) in &window.around.cpu_users {
        let name = program_of(&process.comm, &process.command);
        match users.iter_mut().find(|(user, _)| user.name == name) {
            Some((user, sum)) => {
                user.more += 1;
                *sum += cpus;
            }
            None => users.push((Culprit::process(process.id.pid, name), *cpus)),
        }
    }
    users.retain(|(_, cpus)| *cpus >= OTHERS_SHOWN);
    users.sort_by(|a, b| b.1.total_cmp(&a.1));
    users.into_iter().map(|(user, cpus)| user.taking(cpus, ShareOf::Cpus)).collect()
}

/// The processes that use the CPUs, for a sentence: the one that uses nearly all of what all of them do, or that one and the number of
/// the others. With whether it is more than one; `None` if none is known.
pub(super) fn cpu_users_in_words(window: &Features) -> Option<(String, bool)> {
    let users = cpu_users(window);
    let (most, rest) = users.split_first()?;
    let all: f64 = users.iter().filter_map(|user| user.share).sum();
    let leads =
        most.share.is_some_and(|share| share >= MOST_OF_OTHERS.value * all.max(window.cpu.others.unwrap_or(0.0)));
    let who = match rest.len() {
        others if leads || others == 0 => most.who(),
        1 => format!("{} and {}", most.who(), rest.first()?.who()),
        others => format!("{} and {others} other programs", most.who()),
    };
    Some((who, most.more > 0 || !leads && !rest.is_empty()))
}

pub(super) fn gpu_users(window: &Features) -> Vec<Culprit> {
    let name = |pid: u32| {
        let known = window.around.other_process(pid);
        known.map_or_else(|| "process".into(), |process| program_of(&process.comm, &process.command))
    };
    let users = window.around.gpu_users.iter();
    users.map(|(pid, share)| Culprit::process(*pid, name(*pid)).taking(*share, ShareOf::Gpu)).collect()
}

/// The time lost to each culprit, the largest first.
fn by_loss<'a>(window: &'a Features, of: impl Fn(&'a ChainPath) -> Option<Culprit>) -> Vec<Culprit> {
    let ways = window.chain.iter().flat_map(|chain| &chain.ways);
    let mut sums: BTreeMap<(Option<u32>, String), (Culprit, f64)> = BTreeMap::new();
    for (culprit, lost) in ways.filter_map(|way| Some((of(way)?, way.lost))) {
        sums.entry((culprit.pid, culprit.name.clone())).or_insert((culprit, 0.0)).1 += lost;
    }
    let mut found: Vec<_> = sums.into_values().filter(|(_, lost)| *lost >= HARDLY).collect();
    found.sort_by(|a, b| b.1.total_cmp(&a.1));
    found.into_iter().map(|(culprit, lost)| culprit.taking(lost, ShareOf::Time)).collect()
}

fn peer(window: &Features, pid: u32) -> Culprit {
    let known: Option<&Peer> = window.chain.as_ref().and_then(|chain| chain.peer(pid));
    Culprit::process(pid, known.map_or_else(|| "process".into(), program))
}

/// Processes that work while the loop or its workers wait for them.
pub(super) fn processes(window: &Features) -> Vec<Culprit> {
    let server = window.chain.as_ref().and_then(|chain| chain.server()).map(|(pid, _)| pid);
    by_loss(window, |way| {
        let last = way.hops.last();
        match (way.part, way.end) {
            (Purpose::Process, End::Children) => Some(Culprit::new(CulpritKind::Process, "short-lived commands")),
            (Purpose::Process, _) => Some(peer(window, last?.pid)),
            (Purpose::Batch, _) => {
                server.filter(|pid| last.is_some_and(|last| last.pid == *pid)).map(|pid| peer(window, pid))
            }
            _ => None,
        }
    })
}

/// Readers of the loop's output.
pub(super) fn readers(window: &Features) -> Vec<Culprit> {
    let is_output = |way: &&ChainPath| way.part == Purpose::Output;
    by_loss(window, |way| Some(peer(window, Some(way).filter(is_output)?.hops.first()?.pid)))
}

pub(super) fn addresses(window: &Features) -> Vec<Culprit> {
    by_loss(window, |way| {
        let address = if way.end == End::Net { way.name.as_ref()? } else { return None };
        Some(Culprit::new(CulpritKind::Address, address.to_string()))
    })
}

/// Locked files, and the processes that hold the locks.
pub(super) fn locks(window: &Features) -> Vec<Culprit> {
    let path = |way: &ChainPath| {
        let at_end = if way.end == End::Lock { way.name.as_ref() } else { None };
        at_end.or(way.lock.as_ref()).map(ToString::to_string)
    };
    let of_lock = |way: &&ChainPath| way.part == Purpose::FileLock;
    let mut found = by_loss(window, |way| {
        Some(way).filter(of_lock).and_then(path).map(|path| Culprit::new(CulpritKind::Lock, path))
    });
    found.extend(by_loss(window, |way| Some(peer(window, Some(way).filter(of_lock)?.hops.last()?.pid))));
    found
}

fn mount(mount: &MountRates) -> impl Iterator<Item = Culprit> {
    // A single data file can be named; of many, none is more to blame than the others.
    let file = if mount.files == 1 { mount.examples.first() } else { None };
    let file = file.map(|path| Culprit::new(CulpritKind::File, path.to_string()));
    [Culprit::new(CulpritKind::Mount, mount.mount_point.to_string())].into_iter().chain(file)
}

/// The disk of this name, and where it is mounted.
fn disk(window: &Features, name: &str, busy: Option<f64>) -> Vec<Culprit> {
    let mounts = window.around.mounts.iter().filter(|mount| mount.disks.iter().any(|disk| **disk == *name));
    let disk = Culprit::new(CulpritKind::Disk, name).taking(busy, ShareOf::Disk);
    [disk].into_iter().chain(mounts.flat_map(mount)).collect()
}

/// The disk that holds the job's data; only its mounts if the disk is unknown.
pub(super) fn data_disk(window: &Features) -> Vec<Culprit> {
    let io = &window.io;
    match &io.disk {
        Some(name) => disk(window, name, io.disk_busy_pct.map(|pct| pct / 100.0)),
        None => window.around.mounts.iter().flat_map(mount).collect(),
    }
}

pub(super) fn written_disk(window: &Features) -> Vec<Culprit> {
    window.around.written.iter().flat_map(|name| disk(window, name, None)).collect()
}

pub(super) fn network_mounts(window: &Features) -> Vec<Culprit> {
    let elsewhere = |mount: &&MountRates| matches!(mount.kind, MountKind::Network | MountKind::Fuse);
    window.around.mounts.iter().filter(elsewhere).flat_map(mount).collect()
}

/// The worker that is busiest, waits for data included.
pub(super) fn busiest_worker(window: &Features) -> Vec<Culprit> {
    let active = |worker: &super::parts::WorkerVerdict| Some(worker.busy? + worker.io_wait.unwrap_or(0.0));
    let each = window.workers.iter().flat_map(|workers| &workers.each);
    let busiest = each.filter_map(|worker| Some((worker.pid, active(worker)?))).max_by(|a, b| a.1.total_cmp(&b.1));
    let (pid, share) = match busiest {
        Some(busiest) => busiest,
        None => return Vec::new(),
    };
    vec![Culprit::process(pid, WORKER).taking(share, ShareOf::Time)]
}

pub(super) fn gpus(window: &Features) -> Vec<Culprit> {
    let indexes = window.gpu.iter().flat_map(|gpu| gpu.users.iter().map(|(index, _)| (index, gpu.busy)));
    indexes
        .map(|(index, busy)| Culprit::new(CulpritKind::Gpu, index.to_string()).taking(busy, ShareOf::Gpu))
        .collect()
}
