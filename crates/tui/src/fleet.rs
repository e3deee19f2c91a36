//! The screen of `trainmon fleet`: runs over many machines, rank by rank.
//!
//! ```text
//! trainmon fleet  2 runs · 72 ranks · …                      17:03:22
//! RANK MACHINE  GPU  STEP  WAITS  GPU USE VERDICT
//! a run, and what holds it back
//!   its ranks
//! keys
//! ```

use std::sync::Arc;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers, MouseEventKind};
use jiff::tz::TimeZone;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

use super::app::view::fold_to_ascii;
use super::message::{Effect, Message};
use super::pages::action::Action;
use super::pages::keys::action;
use super::theme::{Look, Theme};
use super::widgets::table::set;
use super::widgets::{Extent, count, write, write_fit, write_right};
use trainmon_base::text::wrap;
use trainmon_base::zone;
use trainmon_diagnosis::diagnosis::verdict::Class;
use trainmon_diagnosis::fleet::Fleet;
use trainmon_views::cost::Price;
use trainmon_views::fleet::{FleetLine, HEADINGS, RankOrder, Tone, is_left, lines, summary, widths};

/// Widest cell of a word on a narrow screen, and on others; screens from [`WIDE_FLEET`] columns on are not narrow.
const NAME_CELLS: usize = 14;
const WIDE_NAME_CELLS: usize = 30;
const WIDE_FLEET: u16 = 110;
/// Lines by which the wheel scrolls.
const WHEEL: isize = 3;
/// Cells before each rank.
const INDENT: u16 = 1;

/// What the screen shows.
#[derive(Debug)]
pub struct FleetView {
    theme: Theme,
    zone: TimeZone,
    price: Option<Price>,
    order: RankOrder,
    fleet: Option<Arc<Fleet>>,
    /// Why there is nothing newer.
    problem: Option<String>,
    extent: Extent,
}

impl FleetView {
    /// A screen that waits for the first answer.
    pub fn new(theme: Theme, zone: TimeZone, price: Option<Price>) -> Self {
        let (order, extent) = (RankOrder::default(), Extent::default());
        Self { theme, zone, price, order, fleet: None, problem: None, extent }
    }

    /// Takes in what happened and says what is to be done about it.
    pub fn update(&mut self, message: Message) -> Vec<Effect> {
        match message {
            Message::Quit => return vec![Effect::Quit],
            Message::Key(key) => return self.key(key),
            Message::Mouse(mouse) => match mouse.kind {
                MouseEventKind::ScrollDown => self.scroll(WHEEL),
                MouseEventKind::ScrollUp => self.scroll(-WHEEL),
                _ => return Vec::new(),
            },
            Message::Fleet(Ok(fleet)) => (self.fleet, self.problem) = (Some(fleet), None),
            Message::Fleet(Err(problem)) => self.problem = Some(problem),
            Message::Resize(..) => {}
            _ => return Vec::new(),
        }
        vec![Effect::Redraw]
    }

    fn key(&mut self, key: KeyEvent) -> Vec<Effect> {
        match key.code {
            KeyCode::Char('s') if key.modifiers == KeyModifiers::NONE => {
                let next = (self.order.index() + 1) % RankOrder::COUNT;
                self.order = RankOrder::ALL.get(next).copied().unwrap_or_default();
                return vec![Effect::Redraw];
            }
            KeyCode::Char('r') if key.modifiers == KeyModifiers::NONE => return vec![Effect::Refresh],
            _ => {}
        }
        match action(key) {
            Some(Action::Quit) => vec![Effect::Quit],
            Some(Action::Suspend) => vec![Effect::Suspend],
            Some(Action::Redraw) => vec![Effect::Repaint],
            action => match action.and_then(|action| action.rows(self.extent.visible)) {
                Some(by) => {
                    self.scroll(by);
                    vec![Effect::Redraw]
                }
                None => Vec::new(),
            },
        }
    }

    fn scroll(&mut self, by: isize) {
        self.extent.top = self.extent.scrolled(by);
    }

    /// Draws the screen into an empty buffer.
    pub fn draw(&mut self, buf: &mut Buffer) {
        let area = buf.area;
        let row = |y: u16| Rect { y: area.y + y, height: 1, ..area };
        if area.height < 4 {
            return;
        }
        self.title(buf, row(0));
        let mut y = 1;
        if let Some(problem) = &self.problem {
            for line in wrap(problem, usize::from(area.width)).iter().take(2) {
                write_fit(buf, row(y), line, self.theme.warning());
                y += 1;
            }
        }
        let body = Rect { y: area.y + y + 1, height: area.height.saturating_sub(y + 2), ..area };
        self.table(buf, row(y), body);
        self.footer(buf, row(area.height - 1));
        fold_to_ascii(buf, self.theme.ascii);
    }

