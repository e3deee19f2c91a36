//! What torch's profiler recorded, on the same time axis: the spans of threads and streams as slices, and an arrow from each call that
//! launches to what it launched.
//!
//! Slices on a track of Perfetto lie one within the other. Spans that overlap get a track each.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::{self, Write};

use super::TraceWriter;
use super::packets::{Looks, Sequence, Track};
use super::proto::{EventType, TrackEvent};
use super::wall_clock::LATEST_NS;
use trainmon_base::text::sanitize;
use trainmon_profiles::timeline::{HostKind, TraceLane, TracePlace, TraceTimeline};

/// Most tracks of one thread or stream for slices that overlap.
const LANE_TRACKS: usize = 16;
/// Spans that overlap by less than this only differ in rounding, nanoseconds.
const ROUNDING_NS: i64 = 1000;

/// A span, with the number of the arrow that begins or ends there.
struct ProfiledSpan<'p> {
    start: i64,
    end: i64,
    name: &'p str,
    begins: Option<u64>,
    ends: Option<u64>,
}

/// A track of a thread or stream, with the ends of the slices that are open there, the innermost last.
struct LaneTrack {
    track: u64,
    open: Vec<i64>,
}

impl<W: Write> TraceWriter<W> {
    /// Adds a profile. Returns whether it covers any of the recorded time.
    ///
    /// # Errors
    /// What the writer answers.
    pub fn profile(&mut self, profile: &TraceTimeline) -> io::Result<bool> {
        let started: HashSet<u32> = profile.gpu.iter().map(|span| span.link).filter(|link| *link != 0).collect();
        let mut arrows: HashMap<u32, u64> = HashMap::new();
        for (number, lane) in (0..).zip(&profile.threads) {
            let spans = profile.of_thread(number).iter().map(|span| {
                let launches = span.kind == HostKind::Runtime && started.contains(&span.link);
                let begins = match arrows.entry(span.link) {
                    Entry::Vacant(arrow) if launches => Some(*arrow.insert(self.packets.flow())),
                    _ => None,
                };
                let name = profile.names.text(span.name);
                ProfiledSpan { start: span.start, end: span.end, name, begins, ends: None }
            });
            let spans: Vec<_> = spans.collect();
            let (parent, name) = self.profiled_thread(lane)?;
            self.spans(profile, (parent, &name), &spans)?;
        }
        let mut streams: BTreeMap<u16, Vec<ProfiledSpan<'_>>> = BTreeMap::new();
        for span in &profile.gpu {
            let (name, ends) = (profile.names.text(span.name), arrows.remove(&span.link));
            let span_of = ProfiledSpan { start: span.start, end: span.end, name, begins: None, ends };
            streams.entry(span.lane).or_default().push(span_of);
        }
        for (number, spans) in streams {
            let Some((gpu, lane)) = profile.streams.get(usize::from(number)) else { continue };
            let top = Track::Named(None, format!("torch profiler: GPU {gpu}"));
            let top = self.packets.track(top, Looks::default())?;
            self.spans(profile, (top, &place_name("stream", &lane.thread)), &spans)?;
        }
        let host = profile.host.iter().map(|span| (span.start, span.end));
        let all = host.chain(profile.gpu.iter().map(|span| (span.start, span.end)));
        let ends = all.reduce(|all, one| (all.0.min(one.0), all.1.max(one.1)));
        let began_ns = self.clock.began_ns.unwrap_or(self.clock.end_ns);
        let overlaps = |(first, last)| time(profile, first) <= self.clock.end_ns && time(profile, last) >= began_ns;
        Ok(ends.is_some_and(overlaps))
    }

    /// The track above those of a thread, and what they are called: below the thread if it is one of a process.
    fn profiled_thread(&mut self, lane: &TraceLane) -> io::Result<(Option<u64>, String)> {
        let number = |place: &TracePlace<'_>| match place {
            TracePlace::Number(number) => u32::try_from(*number).ok(),
            _ => None,
        };
        if let (Some(inner), Some(tid)) = (number(&lane.process).filter(|pid| *pid > 0), number(&lane.thread)) {
            let pid = self.inner_pids.get(&inner).copied().unwrap_or(inner);
            let tid = if tid == inner { pid } else { tid };
            self.packets.track(Track::Process(pid), Looks::default())?;
            let thread = self.packets.track(Track::Thread(pid, tid), Looks::default())?;
            return Ok((thread, "torch profiler".to_owned()));
        }
        let top = Track::Named(None, format!("torch profiler: {}", place_name("process", &lane.process)));
        Ok((self.packets.track(top, Looks::default())?, place_name("thread", &lane.thread)))
    }

    /// Draws the spans of a thread or stream, in the order of their begins, the outer ones first.
    fn spans(
        &mut self,
        profile: &TraceTimeline,
        (parent, name): (Option<u64>, &str),
        spans: &[ProfiledSpan<'_>],
    ) -> io::Result<()> {
        let mut tracks: Vec<LaneTrack> = Vec::new();
        for span in spans {
            tracks.iter_mut().try_for_each(|track| self.end_until(profile, track, span.start))?;
            let fits = |track: &LaneTrack| {
                track.open.last().is_none_or(|outer| span.end <= outer.saturating_add(ROUNDING_NS))
            };
            // What fits nowhere is cut to fit.
            if tracks.len() < LANE_TRACKS && !tracks.iter().any(fits) {
                let nth = tracks.len();
                let own = if nth > 0 { format!("{name} ({})", nth + 1) } else { name.to_owned() };
                let looks = Looks { rank: 2 + nth, ..Looks::default() };
                let Some(track) = self.packets.track(Track::Named(parent, own), looks)? else { return Ok(()) };
                self.packets.begin_timed(track)?;
                tracks.push(LaneTrack { track, open: Vec::new() });
            }
            let place = tracks.iter().position(fits).unwrap_or(LANE_TRACKS - 1);
            let Some(LaneTrack { track, open }) = tracks.get_mut(place) else { continue };
            open.push(open.last().map_or(span.end, |outer| span.end.min(*outer)));
            let event = TrackEvent {
                name: Some(sanitize(span.name).into_owned()),
                flow_ids: span.begins.into_iter().collect(),
                terminating_flow_ids: span.ends.into_iter().collect(),
                ..TrackEvent::default()
            };
            let at = (Sequence::Timed(*track), time(profile, span.start));
            self.packets.event(at, (*track, EventType::SliceBegin), event)?;
        }
        tracks.iter_mut().try_for_each(|track| self.end_until(profile, track, i64::MAX))
    }

    /// Ends the slices that end until then.
    fn end_until(&mut self, profile: &TraceTimeline, of: &mut LaneTrack, moment: i64) -> io::Result<()> {
        while let Some(end) = of.open.pop_if(|end| *end <= moment) {
            let at = (Sequence::Timed(of.track), time(profile, end));
            self.packets.event(at, (of.track, EventType::SliceEnd), TrackEvent::default())?;
        }
        Ok(())
    }
}

/// Nanoseconds since 1970 of a time of the profile.
fn time(profile: &TraceTimeline, at: i64) -> u64 {
    let at = profile.origin_unix_ns().unwrap_or_default().saturating_add(at.into());
    u64::try_from(at.max(0)).unwrap_or(u64::MAX).min(LATEST_NS)
}

/// `stream 7`, or the word in its place.
fn place_name(what: &str, place: &TracePlace<'_>) -> String {
    match place {
        TracePlace::Number(number) => format!("{what} {number}"),
        TracePlace::Word(word) if !word.trim().is_empty() => word.trim().to_owned(),
        _ => what.to_owned(),
    }
}
