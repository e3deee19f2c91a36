//! From a blocked thread to what would wake it.
//!
//! [`Graph::loop_paths`] is the entry: it weighs the GPU against what [`Graph::paths`] finds. That function asks by the
//! kind of wait, and returns here for the next thread ([`Graph::paths_through`]) or process ([`Graph::process_paths`])
//! until there is an end. If several things may end a wait, [`Graph::best`] chooses.

use super::super::paths::{WaitHop, is_at_sleeping_thread};
use super::super::round_paths::{FoundPaths, RoundPath};
use super::shared_lock::PRIVATE;
use super::{CANDIDATES, DEPTH, Graph, GraphThread, Trail, running};
use crate::taxonomy::{Edge, End};
use crate::wait::Wait;
use trainmon_rates::levels::{CLEARLY, WORKING_SHARE};
use trainmon_sample::syscall::FdUse;
use trainmon_sample::{Channel, Observation};

/// Most threads and processes that one sample's wait is followed through, about 1 µs each; what is beyond stays
/// unknown.
const MOST_STEPS: u32 = 128;
/// Most distinct paths passed on for one wait.
const MOST_PATHS: usize = 32;
/// CPython's switch interval is 5 ms: a thread that waits for the interpreter lock tries again after it
/// (Python/ceval_gil.c, `take_gil`). Milliseconds, rounded up.
const SWITCH_MS: i32 = 6;
/// It wakes at least this often per second meanwhile, if the deadline of its wait cannot be read: 230 were measured.
const SWITCHES_S: f64 = 150.0;

impl<'a> Graph<'a> {
    /// Where the wait of a thread leads in this round; `gpu` is the GPU's use around it, 0–1.
    pub(in crate::chain) fn loop_paths(&self, pid: u32, tid: u32, gpu: Option<f64>) -> FoundPaths {
        let idle = 1.0 - gpu.unwrap_or(0.0);
        let mut found = self.paths_beside_device(pid, tid, gpu);
        let is_shared = found.paths.len() > 1 && found.paths.iter().any(|path| path.is_own(End::Gpu));
        for path in &mut found.paths {
            path.idle = match () {
                () if path.is_own(End::Gpu) => 0.0,
                // The GPU has its own part of the time.
                () if is_shared => 1.0,
                () => idle,
            };
        }
        found
    }

    fn paths_beside_device(&self, pid: u32, tid: u32, gpu: Option<f64>) -> FoundPaths {
        let Some(thread) = self.thread(pid, tid) else { return RoundPath::only(End::Unknown).into() };
        let paths = self.paths_from(thread);
        let busy = gpu.filter(|busy| *busy >= WORKING_SHARE);
        match (thread.wait, busy) {
            // The wait does not show its purpose: the GPU may be what is waited for.
            (Wait::Gpu, Some(_)) => RoundPath::only(End::Gpu).into(),
            // A sleeping thread waits for the GPU only while the GPU works.
            (Wait::Sleep, Some(busy)) => {
                let otherwise = paths.iter().map(|path| path.clone().part(busy)).collect();
                FoundPaths { paths: beside_device(paths, busy), otherwise }
            }
            (Wait::Futex | Wait::Poll | Wait::Other, Some(busy)) if !self.has_channel(thread) => {
                // Whether ended threads were meant is known from the whole tick, not from this round.
                let has_ended = |path: &RoundPath| path.hops.first().is_some_and(WaitHop::is_short_lived);
                let leads = paths.iter().any(|path| path.leads() && !has_ended(path));
                if !leads {
                    let else_for = |path: &RoundPath| has_ended(path) || is_at_sleeping_thread(&path.hops, path.end);
                    let otherwise = paths.into_iter().filter(else_for).collect();
                    return FoundPaths { paths: RoundPath::only(End::Gpu), otherwise };
                }
                let by_lock = paths.iter().any(|path| path.hops.first().is_some_and(|hop| hop.by != Edge::Thread));
                let computes = paths.iter().any(|path| path.hops.len() == 1 && path.end == End::Cpu);
                if by_lock || computes {
                    return paths.into();
                }
                beside_device(paths, busy).into()
            }
            _ => paths.into(),
        }
    }

    fn paths_from(&self, thread: &GraphThread<'a>) -> Vec<RoundPath> {
        self.steps.set(MOST_STEPS);
        self.paths(thread, &mut vec![thread])
    }

