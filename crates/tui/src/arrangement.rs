//! How the screen is arranged: the options that a person changes on the screen and keeps for the next time.
//!
//! Each is one field of [`Layout`], with its help, default and check, for the command line and for files. Every field
//! is optional, so layers can be combined with [`Layout::or`].

use std::fmt;
use std::str::FromStr;

use clap::{ArgAction, Args, ValueEnum};
use serde::de::{Deserialize, Deserializer, Error};
use serde::{Serialize, Serializer};

use super::pages::Page;
use super::pages::processes::{COLUMNS, ProcessColumn, Sort};
use super::theme::Palette;
use trainmon_base::text::{fit, nearest};

/// How the screen is arranged.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args, Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct Layout {
    /// Color theme: auto, dark, light, high-contrast, or a theme file.
    ///
    /// auto fits the background if the terminal reports it. A relative path in a configuration file starts at that file's
    /// folder. crates/tui/assets/themes/dark.toml shows what a theme file can say.
    #[arg(long, value_name = "NAME", default_value = Palette::AUTO)]
    pub theme: Option<ThemeName>,
    /// Send less to the terminal: charts sweep, numbers change every 5 s.
    #[arg(long, action = ArgAction::SetTrue)]
    pub low_bandwidth: Option<bool>,
    /// Leave the mouse to the terminal, to select and copy text.
    #[arg(long = "no-mouse", action = ArgAction::SetFalse)]
    pub mouse: Option<bool>,
    /// Page to open first.
    #[arg(long, value_name = "NAME", default_value = "overview", ignore_case = true)]
    pub page: Option<Page>,
    /// Time span of the charts, 10s to 1h; auto starts at 15 s and grows to 1m.
    #[arg(long, value_name = "TIME", default_value = "auto", hide_possible_values = true)]
    pub time_scale: Option<Scale>,
    /// Sort the process table by this column; a minus in front reverses the order.
    #[arg(long, value_name = "[-]COLUMN", allow_hyphen_values = true, default_value = "role")]
    pub sort: Option<Sort>,
    /// Columns of the process table, from left to right; the command line is always last.
    #[arg(long, value_name = "COLUMN,…", value_delimiter = ',', hide_default_value = true,
        default_values = COLUMNS.map(|column| column.to_string()))]
    #[serde(deserialize_with = "distinct")]
    pub columns: Option<Vec<ProcessColumn>>,
    /// Show processes as a tree.
    #[arg(long, action = ArgAction::SetTrue)]
    pub tree: Option<bool>,
    /// Show the threads of each process.
    #[arg(long, action = ArgAction::SetTrue)]
    pub threads: Option<bool>,
}

impl Layout {
    /// These values, and the values of `below` for those that are not set.
    pub fn or(&self, below: &Self) -> Self {
        let mut values = below.table();
        values.extend(self.table());
        Self::from_table(values)
    }

    /// Only the values that differ from `before`: the changes since then.
    pub fn changed_since(&self, before: &Self) -> Self {
        let (mut values, before) = (self.table(), before.table());
        values.retain(|key, value| before.get(key) != Some(value));
        Self::from_table(values)
    }

    /// The values that are set, by their keys.
    pub fn table(&self) -> toml::Table {
        // Words, lists of words and switches: writing them and reading them back cannot fail.
        toml::Table::try_from(self).unwrap_or_default()
    }

    fn from_table(values: toml::Table) -> Self {
        values.try_into().unwrap_or_default()
    }
}

/// Why a word was refused.
fn none_of(word: &str, known: impl IntoIterator<Item = impl fmt::Display>) -> String {
    let known: Vec<String> = known.into_iter().map(|known| known.to_string()).collect();
    let word = fit(word, 40);
    let meant = nearest(&word, known.iter().map(String::as_str));
    let hint = meant.map_or_else(String::new, |meant| format!(": did you mean {meant}?"));
    format!("`{word}` is not one of {}{hint}", known.join(", "))
}

/// Refuses an empty list, or a list that has a word twice.
pub fn check_distinct<T: PartialEq + fmt::Display>(values: &[T]) -> Result<(), String> {
    let twice = values.iter().enumerate().find(|(place, value)| values.iter().take(*place).any(|v| v == *value));
    match twice {
        Some((_, twice)) => Err(format!("`{twice}` is listed twice")),
        None if values.is_empty() => Err("at least one is required".to_owned()),
        None => Ok(()),
    }
}

fn distinct<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Vec<ProcessColumn>>, D::Error> {
    let values = Vec::deserialize(from)?;
    check_distinct(&values).map_err(D::Error::custom)?;
    Ok(Some(values))
}

/// Values that are written as their word in files.
macro_rules! written_as_word {
    ($($type:ty),+) => {$(
        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                to.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                String::deserialize(from)?.parse().map_err(D::Error::custom)
            }
        }
    )+};
}

written_as_word!(Page, ProcessColumn, Sort, Scale, ThemeName);

/// Values that are words from a list, in any case if `ignore_case` is set.
macro_rules! one_of_many {
    ($($type:ty, ignore_case: $ignore_case:literal;)+) => {$(
        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.to_possible_value().as_ref().map_or("", |value| value.get_name()))
            }
        }

        impl FromStr for $type {
            type Err = String;

            fn from_str(word: &str) -> Result<Self, String> {
                ValueEnum::from_str(word, $ignore_case).map_err(|_| none_of(word, Self::value_variants()))
            }
        }
    )+};
}

