//! Holds `trainmon watch` against days of recorded time and against planted events.
//!
//! Pieces of a bundled recording follow each other in random order, with clocks that go on, and are judged anew by the real
//! diagnosis. So a day of a steady job is made of what really varies from second to second in it. Its events are false ones. A second
//! kind of day adds what happens to every job and is no event. Then an event is planted, and the time is taken until it is told.
//!
//!     watch_days [DAYS [EACH [SEED]]]
//!
//! prints two tables: of so many days of each kind, and of so many planted events of each kind.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "a tool of the tests")]

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use fastrand::Rng;
use trainmon::diagnosis::causes::Cause;
use trainmon::diagnosis::verdict::{Class, Phase};
use trainmon::diagnosis::{Context, Diagnosis, LOOK_BACK_S, Verdict};
use trainmon::pipeline::{Pipeline, Tick};
use trainmon::sample::{JobSample, ProcessRole, ProgressBar, Sample};
use trainmon::sources::recording::Recording;
use trainmon::waits::Frame;
use trainmon::waits::time_split::TimeSplit;
use trainmon::watch::{EventDetails, EventKind, EventState, WatchEvent, WatchOptions, Watcher};

const DAY_S: f64 = 86_400.0;
/// Mean time between two disturbances.
const DISTURBED_EVERY_S: f64 = 900.0;
/// A planted event must be told within this.
const SOON_S: f64 = 30.0;
/// Growth is only known after minutes.
const MEMORY_SOON_S: f64 = 300.0;
/// False events of steady jobs that are bearable.
const FALSE_A_DAY: f64 = 1.0;
/// A planted event that is told later counts as missed.
const MISSED_S: f64 = 400.0;

type Moment = (Arc<Frame>, Arc<Sample>);

/// A recording: its intervals, and those of its steady part.
struct Source {
    name: String,
    all: Vec<Moment>,
    /// Where its last verdict begins to hold.
    steady: usize,
    class: Class,
    cause: Option<Cause>,
    phase: Phase,
    /// Others wait for one of its ranks.
    late: bool,
}

impl Source {
    fn read(path: &Path) -> Self {
        let mut recording = Recording::open(path).unwrap();
        let mut pipeline = Pipeline::of_recording(&recording.header, None);
        let ticks: Vec<Arc<Tick>> =
            recording.by_ref().map(|sample| pipeline.push(Arc::new(sample.unwrap()))).collect();
        let last = ticks.last().unwrap().verdict.clone();
        let is_last = |tick: &Arc<Tick>| tick.verdict.class == last.class && tick.verdict.cause == last.cause;
        let steady = ticks.iter().rposition(|tick| !is_last(tick)).map_or(0, |at| at + 1);
        let all = ticks.iter().map(|tick| (Arc::clone(&tick.frame), Arc::clone(&tick.sample))).collect();
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let late = last.ranks.iter().any(|rank| rank.straggler);
        // The first three have no rates, or those of a few samples.
        Self { name, all, steady: steady.max(3), class: last.class, cause: last.cause, phase: last.phase, late }
    }

    /// Whether it trains, and nothing changes in it for five seconds.
    fn is_steady(&self) -> bool {
        let trains = matches!(self.phase, Phase::Training | Phase::Checkpoint);
        trains && !matches!(self.class, Class::Idle | Class::Unknown) && self.all.len() - self.steady >= 5
    }

    /// A random piece of it.
    fn piece(&self, random: &mut Rng) -> &[Moment] {
        let begin = random.usize(self.steady..self.all.len());
        &self.all[begin..=random.usize(begin..self.all.len())]
    }

    fn moment(&self, random: &mut Rng) -> Moment {
        self.all[random.usize(self.steady..self.all.len())].clone()
    }
}

/// Every bundled recording.
fn sources() -> &'static [Source] {
    static SOURCES: LazyLock<Vec<Source>> = LazyLock::new(read_all);
    &SOURCES
}

fn read_all() -> Vec<Source> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recordings");
    let mut paths: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "tmz"));
    paths.sort();
    paths.iter().map(|path| Source::read(path)).collect()
}

