//! The timelines of a report: each as SVG, and all of their numbers once more as JSON for the script that makes them zoom.

use std::fmt::Write;

use serde::Serialize;

use super::{escaped, script_json};
use crate::diagnosis::verdict::Class;
use crate::history::timeline::TimelinePoint;
use crate::outputs::run_report::RunReport;
use crate::rates::time_split::LoopActivity;

/// Most columns of a chart. Two days have one for each minute and a half, and the file stays below half a megabyte.
const COLUMNS: u16 = 2000;
/// The SVG's own units.
const CHART_WIDTH: f64 = 1000.0;
const CHART_HEIGHT: f64 = 100.0;

/// One line of a chart: its name, its color, and where its value is.
type ChartSeries = (&'static str, &'static str, fn(&TimelinePoint) -> Option<f32>);

/// A chart.
struct ReportChart {
    name: &'static str,
    unit: &'static str,
    /// The top of its axis, where it is fixed.
    top: Option<f64>,
    /// Its series lie on each other and add up to the whole.
    stacked: bool,
    series: &'static [ChartSeries],
}

const CHARTS: [ReportChart; 6] = [
    ReportChart {
        name: "Steps",
        unit: "/s",
        top: None,
        stacked: false,
        series: &[("steps", "steps", |point| point.steps.get())],
    },
    ReportChart {
        name: "Training loop",
        unit: "%",
        top: Some(100.0),
        stacked: true,
        series: &[
            ("waiting for data", "data-loader", |point| share(point, LoopActivity::InputWait)),
            ("waiting for the GPU", "gpu", |point| share(point, LoopActivity::DeviceSync)),
            ("own work", "cpu", |point| share(point, LoopActivity::HostBusy)),
            ("saving", "saving", |point| share(point, LoopActivity::Checkpoint)),
            ("other", "other", |point| share(point, LoopActivity::Other)),
        ],
    },
    ReportChart {
        name: "GPU",
        unit: "%",
        top: Some(100.0),
        stacked: false,
        series: &[
            ("use", "gpu", |point| point.gpu.get()),
            ("memory", "io", |point| point.gpu_memory.get()),
            ("power", "saving", |point| point.gpu_power.get()),
        ],
    },
    ReportChart {
        name: "Workers",
        unit: "%",
        top: Some(100.0),
        stacked: false,
        series: &[("active", "data-loader", |point| point.loader.get())],
    },
    ReportChart {
        name: "CPU",
        unit: "%",
        top: Some(100.0),
        stacked: false,
        series: &[
            ("all CPUs", "cpu", |point| point.cpu.get()),
            ("this job", "io", |point| point.cpu_job.get()),
            ("queueing", "saving", |point| point.run_delay.get()),
        ],
    },
    ReportChart {
        name: "Read from storage",
        unit: "MiB/s",
        top: None,
        stacked: false,
        series: &[("read", "io", |point| point.io.get().map(|bytes| bytes / 1_048_576.0))],
    },
];

fn share(point: &TimelinePoint, activity: LoopActivity) -> Option<f32> {
    let place = LoopActivity::ALL.iter().position(|known| *known == activity)?;
    point.shares?.get(place).map(|share| share * 100.0)
}

/// What the script reads.
#[derive(Serialize)]
struct Numbers {
    /// Seconds since 1970 at the end of each column.
    times: Vec<f64>,
    /// Seconds by which the report's clock is ahead of UTC.
    offset: i32,
    charts: Vec<ChartNumbers>,
}

#[derive(Serialize)]
struct ChartNumbers {
    /// The id of its figure.
    id: String,
    unit: &'static str,
    top: f64,
    stacked: bool,
    series: Vec<SeriesNumbers>,
}

#[derive(Serialize)]
struct SeriesNumbers {
    name: &'static str,
    color: &'static str,
    /// Over the whole run.
    mean: f64,
    values: Vec<Option<f64>>,
}

/// Draws the charts that have numbers, and returns the numbers as JSON.
pub(super) fn draw(out: &mut String, report: &RunReport<'_>) -> String {
    let mut numbers = Numbers { times: Vec::new(), offset: report.offset_s(), charts: Vec::new() };
    let mut figures = String::new();
    for (nth, chart) in CHARTS.iter().enumerate() {
        let values = |point: &TimelinePoint| {
            std::array::from_fn::<_, { LoopActivity::COUNT }, _>(|nth| chart.series.get(nth)?.2(point))
        };
        let columns = report.run.columns(COLUMNS, values);
        let series = chart.series.iter().enumerate().map(|(nth, (name, color, _))| {
            let values = || columns.iter().map(|(_, values)| values.get(nth).copied().flatten());
            let (sum, count) =
                values().flatten().fold((0.0, 0.0), |(sum, count), value| (sum + value, count + 1.0f32));
            SeriesNumbers {
                name,
                color,
                mean: short(sum / count),
                values: values().map(|value| value.map(short)).collect(),
            }
        });
        let series: Vec<_> = series.filter(|series| series.values.iter().any(Option::is_some)).collect();
        if series.is_empty() {
            continue;
        }
        if numbers.times.is_empty() {
            numbers.times = columns.iter().map(|(unix_ms, _)| *unix_ms as f64 / 1000.0).collect();
        }
        let id = format!("chart-{nth}");
        let top = chart.top.unwrap_or_else(|| top_of(&series));
        figure(&mut figures, &id, chart, top, &series);
        numbers.charts.push(ChartNumbers { id, unit: chart.unit, top, stacked: chart.stacked, series });
    }
    if !figures.is_empty() {
        out.push_str("<section aria-labelledby=\"timelines\">\n<h2 id=\"timelines\">Timelines</h2>\n");
        band(out, report);
        out.push_str(&figures);
        let _ = writeln!(out, "<p class=\"range\">{}</p>\n</section>", escaped(&report.when()));
    }
    script_json(&numbers)
}

