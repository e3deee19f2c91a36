//! Python stacks → what each process was doing: counts of samples by activity, and the functions of the user's own
//! code.
//!
//! A stack shows where a thread was, not whether it ran; how long it was blocked is known from the sampler.
//! [`correction`] combines the two, once, for frames and verdicts alike.

mod activity;
mod answers;
mod call_tree;
mod called;
pub mod correction;
mod helpers;
mod patterns;
mod reading;
pub mod sums;
mod threads;
mod validation;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use crate::taxonomy::Activity;
pub use activity::Activities;
pub use call_tree::{CallTree, CodeCall};
use called::{calls_of_worker, code};
use helpers::{Did, at_work, is_wait_in_fetch, meanwhile};
use patterns::{Pattern, in_mixed_precision, pattern};
pub(super) use reading::is_in_loader;
pub use reading::is_sleep;
use reading::{KnownFrame, Step, has, rank_activity, reads_data, step_in, waits, worker_activity};
pub(super) use threads::{PythonThread, python_threads};
use trainmon_rates::levels::NEARLY_ALL;
use trainmon_sample::loop_profile::TRACE_FILE;
use trainmon_sample::stacks::{is_installed, is_user_code};
use trainmon_sample::{
    FrameLocals, JobSample, ProcessId, ProcessRole, StackCount, StackFrame, StackWindow, StacksSample, ThreadStacks,
};
use validation::{ValidationSign, is_named_for_validation, validation_sign};

/// Most places kept for one window.
const PLACES: usize = 32;

/// A line of code, and how often a thread was in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CodePlace {
    /// Function, as named by py-spy; raw.
    pub function: Arc<str>,
    /// Path; raw.
    pub file: Arc<str>,
    /// Line; 0 if unknown.
    pub line: u32,
    /// The text of that source line, if readable; raw.
    pub text: Option<Arc<str>>,
    /// What the thread was doing there.
    pub activity: Activity,
    /// Whether it is the user's own code.
    pub user: bool,
    /// Samples.
    pub samples: u32,
    /// Of these: nothing was called from there, as far as Python shows.
    pub leaf: u32,
    /// Of these: blocked in a wait of the standard library called from there.
    #[serde(default)]
    pub blocked: u32,
}

/// One process over one window of the stack sampler or over several, or several processes as one: see [`sums`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProcessStacks {
    /// Which process.
    pub id: ProcessId,
    /// What it does in the job.
    pub role: ProcessRole,
    /// The samples of its loop or first thread by activity.
    pub main: Activities,
    /// Of these: in a validation loop.
    pub validation: u32,
    /// Of the validation samples: those recognized only by `torch.no_grad()`.
    pub under_no_grad: u32,
    /// Of the validation samples: those recognized only by the name of a user function.
    pub by_name: u32,
    /// Samples that get a batch, outside a validation loop.
    pub fed: u32,
    /// Samples of what the loop itself calls in its steps and is named for a validation, and those of them in the model.
    pub validates_in_step: (u32, u32),
    /// Validation samples in the model: averaging weights under `no_grad` is not validation.
    pub validated: u32,
    /// Of these: in torch's `fetch`, so that its loader makes batches in this very thread.
    pub in_fetch: u32,
    /// Samples of its own work that read something.
    pub reads: u32,
    /// Windows that show both this and the model at work.
    pub read_in_turn: u32,
    /// A frame of torch's mixed precision was among them.
    pub mixed: bool,
    /// Samples of the thread that sends batches, and how many of them were sending.
    pub queue_thread: (u32, u32),
    /// For a server: samples in which the user's code answered a request, in its first thread or others.
    pub answering: u32,
    /// For a training process: samples of its other threads at work in Python, and how many of them show batches being
    /// made.
    pub aside: (u32, u32),
    /// For a training process: samples of its other threads in what a library fits a model with.
    pub fits_aside: u32,
    /// Places of the loop's or first thread: for one window the most frequent first, at most 32; for a sum in the order
    /// of files and lines.
    pub places: Vec<CodePlace>,
    /// The calls of its loop's or first thread, without its waits for batches, the GPU and other ranks; for a worker, those that
    /// make batches.
    pub calls: CallTree,
    /// For a training process: the calls of its other threads that make batches or fit a model.
    pub calls_aside: CallTree,
    /// For a training process: the libraries that run its loop or hand out its batches, by name, with the samples of each.
    pub libraries: BTreeMap<Arc<str>, u32>,
}

