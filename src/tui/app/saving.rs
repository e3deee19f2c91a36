//! The verdict and the screen for others: on the clipboard, and in files.

use super::App;
use crate::tui::message::{Effect, Export};
use crate::tui::popup::{Choice, Item, Menu, Popup};
use crate::tui::views;

impl App {
    pub(super) fn copy(&mut self) -> Vec<Effect> {
        let Some(verdict) = self.verdict() else {
            self.notice = Some("no verdict to copy yet".to_owned());
            return vec![Effect::Redraw];
        };
        let text = views::verdict_text(verdict, &self.job().target);
        self.notice = Some("verdict sent to the clipboard of the terminal".to_owned());
        vec![Effect::Copy(text), Effect::Redraw]
    }

    pub(super) fn export(&mut self, export: Export) -> Vec<Effect> {
        let Some(text) = views::export(self, export, self.area()) else {
            self.notice = Some("no verdict to save yet".to_owned());
            return vec![Effect::Redraw];
        };
        vec![Effect::Save(export, text), Effect::Redraw]
    }
}

/// What can be saved.
pub(super) fn export_menu() -> Popup {
    let item =
        |key, text: &str, export| Item { key: Some(key), text: text.to_owned(), choice: Choice::Export(export) };
    Popup::Menu(Menu {
        title: "Save into the working directory".to_owned(),
        items: vec![
            item('m', "the verdict as Markdown", Export::Markdown),
            item('j', "the verdict as JSON", Export::Json),
            item('s', "this screen as SVG", Export::Svg),
        ],
        selected: 0,
    })
}
