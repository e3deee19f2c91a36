//! Sharing the verdict: on the clipboard, and in files.

use super::App;
use super::popup::Popup;
use crate::message::{Effect, Export};
use crate::pages::Reply;
use crate::widgets::{Menu, MenuItem};
use trainmon_attach::jobs::Target;
use trainmon_base::text::sanitize;
use trainmon_diagnosis::diagnosis::verdict::Verdict;
use trainmon_views::labels;
use trainmon_views::report::headline;

impl App {
    pub(super) fn copy(&mut self) -> Vec<Effect> {
        let Some(verdict) = self.job().verdict() else {
            return self.say("no verdict to copy yet");
        };
        let copied = Effect::Copy(verdict_text(verdict, &self.job().target));
        [vec![copied], self.say("verdict copied to the terminal's clipboard")].concat()
    }

    pub(super) fn export(&mut self, export: Export) -> Vec<Effect> {
        if self.job().verdict().is_none() {
            return self.say("no verdict to save yet");
        }
        vec![Effect::Save(export), Effect::Redraw]
    }
}

/// The verdict in a few lines, for a message to a colleague.
fn verdict_text(verdict: &Verdict, target: &Target) -> String {
    let mut lines = vec![format!("trainmon: PID {} {}", target.pid, sanitize(&target.command))];
    lines.push(headline(verdict));
    if !verdict.summary.is_empty() {
        lines.push(sanitize(&verdict.summary).into_owned());
    }
    lines.extend(verdict.advice.iter().map(|a| labels::advice_line("- ", a, usize::MAX)));
    lines.extend(verdict.not_seen.iter().map(|n| format!("cannot read {}: {}", n.what.title(), sanitize(&n.why))));
    lines.join("\n")
}

/// What can be saved.
pub(super) fn menu() -> Popup {
    let item = |key, text: &str, export| MenuItem { key, text: text.to_owned(), choice: Reply::Export(export) };
    Popup::Menu(Menu {
        title: "Save to the working directory".to_owned(),
        items: vec![
            item('m', "the verdict as Markdown", Export::Markdown),
            item('j', "the verdict as JSON", Export::Json),
        ],
        selected: 0,
    })
}
