//! Who uses the CPUs: the job's threads by role, its busiest threads, and the heaviest processes besides the job's.
//! Side by side where there is room, below each other where there is not.

use std::borrow::Cow;

use ratatui::layout::Rect;

use crate::rates::Frame;
use crate::rates::neighbours::NeighbourRates;
use crate::rates::threads::ThreadRates;
use crate::text::fit;
use crate::tui::labels::{number, whole_percent};
use crate::tui::theme::Theme;
use crate::tui::widgets::scroll::Scroll;
use crate::tui::widgets::table::{self, Column};
use crate::tui::widgets::text::Text;
use crate::tui::{format, labels};

/// From these widths on two and three lists stand side by side.
const TWO: u16 = 78;
const THREE: u16 = 150;
/// Cells of the list of roles where it stands alone, and of the threads beside it.
const ROLES: u16 = 40;
const THREADS: u16 = 62;
/// From this width on threads have their process's PID, and neighbours their command line.
const ROOMY: u16 = 52;

/// First cell and lines of each list.
fn lists(frame: &Frame, width: u16, theme: Theme) -> [(u16, u16, Vec<Text>); 3] {
    let roles = |width| roles(frame, width, theme);
    let threads = |width| threads(frame, width, theme);
    let neighbours = |width| neighbours(frame, width, theme);
    match width {
        0..TWO => [(0, width, vec![roles(width), threads(width), neighbours(width)]), (0, 0, vec![]), (0, 0, vec![])],
        TWO..THREE => {
            let half = width / 2;
            let left = vec![roles(half - 1), threads(half - 1)];
            [(0, half - 1, left), (half, width - half, vec![neighbours(width - half)]), (0, 0, vec![])]
        }
        _ => {
            let rest = width - ROLES - THREADS - 4;
            [
                (0, ROLES, vec![roles(ROLES)]),
                (ROLES + 2, THREADS, vec![threads(THREADS)]),
                (ROLES + THREADS + 4, rest, vec![neighbours(rest)]),
            ]
        }
    }
}

/// Draws what is visible of the lists.
pub fn draw(page: &mut Scroll<'_>, frame: &Frame, theme: Theme) {
    let lists = lists(frame, page.area.width, theme);
    let columns = lists.map(|(x, width, texts)| {
        let lines: Vec<_> = texts.into_iter().flat_map(|text| text.lines).collect();
        (x, width, lines)
    });
    let rows = columns.iter().map(|(.., lines)| lines.len()).max().unwrap_or(0);
    page.each(rows, |buf, rect, i| {
        for (x, width, lines) in &columns {
            let column = Rect { x: rect.x.saturating_add(*x), width: *width, ..rect }.intersection(rect);
            if let Some(line) = lines.get(i) {
                buf.set_line(column.x, column.y, line, column.width);
            }
        }
    });
}

/// A list of this heading, with a remark where it is empty.
fn list<'r>(
    width: u16,
    theme: Theme,
    heading: &str,
    remark: &str,
    rows: impl Iterator<Item = (String, Cow<'r, str>)>,
) -> Text {
    let mut text = Text::new(width, theme);
    text.table_heading(heading);
    for (numbers, name) in rows {
        let room = text.width.saturating_sub(numbers.chars().count());
        text.line(&format!("{numbers}{}", fit(&name, room)), ratatui::style::Style::new());
    }
    if text.lines.len() == 1 && !remark.is_empty() {
        text.wrapped("", 0, remark, theme.dim());
    }
    text
}

fn roles(frame: &Frame, width: u16, theme: Theme) -> Text {
    const COLUMNS: [Column; 5] = [("threads by role", -9), ("", -12), ("count", 5), ("CPU", 6), ("queue", 7)];
    let rows = frame.thread_roles.iter().map(|role| {
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
    });
    list(width, theme, &table::headings(&COLUMNS), "the job's threads have not been read", rows)
}

fn threads(frame: &Frame, width: u16, theme: Theme) -> Text {
    const WIDE: [Column; 5] = [("PID", 7), ("TID", 8), (" role", -14), ("CPU", 6), ("queue", 7)];
    const NARROW: [Column; 4] = [("TID", 7), (" role", -10), ("CPU", 5), ("queue", 6)];
    let row = |thread: &ThreadRates| {
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
    let rows = frame.threads.iter().map(|thread| {
        let name = if thread.name.is_empty() { format::UNMEASURED } else { &thread.name };
        (row(thread) + "  ", Cow::Borrowed(name))
    });
    let heading = if width >= ROOMY {
        format!("{}  busiest threads", table::headings(&WIDE))
    } else {
        format!("{}  busiest", table::headings(&NARROW))
    };
    let remark = if frame.thread_roles.is_empty() { "" } else { "no thread ran or queued" };
    list(width, theme, &heading, remark, rows)
}

fn neighbours(frame: &Frame, width: u16, theme: Theme) -> Text {
    const COLUMNS: [Column; 4] = [("PID", 7), ("UID", 6), ("CPU", 6), ("memory", 9)];
    let known = frame.neighbours.as_ref();
    let over = known.filter(|_| width >= ROOMY).map(|n| format!(", over {} s", format::number(Some(n.seconds))));
    let heading = format!("{} neighbours{}", table::headings(&COLUMNS), over.unwrap_or_default());
    let remark = match known {
        None => "neighbours are read while this page is up, every few seconds: none are known at this moment",
        Some(_) => "no other process used the CPUs",
    };
    let rows = known.into_iter().flat_map(|known| &known.processes).map(|process| {
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
    });
    list(width, theme, &heading, remark, rows)
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
