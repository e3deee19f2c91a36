//! The job's processes. Only the rows that are visible cost anything.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::{write, write_right};
use crate::rates::frame::ProcessRates;
use crate::text::fit;
use crate::tui::app::App;
use crate::tui::format;
use crate::tui::processes::Column;

/// One column: its heading, width, and from which terminal width on it is shown.
struct Heading {
    text: &'static str,
    width: u16,
    from: u16,
    sort: Option<Column>,
}

/// Columns from left to right; the command takes the rest.
const HEADINGS: [Heading; 9] = [
    Heading { text: "PID", width: 7, from: 0, sort: Some(Column::Pid) },
    Heading { text: "ROLE", width: 8, from: 0, sort: Some(Column::Role) },
    Heading { text: "S", width: 1, from: 0, sort: None },
    Heading { text: "CPU%", width: 5, from: 0, sort: Some(Column::Cpu) },
    Heading { text: "QUE%", width: 5, from: 0, sort: Some(Column::Queue) },
    Heading { text: "MEMORY", width: 8, from: 0, sort: Some(Column::Memory) },
    Heading { text: "rMiB/s", width: 7, from: 0, sort: Some(Column::Read) },
    Heading { text: "GPU MEM", width: 8, from: 70, sort: Some(Column::GpuMemory) },
    Heading { text: "THR", width: 4, from: 100, sort: Some(Column::Threads) },
];

/// Draws the heading and the visible rows.
pub fn draw(buf: &mut Buffer, area: Rect, app: &App) {
    if area.height == 0 {
        return;
    }
    heading(buf, area, app);
    let Some(frame) = app.frame() else { return };
    let visible = usize::from(area.height - 1);
    let rows = app.pages.processes.table.rows.iter().enumerate().skip(app.pages.processes.table.top).take(visible);
    for ((row, index), y) in rows.zip(area.top() + 1..) {
        let Some(process) = frame.processes.get(*index) else { continue };
        line(buf, Rect { y, height: 1, ..area }, process);
        if row == app.pages.processes.table.selected {
            buf.set_style(Rect { y, height: 1, ..area }, app.theme().selected());
        }
    }
}

fn heading(buf: &mut Buffer, area: Rect, app: &App) {
    let style = app.theme().heading();
    buf.set_style(Rect { height: 1, ..area }, style);
    let mut x = area.x;
    for h in HEADINGS.iter().filter(|h| area.width >= h.from) {
        let sorted = h.sort == Some(app.pages.processes.table.sort.column);
        let style = if sorted { style.patch(app.theme().strong()) } else { style };
        let text = match (sorted, app.pages.processes.table.sort.reversed) {
            (false, _) => h.text.to_owned(),
            (true, false) => format!("{}↓", h.text),
            (true, true) => format!("{}↑", h.text),
        };
        if matches!(h.text, "ROLE" | "S") {
            write(buf, x, area.y, x + h.width, &text, style);
        } else {
            write_right(buf, x, area.y, x + h.width, &text, style);
        }
        x += h.width + 1;
    }
    let count = app.frame().map_or(0, |f| f.processes.len());
    let place = if count > usize::from(area.height - 1) {
        format!("{}/{count}", app.pages.processes.table.selected + 1)
    } else {
        String::new()
    };
    let end = write_right(buf, x, area.y, area.right(), &place, style);
    write(buf, x, area.y, end, "COMMAND", style);
}

fn line(buf: &mut Buffer, area: Rect, p: &ProcessRates) {
    let style = ratatui::style::Style::new();
    let values = [
        p.id.pid.to_string(),
        p.role.word().to_owned(),
        if p.state.is_ascii_graphic() { p.state.to_string() } else { "?".to_owned() },
        format::number(p.cpu_pct),
        format::number(p.run_delay_share.map(|s| s * 100.0)),
        format::bytes(Some(p.rss_bytes)),
        format::mib_s(p.read_bytes_s),
        format::bytes(p.gpu_memory_bytes),
        p.threads.to_string(),
    ];
    let mut x = area.x;
    for (h, value) in HEADINGS.iter().zip(&values).filter(|(h, _)| area.width >= h.from) {
        if matches!(h.text, "ROLE" | "S") {
            write(buf, x, area.y, x + h.width, value, style);
        } else {
            write_right(buf, x, area.y, x + h.width, value, style);
        }
        x += h.width + 1;
    }
    let command = if p.command.is_empty() { &p.comm } else { &p.command };
    let command = fit(command, usize::from(area.right().saturating_sub(x)));
    write(buf, x, area.y, area.right(), &command, style);
}
