//! What `--help` and the manual pages say beyond the options: usage, examples, and which common options a command's own help
//! shows.

use clap::{Arg, ArgAction, Command, CommandFactory};

use super::Cli;

/// What the help of a command says beyond its own options.
#[derive(Debug)]
pub struct CommandHelp {
    /// The command; empty for `trainmon` itself.
    pub name: &'static str,
    /// Common options without which the command is of little use: its help lists them too.
    common: &'static [&'static str],
    /// Examples: the arguments after `trainmon`, and what they do.
    pub examples: &'static [(&'static str, &'static str)],
}

/// One entry for each command.
pub const HELP: &[CommandHelp] = &[
    CommandHelp {
        name: "",
        common: &[],
        examples: &[
            ("", "pick a training process from a list"),
            ("1234", "watch process 1234 on the screen"),
            ("diagnose 1234", "watch it for 20 s, then print one verdict"),
            ("1234 --log run.csv", "write one CSV row per second, no screen"),
            ("run -- python train.py", "start a program and watch it"),
            ("demo", "try it on a simulated job; needs no GPU"),
        ],
    },
    CommandHelp {
        name: "diagnose",
        common: &["duration"],
        examples: &[
            ("diagnose 1234", "watch for 20 s, then print the verdict"),
            ("diagnose 1234 --json --fail-on io", "JSON; exit status 4 if storage is the limit"),
            ("diagnose --replay run.tmz", "judge a recording"),
        ],
    },
    CommandHelp {
        name: "profile",
        common: &["force"],
        examples: &[
            ("profile 1234", "half a second of a running job, and what it shows"),
            ("profile 1234 --steps 3 --stacks", "three steps, with the lines of code"),
            ("profile 1234 -o trace.json.gz", "keep the trace"),
            ("profile 1234 --inject", "of a job on Python 3.14 that was not started for it"),
        ],
    },
    CommandHelp {
        name: "record",
        common: &["duration", "interval", "force"],
        examples: &[
            ("record 1234 -o run.tmz", "record until the job ends or Ctrl-C"),
            ("record 1234 -o run.tmz --duration 5m --anonymize", "a recording to share"),
        ],
    },
    CommandHelp {
        name: "replay",
        common: &[],
        examples: &[
            ("replay run.tmz", "open a recording on the screen"),
            ("replay run.tmz --page gpu", "start on the GPU page"),
        ],
    },
    CommandHelp {
        name: "watch",
        common: &["duration", "interval"],
        examples: &[
            ("watch 1234", "one line when something changes, until the job ends"),
            ("watch --all --json", "all training processes of the machine, as JSON lines"),
            ("watch 1234 --exec notify-me", "run a command of yours at each event"),
            ("watch --replay run.tmz", "the events of a recording"),
        ],
    },
    CommandHelp {
        name: "report",
        common: &["force", "price"],
        examples: &[
            ("report run.tmz -o run.html", "one file to attach or to open; it loads nothing"),
            ("report run.tmz -o -", "Markdown for a ticket, on standard output"),
            ("report run.tmz -o run.html --price 1.21", "with what waiting costs, at this price of a GPU hour"),
        ],
    },
    CommandHelp {
        name: "compare",
        common: &["force"],
        examples: &[
            ("compare before.tmz after.tmz", "what changed, in a sentence and in tables"),
            ("compare before.tmz after.tmz --fail-if-slower 5%", "in CI: exits with 4 if 5% slower, 5 if unclear"),
            ("compare before.csv after.csv -o change.html", "logs, and a page to show"),
        ],
    },
    CommandHelp {
        name: "trace",
        common: &["force"],
        examples: &[
            ("trace run.tmz -o run.pftrace", "to open at https://ui.perfetto.dev"),
            ("trace run.tmz --torch-profile p.json -o a.pftrace", "with torch's profiler beside it"),
        ],
    },
    CommandHelp {
        name: "export",
        common: &["interval", "duration"],
        examples: &[
            ("export", "all jobs of this machine, at http://127.0.0.1:9845/metrics"),
            ("export --pid 1234 --listen 9846", "one job, at another port"),
            ("export --textfile trainmon.prom", "a file for node_exporter instead"),
        ],
    },
    CommandHelp {
        name: "fleet",
        common: &["price"],
        examples: &[
            ("fleet --prometheus http://prom:9090", "all runs, on the screen"),
            ("fleet --prometheus http://prom:9090 --job llama", "one of them"),
            ("fleet --prometheus http://prom:9090 --json", "the same for a script"),
        ],
    },
    CommandHelp {
        name: "import",
        common: &["force"],
        examples: &[
            ("import smi.csv -o run.tmz", "a log of nvidia-smi, to report or to replay"),
            ("import trace.json.gz smi.csv -o run.tmz", "several files of the same time"),
        ],
    },
    CommandHelp {
        name: "run",
        common: &["log", "force", "append"],
        examples: &[
            ("run -- python train.py --lr 0.1", "start it and watch it on the screen"),
            ("run --log run.csv -- python train.py", "no screen: write a log next to it"),
        ],
    },
    CommandHelp {
        name: "demo",
        common: &["log", "duration"],
        examples: &[
            ("demo", "a job that its data loader slows down"),
            ("demo --bottleneck io", "a job that waits for slow storage"),
        ],
    },
    CommandHelp {
        name: "doctor",
        common: &[],
        examples: &[("doctor", "check this machine"), ("doctor 1234", "also check access to process 1234")],
    },
    CommandHelp {
        name: "explain",
        common: &[],
        examples: &[
            ("explain", "list all causes"),
            ("explain too-few-workers", "one cause: meaning, rule, fix"),
            ("explain starvation", "the same for a name that others use"),
            ("explain chain", "how to read the wait chain"),
        ],
    },
    CommandHelp {
        name: "mcp",
        common: &["interval", "gpu"],
        examples: &[
            ("mcp", "what a client of the Model Context Protocol starts"),
            ("mcp --no-stacks", "never start py-spy"),
        ],
    },
    CommandHelp {
        name: "completions",
        common: &[],
        examples: &[
            ("completions bash > ~/.local/share/bash-completion/completions/trainmon", ""),
            ("completions zsh > ~/.zfunc/_trainmon", ""),
        ],
    },
    CommandHelp {
        name: "man",
        common: &[],
        examples: &[
            ("man", "read the manual page"),
            ("man diagnose", "the page of one command"),
            ("man > trainmon.1", "save it as roff"),
        ],
    },
    CommandHelp {
        name: "help",
        common: &[],
        examples: &[("help", "the same as trainmon --help"), ("help record", "the same as trainmon record --help")],
    },
];

