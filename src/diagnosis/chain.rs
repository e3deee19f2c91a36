//! The wait chain as verdicts show it: a tree of who waits for whom, with shares of the loop's time.

use serde::{Deserialize, Serialize};

use super::features::{Chain, Features, Part, Way, program};
use super::stats::round;
use super::thresholds::{LARGER_HALF, LOST_WAIT};
use crate::rates::chain::paths::{Edge, End};

/// Most nodes of a verdict.
const NODES: usize = 32;
/// Ways with less than this share of the time are left out, but for the largest.
const SHOWN: f64 = 0.01;

/// One node: who or what is waited for, or waits.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ChainNode {
    /// Its number; 0 is the loop.
    pub node: u32,
    /// `thread`, `process`, `net`, `disk`, `device`, `lock`, `timer`, `terminal`, `unknown`.
    pub kind: String,
    /// Process, of a thread or process.
    pub pid: Option<u32>,
    /// Thread, of a thread or process.
    pub tid: Option<u32>,
    /// What it is: `loop`, `data worker`, the name of a program, an address, a path, the numbers of the devices that the loop uses.
    pub name: String,
    /// `cpu`, `waits`, `disk`, `flush`, `memory`, `device`, `sleeps`, `asked`, `stopped`, `unknown`.
    pub state: String,
    /// Share of the loop's time that leads here, 0–1.
    pub share: f64,
    /// The part of it in which the device was idle: what the wait costs. All of it where no device is known.
    pub lost: f64,
    /// Where in the code, if stacks tell.
    pub at: Option<String>,
    /// How it is waited for by the node before: the word of an [`Edge`]
    pub by: Option<String>,
    /// Numbers of the nodes that it waits for. Empty at the ends.
    pub waits_for: Vec<u32>,
}

impl ChainNode {
    /// Nothing is waited for: the end of a chain.
    #[must_use]
    pub fn is_end(&self) -> bool {
        self.waits_for.is_empty()
    }

    /// The end in a word: `cpu:1301`, `disk:nvme0n1`, `net:10.0.3.7:443`, `gpu:0` (of several `gpu:0,1`), `lock:/path`.
    #[must_use]
    pub fn word(&self) -> String {
        let kind = match (self.kind.as_str(), self.state.as_str()) {
            ("process" | "thread", state) => state,
            ("device", _) => "gpu",
            (kind, _) => kind,
        };
        match (self.kind.as_str(), self.pid, self.tid) {
            ("process", Some(pid), _) => format!("{kind}:{pid}"),
            ("thread", _, Some(tid)) => format!("{kind}:{tid}"),
            _ if self.name.is_empty() => kind.to_owned(),
            _ => format!("{kind}:{}", self.name),
        }
    }
}

/// The end that most of the loop's time is lost to, that is not its own work. Where hardly anything is lost, its device: that is
/// busy all the while, whoever else is waited for meanwhile; without one, the end of the longest wait. `None` where it waits for
/// nobody.
#[must_use]
pub fn waits_for(nodes: &[ChainNode]) -> Option<&ChainNode> {
    let root = nodes.first()?;
    let below = |node: &&ChainNode| node.is_end() && node.node != 0 && root.name == "loop" && !is_own(node);
    let lost = root.lost + own(nodes).map_or(0.0, |own| own.lost);
    let device = nodes.iter().filter(below).find(|node| node.kind == "device");
    if let Some(device) = device.filter(|_| lost < LOST_WAIT) {
        return Some(device);
    }
    // One that is reached on several ways counts with all of them.
    let sums = |end: &ChainNode| -> (f64, f64) {
        let same = nodes.iter().filter(below).filter(|node| node.word() == end.word());
        same.fold((0.0, 0.0), |(lost, share), node| (lost + node.lost, share + node.share))
    };
    nodes.iter().filter(below).max_by(|a, b| {
        let ((lost_a, share_a), (lost_b, share_b)) = (sums(a), sums(b));
        // Within the rounding of three digits nothing is lost.
        let lost = |lost: f64| if lost < SHOWN { 0.0 } else { lost };
        lost(lost_a).total_cmp(&lost(lost_b)).then(share_a.total_cmp(&share_b)).then(a.share.total_cmp(&b.share))
    })
}

