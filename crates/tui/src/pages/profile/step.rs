//! The drawn step: threads above the time axis, streams and what the host did while a GPU was idle below it. The gap under the
//! cursor is marked on all lanes, with an arrow from the call that ended it to what that launched, and told in words.
//!
//! ```text
//! │ ── Step 3 of 6 · 175 ms ── gap 1 of 64 ─────────────────────── │
//! │ loop 1234   ╳╳╳╳╳╳╳ enumerate(DataLoader) ╳╳╳╳╳▚▚▚ aten::conv2d │
//! │             ┬ 0 ──────────┬ 50 ms ───────────────▼─┬ 150 ms ─── │
//! │ stream 7    ████                                 ████████ gemm  │
//! │ GPU 0 idle      ╳╳╳╳╳╳╳╳╳╳ 112 ms ╳╳╳╳╳╳╳╳╳▚▚▚▚▚▚               │
//! │ ╳ GPU 0 idle 112 ms: the loop waits for data, …                 │
//! ```

use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Margin, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::Span;
use ratatui::widgets::{Block, Borders, Widget};

use super::super::keys::{Action, key_of};
use super::cursor::StepCursor;
use super::zoom::{TimeAxis, TimeSpan, WHOLE};
use super::{lanes, words};
use crate::theme::Theme;
use crate::widgets::panel::{self, Panel, framed};
use crate::widgets::{Drawn, Hit, cells, count};
use trainmon_base::text::{fit, sanitize};
use trainmon_profiles::drawn::{DrawnGap, DrawnLane, DrawnSlice, DrawnStep, DrawnWork, LaneKind, SliceKind};
use trainmon_views::profile_sections::length;
use trainmon_views::section::whole;

/// Rows of the time axis, and of the words about a gap where there is little room and where there is enough.
const AXIS: u16 = 1;
const FEW_ROWS_OF_WORDS: u16 = 1;
const ROWS_OF_WORDS: u16 = 2;
/// Where there are frames, narrower screens have a third row of words.
const LONG_ROWS: u16 = 150;
/// Fewest lanes: a thread, a stream, and what the host did while its GPU was idle.
const LEAST_LANES: u16 = 3;
/// Narrower screens have short names of lanes.
const FULL_NAMES: u16 = 100;
/// Longest name of a lane, as a part of the width.
const NAME_PART: u16 = 5;
/// A click so many cells beside a gap still means it.
const CLICKED_BESIDE: u16 = 2;

/// The step with what is looked at.
pub struct StepView<'a> {
    step: &'a DrawnStep,
    cursor: &'a StepCursor,
    gap: Option<&'a DrawnGap>,
    span: TimeSpan,
    theme: Theme,
}

/// A lane in its row.
struct LaneRow<'a> {
    /// Place among those of the step.
    place: Option<usize>,
    name: String,
    kind: LaneKind,
    gpu: Option<i64>,
    slices: &'a [DrawnSlice],
    row: Rect,
}

impl<'a> StepView<'a> {
    /// The picture of a step.
    pub fn new(step: &'a DrawnStep, cursor: &'a StepCursor, theme: Theme) -> Self {
        Self { step, cursor, gap: cursor.gap(step), span: cursor.span(step), theme }
    }

    /// Rows that it takes of so many, its edges included: none where there are too few.
    pub fn rows(&self, room: u16, screen: Rect) -> u16 {
        let edges = panel::edges(screen) + AXIS;
        let lanes = count(self.step.lanes.len() + usize::from(self.waits().is_some()));
        let words = self.words(screen);
        let least = edges + lanes.min(LEAST_LANES) + words.min(FEW_ROWS_OF_WORDS);
        let wanted = edges + lanes + words;
        if room < least { 0 } else { wanted.min(room) }
    }

    /// Rows of words on a screen of this size. What ends a wait of the loop is not told.
    fn words(&self, screen: Rect) -> u16 {
        match self.gap {
            None => 0,
            Some(gap) if gap.gpu.is_none() => FEW_ROWS_OF_WORDS,
            Some(_) => ROWS_OF_WORDS + u16::from(framed(screen) && screen.width < LONG_ROWS),
        }
    }

