//! Who uses the CPUs: the job's threads by role, its busiest threads, and the heaviest processes besides the job's.
//! Side by side where there is room, below each other where there is not.

use std::borrow::Cow;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

use super::super::sheet::Sheet;
use super::super::write;
use crate::rates::Frame;
use crate::rates::neighbours::NeighbourRates;
use crate::rates::threads::{ThreadRates, ThreadRoleRates};
use crate::text::{fit, wrap};
use crate::tui::app::App;
use crate::tui::format;

/// From these widths on two and three lists stand side by side.
const TWO: u16 = 78;
const THREE: u16 = 150;
/// Cells of the list of roles where it stands alone, and of the threads beside it.
const ROLES: u16 = 40;
const THREADS: u16 = 62;
/// From this width on threads have their process's PID, and neighbours their command line.
const ROOMY: u16 = 52;

/// One of the lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum List {
    Roles,
    Threads,
    Neighbours,
}

/// A list and where it stands: line, first cell, cells, lines without its heading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Place {
    list: List,
    line: usize,
    x: u16,
    width: u16,
    rows: usize,
}

/// Where the lists stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lists {
    places: [Place; 3],
}

impl Lists {
    /// The lists in `width` cells.
    pub fn of(frame: &Frame, width: u16) -> Self {
        let columns = match width {
            0..TWO => [(0, width); 3],
            TWO..THREE => {
                let half = width / 2;
                [(0, half - 1), (0, half - 1), (half, width - half)]
            }
            _ => [(0, ROLES), (ROLES + 2, THREADS), (ROLES + THREADS + 4, width - ROLES - THREADS - 4)],
        };
        let mut ends: [(u16, usize); 3] = [(u16::MAX, 0); 3];
        let places = [List::Roles, List::Threads, List::Neighbours];
        let places = std::array::from_fn(|i| {
            let list = places.get(i).copied().unwrap_or(List::Roles);
            let (x, width) = columns.get(i).copied().unwrap_or_default();
            let rows = rows(list, frame, width);
            // Below what stands in the same column already.
            let line = ends.iter().filter(|(at, _)| *at == x).map(|(_, end)| *end).max().unwrap_or(0);
            if let Some(end) = ends.get_mut(i) {
                *end = (x, line + 1 + rows);
            }
            Place { list, line, x, width, rows }
        });
        Self { places }
    }

    /// Lines in all.
    pub fn rows(&self) -> usize {
        self.places.iter().map(|place| place.line + 1 + place.rows).max().unwrap_or(0)
    }

    /// Draws what is visible of the lists, from `line` of the page on.
    pub fn draw(&self, buf: &mut Buffer, sheet: &Sheet, line: usize, frame: &Frame, app: &App) {
        for place in &self.places {
            let column = |rect: Rect| {
                Rect { x: rect.x.saturating_add(place.x), width: place.width, ..rect }.intersection(rect)
            };
            let line = line + place.line;
            if let Some(rect) = sheet.line(line) {
                heading(buf, column(rect), place, frame, app);
            }
            let remark = remark(place.list, frame, place.width);
            for (i, rect) in sheet.visible(line + 1, place.rows) {
                let rect = column(rect);
                if let Some(text) = remark.get(i) {
                    write(buf, rect.x, rect.y, rect.right(), text, app.theme().dim());
                    continue;
                }
                match place.list {
                    List::Roles => row(buf, rect, frame.thread_roles.get(i).map(role)),
                    List::Threads => row(buf, rect, frame.threads.get(i).map(|t| thread(t, place.width))),
                    List::Neighbours => {
                        let processes = frame.neighbours.as_ref().map(|n| n.processes.as_slice());
                        let one = processes.and_then(|processes| processes.get(i));
                        row(buf, rect, one.map(|one| neighbour(one, place.width)));
                    }
                }
            }
        }
    }
}

