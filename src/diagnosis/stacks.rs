//! What the stacks of the last minute amount to, and how they sharpen what the fast lane saw.
//!
//! The fast lane knows how long a thread was blocked, and in what, to within a few points; the stacks know where in the
//! code it was. So the lane gives the time and the stacks split it: a main thread that is not in the data poll may still
//! be inside the loader (receiving a batch, loading it itself), and a worker that is not idle is in one of its stages.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::rates::Frame;
use crate::rates::stacks::{Activities, Activity, Place, ProcessStacks};
use crate::sample::{ProcessId, ProcessRole};
use crate::text::sanitise;

use super::thresholds as limit;
use super::verdict::{Hottest, MainThread, Stages};
use super::window::{MainWindow, WorkerWindow};

/// Samples of a main thread from which its stacks are believed, and how many samples' weight the lane's own estimate
/// keeps beside them.
const ENOUGH: u64 = 15;
const PRIOR: f64 = 6.0;
/// Samples' weight that all workers together have beside a worker's own: they run the same code, and one of many is
/// looked into seldom.
const POOLED: f64 = 8.0;
/// Waits that only the stacks know of, as a share, from which they are believed against the lane: beyond chance.
const UNKNOWN_WAIT: f64 = 0.2;
/// Entries in lists of functions.
const TOP: usize = 5;

/// Stacks of one process, summed up.
#[derive(Debug, Clone, Default)]
pub struct ProcessSum {
    /// Main thread's samples by activity.
    pub main: Activities,
    /// Of them, in a validation loop.
    pub validation: u32,
    /// Of them, loading in the training process.
    pub inline: u32,
    /// Samples of the sending threads, and those in which they sent.
    pub feeder: (u32, u32),
    /// Places.
    places: BTreeMap<(Arc<str>, u32, Activity), Place>,
}

impl ProcessSum {
    fn add(&mut self, stacks: &ProcessStacks) {
        let ProcessStacks { main, validation, inline, feeder, .. } = stacks;
        self.add_counts(main, *validation, *inline, *feeder);
        stacks.places.iter().for_each(|place| self.add_place(place));
    }

    fn add_sum(&mut self, other: &Self) {
        self.add_counts(&other.main, other.validation, other.inline, other.feeder);
        other.places.values().for_each(|place| self.add_place(place));
    }

    fn add_counts(&mut self, main: &Activities, validation: u32, inline: u32, feeder: (u32, u32)) {
        self.main.merge(main);
        self.validation = self.validation.saturating_add(validation);
        self.inline = self.inline.saturating_add(inline);
        self.feeder = (self.feeder.0.saturating_add(feeder.0), self.feeder.1.saturating_add(feeder.1));
    }

    fn add_place(&mut self, place: &Place) {
        let known = self
            .places
            .entry((Arc::clone(&place.file), place.line, place.activity))
            .or_insert_with(|| Place { samples: 0, leaf: 0, blocked: 0, ..place.clone() });
        known.samples = known.samples.saturating_add(place.samples);
        known.leaf = known.leaf.saturating_add(place.leaf);
        known.blocked = known.blocked.saturating_add(place.blocked);
    }

    /// Samples of the main thread that were not waits for a batch (trainer) or for work (worker).
    #[must_use]
    pub fn active(&self) -> u64 {
        self.main.total().saturating_sub(self.main.get(Activity::Waiting).into())
    }
}

/// All stacks of a window.
#[derive(Debug, Clone, Default)]
pub struct StacksWindow {
    /// Trainers.
    pub trainers: BTreeMap<ProcessId, ProcessSum>,
    /// Workers.
    pub workers: BTreeMap<ProcessId, ProcessSum>,
}

