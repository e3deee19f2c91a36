//! The job's processes as a table. Only visible rows cost anything.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

use super::Processes;
use super::columns::{ColumnKind, Placed, ProcessColumn};
use super::order;
use super::rows::ProcessTable;
use super::tree::Branch;
use crate::format;
use crate::labels::{self, number, short_command};
use crate::theme::Theme;
use crate::widgets::{Drawn, Hit, Scene, behind, list, write, write_fit, write_right};
use trainmon_base::text::fit;
use trainmon_rates::frame::ProcessRates;
use trainmon_rates::threads::ThreadRates;
use trainmon_sample::ThreadRole;

/// Rows above the processes: the line that says what is shown, and the headings.
const ABOVE: u16 = 2;
/// Width of one level of the tree.
const LEVEL: u16 = 3;
/// Width of a filter or search in the line above the table.
const TYPED: usize = 24;

/// Draws the line that says what is shown, the headings and the visible rows.
pub fn draw(buf: &mut Buffer, area: Rect, page: &Processes, scene: &Scene<'_>, top: usize, drawn: &mut Drawn) {
    let (table, theme) = (&page.table, scene.theme);
    if area.height < ABOVE {
        return;
    }
    let placed = Placed::choose(&page.columns, table.sort.column, area.width);
    shown(buf, Rect { height: 1, ..area }, page, scene);
    headings(buf, Rect { y: area.y + 1, height: 1, ..area }, &placed, table, theme, drawn);
    let body = Rect { y: area.y + ABOVE, height: area.height - ABOVE, ..area };
    // A job has at least one process.
    let Some(frame) = scene.frame().filter(|frame| !frame.processes.is_empty()) else {
        write(buf, body.x, body.y, body.right(), "no process read yet", theme.dim());
        return;
    };
    if table.rows.is_empty() && !table.filter.is_empty() {
        let text = "no process matches the filter: press F4 to change it, then Ctrl-U to clear it";
        write(buf, body.x, body.y, body.right(), text, theme.strong());
    }
    drawn.page = list(buf, body, &table.rows, top, Some(table.selected), theme, |buf, area, row| {
        let line = ProcessLine { area, placed: &placed, branch: row.branch, theme };
        match row.in_frame(frame) {
            Some((process, None)) => line.process(buf, process, table),
            Some((_, Some(thread))) => line.thread(buf, thread),
            None => {}
        }
    });
    drawn.hits.push((body, Hit::Row(drawn.page.top)));
}

/// How many processes are shown, in which order, and with which filter.
fn shown(buf: &mut Buffer, area: Rect, page: &Processes, scene: &Scene<'_>) {
    let (table, theme) = (&page.table, scene.theme);
    let (count, threads) = scene.frame().map_or((0, 0), |frame| (frame.processes.len(), frame.job.thread_count));
    let mut text = match (table.filter.is_empty(), threads) {
        _ if count == 0 => format!("{} processes", format::UNMEASURED),
        (true, 0) => format::counted(count, "process", "processes"),
        (true, threads) => {
            let threads = format::counted(threads as usize, "thread", "threads");
            format!("{}, {threads}", format::counted(count, "process", "processes"))
        }
        (false, _) => format!("{} of {count} processes match “{}” (F4)", table.matching, fit(&table.filter, TYPED)),
    };
    let order = if table.sort.reversed { ", reversed" } else { "" };
    text.push_str(&format!(" · by {}{order}", table.sort.column.spec().word));
    for (on, what) in [(table.tree, " · tree"), (table.threads, " · threads that ran")] {
        text.push_str(if on { what } else { "" });
    }
    let place = format!("{}/{}", (table.selected + 1).min(table.rows.len()), table.rows.len());
    let end = write_right(buf, area.x, area.y, area.right(), &place, theme.dim()).saturating_sub(1);
    let x = write(buf, area.x, area.y, end, &text, theme.dim());
    if page.missed && !page.search.is_empty() {
        let text = format!(" · “{}” not found", fit(&page.search, TYPED));
        write(buf, x, area.y, end, &text, theme.strong());
    }
}

fn headings(buf: &mut Buffer, area: Rect, placed: &Placed, table: &ProcessTable, theme: Theme, drawn: &mut Drawn) {
    buf.set_style(area, theme.heading());
    let sort = table.sort;
    for (column, x) in placed.columns.iter().copied().chain([(ProcessColumn::Command, placed.command)]) {
        let (x, spec) = (area.x + x, column.spec());
        let end = if column == ProcessColumn::Command { area.right() } else { x + spec.width };
        let (style, mark) = match (sort.column == column, sort.is_falling()) {
            (false, _) => (theme.heading(), ""),
            (true, true) => (theme.heading().patch(theme.strong()), "↓"),
            (true, false) => (theme.heading().patch(theme.strong()), "↑"),
        };
        let text = format!("{}{mark}", spec.heading);
        // The mark may be in the gap between two columns.
        match spec.kind {
            ColumnKind::Word => write(buf, x, area.y, end + 1, &text, style),
            _ => write_right(buf, x, area.y, end + u16::from(!mark.is_empty()), &text, style),
        };
        drawn.hits.push((Rect { x, width: end.saturating_sub(x) + 1, ..area }, Hit::Heading(column.place())));
    }
}