/// The loop's own work.
#[must_use]
pub fn own(nodes: &[ChainNode]) -> Option<&ChainNode> {
    nodes.iter().skip(1).find(|node| is_own(node))
}

/// What a node waits for.
#[must_use]
pub fn children<'a>(nodes: &'a [ChainNode], of: &ChainNode) -> Vec<&'a ChainNode> {
    nodes.iter().filter(|node| of.waits_for.contains(&node.node)).collect()
}

/// A program may be called so too; it is a process.
fn is_own(node: &ChainNode) -> bool {
    node.name == "loop" && node.kind == "thread"
}

/// From the loop to a node, both included.
#[must_use]
pub fn way_to<'a>(nodes: &'a [ChainNode], end: &'a ChainNode) -> Vec<&'a ChainNode> {
    let mut way = vec![end];
    while let Some(parent) = way.last().and_then(|last| nodes.iter().find(|node| node.waits_for.contains(&last.node)))
    {
        if way.len() > nodes.len() {
            break;
        }
        way.push(parent);
    }
    way.reverse();
    way
}

struct Tree<'a> {
    chain: &'a Chain,
    window: &'a Features,
    /// The process that the data workers ask.
    server: Option<u32>,
    nodes: Vec<ChainNode>,
}

/// The window's chain as nodes.
pub(super) fn nodes(window: &Features) -> Vec<ChainNode> {
    let Some(chain) = &window.chain else { return Vec::new() };
    let server = chain.server().map(|(pid, _)| pid);
    let mut tree = Tree { chain, window, server, nodes: Vec::new() };
    let ways = with_spins(chain);
    let waits: f64 = ways.iter().filter(|way| !is_loops_own(way)).map(|way| way.share).sum();
    tree.nodes.push(ChainNode {
        kind: "thread".into(),
        pid: Some(chain.process.pid),
        tid: Some(chain.tid),
        name: "loop".into(),
        state: "waits".into(),
        share: round(waits, 3),
        lost: ways.iter().filter(|way| !is_loops_own(way)).map(|way| way.lost).sum(),
        at: tree.of_waits(waits),
        ..ChainNode::default()
    });
    for (at, way) in ways.iter().enumerate() {
        if way.share >= SHOWN || at == 0 {
            tree.add(way);
        }
    }
    for node in &mut tree.nodes {
        (node.share, node.lost) = (round(node.share, 3), round(node.lost, 3));
    }
    tree.nodes
}

/// The ways, longest first. Where hardly anything of the loop is lost, its device works all the while: what the loop itself
/// does meanwhile is a wait for the device that spins, as CUDA's do, or work that costs nothing. Either way the device sets the
/// pace.
fn with_spins(chain: &Chain) -> Vec<Way> {
    let mut ways = chain.ways.clone();
    let lost: f64 = ways.iter().map(|way| way.lost).sum();
    if let Some(own) = ways.iter_mut().find(|way| is_loops_own(way) && lost < LOST_WAIT && way.lost < way.share) {
        let beside = own.share - own.lost;
        own.share = own.lost;
        ways.push(Way {
            part: Part::Device,
            hops: Vec::new(),
            end: End::Device,
            name: None,
            share: beside,
            lost: 0.0,
        });
        ways.sort_by(|a, b| b.share.total_cmp(&a.share));
    }
    ways
}

fn is_loops_own(way: &Way) -> bool {
    way.hops.is_empty() && way.end == End::Cpu
}

