//! `trainmon profile`: take a profile of a running job, and judge it.

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;

use super::profile_taker::ProfileTaker;
use super::progress::ProgressLine;
use super::{probed, profiled};
use crate::cli::ProfileArgs;
use crate::config::Settings;
use trainmon_attach::jobs::session::{Session, block_on};
use trainmon_base::errors::{self, ExitCode, Failure};
use trainmon_base::text::format::counted;
use trainmon_base::text::format::step_time;
use trainmon_diagnosis::diagnosis::verdict::Context;
use trainmon_diagnosis::diagnosis::{self, Verdict};
use trainmon_diagnosis::pipeline::Tick;
use trainmon_outputs::text;
use trainmon_outputs::trace_out::TraceOut;
use trainmon_profiles::ProfileError;
use trainmon_profiles::account::{ProfileAccount, ProfileSource};
use trainmon_profiles::asked::{ProfileAsker, ProfileStage, ProfileWindow};
use trainmon_sources::inject::{self, InjectError, InjectTarget, InjectedTrace};
use trainmon_sources::kineto::{self, KinetoError, KinetoTarget, ProfileWish, WrittenTrace};

/// Traces of a running job. They are removed with this value.
#[derive(Debug)]
enum TakenTraces {
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
    fn each(&self) -> Vec<(u32, &Path)> {
        match self {
            Self::Asked(traces) => traces.iter().map(|trace| (trace.pid, trace.path.as_path())).collect(),
            Self::Injected(trace) => vec![(trace.pid, trace.path.as_path())],
        }
    }

    /// The account of what the processes wrote.
    fn account(&self, asker: &dyn ProfileAsker) -> anyhow::Result<ProfileAccount> {
        asker.reached(ProfileStage::Reading);
        let each = self.each();
        let paths: Vec<&Path> = each.iter().map(|(_, path)| *path).collect();
        let account = profiled::account(&paths, &|| asker.wanted())?;
        Ok(account.asked_of(each.first().map_or(0, |(pid, _)| *pid), self.source()))
    }
}

/// What to take a profile of.
enum ProfileTarget {
    /// Kineto is asked, in each of these processes.
    Asked(Vec<KinetoTarget>),
    /// This one runs a script.
    Injected(InjectTarget),
}

impl ProfileTarget {
    fn find(settings: &Settings, arguments: &ProfileArgs, pid: u32) -> anyhow::Result<Self> {
        let root = &settings.proc_root;
        if arguments.inject {
            return Ok(Self::Injected(InjectTarget::find(root, pid).map_err(inject_failure)?));
        }
        targets(settings, pid, arguments.all_ranks).map(Self::Asked).map_err(|error| match error {
            KinetoError::NotStartedFor(_) if inject::may_be_asked(root, pid) => {
                anyhow::anyhow!("{error}; `trainmon profile --pid {pid} --inject` profiles it as it is")
            }
            error => failure(error),
        })
    }

    fn count(&self) -> usize {
        match self {
            Self::Asked(targets) => targets.len(),
            Self::Injected(_) => 1,
        }
    }

