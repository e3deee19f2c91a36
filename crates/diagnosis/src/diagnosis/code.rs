//! Stacks → lines and functions of the user's code, and the stages of a worker's time.
//!
//! The sampler gives the time and the stacks split it: a worker that is not idle is in one of its stages.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use trainmon_base::text::sanitize;
use trainmon_waits::stacks::{Activity, CodePlace, ProcessStacks, is_sleep};

use super::parts::{Hottest, Stages};
use trainmon_base::stats::round;

/// Weight, in samples, of all workers' stacks beside a worker's own: they run the same code, and each of many is sampled
/// rarely.
const POOLED: f64 = 8.0;
/// Samples of all workers that are enough to tell their stages.
const ENOUGH_POOLED: u64 = 10;
/// Samples of one process that are enough to judge it by its own stacks alone.
const ENOUGH_OWN: u64 = 20;
/// A share of waiting that only a worker's stacks show, at which they are trusted over the sampler.
const UNKNOWN_WAIT: f64 = 0.25;
/// Samples that a library's function needs for each of the user's own to be named first: by default it is the user's code,
/// which can be changed.
const LIBRARY: u32 = 3;
/// Entries in lists of functions.
const TOP: usize = 5;
/// Functions and lines with less than this share are not named.
const LEAST_SHARE: f64 = 0.005;

/// The parts of the samples at lines that wait for the GPU which count as such waits: at calls made for that, and at other
/// lines that may wait.
#[derive(Debug, Clone, Copy)]
pub(super) struct SyncParts {
    calls: f64,
    lines: f64,
}

impl SyncParts {
    /// All of them.
    pub(super) const ALL: Self = Self { calls: 1.0, lines: 1.0 };

    /// As many as fit into the time that the loop really waits for the GPU, `device_sync`: calls made for that first. A line
    /// that reads a value back also does the rest of its work, such as collecting garbage.
    pub(super) fn within(
        device_sync: f64,
        stacks: &ProcessStacks,
        share: impl Fn(u32) -> f64,
        blocked_waits: bool,
    ) -> Self {
        let (mut calls, mut lines) = (0.0, 0.0);
        for place in &stacks.places {
            let samples = share(syncs(place, blocked_waits));
            *if place.activity == Activity::Sync { &mut calls } else { &mut lines } += samples;
        }
        let part = |of: f64, room: f64| if of > 0.0 { (room.max(0.0) / of).min(1.0) } else { 1.0 };
        Self { calls: part(calls, device_sync), lines: part(lines, device_sync - calls) }
    }

    /// Samples of a place that are waits for the GPU.
    fn samples(self, place: &CodePlace, blocked_waits: bool) -> u32 {
        let part = if place.activity == Activity::Sync { self.calls } else { self.lines };
        (f64::from(syncs(place, blocked_waits)) * part).round() as u32
    }
}

/// Lines that wait for the GPU: calls made for that, lines whose text reads a value back and that are leaves again and again,
/// and, if `blocked_waits`, lines that were blocked while the sampler saw waits for the GPU. `share` is the weight of a
/// number of samples.
pub(super) fn sync_lines(
    stacks: &ProcessStacks,
    share: impl Fn(u32) -> f64,
    blocked_waits: bool,
    parts: SyncParts,
) -> Vec<Hottest> {
    let places = stacks.places.iter().filter(|place| !place.activity.is_input());
    let mut lines: Vec<(&CodePlace, u32)> =
        places.map(|place| (place, parts.samples(place, blocked_waits))).collect();
    lines.sort_by_key(|(place, samples)| (Reverse(*samples), &place.file, place.line));
    let named = lines.into_iter().take(TOP).map(|(place, samples)| hottest(place, share(samples)));
    named.filter(|line| line.share >= LEAST_SHARE).collect()
}

/// Samples of a place that may be waits for the GPU.
fn syncs(place: &CodePlace, blocked_waits: bool) -> u32 {
    if place.activity == Activity::Sync {
        return place.samples;
    }
    let candidate = matches!(
        place.activity,
        Activity::Python
            | Activity::Forward
            | Activity::Optimizer
            | Activity::Copy
            | Activity::Report
            | Activity::OtherWait
    );
    if !(candidate && place.user) {
        return 0;
    }
    let read_back = if place.text.as_deref().is_some_and(reads_back) { place.leaf } else { 0 };
    read_back.max(if blocked_waits { place.blocked } else { 0 })
}