    /// The paths from a thread on; `trail` are the threads that lead here, including itself. The shares add up to 1.
    fn paths<'g>(&'g self, thread: &'g GraphThread<'a>, trail: &mut Trail<'g, 'a>) -> Vec<RoundPath> {
        let Some(seen) = thread.now else { return RoundPath::only(End::Unknown) };
        if !self.may_go_on() {
            return RoundPath::only(End::Unknown);
        }
        let paths = match thread.wait {
            Wait::Running => RoundPath::only(End::Cpu),
            Wait::DiskRead => RoundPath::only(End::Disk),
            Wait::DiskWrite => RoundPath::only(End::Flush),
            Wait::Memory => RoundPath::only(End::Memory),
            Wait::Stopped => RoundPath::only(End::Stopped),
            // Another process holds a lock on a file that this one has open, and this one keeps trying.
            Wait::Sleep if self.locks.get(&thread.pid).is_some_and(|lock| lock.sleeps) => {
                self.lock_paths(thread.pid, None, trail)
            }
            Wait::Sleep => RoundPath::only(End::Timer),
            Wait::Gpu => RoundPath::only(End::Gpu),
            Wait::Unknown => RoundPath::only(End::Unknown),
            Wait::Child => {
                let children = self.waited_children(thread.pid, seen).into_iter().take(CANDIDATES);
                self.best(children.map(|pid| self.process_paths(pid, Edge::Child, trail)).collect())
            }
            Wait::Futex => self.futex_paths(thread, seen, trail),
            Wait::LoaderPoll if self.is_torch_worker(thread.pid) => RoundPath::only(End::Asked),
            Wait::LoaderPoll | Wait::Poll | Wait::Pipe | Wait::Socket | Wait::Other => {
                self.descriptor_paths(thread, seen, trail)
            }
        };
        self.or_short_lived(thread, paths)
    }

    /// A futex of the process: its running threads, else those that wait for something themselves.
    fn futex_paths<'g>(
        &'g self,
        thread: &'g GraphThread<'a>,
        seen: &Observation,
        trail: &mut Trail<'g, 'a>,
    ) -> Vec<RoundPath> {
        let others = self.active_siblings(thread, trail);
        let run = running(&others);
        // A lock shared with other processes is held by one of them that runs.
        let shared = seen.operation.is_some_and(|operation| operation & PRIVATE == 0);
        let short = seen.deadline_ms.is_some_and(|ahead| ahead <= SWITCH_MS);
        let switches = !self.exact && thread.wakes_per_s > SWITCHES_S && !run.is_empty();
        if short || switches {
            let of = if run.is_empty() { &others } else { &run };
            let mut holders: Vec<&GraphThread<'_>> = of.iter().copied().filter(|one| !self.is_native(one)).collect();
            holders.retain(|one| !run.is_empty() || one.cpu >= WORKING_SHARE);
            if !holders.is_empty() {
                return to_threads(&holders, Edge::InterpreterLock, |_| RoundPath::only(End::Cpu));
            }
        }
        if !run.is_empty() {
            return self.pool_paths(&run, &others, trail);
        }
        let mut alternatives = Vec::new();
        for other in others.into_iter().take(CANDIDATES) {
            if !matches!(other.wait, Wait::Futex | Wait::Unknown) && trail.len() < DEPTH {
                alternatives.push(self.paths_through(other, Edge::Thread, trail));
            }
        }
        if shared {
            let others = self.others_of_job().into_iter().filter(|pid| *pid != thread.pid);
            for pid in others.take(CANDIDATES) {
                let run = running(&self.active_of(pid, trail));
                if !run.is_empty() {
                    alternatives.push(to_threads(&run, Edge::SharedMemory, |_| RoundPath::only(End::Cpu)));
                }
            }
        }
        self.best(alternatives)
    }

    /// Paths over the running threads, and over their peers that wait for a source meanwhile. In a pool whose threads
    /// mostly wait, one of them runs at most moments, and explains the loop's wait no better than the others. A thread
    /// that uses far less CPU is not a peer.
    fn pool_paths<'g>(
        &'g self,
        run: &[&'g GraphThread<'a>],
        others: &[&'g GraphThread<'a>],
        trail: &mut Trail<'g, 'a>,
    ) -> Vec<RoundPath> {
        let busiest = run.iter().map(|one| one.cpu).fold(0.0, f64::max);
        let peers = others.iter().filter(|one| one.wait != Wait::Running && one.cpu >= CLEARLY * busiest);
        let is_source = |path: &RoundPath| matches!(path.end, End::Disk | End::Memory | End::Net);
        let waiting: Vec<Vec<RoundPath>> = peers
            .take(CANDIDATES)
            .filter(|one| one.wait != Wait::Futex)
            .map(|one| self.paths_through(one, Edge::Thread, trail))
            .filter(|paths| paths.iter().all(is_source))
            .collect();
        let all = (run.len() + waiting.len()) as f64;
        let running = to_threads(run, Edge::Thread, GraphThread::runs_or_reads);
        let running = running.into_iter().map(|path| path.part(run.len() as f64 / all));
        merged(running.chain(waiting.into_iter().flatten().map(|path| path.part(1.0 / all))))
    }

    /// Whether it waits on a pipe or socket that leads somewhere.
    fn has_channel(&self, thread: &GraphThread<'_>) -> bool {
        let leads = |channel: &Channel| channel.remote.is_some() || self.others(channel, thread.pid).next().is_some();
        self.waits_on(thread).any(|(_, channel)| leads(channel))
    }

    /// Counts a step; false once there were too many.
    pub(super) fn may_go_on(&self) -> bool {
        let left = self.steps.get();
        self.steps.set(left.saturating_sub(1));
        left > 0
    }

    /// Paths over one thread and on from it.
    pub(super) fn paths_through<'g>(
        &'g self,
        other: &'g GraphThread<'a>,
        by: Edge,
        trail: &mut Trail<'g, 'a>,
    ) -> Vec<RoundPath> {
        trail.push(other);
        let paths = if trail.len() > DEPTH { RoundPath::only(End::Unknown) } else { self.paths(other, trail) };
        trail.pop();
        paths.into_iter().map(|path| path.after(other.hop(by))).collect()
    }

    /// What a waited-for process does: its running threads, else what its first thread waits for, or its most active
    /// one if the first thread is idle or leads nowhere.
    pub(super) fn process_paths<'g>(&'g self, pid: u32, by: Edge, trail: &mut Trail<'g, 'a>) -> Vec<RoundPath> {
        if trail.iter().any(|on| on.pid == pid) {
            return RoundPath::only(End::Asked);
        }
        if !self.may_go_on() {
            return RoundPath::only(End::Unknown);
        }
        let active = self.active_of(pid, trail);
        let run = running(&active);
        if !run.is_empty() {
            return to_threads(&run, by, GraphThread::runs_or_reads);
        }
        let main = self.thread(pid, pid);
        let busiest_but = |but: Option<u32>| {
            let weight = |one: &GraphThread<'_>| one.cpu + one.wakes_per_s * 1e-3;
            let others = active.iter().copied().filter(|one| Some(one.tid) != but);
            others.max_by(|a, b| weight(a).total_cmp(&weight(b)))
        };
        let Some(first) = main.filter(|main| main.active).or_else(|| busiest_but(None)).or(main) else {
            return vec![RoundPath::end(End::Unknown).after(WaitHop { by, pid, tid: pid })];
        };
        if trail.len() >= DEPTH {
            return RoundPath::only(End::Unknown);
        }
        let paths = self.paths_through(first, by, trail);
        // A server's first thread may be idle while another thread answers.
        let rests = paths.iter().all(|path| path.end.rank() > End::Timer.rank());
        match busiest_but(Some(first.tid)) {
            Some(other) if rests => self.best(vec![paths, self.paths_through(other, by, trail)]),
            _ => paths,
        }
    }

    /// If a worker's first thread waits for a thread or child of its own (a decoder behind a pipe): the kind of its
    /// wait, and of the wait at the end. A server's first thread waits for its other threads or for work.
    pub(in crate::chain) fn own_wait(&self, pid: u32) -> Option<(Wait, Wait)> {
        let main = self.thread(pid, pid)?;
        if self.descriptor_use(main.now?) == Some(FdUse::Accepts) {
            // A server: other threads answer those who connect.
            let mut others = self.threads.iter().filter(|thread| thread.pid == pid && thread.tid != pid);
            let answers = others.any(|thread| thread.active && thread.wait == Wait::Running);
            return Some((main.wait, if answers { Wait::Running } else { Wait::Pipe }));
        }
        if !matches!(main.wait, Wait::Futex | Wait::Pipe) {
            return None;
        }
        let paths = self.paths_from(main);
        // The end that most of the paths share.
        let of_end = |end: End| paths.iter().filter(|path| path.end == end).map(|path| path.share).sum::<f64>();
        let path = paths.iter().max_by(|a, b| of_end(a.end).total_cmp(&of_end(b.end)))?;
        let first = path.hops.first()?;
        let own = match main.wait {
            Wait::Futex => first.pid == pid && first.by == Edge::Thread,
            _ => first.by == Edge::Reads && self.is_child_of(first.pid, pid),
        };
        let end = match path.end {
            _ if !own => return None,
            End::Cpu | End::Children => Wait::Running,
            End::Disk => Wait::DiskRead,
            End::Memory => Wait::Memory,
            End::Flush => Wait::DiskWrite,
            End::Net => Wait::Socket,
            End::Unknown if path.name.is_some() => Wait::Socket,
            End::Timer => Wait::Sleep,
            _ => return None,
        };
        Some((main.wait, end))
    }

    /// The alternatives with the best ends, in equal parts: what works is why the others wait.
    pub(super) fn best(&self, mut alternatives: Vec<Vec<RoundPath>>) -> Vec<RoundPath> {
        let rank = |paths: &[RoundPath]| paths.iter().map(|path| path.end.rank()).min().unwrap_or(u8::MAX);
        let Some(least) = alternatives.iter().map(|paths| rank(paths)).min() else {
            return RoundPath::only(End::Unknown);
        };
        alternatives.retain(|paths| rank(paths) == least);
        let part = 1.0 / alternatives.len() as f64;
        merged(alternatives.into_iter().flatten().map(|path| path.part(part)))
    }
}

