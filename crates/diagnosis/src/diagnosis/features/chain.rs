//! What the loop waited for over the window: the paths of all samples, and the parts of the loop's time by where they end. The
//! parts add up to the traced time, so the gain from removing one is known.

mod settle;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{Span, WeightedMean};
use crate::diagnosis::code::at_lock_lines;
use crate::diagnosis::thresholds::LARGER_HALF;
use trainmon_sample::ProcessId;
use trainmon_sample::process::TORCH_WORKER;
use trainmon_waits::chain::paths::{Peer, WaitHop, is_at_sleeping_thread};
use trainmon_waits::taxonomy::{Edge, End, Purpose};
use trainmon_waits::time_split::TimeSplit;

/// The part of the waits that end at a process which leads there through workers, if workers are what asks it. Without the
/// right to read descriptors' calls, some are mistaken for waits of the loop itself.
const ASKED: f64 = 0.4;

/// A path, over the window.
#[derive(Debug, Clone)]
pub(in crate::diagnosis) struct ChainPath {
    pub hops: Vec<WaitHop>,
    pub end: End,
    /// Which end it is: an address, or the file of a lock; at an unknown end an address of this machine.
    pub name: Option<Arc<str>>,
    /// The file of a lock on the way.
    pub lock: Option<Arc<str>>,
    /// Share of the loop's time.
    pub share: f64,
    /// The part of it with the GPU idle.
    pub lost: f64,
    pub part: Purpose,
}

/// All paths, the longest first.
#[derive(Debug, Clone, Default)]
pub(in crate::diagnosis) struct Chain {
    /// Process and thread of the loop.
    pub process: ProcessId,
    pub tid: u32,
    /// System calls and descriptors could be read.
    pub exact: bool,
    pub samples: u32,
    /// Share of the seconds in which the loop's thread continued after a wait at least once.
    pub renewed: f64,
    /// How often per second the loop's thread was put on a CPU: after each wait, and after queueing.
    pub runs_per_s: Option<f64>,
    pub ways: Vec<ChainPath>,
    pub peers: Vec<Peer>,
    /// The split of its rank's time, if it is one of several ranks that are judged together.
    pub of_rank: Option<TimeSplit>,
    /// Share of the time in which it waited for the loop of another rank while that loop ran.
    pub ranks_at_work: f64,
    /// The processes of the other ranks.
    pub ranks: BTreeSet<u32>,
}

/// The threads of the loop's process that it waits for, by what they do meanwhile: shares of the loop's time with the GPU
/// idle.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::diagnosis) struct OwnThreads {
    /// They run.
    pub cpu: f64,
    /// They wait for a disk or for memory.
    pub disk: f64,
    /// They wait for an answer over the network.
    pub net: f64,
    /// They wait for something that was not traced.
    pub unknown: f64,
}

impl OwnThreads {
    /// All of it.
    pub fn total(&self) -> f64 {
        self.cpu + self.disk + self.net + self.unknown
    }

    /// The part in which they wait for what batches are made of.
    pub fn at_source(&self) -> f64 {
        let source = self.disk + self.net;
        if source > 0.0 { source / self.total() } else { 0.0 }
    }
}

/// Threads on a path, its end with its name, and the lock on the way.
type Key<'a> = (&'a [WaitHop], End, &'a Option<Arc<str>>, &'a Option<Arc<str>>);
/// Seconds of each path, and those with the GPU idle. In order, so that equal samples have equal sums.
type Sums<'a> = BTreeMap<Key<'a>, (f64, f64)>;

