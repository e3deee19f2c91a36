//! The wait chain as verdicts show it: a tree of who waits for whom, with shares of the loop's time.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::features::{Chain, ChainPath, Features, PathPart, program};
use super::stats::round;
use super::thresholds::{LARGER_HALF, LOST_WAIT};
use crate::rates::chain::paths::{WaitEdge, WaitEnd};

/// Most nodes of a verdict that stand for something known: the largest.
const NODES: usize = 32;
/// Most nodes that are put together at all.
const ALL_NODES: usize = 512;
/// Nodes with less than this share of the time are left out, or put together where they are many.
const SHOWN: f64 = 0.01;
/// What the nodes are called that are too small, or too many, to be shown one by one.
const OTHERS: &str = "others";

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
    /// `cpu`, `waits`, `disk`, `flush`, `memory`, `device`, `sleeps`, `asked`, `stopped`, `unknown`; of the loop's own thread also
    /// `loads` and `saves`.
    pub state: String,
    /// Share of the loop's time that leads here, 0–1.
    pub share: f64,
    /// The part of it in which the device was idle: what the wait costs. All of it where no device is known.
    pub lost: f64,
    /// Where in the code, if stacks tell.
    pub at: Option<String>,
    /// How it is waited for by the node before: the word of an [`WaitEdge`]
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
    let is_known = |node: &ChainNode| !(is_own(node) || node.kind == "unknown" && node.name == OTHERS);
    let below = |node: &&ChainNode| node.is_end() && node.node != 0 && root.name == "loop" && is_known(node);
    let lost = root.lost + own(nodes).map(|own| own.lost).sum::<f64>();
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

/// What the loop's thread itself does: its own work, making or taking over batches, saving state.
pub fn own(nodes: &[ChainNode]) -> impl Iterator<Item = &ChainNode> {
    nodes.iter().skip(1).filter(|node| is_own(node))
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

struct ChainTree<'a> {
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
    let mut tree = ChainTree { chain, window, server, nodes: Vec::new() };
    let waited = || chain.ways.iter().filter(|way| !way.is_loops_own());
    let waits: f64 = waited().map(|way| way.share).sum();
    tree.nodes.push(ChainNode {
        kind: "thread".into(),
        pid: Some(chain.process.pid),
        tid: Some(chain.tid),
        name: "loop".into(),
        state: "waits".into(),
        share: round(waits, 3),
        lost: waited().map(|way| way.lost).sum(),
        at: tree.of_waits(waits),
        ..ChainNode::default()
    });
    chain.ways.iter().for_each(|way| tree.add(way));
    // Where hardly anything of the loop is lost its device works all the while, whether it is waited for or not.
    let lost: f64 = chain.ways.iter().map(|way| way.lost).sum();
    if window.gpu.is_some() && lost < LOST_WAIT && chain.share(PathPart::Device) <= 0.0 {
        let (part, end) = (PathPart::Device, WaitEnd::Device);
        tree.add(&ChainPath { hops: Vec::new(), end, name: None, share: 0.0, lost: 0.0, part });
    }
    tree.cut();
    for node in &mut tree.nodes {
        (node.share, node.lost) = (round(node.share, 3), round(node.lost, 3));
    }
    tree.nodes
}

