//! A call that the parser refuses: the call that was meant, if it is as harmless, or one line that says what to type.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use clap::CommandFactory;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use super::help::HELP;
use super::{Cli, guesses, left_out};
use crate::config::parse_pid;
use trainmon_base::errors::printable;
use trainmon_base::text::{fit, nearest, secrets, shell_word};

/// Longest word of the user's that a line repeats, cells.
const SHOWN: usize = 40;

/// Programs that start a training, for a word that is spelled much like one.
const LAUNCHERS: [&str; 8] = ["python", "python3", "torchrun", "accelerate", "deepspeed", "mpirun", "bash", "uv"];

/// What becomes of a refused call.
#[derive(Debug, PartialEq, Eq)]
pub enum CallOutcome {
    /// Another call is meant, which is made instead.
    Meant {
        /// Its arguments, the program's own name first.
        arguments: Vec<OsString>,
        /// What to tell the user about it.
        note: Option<String>,
    },
    /// One line for standard error.
    Line(String),
}

/// What becomes of a call that was refused with this error. `is_program` says whether a word names a program that can be
/// started.
pub fn refused(error: &clap::Error, arguments: &[OsString], is_program: impl Fn(&OsStr) -> bool) -> CallOutcome {
    let is_program = |word: &OsStr| is_program(word) || LAUNCHERS.iter().any(|launcher| word == *launcher);
    let call = RefusedCall { command: super::help::command(), arguments };
    let further = || call.of_file().or_else(|| call.of_pids()).map(CallOutcome::Line);
    let guess = match error.kind() {
        // `trainmon python train.py --help`: the parser takes the option for its own.
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => call.of_word(&is_program),
        ErrorKind::InvalidSubcommand | ErrorKind::InvalidValue | ErrorKind::ValueValidation => {
            call.of_word(&is_program).or_else(further)
        }
        ErrorKind::UnknownArgument => call.of_word(&is_program).or_else(|| match invalid(error)? {
            option if option.starts_with('-') => call.of_option(&option).map(CallOutcome::Line),
            word => call.of_further(&word).map(CallOutcome::Line).or_else(further),
        }),
        ErrorKind::ArgumentConflict if invalid(error).is_some_and(|name| name.contains("PID")) => further(),
        ErrorKind::MissingRequiredArgument => call.of_missing(error).map(CallOutcome::Line),
        _ => None,
    };
    match guess {
        Some(CallOutcome::Line(line)) => CallOutcome::Line(printable(&format!("trainmon: {line}"))),
        Some(meant) => meant,
        None => CallOutcome::Line(call.as_parsed(error)),
    }
}

/// Whether the shell would start this word: a path of an executable file, or a name of one on `PATH`.
pub fn is_program(word: &OsStr) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let places: Vec<PathBuf> = if word.as_encoded_bytes().contains(&b'/') {
        vec![word.into()]
    } else {
        std::env::split_paths(&path).map(|folder| folder.join(word)).collect()
    };
    places.iter().any(|place| place.is_file() && rustix::fs::access(place, rustix::fs::Access::EXEC_OK).is_ok())
}

/// A word that is neither a command nor the value of an option, among the arguments of a call.
struct UnknownWord<'a> {
    before: &'a [OsString],
    /// From the word on.
    typed: &'a [OsString],
    text: String,
}

/// A call that the parser refused.
struct RefusedCall<'a> {
    command: clap::Command,
    /// The program's own name first.
    arguments: &'a [OsString],
}

