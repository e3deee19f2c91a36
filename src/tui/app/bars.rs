//! The title bar, and the footer with the pages and the keys.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::App;
use super::popup::Popup;
use crate::diagnosis::verdict::Phase;
use crate::text::{fit, sanitise};
use crate::tui::pages::Page;
use crate::tui::pages::action::Action;
use crate::tui::widgets::{Drawn, Hit, cells, write, write_fit, write_right};
use crate::tui::{format, labels};

/// Program, target, phase, step rate; or that the target has ended; and which moment is shown, if not the newest.
pub fn title(buf: &mut Buffer, area: Rect, app: &App) {
    let style = app.options.theme.bar();
    buf.set_style(area, style);
    let job = app.job();
    let mut right = Vec::new();
    if let Some(verdict) = job.verdict() {
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
    let strong = style.patch(app.options.theme.strong());
    let end = write_right(buf, area.x + area.width / 3, area.y, area.right(), &right, strong);
    let x = write(buf, area.x, area.y, end, " trainmon ", strong);
    if let Some(ended) = &job.ended {
        let text = format!("ENDED: {} (last verdict below)", sanitise(ended));
        let text = fit(&text, usize::from(end.saturating_sub(x + 1)));
        write(buf, x, area.y, end, &text, strong);
        return;
    }
    let jobs = app.jobs().len();
    let which = if jobs > 1 { format!("job {}/{jobs} ", app.current + 1) } else { String::new() };
    let x = write(buf, x, area.y, end, &format!("{which}PID {} ", job.target.pid), style);
    let command = fit(&labels::short_command(&job.target.command), usize::from(end.saturating_sub(x + 1)));
    write(buf, x, area.y, end, &command, style);
}

/// Which moment is shown, where it is not the newest.
fn moment(app: &App) -> Option<String> {
    let job = app.job();
    let Some(moment) = job.cursor() else { return job.replay.map(|_| "REPLAY".to_owned()) };
    let clock = labels::clock(moment.frame.unix_ms, &app.options.zone);
    Some(match &job.replay {
        Some(replay) if replay.playing => format!("REPLAY {}× {clock}", format::number(Some(replay.speed()))),
        Some(_) => format!("REPLAY PAUSED {clock}"),
        None => format!("PAUSED {clock}"),
    })
}

/// Pages and keys that fit; what is typed, or a notice, in their place; what trainmon itself costs on the right.
pub fn footer(buf: &mut Buffer, area: Rect, app: &App, drawn: &mut Drawn) {
    let theme = app.options.theme;
    // The list of jobs has a row of its own for both.
    if app.list.is_none() {
        if let Some(Popup::Prompt(prompt)) = &app.popup {
            return prompt.draw(buf, area, theme);
        }
        if let Some(notice) = &app.notice {
            write_fit(buf, area, notice, theme.warning());
            return;
        }
    }
    let mut end = area.right();
    if let Some(frame) = app.job().frame().filter(|frame| frame.own_cpu_pct.is_some() && area.width >= 140) {
        let (cpu, rss) = (format::number(frame.own_cpu_pct), format::bytes(frame.own_rss_bytes));
        let text = format!("every {} s, self {cpu}% {rss}", app.job().interval_s);
        end = write_right(buf, area.x, area.y, area.right(), &text, theme.dim());
    }
    let mut x = area.x;
    for page in Page::ALL {
        let key = app.options.keymap.key_of(Action::Go(page)).unwrap_or_default();
        let name = if area.width >= 110 { page.name() } else { page.spec().short };
        let tab = format!("{key} {name}");
        let width = cells(&tab);
        if x + width > area.right() {
            break;
        }
        let style = if page == app.page { theme.bar().patch(theme.strong()) } else { theme.dim() };
        write(buf, x, area.y, end, &tab, style);
        drawn.hits.push((Rect { x, width, ..area }, Hit::Tab(page.index())));
        x += width + 1;
    }
    for (action, word) in app.page.spec().footer {
        let Some(key) = app.options.keymap.key_of(*action) else { continue };
        let scale =
            if *action == Action::ZoomOut { format!(" {}", format::duration(app.span_s())) } else { String::new() };
        let word = format!("{word}{scale}");
        if x + cells(&key) + 1 + cells(&word) > end {
            break;
        }
        x = write(buf, x, area.y, end, &key, theme.bar());
        x = write(buf, x + 1, area.y, end, &word, theme.dim()) + 1;
    }
}
