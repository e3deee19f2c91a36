//! Python stacks → what each process was doing: counts of samples by activity, and the functions of the user's own code.
//!
//! The main thread of a trainer and that of a data worker are read by different rules, see [`of_trainer`] and
//! [`of_worker`]. A stack says where a thread was, not whether it ran: how much of a time was spent blocked is the fast
//! lane's to tell.

mod marks;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::sample::stacks::{is_installed, is_user_code};
use crate::sample::{JobSample, ProcessId, ProcessRole, StackFrame, StackWindow, StacksSample, ThreadStacks};
use marks::{Mark, last_part, mark};

/// Most places kept of one window.
const PLACES: usize = 32;

/// What a thread was doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Activity {
    /// Trainer: waiting for a batch. Worker: waiting for an index.
    Waiting,
    /// Trainer: taking a batch over, unpickling it.
    Receiving,
    /// Trainer: making an iterator, starting workers.
    LoaderStart,
    /// Waiting for a queue of the program's own.
    QueueWait,
    /// Reading samples.
    Load,
    /// Decoding them.
    Decode,
    /// Transforming them.
    Transform,
    /// Collating them to a batch.
    Collate,
    /// Sending a batch.
    HandOver,
    /// Moving a batch to the device.
    Copy,
    /// Forward pass.
    Forward,
    /// Backward pass.
    Backward,
    /// Optimizer, scheduler, gradient clipping and scaling.
    Optimizer,
    /// Waiting for the device in a call that is there for it.
    Sync,
    /// Collectives.
    Collective,
    /// Saving state.
    Checkpoint,
    /// Logging, metrics, progress bars, callbacks.
    Report,
    /// Compiling.
    Compile,
    /// Importing modules.
    Import,
    /// A compiled call that holds the whole step and the fetching of its batch (Keras on TensorFlow).
    Graph,
    /// Anything else: the user's own code, the framework's.
    Python,
}

impl Activity {
    /// All of them, in order.
    pub const ALL: [Self; 21] = [
        Self::Waiting,
        Self::Receiving,
        Self::LoaderStart,
        Self::QueueWait,
        Self::Load,
        Self::Decode,
        Self::Transform,
        Self::Collate,
        Self::HandOver,
        Self::Copy,
        Self::Forward,
        Self::Backward,
        Self::Optimizer,
        Self::Sync,
        Self::Collective,
        Self::Checkpoint,
        Self::Report,
        Self::Compile,
        Self::Import,
        Self::Graph,
        Self::Python,
    ];
    /// How many there are.
    pub const COUNT: usize = Self::ALL.len();

    /// Position in arrays by activity.
    #[must_use]
    pub fn index(self) -> usize {
        self as usize
    }

    /// The word of the JSON and the screen.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Receiving => "receiving",
            Self::LoaderStart => "loader_start",
            Self::QueueWait => "queue_wait",
            Self::Load => "load",
            Self::Decode => "decode",
            Self::Transform => "transform",
            Self::Collate => "collate",
            Self::HandOver => "hand_over",
            Self::Copy => "copy",
            Self::Forward => "forward",
            Self::Backward => "backward",
            Self::Optimizer => "optimizer",
            Self::Sync => "sync",
            Self::Collective => "collective",
            Self::Checkpoint => "checkpoint",
            Self::Report => "report",
            Self::Compile => "compile",
            Self::Import => "import",
            Self::Graph => "graph",
            Self::Python => "python",
        }
    }
}

/// Samples by activity; in JSON an object with the activities that were seen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "BTreeMap<Activity, u32>", into = "BTreeMap<Activity, u32>")]
pub struct Activities([u32; Activity::COUNT]);

impl From<BTreeMap<Activity, u32>> for Activities {
    fn from(map: BTreeMap<Activity, u32>) -> Self {
        let mut activities = Self::default();
        map.into_iter().for_each(|(activity, samples)| activities.add(activity, samples));
        activities
    }
}

impl From<Activities> for BTreeMap<Activity, u32> {
    fn from(activities: Activities) -> Self {
        let seen = Activity::ALL.map(|activity| (activity, activities.get(activity)));
        seen.into_iter().filter(|(_, samples)| *samples > 0).collect()
    }
}

