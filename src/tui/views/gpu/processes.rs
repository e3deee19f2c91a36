//! The processes on the devices: whose they are, what they do in the job, and how much of the device they take.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::super::sheet::Sheet;
use super::super::write;
use crate::rates::Frame;
use crate::rates::frame::{GpuProcessRates, GpuRates};
use crate::text::fit;
use crate::tui::app::App;
use crate::tui::format;

/// Cells before the command.
const BEFORE: u16 = 60;

/// Lines: the heading, one for each process, and remarks.
pub fn rows(frame: &Frame, _app: &App) -> usize {
    1 + remark(frame).iter().len() + all(frame).count()
}

/// Draws what is visible of the processes, from `line` of the page on.
pub fn draw(buf: &mut Buffer, sheet: &Sheet, line: usize, frame: &Frame, app: &App) {
    let theme = app.theme();
    if let Some(rect) = sheet.line(line) {
        buf.set_style(rect, theme.heading());
        let text = " GPU     PID  whose      role       SM %    memory  kind      command";
        write(buf, rect.x, rect.y, rect.right(), text, theme.heading());
    }
    let remark = remark(frame);
    let mut line = line + 1;
    if let Some(text) = remark {
        if let Some(rect) = sheet.line(line) {
            write(buf, rect.x, rect.y, rect.right(), &fit(text, usize::from(rect.width)), theme.dim());
        }
        line += 1;
    }
    let count = all(frame).count();
    let mut processes = None;
    for (i, rect) in sheet.visible(line, count) {
        let processes = processes.get_or_insert_with(|| all(frame).skip(i));
        let Some((gpu, process)) = processes.next() else { break };
        one(buf, rect, gpu, process, frame, app);
    }
}

fn all(frame: &Frame) -> impl Iterator<Item = (&GpuRates, &GpuProcessRates)> {
    frame.gpus.iter().flat_map(|gpu| gpu.processes.iter().map(move |process| (gpu, process)))
}

fn one(buf: &mut Buffer, rect: Rect, gpu: &GpuRates, process: &GpuProcessRates, frame: &Frame, app: &App) {
    let theme = app.theme();
    let known =
        frame.processes.iter().find(|known| known.id.pid == process.pid).filter(|_| process.ours == Some(true));
    let (whose, style) = match process.ours {
        Some(true) => ("* ours", theme.strong()),
        Some(false) => ("  other", theme.dim()),
        None => ("? unknown", theme.dim()),
    };
    let rank = frame.trainers.iter().position(|trainer| trainer.id.pid == process.pid && known.is_some());
    let role = match (rank, known) {
        (Some(rank), _) if frame.trainers.len() > 1 => format!("rank {rank}"),
        (_, Some(known)) => known.role.word().to_owned(),
        _ => format::UNMEASURED.to_owned(),
    };
    let sm = process.sm_utilization_pct.map(f64::from);
    let text = format!(
        "{:>4} {:>7}  {whose:<9}  {role:<9} {:>5} {:>9}  {:<8}",
        gpu.index,
        process.pid,
        format::percent(sm),
        format::bytes(process.memory_bytes),
        if process.compute { "compute" } else { "graphics" },
    );
    write(buf, rect.x, rect.y, rect.right(), &text, style);
    let command = match (known, process.ours) {
        (Some(known), _) if !known.command.is_empty() => known.command.as_ref(),
        (Some(known), _) => known.comm.as_ref(),
        (None, Some(true)) => "known by its PID on the host",
        (None, _) => format::UNMEASURED,
    };
    let x = rect.x + BEFORE;
    if x < rect.right() {
        write(buf, x, rect.y, rect.right(), &fit(command, usize::from(rect.right() - x)), style);
    }
}

/// What has to be known to read the list.
fn remark(frame: &Frame) -> Option<&'static str> {
    let attached = frame.gpus.iter().any(|gpu| gpu.attached);
    if frame.gpus.iter().all(|gpu| gpu.processes.is_empty()) {
        return Some(match attached {
            true => "no process is listed: inside a container NVML may list none",
            false => "no process is listed",
        });
    }
    let unknown = all(frame).any(|(_, process)| process.ours.is_none());
    unknown.then_some("PIDs here are the host's, ours are the container's: whose they are cannot be told from inside")
}
