//! From a blocked thread to whoever would let it go on.

use super::super::paths::{WaitEdge, WaitEnd, WaitHop, is_at_sleeping_thread};
use super::super::ways::{FoundPaths, RoundPath};
use super::turns::PRIVATE;
use super::{CANDIDATES, DEPTH, Graph, GraphThread, Trail, running};
use crate::rates::levels::{CLEARLY, WORKING_SHARE};
use crate::rates::wait::Wait;
use crate::sample::{Channel, Observation};

/// Most threads and processes that one sample's wait is followed through, some 1 µs each; what lies beyond is unknown.
const MOST_STEPS: u32 = 128;
/// Most different ways that one wait is passed on over.
const MOST_PATHS: usize = 32;
/// CPython's switch interval is 5 ms: a thread that waits for the interpreter lock looks again after it (Python/ceval_gil.c,
/// `take_gil`). Milliseconds, rounded up.
const SWITCH_MS: i32 = 6;
/// So often a second does it wake meanwhile, at least, where the end of its wait may not be read: 230 were measured.
const SWITCHES_S: f64 = 150.0;

impl<'a> Graph<'a> {
    /// Where the wait of a thread leads at this round; `device` is the device's use around it, 0–1.
    pub(in crate::rates::chain) fn ways_of(&self, pid: u32, tid: u32, device: Option<f64>) -> FoundPaths {
        let idle = 1.0 - device.unwrap_or(0.0);
        let mut found = self.ways_beside(pid, tid, device);
        let is_shared = found.ways.len() > 1 && found.ways.iter().any(|way| way.is_own(&WaitEnd::Device));
        for way in &mut found.ways {
            way.idle = match () {
                () if way.is_own(&WaitEnd::Device) => 0.0,
                // The device has its own part of the time.
                () if is_shared => 1.0,
                () => idle,
            };
        }
        found
    }

    fn ways_beside(&self, pid: u32, tid: u32, device: Option<f64>) -> FoundPaths {
        let Some(thread) = self.thread(pid, tid) else { return vec![RoundPath::end(WaitEnd::Unknown)].into() };
        let ways = self.ways_from(thread);
        let busy = device.filter(|busy| *busy >= WORKING_SHARE);
        match (thread.wait, busy) {
            // The wait has no name of its own: the device may be what is waited for.
            (Wait::Device, Some(_)) => vec![RoundPath::end(WaitEnd::Device)].into(),
            // Who sleeps waits for the device at most while that works.
            (Wait::Sleep, Some(busy)) => {
                let otherwise = ways.iter().map(|way| RoundPath { share: way.share * busy, ..way.clone() }).collect();
                FoundPaths { ways: beside_device(ways, busy), otherwise }
            }
            (Wait::Futex | Wait::Poll | Wait::Other, Some(busy)) if !self.has_channel(thread) => {
                // That threads which have ended were meant is known from the whole tick, not from this round.
                let has_ended = |way: &RoundPath| way.hops.first().is_some_and(WaitHop::is_short_lived);
                let leads = ways.iter().any(|way| way.leads() && !has_ended(way));
                if !leads {
                    let else_for = |way: &RoundPath| has_ended(way) || is_at_sleeping_thread(&way.hops, &way.end);
                    let otherwise = ways.into_iter().filter(else_for).collect();
                    return FoundPaths { ways: vec![RoundPath::end(WaitEnd::Device)], otherwise };
                }
                let by_lock = ways.iter().any(|way| way.hops.first().is_some_and(|hop| hop.by != WaitEdge::Thread));
                let computes = ways.iter().any(|way| way.hops.len() == 1 && way.end == WaitEnd::Cpu);
                if by_lock || computes {
                    return ways.into();
                }
                beside_device(ways, busy).into()
            }
            _ => ways.into(),
        }
    }

    fn ways_from(&self, thread: &GraphThread<'a>) -> Vec<RoundPath> {
        self.steps.set(MOST_STEPS);
        self.ways(thread, &mut vec![thread])
    }