    fn take(self, proc_root: &Path, wish: ProfileWish, asker: &dyn ProfileAsker) -> anyhow::Result<TakenTraces> {
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

/// Takes a profile of a running job, and prints what it shows.
pub fn run(settings: &Settings, arguments: &ProfileArgs) -> anyhow::Result<ExitCode> {
    let pid = super::pick::target(settings)?;
    if arguments.probe {
        return probed::run(settings, arguments, pid);
    }
    let window = match (arguments.steps, arguments.length) {
        (Some(steps), _) => ProfileWindow::Steps(steps),
        (None, Some(length)) => ProfileWindow::For(length),
        (None, None) => ProfileWindow::default(),
    };
    let wish = ProfileWish { window, stacks: arguments.with_stacks };
    let target = ProfileTarget::find(settings, arguments, pid)?;
    if let (true, ProfileTarget::Injected(target)) = (arguments.dry_run, &target) {
        return super::print(inject::dry_run(target, wish));
    }
    // A place that cannot be written to is found out before the job is asked.
    let names: Vec<PathBuf> = match &arguments.output {
        Some(path) => (0..target.count()).map(|nth| of_rank(path, nth, target.count())).collect(),
        None => Vec::new(),
    };
    let existing = settings.call.existing();
    let outs: Vec<TraceOut> =
        names.iter().map(|path| TraceOut::open(path, existing)).collect::<anyhow::Result<_>>()?;
    let mut line = ProgressLine::new(settings.ascii);
    if std::io::stderr().is_terminal() && !line.is_shown() {
        errors::note(&format!("asking PID {pid} for a profile; Ctrl-C gives up, and the job goes on"));
    }
    let options = super::attach_options(settings, pid, None);
    let proc_root = settings.proc_root.clone();
    let take = move |asker: &dyn ProfileAsker| {
        let traces = target.take(&proc_root, wish, asker)?;
        let account = traces.account(asker)?;
        Ok((traces, account))
    };
    let tell = |stage| line.show(&format!("profile of PID {pid} · {stage} · Ctrl-C gives up"));
    let taken = block_on(ProfileTaker::beside(Session::attach(options)?, take, tell));
    line.clear();
    let ((traces, account), before) = taken?;
    let verdict = judged(account, pid, before.as_deref());
    for (((pid, trace), out), name) in traces.each().into_iter().zip(outs).zip(&names) {
        keep(trace, out).with_context(|| format!("trace {}", name.display()))?;
        errors::note(&format!("trace of PID {pid} in {}", name.display()));
    }
    if arguments.json {
        super::print_json(&verdict)?;
    } else {
        super::print(text::page(&verdict, super::diagnose::style(settings, arguments.full)))?;
    }
    if let TakenTraces::Injected(InjectedTrace { short_of: Some(came), .. }) = &traces {
        let steps = counted(u64::from(*came), "step", "steps");
        errors::note(&format!("only {steps} ended in time; --for records a time instead"));
    }
    if let Some(cost) = before.as_deref().and_then(|before| slowdown(before, &verdict)) {
        errors::note(&cost);
    }
    Ok(ExitCode::DONE)
}

/// The processes to ask: the one, or all ranks of its run on this machine.
fn targets(settings: &Settings, pid: u32, all_ranks: bool) -> Result<Vec<KinetoTarget>, KinetoError> {
    let target = KinetoTarget::find(&settings.proc_root, pid)?;
    Ok(if all_ranks { target.ranks(&settings.proc_root) } else { vec![target] })
}

/// A profile of a job that is not watched meanwhile.
pub(super) fn alone(
    settings: &Settings,
    pid: u32,
    wish: ProfileWish,
    asker: &dyn ProfileAsker,
) -> anyhow::Result<Verdict> {
    let targets = targets(settings, pid, false).map_err(failure)?;
    let traces = kineto::take(&settings.proc_root, targets, wish, asker).map_err(failure)?;
    Ok(judged(TakenTraces::Asked(traces).account(asker)?, pid, None))
}

/// The account of a profile of these processes of a job, all of the same moment.
pub(super) fn of_processes(
    proc_root: &Path,
    processes: &[u32],
    asker: &dyn ProfileAsker,
) -> anyhow::Result<Arc<ProfileAccount>> {
    let targets = processes.iter().map(|pid| KinetoTarget::find(proc_root, *pid)).collect::<Result<_, _>>()?;
    let traces = kineto::take(proc_root, targets, ProfileWish::default(), asker)?;
    Ok(Arc::new(TakenTraces::Asked(traces).account(asker)?))
}

/// Why there is no profile, in a line.
pub(super) fn why_none(error: &anyhow::Error) -> String {
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
fn judged(account: ProfileAccount, pid: u32, live: Option<&Tick>) -> Verdict {
    let live = live.map(|tick| &*tick.verdict);
    let context = Context {
        pid,
        command: live.map(|live| live.command.clone()).unwrap_or_default(),
        started: live.map(|live| live.started.clone()).unwrap_or_default(),
    };
    let profile_unix_ms = Some(jiff::Timestamp::now().as_millisecond());
    let verdict = Verdict { profile_unix_ms, ..diagnosis::profiled::verdict(account, &context) };
    match live {
        Some(live) => diagnosis::profiled::beside(verdict, live),
        None => verdict,
    }
}

/// What the window cost, in one line, if the steps before it are known.
fn slowdown(before: &Tick, profiled: &Verdict) -> Option<String> {
    let before = before.verdict.steps.p50_ms.filter(|ms| *ms > 0.0)?;
    let within = profiled.steps.p50_ms?;
    let change = 100.0 * (within / before - 1.0);
    let told = if change.abs() < 1.0 { "as before".to_owned() } else { format!("{change:+.0}%") };
    Some(format!("a step took {} while it was profiled ({told}); before, {}", step_time(within), step_time(before)))
}

/// Copies a trace to where the user wants it, whole or not at all.
fn keep(trace: &Path, mut out: TraceOut) -> anyhow::Result<()> {
    let mut file = std::fs::File::open(trace)?;
    std::io::copy(&mut file, &mut out)?;
    out.flush()?;
    out.finish()?.finish()?;
    Ok(())
}

/// The name for a rank's trace: `run.json.gz` of several is `run-rank0.json.gz`.
fn of_rank(path: &Path, nth: usize, all: usize) -> PathBuf {
    if all == 1 {
        return path.to_owned();
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let (stem, endings) = name.split_once('.').unwrap_or((&name, "json"));
    path.with_file_name(format!("{stem}-rank{nth}.{endings}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rank_has_a_file_of_its_own() {
        assert_eq!(of_rank(Path::new("a/run.json.gz"), 0, 1), Path::new("a/run.json.gz"));
        assert_eq!(of_rank(Path::new("a/run.json.gz"), 3, 4), Path::new("a/run-rank3.json.gz"));
        assert_eq!(of_rank(Path::new("run"), 0, 2), Path::new("run-rank0.json"));
    }
}
