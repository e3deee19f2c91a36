//! The title bar and the footer with the keys.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::{cells, write, write_right};
use crate::diagnosis::verdict::Phase;
use crate::text::{fit, sanitise};
use crate::tui::app::{App, Page};
use crate::tui::{format, keys};

/// Program, target, phase, step rate; or that the target has ended.
pub fn title(buf: &mut Buffer, area: Rect, app: &App) {
    let style = app.theme.bar();
    buf.set_style(area, style);
    let mut right = Vec::new();
    if let Some(verdict) = app.verdict() {
        if app.ended.is_none() && verdict.phase != Phase::Unknown {
            right.push(verdict.phase.word().to_owned());
        }
        if verdict.steps.per_s.is_some() {
            right.push(format!("{} steps/s", format::number(verdict.steps.per_s)));
        }
        if verdict.steps.p50_ms.is_some() {
            right.push(format!("step {} ms", format::number(verdict.steps.p50_ms)));
        }
    }
    if app.page != Page::Overview {
        right.push(app.page.name().to_owned());
    }
    if app.paused() {
        right.push("PAUSED".to_owned());
    }
    let right = format!("{} ", right.join(" · "));
    // The target's name keeps at least a third of the bar.
    let end =
        write_right(buf, area.x + area.width / 3, area.y, area.right(), &right, style.patch(app.theme.strong()));
    let x = write(buf, area.x, area.y, end, " trainmon ", style.patch(app.theme.strong()));
    if let Some(ended) = &app.ended {
        let text = format!("ENDED: {} (last verdict below)", sanitise(ended));
        let text = fit(&text, usize::from(end.saturating_sub(x + 1)));
        write(buf, x, area.y, end, &text, style.patch(app.theme.strong()));
        return;
    }
    let x = write(buf, x, area.y, end, &format!("PID {} ", app.target.pid), style);
    let command = fit(&app.target.command, usize::from(end.saturating_sub(x + 1)));
    write(buf, x, area.y, end, &command, style);
}

/// Keys that fit, from the table; a notice instead, while there is one; what trainmon itself costs on the right.
pub fn footer(buf: &mut Buffer, area: Rect, app: &App) {
    let mut end = area.right();
    let own = app.frame().map(|f| (f.own_cpu_pct, f.own_rss_bytes));
    if let Some((cpu @ Some(_), rss)) = own {
        let text = format!("every {} s, self {}% {}", app.interval_s, format::number(cpu), format::bytes(rss));
        if area.width >= 100 {
            end = write_right(buf, area.x, area.y, area.right(), &text, app.theme.dim());
        }
    }
    if let Some(notice) = &app.notice {
        let text = fit(notice, usize::from(end - area.x));
        write(buf, area.x, area.y, end, &text, app.theme.warning());
        return;
    }
    let scale = format::duration(app.span_s());
    let mut x = area.x;
    for (key, word) in keys::TABLE.iter().filter_map(|b| b.footer) {
        let word = if word == "zoom" { format!("{word} {scale}") } else { word.to_owned() };
        let needed = cells(key) + 1 + cells(&word);
        if x + needed > end {
            break;
        }
        x = write(buf, x, area.y, end, key, app.theme.bar());
        x = write(buf, x + 1, area.y, end, &word, app.theme.dim()) + 1;
    }
}
