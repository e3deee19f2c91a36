//! The selected process in full, over the overview: its whole command line and all its numbers.

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

/// Draws the popup, or nothing where no process is selected.
pub fn draw(buf: &mut Buffer, area: Rect, app: &App) {
    let (Some(process), Some(frame)) = (app.selected(), app.frame()) else { return };
    let width = area.width.saturating_sub(4).min(WIDTH);
    let inner = usize::from(width.saturating_sub(4));
    let mut lines: Vec<String> = numbers(process, frame).iter().flat_map(|l| wrapped(l, inner)).collect();
    let room = usize::from(area.height.saturating_sub(4)).saturating_sub(lines.len() + 1).max(1);
    let mut command = wrap(&process.command, inner);
    if command.len() > room {
        command.truncate(room);
        if let Some(last) = command.last_mut() {
            *last = crate::text::fit(&format!("{last}…"), inner);
        }
    }
    command.push(String::new());
    command.append(&mut lines);
    let height = u16::try_from(command.len() + 2).unwrap_or(u16::MAX).min(area.height);
    let popup = super::popups::place(area, width, height);
    super::popups::frame(buf, popup, &format!(" {} {} ", process.role.word(), process.id.pid), " Esc closes ", app);
    for (line, y) in command.iter().zip(popup.top() + 1..popup.bottom().saturating_sub(1)) {
        write(buf, popup.x + 2, y, popup.right() - 2, line, ratatui::style::Style::new());
    }
}

/// One entry as rows; an empty one stays an empty row.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    if text.is_empty() { vec![String::new()] } else { wrap(text, width) }
}

fn numbers(p: &ProcessRates, frame: &Frame) -> Vec<String> {
    let mut lines = vec![
        format!(
            "name {} · state {} · parent {} · threads {}",
            sanitise(&p.comm),
            state(p.state),
            p.parent,
            p.threads
        ),
        format!(
            "CPU {} % of a core · queueing for one {} of its runnable time",
            format::number(p.cpu_pct),
            format::share(p.run_delay_share)
        ),
        format!("memory {} · GPU memory {}", format::bytes(Some(p.rss_bytes)), format::bytes(p.gpu_memory_bytes)),
        format!("reads {} from storage · writes {}", format::rate(p.read_bytes_s), format::rate(p.write_bytes_s)),
    ];
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
            share(t.input_wait_s),
            share(t.device_sync_s),
            share(t.host_busy_s),
            share(t.checkpoint_s),
            share(t.other_s)
        ));
        lines.push(format!(
            "{} looks, waits told apart by {}",
            t.looks,
            if t.exact { "system call" } else { "wait channel and state only" }
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