impl StacksWindow {
    /// Sums up the frames' stacks.
    pub fn of<'a>(frames: impl IntoIterator<Item = &'a Frame>) -> Self {
        let mut out = Self::default();
        for stacks in frames.into_iter().flat_map(|frame| &frame.stacks) {
            out.of_role(stacks.role).entry(stacks.id).or_default().add(stacks);
        }
        out
    }

    fn of_role(&mut self, role: ProcessRole) -> &mut BTreeMap<ProcessId, ProcessSum> {
        if role == ProcessRole::Worker { &mut self.workers } else { &mut self.trainers }
    }

    /// Sums up the stacks of frames that end after `from_ns`, and the newest ones of each process that has none there.
    /// `frames` are oldest first.
    #[must_use]
    pub fn newest(frames: &[&Frame], from_ns: u64) -> Self {
        let mut out = Self::default();
        for frame in frames.iter().rev() {
            let old = frame.monotonic_ns < from_ns;
            for stacks in &frame.stacks {
                let sums = out.of_role(stacks.role);
                if !(old && sums.contains_key(&stacks.id)) {
                    sums.entry(stacks.id).or_default().add(stacks);
                }
            }
        }
        out
    }

    /// The trainers' stacks as one; those of one rank where `only` names it.
    #[must_use]
    pub fn main(&self, only: Option<ProcessId>) -> ProcessSum {
        sum(self.trainers.iter().filter(|(id, _)| only.is_none_or(|only| **id == only)).map(|(_, sum)| sum))
    }

    /// All workers' stacks as one.
    #[must_use]
    pub fn all_workers(&self) -> ProcessSum {
        sum(self.workers.values())
    }
}

fn sum<'a>(parts: impl Iterator<Item = &'a ProcessSum>) -> ProcessSum {
    let mut out = ProcessSum::default();
    parts.for_each(|part| out.add_sum(part));
    out
}

/// What the main thread did, as shares of its wall time.
#[derive(Debug, Clone, Default)]
pub struct MainActivities {
    /// Share by activity; adds up to 1.
    pub shares: BTreeMap<Activity, f64>,
    /// Share loading batches in the training process.
    pub inline: f64,
    /// Share in validation loops.
    pub validation: f64,
    /// Of the time outside the loader: the share of the line that holds most of it, where nothing was called from there,
    /// and that line.
    pub line: Option<(f64, Place)>,
    /// Stack samples that this rests on.
    pub samples: u32,
    /// Functions, largest share first.
    pub hottest: Vec<Hottest>,
    /// Lines that wait for the device.
    pub sync_lines: Vec<Hottest>,
}

impl MainActivities {
    /// Share of one activity.
    #[must_use]
    pub fn share(&self, activity: Activity) -> f64 {
        self.shares.get(&activity).copied().unwrap_or(0.0)
    }

    /// Share in the model and what trains it: forward, backward, optimizer, copies, collectives.
    #[must_use]
    pub fn of_model(&self) -> f64 {
        let parts = [Activity::Forward, Activity::Backward, Activity::Optimizer, Activity::Copy];
        parts.into_iter().map(|part| self.share(part)).sum()
    }

    /// Share outside of getting batches.
    #[must_use]
    pub fn outside(&self) -> f64 {
        1.0 - self.shares.iter().filter(|(activity, _)| is_input(**activity)).map(|(_, share)| share).sum::<f64>()
    }

    /// Share at lines that wait for the device.
    #[must_use]
    pub fn sync_share(&self) -> f64 {
        self.sync_lines.iter().map(|line| line.share).sum()
    }

    /// For the verdict.
    #[must_use]
    pub fn verdict(&self) -> MainThread {
        MainThread {
            activities: self
                .shares
                .iter()
                .map(|(activity, share)| (activity.word().to_owned(), round(*share)))
                .filter(|(_, share)| *share > 0.0)
                .collect(),
            hottest: self.hottest.clone(),
            sync_lines: self.sync_lines.clone(),
            samples: self.samples,
        }
    }
}

/// Whether the activity is a part of getting a batch.
fn is_input(activity: Activity) -> bool {
    matches!(
        activity,
        Activity::Waiting
            | Activity::Receiving
            | Activity::LoaderStart
            | Activity::QueueWait
            | Activity::Load
            | Activity::Decode
            | Activity::Transform
            | Activity::Collate
    )
}

/// Whether it lies in the `next()` of the loader's iterator: making the iterator does not.
fn in_next(activity: Activity) -> bool {
    is_input(activity) && activity != Activity::LoaderStart
}

