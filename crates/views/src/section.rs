//! What a report consists of: sections, each with a body that text, Markdown and HTML lay out in their own way.

use trainmon_base::text::format::whole_percent as percent;
use trainmon_diagnosis::diagnosis::loop_parts::LoopPart;
use trainmon_profiles::drawn::SliceKind;

/// One section.
#[derive(Debug)]
pub struct Section {
    /// Its heading.
    pub title: String,
    /// Only in a report that shows everything.
    pub detail: bool,
    /// What it consists of.
    pub body: SectionBody,
    /// Rows that a report shows which does not show everything.
    pub brief: usize,
    /// Rows that there are beyond those of its table.
    pub more: usize,
    /// What the last cells of a table are in full, row by row; empty where they are complete.
    pub in_full: Vec<String>,
    /// Sentences below the body.
    pub notes: Vec<String>,
}

/// What a section consists of.
#[derive(Debug)]
pub enum SectionBody {
    /// One paragraph.
    Text(String),
    /// Shares of the loop's time, 0–1: what is said of each, and its part.
    Shares(Vec<(String, LoopPart, f64)>),
    /// Parts of a whole, 0–1, each with its words and its color.
    Parts(Vec<(SliceKind, &'static str, f64)>),
    /// Rows with a cell for each column.
    Table(Vec<Column>, Vec<Vec<String>>),
    /// A list.
    Points(Vec<Point>),
    /// The same, numbered.
    Steps(Vec<Point>),
    /// Lines of a tree: what leads to the text, and the text.
    Tree(Vec<(String, String)>),
}

/// One item of a list.
#[derive(Debug, Default)]
pub struct Point {
    /// Its name; may be empty.
    pub name: String,
    /// What is said of it; may be empty.
    pub text: String,
    /// The reason, below it.
    pub reason: String,
    /// The command that fixes it.
    pub fix: Option<String>,
}

/// A column of a table.
#[derive(Debug, Clone, Copy)]
pub struct Column {
    /// Its heading.
    pub name: &'static str,
    /// Numbers are aligned at their right.
    pub right: bool,
}

impl Column {
    /// Of text.
    pub const fn left(name: &'static str) -> Self {
        Self { name, right: false }
    }

    /// Of numbers.
    pub const fn right(name: &'static str) -> Self {
        Self { name, right: true }
    }
}

impl Section {
    pub(crate) fn new(title: impl Into<String>, body: SectionBody) -> Self {
        let (title, in_full, notes) = (title.into(), Vec::new(), Vec::new());
        Self { title, detail: false, body, brief: usize::MAX, more: 0, in_full, notes }
    }

    /// A section that only a full report shows.
    pub(crate) fn detail(title: impl Into<String>, body: SectionBody) -> Self {
        Self { detail: true, ..Self::new(title, body) }
    }

    pub(crate) fn noting(self, notes: impl IntoIterator<Item = String>) -> Self {
        Self { notes: notes.into_iter().collect(), ..self }
    }

    /// What is said below it, of a table of which so many rows are shown.
    pub fn below(&self, shown: usize) -> impl Iterator<Item = String> {
        let rows = if let SectionBody::Table(_, rows) = &self.body { rows.len() } else { 0 };
        and_more(rows.saturating_sub(shown) + self.more).into_iter().chain(self.notes.iter().cloned())
    }

    pub(crate) fn is_empty(&self) -> bool {
        match &self.body {
            SectionBody::Text(text) => text.is_empty(),
            SectionBody::Shares(shares) => shares.is_empty(),
            SectionBody::Parts(parts) => parts.is_empty(),
            SectionBody::Table(_, rows) => rows.is_empty(),
            SectionBody::Points(points) | SectionBody::Steps(points) => points.is_empty(),
            SectionBody::Tree(lines) => lines.is_empty(),
        }
    }
}

pub(crate) fn point(name: impl Into<String>, text: impl Into<String>) -> Point {
    Point { name: name.into(), text: text.into(), ..Point::default() }
}

/// A share as it is said: `34%`.
pub fn whole(share: f64) -> String {
    format!("{}%", percent(share))
}

/// How many are not shown.
pub(crate) fn and_more(count: usize) -> Option<String> {
    (count > 0).then(|| format!("and {count} more"))
}