/// Samples of the loop's thread at lines that wait for another thread of the program. A lock in native code has no frame of
/// its own, but its line takes it; joining a thread waits in the standard library.
pub(super) fn at_lock_lines(stacks: &ProcessStacks) -> u32 {
    let samples = |place: &CodePlace| match place.text.as_deref() {
        Some(text) if enters_a_context(text) || text.contains(".acquire(") => place.leaf,
        Some(text) if text.contains(".join(") => place.blocked,
        _ => 0,
    };
    stacks.places.iter().filter(|place| place.user).map(samples).sum()
}

/// The line where the loop sleeps most.
pub(super) fn sleep_line(stacks: &ProcessStacks, share: impl Fn(u32) -> f64) -> Option<Hottest> {
    let sleeps = |place: &&CodePlace| is_sleep(place.text.as_deref(), &place.file, &place.function);
    let most = stacks.places.iter().filter(sleeps).max_by_key(|place| place.samples);
    most.map(|place| hottest(place, share(place.samples)))
}

/// A line `with …:` only enters something: what blocks there is a lock, a condition or a semaphore.
fn enters_a_context(text: &str) -> bool {
    let code = text.split_once(" #").map_or(text, |(code, _)| code);
    code.starts_with("with ") && code.trim_end().ends_with(':')
}

/// Calls of torch and JAX that wait for the GPU without a Python frame of their own. So do `float()`, `bool()` and `print()`
/// of a tensor, but not of anything else.
fn reads_back(text: &str) -> bool {
    const CALLS: &str = ".item() .cpu() .tolist() .numpy() synchronize( .nonzero( torch.nonzero( .to(\"cpu\" .to('cpu' \
                         masked_select( block_until_ready(";
    CALLS.split(' ').any(|call| text.contains(call))
}

/// The loop's hottest functions, without those of the loader, which are not the user's to change.
pub(super) fn hottest_functions(stacks: &ProcessStacks, share: impl Fn(u32) -> f64) -> Vec<Hottest> {
    functions(stacks.places.iter().filter(is_own), share, TOP)
}

/// The hottest of those that make batches.
pub(super) fn hottest_loading(stacks: &ProcessStacks, share: impl Fn(u32) -> f64) -> Option<Hottest> {
    functions(stacks.places.iter().filter(|place| place.activity.is_loading()), share, 1).pop()
}

/// The hottest of them apart from waits for the GPU and for other ranks, at its hottest line.
pub(super) fn hottest_own(
    stacks: &ProcessStacks,
    share: impl Fn(u32) -> f64,
    blocked_waits: bool,
    parts: SyncParts,
) -> Option<Hottest> {
    let works = |place: &CodePlace| CodePlace {
        samples: place.samples.saturating_sub(parts.samples(place, blocked_waits)),
        ..place.clone()
    };
    let places = stacks.places.iter().filter(|place| is_own(place) && place.activity != Activity::Collective);
    let places: Vec<CodePlace> = places.map(works).collect();
    functions(places.iter(), share, 1).pop()
}

fn is_own(place: &&CodePlace) -> bool {
    !place.activity.is_input() || place.activity.is_loading()
}

/// The hottest functions, the user's own first, each at its most frequent line.
fn functions<'a>(
    places: impl Iterator<Item = &'a CodePlace>,
    share: impl Fn(u32) -> f64,
    most: usize,
) -> Vec<Hottest> {
    // The samples of each, and the place with most of them.
    let mut by_function: BTreeMap<(bool, &str, &str), (u32, &CodePlace)> = BTreeMap::new();
    for place in places {
        let key = (!place.user, &*place.file, enclosing(&place.function));
        let (samples, most) = by_function.entry(key).or_insert((0, place));
        *samples = samples.saturating_add(place.samples);
        if place.samples > most.samples {
            *most = place;
        }
    }
    let mut ranked: Vec<(u32, &CodePlace)> = by_function.into_values().collect();
    // Equal ones stay in the order of their names.
    ranked.sort_by_key(|(samples, place)| Reverse(if place.user { *samples } else { samples / LIBRARY }));
    let named = ranked.into_iter().take(most).map(|(samples, place)| hottest(place, share(samples)));
    named.filter(|function| function.share >= LEAST_SHARE).collect()
}

