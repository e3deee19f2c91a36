//! Completion scripts and help, made from the definition of the command line.

use clap::CommandFactory;

use crate::cli::{Cli, help, left_out};
use trainmon_base::errors::{ExitCode, Failure};
use trainmon_base::text::{fit, nearest};

/// Prints the completion script of a shell.
pub fn completions(shell: clap_complete::Shell) -> anyhow::Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "trainmon", &mut script);
    super::print(script)
}

/// Prints the help of trainmon or of one command.
pub fn help(page: Option<&str>) -> anyhow::Result<ExitCode> {
    let mut command = command_named(page)?;
    super::print(command.render_help().to_string())
}

/// The definition of one command, or of trainmon itself.
pub(super) fn command_named(name: Option<&str>) -> Result<clap::Command, Failure> {
    let command = help::command();
    let Some(name) = name else { return Ok(command) };
    command.find_subcommand(name).cloned().ok_or_else(|| {
        if let Some(why) = left_out::why(name) {
            return Failure::usage(why);
        }
        let names: Vec<_> = command.get_subcommands().map(clap::Command::get_name).collect();
        let hint = match nearest(name, names.iter().copied()) {
            Some(near) => format!("did you mean {near}?"),
            None => format!("use one of {}", names.join(", ")),
        };
        Failure::usage(format!("no command is called `{}`: {hint}", fit(name, 40)))
    })
}
