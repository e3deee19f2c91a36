//! Which part of a step is shown, and its time axis.

use trainmon_profiles::drawn::{DrawnGap, DrawnStep};

/// Begin and end of what is shown, 0–1 of the step.
pub type TimeSpan = (f64, f64);

/// All of the step.
pub const WHOLE: TimeSpan = (0.0, 1.0);

/// What a gap takes of the first zoomed part, with as much of what is before as of what is after it.
const SHARE_OF_GAP: f64 = 0.6;
/// How much less each further one shows.
const CLOSER: f64 = 8.0;
/// The least that is shown, milliseconds: a launch takes a few microseconds.
const LEAST_MS: f64 = 0.02;
/// What the time from a launch to its kernel takes of the last one.
const SHARE_OF_ARROW: f64 = 0.4;
/// Most parts that can be zoomed to.
const SPANS: usize = 12;

/// What is shown from one zoom to the next: the step, the gap, then ever less around its end, until the call and what it launched
/// are seen apart.
pub fn spans(step: &DrawnStep, gap: &DrawnGap) -> Vec<TimeSpan> {
    let mut spans = vec![WHOLE];
    let least = if step.length_ms > 0.0 { (LEAST_MS / step.length_ms).min(1.0) } else { 1.0 };
    let own = (gap.end - gap.begin) / SHARE_OF_GAP;
    let mut last = 1.0;
    if own < 0.7 {
        last = own.max(least);
        spans.push(around((gap.begin + gap.end) / 2.0, 0.5, last));
    }
    let (Some(work), false) = (&gap.work, gap.goes_on) else { return spans };
    let arrow = gap.call.as_ref().map_or(0.0, |call| work.begin - call.begin) / SHARE_OF_ARROW;
    // A launch from long before is out of sight, and the kernel alone is what there is to see.
    let closest = if (0.0..last).contains(&arrow) { arrow.max(least) } else { least };
    let begin = match &gap.call {
        Some(call) if closest == arrow => (call.begin + work.begin) / 2.0,
        _ => work.begin,
    };
    while last / CLOSER > closest && spans.len() < SPANS {
        last /= CLOSER;
        spans.push(around(work.begin, 0.6, last));
    }
    if closest < last * 0.8 && spans.len() < SPANS {
        spans.push(around(begin, 0.4, closest));
    }
    spans
}

/// A part of so much, in which a moment is at this share of it; within the step.
fn around(moment: f64, at: f64, length: f64) -> TimeSpan {
    let length = length.clamp(f64::EPSILON, 1.0);
    let begin = (moment - at * length).clamp(0.0, 1.0 - length);
    (begin, begin + length)
}

/// A part of the step on so many cells.
#[derive(Debug, Clone, Copy)]
pub struct TimeAxis {
    /// What is shown.
    pub span: TimeSpan,
    /// Cells.
    pub width: u16,
}

impl TimeAxis {
    /// The cell of a moment; the first or the last one if it is not shown.
    pub fn cell(self, moment: f64) -> u16 {
        let last = self.width.saturating_sub(1);
        let place = (moment - self.span.0) / (self.span.1 - self.span.0) * f64::from(self.width);
        // Positions are products of positions: a moment at a cell's edge is in that cell.
        ((place + 1e-6).max(0.0) as u16).min(last)
    }

    /// The cells of an interval, end not included: at least one; `None` if it is not shown.
    pub fn cells(self, begin: f64, end: f64) -> Option<(u16, u16)> {
        // No number is in no order.
        let is_shown = begin <= end && end >= self.span.0 && begin <= self.span.1;
        if !is_shown {
            return None;
        }
        let scale = f64::from(self.width) / (self.span.1 - self.span.0);
        let first = self.cell(begin);
        let after = (((end - self.span.0) * scale - 1e-6).ceil().max(0.0) as u16).min(self.width);
        Some((first, after.max(first + 1)))
    }

    /// Whether a moment is shown.
    pub fn shows(self, moment: f64) -> bool {
        (self.span.0..=self.span.1).contains(&moment)
    }

