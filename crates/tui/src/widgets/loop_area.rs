//! Where each step's time went: one stacked area over time. Its height is the length of a step where steps are counted, otherwise
//! it is always full.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::widgets::Widget;

use crate::charts::{self, MAX_CELLS};
use crate::theme::{Look, Theme};
use trainmon_diagnosis::diagnosis::Verdict;
use trainmon_diagnosis::diagnosis::loop_parts::{LoopPart, WaitFor};
use trainmon_diagnosis::history::timeline::{Timeline, TimelinePoint, TimelineWindow};
use trainmon_views::ranks;
use trainmon_waits::time_split::LoopActivity;

/// The parts from the bottom up: what is lost lies on what is useful, so that its lower edge is easy to follow.
const PARTS: [LoopPart; 6] = [
    LoopPart::Activity(LoopActivity::DeviceSync),
    LoopPart::Activity(LoopActivity::HostBusy),
    LoopPart::Activity(LoopActivity::InputWait),
    LoopPart::Wait(WaitFor::Lock, None),
    LoopPart::Activity(LoopActivity::Checkpoint),
    LoopPart::Activity(LoopActivity::Other),
];

/// The place of a part among them.
fn place(part: LoopPart) -> usize {
    let is_same = |known: &LoopPart| match (known, part) {
        (LoopPart::Wait(..), LoopPart::Wait(..)) => true,
        _ => *known == part,
    };
    PARTS.iter().position(is_same).unwrap_or(PARTS.len() - 1)
}

/// A part with less of the area is hardly seen.
const LEAST_OF_AREA: f32 = 0.02;

/// Fewest columns of a quarter whose step times are compared.
const LEAST_QUARTER: usize = 5;

/// How bright the area is, 0–1: less than text, because it is large.
const BODY: f64 = 0.5;

/// Two levels in each cell: more would change with every sample, and cost bytes.
const HALVES: usize = 2;

/// The area.
#[derive(Debug)]
pub struct LoopArea<'a> {
    /// The past.
    pub columns: &'a LoopColumns,
    /// What is blamed.
    pub verdict: Option<&'a Verdict>,
    /// The step time at the upper edge, ms; without it each column is full.
    pub top_ms: Option<f32>,
    /// How to draw.
    pub theme: Theme,
}

/// One column: the part's shares, and the step time if it is known.
#[derive(Debug, Clone, Copy, Default)]
struct Column {
    /// Seconds with data.
    seen: f32,
    shares: [f32; PARTS.len()],
    /// Seconds with shares.
    seconds: f32,
    step_ms: f32,
    stepped: f32,
}

impl Column {
    fn of_point(point: &TimelinePoint) -> Option<[f32; PARTS.len()]> {
        let shares = point.shares?;
        let of = |activity: LoopActivity| shares.get(activity.index()).copied().unwrap_or(0.0);
        let other = of(LoopActivity::Other);
        let named = (point.named_waits.get().unwrap_or(0.0) / 100.0).clamp(0.0, other.max(0.0));
        Some(PARTS.map(|part| match part {
            LoopPart::Wait(..) => named,
            LoopPart::Activity(LoopActivity::Other) => other - named,
            LoopPart::Activity(activity) => of(activity),
        }))
    }

    fn step_ms(&self) -> Option<f32> {
        (self.stepped > 0.0).then(|| self.step_ms / self.stepped)
    }
}

/// The step time of a point, ms.
fn step_ms(point: &TimelinePoint) -> Option<f32> {
    point.steps.get().filter(|per_s| *per_s > 0.0).map(|per_s| 1000.0 / per_s)
}

/// The columns of an area over a stretch of time.
#[derive(Debug)]
pub struct LoopColumns {
    columns: Vec<Column>,
    window: TimelineWindow,
    /// Whether there is data before the first column.
    began_before: bool,
}

