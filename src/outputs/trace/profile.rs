//! What torch's profiler recorded, on the same time axis. Its file is not sorted, so its events are sorted first, on disk if they
//! are many.
//!
//! Slices on a track of Perfetto lie one within the other. Slices of the profiler that overlap get a track each.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Write};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::TraceWriter;
use super::packets::{Looks, Named, Sequence, Track};
use super::profile_event::{ProfileEvent, ProfilePlace};
use super::proto::{DebugAnnotation, EventType, InternedData, TrackEvent};
use super::sorted::Sorted;
use super::wall_clock::LATEST_NS;
use crate::profiles::json::TraceEnd;
use crate::text::sanitise;

/// Most threads and streams of a profile.
const LANES: usize = 10_000;
/// Most tracks of one thread or stream for slices that overlap.
const LANE_TRACKS: usize = 16;
/// Slices that overlap by less than this only differ in rounding, nanoseconds.
const ROUNDING_NS: u64 = 1000;
/// Most details of an event.
const DETAILS: usize = 64;
/// Longest detail, characters.
const DETAIL: usize = 1000;

/// A thread or stream: its process or GPU, and its own number.
type ProfileLane = (ProfilePlace, ProfilePlace);

/// A slice, a moment, or the end of an arrow. Times are nanoseconds of the profile's clock.
#[derive(Debug, Serialize, Deserialize)]
enum Record {
    Arrow { flow: u64, begins: bool },
    Slice { end: u64, name: String, category: String, args: String },
    Moment { name: String, category: String, args: String },
}

/// One end of an arrow, before it is known whether it has another.
#[derive(Debug, Serialize, Deserialize)]
struct ArrowEnd {
    lane: u32,
    begins: bool,
}

/// A profile on its way into a trace.
#[derive(Debug, Default)]
pub struct TracedProfile {
    events: Sorted,
    arrows: Sorted,
    lanes: HashMap<ProfileLane, u32>,
    /// Names of threads and streams.
    names: HashMap<ProfileLane, String>,
    /// Labels of processes and GPUs: `CPU`, `GPU 0`.
    labels: HashMap<ProfilePlace, String>,
    /// Nanoseconds since 1970 at the start of the profile's clock; 0 where the events' own times are since 1970.
    pub start_ns: u64,
    /// Events that are of no kind that is drawn.
    pub left_out: u64,
    /// How its file ended.
    pub end: TraceEnd,
}

impl TracedProfile {
    /// Adds an event.
    ///
    /// # Errors
    /// That of the temporary file, if there are many.
    pub fn add(&mut self, event: ProfileEvent) -> io::Result<()> {
        if event.kind == "M" {
            self.take_name(event);
            return Ok(());
        }
        let at = nanoseconds(event.at_us);
        let Some(lane) = self.lane((event.pid, event.tid)) else {
            self.left_out += 1;
            return Ok(());
        };
        let (name, category) = (event.name, event.category);
        let args = || serde_json::to_string(&event.args).map_err(io::Error::other);
        match event.kind.as_str() {
            "X" => {
                let end = at.saturating_add(nanoseconds(event.length_us));
                let record = Record::Slice { end, name, category, args: args()? };
                // What begins at the same time: the longest first, as the others lie within it.
                self.events.push([at, lane.into(), 1, u64::MAX - end], packed(&record)?)
            }
            "i" | "I" | "R" => {
                self.events.push([at, lane.into(), 2, 0], packed(&Record::Moment { name, category, args: args()? })?)
            }
            "s" | "f" => {
                let mut arrow = DefaultHasher::new();
                (category, name, event.id).hash(&mut arrow);
                let begins = event.kind == "s";
                let key = [arrow.finish(), u64::from(!begins), at, 0];
                self.arrows.push(key, packed(&ArrowEnd { lane, begins })?)
            }
            _ => {
                self.left_out += 1;
                Ok(())
            }
        }
    }

