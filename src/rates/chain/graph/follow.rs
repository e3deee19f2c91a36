//! From a blocked thread to whoever would let it go on.

use super::super::paths::{Edge, End, Hop, is_at_sleeping_thread};
use super::super::ways::{Found, Way};
use super::turns::PRIVATE;
use super::{CANDIDATES, DEPTH, Graph, Thread};
use crate::rates::levels::{AT_WORK, CLEARLY};
use crate::rates::wait::Wait;
use crate::sample::{Channel, Observation};

/// Most threads and processes that one sample's wait is followed through, some 1 µs each; what lies beyond is unknown.
const STEPS: u32 = 128;
/// Most different ways that one wait is passed on over.
const WAYS: usize = 32;
/// CPython's switch interval is 5 ms: a thread that waits for the interpreter lock looks again after it (Python/ceval_gil.c,
/// `take_gil`). Milliseconds, rounded up.
const SWITCH_MS: i32 = 6;
/// So often a second does it wake meanwhile, at least, where the end of its wait may not be read: 230 were measured.
const SWITCHES_S: f64 = 150.0;

impl Graph<'_> {
    /// Where the wait of a thread leads at this round; `device` is the device's use around it, 0–1.
    pub(in crate::rates::chain) fn ways_of(&self, pid: u32, tid: u32, device: Option<f64>) -> Found {
        let idle = 1.0 - device.unwrap_or(0.0);
        let mut found = self.ways_beside(pid, tid, device);
        let is_shared = found.ways.len() > 1 && found.ways.iter().any(Way::is_device);
        for way in &mut found.ways {
            way.idle = match () {
                () if way.is_device() => 0.0,
                // The device has its own part of the time.
                () if is_shared => 1.0,
                () => idle,
            };
        }
        found
    }

    fn ways_beside(&self, pid: u32, tid: u32, device: Option<f64>) -> Found {
        let Some(at) = self.place(pid, tid) else { return vec![Way::end(End::Unknown)].into() };
        let ways = self.ways_from(at);
        let Some(thread) = self.threads.get(at) else { return ways.into() };
        let busy = device.filter(|busy| *busy >= AT_WORK);
        match (thread.wait, busy) {
            // The wait has no name of its own: the device may be what is waited for.
            (Wait::Device, Some(_)) => vec![Way::end(End::Device)].into(),
            // Who sleeps waits for the device at most while that works.
            (Wait::Sleep, Some(busy)) => {
                let otherwise = ways.iter().map(|way| Way { share: way.share * busy, ..way.clone() }).collect();
                Found { ways: beside_device(ways, busy), otherwise }
            }
            (Wait::Futex | Wait::Poll | Wait::Other, Some(busy)) if !self.has_channel(thread) => {
                // That threads which have ended were meant is known from the whole tick, not from this round.
                let has_ended = |way: &Way| way.hops.first().is_some_and(Hop::is_short_lived);
                let leads = ways.iter().any(|way| way.leads() && !has_ended(way));
                if !leads {
                    let else_for = |way: &Way| has_ended(way) || is_at_sleeping_thread(&way.hops, &way.end);
                    let otherwise = ways.into_iter().filter(else_for).collect();
                    return Found { ways: vec![Way::end(End::Device)], otherwise };
                }
                let by_lock = ways.iter().any(|way| way.hops.first().is_some_and(|hop| hop.by != Edge::Thread));
                let computes = ways.iter().any(|way| way.hops.len() == 1 && way.end == End::Cpu);
                if by_lock || computes {
                    return ways.into();
                }
                beside_device(ways, busy).into()
            }
            _ => ways.into(),
        }
    }

    fn ways_from(&self, at: usize) -> Vec<Way> {
        self.steps.set(STEPS);
        self.ways(at, &mut vec![at])
    }

    /// The ways from a thread on; `path` are the threads that lead here, itself included. The shares add up to 1.
    pub(super) fn ways(&self, at: usize, path: &mut Vec<usize>) -> Vec<Way> {
        let Some(thread) = self.threads.get(at) else { return vec![Way::end(End::Unknown)] };
        let Some(seen) = thread.now else { return vec![Way::end(End::Unknown)] };
        if !self.may_go_on() {
            return vec![Way::end(End::Unknown)];
        }
        let ways = match thread.wait {
            Wait::Running => vec![Way::end(End::Cpu)],
            Wait::DiskRead => vec![Way::end(End::Disk)],
            Wait::DiskWrite => vec![Way::end(End::Flush)],
            Wait::Memory => vec![Way::end(End::Memory)],
            Wait::Stopped => vec![Way::end(End::Stopped)],
            Wait::Sleep => self.of_sleep(thread.pid, path),
            Wait::Device => vec![Way::end(End::Device)],
            Wait::Unknown => vec![Way::end(End::Unknown)],
            Wait::Child => self.of_child(thread, seen, path),
            Wait::Futex => self.of_futex(at, thread, seen, path),
            Wait::LoaderPoll if self.is_torch_worker(thread.pid) => vec![Way::end(End::Asked)],
            Wait::LoaderPoll | Wait::Poll | Wait::Pipe | Wait::Socket | Wait::Other => {
                self.of_descriptors(at, thread, seen, path)
            }
        };
        self.or_short_lived(thread, ways)
    }

    /// Who sleeps while another process holds a lock on a file that it has open tries that again and again.
    fn of_sleep(&self, pid: u32, path: &mut Vec<usize>) -> Vec<Way> {
        match self.locks.get(&pid).filter(|lock| lock.sleeps) {
            Some(_) => self.of_lock(pid, None, path),
            None => vec![Way::end(End::Timer)],
        }
    }

    fn of_child(&self, thread: &Thread<'_>, seen: &Observation, path: &mut Vec<usize>) -> Vec<Way> {
        self.best(
            self.waited_children(thread.pid, seen)
                .into_iter()
                .take(CANDIDATES)
                .map(|pid| self.of_process_way(pid, Edge::Child, path))
                .collect(),
        )
    }

    fn of_futex(&self, at: usize, thread: &Thread<'_>, seen: &Observation, path: &mut Vec<usize>) -> Vec<Way> {
        let others = self.companions(at, path);
        let run = self.running_of(&others);
        // A lock that other processes share: whoever of them runs.
        let shared = seen.operation.is_some_and(|operation| operation & PRIVATE == 0);
        let short = seen.deadline_ms.is_some_and(|ahead| ahead <= SWITCH_MS);
        let switches = !self.exact && thread.wakes_s > SWITCHES_S && !run.is_empty();
        if short || switches {
            let computes = |at: &usize| self.threads.get(*at).is_some_and(|one| one.cpu >= AT_WORK);
            let of = if run.is_empty() { &others } else { &run };
            let holders = of.iter().copied().filter(|at| !self.is_native(*at));
            let holders: Vec<usize> = holders.filter(|at| !run.is_empty() || computes(at)).collect();
            if !holders.is_empty() {
                return self.to_threads(&holders, Edge::InterpreterLock, |_| vec![Way::end(End::Cpu)]);
            }
        }
        if !run.is_empty() {
            return self.with_peers(&run, &others, path);
        }
        let mut alternatives = Vec::new();
        for other in others.into_iter().take(CANDIDATES) {
            let blocked_outside = self
                .threads
                .get(other)
                .is_some_and(|one| !matches!(one.wait, Wait::Futex | Wait::Unknown) && path.len() < DEPTH);
            if blocked_outside {
                alternatives.push(self.through(other, Edge::Thread, path));
            }
        }
        if shared {
            let others = self.others_of_job().into_iter().filter(|pid| *pid != thread.pid);
            for pid in others.take(CANDIDATES) {
                let run = self.running_of(&self.active_of(pid, path));
                if !run.is_empty() {
                    alternatives.push(self.to_threads(&run, Edge::SharedMemory, |_| vec![Way::end(End::Cpu)]));
                }
            }
        }
        self.best(alternatives)
    }

    /// Ways over the threads that run, and over their peers that wait for a source meanwhile: in a pool whose threads each wait
    /// most of the time, one of them runs at most moments, and is no more why the loop waits than the others are. One that uses far less
    /// CPU is no peer.
    fn with_peers(&self, run: &[usize], others: &[usize], path: &mut Vec<usize>) -> Vec<Way> {
        let cpu = |at: &usize| self.threads.get(*at).map_or(0.0, |one| one.cpu);
        let busiest = run.iter().map(cpu).fold(0.0, f64::max);
        let peers = others.iter().filter(|at| !run.contains(at) && cpu(at) >= CLEARLY * busiest).take(CANDIDATES);
        let is_source = |way: &Way| matches!(way.end, End::Disk | End::Memory | End::Net(_));
        let waiting: Vec<Vec<Way>> = peers
            .filter(|at| self.threads.get(**at).is_some_and(|one| one.wait != Wait::Futex))
            .map(|at| self.through(*at, Edge::Thread, path))
            .filter(|ways| ways.iter().all(is_source))
            .collect();
        let all = (run.len() + waiting.len()) as f64;
        let running = self.to_threads(run, Edge::Thread, |at| self.runs_or_reads(at));
        let running = running.into_iter().map(|way| Way { share: way.share * run.len() as f64 / all, ..way });
        few(running.chain(waiting.into_iter().flatten().map(|way| Way { share: way.share / all, ..way })))
    }

    /// What a thread that is seen running does.
    fn runs_or_reads(&self, at: usize) -> Vec<Way> {
        let at_disk = self.threads.get(at).map_or(0.0, |one| one.at_disk);
        let ways = [(End::Cpu, 1.0 - at_disk), (End::Disk, at_disk)];
        ways.into_iter()
            .filter(|(_, share)| *share > 0.0)
            .map(|(end, share)| Way { share, ..Way::end(end) })
            .collect()
    }

    /// It waits on a pipe or socket that leads somewhere.
    fn has_channel(&self, thread: &Thread<'_>) -> bool {
        let leads = |channel: &Channel| channel.remote.is_some() || self.others(channel, thread.pid).next().is_some();
        self.waits_on(thread).any(|(_, channel)| leads(channel))
    }

    /// Counts a step; false once there were too many.
    pub(super) fn may_go_on(&self) -> bool {
        let left = self.steps.get();
        self.steps.set(left.saturating_sub(1));
        left > 0
    }

    /// Ways over each of these threads, in equal parts.
    pub(super) fn to_threads(&self, to: &[usize], by: Edge, mut on: impl FnMut(usize) -> Vec<Way>) -> Vec<Way> {
        let part = 1.0 / to.len().max(1) as f64;
        let mut ways = Vec::new();
        for at in to {
            let Some(thread) = self.threads.get(*at) else { continue };
            let hop = Hop { by, pid: thread.pid, tid: thread.tid };
            ways.extend(on(*at).into_iter().map(|way| way.after(hop.clone(), part)));
        }
        ways
    }

    /// Ways over one thread and on from it.
    pub(super) fn through(&self, other: usize, by: Edge, path: &mut Vec<usize>) -> Vec<Way> {
        path.push(other);
        let ways = self.to_threads(&[other], by, |at| match path.len() > DEPTH {
            true => vec![Way::end(End::Unknown)],
            false => self.ways(at, path),
        });
        path.pop();
        ways
    }

    /// What a process does that is waited for: whoever of its threads runs, else what its main thread waits for, or the
    /// most active one where that rests or leads nowhere.
    pub(super) fn of_process_way(&self, pid: u32, by: Edge, path: &mut Vec<usize>) -> Vec<Way> {
        if path.iter().any(|at| self.threads.get(*at).is_some_and(|thread| thread.pid == pid)) {
            return vec![Way::end(End::Asked)];
        }
        if !self.may_go_on() {
            return vec![Way::end(End::Unknown)];
        }
        let active = self.active_of(pid, path);
        let run = self.running_of(&active);
        if !run.is_empty() {
            return self.to_threads(&run, by, |at| self.runs_or_reads(at));
        }
        let main = self.place(pid, pid);
        let of = |at: &usize| self.threads.get(*at);
        let busiest_but = |but: Option<usize>| {
            let weight = |at: &usize| of(at).map_or(0.0, |one| one.cpu + one.wakes_s * 1e-3);
            let others = active.iter().copied().filter(|at| Some(*at) != but);
            others.max_by(|a, b| weight(a).total_cmp(&weight(b)))
        };
        let Some(at) = main.filter(|main| active.contains(main)).or_else(|| busiest_but(None)).or(main) else {
            return vec![Way::end(End::Unknown).after(Hop { by, pid, tid: pid }, 1.0)];
        };
        if path.len() >= DEPTH {
            return vec![Way::end(End::Unknown)];
        }
        let ways = self.through(at, by, path);
        // The main thread of a server may rest while another one answers.
        let rests = ways.iter().all(|way| way.end.rank() > End::Timer.rank());
        match busiest_but(Some(at)).filter(|_| rests) {
            Some(other) => self.best(vec![ways, self.through(other, by, path)]),
            None => ways,
        }
    }

    /// What a data worker's main thread waits for where that is a thread of its own process, or a child of its own (a decoder
    /// at the other end of a pipe): the kind of its wait, and that of the wait at the end.
    pub(in crate::rates::chain) fn own_wait(&self, pid: u32) -> Option<(Wait, Wait)> {
        let at = self.place(pid, pid)?;
        let main = self.threads.get(at).filter(|main| main.now.is_some())?;
        if !matches!(main.wait, Wait::Futex | Wait::Pipe) {
            return None;
        }
        let ways = self.ways_from(at);
        // The end that most of the ways have.
        let of_end = |end: &End| ways.iter().filter(|way| way.end == *end).map(|way| way.share).sum::<f64>();
        let way = ways.iter().max_by(|a, b| of_end(&a.end).total_cmp(&of_end(&b.end)))?;
        let first = way.hops.first()?;
        let own = match main.wait {
            Wait::Futex => first.pid == pid && first.by == Edge::Thread,
            _ => first.by == Edge::Reads && self.is_child_of(first.pid, pid),
        };
        let end = match way.end {
            _ if !own => return None,
            End::Cpu | End::Children => Wait::Running,
            End::Disk => Wait::DiskRead,
            End::Memory => Wait::Memory,
            End::Flush => Wait::DiskWrite,
            End::Net(_) => Wait::Socket,
            End::Unknown if way.name.is_some() => Wait::Socket,
            End::Timer => Wait::Sleep,
            _ => return None,
        };
        Some((main.wait, end))
    }

    /// The alternatives that end best, in equal parts: whoever works is why the others wait.
    pub(super) fn best(&self, mut alternatives: Vec<Vec<Way>>) -> Vec<Way> {
        let rank = |ways: &[Way]| ways.iter().map(|way| way.end.rank()).min().unwrap_or(u8::MAX);
        let Some(least) = alternatives.iter().map(|ways| rank(ways)).min() else {
            return vec![Way::end(End::Unknown)];
        };
        alternatives.retain(|ways| rank(ways) == least);
        let part = 1.0 / alternatives.len() as f64;
        few(alternatives.into_iter().flatten().map(|way| Way { share: way.share * part, ..way }))
    }
}

/// As much of the wait as the device works is for it.
fn beside_device(ways: Vec<Way>, busy: f64) -> Vec<Way> {
    let rest = ways.into_iter().map(|way| Way { share: way.share * (1.0 - busy), ..way });
    rest.filter(|way| way.share > 0.0).chain([Way { share: busy, ..Way::end(End::Device) }]).collect()
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

impl Way {
    /// It ends at something that explains a wait, or goes over a lock or a full pipe, whose owner does whatever it does.
    pub(super) fn leads(&self) -> bool {
        let held = |hop: &Hop| hop.by.is_file_lock() || hop.by == Edge::Writes;
        self.end.rank() < End::Timer.rank() || self.hops.iter().any(held)
    }

    pub(super) fn end(end: End) -> Self {
        Self { hops: Vec::new(), end, name: None, share: 1.0, idle: 1.0 }
    }

    /// The loop itself waits for the device.
    fn is_device(&self) -> bool {
        self.end == End::Device && self.hops.is_empty()
    }

    /// The same, one thread later.
    pub(super) fn after(mut self, hop: Hop, part: f64) -> Self {
        self.hops.insert(0, hop);
        self.share *= part;
        self
    }
}

impl End {
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