/// A frame as if it came from another job, whose loops go on in it.
fn adopted(frame: &Frame, host: &Frame) -> Frame {
    let mut frame = frame.clone();
    for (own, theirs) in frame.ranks.iter_mut().zip(&host.ranks) {
        let before = std::mem::replace(&mut own.id, theirs.id);
        own.place = theirs.place;
        if let Some(chain) = &mut own.chain {
            let host = theirs.chain.as_ref();
            (chain.process, chain.tid) = host.map_or((theirs.id, theirs.id.pid), |chain| (chain.process, chain.tid));
        }
        let workers = frame.workers.iter_mut().filter(|worker| worker.rank == before.pid);
        workers.for_each(|worker| worker.rank = theirs.id.pid);
        let stacks = frame.stacks.iter_mut().filter(|stacks| stacks.id == before);
        stacks.for_each(|stacks| stacks.id = theirs.id);
    }
    frame
}

/// The loop takes steps that are so many times as long.
fn slower(frame: &mut Frame, times: f64) {
    for rank in &mut frame.ranks {
        let fewer = (rank.step_lengths_s.len() as f64 / times).round() as usize;
        rank.step_lengths_s.truncate(fewer.max(1));
        rank.step_lengths_s.iter_mut().for_each(|length| *length *= times as f32);
        rank.steps = rank.steps.map(|steps| (steps as f64 / times).round() as u64);
        if let Some(counted) = &mut rank.counted {
            counted.per_s /= times;
        }
    }
}

/// The job does nothing.
fn still(frame: &mut Frame) {
    for rank in &mut frame.ranks {
        rank.step_lengths_s.clear();
        rank.wait_lengths_s.clear();
        rank.steps = rank.steps.map(|_| 0);
        rank.counted = None;
        rank.split_s = TimeSplit { other: rank.seconds_seen, ..TimeSplit::default() };
        (rank.measured_s, rank.chain, rank.running_s) = (None, None, 0.0);
        rank.cpu_pct = Some(0.0);
    }
    frame.stacks.retain(|stacks| stacks.role != ProcessRole::Rank);
    frame.workers.clear();
    frame.job.cpu_pct = Some(0.0);
    for gpu in &mut frame.gpus {
        (gpu.utilization_pct, gpu.job_utilization_pct) = (Some(0.0), gpu.job_utilization_pct.map(|_| 0.0));
    }
}

/// Judges frames one after another, as the pipeline does, and watches the verdicts.
struct Watched {
    diagnosis: Diagnosis,
    recent: VecDeque<Arc<Frame>>,
    sequence: u64,
    clock_ns: u64,
    unix_ms: i64,
    gap: bool,
    standing: Option<Arc<Verdict>>,
    watcher: Watcher,
    watching: Duration,
    /// Seconds so far.
    seconds: f64,
}

impl Watched {
    fn new() -> Self {
        Self {
            diagnosis: Diagnosis::new(Context { pid: 1, ..Context::default() }),
            recent: VecDeque::new(),
            sequence: 0,
            clock_ns: 1_000_000_000,
            unix_ms: 1_795_000_000_000,
            gap: true,
            standing: None,
            watcher: Watcher::new(WatchOptions::default()),
            watching: Duration::ZERO,
            seconds: 0.0,
        }
    }

    /// trainmon is started anew.
    fn restart(&mut self) {
        let (clock_ns, unix_ms, seconds, watching) = (self.clock_ns, self.unix_ms, self.seconds, self.watching);
        *self = Self { clock_ns, unix_ms, seconds, watching, ..Self::new() };
    }

    fn push(&mut self, frame: &Frame, sample: &Arc<Sample>) -> Vec<WatchEvent> {
        self.sequence += 1;
        self.clock_ns += (frame.seconds * 1e9) as u64;
        self.unix_ms += (frame.seconds * 1e3) as i64;
        self.seconds += frame.seconds;
        let gap = std::mem::take(&mut self.gap);
        let frame = Frame {
            sequence: self.sequence,
            monotonic_ns: self.clock_ns,
            unix_ms: self.unix_ms,
            gap,
            ..frame.clone()
        };
        let frame = Arc::new(frame);
        if gap {
            self.recent.clear();
        }
        self.recent.push_back(Arc::clone(&frame));
        while self.clock_ns.saturating_sub(self.recent[0].monotonic_ns) as f64 / 1e9 > LOOK_BACK_S {
            self.recent.pop_front();
        }
        let judged = Arc::new(self.diagnosis.observe(self.recent.iter().map(AsRef::as_ref), sample));
        let verdict = self.standing.take().filter(|_| !frame.alive).unwrap_or_else(|| Arc::clone(&judged));
        self.standing = Some(Arc::clone(&verdict));
        let alive = frame.alive;
        let tick = Tick { sample: Arc::clone(sample), frame, verdict, judged, alive, ..Tick::default() };
        let begun = Instant::now();
        let events = self.watcher.push(&tick);
        self.watching += begun.elapsed();
        events
    }
}

