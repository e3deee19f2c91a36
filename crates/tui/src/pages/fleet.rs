//! The page of `trainmon fleet`: runs over many machines, rank by rank.
//!
//! ```text
//! trainmon fleet  2 runs · 72 ranks · …                      17:03:22
//! RANK MACHINE  GPU  STEP  WAITS  GPU USE VERDICT
//! a run, and what holds it back
//!   its ranks
//! keys
//! ```

use std::sync::Arc;

use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Style;
use ratatui::text::{Line, Span, Text};
use ratatui::widgets::{Cell, Row, Table, Widget};

use super::action::Action;
use super::{Content, Reply};
use crate::theme::{Look, Theme};
use crate::widgets::{Drawn, Extent, Scene, cells, count};
use trainmon_base::text::{fit, wrap};
use trainmon_base::zone;
use trainmon_diagnosis::fleet::Fleet;
use trainmon_views::fleet::{FleetLine, HEADINGS, RankOrder, Tone, is_left, lines, summary, widths};

/// Widest cell of a word on a narrow screen, and on others; screens from [`WIDE_FLEET`] columns on are not narrow.
const NAME_CELLS: usize = 14;
const WIDE_NAME_CELLS: usize = 30;
const WIDE_FLEET: u16 = 110;
/// Cells before each rank.
const INDENT: usize = 1;

/// What the page shows.
#[derive(Debug, Clone, Default)]
pub struct FleetPage {
    order: RankOrder,
    fleet: Option<Arc<Fleet>>,
    /// Why there is nothing newer.
    problem: Option<String>,
}

impl FleetPage {
    /// Takes in what Prometheus has answered, or why it has not.
    pub fn take(&mut self, answer: Result<Arc<Fleet>, String>) {
        match answer {
            Ok(fleet) => (self.fleet, self.problem) = (Some(fleet), None),
            Err(problem) => self.problem = Some(problem),
        }
    }

    fn title(&self, buf: &mut Buffer, area: Rect, scene: &Scene<'_>) {
        let bar = scene.theme.bar();
        buf.set_style(area, bar);
        let moment = self.fleet.as_ref().and_then(|fleet| fleet.unix_s);
        let clock = moment.map(|unix_s| zone::clock((unix_s * 1e3) as i64, scene.zone)).unwrap_or_default();
        let [name, text, clock_area] =
            Layout::horizontal([Constraint::Length(17), Constraint::Fill(1), Constraint::Length(cells(&clock) + 2)])
                .areas(area);
        Span::styled(" trainmon fleet  ", scene.theme.strong()).render(name, buf);
        let summary = match &self.fleet {
            Some(fleet) => summary(fleet, scene.price),
            None => "asking Prometheus…".to_owned(),
        };
        fit(&summary, usize::from(text.width)).render(text, buf);
        Line::from(format!("{clock} ")).right_aligned().render(clock_area, buf);
    }

    /// Draws the rows that fit, from `top` on.
    fn table(&self, buf: &mut Buffer, area: Rect, scene: &Scene<'_>, top: usize) -> Extent {
        let Some(fleet) = &self.fleet else { return Extent::default() };
        let theme = scene.theme;
        let lines = lines(fleet, self.order, scene.price);
        let mut widths = widths(&lines, if area.width >= WIDE_FLEET { WIDE_NAME_CELLS } else { NAME_CELLS });
        let [of_rank, others @ .., of_verdict] = &mut widths;
        *of_rank += INDENT;
        let before = *of_rank + others.iter().map(|width| width + 1).sum::<usize>() + 1;
        *of_verdict = usize::from(area.width).saturating_sub(before);
        let rows: Vec<Row<'_>> = lines.iter().flat_map(|line| rows(line, &widths, area.width, theme)).collect();
        let extent = Extent { top, visible: usize::from(area.height.saturating_sub(1)), total: rows.len() };
        let extent = Extent { top: extent.scrolled(0), ..extent };
        let heading = rank(&HEADINGS, &widths, theme.heading()).style(theme.heading());
        Table::new(rows.into_iter().skip(extent.top), widths.map(|width| Constraint::Length(count(width))))
            .header(heading)
            .render(area, buf);
        extent
    }