    fn lane(&mut self, lane: ProfileLane) -> Option<u32> {
        let next = u32::try_from(self.lanes.len()).ok()?;
        match self.lanes.get(&lane) {
            Some(known) => Some(*known),
            None if self.lanes.len() < LANES => Some(*self.lanes.entry(lane).or_insert(next)),
            None => None,
        }
    }

    fn take_name(&mut self, event: ProfileEvent) {
        let text = |key: &str| event.args.get(key).and_then(Value::as_str).map(|text| text.trim().to_owned());
        if self.names.len() + self.labels.len() >= LANES {
            return;
        }
        match event.name.as_str() {
            "thread_name" => self.names.extend(text("name").map(|name| ((event.pid, event.tid), name))),
            "process_labels" => self.labels.extend(text("labels").map(|labels| (event.pid, labels))),
            _ => {}
        }
    }

    /// Puts the arrows that have two ends among the events. `flow` numbers them.
    fn join_arrows(&mut self, mut flow: impl FnMut() -> u64) -> io::Result<()> {
        // Of the arrow that is being read: its number and its begin, while it has no end.
        let mut begun: Option<(u64, u64, u32)> = None;
        for arrow in std::mem::take(&mut self.arrows).finish()? {
            let ([number, _, at, _], record) = arrow?;
            let ArrowEnd { lane, begins } = unpacked(&record)?;
            let begin = begun.take_if(|(known, ..)| *known == number);
            match (begins, begin) {
                (true, begin) => begun = begin.or(Some((number, at, lane))),
                (false, Some((_, begin, from))) if begin <= at => {
                    let flow = flow();
                    for (at, lane, begins) in [(begin, from, true), (at, lane, false)] {
                        // Before the slices of that time, one of which has it.
                        self.events.push([at, lane.into(), 0, flow], packed(&Record::Arrow { flow, begins })?)?;
                    }
                }
                (false, _) => {}
            }
        }
        Ok(())
    }
}

/// Time as whole nanoseconds.
fn nanoseconds(us: f64) -> u64 {
    (us * 1000.0).round() as u64
}

fn packed(record: &impl Serialize) -> io::Result<Vec<u8>> {
    rmp_serde::to_vec(record).map_err(io::Error::other)
}

fn unpacked<'r, T: Deserialize<'r>>(record: &'r [u8]) -> io::Result<T> {
    rmp_serde::from_slice(record).map_err(io::Error::other)
}

/// A track of a thread or stream, with the ends of the slices that are open there, the innermost last.
#[derive(Debug)]
struct LaneTrack {
    uuid: u64,
    open: Vec<u64>,
}

/// A profile while it is written.
#[derive(Debug, Default)]
struct Drawing {
    /// Nanoseconds since 1970 at the start of the profile's clock.
    start_ns: u64,
    lanes: HashMap<u64, ProfileLane>,
    names: HashMap<ProfileLane, String>,
    labels: HashMap<ProfilePlace, String>,
    tracks: HashMap<u64, Vec<LaneTrack>>,
    /// End, lane, and which of its tracks.
    ends: BinaryHeap<Reverse<(u64, u64, usize)>>,
    /// Arrows that begin or end at a time on a lane, which its next slice takes.
    arrows: Vec<(u64, bool)>,
    arrows_at: (u64, u64),
}

/// A time on a track of a lane.
#[derive(Debug, Clone, Copy)]
struct LanePlace {
    at: u64,
    lane: u64,
    place: usize,
}

impl Drawing {
    fn track(&mut self, LanePlace { lane, place, .. }: LanePlace) -> Option<&mut LaneTrack> {
        self.tracks.get_mut(&lane)?.get_mut(place)
    }

    fn time(&self, at: u64) -> u64 {
        self.start_ns.saturating_add(at).min(LATEST_NS)
    }
}