/// Corrects the main thread's shares by its stacks, and says what it did. `None`, and nothing changed, where there are too
/// few samples.
///
/// With Lp the lane's share in the data poll, the rest 1 − Lp is split by the samples that are no waits for a batch. What
/// `next()` has of them (receiving, loading in the process itself) is input wait too; the lane's own estimate counts like
/// [`PRIOR`] samples.
pub fn refine(main: &mut MainWindow, stacks: &ProcessSum) -> Option<MainActivities> {
    let total = stacks.main.total();
    if total < ENOUGH {
        return None;
    }
    let waiting = f64::from(stacks.main.get(Activity::Waiting)) / total as f64;
    let polled = main.polled.min(main.shares.input_wait).clamp(0.0, 1.0);
    // Loaders that wait in another way than torch's: the lane does not know their waits. And where the thread queues for a
    // CPU after its wait is over, the lane sees it running while the code still stands in the wait.
    let queues = (main.run_delay.unwrap_or(0.0) * 4.0).clamp(0.0, 1.0);
    let polled =
        if waiting - polled > UNKNOWN_WAIT { waiting } else { polled + queues * (waiting - polled).max(0.0) };
    let rest = 1.0 - polled;
    let active = stacks.active() as f64;
    let estimate = if rest > 0.0 { ((main.shares.input_wait - polled) / rest).max(0.0) } else { 0.0 };
    let part = |samples: u32| {
        if active > 0.0 { rest * f64::from(samples) / active } else { 0.0 }
    };
    let count = |wanted: &dyn Fn(Activity) -> bool| {
        let all = Activity::ALL.into_iter().filter(|activity| *activity != Activity::Waiting && wanted(*activity));
        all.map(|activity| u64::from(stacks.main.get(activity))).sum::<u64>()
    };
    let weigh = |samples: u64, prior: f64| rest * (samples as f64 + PRIOR * prior) / (active + PRIOR);
    let input = polled + weigh(count(&in_next), estimate);
    // The lane takes a main thread that writes a lot for one that saves state; stacks know a heavy log from that.
    let saving = count(&|activity| activity == Activity::Checkpoint);
    let written = main.disk_write.min(main.shares.checkpoint);
    let checkpoint = if saving > 0 {
        let lane = if rest > 0.0 { main.shares.checkpoint / rest } else { 0.0 };
        weigh(saving, lane).max(written)
    } else {
        written
    };
    let before = main.shares;
    shift(main, input, checkpoint);
    main.running = (main.running - (main.shares.input_wait - before.input_wait).max(0.0)).max(0.0);

    let mut shares: BTreeMap<Activity, f64> = Activity::ALL
        .into_iter()
        .filter(|activity| *activity != Activity::Waiting)
        .map(|activity| (activity, part(stacks.main.get(activity))))
        .filter(|(_, share)| *share > 0.0)
        .collect();
    shares.insert(Activity::Waiting, 1.0 - shares.values().sum::<f64>());
    let outside: u64 = count(&|activity| !is_input(activity));
    let own = stacks.places.values().filter(|place| !is_input(place.activity));
    let line = own
        .clone()
        .filter(|place| place.user && place.leaf > 0)
        .max_by_key(|place| (place.leaf, std::cmp::Reverse(place.line)))
        .filter(|_| outside > 0)
        .map(|place| (f64::from(place.leaf) / outside as f64, place.clone()));
    Some(MainActivities {
        inline: part(stacks.inline).min(1.0),
        validation: (f64::from(stacks.validation) / total as f64).min(1.0),
        line,
        samples: u32::try_from(total).unwrap_or(u32::MAX),
        hottest: functions(
            stacks.places.values().filter(|place| !loader_only(place.activity)),
            &|samples| round(part(samples)),
            TOP,
        ),
        sync_lines: sync_lines(stacks, &part, before.device_sync),
        shares,
    })
}

/// Time that no function of the user's is to blame for.
fn loader_only(activity: Activity) -> bool {
    matches!(activity, Activity::Waiting | Activity::Receiving | Activity::LoaderStart | Activity::QueueWait)
}

