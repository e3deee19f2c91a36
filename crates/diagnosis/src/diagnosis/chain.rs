//! The wait chain of a verdict: a tree of what the loop waits for, and what that waits for, with shares of the loop's time.

mod node;

use std::collections::BTreeSet;

use super::features::{Chain, ChainPath, Features, program};
use super::thresholds::{LARGER_HALF, LOST_WAIT};
pub(super) use node::WORKER;
pub use node::{ChainNode, Who, children, own, waits_for};
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
        ..tree.of_loop(None)
    });
    chain.ways.iter().for_each(|way| tree.add(way));
    // If the loop loses hardly anything, its GPU works all along, whether the loop waits for it or not.
    let lost: f64 = chain.ways.iter().map(|way| way.lost).sum();
    if window.gpu.is_some() && lost < LOST_WAIT && chain.share(Purpose::Gpu) <= 0.0 {
        let (part, end) = (Purpose::Gpu, End::Gpu);
        tree.add(&ChainPath { hops: Vec::new(), end, name: None, lock: None, share: 0.0, lost: 0.0, part });
    }
    tree.cut();
    for node in &mut tree.nodes {
        (node.share, node.lost) = (round(node.share, 3), round(node.lost, 3));
    }
    tree.nodes
}

impl ChainTree<'_> {
    /// A node of the loop's thread, which works for this purpose or waits.
    fn of_loop(&self, purpose: Option<Purpose>) -> ChainNode {
        let (pid, tid) = (Some(self.chain.process.pid), Some(self.chain.tid));
        let end = if purpose == Some(Purpose::Own) { Some(End::Cpu) } else { None };
        ChainNode { who: Who::Loop(purpose), end, pid, tid, ..ChainNode::default() }
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
            (&node.who, node.end, node.pid, node.tid, node.by) == (&new.who, new.end, new.pid, new.tid, new.by)
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
            let of_loop = self.of_loop(Some(way.part));
            self.at(None, ChainNode { share: way.share, lost: way.lost, at, ..of_loop });
            return;
        }
        let mut parent = Some(0);
        for (at, hop) in way.hops.iter().enumerate() {
            if at == 0
                && hop.by.is_file_lock()
                && let Some(path) = &way.lock
            {
                let lock = ChainNode {
                    who: Who::Resource(path.to_string()),
                    end: Some(End::Lock),
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
            let who = match (hop.is_short_lived(), within) {
                (true, _) => Who::Thread("short-lived threads".into()),
                (_, true) => Who::Thread("thread".into()),
                (_, false) => self.who(hop.pid),
            };
            let node = ChainNode {
                who,
                end: if last { own_end(way.end) } else { None },
                pid: Some(hop.pid),
                tid: if !hop.is_short_lived() { Some(if within { hop.tid } else { hop.pid }) } else { None },
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
        let is_shown = |node: &&ChainNode| node.share >= NODE_SHOWN || node.resource() == Some(End::Gpu);
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
                others.push((nodes.len(), ChainNode { who: Who::Others, share, lost, ..ChainNode::default() }));
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
        let resource = |name: Option<&str>| Who::Resource(name.unwrap_or_default().to_owned());
        let (who, end) = match way.end {
            End::Net | End::Lock => (resource(way.name.as_deref()), way.end),
            End::Children => (Who::Process("short-lived children".into()), End::Cpu),
            End::Disk | End::Flush => (resource(self.window.io.disk.as_deref()), way.end),
            End::Gpu => {
                let of_loop = self.window.gpu.iter().flat_map(|gpu| gpu.indexes_of(self.chain.process.pid));
                let indexes: Vec<String> = of_loop.map(|index| index.to_string()).collect();
                (Who::Resource(indexes.join(",")), End::Gpu)
            }
            _ if !way.hops.is_empty() => return None,
            End::Loader => (Who::Worker, End::Unknown),
            End::Timer | End::Terminal => (resource(None), way.end),
            end => (resource(way.name.as_deref()), end),
        };
        let by = if way.end == End::Children { Some(Edge::Child) } else { None };
        Some(ChainNode { who, end: Some(end), by, share: way.share, lost: way.lost, ..ChainNode::default() })
    }

    fn who(&self, pid: u32) -> Who {
        match self.chain.peer(pid) {
            None => Who::Process("process".into()),
            Some(peer) if peer.loader && self.server != Some(pid) => Who::Worker,
            Some(peer) => Who::Process(program(peer)),
        }
    }
}

/// What the last thread of a path does itself; `None` if it waits for something that has a node of its own.
fn own_end(end: End) -> Option<End> {
    match end {
        End::Net | End::Lock | End::Children => None,
        End::Loader => Some(End::Unknown),
        end => Some(end),
    }
}

#[cfg(test)]
#[path = "chain_tests.rs"]
mod tests;
