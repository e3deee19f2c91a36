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
use crate::diagnosis::causes::Cause;
use crate::diagnosis::verdict::Class;
use crate::errors::{self, ExitCode, Failure};

/// CPUs that other processes take, from which on they are worth a word where the demo is not held back as asked.
const WORTH_A_WORD: f64 = 0.3;

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

/// What kept the demo from being held back as asked, where that was other processes.
fn other_than_asked(bottleneck: DemoBottleneck, workers: Option<u8>, last: &LastMoment) -> Option<String> {
    let (frame, verdict) = last;
    // With another number of workers than the plan's, another verdict is the point.
    let as_asked = verdict.class == class(bottleneck) && verdict.cause != Some(Cause::NoisyNeighbour);
    if workers.is_some() || as_asked {
        return None;
    }
    let others = frame.host.others_cpu_pct? / 100.0;
    let cpus = frame.host.cpus.len();
    let asked = bottleneck.to_possible_value()?;
    let asked = asked.get_name();
    (others >= WORTH_A_WORD)
        .then(|| format!("asked for {asked}, but other processes take {others:.1} of {cpus} CPUs"))
}

/// The class of verdict that the demo is made for.
fn class(bottleneck: DemoBottleneck) -> Class {
    match bottleneck {
        DemoBottleneck::DataLoader => Class::DataLoader,
        DemoBottleneck::Cpu => Class::Cpu,
        DemoBottleneck::Io => Class::Io,
        DemoBottleneck::Gpu => Class::Gpu,
        DemoBottleneck::Healthy => Class::Balanced,
    }
}
