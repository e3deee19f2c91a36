//! The page as an outline: roles, their functions, the lines of these; folded parts left out.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::recent::{Function, Recent, Sum};
use crate::rates::stacks::{Activities, Activity};
use crate::sample::ProcessId;
use crate::tui::job::Job;

/// Smallest share of a thread's time that is listed, 0–1.
const LEAST: f64 = 0.005;
/// Most functions listed of a role.
const FUNCTIONS: usize = 40;
/// Most lines listed of a function.
const LINES: usize = 12;
/// Trainers that are unfolded at first; of more, the first one is.
const OPEN: usize = 2;

/// Whose time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Who {
    /// The main thread of a trainer.
    Trainer(ProcessId),
    /// The main threads of all workers.
    Workers,
    /// That of one.
    Worker(ProcessId),
}

/// Names a line of the page whatever its place.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Key {
    /// A role.
    Role(Who),
    /// What it does.
    Activities(Who),
    /// A function: file and name.
    Function(Who, Arc<str>, Arc<str>),
    /// A line of a function.
    Line(Who, Arc<str>, Arc<str>, u32),
    /// What is not listed.
    Rest(Who),
    /// The lines that wait for the device.
    SyncLines,
    /// One of them: file, function and line.
    Sync(String, String, u32),
}

impl Key {
    /// What it is a part of.
    #[must_use]
    pub fn parent(&self) -> Option<Self> {
        match self {
            Self::Role(Who::Worker(_)) => Some(Self::Role(Who::Workers)),
            Self::Role(_) | Self::SyncLines => None,
            Self::Activities(who) | Self::Rest(who) | Self::Function(who, ..) => Some(Self::Role(*who)),
            Self::Line(who, file, function, _) => Some(Self::Function(*who, Arc::clone(file), Arc::clone(function))),
            Self::Sync(..) => Some(Self::SyncLines),
        }
    }
}

/// A line of the page.
#[derive(Debug, Clone)]
pub struct Row {
    /// Its name.
    pub key: Key,
    /// Whether it is unfolded, where it can be.
    pub open: Option<bool>,
    /// How deep it lies.
    pub depth: u16,
    /// What it says.
    pub what: What,
}

/// What a line says; shares are of the wall time of the role's main thread, 0–1.
#[derive(Debug, Clone)]
pub enum What {
    /// A role.
    Role {
        /// Whose.
        who: Who,
        /// Rank, where there are several trainers.
        rank: Option<usize>,
        /// Processes of it that were looked into, and all of it.
        looked: (usize, usize),
        /// Samples by activity.
        activities: Activities,
    },
    /// What it does, by activity.
    Activities {
        /// Samples by activity.
        activities: Activities,
        /// Share in validation loops.
        validation: f64,
    },
    /// A function.
    Function {
        /// Share.
        share: f64,
        /// What the thread does there.
        activity: Activity,
        /// The user's own code.
        user: bool,
        /// Name, raw.
        name: Arc<str>,
        /// Path, raw.
        file: Arc<str>,
        /// Its most frequent line.
        line: u32,
    },
    /// A line of a function.
    Line {
        /// Share.
        share: f64,
        /// Number.
        number: u32,
        /// Source, raw.
        text: Option<Arc<str>>,
        /// Of the samples there: share blocked in a wait.
        blocked: f64,
    },
    /// Functions that are not listed.
    Rest {
        /// How many.
        functions: usize,
        /// Share of everything that is not listed.
        share: f64,
    },
    /// The lines that wait for the device.
    SyncLines {
        /// How many there are; nothing where no stacks were judged.
        count: Option<usize>,
    },
    /// One of them.
    Sync {
        /// Share.
        share: f64,
        /// Function.
        function: String,
        /// File.
        file: String,
        /// Line.
        line: u32,
        /// Source, raw, where it was seen.
        text: Option<Arc<str>>,
    },
}

