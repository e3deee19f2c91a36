//! What a person arranges on the screen and finds again the next time, as plain values with stable words.
//!
//! The same values can be set in the configuration and on the command line. Every value may be missing: nothing is said
//! about it then, so that layers are laid over each other with [`Layout::or`].

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::app::SCALES;
use super::page::Page;
use super::processes::{Column, Sort};
use super::theme::Palette;

/// Longest name or path of a theme, bytes.
const THEME_MAX: usize = 4096;

/// Words of [`SCALES`].
const SCALE_WORDS: [&str; SCALES.len()] = ["10s", "30s", "1m", "2m", "5m", "10m", "30m", "1h"];

/// How the screen is arranged.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Layout {
    /// The page that is up.
    #[serde(with = "word", skip_serializing_if = "Option::is_none")]
    pub page: Option<Page>,
    /// Time that the charts show.
    #[serde(with = "word", skip_serializing_if = "Option::is_none")]
    pub time_scale: Option<Scale>,
    /// Order of the process table.
    #[serde(with = "word", skip_serializing_if = "Option::is_none")]
    pub sort: Option<Sort>,
    /// Columns of the process table, from left to right.
    #[serde(with = "words", skip_serializing_if = "Option::is_none")]
    pub columns: Option<Vec<Column>>,
    /// Processes as a tree.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tree: Option<bool>,
    /// Threads of processes are shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threads: Option<bool>,
    /// Name or path of the theme.
    #[serde(with = "word", skip_serializing_if = "Option::is_none")]
    pub theme: Option<ThemeName>,
    /// Few bytes to the terminal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub low_bandwidth: Option<bool>,
    /// The mouse is reported.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mouse: Option<bool>,
}

impl Layout {
    /// These values, and where there is none, those of `below`.
    #[must_use]
    pub fn or(self, below: Self) -> Self {
        Self {
            page: self.page.or(below.page),
            time_scale: self.time_scale.or(below.time_scale),
            sort: self.sort.or(below.sort),
            columns: self.columns.or(below.columns),
            tree: self.tree.or(below.tree),
            threads: self.threads.or(below.threads),
            theme: self.theme.or(below.theme),
            low_bandwidth: self.low_bandwidth.or(below.low_bandwidth),
            mouse: self.mouse.or(below.mouse),
        }
    }

    /// Only the values that are not those of `before`: what has been changed since.
    #[must_use]
    pub fn changed_since(self, before: &Self) -> Self {
        fn new<T: PartialEq>(now: Option<T>, before: &Option<T>) -> Option<T> {
            now.filter(|now| before.as_ref() != Some(now))
        }
        Self {
            page: new(self.page, &before.page),
            time_scale: new(self.time_scale, &before.time_scale),
            sort: new(self.sort, &before.sort),
            columns: new(self.columns, &before.columns),
            tree: new(self.tree, &before.tree),
            threads: new(self.threads, &before.threads),
            theme: new(self.theme, &before.theme),
            low_bandwidth: new(self.low_bandwidth, &before.low_bandwidth),
            mouse: new(self.mouse, &before.mouse),
        }
    }
}

/// A value with a word in files.
pub trait Word: Sized {
    /// Its word.
    fn to_word(&self) -> String;

    /// The value of a word.
    ///
    /// # Errors
    /// One short sentence that says which words there are.
    fn of_word(word: &str) -> Result<Self, String>;
}

/// Why a word was refused.
fn none_of<'w>(word: &str, words: impl Iterator<Item = &'w str>) -> String {
    let words: Vec<_> = words.collect();
    format!("`{}` is none of {}", crate::text::fit(word, 40), words.join(", "))
}

impl Word for Page {
    fn to_word(&self) -> String {
        self.name().to_ascii_lowercase()
    }

    fn of_word(word: &str) -> Result<Self, String> {
        let names = || Self::ALL.map(|page| page.to_word());
        Self::named(word).ok_or_else(|| none_of(word, names().iter().map(String::as_str)))
    }
}

impl Word for Column {
    fn to_word(&self) -> String {
        self.word().to_owned()
    }

    fn of_word(word: &str) -> Result<Self, String> {
        Self::named(word).ok_or_else(|| none_of(word, Self::ALL.iter().map(|column| column.word())))
    }
}

impl Word for Sort {
    fn to_word(&self) -> String {
        format!("{}{}", if self.reversed { "-" } else { "" }, self.column.word())
    }

    fn of_word(word: &str) -> Result<Self, String> {
        let (reversed, column) = word.strip_prefix('-').map_or((false, word), |column| (true, column));
        Column::of_word(column).map(|column| Self { column, reversed })
    }
}

/// One of [`SCALES`], by its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scale(pub(in crate::tui) usize);

impl Default for Scale {
    /// A minute.
    fn default() -> Self {
        Self(2)
    }
}

impl Scale {
    /// Seconds.
    #[must_use]
    pub fn seconds(self) -> f64 {
        SCALES.get(self.0).copied().unwrap_or(60.0)
    }

    /// The next longer or shorter one; the same at the ends.
    pub(in crate::tui) fn step(self, longer: bool) -> Self {
        Self(if longer { (self.0 + 1).min(SCALES.len() - 1) } else { self.0.saturating_sub(1) })
    }
}

