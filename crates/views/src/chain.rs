//! The wait chain in words, the same on the screen, in text and in Markdown: on one line, and as a tree of what the loop waits
//! for, and what that waits for.

use std::collections::BTreeSet;

use trainmon_base::text::format::whole_percent as percent;
use trainmon_base::text::{fit, sanitize};
use trainmon_diagnosis::diagnosis::Verdict;
use trainmon_diagnosis::diagnosis::chain::{ChainNode, Who, children, own, waits_for};
use trainmon_diagnosis::diagnosis::verdict::Class;
use trainmon_waits::taxonomy::{Edge, End, Purpose};
use trainmon_waits::time_split::LoopActivity;

/// The smaller of the loop's work and its waits is shown too from this share on.
const BESIDE: f64 = 0.1;
/// The share of an end is shown if it differs by more from that of the wait.
const APART: f64 = 0.05;

/// Most rows of the tree in text, the largest branches first.
pub const ROWS: usize = 12;

/// How a row of the tree begins, below its siblings and its parents.
const BRANCH: [&str; 4] = ["│ ", "  ", "├ ", "└ "];

/// A row of the tree.
#[derive(Debug, Clone)]
pub struct ChainRow<'n> {
    /// The node.
    pub node: &'n ChainNode,
    /// The lines of the tree that lead to it.
    pub branch: String,
    /// How it is waited for, what it is, what it does, and where in the code. Safe to print.
    pub text: String,
}

/// The tree, the largest branches first.
pub fn rows(nodes: &[ChainNode]) -> Vec<ChainRow<'_>> {
    let mut roots: Vec<&ChainNode> =
        nodes.first().filter(|root| !root.is_end()).into_iter().chain(own(nodes)).collect();
    sort(&mut roots);
    let mut tree = DrawnTree { nodes, rows: Vec::new(), seen: BTreeSet::new() };
    roots.into_iter().for_each(|root| tree.add(root, String::new(), ""));
    tree.rows
}

fn sort(nodes: &mut [&ChainNode]) {
    nodes.sort_by(|a, b| b.share.total_cmp(&a.share).then(a.node.cmp(&b.node)));
}

struct DrawnTree<'n> {
    nodes: &'n [ChainNode],
    rows: Vec<ChainRow<'n>>,
    seen: BTreeSet<u32>,
}

impl<'n> DrawnTree<'n> {
    /// Adds a node and what it waits for; `before` leads past it, `own` to it.
    fn add(&mut self, node: &'n ChainNode, before: String, own: &str) {
        if !self.seen.insert(node.node) {
            return;
        }
        let text = sanitize(&described(node)).into_owned();
        self.rows.push(ChainRow { node, branch: format!("{before}{own}"), text });
        let [passes, ended, more, last] = BRANCH;
        let below = match own {
            "" => String::new(),
            own if own == last => before + ended,
            _ => before + passes,
        };
        let mut children = children(self.nodes, node);
        sort(&mut children);
        let count = children.len();
        for (at, child) in children.into_iter().enumerate() {
            self.add(child, below.clone(), if at + 1 == count { last } else { more });
        }
    }
}

