//! The command line: every command and its own options. The options that all commands take stand in `config`.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use clap::builder::{PossibleValue, TypedValueParser};
use clap::error::ErrorKind;
use clap::{Arg, ArgMatches, Args, Parser, Subcommand, ValueEnum};

use crate::config::{Settings, is_said};
use crate::diagnosis::causes;
use crate::diagnosis::verdict::Class;
use crate::errors::Failure;
use crate::outputs::explanation::{TOPICS, topic};

/// Attach to a running training job and see whether CPU, GPU, IO or the data-loader holds it back.
///
/// Without a command: the live screen, or with --log one CSV row per interval. Nothing is injected into the job and
/// nothing in it has to be changed or restarted.
#[derive(Debug, Clone, Parser)]
#[command(
    name = "trainmon",
    version,
    max_term_width = 100,
    disable_help_subcommand = true,
    // Every command takes the options of all.
    mut_args(|option| option.global(true)),
    after_help = "Exit status: 0 done · 1 failed · 2 bad usage · 3 no such process, or not allowed to see it · \
                  4 diagnose --fail-on matched"
)]
pub struct Cli {
    /// As parsed, which is not yet what is in effect: see [`Cli::settings`].
    #[command(flatten)]
    parsed: Settings,
    /// Configuration file instead of $XDG_CONFIG_HOME/trainmon/config.toml.
    #[arg(short, long, value_name = "FILE", help_heading = "Screen")]
    config: Option<PathBuf>,
    /// Print the settings in effect as a configuration file, and exit.
    #[arg(long, help_heading = "Screen")]
    pub print_config: bool,
    /// The command; none means the live screen or the log.
    #[command(subcommand)]
    pub command: Option<Command>,
}

/// The commands of this version.
#[derive(Debug, Clone, Subcommand)]
pub enum Command {
    /// Watch for a while, print one verdict with evidence and advice, and exit.
    Diagnose(DiagnoseArgs),
    /// Write every sample to a file, so that the run can be judged again later or elsewhere.
    Record(RecordArgs),
    /// Look at a recording: the same screen, over time.
    Replay {
        /// A recording of `trainmon record`.
        file: PathBuf,
    },
    /// Start a program and attach to it; its exit code is passed on.
    Run {
        /// The program and its arguments, after `--`.
        #[arg(last = true, required = true, num_args = 1.., value_name = "CMD")]
        program: Vec<OsString>,
    },
    /// A small training-like program of our own, attached to; works on a machine without a GPU.
    Demo {
        /// What shall hold the demo back.
        #[arg(long, value_enum, default_value_t)]
        bottleneck: DemoBottleneck,
        /// Data workers of the demo, instead of those that the bottleneck needs: try what the advice says.
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=64))]
        workers: Option<u8>,
    },
    /// What can be seen from here, what cannot, and the command that mends it.
    Doctor {
        /// Print the findings as one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// What the causes of verdicts mean, how each is recognised, and what to do about it.
    Explain {
        /// A cause, a class, or class/cause where two classes have it; without one, all of them with a line each. `chain`:
        /// how to read a wait chain.
        #[arg(value_name = "CAUSE", value_parser = CauseName, hide_possible_values = true)]
        cause: Option<String>,
        /// Print the same as one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Print a completion script for a shell.
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Print the manual page.
    Man {
        /// The page of one command (diagnose, run, …) instead of the main page.
        #[arg(id = "manual_page", value_name = "PAGE")]
        page: Option<String>,
    },
}

impl Cli {
    /// The settings in effect: the command line over the configuration file over the defaults. `matches` is what this was
    /// made from; `environment` gives environment variables.
    pub fn settings(
        &self,
        matches: &ArgMatches,
        environment: impl Fn(&str) -> Option<OsString>,
    ) -> Result<Settings, Failure> {
        let settings = Settings::load(self.config.as_deref(), matches, environment)?;
        self.check(matches)?;
        Ok(settings)
    }

    /// Refuses options that the command has no use for.
    fn check(&self, matches: &ArgMatches) -> Result<(), Failure> {
        let word = matches.subcommand_name().unwrap_or("trainmon");
        let call = &self.parsed.call;
        let starts_its_own = matches!(self.command, Some(Command::Run { .. } | Command::Demo { .. }));
        let logs = self.command.is_none() || starts_its_own;
        let records = matches!(self.command, Some(Command::Record(_)));
        let replays = matches!(
            self.command,
            Some(Command::Replay { .. } | Command::Diagnose(DiagnoseArgs { replay: Some(_), .. }))
        );
        let said = |ids: &[&str]| ids.iter().find(|id| is_said(matches, id)).map(|id| format!("--{id}"));
        let on_existing = said(&["force", "append"]);
        let why = if call.log.is_some() && !logs {
            format!("{word} writes no log: leave --log out")
        } else if records && call.append {
            "a recording begins anew: leave --append out".to_owned()
        } else if let (Some(name), None, false) = (&on_existing, &call.log, records) {
            format!("{name} says what to do with an existing --log file: give --log PATH too")
        } else if call.log.as_deref() == Some(Path::new("-")) && on_existing.is_some() {
            "standard output (--log -) is not a file: leave --force and --append out".to_owned()
        } else if let (Some(name), true) = (said(&["pid", "interval", "duration", "iterations"]), replays) {
            format!("a recording is taken as it is: leave {name} out")
        } else if starts_its_own && call.pid.is_some() {
            format!("{word} starts the process it attaches to: leave --pid out")
        } else {
            return Ok(());
        };
        Err(Failure::usage(why))
    }
}

/// `diagnose`.
#[derive(Debug, Clone, Default, Args)]
pub struct DiagnoseArgs {
    /// Print everything: evidence, other findings, all advice with its reasons, what is not available.
    #[arg(long, conflicts_with_all = ["short", "json"])]
    pub full: bool,
    /// Print one line, for a chat or a ticket.
    #[arg(long, conflicts_with = "json")]
    pub short: bool,
    /// Print the verdict as one JSON object.
    #[arg(long)]
    pub json: bool,
    /// Stop as soon as the verdict is sure (80% or more for 3 s), at the latest after --duration.
    ///
    /// A job that is still starting is watched until it trains.
    #[arg(long, conflicts_with = "replay")]
    pub until_sure: bool,
    /// Exit with status 4 if the verdict is one of these classes.
    #[arg(long, value_name = "CLASS[,CLASS]", value_parser = parse_class, value_delimiter = ',')]
    pub fail_on: Vec<Class>,
    /// Judge a recording made by `trainmon record` instead of a running process.
    #[arg(long, value_name = "FILE")]
    pub replay: Option<PathBuf>,
}

/// `record`.
#[derive(Debug, Clone, Default, Args)]
#[command(
    after_help = "A recording is JSON lines in zstd frames: zstdcat FILE | jq reads it, trainmon diagnose --replay \
                  FILE judges it."
)]
pub struct RecordArgs {
    /// The file to write, or `-` for standard output; an existing one is refused without --force.
    #[arg(short, long, value_name = "FILE|-")]
    pub output: PathBuf,
    /// Leave out the directories in command lines, mounts and control groups, for a recording that is given to others.
    /// Other arguments stay, and so do the names of programs, disks, network interfaces and GPUs.
    #[arg(long, visible_alias = "anonymize")]
    pub anonymise: bool,
}

