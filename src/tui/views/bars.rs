//! The title bar, and the footer with the pages and the keys.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::{cells, write, write_right};
use crate::diagnosis::verdict::Phase;
use crate::text::{fit, sanitise};
use crate::tui::app::App;
use crate::tui::keys;
use crate::tui::page::Page;
use crate::tui::popup::Popup;
use crate::tui::{format, words};

/// Program, target, phase, step rate; or that the target has ended; and which moment is shown, if not the newest.
pub fn title(buf: &mut Buffer, area: Rect, app: &App) {
    let style = app.theme().bar();
    buf.set_style(area, style);
    let job = app.job();
    let mut right = Vec::new();
    if let Some(verdict) = app.verdict() {
        if job.ended.is_none() && verdict.phase != Phase::Unknown {
            right.push(verdict.phase.word().to_owned());
        }
        if verdict.steps.per_s.is_some() {
            right.push(format!("{} steps/s", format::number(verdict.steps.per_s)));
        }
        if verdict.steps.p50_ms.is_some() && area.width >= 100 {
            right.push(format!("step {} ms", format::number(verdict.steps.p50_ms)));
        }
    }
    right.extend(moment(app));
    let right = format!("{} ", right.join(" · "));
    // The target's name keeps at least a third of the bar.
    let strong = style.patch(app.theme().strong());
    let end = write_right(buf, area.x + area.width / 3, area.y, area.right(), &right, strong);
    let x = write(buf, area.x, area.y, end, " trainmon ", strong);
    if let Some(ended) = &job.ended {
        let text = format!("ENDED: {} (last verdict below)", sanitise(ended));
        let text = fit(&text, usize::from(end.saturating_sub(x + 1)));
        write(buf, x, area.y, end, &text, strong);
        return;
    }
    let jobs = app.jobs().len();
    let which = if jobs > 1 {
        let place = app.jobs().iter().position(|other| other.key == job.key).unwrap_or(0);
        format!("job {}/{jobs} ", place + 1)
    } else {
        String::new()
    };
    let x = write(buf, x, area.y, end, &format!("{which}PID {} ", job.target.pid), style);
    let command = fit(&words::short_command(&job.target.command), usize::from(end.saturating_sub(x + 1)));
    write(buf, x, area.y, end, &command, style);
}

/// Which moment is shown, where it is not the newest.
fn moment(app: &App) -> Option<String> {
    let job = app.job();
    let Some(moment) = job.cursor() else { return job.replay.map(|_| "REPLAY".to_owned()) };
    let clock = words::clock(moment.frame.unix_ms, &app.options.zone);
    Some(match &job.replay {
        Some(replay) if replay.playing => format!("REPLAY {}× {clock}", format::number(Some(replay.speed()))),
        Some(_) => format!("REPLAY PAUSED {clock}"),
        None => format!("PAUSED {clock}"),
    })
}

/// Pages and keys that fit; what is typed, or a notice, in their place; what trainmon itself costs on the right.
pub fn footer(buf: &mut Buffer, area: Rect, app: &App) {
    let theme = app.theme();
    let mut end = area.right();
    if let Some(Popup::Prompt(prompt)) = &app.popup {
        let x = write(buf, area.x, area.y, end, prompt.purpose.word(), theme.bar());
        // The end of what is typed stays in sight.
        let room = usize::from(end.saturating_sub(x + 2));
        let skip = prompt.text.chars().count().saturating_sub(room);
        let text: String = prompt.text.chars().skip(skip).collect();
        let x = write(buf, x + 1, area.y, end, &sanitise(&text), theme.strong());
        write(buf, x, area.y, end, "_", theme.strong());
        return;
    }
    if let Some(notice) = &app.notice {
        write(buf, area.x, area.y, end, &fit(notice, usize::from(end - area.x)), theme.warning());
        return;
    }
    if let Some(frame) = app.frame()
        && frame.own_cpu_pct.is_some()
        && area.width >= 140
    {
        let (cpu, rss) = (format::number(frame.own_cpu_pct), format::bytes(frame.own_rss_bytes));
        let text = format!("every {} s, self {cpu}% {rss}", app.job().interval_s);
        end = write_right(buf, area.x, area.y, area.right(), &text, theme.dim());
    }
    let mut x = area.x;
    for (page, start, width) in tabs(app, area.width) {
        let style = if page == app.page { theme.bar().patch(theme.strong()) } else { theme.dim() };
        write(buf, area.x + start, area.y, end, &tab(app, page, area.width), style);
        x = area.x + start + width + 1;
    }
    let scale = format::duration(app.span_s());
    let context = keys::footer(app.page).iter();
    for (action, word) in context {
        let Some(key) = app.options.keymap.key_of(*action) else { continue };
        let word = if *word == "zoom" { format!("{word} {scale}") } else { (*word).to_owned() };
        if x + cells(&key) + 1 + cells(&word) > end {
            break;
        }
        x = write(buf, x, area.y, end, &key, theme.bar());
        x = write(buf, x + 1, area.y, end, &word, theme.dim()) + 1;
    }
}

/// The page whose tab is at this column of the footer.
pub fn tab_at(app: &App, width: u16, column: u16) -> Option<Page> {
    tabs(app, width).find(|(_, start, width)| (*start..start + width).contains(&column)).map(|(page, ..)| page)
}

/// The tabs: page, first column, width.
fn tabs(app: &App, width: u16) -> impl Iterator<Item = (Page, u16, u16)> {
    let mut x = 0;
    Page::ALL.into_iter().filter_map(move |page| {
        let cells = cells(&tab(app, page, width));
        let start = x;
        x += cells + 1;
        (start + cells <= width).then_some((page, start, cells))
    })
}

fn tab(app: &App, page: Page, width: u16) -> String {
    let key = app.options.keymap.key_of(keys::Action::Go(page)).unwrap_or_default();
    let name = if width >= 110 { page.name() } else { page.short() };
    format!("{key} {name}")
}
