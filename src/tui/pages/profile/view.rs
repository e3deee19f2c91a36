//! The page from top to bottom: what the profile is of, what its GPUs did, and its tables.

use ratatui::buffer::Buffer;
use ratatui::layout::{Margin, Rect};
use ratatui::style::Style;

use super::Profile;
use super::gpus::Bars;
use super::super::keys::{Action, key_of};
use super::table::ShownTable;
use crate::outputs::profile_sections;
use crate::profiles::account::ProfileAccount;
use crate::text::sanitise;
use crate::tui::theme::Theme;
use crate::tui::widgets::panel::{self, Panel, framed};
use crate::tui::widgets::{Drawn, Hit, Piece, Scene, Text, cells, count, write, write_lines, write_pieces, write_right};

/// Narrowest table that has its names in full.
const TABLE: u16 = 95;
/// Fewest rows of a table beside or below others, its heading and edges included.
const LEAST: u16 = 9;
/// GPUs with a bar, for each so many rows of the page.
const ROWS_FOR_GPU: usize = 4;
/// How to get a profile.
const NONE: &str = "No profile: open a trace of torch.profiler with `trainmon replay trace.json.gz`.";

/// Draws the page.
pub fn draw(buf: &mut Buffer, area: Rect, page: &Profile, scene: &Scene<'_>, top: usize, drawn: &mut Drawn) {
    let theme = scene.theme;
    let Some(account) = scene.verdict().and_then(|verdict| verdict.profile.as_deref()) else {
        let mut text = Text::new(area.width, theme);
        text.wrapped("", 0, NONE, theme.dim());
        return write_lines(buf, area, &text.lines);
    };
    let mut rest = area;
    write_pieces(buf, cut(&mut rest, 1), " · ", &head(account, theme));
    let bars = Bars::new(account, usize::from(area.height) / ROWS_FOR_GPU, theme);
    bars.draw(buf, cut(&mut rest, bars.rows(area.width)));
    for note in &account.notes {
        let mut text = Text::new(area.width, theme);
        text.at_most(2, note, theme.dim());
        let lines = cut(&mut rest, count(text.lines.len()));
        write_lines(buf, lines, &text.lines);
    }
    let grid = Grid::new(page.tables.len(), area.width, rest.height);
    if grid.most() < page.tables.len() {
        strip(buf, cut(&mut rest, 1), page, theme, drawn);
    }
    let first = page.current - page.current % grid.most();
    let shown: Vec<_> = page.tables.iter().enumerate().skip(first).take(grid.most()).collect();
    for (column, tables) in shown.chunks(usize::from(grid.rows)).enumerate() {
        let wanted = tables.iter().map(|(_, table)| panel::edges(buf.area) + 1 + count(table.rows.len()));
        let mut y = rest.y;
        for ((place, table), height) in tables.iter().zip(shared(&wanted.collect::<Vec<_>>(), rest.height)) {
            let width = rest.width / grid.columns;
            let place_on_page = Rect { x: rest.x + column as u16 * width, y, width, height };
            one(buf, place_on_page, table, (*place, *place == page.current), top, theme, drawn);
            y += height;
        }
    }
}

/// Splits off the first rows of what is left of an area.
pub fn cut(rest: &mut Rect, rows: u16) -> Rect {
    let first = Rect { height: rows.min(rest.height), ..*rest };
    *rest = Rect { y: rest.y + first.height, height: rest.height - first.height, ..*rest };
    first
}

/// What the profile is of: its file, window and steps, and what the profiler itself took.
fn head(account: &ProfileAccount, theme: Theme) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let file = account.file.as_deref().map(|file| sanitise(file).into_owned());
    pieces.extend(file.map(|file| (file, Style::new())));
    let facts = profile_sections::window_facts(account);
    pieces.extend(facts.into_iter().map(|fact| (sanitise(&fact).into_owned(), theme.dim())));
    pieces
}

/// How many tables are beside and below each other.
struct Grid {
    columns: u16,
    rows: u16,
}

