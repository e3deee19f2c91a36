//! The answer: what holds the run back, with the confidence and since when, why, and what to do first.
//!
//! It is read first, at three in the morning, so it is in the same place on every page and needs no color.

use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Margin, Rect};
use ratatui::style::Style;
use ratatui::symbols;
use ratatui::text::{Line, Span, Text};
use ratatui::widgets::{Block, Borders, Widget};

use super::panel::{Panel, framed};
use super::scene::Scene;
use super::text::{Piece, cells};
use crate::format;
use trainmon_base::text::{fit, fit_before, place_at_end, sanitize, wrap};
use trainmon_diagnosis::diagnosis::verdict::{Class, CulpritKind, Phase, Verdict};

/// Seconds after which the first verdict usually comes.
const FIRST_S: f64 = 3.0;
/// Turns once per sample while there is nothing else to see.
const SPINNER: [&str; 8] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧"];

/// Rows of the card on a screen of this size: the same on every page and for every bottleneck, so that nothing jumps. A healthy
/// run has less to say.
pub fn rows(screen: Rect, scene: &Scene<'_>) -> u16 {
    let is_calm = scene.verdict().is_some_and(Verdict::is_healthy);
    match screen.height {
        _ if framed(screen) => 6 - 2 * u16::from(is_calm),
        0..18 => 3,
        18..30 => 4 - u16::from(is_calm),
        _ => 5 - u16::from(is_calm),
    }
}

/// The answer in a few words with its style: `DATA LOADER · too few workers`.
pub fn heading(scene: &Scene<'_>) -> Piece {
    let theme = scene.theme;
    let Some(verdict) = scene.verdict().filter(|verdict| !verdict.is_pending()) else {
        return match scene.job.replay {
            Some(_) => ("RECORDING".to_owned(), theme.strong()),
            None => (format!("MEASURING {}", spinner(scene)), theme.strong()),
        };
    };
    let mark = match (verdict.is_healthy(), theme.ascii) {
        (true, false) => "✓ ",
        _ => "",
    };
    (format!("{mark}{}", verdict.heading()), accent(scene).patch(theme.strong()))
}

/// The color of the answer, used from the card to the pipeline: the color of the class if something holds the run back,
/// otherwise green.
pub fn accent(scene: &Scene<'_>) -> Style {
    let theme = scene.theme;
    match scene.verdict() {
        Some(verdict) if verdict.is_pending() => theme.dim(),
        Some(verdict) if verdict.phase == Phase::Hung => theme.alarm(),
        Some(verdict) if verdict.is_healthy() => theme.good(),
        Some(verdict) => theme.series(verdict.class),
        None => theme.dim(),
    }
}

