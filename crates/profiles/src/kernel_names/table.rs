//! The tables of names, from `assets/kernel-names.txt`: patterns and words, with what they mean.

use std::collections::HashMap;
use std::sync::LazyLock;

const TEXT: &str = include_str!("../../assets/kernel-names.txt");

/// Rows in order: what is searched, and what it means.
pub type NameTable = [(&'static str, &'static str)];

static TABLES: LazyLock<HashMap<&str, Vec<(&str, &str)>>> = LazyLock::new(|| {
    let mut tables: HashMap<&str, Vec<(&str, &str)>> = HashMap::new();
    let mut title = "";
    for line in TEXT.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if let Some(next) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            title = next;
        } else {
            let (left, right) = line.split_once('=').unwrap_or((line, ""));
            tables.entry(title).or_default().push((left.trim_end(), right.trim_start()));
        }
    }
    tables
});

/// A table by its title in the file.
pub fn table(title: &str) -> &'static NameTable {
    TABLES.get(title).map(Vec::as_slice).unwrap_or_default()
}

/// What the first row means of which this holds.
pub fn first(title: &str, holds: impl Fn(&'static str) -> bool) -> Option<&'static str> {
    table(title).iter().find(|(searched, _)| holds(searched)).map(|(_, meaning)| *meaning)
}
