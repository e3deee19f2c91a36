//! Whom the loop waited for over the window: the ways of all samples, and the parts that its time falls into by where they
//! end. The parts add up to the time that was followed, so what removing one of them would bring can be told.

mod settle;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{Span, WeightedMean};
use crate::diagnosis::code::at_lock_lines;
use crate::diagnosis::thresholds::LARGER_HALF;
use crate::rates::chain::paths::{Peer, WaitEdge, WaitEnd, WaitHop, is_at_sleeping_thread};
use crate::rates::time_split::TimeSplit;
use crate::sample::ProcessId;
use crate::sample::process::TORCH_WORKER;

/// Of the waits that end at a process, this part leads there over data workers where they are who ask it. Without the right to see
/// descriptors' calls some are taken for waits of the loop's own.
const ASKED: f64 = 0.4;

/// A kind of part: what would have to change for it to vanish.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(in crate::diagnosis) enum PathPart {
    /// The loop's own work.
    Own,
    /// The loop's thread runs, and makes or takes over batches.
    Loads,
    /// The loop's thread runs, and saves state.
    Saves,
    /// Its data workers, whatever they do.
    Loader,
    /// Another thread of its process.
    OwnThread,
    /// A process that works on request.
    Process,
    /// An answer from elsewhere.
    Remote,
    /// Whoever reads what it writes.
    Output,
    /// A lock on a file.
    FileLock,
    /// The interpreter lock.
    InterpreterLock,
    /// A disk, memory, written data: in the loop's own thread.
    Storage,
    /// The device.
    Device,
    /// A timer of the loop's own: it sleeps while nobody else of its job works.
    Sleep,
    /// Whoever asks its process for something: nothing to do.
    Request,
    /// Nothing that could be followed: a terminal, an unknown end.
    Unknown,
}

/// A way, over the window.
#[derive(Debug, Clone)]
pub(in crate::diagnosis) struct ChainPath {
    pub hops: Vec<WaitHop>,
    pub end: WaitEnd,
    /// Of a lock: which file. Of an unknown end: an address of this machine.
    pub name: Option<Arc<str>>,
    /// Share of the loop's time.
    pub share: f64,
    /// Of it with the device idle.
    pub lost: f64,
    pub part: PathPart,
}

/// All ways, the longest first.
#[derive(Debug, Clone, Default)]
pub(in crate::diagnosis) struct Chain {
    /// Process and thread of the loop.
    pub process: ProcessId,
    pub tid: u32,
    /// Calls and descriptors were seen.
    pub exact: bool,
    pub samples: u32,
    /// Share of the time, by seconds, in which the loop's thread went on after a wait at least once.
    pub renewed: f64,
    /// How often the loop's thread was put on a CPU, a second: after each wait, and after queueing.
    pub runs_per_s: Option<f64>,
    pub ways: Vec<ChainPath>,
    pub peers: Vec<Peer>,
    /// The split of the time of the rank that it belongs to, where that is one of several that are judged together.
    pub of_rank: Option<TimeSplit>,
    /// Share of the time in which it waited for the loop of another rank, and that one ran.
    pub ranks_at_work: f64,
}

/// The threads of the loop's own process that it waits for, and what they do meanwhile: shares of the loop's time, as far as
/// the device was idle.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::diagnosis) struct OwnThreads {
    /// They run.
    pub cpu: f64,
    /// They wait for a disk or for memory.
    pub disk: f64,
    /// For an answer from elsewhere.
    pub net: f64,
    /// For something that could not be followed.
    pub unknown: f64,
}

impl OwnThreads {
    /// All of it.
    pub fn total(&self) -> f64 {
        self.cpu + self.disk + self.net + self.unknown
    }

    /// The part in which they are seen to wait for what batches are made of.
    pub fn at_source(&self) -> f64 {
        let source = self.disk + self.net;
        if source > 0.0 { source / self.total() } else { 0.0 }
    }
}

/// Threads on a way, its end, and its name.
type Key<'a> = (&'a [WaitHop], &'a WaitEnd, &'a Option<Arc<str>>);
/// Seconds of each way, and those of them with the device idle. In order, so that equal samples have equal sums.
type Sums<'a> = BTreeMap<Key<'a>, (f64, f64)>;

