//! The processes on the GPUs: whether they belong to the job, what they do in it, and how much of the GPU they use.

use ratatui::text::Line;

use crate::format;
use crate::theme::Theme;
use crate::widgets::table::{self, Column};
use crate::widgets::{Scroll, Text};
use trainmon_base::text::fit;
use trainmon_rates::frame::{GpuProcessRates, GpuRates};
use trainmon_waits::Frame;

const COLUMNS: [Column; 6] = [("GPU", 4), ("PID", 8), ("  whose", -13), ("role", -10), ("use", 5), ("memory", 10)];

/// Lines of the list.
pub fn rows(frame: &Frame) -> usize {
    1 + usize::from(remark(frame).is_some()) + all(frame).count()
}

/// Draws the heading, a remark if one is needed, and the visible processes.
pub fn draw(page: &mut Scroll<'_>, frame: &Frame, theme: Theme) {
    let mut text = Text::new(page.area.width, theme);
    text.table_heading(&format!("{}  kind    command", table::headings(&COLUMNS)));
    if let Some(remark) = remark(frame) {
        text.line(&fit(remark, text.width), theme.dim());
    }
    page.lines(&text.lines);
    page.each(all(frame).collect::<Vec<_>>(), |(gpu, process)| {
        let style = if process.ours == Some(true) { theme.strong() } else { theme.dim() };
        Line::styled(line(gpu, process, frame, text.width), style)
    });
}

fn all(frame: &Frame) -> impl Iterator<Item = (&GpuRates, &GpuProcessRates)> {
    frame.gpus.iter().flat_map(|gpu| gpu.processes.iter().map(move |process| (gpu, process)))
}

fn line(gpu: &GpuRates, process: &GpuProcessRates, frame: &Frame, width: usize) -> String {
    let ours = process.ours == Some(true);
    let known = if ours { frame.processes.iter().find(|known| known.id.pid == process.pid) } else { None };
    let whose = match process.ours {
        Some(true) => "  * ours",
        None if process.mps_server => "   shared",
        Some(false) => "    other",
        None => "  ? unknown",
    };
    let rank = frame.ranks.iter().position(|rank| rank.id.pid == process.pid && known.is_some());
    let role = match (rank, known) {
        (Some(rank), _) if frame.ranks.len() > 1 => format!("rank {rank}"),
        (_, Some(known)) => known.role.word().to_owned(),
        _ => format::UNMEASURED.to_owned(),
    };
    let row = table::row(
        &COLUMNS,
        [
            gpu.index.to_string(),
            process.pid.to_string(),
            whose.to_owned(),
            role,
            format::percent(process.sm_utilization_pct.map(f64::from)),
            format::bytes(process.memory_bytes),
        ],
    );
    let row = format!("{row}  {:<8}", if process.compute { "compute" } else { "graphics" });
    let command = match known {
        Some(known) if !known.command.is_empty() => &known.command,
        Some(known) => known.comm.as_ref(),
        None if process.mps_server => "MPS server (runs its clients' work)",
        None if ours => "known by its PID on the host",
        None => format::UNMEASURED,
    };
    format!("{row}{}", fit(command, width.saturating_sub(row.chars().count())))
}

/// A remark that is needed to read the list.
fn remark(frame: &Frame) -> Option<&'static str> {
    if all(frame).next().is_none() {
        return Some(if frame.gpus.iter().any(|gpu| gpu.attached) {
            "no process listed: inside a container the driver may list none"
        } else {
            "no process listed"
        });
    }
    let unknown = all(frame).any(|(_, process)| process.ours.is_none() && !process.mps_server);
    unknown.then_some("These PIDs are the host's, not the container's: trainmon cannot match them from inside")
}
