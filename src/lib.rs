//! trainmon attaches to a running training job, without changing it, and says what holds it back.
//!
#![doc = include_str!("../docs/architecture.md")]

pub mod cli;
pub mod commands;
pub mod config;
pub mod demo;
pub mod logging;

pub use trainmon_attach::{collector, doctor, jobs, runs, started};
pub use trainmon_base::{errors, foreground, heap, leave, signals, streams, text, trust, zone};
pub use trainmon_diagnosis::{diagnosis, fleet, history, pipeline, watch};
#[cfg(feature = "import")]
pub use trainmon_imports as imports;
pub use trainmon_outputs as outputs;
pub use trainmon_profiles as profiles;
pub use trainmon_profiling as profiling;
pub use trainmon_rates as rates;
pub use trainmon_sample as sample;
#[cfg(feature = "serve")]
pub use trainmon_serve::exporter;
#[cfg(any(feature = "serve", feature = "fleet"))]
pub use trainmon_serve::http;
#[cfg(feature = "mcp")]
pub use trainmon_serve::mcp;
#[cfg(feature = "fleet")]
pub use trainmon_serve::prometheus;
pub use trainmon_sources as sources;
pub use trainmon_tui as tui;
pub use trainmon_views as views;
pub use trainmon_waits as waits;

use std::ffi::OsString;
use std::io::IsTerminal;

use anyhow::Context;
use clap::{ArgMatches, FromArgMatches};

use cli::refused::{CallOutcome, is_program, refused};
use cli::{Cli, Command};
use errors::ExitCode;

/// Runs the program with the arguments of the process.
pub fn run() -> ExitCode {
    // This comes first: threads and programs started later inherit it.
    if let Err(error) = trust::rights::lay_down() {
        let error = anyhow::Error::new(error);
        return errors::report(&error.context("cannot drop the rights of trainmon's own file"));
    }
    heap::share_under_limit();
    signals::prepare();
    let arguments: Vec<_> = std::env::args_os().collect();
    let parts = [sources::py_spy::run_part, started::command::run_part, sources::gpu::run_part];
    if let Some(code) = parts.iter().find_map(|run| run(&arguments)) {
        return code;
    }
    if let Some(line) = errors::overlong_option(&arguments) {
        streams::tell(&line);
        return ExitCode::USAGE;
    }
    let (cli, matches) = match parsed(&arguments) {
        Ok(parsed) => parsed,
        Err(code) => return code,
    };
    match dispatch(&cli, &matches) {
        Ok(code) => code,
        Err(error) => errors::report(&error),
    }
}

/// The call, or the one that was meant. Without one: the exit code, once there is nothing more to say.
fn parsed(arguments: &[OsString]) -> Result<(Cli, ArgMatches), ExitCode> {
    let parsed = cli::help::command().try_get_matches_from(arguments);
    let error = match parsed.and_then(|matches| Ok((Cli::from_arg_matches(&matches)?, matches))) {
        Ok(parsed) => return Ok(parsed),
        Err(error) => error,
    };
    match refused(&error, arguments, is_program) {
        CallOutcome::Meant { arguments, note } => {
            if let (Some(note), true) = (note, std::io::stdout().is_terminal()) {
                errors::note(&note);
            }
            self::parsed(&arguments)
        }
        // --help and --version; a closed pipe is success.
        CallOutcome::Line(_) if !error.use_stderr() => {
            Err(error.print().map_or_else(|error| errors::report(&error.into()), |()| ExitCode::DONE))
        }
        CallOutcome::Line(line) => {
            streams::tell(&line);
            Err(ExitCode::USAGE)
        }
    }
}

fn dispatch(cli: &Cli, matches: &ArgMatches) -> anyhow::Result<ExitCode> {
    let settings = cli.settings(matches, |name| std::env::var_os(name))?;
    if settings.show_secrets {
        text::secrets::show();
    }
    for note in &settings.notes {
        errors::note(note);
    }
    if cli.print_config {
        let text = settings.to_toml().context("cannot print the settings as TOML")?;
        return commands::print(text);
    }
    logging::start(settings.log_file.as_deref())?;
    settings.notes.iter().for_each(|note| tracing::warn!("{note}"));
    match &cli.command {
        None => commands::live::run(&settings),
        Some(Command::Diagnose(arguments)) => commands::diagnose::run(&settings, arguments),
        Some(Command::Profile(arguments)) => commands::profile::run(&settings, arguments),
        Some(Command::Record(arguments)) => commands::record::run(&settings, arguments),
        Some(Command::Run { program, no_profiler }) => commands::run::run(&settings, program, !no_profiler),
        Some(Command::Replay { file }) => commands::replay::run(&settings, file),
        #[cfg(feature = "serve")]
        Some(Command::Export(arguments)) => commands::export::run(&settings, arguments),
        #[cfg(feature = "fleet")]
        Some(Command::Fleet(arguments)) => commands::fleet::run(&settings, arguments),
        #[cfg(feature = "import")]
        Some(Command::Import(arguments)) => commands::import::run(&settings, arguments),
        Some(Command::Report(arguments)) => commands::report::run(&settings, arguments),
        Some(Command::Compare(arguments)) => commands::compare::run(&settings, arguments),
        Some(Command::Watch(arguments)) => commands::watch::run(&settings, arguments),
        #[cfg(feature = "trace")]
        Some(Command::Trace(arguments)) => commands::trace::run(&settings, arguments),
        Some(Command::Demo { bottleneck, workers }) => commands::demo::run(&settings, *bottleneck, *workers),
        Some(Command::Doctor { json, .. }) => commands::doctor::run(&settings, *json),
        Some(Command::Explain { cause, json }) => commands::explain::run(&cause.join(" "), *json),
        #[cfg(feature = "mcp")]
        Some(Command::Mcp) => commands::mcp::run(&settings),
        Some(Command::Completions { shell }) => commands::shell::completions(*shell),
        Some(Command::Help { page }) => commands::shell::help(page.as_deref()),
        Some(Command::Man { page }) => commands::man::run(page.as_deref()),
    }
}