    /// The ways from a thread on; `path` are the threads that lead here, itself included. The shares add up to 1.
    fn ways<'g>(&'g self, thread: &'g GraphThread<'a>, path: &mut Trail<'g, 'a>) -> Vec<RoundPath> {
        let Some(seen) = thread.now.filter(|_| self.may_go_on()) else {
            return vec![RoundPath::end(WaitEnd::Unknown)];
        };
        let ways = match thread.wait {
            Wait::Running => vec![RoundPath::end(WaitEnd::Cpu)],
            Wait::DiskRead => vec![RoundPath::end(WaitEnd::Disk)],
            Wait::DiskWrite => vec![RoundPath::end(WaitEnd::Flush)],
            Wait::Memory => vec![RoundPath::end(WaitEnd::Memory)],
            Wait::Stopped => vec![RoundPath::end(WaitEnd::Stopped)],
            Wait::Sleep => self.of_sleep(thread.pid, path),
            Wait::Device => vec![RoundPath::end(WaitEnd::Device)],
            Wait::Unknown => vec![RoundPath::end(WaitEnd::Unknown)],
            Wait::Child => self.of_child(thread, seen, path),
            Wait::Futex => self.of_futex(thread, seen, path),
            Wait::LoaderPoll if self.is_torch_worker(thread.pid) => vec![RoundPath::end(WaitEnd::Asked)],
            Wait::LoaderPoll | Wait::Poll | Wait::Pipe | Wait::Socket | Wait::Other => {
                self.of_descriptors(thread, seen, path)
            }
        };
        self.or_short_lived(thread, ways)
    }

    /// Who sleeps while another process holds a lock on a file that it has open tries that again and again.
    fn of_sleep<'g>(&'g self, pid: u32, path: &mut Trail<'g, 'a>) -> Vec<RoundPath> {
        match self.locks.get(&pid).filter(|lock| lock.sleeps) {
            Some(_) => self.of_lock(pid, None, path),
            None => vec![RoundPath::end(WaitEnd::Timer)],
        }
    }

    fn of_child<'g>(
        &'g self,
        thread: &GraphThread<'a>,
        seen: &Observation,
        path: &mut Trail<'g, 'a>,
    ) -> Vec<RoundPath> {
        let children = self.waited_children(thread.pid, seen).into_iter().take(CANDIDATES);
        self.best(children.map(|pid| self.of_process_way(pid, WaitEdge::Child, path)).collect())
    }

    fn of_futex<'g>(
        &'g self,
        thread: &'g GraphThread<'a>,
        seen: &Observation,
        path: &mut Trail<'g, 'a>,
    ) -> Vec<RoundPath> {
        let others = self.companions(thread, path);
        let run = running(&others);
        // A lock that other processes share: whoever of them runs.
        let shared = seen.operation.is_some_and(|operation| operation & PRIVATE == 0);
        let short = seen.deadline_ms.is_some_and(|ahead| ahead <= SWITCH_MS);
        let switches = !self.exact && thread.wakes_per_s > SWITCHES_S && !run.is_empty();
        if short || switches {
            let of = if run.is_empty() { &others } else { &run };
            let mut holders: Vec<&GraphThread<'_>> = of.iter().copied().filter(|one| !self.is_native(one)).collect();
            holders.retain(|one| !run.is_empty() || one.cpu >= WORKING_SHARE);
            if !holders.is_empty() {
                return to_threads(&holders, WaitEdge::InterpreterLock, |_| vec![RoundPath::end(WaitEnd::Cpu)]);
            }
        }
        if !run.is_empty() {
            return self.with_peers(&run, &others, path);
        }
        let mut alternatives = Vec::new();
        for other in others.into_iter().take(CANDIDATES) {
            if !matches!(other.wait, Wait::Futex | Wait::Unknown) && path.len() < DEPTH {
                alternatives.push(self.through(other, WaitEdge::Thread, path));
            }
        }
        if shared {
            let others = self.others_of_job().into_iter().filter(|pid| *pid != thread.pid);
            for pid in others.take(CANDIDATES) {
                let run = running(&self.active_of(pid, path));
                if !run.is_empty() {
                    alternatives
                        .push(to_threads(&run, WaitEdge::SharedMemory, |_| vec![RoundPath::end(WaitEnd::Cpu)]));
                }
            }
        }
        self.best(alternatives)
    }

    /// Ways over the threads that run, and over their peers that wait for a source meanwhile: in a pool whose threads each wait
    /// most of the time, one of them runs at most moments, and is no more why the loop waits than the others are. One that uses far less
    /// CPU is no peer.
    fn with_peers<'g>(
        &'g self,
        run: &[&'g GraphThread<'a>],
        others: &[&'g GraphThread<'a>],
        path: &mut Trail<'g, 'a>,
    ) -> Vec<RoundPath> {
        let busiest = run.iter().map(|one| one.cpu).fold(0.0, f64::max);
        let peers = others.iter().filter(|one| one.wait != Wait::Running && one.cpu >= CLEARLY * busiest);
        let is_source = |way: &RoundPath| matches!(way.end, WaitEnd::Disk | WaitEnd::Memory | WaitEnd::Net(_));
        let waiting: Vec<Vec<RoundPath>> = peers
            .take(CANDIDATES)
            .filter(|one| one.wait != Wait::Futex)
            .map(|one| self.through(one, WaitEdge::Thread, path))
            .filter(|ways| ways.iter().all(is_source))
            .collect();
        let all = (run.len() + waiting.len()) as f64;
        let running = to_threads(run, WaitEdge::Thread, GraphThread::runs_or_reads);
        let running = running.into_iter().map(|way| RoundPath { share: way.share * run.len() as f64 / all, ..way });
        few(running.chain(waiting.into_iter().flatten().map(|way| RoundPath { share: way.share / all, ..way })))
    }

    /// It waits on a pipe or socket that leads somewhere.
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

    /// Ways over one thread and on from it.
    pub(super) fn through<'g>(
        &'g self,
        other: &'g GraphThread<'a>,
        by: WaitEdge,
        path: &mut Trail<'g, 'a>,
    ) -> Vec<RoundPath> {
        path.push(other);
        let ways = if path.len() > DEPTH { vec![RoundPath::end(WaitEnd::Unknown)] } else { self.ways(other, path) };
        path.pop();
        ways.into_iter().map(|way| way.after(other.hop(by), 1.0)).collect()
    }

    /// What a process does that is waited for: whoever of its threads runs, else what its main thread waits for, or the
    /// most active one where that rests or leads nowhere.
    pub(super) fn of_process_way<'g>(&'g self, pid: u32, by: WaitEdge, path: &mut Trail<'g, 'a>) -> Vec<RoundPath> {
        if path.iter().any(|on| on.pid == pid) {
            return vec![RoundPath::end(WaitEnd::Asked)];
        }
        if !self.may_go_on() {
            return vec![RoundPath::end(WaitEnd::Unknown)];
        }
        let active = self.active_of(pid, path);
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
            return vec![RoundPath::end(WaitEnd::Unknown).after(WaitHop { by, pid, tid: pid }, 1.0)];
        };
        if path.len() >= DEPTH {
            return vec![RoundPath::end(WaitEnd::Unknown)];
        }
        let ways = self.through(first, by, path);
        // The main thread of a server may rest while another one answers.
        let rests = ways.iter().all(|way| way.end.rank() > WaitEnd::Timer.rank());
        match busiest_but(Some(first.tid)).filter(|_| rests) {
            Some(other) => self.best(vec![ways, self.through(other, by, path)]),
            None => ways,
        }
    }

    /// What a data worker's main thread waits for where that is a thread of its own process, or a child of its own (a decoder
    /// at the other end of a pipe): the kind of its wait, and that of the wait at the end.
    pub(in crate::rates::chain) fn own_wait(&self, pid: u32) -> Option<(Wait, Wait)> {
        let main = self.thread(pid, pid)?;
        if main.now.is_none() || !matches!(main.wait, Wait::Futex | Wait::Pipe) {
            return None;
        }
        let ways = self.ways_from(main);
        // The end that most of the ways have.
        let of_end = |end: &WaitEnd| ways.iter().filter(|way| way.end == *end).map(|way| way.share).sum::<f64>();
        let way = ways.iter().max_by(|a, b| of_end(&a.end).total_cmp(&of_end(&b.end)))?;
        let first = way.hops.first()?;
        let own = match main.wait {
            Wait::Futex => first.pid == pid && first.by == WaitEdge::Thread,
            _ => first.by == WaitEdge::Reads && self.is_child_of(first.pid, pid),
        };
        let end = match way.end {
            _ if !own => return None,
            WaitEnd::Cpu | WaitEnd::Children => Wait::Running,
            WaitEnd::Disk => Wait::DiskRead,
            WaitEnd::Memory => Wait::Memory,
            WaitEnd::Flush => Wait::DiskWrite,
            WaitEnd::Net(_) => Wait::Socket,
            WaitEnd::Unknown if way.name.is_some() => Wait::Socket,
            WaitEnd::Timer => Wait::Sleep,
            _ => return None,
        };
        Some((main.wait, end))
    }

    /// The alternatives that end best, in equal parts: whoever works is why the others wait.
    pub(super) fn best(&self, mut alternatives: Vec<Vec<RoundPath>>) -> Vec<RoundPath> {
        let rank = |ways: &[RoundPath]| ways.iter().map(|way| way.end.rank()).min().unwrap_or(u8::MAX);
        let Some(least) = alternatives.iter().map(|ways| rank(ways)).min() else {
            return vec![RoundPath::end(WaitEnd::Unknown)];
        };
        alternatives.retain(|ways| rank(ways) == least);
        let part = 1.0 / alternatives.len() as f64;
        few(alternatives.into_iter().flatten().map(|way| RoundPath { share: way.share * part, ..way }))
    }
}

