//! The verdict: what holds the run back, how sure that is and since when, why, and what to do first.
//!
//! This is read first, at three in the morning, so it is at the top at every size and needs no color.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

use super::scene::Scene;
use super::text::{Piece, behind, cells, write, write_fit, write_right};
use crate::diagnosis::verdict::{Advice, Class, Evidence, Phase, Verdict};
use crate::text::{fit, sanitise, wrap};
use crate::tui::theme::Theme;
use crate::tui::{format, labels};

/// Seconds for which an unknown verdict is only a verdict that has not come yet.
const PENDING_S: f64 = 8.0;

/// Draws the banner: the head on the first row, below it as much of summary, advice and reasons as fits.
pub fn draw(buf: &mut Buffer, area: Rect, scene: &Scene<'_>) {
    let theme = scene.theme;
    head(buf, area, scene);
    let below = Rect { y: area.y + 1, height: area.height.saturating_sub(1), ..area };
    let text = behind(below, area.x + 2);
    let (lines, edge) = match scene.verdict() {
        Some(verdict) => {
            let lines = lines(verdict, theme, usize::from(text.width), usize::from(below.height));
            (lines, theme.dim().patch(theme.series(verdict.class)))
        }
        None => (pending(scene), theme.dim()),
    };
    for y in below.top()..below.bottom() {
        write(buf, area.x, y, area.right(), "▌", edge);
    }
    for ((line, style), row) in lines.iter().zip(text.rows()) {
        write_fit(buf, row, line, *style);
    }
}

/// Whether the verdict is still on its way.
pub fn is_pending(verdict: &Verdict) -> bool {
    verdict.class == Class::Unknown && verdict.phase == Phase::Unknown && verdict.observed_s < PENDING_S
}

/// The text of the badge: class and cause, in the exact words of the taxonomy.
pub fn badge(scene: &Scene<'_>) -> Piece {
    let text = match scene.verdict() {
        None if scene.job.replay.is_some() => "recording".to_owned(),
        None => "attaching".to_owned(),
        Some(verdict) if is_pending(verdict) => "watching".to_owned(),
        Some(verdict) => labels::verdict_name(verdict.class, verdict.cause),
    };
    let judged = scene.verdict().filter(|verdict| !is_pending(verdict));
    (format!(" {text} "), judged.map_or(scene.theme.bar(), |verdict| scene.theme.badge(verdict.class)))
}

/// First row: class and cause, what that means, confidence and age.
fn head(buf: &mut Buffer, area: Rect, scene: &Scene<'_>) {
    let theme = scene.theme;
    let (text, style) = badge(scene);
    let x = write_fit(buf, area, &text, style);
    let Some(verdict) = scene.verdict() else {
        let what = if scene.job.replay.is_some() { "of" } else { "to" };
        let text = format!("{what} PID {} …", scene.job.target.pid);
        write(buf, x + 1, area.y, area.right(), &text, theme.strong());
        return;
    };
    let (right, words) = if is_pending(verdict) {
        (format!("watched {}", format::duration(verdict.observed_s)), "the first verdict takes a few seconds")
    } else {
        let age = scene.job.verdict_age_s().map(|s| format!("for {}", format::duration(s))).unwrap_or_default();
        (
            format!("{}, {age}", format::sureness(verdict.confidence).unwrap_or_default()),
            labels::verdict_in_words(verdict),
        )
    };
    let mut end = area.right();
    if x + 1 + cells(&right) <= end {
        end = write_right(buf, x, area.y, end, &right, theme.dim());
    }
    if x + 2 + cells(words) < end {
        write(buf, x + 1, area.y, end, words, theme.strong());
    }
}

