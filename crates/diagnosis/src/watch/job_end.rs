//! How a job has ended, as far as that can be known from outside.

use serde::{Deserialize, Serialize};

use super::WatchedMoment;
use crate::pipeline::Tick;

/// Names of the signals that end programs (signal(7)); their numbers are those of x86-64 and aarch64.
const SIGNALS: [(u8, &str); 14] = [
    (1, "SIGHUP"),
    (2, "SIGINT"),
    (3, "SIGQUIT"),
    (4, "SIGILL"),
    (5, "SIGTRAP"),
    (6, "SIGABRT"),
    (7, "SIGBUS"),
    (8, "SIGFPE"),
    (9, "SIGKILL"),
    (11, "SIGSEGV"),
    (13, "SIGPIPE"),
    (14, "SIGALRM"),
    (15, "SIGTERM"),
    (24, "SIGXCPU"),
];

/// How a job has ended. What is not known is `None`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct JobEnd {
    /// Its exit code, if it ended on its own.
    pub exit_code: Option<u8>,
    /// The number of the signal that killed it.
    pub signal: Option<u8>,
    /// The kernel's log says that it was killed because memory ran out.
    pub killed_for_memory: Option<bool>,
    /// Processes of its control group that the kernel killed because memory ran out, since watching began.
    pub oom_kills: Option<u64>,
    /// The last of them, seconds before the end.
    pub last_oom_kill_s: Option<f64>,
    /// The file that its output went to.
    pub output_file: Option<String>,
    /// The last lines of that file that say why it ended.
    pub output_lines: Vec<String>,
    /// They are the end of a traceback.
    pub is_traceback: bool,
    /// Lines with text that follow the traceback in the file.
    pub lines_after: u32,
}

impl JobEnd {
    /// In a few words: `exit code 1`, `killed by SIGKILL because memory ran out`; `None` if it is not known.
    pub fn words(&self) -> Option<String> {
        let for_memory = if self.killed_for_memory == Some(true) { " because memory ran out" } else { "" };
        match (self.exit_code, self.signal) {
            (Some(code), _) => Some(format!("exit code {code}")),
            (None, Some(signal)) => Some(format!("killed by {}{for_memory}", signal_words(signal))),
            (None, None) if !for_memory.is_empty() => Some(format!("killed{for_memory}")),
            (None, None) => None,
        }
    }
}

fn signal_words(number: u8) -> String {
    let name = SIGNALS.iter().find(|(known, _)| *known == number);
    name.map_or_else(|| format!("signal {number}"), |(_, name)| (*name).to_owned())
}

/// Counts the processes of the job's control group that the kernel killed.
#[derive(Debug, Default)]
pub(super) struct OomKills {
    /// The count at the newest tick.
    count: Option<u64>,
    killed: u64,
    /// Seconds since the last one.
    since_s: Option<f64>,
}

impl OomKills {
    pub(super) fn push(&mut self, moment: WatchedMoment<'_>) {
        self.since_s = self.since_s.map(|since_s| since_s + moment.seconds);
        let Some(now) = moment.tick.sample.job.as_ref().and_then(|job| job.cgroup.oom_kills) else { return };
        // In another group it begins anew.
        let new = self.count.replace(now).map_or(0, |before| now.saturating_sub(before));
        if new > 0 {
            self.killed = self.killed.saturating_add(new);
            self.since_s = Some(0.0);
        }
    }

    /// The end that this last tick shows.
    pub(super) fn end(&self, last: &Tick) -> JobEnd {
        let ending = last.sample.ending.as_deref();
        let output = ending.and_then(|ending| ending.output.as_ref());
        JobEnd {
            exit_code: ending.and_then(|ending| ending.exit_code),
            signal: ending.and_then(|ending| ending.signal),
            killed_for_memory: ending.and_then(|ending| ending.out_of_memory),
            oom_kills: self.count.map(|_| self.killed),
            last_oom_kill_s: self.since_s,
            output_file: output.map(|output| output.file.to_string()),
            output_lines: output.iter().flat_map(|output| &output.lines).map(ToString::to_string).collect(),
            is_traceback: output.is_some_and(|output| output.traceback),
            lines_after: output.map_or(0, |output| output.lines_after),
        }
    }
}
