//! The selected process in full, over the page: all its numbers, its busiest threads, its whole command line.

use ratatui::buffer::Buffer;
use ratatui::style::Style;

use super::Processes;
use crate::format;
use crate::widgets::{Drawn, PopupBox, Scene};
use trainmon_base::text::{sanitize, wrap};
use trainmon_rates::frame::ProcessRates;
use trainmon_rates::threads::ThreadRates;
use trainmon_views::labels::{self, number, process_state, split};
use trainmon_waits::Frame;
use trainmon_waits::frame::{RankRates, WorkerRates};

/// Maximum width: longer lines are hard to read.
const WIDTH: u16 = 100;

/// Number of threads shown.
const THREADS: usize = 8;

/// Draws the popup from its line `top` on, or nothing if no process is selected.
pub fn draw(buf: &mut Buffer, page: &Processes, scene: &Scene<'_>, top: usize, drawn: &mut Drawn) {
    let (Some(process), Some(frame)) = (page.selected(scene), scene.frame()) else { return };
    let width = buf.area.width.saturating_sub(4).min(WIDTH);
    let lines = lines(process, frame, page, usize::from(width.saturating_sub(4)));
    let lines: Vec<_> = lines.into_iter().map(|line| (line, Style::new())).collect();
    let title = format!(" {} {} ", labels::role(process.role), process.id.pid);
    PopupBox { title: &title, below: "", width }.scrolled(buf, &lines, top, drawn, scene.theme);
}

/// The numbers, then the command line, which may be long.
fn lines(process: &ProcessRates, frame: &Frame, page: &Processes, width: usize) -> Vec<String> {
    let mut texts = numbers(process);
    texts.extend(page.table.activity_of(process.id.pid).map(|activity| format!("mostly: {activity}")));
    let worker = frame.workers.iter().find(|worker| worker.id == process.id).map(worker_lines);
    let rank = frame.ranks.iter().find(|rank| rank.id == process.id).map(rank_lines);
    let threads = frame.threads.iter().filter(|thread| thread.process == process.id).take(THREADS);
    let threads: Vec<String> = threads.map(thread_line).collect();
    let parts = worker.into_iter().chain(rank).map(Vec::from).chain([threads, vec![process.command.to_string()]]);
    for part in parts.filter(|part| !part.is_empty()) {
        texts.push(String::new());
        texts.extend(part);
    }
    let wrapped = |text: &String| if text.is_empty() { vec![String::new()] } else { wrap(text, width) };
    texts.iter().flat_map(wrapped).collect()
}

fn numbers(p: &ProcessRates) -> Vec<String> {
    vec![
        format!(
            "name {} · state {} · parent {} · user {} · nice {} · threads {}",
            sanitize(&p.comm),
            process_state(p.state),
            p.parent,
            number(p.uid),
            number(p.nice),
            p.threads
        ),
        format!(
            "CPU {}% of one CPU, {} since it started · queueing {} of the time it could run",
            format::number(p.cpu_pct),
            number(p.cpu_time_s.map(format::duration)),
            format::share(p.run_delay_share)
        ),
        format!("memory {} · GPU memory {}", format::bytes(Some(p.rss_bytes)), format::bytes(p.gpu_memory_bytes)),
        format!(
            "reads {} from storage, {} through read calls · writes {}",
            format::rate(p.read_bytes_per_s),
            format::rate(p.read_chars_per_s),
            format::rate(p.write_bytes_per_s)
        ),
        format!(
            "page faults {}/s, {}/s of them from storage",
            format::number(p.minor_faults_per_s),
            format::number(p.major_faults_per_s)
        ),
    ]
}

fn worker_lines(w: &WorkerRates) -> [String; 2] {
    [
        format!(
            "worker of {}: busy {}, waiting for its source {}, queueing {}, idle {}",
            w.rank,
            format::share(w.busy),
            format::share(w.io_wait),
            format::share(w.runnable),
            format::share(w.idle)
        ),
        format!(
            "{} batches/s · {} read calls/s · {} through read calls · {} major faults/s",
            format::number(w.batches_per_s),
            format::number(w.read_calls_per_s),
            format::rate(w.read_chars_per_s),
            format::number(w.major_faults_per_s)
        ),
    ]
}

fn rank_lines(t: &RankRates) -> [String; 2] {
    let how = if t.exact { "system call" } else { "wait channel and state only" };
    [
        format!("training loop: {}", split(t.split_s.shares_of(t.seconds_seen).as_ref())),
        format!("{} samples, waits classified by {how}", t.samples),
    ]
}

fn thread_line(thread: &ThreadRates) -> String {
    let name = if thread.name.is_empty() { format::UNMEASURED.into() } else { sanitize(&thread.name) };
    let (cpu, queue) = (f64::from(thread.cpu_pct), f64::from(thread.run_delay_pct));
    format!(
        "thread {} {name}, {}: CPU {}%, queueing {}% of the time",
        thread.tid,
        thread.role.word(),
        format::number(Some(cpu)),
        format::number(Some(queue))
    )
}
