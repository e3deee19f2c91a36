//! The settings that can be changed while the screen is up. A change shows at once and is saved when the screen closes.

use crossterm::event::{KeyCode, KeyEvent};

use super::App;
use crate::arrangement::Scale;
use crate::message::Effect;
use crate::pages::processes::{COLUMNS, ProcessColumn};
use crate::theme::Depth;
use crate::widgets::menu::moved;
use crate::widgets::{PopupBox, cells};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use trainmon_base::text::{fit, named_enum};

/// Current position in the settings.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Setup {
    /// The person is choosing the columns of the process table.
    pub columns: bool,
    /// Selected row of the settings.
    pub row: usize,
    /// Selected row of the columns.
    pub column: usize,
}

named_enum! {
    /// The settings, with their names.
    enum Setting {
        Theme = "Theme",
        TimeScale = "Time scale",
        LowBandwidth = "Low bandwidth",
        Mouse = "Mouse",
        Ascii = "ASCII only",
        Colors = "Colors",
        Columns = "Process columns",
        Signals = "Signals",
    }
}

/// Width of the box, borders included.
const WIDTH: u16 = 78;
/// Cells from the name to the value, and from there to the hint.
const VALUE: usize = 26;
const HINT: usize = 14;

fn on_off(on: bool) -> String {
    if on { "on" } else { "off" }.to_owned()
}

impl App {
    /// Current value of a setting, and a few words about it.
    fn setting(&self, setting: Setting) -> (String, &'static str) {
        let options = &self.options;
        match setting {
            Setting::Theme => {
                let name = options.themes.get(self.theme_index).map_or("auto", |(name, _)| name.as_str());
                (name.to_owned(), if name == "auto" { "chosen by the terminal's background" } else { "" })
            }
            Setting::TimeScale => (self.scale.to_string(), "time span of the charts, also + and -"),
            Setting::LowBandwidth => (on_off(options.low_bandwidth), "charts sweep, numbers change every 5 s"),
            Setting::Mouse => (on_off(options.mouse), "off: select text with the terminal"),
            Setting::Ascii => (on_off(options.theme.ascii), "for terminals that cannot show Unicode"),
            Setting::Colors if options.depth == Depth::None => (on_off(false), "this terminal has no colors"),
            Setting::Colors => (on_off(options.theme.depth != Depth::None), "colors only repeat what words say"),
            Setting::Columns => {
                (format!("{} of {}", self.pages.processes.columns.len(), COLUMNS.len()), "Enter opens the list")
            }
            Setting::Signals if options.may_signal => (on_off(true), ""),
            Setting::Signals => (on_off(false), "config file: signals = true"),
        }
    }

    /// The columns to choose from: those shown, in their order, then the others.
    fn column_choices(&self) -> Vec<(ProcessColumn, bool)> {
        let shown = &self.pages.processes.columns;
        let others = COLUMNS.into_iter().filter(|column| !shown.contains(column));
        shown.iter().map(|column| (*column, true)).chain(others.map(|column| (column, false))).collect()
    }

    /// The position after a key, `None` if the key closes the settings; and the key's other effects.
    pub(super) fn setup_key(&mut self, mut setup: Setup, key: KeyEvent) -> (Option<Setup>, Vec<Effect>) {
        let (row, rows) = if setup.columns {
            (&mut setup.column, self.column_choices().len())
        } else {
            (&mut setup.row, Setting::ALL.len())
        };
        let mut effects = vec![Effect::Redraw];
        if let Some(to) = moved(*row, rows, rows, key) {
            *row = to;
            return (Some(setup), effects);
        }
        match key.code {
            KeyCode::Esc | KeyCode::Char('q') | KeyCode::F(10) | KeyCode::F(2) => {
                if !setup.columns {
                    return (None, effects);
                }
                setup.columns = false;
            }
            KeyCode::Left if setup.columns => setup.columns = false,
            _ if setup.columns => setup.column = self.column_key(setup.column, key.code),
            KeyCode::Enter | KeyCode::Right | KeyCode::Left | KeyCode::Char(' ') => {
                if let Some(setting) = Setting::ALL.get(setup.row).copied() {
                    setup.columns = setting == Setting::Columns && key.code != KeyCode::Left;
                    effects = self.turn(setting, key.code != KeyCode::Left);
                }
            }
            _ => effects = Vec::new(),
        }
        (Some(setup), effects)
    }