one_of_many!(Page, ignore_case: true; ProcessColumn, ignore_case: false; Scale, ignore_case: false;);

impl fmt::Display for Sort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", if self.reversed { "-" } else { "" }, self.column)
    }
}

impl FromStr for Sort {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        let (reversed, column) = word.strip_prefix('-').map_or((false, word), |column| (true, column));
        Ok(Self { column: column.parse()?, reversed })
    }
}

/// Time span of the charts, seconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
#[allow(missing_docs, reason = "the values are the words")]
pub enum Scale {
    /// As much as has been recorded, within bounds.
    #[default]
    Auto = 0,
    #[value(name = "10s")]
    Seconds10 = 10,
    #[value(name = "30s")]
    Seconds30 = 30,
    #[value(name = "1m")]
    Minutes1 = 60,
    #[value(name = "2m")]
    Minutes2 = 120,
    #[value(name = "5m")]
    Minutes5 = 300,
    #[value(name = "10m")]
    Minutes10 = 600,
    #[value(name = "30m")]
    Minutes30 = 1800,
    #[value(name = "1h")]
    Hours1 = 3600,
}

impl Scale {
    /// Seconds, if they do not depend on how much has been recorded.
    pub fn seconds(self) -> Option<f64> {
        (self != Self::Auto).then_some(f64::from(self as u16))
    }

    /// The next longer or shorter span than so many seconds; `None` beyond the ends.
    pub(crate) fn next(longer: bool, span_s: f64) -> Option<Self> {
        let mut scales = Self::value_variants().iter().copied();
        if longer {
            scales.find(|scale| scale.seconds().is_some_and(|s| s > span_s))
        } else {
            scales.rfind(|scale| scale.seconds().is_some_and(|s| s < span_s))
        }
    }
}

/// The name of a theme, or the path of its file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThemeName(String);

impl ThemeName {
    /// Longest name or path, bytes.
    const MAX: usize = 4096;

    /// As written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it names a file.
    pub fn is_path(&self) -> bool {
        self.0.contains('/') || self.0.ends_with(".toml")
    }

    /// A name from a list of themes.
    pub(crate) fn known(name: &str) -> Self {
        Self(name.to_owned())
    }
}

impl fmt::Display for ThemeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for ThemeName {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        let name = Self(word.to_owned());
        if word.len() > Self::MAX || word.chars().any(char::is_control) {
            return Err("that is not a theme path".to_owned());
        }
        if name.is_path() || word == Palette::AUTO || Palette::built_in(word).is_some() {
            return Ok(name);
        }
        Err(none_of(word, std::iter::once(Palette::AUTO).chain(Palette::names()).chain(["the path of a .toml file"])))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_back<T: FromStr<Err = String> + fmt::Display + PartialEq + fmt::Debug>(all: impl IntoIterator<Item = T>) {
        for value in all {
            assert_eq!(value.to_string().parse().as_ref(), Ok(&value));
        }
    }

    #[test]
    fn every_word_is_read_back() {
        read_back(Page::ALL);
        read_back(ProcessColumn::ALL);
        read_back(ProcessColumn::ALL.map(|column| Sort { column, reversed: true }));
        read_back(Scale::value_variants().iter().copied());
        read_back(["auto", "dark", "light", "high-contrast", "~/mine.toml", "/a/b"].map(ThemeName::known));
        assert_eq!(
            "pink".parse::<ThemeName>(),
            Err("`pink` is not one of auto, dark, light, high-contrast, the path of a .toml file".to_owned())
        );
        assert!("7m".parse::<Scale>().unwrap_err().contains("5m, 10m"));
        for (word, page) in
            [("WHY", Page::Findings), ("findings", Page::Findings), ("run", Page::Run), ("8", Page::Findings)]
        {
            assert_eq!(word.parse(), Ok(page), "{word}");
        }
        assert!("overveiw".parse::<Page>().unwrap_err().ends_with(": did you mean overview?"));
    }

    #[test]
    fn words_fit_their_seconds() {
        let words: Vec<String> = Scale::value_variants().iter().map(ToString::to_string).collect();
        assert_eq!(words, ["auto", "10s", "30s", "1m", "2m", "5m", "10m", "30m", "1h"]);
        assert_eq!(Scale::default().to_string(), "auto");
        assert_eq!("5m".parse::<Scale>().unwrap().seconds(), Some(300.0));
        assert_eq!((Scale::next(true, 15.0), Scale::next(false, 15.0)), ("30s".parse().ok(), "10s".parse().ok()));
        assert_eq!((Scale::next(true, 3600.0), Scale::next(false, 10.0)), (None, None));
    }

    #[test]
    fn layers_and_changes() {
        let below = Layout { tree: Some(true), mouse: Some(true), ..Layout::default() };
        let above = Layout { tree: Some(false), sort: Some(Sort::default()), ..Layout::default() };
        let both = above.or(&below);
        assert_eq!((both.tree, both.mouse, both.page), (Some(false), Some(true), None));
        assert_eq!(both.changed_since(&below), above);
    }
}