/// Numbers, and a text from outside behind them in the cells that are left.
fn row(buf: &mut Buffer, rect: Rect, shown: Option<(String, Cow<'_, str>)>) {
    let Some((numbers, text)) = shown else { return };
    let x = write(buf, rect.x, rect.y, rect.right(), &numbers, Style::new());
    write(buf, x, rect.y, rect.right(), &fit(&text, usize::from(rect.right().saturating_sub(x))), Style::new());
}

/// Lines of a list without its heading.
fn rows(list: List, frame: &Frame, width: u16) -> usize {
    let remark = remark(list, frame, width);
    if !remark.is_empty() {
        return remark.len();
    }
    match list {
        List::Roles => frame.thread_roles.len(),
        List::Threads => frame.threads.len(),
        List::Neighbours => frame.neighbours.as_ref().map_or(0, |neighbours| neighbours.processes.len()),
    }
}

/// What stands in place of an empty list.
fn remark(list: List, frame: &Frame, width: u16) -> Vec<String> {
    let text = match list {
        List::Roles if frame.thread_roles.is_empty() => "the job's threads have not been read",
        List::Threads if frame.thread_roles.is_empty() => return Vec::new(),
        List::Threads if frame.threads.is_empty() => "no thread ran or queued",
        List::Neighbours => match &frame.neighbours {
            None => "neighbours are read while this page is up, every few seconds: none are known at this moment",
            Some(neighbours) if neighbours.processes.is_empty() => "no other process used the CPUs",
            Some(_) => return Vec::new(),
        },
        _ => return Vec::new(),
    };
    wrap(text, usize::from(width))
}

fn heading(buf: &mut Buffer, rect: Rect, place: &Place, frame: &Frame, app: &App) {
    let style = app.theme().heading();
    buf.set_style(rect, style);
    let text = match place.list {
        List::Roles => "threads by role      count   CPU  queue".to_owned(),
        List::Threads if place.width >= ROOMY => {
            "    PID     TID role            CPU  queue  busiest threads".to_owned()
        }
        List::Threads => "    TID role       CPU queue  busiest".to_owned(),
        List::Neighbours => {
            let window = frame.neighbours.as_ref().filter(|_| place.width >= ROOMY);
            let over = window.map(|n| format!(", over {} s", format::number(Some(n.seconds))));
            format!("    PID   UID   CPU   memory neighbours{}", over.unwrap_or_default())
        }
    };
    write(buf, rect.x, rect.y, rect.right(), &text, style);
}

fn role(role: &ThreadRoleRates) -> (String, Cow<'static, str>) {
    let text = format!(
        "{:<8} {:<11} {:>5} {:>5} {:>6}",
        role.process_role.word(),
        short(role.thread_role.word()),
        role.count,
        whole(role.cpu_pct),
        format::share(role.run_delay_share),
    );
    (text, Cow::Borrowed(""))
}

fn thread(thread: &ThreadRates, width: u16) -> (String, Cow<'_, str>) {
    let role = short(thread.role.word());
    let (cpu, queue) = (whole(Some(f64::from(thread.cpu_pct))), whole(Some(f64::from(thread.run_delay_pct))));
    let text = if width >= ROOMY {
        format!("{:>7} {:>7} {role:<12} {cpu:>6} {queue:>6}  ", thread.process.pid, thread.tid)
    } else {
        format!("{:>7} {role:<8.8} {cpu:>5} {queue:>5}  ", thread.tid)
    };
    (text, Cow::Borrowed(if thread.name.is_empty() { format::UNMEASURED } else { &thread.name }))
}

fn neighbour(process: &NeighbourRates, width: u16) -> (String, Cow<'_, str>) {
    let uid = process.uid.map_or_else(|| format::UNMEASURED.to_owned(), |uid| uid.to_string());
    let text = format!(
        "{:>7} {uid:>5} {:>5} {:>8} ",
        process.id.pid,
        whole(Some(process.cpu_pct)),
        format::bytes(Some(process.rss_bytes)),
    );
    let name =
        if width >= ROOMY && !process.command.is_empty() { program(&process.command) } else { process.comm.as_ref() };
    let name = match (process.own, process.kernel) {
        (true, _) => Cow::Borrowed("this monitor"),
        // As ps has it.
        (_, true) => Cow::Owned(format!("[{}]", process.comm)),
        _ => Cow::Borrowed(name),
    };
    (text, name)
}

/// A command line without the folder of its program, which would hide its name.
fn program(command: &str) -> &str {
    let folder = command.split(' ').next().and_then(|path| path.rfind('/')).map_or(0, |slash| slash + 1);
    command.get(folder..).filter(|rest| !rest.is_empty()).unwrap_or(command)
}

/// Percent without a blank, for narrow columns.
fn whole(value: Option<f64>) -> String {
    match value.filter(|value| value.is_finite()) {
        Some(value) => format!("{:.0}%", value.clamp(0.0, 1e6)),
        None => format::UNMEASURED.to_owned(),
    }
}

fn short(role: &'static str) -> &'static str {
    if role == "communication" { "comms" } else { role }
}
