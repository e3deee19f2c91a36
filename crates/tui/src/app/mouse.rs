//! The mouse: the wheel scrolls, a click selects, opens and seeks.

use crossterm::event::{KeyCode, MouseButton, MouseEvent, MouseEventKind};
use ratatui::layout::Rect;

use super::App;
use super::popup::Popup;
use crate::message::Effect;
use crate::pages::Page;
use crate::pages::action::Action;
use crate::widgets::Hit;

/// Rows that one turn of the wheel moves.
const WHEEL: isize = 3;

impl App {
    /// Turns mouse reporting on, or leaves the mouse to the terminal.
    pub(super) fn take_mouse(&mut self, on: bool) -> Vec<Effect> {
        self.options.mouse = on;
        vec![Effect::Mouse(on), Effect::Redraw]
    }

    /// Takes the mouse, or leaves it to the terminal, and says so.
    pub(super) fn switch_mouse(&mut self) -> Vec<Effect> {
        let effects = self.take_mouse(!self.options.mouse);
        let whose = if self.options.mouse { "ours" } else { "left to the terminal: you can select text" };
        self.say(&format!("mouse {whose}"));
        effects
    }

    /// Handles a turn of the wheel, a click or a drag.
    pub(super) fn mouse(&mut self, mouse: MouseEvent) -> Vec<Effect> {
        if !self.fits() {
            return Vec::new();
        }
        let hit = self.drawn.at(mouse.column, mouse.row);
        match mouse.kind {
            MouseEventKind::ScrollUp => self.wheel(-WHEEL),
            MouseEventKind::ScrollDown => self.wheel(WHEEL),
            MouseEventKind::Down(MouseButton::Left) => hit.map_or_else(Vec::new, |hit| self.click(mouse.column, hit)),
            // The charts behind a popup are hidden.
            MouseEventKind::Drag(MouseButton::Left) if self.popup.is_none() && self.list.is_none() => match hit {
                Some((area, Hit::Chart | Hit::Ruler)) => self.seek(mouse.column, area),
                _ => Vec::new(),
            },
            _ => Vec::new(),
        }
    }

    fn wheel(&mut self, by: isize) -> Vec<Effect> {
        match self.popup {
            Some(Popup::Detail) => return self.scroll_detail(by),
            Some(Popup::Menu(_) | Popup::Confirm(_) | Popup::Setup(_) | Popup::Summary | Popup::Output) => {
                return Vec::new();
            }
            None | Some(Popup::Prompt(_)) => {}
        }
        if self.list.is_some() {
            let key = if by < 0 { KeyCode::Up } else { KeyCode::Down };
            return self.on_list(|list, jobs, rows| list.key(key.into(), jobs, rows));
        }
        let action = if by < 0 { Action::Up } else { Action::Down };
        let mut effects = Vec::new();
        for _ in 0..by.unsigned_abs() {
            effects = self.page_act(action);
        }
        effects
    }

    fn click(&mut self, column: u16, (area, hit): (Rect, Hit)) -> Vec<Effect> {
        if self.list.is_some() {
            return match (hit, &self.popup) {
                (Hit::Row(row), None | Some(Popup::Prompt(_))) => self.on_list(|list, _, _| list.click(row)),
                _ => Vec::new(),
            };
        }
        match hit {
            _ if self.popup.is_some() => Vec::new(),
            Hit::Tab(place) => {
                self.go(Page::ALL.get(place).copied().unwrap_or_default());
                vec![Effect::Redraw]
            }
            Hit::Chart | Hit::Ruler => self.seek(column, area),
            hit => {
                let (page, scene) = self.on_page();
                let reply = page.click(hit, &scene);
                self.reply(reply)
            }
        }
    }

    /// A click on a chart shows that moment.
    fn seek(&mut self, column: u16, chart: Rect) -> Vec<Effect> {
        let (_, end) = self.scene().window(chart.width).ns_of(column - chart.x);
        self.travel(|job| job.seek(end));
        vec![Effect::Redraw]
    }
}