/// Moves the shares to the given input wait and checkpoint: what is more is taken from the host's work first, then from
/// what is not known; what is less goes to the host's work.
fn shift(main: &mut MainWindow, input: f64, checkpoint: f64) {
    let shares = &mut main.shares;
    let mut wanted = (input - shares.input_wait) + (checkpoint - shares.checkpoint);
    shares.input_wait = input;
    shares.checkpoint = checkpoint;
    for from in [&mut shares.host_busy, &mut shares.other, &mut shares.device_sync] {
        let taken = wanted.min(*from);
        *from -= taken;
        wanted -= taken;
        if wanted.abs() < 1e-12 {
            break;
        }
    }
    // Where nothing was left to take it from, the parts are made to fit.
    let parts = shares.map(|part| part.max(0.0));
    if let Some(fitting) = parts.shares_of(parts.total()) {
        *shares = fitting;
    }
}

/// Lines at which the host waits for the device: calls that are there for it, lines that are leaves again and again while
/// their text reads a value back, and, where the lane saw waits for the device, lines that were blocked.
fn sync_lines(stacks: &ProcessSum, part: &dyn Fn(u32) -> f64, device_sync: f64) -> Vec<Hottest> {
    let samples = |place: &Place| {
        if place.activity == Activity::Sync {
            return place.samples;
        }
        let candidate = matches!(
            place.activity,
            Activity::Python | Activity::Forward | Activity::Optimizer | Activity::Copy | Activity::Report
        );
        if !(candidate && place.user) {
            return 0;
        }
        let read_back = if place.text.as_deref().is_some_and(reads_back) { place.leaf } else { 0 };
        read_back.max(if device_sync >= limit::LOST_WAIT.value { place.blocked } else { 0 })
    };
    let places = stacks.places.values().filter(|place| !is_input(place.activity));
    let mut lines: Vec<(&Place, u32)> = places.map(|place| (place, samples(place))).collect();
    lines.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| (&a.0.file, a.0.line).cmp(&(&b.0.file, b.0.line))));
    lines
        .into_iter()
        .take(TOP)
        .map(|(place, samples)| hottest(place, round(part(samples))))
        .filter(|line| line.share >= 0.005)
        .collect()
}

/// Calls of torch and JAX that wait for the device without a Python frame of their own. `float()`, `bool()` and `print()`
/// of a tensor do too, but of anything else they do not.
fn reads_back(text: &str) -> bool {
    const CALLS: [&str; 11] = [
        ".item()",
        ".cpu()",
        ".tolist()",
        ".numpy()",
        "synchronize(",
        ".nonzero(",
        "torch.nonzero(",
        ".to(\"cpu\"",
        ".to('cpu'",
        "masked_select(",
        "block_until_ready(",
    ];
    CALLS.iter().any(|call| text.contains(call))
}

/// The largest functions, the user's own first, each at its most frequent line.
fn functions<'a>(places: impl Iterator<Item = &'a Place>, share: &dyn Fn(u32) -> f64, most: usize) -> Vec<Hottest> {
    let mut by_function: BTreeMap<(bool, &str, &str), Function<'_>> = BTreeMap::new();
    for place in places {
        let key = (!place.user, &*place.file, &*place.function);
        let function = by_function.entry(key).or_insert(Function { samples: 0, most: 0, place });
        function.samples = function.samples.saturating_add(place.samples);
        if place.samples > function.most {
            (function.most, function.place) = (place.samples, place);
        }
    }
    let mut ranked: Vec<Function<'_>> = by_function.into_values().collect();
    // A library's function is named only where it holds far more than any of the user's: by default it is theirs that can
    // be changed. Equal ones stay in the order of their names.
    ranked.sort_by_key(|function| {
        let weight = if function.place.user { function.samples } else { function.samples / 3 };
        std::cmp::Reverse(weight)
    });
    ranked
        .into_iter()
        .take(most)
        .map(|function| hottest(function.place, share(function.samples)))
        .filter(|function| function.share >= 0.005)
        .collect()
}

/// A function's samples, and its most frequent line with those of that line.
struct Function<'a> {
    samples: u32,
    most: u32,
    place: &'a Place,
}

fn hottest(place: &Place, share: f64) -> Hottest {
    Hottest {
        function: sanitise(&place.function).into_owned(),
        file: sanitise(place.file.rsplit('/').next().unwrap_or_default()).into_owned(),
        line: place.line,
        share,
    }
}

