//! The page of stacks: what each role does, by activity, function and line, and the lines that wait for the GPU.
//!
//! ```text
//! │  share                  doing      whose  function        file:line │
//! │ - Rank 0, 1234, training loop  wwwwwwwwwwwwwffffbbbbo   430 samples │
//! │     w waiting 58%  f forward 21%  b backward 12% …               │
//! │   + 58% ███████████    waiting    own    train           train.py:9│
//! │   - 21% ████           forward    own    forward         model.py:4│
//! │        18% ███   41    x = self.body(x)                            │
//! │ + worker 1301           lllldddddddddddddttc     120 samples        │
//! │ - lines at which the host waits for the GPU                         │
//! ```

use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::{List, Widget};

use super::outline::{OutlinePart, OutlineRow, What};
use super::{Stacks, absent, activity};
use crate::theme::{Theme, WithLook};
use crate::widgets::{Drawn, Extent, Hit, Scene, bars, cells, count, piece_lines, table, write_lines};
use crate::{charts, format};
use trainmon_base::text::{fit, sanitize};
use trainmon_diagnosis::history::recent_stacks::{LOOKED_BACK_S, RecentStacks};
use trainmon_waits::stacks::Activities;
use trainmon_waits::time_split::LoopActivity;

/// Draws the heading and the visible lines, or the reason why there are no lines.
pub fn draw(buf: &mut Buffer, area: Rect, page: &Stacks, scene: &Scene<'_>, top: usize, drawn: &mut Drawn) {
    let recent = &page.recent;
    let absent = recent.ranks.is_empty() && recent.workers.is_empty();
    let absent = if absent { absent::text(area.width, scene).lines } else { Vec::new() };
    let [first, above, below] =
        Layout::vertical([Constraint::Length(1), Constraint::Length(count(absent.len())), Constraint::Fill(1)])
            .areas(area);
    let columns = StackColumns::new(area.width, scene.theme);
    columns.heading(buf, first, recent);
    write_lines(buf, above, &absent);
    let extent = Extent { top, visible: usize::from(below.height), total: page.rows.len() };
    drawn.page = extent.showing(page.selected);
    drawn.hits.push((below, Hit::Row(drawn.page.top)));
    let rows = page.rows.iter().skip(drawn.page.top).take(drawn.page.visible).map(|row| columns.line(row));
    Widget::render(List::new(rows), below, buf);
    let selected = page.selected.checked_sub(drawn.page.top);
    for at in selected.and_then(|row| below.rows().nth(row)).into_iter().flat_map(Rect::positions) {
        let selected = scene.theme.selected();
        if let Some(cell) = buf.cell_mut(at) {
            // A bar keeps its colors.
            let is_bar = cell.symbol() == "█";
            cell.set_style(if is_bar { Style { fg: None, ..selected } } else { selected });
        }
    }
}

/// The widths of the columns: before the share (fold mark and two levels), of the share, of an activity's word, and of the
/// owner.
const BEFORE: usize = 6;
const SHARE: usize = 5;
const DOING: usize = 13;
const WHOSE: usize = 5;
/// Width of a role's name, its place included.
const NAME: usize = 31;

/// How lines are laid out.
#[derive(Debug, Clone, Copy)]
struct StackColumns {
    /// Cells of a line.
    width: usize,
    /// Cells of a bar.
    bar: u16,
    theme: Theme,
}

impl StackColumns {
    fn new(width: u16, theme: Theme) -> Self {
        let bar = match width {
            0..100 => 12,
            100..160 => 24,
            _ => 40,
        };
        Self { width: usize::from(width), bar, theme }
    }

    /// Cells before what a thread does.
    fn before_doing(self) -> usize {
        BEFORE + SHARE + 1 + usize::from(self.bar) + 1
    }

    /// Cells from the function on.
    fn of_name(self) -> usize {
        self.width.saturating_sub(self.before_doing() + DOING + WHOSE)
    }

