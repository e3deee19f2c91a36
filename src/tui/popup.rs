//! What may lie over a page: a menu, a question, a line to type into, the list of jobs. A popup takes the keys first.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::jobs::JobList;
use super::keys::Action;
use super::message::{Effect, Export};
use super::setup::Setup;

/// Longest text of a prompt, bytes: a paste of a megabyte is not a file name.
const TEXT_MAX: usize = 512;

/// What lies over the page.
#[derive(Debug, Clone)]
pub enum Popup {
    /// The selected process in full.
    Detail,
    /// One of several.
    Menu(Menu),
    /// Yes or no.
    Confirm(Confirm),
    /// A line of text.
    Prompt(Prompt),
    /// Jobs to switch to or to attach to.
    Jobs(Box<JobList>),
    /// What can be set while the screen is up.
    Setup(Setup),
    /// The run of a job that has ended, summed up.
    Summary,
}

/// A list to choose from.
#[derive(Debug, Clone)]
pub struct Menu {
    /// What is chosen.
    pub title: String,
    /// The choices.
    pub items: Vec<Item>,
    /// The selected one.
    pub selected: usize,
}

/// A choice.
#[derive(Debug, Clone)]
pub struct Item {
    /// The key that chooses it at once.
    pub key: Option<char>,
    /// In words.
    pub text: String,
    /// What it is.
    pub choice: Choice,
}

/// What can be chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Choice {
    /// Save this.
    Export(Export),
    /// Ask this, then do it.
    Ask(Confirm),
    /// What a key does.
    Act(Action),
}

/// A question, and what a yes does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Confirm {
    /// One sentence.
    pub question: String,
    /// Done on yes.
    pub effect: Effect,
}

/// What a typed text is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Show only what matches.
    Filter,
    /// Go to what matches.
    Search,
    /// Attach to this process.
    Pid,
}

impl Purpose {
    /// The word before the text.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Filter => "Filter:",
            Self::Search => "Search:",
            Self::Pid => "Attach to PID:",
        }
    }
}

/// A line of text that is being typed.
#[derive(Debug, Clone)]
pub struct Prompt {
    /// What it is for.
    pub purpose: Purpose,
    /// As typed so far.
    pub text: String,
    /// What stood before: Esc brings it back.
    pub before: String,
}

/// What a key did to a popup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing that shows.
    Nothing,
    /// It looks different.
    Changed,
    /// Close it.
    Close,
    /// Close it; this was chosen.
    Chosen(Choice),
    /// Close it; do this.
    Confirmed(Effect),
    /// The text is now this; `done` closes the prompt.
    Typed {
        /// Enter or Esc.
        done: bool,
    },
    /// Go to the next match.
    Next,
}

impl Menu {
    /// What a key does.
    pub fn key(&mut self, key: KeyEvent) -> Outcome {
        let last = self.items.len().saturating_sub(1);
        match key.code {
            KeyCode::Esc | KeyCode::F(10) => return Outcome::Close,
            KeyCode::Up => self.selected = self.selected.saturating_sub(1),
            KeyCode::Down => self.selected = (self.selected + 1).min(last),
            KeyCode::Home | KeyCode::PageUp => self.selected = 0,
            KeyCode::End | KeyCode::PageDown => self.selected = last,
            KeyCode::Enter => {
                let chosen = self.items.get(self.selected).map(|item| item.choice.clone());
                return chosen.map_or(Outcome::Close, Outcome::Chosen);
            }
            KeyCode::Char(c) => {
                let chosen = self.items.iter().find(|item| item.key == Some(c)).map(|item| item.choice.clone());
                return match (chosen, c) {
                    (Some(choice), _) => Outcome::Chosen(choice),
                    (None, 'q') => Outcome::Close,
                    _ => Outcome::Nothing,
                };
            }
            _ => return Outcome::Nothing,
        }
        Outcome::Changed
    }
}

impl Confirm {
    /// What a key does: only y says yes, so that no key pressed for something else does.
    #[must_use]
    pub fn key(&self, key: KeyEvent) -> Outcome {
        match key.code {
            KeyCode::Char('y' | 'Y') if !key.modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT) => {
                Outcome::Confirmed(self.effect.clone())
            }
            KeyCode::Char('n' | 'N' | 'q') | KeyCode::Esc => Outcome::Close,
            _ => Outcome::Nothing,
        }
    }
}

impl Prompt {
    /// A prompt that begins with what stands.
    #[must_use]
    pub fn new(purpose: Purpose, before: &str) -> Self {
        Self { purpose, text: before.to_owned(), before: before.to_owned() }
    }

    /// What a key does.
    pub fn key(&mut self, key: KeyEvent) -> Outcome {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Enter => return Outcome::Typed { done: true },
            KeyCode::Esc => {
                self.text.clone_from(&self.before);
                return Outcome::Typed { done: true };
            }
            KeyCode::F(3) if self.purpose == Purpose::Search => return Outcome::Next,
            KeyCode::Backspace => {
                self.text.pop();
            }
            KeyCode::Char('u') if control => self.text.clear(),
            KeyCode::Char('w') if control => {
                let end = self.text.trim_end().rfind(' ').map_or(0, |space| space + 1);
                self.text.truncate(end);
            }
            KeyCode::Char(c) if !control && !key.modifiers.contains(KeyModifiers::ALT) => self.push(c),
            _ => return Outcome::Nothing,
        }
        Outcome::Typed { done: false }
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
}
