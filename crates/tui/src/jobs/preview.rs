//! The selected row of the list of jobs in full: what is known before attaching or switching.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::Widget;

use super::JobList;
use crate::charts::{ChartColumns, FilledTimeline};
use crate::format;
use crate::job::Job;
use crate::theme::{Theme, WithLook};
use crate::widgets::loop_area::{LoopArea, LoopColumns};
use crate::widgets::{ChartLine, Text, Top, count, write_lines};
use trainmon_attach::jobs::JobCandidate;
use trainmon_base::text::sanitize;
use trainmon_diagnosis::diagnosis::verdict::Class;
use trainmon_diagnosis::history::timeline::TimelineWindow;
use trainmon_views::labels;

/// Seconds that the small charts show.
const PREVIEW_S: f64 = 60.0;
/// Cells of their names and values.
const NAME: u16 = 16;
/// Maximum height of a small chart.
const CHART_MAX: u16 = 10;

/// An attached job: verdict, reason, advice, and its last minute.
pub fn job(buf: &mut Buffer, area: Rect, job: &Job, theme: Theme) {
    let mut text = Text::new(area.width, theme);
    let room = usize::from(area.height);
    // Text gets the rows that the three charts leave; each chart gets at least one row.
    let roomy = room >= 16;
    match job.latest_verdict() {
        None => text.line(&format!("attaching to PID {}…", job.target.pid), theme.strong()),
        Some(verdict) if verdict.is_pending() => {
            text.line("measuring: the first verdict takes a few seconds", theme.strong());
        }
        Some(verdict) => {
            let sure = format::sureness(verdict.confidence).map(|sure| format!(" ({sure})")).unwrap_or_default();
            text.at_most(2, &format!("{}{sure}", verdict.heading()), theme.strong());
            text.at_most(if roomy { 5 } else { 2 }, &verdict.summary, Style::new());
            if let Some(advice) = verdict.advice.first() {
                text.at_most(2, &labels::advice_line("▶ ", advice, text.width), theme.strong());
            }
        }
    }
    if let Some(ended) = &job.ended {
        text.at_most(1, &format!("ENDED: {}", sanitize(ended)), theme.warning());
        text.lines.rotate_right(1);
    }
    if roomy {
        text.line("", Style::new());
    }
    text.lines.truncate(room.saturating_sub(3));
    write_lines(buf, area, &text.lines);
    let used = count(text.lines.len()).min(area.height);
    timelines(buf, Rect { y: area.y + used, height: area.height - used, ..area }, job, theme);
}

/// Small charts of GPU, CPU and the training loop.
fn timelines(buf: &mut Buffer, area: Rect, job: &Job, theme: Theme) {
    if area.height < 3 || area.width <= NAME || job.is_trace() {
        return;
    }
    let height = (area.height / 3).min(CHART_MAX);
    let chart = Rect { x: area.x + NAME, width: area.width - NAME, height, ..area };
    let window = TimelineWindow::of_cells(
        job.history.timeline.latest().map_or(0, |point| point.end_ns),
        PREVIEW_S,
        chart.width,
    );
    let latest = job.history.timeline.latest();
    let shown = [
        (ChartLine(Class::Gpu, "GPU", |p| p.gpu.get(), Top::Percent), "no GPU use"),
        (ChartLine(Class::Cpu, "CPU", |p| p.cpu.get(), Top::Percent), "no CPU use"),
    ];
    let mut band = chart;
    for (ChartLine(about, name, of, _), none) in shown {
        let text = format!("{name:<5}{}", format::percent(latest.and_then(of).map(f64::from)));
        Span::styled(text, theme.series(about).patch(theme.strong()))
            .render(Rect { x: area.x, width: NAME, ..band }, buf);
        let columns = ChartColumns::gather(&job.history.timeline, window, of);
        if columns.values().all(|v| v.is_none()) {
            Span::styled(none, theme.dim()).render(band, buf);
        } else {
            let look = |_| about.look();
            FilledTimeline { columns: &columns, max: 100.0, look, theme }.render(band, buf);
        }
        band.y += height;
    }
    let most = job.latest_verdict().and_then(|verdict| verdict.loop_parts().into_iter().next());
    let text = most.map_or_else(
        || "Loop –".to_owned(),
        |(part, share)| format!("The loop {}: {}", part.verb(), format::share(Some(share))),
    );
    Span::styled(text, theme.strong()).render(Rect { x: area.x, width: NAME, ..band }, buf);
    let (timeline, verdict) = (&job.history.timeline, job.latest_verdict());
    let columns = &LoopColumns::gather(timeline, window);
    LoopArea { columns, verdict, top_ms: None, theme }.render(band, buf);
}

/// A process that may be training: its numbers, and its full command line.
pub fn candidate(buf: &mut Buffer, area: Rect, candidate: &JobCandidate, theme: Theme) {
    let c = candidate;
    let mut text = Text::new(area.width, theme);
    let state = labels::number(c.state.map(labels::process_state));
    let age = labels::number(c.age_s.map(|age| format::duration(age as f64)));
    let user = labels::number(c.user.as_deref().map(sanitize));
    text.at_most(2, &format!("PID {} · user {user} · {state} · up {age}", c.pid), theme.strong());
    let cores = c.cpu_pct.map(|pct| pct / 100.0).filter(|cores| *cores >= 1.0);
    let cores = cores.map_or_else(String::new, |cores| format!(" ({} CPUs)", format::number(Some(cores))));
    let cpu = format!("CPU {}{cores} · memory {}", format::percent(c.cpu_pct), format::bytes(c.rss_bytes));
    text.at_most(2, &cpu, Style::new());
    let gpu = match c.gpu_memory_bytes {
        Some(bytes) => {
            let told = Some(bytes).filter(|bytes| *bytes > 0);
            format!("GPU memory {} · GPU use {}", format::bytes(told), format::percent(c.gpu_pct))
        }
        None => "no GPU found".to_owned(),
    };
    let workers = match c.workers {
        0 => "no data-loader workers".to_owned(),
        n => format::counted(n as usize, "data-loader worker", "data-loader workers"),
    };
    let library = c.library_name().map(|name| format!(" · uses {name}")).unwrap_or_default();
    text.at_most(2, &format!("{gpu} · {workers}{library}"), Style::new());
    text.line("", Style::new());
    // The last row says what Enter does.
    let room = usize::from(area.height).saturating_sub(text.lines.len() + 1).max(1);
    text.at_most(room, &c.command, Style::new());
    text.lines.resize(usize::from(area.height.saturating_sub(1)), Line::default());
    text.at_most(1, "Enter attaches. The job keeps running unchanged.", theme.dim());
    write_lines(buf, area, &text.lines);
}

/// Nothing is selected: what the list would show.
pub fn nothing(buf: &mut Buffer, area: Rect, list: &JobList, theme: Theme) {
    let Some(found) = &list.candidates else { return };
    let mut text = Text::new(area.width, theme);
    if !found.is_empty() {
        text.at_most(2, "No process matches the filter. Press / to change it.", theme.strong());
    } else {
        text.at_most(2, "No training process found.", theme.strong());
        for line in [
            "trainmon looks every 2 s for processes that hold GPU memory, and for Python with data-loader workers or a \
             machine-learning library. A job that starts now will appear here.",
            "Processes of other users show little. Run trainmon as root or with sudo to see more.",
            "Press p to attach to any PID, or run trainmon demo for an example.",
        ] {
            text.at_most(6, line, Style::new());
        }
    }
    write_lines(buf, area, &text.lines);
}
