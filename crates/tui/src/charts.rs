//! The screen's own charts: a filled braille timeline, a band of verdicts, a bar and a time ruler.
//!
//! The timelines are widgets that draw straight into the cells: their values are gathered in arrays on the stack. Zero is a line along the bottom; a gap is a row of dashes, so that they cannot be confused.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::Span;
use ratatui::widgets::Widget;

use super::theme::{Look, Theme, WithLook};
use trainmon_diagnosis::diagnosis::verdict::Class;
use trainmon_diagnosis::history::timeline::{Timeline, TimelinePoint, TimelineWindow};

/// Maximum width of a chart, cells; on a wider terminal charts stay this wide.
pub const MAX_CELLS: usize = 512;

/// Dots of the left and right half of a braille cell, filled from the bottom by 0 to 4 dots (Unicode chapter 21.1).
const LEFT: [u32; 5] = [0x00, 0x40, 0x44, 0x46, 0x47];
const RIGHT: [u32; 5] = [0x00, 0x80, 0xA0, 0xB0, 0xB8];
/// ASCII replacements for a cell filled by 0 to 4 quarters.
const ASCII: [char; 5] = [' ', '.', ':', '|', '#'];

/// Mean of one series per dot column.
#[derive(Debug, Clone)]
pub struct ChartColumns {
    /// Sum and weight of each.
    sums: [(f32, f32); MAX_CELLS * 2],
    used: usize,
    /// Position of the cells.
    window: TimelineWindow,
    /// Whether there is data before the first column.
    began_before: bool,
}

impl ChartColumns {
    /// Gathers one series over `window`, two columns per cell.
    pub fn gather(
        timeline: &Timeline,
        window: TimelineWindow,
        value: impl Fn(&TimelinePoint) -> Option<f32>,
    ) -> Self {
        let [columns] = Self::gather_each(timeline, window, |point| [value(point)]);
        columns
    }

    /// Gathers several series in one pass, which costs hardly more than a pass for one.
    pub fn gather_each<const N: usize>(
        timeline: &Timeline,
        window: TimelineWindow,
        values: impl Fn(&TimelinePoint) -> [Option<f32>; N],
    ) -> [Self; N] {
        let cells = window;
        let window = window.halved();
        let began_before = timeline.began_before(window);
        let used = window.columns.min(MAX_CELLS * 2);
        let mut all =
            std::array::from_fn(|_| Self { window: cells, sums: [(0.0, 0.0); MAX_CELLS * 2], used, began_before });
        timeline.spread(window, |column, seconds, point| {
            for (columns, value) in all.iter_mut().zip(values(point)) {
                if let (Some(v), Some((sum, weight))) = (value, columns.sums.get_mut(column)) {
                    *sum += v * seconds;
                    *weight += seconds;
                }
            }
        });
        all
    }

    /// Values by column, oldest first; `None` where nothing was measured.
    pub fn values(&self) -> impl ExactSizeIterator<Item = Option<f32>> {
        self.sums.iter().take(self.used).map(|(sum, weight)| (*weight > 0.0).then(|| sum / weight))
    }

    /// Highest value, 0 if there are no values.
    pub fn max(&self) -> f32 {
        self.values().flatten().fold(0.0, f32::max)
    }
}

/// Dots of a column: at least one for a measured value, so that zero is visible.
fn dots(value: Option<f32>, max: f32, height: u16) -> u16 {
    let Some(v) = value else { return 0 };
    let full = f32::from(height) * 4.0;
    let filled = if max > 0.0 { (v / max * full).round() } else { 0.0 };
    filled.clamp(1.0, full) as u16
}

/// A filled timeline, one cell for every two columns, brighter from row to row.
#[derive(Debug)]
pub struct FilledTimeline<'a, L> {
    /// Its values.
    pub columns: &'a ChartColumns,
    /// The value at its upper edge.
    pub max: f32,
    /// The look of a row, given the value at its upper edge.
    pub look: L,
    /// How to draw.
    pub theme: Theme,
}