/// A worker's stages and hottest function. `None` where neither its own stacks nor those of the others tell.
///
/// Its active time is the lane's; stacks split it. What the lane saw blocked is reading, wherever in the data set it
/// stood, for a blocked `read()` has no frame of its own.
pub fn worker_stages(
    worker: &WorkerWindow,
    own: Option<&ProcessSum>,
    pooled: &ProcessSum,
) -> Option<(Stages, Option<Hottest>)> {
    const PARTS: [Activity; 5] =
        [Activity::Load, Activity::Decode, Activity::Transform, Activity::Collate, Activity::HandOver];
    let empty = ProcessSum::default();
    let own = own.unwrap_or(&empty);
    let count = |sum: &ProcessSum, activity: Activity| f64::from(sum.main.get(activity));
    let pooled_active: f64 = PARTS.iter().map(|part| count(pooled, *part)).sum::<f64>() + started(pooled);
    if pooled.main.total() < 10 {
        return None;
    }
    let [_, io_wait, _, idle] = worker.shares?.map(|share| share.clamp(0.0, 1.0));
    let idle = idle_share(own, idle);
    let active = 1.0 - idle;
    let own_active: f64 = PARTS.iter().map(|part| count(own, *part)).sum::<f64>() + started(own);
    let whole = own_active + if pooled_active > 0.0 { POOLED } else { 0.0 };
    let share = |activity: Activity| {
        let of_all = if pooled_active > 0.0 { count(pooled, activity) / pooled_active * POOLED } else { 0.0 };
        if whole > 0.0 { active * (count(own, activity) + of_all) / whole } else { 0.0 }
    };
    let [mut load, mut decode, mut transform, mut collate, put] = PARTS.map(share);
    let mut blocked = (io_wait - load).max(0.0);
    for from in [&mut transform, &mut decode, &mut collate] {
        let taken = blocked.min(*from);
        *from -= taken;
        load += taken;
        blocked -= taken;
    }
    let (looked, sent) = if own.feeder.0 >= 20 { own.feeder } else { pooled.feeder };
    let sending = if looked > 0 { (f64::from(sent) / f64::from(looked)).min(1.0) } else { 0.0 };
    let stages = Stages {
        load: round(load),
        decode: round(decode),
        transform: round(transform),
        collate: round(collate),
        hand_over: round(sending.max(put)),
    };
    let from = if own_active >= 20.0 { own } else { pooled };
    let from_active = if own_active >= 20.0 { own_active } else { pooled_active };
    let places = from.places.values().filter(|place| {
        !matches!(place.activity, Activity::Waiting | Activity::Import | Activity::Python | Activity::HandOver)
    });
    let of_active =
        |samples: u32| if from_active > 0.0 { round(active * f64::from(samples) / from_active) } else { 0.0 };
    Some((stages, functions(places, &of_active, 1).pop()))
}

fn started(sum: &ProcessSum) -> f64 {
    f64::from(sum.main.get(Activity::Import)) + f64::from(sum.main.get(Activity::Python))
}

/// The lane takes a futex for idleness; the stacks know better where they are many and say something else.
fn idle_share(own: &ProcessSum, lane: f64) -> f64 {
    let total = own.main.total();
    let seen = f64::from(own.main.get(Activity::Waiting)) / total.max(1) as f64;
    if total >= 20 && (seen - lane).abs() > 0.25 { seen } else { lane }
}