/// The function around a comprehension: before CPython 3.12 a comprehension has a frame of its own (PEP 709).
fn enclosing(function: &str) -> &str {
    const OWN: [&str; 4] = ["<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"];
    match function.rsplit_once('.') {
        Some((outer, inner)) if OWN.contains(&inner) => enclosing(outer.strip_suffix(".<locals>").unwrap_or(outer)),
        _ => function,
    }
}

fn hottest(place: &CodePlace, share: f64) -> Hottest {
    Hottest {
        function: sanitize(enclosing(&place.function)).into_owned(),
        file: sanitize(place.file.rsplit('/').next().unwrap_or_default()).into_owned(),
        line: place.line,
        share: round(share, 3),
    }
}

/// A worker's stages and hottest function. `None` if neither its own stacks nor those of the others are enough.
///
/// Its active time is the sampler's, and stacks split it. What the sampler saw blocked is reading, wherever in the data set it
/// was, because a blocked `read()` has no frame of its own.
pub(super) fn worker_stages(
    io_wait: f64,
    idle: f64,
    own: Option<&ProcessStacks>,
    pooled: &ProcessStacks,
) -> Option<(Stages, Option<Hottest>)> {
    const PARTS: [Activity; 5] =
        [Activity::Load, Activity::Decode, Activity::Transform, Activity::Collate, Activity::HandOver];
    if pooled.main.total() < ENOUGH_POOLED {
        return None;
    }
    let nothing = ProcessStacks::default();
    let own = own.unwrap_or(&nothing);
    let is_active = |activity: Activity| PARTS.contains(&activity) || is_set_up(activity);
    let active_samples = |sum: &ProcessStacks| sum.main.samples_where(is_active) as f64;
    let (own_active, pooled_active) = (active_samples(own), active_samples(pooled));
    let active = 1.0 - idle_share(own, idle.clamp(0.0, 1.0));
    let whole = own_active + if pooled_active > 0.0 { POOLED } else { 0.0 };
    let share = |activity: Activity| {
        let count = |sum: &ProcessStacks| f64::from(sum.main.get(activity));
        let of_all = if pooled_active > 0.0 { count(pooled) / pooled_active * POOLED } else { 0.0 };
        if whole > 0.0 { active * (count(own) + of_all) / whole } else { 0.0 }
    };
    let [mut load, mut decode, mut transform, mut collate, put] = PARTS.map(share);
    let mut blocked = (io_wait.clamp(0.0, 1.0) - load).max(0.0);
    for from in [&mut transform, &mut decode, &mut collate] {
        let taken = blocked.min(*from);
        *from -= taken;
        load += taken;
        blocked -= taken;
    }
    let (samples, sent) =
        if u64::from(own.queue_thread.0) >= ENOUGH_OWN { own.queue_thread } else { pooled.queue_thread };
    let sending = if samples > 0 { (f64::from(sent) / f64::from(samples)).min(1.0) } else { 0.0 };
    let stages = Stages {
        load: round(load, 3),
        decode: round(decode, 3),
        transform: round(transform, 3),
        collate: round(collate, 3),
        hand_over: round(sending.max(put), 3),
    };
    let alone = own_active >= ENOUGH_OWN as f64;
    let (from, from_active) = if alone { (own, own_active) } else { (pooled, pooled_active) };
    let blameless =
        |activity: Activity| is_set_up(activity) || matches!(activity, Activity::Waiting | Activity::HandOver);
    let places = from.places.iter().filter(|place| !blameless(place.activity));
    let of_active = |samples: u32| if from_active > 0.0 { active * f64::from(samples) / from_active } else { 0.0 };
    Some((stages, functions(places, of_active, 1).pop()))
}

/// What a worker does besides its stages.
fn is_set_up(activity: Activity) -> bool {
    matches!(activity, Activity::Import | Activity::Python)
}

