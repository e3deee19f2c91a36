//! One attached job: a collector that feeds a pipeline, and as many stacks as the verdict and the screen need.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags};
use rustix::process::Signal as Number;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::{Needs, Target};
use crate::collector::{self, Collector, Demand};
use trainmon_base::errors::Failure;
use trainmon_base::signals;
use trainmon_base::text::sanitize;
use trainmon_diagnosis::diagnosis::Context;
use trainmon_diagnosis::diagnosis::causes::Cause;
use trainmon_diagnosis::diagnosis::culprits::wants_other_processes;
use trainmon_diagnosis::diagnosis::verdict::Phase;
use trainmon_diagnosis::pipeline::{Pipeline, Tick};
use trainmon_profiles::account::ProfileAccount;
use trainmon_rates::RatesOptions;
use trainmon_sources::descriptors;
use trainmon_sources::job::AttachError;
use trainmon_waits::counters::Counters;

/// A session is young for so long: stacks are then taken one after the other.
const YOUNG_S: f64 = 12.0;
/// So is a verdict that has changed.
const CHANGED_S: f64 = 6.0;
/// Neither is young any more once a verdict as sure as this has lasted for so many seconds: more stacks make it no surer.
const CLEAR: (f64, f64) = (0.85, 3.0);
/// A verdict that has lasted for so long, seconds, is checked with few stacks and samples.
const LASTED_S: f64 = 60.0;
/// Below this confidence a verdict is in doubt.
const DOUBTFUL: f64 = 0.7;

/// What to attach to, and for how long.
#[derive(Debug, Clone)]
pub struct SessionOptions {
    /// What to collect.
    pub collector: collector::CollectorOptions,
    /// Which GPUs count as the job's.
    pub rates: RatesOptions,
    /// When to stop.
    pub duration: Option<Duration>,
    /// After how many intervals to stop.
    pub iterations: Option<u64>,
}

/// A running attachment.
#[derive(Debug)]
pub struct Session {
    collector: Collector,
    /// Local variables that count; no others leave memory.
    counters: Counters,
    context: Context,
    pipeline: Pipeline,
    begun: Instant,
    duration: Option<Duration>,
    iterations: Option<u64>,
    /// Whole intervals so far.
    intervals: u64,
    /// The target lived through one of them.
    measured: bool,
    ended: bool,
    /// Something may have changed, as of the last tick.
    moved: bool,
    /// This job is shown, or no screen is up.
    shown: bool,
    /// Its stacks are shown.
    stacks_shown: bool,
    /// The busiest processes besides the job's are shown.
    other_processes_shown: bool,
    /// When they were last worth naming, CLOCK_MONOTONIC nanoseconds.
    other_processes_ns: Option<u64>,
    /// A profile of the job, for the next sample.
    account: Option<Arc<ProfileAccount>>,
}

impl Session {
    /// Attaches to a process.
    ///
    /// # Errors
    /// A [`Failure`] with exit code 3 when the process cannot be watched.
    pub fn attach(options: SessionOptions) -> anyhow::Result<Self> {
        let pid = options.collector.pid;
        let collector = Collector::attach(options.collector).map_err(|error| match error {
            AttachError::Failed(..) | AttachError::NoThread(_) | AttachError::TooFewDescriptors(..) => {
                anyhow::Error::from(error)
            }
            error => Failure::no_process(error.to_string()).into(),
        })?;
        let context = Context {
            pid,
            command: sanitize(collector.command()).into_owned(),
            started: trainmon_base::zone::now().strftime("%Y-%m-%dT%H:%M:%S%.3f%:z").to_string(),
        };
        Ok(Self {
            collector,
            counters: Counters::default(),
            pipeline: Pipeline::new(context.clone(), options.rates),
            context,
            begun: Instant::now(),
            duration: options.duration,
            iterations: options.iterations,
            intervals: 0,
            measured: false,
            ended: false,
            moved: false,
            shown: true,
            stacks_shown: false,
            other_processes_shown: false,
            other_processes_ns: None,
            account: None,
        })
    }

    /// The process.
    pub fn target(&self) -> Target {
        Target { pid: self.context.pid, command: self.collector.command().to_owned() }
    }

