//! Completion scripts and manual pages, made from the definition of the command line.

use clap::CommandFactory;

use crate::cli::Cli;
use crate::errors::{ExitCode, Failure};

/// Prints the completion script of a shell.
pub fn completions(shell: clap_complete::Shell) -> anyhow::Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "trainmon", &mut script);
    super::print(script)
}

/// Prints the main manual page, or that of one command.
pub fn man(page: Option<&str>) -> anyhow::Result<ExitCode> {
    let mut command = Cli::command();
    command.build();
    if let Some(page) = page {
        let words: Vec<_> = command.get_subcommands().map(clap::Command::get_name).collect();
        let unknown = format!("no manual page for {page}: there are {}", words.join(", "));
        command = command.find_subcommand(page).cloned().ok_or_else(|| Failure::usage(unknown))?;
    }
    let mut text = Vec::new();
    clap_mangen::Man::new(command).render(&mut text)?;
    super::print(text)
}