fn spinner(scene: &Scene<'_>) -> &'static str {
    let turn = scene.frame().map_or(0, |frame| frame.sequence as usize);
    if scene.theme.ascii { "..." } else { SPINNER.get(turn % SPINNER.len()).copied().unwrap_or("") }
}

/// Draws the card over all of `area`.
pub fn draw(buf: &mut Buffer, area: Rect, scene: &Scene<'_>) {
    let theme = scene.theme;
    let (heading, sure) = (heading(scene), sureness(scene));
    let edge = accent(scene);
    let text = if framed(buf.area) {
        let panel = Panel {
            name: heading,
            value: sure.into_iter().map(|text| (text, theme.dim())).collect(),
            keys: match scene.verdict() {
                Some(verdict) if verdict.is_pending() => "",
                Some(verdict) if verdict.profile.is_some() => "8 why · 0 profile · c copy",
                Some(_) => "8 why · 2 chain · c copy",
                None => "",
            }
            .to_owned(),
            edge: Some(edge),
        };
        let inner = panel.draw(buf, area, theme);
        inner.inner(Margin::new(1, 0))
    } else {
        let block = Block::new()
            .borders(Borders::LEFT)
            .border_set(symbols::border::Set { vertical_left: "▌", ..symbols::border::PLAIN })
            .border_style(edge);
        (&block).render(area, buf);
        let inner = block.inner(area);
        // What does not fit is left out from the end.
        let fits = |sure: &String| cells(sure) + cells(&heading.0) + 3 <= area.width;
        let sure = (1..=sure.len()).rev().filter_map(|most| Some(sure.get(..most)?.join(" · "))).find(fits);
        let sure = sure.unwrap_or_default();
        let [head, text] = Layout::vertical([Constraint::Length(1), Constraint::Fill(1)]).areas(inner);
        let lengths = [Constraint::Fill(1), Constraint::Length(cells(&sure)), Constraint::Length(1)];
        let [head, at_right, _] = Layout::horizontal(lengths).areas(head);
        Span::styled(fit(&heading.0, usize::from(head.width.saturating_sub(1))), heading.1).render(head, buf);
        Span::styled(sure, theme.dim()).render(at_right, buf);
        Rect { width: text.width.saturating_sub(1), ..text }
    };
    match scene.verdict().filter(|verdict| !verdict.is_pending()) {
        Some(verdict) => answer(buf, text, verdict, scene),
        None => pending(buf, text, scene),
    }
}

/// How steps compare with those of an earlier run, the confidence, and since when: `31% less time a step than before`, `94%
/// sure`, `for 2m10s`.
fn sureness(scene: &Scene<'_>) -> Vec<String> {
    let Some(verdict) = scene.verdict().filter(|verdict| !verdict.is_pending()) else { return Vec::new() };
    let sure = if verdict.class != Class::Unknown { format::sureness(verdict.confidence) } else { None };
    let age = if scene.job.is_trace() { None } else { scene.job.verdict_age_s() };
    let age = age.map(|s| format!("for {}", format::duration(s)));
    let change = scene.job.before.as_ref().and_then(|before| before.change.as_ref()).map(|(words, _)| words.clone());
    change.into_iter().chain(sure).chain(age).collect()
}

/// The summary, the first advice with its gain, and a second finding that is also true now, in the available rows.
fn answer(buf: &mut Buffer, area: Rect, verdict: &Verdict, scene: &Scene<'_>) {
    let theme = scene.theme;
    let Some(last) = area.height.checked_sub(1) else { return };
    let width = usize::from(area.width);
    let action = action(verdict, width);
    let action_rows = u16::from(action.is_some() && last > 0);
    let summary = wrap(&sanitize(&verdict.summary), width);
    let needed = u16::try_from(summary.len()).unwrap_or(u16::MAX).saturating_add(action_rows);
    let has_spare = needed < area.height;
    let also = if area.height >= 4 || has_spare { also(verdict) } else { None };
    let also = if has_spare { also.or_else(|| others(scene)) } else { also };
    let also_rows = u16::from(also.is_some());
    let mut room = area.height - action_rows - also_rows;
    let line = verdict.culprits.iter().find(|culprit| culprit.kind == CulpritKind::Line);
    let line = line.map_or("", |culprit| culprit.name.as_str());
    let place = if usize::from(cells(line)) + TITLE <= width { line } else { place_at_end(line) };
    // If a row stays empty, the answer stays short.
    room = room.min(u16::try_from(summary.len()).unwrap_or(u16::MAX)).max(1);
    let mut lines: Vec<Line<'_>> = Vec::new();
    for (nth, line) in summary.iter().take(usize::from(room)).enumerate() {
        let is_cut = nth + 1 == usize::from(room) && summary.len() > usize::from(room);
        // The place in the code is what a person needs most: it is kept.
        let place = if summary.iter().take(nth + 1).any(|line| line.contains(place)) { "" } else { place };
        lines.push(if is_cut { shortened(line, place, width).into() } else { line.as_str().into() });
    }
    if action_rows > 0
        && let Some((text, worth)) = action
    {
        let style = if verdict.is_healthy() { theme.dim() } else { accent(scene).patch(theme.strong()) };
        let worth = worth.map_or_else(String::new, |worth| format!("  {worth}"));
        let room = width.saturating_sub(usize::from(cells(&worth)));
        let beside = |text: &str| {
            let blanks = room.saturating_sub(usize::from(cells(text)));
            Line::styled(format!("{text}{:blanks$}{worth}", ""), style)
        };
        // Where it does not fit, its place in the code can go: the summary above names it.
        let short = text.split_once(": ").filter(|(_, place)| usize::from(cells(&text)) > room && *place == line);
        let on_two = wrap(&text, room.saturating_sub(2));
        let is_long = usize::from(cells(&text)) > room && also.is_none() && has_spare;
        match (short, on_two.as_slice()) {
            (None, [first, second]) if is_long => {
                lines.extend([beside(first), Line::styled(format!("  {second}"), style)]);
            }
            (Some((what, _)), _) => lines.push(beside(&fit(what, room))),
            (None, _) => lines.push(beside(&first_clauses(&text, room))),
        }
    }
    lines.extend(also.map(|also| Line::styled(fit(&also, width), theme.dim())));
    Text::from(lines).render(area, buf);
}

/// The last line of a summary that is cut after it: up to the end of its last whole sentence if it has one, and then
/// the place in the code.
fn shortened(line: &str, place: &str, width: usize) -> String {
    let end = format!("{line} ").rfind(". ");
    let whole =
        end.map(|end| if place.is_empty() { line[..=end].to_owned() } else { format!("{}: {place}", &line[..end]) });
    let whole = whole.filter(|whole| usize::from(cells(whole)) <= width);
    whole.unwrap_or_else(|| fit_before(&format!("{line} … {place}"), place, width))
}

/// As many whole clauses of an advice as fit into `width` cells: the first says what to do.
fn first_clauses(text: &str, width: usize) -> String {
    let place = place_at_end(text);
    let begins = |word: &str| text.match_indices(word).map(|(at, _)| at).collect::<Vec<_>>();
    let ends = CLAUSES.into_iter().flat_map(begins).filter_map(|at| text.get(..at));
    let whole = ends.filter(|clause| usize::from(cells(clause)) <= width).max_by_key(|clause| clause.len());
    match whole {
        Some(whole) if place.is_empty() && usize::from(cells(text)) > width => whole.to_owned(),
        _ => fit_before(text, place, width),
    }
}

/// What begins another clause of an advice.
const CLAUSES: [&str; 8] = [", ", "; ", ": ", " (", " before ", " if ", " instead of ", " so that "];

/// Minimum width of an advice next to its gain.
const TITLE: usize = 24;

/// What to do first, with as much of its gain as fits into `width` cells beside it; if nothing could be judged, the
/// command that changes that.
fn action(verdict: &Verdict, width: usize) -> Option<(String, Option<String>)> {
    let is_unsure = verdict.class == Class::Unknown || verdict.confidence < 0.5;
    let fix = verdict.not_seen.iter().find_map(|missing| Some((missing, missing.fix.as_deref()?)));
    if is_unsure && let Some((missing, fix)) = fix {
        return Some((format!("▶ To read {}: {}", missing.what.title(), sanitize(fix)), None));
    }
    let Some(first) = verdict.advice.first() else {
        let waits = matches!(verdict.class, Class::Idle) || verdict.phase == Phase::Hung;
        return waits.then(|| ("▶ See where it waits: press 7 (stacks)".to_owned(), None));
    };
    let lead = if verdict.is_healthy() { "You could still try: " } else { "▶ " };
    let text = format!("{lead}{}", sanitize(&first.title));
    let room = width.saturating_sub(usize::from(cells(&text)).min(TITLE) + 2);
    let beside = width.saturating_sub(usize::from(cells(&text)) + 2);
    let beyond = verdict.limit_beyond(first).map(|limit| format!(", until {limit}"));
    let limited = |worth: Option<String>| Some(worth? + beyond.as_deref()?);
    let worths = [limited(first.worth()), limited(first.gain()), first.worth(), first.gain()];
    let whole = worths.into_iter().flatten().find(|worth| usize::from(cells(worth)) <= beside);
    let worth = whole.or_else(|| first.gain().filter(|gain| usize::from(cells(gain)) <= room));
    Some((text, worth))
}

/// A second cause that is also true now, or what makes the answer less certain.
fn also(verdict: &Verdict) -> Option<String> {
    let finding = verdict.other_findings.first()?;
    let text = sanitize(&finding.text);
    Some(if finding.is_doubt() { text.into_owned() } else { format!("Also: {text}") })
}

/// That other processes fill the CPUs: a reader would suspect them.
fn others(scene: &Scene<'_>) -> Option<String> {
    let frame = scene.frame()?;
    let (full, others) = (frame.host.allowed_cpu_pct?, frame.host.others_cpu_pct? / 100.0);
    let allowed = frame.job.cpus_allowed?;
    let is_crowded = full >= CROWDED_PCT && others >= f64::from(allowed) / 2.0;
    is_crowded.then(|| format!("Other processes take {others:.1} of the {allowed} CPUs."))
}

/// The CPUs are full from this use on.
const CROWDED_PCT: f64 = 90.0;

/// The text before the first verdict.
fn pending(buf: &mut Buffer, area: Rect, scene: &Scene<'_>) {
    let theme = scene.theme;
    let job = &scene.job.sources.job;
    let mut lines = Vec::new();
    if let Some(replay) = scene.job.replay {
        lines.push(match (scene.frame(), replay.loaded) {
            (None, true) => {
                ("This recording is empty: it has no samples to show or judge.".to_owned(), theme.strong())
            }
            (None, false) => ("Reading the recording…".to_owned(), theme.dim()),
            (Some(_), _) => ("No verdict yet at this moment.".to_owned(), theme.dim()),
        });
    } else if let Some(reason) = &job.reason {
        lines.push((format!("Cannot read the process: {}", sanitize(reason)), theme.strong()));
        lines.extend(job.fix.as_ref().map(|fix| (format!("▶ {}", sanitize(fix)), theme.strong())));
    } else {
        let watched = scene.verdict().map_or(0.0, |verdict| verdict.observed_s);
        let left = (FIRST_S - watched).ceil();
        let when =
            if left >= 1.0 { format!("first verdict in {left:.0} s") } else { "first verdict soon".to_owned() };
        let pid = scene.job.target.pid;
        lines.push((format!("Watching PID {pid}: {when}."), Style::new()));
        lines.push(("The job runs on unchanged.".to_owned(), theme.dim()));
    }
    let lines = lines.into_iter().map(|(line, style)| Line::styled(fit(&line, usize::from(area.width)), style));
    Text::from_iter(lines).render(area, buf);
}