    /// Changes a setting to its next or previous value.
    fn turn(&mut self, setting: Setting, forward: bool) -> Vec<Effect> {
        match setting {
            Setting::Theme => {
                let count = self.options.themes.len().max(1);
                self.set_theme((self.theme_index + if forward { 1 } else { count - 1 }) % count);
            }
            Setting::TimeScale => self.zoom(Scale::next(forward, self.span_s()).unwrap_or(Scale::Auto)),
            Setting::LowBandwidth => {
                self.set_low_bandwidth(!self.options.low_bandwidth);
                // What the terminal shows was drawn the other way.
                return vec![Effect::Repaint, Effect::Redraw];
            }
            Setting::Mouse => return self.take_mouse(!self.options.mouse),
            Setting::Ascii => self.options.theme.ascii = !self.options.theme.ascii,
            Setting::Colors => {
                let colored = self.options.theme.depth != Depth::None;
                self.options.theme.depth = if colored { Depth::None } else { self.options.depth };
            }
            Setting::Columns | Setting::Signals => {}
        }
        vec![Effect::Redraw]
    }

    /// What a key does to the columns when this row is selected; returns the selected row afterward.
    fn column_key(&mut self, row: usize, key: KeyCode) -> usize {
        let choices = self.column_choices();
        let columns = &mut self.pages.processes.columns;
        let Some((column, shown)) = choices.get(row).copied() else { return row };
        match key {
            KeyCode::Enter | KeyCode::Char(' ') if !shown => {
                columns.push(column);
                // The selection stays on its column.
                columns.len() - 1
            }
            // At least one column stays.
            KeyCode::Enter | KeyCode::Char(' ') if columns.len() > 1 => {
                columns.retain(|other| *other != column);
                self.column_choices().iter().position(|(other, _)| *other == column).unwrap_or(row)
            }
            KeyCode::Char('-') if shown && row > 0 => {
                columns.swap(row, row - 1);
                row - 1
            }
            KeyCode::Char('+' | '=') if shown && row + 1 < columns.len() => {
                columns.swap(row, row + 1);
                row + 1
            }
            _ => row,
        }
    }

    /// Draws the list that is open.
    pub(super) fn draw_setup(&self, buf: &mut Buffer, area: Rect, setup: Setup) {
        let theme = self.options.theme;
        if setup.columns {
            let choices = self.column_choices();
            let below = " Enter show or hide · - + move · Esc back ";
            let popup = PopupBox { title: " Process columns ", below, width: WIDTH };
            let row = |(column, is_shown): (ProcessColumn, bool)| {
                let (mark, spec) = (if is_shown { 'x' } else { ' ' }, column.spec());
                let row = format!("[{mark}] {:<12} {}", spec.word, spec.meaning);
                Line::from(fit(&row, usize::from(area.width.min(WIDTH).saturating_sub(4))))
            };
            return popup.list(buf, area, choices.into_iter().map(row), setup.column, theme);
        }
        let below = " Enter Left Right change · Esc close ";
        let popup = PopupBox { title: " Settings ", below, width: WIDTH };
        let rows = Setting::ALL.into_iter().map(|setting| {
            let (value, hint) = self.setting(setting);
            let value = format!("{value:<HINT$}");
            // Half a hint is worse than no hint.
            let room = usize::from(area.width.min(WIDTH).saturating_sub(4))
                .saturating_sub(VALUE + usize::from(cells(&value)));
            let hint = if usize::from(cells(hint)) > room { "" } else { hint };
            Line::from_iter([
                Span::raw(format!("{:<VALUE$}", setting.word())),
                Span::styled(value, theme.strong()),
                Span::styled(hint, theme.dim()),
            ])
        });
        popup.list(buf, area, rows, setup.row, theme);
    }
}