/// Every window of the sample whose process trains or is a worker of the job. `loop_of` says which thread of a training
/// process runs the loop, and which of its frames takes steps.
pub(super) fn fold<'a>(
    stacks: Option<&StacksSample>,
    job: &JobSample,
    loop_of: impl Fn(ProcessId) -> (Option<u32>, Option<&'a FrameLocals>),
) -> Vec<ProcessStacks> {
    let windows = stacks.into_iter().flat_map(|stacks| &stacks.windows);
    let folded = windows.filter_map(|window| {
        let process = job.processes.iter().find(|process| process.id == window.process)?;
        let looked_at = matches!(process.role, ProcessRole::Rank | ProcessRole::Worker);
        looked_at.then(|| process_stacks(window, process.role, loop_of(process.id)))
    });
    folded.collect()
}

/// A window that another tool recorded of a training process.
pub(super) fn of_profile(window: &StackWindow) -> ProcessStacks {
    let mut stacks = process_stacks(window, ProcessRole::Rank, (None, None));
    // What stands for no code is no line to name.
    stacks.places.retain(|place| &*place.file != TRACE_FILE);
    stacks
}

fn process_stacks(
    window: &StackWindow,
    role: ProcessRole,
    (tid, stepping): (Option<u32>, Option<&FrameLocals>),
) -> ProcessStacks {
    let patterns = patterns(window);
    let is_rank = role == ProcessRole::Rank;
    let mut out = ProcessStacks { id: window.process, role, ..ProcessStacks::default() };
    let aside = tid.filter(|tid| *tid != window.process.pid);
    let of_loop = window.threads.iter().find(|thread| aside.is_some() && thread.tid == aside);
    let main = of_loop.or_else(|| if aside.is_none() { main_thread(window) } else { None });
    let mut places: HashMap<(usize, Activity), CodePlace> = HashMap::new();
    let mut note = |place: Option<(usize, bool)>, activity, samples, blocked| {
        let Some((at, leaf)) = place else { return };
        let Some(frame) = window.frames.get(at) else { return };
        let place = places.entry((at, activity)).or_insert_with(|| CodePlace::new(frame, activity));
        tally(samples, [(&mut place.samples, true), (&mut place.leaf, leaf), (&mut place.blocked, blocked)]);
    };
    let mut done: Vec<(Activity, &StackCount)> = Vec::new();
    let mut waits_for_threads: Vec<Did> = Vec::new();
    let stacks = main.map_or(&[][..], |thread| &thread.stacks);
    let loops = if is_rank { loops(window, &patterns, stacks) } else { BTreeMap::new() };
    for stack in stacks {
        let mut seen = seen(window, &patterns, stack);
        if seen.is_empty() {
            continue;
        }
        seen.iter_mut().for_each(|seen| seen.note_steps(loops.get(&function(seen.frame))));
        let activity = if is_rank { rank_activity(&seen) } else { worker_activity(&seen) };
        let sign = if is_rank { validation_sign(&seen, stepping) } else { None };
        out.count(&seen, activity, sign, stack.samples);
        if !is_rank && is_wait_in_fetch(&seen, activity) {
            waits_for_threads.push(Did { activity, place: place(&seen), samples: stack.samples });
            continue;
        }
        out.main.add(activity, stack.samples);
        note(place(&seen), activity, stack.samples, waits(&seen));
        done.push((activity, stack));
    }
    if is_rank {
        out.add_code(window, &patterns, main, &done);
    } else {
        out.calls = calls_of_worker(window, &patterns, &done);
    }
    let waited = waits_for_threads.iter().fold(0_u32, |sum, did| sum.saturating_add(did.samples));
    let theirs = meanwhile(window, &patterns, main, waited);
    let blocked = theirs.is_empty();
    for did in if blocked { waits_for_threads } else { theirs } {
        out.main.add(did.activity, did.samples);
        note(did.place, did.activity, did.samples, blocked);
    }
    out.places = ranked(places.into_values().collect());
    out.mixed = window.frames.iter().any(in_mixed_precision);
    out.queue_thread = queue_thread(window, &patterns);
    if is_rank {
        let aside = at_work(window, &patterns, main);
        (out.aside, out.fits_aside, out.calls_aside) = ((aside.works, aside.makes_batches), aside.fits, aside.calls);
    }
    out
}

