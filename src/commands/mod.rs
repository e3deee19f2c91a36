//! One file for each command: they wire settings, jobs, outputs and the screen together.
//!
//! Whatever keeps a command from its work is an error of one line: what, why, and what to do about it.

pub mod demo;
pub mod diagnose;
pub mod doctor;
pub mod explain;
pub mod live;
pub mod log;
pub mod pick;
pub mod pick_screen;
pub mod record;
pub mod replay;
pub mod run;
pub mod screen;
mod screen_loop;
pub mod shell;

use std::io::Write;
use std::path::Path;

use crate::collector;
use crate::config::Settings;
use crate::errors::ExitCode;
use crate::jobs::candidates::scan::Places;
use crate::jobs::session;
use crate::outputs::log::Presence;
use crate::rates::RatesOptions;
use crate::sources::{Roots, SourceOptions};
use crate::tui::labels::counted;

/// What the settings say about attaching to `pid`. `simulated` is the state file of a simulated device in NVML's place.
#[must_use]
pub fn attach_options(settings: &Settings, pid: u32, simulated: Option<&Path>) -> session::SessionOptions {
    session::SessionOptions {
        collector: collector::CollectorOptions {
            sources: SourceOptions {
                roots: Roots { proc: settings.proc_root.clone(), sys: settings.sys_root.clone() },
                nvml_lib: settings.nvml_lib.clone(),
                simulated_device: simulated.map(Path::to_path_buf),
            },
            pid,
            interval: settings.interval,
            no_ptrace: !settings.ptrace,
            no_stacks: !settings.stacks,
            py_spy: settings.py_spy.clone(),
        },
        rates: RatesOptions { gpus: settings.gpus.clone().unwrap_or_default() },
        duration: settings.call.duration,
        iterations: settings.call.iterations,
    }
}

/// Prints what a command was asked for.
fn print(text: impl AsRef<[u8]>) -> anyhow::Result<ExitCode> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_ref())?;
    out.flush()?;
    Ok(ExitCode::DONE)
}

/// Prints a value as JSON over several lines.
fn print_json(value: &serde_json::Value) -> anyhow::Result<ExitCode> {
    let mut text = Vec::new();
    crate::text::json::pretty(&mut text, value)?;
    print(text)
}

/// What was written to a file in words, and where it is. The counts are of all of it, and of what was written before the
/// file that is there now was begun.
fn written(
    presence: Presence,
    path: &Path,
    [one, many, done]: [&str; 3],
    (count, elsewhere): (u64, u64),
    size: &str,
) -> String {
    let (all, path) = (counted(count, one, many), path.display());
    match presence {
        Presence::Gone => format!("{all} {done}, but {path} was moved, removed or replaced since"),
        Presence::Truncated => format!("{all} {done}, but {path} was truncated since"),
        Presence::There if elsewhere > 0 => format!("{all}, the last {} of them in {path}{size}", count - elsewhere),
        Presence::There => format!("{all} in {path}{size}"),
    }
}

/// Where the settings say that candidates are looked for.
#[must_use]
pub fn places(settings: &Settings) -> Places {
    Places { proc_root: settings.proc_root.clone(), nvml_lib: settings.nvml_lib.clone() }
}