    /// The loop's waits as a lane, where there is no GPU.
    fn waits(&self) -> Option<Vec<DrawnSlice>> {
        let alone = self.step.lanes.iter().all(|lane| lane.kind != LaneKind::Idle) && !self.step.gaps.is_empty();
        let slice = |gap: &DrawnGap| DrawnSlice {
            begin: gap.begin,
            end: gap.end,
            kind: gap.by.first().map_or(SliceKind::Data, |(kind, _)| *kind),
            filled: 1.0,
            count: 1,
            name: String::new(),
        };
        alone.then(|| self.step.gaps.iter().map(slice).collect())
    }

    /// Draws it.
    pub fn draw(&self, buf: &mut Buffer, area: Rect, drawn: &mut Drawn) {
        let inner = self.panel().draw(buf, area, self.theme);
        let inner = if framed(buf.area) { inner.inner(Margin::new(1, 0)) } else { inner };
        if inner.height < AXIS + 1 || inner.width < 20 {
            return;
        }
        let waits = self.waits();
        let room = inner.height - AXIS;
        let least = self.words(buf.area).min(FEW_ROWS_OF_WORDS);
        let words = self.words(buf.area).min(room.saturating_sub(LEAST_LANES)).max(least).min(room - 1);
        let chosen = self.chosen(usize::from(room - words), waits.as_deref());
        let of_host = chosen.iter().filter(|lane| is_of_host(lane.kind)).count();
        let [above, axis, below, told] = Layout::vertical([
            Constraint::Length(count(of_host)),
            Constraint::Length(AXIS),
            Constraint::Length(count(chosen.len() - of_host)),
            Constraint::Fill(1),
        ])
        .areas(inner);
        let named = chosen.iter().map(|lane| cells(&lane.name)).max().unwrap_or(0).min(inner.width / NAME_PART);
        let columns = Layout::horizontal([Constraint::Length(named + 1), Constraint::Fill(1)]);
        let rows = above.rows().chain(below.rows());
        let placed: Vec<_> = chosen.into_iter().zip(rows).map(|(lane, row)| LaneRow { row, ..lane }).collect();
        let [_, axis] = columns.areas(axis);
        let time = TimeAxis { span: self.span, width: axis.width };
        let arrow = self.gap.and_then(|gap| Arrow::new(gap, &placed, time));
        self.axis(buf, axis, time, arrow.as_ref());
        for lane in &placed {
            let [name, row] = columns.areas(lane.row);
            self.lane(buf, (name, row), lane, time);
        }
        let canvas = Rect { y: above.y, height: above.height + AXIS + below.height, ..axis };
        if let Some(gap) = self.gap {
            self.guides(buf, canvas, axis.y, gap, time);
            arrow.iter().for_each(|arrow| arrow.draw(buf, (canvas, axis.y), self.theme.cursor()));
            words::draw(buf, told, gap, self.step, self.words(buf.area) > ROWS_OF_WORDS, self.theme);
        }
        self.hits(canvas, time, drawn);
    }

    fn panel(&self) -> Panel {
        let title = match self.step.step {
            Some((_, 1)) => "The step".to_owned(),
            Some((number, of)) => format!("Step {number} of {of}"),
            None => "The whole window".to_owned(),
        };
        let theme = self.theme;
        let mut panel = Panel::new(format!("{title} · {}", length(self.step.length_ms)), theme.strong());
        let gaps = self.step.gaps.len();
        if let Some(rank) = self.cursor.rank(self.step) {
            let what = if self.gap.is_some_and(|gap| gap.gpu.is_none()) { "wait" } else { "gap" };
            panel = panel.with(format!("{what} {rank} of {gaps} by length"), theme.strong());
        }
        if self.span != WHOLE {
            let shown = (self.span.1 - self.span.0) * self.step.length_ms;
            panel = panel.with(format!("{} shown", length(shown)), theme.strong());
        }
        if let Some(gap) = self.gap {
            let of = if self.step.step.is_some() { "step" } else { "window" };
            panel = panel.with(format!("{} of the {of}", whole(gap.end - gap.begin)), theme.dim());
        }
        match self.step.left_out {
            0 => {}
            1 => panel = panel.with("1 more lane", theme.dim()),
            more => panel = panel.with(format!("{more} more lanes"), theme.dim()),
        }
        let [back, on, longer, shorter, closer, farther] = [
            Action::StepBack,
            Action::StepForward,
            Action::PreviousChange,
            Action::NextChange,
            Action::ZoomIn,
            Action::ZoomOut,
        ]
        .map(key_of);
        if gaps > 0 {
            panel.keys = format!("{back} {on} in time · {longer} {shorter} by length · {closer} {farther} zoom");
        }
        panel
    }

