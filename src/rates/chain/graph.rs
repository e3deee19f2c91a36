//! The wait-for graph of one tick, and how a wait is followed through it.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::{AHEAD, Beside, Edge, End, Hop, Peer, Way};
use crate::rates::wait::Wait;
use crate::sample::syscall::{FdUse, fd_use};
use crate::sample::{
    Access, Channel, Descriptor, JobSample, LockWait, Observation, ProcessId, ProcessRole, ProcessSample, ThreadRole,
};

/// A sample of a thread speaks for so many rounds after it: others are sampled in every third, many of them in turns.
const ROUNDS: u32 = 24;
/// Longest chain that is followed.
const DEPTH: usize = 6;
/// Most threads and processes that one sample's wait is followed through, some 1 µs each; what lies beyond is unknown.
const STEPS: u32 = 128;
/// Most different ways that one wait is passed on over.
const WAYS: usize = 32;
/// Most processes that one wait is followed to.
const CANDIDATES: usize = 16;
/// CPython's switch interval is 5 ms: a thread that waits for the interpreter lock looks again after it (Python/ceval_gil.c,
/// `take_gil`). Milliseconds, rounded up.
const SWITCH_MS: i32 = 6;
/// So often a second does it wake meanwhile, at least, where the end of its wait may not be read: 230 were measured.
const SWITCHES_S: f64 = 150.0;
/// A thread wakes nobody that neither runs this share of the time …
const MOVES_CPU: f64 = 0.02;
/// … nor wakes this often a second.
const MOVES_S: f64 = 0.5;
/// A holder of the interpreter lock computes at least this share of the time.
const HOLDS_CPU: f64 = 0.05;
/// Threads of libraries that wait for events of their own: nobody waits for them (libcuda, NCCL, OpenMP, tqdm).
const BACKGROUND: &[&str] = &["cuda-Evt", "pt_nccl", "NCCL", "OMP", "iou-", "tokio", "jemalloc"];

/// A thread that was sampled.
#[derive(Debug)]
struct Thread<'a> {
    pid: u32,
    tid: u32,
    role: ThreadRole,
    /// It wakes or runs often enough to be waited for.
    active: bool,
    cpu: f64,
    wakes_s: f64,
    samples: Vec<(u32, u32)>,
    cursor: usize,
    now: Option<&'a Observation>,
    wait: Wait,
}

/// The threads of one tick and what joins their processes.
#[derive(Debug)]
pub(in crate::rates) struct Graph<'a> {
    pub(super) exact: bool,
    machine: crate::sample::syscall::Machine,
    seen: &'a [Observation],
    waits: &'a [Wait],
    threads: Vec<Thread<'a>>,
    by_process: HashMap<u32, Vec<usize>>,
    processes: HashMap<u32, &'a ProcessSample>,
    channels: HashMap<&'a str, &'a Channel>,
    locks: HashMap<u32, &'a LockWait>,
    target: ProcessId,
    inside_pids: HashSet<u32>,
    /// Processes with an active thread.
    moving: HashSet<u32>,
    /// Threads that the wait at hand may still be followed through.
    steps: std::cell::Cell<u32>,
}

/// How a process's counters moved: share of the time on a CPU, and times a second that it was given one.
fn paces(job: &JobSample, before: Option<&JobSample>) -> HashMap<(u32, u32), (f64, f64)> {
    let Some(before) = before else { return HashMap::new() };
    let seconds = job.monotonic_ns.saturating_sub(before.monotonic_ns) as f64 / 1e9;
    if seconds <= 0.0 {
        return HashMap::new();
    }
    let sampled = job.sampler.processes.iter();
    let sampled: HashSet<(u32, u32)> =
        sampled.flat_map(|process| process.threads.iter().map(|thread| (process.id.pid, thread.tid))).collect();
    let all = |job: &JobSample| -> HashMap<(u32, u32), (u64, u64)> {
        let outside = job.connections.iter().flat_map(|connections| connections.outside.iter());
        let each =
            job.processes.iter().chain(outside).flat_map(|process| {
                process.threads.iter().filter(|thread| sampled.contains(&(process.id.pid, thread.tid))).filter_map(
                    |thread| Some(((process.id.pid, thread.tid), (thread.on_cpu_ns?, thread.timeslices?))),
                )
            });
        each.collect()
    };
    let earlier = all(before);
    let moved = all(job).into_iter().filter_map(|(key, (on_cpu, slices))| {
        let (cpu_before, slices_before) = *earlier.get(&key)?;
        let cpu = on_cpu.checked_sub(cpu_before)? as f64 / 1e9 / seconds;
        Some((key, (cpu, slices.checked_sub(slices_before)? as f64 / seconds)))
    });
    moved.collect()
}