/// Ways over each of these threads, in equal parts.
fn to_threads<'g, 'a>(
    to: &[&'g GraphThread<'a>],
    by: WaitEdge,
    on: impl Fn(&'g GraphThread<'a>) -> Vec<RoundPath>,
) -> Vec<RoundPath> {
    let part = 1.0 / to.len().max(1) as f64;
    to.iter().flat_map(|thread| on(thread).into_iter().map(|way| way.after(thread.hop(by), part))).collect()
}

impl GraphThread<'_> {
    fn hop(&self, by: WaitEdge) -> WaitHop {
        WaitHop { by, pid: self.pid, tid: self.tid }
    }

    /// What a thread that is seen running does.
    fn runs_or_reads(&self) -> Vec<RoundPath> {
        let ends = [(WaitEnd::Cpu, 1.0 - self.at_disk), (WaitEnd::Disk, self.at_disk)];
        ends.into_iter()
            .filter(|(_, share)| *share > 0.0)
            .map(|(end, share)| RoundPath { share, ..RoundPath::end(end) })
            .collect()
    }
}

/// As much of the wait as the device works is for it.
fn beside_device(ways: Vec<RoundPath>, busy: f64) -> Vec<RoundPath> {
    let rest = ways.into_iter().map(|way| RoundPath { share: way.share * (1.0 - busy), ..way });
    rest.filter(|way| way.share > 0.0).chain([RoundPath { share: busy, ..RoundPath::end(WaitEnd::Device) }]).collect()
}