/// Ways of earlier ticks that ended at an address of this machine whose holder was not looked for yet: once it is known where
/// that leads, they led there too, in the same parts as the others.
fn settle(sums: &mut Sums<'_>, peers: &[Peer]) {
    let unsettled = sums.keys().filter_map(|key| match key {
        (hops, WaitEnd::Unknown, Some(address)) => Some((*key, *hops, address)),
        _ => None,
    });
    let unsettled: Vec<_> = unsettled.collect();
    let is_at = |hop: &WaitHop, address: &Arc<str>| {
        peers.iter().any(|peer| peer.pid == hop.pid && peer.addresses.contains(address))
    };
    for (key, hops, address) in unsettled {
        let leads_on = |(way, end, _): &Key<'_>| match way.strip_prefix(hops) {
            Some([]) => matches!(end, WaitEnd::Net(net) if net == address),
            Some([next, ..]) => is_at(next, address),
            None => false,
        };
        let settled: Vec<_> = sums.iter().filter(|(way, _)| leads_on(way)).map(|(way, sum)| (*way, sum.0)).collect();
        let all: f64 = settled.iter().map(|(_, seconds)| seconds).sum();
        if all <= 0.0 {
            continue;
        }
        let (seconds, lost) = sums.remove(&key).unwrap_or_default();
        for (way, of_way) in settled {
            let sum = sums.entry(way).or_default();
            sum.0 += seconds * of_way / all;
            sum.1 += lost * of_way / all;
        }
    }
}

/// Whether the loop's code stands at a lock for the larger part of these waits, a share of the time, for threads of its own that
/// sleep.
fn is_at_locks(asleep: f64, span: &Span<'_>) -> bool {
    if asleep <= 0.0 {
        return false;
    }
    let stacks = span.stacks.all_trainers(span.only);
    let at_locks = f64::from(at_lock_lines(&stacks)) / stacks.main.total().max(1) as f64;
    at_locks >= LARGER_HALF.value * asleep
}

impl Chain {
    pub(super) fn from_span(span: &Span<'_>) -> Option<Self> {
        let last =
            span.frames.iter().rev().find_map(|frame| span.trainers(frame).find_map(|one| one.chain.as_ref()))?;
        let mut chain =
            Self { process: last.process, tid: last.tid, exact: true, peers: last.peers.clone(), ..Self::default() };
        let mut sums = Sums::new();
        let (mut seconds, mut renewed) = (0.0, 0.0);
        let mut runs = WeightedMean::default();
        for one in span.frames.iter().flat_map(|frame| span.trainers(frame)).filter_map(|one| one.chain.as_ref()) {
            // A loop that moved to another thread, and the other ranks, have chains of their own.
            if (one.process, one.tid) != (chain.process, chain.tid) {
                continue;
            }
            seconds += one.seconds;
            renewed += if one.wakes_per_s.is_some_and(|wakes| wakes >= 1.0) { one.seconds } else { 0.0 };
            runs.add(one.wakes_per_s, one.seconds);
            chain.samples = chain.samples.saturating_add(one.samples);
            chain.exact &= one.exact;
            for path in &one.paths {
                let sum = sums.entry((&path.hops, &path.end, &path.name)).or_default();
                sum.0 += f64::from(path.seconds);
                sum.1 += f64::from(path.idle_s);
            }
            one.peers.iter().for_each(|peer| chain.meet(peer));
        }
        if seconds <= 0.0 {
            return None;
        }
        settle(&mut sums, &chain.peers);
        let asleep = sums.iter().filter(|((hops, end, _), _)| is_at_sleeping_thread(hops, end));
        let at_locks = is_at_locks(asleep.map(|(_, sum)| sum.0).sum::<f64>() / seconds, span);
        let ways = sums.into_iter().map(|((hops, end, name), (sum, lost))| ChainPath {
            part: if at_locks && is_at_sleeping_thread(hops, end) {
                PathPart::OwnThread
            } else {
                chain.part(hops, end)
            },
            hops: hops.to_vec(),
            end: end.clone(),
            name: name.clone(),
            share: sum / seconds,
            lost: lost / seconds,
        });
        let mut ways: Vec<ChainPath> = ways.collect();
        let others = span.frames.iter().flat_map(|frame| &frame.trainers).filter_map(|one| one.chain.as_ref());
        let loops: BTreeSet<(u32, u32)> = others.map(|one| (one.process.pid, one.tid)).collect();
        let is_rank = |hop: &WaitHop| hop.pid != chain.process.pid && loops.contains(&(hop.pid, hop.tid));
        let at_work = ways.iter().filter(|way| way.end == WaitEnd::Cpu && way.hops.last().is_some_and(is_rank));
        chain.ranks_at_work = at_work.map(|way| way.share).sum();
        // Stable: equal ones stay in the order of the sums.
        ways.sort_by(|a, b| b.share.total_cmp(&a.share));
        chain.ways = ways;
        chain.renewed = renewed / seconds;
        chain.runs_per_s = runs.get();
        Some(chain)
    }

