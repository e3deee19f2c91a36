//! The page of stacks: what each role does, by activity, function and line, and the lines that wait for the GPU.
//!
//! ```text
//! │  share                  doing      whose  function        file:line │
//! │ - Rank 0, 1234, training loop  wwwwwwwwwwwwwffffbbbbo   430 samples │
//! │     w waiting 58%  f forward 21%  b backward 12% …               │
//! │   + 58% ███████████    waiting    own    train           train.py:9│
//! │   - 21% ████           forward    own    forward         model.py:4│
//! │        18% ███   41    x = self.body(x)                            │
//! │ + worker 1301           lllldddddddddddddttc     120 samples        │
//! │ - lines at which the host waits for the GPU                         │
//! ```

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

use super::outline::{OutlinePart, OutlineRow, What};
use super::recent::{LOOKED_BACK_S, RecentStacks};
use super::{Stacks, absent, activity};
use crate::theme::{Look, Theme, WithLook};
use crate::widgets::{
    Drawn, Extent, Hit, Scene, bars, behind, cells, count, write, write_fit, write_lines, write_right,
};
use crate::{charts, format};
use trainmon_base::text::{fit, sanitise};
use trainmon_rates::stacks::Activities;
use trainmon_rates::time_split::LoopActivity;

/// Draws the heading and the visible lines, or the reason why there are no lines.
pub fn draw(buf: &mut Buffer, area: Rect, page: &Stacks, scene: &Scene<'_>, top: usize, drawn: &mut Drawn) {
    if area.height == 0 {
        return;
    }
    let columns = StackColumns::new(area);
    heading(buf, area, columns, &page.recent, scene.theme);
    let mut below = Rect { y: area.y + 1, height: area.height - 1, ..area };
    if page.recent.trainers.is_empty() && page.recent.workers.is_empty() {
        let text = absent::text(below.width, scene);
        write_lines(buf, below, &text.lines);
        let rows = count(text.lines.len()).min(below.height);
        below = Rect { y: below.y + rows, height: below.height - rows, ..below };
    }
    let extent = Extent { top, visible: usize::from(below.height), total: page.rows.len() };
    drawn.page = extent.showing(page.selected);
    for ((place, row), line) in page.rows.iter().enumerate().skip(drawn.page.top).zip(below.rows()) {
        one(buf, line, columns, row, scene.theme);
        if place == page.selected {
            buf.set_style(line, scene.theme.selected());
        }
    }
    drawn.hits.push((below, Hit::Row(drawn.page.top)));
}

/// Where the columns begin and end.
#[derive(Debug, Clone, Copy)]
struct StackColumns {
    /// Width of a bar.
    bar: u16,
    /// The thread's activity.
    doing: u16,
    /// Whether the code is the user's own.
    whose: u16,
    /// The function.
    name: u16,
}

/// Width of everything before the share (fold mark and two levels), of the share, of an activity's word, and of the
/// owner.
const BEFORE: u16 = 6;
const SHARE: u16 = 5;
const DOING: u16 = 13;
const WHOSE: u16 = 4;
/// Width of a role's name, its place included.
const NAME: u16 = 32;

impl StackColumns {
    fn new(area: Rect) -> Self {
        let bar = match area.width {
            0..100 => 12,
            100..160 => 24,
            _ => 40,
        };
        let doing = area.x + BEFORE + SHARE + 1 + bar + 1;
        Self { bar, doing, whose: doing + DOING, name: doing + DOING + WHOSE }
    }
}

fn heading(buf: &mut Buffer, area: Rect, columns: StackColumns, recent: &RecentStacks, theme: Theme) {
    let style = theme.heading();
    buf.set_style(Rect { height: 1, ..area }, style);
    let samples: u64 = recent.trainers.values().chain(recent.workers.values()).map(|sum| sum.main.total()).sum();
    let span = format::duration(recent.span_s.clamp(1.0, LOOKED_BACK_S));
    let right = match recent.age_s {
        // If the newest stacks are old, that matters more than their number.
        Some(age) if age > 10.0 => format!("newest samples are {} old", format::duration(age)),
        Some(_) => format!("{samples} samples in {span}"),
        None => String::new(),
    };
    write_right(buf, area.x + BEFORE, area.y, area.x + BEFORE + SHARE, "TIME", style);
    write(buf, columns.doing, area.y, area.right(), "DOING", style);
    write(buf, columns.whose, area.y, area.right(), "BY", style);
    let x = write(buf, columns.name, area.y, area.right(), "FUNCTION", style);
    write_right(buf, x + 1, area.y, area.right(), &right, style);
}