impl<W: Write> TraceWriter<W> {
    /// Adds a profile. Returns whether it covers any of the recorded time.
    ///
    /// # Errors
    /// What the writer answers, or a temporary file.
    pub fn profile(&mut self, mut profile: TracedProfile) -> io::Result<bool> {
        let start_ns = profile.start_ns;
        profile.join_arrows(|| self.packets.flow())?;
        let lanes = profile.lanes.into_iter().map(|(lane, number)| (number.into(), lane)).collect();
        let (names, labels) = (profile.names, profile.labels);
        let mut drawing = Drawing { start_ns, lanes, names, labels, ..Drawing::default() };
        let (mut first, mut last) = (None, 0);
        for event in profile.events.finish()? {
            let ([at, lane, ..], record) = event?;
            self.put_arrows(&mut drawing, (at, lane))?;
            self.end_until(&mut drawing, at)?;
            first.get_or_insert(at);
            match unpacked(&record)? {
                Record::Arrow { flow, begins } => {
                    drawing.arrows.push((flow, begins));
                    drawing.arrows_at = (at, lane);
                }
                Record::Slice { end, name, category, args } => {
                    let Some(place) = self.place(&mut drawing, (at, lane), end)? else { continue };
                    self.profiled(&mut drawing, (place, EventType::SliceBegin), [&name, &category, &args])?;
                    if let Some(track) = drawing.track(place) {
                        let end = track.open.last().map_or(end, |outer| end.min(*outer));
                        track.open.push(end);
                        drawing.ends.push(Reverse((end, lane, place.place)));
                    }
                    last = last.max(end);
                }
                Record::Moment { name, category, args } => {
                    let Some(place) = self.place(&mut drawing, (at, lane), at)? else { continue };
                    self.profiled(&mut drawing, (place, EventType::Instant), [&name, &category, &args])?;
                }
            }
        }
        self.put_arrows(&mut drawing, (u64::MAX, u64::MAX))?;
        self.end_until(&mut drawing, u64::MAX)?;
        let began_ns = self.clock.began_ns.unwrap_or(self.clock.end_ns);
        let overlaps = |first| drawing.time(first) <= self.clock.end_ns && drawing.time(last) >= began_ns;
        Ok(first.is_some_and(overlaps))
    }

    /// Ends the slices that end until then.
    fn end_until(&mut self, drawing: &mut Drawing, at: u64) -> io::Result<()> {
        while let Some(Reverse((end, lane, place))) = drawing.ends.peek().copied().filter(|next| next.0.0 <= at) {
            drawing.ends.pop();
            let time = drawing.time(end);
            if let Some(track) = drawing.track(LanePlace { at: end, lane, place }) {
                track.open.pop();
                let event = (track.uuid, EventType::SliceEnd);
                self.packets.event((Sequence::Profiled, time), event, TrackEvent::default())?;
            }
        }
        Ok(())
    }

    /// Draws arrows for which no slice has come, as nothing but arrows, so that each has two ends.
    fn put_arrows(&mut self, drawing: &mut Drawing, next: (u64, u64)) -> io::Result<()> {
        if drawing.arrows.is_empty() || drawing.arrows_at == next {
            return Ok(());
        }
        let at = drawing.arrows_at;
        match self.place(drawing, at, at.0)? {
            Some(place) => self.profiled(drawing, (place, EventType::Instant), ["arrow", "", "{}"]),
            None => Ok(()),
        }
    }

    /// The first track of a lane on which nothing ends before `end`, as everything there encloses what comes later.
    fn place(&mut self, drawing: &mut Drawing, (at, lane): (u64, u64), end: u64) -> io::Result<Option<LanePlace>> {
        let tracks = drawing.tracks.entry(lane).or_default();
        let fits = |track: &LaneTrack| track.open.last().is_none_or(|outer| end <= outer.saturating_add(ROUNDING_NS));
        let count = tracks.len();
        let place = match tracks.iter().position(fits) {
            Some(place) => place,
            // It is cut to fit.
            None if count >= LANE_TRACKS => count - 1,
            None => {
                let Some(uuid) = self.lane_track(drawing, lane, count)? else { return Ok(None) };
                drawing.tracks.entry(lane).or_default().push(LaneTrack { uuid, open: Vec::new() });
                count
            }
        };
        Ok(Some(LanePlace { at, lane, place }))
    }

