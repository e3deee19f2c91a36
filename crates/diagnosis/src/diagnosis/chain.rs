//! The wait chain of a verdict: a tree of what the loop waits for, and what that waits for, with shares of the loop's time.

mod node;

use std::collections::BTreeSet;

use super::features::{Chain, ChainPath, Features, program};
use super::thresholds::{LARGER_HALF, LOST_WAIT};
pub use node::{ChainNode, NodeKind, NodeName, NodeState, children, own, waits_for};
use trainmon_base::stats::round;
use trainmon_waits::taxonomy::{Edge, End, Purpose};

/// Most nodes of a verdict; the largest are kept.
const NODES: usize = 32;
/// Most nodes that are collected before that.
const ALL_NODES: usize = 512;
/// Nodes with a smaller share are left out, or put together if there are many.
const NODE_SHOWN: f64 = 0.01;

struct ChainTree<'a> {
    chain: &'a Chain,
    window: &'a Features,
    /// The process that the workers ask.
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
        share: round(waits, 3),
        lost: waited().map(|way| way.lost).sum(),
        at: tree.of_waits(waits),
        ..tree.of_loop(NodeState::Waits)
    });
    chain.ways.iter().for_each(|way| tree.add(way));
    // If the loop loses hardly anything, its GPU works all along, whether the loop waits for it or not.
    let lost: f64 = chain.ways.iter().map(|way| way.lost).sum();
    if window.gpu.is_some() && lost < LOST_WAIT && chain.share(Purpose::Gpu) <= 0.0 {
        let (part, end) = (Purpose::Gpu, End::Device);
        tree.add(&ChainPath { hops: Vec::new(), end, name: None, lock: None, share: 0.0, lost: 0.0, part });
    }
    tree.cut();
    for node in &mut tree.nodes {
        (node.share, node.lost) = (round(node.share, 3), round(node.lost, 3));
    }
    tree.nodes
}