/// Before the first verdict.
fn pending(scene: &Scene<'_>) -> Vec<Piece> {
    let theme = scene.theme;
    let strong = |text: &str| (text.to_owned(), theme.strong());
    let job = &scene.job.sources.job;
    if let Some(replay) = scene.job.replay {
        return vec![strong(match (scene.frame(), replay.loaded) {
            (None, true) => "There is not one sample in this recording: nothing can be shown or judged.",
            (None, false) => "It is being read.",
            (Some(_), _) => "This moment has not been judged.",
        })];
    }
    if let Some(reason) = &job.reason {
        let mut lines = vec![strong(&format!("The target: {}", sanitise(reason)))];
        lines.extend(job.fix.as_ref().map(|fix| (format!("► Try: {}", sanitise(fix)), theme.advice())));
        return lines;
    }
    vec![
        strong("Watching for the first seconds: the verdict comes when enough has been seen."),
        ("The target is neither stopped nor changed.".to_owned(), theme.dim()),
    ]
}

/// The rows below the head: at most `rows`, the action always among them.
fn lines(verdict: &Verdict, theme: Theme, width: usize, rows: usize) -> Vec<Piece> {
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
    let mut lines: Vec<Piece> = summary.iter().take(room).map(|line| (line.clone(), theme.strong())).collect();
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
    let bound = advice.gain().map_or_else(String::new, |gain| format!(": {gain}"));
    let room = width.saturating_sub(usize::from(cells(&bound)));
    format!("{}{bound}", fit(&format!("{lead}{}", advice.title), room))
}

/// What to do, the first thing first; where little could be seen, what would show more.
fn actions(verdict: &Verdict, theme: Theme, width: usize) -> Vec<Piece> {
    let mut lines = Vec::new();
    let mut advice = verdict.advice.iter();
    if let Some(first) = advice.next() {
        let text = wrap(&labels::advice_line("► Do first: ", first, width), width);
        lines.extend(text.into_iter().map(|l| (l, theme.advice())));
        lines.extend(wrap(&first.why, width.saturating_sub(2)).into_iter().map(|l| (format!("  {l}"), Style::new())));
    }
    if verdict.class == Class::Unknown || verdict.confidence < 0.5 {
        lines.extend(missing(verdict, theme));
    }
    if verdict.class == Class::Balanced && lines.is_empty() {
        lines.push(("► Nothing to do: only a faster model or more devices would help.".to_owned(), theme.advice()));
    }
    lines.extend(advice.map(|a| (labels::advice_line("► Then: ", a, width), Style::new())));
    lines.extend(verdict.other_findings.iter().map(|f| {
        let name = labels::verdict_name(f.class, f.cause);
        let what = if f.is_doubt() { "Mind".to_owned() } else { format!("Also {name}") };
        (format!("{what}: {}", sanitise(&f.text)), theme.dim())
    }));
    lines.extend(verdict.evidence.iter().map(|e| (evidence(e), theme.dim())));
    lines
}

/// A number that speaks for the verdict, with its threshold, on one line.
fn evidence(e: &Evidence) -> String {
    let shown = format::in_unit(e.value, e.unit);
    let threshold =
        e.threshold.map(|t| format!(" (threshold {})", format::in_unit(Some(t), e.unit))).unwrap_or_default();
    let label = e.signal.label();
    let text = format!("{label}: {shown}{threshold}");
    if e.text == label { text } else { format!("{text} – {}", sanitise(&e.text)) }
}

/// What is unavailable, first what a command fixes.
fn missing(verdict: &Verdict, theme: Theme) -> impl Iterator<Item = Piece> {
    let fixed = verdict.not_seen.iter().filter_map(move |n| {
        let fix = sanitise(n.fix.as_deref()?);
        Some((format!("► To see {}: {fix}  ({})", n.what, sanitise(&n.why)), theme.advice()))
    });
    let unfixed = verdict.not_seen.iter().filter(|n| n.fix.is_none());
    let unfixed = unfixed.map(move |n| (format!("Not seen: {}: {}", n.what, sanitise(&n.why)), theme.dim()));
    fixed.take(2).chain(unfixed)
}
