//! Who uses the CPUs: the job's threads by role, its busiest threads, and the heaviest processes besides the job's.
//! Side by side where there is room, below each other where there is not.

use std::borrow::Cow;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

use crate::rates::Frame;
use crate::rates::neighbours::NeighbourRates;
use crate::rates::threads::{ThreadRates, ThreadRoleRates};
use crate::text::fit;
use crate::tui::labels::{number, whole_percent};
use crate::tui::theme::Theme;
use crate::tui::widgets::scroll::Scroll;
use crate::tui::widgets::table::{self, Column};
use crate::tui::widgets::text::{Text, write};
use crate::tui::{format, labels};

/// From these widths on two and three lists stand side by side.
const TWO: u16 = 78;
const THREE: u16 = 150;
/// Cells of the list of roles where it stands alone, and of the threads beside it.
const ROLES: u16 = 40;
const THREADS: u16 = 62;
/// From this width on threads have their process's PID, and neighbours their command line.
const ROOMY: u16 = 52;

/// A list: its heading and a remark where it is empty, and its rows, of which only the visible ones are made.
struct List<'f> {
    head: Text,
    rows: usize,
    row: Box<dyn Fn(usize) -> Option<String> + 'f>,
}

impl<'f> List<'f> {
    fn new<T>(
        (width, theme): (u16, Theme),
        heading: &str,
        remark: &str,
        rows: &'f [T],
        row: impl Fn(&'f T) -> (String, Cow<'f, str>) + 'f,
    ) -> Self {
        let mut head = Text::new(width, theme);
        head.table_heading(heading);
        if rows.is_empty() && !remark.is_empty() {
            head.wrapped("", 0, remark, theme.dim());
        }
        let row = move |i: usize| {
            let (numbers, name) = row(rows.get(i)?);
            let room = usize::from(width).saturating_sub(numbers.chars().count());
            Some(format!("{numbers}{}", fit(&name, room)))
        };
        Self { head, rows: rows.len(), row: Box::new(row) }
    }

    fn lines(&self) -> usize {
        self.head.lines.len() + self.rows
    }

    fn draw(&self, buf: &mut Buffer, rect: Rect, line: usize) {
        if let Some(line) = self.head.lines.get(line) {
            buf.set_line(rect.x, rect.y, line, rect.width);
        } else if let Some(row) = line.checked_sub(self.head.lines.len()).and_then(&self.row) {
            write(buf, rect.x, rect.y, rect.right(), &row, Style::new());
        }
    }
}

/// Draws what is visible of the lists.
pub fn draw(page: &mut Scroll<'_>, frame: &Frame, theme: Theme) {
    let width = page.area.width;
    let half = width / 2;
    let columns = match width {
        0..TWO => [(0, width); 3],
        TWO..THREE => [(0, half - 1), (0, half - 1), (half, width - half)],
        _ => [(0, ROLES), (ROLES + 2, THREADS), (ROLES + THREADS + 4, width - ROLES - THREADS - 4)],
    };
    let [of_roles, of_threads, of_neighbours] = columns.map(|(_, width)| (width, theme));
    let lists = [roles(frame, of_roles), threads(frame, of_threads), neighbours(frame, of_neighbours)];
    // A list stands below what stands in the same column already.
    let mut placed: Vec<(u16, u16, usize, &List<'_>)> = Vec::new();
    for ((x, width), list) in columns.into_iter().zip(&lists) {
        let above = placed.iter().filter(|(at, ..)| *at == x).map(|(.., list)| list.lines()).sum();
        placed.push((x, width, above, list));
    }
    let rows = placed.iter().map(|(.., above, list)| above + list.lines()).max().unwrap_or(0);
    page.each(rows, |buf, rect, line| {
        for (x, width, above, list) in &placed {
            let column = Rect { x: rect.x.saturating_add(*x), width: *width, ..rect }.intersection(rect);
            if let Some(line) = line.checked_sub(*above).filter(|line| *line < list.lines()) {
                list.draw(buf, column, line);
            }
        }
    });
}

fn roles(frame: &Frame, at: (u16, Theme)) -> List<'_> {
    const COLUMNS: [Column; 5] = [("threads by role", -9), ("", -12), ("count", 5), ("CPU", 6), ("queue", 7)];
    let row = |role: &ThreadRoleRates| {
        let row = table::row(
            &COLUMNS,
            [
                role.process_role.word().to_owned(),
                short(role.thread_role.word()).to_owned(),
                role.count.to_string(),
                whole_percent(role.cpu_pct),
                format::share(role.run_delay_share),
            ],
        );
        (row, Cow::Borrowed(""))
    };
    List::new(at, &table::headings(&COLUMNS), "the job's threads have not been read", &frame.thread_roles, row)
}