    /// Declares a track of a lane: below its thread if it is one, else below its GPU.
    fn lane_track(&mut self, drawing: &Drawing, lane: u64, place: usize) -> io::Result<Option<u64>> {
        let Some(known) = drawing.lanes.get(&lane) else { return Ok(None) };
        let label = drawing.labels.get(&known.0);
        let name = drawing.names.get(known);
        let is_gpu = label.is_some_and(|label| label.starts_with("GPU"));
        let (parent, own) = match (known.0.number(), known.1.number()) {
            (Some(inner), Some(tid)) if inner > 0 && !is_gpu => {
                let pid = self.inner_pids.get(&inner).copied().unwrap_or(inner);
                let tid = if tid == inner { pid } else { tid };
                let name = name.map_or("", String::as_str);
                self.packets.track(Track::Process(pid), Looks::default())?;
                let thread = self.packets.track(Track::Thread(pid, tid), Looks { name, ..Looks::default() })?;
                (thread, "torch profiler".to_owned())
            }
            _ => {
                let top = label.map_or_else(|| known.0.to_string(), Clone::clone);
                let top =
                    Track::Named(None, format!("torch profiler: {top}").trim_end_matches([':', ' ']).to_owned());
                (self.packets.track(top, Looks::default())?, name.map_or_else(|| known.1.to_string(), Clone::clone))
            }
        };
        let own = if own.is_empty() { "events".to_owned() } else { own };
        let own = if place > 0 { format!("{own} ({})", place + 1) } else { own };
        let looks = Looks { rank: 2 + place, ..Looks::default() };
        self.packets.track(Track::Named(parent, own), looks)
    }

    /// Writes an event of the profile with its details and its arrows.
    fn profiled(
        &mut self,
        drawing: &mut Drawing,
        (place, kind): (LanePlace, EventType),
        [name, category, args]: [&str; 3],
    ) -> io::Result<()> {
        let time = drawing.time(place.at);
        let Some(uuid) = drawing.track(place).map(|track| track.uuid) else { return Ok(()) };
        let mut names = InternedData::default();
        let mut event =
            TrackEvent { name_iid: self.packets.named(Named::Event, name, &mut names), ..TrackEvent::default() };
        if event.name_iid.is_none() {
            event.name = Some(sanitise(name).into_owned());
        }
        if !category.is_empty() {
            event.category_iids = self.packets.named(Named::Category, category, &mut names).into_iter().collect();
        }
        let args: Map<String, Value> = serde_json::from_str(args).unwrap_or_default();
        for (name, value) in args.into_iter().take(DETAILS) {
            let name_iid = self.packets.named(Named::Annotation, &name, &mut names);
            event.debug_annotations.extend(name_iid.map(|iid| detail(iid, value)));
        }
        let (from, to): (Vec<_>, Vec<_>) = drawing.arrows.drain(..).partition(|(_, begins)| *begins);
        event.flow_ids = from.into_iter().map(|(flow, _)| flow).collect();
        event.terminating_flow_ids = to.into_iter().map(|(flow, _)| flow).collect();
        self.packets.named_event((Sequence::Profiled, time), (uuid, kind), event, names)
    }
}

fn detail(name: u64, value: Value) -> DebugAnnotation {
    let mut detail = DebugAnnotation { name_iid: Some(name), ..DebugAnnotation::default() };
    match value {
        Value::Number(number) => {
            detail.int_value = number.as_i64();
            detail.double_value = if detail.int_value.is_none() { number.as_f64() } else { None };
        }
        Value::String(text) => detail.string_value = Some(short(&text)),
        other => detail.string_value = Some(short(&other.to_string())),
    }
    detail
}

fn short(text: &str) -> String {
    sanitise(&text.chars().take(DETAIL).collect::<String>()).into_owned()
}