/// As many samples of something may be stacks that changed while they were read.
const TORN: u32 = 2;
/// Windows in which a loop reads and computes: the end of a preparation is one or two.
const TURNS_SEEN: u32 = 3;

impl ProcessStacks {
    /// The calls and the libraries of a training process whose loop's thread did this; of a server, those of all its threads.
    fn add_code(
        &mut self,
        window: &StackWindow,
        patterns: &[Pattern],
        main: Option<&ThreadStacks>,
        done: &[(Activity, &StackCount)],
    ) {
        self.read_in_turn = u32::from(self.reads > 0 && self.main.samples_where(Activity::is_model) > 0);
        (self.calls, self.libraries) = code(window, done);
        if let Some((server, part)) = answers::around_aside(window, main) {
            let samples = (f64::from(self.calls.samples) * part).round() as u32;
            add_library(&mut self.libraries, server, samples);
        }
        let Some(answered) = answers::answered(window, patterns, self.calls.samples) else { return };
        self.answering = (self.main.total() as f64 * answered.answering).round() as u32;
        if !answered.calls.calls.is_empty() {
            self.calls = answered.calls;
        }
        for (name, samples) in answered.libraries {
            let known = self.libraries.entry(name.into()).or_default();
            *known = (*known).max(samples);
        }
    }

    /// Samples by activity. What reads is loading, once it was seen to take turns with the model: before that it may prepare the run, and
    /// where a loader hands out the batches, it reads something else, like an answer to what the loop has sent.
    pub fn activities(&self) -> Activities {
        use Activity::{LoaderStart, Receiving, Waiting};
        let mut activities = self.main;
        let by_loader =
            self.in_fetch > 0 || [LoaderStart, Receiving, Waiting].iter().any(|one| self.main.get(*one) > 0);
        if self.read_in_turn >= TURNS_SEEN && !by_loader {
            activities.move_samples(Activity::Python, Activity::Load, self.reads);
        }
        activities
    }

    /// Whether the loop does nothing but validate: no training, and no batches outside of it.
    pub fn only_validates(&self) -> bool {
        let trains = [self.main.get(Activity::Backward), self.main.get(Activity::Optimizer), self.fed];
        let all = self.main.total() as f64;
        let torn = trains.into_iter().fold(0, u32::saturating_add) <= TORN;
        self.validation > 0 && f64::from(self.validation) >= NEARLY_ALL * all && torn
    }

    /// Counts samples of a stack by what it shows besides an activity.
    fn count(&mut self, seen: &[KnownFrame<'_>], activity: Activity, sign: Option<ValidationSign>, samples: u32) {
        let is_rank = self.role == ProcessRole::Rank;
        let is_fed = is_rank && sign.is_none() && activity.is_input();
        let in_step = is_rank && sign.is_none() && is_named_for_validation(seen);
        let counts = [
            (&mut self.validates_in_step.0, in_step),
            (&mut self.validates_in_step.1, in_step && activity == Activity::Forward),
            (&mut self.reads, is_rank && activity == Activity::Python && reads_data(seen)),
            (&mut self.in_fetch, has(seen, Pattern::Fetch)),
            (&mut self.validation, sign.is_some()),
            (&mut self.under_no_grad, sign == Some(ValidationSign::NoGrad)),
            (&mut self.by_name, sign == Some(ValidationSign::Name)),
            (&mut self.validated, sign.is_some() && activity == Activity::Forward),
            (&mut self.fed, is_fed),
        ];
        tally(samples, counts);
    }
}

/// Adds samples to those of a library.
fn add_library(libraries: &mut BTreeMap<Arc<str>, u32>, name: &str, samples: u32) {
    match libraries.get_mut(name) {
        Some(known) => *known = known.saturating_add(samples),
        None => drop(libraries.insert(name.into(), samples)),
    }
}

/// The patterns of a window's frames, in their order.
fn patterns(window: &StackWindow) -> Vec<Pattern> {
    window.frames.iter().map(pattern).collect()
}

/// Adds the samples to each count whose condition holds.
fn tally<const N: usize>(samples: u32, counts: [(&mut u32, bool); N]) {
    for (count, _) in counts.into_iter().filter(|(_, holds)| *holds) {
        *count = count.saturating_add(samples);
    }
}

/// Python's name for a file's own code.
pub const MODULE: &str = "<module>";

/// A function: its file and its name.
fn function(frame: &StackFrame) -> (&str, &str) {
    (&frame.file, &frame.function)
}

/// The user's functions that take steps: the loop, whatever its name; and whether the model learns in them. A wait for the GPU shows
/// a step only for the outermost one, since a function that saves state may wait for the GPU first.
fn loops<'a>(
    window: &'a StackWindow,
    patterns: &[Pattern],
    stacks: &[StackCount],
) -> BTreeMap<(&'a str, &'a str), bool> {
    let mut loops = BTreeMap::new();
    let mut add = |function, learns: bool| *loops.entry(function).or_default() |= learns;
    for seen in stacks.iter().map(|stack| seen(window, patterns, stack)) {
        let users = seen.iter().filter(|seen| seen.is_user()).map(|seen| function(seen.frame));
        let mut users = users.filter(|(_, name)| *name != MODULE);
        match step_in(&seen) {
            Some(Step::Model { learns }) => users.for_each(|user| add(user, learns)),
            Some(Step::Wait) => users.next_back().into_iter().for_each(|user| add(user, false)),
            None => {}
        }
    }
    loops
}