    fn footer(&self, buf: &mut Buffer, area: Rect, extent: Extent, theme: Theme) {
        let Extent { top, visible, total } = extent;
        let place = if total > visible {
            format!(" {}–{} of {total}", top + 1, (top + visible).min(total))
        } else {
            String::new()
        };
        let [keys, right] = Layout::horizontal([Constraint::Fill(1), Constraint::Length(cells(&place))]).areas(area);
        let text = format!(" ↑↓ PgUp PgDn scroll · s sort: {} · r ask again · q quit", self.order.word());
        Span::styled(fit(&text, usize::from(keys.width)), theme.dim()).render(keys, buf);
        Span::styled(place, theme.dim()).render(right, buf);
    }
}

impl Content for FleetPage {
    fn draw(&self, buf: &mut Buffer, area: Rect, scene: &Scene<'_>, top: usize, drawn: &mut Drawn) {
        if area.height < 4 {
            return;
        }
        let problem = self.problem.iter().flat_map(|problem| wrap(problem, usize::from(area.width))).take(2);
        let problem = Text::from_iter(problem.map(|row| Line::from(Span::styled(row, scene.theme.warning()))));
        let [title, above, table, footer] = Layout::vertical([
            Constraint::Length(1),
            Constraint::Length(count(problem.lines.len())),
            Constraint::Fill(1),
            Constraint::Length(1),
        ])
        .areas(area);
        self.title(buf, title, scene);
        problem.render(above, buf);
        drawn.page = self.table(buf, table, scene, top);
        self.footer(buf, footer, drawn.page, scene.theme);
    }

    fn act(&mut self, action: Action, _scene: &Scene<'_>) -> Reply {
        if action != Action::NextSort {
            return Reply::Nothing;
        }
        let next = (self.order.index() + 1) % RankOrder::COUNT;
        self.order = RankOrder::ALL.get(next).copied().unwrap_or_default();
        Reply::Changed
    }
}

fn toned(tone: Tone, theme: Theme) -> Style {
    match tone {
        Tone::Plain => Style::new(),
        Tone::Alarm => theme.alarm().patch(theme.strong()),
        Tone::Warning => theme.style(Look::BUSY),
        Tone::Good => theme.good(),
        Tone::Dim => theme.dim(),
    }
}

/// The rows of a line: sentences take several if they are long.
fn rows<'l>(line: &'l FleetLine, widths: &[usize; HEADINGS.len()], width: u16, theme: Theme) -> Vec<Row<'l>> {
    let wrapped = |text: &str, indent: &str, style: Style| {
        let room = usize::from(width).saturating_sub(indent.len());
        let cell = |row: String| Cell::from(format!("{indent}{row}")).column_span(count(HEADINGS.len()));
        wrap(text, room).into_iter().map(|row| Row::new([cell(row)]).style(style)).collect()
    };
    match line {
        FleetLine::Heading(text) => wrapped(text, "", theme.strong()),
        FleetLine::Sentence(text, tone) => wrapped(text, "  ", toned(*tone, theme)),
        FleetLine::Rank(cells, tone, class) => {
            let verdict = match class {
                Some(class) if *tone == Tone::Plain => theme.series(*class),
                _ => Style::new(),
            };
            vec![rank(cells, widths, verdict).style(toned(*tone, theme))]
        }
        FleetLine::Blank => vec![Row::new([""])],
    }
}

/// A row of the table, the last cell in a style of its own.
fn rank<'l>(values: &[impl AsRef<str>; HEADINGS.len()], widths: &[usize; HEADINGS.len()], last: Style) -> Row<'l> {
    let cell = |(at, (value, width)): (usize, (&_, &usize))| {
        let value: &str = AsRef::as_ref(value);
        match at {
            _ if at + 1 == HEADINGS.len() => Cell::from(fit(value, *width)).style(last),
            _ if is_left(at) => Cell::from(fit(value, *width)),
            _ => Cell::from(Line::from(value.to_owned()).right_aligned()),
        }
    };
    Row::from_iter(values.iter().zip(widths).enumerate().map(cell))
}
