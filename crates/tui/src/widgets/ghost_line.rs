//! The step time of an earlier run, as a dashed line over the loop's time.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Color;
use ratatui::text::Span;
use ratatui::widgets::Widget;

use super::text::cells;
use crate::format;
use crate::theme::Theme;
use trainmon_base::text::fit;

/// The line.
#[derive(Debug)]
pub struct GhostLine {
    /// The step time of the earlier run, ms.
    pub step_ms: f64,
    /// The step time at the upper edge, ms.
    pub top_ms: f64,
    /// How to draw.
    pub theme: Theme,
}

impl Widget for GhostLine {
    fn render(self, area: Rect, buf: &mut Buffer) {
        let Self { step_ms, top_ms, theme } = self;
        let area = area.intersection(buf.area);
        if area.is_empty() || !(step_ms > 0.0 && top_ms > 0.0) {
            return;
        }
        let up = (step_ms / top_ms * f64::from(area.height)).ceil() as u16;
        let y = area.bottom() - up.clamp(1, area.height);
        let dash = if theme.ascii { '-' } else { '╌' };
        for x in area.left()..area.right() {
            let Some(cell) = buf.cell_mut((x, y)) else { continue };
            // On the area, its color is behind the dashes.
            let ground = if cell.symbol() == " " { cell.bg } else { cell.fg };
            let is_area = theme.is_solid() && ground != Color::Reset;
            let style = if is_area { theme.over(ground) } else { theme.dim() };
            cell.set_char(dash).set_style(style);
        }
        let label = fit(&format!(" before {} ", format::step_time(step_ms)), usize::from(area.width));
        let place = Rect { x: area.x + area.width.min(2), y, width: cells(&label), height: 1 };
        Span::styled(label, theme.strong()).render(place.intersection(area), buf);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(step_ms: f64, top_ms: f64, (width, height): (u16, u16)) -> Vec<String> {
        let area = Rect::new(0, 0, width, height);
        let mut buf = Buffer::empty(area);
        GhostLine { step_ms, top_ms, theme: Theme::plain(true) }.render(area, &mut buf);
        buf.content
            .chunks(usize::from(width).max(1))
            .map(|row| row.iter().map(|cell| cell.symbol()).collect())
            .collect()
    }

    #[test]
    fn it_lies_at_its_value_and_says_it() {
        assert_eq!(drawn(50.0, 100.0, (20, 4))[2], "-- before 50 ms ----");
        assert_eq!(drawn(100.0, 100.0, (20, 4))[0], "-- before 100 ms ---");
    }

    #[test]
    fn no_value_and_no_room_draw_nothing_wrong() {
        assert!(drawn(f64::NAN, 100.0, (9, 2)).iter().all(|row| row.trim().is_empty()));
        for size in [(0, 0), (1, 1), (3, 1), (200, 2)] {
            drawn(1e300, 1.0, size);
            drawn(1.0, f64::INFINITY, size);
        }
    }
}