/// What is told of a steady job that should not be. `told` remembers the kinds whose begin was true.
fn is_false(event: &WatchEvent, source: &Source, told: &mut u32) -> bool {
    let is_true = match &event.details {
        EventDetails::Attached { .. } => return false,
        EventDetails::Bottleneck { class, cause, .. } => (*class, *cause) == (source.class, source.cause),
        EventDetails::LateRank { .. } => source.late,
        EventDetails::ThrottledCpu { .. } => {
            source.all[source.steady].0.job.throttled_share.is_some_and(|share| share >= 0.25)
        }
        _ => false,
    };
    let first = *told & 1 << event.kind.index() == 0;
    *told |= 1 << event.kind.index();
    !(is_true && first && event.state == Some(EventState::Begins))
}

/// What happens to every job and is no event.
const DISTURBANCES: [&str; 8] = [
    "state is saved for 10 to 90 s",
    "validation for 20 s to 5 min",
    "nothing happens for 20 to 60 s",
    "steps take twice as long for 3 to 8 s",
    "an epoch ends: no step for 2 to 6 s",
    "an epoch begins: steps take half as long again for 10 s",
    "the machine sleeps for an hour",
    "trainmon is started anew",
];

/// Recordings of phases, to disturb others with.
struct Phases<'a> {
    saving: &'a Source,
    validation: &'a Source,
}

impl<'a> Phases<'a> {
    fn new(sources: &'a [Source]) -> Self {
        let named = |name: &str| sources.iter().find(|source| source.name == name).expect("a recording");
        Self { saving: named("checkpoint-write"), validation: named("validation") }
    }

    fn disturb(&self, which: usize, source: &Source, watched: &mut Watched, random: &mut Rng) -> Vec<WatchEvent> {
        let host = Arc::clone(&source.all[source.steady].0);
        let seconds = match which {
            0 => random.usize(10..=90),
            1 => random.usize(20..=300),
            2 => random.usize(20..=60),
            3 => random.usize(3..=8),
            4 => random.usize(2..=6),
            5 => 10,
            6 => {
                (watched.gap, watched.unix_ms) = (true, watched.unix_ms + 3_600_000);
                0
            }
            _ => {
                watched.restart();
                0
            }
        };
        let mut events = Vec::new();
        for _ in 0..seconds {
            let (frame, sample) = match which {
                0 => self.saving.moment(random),
                1 => self.validation.moment(random),
                _ => source.moment(random),
            };
            let mut frame = adopted(&frame, &host);
            match which {
                2 | 4 => still(&mut frame),
                3 => slower(&mut frame, 2.0),
                5 => slower(&mut frame, 1.5),
                _ => {}
            }
            events.extend(watched.push(&frame, &sample));
        }
        events
    }
}

/// The false events of so many seconds of one recording, and the time that watching took.
struct Counted {
    seconds: f64,
    ticks: u64,
    watching: Duration,
    events: Vec<(String, WatchEvent)>,
}

fn steady(source: &Source, phases: Option<&Phases<'_>>, seconds: f64, seed: u64) -> Counted {
    let mut random = Rng::with_seed(seed);
    let mut watched = Watched::new();
    let (mut what, mut what_s) = ("", f64::NEG_INFINITY);
    let (mut told, mut next_s, mut ticks) = (0, DISTURBED_EVERY_S * random.f64(), 0);
    let mut counted = Counted { seconds: 0.0, ticks: 0, watching: Duration::ZERO, events: Vec::new() };
    for (frame, sample) in &source.all[..source.steady] {
        for event in watched.push(frame, sample) {
            is_false(&event, source, &mut told);
        }
    }
    while watched.seconds < seconds {
        let mut events = Vec::new();
        if let Some(phases) = phases.filter(|_| watched.seconds >= next_s) {
            let which = random.usize(..DISTURBANCES.len());
            next_s = watched.seconds + DISTURBED_EVERY_S * -(1.0 - random.f64()).ln();
            (what, what_s) = (DISTURBANCES[which], watched.seconds);
            told = if which == 7 { 0 } else { told };
            events.extend(phases.disturb(which, source, &mut watched, &mut random));
        }
        for (frame, sample) in source.piece(&mut random) {
            events.extend(watched.push(frame, sample));
            ticks += 1;
        }
        for event in events.into_iter().filter(|event| is_false(event, source, &mut told)) {
            let after = format!("{}, {:.0} s after: {what}", source.name, watched.seconds - what_s);
            counted.events.push((if what.is_empty() { source.name.clone() } else { after }, event));
        }
    }
    (counted.seconds, counted.ticks, counted.watching) = (watched.seconds, ticks, watched.watching);
    counted
}