impl<'a> Graph<'a> {
    /// The graph of a tick. `waits` are the meanings of the sampler's observations, in their order.
    pub(in crate::rates) fn new(job: &'a JobSample, before: Option<&JobSample>, waits: &'a [Wait]) -> Self {
        let sampler = &job.sampler;
        let paces = paces(job, before);
        let connections = job.connections.as_deref();
        let outside = connections.map(|connections| connections.outside.as_slice()).unwrap_or_default();
        let processes: HashMap<u32, &ProcessSample> =
            job.processes.iter().chain(outside).map(|process| (process.id.pid, process)).collect();
        let mut threads = Vec::new();
        let mut by_process: HashMap<u32, Vec<usize>> = HashMap::new();
        for process in &sampler.processes {
            let names = processes.get(&process.id.pid).map(|known| known.threads.as_slice()).unwrap_or_default();
            for thread in &process.threads {
                let pid = process.id.pid;
                let name = names.iter().find(|known| known.tid == thread.tid).map_or("", |known| &*known.name);
                let pace = paces.get(&(pid, thread.tid)).copied();
                let (cpu, wakes_s) = pace.unwrap_or_default();
                let moves = pace.is_none() || wakes_s > 0.0;
                let background = BACKGROUND.iter().any(|part| name.contains(part));
                by_process.entry(pid).or_default().push(threads.len());
                threads.push(Thread {
                    pid,
                    tid: thread.tid,
                    role: thread.role,
                    active: !background && (thread.aside && moves || cpu > MOVES_CPU || wakes_s > MOVES_S),
                    cpu,
                    wakes_s,
                    samples: thread.samples().collect(),
                    cursor: 0,
                    now: None,
                    wait: Wait::Unknown,
                });
            }
        }
        Self {
            exact: sampler.syscall == Access::Ok,
            machine: sampler.machine,
            moving: threads.iter().filter(|thread| thread.active).map(|thread| thread.pid).collect(),
            seen: &sampler.seen,
            waits,
            threads,
            by_process,
            inside_pids: job.processes.iter().map(|process| process.id.pid).collect(),
            processes,
            channels: connections
                .iter()
                .flat_map(|connections| connections.channels.iter().map(|channel| (&*channel.link, channel)))
                .collect(),
            locks: connections
                .iter()
                .flat_map(|connections| connections.locks.iter().map(|lock| (lock.waiter, lock)))
                .collect(),
            target: job.target,
            steps: std::cell::Cell::new(0),
        }
    }

    /// Share of the time on a CPU and wake-ups a second of a thread of a process.
    pub(super) fn pace(&self, pid: u32, tid: u32) -> Option<(f64, f64)> {
        let at = self.place(pid, tid)?;
        self.threads.get(at).map(|thread| (thread.cpu, thread.wakes_s))
    }