impl LoopColumns {
    /// Gathers them.
    pub fn gather(timeline: &Timeline, window: TimelineWindow) -> Self {
        let mut columns = vec![Column::default(); window.columns.min(MAX_CELLS)];
        timeline.spread(window, |at, seconds, point| {
            let Some(column) = columns.get_mut(at) else { return };
            column.seen += seconds;
            let Some(shares) = Column::of_point(point) else { return };
            column.shares.iter_mut().zip(shares).for_each(|(sum, share)| *sum += share * seconds);
            column.seconds += seconds;
            if let Some(ms) = step_ms(point) {
                column.step_ms += ms * seconds;
                column.stepped += seconds;
            }
        });
        Self { columns, window, began_before: timeline.began_before(window) }
    }

    /// How the step times of the last quarter differ from those of the first: 0.15 is 15% longer. `None` where too few are known.
    pub fn change(&self) -> Option<f32> {
        let known: Vec<f32> = self.columns.iter().filter_map(Column::step_ms).collect();
        let quarter = known.len() / 4;
        let mean = |part: Option<&[f32]>| part.map(|part| part.iter().sum::<f32>() / part.len() as f32);
        let (first, last) = (mean(known.get(..quarter))?, mean(known.get(known.len() - quarter..))?);
        (quarter >= LEAST_QUARTER && first > 0.0).then(|| last / first - 1.0)
    }

    /// Gives the columns at the beginning, in which the loop's time was not known yet, these parts: those of the first verdict,
    /// whose window begins with them, unless later columns know better.
    pub fn begin_with(&mut self, parts: &[(LoopPart, f64)]) {
        let known = self.columns.iter().position(|column| column.seconds > 0.0);
        let first = known.and_then(|at| self.columns.get(at)).copied();
        let told = || {
            let mut shares = [0.0; PARTS.len()];
            for (part, share) in parts {
                if let Some(sum) = shares.get_mut(place(*part)) {
                    *sum += *share as f32;
                }
            }
            (!parts.is_empty()).then_some(Column { shares, seconds: 1.0, ..Column::default() })
        };
        let Some(Column { shares, seconds, .. }) = first.or_else(told) else { return };
        let unknown = self.columns.iter_mut().take(known.unwrap_or(usize::MAX)).filter(|column| column.seen > 0.0);
        unknown.for_each(|column| (column.shares, column.seconds) = (shares, seconds));
    }

    /// The parts that can be seen in the area.
    pub fn visible(&self) -> impl Iterator<Item = LoopPart> {
        let sum = |at: usize| self.columns.iter().filter_map(move |column| column.shares.get(at)).sum::<f32>();
        let whole: f32 = (0..PARTS.len()).map(sum).sum();
        PARTS.into_iter().enumerate().filter(move |(at, _)| sum(*at) > LEAST_OF_AREA * whole).map(|(_, part)| part)
    }

    /// The longest step time, ms; `None` where no steps are counted.
    pub fn longest_ms(&self) -> Option<f32> {
        self.columns.iter().filter_map(Column::step_ms).reduce(f32::max)
    }
}

/// Gives the columns before the first step time the first one, and each one after a step time the last before it: the rate is a mean over the
/// last seconds, so it covers them.
fn heights(columns: &[Column], top_ms: f32) -> Vec<f32> {
    let first = columns.iter().find_map(Column::step_ms);
    let mut last = first.unwrap_or(top_ms);
    let height = |column: &Column| {
        last = column.step_ms().unwrap_or(last);
        (last / top_ms).clamp(0.0, 1.0)
    };
    columns.iter().map(height).collect()
}