/// Events that are planted.
const PLANTED: [(&str, EventKind); 11] = [
    ("another bottleneck", EventKind::Bottleneck),
    ("the job is stopped", EventKind::Hung),
    ("the job hangs", EventKind::Hung),
    ("steps take 30% longer", EventKind::Slower),
    ("a rank is late", EventKind::LateRank),
    ("a GPU is held down by heat", EventKind::Throttled),
    ("the CPU quota stops the job", EventKind::Throttled),
    ("the machine's memory fills in 30 min", EventKind::Memory),
    ("a GPU's memory fills in 30 min", EventKind::Memory),
    ("the run is too slow for its time limit", EventKind::Deadline),
    ("the machine's memory fills in 4 min", EventKind::Memory),
];

/// A sample of a run whose time limit is so far away from a wall clock in milliseconds.
fn with_limit(sample: &Arc<Sample>, unix_ms: i64, left_s: f64) -> Arc<Sample> {
    let mut sample = Sample::clone(sample);
    let mut job = JobSample::clone(sample.job.as_ref().unwrap());
    job.run.ends_unix_s = Some(unix_ms / 1000 + left_s as i64);
    sample.job = Some(Arc::new(job));
    Arc::new(sample)
}

/// A bar of ten thousand turns, one a second.
fn bar(seconds: f64) -> Option<ProgressBar> {
    Some(ProgressBar { read_ns: 0, done: seconds.floor(), total: 10_000.0 })
}

