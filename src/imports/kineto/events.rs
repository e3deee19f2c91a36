//! The events of a trace as the import sees them, one after another, without keeping them.

use std::io::BufRead;

use serde::Deserialize;
use serde_json::Value;

use crate::imports::ImportError;
use crate::imports::torch_trace::{self, TraceDevice, TraceHead};
use crate::sample::profile::{ProfileEvent, ProfilePlace};

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
    pub devices: Vec<TraceDevice>,
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
    let TraceHead { start_ns, devices } = torch_trace::parse(from, |event| {
        take(&Event::from(event));
        Ok(())
    })?;
    Ok(Meta { base_ns: start_ns, devices })
}

/// What is wanted of an event's arguments.
#[derive(Deserialize)]
struct Arguments {
    device: Option<i64>,
}

impl From<ProfileEvent> for Event {
    fn from(event: ProfileEvent) -> Self {
        let ns = |us: f64| if us.is_finite() { (us.clamp(0.0, LATEST_US) * 1000.0) as u64 } else { 0 };
        let start_ns = ns(event.at_us);
        Self {
            pid: number(&event.pid),
            tid: number(&event.tid),
            start_ns,
            end_ns: start_ns.saturating_add(ns(event.length_us)),
            device: serde_json::from_value(Value::Object(event.args)).ok().and_then(|Arguments { device }| device),
            ph: event.kind,
            cat: event.category,
            name: event.name,
        }
    }
}

/// A number, or the number in a text (`stream 7`); other texts are a number of their own.
fn number(place: &ProfilePlace) -> i64 {
    match place {
        ProfilePlace::Number(number) => *number,
        ProfilePlace::Word(word) => word.rsplit(' ').next().and_then(|last| last.parse().ok()).unwrap_or(-1),
    }
}