    /// Takes in what one frame knows of a peer.
    fn meet(&mut self, peer: &Peer) {
        let Some(known) = self.peers.iter_mut().find(|known| known.pid == peer.pid) else {
            self.peers.push(peer.clone());
            return;
        };
        // One that has ended meanwhile is what it was.
        if peer.inside || !known.inside {
            known.loader = peer.loader;
        }
        let new = peer.addresses.iter().filter(|address| !known.addresses.contains(address));
        let new: Vec<_> = new.cloned().collect();
        known.addresses.extend(new);
    }

    /// What would have to change for a way to vanish.
    fn part(&self, hops: &[WaitHop], end: &WaitEnd) -> PathPart {
        let Some(first) = hops.first() else {
            return match end {
                WaitEnd::Cpu => PathPart::Own,
                WaitEnd::Disk | WaitEnd::Flush | WaitEnd::Memory => PathPart::Storage,
                WaitEnd::Device => PathPart::Device,
                WaitEnd::Net(_) => PathPart::Remote,
                WaitEnd::Children => PathPart::Process,
                WaitEnd::Lock(_) => PathPart::FileLock,
                WaitEnd::Loader => PathPart::Loader,
                WaitEnd::Timer => PathPart::Sleep,
                WaitEnd::Asked => PathPart::Request,
                WaitEnd::Stopped | WaitEnd::Terminal | WaitEnd::Unknown => PathPart::Unknown,
            };
        };
        let foreign = hops.iter().find(|hop| hop.pid != self.process.pid);
        match first.by {
            WaitEdge::InterpreterLock => return PathPart::InterpreterLock,
            by if by.is_file_lock() => return PathPart::FileLock,
            WaitEdge::Writes if foreign.is_some_and(|hop| !self.is_loader(hop.pid)) => return PathPart::Output,
            _ => {}
        }
        match foreign {
            Some(hop) if hop.by != WaitEdge::Polls && self.is_loader(hop.pid) => PathPart::Loader,
            Some(_) if matches!(end, WaitEnd::Asked | WaitEnd::Unknown) => PathPart::Unknown,
            // The resource at the end names the part, whoever asks for it.
            _ if matches!(end, WaitEnd::Net(_)) => PathPart::Remote,
            Some(_) => PathPart::Process,
            None if *end == WaitEnd::Children => PathPart::Process,
            None if *end == WaitEnd::Asked => PathPart::Request,
            None if matches!(end, WaitEnd::Unknown | WaitEnd::Timer) => PathPart::Unknown,
            None => PathPart::OwnThread,
        }
    }

    /// The threads of its process that the loop waits for: not by the interpreter lock, and not for other processes.
    pub fn own_threads(&self) -> OwnThreads {
        let mut threads = OwnThreads::default();
        for way in &self.ways {
            let own = way.hops.iter().all(|hop| hop.pid == self.process.pid);
            if !own || way.hops.first().is_none_or(|hop| hop.by != WaitEdge::Thread) {
                continue;
            }
            *match way.end {
                WaitEnd::Cpu => &mut threads.cpu,
                WaitEnd::Disk | WaitEnd::Memory => &mut threads.disk,
                WaitEnd::Net(_) => &mut threads.net,
                _ => &mut threads.unknown,
            } += way.lost;
        }
        threads
    }

    /// The process of this machine whose work the data workers wait for most, and none of torch's: a server, a manager's process;
    /// and the share of the time that is lost to it. It is known by those who ask it standing between it and the loop.
    pub fn server(&self) -> Option<(u32, f64)> {
        let mut lost: BTreeMap<u32, (f64, f64)> = BTreeMap::new();
        for way in self.ways.iter().filter(|way| way.part == PathPart::Loader && way.end == WaitEnd::Cpu) {
            let Some(last) = way.hops.last().filter(|last| matches!(last.by, WaitEdge::Reads | WaitEdge::Network))
            else {
                continue;
            };
            let asked = way.hops.iter().any(|hop| hop.pid != last.pid && self.is_loader(hop.pid));
            let sums = lost.entry(last.pid).or_default();
            sums.0 += way.lost;
            sums.1 += if asked { way.lost } else { 0.0 };
        }
        let is_torch = |pid: u32| self.peer(pid).is_some_and(|peer| &*peer.comm == TORCH_WORKER);
        let servers = lost.into_iter().filter(|(pid, (all, asked))| !is_torch(*pid) && *asked >= ASKED * all);
        servers.map(|(pid, (all, _))| (pid, all)).max_by(|a, b| a.1.total_cmp(&b.1))
    }

    fn is_loader(&self, pid: u32) -> bool {
        self.peer(pid).is_some_and(|peer| peer.loader)
    }

    pub fn peer(&self, pid: u32) -> Option<&Peer> {
        self.peers.iter().find(|peer| peer.pid == pid)
    }

