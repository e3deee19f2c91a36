//! `trainmon profile`: take a profile of a running job, and judge it.

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use super::probed;
use super::progress::ProgressLine;
use crate::cli::ProfileArgs;
use crate::config::Settings;
use trainmon_attach::jobs::profile::{ProfileTarget, TakenTraces, judged};
use trainmon_attach::jobs::profile_taker::ProfileTaker;
use trainmon_attach::jobs::session::{Session, block_on};
use trainmon_base::errors::{self, ExitCode};
use trainmon_base::text::format::{counted, step_time};
use trainmon_diagnosis::diagnosis::Verdict;
use trainmon_diagnosis::pipeline::Tick;
use trainmon_outputs::text;
use trainmon_outputs::trace_out::TraceOut;
use trainmon_profiles::asked::{ProfileAsker, ProfileWindow};
use trainmon_profiling::inject::{self, InjectedTrace};
use trainmon_profiling::kineto::ProfileWish;

/// Takes a profile of a running job, and prints what it shows.
pub fn run(settings: &Settings, arguments: &ProfileArgs) -> anyhow::Result<ExitCode> {
    let pid = super::pick::target(settings)?;
    if arguments.probe {
        return probed::run(settings, arguments, pid);
    }
    let wish = wish(arguments);
    let root = &settings.proc_root;
    let target = if arguments.inject {
        ProfileTarget::injected(root, pid)?
    } else {
        ProfileTarget::asked(root, pid, arguments.all_ranks)?
    };
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
    let proc_root = root.clone();
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

fn wish(arguments: &ProfileArgs) -> ProfileWish {
    let window = match (arguments.steps, arguments.length) {
        (Some(steps), _) => ProfileWindow::Steps(steps),
        (None, Some(length)) => ProfileWindow::For(length),
        (None, None) => ProfileWindow::default(),
    };
    ProfileWish { window, stacks: arguments.with_stacks }
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
