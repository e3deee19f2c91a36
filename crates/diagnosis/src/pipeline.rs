//! Sample in; sample, frame and verdict out, as one shared value. Live jobs, logs, `diagnose`, `record` and `replay`
//! all push into one of these. No clock and no I/O: the same samples give the same ticks.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::diagnosis::loop_time::LoopTime;
use crate::diagnosis::profiled::{self, TakenProfile};
use crate::diagnosis::{Context, Diagnosis, LOOK_BACK_S, Verdict};
use trainmon_base::text::sanitize;
use trainmon_rates::{GpuChoice, RatesOptions};
use trainmon_sample::Sample;
use trainmon_sample::recording::Header;
use trainmon_waits::time_split::TimeSplit;
use trainmon_waits::{Frame, Frames};

/// Most frames that the diagnosis looks back on: a minute at ten a second. A recording can have any number in no time.
const FRAMES: usize = 600;

/// Everything known about one interval.
#[derive(Debug, Clone, Default)]
pub struct Tick {
    /// The raw sample at its end.
    pub sample: Arc<Sample>,
    /// Its rates.
    pub frame: Arc<Frame>,
    /// The run's verdict; once the target has ended, its last one.
    pub verdict: Arc<Verdict>,
    /// Since when its class and cause have been the same, CLOCK_MONOTONIC nanoseconds.
    pub since_ns: u64,
    /// The latest frames suggest another verdict, or differ much from earlier ones.
    pub moves: bool,
    /// What the diagnosis says about this interval: the run's verdict, or that the target has ended.
    pub judged: Arc<Verdict>,
    /// Whether the target still exists.
    pub alive: bool,
    /// What the loop did in this interval, shares that add up to 1; `None` without samples. The mean over a verdict's window is
    /// what the verdict says.
    pub shares: Option<TimeSplit>,
}

/// Rates and diagnosis of one attachment or recording.
#[derive(Debug)]
pub struct Pipeline {
    frames: Frames,
    diagnosis: Diagnosis,
    loop_time: LoopTime,
    /// Frames that the diagnosis may look back on, oldest first; none from before a gap.
    recent: VecDeque<Arc<Frame>>,
    context: Context,
    /// The attached process's command line as of the last sample, and how many times it had executed another program.
    program: Option<(Arc<str>, u32)>,
    /// The verdict on the run's trace, if it is one: it is exact, so nothing else is judged.
    of_trace: Option<Arc<Verdict>>,
    /// The latest profile that was taken while the run was watched.
    taken: Option<TakenProfile>,
    /// The run's current verdict, and since when class and cause have been the same.
    current: Option<(Arc<Verdict>, u64)>,
}

impl Pipeline {
    /// An empty pipeline for one attached process. `options` name GPUs that are judged in place of those that the job uses.
    pub fn new(context: Context, options: RatesOptions) -> Self {
        Self {
            frames: Frames::new(options),
            diagnosis: Diagnosis::new(context.clone()),
            loop_time: LoopTime::default(),
            recent: VecDeque::new(),
            context,
            program: None,
            of_trace: None,
            taken: None,
            current: None,
        }
    }

    /// A pipeline for the samples recorded under this header. `gpus` are GPUs named by the user, which replace those
    /// named at recording time.
    pub fn of_recording(header: &Header, gpus: Option<&[GpuChoice]>) -> Self {
        let named = || header.gpus.iter().filter_map(|gpu| gpu.parse().ok()).collect();
        let context = Context {
            pid: header.pid,
            command: sanitize(&header.command).into_owned(),
            started: sanitize(&header.started).into_owned(),
        };
        Self::new(context, RatesOptions { gpus: gpus.map_or_else(named, <[GpuChoice]>::to_vec) })
    }

    /// The tick of the next sample, about a second after the one before. The verdict looks back on two minutes at most.
    ///
    /// Nothing fails: after a sample that does not follow the one before (by `sequence` and both clocks), judging goes on from
    /// there, and values that cannot be true are left out.
    pub fn push(&mut self, sample: Arc<Sample>) -> Arc<Tick> {
        self.follow_program(&sample);
        let frame = Arc::new(self.frames.next(Arc::clone(&sample)));
        self.remember(&frame);
        self.take_profile(&sample);
        let judged = match &self.of_trace {
            Some(of_trace) => Arc::clone(of_trace),
            None => {
                let live = self.diagnosis.observe(self.recent.iter().map(AsRef::as_ref), &sample);
                Arc::new(match &mut self.taken {
                    Some(taken) => taken.beside(live, sample.monotonic_ns),
                    None => live,
                })
            }
        };
        let alive = sample.job.as_ref().is_none_or(|job| job.alive);
        let (verdict, since_ns) = match self.current.take() {
            // The run's last verdict stays: it says more than that the run has ended.
            Some(current) if !alive => current,
            Some((before, since_ns)) if same_cause(&before, &judged) => (Arc::clone(&judged), since_ns),
            _ => (Arc::clone(&judged), frame.monotonic_ns),
        };
        self.current = Some((Arc::clone(&verdict), since_ns));
        let moves = self.diagnosis.moves();
        let shares = match self.of_trace {
            Some(_) => frame.loop_shares(),
            None => self.loop_time.shares(&frame, &judged),
        };
        Arc::new(Tick { sample, frame, verdict, since_ns, moves, judged, alive, shares })
    }