    /// What the verdicts say about this session.
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// Waits for the next tick. Cancel safe.
    pub async fn next(&mut self) -> Arc<Tick> {
        let mut sample = self.collector.next().await;
        self.counters.filter(&mut sample);
        sample.account = self.account.take();
        let tick = self.pipeline.push(Arc::new(sample));
        self.ended = !tick.alive;
        // The first frame has no length: it only starts the clock.
        self.intervals += u64::from(tick.frame.seconds > 0.0);
        self.measured |= tick.alive && tick.frame.seconds > 0.0;
        self.collector.want(self.demand(&tick));
        if tick.moves && !self.moved {
            self.collector.want_at_once();
        }
        self.moved = tick.moves;
        let now_ns = tick.frame.monotonic_ns;
        if wants_other_processes(&tick.frame) {
            self.other_processes_ns = Some(now_ns);
        }
        let blamed = self.other_processes_ns.is_some_and(|since| now_ns.saturating_sub(since) as f64 / 1e9 < YOUNG_S);
        self.collector.want_other_processes(self.other_processes_shown || blamed);
        tick
    }

    /// The next tick; none once the target has ended, a limit is reached or a signal has come. Cancel safe.
    pub async fn next_before_end(&mut self, ending: &mut EndSignals) -> Option<Arc<Tick>> {
        if self.ended || self.is_over() {
            return None;
        }
        let remaining = self.remaining();
        tokio::select! {
            biased;
            () = ending.signalled() => None,
            tick = self.next() => Some(tick),
            () = time_over(remaining) => None,
        }
    }

    /// What is left of the duration; `None` where none is set.
    pub fn remaining(&self) -> Option<Duration> {
        self.duration.map(|duration| duration.saturating_sub(self.begun.elapsed()))
    }

    /// Whether the target has ended.
    pub fn has_ended(&self) -> bool {
        self.ended
    }

    /// Fails where the target ended before anything could be measured of it.
    ///
    /// # Errors
    /// A [`Failure`] with the exit code of a process that does not exist.
    pub fn check_measured(&self) -> Result<(), Failure> {
        if self.ended && !self.measured {
            return Err(Failure::no_process(format!("process {} has ended", self.context.pid)));
        }
        Ok(())
    }

    /// Whether the duration or the number of intervals is reached.
    pub fn is_over(&self) -> bool {
        // A little tolerance: a duration of 10 s means ten intervals of 1 s, not nine or eleven.
        let elapsed = self.begun.elapsed() + Duration::from_millis(20);
        self.intervals > 0
            && (self.iterations.is_some_and(|most| self.intervals >= most)
                || self.duration.is_some_and(|duration| elapsed >= duration))
    }

    /// Adds a profile of the job to its next sample.
    pub fn profiled(&mut self, account: Arc<ProfileAccount>) {
        self.account = Some(account);
    }

    /// Passes on what the screen needs, on which this job or another one is shown.
    pub fn want(&mut self, needs: Needs, shown: bool) {
        let stacks_shown = needs.stacks && shown;
        if self.shown && !shown {
            self.collector.want(Demand::Seldom);
        } else if stacks_shown && !self.stacks_shown {
            self.collector.want(Demand::Often);
        }
        (self.shown, self.stacks_shown) = (shown, stacks_shown);
        self.other_processes_shown = needs.other_processes && shown;
        if self.other_processes_shown {
            self.collector.want_other_processes(true);
        }
    }

    /// A settled verdict needs few stacks and samples, a young or doubtful one many.
    fn demand(&self, tick: &Tick) -> Demand {
        let verdict = &tick.verdict;
        let doubtful = verdict.confidence_by_rules < DOUBTFUL && verdict.phase == Phase::Training;
        let since_s = tick.frame.monotonic_ns.saturating_sub(tick.since_ns) as f64 / 1e9;
        let is_sure = verdict.confidence_by_rules >= CLEAR.0 && !tick.moves;
        // What the loop does beside a GPU that always has work changes little.
        let is_busy = is_sure && verdict.cause == Some(Cause::ComputeBound);
        let is_clear = is_sure && since_s >= CLEAR.1;
        let is_young = (verdict.observed_s < YOUNG_S || since_s < CHANGED_S) && !is_clear;
        match () {
            () if self.shown && self.stacks_shown => Demand::Often,
            () if is_busy && since_s < LASTED_S => Demand::Sparsely,
            () if self.shown && is_young => Demand::Often,
            () if self.shown && (tick.moves || doubtful || verdict.observed_s < YOUNG_S) => Demand::NowAndThen,
            () if tick.moves || doubtful || since_s < LASTED_S => Demand::Seldom,
            () if is_busy => Demand::HardlyEver,
            () => Demand::Rarely,
        }
    }
}

