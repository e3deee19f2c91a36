//! One file for each command: they wire settings, jobs, outputs and the screen together. Only this folder reads settings, and
//! hands them on as plain values; nothing else uses this folder.
//!
//! A command that cannot do its work ends with an error of one line: what failed, why, and what to type.

pub mod compare;
pub mod demo;
pub mod diagnose;
pub mod doctor;
pub mod document;
pub mod explain;
#[cfg(feature = "serve")]
pub mod export;
#[cfg(feature = "fleet")]
pub mod fleet;
#[cfg(feature = "import")]
pub mod import;
pub mod live;
pub mod log;
pub mod man;
#[cfg(feature = "mcp")]
pub mod mcp;
pub mod pick;
pub mod pick_screen;
mod probed;
pub mod profile;
mod progress;
pub mod record;
pub mod replay;
pub mod report;
pub mod run;
pub mod screen;
mod screen_loop;
pub mod shell;
#[cfg(feature = "trace")]
pub mod trace;
pub mod watch;

use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use crate::config::Settings;
use trainmon_attach::collector;
use trainmon_attach::jobs::followed::FollowedJobs;
use trainmon_attach::jobs::recorded_profile::RecordedProfile;
use trainmon_attach::jobs::session::{self, EndSignals, Reopening, Session};
use trainmon_base::errors::ExitCode;
use trainmon_base::streams::Stream;
use trainmon_base::text::format::counted;
use trainmon_diagnosis::diagnosis::Verdict;
use trainmon_diagnosis::pipeline::Tick;
use trainmon_outputs::log::LogOut;
use trainmon_outputs::whole_file::cannot_write;
use trainmon_rates::RatesOptions;
use trainmon_sources::{Roots, SourceOptions};
use trainmon_waits::frame::Frame;

/// The last frame and verdict that were shown or written.
type LastMoment = (Arc<Frame>, Arc<Verdict>);

/// What the settings say about attaching to `pid`. `simulated` is the state file of a simulated GPU in place of NVML.
pub fn attach_options(settings: &Settings, pid: u32, simulated: Option<&Path>) -> session::SessionOptions {
    // A log has a row even where its duration is shorter than its interval.
    let shortest = if settings.call.log.is_some() { settings.interval } else { Duration::ZERO };
    session::SessionOptions {
        collector: collector::CollectorOptions {
            sources: sources(settings, simulated),
            pid,
            interval: settings.interval,
            no_ptrace: !settings.ptrace,
            no_stacks: !settings.stacks,
            py_spy: settings.py_spy.clone(),
            outlook: false,
        },
        rates: RatesOptions { gpus: settings.gpus.clone().unwrap_or_default() },
        duration: settings.call.duration.map(|duration| duration.max(shortest)),
        iterations: settings.call.iterations,
    }
}

/// Follows this process to its end, or all training processes as they come and go. How long is for the command to say.
fn followed(settings: &Settings, pid: Option<u32>) -> anyhow::Result<FollowedJobs> {
    let mut options = attach_options(settings, pid.unwrap_or(0), None);
    (options.duration, options.iterations) = (None, None);
    match pid {
        Some(_) => FollowedJobs::one(options),
        None => Ok(FollowedJobs::all(options)),
    }
}

/// Hands every tick to `take` until the target ends, a limit is reached or a signal ends it. `None` asks to look for the file
/// that is written: something else may have moved or removed it. A sample has the profile, if one is wanted.
async fn each_tick(
    mut session: Session,
    (mut ending, mut reopening): (EndSignals, Reopening),
    mut profile: Option<&mut RecordedProfile>,
    mut take: impl FnMut(Option<Arc<Tick>>) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    loop {
        let account = async {
            match &mut profile {
                Some(profile) => profile.next().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = reopening.asked() => take(None)?,
            account = account => session.profiled(account),
            tick = session.next_before_end(&mut ending) => {
                let Some(tick) = tick else { return Ok(()) };
                if let Some(profile) = &mut profile {
                    profile.see(&tick);
                }
                take(Some(tick))?;
            }
        }
    }
}

/// Prints what a command was asked for.
pub(crate) fn print(text: impl AsRef<[u8]>) -> anyhow::Result<ExitCode> {
    let written = Stream::stdout().and_then(|mut stdout| stdout.write_all(text.as_ref()));
    written.map_err(|error| cannot_write("", Path::new("-"), error))?;
    Ok(ExitCode::DONE)
}

/// Prints a value as JSON over several lines.
fn print_json(value: &impl Serialize) -> anyhow::Result<ExitCode> {
    let mut text = Vec::new();
    trainmon_base::text::json::pretty(&mut text, value)?;
    print(text)
}

/// What was written to a file in words, and where it is. The counts are of all of it, and of what was written before the
/// file that is there now was begun.
fn written(out: &LogOut, [one, many, done]: [&str; 3], (count, elsewhere): (u64, u64), size: &str) -> String {
    let (all, path) = (counted(count, one, many), out.path().display());
    match out.damage() {
        Some(what) => format!("{all} {done}, but {path} {what} since"),
        None if elsewhere > 0 => format!("{all}, the last {} of them in {path}{size}", count - elsewhere),
        None => format!("{all} in {path}{size}"),
    }
}

/// Where the settings say that the sources are. `simulated` is the state file of a simulated GPU in place of the real ones.
pub fn sources(settings: &Settings, simulated: Option<&Path>) -> SourceOptions {
    SourceOptions {
        roots: Roots { proc: settings.proc_root.clone(), sys: settings.sys_root.clone() },
        nvml_lib: settings.nvml_lib.clone(),
        simulated_gpu: simulated.map(Path::to_path_buf),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Call;

    #[test]
    fn a_short_duration_leaves_a_log_one_row() {
        let duration = |log: Option<&str>, duration_s| {
            let duration = Some(Duration::from_secs(duration_s));
            let call = Call { log: log.map(Into::into), duration, ..Call::default() };
            let settings = Settings { interval: Duration::from_secs(10), call, ..Settings::default() };
            attach_options(&settings, 1, None).duration.map(|duration| duration.as_secs())
        };
        assert_eq!(
            (duration(Some("-"), 1), duration(Some("-"), 20), duration(None, 1)),
            (Some(10), Some(20), Some(1))
        );
    }
}