fn one(buf: &mut Buffer, area: Rect, columns: StackColumns, row: &OutlineRow, theme: Theme) {
    let x = area.x + count(row.key.len()).clamp(1, 4) * 2 - 2;
    if let Some(open) = row.open {
        write(buf, x, area.y, area.right(), if open { "-" } else { "+" }, theme.strong());
    }
    let at = behind(area, x + 2);
    match (row.key.last(), &row.what) {
        (_, What::Role(name, activities)) => role(buf, at, name, activities, theme),
        (_, What::Activities(activities, validation)) => legend(buf, at, activities, *validation, theme),
        (Some(OutlinePart::Function(file, name)), What::Function { share, activity, user, line }) => {
            let style = if *user { Style::new() } else { theme.dim() };
            let doing = activity.look();
            share_bar(buf, area, columns, *share, theme.style(doing));
            write(buf, columns.doing, area.y, columns.whose - 1, doing.word, theme.style(doing));
            write(buf, columns.whose, area.y, columns.name, if *user { "own" } else { "lib" }, style);
            place(buf, area, columns.name, (name, file, *line), *user, theme);
        }
        (Some(OutlinePart::Line(number)), What::Line { share, text, blocked }) => {
            share_bar(buf, area, columns, *share, theme.dim());
            let waits = if *blocked >= 0.5 { " waiting" } else { "" };
            let number = if *number > 0 { format!("line {number}{waits}") } else { format!("line ?{waits}") };
            let x = write(buf, columns.doing, area.y, area.right(), &number, theme.dim());
            source(buf, behind(area, (x + 1).max(columns.name)), text.as_deref(), theme);
        }
        (_, What::Rest(text)) => {
            write_fit(buf, behind(area, columns.doing), text, theme.dim());
        }
        (_, What::SyncLines(heading)) => {
            write_fit(buf, at, heading, theme.strong());
        }
        (Some(OutlinePart::Sync(file, function, line)), What::Sync { share, text }) => {
            share_bar(buf, area, columns, *share, theme.style(LoopActivity::DeviceSync.look()));
            let place = format!("{} {}:{line}", sanitise(function), sanitise(file));
            let x = write_fit(buf, behind(area, columns.doing), &place, Style::new());
            if text.is_some() {
                source(buf, behind(area, x + 2), text.as_deref(), theme);
            }
        }
        _ => {}
    }
}

/// The number and the bar of a share.
fn share_bar(buf: &mut Buffer, area: Rect, columns: StackColumns, share: f64, style: Style) {
    let x = area.x + BEFORE;
    write_right(buf, x, area.y, x + SHARE, &format::share(Some(share)), Style::new());
    bars::share(buf, Rect { x: x + SHARE + 1, width: columns.bar, ..area }, share, style, None);
}

/// A function and, on the right, its location.
fn place(buf: &mut Buffer, area: Rect, x: u16, (name, file, line): (&str, &str, u32), user: bool, theme: Theme) {
    let room = area.right().saturating_sub(x);
    let style = if user { theme.strong() } else { theme.dim() };
    let line = if line > 0 { format!(":{line}") } else { String::new() };
    let wanted = cells(&sanitise(name)).min(room);
    // The file's end says more than its beginning; the name of the function comes first.
    let left = usize::from(room.saturating_sub(wanted.max(room / 3) + 1)).saturating_sub(line.len());
    let file = shortened(file, left);
    let name = fit(name, usize::from(room.saturating_sub(cells(&file) + cells(&line) + 1)));
    write(buf, x, area.y, area.right(), &name, style);
    if !file.is_empty() {
        write_right(buf, x, area.y, area.right(), &format!("{file}{line}"), theme.dim());
    }
}

/// The last parts of a path, as many as fit into `room` cells; never those before `site-packages`.
fn shortened(file: &str, room: usize) -> String {
    let file = file.rsplit_once("-packages/").map_or(file, |(_, inside)| inside);
    let whole = sanitise(file);
    if usize::from(cells(&whole)) <= room {
        return whole.into_owned();
    }
    let tails = whole.match_indices('/').filter_map(|(at, _)| whole.get(at + 1..));
    tails.into_iter().find(|tail| usize::from(cells(tail)) <= room && !tail.is_empty()).unwrap_or_default().to_owned()
}

fn source(buf: &mut Buffer, area: Rect, text: Option<&str>, theme: Theme) {
    match text {
        Some(text) => write_fit(buf, area, text.trim(), Style::new()),
        None => write_fit(buf, area, "cannot read its source", theme.dim()),
    };
}

/// The role, a bar of letters for its activities, and the number of samples behind it.
fn role(buf: &mut Buffer, area: Rect, name: &str, activities: &Activities, theme: Theme) {
    let x = write(buf, area.x, area.y, area.right(), name, theme.strong());
    let samples = format!("{:>6} samples", activities.total());
    let end = write_right(buf, x + 1, area.y, area.right(), &samples, theme.dim());
    let from = (buf.area.x + NAME).max(x + 2);
    let bar = Rect { x: from, width: end.saturating_sub(from + 1), ..area };
    let parts = activity::ORDER.map(|(activity, letter)| {
        let look = Look { glyph: letter, ascii: letter, ..activity.look() };
        (look, f64::from(activities.get(activity)))
    });
    charts::split(buf, bar, &parts, theme);
}

/// The legend of the bar: largest first, as many as fit in full.
fn legend(buf: &mut Buffer, area: Rect, activities: &Activities, validation: f64, theme: Theme) {
    let total = activities.total().max(1) as f64;
    let mut shares =
        activity::ORDER.map(|(activity, letter)| (activity, letter, f64::from(activities.get(activity)) / total));
    shares.sort_by(|a, b| b.2.total_cmp(&a.2));
    let parts = shares.into_iter().filter(|(.., share)| *share >= 0.005).map(|(activity, letter, share)| {
        let look = activity.look();
        (format!("{letter} {} {:.0}%", look.word, share * 100.0), theme.style(look))
    });
    let validation = Some(validation).filter(|share| *share >= 0.01);
    let validation = validation.map(|share| (format!("({} in validation)", format::share(Some(share))), theme.dim()));
    let mut x = area.x;
    for (text, style) in parts.chain(validation) {
        if x + cells(&text) > area.right() {
            return;
        }
        x = write(buf, x, area.y, area.right(), &text, style) + 2;
    }
}