/// Ctrl-C, SIGTERM and, unless it means something else, SIGHUP: a clean end. Those that were ignored when the process
/// started stay ignored.
#[derive(Debug)]
pub struct EndSignals(Vec<Signal>);

impl EndSignals {
    /// Begins to listen.
    ///
    /// # Errors
    /// When a handler cannot be installed.
    pub fn listen() -> std::io::Result<Self> {
        Self::listen_to(&[Number::INT, Number::TERM, Number::HUP])
    }

    /// Begins to listen for a command that writes a file: where there is no terminal to hang up, SIGHUP asks to look for
    /// the file again, like a daemon signaled by logrotate, and ends nothing.
    ///
    /// # Errors
    /// When a handler cannot be installed.
    pub fn listen_beside_a_file() -> std::io::Result<(Self, Reopening)> {
        if has_terminal() {
            return Ok((Self::listen()?, Reopening::never()));
        }
        let ignored = signals::is_ignored(Number::HUP);
        let hang_up = if ignored { None } else { Some(signal(SignalKind::hangup())?) };
        Ok((Self::listen_to(&[Number::INT, Number::TERM])?, Reopening(hang_up)))
    }

    fn listen_to(wanted: &[Number]) -> std::io::Result<Self> {
        let heard: Vec<_> = wanted.iter().copied().filter(|number| !signals::is_ignored(*number)).collect();
        signals::remember(&heard);
        let listen = |number: Number| signal(SignalKind::from_raw(number.as_raw()));
        Ok(Self(heard.into_iter().map(listen).collect::<std::io::Result<_>>()?))
    }

    /// No signal ends it.
    pub fn never() -> Self {
        Self(Vec::new())
    }

    /// Waits for one of them. Cancel safe.
    pub async fn signalled(&mut self) {
        poll_fn(|context| {
            let heard = self.0.iter_mut().any(|signal| signal.poll_recv(context).is_ready());
            if heard { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
}

/// SIGHUP where there is no terminal: the file that is written is to be looked for again.
#[derive(Debug)]
pub struct Reopening(Option<Signal>);

impl Reopening {
    /// No signal asks for it.
    pub fn never() -> Self {
        Self(None)
    }

    /// Waits until it is asked for. Cancel safe.
    pub async fn asked(&mut self) {
        match &mut self.0 {
            Some(signal) => {
                signal.recv().await;
            }
            None => std::future::pending().await,
        }
    }
}

/// Whether the process has a controlling terminal, which can hang up (tty(4): opening /dev/tty fails without one).
fn has_terminal() -> bool {
    let flags = OFlags::RDONLY | OFlags::NOCTTY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    rustix::fs::open("/dev/tty", flags, Mode::empty()).is_ok()
}

/// Waits until `remaining` of a duration is over; never ends without one. Cancel safe.
async fn time_over(remaining: Option<Duration>) {
    match remaining {
        // A tick that is due at the very end is still taken, also on a busy machine.
        Some(remaining) => tokio::time::sleep(remaining + Duration::from_millis(500)).await,
        None => std::future::pending().await,
    }
}

/// Runs `work` on a single-threaded runtime. A source thread that hangs does not keep the program from ending.
///
/// # Errors
/// Those of `work`, or that there are too few descriptors to begin.
pub fn block_on<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    descriptors::check().map_err(|(reason, fix)| Failure::failed(format!("{reason}; run `{fix}` first")))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let result = runtime.block_on(work);
    runtime.shutdown_background();
    result
}