/// Takes what [`causes::named`] knows, and topics; completions offer the names.
#[derive(Debug, Clone)]
struct CauseName;

impl TypedValueParser for CauseName {
    type Value = String;

    fn parse_ref(&self, command: &clap::Command, _: Option<&Arg>, value: &OsStr) -> Result<String, clap::Error> {
        let text = value.to_string_lossy();
        if !causes::named(&text).is_empty() || topic(&text).is_some() {
            return Ok(text.into_owned());
        }
        let near = causes::near(&text);
        let hint = if near.is_empty() {
            "trainmon explain lists them".to_owned()
        } else {
            format!("did you mean {}?", near.join(", "))
        };
        let message = format!("no cause is called `{}`: {hint}", crate::text::fit(&text, 40));
        Err(clap::Error::raw(ErrorKind::InvalidValue, message).with_cmd(command))
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let classes = Class::ALL.iter().map(|class| class.word());
        let topics = TOPICS.iter().map(|topic| topic.name);
        let mut names: Vec<_> = classes.chain(causes::all().map(|cause| cause.name)).chain(topics).collect();
        names.sort_unstable();
        names.dedup();
        Some(Box::new(names.into_iter().map(PossibleValue::new)))
    }
}

/// What holds the demo back.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum DemoBottleneck {
    /// One worker that is too slow, with CPUs left free.
    #[default]
    DataLoader,
    /// Work of the main thread between launches.
    Cpu,
    /// Workers that wait for a slow storage server (local, loopback only).
    Io,
    /// A simulated device that is always busy.
    Gpu,
    /// Nothing costs more than a few percent.
    Balanced,
}

fn parse_class(text: &str) -> Result<Class, String> {
    let text = text.trim();
    Class::named(text).ok_or_else(|| {
        let words: Vec<_> = Class::ALL.iter().map(|class| class.word()).collect();
        format!("the classes are {}", words.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
        // The parser would take one for the other.
        let command = Cli::command();
        for own in command.get_subcommands().flat_map(clap::Command::get_arguments) {
            let shared = command.get_arguments().any(|common| common.get_id() == own.get_id());
            assert!(!shared, "`{}` is an option of all commands already", own.get_id());
        }
    }
}