    /// Adopts the attached process's command line if it has changed. After an exec, what came before belongs to another
    /// program, so judging starts over.
    fn follow_program(&mut self, sample: &Sample) {
        let Some(job) = &sample.job else { return };
        let Some(target) = job.processes.iter().find(|process| process.id == job.target) else { return };
        let command = if target.command.is_empty() { &target.comm } else { &target.command };
        let before = self.program.replace((Arc::clone(command), target.execs));
        let Some((command_before, execs_before)) = before else { return };
        if command_before != *command {
            self.context.command = sanitize(command).into_owned();
            self.diagnosis.rename(&self.context.command);
        }
        if execs_before != target.execs {
            self.frames.begin_anew();
            self.diagnosis = Diagnosis::new(self.context.clone());
            self.loop_time = LoopTime::default();
            self.recent.clear();
            self.taken = None;
        }
    }

    /// Keeps the account of a profile, if one comes with the sample.
    fn take_profile(&mut self, sample: &Sample) {
        let Some(account) = &sample.account else { return };
        if account.is_of_file() {
            self.of_trace = Some(Arc::new(profiled::verdict(Arc::clone(account), &self.context)));
        } else {
            let taken = (sample.monotonic_ns, sample.unix_ms);
            self.taken = Some(TakenProfile::new(Arc::clone(account), &self.context, taken));
        }
    }

    /// The run's verdict after all of the samples, or at the target's end; `None` without samples.
    ///
    /// # Errors
    /// The first error among the samples.
    pub fn last_verdict<E>(
        mut self,
        samples: impl IntoIterator<Item = Result<Sample, E>>,
    ) -> Result<Option<Arc<Verdict>>, E> {
        for sample in samples {
            if !self.push(Arc::new(sample?)).alive {
                break;
            }
        }
        Ok(self.current.map(|(verdict, _)| verdict))
    }

    fn remember(&mut self, frame: &Arc<Frame>) {
        if frame.gap {
            self.recent.clear();
        }
        self.recent.push_back(Arc::clone(frame));
        // The diagnosis does not look back that far.
        let is_too_old =
            |oldest: &Arc<Frame>| frame.monotonic_ns.saturating_sub(oldest.monotonic_ns) as f64 / 1e9 > LOOK_BACK_S;
        while self.recent.len() > FRAMES || self.recent.front().is_some_and(is_too_old) {
            self.recent.pop_front();
        }
    }
}

