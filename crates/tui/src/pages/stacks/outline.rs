//! The page as an outline: roles, their functions, the lines of these, without folded parts.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::format;
use crate::job::Job;
use trainmon_diagnosis::diagnosis::verdict::Hottest;
use trainmon_diagnosis::history::recent_stacks::{Function, RecentStacks, Sum};
use trainmon_sample::ProcessId;
use trainmon_waits::stacks::{Activities, Activity};

/// Minimum share of a thread's time to be listed, 0–1.
const LEAST_SHARE: f64 = 0.005;
/// Maximum number of functions listed for a role.
const FUNCTIONS_LISTED: usize = 40;
/// Maximum number of lines listed for a function.
const LINES_LISTED: usize = 12;
/// Up to so many ranks are unfolded by default; if there are more, only the first one is.
const OPEN: usize = 2;

/// A part of the page.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum OutlinePart {
    /// The training loop of a rank.
    Rank(ProcessId),
    /// All workers together.
    Workers,
    /// One worker.
    Worker(ProcessId),
    /// The activities of a role.
    Activities,
    /// A function: file and name, raw.
    Function(Arc<str>, Arc<str>),
    /// A line of a function.
    Line(u32),
    /// A remark on what is not listed.
    Rest,
    /// The lines that wait for the GPU.
    SyncLines,
    /// One of these lines: file, function and line.
    Sync(String, String, u32),
}

/// Identifies a line of the page wherever it is: the parts that contain it, then the line.
pub type OutlineKey = Vec<OutlinePart>;

/// A line of the page.
#[derive(Debug, Clone)]
pub struct OutlineRow {
    /// Its name.
    pub key: OutlineKey,
    /// Whether it is unfolded, if it can be.
    pub open: Option<bool>,
    pub what: What,
}

/// The content of a line besides its name; shares are of the wall time of the role's thread, 0–1.
#[derive(Debug, Clone)]
pub enum What {
    /// The role, and its samples by activity.
    Role(String, Activities),
    /// Samples by activity, and the share in validation loops.
    Activities(Activities, f64),
    /// What the thread does there, whether it is the user's own code, and its most frequent line.
    Function { share: f64, activity: Activity, user: bool, line: u32 },
    /// Source, raw, and the share of the samples there that were blocked in a wait.
    Line { share: f64, text: Option<Arc<str>>, blocked: f64 },
    /// How much that is.
    Rest(String),
    /// The heading of these lines.
    SyncLines(&'static str),
    /// Source, raw, and where it was sampled.
    Sync { share: f64, text: Option<Arc<str>> },
}

/// The lines of the page; `turned` holds the parts whose fold state differs from the default.
pub fn rows(recent: &RecentStacks, job: &Job, turned: &HashSet<OutlineKey>) -> Vec<OutlineRow> {
    let mut out = Outline { rows: Vec::new(), turned };
    let several = recent.ranks.len() > 1;
    // Ranks are counted in the order of the frame: the attached one first.
    let order = job.frame().into_iter().flat_map(|frame| &frame.ranks).map(|rank| rank.id).zip(0..);
    let order: HashMap<ProcessId, usize> = order.collect();
    let mut ranks: Vec<(usize, &ProcessId, &Sum)> =
        recent.ranks.iter().map(|(id, sum)| (order.get(id).copied().unwrap_or(usize::MAX), id, sum)).collect();
    ranks.sort_by_key(|(rank, id, _)| (*rank, **id));
    for (place, (rank, id, sum)) in ranks.iter().enumerate() {
        let name = if several && *rank != usize::MAX {
            format!("Rank {rank}, {}, training loop", id.pid)
        } else {
            format!("Training loop, PID {}", id.pid)
        };
        out.role(vec![OutlinePart::Rank(**id)], name, sum, place == 0 || ranks.len() <= OPEN);
    }
    if !recent.workers.is_empty() {
        let looked = recent.workers.len();
        let all = job.frame().map_or(0, |frame| frame.workers.len()).max(looked);
        let name = match looked {
            _ if looked < all => format!("Workers, {looked} of {all}"),
            _ => format::counted(all, "worker", "workers"),
        };
        if out.role(vec![OutlinePart::Workers], name, &recent.all_workers, true) {
            for (id, sum) in &recent.workers {
                out.role(
                    vec![OutlinePart::Workers, OutlinePart::Worker(*id)],
                    format!("Worker {}", id.pid),
                    sum,
                    false,
                );
            }
        }
    }
    out.sync_lines(recent, job);
    out.rows
}

/// The name of a part inside another one.
fn part_of(whole: &[OutlinePart], part: OutlinePart) -> OutlineKey {
    whole.iter().cloned().chain([part]).collect()
}

struct Outline<'a> {
    rows: Vec<OutlineRow>,
    turned: &'a HashSet<OutlineKey>,
}