/// Paths over each of these threads, in equal parts.
fn to_threads<'g, 'a>(
    to: &[&'g GraphThread<'a>],
    by: Edge,
    on: impl Fn(&'g GraphThread<'a>) -> Vec<RoundPath>,
) -> Vec<RoundPath> {
    let part = 1.0 / to.len().max(1) as f64;
    to.iter().flat_map(|thread| on(thread).into_iter().map(|path| path.after(thread.hop(by)).part(part))).collect()
}

impl GraphThread<'_> {
    fn hop(&self, by: Edge) -> WaitHop {
        WaitHop { by, pid: self.pid, tid: self.tid }
    }

    /// What a running thread does.
    fn runs_or_reads(&self) -> Vec<RoundPath> {
        let ends = [(End::Cpu, 1.0 - self.at_disk), (End::Disk, self.at_disk)];
        ends.into_iter()
            .filter(|(_, share)| *share > 0.0)
            .map(|(end, share)| RoundPath::end(end).part(share))
            .collect()
    }
}

/// The wait counts for the GPU in proportion to the GPU's use.
fn beside_device(paths: Vec<RoundPath>, busy: f64) -> Vec<RoundPath> {
    let rest = paths.into_iter().map(|path| path.part(1.0 - busy));
    rest.filter(|path| path.share > 0.0).chain([RoundPath::end(End::Gpu).part(busy)]).collect()
}

