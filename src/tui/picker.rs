//! The first screen where no PID was given: the list of processes that may be training, full size, without a job.

use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers, MouseButton, MouseEventKind};
use ratatui::layout::Rect;

use super::jobs::{JobList, Wish};
use super::message::{Effect, Message};
use super::theme::Theme;

/// What the first screen knows.
#[derive(Debug, Clone)]
pub struct Picker {
    pub(in crate::tui) list: JobList,
    pub(in crate::tui) theme: Theme,
    size: (u16, u16),
}

impl Picker {
    /// A first screen of `size` (columns, rows), before anything was looked at.
    #[must_use]
    pub fn new(theme: Theme, size: (u16, u16)) -> Self {
        let mut list = JobList::default();
        list.refresh(&[], Rect::new(0, 0, size.0, size.1));
        Self { list, theme, size }
    }

    /// Takes in what happened and says what is to be done about it: [`Effect::Attach`] is the choice, [`Effect::Quit`]
    /// that there is none.
    pub fn update(&mut self, message: Message) -> Vec<Effect> {
        let area = Rect::new(0, 0, self.size.0, self.size.1);
        let wish = match message {
            Message::Key(key) if key.kind == KeyEventKind::Release => Wish::Nothing,
            Message::Key(key) => match self.own(key) {
                Some(effect) => return vec![effect],
                None => self.list.key(key, &[], area),
            },
            Message::Mouse(mouse) => match mouse.kind {
                MouseEventKind::ScrollUp => self.list.key(KeyCode::Up.into(), &[], area),
                MouseEventKind::ScrollDown => self.list.key(KeyCode::Down.into(), &[], area),
                MouseEventKind::Down(MouseButton::Left) => self.list.click(mouse.column, mouse.row, area),
                _ => Wish::Nothing,
            },
            Message::Paste(text) => self.list.paste(&text, &[], area),
            Message::Resize(columns, rows) => {
                self.size = (columns, rows);
                self.list.refresh(&[], Rect::new(0, 0, columns, rows));
                Wish::Changed
            }
            Message::Candidates(list) => {
                self.list.take(list, &[], area);
                Wish::Changed
            }
            Message::Notice(text) => {
                self.list.note = Some(text);
                Wish::Changed
            }
            Message::Quit => return vec![Effect::Quit],
            _ => Wish::Nothing,
        };
        match wish {
            Wish::Attach(pid) => vec![Effect::Attach(pid), Effect::Redraw],
            Wish::Nothing => Vec::new(),
            // There is nothing below the list that closing it could show, and no job that could be shown or let go.
            Wish::Changed | Wish::Close | Wish::Show(_) | Wish::Detach(_) => vec![Effect::Redraw],
        }
    }

    /// Keys that are not the list's own here.
    fn own(&self, key: KeyEvent) -> Option<Effect> {
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return match key.code {
                KeyCode::Char('c') => Some(Effect::Quit),
                KeyCode::Char('z') => Some(Effect::Suspend),
                KeyCode::Char('l') => Some(Effect::Repaint),
                _ => None,
            };
        }
        let typing = self.list.prompt.is_some() || self.list.confirm.is_some();
        (!typing && matches!(key.code, KeyCode::Char('q') | KeyCode::F(10))).then_some(Effect::Quit)
    }
}