impl Widget for LoopArea<'_> {
    fn render(self, area: Rect, buf: &mut Buffer) {
        let Self { columns: LoopColumns { columns, window, began_before }, verdict, top_ms, theme } = self;
        let area = area.intersection(buf.area);
        if area.is_empty() {
            return;
        }
        let heights = match top_ms.filter(|top| *top > 0.0) {
            Some(top) => heights(columns, top),
            None => vec![1.0; columns.len()],
        };
        let looks = PARTS.map(|part| Look::of_part(part, verdict));
        let mut started = *began_before;
        let (mut edges, mut smooth) = (Vec::new(), None);
        let of_ranks = verdict.map_or([0.0; 2], ranks::waits_for_ranks).map(|part| part as f32);
        for (at, (column, height)) in columns.iter().zip(heights).enumerate() {
            let Some(x) = charts::cell(area, *window, at) else { continue };
            if column.seconds > 0.0 {
                started = true;
                let levels = if theme.is_solid() { HALVES } else { 1 };
                let whole = column.shares.iter().sum::<f32>().max(f32::MIN_POSITIVE);
                let (shares, height) = smoothed(&mut smooth, column.shares.map(|share| share / whole), height);
                let exact = part_edges(&with_ranks(shares, of_ranks), height, area.height, levels);
                edges = if levels > 1 { steady(exact, &edges) } else { exact };
                stack(buf, Rect { x, width: 1, ..area }, &edges, &looks, theme);
            } else if started && !window.is_ahead(at) {
                edges.clear();
                smooth = None;
                charts::put(buf, x, area.bottom() - 1, theme.gap_glyph(), theme.dim());
            }
        }
    }
}

/// The shares with these parts of the waits for the GPU and of its own work among those that have a name: the ranks wait for each other.
fn with_ranks(mut shares: [f32; PARTS.len()], [of_gpu, of_work]: [f32; 2]) -> [f32; PARTS.len()] {
    let [gpu, work, _, named, ..] = &mut shares;
    let waited = *gpu * of_gpu;
    let exchanged = *work * of_work;
    *gpu -= waited;
    *work -= exchanged;
    *named += waited + exchanged;
    shares
}

/// The levels up to which each part reaches, in a column filled up to `height`, 0–1. They are rounded as running sums, so that the
/// whole is exact.
fn part_edges(shares: &[f32], height: f32, rows: u16, levels: usize) -> Vec<usize> {
    let total = shares.iter().sum::<f32>().max(f32::MIN_POSITIVE);
    let full = f32::from(rows) * levels as f32 * height;
    let mut filled = 0.0;
    let edge = |share: &f32| {
        filled += share / total;
        (filled * full).round() as usize
    };
    shares.iter().map(edge).collect()
}

/// The shares and the height of a column without the noise of single seconds, which would be sent again as the chart moves on: a part of
/// the way from those before to its own, and the whole way where much has changed.
fn smoothed(
    before: &mut Option<([f32; PARTS.len()], f32)>,
    shares: [f32; PARTS.len()],
    height: f32,
) -> ([f32; PARTS.len()], f32) {
    let far = |(known, known_height): &([f32; PARTS.len()], f32)| {
        let most = known.iter().zip(shares).map(|(known, share)| (share - known).abs()).fold(0.0, f32::max);
        most > JUMP || (height - known_height).abs() > JUMP
    };
    let next = match before.filter(|before| !far(before)) {
        Some((known, known_height)) => {
            let mut shares = shares;
            shares
                .iter_mut()
                .zip(known)
                .for_each(|(share, known)| *share = known + (*share - known) * PART_OF_THE_WAY);
            (shares, known_height + (height - known_height) * PART_OF_THE_WAY)
        }
        None => (shares, height),
    };
    *before = Some(next);
    next
}

/// A change of a share by more than this is no noise.
const JUMP: f32 = 0.25;
/// How far a column goes from those before to its own values: half a second of a minute in 110 cells becomes a mean of about three
/// seconds.
const PART_OF_THE_WAY: f32 = 0.15;

/// The edges, or those of the column before if none differs by more than one level: such steps are noise, and every one of them is
/// sent again as the chart moves on.
fn steady(edges: Vec<usize>, before: &[usize]) -> Vec<usize> {
    let is_noise = edges.iter().zip(before).all(|(edge, before)| edge.abs_diff(*before) <= 1);
    if is_noise && edges.len() == before.len() { before.to_vec() } else { edges }
}