    fn heading(self, buf: &mut Buffer, area: Rect, recent: &RecentStacks) {
        let samples: u64 = recent.ranks.values().chain(recent.workers.values()).map(|sum| sum.main.total()).sum();
        let span = format::duration(recent.span_s.clamp(1.0, LOOKED_BACK_S));
        let right = match recent.age_s {
            // If the newest stacks are old, that matters more than their number.
            Some(age) if age > 10.0 => format!("newest samples are {} old", format::duration(age)),
            Some(_) => format!("{samples} samples in {span}"),
            None => String::new(),
        };
        let time = format!("{:>1$}", "time", BEFORE + SHARE);
        let left = format!("{time:<0$}{1:<DOING$}{2:<WHOSE$}function ", self.before_doing(), "doing", "code");
        let room = self.width.saturating_sub(usize::from(cells(&left)));
        let line = Line::from(format!("{left}{:>room$}", fit(&right, room)));
        line.style(self.theme.heading()).render(area, buf);
    }

    fn line(self, row: &OutlineRow) -> Line<'static> {
        let theme = self.theme;
        let indent = row.key.len().clamp(1, 4) * 2 - 2;
        let mark = match row.open {
            Some(true) => "-",
            Some(false) => "+",
            None => " ",
        };
        let start = |cells: usize| {
            Span::styled(format!("{:indent$}{mark:<1$}", "", cells.saturating_sub(indent)), theme.strong())
        };
        // What follows the fold mark.
        let room = self.width.saturating_sub(indent + 2);
        let (start, rest) = match (row.key.last(), &row.what) {
            (_, What::Role(name, activities)) => (start(indent + 2), self.role(name, activities, room)),
            (_, What::Activities(activities, validation)) => {
                (start(indent + 2), legend(room, activities, *validation, theme))
            }
            (_, What::SyncLines(heading)) => {
                (start(indent + 2), vec![Span::styled(fit(heading, room), theme.strong())])
            }
            (_, What::Rest(text)) => {
                let room = self.width.saturating_sub(self.before_doing());
                (start(self.before_doing()), vec![Span::styled(fit(text, room), theme.dim())])
            }
            (Some(OutlinePart::Function(file, name)), What::Function { share, activity, user, line }) => {
                let style = if *user { Style::new() } else { theme.dim() };
                let doing = activity.look();
                let mut spans = self.share_bar(*share, theme.style(doing));
                spans.push(Span::styled(table::set(doing.word, -(DOING as i16)), theme.style(doing)));
                spans.push(Span::styled(format!("{:<WHOSE$}", if *user { "own" } else { "lib" }), style));
                spans.extend(place(self.of_name(), name, file, *line, *user, theme));
                (start(BEFORE), spans)
            }
            (Some(OutlinePart::Line(number)), What::Line { share, text, blocked }) => {
                let waits = if *blocked >= 0.5 { " waiting" } else { "" };
                let number = if *number > 0 { format!("line {number}{waits} ") } else { format!("line ?{waits} ") };
                let number = format!("{number:<0$}", DOING + WHOSE);
                let room = self.width.saturating_sub(self.before_doing() + usize::from(cells(&number)));
                let mut spans = self.share_bar(*share, theme.dim());
                spans.push(Span::styled(number, theme.dim()));
                spans.push(source(room, text.as_deref(), theme));
                (start(BEFORE), spans)
            }
            (Some(OutlinePart::Sync(file, function, line)), What::Sync { share, text }) => {
                let room = self.width.saturating_sub(self.before_doing());
                let place = fit(&format!("{} {}:{line}", sanitize(function), sanitize(file)), room);
                let room = room.saturating_sub(usize::from(cells(&place)) + 2);
                let mut spans = self.share_bar(*share, theme.style(LoopActivity::DeviceSync.look()));
                spans.push(Span::raw(place + "  "));
                spans.extend(text.as_deref().map(|text| source(room, Some(text), theme)));
                (start(BEFORE), spans)
            }
            _ => (start(BEFORE), Vec::new()),
        };
        Line::from_iter([start].into_iter().chain(rest))
    }

    /// The number and the bar of a share.
    fn share_bar(self, share: f64, style: Style) -> Vec<Span<'static>> {
        let mut spans = vec![Span::raw(format!("{:>SHARE$} ", format::share(Some(share))))];
        spans.extend(bars::share(self.bar, share, style, (" ", Style::new())));
        spans.push(Span::raw(" "));
        spans
    }

    /// The role, a bar of its activities, and the number of samples behind it.
    fn role(self, name: &str, activities: &Activities, room: usize) -> Vec<Span<'static>> {
        let name = format!("{name:<0$}  ", (NAME - 2).saturating_sub(self.width.saturating_sub(room)));
        let samples = format!(" {:>6} samples", activities.total());
        let parts: Vec<_> = activity::parts(activities, self.theme)
            .into_iter()
            .map(|(_, glyph, style, share)| (glyph, style, share))
            .collect();
        let bar = count(room).saturating_sub(cells(&name) + cells(&samples));
        let mut spans = vec![Span::styled(name, self.theme.strong())];
        spans.extend(charts::split_styled(bar, &parts, self.theme));
        spans.push(Span::styled(samples, self.theme.dim()));
        spans
    }
}

