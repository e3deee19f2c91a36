//! The verdict: what holds the run back, how sure that is and since when, why, and what to do first.
//!
//! This is what somebody reads first at three in the morning, so it stands on top at every size and says its words
//! without any colour.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

use super::{advice_line, cells, write, write_right};
use crate::diagnosis::verdict::{Advice, Class, Phase, Verdict};
use crate::text::{fit, sanitise, wrap};
use crate::tui::app::App;
use crate::tui::theme::Theme;
use crate::tui::{format, words};

/// Seconds for which an unknown verdict is only a verdict that has not come yet.
const PENDING_S: f64 = 8.0;

/// Draws the banner: the head on the first row, below it as much of summary, advice and reasons as fits.
pub fn draw(buf: &mut Buffer, area: Rect, app: &App) {
    head(buf, area, app);
    let width = area.width.saturating_sub(2);
    let rows = usize::from(area.height.saturating_sub(1));
    let lines = match app.verdict() {
        Some(verdict) => below(verdict, app.theme(), usize::from(width), rows),
        None => pending(app),
    };
    let edge = app.verdict().map_or_else(|| app.theme().dim(), |v| edge_style(v, app.theme()));
    for y in area.top() + 1..area.bottom() {
        write(buf, area.x, y, area.right(), "▌", edge);
    }
    for ((text, style), y) in lines.iter().zip(area.top() + 1..area.bottom()) {
        write(buf, area.x + 2, y, area.right(), &fit(text, usize::from(width)), *style);
    }
}

/// Whether the verdict is still on its way.
pub fn is_pending(verdict: &Verdict) -> bool {
    verdict.class == Class::Unknown && verdict.phase == Phase::Unknown && verdict.observed_s < PENDING_S
}

/// The text of the badge: class and cause, in the exact words of the taxonomy.
pub fn badge(app: &App) -> (String, Style) {
    match app.verdict() {
        None if app.job().replay.is_some() => (" recording ".to_owned(), app.theme().bar()),
        None => (" attaching ".to_owned(), app.theme().bar()),
        Some(v) if is_pending(v) => (" watching ".to_owned(), app.theme().bar()),
        Some(v) => {
            let cause = v.cause.map(|c| format!(": {c}")).unwrap_or_default();
            (format!(" {}{cause} ", v.class.word()), app.theme().badge(v.class))
        }
    }
}

/// First row: class and cause, what that means, confidence and age.
fn head(buf: &mut Buffer, area: Rect, app: &App) {
    let (text, style) = badge(app);
    let text = fit(&text, usize::from(area.width));
    let x = write(buf, area.x, area.y, area.right(), &text, style);
    let Some(verdict) = app.verdict() else {
        let what = if app.job().replay.is_some() { "of" } else { "to" };
        let text = format!("{what} PID {} …", app.job().target.pid);
        write(buf, x + 1, area.y, area.right(), &text, app.theme().strong());
        return;
    };
    let age = app.job().verdict_age_s().map(|s| format!("for {}", format::duration(s))).unwrap_or_default();
    let sure = format!("{} {}, {age}", words::sureness(verdict.confidence), format::share(Some(verdict.confidence)));
    let right = if is_pending(verdict) { format!("watched {}", format::duration(verdict.observed_s)) } else { sure };
    let mut end = area.right();
    if x + 1 + cells(&right) <= end {
        end = write_right(buf, x, area.y, end, &right, app.theme().dim());
    }
    let words =
        if is_pending(verdict) { "the first verdict takes a few seconds" } else { words::verdict_in_words(verdict) };
    if x + 2 + cells(words) < end {
        write(buf, x + 1, area.y, end, words, app.theme().strong());
    }
}

fn edge_style(verdict: &Verdict, theme: Theme) -> Style {
    let class = theme.class(verdict.class);
    class.bg.map_or_else(|| theme.dim(), |colour| Style::new().fg(colour))
}

