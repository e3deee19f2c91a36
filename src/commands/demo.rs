//! `trainmon demo`: start the demo job and attach to it as to any other job.

use std::io::Write;
use std::os::fd::AsRawFd;
use std::path::Path;

use anyhow::Context;
use clap::ValueEnum;

use super::{LastMoment, live};
use crate::cli::DemoBottleneck;
use crate::config::Settings;
use crate::demo::{DemoJob, RECORDING, python};
use trainmon_base::errors::{self, ExitCode, Failure};
use trainmon_diagnosis::diagnosis::causes::Cause;
use trainmon_diagnosis::diagnosis::verdict::Class;

/// Other processes that take fewer CPUs than this do not change the verdict.
const NOTABLE_CPUS: f64 = 0.3;
/// Most demos have a verdict by then, seconds.
const FIRST_VERDICT_S: f64 = 4.0;

/// Runs the demo until the user has seen enough.
pub fn run(settings: &Settings, bottleneck: DemoBottleneck, workers: Option<u8>) -> anyhow::Result<ExitCode> {
    // Asked before anything starts: the answer must not name a process that ends with us.
    if settings.call.log.is_none() {
        live::terminal_or("trainmon demo --log -")?;
    }
    // The job lives until the screen or the log has ended, and ends on every way out of here, panics included.
    let job = match python::find() {
        Ok(python) => DemoJob::start(&python, bottleneck, workers)?,
        Err(why) => return without_python(settings, &why),
    };
    let last = live::watch(settings, job.pid(), Some(&job.device_path))?;
    drop(job);
    if let Some(line) = last.and_then(|last| other_than_asked(bottleneck, workers, &last)) {
        errors::note(&line);
    }
    Ok(ExitCode::DONE)
}

/// Shows a recorded job instead.
fn without_python(settings: &Settings, why: &str) -> anyhow::Result<ExitCode> {
    if settings.call.log.is_some() {
        return Err(Failure::failed(format!("cannot run the demo: {why}. Install Python 3")).into());
    }
    let file = rustix::fs::memfd_create("recording", rustix::fs::MemfdFlags::CLOEXEC).map(std::fs::File::from);
    let mut file = file.context("cannot make a memory file for the demo's recording")?;
    file.write_all(RECORDING).context("cannot write the demo's recording")?;
    errors::note(&format!("{why}: showing a recorded PyTorch job instead"));
    super::replay::run(settings, Path::new(&format!("/proc/self/fd/{}", file.as_raw_fd())))
}

/// What kept the demo from showing its bottleneck, if other processes did.
fn other_than_asked(bottleneck: DemoBottleneck, workers: Option<u8>, last: &LastMoment) -> Option<String> {
    let (frame, verdict) = last;
    let noisy = verdict.cause == Some(Cause::NoisyNeighbour);
    let too_early = verdict.first_verdict_s.is_none() && verdict.observed_s < FIRST_VERDICT_S;
    // With another number of workers than the plan's, another verdict is the point.
    if workers.is_some() || too_early || verdict.class == class(bottleneck) && !noisy {
        return None;
    }
    let others = frame.host.others_cpu_pct? / 100.0;
    let cpus = frame.host.cpus.len();
    let asked = bottleneck.to_possible_value()?;
    let asked = asked.get_name();
    let busiest = if noisy { verdict.culprits.first() } else { None };
    let busiest = busiest.map(|culprit| format!(". The busiest: {culprit}"));
    let busiest = busiest.unwrap_or_default();
    (others >= NOTABLE_CPUS).then(|| {
        format!("the demo was to show {asked}, but other processes take {others:.1} of {cpus} CPUs{busiest}")
    })
}

/// The verdict that the bottleneck should get.
fn class(bottleneck: DemoBottleneck) -> Class {
    match bottleneck {
        DemoBottleneck::DataLoader => Class::DataLoader,
        DemoBottleneck::Cpu => Class::Cpu,
        DemoBottleneck::Io => Class::Io,
        DemoBottleneck::Gpu => Class::Gpu,
        DemoBottleneck::Healthy => Class::Balanced,
    }
}
