//! One event: what changed, in words and in numbers.

use serde::Serialize;

use super::JobEnd;
use crate::diagnosis::Verdict;
use crate::diagnosis::causes::Cause;
use crate::diagnosis::verdict::{Class, Phase};
use trainmon_base::text::format::sureness;
use trainmon_base::text::named_enum;

named_enum! {
    /// What an event is about.
    pub enum EventKind {
        /// Watching has begun.
        Attached = "attached",
        /// Another class or cause holds the job back, or nothing does any more.
        Bottleneck = "bottleneck",
        /// The job hangs, is stopped, or has done nothing for long.
        Hung = "hung",
        /// Steps take longer than they did.
        Slower = "slower",
        /// The other ranks wait for one.
        LateRank = "late-rank",
        /// Memory will be full soon.
        Memory = "memory",
        /// The run will not be done before its time limit.
        Deadline = "deadline",
        /// The clocks of a GPU are held down, or the CPU quota of the control group stops the job.
        Throttled = "throttled",
        /// The driver has reported an error of a GPU.
        GpuError = "gpu-error",
        /// The processes that trained have ended, and others train in their place.
        Restarted = "restarted",
        /// A profile that another event asked for has been taken.
        Profile = "profile",
        /// The job has ended.
        Ended = "ended",
        /// The run in short.
        Summary = "summary",
    }
}

impl EventKind {
    /// What it means, for a table: a sentence, and how soon it is told.
    pub fn meaning(self) -> (&'static str, &'static str) {
        match self {
            Self::Attached => ("Watching begins.", "at once"),
            Self::Bottleneck => (
                "Another class or cause holds the job back, or nothing does any more. The first one is reported, too.",
                "20 s after the verdict changed; 3 min for saving state",
            ),
            Self::Hung => (
                "The job hangs in a wait that nothing ends, is stopped by a signal, or has trained and now does nothing; and when it \
                 goes on.",
                "12 s after the verdict says so; 2 min for a job that is idle",
            ),
            Self::Slower => (
                "Steps take longer than in the last hour of training, by `--slower` or more; and when they are as before.",
                "30 s, or six steps if they are longer than 5 s; later where step times vary much",
            ),
            Self::LateRank => ("The other ranks wait for one, and which one; and when they do not any more.", "20 s"),
            Self::Memory => (
                "The memory of the machine, of the control group or of a GPU will be full within an hour at its present growth; and when it no \
                 longer grows so fast.",
                "3 min of even growth; 30 s if it will be full within 5 min",
            ),
            Self::Deadline => (
                "At its pace the run will not be done before its time limit (Slurm's `SLURM_JOB_END_TIME`). Its progress is read from \
                 tqdm's bar in the file that its output goes to, or by `max_steps` and the like beside the loop's counter; and when it \
                 can be done in time again.",
                "30 s after its progress is known",
            ),
            Self::Throttled => (
                "A GPU's clocks are held down by heat, by the power supply or by the hardware; or the CPU quota of the control group \
                 stops the job. The power limit of a busy GPU does not count.",
                "15 s",
            ),
            Self::GpuError => (
                "The NVIDIA driver has reported an error of one of the job's GPUs, by its number (Xid). Most of them end the job or \
                 leave it hanging.",
                "at once; the same number again after a minute",
            ),
            Self::Restarted => (
                "The processes that trained have ended, and a launcher has started others that train in their place.",
                "as soon as they train",
            ),
            Self::Profile => (
                "What the profile shows that `--profile-on` has taken at another event, or why it could not be taken.",
                "some seconds after that event",
            ),
            Self::Ended => ("The job has ended, and how. `watch` ends, too.", "at once"),
            Self::Summary => (
                "The run in short: see [In the morning](#in-the-morning). A line of its own with `--json` only.",
                "when the job has ended, and when `watch` ends",
            ),
        }
    }
}

named_enum! {
    /// Where in its course the thing is.
    pub enum EventState {
        /// It is there.
        Begins = "begins",
        /// It is another one now.
        Changed = "changed",
        /// It is over.
        Ends = "ends",
    }
}

/// Something that changed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WatchEvent {
    /// Wall clock, milliseconds since 1970.
    pub unix_ms: i64,
    /// The watched process.
    pub pid: u32,
    /// What it is about.
    pub kind: EventKind,
    /// Whether it begins, ends, or is another one now; `None` where it is but a moment.
    pub state: Option<EventState>,
    /// What happened, in a sentence.
    pub text: String,
    /// Number of the rank that it is about.
    pub rank: Option<u32>,
    /// PID of that rank's training process.
    pub training_pid: Option<u32>,
    /// The numbers.
    pub details: EventDetails,
}

