//! A recording as a trace for Perfetto (<https://ui.perfetto.dev>): numbers as counters, the verdict, the loop's time, its steps,
//! the workers' stages and batches as slices, the wait chain as arrows.
//!
//! An interval becomes events at its begin. Slices that say the same follow on from each other; a counter is written when it
//! changes. What was not measured has no event. Packets go out tick by tick, so memory does not grow with the recording, apart
//! from the number of its processes.

mod packets;
mod profile;
mod proto;
mod timed;
mod wait_chain;
mod wall_clock;

use std::collections::{BTreeMap, HashMap};
use std::io::{self, Write};

use packets::{Looks, Packets, Sequence, Track};
use proto::{DebugAnnotation, EventType, TrackEvent};
use timed::Unended;
use wait_chain::ChainSlice;
use wall_clock::WallClock;

use super::csv::{hundredths, numbers};
use trainmon_base::text::sanitize;
use trainmon_diagnosis::diagnosis::Verdict;
use trainmon_diagnosis::pipeline::Tick;
use trainmon_views::activity;
use trainmon_waits::frame::RankRates;
use trainmon_waits::time_split::LoopActivity;

/// Columns of the log that are no counters: the time and the PID, the index of a GPU, and the shares of the loop's time, which
/// are drawn below each loop.
const NO_COUNTERS: [&str; 8] = [
    "elapsed_s",
    "pid",
    "index",
    "input_wait_pct",
    "device_sync_pct",
    "host_busy_pct",
    "checkpoint_pct",
    "other_pct",
];
/// Counters come after the tracks with slices.
const COUNTERS: usize = 100;
/// A slice that has begun.
#[derive(Debug)]
struct OpenSlice {
    name: String,
    /// What to say about it when it ends.
    annotations: Vec<DebugAnnotation>,
    /// The latest tick with it.
    tick: u64,
}

/// Writes ticks as a trace.
#[derive(Debug)]
pub struct TraceWriter<W: Write> {
    packets: Packets<W>,
    clock: WallClock,
    /// Ticks so far.
    tick: u64,
    open: BTreeMap<u64, OpenSlice>,
    /// The latest value of each counter, and the tick that has it.
    counters: HashMap<u64, (f64, u64)>,
    /// The drawn wait chain, by track: which branch is the largest does not matter.
    chain: Vec<ChainSlice>,
    unended: Unended,
    /// The thread of each loop, by PID.
    loops: HashMap<u32, u32>,
    /// PIDs of the processes, by the PID that they see themselves, where the two differ.
    inner_pids: HashMap<u32, u32>,
}

impl<W: Write> TraceWriter<W> {
    /// A trace that begins with the first tick.
    pub fn new(out: W) -> Self {
        Self {
            packets: Packets::new(out),
            clock: WallClock::default(),
            tick: 0,
            open: BTreeMap::new(),
            counters: HashMap::new(),
            chain: Vec::new(),
            unended: Unended::default(),
            loops: HashMap::new(),
            inner_pids: HashMap::new(),
        }
    }

    /// Adds the next tick.
    ///
    /// # Errors
    /// What the writer answers.
    pub fn push(&mut self, tick: &Tick) -> io::Result<()> {
        let (frame, ended_ns) = (&*tick.frame, self.clock.end_ns);
        let (from, to) = self.clock.interval(frame);
        if self.tick == 0 {
            self.packets.begin([to, frame.monotonic_ns, tick.sample.boottime_ns])?;
        }
        self.tick += 1;
        if frame.gap {
            self.forget_unended();
            self.close(ended_ns)?;
            if ended_ns > 0 && to > ended_ns {
                let track = self.row("verdict", 0)?;
                self.slice(track, ended_ns, "not recorded", Vec::new())?;
            }
            return Ok(());
        }
        for process in tick.sample.job.iter().flat_map(|job| &job.processes) {
            if let Some(inner) = process.inner_pid.filter(|inner| *inner != process.id.pid) {
                self.inner_pids.insert(inner, process.id.pid);
            }
        }
        self.verdict(&tick.judged, from)?;
        self.loops(tick, from)?;
        self.workers(tick, from)?;
        self.chain(tick, from)?;
        self.numbers(tick, from)?;
        self.close_others(from)?;
        self.steps(tick)?;
        self.batches(tick, to)
    }

