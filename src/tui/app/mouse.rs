//! The mouse: the wheel scrolls, a click selects, opens and seeks.

use crossterm::event::{KeyCode, MouseButton, MouseEvent, MouseEventKind};

use super::App;
use crate::tui::keys::Action;
use crate::tui::message::Effect;
use crate::tui::page::Page;
use crate::tui::popup::Popup;
use crate::tui::views;

/// Rows that a turn of the wheel moves.
const WHEEL: isize = 3;

impl App {
    /// Has the mouse reported, or leaves it to the terminal.
    pub(in crate::tui) fn take_mouse(&mut self, on: bool) -> Vec<Effect> {
        self.options.mouse = on;
        vec![Effect::Mouse(on), Effect::Redraw]
    }

    /// What a turn of the wheel, a click or a drag does.
    pub(super) fn mouse(&mut self, mouse: MouseEvent) -> Vec<Effect> {
        if !self.fits() {
            return Vec::new();
        }
        match mouse.kind {
            MouseEventKind::ScrollUp => self.wheel(-WHEEL),
            MouseEventKind::ScrollDown => self.wheel(WHEEL),
            MouseEventKind::Down(MouseButton::Left) => self.click(mouse.column, mouse.row),
            // Nobody sees the charts behind a popup.
            MouseEventKind::Drag(MouseButton::Left) if self.popup.is_none() => self.seek(mouse.column, mouse.row),
            _ => Vec::new(),
        }
    }

    fn wheel(&mut self, by: isize) -> Vec<Effect> {
        match self.popup {
            Some(Popup::Detail) => return self.scroll_detail(by),
            Some(Popup::Jobs(_)) => {
                let key = if by < 0 { KeyCode::Up } else { KeyCode::Down };
                return self.on_list(|list, jobs, area| list.key(key.into(), jobs, area));
            }
            Some(Popup::Menu(_) | Popup::Confirm(_) | Popup::Setup(_) | Popup::Summary) => return Vec::new(),
            None | Some(Popup::Prompt(_)) => {}
        }
        let action = if by < 0 { Action::Up } else { Action::Down };
        let mut effects = Vec::new();
        for _ in 0..by.unsigned_abs() {
            effects = self.page_act(action);
        }
        effects
    }

    fn click(&mut self, column: u16, row: u16) -> Vec<Effect> {
        if matches!(self.popup, Some(Popup::Jobs(_))) {
            return self.on_list(|list, _, area| list.click(column, row, area));
        }
        if self.popup.is_some() {
            return Vec::new();
        }
        if row.saturating_add(1) == self.size.1 {
            let Some(page) = views::tab_at(self, self.size.0, column) else { return Vec::new() };
            self.go(page);
            return vec![Effect::Redraw];
        }
        let body = self.body();
        if self.page != Page::Overview && !body.contains((column, row).into()) {
            return Vec::new();
        }
        let Some((page, pages, seen)) = self.on_pages() else { return Vec::new() };
        let reply = match page {
            Page::Processes => pages.processes.click(column, row, &seen),
            Page::Stacks => pages.stacks.click(row, &seen),
            _ => return self.seek(column, row),
        };
        self.reply(reply, Action::Enter)
    }

    /// A click on a chart looks at that moment.
    fn seek(&mut self, column: u16, row: u16) -> Vec<Effect> {
        let Some(chart) = views::chart_at(self, self.area(), column, row) else { return Vec::new() };
        let (_, end) = self.window(chart.width).ns_of(column - chart.x);
        let span_s = self.span_s();
        self.travel(|job| job.seek(end, span_s));
        vec![Effect::Redraw]
    }
}
