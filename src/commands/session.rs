//! One attached job: collector, rates and diagnosis wired together, the same for the screen, the log and `diagnose`.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use jiff::Zoned;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::collector::{Collector, Demand, Options};
use crate::config::Settings;
use crate::diagnosis::verdict::{Class, Phase};
use crate::diagnosis::{Context, Verdict};
use crate::errors::Failure;
use crate::history::History;
use crate::sample::Sample;
use crate::sources::Roots;
use crate::sources::job::AttachError;
use crate::text::sanitise;

pub use super::fold::Tick;
use super::fold::{Fold, Standing};

/// A running attachment.
#[derive(Debug)]
pub struct Session {
    collector: Collector,
    context: Context,
    fold: Fold,
    begun: std::time::Instant,
    duration: Option<Duration>,
    frames_left: Option<u64>,
    /// Somebody looks at the stacks.
    watched: bool,
    /// Another job is on the screen.
    aside: bool,
    /// Class and cause that stand, and when they were first seen, seconds since attaching.
    standing: Option<((Class, Option<String>), f64)>,
}

/// A session is young for so long: stacks are then taken one after the other.
const YOUNG_S: f64 = 12.0;
/// So is a verdict that has changed.
const CHANGED_S: f64 = 6.0;
/// Below this confidence a verdict is in doubt.
const DOUBTFUL: f64 = 0.7;

impl Session {
    /// Attaches to `pid`. `simulated` is the state file of a simulated device in NVML's place.
    ///
    /// # Errors
    /// A [`Failure`] with exit code 3 when the process cannot be watched.
    pub fn attach(settings: &Settings, pid: u32, simulated: Option<&Path>) -> anyhow::Result<Self> {
        let options = Options {
            roots: Roots { proc: settings.proc_root.clone(), sys: settings.sys_root.clone() },
            pid,
            interval: settings.interval,
            no_ptrace: !settings.ptrace,
            no_stacks: !settings.stacks,
            py_spy: settings.py_spy.clone(),
            nvml_lib: settings.nvml_lib.clone(),
            simulated_device: simulated.map(Path::to_path_buf),
        };
        let collector = Collector::attach(options).map_err(|error| match error {
            AttachError::Failed(..) => anyhow::Error::from(error),
            error => Failure::no_process(error.to_string()).into(),
        })?;
        let context = Context {
            pid,
            command: sanitise(collector.command()).into_owned(),
            started: Zoned::now().strftime("%Y-%m-%dT%H:%M:%S%.3f%:z").to_string(),
        };
        Ok(Self {
            collector,
            fold: Fold::new(context.clone(), settings.gpus.as_deref().unwrap_or_default()),
            context,
            begun: std::time::Instant::now(),
            duration: settings.call.duration,
            frames_left: settings.call.iterations,
            watched: false,
            aside: false,
            standing: None,
        })
    }

    /// Command line of the target, raw.
    #[must_use]
    pub fn command(&self) -> &str {
        self.collector.command()
    }

    /// What the verdicts say about this session.
    #[must_use]
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// The next tick; `None` when a signal came or `--duration` is over. Cancel safe.
    pub async fn next_before_end(&mut self, ending: &mut Ending) -> Option<Tick> {
        let remaining = self.remaining();
        tokio::select! {
            biased;
            () = ending.signalled() => None,
            tick = self.next() => Some(tick),
            () = time_over(remaining) => None,
        }
    }

    /// Gives the tick to the standing verdict, and tells whether the target lives on.
    pub fn take(&mut self, standing: &mut Standing, tick: Tick) -> bool {
        let alive = standing.take(&mut self.fold, tick);
        if let Some(verdict) = standing.latest() {
            self.ask_for_stacks(verdict);
        }
        alive
    }

    /// Waits for the next tick. Cancel safe.
    pub async fn next(&mut self) -> Tick {
        let sample = Arc::new(self.collector.next().await);
        self.fold.next(sample)
    }

    /// Judges the history, whose newest frame is that of `sample`.
    pub fn judge(&mut self, history: &History, sample: &Sample) -> Verdict {
        let verdict = self.fold.judge(history, sample);
        self.ask_for_stacks(&verdict);
        verdict
    }

    /// Stacks are wanted one window after the other, or as the verdict needs them.
    pub fn want_often(&mut self, often: bool) {
        if often && !self.watched {
            self.collector.want_stacks(Demand::Often);
        }
        self.watched = often;
    }

    /// Another job is on the screen, so that few stacks will do; or this one is again.
    pub fn put_aside(&mut self, aside: bool) {
        if aside && !self.aside {
            self.collector.want_stacks(Demand::Seldom);
        }
        self.aside = aside;
    }

    /// A settled verdict needs few stacks, a young or doubtful one many.
    fn ask_for_stacks(&mut self, verdict: &Verdict) {
        let now = (verdict.class, verdict.cause.clone());
        if self.standing.as_ref().is_none_or(|(before, _)| *before != now) {
            self.standing = Some((now, verdict.observed_s));
        }
        let since = self.standing.as_ref().map_or(0.0, |(_, since)| verdict.observed_s - since);
        self.collector.want_stacks(match verdict {
            _ if self.aside => Demand::Seldom,
            _ if self.watched || verdict.observed_s < YOUNG_S || since < CHANGED_S => Demand::Often,
            _ if verdict.confidence < DOUBTFUL && verdict.phase == Phase::Training => Demand::NowAndThen,
            _ => Demand::Seldom,
        });
    }

    /// Says whether the busiest processes besides the job's are wanted from now on: they are looked at only while
    /// somebody sees them.
    pub fn want_neighbours(&mut self, wanted: bool) {
        self.collector.want_neighbours(wanted);
    }

    /// The mark of the verdict that stands, for the newest frame.
    #[must_use]
    pub fn mark(&self, sequence: u64) -> crate::history::Mark {
        self.fold.mark(sequence)
    }

    /// Counts a frame that was shown or written and tells whether `--duration` or `--iterations` end the session here.
    pub fn is_over(&mut self) -> bool {
        if let Some(left) = &mut self.frames_left {
            *left = left.saturating_sub(1);
        }
        // Half an interval of tolerance: a duration of 10 s means ten intervals of 1 s, not nine or eleven.
        self.frames_left == Some(0)
            || self.duration.is_some_and(|duration| self.begun.elapsed() + Duration::from_millis(20) >= duration)
    }

    /// What is left of `--duration`.
    #[must_use]
    fn remaining(&self) -> Option<Duration> {
        self.duration.map(|duration| duration.saturating_sub(self.begun.elapsed()))
    }
}

/// Ctrl-C, SIGTERM and SIGHUP: a clean end.
#[derive(Debug)]
pub struct Ending {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
}

impl Ending {
    /// Begins to listen.
    ///
    /// # Errors
    /// When the kernel refuses a handler.
    pub fn listen() -> std::io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    /// Waits for one of them. Cancel safe.
    pub async fn signalled(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            _ = self.hang_up.recv() => {}
        }
    }
}

/// Waits until `remaining` of a duration is over, for ever where there is none. Cancel safe.
async fn time_over(remaining: Option<Duration>) {
    match remaining {
        // A tick that is due at the very end shall still be taken.
        Some(remaining) => tokio::time::sleep(remaining + Duration::from_millis(150)).await,
        None => std::future::pending().await,
    }
}

/// Runs `work` on a single-threaded runtime. A source thread that hangs does not keep the program from ending.
///
/// # Errors
/// What `work` gives, or that the runtime cannot be built.
pub fn block_on<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let result = runtime.block_on(work);
    runtime.shutdown_background();
    result
}
