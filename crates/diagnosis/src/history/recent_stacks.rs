//! The stacks of the last half minute before the moment shown, added up by process, function and line.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::archive::{Archive, Moment, MomentId};
use trainmon_sample::{ProcessId, ProcessRole};
use trainmon_waits::stacks::{Activities, Activity, CodePlace, ProcessStacks};

/// Seconds that are added up.
pub const LOOKED_BACK_S: f64 = 30.0;
/// How far back to look for the newest stacks of a process without any in the span, seconds: with many workers, each is
/// sampled rarely.
const REACH_S: f64 = 120.0;
/// Maximum number of past moments unpacked at once.
const UNPACKED: usize = 60;
/// Maximum functions kept for a process, and lines for a function: far more than a person reads.
const FUNCTIONS_KEPT: usize = 512;
const LINES_KEPT: usize = 64;

/// A function of one process, or of all workers.
#[derive(Debug, Clone, Default)]
pub struct Function {
    /// Path; raw.
    pub file: Arc<str>,
    /// Name; raw.
    pub name: Arc<str>,
    /// Whether it is the user's own code.
    pub user: bool,
    /// Samples in it.
    pub samples: u32,
    /// Samples by the thread's activity.
    pub activities: Activities,
    /// Its lines, most samples first.
    pub lines: Vec<CodePlace>,
}

impl Function {
    /// The thread's most frequent activity there.
    pub fn activity(&self) -> Activity {
        let most = Activity::ALL.into_iter().rev().max_by_key(|activity| self.activities.get(*activity));
        most.unwrap_or(Activity::Python)
    }
}

/// What one thread, or the same thread of several processes, did.
#[derive(Debug, Clone, Default)]
pub struct Sum {
    /// Samples by activity.
    pub main: Activities,
    /// How many of them were in a validation loop.
    pub validation: u32,
    /// Functions, most samples first.
    pub functions: Vec<Function>,
    places: HashMap<(Arc<str>, Arc<str>), usize>,
}

impl Sum {
    /// Samples as a share of the thread's wall time, 0–1.
    pub fn share(&self, samples: u32) -> f64 {
        let total = self.main.total();
        if total > 0 { (f64::from(samples) / total as f64).min(1.0) } else { 0.0 }
    }

    fn add(&mut self, stacks: &ProcessStacks) {
        self.main.merge(&stacks.main);
        self.validation = self.validation.saturating_add(stacks.validation);
        stacks.places.iter().for_each(|place| self.add_place(place));
    }

    fn add_place(&mut self, place: &CodePlace) {
        let key = (Arc::clone(&place.file), Arc::clone(&place.function));
        let at = *self.places.entry(key).or_insert(self.functions.len());
        if at >= FUNCTIONS_KEPT {
            return;
        }
        if at == self.functions.len() {
            let (file, name) = (Arc::clone(&place.file), Arc::clone(&place.function));
            self.functions.push(Function { file, name, user: place.user, ..Function::default() });
        }
        let Some(function) = self.functions.get_mut(at) else { return };
        function.samples = function.samples.saturating_add(place.samples);
        function.activities.add(place.activity, place.samples);
        if let Some(line) = function.lines.iter_mut().find(|line| line.line == place.line) {
            line.samples = line.samples.saturating_add(place.samples);
            line.blocked = line.blocked.saturating_add(place.blocked);
            if line.text.is_none() {
                line.text.clone_from(&place.text);
            }
        } else if function.lines.len() < LINES_KEPT {
            function.lines.push(place.clone());
        }
    }

    /// Sorts the largest first; equal ones keep the order of their names.
    fn rank(&mut self) {
        self.places = HashMap::new();
        self.functions
            .sort_by(|a, b| b.samples.cmp(&a.samples).then_with(|| (&a.file, &a.name).cmp(&(&b.file, &b.name))));
        for function in &mut self.functions {
            function.lines.sort_by_key(|line| (std::cmp::Reverse(line.samples), line.line));
        }
    }
}

/// Recent samples.
#[derive(Debug, Clone, Default)]
pub struct RecentStacks {
    /// The training loops of the ranks.
    pub ranks: BTreeMap<ProcessId, Sum>,
    /// The workers, one by one.
    pub workers: BTreeMap<ProcessId, Sum>,
    /// The workers together.
    pub all_workers: Sum,
    /// Seconds from the newest stacks to the moment shown.
    pub age_s: Option<f64>,
    /// Seconds of available past, at most [`LOOKED_BACK_S`].
    pub span_s: f64,
}

/// Stacks of recent moments, kept so that the next step in time does not unpack them again.
#[derive(Debug, Clone, Default)]
pub struct Unpacked {
    moments: HashMap<MomentId, Vec<ProcessStacks>>,
}

impl RecentStacks {
    /// Recent samples at a moment of an archive; `unpacked` is of the same archive.
    pub fn gather(shown: &Moment, archive: &Archive, unpacked: &mut Unpacked) -> Self {
        let mut out = Self::default();
        let mut before = std::mem::take(&mut unpacked.moments);
        let now_ns = shown.frame.monotonic_ns;
        let mut loads = 0;
        for id in (0..=shown.id.0).rev().map(MomentId) {
            let Some(stamp) = archive.stamp(id) else { break };
            let stacks = match before.remove(&id) {
                Some(stacks) => stacks,
                None if !stamp.has_stacks => Vec::new(),
                None if loads >= UNPACKED => break,
                None => {
                    loads += 1;
                    archive.load(id).map(|moment| moment.frame.stacks.clone()).unwrap_or_default()
                }
            };
            if !out.take(stamp.monotonic_ns, &stacks, now_ns) {
                break;
            }
            if !stacks.is_empty() {
                unpacked.moments.insert(id, stacks);
            }
        }
        let one_by_one = out.ranks.values_mut().chain(out.workers.values_mut());
        one_by_one.chain([&mut out.all_workers]).for_each(Sum::rank);
        out
    }

    /// Adds the stacks of a frame; frames come newest first. Returns false once they are too old.
    fn take(&mut self, ns: u64, stacks: &[ProcessStacks], now_ns: u64) -> bool {
        // A clock that went backward ends the series too.
        let ago = now_ns.checked_sub(ns).map(|ns| ns as f64 / 1e9).filter(|ago| *ago <= REACH_S);
        let Some(ago) = ago else { return false };
        self.span_s = self.span_s.max(ago.min(LOOKED_BACK_S));
        for stacks in stacks {
            let sums = if stacks.role == ProcessRole::Worker { &mut self.workers } else { &mut self.ranks };
            if ago > LOOKED_BACK_S && sums.contains_key(&stacks.id) {
                continue;
            }
            self.age_s.get_or_insert(ago);
            sums.entry(stacks.id).or_default().add(stacks);
            if stacks.role == ProcessRole::Worker {
                self.all_workers.add(stacks);
            }
        }
        true
    }
}