/// A node in a few words: `waits for worker 1301, which computes in decode_image (work.py:22)`.
pub fn described(node: &ChainNode) -> String {
    let at = node.at.as_ref().map(|at| format!(" in {at}")).unwrap_or_default();
    if node.is_loop() {
        return format!("the {} {}{at}", loop_name(node), does(node));
    }
    let who = who(node);
    let who = match (&node.who, node.by) {
        (_, Some(Edge::InterpreterLock)) => format!("waits for the interpreter lock, held by {who}"),
        (_, Some(Edge::Writes)) => format!("writes to {who}"),
        (_, Some(Edge::Network)) => format!("asks {who} over the network"),
        (_, Some(Edge::SharedMemory)) => format!("shares memory with {who}"),
        (_, Some(Edge::Child)) if node.pid.is_none() => format!("waits for its {who} to end"),
        (_, Some(Edge::Child)) => format!("waits for its child {who} to end"),
        (_, Some(Edge::Polls)) => format!("asks {who} again and again"),
        (_, Some(by)) if by.is_file_lock() && node.resource() != Some(End::Lock) => format!("held by {who}"),
        (Who::Resource(_), _) if matches!(node.end, Some(End::Timer | End::Stopped | End::Unknown) | None) => who,
        (Who::Others, _) => who,
        _ => format!("waits for {who}"),
    };
    let state = match (&node.who, node.end) {
        (Who::Resource(_), Some(End::Flush)) => "writes",
        // Its end is what is waited for.
        (_, Some(End::Cpu)) if node.by == Some(Edge::Child) => "",
        (Who::Resource(_) | Who::Others, _) => "",
        (_, end) => state_words(end),
    };
    if state.is_empty() { format!("{who}{at}") } else { format!("{who}, which {state}{at}") }
}

/// What the loop's thread does.
fn does(node: &ChainNode) -> &'static str {
    match node.who {
        Who::Loop(None) => "waits",
        Who::Loop(Some(Purpose::Loads)) => "makes or receives batches",
        Who::Loop(Some(Purpose::Saves)) => LoopActivity::Checkpoint.verb(),
        _ => LoopActivity::HostBusy.verb(),
    }
}

/// The loop, with its thread if that is not the process's first.
fn loop_name(node: &ChainNode) -> String {
    match (node.pid, node.tid) {
        (pid, Some(tid)) if pid != Some(tid) => format!("loop (thread {tid})"),
        _ => "loop".to_owned(),
    }
}

/// What a process or thread does while it is waited for; nothing where that is not known.
fn state_words(end: Option<End>) -> &'static str {
    match end {
        Some(End::Cpu) => "computes",
        Some(End::Disk) => "reads from disk",
        Some(End::Flush) => "writes to disk",
        Some(End::Memory) => "waits for memory",
        Some(End::Gpu) => LoopActivity::DeviceSync.verb(),
        Some(End::Timer) => "sleeps",
        Some(End::Asked) => "waits for a request",
        Some(End::Stopped) => "is stopped",
        Some(End::Terminal) => "waits for terminal input",
        None => "waits in turn",
        Some(_) => "",
    }
}

/// What a node is.
pub fn who(node: &ChainNode) -> String {
    let name = shown(node);
    let named = |word: &str| if name.is_empty() { word.to_owned() } else { format!("{word} {name}") };
    let resource = match (&node.who, node.pid, node.tid) {
        (Who::Loop(_) | Who::Thread(_), _, Some(id)) | (Who::Worker | Who::Process(_), Some(id), _) => {
            return format!("{name} {id}");
        }
        (Who::Loop(_) | Who::Thread(_), ..) => return named("thread"),
        // Several that cannot be told apart.
        (Who::Worker, ..) => return "workers".to_owned(),
        (Who::Process(_), ..) => return name.to_owned(),
        (Who::Others, ..) => return "smaller waits".to_owned(),
        (Who::Resource(_), ..) => node.end,
    };
    match resource {
        Some(End::Net) => format!("{name} (network)"),
        Some(End::Gpu) => named("GPU"),
        Some(End::Lock | End::Disk | End::Flush) => named(node.kind()),
        Some(End::Timer) => "sleeps or polls".to_owned(),
        Some(End::Terminal) => "terminal input".to_owned(),
        Some(End::Memory) => "memory".to_owned(),
        Some(End::Stopped) => "stopped by a signal".to_owned(),
        Some(End::Asked) => "requests".to_owned(),
        _ => "a wait that could not be followed".to_owned(),
    }
}

/// The name that a person reads.
fn shown(node: &ChainNode) -> &str {
    if node.who == Who::Worker { "worker" } else { node.name() }
}

/// What is left out of a line that is too long. Each step also leaves out what the steps before it do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Short {
    Nothing,
    Folders,
    Middle,
    Beside,
    Function,
    Place,
    Count,
}

