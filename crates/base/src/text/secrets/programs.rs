//! Secrets recognized by the program that takes them: values of its short options, and the keys of Weights & Biases,
//! which are bare hexadecimal numbers.

use std::ops::Range;

use super::scan::run_end;

/// How an option is followed by its secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ProgramForm {
    /// `-p secret` or `-psecret`.
    Either,
    /// Only `-psecret`: without a value it prompts.
    Glued,
    /// Only in the next argument.
    Next,
    /// `user:secret` in the same or the next argument.
    User,
    /// Like [`ProgramForm::Next`], but only after the word `login`: otherwise it means something else.
    Login,
}

/// Programs, their options and how these are followed by a secret.
type ProgramRow = (&'static [&'static str], &'static [&'static str], ProgramForm);

/// From the manual pages; a program has one row.
const OPTIONS: &[ProgramRow] = &[
    (&["sshpass"], &["-p"], ProgramForm::Either),
    (&["mysql", "mysqldump", "mysqladmin", "mysqlimport", "mariadb", "mariadb-dump"], &["-p"], ProgramForm::Glued),
    (&["redis-cli"], &["-a"], ProgramForm::Next),
    (&["curl", "wget"], &["-u", "--user", "-U", "--proxy-user"], ProgramForm::User),
    (&["http", "https", "xh"], &["-a"], ProgramForm::User),
    (&["docker", "podman", "nerdctl", "skopeo", "helm", "az", "oc"], &["-p"], ProgramForm::Login),
    (&["mongo", "mongosh", "mongodump", "mongorestore"], &["-p"], ProgramForm::Next),
    (&["ldapsearch", "ldapadd", "ldapmodify"], &["-w"], ProgramForm::Next),
    (&["sqlcmd", "ipmitool", "zip", "unzip"], &["-P"], ProgramForm::Next),
    (&["7z", "7za", "7zr"], &["-p"], ProgramForm::Glued),
    (&["openssl"], &["-k", "-K"], ProgramForm::Next),
];

/// Lengths of the keys of Weights & Biases, hexadecimal digits.
const WANDB: [usize; 2] = [40, 86];

/// What was read of a command so far.
#[derive(Debug, Clone, Default)]
pub(super) struct Programs {
    /// The program's row of [`OPTIONS`].
    program: Option<&'static ProgramRow>,
    logs_in: bool,
    is_wandb: bool,
    /// The next word is the value of an option of this form.
    pending: Option<ProgramForm>,
}

impl Programs {
    /// Takes the next word of a command, and returns the part of it that is a secret.
    pub(super) fn take(&mut self, word: &str) -> Option<Range<usize>> {
        if let Some(form) = self.pending.take() {
            if form == ProgramForm::User {
                return of_user(word, 0);
            }
            // The rest may belong to another program (`sshpass -p secret ssh -p 22 host`).
            self.program = None;
            return (!word.is_empty()).then_some(0..word.len());
        }
        if !word.starts_with('-') {
            return self.take_name(word);
        }
        let (_, options, form) = self.program?;
        for option in *options {
            let Some(rest) = word.strip_prefix(option) else { continue };
            if *form == ProgramForm::Login && !self.logs_in {
                continue;
            }
            let is_long = option.starts_with("--");
            if rest.is_empty() {
                self.pending = (*form != ProgramForm::Glued).then_some(*form);
                return None;
            }
            match form {
                ProgramForm::Either | ProgramForm::Glued => {
                    self.program = None;
                    return Some(option.len()..word.len());
                }
                ProgramForm::User if !is_long || rest.starts_with('=') => return of_user(word, option.len()),
                _ => {}
            }
        }
        None
    }

    fn take_name(&mut self, word: &str) -> Option<Range<usize>> {
        let name = word.rsplit('/').next().unwrap_or(word);
        let program = OPTIONS.iter().find(|(programs, ..)| programs.contains(&name));
        if matches!(word, "|" | ";" | "&&" | "||" | "&") {
            *self = Self::default();
        } else if program.is_some() || name == "wandb" {
            *self = Self { program, is_wandb: name == "wandb", ..Self::default() };
        } else if word == "login" {
            self.logs_in = true;
        } else if self.is_wandb && self.logs_in {
            let is_key = WANDB.contains(&word.len()) && run_end(word, 0, |b| b.is_ascii_hexdigit()) == word.len();
            return is_key.then_some(0..word.len());
        }
        None
    }
}

/// The password in `user:password`.
fn of_user(word: &str, from: usize) -> Option<Range<usize>> {
    let colon = from + word.get(from..)?.find(':')?;
    (colon + 1 < word.len()).then_some(colon + 1..word.len())
}

/// Secrets of programs anywhere in a command line.
pub(super) fn find(text: &str, secrets: &mut Vec<Range<usize>>) {
    let mut programs = Programs::default();
    let is_parting = |b: u8| b.is_ascii_whitespace() || matches!(b, b'"' | b'\'');
    let mut at = 0;
    while at < text.len() {
        let start = run_end(text, at, is_parting);
        let end = run_end(text, start, |b| !is_parting(b));
        at = end;
        let Some(word) = text.get(start..end).filter(|word| !word.is_empty()) else { continue };
        secrets.extend(programs.take(word).map(|range| range.start + start..range.end + start));
    }
}