/// A stack's frames, leaf first, with their patterns.
fn seen<'a>(window: &'a StackWindow, patterns: &[Pattern], stack: &StackCount) -> Vec<KnownFrame<'a>> {
    let of = |at: &u32| {
        let at = usize::try_from(*at).ok()?;
        Some(KnownFrame {
            at,
            frame: window.frames.get(at)?,
            pattern: *patterns.get(at)?,
            is_loop: false,
            learns: false,
        })
    };
    stack.frames.iter().filter_map(of).collect()
}

impl CodePlace {
    /// A frame's line, without samples.
    fn new(frame: &StackFrame, activity: Activity) -> Self {
        Self {
            function: Arc::clone(&frame.function),
            file: Arc::clone(&frame.file),
            line: frame.line,
            text: frame.text.clone(),
            activity,
            user: is_user_code(&frame.file),
            samples: 0,
            leaf: 0,
            blocked: 0,
        }
    }
}

/// Python's `MainThread`, or the thread whose ID is the PID.
fn main_thread(window: &StackWindow) -> Option<&ThreadStacks> {
    window
        .threads
        .iter()
        .find(|thread| &*thread.name == "MainThread")
        .or_else(|| window.threads.iter().find(|thread| thread.tid == Some(window.process.pid)))
}

/// The frame that a stack is attributed to: the innermost one of the user's own code, else the innermost outside the
/// standard library, else the leaf; and whether it is the leaf.
fn place(stack: &[KnownFrame<'_>]) -> Option<(usize, bool)> {
    let installed = || stack.iter().position(|seen| is_installed(&seen.frame.file));
    let found = stack.iter().position(KnownFrame::is_user).or_else(installed);
    let at = found.unwrap_or(0);
    Some((stack.get(at)?.at, at == 0))
}

fn ranked(mut places: Vec<CodePlace>) -> Vec<CodePlace> {
    // Equal counts in the order of their names: the same samples must give the same verdict.
    places.sort_by(|a, b| b.samples.cmp(&a.samples).then_with(|| a.key().cmp(&b.key())));
    places.truncate(PLACES);
    places
}

/// Samples of the threads that pickle and send batches, and how many of them were sending.
fn queue_thread(window: &StackWindow, patterns: &[Pattern]) -> (u32, u32) {
    let mut count = (0_u32, 0_u32);
    for stack in window.threads.iter().flat_map(|thread| &thread.stacks) {
        let seen = seen(window, patterns, stack);
        let feeds = has(&seen, Pattern::QueueFeed);
        tally(stack.samples, [(&mut count.0, feeds), (&mut count.1, feeds && !waits(&seen))]);
    }
    count
}

#[cfg(test)]
#[path = "stacks_tests.rs"]
mod tests;
