//! The parts of the loop's time under the names that people read: the five kinds of [`LoopActivity`], and instead of the fifth, as
//! far as the wait chain shows it, what the loop waits for. Screen, text, reports and docs all take them from here.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use trainmon_base::text::named_enum;
use trainmon_waits::time_split::{LoopActivity, TimeSplit};

/// Makes [`WaitFor`] from the list: variant, word of the JSON, and what is waited for, with an article and in one word.
macro_rules! waits_for {
    ($($(#[$doc:meta])+ $Wait:ident $key:literal $what:literal $short:literal)+) => {
        named_enum! {
            /// What the loop waits for, if that is neither data nor the GPU. Its word is that of the JSON.
            pub enum WaitFor { $($(#[$doc])+ $Wait = $key,)+ }
        }

        impl WaitFor {
            /// With its article: "a lock".
            fn what(self) -> &'static str {
                match self { $(Self::$Wait => $what,)+ }
            }

            /// One word, for legends with little room.
            pub fn short(self) -> &'static str {
                match self { $(Self::$Wait => $short,)+ }
            }
        }
    };
}

waits_for! {
    /// A lock on a file.
    Lock "lock" "a lock" "lock"
    /// Python's interpreter lock.
    InterpreterLock "interpreter-lock" "the GIL" "GIL"
    /// An answer over the network.
    Server "server" "a server" "server"
    /// Another process that works on request.
    Process "process" "another process" "process"
    /// Another thread of its process.
    Thread "thread" "another thread" "thread"
    /// The other ranks of a distributed run.
    Ranks "ranks" "other ranks" "other ranks"
    /// The reader of its output.
    Reader "reader" "the reader of its output" "reader"
    /// A sleep of its own.
    Sleep "sleep" "a sleep to end" "sleep"
    /// A request from a client.
    Request "request" "requests" "requests"
}

/// A part of the loop's time outside the first four kinds, with its name.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct LoopWait {
    /// What it waits for.
    #[serde(rename = "for")]
    pub on: WaitFor,
    /// The process, if it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// Share of the loop's time, 0–1.
    pub share: f64,
}

/// A part of the loop's time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoopPart {
    /// One of the five kinds; the fifth is what has no other name.
    Activity(LoopActivity),
    /// A wait for this, and which process if it is one.
    Wait(WaitFor, Option<u32>),
}

impl LoopPart {
    /// What the loop is doing: "waiting for a lock".
    pub fn word(self) -> Cow<'static, str> {
        match self {
            Self::Activity(activity) => activity.word().into(),
            Self::Wait(WaitFor::Sleep, _) => "sleeping".into(),
            Self::Wait(_, Some(pid)) => format!("waiting for process {pid}").into(),
            Self::Wait(on, None) => format!("waiting for {}", on.what()).into(),
        }
    }

    /// The same as a verb: "waits for a lock".
    pub fn verb(self) -> Cow<'static, str> {
        match self {
            Self::Activity(activity) => activity.verb().into(),
            Self::Wait(WaitFor::Sleep, _) => "sleeps".into(),
            Self::Wait(_, Some(pid)) => format!("waits for process {pid}").into(),
            Self::Wait(on, None) => format!("waits for {}", on.what()).into(),
        }
    }

    /// One word, for legends with little room; a process has its number.
    pub fn short(self) -> Cow<'static, str> {
        match self {
            Self::Activity(activity) => activity.short().into(),
            Self::Wait(on, Some(pid)) => format!("{} {pid}", on.short()).into(),
            Self::Wait(on, None) => on.short().into(),
        }
    }

    /// The kind of time that it is a part of.
    pub fn activity(self) -> LoopActivity {
        match self {
            Self::Activity(activity) => activity,
            Self::Wait(..) => LoopActivity::Other,
        }
    }
}

/// Parts below this are rounded to nothing, and not listed.
pub const LEAST_LISTED: f64 = 0.005;

/// The parts of a split, the fifth kind divided by what is waited for.
pub fn parts(shares: &TimeSplit, waits: &[LoopWait]) -> Vec<(LoopPart, f64)> {
    let named: f64 = waits.iter().map(|wait| wait.share).sum();
    let activities = shares.iter().map(|(activity, share)| match activity {
        LoopActivity::Other => (LoopPart::Activity(activity), share - named),
        _ => (LoopPart::Activity(activity), share),
    });
    let waits = waits.iter().map(|wait| (LoopPart::Wait(wait.on, wait.pid), wait.share));
    let mut parts: Vec<_> =
        activities.chain(waits).filter(|(_, share)| share.is_finite() && *share >= LEAST_LISTED).collect();
    parts.sort_by(|a, b| b.1.total_cmp(&a.1));
    parts
}