fn round(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
mod tests {
    use super::*;

    fn place(function: &str, line: u32, activity: Activity, samples: u32, leaf: u32) -> Place {
        Place {
            function: function.into(),
            file: "/home/me/train.py".into(),
            line,
            text: None,
            activity,
            user: true,
            samples,
            leaf,
            blocked: 0,
        }
    }

    fn sum_of(samples: &[(Activity, u32)], places: Vec<Place>) -> ProcessSum {
        let mut stacks = ProcessStacks { places, ..ProcessStacks::default() };
        samples.iter().for_each(|(activity, samples)| stacks.main.add(*activity, *samples));
        let mut sum = ProcessSum::default();
        sum.add(&stacks);
        sum
    }

    fn main(input: f64, polled: f64, host: f64) -> MainWindow {
        let mut main = MainWindow { polled, running: host, ..MainWindow::default() };
        main.shares.input_wait = input;
        main.shares.host_busy = host;
        main.shares.other = 1.0 - input - host;
        main
    }

    #[test]
    fn receiving_is_waiting() {
        // Half of the time in the poll; of the rest three quarters receive batches.
        let mut window = main(0.5, 0.5, 0.5);
        let stacks = sum_of(&[(Activity::Waiting, 200), (Activity::Receiving, 150), (Activity::Forward, 50)], vec![]);
        let activities = refine(&mut window, &stacks).unwrap();
        assert!((window.shares.input_wait - 0.864).abs() < 0.01, "{:?}", window.shares);
        assert!((window.shares.host_busy - 0.136).abs() < 0.01);
        assert!((activities.share(Activity::Waiting) - 0.5).abs() < 1e-9);
        assert!((activities.share(Activity::Receiving) - 0.375).abs() < 1e-9);
        assert!((activities.shares.values().sum::<f64>() - 1.0).abs() < 1e-9);
    }

    #[test]
    fn too_few_samples_change_nothing() {
        let mut window = main(0.5, 0.5, 0.5);
        assert!(refine(&mut window, &sum_of(&[(Activity::Receiving, 10)], vec![])).is_none());
        assert_eq!(window.shares.input_wait, 0.5);
    }

    #[test]
    fn loading_in_process_is_input_wait() {
        let mut window = main(0.02, 0.0, 0.97);
        let mut stacks = sum_of(&[(Activity::Decode, 80), (Activity::Load, 10), (Activity::Forward, 10)], vec![]);
        stacks.inline = 90;
        let activities = refine(&mut window, &stacks).unwrap();
        assert!(window.shares.input_wait > 0.8 && window.running < 0.2);
        assert!((activities.inline - 0.9).abs() < 1e-9);
    }

    #[test]
    fn a_blocked_worker_reads() {
        let worker = WorkerWindow { pid: 1, shares: Some([0.3, 0.5, 0.0, 0.2]), ..WorkerWindow::default() };
        let own = sum_of(
            &[(Activity::Waiting, 20), (Activity::Transform, 70), (Activity::Collate, 10)],
            vec![
                place("dilate", 7, Activity::Transform, 60, 60),
                place("Set.__getitem__", 3, Activity::Transform, 10, 1),
            ],
        );
        let (stages, hottest) = worker_stages(&worker, Some(&own), &own).unwrap();
        assert!((stages.load - 0.5).abs() < 0.01 && (stages.transform - 0.2).abs() < 0.01, "{stages:?}");
        assert!((stages.collate - 0.1).abs() < 0.01);
        let hottest = hottest.unwrap();
        assert_eq!((hottest.function.as_str(), hottest.file.as_str(), hottest.line), ("dilate", "train.py", 7));
        assert!((hottest.share - 0.6).abs() < 0.01);
    }

    #[test]
    fn an_idle_worker_without_stacks_of_its_own_takes_the_others() {
        let worker = WorkerWindow { pid: 1, shares: Some([0.5, 0.0, 0.0, 0.5]), ..WorkerWindow::default() };
        let others = sum_of(&[(Activity::Decode, 100)], vec![place("decode", 9, Activity::Decode, 100, 0)]);
        let (stages, hottest) = worker_stages(&worker, None, &others).unwrap();
        assert!((stages.decode - 0.5).abs() < 0.01);
        assert!((hottest.unwrap().share - 0.5).abs() < 0.01);
        assert!(worker_stages(&worker, None, &ProcessSum::default()).is_none());
    }

    #[test]
    fn a_line_that_reads_back_is_a_sync_line() {
        let mut line = place("train", 12, Activity::Python, 50, 50);
        line.text = Some("total += loss.item()".into());
        let other = place("metrics", 30, Activity::Python, 50, 20);
        let mut window = main(0.0, 0.0, 1.0);
        let activities = refine(&mut window, &sum_of(&[(Activity::Python, 100)], vec![line, other])).unwrap();
        let verdict = activities.verdict();
        assert_eq!(verdict.sync_lines.len(), 1);
        assert_eq!(verdict.sync_lines[0].line, 12);
        assert_eq!(activities.line.unwrap().1.line, 12);
        assert_eq!(verdict.hottest.len(), 2);
    }
}
