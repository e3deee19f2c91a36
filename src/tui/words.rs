//! Plain words for the taxonomy's classes, causes and phases, as the banner and the strip show them.

use jiff::tz::TimeZone;

use super::format::UNMEASURED;
use crate::diagnosis::causes;
use crate::diagnosis::verdict::{Class, Verdict};

/// Arguments of a command that are shown where cells are few.
const SHORT_ARGUMENTS: usize = 256;

/// What a verdict says, in a few words.
#[must_use]
pub fn verdict_in_words(verdict: &Verdict) -> &'static str {
    causes::spec_of(verdict.class, verdict.cause, verdict.phase)
        .map_or_else(|| verdict.class.meaning(), |spec| spec.brief)
}

/// The letter of a class on the strip of past verdicts.
#[must_use]
pub fn letter(class: Class) -> char {
    match class {
        Class::DataLoader => 'D',
        Class::Io => 'I',
        Class::Cpu => 'C',
        Class::Gpu => 'G',
        Class::Balanced => 'B',
        Class::Idle => 'z',
        Class::Unknown => '?',
    }
}

/// A command line without the directories of its program and of its first Python file: where cells are few, the names
/// say more than the paths.
#[must_use]
pub fn short_command(command: &str) -> String {
    let mut script = false;
    let shown = command.split(' ').enumerate().map(|(place, argument)| {
        let is_script = !script && argument.ends_with(".py");
        script |= is_script;
        let long = (place == 0 || is_script) && argument.contains('/') && !argument.ends_with('/');
        if long { argument.rsplit('/').next().unwrap_or_default() } else { argument }
    });
    // 4 KiB of arguments are not put together again for a title of a hundred cells.
    let first: Vec<&str> = shown.take(SHORT_ARGUMENTS).collect();
    first.join(" ")
}

/// A wall clock time: `14:03:27`.
#[must_use]
pub fn clock(unix_ms: i64, zone: &TimeZone) -> String {
    let Ok(moment) = jiff::Timestamp::from_millisecond(unix_ms) else { return UNMEASURED.to_owned() };
    moment.to_zoned(zone.clone()).strftime("%H:%M:%S").to_string()
}

/// How sure a confidence is, in one word.
#[must_use]
pub fn sureness(confidence: f64) -> &'static str {
    if confidence >= 0.8 {
        "sure"
    } else if confidence >= 0.5 {
        "likely"
    } else {
        "unsure"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_class_has_its_own_letter() {
        let mut letters: Vec<char> = Class::ALL.into_iter().map(letter).collect();
        letters.sort_unstable();
        letters.dedup();
        assert_eq!(letters.len(), Class::ALL.len());
    }

    #[test]
    fn commands_lose_their_directories_only() {
        let short = short_command;
        assert_eq!(
            short("/usr/bin/python3 -u /home/a/train.py --data /data/b.py"),
            "python3 -u train.py --data /data/b.py"
        );
        assert_eq!(short("python train.py --lr 0.1"), "python train.py --lr 0.1");
        assert_eq!(short("pt_data_worker"), "pt_data_worker");
        assert_eq!(short("/ /x/"), "/ /x/");
        assert_eq!(short(""), "");
    }
}