impl WatchEvent {
    /// An event whose time and job are still to be filled in.
    pub(super) fn new(kind: EventKind, state: Option<EventState>, text: String, details: EventDetails) -> Self {
        Self { unix_ms: 0, pid: 0, kind, state, text, rank: None, training_pid: None, details }
    }

    /// What a profile shows.
    pub fn of_profile(verdict: &Verdict) -> Self {
        let sure = sureness(verdict.confidence).map(|sure| format!(" ({sure})")).unwrap_or_default();
        let details = EventDetails::Profile {
            class: Some(verdict.class),
            cause: verdict.cause,
            confidence: Some(verdict.confidence),
            window_ms: verdict.profile.as_ref().map(|account| account.window_ms),
        };
        Self::new(EventKind::Profile, None, format!("{}{sure}. {}", verdict.heading(), verdict.summary), details)
    }

    /// Why it could not be taken.
    pub fn without_profile(why: &str) -> Self {
        let details = EventDetails::Profile { class: None, cause: None, confidence: None, window_ms: None };
        Self::new(EventKind::Profile, None, format!("no profile: {why}"), details)
    }

    /// The run in short: a sentence, and the numbers.
    pub fn of_summary(unix_ms: i64, pid: u32, text: String, numbers: serde_json::Value) -> Self {
        let event = Self::new(EventKind::Summary, None, text, EventDetails::Summary(numbers));
        Self { unix_ms, pid, ..event }
    }

    /// The same, about a rank.
    pub(super) fn at_rank(self, rank: Option<u32>, training_pid: Option<u32>) -> Self {
        Self { rank, training_pid, ..self }
    }
}

/// The numbers of an event; unknown ones are `None`.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
#[allow(missing_docs, reason = "the names say it, with their units")]
pub enum EventDetails {
    Attached {
        command: String,
    },
    Bottleneck {
        class: Class,
        cause: Option<Cause>,
        confidence: f64,
        before_class: Option<Class>,
        before_cause: Option<Cause>,
        /// How long it has been so.
        lasted_s: f64,
        summary: String,
    },
    Hung {
        phase: Phase,
        /// How long it has lasted, or has lasted in the end.
        lasted_s: f64,
    },
    Slower {
        step_ms: f64,
        /// The median of the last hour before.
        usual_step_ms: f64,
        longer_pct: f64,
    },
    LateRank {
        /// Share of the time that the others and this rank wait, mean.
        others_wait_pct: Option<f64>,
        own_wait_pct: Option<f64>,
        class: Class,
        cause: Option<Cause>,
    },
    Memory {
        /// `host`, `cgroup` or `gpu`.
        place: &'static str,
        gpu: Option<u32>,
        used_bytes: u64,
        total_bytes: u64,
        growth_bytes_per_s: Option<f64>,
        full_in_s: Option<f64>,
    },
    Deadline {
        /// Turns done, and in all.
        done: f64,
        total: f64,
        /// What the rest needs at this pace, and what is left until the limit.
        needs_s: Option<f64>,
        left_s: f64,
    },
    ThrottledGpu {
        gpu: u32,
        reasons: Vec<&'static str>,
        temperature_c: Option<u32>,
        sm_clock_mhz: Option<u32>,
        sm_clock_max_mhz: Option<u32>,
    },
    ThrottledCpu {
        /// Share of the enforcement periods in which the job was stopped.
        throttled_pct: Option<f64>,
        cpu_quota_cores: Option<f64>,
    },
    GpuError {
        gpu: u32,
        /// Number of the last one.
        xid: u32,
        /// How many since the last event.
        errors: u64,
    },
    Profile {
        /// `None` where there is no profile.
        class: Option<Class>,
        cause: Option<Cause>,
        confidence: Option<f64>,
        /// The length of its window.
        window_ms: Option<f64>,
    },
    Restarted {
        /// Training processes that there are now.
        processes: u64,
    },
    Ended {
        watched_s: f64,
        steps: Option<u64>,
        #[serde(flatten)]
        end: JobEnd,
    },
    /// The same as the page, in numbers.
    Summary(serde_json::Value),
}
