//! The job's processes as a table. Only visible rows cost anything.

use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Cell, Row, StatefulWidget, Table, TableState, Widget};

use super::Processes;
use super::columns::{self, ColumnKind, ProcessColumn};
use super::order::{self, Sort};
use super::rows::{ProcessRow, ProcessTable};
use super::tree::Branch;
use crate::format;
use crate::theme::Theme;
use crate::widgets::{Drawn, Extent, Hit, Scene, bars, cells};
use trainmon_base::text::fit;
use trainmon_diagnosis::history::recent_use::Recent;
use trainmon_rates::frame::ProcessRates;
use trainmon_rates::threads::ThreadRates;
use trainmon_sample::ThreadRole;
use trainmon_views::labels::{self, number, short_command};

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
    let columns = columns::choose(&page.columns, table.sort.column, area.width);
    let widths: Vec<_> = columns.iter().map(|column| column.constraint()).collect();
    let [above, body] = Layout::vertical([Constraint::Length(1), Constraint::Fill(1)]).areas(area);
    shown(buf, above, page, scene);
    let heading = Rect { height: 1, ..body };
    let places = Layout::horizontal(&widths).split(heading);
    let hit = |(place, column): (&Rect, &ProcessColumn)| (*place, Hit::Heading(column.place()));
    drawn.hits.extend(places.iter().zip(&columns).map(hit));
    let header = Row::from_iter(columns.iter().map(|column| heading_cell(*column, table.sort, theme)));
    let header = header.style(theme.heading());
    let rows = Rect { y: body.y + 1, height: body.height - 1, ..body };
    let extent = Extent { top, visible: usize::from(rows.height), total: table.rows.len() }.showing(table.selected);
    let visible = table.rows.iter().skip(extent.top).take(extent.visible);
    let command = places.last().map_or(0, |place| place.width);
    let frame = scene.frame().filter(|frame| !frame.processes.is_empty());
    let row = |row: &ProcessRow| match row.in_frame(frame?)? {
        (process, None) => Some(process_row(&columns, process, row.branch, command, table, scene)),
        (_, Some(thread)) => Some(thread_row(&columns, thread, row.branch, command, theme)),
    };
    let visible = visible.map(|line| row(line).unwrap_or_default());
    let mut state = TableState::new().with_selected(table.selected.checked_sub(extent.top));
    let drawn_table = Table::new(visible, &widths).column_spacing(0).header(header);
    StatefulWidget::render(drawn_table.row_highlight_style(theme.selected()), body, buf, &mut state);
    // A job has at least one process.
    if frame.is_none() {
        Span::styled("no process read yet", theme.dim()).render(rows, buf);
        return;
    }
    if table.rows.is_empty() && !table.filter.is_empty() {
        let text = "no process matches the filter: press F4 to change it, then Ctrl-U to clear it";
        Span::styled(text, theme.strong()).render(rows, buf);
    }
    drawn.page = extent;
    drawn.hits.push((rows, Hit::Row(extent.top)));
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
    let place = format!(" {}/{}", (table.selected + 1).min(table.rows.len()), table.rows.len());
    let [left, right] = Layout::horizontal([Constraint::Fill(1), Constraint::Length(cells(&place))]).areas(area);
    let mut line = Line::styled(text, theme.dim());
    if page.missed && !page.search.is_empty() {
        line.push_span(Span::styled(format!(" · “{}” not found", fit(&page.search, TYPED)), theme.strong()));
    }
    line.render(left, buf);
    Span::styled(place, theme.dim()).render(right, buf);
}

/// A heading, with a mark if the table is sorted by it: where numbers have the blank between two columns.
fn heading_cell(column: ProcessColumn, sort: Sort, theme: Theme) -> Cell<'static> {
    let (mark, style) = match (sort.column == column, sort.is_falling()) {
        (false, _) => (" ", Style::new()),
        (true, true) => ("↓", theme.strong()),
        (true, false) => ("↑", theme.strong()),
    };
    let line = Line::styled(format!("{}{mark}", column.spec().heading), style);
    Cell::from(if column.spec().kind == ColumnKind::Word { line } else { line.right_aligned() })
}

