//! The nodes of the wait chain, and what follows from them.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::NODE_SHOWN;
use crate::diagnosis::thresholds::LOST_WAIT;
use trainmon_waits::taxonomy::{Edge, End, Purpose};

/// What the JSON calls a worker.
pub(in crate::diagnosis) const WORKER: &str = "data worker";

/// What a node is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Who {
    /// The training loop while its thread works for a purpose; `None` while it waits for the next nodes.
    Loop(Option<Purpose>),
    /// Another thread of its process.
    Thread(String),
    /// A data-loader worker, or several that cannot be told apart.
    Worker,
    /// Another process, by the name of its program.
    Process(String),
    /// What is no thread: its address, its path, or the numbers of the loop's GPUs.
    Resource(String),
    /// Nodes too small or too many to list.
    #[default]
    Others,
}

/// One node: something that waits, or is waited for. What it is called follows from what it is and what it does.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(from = "NodeWords", into = "NodeWords")]
pub struct ChainNode {
    /// Its number; 0 is the loop.
    pub node: u32,
    /// What it is.
    pub who: Who,
    /// What it does, or which resource it is; `None` if it waits for the next nodes.
    pub end: Option<End>,
    /// Its process, if it is a thread or process.
    pub pid: Option<u32>,
    /// Its thread, if it is a thread or process.
    pub tid: Option<u32>,
    /// Share of the loop's time that leads here, 0–1.
    pub share: f64,
    /// The part of it with the GPU idle.
    pub lost: f64,
    /// Its line of code, if stacks were read.
    pub at: Option<String>,
    /// How the node before it waits for it.
    pub by: Option<Edge>,
    /// Numbers of the nodes that it waits for.
    pub waits_for: Vec<u32>,
}

impl ChainNode {
    /// What sort of thing it is, in the word of the JSON.
    pub fn kind(&self) -> &'static str {
        match (&self.who, self.end) {
            (Who::Loop(_) | Who::Thread(_), _) => "thread",
            (Who::Worker | Who::Process(_), _) => "process",
            (Who::Resource(_), Some(End::Disk | End::Flush)) => End::Disk.word(),
            (Who::Resource(_), Some(end @ (End::Net | End::Gpu | End::Lock | End::Timer | End::Terminal))) => {
                end.word()
            }
            (Who::Resource(_) | Who::Others, _) => End::Unknown.word(),
        }
    }

    /// What it is called in the JSON.
    pub fn name(&self) -> &str {
        match &self.who {
            Who::Loop(_) => "loop",
            Who::Worker => WORKER,
            Who::Others => "others",
            Who::Thread(name) | Who::Process(name) | Who::Resource(name) => name,
        }
    }

    /// What it does meanwhile, in the word of the JSON. A resource has the state of its kind.
    pub fn state(&self) -> &'static str {
        match (&self.who, self.end) {
            (Who::Loop(Some(Purpose::Loads)), _) => "loads",
            (Who::Loop(Some(Purpose::Saves)), _) => "saves",
            (Who::Others, _) => End::Unknown.word(),
            (Who::Thread(_) | Who::Process(_) | Who::Worker, Some(End::Timer)) => "sleeps",
            (_, Some(end)) => end.word(),
            (_, None) => "waits",
        }
    }

    /// The resource that it is, if it is no thread or process.
    pub fn resource(&self) -> Option<End> {
        if matches!(self.who, Who::Resource(_)) { self.end } else { None }
    }

    /// It waits for nothing: the end of a chain.
    pub fn is_end(&self) -> bool {
        self.waits_for.is_empty()
    }

    /// The loop's thread. A program called `loop` is a process.
    pub fn is_loop(&self) -> bool {
        matches!(self.who, Who::Loop(_))
    }

    /// The end in a word: `cpu:1301`, `disk:nvme0n1`, `net:10.0.3.7:443`, `gpu:0` (of several `gpu:0,1`), `lock:/path`.
    pub fn word(&self) -> String {
        let kind = match self.resource() {
            Some(End::Gpu) => "gpu",
            _ if matches!(self.who, Who::Resource(_) | Who::Others) => self.kind(),
            _ => self.state(),
        };
        match (&self.who, self.pid, self.tid) {
            (Who::Worker | Who::Process(_), Some(pid), _) => format!("{kind}:{pid}"),
            (Who::Loop(_) | Who::Thread(_), _, Some(tid)) => format!("{kind}:{tid}"),
            _ if self.name().is_empty() => kind.to_owned(),
            _ => format!("{kind}:{}", self.name()),
        }
    }
}

/// A node in the words of the JSON.
#[derive(Serialize, Deserialize)]
pub struct NodeWords {
    /// Its number; 0 is the loop.
    pub node: u32,
    /// `thread`, `process`, `net`, `disk`, `device`, `lock`, `timer`, `terminal`, `unknown`.
    pub kind: Cow<'static, str>,
    /// Its process, if it is a thread or process.
    pub pid: Option<u32>,
    /// Its thread, if it is a thread or process.
    pub tid: Option<u32>,
    /// What it is: `loop`, `data worker`, the name of a program, an address, a path, or the numbers of the loop's GPUs.
    pub name: String,
    /// What it does: `cpu`, `waits`, `disk`, `flush`, `memory`, `device`, `sleeps`, `asked`, `stopped`, `unknown`; the loop's
    /// thread also `loads` and `saves`.
    pub state: Cow<'static, str>,
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

impl From<ChainNode> for NodeWords {
    fn from(of: ChainNode) -> Self {
        let (kind, name, state) = (of.kind().into(), of.name().to_owned(), of.state().into());
        let ChainNode { node, pid, tid, share, lost, at, by, waits_for, .. } = of;
        Self { node, kind, pid, tid, name, state, share, lost, at, by, waits_for }
    }
}

impl From<NodeWords> for ChainNode {
    fn from(words: NodeWords) -> Self {
        let NodeWords { node, kind, pid, tid, name, state, share, lost, at, by, waits_for } = words;
        let end = match &*state {
            "waits" | "loads" | "saves" => None,
            "sleeps" => Some(End::Timer),
            word => Some(End::named(word).unwrap_or_default()),
        };
        let who = match (&*kind, &*name, &*state) {
            ("thread", "loop", "waits") => Who::Loop(None),
            ("thread", "loop", "loads") => Who::Loop(Some(Purpose::Loads)),
            ("thread", "loop", "saves") => Who::Loop(Some(Purpose::Saves)),
            ("thread", "loop", _) => Who::Loop(Some(Purpose::Own)),
            ("thread", ..) => Who::Thread(name),
            ("process", WORKER, _) => Who::Worker,
            ("process", ..) => Who::Process(name),
            ("unknown", "others", _) => Who::Others,
            _ => Who::Resource(name),
        };
        let end = if who == Who::Others { None } else { end };
        Self { node, who, end, pid, tid, share, lost, at, by, waits_for }
    }
}

/// The end that the loop loses most time to, apart from its own work. If hardly anything is lost, its GPU, which is busy all
/// along whatever else the loop waits for; without a GPU, the end of the longest wait. `None` if the loop does not wait.
pub fn waits_for(nodes: &[ChainNode]) -> Option<&ChainNode> {
    let root = nodes.first().filter(|root| root.is_loop())?;
    let ends = || nodes.iter().skip(1).filter(|node| node.is_end() && !node.is_loop() && node.who != Who::Others);
    let lost = root.lost + own(nodes).map(|own| own.lost).sum::<f64>();
    let gpu = ends().find(|node| node.resource() == Some(End::Gpu));
    if lost < LOST_WAIT
        && let Some(gpu) = gpu
    {
        return Some(gpu);
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