fn threads<'f>(frame: &'f Frame, at: (u16, Theme)) -> List<'f> {
    let width = at.0;
    const WIDE: [Column; 5] = [("PID", 7), ("TID", 8), (" role", -14), ("CPU", 6), ("queue", 7)];
    const NARROW: [Column; 4] = [("TID", 7), (" role", -10), ("CPU", 5), ("queue", 6)];
    let numbers = move |thread: &ThreadRates| {
        let role = format!(" {}", short(thread.role.word()));
        let percent = |pct: f32| whole_percent(Some(f64::from(pct)));
        let (cpu, queue) = (percent(thread.cpu_pct), percent(thread.run_delay_pct));
        let tid = thread.tid.to_string();
        if width >= ROOMY {
            table::row(&WIDE, [thread.process.pid.to_string(), tid, role, cpu, queue])
        } else {
            table::row(&NARROW, [tid, role, cpu, queue])
        }
    };
    let row = move |thread: &'f ThreadRates| {
        let name = if thread.name.is_empty() { format::UNMEASURED } else { &thread.name };
        (numbers(thread) + "  ", Cow::Borrowed(name))
    };
    let heading = if width >= ROOMY {
        format!("{}  busiest threads", table::headings(&WIDE))
    } else {
        format!("{}  busiest", table::headings(&NARROW))
    };
    let remark = if frame.thread_roles.is_empty() { "" } else { "no thread ran or queued" };
    List::new(at, &heading, remark, &frame.threads, row)
}

fn neighbours<'f>(frame: &'f Frame, at: (u16, Theme)) -> List<'f> {
    let width = at.0;
    const COLUMNS: [Column; 4] = [("PID", 7), ("UID", 6), ("CPU", 6), ("memory", 9)];
    let known = frame.neighbours.as_ref();
    let over = known.filter(|_| width >= ROOMY).map(|n| format!(", over {} s", format::number(Some(n.seconds))));
    let heading = format!("{} neighbours{}", table::headings(&COLUMNS), over.unwrap_or_default());
    let remark = match known {
        None => "neighbours are read while this page is up, every few seconds: none are known at this moment",
        Some(_) => "no other process used the CPUs",
    };
    let row = move |process: &'f NeighbourRates| {
        let row = table::row(
            &COLUMNS,
            [
                process.id.pid.to_string(),
                number(process.uid),
                whole_percent(Some(process.cpu_pct)),
                format::bytes(Some(process.rss_bytes)),
            ],
        );
        (row + " ", name(process, width))
    };
    let processes = known.map(|known| known.processes.as_slice()).unwrap_or_default();
    List::new(at, &heading, remark, processes, row)
}

fn name(process: &NeighbourRates, width: u16) -> Cow<'_, str> {
    match (process.own, process.kernel) {
        (true, _) => Cow::Borrowed("this monitor"),
        // As ps has it.
        (_, true) => Cow::Owned(format!("[{}]", process.comm)),
        _ if width >= ROOMY && !process.command.is_empty() => Cow::Borrowed(labels::program(&process.command)),
        _ => Cow::Borrowed(&process.comm),
    }
}

fn short(role: &'static str) -> &'static str {
    if role == "communication" { "comms" } else { role }
}