/// Draws one column of parts up to their edges.
fn stack(buf: &mut Buffer, area: Rect, edges: &[usize], looks: &[Look], theme: Theme) {
    let is_solid = theme.is_solid();
    let levels = if is_solid { HALVES } else { 1 };
    let look_at = |level: usize| edges.iter().zip(looks).find(|(edge, _)| level < **edge).map(|(_, look)| *look);
    for row in 0..usize::from(area.height) {
        let y = area.bottom() - 1 - row as u16;
        let (lower, upper) = (look_at(row * levels), look_at(row * levels + levels - 1));
        let Some(lower) = lower else { return };
        let style = theme.filled(lower, BODY);
        match upper {
            // A blank is one byte, a block three.
            Some(upper) if upper == lower && is_solid => charts::put(buf, area.x, y, ' ', theme.ground(lower, BODY)),
            Some(upper) if upper == lower => charts::put(buf, area.x, y, theme.glyph(lower), style),
            Some(upper) => charts::put(buf, area.x, y, '▄', theme.filled_on(lower, upper, BODY)),
            None => charts::put(buf, area.x, y, '▄', style),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use trainmon_diagnosis::diagnosis::verdict::Class;
    use trainmon_waits::Frame;
    use trainmon_waits::time_split::TimeSplit;

    fn timeline(points: &[(u64, TimeSplit, Option<f64>)]) -> Timeline {
        let mut timeline = Timeline::default();
        for (second, split, per_s) in points {
            let frame = Frame { monotonic_ns: second * 1_000_000_000, seconds: 1.0, ..Frame::default() };
            timeline.add(TimelinePoint::new(&frame, Class::Unknown, *per_s, Some(*split)));
        }
        timeline
    }

    fn drawn(timeline: &Timeline, seconds: u16, height: u16, top_ms: Option<f32>, theme: Theme) -> Vec<String> {
        let area = Rect::new(0, 0, seconds, height);
        let mut buf = Buffer::empty(area);
        let window = TimelineWindow {
            edge_ns: 1_000_000_000_000,
            end_ns: 1_000_000_000_000,
            column_ns: 1_000_000_000,
            columns: usize::from(seconds),
            sweep: false,
        };
        let columns = LoopColumns::gather(timeline, window);
        LoopArea { columns: &columns, verdict: None, top_ms, theme }.render(area, &mut buf);
        let width = usize::from(seconds).max(1);
        buf.content.chunks(width).map(|row| row.iter().map(|cell| cell.symbol()).collect()).collect()
    }

    fn half() -> TimeSplit {
        TimeSplit { input_wait: 0.5, device_sync: 0.5, ..TimeSplit::default() }
    }

    #[test]
    fn useful_time_is_below_what_is_lost() {
        let timeline = timeline(&[(999, half(), None), (1000, half(), None)]);
        assert_eq!(drawn(&timeline, 3, 4, None, Theme::plain(true)), [" DD", " DD", " GG", " GG"]);
        // Three levels of lost time on three of useful time: half a cell each.
        assert_eq!(drawn(&timeline, 2, 3, None, Theme::default()), ["  ", "▄▄", "  "]);
    }

    #[test]
    fn the_height_is_the_step_time() {
        let timeline = timeline(&[(998, half(), None), (999, half(), Some(20.0)), (1000, half(), Some(10.0))]);
        let rows = drawn(&timeline, 3, 4, Some(100.0), Theme::plain(true));
        // 50 ms, also for the second before the rate was known, then 100 ms.
        assert_eq!(rows, ["  D", "  D", "DDG", "GGG"]);
    }

    #[test]
    fn a_gap_is_drawn_as_one() {
        let timeline = timeline(&[(998, half(), None), (1000, half(), None)]);
        assert_eq!(drawn(&timeline, 3, 2, None, Theme::plain(true)), ["D D", "G-G"]);
    }

    proptest! {
        #[test]
        fn any_past_is_drawn_inside_its_area(
            seconds in prop::collection::vec((900u64..1000, prop::array::uniform5(0.0f64..2.0), prop::option::of(any::<f64>())), 0..30),
            width in 0u16..60, height in 0u16..20, top in prop::option::of(any::<f32>()),
        ) {
            let mut seconds: Vec<_> = seconds.into_iter().map(|(at, split, per_s)| (at, split.into(), per_s)).collect();
            seconds.sort_by_key(|(at, ..)| *at);
            let timeline = timeline(&seconds);
            for theme in [Theme::plain(true), Theme::default()] {
                drawn(&timeline, width, height, top, theme);
            }
        }
    }
}