impl Tree<'_> {
    /// Where the loop's code stands for the larger part of its waits, which are this share of the time.
    fn of_waits(&self, waits: f64) -> Option<String> {
        let stacks = self.window.main.as_ref()?.stacks.as_ref()?;
        let longest = stacks.hottest.first().filter(|place| place.share >= LARGER_HALF.value * waits);
        longest.map(ToString::to_string)
    }

    /// Where it works.
    fn of_work(&self) -> Option<String> {
        let stacks = self.window.main.as_ref()?.stacks.as_ref()?;
        stacks.hottest_own.as_ref().map(ToString::to_string)
    }

    fn of_worker(&self, pid: u32) -> Option<String> {
        let workers = self.window.workers.as_ref()?;
        Some(workers.each.iter().find(|worker| worker.pid == pid)?.hottest.as_ref()?.to_string())
    }

    /// Adds to the node below `parent` that is the same, or to a new one; its number.
    fn at(&mut self, parent: Option<u32>, new: ChainNode) -> Option<u32> {
        let same = |node: &ChainNode| {
            (&node.kind, node.pid, node.tid, &node.name, &node.state, &node.by)
                == (&new.kind, new.pid, new.tid, &new.name, &new.state, &new.by)
        };
        let children = parent.and_then(|parent| self.nodes.get(parent as usize)).map(|node| node.waits_for.clone());
        let known = match (&children, parent) {
            (Some(children), _) => children.iter().copied().find(|at| self.nodes.get(*at as usize).is_some_and(same)),
            (None, _) => self.nodes.iter().skip(1).find(|node| is_own(node) && same(node)).map(|node| node.node),
        };
        if let Some(node) = known.and_then(|at| self.nodes.get_mut(at as usize)) {
            node.share += new.share;
            node.lost += new.lost;
            return known;
        }
        if self.nodes.len() >= NODES {
            return None;
        }
        let number = u32::try_from(self.nodes.len()).ok()?;
        self.nodes.push(ChainNode { node: number, ..new });
        if let Some(parent) = parent.and_then(|parent| self.nodes.get_mut(parent as usize)) {
            parent.waits_for.push(number);
        }
        Some(number)
    }

    fn add(&mut self, way: &Way) {
        if is_loops_own(way) {
            let at = self.of_work();
            let own = ChainNode {
                kind: "thread".into(),
                pid: Some(self.chain.process.pid),
                tid: Some(self.chain.tid),
                name: "loop".into(),
                state: "cpu".into(),
                share: way.share,
                at,
                ..ChainNode::default()
            };
            self.at(None, ChainNode { lost: way.lost, ..own });
            return;
        }
        let mut parent = Some(0);
        for (at, hop) in way.hops.iter().enumerate() {
            if at == 0
                && let Some(path) = way.name.as_ref().filter(|_| hop.by.is_file_lock())
            {
                let lock = resource("lock", path, way.share);
                parent = self.at(parent, ChainNode { by: Some(hop.by.word().into()), lost: way.lost, ..lock });
            }
            let Some(number) = parent else { return };
            let last = at + 1 == way.hops.len();
            let within = hop.pid == self.chain.process.pid;
            let state = if last { state(&way.end) } else { "waits" };
            let (kind, name) = match (hop.is_short_lived(), within) {
                (true, _) => ("thread", "short-lived threads".to_owned()),
                (_, true) => ("thread", "thread".to_owned()),
                (_, false) => ("process", self.name(hop.pid)),
            };
            let node = ChainNode {
                kind: kind.into(),
                pid: Some(hop.pid),
                tid: Some(if within { hop.tid } else { hop.pid }).filter(|_| !hop.is_short_lived()),
                name,
                state: state.into(),
                share: way.share,
                at: self.of_worker(hop.pid),
                by: Some(hop.by.word().into()),
                ..ChainNode::default()
            };
            parent = self.at(Some(number), ChainNode { lost: way.lost, ..node });
        }
        let Some(number) = parent else { return };
        if let Some(end) = self.end(way) {
            self.at(Some(number), ChainNode { lost: way.lost, ..end });
        }
    }

    /// A node for the resource at the end, where that is no thread.
    fn end(&self, way: &Way) -> Option<ChainNode> {
        match &way.end {
            End::Net(address) => Some(resource("net", address, way.share)),
            End::Lock(path) => Some(resource("lock", path, way.share)),
            End::Children => {
                let children = resource("process", "short-lived children", way.share);
                Some(ChainNode { state: "cpu".into(), by: Some(Edge::Child.word().into()), ..children })
            }
            End::Disk | End::Flush => {
                let disk = self.window.io.disk.as_deref().unwrap_or_default();
                Some(ChainNode { state: state(&way.end).into(), ..resource("disk", disk, way.share) })
            }
            End::Device => {
                let of_loop = self.window.gpu.iter().flat_map(|gpu| gpu.indexes_of(self.chain.process.pid));
                let indexes = of_loop.map(|index| index.to_string());
                Some(resource("device", &indexes.collect::<Vec<_>>().join(","), way.share))
            }
            _ if !way.hops.is_empty() => None,
            End::Loader => Some(ChainNode {
                name: "data worker".into(),
                state: "unknown".into(),
                ..resource("process", "", way.share)
            }),
            End::Timer => Some(resource("timer", "", way.share)),
            End::Terminal => Some(resource("terminal", "", way.share)),
            end => {
                let name = way.name.as_deref().unwrap_or_default();
                Some(ChainNode { state: state(end).into(), ..resource("unknown", name, way.share) })
            }
        }
    }

    fn name(&self, pid: u32) -> String {
        let Some(peer) = self.chain.peer(pid) else { return "process".into() };
        if peer.loader && self.server != Some(pid) { "data worker".into() } else { program(peer) }
    }
}