    /// Ends what is open, and gives the writer back.
    ///
    /// # Errors
    /// What the writer answers.
    pub fn finish(mut self) -> io::Result<W> {
        self.close(self.clock.end_ns)?;
        Ok(self.packets.out)
    }

    /// The track above those that are of no process.
    fn root(&mut self) -> io::Result<Option<u64>> {
        self.packets.track(Track::Named(None, "trainmon".to_owned()), Looks::default())
    }

    /// A track below [`Self::root`].
    fn row(&mut self, name: &str, rank: usize) -> io::Result<Option<u64>> {
        let root = self.root()?;
        self.packets.track(Track::Named(root, name.to_owned()), Looks { rank, ..Looks::default() })
    }

    /// The track of a thread, and that of its process before it.
    fn thread(&mut self, tick: &Tick, pid: u32, tid: u32) -> io::Result<Option<u64>> {
        let process = tick.frame.processes.iter().find(|process| process.id.pid == pid);
        let (name, about) = process.map_or(("", ""), |process| (&*process.comm, &*process.command));
        self.packets.track(Track::Process(pid), Looks { name, about, ..Looks::default() })?;
        let read = tick.sample.job.iter().flat_map(|job| &job.processes).find(|process| process.id.pid == pid);
        let thread = read.and_then(|process| process.threads.iter().find(|thread| thread.tid == tid));
        let name = thread.map(|thread| &*thread.name).filter(|name| !name.is_empty()).unwrap_or(name);
        self.packets.track(Track::Thread(pid, tid), Looks { name, ..Looks::default() })
    }

    /// Goes on with the slice of a track if it has this name; else ends it and begins one.
    fn slice(
        &mut self,
        track: Option<u64>,
        at: u64,
        name: &str,
        annotations: Vec<DebugAnnotation>,
    ) -> io::Result<()> {
        let Some(track) = track else { return Ok(()) };
        if let Some(open) = self.open.get_mut(&track).filter(|open| open.name == name) {
            (open.annotations, open.tick) = (annotations, self.tick);
            return Ok(());
        }
        self.begin(track, at, name, TrackEvent::default())?;
        self.annotate(track, annotations);
        Ok(())
    }

    /// Begins a slice, after the end of the one before it. `event` has its arrows.
    fn begin(&mut self, track: u64, at: u64, name: &str, event: TrackEvent) -> io::Result<()> {
        self.end(track, at)?;
        let event = TrackEvent { name: Some(sanitize(name).into_owned()), ..event };
        self.packets.event((Sequence::Recorded, at), (track, EventType::SliceBegin), event)?;
        self.open.insert(track, OpenSlice { name: name.to_owned(), annotations: Vec::new(), tick: self.tick });
        Ok(())
    }

    fn annotate(&mut self, track: u64, annotations: Vec<DebugAnnotation>) {
        if let Some(open) = self.open.get_mut(&track) {
            (open.annotations, open.tick) = (annotations, self.tick);
        }
    }

    fn end(&mut self, track: u64, at: u64) -> io::Result<()> {
        let Some(open) = self.open.remove(&track) else { return Ok(()) };
        let event = TrackEvent { debug_annotations: open.annotations, ..TrackEvent::default() };
        self.packets.event((Sequence::Recorded, at), (track, EventType::SliceEnd), event)
    }

    /// Ends everything.
    fn close(&mut self, at: u64) -> io::Result<()> {
        self.tick += 1;
        self.chain.clear();
        self.close_others(at)
    }

    /// Ends the slices that this tick does not have.
    fn close_others(&mut self, at: u64) -> io::Result<()> {
        let now = self.tick;
        let over: Vec<u64> = self.open.iter().filter(|(_, open)| open.tick < now).map(|(track, _)| *track).collect();
        over.into_iter().try_for_each(|track| self.end(track, at))
    }

    fn counter(&mut self, track: Option<u64>, at: u64, value: f64) -> io::Result<()> {
        let Some(track) = track else { return Ok(()) };
        let before = self.counters.insert(track, (value, self.tick));
        // After a time without measurements it is written again.
        if before == Some((value, self.tick - 1)) {
            return Ok(());
        }
        let event = TrackEvent { double_counter_value: Some(value), ..TrackEvent::default() };
        self.packets.event((Sequence::Recorded, at), (track, EventType::Counter), event)
    }

