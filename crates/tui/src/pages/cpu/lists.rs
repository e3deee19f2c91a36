//! What uses the CPUs: the job's threads by role, its busiest threads, and the other processes that use most. The lists
//! are side by side if there is room, otherwise one below the other.

use ratatui::style::Style;

use crate::format;
use crate::theme::Theme;
use crate::widgets::table::{self, Column};
use crate::widgets::{Scroll, Text, side_by_side};
use trainmon_base::text::fit;
use trainmon_rates::other_processes::OtherProcessRates;
use trainmon_views::labels::{self, number, whole_percent};
use trainmon_waits::Frame;

/// Minimum widths for two and three lists side by side.
const TWO: u16 = 78;
const THREE: u16 = 150;
/// Width of the list of roles on its own, and with the threads beside it.
const ROLES: u16 = 40;
const THREADS: u16 = 62;
/// Minimum width at which threads show their process's PID, and other processes their command line.
const ROOMY: usize = 52;
/// Maximum rows of a list. No real frame has more, but a hand-made one may.
const MOST_ROWS: usize = 256;

/// Adds a list: its heading, and its rows, or a remark if there are no rows.
type Add = fn(&mut Text, &Frame);

/// Draws the visible part of the lists.
pub fn draw(page: &mut Scroll<'_>, frame: &Frame, theme: Theme) {
    let width = page.area.width;
    let half = width / 2;
    let places = match width {
        0..TWO => [(0, width); 3],
        TWO..THREE => [(0, half - 1), (0, half - 1), (half, width - half)],
        _ => [(0, ROLES), (ROLES + 2, THREADS), (ROLES + THREADS + 4, width - ROLES - THREADS - 4)],
    };
    let lists: [Add; 3] = [roles, threads, other_processes];
    // A list goes below the previous one if both begin at the same column.
    let mut columns: Vec<(u16, Text)> = Vec::new();
    for ((x, width), add) in places.into_iter().zip(lists) {
        match columns.last_mut().filter(|(before, _)| *before == x) {
            Some((_, text)) => add(text, frame),
            None => {
                let mut text = Text::new(width, theme);
                add(&mut text, frame);
                columns.push((x, text));
            }
        }
    }
    page.lines(&side_by_side(columns.into_iter().map(|(x, text)| (x, text.lines))));
}

fn roles(text: &mut Text, frame: &Frame) {
    const COLUMNS: [Column; 5] = [("threads by role", -9), ("", -12), ("count", 5), ("CPU", 6), ("waits", 7)];
    text.table_heading(&table::headings(&COLUMNS));
    if frame.thread_roles.is_empty() {
        text.wrapped("", 0, "the job's threads have not been read yet", text.theme.dim());
    }
    for role in frame.thread_roles.iter().take(MOST_ROWS) {
        let count = role.count.to_string();
        let (cpu, queue) = (whole_percent(role.cpu_pct), format::share(role.run_delay_share));
        let values = [labels::role(role.process_role), short(role.thread_role.word()), &count, &cpu, &queue];
        text.line(&table::row(&COLUMNS, values), Style::new());
    }
}

fn threads(text: &mut Text, frame: &Frame) {
    const WIDE: [Column; 5] = [("PID", 7), ("TID", 8), (" role", -14), ("CPU", 6), ("waits", 7)];
    const NARROW: [Column; 4] = [("TID", 7), (" role", -10), ("CPU", 5), ("waits", 6)];
    let is_wide = text.width >= ROOMY;
    let (columns, what): (&[Column], _) = if is_wide { (&WIDE, "busiest threads") } else { (&NARROW, "busiest") };
    text.table_heading(&format!("{}  {what}", table::headings(columns)));
    if frame.threads.is_empty() && !frame.thread_roles.is_empty() {
        text.wrapped("", 0, "no thread ran or queued", text.theme.dim());
    }
    for thread in frame.threads.iter().take(MOST_ROWS) {
        let pid = is_wide.then(|| thread.process.pid.to_string());
        let percent = |pct: f32| whole_percent(Some(f64::from(pct)));
        let (cpu, queue) = (percent(thread.cpu_pct), percent(thread.run_delay_pct));
        let role = format!(" {}", short(thread.role.word()));
        let values = pid.into_iter().chain([thread.tid.to_string(), role, cpu, queue]);
        let name = if thread.name.is_empty() { format::UNMEASURED } else { &thread.name };
        named(text, table::row(columns, values) + "  ", name);
    }
}

fn other_processes(text: &mut Text, frame: &Frame) {
    const COLUMNS: [Column; 4] = [("PID", 7), ("UID", 6), ("CPU", 6), ("memory", 9)];
    let known = frame.other_processes.as_ref();
    let is_wide = text.width >= ROOMY;
    let over = if is_wide { known } else { None };
    let over = over.map(|n| format!(", over {} s", format::number(Some(n.seconds))));
    let others = if is_wide { "other processes" } else { "others" };
    text.table_heading(&format!("{} {others}{}", table::headings(&COLUMNS), over.unwrap_or_default()));
    let remark = match known {
        None => "other processes are read every few seconds while this page is open: none read yet",
        Some(_) => "no other process used the CPUs",
    };
    let processes = known.map(|known| known.processes.as_slice()).unwrap_or_default();
    if processes.is_empty() {
        text.wrapped("", 0, remark, text.theme.dim());
    }
    for process in processes.iter().take(MOST_ROWS) {
        let (cpu, memory) = (whole_percent(Some(process.cpu_pct)), format::bytes(Some(process.rss_bytes)));
        let row = table::row(&COLUMNS, [process.id.pid.to_string(), number(process.uid), cpu, memory]);
        named(text, row + " ", &name(process, is_wide));
    }
}

/// Adds a row of numbers, followed by a name in the remaining cells.
fn named(text: &mut Text, numbers: String, name: &str) {
    let room = text.width.saturating_sub(numbers.chars().count());
    text.line(&(numbers + &fit(name, room)), Style::new());
}

fn name(process: &OtherProcessRates, is_wide: bool) -> String {
    match (process.own, process.kernel) {
        (true, _) => "trainmon".to_owned(),
        // The same format as in ps.
        (_, true) => format!("[{}]", process.comm),
        _ if is_wide && !process.command.is_empty() => labels::program(&process.command).to_owned(),
        _ => process.comm.to_string(),
    }
}

fn short(role: &'static str) -> &'static str {
    if role == "communication" { "comms" } else { role }
}