/// A value in its column, with a blank after it.
fn value_cell(column: ProcessColumn, value: String) -> Cell<'static> {
    match column.spec().kind {
        ColumnKind::Word => Cell::from(fit(&value, usize::from(column.spec().width))),
        _ => Cell::from(Line::from(value + " ").right_aligned()),
    }
}

fn process_row(
    columns: &[ProcessColumn],
    p: &ProcessRates,
    branch: Branch,
    width: u16,
    table: &ProcessTable,
    scene: &Scene<'_>,
) -> Row<'static> {
    let value = |column: &ProcessColumn| {
        let value = match column {
            ProcessColumn::Pid => p.id.pid.to_string(),
            ProcessColumn::Role => labels::role(p.role).to_owned(),
            ProcessColumn::State => if p.state.is_ascii_graphic() { p.state } else { '?' }.to_string(),
            ProcessColumn::Stage => number(table.activity_of(p.id.pid)),
            ProcessColumn::Cpu => format::number(p.cpu_pct),
            ProcessColumn::Recent => bars::sparkline((Recent::Cpu, p.id.pid), column.spec().width, scene),
            ProcessColumn::Queue => format::number(p.run_delay_share.map(|share| share * 100.0)),
            ProcessColumn::Memory => format::short_bytes(p.rss_bytes as f64),
            ProcessColumn::GpuMemory => number(p.gpu_memory_bytes.map(|bytes| format::short_bytes(bytes as f64))),
            ProcessColumn::Read => format::mib_s(p.read_bytes_per_s),
            ProcessColumn::Write => format::mib_s(p.write_bytes_per_s),
            ProcessColumn::Threads => p.threads.to_string(),
            ProcessColumn::Time => number(p.cpu_time_s.map(format::cpu_time)),
            ProcessColumn::Nice => number(p.nice),
            ProcessColumn::Command => {
                return named_cell(&short_command(order::command(p)), branch, width, scene.theme);
            }
        };
        value_cell(*column, value)
    };
    Row::from_iter(columns.iter().map(value))
}

fn thread_row(columns: &[ProcessColumn], t: &ThreadRates, branch: Branch, width: u16, theme: Theme) -> Row<'static> {
    let (cpu, delay) = (f64::from(t.cpu_pct), f64::from(t.run_delay_pct));
    // As for processes: a share of the time it wanted a CPU.
    let queue = (cpu + delay > 0.0).then(|| delay / (cpu + delay) * 100.0);
    let name = if t.name.is_empty() { "thread" } else { &t.name };
    let value = |column: &ProcessColumn| {
        let value = match column {
            ProcessColumn::Pid => t.tid.to_string(),
            ProcessColumn::Role => short(t.role).to_owned(),
            ProcessColumn::Cpu => format::number(Some(cpu)),
            ProcessColumn::Queue => format::number(queue),
            ProcessColumn::Command => return named_cell(name, branch, width, theme),
            _ => String::new(),
        };
        value_cell(*column, value)
    };
    Row::from_iter(columns.iter().map(value)).style(theme.dim())
}

/// The branch of the tree and the name behind it. The tree takes at most half of the cells: in very deep trees, the
/// outer levels are left out.
fn named_cell(name: &str, Branch { depth, lines, last }: Branch, width: u16, theme: Theme) -> Cell<'static> {
    let levels = depth.min(width / 2 / LEVEL);
    let level = |level: u16| {
        let goes_on = 1u64.checked_shl(u32::from(level)).is_some_and(|bit| lines & bit != 0);
        match (level == depth, last, goes_on) {
            (true, false, _) => "├─ ",
            (true, true, _) => "└─ ",
            (false, _, true) => "│  ",
            (false, _, false) => "   ",
        }
    };
    let tree: String = (depth - levels + 1..=depth).map(level).collect();
    let name = fit(name, usize::from(width - levels * LEVEL));
    Cell::from(Line::from_iter([Span::styled(tree, theme.dim()), Span::raw(name)]))
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