/// A function and, on the right, its location, in `room` cells.
fn place(room: usize, name: &str, file: &str, line: u32, user: bool, theme: Theme) -> [Span<'static>; 2] {
    let style = if user { theme.strong() } else { theme.dim() };
    let line = if line > 0 { format!(":{line}") } else { String::new() };
    let wanted = usize::from(cells(&sanitize(name))).min(room);
    // The file's end says more than its beginning; the name of the function comes first.
    let file = shortened(file, room.saturating_sub(wanted.max(room / 3) + 1 + line.len()));
    let at = if file.is_empty() { file } else { file + &line };
    let name = fit(name, room.saturating_sub(usize::from(cells(&at)) + 1));
    let blanks = room.saturating_sub(usize::from(cells(&name) + cells(&at)));
    [Span::styled(format!("{name}{:blanks$}", ""), style), Span::styled(at, theme.dim())]
}

/// The last parts of a path, as many as fit into `room` cells; never those before `site-packages`.
fn shortened(file: &str, room: usize) -> String {
    let file = file.rsplit_once("-packages/").map_or(file, |(_, inside)| inside);
    let whole = sanitize(file);
    if usize::from(cells(&whole)) <= room {
        return whole.into_owned();
    }
    let tails = whole.match_indices('/').filter_map(|(at, _)| whole.get(at + 1..));
    tails.into_iter().find(|tail| usize::from(cells(tail)) <= room && !tail.is_empty()).unwrap_or_default().to_owned()
}

fn source(room: usize, text: Option<&str>, theme: Theme) -> Span<'static> {
    match text {
        Some(text) => Span::raw(fit(text.trim(), room)),
        None => Span::styled(fit("cannot read its source", room), theme.dim()),
    }
}

/// The legend of the bar: largest first, as many as fit in full.
fn legend(room: usize, activities: &Activities, validation: f64, theme: Theme) -> Vec<Span<'static>> {
    let mut shares = activity::parts(activities, theme);
    shares.sort_by(|a, b| b.3.total_cmp(&a.3));
    let parts = shares.into_iter().filter(|(.., share)| *share >= 0.005).map(|(activity, glyph, style, share)| {
        let glyph = if theme.is_solid() { '■' } else { glyph };
        (format!("{glyph} {} {:.0}%", activity.look().word, share * 100.0), style)
    });
    let validation = Some(validation).filter(|share| *share >= 0.01);
    let validation = validation.map(|share| (format!("({} in validation)", format::share(Some(share))), theme.dim()));
    let pieces: Vec<_> = parts.chain(validation).collect();
    piece_lines(count(room), "  ", &pieces).into_iter().next().unwrap_or_default().spans
}