    /// The lanes that there is room for, in their order: those of the gap under the cursor before all others.
    fn chosen<'l>(&'l self, most: usize, waits: Option<&'l [DrawnSlice]>) -> Vec<LaneRow<'l>> {
        let of_gap = |work: Option<&DrawnWork>| work.and_then(|work| work.lane);
        let call = of_gap(self.gap.and_then(|gap| gap.call.as_ref()));
        let work = of_gap(self.gap.and_then(|gap| gap.work.as_ref()));
        let (gpu, host) = self.gap.map_or((None, None), |gap| (gap.gpu, gap.host_lane));
        let mut streams = 0;
        let ranks = self.step.lanes.iter().enumerate().map(|(place, lane)| {
            streams += usize::from(lane.kind == LaneKind::Stream);
            match lane.kind {
                LaneKind::Idle if lane.gpu == gpu => 0,
                LaneKind::Stream if Some(place) == work => 1,
                LaneKind::Thread if Some(place) == host || (host.is_none() && lane.of_loop) => 2,
                LaneKind::Thread if Some(place) == call => 3,
                LaneKind::Thread if lane.of_loop => 4,
                LaneKind::Stream if streams == 1 => 5,
                LaneKind::Idle => 6,
                LaneKind::Stream | LaneKind::Thread => 7,
                LaneKind::Annotations => 8,
            }
        });
        let mut ranked: Vec<(usize, usize)> = ranks.zip(0..).collect();
        ranked.sort_unstable();
        let mut places: Vec<usize> = ranked.into_iter().map(|(_, place)| place).collect();
        places.truncate(most.saturating_sub(usize::from(waits.is_some())));
        places.sort_unstable();
        let lane = |place: usize| Some(self.placed(place, self.step.lanes.get(place)?));
        let waiting = waits.map(|slices| LaneRow {
            place: None,
            name: "loop waits".to_owned(),
            kind: LaneKind::Idle,
            gpu: None,
            slices,
            row: Rect::default(),
        });
        places.into_iter().filter_map(lane).chain(waiting).collect()
    }

