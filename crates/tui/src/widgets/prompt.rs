//! A text prompt.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::Widget;

use crate::theme::Theme;
use trainmon_base::text::sanitize;

/// Longest text, bytes: a paste of a megabyte is not a file name.
const TEXT_MAX: usize = 512;

/// The purpose of a typed text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PromptKind {
    /// Show only what matches.
    Filter,
    /// Go to what matches.
    Search,
    /// Attach to this process.
    Pid,
}

/// A text prompt.
#[derive(Debug, Clone)]
pub struct Prompt {
    /// Its purpose.
    pub purpose: PromptKind,
    /// The text typed so far.
    pub text: String,
    /// The previous text: Esc restores it.
    before: String,
}

/// Whether one of these texts, ignoring case, or a number contains the typed text.
pub fn is_in<const N: usize>(typed: &str, texts: [&str; N], number: u32) -> bool {
    let typed = typed.to_lowercase();
    typed.is_empty()
        || texts.into_iter().any(|text| text.to_lowercase().contains(&typed))
        || number.to_string().contains(&typed)
}

/// The result of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Typed {
    /// Nothing visible.
    Nothing,
    /// The text has changed.
    Changed,
    /// The text is final: Enter, or Esc with the previous text.
    Done,
    /// Go to the next match.
    Next,
}

impl Prompt {
    /// A prompt that starts with the current text.
    pub fn new(purpose: PromptKind, before: &str) -> Self {
        Self { purpose, text: before.to_owned(), before: before.to_owned() }
    }

    /// What a key does.
    pub fn key(&mut self, key: KeyEvent) -> Typed {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Enter => return Typed::Done,
            KeyCode::Esc => {
                self.text.clone_from(&self.before);
                return Typed::Done;
            }
            KeyCode::F(3) if self.purpose == PromptKind::Search => return Typed::Next,
            KeyCode::Backspace => {
                self.text.pop();
            }
            KeyCode::Char('u') if control => self.text.clear(),
            KeyCode::Char('w') if control => {
                let end = self.text.trim_end().rfind(' ').map_or(0, |space| space + 1);
                self.text.truncate(end);
            }
            KeyCode::Char(c) if !control && !key.modifiers.contains(KeyModifiers::ALT) => self.push(c),
            _ => return Typed::Nothing,
        }
        Typed::Changed
    }

    /// Takes pasted text, its first line.
    pub fn paste(&mut self, text: &str) {
        text.chars().take(TEXT_MAX).take_while(|c| *c != '\n' && *c != '\r').for_each(|c| self.push(c));
    }

    fn push(&mut self, c: char) {
        if !c.is_control() && self.text.len() + c.len_utf8() <= TEXT_MAX {
            self.text.push(c);
        }
    }

    /// Draws it on one row; the end of the typed text stays visible.
    pub fn draw(&self, buf: &mut Buffer, area: Rect, theme: Theme) {
        let word = match self.purpose {
            PromptKind::Filter => "Filter:",
            PromptKind::Search => "Search:",
            PromptKind::Pid => "Attach to PID:",
        };
        let room = usize::from(area.width).saturating_sub(word.len() + 2);
        let skip = self.text.chars().count().saturating_sub(room);
        let text: String = self.text.chars().skip(skip).collect();
        let text = Span::styled(sanitize(&text).into_owned() + "_", theme.strong());
        Line::from_iter([Span::styled(word, theme.bar()), Span::raw(" "), text]).render(area, buf);
    }
}
