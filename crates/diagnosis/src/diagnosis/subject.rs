//! The subjects of a verdict's `seen` and `not_seen`.

use std::fmt;

use serde::{Deserialize, Serialize};

use trainmon_base::text::{named_enum, sanitize};
use trainmon_sample::SourceId;

named_enum! {
    /// A source, a file of `/proc`, or a part of the job, in the order of their words.
    pub enum Subject {
        /// An accelerator that trainmon cannot read.
        Accelerator = "accelerator",
        /// The control group.
        Cgroup = "cgroup",
        /// The processes at the other ends of pipes and sockets.
        Connections = "connections",
        /// The files of `/proc` that trainmon keeps open.
        Descriptors = "descriptors",
        /// Disks and mounts.
        Disks = "disks",
        /// `/proc/PID/fd`.
        Fd = "fd",
        /// `/proc/PID/io`.
        Io = "io",
        /// The GPUs, by NVML.
        Nvml = "nvml",
        /// The ranks besides the attached one.
        OtherRanks = "other ranks",
        /// Processes of the job.
        Processes = "processes",
        /// Stacks of the processes.
        Stacks = "stacks",
        /// `/proc/PID/syscall`.
        Syscall = "syscall",
        /// Threads of the job.
        Threads = "threads",
        /// The verdict itself.
        Verdict = "verdict",
        /// What threads wait for.
        Waits = "waits",
        /// `/proc/PID/wchan`.
        Wchan = "wchan",
    }
}

impl Subject {
    /// What it is, for a person.
    fn title(self) -> &'static str {
        match self {
            Self::Cgroup => "control group",
            Self::Connections => "pipes and sockets",
            Self::Descriptors => "files kept open",
            Self::Fd => "open files of the job",
            Self::Io => "reads and writes of the job",
            Self::Nvml => "GPU",
            Self::Stacks => "Python stacks",
            Self::Syscall => "system calls",
            Self::Waits => "waits",
            Self::Wchan => "kernel waits",
            named => named.word(),
        }
    }

    /// The subject for a source, if verdicts name it.
    pub fn from_source(source: SourceId) -> Option<Self> {
        source.seen_as().and_then(Self::named)
    }
}

/// What could not be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Missing {
    /// One of the known subjects.
    Subject(Subject),
    /// A GPU, or one of its values: `gpu0`, `gpu0_load`, `gpu0_sm`, `gpu0_power`.
    Gpu(String),
}

impl From<Subject> for Missing {
    fn from(subject: Subject) -> Self {
        Self::Subject(subject)
    }
}

impl Missing {
    /// What it is, for a person. Safe to print.
    pub fn title(&self) -> String {
        let title = match self {
            Self::Subject(subject) => subject.title(),
            Self::Gpu(gpu) => {
                let index: String = gpu.chars().filter(char::is_ascii_digit).collect();
                let values = [("_load", "use of "), ("_sm", "SM activity of "), ("_power", "power and clocks of ")];
                let value = values.iter().find(|(end, _)| gpu.ends_with(end)).map_or("", |(_, value)| value);
                return format!("{value}GPU {index}");
            }
        };
        title.to_owned()
    }
}

/// The words of the JSON, safe to print.
impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Subject(subject) => f.write_str(subject.word()),
            Self::Gpu(gpu) => f.write_str(&sanitize(gpu)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_read_back() {
        for missing in Subject::ALL.into_iter().map(Missing::Subject).chain([Missing::Gpu("gpu0".to_owned())]) {
            let json = serde_json::to_string(&missing).unwrap();
            assert_eq!(json, format!("\"{missing}\""));
            assert_eq!(serde_json::from_str::<Missing>(&json).unwrap(), missing);
        }
        assert!(Subject::ALL.is_sorted_by_key(|subject| subject.word()), "the JSON's `seen` is in their order");
    }
}