impl Outline<'_> {
    /// Adds a line that can be unfolded, and returns whether it is.
    fn foldable(&mut self, key: OutlineKey, open: bool, what: What) -> bool {
        let open = open != self.turned.contains(&key);
        self.rows.push(OutlineRow { key, open: Some(open), what });
        open
    }

    fn push(&mut self, key: OutlineKey, what: What) {
        self.rows.push(OutlineRow { key, open: None, what });
    }

    fn role(&mut self, key: OutlineKey, name: String, sum: &Sum, open: bool) -> bool {
        if !self.foldable(key.clone(), open, What::Role(name, sum.main)) {
            return false;
        }
        self.push(part_of(&key, OutlinePart::Activities), What::Activities(sum.main, sum.share(sum.validation)));
        let shares = sum.functions.iter().map(|function| (function, sum.share(function.samples)));
        let listed: Vec<_> = shares.take(FUNCTIONS_LISTED).take_while(|(_, share)| *share >= LEAST_SHARE).collect();
        for (place, (function, share)) in listed.iter().enumerate() {
            // The lines of the first are what a person looks for.
            self.function(&key, sum, function, *share, place == 0);
        }
        let more = sum.functions.len().saturating_sub(listed.len());
        let share = (1.0 - listed.iter().map(|(_, share)| share).sum::<f64>()).max(0.0);
        if more > 0 || share >= LEAST_SHARE {
            let more = if more == 0 { String::new() } else { format!("{more} more, ") };
            let text = format!("{more}{} of its time in everything else", format::share(Some(share)));
            self.push(part_of(&key, OutlinePart::Rest), What::Rest(text));
        }
        true
    }

    fn function(&mut self, role: &[OutlinePart], sum: &Sum, function: &Function, share: f64, is_first: bool) {
        let Function { file, name, user, lines, .. } = function;
        let key = part_of(role, OutlinePart::Function(Arc::clone(file), Arc::clone(name)));
        let line = lines.first().map_or(0, |first| first.line);
        let what = What::Function { share, activity: function.activity(), user: *user, line };
        if !self.foldable(key.clone(), is_first, what) {
            return;
        }
        for line in lines.iter().take(LINES_LISTED) {
            let blocked = f64::from(line.blocked) / f64::from(line.samples.max(1));
            let what = What::Line { share: sum.share(line.samples), text: line.text.clone(), blocked };
            self.push(part_of(&key, OutlinePart::Line(line.line)), what);
        }
    }

    /// The verdict's list; the source text comes from recent stacks.
    fn sync_lines(&mut self, recent: &RecentStacks, job: &Job) {
        let main = job.verdict().and_then(|verdict| verdict.main_thread.as_ref());
        if main.is_none() && recent.ranks.is_empty() {
            return;
        }
        let lines = main.map(|main| main.sync_lines.as_slice());
        let heading = match lines {
            Some([]) => "Lines that wait for the GPU: none that cost time",
            Some(_) => "Lines that wait for the GPU",
            None => "Lines that wait for the GPU: too few samples yet",
        };
        if !self.foldable(vec![OutlinePart::SyncLines], true, What::SyncLines(heading)) {
            return;
        }
        for Hottest { function, file, line, share } in lines.unwrap_or_default() {
            let key = vec![OutlinePart::SyncLines, OutlinePart::Sync(file.clone(), function.clone(), *line)];
            self.push(key, What::Sync { share: *share, text: text_of(recent, file, *line) });
        }
    }
}

/// Source of a line that the verdict identifies by the last part of its path.
fn text_of(recent: &RecentStacks, file: &str, line: u32) -> Option<Arc<str>> {
    let functions = recent.ranks.values().flat_map(|sum| &sum.functions);
    let mut there = functions.filter(|function| function.file.rsplit('/').next() == Some(file));
    there.find_map(|function| function.lines.iter().find(|place| place.line == line)?.text.clone())
}
