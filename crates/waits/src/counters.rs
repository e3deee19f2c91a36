//! Which of a job's local variables may leave memory: those that count. Any other whole number could be a PIN or a card
//! number, and is neither recorded nor shown. How far a loop has come is a count, and so is what moves and is called like one. The
//! number of turns in all, where a variable beside a counter has a name for it, is kept.
//!
//! Readings are held back until a variable has counted up the way [`super::loop_variable`] requires of a step counter,
//! by the very same rule. Then the readings so far are passed on at once, with the values of that variable alone, so
//! steps are counted as early as if every number had been passed on.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use super::loop_variable::{EPOCH, LARGEST_COUNT, OLDEST_NS, READINGS, TOTALS, is_named_as_count, moves, rate};
use trainmon_libraries::Library;
use trainmon_sample::locals::{LOOPS, UNKNOWN_TURNS};
use trainmon_sample::{LocalsSample, ProcessId, Sample};

/// Most numbers considered in one reading, the first thread's outermost ones first: they are kept for [`READINGS`].
const MOST_NUMBERS: usize = 1024;
/// Most processes whose numbers are kept.
const PROCESSES: usize = 64;

/// A variable: the thread, the depth of its frame, function, file, name.
type Variable = (Option<u32>, usize, Arc<str>, Arc<str>, Arc<str>);

/// The variables of the job's processes.
#[derive(Debug, Default)]
pub struct Counters(HashMap<ProcessId, LastReading>);

/// What is kept for one process.
#[derive(Debug, Default)]
struct LastReading {
    /// The last readings, oldest first.
    readings: VecDeque<LocalsSample>,
    /// The values of each variable in them: CLOCK_MONOTONIC in nanoseconds, value.
    values: HashMap<Variable, VecDeque<(u64, i64)>>,
    counters: HashSet<Variable>,
}

impl Counters {
    /// Keeps the counters in a new sample and removes all other numbers.
    pub fn filter(&mut self, sample: &mut Sample) {
        if let Some(job) = &sample.job {
            self.0.retain(|id, _| job.processes.iter().any(|process| process.id == *id));
        }
        let Some(stacks) = sample.stacks.as_mut().filter(|stacks| !stacks.locals.is_empty()) else { return };
        let stacks = Arc::make_mut(stacks);
        for read in std::mem::take(&mut stacks.locals) {
            if self.0.len() < PROCESSES || self.0.contains_key(&read.process) {
                stacks.locals.extend(self.0.entry(read.process).or_default().take(read));
            }
        }
        if stacks.locals.is_empty() && stacks.windows.is_empty() {
            sample.stacks = None;
        }
    }
}

impl LastReading {
    /// Takes a new reading, and returns the readings that are new or have new counters, oldest first.
    fn take(&mut self, mut read: LocalsSample) -> Vec<LocalsSample> {
        truncate(&mut read);
        let all: Vec<(Variable, i64)> = variables(&read).collect();
        // py-spy does not stop the program: a half-written value may rule out a variable, but is not passed on.
        let numbers = read.threads.iter_mut().flat_map(|thread| &mut thread.frames).map(|frame| &mut frame.numbers);
        numbers.for_each(|numbers| numbers.retain(|(_, value)| (0..=LARGEST_COUNT).contains(value)));
        self.readings.push_back(read.clone());
        let is_old = |at_ns: u64| read.began_ns.saturating_sub(at_ns) > OLDEST_NS;
        while self.readings.len() > READINGS || self.readings.front().is_some_and(|first| is_old(first.began_ns)) {
            self.readings.pop_front();
        }
        let oldest_ns = self.readings.front().map_or(0, |first| first.began_ns);
        self.values.retain(|_, values| {
            while values.front().is_some_and(|(at_ns, _)| *at_ns < oldest_ns) {
                values.pop_front();
            }
            !values.is_empty()
        });
        let mut found_new = false;
        for (variable, value) in all {
            let values = self.values.entry(variable.clone()).or_default();
            values.push_back((read.began_ns, value));
            let name = variable.4.to_lowercase();
            let is_named = LOOPS.contains(&&*name) || name.contains(EPOCH) || is_named_as_count(&name);
            let counts = |values: &mut VecDeque<_>| {
                let values = values.make_contiguous();
                if is_named {
                    moves(values) || values.iter().any(|(_, value)| *value == UNKNOWN_TURNS)
                } else {
                    rate(values).is_some()
                }
            };
            if !self.counters.contains(&variable) && (is_known(&variable) || counts(values)) {
                self.counters.insert(variable);
                found_new = true;
            }
        }
        // A stalled loop is still read: it counts no more steps. A variable of a finished call is not.
        self.counters.retain(|variable| self.values.contains_key(variable));
        match (found_new, self.counters.is_empty()) {
            (_, true) => Vec::new(),
            (true, _) => self.readings.iter().filter_map(|read| only(&self.counters, read)).collect(),
            (false, _) => only(&self.counters, &read).into_iter().collect(),
        }
    }
}

/// Drops everything beyond [`MOST_NUMBERS`].
fn truncate(read: &mut LocalsSample) {
    let mut left = MOST_NUMBERS;
    for frame in read.threads.iter_mut().flat_map(|thread| &mut thread.frames) {
        frame.numbers.truncate(left);
        left -= frame.numbers.len();
    }
}

fn variables(read: &LocalsSample) -> impl Iterator<Item = (Variable, i64)> + '_ {
    let frames = read
        .threads
        .iter()
        .flat_map(|thread| thread.frames.iter().enumerate().map(move |(depth, frame)| (thread.tid, depth, frame)));
    frames.flat_map(|(tid, depth, frame)| {
        frame.numbers.iter().map(move |(name, value)| {
            ((tid, depth, Arc::clone(&frame.function), Arc::clone(&frame.file), Arc::clone(name)), *value)
        })
    })
}

/// Whether it counts by the table of libraries.
fn is_known((_, _, function, file, name): &Variable) -> bool {
    Library::counters(file, function).any(|(_, counter)| *counter.variable == **name)
        || Library::has_tokens(file, name)
}

/// A reading reduced to the threads with counters, and to those counters; `None` if there are no counters.
fn only(counters: &HashSet<Variable>, read: &LocalsSample) -> Option<LocalsSample> {
    let mut read = read.clone();
    read.threads.retain(|thread| counters.iter().any(|(tid, ..)| *tid == thread.tid));
    for thread in &mut read.threads {
        for (depth, frame) in thread.frames.iter_mut().enumerate() {
            let (function, file) = (Arc::clone(&frame.function), Arc::clone(&frame.file));
            let place =
                |name: &Arc<str>| (thread.tid, depth, Arc::clone(&function), Arc::clone(&file), Arc::clone(name));
            let counts = frame.numbers.iter().any(|(name, _)| counters.contains(&place(name)));
            let total = Library::counters(&file, &function).find_map(|(_, counter)| counter.total);
            let is_total = |name: &str| TOTALS.contains(&name) || total == Some(name);
            frame.numbers.retain(|(name, _)| counters.contains(&place(name)) || counts && is_total(name));
        }
    }
    (!read.threads.is_empty()).then_some(read)
}