    /// Share of the time that is lost to a kind of part: with the device idle.
    pub fn lost(&self, part: PathPart) -> f64 {
        self.ways.iter().filter(|way| way.part == part).map(|way| way.lost).sum()
    }

    /// Share of the time in a kind of part.
    pub fn share(&self, part: PathPart) -> f64 {
        self.ways.iter().filter(|way| way.part == part).map(|way| way.share).sum()
    }

    /// The longest way of a part.
    pub fn longest(&self, part: PathPart) -> Option<&ChainPath> {
        self.ways.iter().filter(|way| way.part == part).max_by(|a, b| a.lost.total_cmp(&b.lost))
    }

    /// Of the longest wait for a file lock: whether it sleeps, and may try again.
    pub fn tries_lock(&self) -> bool {
        let way = self.longest(PathPart::FileLock);
        way.is_some_and(|way| way.hops.iter().any(|hop| hop.by == WaitEdge::TriesLock))
    }

    /// A process, for a sentence.
    pub fn name(&self, pid: u32) -> String {
        format!("{} ({pid})", self.peer(pid).map_or_else(|| "process".into(), program))
    }

    /// Who is at the end of the longest way of a part, for a sentence.
    pub fn who(&self, part: PathPart) -> Option<String> {
        let way = self.longest(part)?;
        let name = |pid: u32| self.name(pid);
        let last = way.hops.last();
        Some(match (&way.end, &way.name) {
            (WaitEnd::Net(address), _) => address.to_string(),
            (WaitEnd::Children, _) => "a command that is started anew each time".to_owned(),
            (WaitEnd::Lock(path), _) => crate::text::sanitise(path).into_owned(),
            (_, Some(path)) => format!("{}, held by {}", crate::text::sanitise(path), name(last?.pid)),
            _ if last?.is_short_lived() => "threads that are started anew each time".to_owned(),
            _ if last?.pid == self.process.pid => format!("thread {}", last?.tid),
            _ => name(last?.pid),
        })
    }
}

/// What a process is, for a person: its script where an interpreter runs one, else its name.
pub(in crate::diagnosis) fn program(peer: &Peer) -> String {
    program_of(&peer.comm, &peer.command)
}

/// The same of a process with this name and command line.
pub(in crate::diagnosis) fn program_of(comm: &str, command: &str) -> String {
    let base = |path: &str| path.rsplit('/').next().unwrap_or_default().to_owned();
    let mut words = command.split(' ').skip(1);
    let mut module = false;
    let script = words.find(|word| {
        let found = module || word.ends_with(".py");
        module = *word == "-m";
        found
    });
    let is_python = comm.starts_with("python") || comm.starts_with("pypy");
    let name = script.filter(|_| is_python).map_or_else(|| comm.to_owned(), base);
    let name = if name.is_empty() { "process".to_owned() } else { name };
    crate::text::sanitise(&name).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ways_to_an_address_whose_holder_is_known_by_now_lead_there() {
        let (address, none): (Option<Arc<str>>, _) = (Some("127.0.0.1:80".into()), None);
        let network = |pid| WaitHop { by: WaitEdge::Network, pid, tid: pid };
        let own = [WaitHop { by: WaitEdge::Thread, pid: 1, tid: 2 }];
        let (to_8, to_9) = ([own[0].clone(), network(8)], [own[0].clone(), network(9)]);
        let peer = |pid, address: &str| Peer { pid, addresses: vec![address.into()], ..Peer::default() };
        let peers = [peer(8, "127.0.0.1:80"), peer(9, "127.0.0.1:81")];
        let ends = [WaitEnd::Cpu, WaitEnd::Disk, WaitEnd::Unknown];
        let early: Key<'_> = (&own, &ends[2], &address);
        let later: [Key<'_>; 3] = [(&to_8, &ends[0], &none), (&to_8, &ends[1], &none), (&to_9, &ends[0], &none)];
        let mut sums =
            Sums::from([(early, (4.0, 2.0)), (later[0], (3.0, 3.0)), (later[1], (1.0, 0.0)), (later[2], (7.0, 7.0))]);
        settle(&mut sums, &peers);
        assert_eq!(later.map(|way| sums[&way]), [(6.0, 4.5), (2.0, 0.5), (7.0, 7.0)]);
        assert_eq!(sums.len(), 3);
        // Nobody is known there: it stays unknown.
        let mut alone = Sums::from([(early, (4.0, 2.0)), (later[2], (7.0, 7.0))]);
        settle(&mut alone, &peers);
        assert_eq!((alone[&early], alone[&later[2]]), ((4.0, 2.0), (7.0, 7.0)));
    }
}