impl Grid {
    fn new(tables: usize, width: u16, height: u16) -> Self {
        let (columns, rows) = ((width / TABLE).max(1), (height / LEAST).max(1));
        // Where all have room, no more below each other than needed.
        let needed = tables.div_ceil(usize::from(columns)).max(1);
        Self { columns, rows: rows.min(u16::try_from(needed).unwrap_or(rows)) }
    }

    fn most(&self) -> usize {
        usize::from(self.columns) * usize::from(self.rows)
    }
}

/// Shares `room` rows out: none gets more than it wants while another one wants more.
fn shared(wanted: &[u16], room: u16) -> Vec<u16> {
    let mut heights = vec![0u16; wanted.len()];
    let mut left = room;
    while left > 0 {
        let before = left;
        for (height, wanted) in heights.iter_mut().zip(wanted) {
            let more = u16::from(left > 0 && *height < *wanted);
            *height += more;
            left -= more;
        }
        if left == before {
            break;
        }
    }
    heights
}

/// The names of all tables, where not all are shown; the current one is marked.
fn strip(buf: &mut Buffer, row: Rect, page: &Profile, theme: Theme, drawn: &mut Drawn) {
    if row.height == 0 {
        return;
    }
    let mut x = row.x;
    for (place, table) in page.tables.iter().enumerate() {
        let word = format!(" {} ", table.name.word());
        let style = if place == page.current { theme.bar().patch(theme.strong()) } else { theme.dim() };
        let width = cells(&word);
        if x + width > row.right() {
            break;
        }
        drawn.hits.push((Rect { x, width, ..row }, Hit::Heading(place)));
        x = write(buf, x, row.y, row.right(), &word, style);
    }
    let hint = format!("{} next table", key_of(Action::NextTable));
    if x + 1 + cells(&hint) <= row.right() {
        write_right(buf, x, row.y, row.right(), &hint, theme.dim());
    }
}

/// A table in its panel.
fn one(
    buf: &mut Buffer,
    area: Rect,
    table: &ShownTable,
    (place, current): (usize, bool),
    top: usize,
    theme: Theme,
    drawn: &mut Drawn,
) {
    let name = if current { theme.strong() } else { Style::new() };
    let count = if current { table.place() } else { table.count().to_string() };
    let mut edges = Panel::new(table.title.clone(), name).with(count, theme.strong());
    edges.edge = Some(theme.cursor()).filter(|_| current && framed(buf.area));
    if current {
        edges = edges.with("Enter in full", theme.dim());
    }
    for note in &table.notes {
        edges = edges.with(sanitise(note).into_owned(), theme.dim());
    }
    let inner = edges.draw(buf, area, theme);
    // Text keeps off a frame.
    let inner = if framed(buf.area) { inner.inner(Margin::new(1, 0)) } else { inner };
    drawn.hits.push((area, Hit::Heading(place)));
    let extent = table.draw(buf, inner, current, top, theme);
    if current {
        drawn.page = extent;
        let rows = Rect { y: inner.y + 1, height: inner.height.saturating_sub(1), ..inner };
        drawn.hits.push((rows, Hit::Row(extent.top)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_go_to_tables_that_want_them() {
        assert_eq!(shared(&[4, 33, 33], 30), [4, 13, 13]);
        assert_eq!(shared(&[4, 5], 30), [4, 5]);
        assert_eq!(shared(&[9, 9], 3), [2, 1]);
        assert!(shared(&[], 3).is_empty());
    }

    #[test]
    fn a_grid_is_no_higher_than_its_tables_need() {
        let most = |tables, width, height| {
            let grid = Grid::new(tables, width, height);
            (grid.columns, grid.rows)
        };
        assert_eq!(most(8, 80, 13), (1, 1));
        assert_eq!(most(8, 118, 27), (1, 3));
        assert_eq!(most(8, 198, 47), (2, 4));
        assert_eq!(most(2, 198, 47), (2, 1));
        assert_eq!(most(0, 10, 0), (1, 1));
    }
}
