//! The job's processes. Only the rows that are visible cost anything.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

use super::{write, write_right};
use crate::rates::Frame;
use crate::rates::frame::ProcessRates;
use crate::rates::threads::ThreadRates;
use crate::sample::ThreadRole;
use crate::text::fit;
use crate::tui::app::App;
use crate::tui::format;
use crate::tui::pages::processes::ABOVE;
use crate::tui::processes::{Branch, Column, Entry, Placed, Table};
use crate::tui::words;

/// Cells of one level of the tree.
const LEVEL: u16 = 3;
/// Cells of a filter or search in the line above the table.
const TYPED: usize = 24;

/// Draws what is shown, the headings and the visible rows.
pub fn draw(buf: &mut Buffer, area: Rect, app: &App) {
    if area.height < ABOVE {
        return;
    }
    let placed = app.pages.processes.placed(area.width);
    let table = &app.pages.processes.table;
    shown(buf, Rect { height: 1, ..area }, app);
    heading(buf, Rect { y: area.y + 1, height: 1, ..area }, &placed, app);
    let body = Rect { y: area.y + ABOVE, height: area.height - ABOVE, ..area };
    // A job has one process at least.
    let Some(frame) = app.frame().filter(|frame| !frame.processes.is_empty()) else {
        write(buf, body.x, body.y, body.right(), "no process has been read", app.theme().dim());
        return;
    };
    if table.rows.is_empty() && !table.filter.is_empty() {
        let text = "no process matches the filter: F4 changes it, Ctrl-U there clears it";
        write(buf, body.x, body.y, body.right(), text, app.theme().strong());
    }
    let rows = table.rows.iter().enumerate().skip(table.top);
    for ((place, row), y) in rows.zip(body.top()..body.bottom()) {
        let line = Rect { y, height: 1, ..body };
        match row.entry {
            Entry::Process(at) => {
                let Some(process) = frame.processes.get(at as usize) else { continue };
                process_line(buf, line, &placed, process, row.branch, table, app);
            }
            Entry::Thread(at) => {
                let Some(thread) = frame.threads.get(at as usize) else { continue };
                thread_line(buf, line, &placed, thread, row.branch, app);
            }
        }
        if place == table.selected {
            buf.set_style(line, app.theme().selected());
        }
    }
}

