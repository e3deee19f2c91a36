//! Where threads were while they ran on a CPU: for each of them the files that its sampled instruction pointers fell into.
//!
//! A window counts by itself: nothing has to be subtracted. Time in the kernel is not sampled.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::ProcessId;

/// Most threads sampled at a time.
pub const MOST_THREADS: usize = 32;
/// Most files kept of one thread; samples in further ones are in [`ThreadAddresses::rest`].
pub const MOST_FILES: usize = 32;

/// What was sampled since the last tick.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct AddressesSample {
    /// CLOCK_MONOTONIC at the end of the window, nanoseconds.
    pub monotonic_ns: u64,
    /// Length of the window, nanoseconds.
    pub window_ns: u64,
    /// Samples for each second that a thread runs.
    pub rate_hz: u32,
    /// Mapped files, each once: a path as `/proc/PID/maps` gives it, `[vdso]`, or nothing for memory without a file.
    pub files: Vec<Arc<str>>,
    /// The threads that were sampled through the whole window, those without a sample too.
    pub threads: Vec<ThreadAddresses>,
    /// Samples that the kernel had no room for.
    pub lost: u64,
}

/// Where one thread was.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ThreadAddresses {
    /// Its process.
    pub process: ProcessId,
    /// TID.
    pub tid: u32,
    /// Positions in [`AddressesSample::files`] with the number of samples, most first, at most [`MOST_FILES`].
    pub files: Vec<(u32, u32)>,
    /// Samples elsewhere: in further files, or where nothing was mapped any more.
    pub rest: u32,
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::sample::{Sample, SourceState};

    #[test]
    fn a_sample_reads_back_and_an_older_one_has_none() {
        let thread = ThreadAddresses { tid: 7, files: vec![(0, 3)], ..ThreadAddresses::default() };
        let addresses = AddressesSample { files: vec!["[vdso]".into()], threads: vec![thread], ..Default::default() };
        let sample = Sample { addresses: Some(Arc::new(addresses)), ..Sample::default() };
        let mut json = serde_json::to_value(&sample).unwrap();
        let back: Sample = serde_json::from_value(json.clone()).unwrap();
        assert_eq!(back.addresses, sample.addresses);
        json.as_object_mut().unwrap().remove("addresses").unwrap();
        json.pointer_mut("/sources").unwrap().as_object_mut().unwrap().remove("addresses").unwrap();
        let older: Sample = serde_json::from_value(json).unwrap();
        assert_eq!((older.addresses, older.sources.addresses.state), (None, SourceState::Pending));
    }
}