impl<L: Fn(f32) -> Look> Widget for FilledTimeline<'_, L> {
    fn render(self, area: Rect, buf: &mut Buffer) {
        let Self { columns, max, look, theme } = self;
        let area = area.intersection(buf.area);
        if area.is_empty() {
            return;
        }
        let height = f64::from(area.height);
        let style = |row: u16| {
            let upper = f64::from(row + 1) / height;
            theme
                .filled(look(max * upper as f32), if area.height > 1 { f64::from(row) / (height - 1.0) } else { 1.0 })
        };
        for row in 0..area.height {
            // Blanks get the color as well: it is invisible there, and saves color changes on the line.
            buf.set_style(Rect { y: area.bottom() - 1 - row, height: 1, ..area }, style(row));
        }
        let mut values = columns.values();
        let mut started = columns.began_before;
        for place in 0..usize::from(area.width) {
            let (left, right) = (values.next().flatten(), values.next().flatten());
            let Some(x) = cell(area, columns.window, place) else { continue };
            let is_gap = left.is_none() && right.is_none();
            // Before the first value there is nothing that could be missing.
            if is_gap && started && !columns.window.is_ahead(place) {
                put(buf, x, area.bottom() - 1, theme.gap_glyph(), theme.dim());
            }
            started |= !is_gap;
            let (left, right) = (dots(left, max, area.height), dots(right, max, area.height));
            for row in 0..area.height {
                let below = row * 4;
                let l = usize::from(left.saturating_sub(below).min(4));
                let r = usize::from(right.saturating_sub(below).min(4));
                let y = area.bottom() - 1 - row;
                if l + r > 0
                    && let Some(cell) = buf.cell_mut((x, y))
                {
                    cell.set_char(glyph(l, r, theme.ascii));
                }
            }
        }
    }
}

/// The terminal column of a window's column, if it is in `area`.
pub fn cell(area: Rect, window: TimelineWindow, column: usize) -> Option<u16> {
    let place = u16::try_from(window.place(column)?).ok()?;
    (place < area.width).then(|| area.x + place)
}

/// The character with `l` and `r` dots filled from below.
fn glyph(l: usize, r: usize, ascii: bool) -> char {
    if ascii {
        return ASCII.get((l + r).div_ceil(2)).copied().unwrap_or('#');
    }
    let bits = LEFT.get(l).unwrap_or(&0) | RIGHT.get(r).unwrap_or(&0);
    char::from_u32(0x2800 + bits).unwrap_or(' ')
}

/// Sets a cell.
pub fn put(buf: &mut Buffer, x: u16, y: u16, c: char, style: Style) {
    if let Some(cell) = buf.cell_mut((x, y)) {
        cell.set_char(c).set_style(style);
    }
}

/// Calls `draw` for every cell of `window` that has data, with the terminal column and the seconds of each kind. Cells
/// without data are gaps once there has been data.
fn each_cell<const N: usize>(
    buf: &mut Buffer,
    area: Rect,
    source: &Timeline,
    window: TimelineWindow,
    theme: Theme,
    parts: impl Fn(&TimelinePoint) -> Option<[f32; N]>,
    mut draw: impl FnMut(&mut Buffer, u16, [f32; N]),
) {
    if area.is_empty() {
        return;
    }
    let mut cells = [[0.0; N]; MAX_CELLS];
    source.spread(window, |column, seconds, point| {
        let (Some(cell), Some(parts)) = (cells.get_mut(column), parts(point)) else { return };
        for (sum, part) in cell.iter_mut().zip(parts) {
            *sum += part * seconds;
        }
    });
    let mut started = source.began_before(window);
    for (column, parts) in cells.into_iter().take(window.columns).enumerate() {
        let Some(x) = cell(area, window, column) else { continue };
        if parts.iter().any(|part| *part > 0.0) {
            started = true;
            draw(buf, x, parts);
        } else if started && !window.is_ahead(column) {
            put(buf, x, area.bottom() - 1, theme.gap_glyph(), theme.dim());
        }
    }
}