/// A count with its noun.
fn counted(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

/// How many processes are shown, in which order, and what limits them.
fn shown(buf: &mut Buffer, area: Rect, app: &App) {
    let page = &app.pages.processes;
    let table = &page.table;
    let (count, threads) =
        app.frame().map_or((0, 0), |frame: &Frame| (frame.processes.len(), frame.job.thread_count));
    let mut text = match (table.filter.is_empty(), threads) {
        _ if count == 0 => format!("{} processes", format::UNMEASURED),
        (true, 0) => counted(count, "process", "processes"),
        (true, threads) => {
            let threads = counted(threads as usize, "thread", "threads");
            format!("{}, {threads}", counted(count, "process", "processes"))
        }
        (false, _) => format!("{} of {count} processes match “{}” (F4)", table.matching, fit(&table.filter, TYPED)),
    };
    let order = if table.sort.reversed { ", reversed" } else { "" };
    text.push_str(&format!(" · by {}{order}", table.sort.column));
    if table.tree {
        text.push_str(" · tree");
    }
    if table.threads {
        text.push_str(" · threads that ran");
    }
    let dim = app.theme().dim();
    let place = format!("{}/{}", (table.selected + 1).min(table.rows.len()), table.rows.len());
    let end = write_right(buf, area.x, area.y, area.right(), &place, dim);
    let end = end.saturating_sub(1);
    let x = write(buf, area.x, area.y, end, &text, dim);
    if page.missed && !page.search.is_empty() {
        let text = format!(" · “{}” is not found", fit(&page.search, TYPED));
        write(buf, x, area.y, end, &text, app.theme().strong());
    }
}

fn heading(buf: &mut Buffer, area: Rect, placed: &Placed, app: &App) {
    let theme = app.theme();
    buf.set_style(area, theme.heading());
    let sort = app.pages.processes.table.sort;
    let all = placed.columns.iter().copied().chain([(Column::Command, placed.command)]);
    for (column, x) in all {
        let x = area.x + x;
        let end = if column == Column::Command { area.right() } else { x + column.width() };
        let (style, mark) = match (sort.column == column, sort.is_falling()) {
            (false, _) => (theme.heading(), ""),
            (true, true) => (theme.heading().patch(theme.strong()), "↓"),
            (true, false) => (theme.heading().patch(theme.strong()), "↑"),
        };
        let text = column.heading();
        if column.is_word() {
            // The mark may stand in the gap between two columns.
            write(buf, x, area.y, end + 1, &format!("{text}{mark}"), style);
        } else if mark.is_empty() {
            write_right(buf, x, area.y, end, text, style);
        } else {
            write_right(buf, x, area.y, end + 1, &format!("{text}{mark}"), style);
        }
    }
}

/// One value into its column.
fn value(buf: &mut Buffer, line: Rect, (column, x): (Column, u16), text: &str, style: Style) {
    let (x, end) = (line.x + x, (line.x + x + column.width()).min(line.right()));
    if column.is_word() {
        write(buf, x, line.y, end, text, style);
    } else {
        write_right(buf, x, line.y, end, text, style);
    }
}

fn process_line(
    buf: &mut Buffer,
    line: Rect,
    placed: &Placed,
    p: &ProcessRates,
    branch: Branch,
    table: &Table,
    app: &App,
) {
    let plain = Style::new();
    for place in &placed.columns {
        let mut set = |text: &str| value(buf, line, *place, text, plain);
        match place.0 {
            Column::Pid => set(&p.id.pid.to_string()),
            Column::Role => set(p.role.word()),
            Column::State => {
                let state = if p.state.is_ascii_graphic() { p.state } else { '?' };
                set(state.encode_utf8(&mut [0; 4]));
            }
            Column::Stage => set(table.doing_of(p.id.pid).map_or(format::UNMEASURED, |doing| doing.word())),
            Column::Cpu => set(&format::number(p.cpu_pct)),
            Column::Queue => set(&format::number(p.run_delay_share.map(|share| share * 100.0))),
            Column::Memory => set(&format::short_bytes(p.rss_bytes as f64)),
            Column::GpuMemory => {
                set(&p.gpu_memory_bytes.map_or_else(dash, |bytes| format::short_bytes(bytes as f64)))
            }
            Column::Read => set(&format::mib_s(p.read_bytes_s)),
            Column::Write => set(&format::mib_s(p.write_bytes_s)),
            Column::Threads => set(&p.threads.to_string()),
            Column::Time => set(&p.cpu_time_s.map_or_else(dash, format::cpu_time)),
            Column::Nice => set(&p.nice.map_or_else(dash, |nice| nice.to_string())),
            Column::Command => {}
        }
    }
    let x = tree(buf, line, line.x + placed.command, branch, app);
    let command = if p.command.is_empty() { &p.comm } else { &p.command };
    let command = fit(&words::short_command(command), usize::from(line.right().saturating_sub(x)));
    write(buf, x, line.y, line.right(), &command, plain);
}

fn thread_line(buf: &mut Buffer, line: Rect, placed: &Placed, t: &ThreadRates, branch: Branch, app: &App) {
    let dim = app.theme().dim();
    let (cpu, delay) = (f64::from(t.cpu_pct), f64::from(t.run_delay_pct));
    // As for processes: of the time it wanted a CPU.
    let queue = (cpu + delay > 0.0).then(|| delay / (cpu + delay) * 100.0);
    for place in &placed.columns {
        let mut set = |text: &str| value(buf, line, *place, text, dim);
        match place.0 {
            Column::Pid => set(&t.tid.to_string()),
            Column::Role => set(short(t.role)),
            Column::Cpu => set(&format::number(Some(cpu))),
            Column::Queue => set(&format::number(queue)),
            _ => {}
        }
    }
    let x = tree(buf, line, line.x + placed.command, branch, app);
    let name = if t.name.is_empty() { "thread" } else { &t.name };
    let name = fit(name, usize::from(line.right().saturating_sub(x)));
    write(buf, x, line.y, line.right(), &name, dim);
}

/// A thread's role in the cells that there are.
fn short(role: ThreadRole) -> &'static str {
    match role {
        ThreadRole::Main => "main",
        ThreadRole::Pin => "pin",
        ThreadRole::Autograd => "autograd",
        ThreadRole::Communication => "collect.",
        ThreadRole::Feeder => "feeder",
        ThreadRole::Other => "thread",
    }
}

fn dash() -> String {
    format::UNMEASURED.to_owned()
}

/// Draws the branch of a row and returns where its command begins. At most half of the cells go into the tree: of very
/// deep ones the outer levels are left out.
fn tree(buf: &mut Buffer, line: Rect, x: u16, branch: Branch, app: &App) -> u16 {
    let most = line.right().saturating_sub(x) / 2 / LEVEL;
    let levels = branch.depth.min(most);
    let mut x = x;
    for level in branch.depth - levels + 1..=branch.depth {
        let own = level == branch.depth;
        let goes_on = 1u64.checked_shl(u32::from(level)).is_some_and(|bit| branch.lines & bit != 0);
        let text = match (own, branch.last, goes_on) {
            (true, false, _) => "├─ ",
            (true, true, _) => "└─ ",
            (false, _, true) => "│  ",
            (false, _, false) => "   ",
        };
        x = write(buf, x, line.y, line.right(), text, app.theme().dim());
    }
    x
}