/// Before the first verdict.
fn pending(app: &App) -> Vec<(String, Style)> {
    if let Some(replay) = app.job().replay {
        let text = match (app.frame(), replay.loaded) {
            (None, true) => "There is not one sample in this recording: nothing can be shown or judged.",
            (None, false) => "It is being read.",
            (Some(_), _) => "This moment has not been judged.",
        };
        return vec![(text.to_owned(), app.theme().strong())];
    }
    if let Some(reason) = &app.sources().job.reason {
        let mut lines = vec![(format!("The target: {}", sanitise(reason)), app.theme().strong())];
        lines.extend(
            app.sources().job.mend.as_ref().map(|m| (format!("► Try: {}", sanitise(m)), app.theme().advice())),
        );
        return lines;
    }
    vec![
        (
            "Watching for the first seconds: the verdict comes when enough has been seen.".to_owned(),
            app.theme().strong(),
        ),
        ("The target is neither stopped nor changed.".to_owned(), app.theme().dim()),
    ]
}

/// The rows below the head: at most `rows`, the action always among them.
fn below(verdict: &Verdict, theme: Theme, width: usize, rows: usize) -> Vec<(String, Style)> {
    let mut actions = actions(verdict, theme, width);
    let summary = wrap(&verdict.summary, width);
    // The rows of the first action are kept for it; the summary gets the rest, and says so if something was cut.
    let mut first =
        actions.iter().take_while(|(_, style)| *style == theme.advice()).count().max(1).min(actions.len());
    let kept = rows.saturating_sub(1).clamp(1, 2);
    if let (true, Some(advice)) = (first > kept, verdict.advice.first()) {
        actions.splice(..first, [(one_line("► Do first: ", advice, width), theme.advice())]);
        first = 1;
    }
    let room = rows.saturating_sub(first);
    let mut lines: Vec<(String, Style)> =
        summary.iter().take(room).map(|line| (line.clone(), theme.strong())).collect();
    if let (true, Some((last, _))) = (summary.len() > room, lines.last_mut()) {
        *last = fit(&format!("{last} …"), width);
        if !last.ends_with('…') {
            last.push('…');
        }
    }
    lines.extend(actions);
    lines.truncate(rows);
    lines
}

/// An advice on one row: its bound stays, its title is cut.
fn one_line(lead: &str, advice: &Advice, width: usize) -> String {
    let bound =
        advice.speedup_at_most.filter(|s| s.is_finite()).map_or_else(String::new, |s| format!(" (at most {s:.1}×)"));
    let room = width.saturating_sub(usize::from(cells(&bound)));
    format!("{}{bound}", fit(&format!("{lead}{}", advice.title), room))
}

/// What to do, the first thing first; where little could be seen, what would show more.
fn actions(verdict: &Verdict, theme: Theme, width: usize) -> Vec<(String, Style)> {
    let mut lines = Vec::new();
    let mut advice = verdict.advice.iter();
    if let Some(first) = advice.next() {
        let text = wrap(&advice_line("► Do first: ", first, width), width);
        lines.extend(text.into_iter().map(|l| (l, theme.advice())));
        lines.extend(wrap(&first.why, width.saturating_sub(2)).into_iter().map(|l| (format!("  {l}"), Style::new())));
    }
    if verdict.class == Class::Unknown || verdict.confidence < 0.5 {
        lines.extend(missing(verdict, theme));
    }
    if verdict.class == Class::Balanced && lines.is_empty() {
        lines.push(("► Nothing to do: only a faster model or more devices would help.".to_owned(), theme.advice()));
    }
    lines.extend(advice.map(|a| (advice_line("► Then: ", a, width), Style::new())));
    lines.extend(verdict.other_findings.iter().map(|f| {
        let cause = f.cause.map(|c| format!(": {c}")).unwrap_or_default();
        (format!("Also {}{cause}: {}", f.class.word(), sanitise(&f.text)), theme.dim())
    }));
    lines.extend(verdict.evidence.iter().map(|e| (super::findings::evidence_line(e), theme.dim())));
    lines
}

/// What was not seen, first what a command mends.
fn missing(verdict: &Verdict, theme: Theme) -> Vec<(String, Style)> {
    let mut lines = Vec::new();
    for n in verdict.not_seen.iter().filter(|n| n.mend.is_some()).take(2) {
        let mend = n.mend.as_deref().unwrap_or_default();
        let text = format!("► To see {}: {}  ({})", sanitise(&n.what), sanitise(mend), sanitise(&n.why));
        lines.push((text, theme.advice()));
    }
    let unmended = verdict.not_seen.iter().filter(|n| n.mend.is_none());
    lines.extend(unmended.map(|n| (format!("Not seen: {}: {}", sanitise(&n.what), sanitise(&n.why)), theme.dim())));
    lines
}