impl Activities {
    /// Samples of one activity.
    #[must_use]
    pub fn get(&self, activity: Activity) -> u32 {
        self.0.get(activity.index()).copied().unwrap_or(0)
    }

    /// Samples in all.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.iter().map(|samples| u64::from(*samples)).sum()
    }

    /// Adds samples.
    pub fn add(&mut self, activity: Activity, samples: u32) {
        if let Some(count) = self.0.get_mut(activity.index()) {
            *count = count.saturating_add(samples);
        }
    }

    /// Adds another count.
    pub fn merge(&mut self, other: &Self) {
        for (sum, samples) in self.0.iter_mut().zip(other.0) {
            *sum = sum.saturating_add(samples);
        }
    }
}

/// A line of code and how often a thread was in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// Function, as the sampler names it; raw.
    pub function: Arc<str>,
    /// Path; raw.
    pub file: Arc<str>,
    /// Line, 0 where unknown.
    pub line: u32,
    /// That line of the source, where it could be read; raw.
    pub text: Option<Arc<str>>,
    /// What the thread was doing there.
    pub activity: Activity,
    /// It is the user's own code.
    pub user: bool,
    /// Samples.
    pub samples: u32,
    /// Of them: nothing was called from there, as far as Python tells.
    pub leaf: u32,
    /// Of them: blocked in a wait of the standard library that was called from there.
    #[serde(default)]
    pub blocked: u32,
}

/// One process over one window of its sampler.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProcessStacks {
    /// Which process.
    pub id: ProcessId,
    /// What it does in the job.
    pub role: ProcessRole,
    /// Its main thread's samples by activity.
    pub main: Activities,
    /// Of them, in a validation loop.
    pub validation: u32,
    /// Of them, loading a batch in the training process itself.
    pub inline: u32,
    /// Samples of the thread that sends batches, and of them those in which it was sending.
    pub feeder: (u32, u32),
    /// Places of the main thread, the most frequent first, at most 32.
    pub places: Vec<Place>,
}

/// Every window of the sample whose process is a trainer or a worker of the job.
pub(super) fn fold(stacks: Option<&StacksSample>, job: Option<&JobSample>) -> Vec<ProcessStacks> {
    let (Some(stacks), Some(job)) = (stacks, job) else { return Vec::new() };
    let folded = stacks.windows.iter().filter_map(|window| {
        let process = job.processes.iter().find(|process| process.id == window.process)?;
        match process.role {
            ProcessRole::Trainer => Some(process_stacks(window, ProcessRole::Trainer)),
            ProcessRole::Worker => Some(process_stacks(window, ProcessRole::Worker)),
            _ => None,
        }
    });
    folded.collect()
}

fn process_stacks(window: &StackWindow, role: ProcessRole) -> ProcessStacks {
    let marks: Vec<Mark> = window.frames.iter().map(mark).collect();
    let mut out = ProcessStacks { id: window.process, role, ..ProcessStacks::default() };
    let main = main_thread(window);
    let mut places: HashMap<(usize, Activity), [u32; 3]> = HashMap::new();
    for stack in main.map_or(&[][..], |thread| &thread.stacks) {
        let seen: Vec<Seen<'_>> = stack
            .frames
            .iter()
            .filter_map(|at| {
                let at = usize::try_from(*at).ok()?;
                Some(Seen { at, frame: window.frames.get(at)?, mark: *marks.get(at)? })
            })
            .collect();
        if seen.is_empty() {
            continue;
        }
        let activity = match role {
            ProcessRole::Worker => of_worker(&seen),
            _ => of_trainer(&seen),
        };
        out.main.add(activity, stack.samples);
        if role == ProcessRole::Trainer {
            if is_validation(&seen) {
                out.validation = out.validation.saturating_add(stack.samples);
            }
            if is_sample(activity) {
                out.inline = out.inline.saturating_add(stack.samples);
            }
        }
        if let Some((place, leaf)) = place(&seen) {
            let blocked = seen.first().is_some_and(|first| first.mark == Mark::Wait);
            let counts = places.entry((place, activity)).or_default();
            for (count, counts_here) in counts.iter_mut().zip([true, leaf, blocked]) {
                *count = count.saturating_add(if counts_here { stack.samples } else { 0 });
            }
        }
    }
    out.places = ranked(window, places);
    out.feeder = feeder(window, &marks);
    out
}