    /// The marks of a step of so many milliseconds: their cells and labels.
    pub fn marks(self, length_ms: f64) -> Vec<(u16, String)> {
        let shown_ms = (self.span.1 - self.span.0) * length_ms;
        if !shown_ms.is_finite() || shown_ms <= 0.0 || length_ms > 1e9 || self.width == 0 {
            return Vec::new();
        }
        let (unit, per_unit) = if length_ms < 10_000.0 { ("ms", 1.0) } else { ("s", 1000.0) };
        let room = f64::from(self.width) / 12.0;
        let tick = nice(shown_ms / per_unit / room.max(1.0));
        let decimals = (-tick.log10().floor()).max(0.0) as usize;
        let first = (self.span.0 * length_ms / per_unit / tick).ceil();
        let marks = (0..=u32::from(self.width)).map(|nth| (first + f64::from(nth)) * tick);
        let end = self.span.1 * length_ms / per_unit;
        let marks = marks.take_while(|at| *at < end);
        let label = |at: f64| if at == 0.0 { "0".to_owned() } else { format!("{at:.decimals$} {unit}") };
        marks.map(|at| (self.cell(at * per_unit / length_ms), label(at))).collect()
    }
}

/// The least of 1, 2 or 5 times a power of ten that is at least this.
fn nice(least: f64) -> f64 {
    let power = 10f64.powf(least.max(1e-9).log10().floor());
    [1.0, 2.0, 5.0, 10.0].map(|step| step * power).into_iter().find(|tick| *tick >= least).unwrap_or(10.0 * power)
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainmon_profiles::drawn::DrawnWork;

    fn work(begin: f64, end: f64) -> Option<DrawnWork> {
        Some(DrawnWork { begin, end, ..DrawnWork::default() })
    }

    #[test]
    fn each_zoom_shows_less_until_the_launch_and_its_kernel_are_apart() {
        let step = DrawnStep { length_ms: 100.0, ..DrawnStep::default() };
        let gap = DrawnGap {
            begin: 0.2,
            end: 0.5,
            call: work(0.4998, 0.49985),
            work: work(0.5, 0.51),
            ..DrawnGap::default()
        };
        let all = spans(&step, &gap);
        assert_eq!(all[0], WHOLE);
        assert!((all[1].0 - 0.1).abs() < 1e-9 && (all[1].1 - 0.6).abs() < 1e-9, "{all:?}");
        assert!(all.windows(2).all(|pair| pair[1].1 - pair[1].0 < pair[0].1 - pair[0].0), "{all:?}");
        let last = *all.last().unwrap();
        let axis = TimeAxis { span: last, width: 60 };
        assert!(axis.shows(0.4998) && axis.shows(0.5), "{last:?}");
        assert!(axis.cell(0.5) - axis.cell(0.4998) > 15, "{last:?}");
        // A wait of the loop has neither.
        let wait = DrawnGap { begin: 0.2, end: 0.5, ..DrawnGap::default() };
        assert_eq!(spans(&step, &wait).len(), 2);
        // At the end of the step, and of no length at all.
        for gap in [
            DrawnGap { begin: 0.99, end: 1.0, work: work(1.0, 1.2), ..DrawnGap::default() },
            DrawnGap { begin: 0.5, end: 0.5, work: work(0.5, 0.5), call: work(-3.0, -2.0), ..DrawnGap::default() },
            DrawnGap { begin: f64::MAX, end: f64::MIN, work: work(f64::MAX, f64::MIN), ..DrawnGap::default() },
        ] {
            let all = spans(&step, &gap);
            assert!(all.iter().all(|(begin, end)| 0.0 <= *begin && begin < end && *end <= 1.0 + 1e-12), "{all:?}");
        }
    }

    #[test]
    fn the_axis_has_round_marks() {
        let labels = |span, length_ms| {
            let marks = TimeAxis { span, width: 70 }.marks(length_ms);
            marks.into_iter().map(|(cell, label)| format!("{cell}:{label}")).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(labels(WHOLE, 175.0), "0:0 20:50 ms 40:100 ms 60:150 ms");
        assert_eq!(labels((0.5, 0.5002), 100.0), "0:50.000 ms 17:50.005 ms 35:50.010 ms 52:50.015 ms");
        assert_eq!(labels(WHOLE, 40_000.0), "0:0 17:10 s 35:20 s 52:30 s");
        for length_ms in [f64::NAN, f64::INFINITY, 0.0, -1.0, 1e300] {
            assert_eq!(labels(WHOLE, length_ms), "");
        }
    }

    #[test]
    fn an_interval_has_at_least_a_cell() {
        let axis = TimeAxis { span: (0.5, 1.0), width: 10 };
        assert_eq!(axis.cells(0.5, 0.75), Some((0, 5)));
        assert_eq!(axis.cells(0.76, 0.7600001), Some((5, 6)));
        assert_eq!(axis.cells(0.0, 0.6), Some((0, 2)));
        assert_eq!(axis.cells(1.0, 1.0), Some((9, 10)));
        assert_eq!(axis.cells(0.1, 0.4), None);
        assert_eq!(axis.cells(0.9, 0.8), None);
        assert_eq!(axis.cells(f64::NAN, 0.8), None);
    }
}
