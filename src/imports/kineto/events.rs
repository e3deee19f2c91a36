//! The events of a trace, one after another, without keeping them: what the reader wants of each, and of the trace as a whole.

use std::fmt;
use std::io::BufRead;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::values::{Arguments, BoundedStrings, DescribedDevice, DescribedDevices, EventKey, EventNumber, EventText};
use crate::imports::ImportError;

/// Times from here on, nanoseconds, are since 1970 (the year 2001), not since the machine started.
const SINCE_1970_NS: u64 = 1_000_000_000_000_000_000;
/// Latest time that is believed, microseconds (the year 2255).
const LATEST_US: f64 = 9e15;

/// What a trace says as a whole.
#[derive(Debug, Default)]
pub(super) struct Meta {
    /// What the events' times count from, nanoseconds since 1970.
    base_ns: u64,
    /// Its GPUs.
    pub devices: Vec<DescribedDevice>,
}

impl Meta {
    /// Milliseconds since 1970 of an event's time. A trace that counts from the start of the machine has no date.
    pub(super) fn unix_ms(&self, ns: u64) -> i64 {
        let ns = if ns >= SINCE_1970_NS { ns } else { ns.saturating_add(self.base_ns) };
        i64::try_from(ns / 1_000_000).unwrap_or(i64::MAX)
    }
}

/// One event.
#[derive(Debug, Default)]
pub(super) struct Event {
    /// Kind: `X` for a span, `s` for the begin of an arrow.
    pub ph: String,
    /// `cpu_op`, `kernel`, `user_annotation`, …
    pub cat: String,
    /// Name.
    pub name: String,
    /// Process, or GPU.
    pub pid: i64,
    /// Thread, or stream.
    pub tid: i64,
    /// Begin and end, nanoseconds.
    pub start_ns: u64,
    /// End.
    pub end_ns: u64,
    device: Option<i64>,
}

impl Event {
    /// Whether it is a span of time.
    pub(super) fn is_span(&self) -> bool {
        self.ph == "X"
    }

    /// Whether it happened on a GPU.
    pub(super) fn is_of_device(&self) -> bool {
        matches!(self.cat.as_str(), "kernel" | "gpu_memcpy" | "gpu_memset" | "gpu_user_annotation")
    }

    /// The GPU that it happened on.
    pub(super) fn device(&self) -> u32 {
        u32::try_from(self.device.unwrap_or(self.pid)).unwrap_or_default()
    }

    /// Whether it is the begin of the arrow from an operator to its part in the backward pass.
    pub(super) fn is_forward_flow(&self) -> bool {
        self.ph == "s" && self.cat == "fwdbwd"
    }
}

/// Hands every event to `take`.
pub(super) fn visit(from: impl BufRead, mut take: impl FnMut(&Event)) -> Result<Meta, ImportError> {
    let mut meta = Meta::default();
    let mut json = serde_json::Deserializer::from_reader(BoundedStrings::new(from));
    let read = Trace { take: &mut take, meta: &mut meta }.deserialize(&mut json);
    let ended = read.and_then(|()| json.end());
    match ended {
        Ok(()) => Ok(meta),
        Err(error) if error.is_io() => Err(ImportError::Read(error.into())),
        Err(error) if error.is_eof() => {
            Err(ImportError::Bad("the trace is cut off: the profiler did not finish writing it".into()))
        }
        Err(error) => Err(ImportError::Bad(format!(
            "not a trace of torch.profiler: {}",
            crate::text::fit(&error.to_string(), 160)
        ))),
    }
}

/// The whole trace: an object with `traceEvents`, or only their list.
struct Trace<'a> {
    take: &'a mut dyn FnMut(&Event),
    meta: &'a mut Meta,
}

impl<'de> DeserializeSeed<'de> for Trace<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Trace<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("traceEvents")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut any = false;
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "traceEvents" => {
                    any = true;
                    map.next_value_seed(EventList(self.take))?;
                }
                "baseTimeNanoseconds" => self.meta.base_ns = map.next_value::<EventNumber>()?.0.max(0.0) as u64,
                "deviceProperties" => self.meta.devices = map.next_value::<DescribedDevices>()?.0,
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        if any { Ok(()) } else { Err(A::Error::custom("no traceEvents in it")) }
    }

    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<(), A::Error> {
        EventList(self.take).visit_seq(seq)
    }
}

struct EventList<'a>(&'a mut dyn FnMut(&Event));

impl<'de> DeserializeSeed<'de> for EventList<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for EventList<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of events")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        let mut event = Event::default();
        while seq.next_element_seed(EventInto(&mut event))?.is_some() {
            (self.0)(&event);
        }
        Ok(())
    }
}

/// Reads an event into the room of the last one.
struct EventInto<'a>(&'a mut Event);

impl<'de> DeserializeSeed<'de> for EventInto<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for EventInto<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an event")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let event = self.0;
        [&mut event.ph, &mut event.cat, &mut event.name].into_iter().for_each(String::clear);
        (event.pid, event.tid, event.device) = (0, 0, None);
        let (mut ts, mut dur) = (0.0, 0.0);
        while let Some(key) = map.next_key::<EventKey>()? {
            match key {
                EventKey::Ph => map.next_value_seed(EventText(&mut event.ph))?,
                EventKey::Cat => map.next_value_seed(EventText(&mut event.cat))?,
                EventKey::Name => map.next_value_seed(EventText(&mut event.name))?,
                EventKey::Pid => event.pid = map.next_value::<EventNumber>()?.id(),
                EventKey::Tid => event.tid = map.next_value::<EventNumber>()?.id(),
                EventKey::Ts => ts = map.next_value::<EventNumber>()?.0,
                EventKey::Dur => dur = map.next_value::<EventNumber>()?.0,
                EventKey::Args => event.device = map.next_value::<Arguments>()?.0,
                EventKey::Other => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        let ns = |us: f64| if us.is_finite() { (us.clamp(0.0, LATEST_US) * 1000.0) as u64 } else { 0 };
        event.start_ns = ns(ts);
        event.end_ns = event.start_ns.saturating_add(ns(dur));
        Ok(())
    }
}