/// Equal ways as one, and what is beyond [`MOST_PATHS`] of them as one with an unknown end.
fn few(ways: impl Iterator<Item = RoundPath>) -> Vec<RoundPath> {
    let mut kept: Vec<RoundPath> = Vec::new();
    let mut rest = 0.0;
    for way in ways {
        if let Some(known) = kept.iter_mut().find(|known| known.is_like(&way)) {
            known.share += way.share;
        } else if kept.len() < MOST_PATHS {
            kept.push(way);
        } else {
            rest += way.share;
        }
    }
    if rest > 0.0 {
        kept.push(RoundPath { share: rest, ..RoundPath::end(WaitEnd::Unknown) });
    }
    kept
}

impl RoundPath {
    /// It ends at something that explains a wait, or goes over a lock or a full pipe, whose owner does whatever it does.
    pub(super) fn leads(&self) -> bool {
        let held = |hop: &WaitHop| hop.by.is_file_lock() || hop.by == WaitEdge::Writes;
        self.end.rank() < WaitEnd::Timer.rank() || self.hops.iter().any(held)
    }
}

impl WaitEnd {
    /// Where several ways are possible: the likelier to be what the others wait for, the smaller.
    pub(super) fn rank(&self) -> u8 {
        match self {
            Self::Cpu | Self::Children => 0,
            Self::Disk | Self::Flush | Self::Memory => 1,
            Self::Net(_) | Self::Device | Self::Lock(_) => 2,
            Self::Timer | Self::Stopped | Self::Terminal => 3,
            Self::Loader => 7,
            Self::Unknown => 8,
            Self::Asked => 9,
        }
    }
}