/// Three significant digits, which is finer than a pixel, and no more than three decimals: less is rounding.
fn short(value: f32) -> f64 {
    if value.abs() < 0.0005 || !value.is_finite() {
        return 0.0;
    }
    let value = f64::from(value);
    let digits = (2 - value.abs().log10().floor() as i32).min(3);
    // Dividing by a power of ten gives the number nearest to the decimal; multiplying by its inverse does not.
    if digits > 0 {
        let power = 10f64.powi(digits);
        (value * power).round() / power
    } else {
        let power = 10f64.powi(-digits);
        (value / power).round() * power
    }
}

/// The smallest of 1, 2, 5, 10, 20, 50 … that is at least the highest value.
fn top_of(series: &[SeriesNumbers]) -> f64 {
    let highest = series.iter().flat_map(|series| series.values.iter().flatten()).fold(0.0f64, |a, b| a.max(*b));
    if highest <= 0.0 {
        return 1.0;
    }
    let power = 10f64.powi(highest.log10().floor() as i32);
    [1.0, 2.0, 5.0, 10.0].into_iter().map(|step| step * power).find(|top| *top >= highest).unwrap_or(highest)
}

fn figure(out: &mut String, id: &str, chart: &ReportChart, top: f64, series: &[SeriesNumbers]) {
    let ReportChart { name, unit, stacked, .. } = chart;
    let space = if *unit == "%" || *unit == "/s" { "" } else { " " };
    let _ =
        write!(out, "<figure id=\"{id}\">\n<figcaption>{name}<span>0–{top}{space}{unit}, mean of the run:</span>");
    for SeriesNumbers { name, color, mean, .. } in series {
        let _ = write!(out, "<span class=\"key {color}\"><i></i>{name} {mean}{space}{unit}</span>");
    }
    let _ = writeln!(
        out,
        "</figcaption>\n<svg viewBox=\"0 0 {CHART_WIDTH} {CHART_HEIGHT}\" preserveAspectRatio=\"none\" role=\"img\" \
         aria-label=\"{name} over time\">"
    );
    // Stacked areas begin at the sum of those below. The last one is drawn first, so that the others lie on it.
    let sum = |upto: usize, column: usize| {
        let below = series.iter().take(upto + 1).map(|series| series.values.get(column).copied().flatten());
        below.sum::<Option<f64>>()
    };
    let order: Vec<usize> = if *stacked { (0..series.len()).rev().collect() } else { (0..series.len()).collect() };
    for nth in order {
        let Some(one) = series.get(nth) else { continue };
        let values: Vec<Option<f64>> = if *stacked {
            (0..one.values.len()).map(|column| sum(nth, column)).collect()
        } else {
            one.values.clone()
        };
        let kind = if *stacked || nth == 0 { "area" } else { "line" };
        let path = path(&values, top, kind == "area");
        let _ = writeln!(out, "<path class=\"{kind} {}\" d=\"{path}\"/>", one.color);
    }
    out.push_str("</svg>\n</figure>\n");
}

/// A line through the values, or the area below it, in pieces where values are missing.
fn path(values: &[Option<f64>], top: f64, closed: bool) -> String {
    let mut out = String::new();
    let width = CHART_WIDTH / values.len().max(1) as f64;
    let y = |value: f64| CHART_HEIGHT - (value / top.max(f64::MIN_POSITIVE)).clamp(0.0, 1.0) * CHART_HEIGHT;
    let mut start = None;
    for (column, value) in values.iter().enumerate() {
        let (left, right) = (column as f64 * width, (column + 1) as f64 * width);
        match (value, start) {
            (Some(value), None) => {
                start = Some(left);
                let y = y(*value);
                let _ = if closed {
                    write!(out, "M{left:.1} {CHART_HEIGHT}V{y:.1}H{right:.1}")
                } else {
                    write!(out, "M{left:.1} {y:.1}H{right:.1}")
                };
            }
            (Some(value), Some(_)) => {
                let _ = write!(out, "V{:.1}H{right:.1}", y(*value));
            }
            (None, Some(_)) => {
                start = None;
                out.push_str(if closed { "V100Z" } else { "" });
            }
            (None, None) => {}
        }
    }
    if closed && start.is_some() {
        out.push_str("V100Z");
    }
    out
}

/// The verdicts on the time axis.
fn band(out: &mut String, report: &RunReport<'_>) {
    let spans = &report.run.spans;
    let total: f64 = spans.iter().map(|span| span.seconds).sum();
    if total <= 0.0 {
        return;
    }
    out.push_str("<div class=\"band\" role=\"img\" aria-label=\"The verdict over time; the table below lists it\">");
    for span in spans.iter().filter(|span| span.seconds / total >= THINNEST) {
        let share = span.seconds / total * 100.0;
        let name = if share >= ROOM_FOR_NAME { span.class.name() } else { "" };
        let class: Class = span.class;
        let _ = write!(out, "<i class=\"{}\" style=\"flex-grow:{share:.2}\"><b>{name}</b></i>", class.word());
    }
    out.push_str("</div>\n");
}

/// Shorter verdicts would be thinner than a pixel.
const THINNEST: f64 = 0.001;
/// Percent of the width from which on a verdict has room for its name.
const ROOM_FOR_NAME: f64 = 12.0;