impl ChainTree<'_> {
    /// A node of the loop's thread.
    fn of_loop(&self, state: NodeState) -> ChainNode {
        let (pid, tid) = (Some(self.chain.process.pid), Some(self.chain.tid));
        ChainNode { kind: NodeKind::Thread, pid, tid, name: NodeName::Loop, state, ..ChainNode::default() }
    }

    /// The line where the loop spends most of its waits, which take this share of the time.
    fn of_waits(&self, waits: f64) -> Option<String> {
        let stacks = self.window.main.as_ref()?.stacks.as_ref()?;
        let longest = stacks.hottest.first().filter(|place| place.share >= LARGER_HALF.value * waits);
        longest.map(ToString::to_string)
    }

    /// The line where it works most.
    fn of_work(&self) -> Option<String> {
        let stacks = self.window.main.as_ref()?.stacks.as_ref()?;
        stacks.hottest_own.as_ref().map(ToString::to_string)
    }

    fn of_worker(&self, pid: u32) -> Option<String> {
        let workers = self.window.workers.as_ref()?;
        Some(workers.each.iter().find(|worker| worker.pid == pid)?.hottest.as_ref()?.to_string())
    }

    /// Adds to the same node below `parent`, or to a new one. Returns its number.
    fn at(&mut self, parent: Option<u32>, new: ChainNode) -> Option<u32> {
        let same = |node: &ChainNode| {
            (node.kind, node.pid, node.tid, &node.name, node.state, node.by)
                == (new.kind, new.pid, new.tid, &new.name, new.state, new.by)
        };
        let children = parent.and_then(|parent| self.nodes.get(parent as usize)).map(|node| node.waits_for.clone());
        let known = match (&children, parent) {
            (Some(children), _) => children.iter().copied().find(|at| self.nodes.get(*at as usize).is_some_and(same)),
            (None, _) => self.nodes.iter().skip(1).find(|node| node.is_loop() && same(node)).map(|node| node.node),
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
            // The hottest line belongs to the longest of them.
            let at = if own.is_some_and(|own| own.part == way.part) { self.of_work() } else { None };
            let state = match way.part {
                Purpose::Loads => NodeState::Loads,
                Purpose::Saves => NodeState::Saves,
                _ => NodeState::Cpu,
            };
            self.at(None, ChainNode { share: way.share, lost: way.lost, at, ..self.of_loop(state) });
            return;
        }
        let mut parent = Some(0);
        for (at, hop) in way.hops.iter().enumerate() {
            if at == 0
                && let Some(path) = way.lock.as_ref().filter(|_| hop.by.is_file_lock())
            {
                let lock = ChainNode {
                    kind: NodeKind::Lock,
                    name: NodeName::Named(path.to_string()),
                    state: NodeState::Lock,
                    share: way.share,
                    lost: way.lost,
                    by: Some(hop.by),
                    ..ChainNode::default()
                };
                parent = self.at(parent, lock);
            }
            let Some(number) = parent else { return };
            let last = at + 1 == way.hops.len();
            let within = hop.pid == self.chain.process.pid;
            let state = if last { state(way.end) } else { NodeState::Waits };
            let (kind, name) = match (hop.is_short_lived(), within) {
                (true, _) => (NodeKind::Thread, NodeName::Named("short-lived threads".into())),
                (_, true) => (NodeKind::Thread, NodeName::Named("thread".into())),
                (_, false) => (NodeKind::Process, self.name(hop.pid)),
            };
            let node = ChainNode {
                kind,
                pid: Some(hop.pid),
                tid: if !hop.is_short_lived() { Some(if within { hop.tid } else { hop.pid }) } else { None },
                name,
                state,
                share: way.share,
                lost: way.lost,
                at: self.of_worker(hop.pid),
                by: Some(hop.by),
                ..ChainNode::default()
            };
            parent = self.at(Some(number), node);
        }
        let Some(number) = parent else { return };
        if let Some(end) = self.end(way) {
            self.at(Some(number), end);
        }
    }

    /// Leaves out what is too small to show. If that is a visible part of a node's wait, one node called `others` replaces it, so
    /// that the children of every node add up to it.
    fn cut(&mut self) {
        let mut largest: Vec<&ChainNode> = self.nodes.iter().skip(1).collect();
        // No child is larger than its parent, and none comes before it.
        largest.sort_by(|a, b| b.share.total_cmp(&a.share).then(a.node.cmp(&b.node)));
        let is_shown = |node: &&ChainNode| node.share >= NODE_SHOWN || node.kind == NodeKind::Device;
        let kept: BTreeSet<u32> =
            largest.into_iter().filter(is_shown).take(NODES - 1).map(|node| node.node).chain([0]).collect();
        let number = |old: u32| u32::try_from(kept.range(..old).count()).unwrap_or(u32::MAX);
        let mut nodes: Vec<ChainNode> = Vec::new();
        let mut others: Vec<(usize, ChainNode)> = Vec::new();
        for node in self.nodes.iter().filter(|node| kept.contains(&node.node)) {
            let left_out = node.waits_for.iter().filter(|child| !kept.contains(child));
            let sums = left_out.filter_map(|child| self.nodes.get(*child as usize));
            let (share, lost) = sums.fold((0.0, 0.0), |sum, child| (sum.0 + child.share, sum.1 + child.lost));
            if share >= NODE_SHOWN {
                let name = NodeName::Others;
                others.push((nodes.len(), ChainNode { name, share, lost, ..ChainNode::default() }));
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

    /// A node for the resource at the end, unless that is a thread.
    fn end(&self, way: &ChainPath) -> Option<ChainNode> {
        let named = |name: &str| NodeName::Named(name.to_owned());
        let name = way.name.as_deref().unwrap_or_default();
        let (kind, name, state) = match way.end {
            End::Net => (NodeKind::Net, named(name), NodeState::Net),
            End::Lock => (NodeKind::Lock, named(name), NodeState::Lock),
            End::Children => (NodeKind::Process, named("short-lived children"), NodeState::Cpu),
            End::Disk | End::Flush => {
                (NodeKind::Disk, named(self.window.io.disk.as_deref().unwrap_or_default()), state(way.end))
            }
            End::Device => {
                let of_loop = self.window.gpu.iter().flat_map(|gpu| gpu.indexes_of(self.chain.process.pid));
                let indexes: Vec<String> = of_loop.map(|index| index.to_string()).collect();
                (NodeKind::Device, NodeName::Named(indexes.join(",")), NodeState::Device)
            }
            _ if !way.hops.is_empty() => return None,
            End::Loader => (NodeKind::Process, NodeName::Worker, NodeState::Unknown),
            End::Timer => (NodeKind::Timer, NodeName::default(), NodeState::Timer),
            End::Terminal => (NodeKind::Terminal, NodeName::default(), NodeState::Terminal),
            end => (NodeKind::Unknown, named(name), state(end)),
        };
        let by = (way.end == End::Children).then_some(Edge::Child);
        Some(ChainNode { kind, name, state, by, share: way.share, lost: way.lost, ..ChainNode::default() })
    }

    fn name(&self, pid: u32) -> NodeName {
        match self.chain.peer(pid) {
            None => NodeName::Named("process".into()),
            Some(peer) if peer.loader && self.server != Some(pid) => NodeName::Worker,
            Some(peer) => NodeName::Named(program(peer)),
        }
    }
}

fn state(end: End) -> NodeState {
    match end {
        End::Cpu => NodeState::Cpu,
        End::Disk => NodeState::Disk,
        End::Flush => NodeState::Flush,
        End::Memory => NodeState::Memory,
        End::Device => NodeState::Device,
        End::Net | End::Lock | End::Children => NodeState::Waits,
        End::Timer => NodeState::Sleeps,
        End::Stopped => NodeState::Stopped,
        End::Terminal => NodeState::Terminal,
        End::Asked => NodeState::Asked,
        End::Loader | End::Unknown => NodeState::Unknown,
    }
}

#[cfg(test)]
#[path = "chain_tests.rs"]
mod tests;