impl RefusedCall<'_> {
    /// The first word, if it is no command.
    fn word(&self) -> Option<UnknownWord<'_>> {
        // What follows `--` is no option of trainmon's.
        let dashes = self.arguments.iter().position(|word| word == "--").unwrap_or(self.arguments.len());
        let (ours, after) = self.arguments.split_at_checked(dashes)?;
        let pid = |arg: clap::Arg| arg.long("a-name-for-the-pid");
        let any = Cli::command().mut_arg("target", pid).allow_external_subcommands(true);
        let matches = any.try_get_matches_from(ours).ok()?;
        let (before, typed) = match matches.subcommand() {
            Some((word, _)) if self.command.find_subcommand(word).is_some() => return None,
            // An unknown command takes all that follows.
            Some((_, rest)) => {
                let rest = rest.get_many::<OsString>("").map_or(0, Iterator::count);
                self.arguments.split_at_checked(ours.len().checked_sub(rest + 1)?)?
            }
            None => (ours, after.get(1..)?),
        };
        Some(UnknownWord { before, typed, text: typed.first()?.to_string_lossy().into_owned() })
    }

    /// The command that was named.
    fn sub(&self) -> Option<&clap::Command> {
        let mut words =
            self.arguments.iter().skip(1).take_while(|word| *word != "--").filter_map(|word| word.to_str());
        words.find_map(|word| self.command.find_subcommand(word))
    }

    /// The PIDs in it: values of `--pid`, then numbers that are not the value of an option.
    fn pids(&self) -> Vec<&str> {
        let words: Vec<&str> = self.arguments.iter().filter_map(|word| word.to_str()).collect();
        let takes_value = |option: &str| {
            let is = |arg: &&clap::Arg| match option.strip_prefix("--") {
                Some(long) => arg.get_long() == Some(long),
                None => arg.get_short().is_some_and(|short| option == format!("-{short}")),
            };
            let scopes = [Some(&self.command), self.sub()];
            let known = scopes.into_iter().flatten().flat_map(clap::Command::get_arguments).find(is);
            known.is_some_and(|arg| arg.get_action().takes_values())
        };
        let (mut named, mut bare) = (Vec::new(), Vec::new());
        for (before, word) in words.iter().zip(words.iter().skip(1)) {
            match word.strip_prefix("--pid=") {
                Some(pid) => named.push(pid),
                None if matches!(*before, "-p" | "--pid") => named.push(*word),
                None if !takes_value(before) => bare.push(*word),
                None => {}
            }
        }
        named.append(&mut bare);
        named.retain(|word| parse_pid(word).is_ok());
        named
    }

    /// A text of [`guesses`] with what was typed in its place.
    fn filled(&self, text: &str) -> String {
        let pids = self.pids();
        let csv = self.arguments.iter().filter_map(|word| word.to_str()).find(|word| word.ends_with(".csv"));
        let csv = csv.map_or("run.csv".to_owned(), |path| shell_word(Path::new(path)));
        text.replace("PID", pids.first().unwrap_or(&"PID")).replace("run.csv", &csv)
    }

    /// What the first word may mean that is no command.
    fn of_word(&self, is_program: &impl Fn(&OsStr) -> bool) -> Option<CallOutcome> {
        let word = self.word()?;
        let (name, rest) = word.typed.split_first()?;
        let instead = |words: &[&str], rest: &[OsString], note| {
            let words: Vec<OsString> = words.iter().map(OsString::from).collect();
            Some(CallOutcome::Meant { arguments: [word.before, &words, rest].concat(), note })
        };
        if word.text.parse::<i64>().is_ok() {
            return None;
        }
        if guesses::is_screen(&word.text) {
            return instead(&[], rest, None);
        }
        if let Some(line) = left_out::why(&word.text).or_else(|| self.of_guess(&word.text, rest)) {
            return Some(CallOutcome::Line(line));
        }
        if word.text.ends_with(".tmz") {
            return instead(&["replay"], word.typed, None);
        }
        // A program that is spelled like a command except for one letter is rather a slip.
        let near = self.near(&word.text);
        let is_slip =
            near.is_some_and(|near| strsim::damerau_levenshtein(near, &word.text.to_ascii_lowercase()) == 1);
        if is_program(name) && !is_slip {
            let note = format!("same as: trainmon run -- {}", shown(word.typed));
            return instead(&["run", "--"], word.typed, Some(note));
        }
        Some(CallOutcome::Line(self.of_nothing(&word, is_program)))
    }

    /// The command that is spelled much like a word.
    fn near(&self, word: &str) -> Option<&str> {
        nearest(word, self.command.get_subcommands().map(clap::Command::get_name))
    }

    /// What users of other programs mean by a word, or a page of the screen.
    fn of_guess(&self, word: &str, rest: &[OsString]) -> Option<String> {
        let Some(guess) = guesses::of_word(word) else {
            let page = self.pages().find(|page| page.eq_ignore_ascii_case(word))?;
            let command = self.filled(&format!("trainmon PID --page {page}"));
            return Some(format!("`{page}` is not a command; to open this page: {command}"));
        };
        let tail = match (rest, guess.example.split_once(" -o ")) {
            _ if rest.is_empty() || guess.example.is_empty() => guess.example.to_owned(),
            (_, Some((_, output))) if !rest.iter().any(|word| word == "-o") => format!("{} -o {output}", shown(rest)),
            _ => shown(rest.strip_prefix(&[OsString::from("--")]).unwrap_or(rest)),
        };
        let command = self.filled(&format!("{} {tail}", guess.command));
        let line = format!("`{}` is not a command; {}: trainmon {command}", fit(word, SHOWN), guess.purpose);
        Some(left_out::why(guess.command).unwrap_or_else(|| line.trim_end().to_owned()))
    }

    /// A word that is neither a command nor a program.
    fn of_nothing(&self, word: &UnknownWord<'_>, is_program: &impl Fn(&OsStr) -> bool) -> String {
        let (text, all) = (fit(&word.text, SHOWN), shown(word.typed));
        let rest = shown(word.typed.get(1..).unwrap_or_default());
        let call = |first: &str| format!("{first} {rest}").trim_end().to_owned();
        if let Some(near) = self.near(&word.text) {
            return format!("no command is called `{text}`: did you mean trainmon {}?", call(near));
        }
        if word.text.split_once(' ').is_some_and(|(program, _)| is_program(OsStr::new(program))) {
            return format!("`{text}` is one word; without quotes: trainmon run -- {}", secrets::line(&word.text));
        }
        if let Some(instead) = kind_of_file(&word.text) {
            return format!("`{text}` is not a command; {}", instead.replace("FILE", &all));
        }
        match nearest(&word.text, LAUNCHERS) {
            Some(near) => format!("no program is called `{text}`: did you mean trainmon run -- {}?", call(near)),
            None => format!(
                "`{text}` is neither a command, a program nor a PID; trainmon alone lists the training processes \
                 (see trainmon --help)"
            ),
        }
    }

    /// The values of `--page`.
    fn pages(&self) -> impl Iterator<Item = String> {
        let page = self.command.get_arguments().find(|arg| arg.get_id() == "page");
        let values = page.map(clap::Arg::get_possible_values).unwrap_or_default();
        values.into_iter().map(|value| value.get_name().to_owned())
    }

    /// A recording in place of a PID, for a command that can judge recordings.
    fn of_file(&self) -> Option<String> {
        let sub = self.sub()?;
        sub.get_arguments().find(|arg| arg.get_long() == Some("replay"))?;
        let file = self.arguments.iter().find(|word| word.as_encoded_bytes().ends_with(b".tmz"))?;
        let name = shell_word(Path::new(file));
        Some(format!("`{}` is a recording: trainmon {} --replay {name}", fit(&name, SHOWN), sub.get_name()))
    }

    /// More than one PID.
    fn of_pids(&self) -> Option<String> {
        let pids = self.pids();
        let (first, others) = pids.split_first()?;
        if others.is_empty() {
            return None;
        }
        let sub = self.sub().map(|sub| format!("{} ", sub.get_name())).unwrap_or_default();
        let more = match sub.as_str() {
            "" => "; `o` on the screen attaches to more; for all jobs: trainmon watch --all",
            "watch " => "; for all jobs: trainmon watch --all",
            "export " => "; for all jobs: trainmon export",
            _ => "",
        };
        Some(format!("one PID at a time: trainmon {sub}{first}{more}"))
    }

    /// An option that this command does not have.
    fn of_option(&self, option: &str) -> Option<String> {
        let name = option.split('=').next().unwrap_or_default();
        let text = fit(name, SHOWN);
        if let Some(guess) = guesses::of_option(name) {
            return Some(format!("`{text}` is not an option; {}", self.filled(guess.instead)));
        }
        let (long, sub) = (name.strip_prefix("--")?, self.sub());
        if let (Some(command), None) = (self.command.find_subcommand(long), sub) {
            let rest: Vec<OsString> = self.arguments.iter().skip(1).filter(|word| *word != name).cloned().collect();
            let call = format!("{} {}", command.get_name(), shown(&rest));
            return Some(format!("`{long}` is a command: trainmon {}", call.trim_end()));
        }
        let has = |command: &&clap::Command| {
            command.get_arguments().any(|arg| !arg.is_global_set() && arg.get_long() == Some(long))
        };
        let others: Vec<&str> = self.command.get_subcommands().filter(has).map(clap::Command::get_name).collect();
        if let (Some(first), None) = (others.first(), sub) {
            let all = shown(self.arguments.get(1..)?);
            return Some(format!("`{text}` is an option of {}: trainmon {first} {all}", listed(&others)));
        }
        let scope = sub.unwrap_or(&self.command);
        if let Some(near) = nearest(long, scope.get_arguments().filter_map(clap::Arg::get_long)) {
            return Some(format!("unexpected argument `{text}`: did you mean --{near}? ({})", self.see_help()));
        }
        if others.is_empty() {
            return None;
        }
        Some(format!("`{text}` is an option of {} ({})", listed(&others), self.see_help()))
    }

    /// A word that is the value of an option: the file to write, a kind of bottleneck, a URL.
    fn of_further(&self, word: &str) -> Option<String> {
        let sub = self.sub()?;
        let takes = |arg: &&clap::Arg| {
            let is_value = arg.get_possible_values().iter().any(|value| value.get_name() == word);
            let is_file = arg.get_id() == "output" && word.contains('.');
            !arg.is_global_set() && (is_value || is_file || arg.get_id() == "prometheus" && word.contains("://"))
        };
        let option = sub.get_arguments().find(takes)?;
        let option = option
            .get_short()
            .map(|short| format!("-{short}"))
            .or_else(|| Some(format!("--{}", option.get_long()?)))?;
        let named = |typed: &OsString| {
            if typed == word { vec![option.clone().into(), typed.clone()] } else { vec![typed.clone()] }
        };
        let all: Vec<OsString> = self.arguments.iter().skip(1).flat_map(named).collect();
        Some(format!("unexpected argument `{}`: did you mean trainmon {}?", fit(word, SHOWN), shown(&all)))
    }

    /// An argument that the command needs.
    fn of_missing(&self, error: &clap::Error) -> Option<String> {
        let Some(ContextValue::Strings(missing)) = error.get(ContextKind::InvalidArg) else { return None };
        let help = HELP.iter().find(|help| Some(help.name) == self.sub().map(clap::Command::get_name))?;
        let (example, _) = help.examples.first()?;
        let is_output = |name: &String| name.starts_with("--output");
        let command = match example.split_once(" -o ") {
            // All but the file to write was typed.
            Some((_, output)) if missing.iter().all(is_output) => {
                format!("{} -o {output}", shown(self.arguments.get(1..)?))
            }
            _ => (*example).to_owned(),
        };
        let plain = |name: &String| {
            let word = if is_output(name) { "the file to write" } else { name.trim_end_matches("...") };
            word.trim_matches(['<', '>']).to_owned()
        };
        // The parser lists options first.
        let names: Vec<String> = missing.iter().rev().map(plain).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        Some(format!("missing {}, as in: trainmon {command} ({})", listed(&names), self.see_help()))
    }

    /// The parser's own text as one line; as the parser prints it, it takes five.
    fn as_parsed(&self, error: &clap::Error) -> String {
        let text = error.render().to_string();
        let is_end = |line: &str| line.starts_with("Usage:") || line.starts_with("For more information");
        // What the parser takes for similar often is not: an option is looked for here.
        let is_guess =
            |line: &str| line.contains("as a value, use '--") || line.contains("a similar argument exists");
        let lines = text.lines().map(str::trim).take_while(|line| !is_end(line));
        let lines = lines.filter(|line| !line.is_empty() && !is_guess(line));
        let parts: Vec<&str> = lines.map(|line| line.trim_start_matches("error: ")).collect();
        let mut line = parts.join(" ");
        for (theirs, ours) in [
            (" found", ""),
            ("the following required arguments were not provided:", "missing"),
            (" tip: a similar value exists:", "; did you mean"),
            (" tip: some similar values exist:", "; did you mean one of"),
        ] {
            line = line.replace(theirs, ours);
        }
        let mark = if line.contains("did you mean") && !line.ends_with('?') { "?" } else { "" };
        printable(&format!("trainmon: {line}{mark} ({})", self.see_help()))
    }

    /// Which help to read: that of the command, if one was named.
    fn see_help(&self) -> String {
        match self.sub() {
            Some(command) => format!("see trainmon {} --help", command.get_name()),
            None => "see trainmon --help".to_owned(),
        }
    }
}