/// Plants one event in a job; the seconds until it is told, and until its end is. `None` where this job cannot have it.
fn planted(which: usize, sources: &[Source], at: usize, seed: u64) -> Option<[Option<f64>; 2]> {
    let mut random = Rng::with_seed(seed);
    let source = &sources[at];
    let host = &source.all[source.steady].0;
    let rank = host.ranks.first()?;
    let has_steps = source.all[source.steady..].iter().any(|(frame, _)| {
        frame.ranks.first().is_some_and(|one| !one.step_lengths_s.is_empty() || one.counted.is_some())
    });
    let is_late =
        |source: &Source| source.name.starts_with("rank-straggler") || source.name.starts_with("eight-ranks");
    let other = match which {
        0 => {
            let apart = |other: &&Source| {
                other.is_steady() && (other.class != source.class)
                    && other.all[other.steady].0.ranks.len() == host.ranks.len()
                    && other.phase == Phase::Training
                    // Saving is told later.
                    && other.cause != Some(Cause::CheckpointWrite)
            };
            let others: Vec<&Source> = sources.iter().filter(apart).collect();
            Some(others[random.usize(..others.len())])
        }
        2 => sources.iter().find(|other| other.name == "hung"),
        4 => sources.iter().find(|other| other.name == "rank-straggler-main-thread"),
        _ => None,
    };
    let may_have = match which {
        1 | 2 => rank.steps.is_some(),
        3 => has_steps,
        4 => source.name.starts_with("rank-") && !is_late(source),
        5..=10 if source.phase != Phase::Training => false,
        5 => host.gpus.iter().any(|gpu| gpu.attached && gpu.clock_event_reasons.is_some()),
        6 => host.job.throttled_share.is_none_or(|share| share < 0.1),
        7 | 10 => host.host.memory_available_bytes.is_some(),
        8 => host.gpus.iter().any(|gpu| gpu.attached && gpu.memory_total_bytes.is_some()),
        _ => true,
    };
    if !may_have {
        return None;
    }
    let kind = PLANTED[which].1;
    let mut watched = Watched::new();
    let before_s = 240.0 + 300.0 * random.f64();
    while watched.seconds < before_s {
        source.piece(&mut random).iter().for_each(|(frame, sample)| drop(watched.push(frame, sample)));
    }
    let begun_s = watched.seconds;
    let mut told_s = None;
    while watched.seconds < begun_s + MISSED_S && told_s.is_none() {
        let (frame, mut sample) = other.unwrap_or(source).moment(&mut random);
        let mut frame = adopted(&frame, host);
        match which {
            1 => {
                still(&mut frame);
                frame.state = 'T';
            }
            3 => slower(&mut frame, 1.3),
            5 => frame.gpus.iter_mut().for_each(|gpu| gpu.clock_event_reasons = Some(0x40)),
            6 => frame.job.throttled_share = Some(0.5),
            7 | 10 => {
                let until_full_s = if which == 7 { 1800.0 } else { 240.0 };
                let left = frame.host.memory_available_bytes.unwrap() as f64;
                frame.host.memory_available_bytes =
                    Some((left * (1.0 - (watched.seconds - begun_s) / until_full_s)) as u64);
            }
            8 => frame.gpus.iter_mut().for_each(|gpu| {
                let (used, total) = (gpu.memory_used_bytes.unwrap_or(0), gpu.memory_total_bytes.unwrap_or(0));
                let grown = total.saturating_sub(used) as f64 * (watched.seconds - begun_s) / 1800.0;
                gpu.memory_used_bytes = Some(used + grown as u64);
            }),
            9 => {
                let seconds = watched.seconds - begun_s;
                frame.job.progress = bar(seconds);
                sample = with_limit(&sample, watched.unix_ms, 3600.0 - seconds);
            }
            _ => {}
        }
        let events = watched.push(&frame, &sample);
        let is_it = |event: &WatchEvent| event.kind == kind && (event.state != Some(EventState::Ends) || which == 0);
        told_s = events.iter().any(is_it).then_some(watched.seconds - begun_s);
    }
    let ended_s = watched.seconds;
    let mut over_s = None;
    while watched.seconds < ended_s + MISSED_S && over_s.is_none() {
        let (frame, mut sample) = source.moment(&mut random);
        let mut frame = Frame::clone(&frame);
        if which == 9 {
            frame.job.progress = bar(watched.seconds - begun_s);
            sample = with_limit(&sample, watched.unix_ms, 1e6);
        }
        if which == 6 {
            frame.job.throttled_share = Some(0.0);
        }
        let events = watched.push(&frame, &sample);
        let is_it = |event: &WatchEvent| event.kind == kind && (event.state == Some(EventState::Ends) || which == 0);
        over_s = events.iter().any(is_it).then_some(watched.seconds - ended_s);
    }
    if told_s.is_none_or(|seconds| seconds > 30.0) || over_s.is_none() {
        eprintln!("{} in {}: {told_s:?} {over_s:?}", PLANTED[which].0, source.name);
    }
    Some([told_s, over_s.filter(|_| told_s.is_some())])
}

/// Does the work of each number, on all CPUs.
fn in_parallel<T: Send>(count: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let mut done: Vec<(usize, T)> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..std::thread::available_parallelism().map_or(1, usize::from))
            .map(|_| {
                scope.spawn(|| {
                    let mut done = Vec::new();
                    loop {
                        let at = next.fetch_add(1, Ordering::Relaxed);
                        if at >= count {
                            return done;
                        }
                        done.push((at, work(at)));
                    }
                })
            })
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    done.sort_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, value)| value).collect()
}

/// What so many days of steady jobs gave.
pub struct Days {
    /// Of recorded time.
    pub days: f64,
    /// Recordings that they are made of.
    pub recordings: usize,
    /// What the watcher costs, microseconds.
    pub us_per_tick: f64,
    /// What was told, and of which recording.
    pub events: Vec<(String, WatchEvent)>,
}

/// A row for each kind of planted event.
pub struct PlantedRow {
    /// What is planted.
    pub what: &'static str,
    /// As what it must be told.
    pub kind: EventKind,
    /// Seconds until each was told; infinite for one that was not.
    pub told_s: Vec<f64>,
    /// The same of its end.
    pub over_s: Vec<f64>,
}

impl PlantedRow {
    /// How many were told within half a minute, or for memory within five.
    pub fn soon(&self) -> usize {
        let soon_s = if self.what.ends_with("30 min") { MEMORY_SOON_S } else { SOON_S };
        self.told_s.iter().filter(|seconds| **seconds <= soon_s).count()
    }
}

