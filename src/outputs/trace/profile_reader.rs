//! Reads what torch's profiler wrote, with the reader that serves accounts as well: what is damaged in it is left out.

use std::io::{self, Read};

use serde_json::Value;

use super::profile::TracedProfile;
use crate::profiles::ProfileError;
use crate::profiles::json::{self, TraceSink};

/// The key of the start of the clock.
const START: &str = "baseTimeNanoseconds";

/// Takes events until one is refused.
#[derive(Debug, Default)]
struct ProfileSink {
    profile: TracedProfile,
    refused: Option<io::Error>,
}

impl TraceSink for ProfileSink {
    fn event(&mut self, text: &str) -> serde_json::Result<usize> {
        let (event, length) = json::first_value(text)?;
        self.refused = self.profile.add(event).err();
        Ok(length)
    }

    fn wants(&mut self, key: &str) -> bool {
        key == START
    }

    fn value(&mut self, _: &str, value: Value) {
        self.profile.start_ns = value.as_u64().unwrap_or_default();
    }

    fn is_full(&self) -> bool {
        self.refused.is_some()
    }
}

/// Reads a trace: JSON that is not packed.
///
/// # Errors
/// It cannot be read, it is no trace, or what [`TracedProfile::add`] answers.
pub fn read(input: impl Read) -> Result<TracedProfile, ProfileError> {
    let mut sink = ProfileSink::default();
    sink.profile.end = json::read_trace(input, &mut sink)?;
    match sink.refused {
        Some(error) => Err(error.into()),
        None if sink.profile.end.lists == 0 => Err(ProfileError::NoTrace),
        None => Ok(sink.profile),
    }
}
