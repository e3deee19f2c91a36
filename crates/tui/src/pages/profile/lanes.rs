//! A lane of the drawn step in one row: the kind that takes most of a cell's time, and names where there is room.

use ratatui::buffer::Buffer;
use ratatui::layout::{Margin, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::Span;
use ratatui::widgets::Widget;

use super::gpus::look;
use super::zoom::TimeAxis;
use crate::theme::Theme;
use crate::widgets::cells;
use trainmon_base::text::fit;
use trainmon_profiles::drawn::{DrawnGap, DrawnSlice, LaneKind, SliceKind};

/// Kernels fill a cell from below by their share of its time.
const EIGHTHS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// Smaller shares of a cell are not drawn where a GPU is idle between two kernels, and less than half is dim.
const SEEN: f64 = 0.1;
const MOSTLY: f64 = 0.5;
/// Slices that are several with gaps between them have no name.
const MOSTLY_FILLED: f64 = 0.8;
/// Fewest cells of a name, and the blanks around it.
const LEAST_NAME_IN_SLICE: u16 = 5;
const AROUND_NAME: u16 = 2;

/// What happens in a cell.
#[derive(Debug, Clone, Copy, Default)]
struct CellShares([f64; SliceKind::COUNT]);

impl CellShares {
    /// The kind that takes most of it, and what all of them take.
    fn most(&self) -> Option<(SliceKind, f64)> {
        let (kind, most) = SliceKind::ALL.into_iter().zip(self.0).max_by(|one, other| one.1.total_cmp(&other.1))?;
        (most > 0.0).then_some((kind, self.0.iter().sum::<f64>().min(1.0)))
    }
}

/// Draws the slices of a lane.
pub fn draw(buf: &mut Buffer, row: Rect, slices: &[DrawnSlice], kind: LaneKind, axis: TimeAxis, theme: Theme) {
    let shown = shown(slices, axis);
    for (x, shares) in (row.x..row.right()).zip(shares(shown, axis)) {
        let (Some((most, all)), Some(cell)) = (shares.most(), buf.cell_mut((x, row.y))) else { continue };
        if kind == LaneKind::Idle && all < SEEN {
            continue;
        }
        let style = theme.style(look(most));
        cell.set_char(glyph(most, all, theme));
        // Heights say the same of kernels.
        let faint = all < MOSTLY && most != SliceKind::Compute;
        cell.set_style(if faint { style.add_modifier(Modifier::DIM) } else { style });
    }
    for slice in shown.iter().filter(|slice| slice.filled > MOSTLY_FILLED && !slice.name.is_empty()) {
        let Some((first, after)) = axis.cells(slice.begin, slice.end) else { continue };
        name(buf, Rect { x: row.x + first, width: after - first, ..row }, &slice.name, slice.kind, theme);
    }
}

/// The slices of which something is shown.
fn shown(slices: &[DrawnSlice], axis: TimeAxis) -> &[DrawnSlice] {
    let first = slices.partition_point(|slice| slice.end < axis.span.0);
    let after = slices.partition_point(|slice| slice.begin <= axis.span.1);
    slices.get(first..after).unwrap_or_default()
}

/// The share of each cell by kind.
fn shares(slices: &[DrawnSlice], axis: TimeAxis) -> Vec<CellShares> {
    let mut all = vec![CellShares::default(); usize::from(axis.width)];
    let length = (axis.span.1 - axis.span.0) / f64::from(axis.width.max(1));
    for slice in slices {
        let Some((first, after)) = axis.cells(slice.begin, slice.end) else { continue };
        for (place, shares) in (first..after).zip(all.iter_mut().skip(usize::from(first))) {
            let begin = axis.span.0 + f64::from(place) * length;
            let common = (slice.end.min(begin + length) - slice.begin.max(begin)).max(0.0);
            if let Some(share) = shares.0.get_mut(slice.kind.index()) {
                *share += common / length * slice.filled.clamp(0.0, 1.0);
            }
        }
    }
    all
}

fn glyph(kind: SliceKind, share: f64, theme: Theme) -> char {
    match kind {
        SliceKind::Compute if theme.ascii && share < MOSTLY => ':',
        SliceKind::Compute if !theme.ascii => {
            EIGHTHS.get((share * 8.0).ceil().max(1.0) as usize - 1).copied().unwrap_or('█')
        }
        kind => theme.glyph(look(kind)),
    }
}

/// Writes a name into a slice, if there is room.
fn name(buf: &mut Buffer, area: Rect, name: &str, kind: SliceKind, theme: Theme) {
    let room = area.width.saturating_sub(AROUND_NAME * 2);
    if room < LEAST_NAME_IN_SLICE {
        return;
    }
    let text = format!(" {} ", fit(name, usize::from(room)));
    let style = theme.style(look(kind)).add_modifier(Modifier::REVERSED);
    Span::styled(text, style).render(area.inner(Margin::new(1, 0)), buf);
}

/// Draws a gap: in reverse if the cursor is on it, with its length where there is room.
pub fn gap(buf: &mut Buffer, row: Rect, gap: &DrawnGap, length: &str, selected: bool, axis: TimeAxis) {
    let Some((first, after)) = axis.cells(gap.begin, gap.end) else { return };
    let area = Rect { x: row.x + first, width: after - first, ..row };
    if selected {
        buf.set_style(area, Style::new().add_modifier(Modifier::REVERSED | Modifier::BOLD));
    }
    let wanted = cells(length) + 2;
    if wanted + 2 <= area.width {
        let middle = area.inner(Margin::new((area.width - wanted) / 2, 0));
        // Cells keep the colors of their reasons.
        Span::styled(format!(" {length} "), Style::new().add_modifier(Modifier::BOLD)).render(middle, buf);
    }
}