impl ChainTree<'_> {
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
        if self.nodes.len() >= ALL_NODES {
            return None;
        }
        let number = u32::try_from(self.nodes.len()).ok()?;
        self.nodes.push(ChainNode { node: number, ..new });
        if let Some(parent) = parent.and_then(|parent| self.nodes.get_mut(parent as usize)) {
            parent.waits_for.push(number);
        }
        Some(number)
    }

    fn add(&mut self, way: &ChainPath) {
        if way.is_loops_own() {
            let own = self.chain.ways.iter().find(|way| way.is_loops_own());
            self.at(
                None,
                ChainNode {
                    kind: "thread".into(),
                    pid: Some(self.chain.process.pid),
                    tid: Some(self.chain.tid),
                    name: "loop".into(),
                    state: does(way.part).into(),
                    share: way.share,
                    lost: way.lost,
                    // What stacks show most is the longest of them.
                    at: if own.is_some_and(|own| own.part == way.part) { self.of_work() } else { None },
                    ..ChainNode::default()
                },
            );
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

    /// Leaves out what is too small to be shown. Where that is a visible part of what a node waits for, one node stands for it, so
    /// that every node's children add up to it.
    fn cut(&mut self) {
        let mut largest: Vec<&ChainNode> = self.nodes.iter().skip(1).collect();
        // No child is larger than its parent, and none comes before it.
        largest.sort_by(|a, b| b.share.total_cmp(&a.share).then(a.node.cmp(&b.node)));
        let is_shown = |node: &&ChainNode| node.share >= SHOWN || node.kind == "device";
        let kept: BTreeSet<u32> =
            largest.into_iter().filter(is_shown).take(NODES - 1).map(|node| node.node).chain([0]).collect();
        let number = |old: u32| u32::try_from(kept.range(..old).count()).unwrap_or(u32::MAX);
        let mut nodes: Vec<ChainNode> = Vec::new();
        let mut others: Vec<(usize, ChainNode)> = Vec::new();
        for node in self.nodes.iter().filter(|node| kept.contains(&node.node)) {
            let left_out = node.waits_for.iter().filter(|child| !kept.contains(child));
            let sums = left_out.filter_map(|child| self.nodes.get(*child as usize));
            let (share, lost) = sums.fold((0.0, 0.0), |sum, child| (sum.0 + child.share, sum.1 + child.lost));
            if share >= SHOWN {
                let state = "unknown".to_owned();
                others.push((nodes.len(), ChainNode { lost, state, ..resource("unknown", OTHERS, share) }));
            }
            let waits_for = node.waits_for.iter().filter(|child| kept.contains(child)).map(|child| number(*child));
            nodes.push(ChainNode { node: number(node.node), waits_for: waits_for.collect(), ..node.clone() });
        }
        for (parent, node) in others {
            let number = u32::try_from(nodes.len()).unwrap_or(u32::MAX);
            if let Some(parent) = nodes.get_mut(parent) {
                parent.waits_for.push(number);
            }
            nodes.push(ChainNode { node: number, ..node });
        }
        self.nodes = nodes;
    }

    /// A node for the resource at the end, where that is no thread.
    fn end(&self, way: &ChainPath) -> Option<ChainNode> {
        match &way.end {
            WaitEnd::Net(address) => Some(resource("net", address, way.share)),
            WaitEnd::Lock(path) => Some(resource("lock", path, way.share)),
            WaitEnd::Children => {
                let children = resource("process", "short-lived children", way.share);
                Some(ChainNode { state: "cpu".into(), by: Some(WaitEdge::Child.word().into()), ..children })
            }
            WaitEnd::Disk | WaitEnd::Flush => {
                let disk = self.window.io.disk.as_deref().unwrap_or_default();
                Some(ChainNode { state: state(&way.end).into(), ..resource("disk", disk, way.share) })
            }
            WaitEnd::Device => {
                let of_loop = self.window.gpu.iter().flat_map(|gpu| gpu.indexes_of(self.chain.process.pid));
                let indexes = of_loop.map(|index| index.to_string());
                Some(resource("device", &indexes.collect::<Vec<_>>().join(","), way.share))
            }
            _ if !way.hops.is_empty() => None,
            WaitEnd::Loader => Some(ChainNode {
                name: "data worker".into(),
                state: "unknown".into(),
                ..resource("process", "", way.share)
            }),
            WaitEnd::Timer => Some(resource("timer", "", way.share)),
            WaitEnd::Terminal => Some(resource("terminal", "", way.share)),
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

/// What the loop's thread does with a part of its own time.
fn does(part: PathPart) -> &'static str {
    match part {
        PathPart::Loads => "loads",
        PathPart::Saves => "saves",
        _ => "cpu",
    }
}

fn resource(kind: &str, name: &str, share: f64) -> ChainNode {
    ChainNode { kind: kind.into(), name: name.into(), state: kind.into(), share, ..ChainNode::default() }
}

fn state(end: &WaitEnd) -> &'static str {
    match end {
        WaitEnd::Cpu => "cpu",
        WaitEnd::Disk => "disk",
        WaitEnd::Flush => "flush",
        WaitEnd::Memory => "memory",
        WaitEnd::Device => "device",
        WaitEnd::Net(_) | WaitEnd::Lock(_) | WaitEnd::Children => "waits",
        WaitEnd::Timer => "sleeps",
        WaitEnd::Stopped => "stopped",
        WaitEnd::Terminal => "terminal",
        WaitEnd::Asked => "asked",
        WaitEnd::Loader => "unknown",
        WaitEnd::Unknown => "unknown",
    }
}

#[cfg(test)]
#[path = "chain_tests.rs"]
mod tests;