    fn title(&self, buf: &mut Buffer, area: Rect) {
        let bar = self.theme.bar();
        buf.set_style(area, bar);
        let moment = self.fleet.as_ref().and_then(|fleet| fleet.unix_s);
        let clock = moment.map(|unix_s| zone::clock((unix_s * 1e3) as i64, &self.zone)).unwrap_or_default();
        let end = write_right(buf, area.x, area.y, area.right().saturating_sub(1), &clock, bar).saturating_sub(1);
        let x = write(buf, area.x, area.y, end, " trainmon fleet  ", bar.patch(self.theme.strong()));
        let text = match &self.fleet {
            Some(fleet) => summary(fleet, self.price.as_ref()),
            None => "asking Prometheus…".to_owned(),
        };
        write_fit(buf, Rect { x, width: end.saturating_sub(x), ..area }, &text, bar);
    }

    fn table(&mut self, buf: &mut Buffer, heading: Rect, body: Rect) {
        let Some(fleet) = &self.fleet else { return };
        let lines = lines(fleet, self.order, self.price.as_ref());
        let widths = widths(&lines, if body.width >= WIDE_FLEET { WIDE_NAME_CELLS } else { NAME_CELLS });
        let theme = self.theme;
        buf.set_style(heading, theme.heading());
        cells(buf, heading, &HEADINGS, &widths, [theme.heading(); 2]);
        let rows: Vec<FleetRow<'_>> = lines.iter().flat_map(|line| rows(line, body.width)).collect();
        self.extent = Extent { visible: usize::from(body.height), total: rows.len(), ..self.extent };
        self.extent.top = self.extent.scrolled(0);
        for (row, area) in rows.iter().skip(self.extent.top).zip(body.rows()) {
            match row {
                FleetRow::Text(text, style) => {
                    write_fit(buf, area, text, style.in_theme(theme));
                }
                FleetRow::Rank(values, tone, class) => {
                    let own = Style::new();
                    let style = if *tone == Tone::Plain { own } else { RowStyle::Toned(*tone).in_theme(theme) };
                    let verdict = match class {
                        Some(class) if *tone == Tone::Plain => theme.series(*class),
                        _ => style,
                    };
                    cells(buf, area, values, &widths, [style, verdict]);
                }
            }
        }
    }

    fn footer(&self, buf: &mut Buffer, area: Rect) {
        let Extent { top, visible, total } = self.extent;
        let place = if total > visible {
            format!("{}–{} of {total}", top + 1, (top + visible).min(total))
        } else {
            String::new()
        };
        let end = write_right(buf, area.x, area.y, area.right(), &place, self.theme.dim()).saturating_sub(1);
        let keys = format!(" ↑↓ PgUp PgDn scroll · s sort: {} · r ask again · q quit", self.order.word());
        write_fit(buf, Rect { width: end.saturating_sub(area.x), ..area }, &keys, self.theme.dim());
    }
}

/// How a row of text is drawn.
enum RowStyle {
    Heading,
    Toned(Tone),
}

impl RowStyle {
    fn in_theme(&self, theme: Theme) -> Style {
        match self {
            Self::Heading => theme.strong(),
            Self::Toned(Tone::Plain) => Style::new(),
            Self::Toned(Tone::Alarm) => theme.alarm().patch(theme.strong()),
            Self::Toned(Tone::Warning) => theme.style(Look::BUSY),
            Self::Toned(Tone::Good) => theme.good(),
            Self::Toned(Tone::Dim) => theme.dim(),
        }
    }
}

/// A row of the screen: sentences take several if they are long.
enum FleetRow<'l> {
    Text(String, RowStyle),
    Rank(&'l [String; HEADINGS.len()], Tone, Option<Class>),
}

fn rows(line: &FleetLine, width: u16) -> Vec<FleetRow<'_>> {
    let wrapped = |text: &str, indent: &str| {
        let room = usize::from(width.saturating_sub(count(indent.len())));
        wrap(text, room).into_iter().map(|row| format!("{indent}{row}")).collect::<Vec<_>>()
    };
    match line {
        FleetLine::Heading(text) => {
            wrapped(text, "").into_iter().map(|row| FleetRow::Text(row, RowStyle::Heading)).collect()
        }
        FleetLine::Sentence(text, tone) => {
            wrapped(text, "  ").into_iter().map(|row| FleetRow::Text(row, RowStyle::Toned(*tone))).collect()
        }
        FleetLine::Rank(cells, tone, class) => vec![FleetRow::Rank(cells, *tone, *class)],
        FleetLine::Blank => vec![FleetRow::Text(String::new(), RowStyle::Toned(Tone::Plain))],
    }
}

/// Draws a row of the table, the last cell in a style of its own.
fn cells(
    buf: &mut Buffer,
    area: Rect,
    values: &[impl AsRef<str>; HEADINGS.len()],
    widths: &[usize; HEADINGS.len()],
    [style, last]: [Style; 2],
) {
    let mut x = area.x + INDENT;
    for (at, (value, width)) in values.iter().zip(widths).enumerate() {
        if at + 1 == HEADINGS.len() {
            write_fit(
                buf,
                Rect { x: x + 1, width: area.right().saturating_sub(x + 1), ..area },
                value.as_ref(),
                last,
            );
            return;
        }
        let width = i16::try_from(*width).unwrap_or(i16::MAX - 1);
        let cell = set(value.as_ref(), if is_left(at) { -(width + 1) } else { width });
        let cell = if is_left(at) || at == 0 { cell } else { format!(" {cell}") };
        x = write(buf, x, area.y, area.right(), &cell, style) + u16::from(at == 0);
    }
}
