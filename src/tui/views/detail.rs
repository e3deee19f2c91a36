//! The selected process in full, over the page: all its numbers, its busiest threads, its whole command line.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::write;
use crate::rates::Frame;
use crate::rates::frame::ProcessRates;
use crate::text::{sanitise, wrap};
use crate::tui::app::App;
use crate::tui::format;

/// Widest popup: longer lines are hard to read.
const WIDTH: u16 = 100;

/// Threads of the process that are told of.
const THREADS: usize = 8;

/// Draws the popup, or nothing where no process is selected.
pub fn draw(buf: &mut Buffer, area: Rect, app: &App) {
    let (Some(process), Some(frame)) = (app.selected(), app.frame()) else { return };
    let width = width(area);
    let lines = lines(process, frame, app, width);
    let rows = rows(area, lines.len());
    let hidden = lines.len().saturating_sub(usize::from(rows));
    let top = app.pages.processes.detail_top.min(hidden);
    let popup = super::popups::place(area, width, rows + 2);
    let below = match hidden {
        0 => " Esc closes ".to_owned(),
        _ => format!(" ↑ ↓ {}/{}, Esc closes ", top + usize::from(rows), lines.len()),
    };
    super::popups::frame(buf, popup, &format!(" {} {} ", process.role.word(), process.id.pid), &below, app);
    for (line, y) in lines.iter().skip(top).zip(popup.top() + 1..popup.bottom().saturating_sub(1)) {
        write(buf, popup.x + 2, y, popup.right().saturating_sub(2), line, ratatui::style::Style::new());
    }
}

/// Lines that lie beyond the popup: how far it can be scrolled.
pub fn hidden_rows(app: &App, area: Rect) -> usize {
    let (Some(process), Some(frame)) = (app.selected(), app.frame()) else { return 0 };
    let lines = lines(process, frame, app, width(area)).len();
    lines.saturating_sub(usize::from(rows(area, lines)))
}

fn width(area: Rect) -> u16 {
    area.width.saturating_sub(4).min(WIDTH)
}

/// Rows of text that the popup has for so many lines.
fn rows(area: Rect, lines: usize) -> u16 {
    u16::try_from(lines).unwrap_or(u16::MAX).min(area.height.saturating_sub(4))
}

/// The numbers, then the command line, which may be long.
fn lines(process: &ProcessRates, frame: &Frame, app: &App, width: u16) -> Vec<String> {
    let inner = usize::from(width.saturating_sub(4));
    let mut texts = numbers(process, frame, app);
    texts.push(String::new());
    texts.push(process.command.to_string());
    texts.iter().flat_map(|text| wrapped(text, inner)).collect()
}

/// One entry as rows; an empty one stays an empty row.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    if text.is_empty() { vec![String::new()] } else { wrap(text, width) }
}

fn numbers(p: &ProcessRates, frame: &Frame, app: &App) -> Vec<String> {
    let count = |value: Option<f64>| format::number(value);
    let mut lines = vec![
        format!(
            "name {} · state {} · parent {} · user {} · nice {} · threads {}",
            sanitise(&p.comm),
            state(p.state),
            p.parent,
            p.uid.map_or_else(|| format::UNMEASURED.to_owned(), |uid| uid.to_string()),
            p.nice.map_or_else(|| format::UNMEASURED.to_owned(), |nice| nice.to_string()),
            p.threads
        ),
        format!(
            "CPU {} % of a core, {} since its start · queueing for one {} of its runnable time",
            count(p.cpu_pct),
            p.cpu_time_s.map_or_else(|| format::UNMEASURED.to_owned(), format::duration),
            format::share(p.run_delay_share)
        ),
        format!("memory {} · GPU memory {}", format::bytes(Some(p.rss_bytes)), format::bytes(p.gpu_memory_bytes)),
        format!(
            "reads {} from storage, {} through read calls · writes {}",
            format::rate(p.read_bytes_s),
            format::rate(p.read_chars_s),
            format::rate(p.write_bytes_s)
        ),
        format!("page faults {}/s, {}/s of them from storage", count(p.minor_faults_s), count(p.major_faults_s)),
    ];
    if let Some(doing) = app.pages.processes.table.doing_of(p.id.pid) {
        lines.push(format!("mostly: {}", doing.word()));
    }
    if let Some(w) = frame.workers.iter().find(|w| w.id == p.id) {
        lines.push(String::new());
        lines.push(format!(
            "worker of {}: busy {}, waits for data {}, queues {}, idle {}",
            w.trainer,
            format::share(w.busy),
            format::share(w.io_wait),
            format::share(w.runnable),
            format::share(w.idle)
        ));
        lines.push(format!(
            "{} batches/s · {} read calls/s · {} through read calls · {} major faults/s",
            format::number(w.batches_s),
            format::number(w.read_calls_s),
            format::rate(w.read_chars_s),
            format::number(w.major_faults_s)
        ));
    }
    if let Some(t) = frame.trainers.iter().find(|t| t.id == p.id) {
        let seconds = t.seconds_seen.max(f64::MIN_POSITIVE);
        let share =
            |s: f64| if t.seconds_seen > 0.0 { format::share(Some(s / seconds)) } else { format::share(None) };
        lines.push(String::new());
        lines.push(format!(
            "main thread: waits for a batch {}, for the GPU {}, works {}, saves {}, other {}",
            share(t.split_s.input_wait),
            share(t.split_s.device_sync),
            share(t.split_s.host_busy),
            share(t.split_s.checkpoint),
            share(t.split_s.other)
        ));
        lines.push(format!(
            "{} looks, waits told apart by {}",
            t.samples,
            if t.exact { "system call" } else { "wait channel and state only" }
        ));
    }
    let threads = frame.threads.iter().filter(|thread| thread.process == p.id).take(THREADS);
    for (nth, thread) in threads.enumerate() {
        if nth == 0 {
            lines.push(String::new());
        }
        lines.push(format!(
            "thread {} {}, {}: CPU {} %, queues {} % of the time",
            thread.tid,
            if thread.name.is_empty() { format::UNMEASURED.into() } else { sanitise(&thread.name) },
            thread.role.word(),
            count(Some(f64::from(thread.cpu_pct))),
            count(Some(f64::from(thread.run_delay_pct)))
        ));
    }
    lines
}

/// The state letter of `/proc/PID/stat` (proc(5)) in a word.
pub fn state(letter: char) -> String {
    let word = match letter {
        'R' => "running",
        'S' => "sleeping",
        'D' => "waiting for the disk",
        'T' | 't' => "stopped",
        'Z' => "zombie",
        'X' => "dead",
        'I' => "idle",
        _ => return format::UNMEASURED.to_owned(),
    };
    format!("{letter} {word}")
}