/// Resolves paths of earlier ticks that ended at an address of this machine before its process was found: once it is known
/// where the address leads, they lead there too, in the same proportion as the others.
fn settle(sums: &mut Sums<'_>, peers: &[Peer]) {
    let unsettled = sums.keys().filter_map(|key| match key {
        (hops, End::Unknown, Some(address), _) => Some((*key, *hops, address)),
        _ => None,
    });
    let unsettled: Vec<_> = unsettled.collect();
    let is_at = |hop: &WaitHop, address: &Arc<str>| {
        peers.iter().any(|peer| peer.pid == hop.pid && peer.addresses.contains(address))
    };
    for (key, hops, address) in unsettled {
        let leads_on = |(way, end, name, _): &Key<'_>| match way.strip_prefix(hops) {
            Some([]) => *end == End::Net && name.as_ref() == Some(address),
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

/// Whether the loop's code is at a lock for the larger part of its waits for sleeping threads of its own, which take this
/// share of the time.
fn is_at_locks(asleep: f64, span: &Span<'_>) -> bool {
    if asleep <= 0.0 {
        return false;
    }
    let stacks = span.stacks.all_ranks(span.only);
    let at_locks = f64::from(at_lock_lines(&stacks)) / stacks.main.total().max(1) as f64;
    at_locks >= LARGER_HALF.value * asleep
}

impl Chain {
    pub(super) fn from_span(span: &Span<'_>) -> Option<Self> {
        let last = span.frames.iter().rev().find_map(|frame| span.ranks(frame).find_map(|one| one.chain.as_ref()))?;
        let mut chain =
            Self { process: last.process, tid: last.tid, exact: true, peers: last.peers.clone(), ..Self::default() };
        let mut sums = Sums::new();
        let (mut seconds, mut renewed) = (0.0, 0.0);
        let mut runs = WeightedMean::default();
        for one in span.frames.iter().flat_map(|frame| span.ranks(frame)).filter_map(|one| one.chain.as_ref()) {
            // A loop that moved to another thread has a chain of its own, like each other rank.
            if (one.process, one.tid) != (chain.process, chain.tid) {
                continue;
            }
            seconds += one.seconds;
            renewed += if one.wakes_per_s.is_some_and(|wakes| wakes >= 1.0) { one.seconds } else { 0.0 };
            runs.add(one.wakes_per_s, one.seconds);
            chain.samples = chain.samples.saturating_add(one.samples);
            chain.exact &= one.exact;
            for path in &one.paths {
                let sum = sums.entry((&path.hops, path.end, &path.name, &path.lock)).or_default();
                sum.0 += f64::from(path.seconds);
                sum.1 += f64::from(path.idle_s);
            }
            one.peers.iter().for_each(|peer| chain.meet(peer));
        }
        if seconds <= 0.0 {
            return None;
        }
        settle(&mut sums, &chain.peers);
        let asleep = sums.iter().filter(|((hops, end, ..), _)| is_at_sleeping_thread(hops, *end));
        let at_locks = is_at_locks(asleep.map(|(_, sum)| sum.0).sum::<f64>() / seconds, span);
        let ways = sums.into_iter().map(|((hops, end, name, lock), (sum, lost))| ChainPath {
            part: if at_locks && is_at_sleeping_thread(hops, end) { Purpose::Thread } else { chain.part(hops, end) },
            hops: hops.to_vec(),
            end,
            name: name.clone(),
            lock: lock.clone(),
            share: sum / seconds,
            lost: lost / seconds,
        });
        let mut ways: Vec<ChainPath> = ways.collect();
        let others = span.frames.iter().flat_map(|frame| &frame.ranks).filter_map(|one| one.chain.as_ref());
        let loops: BTreeSet<(u32, u32)> = others.map(|one| (one.process.pid, one.tid)).collect();
        let is_rank = |hop: &WaitHop| hop.pid != chain.process.pid && loops.contains(&(hop.pid, hop.tid));
        let at_work = ways.iter().filter(|way| way.end == End::Cpu && way.hops.last().is_some_and(is_rank));
        chain.ranks_at_work = at_work.map(|way| way.share).sum();
        // Stable: equal ones stay in the order of the sums.
        ways.sort_by(|a, b| b.share.total_cmp(&a.share));
        chain.ways = ways;
        chain.ranks = loops.iter().map(|(pid, _)| *pid).filter(|pid| *pid != chain.process.pid).collect();
        chain.renewed = renewed / seconds;
        chain.runs_per_s = runs.get();
        Some(chain)
    }

    /// Adds what one frame knows of a peer.
    fn meet(&mut self, peer: &Peer) {
        let Some(known) = self.peers.iter_mut().find(|known| known.pid == peer.pid) else {
            self.peers.push(peer.clone());
            return;
        };
        // A peer that has ended meanwhile stays what it was.
        if peer.inside || !known.inside {
            known.loader = peer.loader;
        }
        let new = peer.addresses.iter().filter(|address| !known.addresses.contains(address));
        let new: Vec<_> = new.cloned().collect();
        known.addresses.extend(new);
    }

    /// What has to change for a path to vanish.
    fn part(&self, hops: &[WaitHop], end: End) -> Purpose {
        let Some(first) = hops.first() else {
            return match end {
                End::Cpu => Purpose::Own,
                End::Disk | End::Flush | End::Memory => Purpose::Storage,
                End::Gpu => Purpose::Gpu,
                End::Net => Purpose::Remote,
                End::Children => Purpose::Process,
                End::Lock => Purpose::FileLock,
                End::Loader => Purpose::Batch,
                End::Timer => Purpose::Sleep,
                End::Asked => Purpose::Request,
                End::Stopped | End::Terminal | End::Unknown => Purpose::Unknown,
            };
        };
        let foreign = hops.iter().find(|hop| hop.pid != self.process.pid);
        match first.by {
            Edge::InterpreterLock => return Purpose::InterpreterLock,
            by if by.is_file_lock() => return Purpose::FileLock,
            Edge::Writes if foreign.is_some_and(|hop| !self.is_loader(hop.pid) && !self.is_in_pool(hop.pid)) => {
                return Purpose::Output;
            }
            _ => {}
        }
        match foreign {
            Some(hop) if hop.by != Edge::Polls && self.is_loader(hop.pid) => Purpose::Batch,
            Some(_) if matches!(end, End::Asked | End::Unknown) => Purpose::Unknown,
            // The resource at the end names the part, whatever asks for it.
            _ if matches!(end, End::Net) => Purpose::Remote,
            Some(_) => Purpose::Process,
            None if end == End::Children => Purpose::Process,
            None if end == End::Asked => Purpose::Request,
            None if matches!(end, End::Unknown | End::Timer) => Purpose::Unknown,
            None => Purpose::Thread,
        }
    }

    /// The threads of its process that the loop waits for, except at the interpreter lock and for other processes.
    pub fn own_threads(&self) -> OwnThreads {
        let mut threads = OwnThreads::default();
        for way in &self.ways {
            let own = way.hops.iter().all(|hop| hop.pid == self.process.pid);
            if !own || way.hops.first().is_none_or(|hop| hop.by != Edge::Thread) {
                continue;
            }
            *match way.end {
                End::Cpu => &mut threads.cpu,
                End::Disk | End::Memory => &mut threads.disk,
                End::Net => &mut threads.net,
                _ => &mut threads.unknown,
            } += way.lost;
        }
        threads
    }

    /// The process on this machine that the workers wait for most, unless it is torch's (a server, a manager's process), and
    /// the share of the time lost to it. It is recognized by the workers between it and the loop.
    pub fn server(&self) -> Option<(u32, f64)> {
        let mut lost: BTreeMap<u32, (f64, f64)> = BTreeMap::new();
        for way in self.ways.iter().filter(|way| way.part == Purpose::Batch && way.end == End::Cpu) {
            let Some(last) = way.hops.last().filter(|last| matches!(last.by, Edge::Reads | Edge::Network)) else {
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

    /// Whether Python's multiprocessing, or joblib's own, has started it for work: what is written to it is work, not output.
    /// Read in Python 3.11, Lib/multiprocessing/spawn.py and forkserver.py, and joblib 1.6, externals/loky/backend/popen_loky_posix.py.
    fn is_in_pool(&self, pid: u32) -> bool {
        const STARTED_BY: [&str; 2] = ["from multiprocessing.", "joblib.externals.loky"];
        self.peer(pid).is_some_and(|peer| peer.inside && STARTED_BY.iter().any(|by| peer.command.contains(by)))
    }

    pub fn peer(&self, pid: u32) -> Option<&Peer> {
        self.peers.iter().find(|peer| peer.pid == pid)
    }

    /// Share of the time lost to a kind of part: with the GPU idle.
    pub fn lost(&self, part: Purpose) -> f64 {
        self.ways.iter().filter(|way| way.part == part).map(|way| way.lost).sum()
    }

    /// Share of the time in a kind of part.
    pub fn share(&self, part: Purpose) -> f64 {
        self.ways.iter().filter(|way| way.part == part).map(|way| way.share).sum()
    }

    /// The longest path of a part.
    pub fn longest(&self, part: Purpose) -> Option<&ChainPath> {
        self.ways.iter().filter(|way| way.part == part).max_by(|a, b| a.lost.total_cmp(&b.lost))
    }

    /// Whether the longest wait for a file lock sleeps, and so may poll.
    pub fn tries_lock(&self) -> bool {
        let way = self.longest(Purpose::FileLock);
        way.is_some_and(|way| way.hops.iter().any(|hop| hop.by == Edge::TriesLock))
    }

    /// A process, for a sentence.
    pub fn name(&self, pid: u32) -> String {
        format!("{} ({pid})", self.peer(pid).map_or_else(|| "process".into(), program))
    }

    /// What the longest path of a part ends at, for a sentence.
    pub fn who(&self, part: Purpose) -> Option<String> {
        let way = self.longest(part)?;
        let name = |pid: u32| self.name(pid);
        let last = way.hops.last();
        Some(match (way.end, &way.name, &way.lock) {
            (End::Net, Some(address), _) => address.to_string(),
            (End::Children, ..) => "short-lived commands".to_owned(),
            (End::Lock, Some(path), _) => trainmon_base::text::sanitize(path).into_owned(),
            (_, _, Some(path)) => format!("{}, held by {}", trainmon_base::text::sanitize(path), name(last?.pid)),
            (_, Some(address), _) => {
                format!("{}, held by {}", trainmon_base::text::sanitize(address), name(last?.pid))
            }
            _ if last?.is_short_lived() => "short-lived threads".to_owned(),
            _ if last?.pid == self.process.pid => format!("thread {}", last?.tid),
            _ => name(last?.pid),
        })
    }
}

/// The name of a process for a person: its script if an interpreter runs one, else its own name.
pub(in crate::diagnosis) fn program(peer: &Peer) -> String {
    program_of(&peer.comm, &peer.command)
}

/// The same for this name and command line.
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
    let name = match script {
        Some(script) if is_python => base(script),
        _ => comm.to_owned(),
    };
    let name = if name.is_empty() { "process".to_owned() } else { name };
    trainmon_base::text::sanitize(&name).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ways_to_an_address_whose_holder_is_known_by_now_lead_there() {
        let (address, none): (Option<Arc<str>>, _) = (Some("127.0.0.1:80".into()), None);
        let network = |pid| WaitHop { by: Edge::Network, pid, tid: pid };
        let own = [WaitHop { by: Edge::Thread, pid: 1, tid: 2 }];
        let (to_8, to_9) = ([own[0].clone(), network(8)], [own[0].clone(), network(9)]);
        let peer = |pid, address: &str| Peer { pid, addresses: vec![address.into()], ..Peer::default() };
        let peers = [peer(8, "127.0.0.1:80"), peer(9, "127.0.0.1:81")];
        let early: Key<'_> = (&own, End::Unknown, &address, &none);
        let at = |hops, end| -> Key<'_> { (hops, end, &none, &none) };
        let later = [at(&to_8, End::Cpu), at(&to_8, End::Disk), at(&to_9, End::Cpu)];
        let mut sums =
            Sums::from([(early, (4.0, 2.0)), (later[0], (3.0, 3.0)), (later[1], (1.0, 0.0)), (later[2], (7.0, 7.0))]);
        settle(&mut sums, &peers);
        assert_eq!(later.map(|way| sums[&way]), [(6.0, 4.5), (2.0, 0.5), (7.0, 7.0)]);
        assert_eq!(sums.len(), 3);
        // Nothing is known there: it stays unknown.
        let mut alone = Sums::from([(early, (4.0, 2.0)), (later[2], (7.0, 7.0))]);
        settle(&mut alone, &peers);
        assert_eq!((alone[&early], alone[&later[2]]), ((4.0, 2.0), (7.0, 7.0)));
    }
}