    /// Threads of a process with their roles, and whether they are active.
    pub(super) fn of_process(&self, pid: u32) -> impl Iterator<Item = (u32, ThreadRole, bool)> + '_ {
        let places = self.by_process.get(&pid).into_iter().flatten();
        places.filter_map(|at| self.threads.get(*at)).map(|thread| (thread.tid, thread.role, thread.active))
    }

    fn place(&self, pid: u32, tid: u32) -> Option<usize> {
        let places = self.by_process.get(&pid)?;
        places.iter().copied().find(|at| self.threads.get(*at).is_some_and(|thread| thread.tid == tid))
    }

    /// Moves on to a round: what each thread was doing as of then. Rounds come in order.
    pub(in crate::rates) fn go_to(&mut self, round: u32) {
        let (seen, waits) = (self.seen, self.waits);
        for thread in &mut self.threads {
            while let Some((at, place)) = thread.samples.get(thread.cursor).filter(|(at, _)| *at <= round) {
                thread.now = seen.get(*place as usize);
                thread.wait = waits.get(*place as usize).copied().unwrap_or_default();
                thread.cursor += 1;
                if *at == round {
                    break;
                }
            }
            let last = thread.cursor.checked_sub(1).and_then(|at| thread.samples.get(at));
            if last.is_none_or(|(at, _)| round.saturating_sub(*at) > ROUNDS) {
                (thread.now, thread.wait) = (None, Wait::Unknown);
            }
        }
    }

    /// Threads that run at this round, but for those of the loop itself.
    pub(in crate::rates) fn running(&self, but: (u32, u32)) -> Vec<(u32, u32)> {
        let runs = |thread: &&Thread<'_>| thread.wait == Wait::Running && (thread.pid, thread.tid) != but;
        self.threads.iter().filter(runs).map(|thread| (thread.pid, thread.tid)).collect()
    }

    /// Where the wait of a thread leads at this round; `device` is the device's use around it, 0–1.
    pub(in crate::rates) fn ways_of(&self, pid: u32, tid: u32, device: Option<f64>) -> Vec<Way> {
        let Some(at) = self.place(pid, tid) else { return vec![Way::end(End::Unknown)] };
        self.steps.set(STEPS);
        let ways = self.ways(at, &mut vec![at]);
        let Some(thread) = self.threads.get(at) else { return ways };
        let busy = device.filter(|busy| *busy >= crate::rates::kind::DEVICE_BUSY);
        match (thread.wait, busy) {
            // The wait has no name of its own: the device may be what is waited for.
            (Wait::Sleep | Wait::Device, Some(_)) => vec![Way::end(End::Device)],
            (Wait::Futex | Wait::Poll | Wait::Other, Some(busy)) if !self.has_channel(thread) => {
                let leads = ways.iter().any(Way::leads);
                if !leads {
                    return vec![Way::end(End::Device)];
                }
                let by_lock = ways.iter().any(|way| way.hops.first().is_some_and(|hop| hop.by != Edge::Thread));
                let computes = ways.iter().any(|way| way.hops.len() == 1 && way.end == End::Cpu);
                if by_lock || computes {
                    return ways;
                }
                let rest = ways.into_iter().map(|way| Way { share: way.share * (1.0 - busy), ..way });
                rest.chain([Way { share: busy, ..Way::end(End::Device) }]).collect()
            }
            _ => ways,
        }
    }

    /// It waits on a pipe or socket that leads somewhere.
    fn has_channel(&self, thread: &Thread<'_>) -> bool {
        let descriptors = thread.now.map(|seen| seen.descriptors.as_slice()).unwrap_or_default();
        descriptors.iter().any(|descriptor| {
            self.channels
                .get(&*descriptor.link)
                .is_some_and(|channel| channel.remote.is_some() || self.others(channel, thread.pid).next().is_some())
        })
    }

    fn others<'c>(&self, channel: &'c Channel, pid: u32) -> impl Iterator<Item = u32> + 'c {
        channel.readers.iter().chain(&channel.writers).copied().filter(move |other| *other != pid)
    }

    /// Counts a step; false once there were too many.
    fn may_go_on(&self) -> bool {
        let left = self.steps.get();
        self.steps.set(left.saturating_sub(1));
        left > 0
    }

    /// The ways from a thread on; `path` are the threads that lead here, itself included. The shares add up to 1.
    fn ways(&self, at: usize, path: &mut Vec<usize>) -> Vec<Way> {
        let Some(thread) = self.threads.get(at) else { return vec![Way::end(End::Unknown)] };
        let Some(seen) = thread.now else { return vec![Way::end(End::Unknown)] };
        if !self.may_go_on() {
            return vec![Way::end(End::Unknown)];
        }
        match thread.wait {
            Wait::Running => vec![Way::end(End::Cpu)],
            Wait::DiskRead => vec![Way::end(End::Disk)],
            Wait::DiskWrite => vec![Way::end(End::Flush)],
            Wait::Memory => vec![Way::end(End::Memory)],
            Wait::Stopped => vec![Way::end(End::Stopped)],
            Wait::Sleep => vec![Way::end(End::Timer)],
            Wait::Device => vec![Way::end(End::Device)],
            Wait::Unknown => vec![Way::end(End::Unknown)],
            Wait::Child => self.of_child(thread, seen, path),
            Wait::Futex => self.of_futex(at, thread, seen, path),
            Wait::LoaderPoll if self.is_torch_worker(thread.pid) => vec![Way::end(End::Asked)],
            Wait::LoaderPoll | Wait::Poll | Wait::Pipe | Wait::Socket | Wait::Other => {
                self.of_descriptors(at, thread, seen, path)
            }
        }
    }

    fn is_torch_worker(&self, pid: u32) -> bool {
        self.processes.get(&pid).is_some_and(|process| process.is_torch_worker())
    }

    fn of_child(&self, thread: &Thread<'_>, seen: &Observation, path: &mut Vec<usize>) -> Vec<Way> {
        // wait4 names the child first; waitid after the kind of what is named, so its first argument is small.
        let named = seen.argument.and_then(|pid| u32::try_from(pid).ok());
        let named = named.filter(|pid| self.by_process.contains_key(pid));
        let children: Vec<u32> = match named {
            Some(pid) => vec![pid],
            None => self.processes.values().filter(|one| one.parent == thread.pid).map(|one| one.id.pid).collect(),
        };
        self.best(
            children.into_iter().take(CANDIDATES).map(|pid| self.of_process_way(pid, Edge::Child, path)).collect(),
        )
    }

    fn of_futex(&self, at: usize, thread: &Thread<'_>, seen: &Observation, path: &mut Vec<usize>) -> Vec<Way> {
        const PRIVATE: u32 = 128;
        let others = self.companions(at, path);
        let running = |of: &[usize]| -> Vec<usize> {
            of.iter()
                .copied()
                .filter(|at| self.threads.get(*at).is_some_and(|one| one.wait == Wait::Running))
                .collect()
        };
        let run = running(&others);
        // A lock that other processes share: whoever of them runs.
        let shared = seen.operation.is_some_and(|operation| operation & PRIVATE == 0);
        let short = seen.deadline_ms.is_some_and(|ahead| ahead <= SWITCH_MS);
        let switches = !self.exact && thread.wakes_s > SWITCHES_S && !run.is_empty();
        if short || switches {
            let computes = |at: &usize| self.threads.get(*at).is_some_and(|one| one.cpu >= HOLDS_CPU);
            let holders: Vec<usize> = match run.is_empty() {
                false => run.clone(),
                true => others.iter().copied().filter(computes).collect(),
            };
            if !holders.is_empty() {
                return self.to_threads(&holders, Edge::InterpreterLock, |_| vec![Way::end(End::Cpu)]);
            }
        }
        if !run.is_empty() {
            return self.to_threads(&run, Edge::Thread, |_| vec![Way::end(End::Cpu)]);
        }
        let mut alternatives = Vec::new();
        for other in others.into_iter().take(CANDIDATES) {
            let blocked_outside = self
                .threads
                .get(other)
                .is_some_and(|one| !matches!(one.wait, Wait::Futex | Wait::Unknown) && path.len() < DEPTH);
            if blocked_outside {
                path.push(other);
                let ways = self.to_threads(&[other], Edge::Thread, |at| self.ways(at, path));
                path.pop();
                alternatives.push(ways);
            }
        }
        if shared {
            let pids: Vec<u32> = self.by_process.keys().copied().filter(|pid| *pid != thread.pid).collect();
            for pid in pids.into_iter().filter(|pid| self.is_child_of_trainer(*pid)).take(CANDIDATES) {
                let at: Vec<usize> = self.active_of(pid, path);
                let run = running(&at);
                if !run.is_empty() {
                    alternatives.push(self.to_threads(&run, Edge::SharedMemory, |_| vec![Way::end(End::Cpu)]));
                }
            }
        }
        self.best(alternatives)
    }

    fn is_child_of_trainer(&self, pid: u32) -> bool {
        self.inside_pids.contains(&pid) && pid != self.target.pid
    }

    /// Active threads of the same process that are not on the way here.
    fn companions(&self, at: usize, path: &[usize]) -> Vec<usize> {
        let Some(thread) = self.threads.get(at) else { return Vec::new() };
        self.active_of(thread.pid, path).into_iter().filter(|other| *other != at).collect()
    }

    fn active_of(&self, pid: u32, path: &[usize]) -> Vec<usize> {
        let places = self.by_process.get(&pid).into_iter().flatten().copied();
        places.filter(|at| !path.contains(at) && self.threads.get(*at).is_some_and(|one| one.active)).collect()
    }

    /// Ways over each of these threads, in equal parts.
    fn to_threads(&self, to: &[usize], by: Edge, mut on: impl FnMut(usize) -> Vec<Way>) -> Vec<Way> {
        let part = 1.0 / to.len().max(1) as f64;
        let mut ways = Vec::new();
        for at in to {
            let Some(thread) = self.threads.get(*at) else { continue };
            let hop = Hop { by, pid: thread.pid, tid: thread.tid };
            ways.extend(on(*at).into_iter().map(|way| way.after(hop.clone(), part)));
        }
        ways
    }

    /// What a process does that is waited for: whoever of its threads runs, else what its main thread waits for, or the
    /// most active one where that rests.
    fn of_process_way(&self, pid: u32, by: Edge, path: &mut Vec<usize>) -> Vec<Way> {
        if path.iter().any(|at| self.threads.get(*at).is_some_and(|thread| thread.pid == pid)) {
            return vec![Way::end(End::Asked)];
        }
        if !self.may_go_on() {
            return vec![Way::end(End::Unknown)];
        }
        let active = self.active_of(pid, path);
        let run: Vec<usize> = active
            .iter()
            .copied()
            .filter(|at| self.threads.get(*at).is_some_and(|one| one.wait == Wait::Running))
            .collect();
        if !run.is_empty() {
            return self.to_threads(&run, by, |_| vec![Way::end(End::Cpu)]);
        }
        let main = self.place(pid, pid);
        let of = |at: &usize| self.threads.get(*at);
        let busiest = active.iter().copied().max_by(|a, b| {
            let weight = |at: &usize| of(at).map_or(0.0, |one| one.cpu + one.wakes_s * 1e-3);
            weight(a).total_cmp(&weight(b))
        });
        let Some(at) = main.filter(|main| active.contains(main)).or(busiest).or(main) else {
            return vec![Way::end(End::Unknown).after(Hop { by, pid, tid: pid }, 1.0)];
        };
        if path.len() >= DEPTH {
            return vec![Way::end(End::Unknown)];
        }
        path.push(at);
        let ways = self.to_threads(&[at], by, |at| self.ways(at, path));
        path.pop();
        ways
    }

    fn of_descriptors(&self, at: usize, thread: &Thread<'_>, seen: &Observation, path: &mut Vec<usize>) -> Vec<Way> {
        let guessed: Vec<Descriptor>;
        let descriptors = if seen.descriptors.is_empty() && !self.exact {
            guessed = self.guessed(thread, seen);
            &guessed
        } else {
            &seen.descriptors
        };
        let used = seen.call.and_then(|number| fd_use(self.machine, number));
        match used {
            Some(FdUse::Locks) => return self.of_lock(thread.pid, descriptors.first(), path),
            None if seen.call.is_none() && waits_for_lock(seen) => return self.of_lock(thread.pid, None, path),
            Some(FdUse::Accepts) => return vec![Way::end(End::Asked)],
            _ => {}
        }
        let mut alternatives = Vec::new();
        for descriptor in descriptors.iter().take(CANDIDATES) {
            alternatives.extend(self.of_descriptor(at, thread.pid, descriptor, used == Some(FdUse::Reads), path));
        }
        let ways = self.best(alternatives);
        // torch's loader names its wait itself: a worker that is not followed yet is one all the same.
        let nobody = ways.iter().all(|way| way.hops.is_empty() && way.end == End::Unknown);
        if nobody && thread.wait == Wait::LoaderPoll { vec![Way::end(End::Loader)] } else { ways }
    }

    fn of_lock(&self, pid: u32, file: Option<&Descriptor>, path: &mut Vec<usize>) -> Vec<Way> {
        let lock = self.locks.get(&pid);
        let known = file.map(|file| &file.link).or_else(|| lock.and_then(|lock| lock.path.as_ref()));
        let name = known.map_or_else(|| Arc::from(""), Arc::clone);
        let holder = lock.map(|lock| lock.holder).filter(|holder| *holder != 0 && *holder != pid);
        match holder {
            Some(holder) => {
                let ways = self.of_process_way(holder, Edge::FileLock, path);
                ways.into_iter().map(|way| Way { name: Some(Arc::clone(&name)), ..way }).collect()
            }
            None => vec![Way::end(End::Lock(name))],
        }
    }

    /// Ways over one descriptor; nothing where it leads nowhere.
    fn of_descriptor(
        &self,
        at: usize,
        pid: u32,
        descriptor: &Descriptor,
        reads: bool,
        path: &mut Vec<usize>,
    ) -> Vec<Vec<Way>> {
        if self.steps.get() == 0 {
            return Vec::new();
        }
        let link = &*descriptor.link;
        if link.starts_with("/dev/nvidia") {
            return vec![vec![Way::end(End::Device)]];
        }
        if link.starts_with("/dev/pts/") || link.starts_with("/dev/tty") {
            return vec![vec![Way::end(End::Terminal)]];
        }
        let is_pipe = link.starts_with("pipe:");
        if !is_pipe && !link.starts_with("socket:") {
            return Vec::new();
        }
        let channel = self.channels.get(link);
        let mut pids: Vec<u32> = match channel {
            Some(channel) if is_pipe && descriptor.writes => channel.readers.clone(),
            Some(channel) => channel.writers.clone(),
            None => Vec::new(),
        };
        let within = pids.contains(&pid);
        pids.retain(|other| *other != pid);
        let remote = channel.and_then(|channel| channel.remote.clone());
        if pids.is_empty() && remote.is_none() && !is_pipe && reads {
            // A socket that was made for a moment, to pass a descriptor on: of those that share a pipe with this process.
            pids = self.pipe_partners(pid);
        }
        if pids.is_empty() && within {
            let companions = self.companions(at, path);
            return companions
                .into_iter()
                .take(CANDIDATES)
                .map(|other| {
                    path.push(other);
                    let ways = self.to_threads(&[other], Edge::Thread, |at| {
                        if path.len() < DEPTH { self.ways(at, path) } else { vec![Way::end(End::Unknown)] }
                    });
                    path.pop();
                    ways
                })
                .collect();
        }
        let pids = self.likeliest(pid, pids);
        let by = match &remote {
            _ if descriptor.writes => Edge::Writes,
            Some(_) => Edge::Network,
            None => Edge::Reads,
        };
        let mut found: Vec<Vec<Way>> =
            pids.into_iter().take(CANDIDATES).map(|other| self.of_process_way(other, by, path)).collect();
        if let Some(remote) = remote {
            // It waits for us in turn: nothing to do.
            let asked = |ways: &Vec<Way>| ways.iter().all(|way| way.end == End::Asked && way.hops.is_empty());
            if !found.is_empty() && found.iter().all(asked) {
                return found;
            }
            // A server here that computes or reads is the end; one that sleeps, or is not seen, is an address.
            found.retain(|ways| ways.iter().any(|way| way.end.rank() < End::Timer.rank()));
            if found.is_empty() {
                found.push(vec![Way::end(End::Net(remote))]);
            }
        }
        found
    }

    /// Of several that hold the other end of a pipe the data workers, where there are any, and those that move.
    fn likeliest(&self, pid: u32, pids: Vec<u32>) -> Vec<u32> {
        let of = |wanted: &dyn Fn(u32) -> bool| pids.iter().copied().filter(|pid| wanted(*pid)).collect::<Vec<_>>();
        let is_trainer = self.processes.get(&pid).is_some_and(|process| process.role == ProcessRole::Trainer);
        let workers = of(&|pid| is_trainer && self.is_torch_worker(pid));
        let moving = of(&|pid| self.moving.contains(&pid));
        match () {
            () if !workers.is_empty() => workers,
            () if !moving.is_empty() => moving,
            () => pids,
        }
    }

    fn pipe_partners(&self, pid: u32) -> Vec<u32> {
        let mut partners: Vec<u32> = self
            .channels
            .values()
            .filter(|channel| channel.readers.contains(&pid) || channel.writers.contains(&pid))
            .flat_map(|channel| self.others(channel, pid))
            .filter(|other| self.moving.contains(other))
            .collect();
        partners.sort_unstable();
        partners.dedup();
        partners
    }

    /// What a thread may wait on where its call may not be seen: every open end of its process that fits the kernel's
    /// function, and whose other end somebody active holds.
    fn guessed(&self, thread: &Thread<'_>, seen: &Observation) -> Vec<Descriptor> {
        let symbol = seen.wchan.as_deref().unwrap_or_default();
        let writes = ["pipe_write", "stream_wait_memory", "sock_alloc_send", "wait_for_wmem"]
            .iter()
            .any(|part| symbol.contains(part));
        let fits = |channel: &&&Channel| {
            let pipe = channel.link.starts_with("pipe:");
            let holds = match (pipe, writes) {
                (true, true) => channel.writers.contains(&thread.pid),
                _ => channel.readers.contains(&thread.pid),
            };
            let kind = match thread.wait {
                Wait::Pipe => pipe,
                Wait::Socket => !pipe,
                _ => true,
            };
            let led =
                channel.remote.is_some() || self.others(channel, thread.pid).any(|pid| self.moving.contains(&pid));
            holds && kind && led
        };
        let found = self.channels.values().filter(fits);
        let mut found: Vec<Descriptor> =
            found.map(|channel| Descriptor { link: Arc::clone(&channel.link), writes }).collect();
        found.sort_unstable_by(|a, b| a.link.cmp(&b.link));
        found
    }

    /// What a data worker's main thread waits for where that is a thread of its own process: the kind of wait at its end.
    pub(in crate::rates) fn own_wait(&self, pid: u32) -> Option<Wait> {
        let at = self.place(pid, pid)?;
        let main = self.threads.get(at).filter(|main| main.wait == Wait::Futex && main.now.is_some())?;
        let ways = self.ways(at, &mut vec![at]);
        let way = ways.iter().max_by(|a, b| a.share.total_cmp(&b.share))?;
        let own = way.hops.first().is_some_and(|hop| hop.pid == main.pid && hop.by == Edge::Thread);
        Some(match way.end {
            _ if !own => return None,
            End::Cpu => Wait::Running,
            End::Disk => Wait::DiskRead,
            End::Memory => Wait::Memory,
            End::Flush => Wait::DiskWrite,
            End::Net(_) => Wait::Socket,
            End::Timer => Wait::Sleep,
            _ => return None,
        })
    }

    /// Begins again at the first round.
    pub(in crate::rates) fn rewind(&mut self) {
        for thread in &mut self.threads {
            (thread.cursor, thread.now, thread.wait) = (0, None, Wait::Unknown);
        }
    }

    /// The alternatives that end best, in equal parts: whoever works is why the others wait.
    fn best(&self, mut alternatives: Vec<Vec<Way>>) -> Vec<Way> {
        let rank = |ways: &[Way]| ways.iter().map(|way| way.end.rank()).min().unwrap_or(u8::MAX);
        let Some(least) = alternatives.iter().map(|ways| rank(ways)).min() else {
            return vec![Way::end(End::Unknown)];
        };
        alternatives.retain(|ways| rank(ways) == least);
        let part = 1.0 / alternatives.len() as f64;
        few(alternatives.into_iter().flatten().map(|way| Way { share: way.share * part, ..way }))
    }

    /// Batches come from this process: it is one of torch's workers, or a process of the job that works ahead of the loop.
    pub(super) fn is_loader(&self, pid: u32, beside: &Beside) -> bool {
        let inside = self.inside_pids.contains(&pid);
        self.is_torch_worker(pid)
            || inside
                && self.processes.get(&pid).is_some_and(|process| process.role == ProcessRole::Worker)
                && beside.process(pid) >= AHEAD
    }

    /// A thread of the trainer that is not torch's, where no data workers are.
    pub(super) fn makes_batches(&self, hop: &Hop) -> bool {
        let other = self.place(hop.pid, hop.tid).and_then(|at| self.threads.get(at));
        other.is_some_and(|thread| thread.role == ThreadRole::Other)
            && !self.processes.values().any(|process| process.is_torch_worker() && process.parent == hop.pid)
    }

    pub(super) fn peer(&self, pid: u32) -> Peer {
        let known = self.processes.get(&pid);
        Peer {
            pid,
            role: known.map(|process| process.role).unwrap_or_default(),
            inside: self.inside_pids.contains(&pid),
            command: known.map(|process| Arc::clone(&process.command)).unwrap_or_default(),
            comm: known.map(|process| Arc::clone(&process.comm)).unwrap_or_default(),
            ahead: 0.0,
        }
    }
}

