//! What users of other programs type: words in place of a command, options that have another name here, and what does it
//! here.

use trainmon_base::text::is_one_of;

/// Words that mean the screen alone: `trainmon attach 1234` is `trainmon 1234`.
const SCREEN: &str = "attach top monitor view show live open tui ui screen";

/// A word that is no command, and the command that does it.
#[derive(Debug)]
pub(super) struct WordGuess {
    words: &'static str,
    /// What the command is for: "to …".
    pub purpose: &'static str,
    /// The arguments after `trainmon`; `PID` is the PID that was typed.
    pub command: &'static str,
    /// What follows where nothing else was typed. Empty where what was typed is of no use to the command.
    pub example: &'static str,
}

/// An option that is not one of trainmon's, and what does it.
#[derive(Debug)]
pub(super) struct OptionGuess {
    options: &'static str,
    /// What to do instead. `PID` is the PID that was typed, `run.csv` the file.
    pub instead: &'static str,
}

/// Words, purpose, command, example.
const fn word([words, purpose, command, example]: [&'static str; 4]) -> WordGuess {
    WordGuess { words, purpose, command, example }
}

const fn option([options, instead]: [&'static str; 2]) -> OptionGuess {
    OptionGuess { options, instead }
}

const WORDS: &[WordGuess] = &[
    word(["list ls ps jobs processes procs pids candidates find", "to list training processes and pick one", "", ""]),
    word([
        "why verdict check analyze analyse inspect summary status stat stats info bottleneck advise advice",
        "to print what holds a job back",
        "diagnose",
        "PID",
    ]),
    word(["dump stack flame flamegraph functions", "to see the hottest functions", "PID --page stacks", ""]),
    word(["dmon pmon nvidia", "to see the GPUs", "PID --page gpu", ""]),
    word(["log csv", "to write one CSV row a second", "PID --log run.csv", ""]),
    word(["save capture rec", "to save every sample", "record", "PID -o run.tmz"]),
    word(["play load", "to open a recording", "replay", "run.tmz"]),
    word(["html markdown", "to write a page about a recording", "report", "run.tmz -o run.html"]),
    word(["diff vs", "to compare two runs", "compare", "before.tmz after.tmz"]),
    word(["perfetto chrome timeline", "to write a trace for Perfetto", "trace", "run.tmz -o run.pftrace"]),
    word(["convert", "to read what other tools recorded", "import", "trace.json -o run.tmz"]),
    word(["serve server prometheus metrics exporter", "to serve metrics to Prometheus", "export", ""]),
    word(["follow tail alert alerts notify daemon", "to get a line when something changes", "watch", "PID"]),
    word(["cluster ranks nodes slurm", "to see runs on many machines", "fleet", "--prometheus URL"]),
    word(["agent agents", "to serve agents", "mcp", ""]),
    word(["start exec execute launch spawn train", "to start a program and watch it", "run --", "python train.py"]),
    word(["test selftest permissions access", "to check what can be read here", "doctor", ""]),
    word(["example try simulate", "to try it on a simulated job", "demo", ""]),
    word(["causes glossary define what", "to read about a cause", "explain", "too-few-workers"]),
    word(["config configuration settings", "to print the settings", "--print-config", ""]),
    word(["version", "to print the version", "--version", ""]),
    word(["docs doc manual usage", "to read the manual", "man", ""]),
    word([
        "kill stop pkill killall terminate signal nice renice",
        "to send signals from the screen",
        "PID --signals --page processes",
        "",
    ]),
];

const OPTIONS: &[OptionGuess] = &[
    option([
        "--headless --no-tui --no-ui --no-gui --nogui --no-screen --batch --batch-mode --quiet --silent --background \
         --daemon --plain --stdout -b -q",
        "for a log without a screen: trainmon PID --log run.csv; for one verdict: trainmon diagnose PID",
    ]),
    option([
        "--csv --output --out --outfile --output-file --save --write --log-csv --dump -o",
        "for a CSV file: trainmon PID --log run.csv; for a recording: trainmon record PID -o run.tmz",
    ]),
    option([
        "--once --oneshot --one-shot --snapshot --summary --verdict --why --analyze",
        "for one verdict: trainmon diagnose PID",
    ]),
    option(["--format", "for CSV: trainmon PID --log run.csv; for JSON: trainmon diagnose PID --json"]),
    option([
        "--delay --refresh --refresh-rate --update --rate --frequency --freq --every --period --poll --sample-rate --loop \
         --loop-ms --tick --sleep -l -lms -r",
        "for the time between samples: --interval 1s, or -i 1s",
    ]),
    option(["-d", "for the time between samples: --interval 1s, or -i 1s; for a limit of time: --duration 20s"]),
    option([
        "-t",
        "for a limit of time: --duration 20s; for the tree of processes, the key t of: trainmon PID --page processes",
    ]),
    option(["--time --timeout --seconds --secs --for --length -T", "for a limit of time: --duration 20s"]),
    option(["--count --samples", "for a limit of samples: --iterations 10, or -n 10"]),
    option(["--attach --process --proc", "to attach: trainmon PID"]),
    option([
        "--name --process-name --pgrep --match --filter --cmd --command",
        "trainmon without arguments lists the training processes; or: trainmon $(pgrep -o -f train.py)",
    ]),
    option(["--list --ps", "to list training processes and pick one: trainmon"]),
    option(["--device --devices --id --gpu-id --gpu-index", "for one GPU: --gpu 0"]),
    option([
        "--color --colors --colour --monochrome --mono --no-colors --no-colours --nocolor --bw -C",
        "colors are on where the terminal has them; for none: --no-color",
    ]),
    option(["--query-gpu --query -L -Q", "for the GPUs: trainmon PID --page gpu"]),
    option(["--dark", "for dark terminals: --theme dark"]),
    option(["--light", "for light terminals: --theme light"]),
    option([
        "--native --nonblocking --non-blocking --gil --idle --subprocesses --subprocess --children --follow --fork -f",
        "leave it out: trainmon follows child processes and never stops a job",
    ]),
    option(["--port --bind --address --serve --metrics", "for Prometheus: trainmon export --listen 127.0.0.1:9845"]),
    option([
        "--user --sort-key --sort-by --filter-user -u -a -s -F",
        "the page Processes filters (F4), sorts (F6) and shows trees (t): trainmon PID --page processes",
    ]),
    option([
        "--verbose --debug -v -vv",
        "for the version: -V; for trainmon's own messages: RUST_LOG=debug trainmon PID --log-file trainmon.log",
    ]),
    option(["--usage --help-all --man -? -H", "for the options: trainmon --help; for the manual: trainmon man"]),
];

/// Whether a word means the screen alone.
pub(super) fn is_screen(word: &str) -> bool {
    is_one_of(SCREEN, &word.to_ascii_lowercase())
}

/// What is known of a word in place of a command.
pub(super) fn of_word(word: &str) -> Option<&'static WordGuess> {
    WORDS.iter().find(|guess| is_one_of(guess.words, &word.to_ascii_lowercase()))
}

/// What is known of an option, without its value.
pub(super) fn of_option(option: &str) -> Option<&'static OptionGuess> {
    OPTIONS.iter().find(|guess| is_one_of(guess.options, option))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::CommandFactory;

    use super::*;
    use crate::cli::{Cli, left_out};

    #[test]
    fn every_guess_is_listed_once_and_is_not_one_of_trainmons_own() {
        let command = Cli::command();
        let own: Vec<&str> = command.get_subcommands().map(clap::Command::get_name).collect();
        let mut seen = BTreeSet::new();
        for word in WORDS.iter().flat_map(|guess| guess.words.split(' ')).chain(SCREEN.split(' ')) {
            assert!(seen.insert(word) && !own.contains(&word), "{word}");
        }
        let longs: Vec<String> =
            command.get_arguments().filter_map(|arg| Some(format!("--{}", arg.get_long()?))).collect();
        let shorts: Vec<String> =
            command.get_arguments().filter_map(|arg| Some(format!("-{}", arg.get_short()?))).collect();
        for option in OPTIONS.iter().flat_map(|guess| guess.options.split(' ')) {
            assert!(
                seen.insert(option) && !longs.contains(&option.into()) && !shorts.contains(&option.into()),
                "{option}"
            );
        }
    }

    #[test]
    fn the_command_of_every_guess_can_be_parsed() {
        for guess in WORDS.iter().filter(|guess| left_out::why(guess.command).is_none()) {
            let line = format!("trainmon {} {}", guess.command, guess.example).replace("PID", "1234");
            let parsed = crate::cli::help::command().try_get_matches_from(line.split_whitespace());
            let is_text = parsed.as_ref().is_err_and(|error| !error.use_stderr());
            assert!(parsed.is_ok() || is_text, "{line}: {}", parsed.unwrap_err());
        }
        let calls = OPTIONS.iter().flat_map(|guess| guess.instead.split("trainmon ").skip(1));
        for call in calls.filter(|call| !call.starts_with("without ") && !call.starts_with("follows ")) {
            if call.split(' ').next().and_then(left_out::why).is_some() {
                continue;
            }
            let call = call.split(';').next().unwrap_or_default().replace("$(pgrep -o -f train.py)", "PID");
            let call = call.replace("PID", "1234");
            let words = ["trainmon"].into_iter().chain(call.split_whitespace());
            let parsed = crate::cli::help::command().try_get_matches_from(words);
            assert!(parsed.is_ok() || call.starts_with("--help"), "{call}");
        }
    }
}
