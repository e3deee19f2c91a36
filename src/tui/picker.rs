//! The first screen where no PID was given: the list of processes that may be training, full size, without a job.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEventKind};
use ratatui::buffer::Buffer;

use super::app::view::fold_to_ascii;
use super::jobs::{JobList, Wish, view};
use super::message::{Effect, Message};
use super::theme::Theme;
use super::widgets::{Drawn, Hit};

/// What the first screen knows.
#[derive(Debug, Clone)]
pub struct Picker {
    list: JobList,
    theme: Theme,
    drawn: Drawn,
}

impl Picker {
    /// A first screen, before anything was looked at.
    #[must_use]
    pub fn new(theme: Theme) -> Self {
        let mut list = JobList::default();
        list.refresh(&[]);
        Self { list, theme, drawn: Drawn::default() }
    }

    /// Draws it into `buf`, which must be empty.
    pub fn draw(&self, buf: &mut Buffer) -> Drawn {
        let drawn = view::draw_first(buf, &self.list, self.theme);
        fold_to_ascii(buf, self.theme.ascii);
        drawn
    }

    /// Takes in what was drawn where.
    pub fn set_drawn(&mut self, drawn: Drawn) {
        self.list.top = drawn.popup.top;
        self.drawn = drawn;
    }

    /// Takes in what happened and says what is to be done about it: [`Effect::Attach`] is the choice, [`Effect::Quit`]
    /// that there is none.
    pub fn update(&mut self, message: Message) -> Vec<Effect> {
        let visible = self.drawn.popup.visible;
        let wish = match message {
            Message::Key(key) => match self.own(key) {
                Some(effect) => return vec![effect],
                None => self.list.key(key, &[], visible),
            },
            Message::Mouse(mouse) => match mouse.kind {
                MouseEventKind::ScrollUp => self.list.key(KeyCode::Up.into(), &[], visible),
                MouseEventKind::ScrollDown => self.list.key(KeyCode::Down.into(), &[], visible),
                MouseEventKind::Down(MouseButton::Left) => match self.drawn.at(mouse.column, mouse.row) {
                    Some((_, Hit::Row(line))) => self.list.click(line),
                    _ => Wish::Nothing,
                },
                _ => Wish::Nothing,
            },
            Message::Paste(text) => self.list.paste(&text, &[]),
            Message::Resize(..) => Wish::Changed,
            Message::Candidates(list) => {
                self.list.take(list, &[]);
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
