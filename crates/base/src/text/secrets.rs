//! Masks secrets in text written by others: command lines above all, but also mount sources, file names and lines of
//! source code.
//!
//! A secret is recognized by the name before it (`--api-key`, `HF_TOKEN=`, `"password":`, `Authorization:`), by its
//! place in a URL (`user:pass@host`), by its shape (`ghp_…`, `AKIA…`, a JWT, a private key), or by the program that
//! takes it (`curl -u`). The name stays, the value becomes [`MASK`]. Doubtful cases are masked, except where training
//! programs use the same words for something else (`--max-tokens 512`, `--pad-token-id 0`, `--sort-key`).
//!
//! Every function takes time linear in its input, and masking masked text changes nothing. [`show`] switches masking
//! off for the whole process: text is masked in many places, on many threads, and forgetting one must leave it masked.

mod names;
mod programs;
mod scan;
#[cfg(test)]
mod tests;
mod tokens;

use std::borrow::Cow;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

use programs::Programs;
use scan::{is_name, run_end};

/// What a masked value becomes.
pub const MASK: &str = "***";

/// Set by `--show-secrets`.
static SECRETS_SHOWN: AtomicBool = AtomicBool::new(false);

/// From now on this process masks nothing.
pub fn show() {
    SECRETS_SHOWN.store(true, Ordering::Relaxed);
}

fn are_shown() -> bool {
    SECRETS_SHOWN.load(Ordering::Relaxed)
}

/// Arguments joined by blanks, with their secrets masked unless [`show`] was called.
pub fn joined(arguments: &[&str]) -> String {
    mask_arguments(arguments).join(" ")
}

/// A command line whose arguments are joined already, with its secrets masked unless [`show`] was called.
pub fn line(text: &str) -> Cow<'_, str> {
    mask(text, SecretKind::Command)
}

/// Any other text (a path, a mount source, source code), with its secrets masked unless [`show`] was called.
pub fn prose(text: &str) -> Cow<'_, str> {
    mask(text, SecretKind::Prose)
}

/// The kind of text to search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SecretKind {
    /// Commands: `NAME=value` and `--name value` need no quotes.
    Command,
    /// Anything else. In code `token = next(tokens)` is not a secret, so only quoted values count.
    Prose,
}

/// How many of the next arguments belong to an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Takes {
    One,
    All,
}

/// Masks the secrets in the arguments of a program; its name is the first of them.
fn mask_arguments<'t>(arguments: &[&'t str]) -> Vec<Cow<'t, str>> {
    let mut programs = Programs::default();
    let mut pending: Option<(&str, Takes)> = None;
    let mut before = "";
    let mut masked = Vec::with_capacity(arguments.len());
    for argument in arguments.iter().copied() {
        let of_program = programs.take(argument);
        let value_of = if !is_option(argument) { pending } else { None };
        let own = match value_of {
            Some((name, takes)) => {
                pending = if takes == Takes::All { value_of } else { None };
                (!names::is_harmless(name, argument)).then_some(0..argument.len())
            }
            None => {
                pending = takes(argument).map(|takes| (argument, takes));
                assigned(argument, is_script_option(before))
            }
        };
        let Range { start, end } = own.or(of_program).unwrap_or(0..0);
        masked.push(match (argument.get(..start), argument.get(end..)) {
            (Some(head), Some(tail)) if start < end && !are_shown() => Cow::Owned([head, MASK, tail].concat()),
            _ => mask(argument, SecretKind::Command),
        });
        before = argument;
    }
    masked
}

/// Whether an argument is an option rather than a value. A long text with digits after one dash is a value: tokens may
/// begin that way.
fn is_option(argument: &str) -> bool {
    let Some(name) = argument.strip_prefix('-') else { return false };
    let is_short = name.len() < 16 || name.starts_with('-') || !name.bytes().any(|b| b.is_ascii_digit());
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '-') && (is_short || name.contains('='))
}

/// Whether the argument is an option whose value, a secret, is the next argument.
fn takes(argument: &str) -> Option<Takes> {
    let is_name = argument.starts_with('-') && argument.bytes().all(is_name);
    let is_plural = || argument.ends_with(['s', 'S']) && !argument.to_ascii_lowercase().ends_with("pass");
    (is_name && names::is_secret(argument, false)).then(|| if is_plural() { Takes::All } else { Takes::One })
}

/// `-c`, `-lc`: the next argument is a script, in which a value ends at a blank.
fn is_script_option(argument: &str) -> bool {
    argument.starts_with('-') && argument.len() <= 4 && argument.ends_with('c')
}

/// The value of an argument that as a whole is `name=value` or `Name: value`, if it is a secret.
fn assigned(argument: &str, is_script: bool) -> Option<Range<usize>> {
    let end = run_end(argument, 0, is_name);
    let name = argument.get(..end)?;
    let start = match argument.get(end..)? {
        rest if rest.starts_with('=') => end + 1,
        rest if rest.starts_with(':') => scan::value_start(argument, 0..end, SecretKind::Command)?.0,
        _ => return None,
    };
    if is_script && !name.starts_with('-') {
        return None;
    }
    let value = argument.get(start..)?;
    let is_secret = !value.is_empty() && names::is_secret(name, false) && !names::is_harmless(name, value);
    let start = start + scan::scheme(value);
    (is_secret && start < argument.len()).then_some(start..argument.len())
}

/// Most passes over a text. What one rule masks may be the edge of what another one finds, so a text is masked until it
/// no longer changes: after the second pass, except for texts made to need more.
const PASSES: usize = 8;

/// Replaces everything that any rule recognizes as a secret.
fn mask(text: &str, kind: SecretKind) -> Cow<'_, str> {
    if are_shown() {
        return Cow::Borrowed(text);
    }
    let Some(mut masked) = masked_once(text, kind) else { return Cow::Borrowed(text) };
    for _ in 0..PASSES {
        match masked_once(&masked, kind) {
            Some(again) if again != masked => masked = again,
            _ => break,
        }
    }
    Cow::Owned(masked)
}

/// `None` if there is nothing to replace.
fn masked_once(text: &str, kind: SecretKind) -> Option<String> {
    let mut secrets: Vec<Range<usize>> = Vec::new();
    scan::assignments(text, kind, &mut secrets);
    scan::addresses(text, &mut secrets);
    tokens::find(text, &mut secrets);
    if kind == SecretKind::Command {
        programs::find(text, &mut secrets);
    }
    if secrets.is_empty() {
        return None;
    }
    secrets.sort_unstable_by_key(|range| (range.start, range.end));
    let mut masked = String::with_capacity(text.len());
    let mut done = None;
    for Range { start, end } in secrets {
        // Adjacent secrets become one.
        if done.is_none_or(|done| start > done) {
            masked.push_str(text.get(done.unwrap_or(0)..start).unwrap_or_default());
            masked.push_str(MASK);
        }
        done = done.max(Some(end));
    }
    masked.push_str(text.get(done.unwrap_or(0)..).unwrap_or_default());
    Some(masked)
}