/// Whether class and cause of two verdicts are the same.
pub fn same_cause(a: &Verdict, b: &Verdict) -> bool {
    a.class == b.class && a.cause == b.cause
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnosis::verdict::Class;
    use trainmon_profiles::account::{LoopAccount, ProfileAccount, ProfileSource};
    use trainmon_sample::{JobSample, ProcessId, ProcessSample};

    const SECOND_NS: u64 = 1_000_000_000;

    /// A job that has executed another program so many times.
    fn sample(sequence: u64, command: &str, execs: u32, unix_ms: i64) -> Arc<Sample> {
        let id = ProcessId { pid: 7, start_ticks: 1 };
        let process = ProcessSample { id, command: command.into(), execs, state: 'S', ..ProcessSample::default() };
        let (monotonic_ns, boottime_ns) = (sequence * SECOND_NS, sequence * SECOND_NS + 5);
        let job = JobSample {
            monotonic_ns,
            target: id,
            alive: true,
            processes: vec![process],
            ticks_per_second: 100,
            ..JobSample::default()
        };
        Arc::new(Sample {
            sequence,
            unix_ms,
            monotonic_ns,
            boottime_ns,
            job: Some(Arc::new(job)),
            ..Sample::default()
        })
    }

    fn pipeline() -> Pipeline {
        let context = Context { pid: 7, command: "python first.py".into(), started: String::new() };
        Pipeline::new(context, RatesOptions::default())
    }

    #[test]
    fn after_an_exec_another_program_is_judged_from_its_beginning() {
        let mut pipeline = pipeline();
        let mut observed = |second: u64, command: &str, execs: u32| {
            let verdict = Arc::clone(&pipeline.push(sample(second, command, execs, 0)).verdict);
            (verdict.command.clone(), verdict.observed_s)
        };
        for second in 0..20 {
            let (command, observed_s) = observed(second, "python first.py", 0);
            assert_eq!((command.as_str(), observed_s), ("python first.py", second as f64));
        }
        assert_eq!(observed(20, "python second.py\u{1b}", 1).1, 0.0);
        let (command, observed_s) = observed(21, "python second.py\u{1b}", 1);
        assert!(
            command.starts_with("python second.py") && !command.contains('\u{1b}') && observed_s == 1.0,
            "{command}"
        );
        let (command, observed_s) = observed(22, "a title of its own", 1);
        assert_eq!((command.as_str(), observed_s), ("a title of its own", 2.0), "no exec: the same run");
    }

    #[test]
    fn the_account_of_a_profile_is_all_that_is_judged() {
        let account = ProfileAccount {
            window_ms: 1500.0,
            of_loop: Some(LoopAccount { input_wait: 0.9, ..LoopAccount::default() }),
            ..ProfileAccount::default()
        };
        let mut pipeline = pipeline();
        let with = |account| Arc::new(Sample { account, ..(*sample(1, "python first.py", 0, 1000)).clone() });
        assert_eq!(pipeline.push(sample(0, "python first.py", 0, 0)).verdict.profile, None);
        let told = Arc::clone(&pipeline.push(with(Some(Arc::new(account.clone())))).verdict);
        assert_eq!((told.profile.as_deref(), told.window_s, told.pid), (Some(&account), 1.5, 7));
        let later = pipeline.push(sample(2, "python first.py", 0, 2000));
        assert!(Arc::ptr_eq(&told, &later.verdict) && Arc::ptr_eq(&told, &later.judged));
    }

    #[test]
    fn a_profile_that_was_taken_stays_and_the_run_is_judged_further() {
        let account = ProfileAccount {
            source: ProfileSource::Kineto,
            window_ms: 500.0,
            of_loop: Some(LoopAccount { input_wait: 0.9, ..LoopAccount::default() }),
            ..ProfileAccount::default()
        };
        let mut pipeline = pipeline();
        let with =
            |second, account| Arc::new(Sample { account, ..(*sample(second, "python first.py", 0, 1000)).clone() });
        for second in 0..5 {
            assert_eq!(pipeline.push(with(second, None)).verdict.profile, None);
        }
        let told = Arc::clone(&pipeline.push(with(5, Some(Arc::new(account.clone())))).verdict);
        assert_eq!((told.profile.as_deref(), told.profile_age_s, told.observed_s), (Some(&account), Some(0.0), 5.0));
        assert_eq!(told.class, Class::DataLoader, "{}", told.summary);
        let later = Arc::clone(&pipeline.push(with(45, None)).verdict);
        assert_eq!((later.profile.as_deref(), later.profile_age_s), (Some(&account), Some(40.0)));
        // The next one takes its place.
        let next = ProfileAccount { steps: 7, ..account };
        let told = Arc::clone(&pipeline.push(with(46, Some(Arc::new(next)))).verdict);
        assert_eq!(told.profile.as_ref().map(|account| account.steps), Some(7));
        // It is of this program, and not of the next one.
        let execs = pipeline.push(sample(47, "python second.py", 1, 0));
        assert_eq!((&execs.verdict.profile, execs.verdict.profile_age_s), (&None, None));
    }

    #[test]
    fn a_wall_clock_that_jumps_either_way_changes_nothing() {
        let run = |clock: fn(u64) -> i64| {
            let mut pipeline = pipeline();
            let tick = (0..20).map(|second| pipeline.push(sample(second, "python x.py", 0, clock(second)))).last();
            let tick = tick.unwrap();
            (tick.verdict.clone(), tick.frame.seconds, tick.frame.gap)
        };
        const DAY_MS: i64 = 86_400_000;
        let even = run(|second| DAY_MS * 365 + second.cast_signed() * 1000);
        assert_eq!((even.1, even.2), (1.0, false));
        for clock in [
            (|second| if second == 19 { 0 } else { DAY_MS * 365 }) as fn(u64) -> i64,
            |second| if second == 19 { i64::MAX } else { DAY_MS * 365 },
            |second| if second % 2 == 0 { -DAY_MS } else { DAY_MS },
        ] {
            assert_eq!(run(clock), even);
        }
    }
}