/// A row, and where it is drawn.
struct ProcessLine<'p> {
    area: Rect,
    placed: &'p Placed,
    branch: Branch,
    theme: Theme,
}

impl ProcessLine<'_> {
    /// Writes each value into its column, followed by a text.
    fn draw(&self, buf: &mut Buffer, text: &str, style: Style, value: impl Fn(ProcessColumn) -> String) {
        let area = self.area;
        for (column, x) in &self.placed.columns {
            let (x, spec) = (area.x + x, column.spec());
            let end = (x + spec.width).min(area.right());
            match spec.kind {
                ColumnKind::Word => write(buf, x, area.y, end, &value(*column), style),
                _ => write_right(buf, x, area.y, end, &value(*column), style),
            };
        }
        let x = self.tree(buf);
        write_fit(buf, behind(area, x), text, style);
    }

    fn process(&self, buf: &mut Buffer, p: &ProcessRates, table: &ProcessTable) {
        let command = short_command(order::command(p));
        self.draw(buf, &command, Style::new(), |column| match column {
            ProcessColumn::Pid => p.id.pid.to_string(),
            ProcessColumn::Role => labels::role(p.role).to_owned(),
            ProcessColumn::State => if p.state.is_ascii_graphic() { p.state } else { '?' }.to_string(),
            ProcessColumn::Stage => number(table.activity_of(p.id.pid)),
            ProcessColumn::Cpu => format::number(p.cpu_pct),
            ProcessColumn::Queue => format::number(p.run_delay_share.map(|share| share * 100.0)),
            ProcessColumn::Memory => format::short_bytes(p.rss_bytes as f64),
            ProcessColumn::GpuMemory => number(p.gpu_memory_bytes.map(|bytes| format::short_bytes(bytes as f64))),
            ProcessColumn::Read => format::mib_s(p.read_bytes_per_s),
            ProcessColumn::Write => format::mib_s(p.write_bytes_per_s),
            ProcessColumn::Threads => p.threads.to_string(),
            ProcessColumn::Time => number(p.cpu_time_s.map(format::cpu_time)),
            ProcessColumn::Nice => number(p.nice),
            ProcessColumn::Command => String::new(),
        });
    }

    fn thread(&self, buf: &mut Buffer, t: &ThreadRates) {
        let (cpu, delay) = (f64::from(t.cpu_pct), f64::from(t.run_delay_pct));
        // As for processes: a share of the time it wanted a CPU.
        let queue = (cpu + delay > 0.0).then(|| delay / (cpu + delay) * 100.0);
        let name = if t.name.is_empty() { "thread" } else { &t.name };
        self.draw(buf, name, self.theme.dim(), |column| match column {
            ProcessColumn::Pid => t.tid.to_string(),
            ProcessColumn::Role => short(t.role).to_owned(),
            ProcessColumn::Cpu => format::number(Some(cpu)),
            ProcessColumn::Queue => format::number(queue),
            _ => String::new(),
        });
    }

    /// Draws the branch and returns where the text begins. The tree takes at most half of the cells: in very deep
    /// trees, the outer levels are left out.
    fn tree(&self, buf: &mut Buffer) -> u16 {
        let (area, Branch { depth, lines, last }) = (self.area, self.branch);
        let mut x = area.x + self.placed.command;
        let levels = depth.min(area.right().saturating_sub(x) / 2 / LEVEL);
        for level in depth - levels + 1..=depth {
            let goes_on = 1u64.checked_shl(u32::from(level)).is_some_and(|bit| lines & bit != 0);
            let text = match (level == depth, last, goes_on) {
                (true, false, _) => "├─ ",
                (true, true, _) => "└─ ",
                (false, _, true) => "│  ",
                (false, _, false) => "   ",
            };
            x = write(buf, x, area.y, area.right(), text, self.theme.dim());
        }
        x
    }
}

/// A thread's role in the available cells.
fn short(role: ThreadRole) -> &'static str {
    match role {
        ThreadRole::Pin => "pin",
        ThreadRole::Communication => "collect.",
        ThreadRole::Other => "thread",
        role => role.word(),
    }
}
