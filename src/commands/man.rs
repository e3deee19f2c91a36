//! `trainmon man`: the manual pages, made from the definition of the command line. man(1) shows them on a terminal; a pipe or a
//! file gets roff.

use std::fs::File;
use std::io::{self, IsTerminal, Seek, Write};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};
use signal_hook::consts::{SIGINT, SIGQUIT};

use super::shell::command_named;
use crate::cli::help::{EXIT_STATUS, HELP};
use trainmon_base::errors::{ExitCode, Failure};

/// Files that trainmon reads and writes.
const FILES: &[(&str, &str)] = &[
    (
        "$XDG_CONFIG_HOME/trainmon/config.toml, ~/.config/trainmon/config.toml",
        "The configuration; trainmon --print-config prints one to start from.",
    ),
    (
        "$XDG_STATE_HOME/trainmon/layout.toml, ~/.local/state/trainmon/layout.toml",
        "The layout of the screen when it was last closed.",
    ),
    ("$XDG_STATE_HOME/trainmon/trainmon.log", "trainmon's own messages, if RUST_LOG is set and --log-file is not."),
    ("$TMPDIR/trainmon-run-*.out", "The output of a program that trainmon run started under the screen."),
];

/// Environment variables that trainmon reads.
const ENVIRONMENT: &[(&str, &str)] = &[
    ("NO_COLOR", "If set and not empty: no colors."),
    ("TERM, COLORTERM", "Which colors the terminal can show. With TERM=dumb there is no screen."),
    ("LC_ALL, LC_CTYPE, LANG", "If the locale is not UTF-8, the screen is drawn in ASCII."),
    ("RUST_LOG", "The level of trainmon's own messages: error, warn, info, debug or trace."),
    ("XDG_CONFIG_HOME, XDG_STATE_HOME", "Where the configuration and the state files are."),
    ("TMPDIR", "Where trainmon run keeps the output of the program."),
    ("TZ", "The time zone of times on the screen and in logs."),
    ("PATH", "Where py-spy is searched."),
];

/// Shows the main page, or that of one command.
pub fn run(name: Option<&str>) -> anyhow::Result<ExitCode> {
    let roff = page(name)?;
    if !io::stdout().is_terminal() {
        return super::print(roff);
    }
    if show(&roff)? {
        return Ok(ExitCode::DONE);
    }
    super::print(command_named(name)?.render_long_help().to_string())
}

/// Lets man(1) show a page; false where it is missing or fails.
fn show(page: &[u8]) -> io::Result<bool> {
    let mut file: File = tempfile::tempfile()?;
    file.write_all(page)?;
    file.rewind()?;
    // Ctrl-C is for the pager.
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGQUIT] {
        signal_hook::flag::register(signal, Arc::clone(&interrupted))?;
    }
    let shown = Command::new("man").args(["-l", "-"]).stdin(file).stderr(Stdio::null()).status();
    Ok(shown.is_ok_and(|status| status.success()) || interrupted.load(Ordering::Relaxed))
}

/// The page as roff.
fn page(name: Option<&str>) -> Result<Vec<u8>, Failure> {
    let command = command_named(name)?;
    let mut text = Vec::new();
    let cannot = |error: io::Error| Failure::failed(format!("cannot write the manual page: {error}"));
    render(&command, name, &mut text).map_err(cannot)?;
    Ok(text)
}

fn render(command: &clap::Command, name: Option<&str>, out: &mut Vec<u8>) -> io::Result<()> {
    let man = Man::new(command.clone());
    man.render_title(out)?;
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    let mut roff = Roff::new();
    roff.control("SH", ["NAME"]);
    let title = command.get_display_name().unwrap_or(command.get_name());
    roff.text([roman(format!("{title} - {}", about.lines().next().unwrap_or_default().trim_end_matches('.')))]);
    roff.to_writer(out)?;
    man.render_synopsis_section(out)?;
    man.render_description_section(out)?;
    man.render_options_section(out)?;
    let mut roff = Roff::new();
    match name {
        None => man.render_subcommands_section(out)?,
        Some(_) => {
            roff.control("SH", ["COMMON OPTIONS"]);
            roff.text([roman("All commands share the options in "), bold("trainmon"), roman("(1).")]);
        }
    }
    let help = HELP.iter().find(|help| help.name == name.unwrap_or_default());
    let examples = help.into_iter().flat_map(|help| help.examples);
    let examples: Vec<_> = examples.map(|(typed, what)| (format!("trainmon {typed}"), *what)).collect();
    section(&mut roff, "EXAMPLES", examples.iter().map(|(typed, what)| (typed.trim_end(), *what)));
    if name.is_none() {
        section(&mut roff, "FILES", FILES.iter().copied());
        section(&mut roff, "ENVIRONMENT", ENVIRONMENT.iter().copied());
    }
    section(&mut roff, "EXIT STATUS", EXIT_STATUS.iter().copied());
    roff.control("PP", []);
    roff.text([
        bold("trainmon run"),
        roman(" passes on the exit status of the program: 128 and the number of the signal if one ended it."),
    ]);
    roff.to_writer(out)
}

/// A section of terms, each with its meaning.
fn section<'t>(roff: &mut Roff, title: &str, rows: impl IntoIterator<Item = (&'t str, &'t str)>) {
    roff.control("SH", [title]);
    for (term, meaning) in rows {
        roff.control("TP", []);
        roff.text([bold(term)]);
        roff.text([roman(meaning)]);
    }
}