/// The lines of the page; `turned` holds the parts that are not as they are at first.
pub fn rows(recent: &Recent, job: &Job, turned: &HashSet<Key>) -> Vec<Row> {
    let mut out = Outline { rows: Vec::new(), turned };
    let several = recent.trainers.len() > 1;
    // Ranks are counted in the order of the frame: the attached one first.
    let order = job.frame().into_iter().flat_map(|frame| &frame.trainers).map(|trainer| trainer.id).zip(0..);
    let order: HashMap<ProcessId, usize> = order.collect();
    let mut trainers: Vec<(usize, &ProcessId, &Sum)> =
        recent.trainers.iter().map(|(id, sum)| (order.get(id).copied().unwrap_or(usize::MAX), id, sum)).collect();
    trainers.sort_by_key(|(rank, id, _)| (*rank, **id));
    for (place, (rank, id, sum)) in trainers.iter().enumerate() {
        let rank = Some(*rank).filter(|rank| several && *rank != usize::MAX);
        let open = place == 0 || trainers.len() <= OPEN;
        out.role(Who::Trainer(**id), rank, (1, 1), sum, open, 0);
    }
    if !recent.workers.is_empty() {
        let all = job.frame().map_or(0, |frame| frame.workers.len()).max(recent.workers.len());
        if out.role(Who::Workers, None, (recent.workers.len(), all), &recent.all_workers, true, 0) {
            for (id, sum) in &recent.workers {
                out.role(Who::Worker(*id), None, (1, 1), sum, false, 1);
            }
        }
    }
    out.sync_lines(recent, job);
    out.rows
}

struct Outline<'a> {
    rows: Vec<Row>,
    turned: &'a HashSet<Key>,
}

impl Outline<'_> {
    /// Adds a line that can be unfolded and tells whether it is.
    fn part(&mut self, key: Key, depth: u16, open: bool, what: What) -> bool {
        let open = open != self.turned.contains(&key);
        self.rows.push(Row { key, open: Some(open), depth, what });
        open
    }

    fn push(&mut self, key: Key, depth: u16, what: What) {
        self.rows.push(Row { key, open: None, depth, what });
    }

    fn role(
        &mut self,
        who: Who,
        rank: Option<usize>,
        looked: (usize, usize),
        sum: &Sum,
        open: bool,
        depth: u16,
    ) -> bool {
        let what = What::Role { who, rank, looked, activities: sum.main };
        if !self.part(Key::Role(who), depth, open, what) {
            return false;
        }
        let validation = sum.share(sum.validation);
        self.push(Key::Activities(who), depth + 1, What::Activities { activities: sum.main, validation });
        let mut listed = 0.0;
        let mut count = 0;
        for function in sum.functions.iter().take(FUNCTIONS) {
            let share = sum.share(function.samples);
            if share < LEAST {
                break;
            }
            listed += share;
            count += 1;
            self.function(who, sum, function, share, depth + 1);
        }
        let (functions, share) = (sum.functions.len().saturating_sub(count), (1.0 - listed).max(0.0));
        if functions > 0 || share >= LEAST {
            self.push(Key::Rest(who), depth + 1, What::Rest { functions, share });
        }
        true
    }

    fn function(&mut self, who: Who, sum: &Sum, function: &Function, share: f64, depth: u16) {
        let Function { file, name, user, lines, .. } = function;
        let key = Key::Function(who, Arc::clone(file), Arc::clone(name));
        let what = What::Function {
            share,
            activity: function.activity(),
            user: *user,
            name: Arc::clone(name),
            file: Arc::clone(file),
            line: lines.first().map_or(0, |line| line.number),
        };
        if !self.part(key, depth, false, what) {
            return;
        }
        for line in lines.iter().take(LINES) {
            let key = Key::Line(who, Arc::clone(file), Arc::clone(name), line.number);
            let what = What::Line {
                share: sum.share(line.samples),
                number: line.number,
                text: line.text.clone(),
                blocked: f64::from(line.blocked) / f64::from(line.samples.max(1)),
            };
            self.push(key, depth + 1, what);
        }
    }

    /// The verdict's list; the source text is that of the stacks seen lately.
    fn sync_lines(&mut self, recent: &Recent, job: &Job) {
        let main = job.verdict().and_then(|verdict| verdict.main_thread.as_ref());
        if main.is_none() && recent.trainers.is_empty() {
            return;
        }
        let lines = main.map(|main| main.sync_lines.as_slice()).unwrap_or_default();
        let what = What::SyncLines { count: main.map(|_| lines.len()) };
        if !self.part(Key::SyncLines, 0, true, what) {
            return;
        }
        for line in lines {
            let what = What::Sync {
                share: line.share,
                function: line.function.clone(),
                file: line.file.clone(),
                line: line.line,
                text: text_of(recent, &line.file, line.line),
            };
            self.push(Key::Sync(line.file.clone(), line.function.clone(), line.line), 1, what);
        }
    }
}

/// Source of a line that the verdict names by the last part of its path.
fn text_of(recent: &Recent, file: &str, line: u32) -> Option<Arc<str>> {
    let functions = recent.trainers.values().flat_map(|sum| &sum.functions);
    let mut there = functions.filter(|function| function.file.rsplit('/').next() == Some(file));
    there.find_map(|function| function.lines.iter().find(|l| l.number == line)?.text.clone())
}
