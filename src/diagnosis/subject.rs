//! What a verdict's `seen` and `not_seen` speak of.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::sample::SourceId;
use crate::text::named_enum;

named_enum! {
    /// A source, a file of `/proc`, or a part of the job; in the order of their words.
    pub enum Subject {
        /// A device that trainmon cannot read.
        Accelerator = "accelerator",
        /// The control group.
        Cgroup = "cgroup",
        /// The other ends of pipes and sockets.
        Connections = "connections",
        /// Files of `/proc` that are kept open.
        Descriptors = "descriptors",
        /// Disks and mounts.
        Disks = "disks",
        /// `/proc/PID/fd`.
        Fd = "fd",
        /// `/proc/PID/io`.
        Io = "io",
        /// The GPUs, by NVML.
        Nvml = "nvml",
        /// The ranks beside the one that is attached.
        OtherRanks = "other ranks",
        /// Processes of the job.
        Processes = "processes",
        /// Stacks of the processes.
        Stacks = "stacks",
        /// `/proc/PID/syscall`.
        Syscall = "syscall",
        /// Threads of the job.
        Threads = "threads",
        /// What the verdict is.
        Verdict = "verdict",
        /// What threads wait for.
        Waits = "waits",
        /// `/proc/PID/wchan`.
        Wchan = "wchan",
    }
}

impl Subject {
    /// A source, where verdicts speak of it.
    pub fn from_source(source: SourceId) -> Option<Self> {
        source.seen_as().and_then(Self::named)
    }
}

/// What could not be seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Missing {
    /// Anything that has no index.
    Subject(Subject),
    /// The GPU of this index.
    Gpu(u32),
    /// How busy the GPU of this index is.
    GpuLoad(u32),
}

impl Missing {
    /// It is about the GPUs.
    pub fn is_of_gpus(self) -> bool {
        matches!(self, Self::Subject(Subject::Nvml) | Self::Gpu(_) | Self::GpuLoad(_))
    }
}

/// The words of the JSON and the screen: `nvml`, `gpu0`, `gpu0_load`.
impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Subject(subject) => f.write_str(subject.word()),
            Self::Gpu(index) => write!(f, "gpu{index}"),
            Self::GpuLoad(index) => write!(f, "gpu{index}_load"),
        }
    }
}

impl From<Subject> for Missing {
    fn from(subject: Subject) -> Self {
        Self::Subject(subject)
    }
}

impl From<Missing> for String {
    fn from(missing: Missing) -> Self {
        missing.to_string()
    }
}

impl TryFrom<String> for Missing {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let gpu = || {
            let index = text.strip_prefix("gpu")?;
            let load = index.strip_suffix("_load");
            let index = load.unwrap_or(index).parse().ok()?;
            Some(if load.is_some() { Self::GpuLoad(index) } else { Self::Gpu(index) })
        };
        let found = Subject::named(&text).map(Self::Subject).or_else(gpu);
        found.ok_or_else(|| format!("nothing is called {text}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_read_back() {
        let with_index = [Missing::Gpu(0), Missing::Gpu(12), Missing::GpuLoad(12)];
        for missing in Subject::ALL.into_iter().map(Missing::Subject).chain(with_index) {
            let json = serde_json::to_string(&missing).unwrap();
            assert_eq!(json, format!("\"{missing}\""));
            assert_eq!(serde_json::from_str::<Missing>(&json).unwrap(), missing);
        }
        assert!(Subject::ALL.is_sorted_by_key(|subject| subject.word()), "the JSON's `seen` is in their order");
        assert!(Missing::try_from("gpu".to_owned()).is_err() && Missing::try_from(String::new()).is_err());
    }
}