/// Equal ways as one, and what is beyond [`WAYS`] of them as one with an unknown end.
fn few(ways: impl Iterator<Item = Way>) -> Vec<Way> {
    let mut kept: Vec<Way> = Vec::new();
    let mut rest = 0.0;
    for way in ways {
        let same = |one: &Way| (&one.end, &one.name, &one.hops) == (&way.end, &way.name, &way.hops);
        let known = kept.iter().position(same).and_then(|at| kept.get_mut(at));
        if let Some(known) = known {
            known.share += way.share;
        } else if kept.len() < WAYS {
            kept.push(way);
        } else {
            rest += way.share;
        }
    }
    if rest > 0.0 {
        kept.push(Way { share: rest, ..Way::end(End::Unknown) });
    }
    kept
}

/// The kernel's function is one in which threads wait for file locks (fs/locks.c).
fn waits_for_lock(seen: &Observation) -> bool {
    let symbol = seen.wchan.as_deref().unwrap_or_default();
    ["lock_inode_wait", "lock_file_wait", "fcntl_setlk"].iter().any(|part| symbol.contains(part))
}

impl Way {
    /// It ends at something that explains a wait, or goes over a lock or a full pipe, whose owner does whatever it does.
    fn leads(&self) -> bool {
        let held = |hop: &Hop| matches!(hop.by, Edge::FileLock | Edge::Writes);
        self.end.rank() < End::Timer.rank() || self.hops.iter().any(held)
    }

    fn end(end: End) -> Self {
        Self { hops: Vec::new(), end, name: None, share: 1.0 }
    }

    /// The same, one thread later.
    fn after(mut self, hop: Hop, part: f64) -> Self {
        self.hops.insert(0, hop);
        self.share *= part;
        self
    }
}

impl End {
    /// Where several ways are possible: the likelier to be what the others wait for, the smaller.
    fn rank(&self) -> u8 {
        match self {
            Self::Cpu => 0,
            Self::Disk | Self::Flush | Self::Memory => 1,
            Self::Net(_) | Self::Device | Self::Lock(_) => 2,
            Self::Timer | Self::Stopped | Self::Terminal => 3,
            Self::Loader => 7,
            Self::Unknown => 8,
            Self::Asked => 9,
        }
    }
}
