//! Taking a profile of a running job, and judging it.

use std::path::Path;
use std::sync::Arc;

use crate::runs::traces;
use trainmon_base::errors::{self, Failure};
use trainmon_diagnosis::diagnosis::verdict::Context;
use trainmon_diagnosis::diagnosis::{Verdict, profiled};
use trainmon_diagnosis::pipeline::Tick;
use trainmon_profiles::ProfileError;
use trainmon_profiles::account::{ProfileAccount, ProfileSource};
use trainmon_profiles::asked::{ProfileAsker, ProfileStage};
use trainmon_profiling::inject::{self, InjectError, InjectTarget, InjectedTrace};
use trainmon_profiling::kineto::{self, KinetoError, KinetoTarget, ProfileWish, WrittenTrace};
use trainmon_sources::clock;

/// Traces of a running job. They are removed with this value.
#[derive(Debug)]
pub enum TakenTraces {
    /// Kineto was asked.
    Asked(Vec<WrittenTrace>),
    /// The job ran a script of trainmon's.
    Injected(InjectedTrace),
}

impl TakenTraces {
    fn source(&self) -> ProfileSource {
        match self {
            Self::Asked(_) => ProfileSource::Kineto,
            Self::Injected(_) => ProfileSource::Injected,
        }
    }

    /// The processes and their traces.
    pub fn each(&self) -> Vec<(u32, &Path)> {
        match self {
            Self::Asked(traces) => traces.iter().map(|trace| (trace.pid, trace.path.as_path())).collect(),
            Self::Injected(trace) => vec![(trace.pid, trace.path.as_path())],
        }
    }

    /// The account of what the processes wrote.
    pub fn account(&self, asker: &dyn ProfileAsker) -> anyhow::Result<ProfileAccount> {
        asker.reached(ProfileStage::Reading);
        let each = self.each();
        let paths: Vec<&Path> = each.iter().map(|(_, path)| *path).collect();
        let account = traces::account(&paths, &|| asker.wanted())?;
        Ok(account.asked_of(each.first().map_or(0, |(pid, _)| *pid), self.source()))
    }
}

/// What to take a profile of.
#[derive(Debug)]
pub enum ProfileTarget {
    /// Kineto is asked, in each of these processes.
    Asked(Vec<KinetoTarget>),
    /// This one runs a script.
    Injected(InjectTarget),
}

impl ProfileTarget {
    /// The process with this PID, or all ranks of its run on this machine, which Kineto is asked for.
    ///
    /// # Errors
    /// It cannot be asked, or must not be.
    pub fn asked(root: &Path, pid: u32, all_ranks: bool) -> anyhow::Result<Self> {
        targets(root, pid, all_ranks).map(Self::Asked).map_err(|error| match error {
            KinetoError::NotStartedFor(_) if inject::may_be_asked(root, pid) => {
                anyhow::anyhow!("{error}; `trainmon profile --pid {pid} --inject` profiles it as it is")
            }
            error => failure(error),
        })
    }

    /// The process with this PID, which is to run a script.
    ///
    /// # Errors
    /// It cannot be asked, or must not be.
    pub fn injected(root: &Path, pid: u32) -> anyhow::Result<Self> {
        Ok(Self::Injected(InjectTarget::find(root, pid).map_err(inject_failure)?))
    }

    /// How many processes.
    pub fn count(&self) -> usize {
        match self {
            Self::Asked(targets) => targets.len(),
            Self::Injected(_) => 1,
        }
    }

    /// Takes it.
    pub fn take(self, proc_root: &Path, wish: ProfileWish, asker: &dyn ProfileAsker) -> anyhow::Result<TakenTraces> {
        match self {
            Self::Asked(targets) => {
                kineto::take(proc_root, targets, wish, asker).map(TakenTraces::Asked).map_err(failure)
            }
            Self::Injected(target) => {
                inject::take(proc_root, &target, wish, asker).map(TakenTraces::Injected).map_err(inject_failure)
            }
        }
    }
}

/// The processes to ask: the one, or all ranks of its run on this machine.
fn targets(proc_root: &Path, pid: u32, all_ranks: bool) -> Result<Vec<KinetoTarget>, KinetoError> {
    let target = KinetoTarget::find(proc_root, pid)?;
    Ok(if all_ranks { target.ranks(proc_root) } else { vec![target] })
}

/// A profile of a job that is not watched meanwhile.
pub fn alone(proc_root: &Path, pid: u32, wish: ProfileWish, asker: &dyn ProfileAsker) -> anyhow::Result<Verdict> {
    let targets = targets(proc_root, pid, false).map_err(failure)?;
    let traces = kineto::take(proc_root, targets, wish, asker).map_err(failure)?;
    Ok(judged(TakenTraces::Asked(traces).account(asker)?, pid, None))
}

/// The account of a profile of these processes of a job, all of the same moment.
pub fn of_processes(
    proc_root: &Path,
    processes: &[u32],
    asker: &dyn ProfileAsker,
) -> anyhow::Result<Arc<ProfileAccount>> {
    let targets = processes.iter().map(|pid| KinetoTarget::find(proc_root, *pid)).collect::<Result<_, _>>()?;
    let traces = kineto::take(proc_root, targets, ProfileWish::default(), asker)?;
    Ok(Arc::new(TakenTraces::Asked(traces).account(asker)?))
}

/// Why there is no profile, in a line.
pub fn why_none(error: &anyhow::Error) -> String {
    match error.downcast_ref() {
        Some(ProfileError::Nothing | ProfileError::NothingInThread) => {
            "the profile is empty: the job ran no operator of torch meanwhile; try again while it trains".to_owned()
        }
        _ => errors::sentence(error),
    }
}

fn failure(error: KinetoError) -> anyhow::Error {
    match error {
        KinetoError::Ended(_) => Failure::no_process(error.to_string()).into(),
        error => error.into(),
    }
}

fn inject_failure(error: InjectError) -> anyhow::Error {
    match error {
        InjectError::Ended(_) => Failure::no_process(error.to_string()).into(),
        error => error.into(),
    }
}

/// The verdict on the profile. The live one is told where it says something else.
pub fn judged(account: ProfileAccount, pid: u32, live: Option<&Tick>) -> Verdict {
    let live = live.map(|tick| &*tick.verdict);
    let context = Context {
        pid,
        command: live.map(|live| live.command.clone()).unwrap_or_default(),
        started: live.map(|live| live.started.clone()).unwrap_or_default(),
    };
    let profile_unix_ms = i64::try_from(clock::unix_us() / 1000).ok();
    let verdict = Verdict { profile_unix_ms, ..profiled::verdict(account, &context) };
    match live {
        Some(live) => profiled::beside(verdict, live),
        None => verdict,
    }
}