/// Python's main thread, or the one whose ID is the PID.
fn main_thread(window: &StackWindow) -> Option<&ThreadStacks> {
    window
        .threads
        .iter()
        .find(|thread| &*thread.name == "MainThread")
        .or_else(|| window.threads.iter().find(|thread| thread.tid == Some(window.process.pid)))
}

/// A frame of a stack.
struct Seen<'a> {
    at: usize,
    frame: &'a StackFrame,
    mark: Mark,
}

impl Seen<'_> {
    fn is_user(&self) -> bool {
        is_user_code(&self.frame.file)
    }
}

fn is_sample(activity: Activity) -> bool {
    matches!(activity, Activity::Load | Activity::Decode | Activity::Transform | Activity::Collate)
}

/// What a trainer's main thread was doing; `stack` is leaf first.
///
/// Inside the loader the leaf tells waiting from receiving, and a `fetch` in this process means that it loads itself.
/// Elsewhere the innermost known frame decides: an optimizer of a framework calls the whole step as a closure, so the
/// outermost would always be the optimizer.
fn of_trainer(stack: &[Seen<'_>]) -> Activity {
    let has = |wanted: Mark| stack.iter().any(|seen| seen.mark == wanted);
    if let Some(fetch) = stack.iter().position(|seen| seen.mark == Mark::Fetch) {
        return stage(stack, fetch);
    }
    let waits = stack.first().is_some_and(|leaf| leaf.mark == Mark::Wait);
    if has(Mark::LoaderStart) {
        return Activity::LoaderStart;
    }
    if has(Mark::LoaderNext) {
        return if waits { Activity::Waiting } else { Activity::Receiving };
    }
    if has(Mark::Import) {
        return Activity::Import;
    }
    // A queue that the program itself reads batches from: a thread of its own fills it.
    let takes = stack.first().is_some_and(|leaf| matches!(leaf.mark, Mark::Wait | Mark::Connection | Mark::QueueGet));
    if takes && has(Mark::QueueGet) {
        return Activity::QueueWait;
    }
    let known = stack.iter().find_map(|seen| match seen.mark {
        Mark::Collective => Some(Activity::Collective),
        Mark::Backward => Some(Activity::Backward),
        Mark::Optimizer => Some(Activity::Optimizer),
        Mark::Sync => Some(Activity::Sync),
        Mark::Copy => Some(Activity::Copy),
        Mark::Checkpoint => Some(Activity::Checkpoint),
        Mark::Compile => Some(Activity::Compile),
        Mark::Report => Some(Activity::Report),
        Mark::Graph => Some(Activity::Graph),
        Mark::Forward => Some(Activity::Forward),
        _ => None,
    });
    let saves = || stack.iter().any(|seen| seen.is_user() && named_for_saving(last_part(&seen.frame.function)));
    match known {
        Some(Activity::Report) | None if saves() => Activity::Checkpoint,
        Some(activity) => activity,
        None if makes_batches(stack) => sample_stage(stack),
        None if near_leaf(stack).any(|seen| named_for_sync(last_part(&seen.frame.function))) => Activity::Sync,
        None => Activity::Python,
    }
}

/// What a data worker's main thread was doing; `stack` is leaf first.
fn of_worker(stack: &[Seen<'_>]) -> Activity {
    if let Some(fetch) = stack.iter().position(|seen| seen.mark == Mark::Fetch) {
        return stage(stack, fetch);
    }
    let has = |wanted: Mark| stack.iter().any(|seen| seen.mark == wanted);
    if has(Mark::Import) {
        return Activity::Import;
    }
    if has(Mark::QueueGet) {
        return Activity::Waiting;
    }
    if has(Mark::QueuePut) {
        return Activity::HandOver;
    }
    if has(Mark::WorkerLoop) {
        return Activity::Python;
    }
    // Workers of other loaders: a wait is a wait for work, anything else is work.
    if stack.first().is_some_and(|leaf| leaf.mark == Mark::Wait) {
        return Activity::Waiting;
    }
    sample_stage(stack)
}

/// The stage of a stack through `fetch`, which stands at `fetch`: what it called tells data set from collate function.
fn stage(stack: &[Seen<'_>], fetch: usize) -> Activity {
    let inside = stack.get(..fetch).unwrap_or_default();
    if collates(inside.last(), stack.get(fetch)) { Activity::Collate } else { sample_stage(inside) }
}

/// Whether `fetch` called the collate function. The text of its own line says so where it could be read. Else by name:
/// a data set is asked through special methods, so a plain function is a collate function.
fn collates(called: Option<&Seen<'_>>, fetch: Option<&Seen<'_>>) -> bool {
    if let Some(text) = fetch.and_then(|fetch| fetch.frame.text.as_deref()) {
        return text.contains("collate_fn(");
    }
    let Some(called) = called else { return false };
    if called.mark == Mark::Collate {
        return true;
    }
    let name = last_part(&called.frame.function);
    const DATA_SET: [&str; 8] =
        ["__getitem__", "__getitems__", "__next__", "__iter__", "<listcomp>", "<genexpr>", "fetch", "listcomp"];
    !DATA_SET.contains(&name)
}

/// Load, decode or transform: the innermost frame that is known for one of them decides, by its place in a library or,
/// for the innermost function of the user's own code, by its name or the text of its line.
fn sample_stage(inside: &[Seen<'_>]) -> Activity {
    let own = inside.iter().position(Seen::is_user);
    for (depth, seen) in inside.iter().enumerate() {
        match seen.mark {
            Mark::Decode => return Activity::Decode,
            Mark::Load => return Activity::Load,
            _ => {}
        }
        // Functions further out call several stages: their names tell no more than that.
        if own == Some(depth)
            && let Some(stage) = stage_by_words(seen.frame, depth == 0)
        {
            return stage;
        }
    }
    Activity::Transform
}

/// The stage that the user's own function is named for, or that its innermost line calls for.
fn stage_by_words(frame: &StackFrame, leaf: bool) -> Option<Activity> {
    let name = last_part(&frame.function).to_ascii_lowercase();
    let words: Vec<&str> = name.split('_').filter(|word| !word.is_empty()).collect();
    let begins = |verbs: &[&str]| words.first().is_some_and(|first| verbs.contains(first));
    if words.iter().any(|word| matches!(*word, "decode" | "decoded" | "decoding" | "decompress" | "imdecode")) {
        return Some(Activity::Decode);
    }
    if begins(&["load", "read", "fetch", "download", "open", "loader", "recv", "receive"]) {
        return Some(Activity::Load);
    }
    if begins(&["transform", "augment", "preprocess", "normalize", "resize", "crop"]) {
        return Some(Activity::Transform);
    }
    let text = frame.text.as_deref().filter(|_| leaf)?;
    const DECODES: [&str; 8] =
        ["imdecode", "imread(", "decode_jpeg", "decode_png", "decode_image", "read_image", ".decode(", "decompress("];
    const LOADS: [&str; 16] = [
        ".read(",
        ".readinto(",
        ".readline",
        "open(",
        "np.load(",
        "np.fromfile(",
        "numpy.fromfile(",
        "fromfile(",
        "pread(",
        "preadv(",
        ".recv(",
        ".recv_into(",
        "requests.",
        "urlopen(",
        "read_bytes(",
        "os.read(",
    ];
    if DECODES.iter().any(|call| text.contains(call)) {
        return Some(Activity::Decode);
    }
    LOADS.iter().any(|call| text.contains(call)).then_some(Activity::Load)
}

/// A framework's evaluation loop, a function under `torch.no_grad()`, or a function of the user named for it.
fn is_validation(stack: &[Seen<'_>]) -> bool {
    // torch's optimizers run under no_grad too, and so do parts of frameworks: only the user's own functions count.
    let mut below_context = false;
    stack.iter().rev().any(|seen| {
        let by_context = std::mem::take(&mut below_context) && seen.is_user();
        below_context = seen.mark == Mark::NoGrad;
        by_context
            || seen.mark == Mark::Validation
            || (seen.is_user() && named_for_validation(last_part(&seen.frame.function)))
    })
}

/// A loader of the user's own in the training process. Iterators and data sets are called through
/// special methods; plain functions are known by names like `get_batch` or `load_sample`.
fn makes_batches(stack: &[Seen<'_>]) -> bool {
    stack.iter().any(|seen| seen.is_user() && named_for_batches(last_part(&seen.frame.function)))
}

fn named_for_batches(name: &str) -> bool {
    if ["__next__", "__getitem__", "__getitems__", "__iter__", "batches", "dataloader", "data_loader"].contains(&name)
    {
        return true;
    }
    const VERBS: [&str; 9] = ["get", "next", "load", "read", "fetch", "make", "generate", "iter", "iterate"];
    const THINGS: [&str; 9] =
        ["batch", "batches", "minibatch", "minibatches", "sample", "samples", "example", "examples", "dataset"];
    let name = name.trim_start_matches('_').to_ascii_lowercase();
    let mut words = name.split('_');
    words.next().is_some_and(|first| VERBS.contains(&first)) && words.any(|word| THINGS.contains(&word))
}

/// The three innermost frames of the user's own code: what is further out is the loop, not what it waits in.
fn near_leaf<'a, 'b>(stack: &'b [Seen<'a>]) -> impl Iterator<Item = &'b Seen<'a>> {
    stack.iter().filter(|seen| seen.is_user()).take(3)
}

/// A wrapper of the user's own around the wait for the device.
fn named_for_sync(name: &str) -> bool {
    const NAMES: [&str; 8] = [
        "synchronize",
        "sync",
        "cuda_sync",
        "cuda_synchronize",
        "gpu_sync",
        "device_sync",
        "sync_device",
        "device_synchronize",
    ];
    NAMES.contains(&name.trim_start_matches('_'))
}

/// `save_checkpoint`, `checkpoint`, `save_state`, `snapshot_model`.
fn named_for_saving(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let mut words = name.split('_').filter(|word| !word.is_empty());
    let first = words.clone().next();
    words.any(|word| matches!(word, "checkpoint" | "ckpt"))
        || matches!(first, Some("save" | "snapshot"))
            && ["state", "model", "weights", "snapshot"].iter().any(|what| name.contains(what))
}

fn named_for_validation(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let words = || name.split('_');
    // `train_and_evaluate` is the whole run.
    words().any(|word| matches!(word, "validate" | "validation" | "evaluate" | "evaluation" | "eval" | "val"))
        && !words().any(|word| matches!(word, "train" | "training" | "fit" | "main" | "run" | "and"))
}

/// The frame that a stack is put down to: the innermost one of the user's own code, else the innermost outside the
/// standard library, else the leaf; and whether it is the leaf.
fn place(stack: &[Seen<'_>]) -> Option<(usize, bool)> {
    let installed = || stack.iter().position(|seen| is_installed(&seen.frame.file));
    let found = stack.iter().position(Seen::is_user).or_else(installed);
    let at = found.unwrap_or(0);
    Some((stack.get(at)?.at, at == 0))
}

fn ranked(window: &StackWindow, places: HashMap<(usize, Activity), [u32; 3]>) -> Vec<Place> {
    let mut ranked: Vec<Place> = places
        .into_iter()
        .filter_map(|((at, activity), [samples, leaf, blocked])| {
            let frame = window.frames.get(at)?;
            Some(Place {
                function: Arc::clone(&frame.function),
                file: Arc::clone(&frame.file),
                line: frame.line,
                text: frame.text.clone(),
                activity,
                user: is_user_code(&frame.file),
                samples,
                leaf,
                blocked,
            })
        })
        .collect();
    // Equal counts in the order of their names: the same samples must give the same verdict.
    ranked.sort_by(|a, b| {
        b.samples.cmp(&a.samples).then_with(|| (&a.file, a.line, a.activity).cmp(&(&b.file, b.line, b.activity)))
    });
    ranked.truncate(PLACES);
    ranked
}

/// Samples of the threads that pickle and send batches, and those in which they did.
fn feeder(window: &StackWindow, marks: &[Mark]) -> (u32, u32) {
    let mut count = (0_u32, 0_u32);
    for thread in &window.threads {
        for stack in &thread.stacks {
            let mark = |at: &u32| usize::try_from(*at).ok().and_then(|at| marks.get(at)).copied();
            if !stack.frames.iter().any(|at| mark(at) == Some(Mark::QueueFeed)) {
                continue;
            }
            count.0 = count.0.saturating_add(stack.samples);
            if stack.frames.first().and_then(mark) != Some(Mark::Wait) {
                count.1 = count.1.saturating_add(stack.samples);
            }
        }
    }
    count
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
#[path = "stacks_tests.rs"]
mod tests;
