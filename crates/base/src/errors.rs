//! How the program ends: exit codes, and errors as one line that says what failed, why, and what to type.

use std::ffi::OsString;
use std::io;

/// The longest line on standard error, characters. The longest of our own, all keys of the configuration, has 450.
const ERROR_LINE_MAX: usize = 1000;
/// No option of ours is nearly as long, bytes.
const OPTION_MAX: usize = 64;

/// How the process ends: with one of these codes, which mean something to scripts, or with the status of the program that
/// `trainmon run` has started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExitCode(pub u8);

impl ExitCode {
    /// Done; the target's own end included.
    pub const DONE: Self = Self(0);
    /// Failed.
    pub const FAILED: Self = Self(1);
    /// Bad usage.
    pub const USAGE: Self = Self(2);
    /// No such process, or not allowed to see it.
    pub const NO_PROCESS: Self = Self(3);
    /// `diagnose --fail-on` matched, or `compare --fail-if-slower`.
    pub const FAIL_ON: Self = Self(4);
    /// `compare --fail-if-slower` cannot tell.
    pub const UNCLEAR: Self = Self(5);
}

/// An error that decides the exit code. Wrap it in context freely: [`exit_of`] finds it in the chain.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// The exit code.
    pub exit: ExitCode,
    /// One line.
    pub message: String,
}

impl Failure {
    /// Failed (1).
    pub fn failed(message: impl Into<String>) -> Self {
        Self { exit: ExitCode::FAILED, message: message.into() }
    }

    /// Bad usage (2).
    pub fn usage(message: impl Into<String>) -> Self {
        Self { exit: ExitCode::USAGE, message: message.into() }
    }

    /// No such process, or not allowed to see it (3).
    pub fn no_process(message: impl Into<String>) -> Self {
        Self { exit: ExitCode::NO_PROCESS, message: message.into() }
    }
}

/// The exit code of an error. A closed pipe is success: its reader has seen enough.
pub fn exit_of(error: &anyhow::Error) -> ExitCode {
    for cause in error.chain() {
        if cause.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe) {
            return ExitCode::DONE;
        }
        if let Some(failure) = cause.downcast_ref::<Failure>() {
            return failure.exit;
        }
    }
    ExitCode::FAILED
}

/// The error as one line, its whole chain joined, safe to print.
pub fn one_line(error: &anyhow::Error) -> String {
    printable(&format!("trainmon: {}", sentence(error)))
}

/// The whole chain of an error joined, without the numbers of the system's errors.
pub fn sentence(error: &anyhow::Error) -> String {
    let mut parts: Vec<String> = Vec::new();
    for text in error.chain().map(ToString::to_string) {
        // Errors that already name their cause in their own text would say it twice.
        if !parts.last().is_some_and(|last| last.ends_with(&text)) {
            parts.push(text);
        }
    }
    without_numbers(parts.join(": "))
}

/// A line for standard error, whatever foreign text is in it: nothing in it steers a terminal, and it has at most
/// [`ERROR_LINE_MAX`] characters; of a longer one the middle is left out.
pub fn printable(line: &str) -> String {
    shorten(&crate::text::sanitize(&without_numbers(line.to_owned())), ERROR_LINE_MAX)
}

/// Takes the numbers out that the standard library adds to the system's errors, and lets what it says after a colon begin in
/// lower case: "x.csv: No such file or directory (os error 2)" is "x.csv: no such file or directory".
fn without_numbers(mut line: String) -> String {
    const MARK: &str = " (os error ";
    while let Some(at) = line.find(MARK) {
        let digits = at + MARK.len();
        let end = line.get(digits..).and_then(|rest| rest.find(')')).map_or(line.len(), |end| digits + end + 1);
        line.replace_range(at..end, "");
        let begin = line.get(..at).and_then(|before| before.rfind(": ")).map_or(at, |colon| colon + 2);
        if let Some(first) = line.get_mut(begin..(begin + 1).min(at)) {
            first.make_ascii_lowercase();
        }
    }
    line
}

/// Cuts the middle out of a text that has more characters than this. An error begins with what is wrong and ends with what
/// fixes it.
pub fn shorten(text: &str, most: usize) -> String {
    let count = text.chars().count();
    if count <= most {
        return text.to_owned();
    }
    let end = most / 3;
    let begin = most.saturating_sub(end + 3);
    let head = text.chars().take(begin);
    head.chain(" … ".chars()).chain(text.chars().skip(count - end)).collect()
}