/// The class of the verdict over time: a line in its color, with its name where there is room.
#[derive(Debug)]
pub struct VerdictBand<'a> {
    /// The past.
    pub timeline: &'a Timeline,
    /// What of it is shown.
    pub window: TimelineWindow,
    /// How to draw.
    pub theme: Theme,
}

impl Widget for VerdictBand<'_> {
    fn render(self, area: Rect, buf: &mut Buffer) {
        let Self { timeline, window, theme } = self;
        let area = Rect { height: 1, ..area }.intersection(buf.area);
        let weights =
            |point: &TimelinePoint| Some(Class::ALL.map(|class| if class == point.class { 1.0 } else { 0.0 }));
        let mut classes = [None; MAX_CELLS];
        each_cell(buf, area, timeline, window, theme, weights, |buf, x, weights| {
            let most = Class::ALL.into_iter().zip(weights).max_by(|a, b| a.1.total_cmp(&b.1));
            let Some((class, _)) = most else { return };
            let style = if class == Class::Unknown { theme.edge() } else { theme.series(class) };
            put(buf, x, area.y, theme.glyph(class.look()), style);
            if let Some(cell) = classes.get_mut(usize::from(x - area.x)) {
                *cell = Some(class);
            }
        });
        let mut x = area.x;
        for run in classes.chunk_by(|a, b| a == b) {
            let width = run.len() as u16;
            if let Some(Some(class)) = run.first().filter(|class| **class != Some(Class::Unknown)) {
                let name = format!(" {} ", class.name());
                let wanted = name.len() as u16;
                if width >= wanted + 2 {
                    let place = Rect { x: x + (width - wanted) / 2, width: wanted, ..area };
                    Span::styled(name, theme.series(*class).patch(theme.strong())).render(place, buf);
                }
            }
            x = x.saturating_add(width);
            if x >= area.right() {
                break;
            }
        }
    }
}

/// The time axis: a mark at every round number of seconds before the right edge, with a label of at most three cells.
#[derive(Debug)]
pub struct TimeRuler<'a> {
    /// Seconds from the left to the right edge.
    pub span_s: f64,
    /// The label of the right edge.
    pub edge: &'a str,
    /// The style of all labels.
    pub style: Style,
}

impl Widget for TimeRuler<'_> {
    fn render(self, area: Rect, buf: &mut Buffer) {
        let Self { span_s, edge, style } = self;
        let area = area.intersection(buf.area);
        if area.width < 8 || area.height == 0 || !span_s.is_finite() || span_s <= 0.0 {
            return;
        }
        let step = [1.0, 2.0, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 900.0, 1200.0]
            .into_iter()
            .find(|s| f64::from(area.width) * s / span_s >= 9.0)
            .unwrap_or(1800.0);
        let mut free = area.right() - 3;
        buf.set_stringn(free, area.y, format!("{edge:>3}"), 3, style);
        for ago in (1..=64).map(|mark| step * f64::from(mark)).take_while(|ago| *ago <= span_s) {
            // The mark is on the cell whose left edge is that moment; the label is to its right.
            let back = (ago / span_s * f64::from(area.width)).round() as u16;
            let label =
                if ago < 120.0 || ago % 60.0 != 0.0 { format!("-{ago}s") } else { format!("-{}m", ago / 60.0) };
            let x = area.right() - back.min(area.width);
            if back <= area.width && x.saturating_add(label.len() as u16) < free {
                buf.set_stringn(x, area.y, &label, label.len(), style);
                free = x;
            }
        }
    }
}

/// Draws the time axis of a sweep: where the newest moment is.
pub fn sweep_ruler(buf: &mut Buffer, area: Rect, window: TimelineWindow, style: Style) {
    let newest = window.columns.checked_sub(1).and_then(|column| cell(area, window, column));
    if let Some(x) = newest {
        // The label goes on the side where there is room, with its arrow below the newest moment.
        let fits = x + 5 <= area.right();
        let (word, start) = if fits { ("▲now", x) } else { ("now▲", x.saturating_sub(3).max(area.x)) };
        Span::styled(word, style).render(Rect { x: start, width: area.right() - start, ..area }, buf);
    }
}