/// Merges equal paths, and everything beyond [`MOST_PATHS`] into one path with an unknown end.
fn merged(paths: impl Iterator<Item = RoundPath>) -> Vec<RoundPath> {
    let mut kept: Vec<RoundPath> = Vec::new();
    let mut rest = 0.0;
    for path in paths {
        if let Some(known) = kept.iter_mut().find(|known| known.is_like(&path)) {
            known.share += path.share;
        } else if kept.len() < MOST_PATHS {
            kept.push(path);
        } else {
            rest += path.share;
        }
    }
    if rest > 0.0 {
        kept.push(RoundPath::end(End::Unknown).part(rest));
    }
    kept
}

impl RoundPath {
    /// Whether it ends at something that explains a wait, or passes a lock or a full pipe, whose owner may do anything.
    pub(super) fn leads(&self) -> bool {
        let held = |hop: &WaitHop| hop.by.is_file_lock() || hop.by == Edge::Writes;
        self.end.rank() < End::Timer.rank() || self.hops.iter().any(held)
    }
}

impl End {
    /// Orders possible paths: the likelier it is that the others wait for this one, the smaller.
    pub(super) fn rank(self) -> u8 {
        match self {
            Self::Cpu | Self::Children => 0,
            Self::Disk | Self::Flush | Self::Memory => 1,
            Self::Net | Self::Gpu | Self::Lock => 2,
            Self::Timer | Self::Stopped | Self::Terminal => 3,
            Self::Loader => 7,
            Self::Unknown => 8,
            Self::Asked => 9,
        }
    }
}
