//! A list to choose from, and a yes-or-no question.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::Line;

use super::popup::PopupBox;
use super::text::cells;
use crate::message::Effect;
use crate::theme::Theme;
use trainmon_base::text::wrap;

/// Maximum width of a question.
const WIDTH: u16 = 70;

/// The result of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MenuOutcome<C> {
    /// Nothing visible.
    Nothing,
    /// The selection has moved.
    Changed,
    /// Close it.
    Close,
    /// Close it; this was chosen or confirmed.
    Chosen(C),
}

/// A list to choose from.
#[derive(Debug, Clone)]
pub struct Menu<C> {
    /// What the choice is about.
    pub title: String,
    /// The choices.
    pub items: Vec<MenuItem<C>>,
    /// The selected one.
    pub selected: usize,
}

/// A choice: the key that chooses it at once, its text, and its value.
#[derive(Debug, Clone)]
pub struct MenuItem<C> {
    /// The key.
    pub key: char,
    /// The text.
    pub text: String,
    /// The value.
    pub choice: C,
}

impl<C: Clone> Menu<C> {
    /// What a key does.
    pub fn key(&mut self, key: KeyEvent) -> MenuOutcome<C> {
        let chosen = match key.code {
            KeyCode::Enter => self.items.get(self.selected),
            KeyCode::Char(c) => match self.items.iter().find(|item| item.key == c) {
                None if c != 'q' => return MenuOutcome::Nothing,
                found => found,
            },
            KeyCode::Esc | KeyCode::F(10) => None,
            _ => {
                let rows = self.items.len();
                let Some(to) = moved(self.selected, rows, rows, key) else { return MenuOutcome::Nothing };
                self.selected = to;
                return MenuOutcome::Changed;
            }
        };
        chosen.map_or(MenuOutcome::Close, |item| MenuOutcome::Chosen(item.choice.clone()))
    }

    /// Draws it.
    pub fn draw(&self, buf: &mut Buffer, area: Rect, theme: Theme) {
        let widest = self.items.iter().map(|item| cells(&item.text)).max().unwrap_or(0).max(cells(&self.title));
        let title = format!(" {} ", self.title);
        let popup = PopupBox { title: &title, below: " Enter choose · Esc close ", width: widest.saturating_add(9) };
        let rows = self.items.iter().map(|item| Line::from(format!("{}  {}", item.key, item.text)));
        popup.list(buf, area, rows, self.selected, theme);
    }
}

/// New selection after a key in a list of so many rows, `page` of which are visible.
pub fn moved(selected: usize, rows: usize, page: usize, key: KeyEvent) -> Option<usize> {
    if key.modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT) {
        return None;
    }
    let to = match key.code {
        KeyCode::Up | KeyCode::Char('k') => selected.saturating_sub(1),
        KeyCode::Down | KeyCode::Char('j') => selected + 1,
        KeyCode::PageUp => selected.saturating_sub(page.max(1)),
        KeyCode::PageDown => selected + page.max(1),
        KeyCode::Home | KeyCode::Char('g') => 0,
        KeyCode::End | KeyCode::Char('G') => rows,
        _ => return None,
    };
    Some(to.min(rows.saturating_sub(1)))
}

/// A question, and the result of a yes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Confirm {
    /// One sentence.
    pub question: String,
    /// The result of a yes.
    pub effect: Effect,
}

impl Confirm {
    /// What a key does: only y means yes, so that no key pressed for another purpose confirms anything.
    pub fn key(&self, key: KeyEvent) -> MenuOutcome<Effect> {
        match key.code {
            KeyCode::Char('y' | 'Y') if !key.modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT) => {
                MenuOutcome::Chosen(self.effect.clone())
            }
            KeyCode::Char('n' | 'N' | 'q') | KeyCode::Esc => MenuOutcome::Close,
            _ => MenuOutcome::Nothing,
        }
    }

    /// Draws it.
    pub fn draw(&self, buf: &mut Buffer, area: Rect, theme: Theme) {
        let width = WIDTH.min(area.width.saturating_sub(4));
        let lines = wrap(&self.question, usize::from(width.saturating_sub(4)));
        let lines: Vec<_> = lines.into_iter().map(|line| (line, theme.strong())).collect();
        let popup = PopupBox { title: " Sure? ", below: " y yes · n or Esc no ", width };
        popup.text(buf, area, 1, &lines, theme);
    }
}
