//! Packets for a writer: declares each track before its first event, and each name before its first use.

use std::collections::{HashMap, HashSet};
use std::io::{self, Write};

use prost::Message;

use super::proto::{
    BOOTTIME, COUNT, ClockReading, ClockSnapshot, CounterDescriptor, EXPLICIT, EventType, MONOTONIC, NEEDS_STATE,
    ProcessDescriptor, REALTIME, STATE_CLEARED, ThreadDescriptor, TracePacket, TracePacketDefaults, TrackDescriptor,
    TrackEvent,
};
use trainmon_base::text::sanitize;

/// Field 1 of `Trace`, with a length before its content: what is in front of each packet.
const PACKET: u8 = 1 << 3 | 2;
/// Most tracks of a trace: a job that starts processes all the time gets no more.
const TRACKS: usize = 100_000;
/// A stream of packets within which time does not go back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sequence {
    /// What trainmon recorded, interval by interval.
    Recorded,
    /// Slices of this track, which are written once all of them are known.
    Timed(u64),
}

impl Sequence {
    fn id(self) -> u32 {
        match self {
            Self::Recorded => 1,
            Self::Timed(track) => u32::try_from(track).map_or(u32::MAX, |track| track.saturating_add(2)),
        }
    }
}

/// What a track is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Track {
    /// A process, by PID.
    Process(u32),
    /// A thread, by PID and TID.
    Thread(u32, u32),
    /// A row with a name, below another track or at the top.
    Named(Option<u64>, String),
}

/// How a track is shown.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Looks<'a> {
    /// The name of a process or thread.
    pub(super) name: &'a str,
    /// A command line, or what a counter means.
    pub(super) about: &'a str,
    /// Its place among its siblings.
    pub(super) rank: usize,
    /// For a counter: its unit.
    pub(super) unit: Option<&'a str>,
    /// Counters with the same key share their scale.
    pub(super) scale: Option<&'a str>,
}

/// Writes packets, each in one piece.
#[derive(Debug)]
pub(super) struct Packets<W: Write> {
    pub(super) out: W,
    buffer: Vec<u8>,
    tracks: HashMap<Track, u64>,
    /// Tracks whose slices have a sequence of their own.
    timed: HashSet<u64>,
    flows: u64,
}

impl<W: Write> Packets<W> {
    pub(super) fn new(out: W) -> Self {
        Self { out, buffer: Vec::new(), tracks: HashMap::new(), timed: HashSet::new(), flows: 0 }
    }

    fn write(&mut self, packet: &TracePacket) -> io::Result<()> {
        self.buffer.clear();
        self.buffer.push(PACKET);
        packet.encode_length_delimited(&mut self.buffer).map_err(io::Error::other)?;
        self.out.write_all(&self.buffer)
    }

    /// Says that times are those of the wall clock, and what the other clocks read at one moment.
    pub(super) fn begin(&mut self, [realtime, monotonic, boottime]: [u64; 3]) -> io::Result<()> {
        let clocks = [(REALTIME, realtime), (MONOTONIC, monotonic), (BOOTTIME, boottime)];
        let known = clocks.into_iter().filter(|(_, timestamp)| *timestamp > 0);
        let reading = |(clock, timestamp)| ClockReading { clock_id: Some(clock), timestamp: Some(timestamp) };
        let clock_snapshot =
            Some(ClockSnapshot { clocks: known.map(reading).collect(), primary_trace_clock: Some(REALTIME) });
        self.write(&TracePacket {
            clock_snapshot,
            trusted_packet_sequence_id: Some(Sequence::Recorded.id()),
            ..TracePacket::default()
        })?;
        self.begin_sequence(Sequence::Recorded)
    }

    /// Comes before the first event of a sequence.
    fn begin_sequence(&mut self, sequence: Sequence) -> io::Result<()> {
        self.write(&TracePacket {
            trusted_packet_sequence_id: Some(sequence.id()),
            sequence_flags: Some(STATE_CLEARED),
            first_packet_on_sequence: Some(true),
            trace_packet_defaults: Some(TracePacketDefaults { timestamp_clock_id: Some(REALTIME) }),
            ..TracePacket::default()
        })
    }

    /// Comes before the first slice of a track with a sequence of its own.
    pub(super) fn begin_timed(&mut self, track: u64) -> io::Result<()> {
        if self.timed.insert(track) { self.begin_sequence(Sequence::Timed(track)) } else { Ok(()) }
    }

    /// Writes a slice that has ended. The slices of a track come in their order, and none lies within another.
    pub(super) fn slice(&mut self, track: u64, (from, to): (u64, u64), begin: TrackEvent) -> io::Result<()> {
        let sequence = Sequence::Timed(track);
        self.begin_timed(track)?;
        self.event((sequence, from), (track, EventType::SliceBegin), begin)?;
        self.event((sequence, to), (track, EventType::SliceEnd), TrackEvent::default())
    }

    /// The number of a track, which is declared when it is first asked for; `None` if there are too many.
    pub(super) fn track(&mut self, track: Track, looks: Looks<'_>) -> io::Result<Option<u64>> {
        if let Some(uuid) = self.tracks.get(&track) {
            return Ok(Some(*uuid));
        }
        if self.tracks.len() >= TRACKS {
            return Ok(None);
        }
        let uuid = self.tracks.len() as u64 + 1;
        let text = |text: &str| Some(sanitize(text).into_owned()).filter(|text| !text.is_empty());
        let mut descriptor = TrackDescriptor { uuid: Some(uuid), ..TrackDescriptor::default() };
        match &track {
            Track::Process(pid) => {
                descriptor.process = Some(ProcessDescriptor {
                    pid: Some(pid.cast_signed()),
                    cmdline: text(looks.about).into_iter().collect(),
                    process_name: text(looks.name),
                });
            }
            Track::Thread(pid, tid) => {
                descriptor.thread = Some(ThreadDescriptor {
                    pid: Some(pid.cast_signed()),
                    tid: Some(i64::from(*tid)),
                    thread_name: text(looks.name),
                });
            }
            Track::Named(parent, name) => {
                descriptor.name = text(name);
                descriptor.parent_uuid = *parent;
                descriptor.description = text(looks.about);
                descriptor.sibling_order_rank = i32::try_from(looks.rank).ok();
            }
        }
        descriptor.counter = looks.unit.map(|unit| {
            let count = unit == "number";
            CounterDescriptor {
                unit: count.then_some(COUNT),
                unit_name: (!count).then(|| unit.to_owned()),
                y_axis_share_key: looks.scale.map(str::to_owned),
            }
        });
        if descriptor.counter.is_none() {
            descriptor.child_ordering = Some(EXPLICIT);
        }
        self.tracks.insert(track, uuid);
        self.write(&TracePacket {
            trusted_packet_sequence_id: Some(Sequence::Recorded.id()),
            track_descriptor: Some(descriptor),
            ..TracePacket::default()
        })?;
        Ok(Some(uuid))
    }

    /// A number that no other arrow has.
    pub(super) fn flow(&mut self) -> u64 {
        self.flows += 1;
        self.flows
    }

    /// Writes an event of a track that was declared.
    pub(super) fn event(
        &mut self,
        (sequence, time): (Sequence, u64),
        (track, kind): (u64, EventType),
        event: TrackEvent,
    ) -> io::Result<()> {
        self.write(&TracePacket {
            timestamp: Some(time),
            trusted_packet_sequence_id: Some(sequence.id()),
            sequence_flags: Some(NEEDS_STATE),
            track_event: Some(TrackEvent { r#type: Some(kind as i32), track_uuid: Some(track), ..event }),
            ..TracePacket::default()
        })
    }
}
