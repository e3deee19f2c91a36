//! The page from top to bottom: what the profile is of, what its GPUs did, one of its steps, and its tables.

use std::ops::Range;

use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Margin, Rect};
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::Widget;

use super::super::keys::{Action, key_of};
use super::Profile;
use super::gpus::PartBars;
use super::step::StepView;
use super::table::ShownTable;
use crate::theme::Theme;
use crate::widgets::panel::{self, Panel, framed};
use crate::widgets::{self, card};
use crate::widgets::{Drawn, Hit, Piece, Scene, Text, cells, count, piece_lines, write_lines};
use trainmon_base::text::sanitize;
use trainmon_profiles::account::ProfileAccount;
use trainmon_views::labels::taken;
use trainmon_views::profile_sections;

/// Narrowest table that has its names in full.
const TABLE_WIDTH: u16 = 95;
/// Fewest rows of a table beside or below others, its heading and edges included.
const LEAST_TABLE_ROWS: u16 = 9;
/// Rows of tables below a drawn step where there are few: the names of all, a heading, and three rows of one.
const FEW_TABLE_ROWS: u16 = 6;
/// GPUs with a bar, for each so many rows of the page.
const ROWS_FOR_GPU: usize = 4;
/// How to get a profile of a recorded run, and of a running one: after the key.
const NO_PROFILE: &str = "No profile: open a trace of torch.profiler with `trainmon replay trace.json.gz`.";
const NONE_YET: &str = "asks the job for a profile of half a second. The job must have been started with `trainmon run`, or \
                        with KINETO_USE_DAEMON=1 in its environment; its steps are slower meanwhile, and it goes on.";

/// Draws the page.
pub fn draw(buf: &mut Buffer, area: Rect, page: &Profile, scene: &Scene<'_>, top: usize, drawn: &mut Drawn) {
    let theme = scene.theme;
    let Some(account) = scene.verdict().and_then(|verdict| verdict.profile.as_deref()) else {
        let mut text = Text::new(area.width, theme);
        if scene.job.replay.is_some() {
            text.wrapped("", 0, NO_PROFILE, theme.dim());
        } else {
            let key = key_of(Action::TakeProfile);
            text.wrapped("", 0, &format!("No profile yet: {key} {NONE_YET}"), theme.dim());
        }
        return write_lines(buf, area, &text.lines);
    };
    let bars = PartBars::new(account, usize::from(area.height) / ROWS_FOR_GPU, theme).lines(area.width);
    let mut notes = Text::new(area.width, theme);
    account.notes.iter().for_each(|note| notes.at_most(2, note, theme.dim()));
    let step = account.drawn.as_ref().map(|step| StepView::new(step, &page.cursor, theme));
    // What is above the tables has its rows as long as there are any.
    let mut left = area.height;
    let mut take = |wanted: u16| {
        let rows = wanted.min(left);
        left -= rows;
        rows
    };
    let above = [1, count(bars.len()), count(notes.lines.len())].map(&mut take);
    let for_tables = if page.tables.is_empty() { 0 } else { rows_for_tables(area, buf.area) };
    let of_step = step.as_ref().map_or(0, |step| step.rows(left.saturating_sub(for_tables), buf.area));
    let heights = above.into_iter().chain([of_step]).map(Constraint::Length);
    let [first, of_bars, of_notes, of_step, rest] =
        Layout::vertical(heights.chain([Constraint::Fill(1)])).areas(area);
    write_lines(buf, first, &piece_lines(first.width, " · ", &head(account, scene)));
    write_lines(buf, of_bars, &bars);
    write_lines(buf, of_notes, &notes.lines);
    if let Some(step) = step
        && of_step.height > 0
    {
        step.draw(buf, of_step, drawn);
    }
    tables(buf, rest, page, top, scene, drawn);
}

/// Rows that stay for the tables beside a drawn step: half of the page where there is room.
fn rows_for_tables(area: Rect, screen: Rect) -> u16 {
    let least = if framed(screen) { LEAST_TABLE_ROWS } else { FEW_TABLE_ROWS };
    least.max(area.height / 3)
}

/// The tables that there is room for.
fn tables(buf: &mut Buffer, area: Rect, page: &Profile, top: usize, scene: &Scene<'_>, drawn: &mut Drawn) {
    let columns = (area.width / TABLE_WIDTH).max(1);
    let above = panel::edges(buf.area) + 1;
    let wanted: Vec<_> = page.tables.iter().map(|table| above + count(table.rows.len())).collect();
    let of_strip = u16::from(group(&wanted, columns, area.height, page.current).len() < wanted.len());
    let [row, rest] = Layout::vertical([Constraint::Length(of_strip), Constraint::Fill(1)]).areas(area);
    strip(buf, row, page, scene.theme, drawn);
    let group = group(&wanted, columns, rest.height, page.current);
    let places: Vec<_> = group.clone().collect();
    let width = rest.width / columns;
    for (column, places) in (0..).zip(places.chunks(group.len().div_ceil(usize::from(columns)).max(1))) {
        let wanted: Vec<_> = places.iter().filter_map(|place| wanted.get(*place).copied()).collect();
        let mut y = rest.y;
        for (place, height) in places.iter().zip(shared(&wanted, rest.height)) {
            if let Some(table) = page.tables.get(*place) {
                let area = Rect { x: rest.x + column * width, y, width, height };
                one(buf, area, table, (*place, *place == page.current), top, scene, drawn);
            }
            y += height;
        }
    }
}