    fn verdict(&mut self, verdict: &Verdict, at: u64) -> io::Result<()> {
        let mut about = vec![number("confidence", verdict.confidence), text("summary", &verdict.summary)];
        let advice = verdict.advice.iter().map(|advice| {
            text("advice", &advice.worth().map_or(advice.title.clone(), |worth| format!("{}: {worth}", advice.title)))
        });
        about.extend(advice.take(1));
        let track = self.row("verdict", 0)?;
        self.slice(track, at, &verdict.heading(), about)?;
        let track = self.row("phase", 1)?;
        self.slice(track, at, verdict.phase.word(), Vec::new())
    }

    fn loops(&mut self, tick: &Tick, at: u64) -> io::Result<()> {
        // Those of the tick are of one loop.
        let one = if tick.frame.ranks.len() == 1 { tick.shares } else { None };
        for rank in &tick.frame.ranks {
            let Some(shares) = hundredths(&one.unwrap_or(rank.split_s)) else { continue };
            let parent = self.loop_thread(tick, rank)?;
            let shares = LoopActivity::ALL.into_iter().zip(shares);
            let most = shares.clone().reduce(|most, next| if next.1 > most.1 { next } else { most });
            let below = |name: &str| Track::Named(parent, name.to_owned());
            if let Some((activity, _)) = most {
                let about = "what takes most of each interval; the five counters have the shares";
                let track = self.packets.track(below("loop"), Looks { about, ..Looks::default() })?;
                self.slice(track, at, activity.word(), Vec::new())?;
            }
            for (activity, share) in shares {
                let looks = Looks {
                    about: "share of the training loop's time",
                    unit: Some("%"),
                    scale: Some("loop"),
                    rank: COUNTERS + activity.index(),
                    ..Looks::default()
                };
                let track = self.packets.track(below(activity.word()), looks)?;
                self.counter(track, at, f64::from(share) / 100.0)?;
            }
        }
        Ok(())
    }

    fn loop_thread(&mut self, tick: &Tick, rank: &RankRates) -> io::Result<Option<u64>> {
        let pid = rank.id.pid;
        let tid = self.loops.entry(pid).or_insert(pid);
        if let Some(chain) = &rank.chain {
            *tid = chain.tid;
        }
        let tid = *tid;
        self.thread(tick, pid, tid)
    }

    fn workers(&mut self, tick: &Tick, at: u64) -> io::Result<()> {
        let activities = activity::all(&tick.frame, Some(&tick.verdict));
        for worker in &tick.frame.workers {
            let pid = worker.id.pid;
            if let Some(activity) = activities.get(&pid) {
                let track = self.thread(tick, pid, pid)?;
                self.slice(track, at, activity, Vec::new())?;
            }
        }
        Ok(())
    }

    fn numbers(&mut self, tick: &Tick, at: u64) -> io::Result<()> {
        let numbers = numbers(&tick.frame, &tick.judged);
        for (place, number) in numbers.into_iter().enumerate() {
            let column = number.column;
            if NO_COUNTERS.contains(&column.name) {
                continue;
            }
            let parent = match number.gpu {
                Some(index) => self.row(&format!("GPU {index}"), COUNTERS + place)?,
                None => self.root()?,
            };
            let looks =
                Looks { about: column.meaning, unit: Some(column.unit), rank: COUNTERS + place, ..Looks::default() };
            let track = self.packets.track(Track::Named(parent, column.name.to_owned()), looks)?;
            self.counter(track, at, number.value)?;
        }
        Ok(())
    }
}

fn number(name: &str, value: f64) -> DebugAnnotation {
    DebugAnnotation { name: Some(name.to_owned()), double_value: Some(value), ..DebugAnnotation::default() }
}

fn text(name: &str, value: &str) -> DebugAnnotation {
    let value = sanitize(value).into_owned();
    DebugAnnotation { name: Some(name.to_owned()), string_value: Some(value), ..DebugAnnotation::default() }
}

#[cfg(test)]
#[path = "trace_tests.rs"]
mod tests;