impl Short {
    const ALL: [Self; 7] =
        [Self::Nothing, Self::Folders, Self::Middle, Self::Beside, Self::Function, Self::Place, Self::Count];
}

/// The chain of the longest wait on one line of at most `width` cells:
/// `loop waits 87% ← worker 1301 (1 of 1) ← CPU: decode_image work.py:22`. `None` if no wait was traced.
pub fn line(verdict: &Verdict, width: usize) -> Option<String> {
    let mut shorter = String::new();
    for short in Short::ALL {
        shorter = sanitize(&told(verdict, short)?).into_owned();
        if unicode_width::UnicodeWidthStr::width(shorter.as_str()) <= width {
            return Some(shorter);
        }
    }
    Some(fit(&shorter, width))
}

fn told(verdict: &Verdict, short: Short) -> Option<String> {
    let nodes = verdict.chain.as_slice();
    let root = nodes.first().filter(|root| root.is_loop())?;
    let own = own(nodes).max_by(|a, b| a.share.total_cmp(&b.share));
    let waits = waits_for(nodes).map(|_| way(verdict, root, short));
    let works = own.map(|own| {
        let at = at(own, short).map(|at| format!(": {at}")).unwrap_or_default();
        format!("{} {}%{at}", does(own), percent(own.share))
    });
    let is_larger = own.is_none_or(|own| root.share >= own.share);
    let text = match (waits, works) {
        (Some(waits), Some(works)) if !is_larger => {
            let beside = root.share >= BESIDE && short < Short::Beside;
            if beside { format!("{works}; {waits}") } else { works }
        }
        (Some(waits), _) => waits,
        (None, works) => works?,
    };
    Some(format!("{} {text}", loop_name(root)))
}

/// `decode_image work.py:22` of `decode_image (work.py:22)`.
fn at(node: &ChainNode, short: Short) -> Option<String> {
    let at = if short < Short::Place { node.at.as_deref()? } else { return None };
    let (function, place) =
        at.split_once(" (").map_or(("", at), |(function, place)| (function, place.trim_end_matches(')')));
    let whole = short < Short::Function && !function.is_empty();
    Some(if whole { format!("{function} {place}") } else { place.to_owned() })
}

/// `waits 87% ← …` along the longest wait, with its share of the loop's time. A wait for data has that of the loop's split.
/// Processes that are waited for alike are put together.
fn way(verdict: &Verdict, root: &ChainNode, short: Short) -> String {
    let nodes = verdict.chain.as_slice();
    let mut hops: Vec<String> = Vec::new();
    let mut level = children(nodes, root);
    // What the verdict blames leads, even where the GPU's own work takes longer.
    let blames_other = matches!(verdict.class, Class::DataLoader | Class::Io)
        || verdict.cause.is_some_and(|cause| cause.is_wait(verdict.class));
    if blames_other && level.iter().any(|node| node.resource() != Some(End::Gpu) && node.share >= BESIDE) {
        level.retain(|node| node.resource() != Some(End::Gpu));
    }
    let mut end = None;
    let mut lead = root.share;
    // Each level is one deeper, so a tree has no more of them than nodes.
    for _ in nodes {
        let alike = largest(&level, |node| (node.kind(), node.name(), node.by));
        let members = largest(&alike, |node| (node.state(), node.kind(), node.name()));
        let Some(first) = members.iter().max_by(|a, b| a.share.total_cmp(&b.share)).copied() else { break };
        if end.is_none() {
            lead = match verdict.shares {
                Some(shares) if first.who == Who::Worker => shares.input_wait,
                _ => alike.iter().map(|node| node.share).sum(),
            };
            lead = lead.min(root.share);
        }
        hops.extend(hop(&alike, first, verdict.workers.len(), hops.is_empty(), short));
        end = Some((first, members.iter().map(|node| node.share).sum::<f64>(), alike.len() > 1));
        level = members.iter().flat_map(|node| children(nodes, node)).collect();
        level.sort_by_key(|node| node.node);
        level.dedup_by_key(|node| node.node);
    }
    let (shown, last) = (hops.len(), hops.last().cloned());
    if let (true, Some(last)) = (short >= Short::Middle && shown > 2, last) {
        hops.truncate(1);
        hops.extend(["…".to_owned(), last]);
    }
    let mut text = format!("waits {}%", percent(lead));
    hops.iter().for_each(|hop| text += &format!(" ← {hop}"));
    let Some((end, share, several)) = end else { return text };
    let part = if lead - share > APART { format!(" ({}%)", percent(share)) } else { String::new() };
    let at = if !several || short < Short::Function { at(end, short) } else { None };
    let (mark, at) = (if at.is_some() { ": " } else { "" }, at.unwrap_or_default());
    text + &match (&end.who, end.end) {
        (Who::Resource(_) | Who::Others, _) => part,
        (Who::Loop(_) | Who::Thread(_), Some(End::Cpu)) => format!(": CPU{part} {at}").trim_end().to_owned(),
        (_, Some(End::Cpu)) => format!(" ← CPU{part}{mark}{at}"),
        (_, Some(End::Memory)) => format!(" ← memory{part}"),
        (_, Some(End::Timer)) => format!(", sleeps{part}"),
        (_, Some(End::Asked)) => format!(", idle{part}"),
        (_, Some(End::Stopped)) => format!(", stopped{part}"),
        (_, Some(End::Terminal)) => format!(" ← terminal{part}"),
        _ => part,
    }
}

