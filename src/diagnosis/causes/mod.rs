//! Every cause that a verdict can name, in one table: what it means, how it is recognised, where the numbers and the
//! rule come from, how far it is confirmed, what it can be mistaken for, and what to do. The rules give the cause, this
//! gives the words; verdicts, `trainmon explain` and the read-me all read it.
//!
//! One file for each class. Values are never written here: a rule names its thresholds, whose values stand in
//! [`thresholds`](super::thresholds) only.

mod cpu;
mod data_loader;
mod gpu;
mod io;
mod signals;
mod states;
#[cfg(test)]
mod tests;

use serde::Serialize;

use super::thresholds::Threshold;
use super::verdict::Class;

/// How far a rule has been held against programs of which the truth is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Confirmed {
    /// Real training programs with a known bottleneck (`tests/workloads`), whose truth does not rest on a device.
    LabelledWorkloads,
    /// The same, but the device that the rule rests on is simulated: no real GPU was at hand.
    FakeDeviceOnly,
    /// Series of numbers written by hand (`tests/diagnosis`).
    DataFilesOnly,
    /// Nothing yet.
    Unconfirmed,
}

impl Confirmed {
    /// For a person.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::LabelledWorkloads => "confirmed on labelled real training programs",
            Self::FakeDeviceOnly => "confirmed with a simulated GPU only",
            Self::DataFilesOnly => "checked against hand-made data only",
            Self::Unconfirmed => "not confirmed yet",
        }
    }
}

/// Everything about one cause. Texts end without a full stop.
#[derive(Debug, Clone, Copy)]
pub struct Cause {
    /// Class it belongs to.
    pub class: Class,
    /// The string of verdicts and logs; of a state without a cause (idle, balanced, unknown) the phase or the class.
    pub name: &'static str,
    /// A few words, for a headline: "DATA-LOADER: <headline>".
    pub headline: &'static str,
    /// What it means, for a sentence: "… because <meaning>".
    pub meaning: &'static str,
    /// What has to be the case, in the order in which it is looked at. Names of thresholds stand in backticks.
    pub rule: &'static [&'static str],
    /// The thresholds that the rule names, in that order.
    pub thresholds: &'static [&'static Threshold],
    /// Where the numbers come from.
    pub signals: &'static [&'static str],
    /// Why the rule is as it is: documentation, measurements.
    pub source: &'static str,
    /// How far it is confirmed.
    pub confirmed: Confirmed,
    /// What it can be mistaken for, and when.
    pub limits: &'static str,
    /// What to do, first thing first: (title, why).
    pub advice: &'static [(&'static str, &'static str)],
}

/// All causes, in the order of the classes.
pub fn all() -> impl Iterator<Item = &'static Cause> {
    [data_loader::CAUSES, io::CAUSES, cpu::CAUSES, gpu::CAUSES].into_iter().flatten()
}

/// What a verdict can say without naming a cause: nothing costs much, no training now, too little seen.
pub fn states() -> impl Iterator<Item = &'static Cause> {
    states::STATES.iter()
}

/// What holds the loop back in a class, for a sentence.
#[must_use]
pub fn class_meaning(class: Class) -> &'static str {
    match class {
        Class::DataLoader => "batches are not made fast enough",
        Class::Io => "the data does not arrive, or state is not saved, fast enough",
        Class::Cpu => "the host is the limit",
        Class::Gpu => "the device is the limit",
        Class::Balanced => "nothing costs more than a few percent",
        Class::Idle => "not training now; `phase` says which",
        Class::Unknown => "not a training process, or too little could be seen",
    }
}

/// The words of a cause.
#[must_use]
pub fn find(class: Class, name: &str) -> Option<&'static Cause> {
    all().find(|cause| cause.class == class && cause.name == name).or_else(|| all().find(|cause| cause.name == name))
}

/// What a person asks for: `cause`, `class/cause` (a cause may be of two classes) or `class`, which gives all of it.
/// Case, blanks and underscores for dashes do not matter. Empty where there is no such thing.
#[must_use]
pub fn named(text: &str) -> Vec<&'static Cause> {
    let text = text.trim().to_lowercase().replace(['_', ' '], "-");
    let everything = || all().chain(states());
    if let Some((class, name)) = text.split_once('/') {
        return everything().filter(|cause| cause.class.word() == class && cause.name == name).collect();
    }
    let of_class: Vec<_> = everything().filter(|cause| cause.class.word() == text).collect();
    if of_class.is_empty() { everything().filter(|cause| cause.name == text).collect() } else { of_class }
}

/// Names and classes that look like `text`, the likest first, at most four.
#[must_use]
pub fn near(text: &str) -> Vec<&'static str> {
    let text: Vec<char> = text.trim().to_lowercase().replace(['_', ' '], "-").chars().take(64).collect();
    let spelled: String = text.iter().collect();
    let name = spelled.rsplit('/').next().unwrap_or_default();
    let mut found: Vec<(usize, &'static str)> = Class::ALL
        .iter()
        .map(|class| class.word())
        .chain(all().chain(states()).map(|cause| cause.name))
        .filter_map(|known| {
            let part = name.len() >= 3 && (known.contains(name) || name.contains(known));
            let apart = distance(name, known);
            (part || apart <= known.len() / 3).then_some((if part { apart.min(2) } else { apart }, known))
        })
        .collect();
    found.sort_unstable();
    found.dedup_by_key(|(_, known)| *known);
    found.truncate(4);
    found.into_iter().map(|(_, known)| known).collect()
}

/// Letters to insert, drop or replace between two words (Levenshtein).
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (at, letter) in one.chars().enumerate() {
        let mut left = at + 1;
        let mut next = vec![left];
        for ((above, diagonal), wanted) in row.iter().skip(1).zip(&row).zip(&other) {
            left = (left + 1).min(above + 1).min(diagonal + usize::from(letter != *wanted));
            next.push(left);
        }
        row = next;
    }
    row.last().copied().unwrap_or_default()
}