impl Word for Scale {
    fn to_word(&self) -> String {
        SCALE_WORDS.get(self.0).copied().unwrap_or("1m").to_owned()
    }

    fn of_word(word: &str) -> Result<Self, String> {
        let place = SCALE_WORDS.iter().position(|known| *known == word);
        place.map(Self).ok_or_else(|| none_of(word, SCALE_WORDS.into_iter()))
    }
}

/// `auto`, the name of a built-in theme, or the path of a theme file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThemeName(String);

impl ThemeName {
    /// What fits the terminal's background, as far as the environment tells it.
    pub const AUTO: &'static str = Palette::AUTO;

    /// As written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it names a file.
    #[must_use]
    pub fn is_path(&self) -> bool {
        self.0.contains('/') || self.0.ends_with(".toml")
    }

    /// A name that a list of themes holds.
    pub(in crate::tui) fn known(name: &str) -> Self {
        Self(name.to_owned())
    }
}

impl Word for ThemeName {
    fn to_word(&self) -> String {
        self.0.clone()
    }

    fn of_word(word: &str) -> Result<Self, String> {
        let name = Self(word.to_owned());
        if word.len() > THEME_MAX || word.chars().any(char::is_control) {
            return Err("that is no path of a theme".to_owned());
        }
        if name.is_path() || word == Self::AUTO || Palette::built_in(word).is_some() {
            return Ok(name);
        }
        let names = std::iter::once(Self::AUTO).chain(Palette::names()).chain(["a path of a .toml file"]);
        Err(none_of(word, names))
    }
}

/// `Option` of a value as its word.
pub mod word {
    use super::{Deserialize, Deserializer, Serializer, Word};

    /// Writes the word.
    ///
    /// # Errors
    /// The serializer's.
    #[allow(clippy::ref_option, reason = "serde calls it so")]
    pub fn serialize<T: Word, S: Serializer>(value: &Option<T>, to: S) -> Result<S::Ok, S::Error> {
        match value {
            Some(value) => to.serialize_str(&value.to_word()),
            None => to.serialize_none(),
        }
    }

    /// Reads a word.
    ///
    /// # Errors
    /// For a word that is none of those known.
    pub fn deserialize<'de, T: Word, D: Deserializer<'de>>(from: D) -> Result<Option<T>, D::Error> {
        T::of_word(&String::deserialize(from)?).map(Some).map_err(serde::de::Error::custom)
    }
}

/// `Option` of a list of values as their words, none of them twice.
pub mod words {
    use super::{Deserialize, Deserializer, Serializer, Word};

    /// Writes the words.
    ///
    /// # Errors
    /// The serializer's.
    #[allow(clippy::ref_option, reason = "serde calls it so")]
    pub fn serialize<T: Word, S: Serializer>(values: &Option<Vec<T>>, to: S) -> Result<S::Ok, S::Error> {
        match values {
            Some(values) => to.collect_seq(values.iter().map(Word::to_word)),
            None => to.serialize_none(),
        }
    }

    /// Reads words.
    ///
    /// # Errors
    /// For none at all, one that is not known, and one that stands twice.
    pub fn deserialize<'de, T: Word + PartialEq, D: Deserializer<'de>>(from: D) -> Result<Option<Vec<T>>, D::Error> {
        let mut values = Vec::new();
        for word in Vec::<String>::deserialize(from)? {
            let value = T::of_word(&word).map_err(serde::de::Error::custom)?;
            if values.contains(&value) {
                return Err(serde::de::Error::custom(format!("`{word}` stands there twice")));
            }
            values.push(value);
        }
        if values.is_empty() {
            return Err(serde::de::Error::custom("at least one is needed"));
        }
        Ok(Some(values))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn every_word_is_read_back() {
        for page in Page::ALL {
            assert_eq!(Page::of_word(&page.to_word()), Ok(page));
        }
        for column in Column::ALL {
            assert_eq!(Column::of_word(column.word()), Ok(column));
            let sort = Sort { column, reversed: true };
            assert_eq!(Sort::of_word(&sort.to_word()), Ok(sort));
        }
        for place in 0..SCALES.len() {
            assert_eq!(Scale::of_word(&Scale(place).to_word()), Ok(Scale(place)));
        }
        for name in ["auto", "dark", "light", "high-contrast", "~/mine.toml", "/a/b"] {
            assert_eq!(ThemeName::of_word(name).unwrap().to_word(), name);
        }
        assert_eq!(
            ThemeName::of_word("pink"),
            Err("`pink` is none of auto, dark, light, high-contrast, a path of a .toml file".to_owned())
        );
        assert!(Scale::of_word("7m").unwrap_err().contains("5m, 10m"));
    }

    #[test]
    fn words_fit_their_seconds() {
        for (word, seconds) in SCALE_WORDS.iter().zip(SCALES) {
            assert_eq!(crate::cli::parse_duration(word).unwrap().as_secs_f64(), seconds);
        }
        assert_eq!(Scale::default().to_word(), "1m");
    }

    #[test]
    fn layers_and_changes() {
        let below = Layout { tree: Some(true), mouse: Some(true), ..Layout::default() };
        let above = Layout { tree: Some(false), ..Layout::default() };
        let both = above.clone().or(below.clone());
        assert_eq!((both.tree, both.mouse, both.page), (Some(false), Some(true), None));
        assert_eq!(both.changed_since(&below), above);
    }
}
