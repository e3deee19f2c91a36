//! The page of the run so far: time by verdict, what the loop did, and when the verdict changed.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::Line;

use super::Content;
use crate::format;
use crate::theme::WithLook;
use crate::widgets::table::{self, Column};
use crate::widgets::{Drawn, Scene, Text, bars, count, scrolled};
use trainmon_base::zone;
use trainmon_diagnosis::diagnosis::causes::verdict_name;
use trainmon_diagnosis::diagnosis::loop_parts::LEAST_LISTED;
use trainmon_diagnosis::diagnosis::verdict::Class;
use trainmon_diagnosis::history::archive::MomentId;
use trainmon_diagnosis::history::step_histogram::StepHistogram;
use trainmon_diagnosis::history::totals::Totals;
use trainmon_views::totals::{self, SummaryLine};

/// Maximum number of verdict changes listed.
const CHANGES: usize = 100;
/// Width of word, share and time before a bar.
const COLUMNS: [Column; 3] = [("", -24), ("", 6), ("", 10)];
/// Maximum width of a bar.
const BAR: u16 = 60;

/// The totals when the screen last changed: while it is paused, they do not grow.
#[derive(Debug, Clone, Default)]
pub struct Run {
    totals: Option<Totals>,
    changes: Vec<String>,
}

/// A share of the run: word, seconds, and the style of its bar.
type Part = (&'static str, f64, Style);

impl Content for Run {
    fn refresh(&mut self, scene: &Scene<'_>) {
        self.totals = scene.job.summary().cloned();
        self.changes = changes(scene);
    }

    fn draw(&self, buf: &mut Buffer, area: Rect, scene: &Scene<'_>, top: usize, drawn: &mut Drawn) {
        let theme = scene.theme;
        let mut text = Text::new(area.width, theme);
        let Some(run) = &self.totals else {
            text.line("No history yet.", Style::new());
            return scrolled(buf, area, top, drawn, |page| page.lines(&text.lines));
        };
        text.heading("The run so far");
        // Two of its lines are shown as bars below.
        let is_bars = |line| matches!(line, SummaryLine::Classes | SummaryLine::Activities);
        for (line, words) in
            totals::lines(run, scene.zone, scene.price).into_iter().filter(|(line, _)| !is_bars(*line))
        {
            text.wrapped("", 2, &words, if line == SummaryLine::Advice { theme.strong() } else { Style::new() });
        }
        let color = |class| if class == Class::Unknown { theme.dim() } else { theme.series(class) };
        let classes: Vec<Part> =
            run.classes().into_iter().map(|(class, s)| (class.name(), s, color(class))).collect();
        let looks = run.split_s.iter().map(|(activity, s)| (activity.look(), s));
        let parts: Vec<Part> = looks.map(|(look, s)| (look.word, s, theme.style(look))).collect();
        step_times(&mut text, scene);
        for (name, parts) in [("Time by verdict, over the run", classes), ("What the loop did, over the run", parts)]
        {
            text.heading(name);
            let total: f64 = parts.iter().map(|(_, seconds, _)| seconds).sum();
            for (word, seconds, style) in parts {
                let share = if total > 0.0 { seconds / total } else { 0.0 };
                if share < LEAST_LISTED {
                    continue;
                }
                let values = [format!("  {word}"), format::share(Some(share)), format::duration(seconds)];
                let mut line = Line::from(table::row(&COLUMNS, values) + "  ");
                let bar = area.width.saturating_sub(count(line.width())).min(BAR);
                line.extend(bars::share(bar, share, style, ("·", theme.dim())));
                text.lines.push(line);
            }
        }
        text.heading("Changes of the verdict, newest first");
        if self.changes.is_empty() {
            text.wrapped("", 2, "none so far", theme.dim());
        }
        for change in &self.changes {
            text.wrapped("", 2, change, Style::new());
        }
        scrolled(buf, area, top, drawn, |page| page.lines(&text.lines));
    }
}

/// How the step times are distributed, with median and 95th percentile marked.
fn step_times(text: &mut Text, scene: &Scene<'_>) {
    let theme = scene.theme;
    let Some(histogram) = StepHistogram::of_series(&scene.job.steps) else { return };
    let unit = scene.verdict().map(|verdict| verdict.steps.unit).unwrap_or_default();
    let time = format::step_time;
    text.heading(&format!(
        "Time of {}, each second's mean: p50 {} · p95 {}",
        unit.each(),
        time(histogram.p50_ms),
        time(histogram.p95_ms)
    ));
    let most = histogram.bins.iter().map(|bin| bin.share).fold(f64::MIN_POSITIVE, f64::max);
    let last = histogram.bins.len() - 1;
    for (nth, bin) in histogram.bins.iter().enumerate() {
        let is_in = |ms: f64| ms >= bin.from_ms && (ms < bin.to_ms || nth == last);
        let marks = [("p50", histogram.p50_ms), ("p95", histogram.p95_ms)];
        let marks: Vec<&str> = marks.into_iter().filter(|(_, ms)| is_in(*ms)).map(|(mark, _)| mark).collect();
        let range = if nth == last && nth > 0 {
            format!("  {} and more", time(bin.from_ms))
        } else {
            format!("  {} to {}", time(bin.from_ms), time(bin.to_ms))
        };
        let values = [range, format::share(Some(bin.share)), marks.join(" ")];
        let mut line = Line::from(table::row(&COLUMNS, values) + "  ");
        let bar = text.width.saturating_sub(usize::from(count(line.width()))).min(usize::from(BAR));
        line.extend(bars::share(count(bar), bin.share / most, theme.good(), ("·", theme.dim())));
        text.lines.push(line);
    }
}

/// When the verdict changed and to what, for the moments that are kept.
fn changes(scene: &Scene<'_>) -> Vec<String> {
    let archive = scene.job.archive();
    let Some(last) = archive.last() else { return Vec::new() };
    let mut lines = Vec::new();
    let (mut before, mut until_ns) = (MomentId(last.id.0 + 1), last.monotonic_ns);
    while let Some(stamp) = archive.change(before, false).and_then(|id| archive.stamp(id)) {
        if lines.len() == CHANGES {
            break;
        }
        let name = verdict_name(stamp.class, stamp.cause);
        let length = format::duration(until_ns.saturating_sub(stamp.monotonic_ns) as f64 / 1e9);
        lines.push(format!("{}  {name}, for {length}", zone::clock(stamp.unix_ms, scene.zone)));
        (before, until_ns) = (stamp.id, stamp.monotonic_ns);
    }
    lines
}