fn resource(kind: &str, name: &str, share: f64) -> ChainNode {
    ChainNode { kind: kind.into(), name: name.into(), state: kind.into(), share, ..ChainNode::default() }
}

fn state(end: &End) -> &'static str {
    match end {
        End::Cpu => "cpu",
        End::Disk => "disk",
        End::Flush => "flush",
        End::Memory => "memory",
        End::Device => "device",
        End::Net(_) | End::Lock(_) | End::Children => "waits",
        End::Timer => "sleeps",
        End::Stopped => "stopped",
        End::Terminal => "terminal",
        End::Asked => "asked",
        End::Loader => "unknown",
        End::Unknown => "unknown",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beside_a_busy_device_the_loops_own_work_is_a_wait_that_spins() {
        let spins = |lost: f64| {
            let own = Way { part: Part::Own, hops: Vec::new(), end: End::Cpu, name: None, share: 0.9, lost };
            let rest = Way { part: Part::Storage, end: End::Disk, share: 0.1, lost: 0.0, ..own.clone() };
            let ways = with_spins(&Chain { ways: vec![own, rest], ..Chain::default() });
            ways.into_iter().map(|way| (way.end, round(way.share, 2), way.lost)).collect::<Vec<_>>()
        };
        assert_eq!(spins(0.05), [(End::Device, 0.85, 0.0), (End::Disk, 0.1, 0.0), (End::Cpu, 0.05, 0.05)]);
        // The device idles, or there is none.
        assert_eq!(spins(0.4), [(End::Cpu, 0.9, 0.4), (End::Disk, 0.1, 0.0)]);
        assert_eq!(spins(0.9), [(End::Cpu, 0.9, 0.9), (End::Disk, 0.1, 0.0)]);
    }

    #[test]
    fn where_hardly_anything_is_lost_the_device_is_waited_for() {
        let node = |node: u32, kind: &str, name: &str, (share, lost): (f64, f64)| ChainNode {
            node,
            kind: kind.into(),
            name: name.into(),
            share,
            lost,
            ..ChainNode::default()
        };
        let chain = |lost: f64| {
            vec![
                ChainNode { waits_for: vec![1, 2], ..node(0, "thread", "loop", (0.98, lost)) },
                node(1, "process", "data worker", (0.67, lost)),
                node(2, "device", "0", (0.31, 0.0)),
            ]
        };
        // A worker that works ahead is waited for while the device still has work.
        let end = |lost: f64| waits_for(&chain(lost)).map(|node| node.kind.clone());
        assert_eq!(end(0.02).as_deref(), Some("device"));
        assert_eq!(end(0.3).as_deref(), Some("process"));
        // Without a device whoever is waited for longest.
        let mut without = chain(0.0);
        without.truncate(2);
        assert_eq!(waits_for(&without).map(|node| node.node), Some(1));
    }
}
