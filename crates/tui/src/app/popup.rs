//! What can cover a page, and what keys do to it. A popup gets keys first.

use crossterm::event::{KeyCode, KeyEvent};

use super::App;
use super::setup::Setup;
use crate::message::Effect;
use crate::pages::Reply;
use crate::pages::keys::{self, Action};
use crate::widgets::{Confirm, Menu, MenuOutcome, Prompt, Typed};

/// What covers the page.
#[derive(Debug, Clone)]
pub enum Popup {
    /// The selected row in full.
    Detail,
    /// A choice of several.
    Menu(Menu<Reply>),
    /// A yes-or-no question.
    Confirm(Confirm),
    /// A line of text.
    Prompt(Prompt),
    /// The settings that can be changed while the screen is up.
    Setup(Setup),
    /// The summary of a job that has ended.
    Summary,
    /// The last lines that the program wrote.
    Output,
}

impl App {
    /// What a key does to the popup; `None` if the popup has no use for it.
    pub(super) fn popup_key(&mut self, key: KeyEvent) -> Option<Vec<Effect>> {
        let closes = matches!(key.code, KeyCode::Esc | KeyCode::Enter);
        match self.popup.as_mut()? {
            Popup::Detail if closes || key.code == KeyCode::Char('q') => self.popup = None,
            // It scrolls; other keys go to the page.
            Popup::Detail => {
                let by = keys::action(key)?.rows(self.drawn.page.visible)?;
                return Some(self.scroll_detail(by));
            }
            Popup::Menu(menu) => match menu.key(key) {
                MenuOutcome::Nothing => return Some(Vec::new()),
                MenuOutcome::Changed => {}
                MenuOutcome::Close => self.popup = None,
                MenuOutcome::Chosen(reply) => {
                    self.popup = None;
                    return Some(self.reply(reply));
                }
            },
            Popup::Confirm(confirm) => match confirm.key(key) {
                MenuOutcome::Nothing | MenuOutcome::Changed => return Some(Vec::new()),
                MenuOutcome::Close => self.popup = None,
                MenuOutcome::Chosen(effect) => {
                    self.popup = None;
                    let effects = if let Effect::Detach(job) = effect { self.detach(job) } else { vec![effect] };
                    return Some([effects, vec![Effect::Redraw]].concat());
                }
            },
            Popup::Prompt(prompt) => match prompt.key(key) {
                Typed::Nothing => return Some(Vec::new()),
                Typed::Next => return Some(self.page_act(Action::SearchNext)),
                typed => return Some(self.typed(typed == Typed::Done)),
            },
            Popup::Setup(setup) => {
                let setup = *setup;
                let (setup, effects) = self.setup_key(setup, key);
                self.popup = setup.map(Popup::Setup);
                return Some(effects);
            }
            // Keys that the summary does not use keep their usual meaning: the list of other jobs is one key away.
            Popup::Summary | Popup::Output if closes => self.popup = None,
            Popup::Summary | Popup::Output => return None,
        }
        Some(vec![Effect::Redraw])
    }

    /// What a key does to the list of jobs, if it is open and nothing covers it.
    pub(super) fn list_key(&mut self, key: KeyEvent) -> Option<Vec<Effect>> {
        if self.list.is_none() || self.popup.is_some() {
            return None;
        }
        if self.jobs.is_empty() && matches!(key.code, KeyCode::Char('q') | KeyCode::F(10)) {
            return Some(vec![Effect::Quit]);
        }
        Some(self.on_list(|list, jobs, rows| list.key(key, jobs, rows)))
    }

    pub(super) fn scroll_detail(&mut self, by: isize) -> Vec<Effect> {
        self.drawn.popup.top = self.drawn.popup.scrolled(by);
        vec![Effect::Redraw]
    }

    /// Passes the prompt's text to the list or the page, and closes the prompt when it is done.
    fn typed(&mut self, done: bool) -> Vec<Effect> {
        let Some(Popup::Prompt(prompt)) = &self.popup else { return Vec::new() };
        let (purpose, text) = (prompt.purpose, prompt.text.clone());
        if done {
            self.popup = None;
        }
        if self.list.is_some() {
            return self.on_list(|list, jobs, _| list.typed(purpose, text.trim(), done, jobs));
        }
        let (page, scene) = self.on_page();
        page.typed(purpose, &text, &scene);
        vec![Effect::Redraw]
    }

    pub(super) fn paste(&mut self, text: &str) -> Vec<Effect> {
        if !self.fits() {
            return Vec::new();
        }
        let Some(Popup::Prompt(prompt)) = &mut self.popup else { return Vec::new() };
        prompt.paste(text);
        self.typed(false)
    }
}