/// What the profile is of: its file, window and steps, and what the profiler itself took.
fn head(account: &ProfileAccount, scene: &Scene<'_>) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let age_s = scene.verdict().and_then(|verdict| verdict.profile_age_s);
    pieces.extend(age_s.map(|age_s| (taken(age_s), Style::new())));
    let file = account.file.as_deref().map(|file| sanitize(file).into_owned());
    pieces.extend(file.map(|file| (file, Style::new())));
    let facts = profile_sections::window_facts(account);
    pieces.extend(facts.into_iter().map(|fact| (sanitize(&fact).into_owned(), scene.theme.dim())));
    pieces
}

/// The tables that are shown together with the current one: as many as have room in so many columns, in their order. `wanted`
/// are the rows of each.
fn group(wanted: &[u16], columns: u16, height: u16, current: usize) -> Range<usize> {
    let mut group = 0..0;
    while group.end < wanted.len() && !group.contains(&current) {
        group.start = group.end;
        if columns > 1 {
            group.end += usize::from(columns * (height / LEAST_TABLE_ROWS).max(1));
        } else {
            let mut room = height;
            for wanted in wanted.iter().skip(group.start) {
                let least = (*wanted).min(LEAST_TABLE_ROWS);
                if room < least && group.end > group.start {
                    break;
                }
                room = room.saturating_sub(least);
                group.end += 1;
            }
        }
    }
    group.start..group.end.min(wanted.len())
}

/// Shares `room` rows out: none gets more than it wants while another one wants more.
fn shared(wanted: &[u16], room: u16) -> Vec<u16> {
    let all = |most: u16| wanted.iter().map(|wanted| u32::from((*wanted).min(most))).sum::<u32>();
    let most = (0..=room).rev().find(|most| all(*most) <= room.into()).unwrap_or(0);
    let mut left = u32::from(room) - all(most);
    let more = |wanted: &u16| {
        let one = u16::from(left > 0 && *wanted > most);
        left -= u32::from(one);
        (*wanted).min(most) + one
    };
    wanted.iter().map(more).collect()
}

/// The names of all tables, where not all are shown; the current one is marked.
fn strip(buf: &mut Buffer, row: Rect, page: &Profile, theme: Theme, drawn: &mut Drawn) {
    if row.height == 0 {
        return;
    }
    let tabs = page.tables.iter().enumerate();
    let tabs =
        tabs.map(|(place, table)| (format!(" {} ", table.name.word()), place == page.current, Hit::Heading(place)));
    let rest = widgets::tabs(buf, row, tabs, 0, theme, drawn);
    let hint = format!("{} next table", key_of(Action::NextTable));
    if cells(&hint) < rest.width {
        Line::from(Span::styled(hint, theme.dim())).right_aligned().render(rest, buf);
    }
}

/// A table in its panel.
fn one(
    buf: &mut Buffer,
    area: Rect,
    table: &ShownTable,
    (place, current): (usize, bool),
    top: usize,
    scene: &Scene<'_>,
    drawn: &mut Drawn,
) {
    let theme = scene.theme;
    let name = if current { theme.strong() } else { Style::new() };
    let count = if current { table.place() } else { table.count().to_string() };
    let mut edges = Panel::new(table.title.clone(), name).with(count, theme.strong());
    edges.edge = if current && framed(buf.area) { Some(card::accent(scene)) } else { None };
    if current {
        edges = edges.with("Enter in full", theme.dim());
    }
    for note in &table.notes {
        edges = edges.with(sanitize(note).into_owned(), theme.dim());
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
    fn tables_with_room_are_shown_together() {
        let wanted = [4, 32, 32, 4, 5];
        let groups = |height| [0, 1, 2, 3, 4].map(|current| group(&wanted, 1, height, current));
        assert_eq!(groups(12), [0..1, 1..2, 2..3, 3..5, 3..5]);
        assert_eq!(groups(13), [0..2, 0..2, 2..4, 2..4, 4..5]);
        assert_eq!(groups(100), [0..5, 0..5, 0..5, 0..5, 0..5]);
        assert_eq!(group(&wanted, 1, 0, 1), 1..2, "no room, and still the current one");
        assert_eq!(group(&wanted, 2, 18, 4), 4..5);
        assert_eq!(group(&[], 2, 18, 0), 0..0);
    }
}