/// What the exit statuses mean.
pub const EXIT_STATUS: &[(&str, &str)] = &[
    ("0", "done; also when the job ended, after Ctrl-C, and when the reader of a pipe has closed it"),
    ("1", "failed"),
    ("2", "bad usage"),
    ("3", "no such process, or no permission to read it"),
    ("4", "diagnose --fail-on matched, or compare --fail-if-slower"),
    ("5", "compare --fail-if-slower cannot tell"),
];

/// The command line, ready to parse. The help of a command lists its own options and the few common ones that it needs.
pub fn command() -> Command {
    let mut command = Cli::command();
    // Hands the common options down to every command: only then can they be hidden there.
    command.build();
    let command = command
        .mut_args(one_page)
        .override_usage("trainmon [PID] [OPTIONS]\n       trainmon COMMAND …\n       trainmon [run --] PROGRAM …");
    let command = HELP.iter().fold(command, |command, help| {
        if command.find_subcommand(help.name).is_none() {
            return command;
        }
        command.mut_subcommand(help.name, |sub| {
            let is_common = |arg: &Arg| arg.is_global_set() && !help.common.contains(&arg.get_id().as_str());
            sub.mut_args(|arg| if is_common(&arg) { arg.hide(true) } else { one_page(arg) })
                .after_help(format!("{}\n\nCommon options: trainmon --help", examples(help.examples)))
        })
    });
    let own = HELP.first().map(|help| examples(help.examples)).unwrap_or_default();
    let statuses: Vec<String> =
        EXIT_STATUS.iter().map(|(status, meaning)| format!("  {status}  {meaning}")).collect();
    command.after_help(format!(
        "{own}\n\nExit status:\n{}\n\nMore: trainmon help COMMAND, trainmon man",
        statuses.join("\n")
    ))
}

/// `-h` and `--help` print the same page, a line or two per option; the manual has the long texts.
fn one_page(arg: Arg) -> Arg {
    if arg.get_id() == "help" {
        arg.action(ArgAction::HelpShort).help("Print help").long_help("Print help.")
    } else {
        arg
    }
}

fn examples(examples: &[(&str, &str)]) -> String {
    let width = examples.iter().map(|(arguments, _)| arguments.len()).max().unwrap_or(0);
    let lines = examples.iter().map(|(arguments, what)| format!("  trainmon {arguments:width$}  {what}"));
    let lines: Vec<String> = lines.map(|line| line.trim_end().to_owned()).collect();
    format!("Examples:\n{}", lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::left_out;

    #[test]
    fn every_command_has_examples_that_can_be_typed() {
        let names: Vec<&str> = HELP.iter().map(|help| help.name).collect();
        for sub in Cli::command().get_subcommands() {
            assert!(names.contains(&sub.get_name()), "{}", sub.get_name());
        }
        for help in HELP.iter().filter(|help| left_out::why(help.name).is_none()) {
            assert!(help.examples.len() >= 2, "{}", help.name);
            for (arguments, _) in help.examples {
                let words = arguments.split(" >").next().unwrap_or_default().split(' ');
                let typed = std::iter::once("trainmon").chain(words.filter(|word| !word.is_empty()));
                let parsed = command().try_get_matches_from(typed);
                assert!(parsed.is_ok(), "trainmon {arguments}: {}", parsed.unwrap_err());
            }
        }
    }

    #[test]
    fn the_help_of_a_command_is_short_and_fits() {
        for sub in command().get_subcommands_mut() {
            let text = sub.render_help().to_string();
            let lines: Vec<&str> = text.lines().collect();
            assert!(lines.len() <= 45, "{text}");
            assert!(lines.iter().all(|line| line.chars().count() <= 100), "{text}");
            assert!(text.contains("Examples:\n") && text.contains("Common options: trainmon --help"), "{text}");
        }
    }
}