/// The system's error without the number that the standard library adds to it.
pub fn without_number(error: &io::Error) -> String {
    let mut text = error.to_string();
    text.truncate(text.find(" (os error").unwrap_or(text.len()));
    text
}

/// Writes one line to standard error that is no failure. Nothing happens if standard error is closed or full.
pub fn note(text: &str) {
    crate::streams::tell(&printable(&format!("trainmon: {text}")));
}

/// The usage error for an option that is far longer than any of ours. The argument parser compares it with all others, to
/// suggest one, which takes seconds for the longest that the kernel passes on (128 KiB).
pub fn overlong_option(arguments: &[OsString]) -> Option<String> {
    // What follows `--`, or the first word after `run`, are the arguments of another program.
    let is_other =
        |pair: &[OsString]| matches!(pair, [run, name] if run == "run" && !name.to_string_lossy().starts_with('-'));
    let end = arguments.windows(2).position(is_other).unwrap_or(arguments.len());
    let ours = arguments.iter().take(end).take_while(|argument| *argument != "--");
    let name = |argument: &OsString| argument.to_string_lossy().split('=').next().unwrap_or_default().to_owned();
    let found = ours.map(name).find(|name| name.starts_with("--") && name.len() > OPTION_MAX)?;
    Some(printable(&format!("trainmon: unexpected argument '{}' (see trainmon --help)", shorten(&found, OPTION_MAX))))
}

/// Reports an error on standard error (nothing for a closed pipe) and gives its exit code.
pub fn report(error: &anyhow::Error) -> ExitCode {
    let exit = exit_of(error);
    if exit != ExitCode::DONE {
        crate::streams::tell(&one_line(error));
    }
    exit
}

#[cfg(test)]
mod tests {
    use anyhow::Context;

    use super::*;

    #[test]
    fn a_closed_pipe_is_success() {
        let error = anyhow::Error::from(io::Error::from(io::ErrorKind::BrokenPipe)).context("writing the log");
        assert_eq!(exit_of(&error), ExitCode::DONE);
    }

    #[test]
    fn failures_keep_their_code_under_context() {
        let error = Err::<(), _>(Failure::no_process("no process 7")).context("attaching").unwrap_err();
        assert_eq!(exit_of(&error), ExitCode::NO_PROCESS);
        assert_eq!(one_line(&error), "trainmon: attaching: no process 7");
    }

    #[test]
    fn a_systems_error_is_told_without_its_number() {
        assert_eq!(without_number(&io::Error::from_raw_os_error(13)), "Permission denied");
        assert_eq!(without_number(&io::Error::other("not a file")), "not a file");
    }

    #[test]
    fn numbers_of_the_systems_errors_are_left_out() {
        let text = "log x: No such file or directory (os error 2); layout: Permission denied (os error 13), y";
        let said = "log x: no such file or directory; layout: permission denied, y";
        assert_eq!(printable(text), said);
        let error = anyhow::Error::from(io::Error::from_raw_os_error(2)).context("cannot start x");
        assert_eq!(one_line(&error), "trainmon: cannot start x: no such file or directory");
        assert_eq!(printable("a (os error 2"), "a");
        assert_eq!(printable("é: ü (os error 7)"), "é: ü");
    }

    #[test]
    fn one_line_stays_one_line() {
        let error = anyhow::anyhow!("bad\nname \u{1b}[31m");
        assert_eq!(one_line(&error).lines().count(), 1);
        assert!(!one_line(&error).contains('\u{1b}'));
    }

    #[test]
    fn only_options_of_our_own_may_be_overlong() {
        let found = |arguments: &[&str]| overlong_option(&arguments.iter().map(OsString::from).collect::<Vec<_>>());
        let long = format!("--{}", "k".repeat(100_000));
        assert!(found(&["trainmon", "-n", "1", &long]).is_some_and(|line| line.len() < 200));
        assert_eq!(found(&["trainmon", "run", "--", "program", &long]), None);
        assert_eq!(found(&["trainmon", "run", "program", &long]), None);
        assert_eq!(found(&["trainmon", &format!("--log={}", "k".repeat(300))]), None);
    }

    #[test]
    fn a_line_has_a_bound_and_keeps_its_end() {
        let error = anyhow::anyhow!("unknown key `{}`; name another one", "é".repeat(900_000));
        let line = one_line(&error);
        assert_eq!(line.chars().count(), ERROR_LINE_MAX);
        assert!(line.starts_with("trainmon: unknown key `éé") && line.ends_with("éé`; name another one"), "{line}");
        assert_eq!(shorten("short", 5), "short");
        assert_eq!(shorten("too long for this", 9), "too … his");
    }
}
