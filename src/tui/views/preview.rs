//! The row of the list of jobs that is selected, in full: what is known before one attaches or switches.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

use super::{advice_line, banner, write};
use crate::history::timeline::{self, Window};
use crate::jobs::Candidate;
use crate::rates::time_split::LoopActivity;
use crate::text::{fit, sanitise, wrap};
use crate::tui::charts::{self, Columns};
use crate::tui::job::Job;
use crate::tui::jobs::JobList;
use crate::tui::theme::{Series, Theme};
use crate::tui::{format, words};

/// Seconds that the small charts show.
const SPAN_S: f64 = 60.0;
/// Cells of their names and values.
const NAME: u16 = 16;
/// Highest small chart.
const CHART_MAX: u16 = 10;

/// Lines of text with their styles.
type Lines = Vec<(String, Style)>;

fn put(buf: &mut Buffer, area: Rect, lines: &Lines) -> u16 {
    for ((line, style), y) in lines.iter().zip(area.top()..area.bottom()) {
        write(buf, area.x, y, area.right(), &fit(line, usize::from(area.width)), *style);
    }
    u16::try_from(lines.len()).unwrap_or(u16::MAX).min(area.height)
}

fn add(lines: &mut Lines, text: &str, width: u16, most: usize, style: Style) {
    let rows = wrap(text, usize::from(width));
    let cut = rows.len() > most;
    let first = lines.len();
    lines.extend(rows.into_iter().take(most).map(|row| (row, style)));
    if let (true, Some((last, _))) = (cut, lines.get_mut(first..).and_then(<[_]>::last_mut)) {
        *last = fit(&format!("{last} …"), usize::from(width).saturating_sub(1));
    }
}

/// A job that is attached to: verdict, why, what to do, and its last minute.
pub fn job(buf: &mut Buffer, area: Rect, job: &Job, theme: Theme) {
    let mut lines = Lines::new();
    let room = usize::from(area.height);
    // Text gets what the three charts leave, the charts a row each at least.
    let roomy = room >= 16;
    match job.latest_verdict() {
        None => lines.push((format!("attaching to PID {} …", job.target.pid), theme.strong())),
        Some(verdict) if banner::is_pending(verdict) => {
            lines.push(("watching: the first verdict takes a few seconds".to_owned(), theme.strong()));
        }
        Some(verdict) => {
            let cause = verdict.cause.map(|c| format!(": {c}")).unwrap_or_default();
            let sure = format!("{} {}", words::sureness(verdict.confidence), format::share(Some(verdict.confidence)));
            let head = format!("{}{cause} – {}, {sure}", verdict.class.word(), words::verdict_in_words(verdict));
            add(&mut lines, &head, area.width, 2, theme.strong());
            add(&mut lines, &verdict.summary, area.width, if roomy { 5 } else { 2 }, Style::new());
            if let Some(advice) = verdict.advice.first() {
                let text = advice_line("► Do first: ", advice, usize::from(area.width));
                add(&mut lines, &text, area.width, 2, theme.advice());
            }
        }
    }
    if let Some(ended) = &job.ended {
        lines.insert(0, (format!("ENDED: {}", sanitise(ended)), theme.warning()));
    }
    if roomy {
        lines.push((String::new(), Style::new()));
    }
    lines.truncate(room.saturating_sub(3));
    let used = put(buf, area, &lines);
    timelines(buf, Rect { y: area.y + used, height: area.height - used, ..area }, job, theme);
}