/// So many days of steady jobs, of each `every`th recording.
pub fn days(days: f64, disturbed: bool, every: usize, seed: u64) -> Days {
    let sources = sources();
    let phases = Phases::new(sources);
    let chosen: Vec<&Source> = sources.iter().filter(|source| source.is_steady()).step_by(every).collect();
    let each_s = days * DAY_S / chosen.len() as f64;
    let counted =
        in_parallel(chosen.len(), |at| steady(chosen[at], disturbed.then_some(&phases), each_s, seed + at as u64));
    let ticks: u64 = counted.iter().map(|counted| counted.ticks).sum();
    let watching: Duration = counted.iter().map(|counted| counted.watching).sum();
    Days {
        days: counted.iter().map(|counted| counted.seconds).sum::<f64>() / DAY_S,
        recordings: chosen.len(),
        us_per_tick: watching.as_secs_f64() * 1e6 / ticks as f64,
        events: counted.into_iter().flat_map(|counted| counted.events).collect(),
    }
}

/// So many planted events of each kind.
pub fn plant(each: usize, seed: u64) -> Vec<PlantedRow> {
    let sources = sources();
    let steady: Vec<usize> = (0..sources.len()).filter(|at| sources[*at].is_steady()).collect();
    let rows = PLANTED.iter().enumerate().map(|(which, (what, kind))| {
        // A job at random that can have it.
        let done = in_parallel(each, |number| {
            let mut random = Rng::with_seed(seed + (which * 10_000 + number) as u64);
            (0..1000)
                .find_map(|_| planted(which, sources, steady[random.usize(..steady.len())], random.u64(..)))
                .expect("a recording that can have it")
        });
        let of = |end: usize| done.iter().map(|both| both[end].unwrap_or(f64::INFINITY)).collect();
        PlantedRow { what, kind: *kind, told_s: of(0), over_s: of(1) }
    });
    rows.collect()
}

/// The value that half and nearly all stay below.
fn spread(values: &[f64]) -> String {
    let mut sorted: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
    sorted.sort_by(f64::total_cmp);
    if sorted.is_empty() {
        return "–".to_owned();
    }
    let at = |part: f64| sorted[((sorted.len() - 1) as f64 * part).round() as usize];
    format!("{:.0} s, {:.0} s", at(0.5), at(1.0))
}

fn print_days(what: &str, days: &Days) {
    let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
    days.events.iter().for_each(|(_, event)| *kinds.entry(event.kind.word()).or_default() += 1);
    let kinds: Vec<String> = kinds.iter().map(|(kind, count)| format!("{kind} {count}")).collect();
    let a_day = days.events.len() as f64 / days.days;
    let kinds = if kinds.is_empty() { "none".to_owned() } else { kinds.join(", ") };
    println!(
        "| {what} | {} | {:.1} | {kinds} | {a_day:.2} | {:.1} µs |",
        days.recordings, days.days, days.us_per_tick
    );
}

#[allow(dead_code, reason = "the tests use the rest")]
fn main() -> ExitCode {
    let words: Vec<f64> = std::env::args().skip(1).map(|word| word.parse().expect("a number")).collect();
    let number = |at: usize, default: f64| words.get(at).copied().unwrap_or(default);
    let (length, each, seed) = (number(0, 10.0), number(1, 60.0) as usize, number(2, 1.0) as u64);
    println!(
        "| days of | recordings | days | false events | a day | cost of a tick |\n|---|---:|---:|---|---:|---:|"
    );
    let (mut told, mut good) = (Vec::new(), true);
    for (what, disturbed) in [("steady jobs", false), ("jobs that save, validate, pause", true)] {
        let days = days(length, disturbed, 1, seed);
        print_days(what, &days);
        good &= disturbed || days.events.len() as f64 <= days.days * FALSE_A_DAY;
        told.extend(days.events);
    }
    println!(
        "\n| planted | told as | times | in time | missed | told after: half, all | end told after: half, all |"
    );
    println!("|---|---|---:|---:|---:|---|---|");
    for row in plant(each, seed) {
        let missed = row.told_s.iter().filter(|seconds| seconds.is_infinite()).count();
        let (soon, told, over) = (row.soon(), spread(&row.told_s), spread(&row.over_s));
        println!("| {} | `{}` | {each} | {soon} | {missed} | {told} | {over} |", row.what, row.kind.word());
        good &= soon * 2 >= each;
    }
    for (from, event) in told {
        let state = event.state.map_or("", EventState::word);
        eprintln!("{from}: {} {state}: {}", event.kind.word(), event.text);
    }
    if good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