/// The sampler counts a futex as idle. Stacks know better if there are many and they disagree.
fn idle_share(own: &ProcessStacks, measured: f64) -> f64 {
    let total = own.main.total();
    let seen = f64::from(own.main.get(Activity::Waiting)) / total.max(1) as f64;
    if total >= ENOUGH_OWN && (seen - measured).abs() > UNKNOWN_WAIT { seen } else { measured }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(function: &str, line: u32, activity: Activity, samples: u32, leaf: u32) -> CodePlace {
        CodePlace {
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

    fn sum_of(samples: &[(Activity, u32)], places: Vec<CodePlace>) -> ProcessStacks {
        let mut stacks = ProcessStacks { places, ..ProcessStacks::default() };
        samples.iter().for_each(|(activity, samples)| stacks.main.add(*activity, *samples));
        ProcessStacks::sum([&stacks])
    }

    #[test]
    fn a_comprehension_is_part_of_its_function() {
        for (function, of) in [
            ("Texts.__iter__.<locals>.<listcomp>", "Texts.__iter__"),
            ("encode.<locals>.<genexpr>.<locals>.<listcomp>", "encode"),
            ("read.<locals>.<listcomp>.<listcomp>", "read"),
            ("main.<locals>.next_batch", "main.<locals>.next_batch"),
            ("<listcomp>", "<listcomp>"),
        ] {
            assert_eq!(enclosing(function), of);
        }
    }

    #[test]
    fn a_blocked_worker_reads() {
        let own = sum_of(
            &[(Activity::Waiting, 20), (Activity::Transform, 70), (Activity::Collate, 10)],
            vec![
                place("dilate", 7, Activity::Transform, 60, 60),
                place("Set.__getitem__", 3, Activity::Transform, 10, 1),
            ],
        );
        let (stages, hottest) = worker_stages(0.5, 0.2, Some(&own), &own).unwrap();
        assert!((stages.load - 0.5).abs() < 0.01 && (stages.transform - 0.2).abs() < 0.01, "{stages:?}");
        assert!((stages.collate - 0.1).abs() < 0.01);
        let hottest = hottest.unwrap();
        assert_eq!((hottest.function.as_str(), hottest.file.as_str(), hottest.line), ("dilate", "train.py", 7));
        assert!((hottest.share - 0.6).abs() < 0.01);
    }

    #[test]
    fn an_idle_worker_without_stacks_of_its_own_takes_the_others() {
        let others = sum_of(&[(Activity::Decode, 100)], vec![place("decode", 9, Activity::Decode, 100, 0)]);
        let (stages, hottest) = worker_stages(0.0, 0.5, None, &others).unwrap();
        assert!((stages.decode - 0.5).abs() < 0.01);
        assert!((hottest.unwrap().share - 0.5).abs() < 0.01);
        assert!(worker_stages(0.0, 0.5, None, &ProcessStacks::default()).is_none());
    }

    #[test]
    fn a_line_that_reads_back_is_a_sync_line() {
        let mut line = place("train", 12, Activity::Python, 50, 50);
        line.text = Some("total += loss.item()".into());
        let other = place("metrics", 30, Activity::Python, 50, 20);
        let sum = sum_of(&[(Activity::Python, 100)], vec![line, other]);
        let share = |samples| f64::from(samples) / 100.0;
        let lines: Vec<u32> = sync_lines(&sum, share, false, SyncParts::ALL).iter().map(|line| line.line).collect();
        assert_eq!(lines, [12]);
        assert_eq!(hottest_functions(&sum, share).len(), 2);
    }

    /// A line that collects garbage and reads a value back is 98% of the samples, and the loop waits for the GPU 8% of the time.
    #[test]
    fn a_line_waits_for_no_longer_than_the_loop_does() {
        let mut line = place("main", 12, Activity::Python, 98, 98);
        line.text = Some("gc.collect(); total += loss.item()".into());
        let wait = place("synchronize", 3, Activity::Sync, 2, 2);
        let sum = sum_of(&[(Activity::Python, 98), (Activity::Sync, 2)], vec![line, wait]);
        let share = |samples| f64::from(samples) / 100.0;
        assert!(hottest_own(&sum, share, false, SyncParts::ALL).is_none(), "all of it could be a wait");
        let parts = SyncParts::within(0.08, &sum, share, false);
        let lines: Vec<f64> = sync_lines(&sum, share, false, parts).iter().map(|line| line.share).collect();
        assert_eq!(lines, [0.06, 0.02]);
        let own = hottest_own(&sum, share, false, parts).unwrap();
        assert_eq!((own.line, own.share), (12, 0.92));
    }
}
