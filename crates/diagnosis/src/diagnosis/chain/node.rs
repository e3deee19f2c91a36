//! The nodes of the wait chain, and what follows from them.

use serde::{Deserialize, Serialize};

use super::NODE_SHOWN;
use crate::diagnosis::thresholds::LOST_WAIT;
use trainmon_base::text::named_enum;
use trainmon_waits::taxonomy::Edge;

named_enum! {
    /// What sort of thing is waited for.
    #[derive(Default)]
    pub enum NodeKind {
        /// A thread of the loop's own process, the loop's among them.
        Thread = "thread",
        /// Another process.
        Process = "process",
        /// An address on the network.
        Net = "net",
        /// A disk.
        Disk = "disk",
        /// One GPU or several.
        Device = "device",
        /// A lock on a file.
        Lock = "lock",
        /// A sleep.
        Timer = "timer",
        /// Terminal input.
        Terminal = "terminal",
        /// Unknown.
        #[default]
        Unknown = "unknown",
    }
}

named_enum! {
    /// What a node does meanwhile. A resource has the state of its kind.
    #[derive(Default)]
    pub enum NodeState {
        /// It runs, or is ready to.
        Cpu = "cpu",
        /// It waits for the next node.
        Waits = "waits",
        /// The loop's thread makes or receives batches.
        Loads = "loads",
        /// The loop's thread saves state.
        Saves = "saves",
        /// It reads from a disk.
        Disk = "disk",
        /// It writes to a disk.
        Flush = "flush",
        /// It waits for memory.
        Memory = "memory",
        /// It waits for the GPU.
        Device = "device",
        /// It sleeps.
        Sleeps = "sleeps",
        /// It waits for a request.
        Asked = "asked",
        /// A signal has stopped it.
        Stopped = "stopped",
        /// It waits for terminal input.
        Terminal = "terminal",
        /// An address.
        Net = "net",
        /// A lock.
        Lock = "lock",
        /// A timer.
        Timer = "timer",
        /// Not known.
        #[default]
        Unknown = "unknown",
    }
}

/// What a node is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum NodeName {
    /// The training loop.
    #[serde(rename = "loop")]
    Loop,
    /// A data-loader worker, or several that cannot be told apart.
    #[serde(rename = "data worker")]
    Worker,
    /// Nodes too small or too many to list.
    #[serde(rename = "others")]
    Others,
    /// The name of a program, an address, a path, or the numbers of the loop's GPUs.
    #[serde(untagged)]
    Named(String),
}

impl NodeName {
    /// The word of the JSON.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Loop => "loop",
            Self::Worker => "data worker",
            Self::Others => "others",
            Self::Named(name) => name,
        }
    }
}

impl Default for NodeName {
    fn default() -> Self {
        Self::Named(String::new())
    }
}

/// One node: something that waits, or is waited for.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ChainNode {
    /// Its number; 0 is the loop.
    pub node: u32,
    /// `thread`, `process`, `net`, `disk`, `device`, `lock`, `timer`, `terminal`, `unknown`.
    pub kind: NodeKind,
    /// Its process, if it is a thread or process.
    pub pid: Option<u32>,
    /// Its thread, if it is a thread or process.
    pub tid: Option<u32>,
    /// What it is: `loop`, `data worker`, the name of a program, an address, a path, or the numbers of the loop's GPUs.
    pub name: NodeName,
    /// What it does: `cpu`, `waits`, `disk`, `flush`, `memory`, `device`, `sleeps`, `asked`, `stopped`, `unknown`; the loop's
    /// thread also `loads` and `saves`.
    pub state: NodeState,
    /// Share of the loop's time that leads here, 0–1.
    pub share: f64,
    /// The part of it with the GPU idle: what the wait costs. All of it if no GPU is known.
    pub lost: f64,
    /// Its line of code, if stacks were read.
    pub at: Option<String>,
    /// How the node before it waits for it: `reads`, `writes`, `network`, `thread`, `interpreter-lock`, `shared-memory`, `child`,
    /// `file-lock`, `tries-lock`, `polls`.
    pub by: Option<Edge>,
    /// Numbers of the nodes that it waits for. Empty at the ends.
    pub waits_for: Vec<u32>,
}

impl ChainNode {
    /// It waits for nothing: the end of a chain.
    pub fn is_end(&self) -> bool {
        self.waits_for.is_empty()
    }

    /// The loop's thread. A program called `loop` is a process.
    pub fn is_loop(&self) -> bool {
        self.name == NodeName::Loop && self.kind == NodeKind::Thread
    }

    /// The end in a word: `cpu:1301`, `disk:nvme0n1`, `net:10.0.3.7:443`, `gpu:0` (of several `gpu:0,1`), `lock:/path`.
    pub fn word(&self) -> String {
        let kind = match self.kind {
            NodeKind::Process | NodeKind::Thread => self.state.word(),
            NodeKind::Device => "gpu",
            kind => kind.word(),
        };
        match (self.kind, self.pid, self.tid) {
            (NodeKind::Process, Some(pid), _) => format!("{kind}:{pid}"),
            (NodeKind::Thread, _, Some(tid)) => format!("{kind}:{tid}"),
            _ if self.name.as_str().is_empty() => kind.to_owned(),
            _ => format!("{kind}:{}", self.name.as_str()),
        }
    }
}

/// The end that the loop loses most time to, apart from its own work. If hardly anything is lost, its GPU, which is busy all
/// along whatever else the loop waits for; without a GPU, the end of the longest wait. `None` if the loop does not wait.
pub fn waits_for(nodes: &[ChainNode]) -> Option<&ChainNode> {
    let root = nodes.first().filter(|root| root.is_loop())?;
    let is_others = |node: &ChainNode| node.kind == NodeKind::Unknown && node.name == NodeName::Others;
    let ends = || nodes.iter().skip(1).filter(|node| node.is_end() && !node.is_loop() && !is_others(node));
    let lost = root.lost + own(nodes).map(|own| own.lost).sum::<f64>();
    let device = ends().find(|node| node.kind == NodeKind::Device);
    if lost < LOST_WAIT
        && let Some(device) = device
    {
        return Some(device);
    }
    // An end that several branches reach counts with all of them.
    let sums = |end: &ChainNode| -> (f64, f64) {
        let same = ends().filter(|node| node.word() == end.word());
        same.fold((0.0, 0.0), |(lost, share), node| (lost + node.lost, share + node.share))
    };
    ends().max_by(|a, b| {
        let ((lost_a, share_a), (lost_b, share_b)) = (sums(a), sums(b));
        // Less than the rounding of three digits is nothing.
        let lost = |lost: f64| if lost < NODE_SHOWN { 0.0 } else { lost };
        lost(lost_a).total_cmp(&lost(lost_b)).then(share_a.total_cmp(&share_b)).then(a.share.total_cmp(&b.share))
    })
}

/// What the loop's thread does: its own work, making or receiving batches, saving.
pub fn own(nodes: &[ChainNode]) -> impl Iterator<Item = &ChainNode> {
    nodes.iter().skip(1).filter(|node| node.is_loop())
}

/// What a node waits for.
pub fn children<'a>(nodes: &'a [ChainNode], of: &ChainNode) -> Vec<&'a ChainNode> {
    nodes.iter().filter(|node| of.waits_for.contains(&node.node)).collect()
}