/// Arguments as a command for a shell, without secrets.
fn shown(arguments: &[OsString]) -> String {
    let words: Vec<String> = arguments.iter().map(|word| shell_word(Path::new(word))).collect();
    secrets::line(&words.join(" ")).into_owned()
}

/// The argument that was refused.
fn invalid(error: &clap::Error) -> Option<String> {
    match error.get(ContextKind::InvalidArg).or_else(|| error.get(ContextKind::InvalidSubcommand)) {
        Some(ContextValue::String(name)) => Some(name.clone()),
        _ => None,
    }
}

/// What to do with a file of this name; `FILE` is what was typed from it on.
fn kind_of_file(word: &str) -> Option<&'static str> {
    [
        (".py", "to start it: trainmon run -- python FILE"),
        (".sh", "to start it: trainmon run -- bash FILE"),
        (".csv", "for a page about a log: trainmon report FILE -o run.html"),
        (".json", "for the verdict on a trace: trainmon diagnose FILE"),
        (".json.gz", "for the verdict on a trace: trainmon diagnose FILE"),
    ]
    .into_iter()
    .find_map(|(ending, instead)| word.ends_with(ending).then_some(instead))
}

/// Names as people list them: `a, b and c`.
fn listed(names: &[&str]) -> String {
    match names {
        [first @ .., last] if !first.is_empty() => format!("{} and {last}", first.join(", ")),
        _ => names.concat(),
    }
}
