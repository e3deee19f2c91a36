//! Why there are no stacks, and what mends it.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

use super::super::write;
use crate::sample::SourceState;
use crate::text::wrap;
use crate::tui::app::App;

/// Says so at the top of `area` and returns the row below.
pub fn draw(buf: &mut Buffer, area: Rect, app: &App) -> u16 {
    let (why, mend) = reason(app);
    let width = usize::from(area.width.saturating_sub(4)).max(1);
    let mut y = area.y;
    let mut put = |lead: &str, text: &str, style: Style| {
        for (i, row) in wrap(text, width).iter().enumerate() {
            if y < area.bottom() {
                let x = write(buf, area.x, y, area.right(), if i == 0 { lead } else { "    " }, style);
                write(buf, x, y, area.right(), row, style);
            }
            y += 1;
        }
    };
    put("  ", &why, Style::new());
    if let Some(mend) = mend {
        put("  → ", &mend, app.theme().advice());
    }
    y.saturating_add(1).min(area.bottom())
}

/// Why, and the command that mends it.
fn reason(app: &App) -> (String, Option<String>) {
    let told = app.verdict().and_then(|verdict| verdict.not_seen.iter().find(|missing| missing.what == "stacks"));
    if !app.job().is_live() {
        // How the source stands now says nothing about then.
        return match told {
            Some(missing) => (format!("No stacks at this moment: {}.", missing.why), missing.mend.clone()),
            None if app.job().replay.is_some() => {
                ("No stacks in the half minute before this moment.".to_owned(), None)
            }
            None => (
                "No stacks in the half minute before this moment: they are taken more often while this page is up."
                    .to_owned(),
                None,
            ),
        };
    }
    if app.job().ended.is_some() && told.is_none() {
        return ("No stacks in the half minute before the target ended.".to_owned(), None);
    }
    let status = &app.sources().stacks;
    let why = status.reason.as_deref().or(told.map(|missing| missing.why.as_str()));
    let mend = status.mend.as_deref().or(told.and_then(|missing| missing.mend.as_deref())).map(str::to_owned);
    match (status.state, why) {
        (SourceState::Pending | SourceState::Fresh, None) => {
            let text = "No stacks yet: the first come within some seconds, of one process after the other.";
            (text.to_owned(), mend)
        }
        (SourceState::Hung, None) => ("No stacks: py-spy does not answer.".to_owned(), mend),
        (_, Some(why)) => (format!("No stacks: {why}."), mend),
        (_, None) => ("No stacks: the reason is not known.".to_owned(), mend),
    }
}