/// A bar of `width` cells of parts, each as long as its share of their sum; dashes if nothing is known. With enough colors it is of
/// solid blocks, otherwise of textures.
pub fn split(width: u16, parts: &[(Look, f64)], theme: Theme) -> Vec<Span<'static>> {
    let is_blank = |look: &Look| look.glyph == Look::IDLE.glyph;
    let part = |(look, value): &(Look, f64)| {
        let glyph = if theme.is_solid() && !is_blank(look) { '█' } else { theme.glyph(*look) };
        (glyph, theme.style(*look), *value)
    };
    split_styled(width, &parts.iter().map(part).collect::<Vec<_>>(), theme)
}

/// The same of parts with their character and style.
pub fn split_styled(width: u16, parts: &[(char, Style, f64)], theme: Theme) -> Vec<Span<'static>> {
    let amount = |value: f64| if value.is_finite() { value.max(0.0) } else { 0.0 };
    let total: f64 = parts.iter().map(|(.., value)| amount(*value)).sum();
    let repeated = |glyph: char, cells: usize| glyph.to_string().repeat(cells);
    if total <= 0.0 {
        return vec![Span::styled(repeated(theme.gap_glyph(), usize::from(width)), theme.dim())];
    }
    let (mut filled, mut x) = (0.0, 0);
    let part = |(glyph, style, value): &(char, Style, f64)| {
        filled += amount(*value) / total;
        let (begin, end) = (x, (filled * f64::from(width)).round().min(f64::from(width)) as usize);
        x = end;
        Span::styled(repeated(*glyph, end.saturating_sub(begin)), *style)
    };
    parts.iter().map(part).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use ratatui::text::Line;

    use super::*;
    use trainmon_rates::frame::HostRates;
    use trainmon_waits::Frame;

    const NOW: u64 = 1_000_000_000_000;

    fn cpu(values: &[(f64, Option<f64>)]) -> Timeline {
        let mut t = Timeline::default();
        for (end_s, pct) in values {
            let host = HostRates { allowed_cpu_pct: *pct, ..HostRates::default() };
            let end_ns = (end_s * 1e9) as u64;
            t.add(TimelinePoint::new(
                &Frame { monotonic_ns: end_ns, seconds: 1.0, host, ..Frame::default() },
                Class::Unknown,
                None,
                None,
            ));
        }
        t
    }

    fn drawn(t: &Timeline, cells: u16, height: u16, ascii: bool) -> Vec<String> {
        let area = Rect::new(0, 0, cells, height);
        let mut buf = Buffer::empty(area);
        let theme = Theme::plain(ascii);
        let columns =
            ChartColumns::gather(t, TimelineWindow::of_cells(NOW, f64::from(cells), cells), |p| p.cpu.get());
        let look = |_| Class::Cpu.look();
        FilledTimeline { columns: &columns, max: 100.0, look, theme }.render(area, &mut buf);
        rows(&buf)
    }

    fn rows(buf: &Buffer) -> Vec<String> {
        let width = usize::from(buf.area.width);
        buf.content.chunks(width).map(|row| row.iter().map(|c| c.symbol()).collect()).collect()
    }

    #[test]
    fn heights_follow_values_and_zero_is_a_line() {
        let t = cpu(&[(997.0, Some(0.0)), (998.0, Some(50.0)), (999.0, Some(100.0)), (1000.0, Some(75.0))]);
        assert_eq!(drawn(&t, 4, 2, false), ["  ⣿⣤", "⣀⣿⣿⣿"]);
        assert_eq!(drawn(&t, 4, 2, true), ["  #:", ".###"]);
    }

    #[test]
    fn gaps_are_dashes_and_the_time_before_is_blank() {
        let t = cpu(&[(996.0, Some(100.0)), (998.0, None), (1000.0, Some(100.0))]);
        assert_eq!(drawn(&t, 6, 1, false), [" ⣿–––⣿"]);
        assert_eq!(drawn(&t, 6, 1, true), [" #---#"]);
    }

    #[test]
    fn the_band_has_the_names_of_long_stretches_and_gaps() {
        let mut t = cpu(&[]);
        for s in 970..1000 {
            let class = if s < 985 { Class::DataLoader } else { Class::Gpu };
            if s != 990 {
                let frame = Frame { monotonic_ns: (f64::from(s) * 1e9) as u64, seconds: 1.0, ..Frame::default() };
                t.add(TimelinePoint::new(&frame, class, None, frame.loop_shares()));
            }
        }
        let area = Rect::new(0, 0, 32, 1);
        let mut buf = Buffer::empty(area);
        let window = TimelineWindow::of_cells(NOW, 32.0, 32);
        VerdictBand { timeline: &t, window, theme: Theme::default() }.render(area, &mut buf);
        assert_eq!(rows(&buf), [" ━ data loader ━━━━━━–━━ GPU ━━–"]);
    }

    #[test]
    fn the_ruler_counts_seconds_back_from_now() {
        let area = Rect::new(0, 0, 60, 1);
        let mut buf = Buffer::empty(area);
        TimeRuler { span_s: 60.0, edge: "now", style: Style::new() }.render(area, &mut buf);
        assert_eq!(rows(&buf), ["-60s      -50s      -40s      -30s      -20s      -10s   now"]);
    }

    #[test]
    fn the_ruler_has_round_marks_from_ten_seconds_to_an_hour() {
        let area = Rect::new(0, 0, 60, 1);
        let marks = |span_s| {
            let mut buf = Buffer::empty(area);
            TimeRuler { span_s, edge: "now", style: Style::new() }.render(area, &mut buf);
            rows(&buf).concat().split_whitespace().map(str::to_owned).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(marks(10.0), "-10s -8s -6s -4s -2s now");
        assert_eq!(marks(30.0), "-30s -25s -20s -15s -10s -5s now");
        assert_eq!(marks(1800.0), "-30m -25m -20m -15m -10m -5m now");
        assert_eq!(marks(3600.0), "-60m -50m -40m -30m -20m -10m now");
    }

    fn stages(shares: [f64; 4]) -> Vec<(Look, f64)> {
        Look::STAGES.into_iter().zip(shares).collect()
    }

    #[test]
    fn bars_show_unknown_as_dashes() {
        let bar = |shares| Line::from(split(10, &stages(shares), Theme::plain(true))).to_string();
        assert_eq!(bar([0.5, 0.2, 0.1, 0.2]), "BBBBBiiq..");
        assert_eq!(bar([0.0; 4]), "----------");
    }

    proptest! {
        #[test]
        fn nothing_panics_on_any_value_and_any_area(
            values in prop::collection::vec((0.0f64..2000.0, prop::option::of(any::<f64>())), 0..20),
            x in 0u16..40, y in 0u16..10, width in 0u16..600, height in 0u16..20, max in any::<f32>(), ascii in any::<bool>(),
        ) {
            let t = cpu(&values);
            let mut buf = Buffer::empty(Rect::new(0, 0, 30, 8));
            let area = Rect::new(x, y, width, height);
            let theme = Theme { ascii, ..Theme::default() };
            let window = TimelineWindow::of_cells(NOW, 60.0, width);
            let columns = ChartColumns::gather(&t, window, |p| p.cpu.get());
            FilledTimeline { columns: &columns, max, look: |_| Class::Gpu.look(), theme }.render(area, &mut buf);
            VerdictBand { timeline: &t, window, theme }.render(area, &mut buf);
            TimeRuler { span_s: f64::from(max.abs()), edge: "now", style: Style::new() }.render(area, &mut buf);
            sweep_ruler(&mut buf, area, window.sweeping(), Style::new());
            let first = values.first().and_then(|v| v.1).unwrap_or(0.0);
            let bar = Line::from(split(width, &stages([first, 0.5, 0.0, f64::NAN]), theme));
            prop_assert!(bar.width() <= usize::from(width));
        }
    }
}
