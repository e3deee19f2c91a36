//! What torch's profiler recorded of a run, event by event, in the terms of its file: Chrome's trace event format.

use std::fmt;

use serde::Deserialize;
use serde_json::{Map, Value};

/// One event.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct ProfileEvent {
    /// What it is: `X` for something with a length, `i` for a moment, `s` and `f` for the two ends of an arrow, `M` for a name.
    #[serde(rename = "ph")]
    pub kind: String,
    /// Name, raw.
    pub name: String,
    /// Category, raw.
    #[serde(rename = "cat")]
    pub category: String,
    /// Begin, microseconds after the start of the file's clock.
    #[serde(rename = "ts")]
    pub at_us: f64,
    /// Length, microseconds.
    #[serde(rename = "dur")]
    pub length_us: f64,
    /// PID as the profiled process sees it, the number of a GPU, or a word.
    pub pid: ProfilePlace,
    /// TID, the number of a stream, or a word.
    pub tid: ProfilePlace,
    /// For an arrow: its number, the same at both ends.
    pub id: ProfilePlace,
    /// More about it, raw.
    pub args: Map<String, Value>,
}

/// A number, or a word in its place.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Deserialize)]
#[serde(untagged)]
pub enum ProfilePlace {
    /// A number.
    Number(i64),
    /// A word, raw.
    Word(String),
}

impl ProfilePlace {
    /// The number, if it can be one of a process, thread or GPU.
    pub fn number(&self) -> Option<u32> {
        match self {
            Self::Number(number) => u32::try_from(*number).ok(),
            Self::Word(_) => None,
        }
    }
}

impl Default for ProfilePlace {
    fn default() -> Self {
        Self::Word(String::new())
    }
}

impl fmt::Display for ProfilePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::Word(word) => f.write_str(word),
        }
    }
}