/// GPU, CPU and the main thread, small.
fn timelines(buf: &mut Buffer, area: Rect, job: &Job, theme: Theme) {
    if area.height < 3 || area.width <= NAME {
        return;
    }
    let height = (area.height / 3).min(CHART_MAX);
    let chart = Rect { x: area.x + NAME, width: area.width - NAME, height, ..area };
    let window = Window::of_cells(job.history.timeline.latest().map_or(0, |point| point.end_ns), SPAN_S, chart.width);
    let latest = job.history.timeline.latest();
    let gpu = Columns::gather(&job.history.timeline, window, |p| p.gpu.get());
    let cpu = Columns::gather(&job.history.timeline, window, |p| p.cpu.get());
    let shown = [
        ("GPU", Series::Gpu, &gpu, latest.and_then(|p| p.gpu.get()), "no GPU use seen"),
        ("CPU", Series::Cpu, &cpu, latest.and_then(|p| p.cpu.get()), "no CPU use seen"),
    ];
    let mut band = chart;
    for (name, series, columns, value, none) in shown {
        let text = format!("{name:<5}{}", format::percent(value.map(f64::from)));
        write(buf, area.x, band.y, band.x, &text, theme.series(series).patch(theme.strong()));
        if columns.values().all(|v| v.is_none()) {
            write(buf, band.x, band.y, band.right(), none, theme.dim());
        } else {
            charts::timeline(buf, band, columns, 100.0, theme.series(series), theme);
        }
        band.y += height;
    }
    let parts =
        job.archive().latest().and_then(|moment| timeline::loop_shares(&moment.frame)).map(|split| split.values());
    let most = parts.iter().flatten().zip(LoopActivity::ALL).max_by(|a, b| a.0.total_cmp(b.0));
    let text = most.map_or_else(
        || "Main –".to_owned(),
        |(share, part)| {
            let word = match part {
                LoopActivity::InputWait => "waits",
                LoopActivity::DeviceSync => "syncs",
                LoopActivity::HostBusy => "works",
                LoopActivity::Checkpoint => "saves",
                LoopActivity::Other => "other",
            };
            format!("Main {word} {}", format::share(Some(*share)))
        },
    );
    write(buf, area.x, band.y, band.x, &text, theme.strong());
    charts::stacked(buf, band, &job.history.timeline, window, theme);
}

/// A process that may be training: its numbers, and its whole command line.
pub fn candidate(buf: &mut Buffer, area: Rect, candidate: &Candidate, theme: Theme) {
    let c = candidate;
    let mut lines = Lines::new();
    let state = c.state.map_or_else(|| format::UNMEASURED.to_owned(), super::detail::state);
    let age = c.age_s.map_or_else(|| format::UNMEASURED.to_owned(), |age| format::duration(age as f64));
    let user = c.user.as_deref().map_or_else(|| format::UNMEASURED.into(), sanitise);
    add(&mut lines, &format!("PID {} of {user} · {state} · runs for {age}", c.pid), area.width, 2, theme.strong());
    let cores = c.cpu_pct.map(|pct| pct / 100.0).filter(|cores| *cores >= 1.0);
    let cores = cores.map_or_else(String::new, |cores| format!(" ({} cores)", format::number(Some(cores))));
    let cpu = format!("CPU {}{cores} · memory {}", format::percent(c.cpu_pct), format::bytes(c.rss_bytes));
    add(&mut lines, &cpu, area.width, 2, Style::new());
    let gpu = match c.gpu_memory_bytes {
        Some(bytes) => {
            let told = Some(bytes).filter(|bytes| *bytes > 0);
            format!("GPU memory {} · GPU use {}", format::bytes(told), format::percent(c.gpu_pct))
        }
        None => "no GPU that can be seen".to_owned(),
    };
    let workers = match c.workers {
        0 => "no data workers".to_owned(),
        1 => "1 data worker".to_owned(),
        n => format!("{n} data workers"),
    };
    let library = c.library_name().map(|name| format!(" · uses {name}")).unwrap_or_default();
    add(&mut lines, &format!("{gpu} · {workers}{library}"), area.width, 2, Style::new());
    lines.push((String::new(), Style::new()));
    // The last row says what Enter does.
    let room = usize::from(area.height).saturating_sub(lines.len() + 1).max(1);
    add(&mut lines, &c.command, area.width, room, Style::new());
    lines.truncate(usize::from(area.height.saturating_sub(1)));
    put(buf, area, &lines);
    if area.height > 1 {
        let text = fit("Enter attaches, from outside: it runs on as it does.", usize::from(area.width));
        write(buf, area.x, area.bottom() - 1, area.right(), &text, theme.dim());
    }
}

/// Nothing is selected: what would be listed.
pub fn nothing(buf: &mut Buffer, area: Rect, list: &JobList, theme: Theme) {
    let Some(found) = &list.candidates else { return };
    let mut lines = Lines::new();
    if !found.is_empty() {
        add(&mut lines, "Nothing here matches the filter: / changes it.", area.width, 2, theme.strong());
    } else {
        add(&mut lines, "No process that may be training is seen.", area.width, 2, theme.strong());
        for text in [
            "Listed would be, the likeliest first: processes that hold GPU memory, Python with data workers, Python \
             with a machine-learning library. The list is looked through every 2 s: a run that starts now will show.",
            "Those of other users may hide what they use: as root, or with sudo, more is seen.",
            "p attaches to any PID; trainmon demo shows a small run of its own.",
        ] {
            add(&mut lines, text, area.width, 6, Style::new());
        }
    }
    put(buf, area, &lines);
}