    fn placed(&self, place: usize, lane: &'a DrawnLane) -> LaneRow<'a> {
        let gpus = self.step.lanes.iter().filter(|lane| lane.kind == LaneKind::Idle).count();
        let mut name = sanitize(&lane.name).into_owned();
        if gpus < 2 && lane.kind == LaneKind::Stream {
            name = name.split_once(", ").map_or(name.clone(), |(_, stream)| stream.to_owned());
        }
        let (kind, gpu) = (lane.kind, lane.gpu);
        LaneRow { place: Some(place), name, kind, gpu, slices: &lane.slices, row: Rect::default() }
    }

    fn lane(&self, buf: &mut Buffer, (name, row): (Rect, Rect), lane: &LaneRow<'_>, time: TimeAxis) {
        let style = if lane.kind == LaneKind::Idle { self.theme.strong() } else { self.theme.dim() };
        let short = lane.name.replace(", thread", "");
        let full = if buf.area.width < FULL_NAMES { &short } else { &lane.name };
        Span::styled(fit(full, usize::from(name.width.saturating_sub(1))), style).render(name, buf);
        lanes::draw(buf, row, lane.slices, lane.kind, time, self.theme);
        if lane.kind != LaneKind::Idle {
            return;
        }
        let of_lane = self.step.gaps.iter().filter(|gap| gap.gpu == lane.gpu);
        for gap in of_lane {
            let selected = self.gap.is_some_and(|other| std::ptr::eq(other, gap));
            lanes::gap(buf, row, gap, &length(gap.ms), selected, time);
        }
    }

    fn axis(&self, buf: &mut Buffer, row: Rect, time: TimeAxis, arrow: Option<&Arrow>) {
        Block::new().borders(Borders::TOP).border_style(self.theme.edge()).render(row, buf);
        let mut free = row.x;
        for (cell, label) in time.marks(self.step.length_ms) {
            let (x, text) = (row.x + cell, format!("┬ {label} "));
            let end = x + cells(&text);
            let is_free =
                arrow.is_none_or(|arrow| row.x + arrow.to < x || row.x + arrow.from.unwrap_or(arrow.to) >= end);
            if x >= free && end <= row.right() && is_free {
                Span::styled(text, self.theme.dim()).render(Rect { x, width: end - x, ..row }, buf);
                free = end;
            }
        }
    }

    /// Marks where the gap begins and ends, by a line through all blank cells.
    fn guides(&self, buf: &mut Buffer, canvas: Rect, axis: u16, gap: &DrawnGap, time: TimeAxis) {
        let Some((first, after)) = time.cells(gap.begin, gap.end) else { return };
        let ends = [(gap.begin, first), (gap.end, after.saturating_sub(1).max(first))];
        for (_, cell) in ends.into_iter().filter(|(moment, _)| time.shows(*moment)) {
            for y in (canvas.y..canvas.bottom()).filter(|y| *y != axis) {
                let Some(cell) = buf.cell_mut((canvas.x + cell, y)) else { continue };
                // A blank of a name is part of it.
                if cell.symbol() == " " && !cell.modifier.contains(Modifier::REVERSED) {
                    cell.set_symbol("┊").set_style(self.theme.cursor());
                }
            }
        }
    }

    /// Each gap can be clicked, on any of the lanes.
    fn hits(&self, canvas: Rect, time: TimeAxis, drawn: &mut Drawn) {
        let mut order: Vec<_> = self.step.gaps.iter().enumerate().collect();
        order.sort_by(|(_, one), (_, other)| other.ms.total_cmp(&one.ms));
        // Short ones are on top of what is beside long ones.
        for (place, gap) in order {
            let Some((first, after)) = time.cells(gap.begin, gap.end) else { continue };
            let (x, end) = (first.saturating_sub(CLICKED_BESIDE), (after + CLICKED_BESIDE).min(canvas.width));
            drawn.hits.push((Rect { x: canvas.x + x, width: end - x, ..canvas }, Hit::Gap(place)));
        }
    }
}

/// From a call to what it launched.
struct Arrow {
    /// Cell and row of the call, if it is shown.
    from: Option<u16>,
    top: Option<u16>,
    /// Cell and row of what it launched.
    to: u16,
    bottom: u16,
}

impl Arrow {
    fn new(gap: &DrawnGap, lanes: &[LaneRow<'_>], time: TimeAxis) -> Option<Self> {
        let row = |work: &DrawnWork| {
            let place = work.lane?;
            lanes.iter().find(|lane| lane.place == Some(place)).map(|lane| lane.row.y)
        };
        let work = gap.work.as_ref().filter(|work| time.shows(work.begin))?;
        let call = gap.call.as_ref().filter(|call| time.shows(call.begin) && call.begin <= work.begin);
        let (from, to) = (call.map(|call| time.cell(call.begin)), time.cell(work.begin));
        Some(Self { from, top: call.and_then(row), to, bottom: row(work)? })
    }

    /// Down from the call, along the time axis, and down through the lanes between.
    fn draw(&self, buf: &mut Buffer, (canvas, axis): (Rect, u16), style: Style) {
        let mut put = |x: u16, y: u16, symbol: &str| {
            if let Some(cell) = buf.cell_mut((canvas.x + x, y)) {
                cell.set_symbol(symbol).set_style(Style::reset().patch(style));
            }
        };
        let Self { from, top, to, bottom } = *self;
        let from = from.unwrap_or(to);
        (top.unwrap_or(axis) + 1..axis).for_each(|y| put(from, y, "│"));
        (from + 1..to).for_each(|x| put(x, axis, "─"));
        put(to, axis, if from < to { "╮" } else { "│" });
        if from < to {
            put(from, axis, "╰");
        }
        (axis + 1..bottom).for_each(|y| put(to, y, "│"));
        put(to, bottom.saturating_sub(1).max(axis), "▼");
    }
}

fn is_of_host(kind: LaneKind) -> bool {
    matches!(kind, LaneKind::Annotations | LaneKind::Thread)
}