/// The nodes with the same key whose shares add up to most.
fn largest<'n, K: PartialEq>(nodes: &[&'n ChainNode], key: impl Fn(&'n ChainNode) -> K) -> Vec<&'n ChainNode> {
    let mut groups: Vec<(K, f64, Vec<&ChainNode>)> = Vec::new();
    for node in nodes {
        let of = key(node);
        match groups.iter_mut().find(|(known, ..)| *known == of) {
            Some((_, sum, members)) => {
                *sum += node.share;
                members.push(node);
            }
            None => groups.push((of, node.share, vec![node])),
        }
    }
    // Of equal ones the first.
    let most = groups.into_iter().rev().max_by(|a, b| a.1.total_cmp(&b.1));
    most.map(|(.., members)| members).unwrap_or_default()
}

/// One or two words of the line: what is waited for alike, and how, where that says more.
fn hop(alike: &[&ChainNode], first: &ChainNode, workers: usize, is_first: bool, short: Short) -> Vec<String> {
    let count = alike.iter().map(|node| (node.pid, node.tid)).collect::<BTreeSet<_>>().len();
    let (is_worker, name) = (first.who == Who::Worker, shown(first));
    let many = count > 1 && first.pid.is_some();
    let counts = short < Short::Count;
    let of = |count: usize| if workers >= count && counts { format!("{count} of {workers}") } else { String::new() };
    let who = match (first.resource(), is_worker) {
        (_, true) if many && workers > count => format!("{} workers", of(count)),
        _ if many => {
            let plural = if name.ends_with('s') { "es" } else { "s" };
            format!("{count} {name}{plural}")
        }
        (_, true) if workers > 0 && first.pid.is_some() && counts => format!("{} ({})", who(first), of(1)),
        (Some(End::Lock), _) if short >= Short::Folders => {
            format!("lock {}", name.rsplit('/').next().unwrap_or_default())
        }
        _ => who(first),
    };
    match first.by {
        Some(Edge::InterpreterLock) => vec!["interpreter lock".to_owned(), who],
        Some(Edge::Writes) if is_first && matches!(first.who, Who::Process(_)) => {
            vec![format!("reader of its output: {who}")]
        }
        Some(Edge::Network) => vec![format!("{who} (network)")],
        _ => vec![who],
    }
}

#[cfg(test)]
#[path = "chain_tests.rs"]
mod tests;
