//! The timelines of a report: each as SVG, and all of their numbers once more as JSON for the script that makes them zoom.

use std::fmt::Write;

use serde::Serialize;

use super::{escaped, script_json};
use trainmon_base::text::format::{MIB, UNMEASURED, precise, whole_percent as percent};
use trainmon_diagnosis::history::timeline::{Compact, TimelinePoint};
use trainmon_views::run_report::RunReport;
use trainmon_waits::time_split::LoopActivity;

/// Most columns of a chart: a day has one for each minute, and the file stays below a megabyte.
const COLUMNS: u16 = 1440;
/// The SVG's own units.
const CHART_WIDTH: f64 = 1000.0;
const CHART_HEIGHT: f64 = 100.0;

/// The shortest column of a run, milliseconds.
const SHORTEST_MS: i64 = 1000;
/// The chart whose mean is that of all steps.
const STEP_CHART: &str = "Steps";
/// The charts that show means where there are several loops or GPUs.
const LOOP_CHART: &str = "Training loop";
const GPU_CHART: &str = "GPU";

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

impl ReportChart {
    const fn new(name: &'static str, unit: &'static str, series: &'static [ChartSeries]) -> Self {
        Self { name, unit, top: None, stacked: false, series }
    }

    /// Its axis ends at 100%.
    const fn percent(name: &'static str, series: &'static [ChartSeries]) -> Self {
        Self { top: Some(100.0), ..Self::new(name, "%", series) }
    }

    fn spaced_unit(&self) -> String {
        let space = if matches!(self.unit, "%" | "/s") { "" } else { " " };
        format!("{space}{}", self.unit)
    }

    /// A value with its unit, as precise as the rest of the report says it.
    fn value(&self, value: f32) -> String {
        let number = if self.unit == "%" { format!("{:.0}", value.abs()) } else { precise(f64::from(value)) };
        number + &self.spaced_unit()
    }

    /// Its name, and how many loops or GPUs its values are the mean of, where the job has several.
    fn title(&self, report: &RunReport<'_>) -> String {
        let (ranks, gpus) = (report.ranks(), report.run.environment.gpus.len());
        match self.name {
            LOOP_CHART if ranks > 1 => format!("Training loops, mean of {ranks} ranks"),
            GPU_CHART if gpus > 1 => format!("GPUs, mean of {gpus}"),
            name => name.to_owned(),
        }
    }
}

const CHARTS: [ReportChart; 10] = [
    ReportChart::new(STEP_CHART, "/s", &[("steps", "steps", |point| point.steps.get())]),
    ReportChart {
        stacked: true,
        ..ReportChart::percent(
            LOOP_CHART,
            &[
                ("waiting for data", "data-loader", |point| share(point, LoopActivity::InputWait)),
                ("waiting for the GPU", "gpu", |point| share(point, LoopActivity::DeviceSync)),
                ("own work", "cpu", |point| share(point, LoopActivity::HostBusy)),
                ("saving", "saving", |point| share(point, LoopActivity::Checkpoint)),
                ("other", "other", |point| share(point, LoopActivity::Other)),
            ],
        )
    },
    ReportChart::percent(
        GPU_CHART,
        &[
            ("use", "gpu", |point| point.gpu.get()),
            ("memory", "io", |point| point.gpu_memory.get()),
            ("power", "saving", |point| point.gpu_power.get()),
        ],
    ),
    ReportChart::new("GPU temperature", "°C", &[("hottest GPU", "saving", |point| point.gpu_temperature.get())]),
    ReportChart::new("GPU clock", "MHz", &[("SM clock", "gpu", |point| point.gpu_clock.get())]),
    ReportChart::new(
        "PCIe",
        "MiB/s",
        &[("to the GPUs", "io", |point| mib(point.pcie_rx)), ("from the GPUs", "cpu", |point| mib(point.pcie_tx))],
    ),
    ReportChart::percent("Workers", &[("active", "data-loader", |point| point.loader.get())]),
    ReportChart::percent(
        "CPU",
        &[
            ("all CPUs", "cpu", |point| point.cpu.get()),
            ("this job", "io", |point| point.cpu_job.get()),
            ("queueing", "saving", |point| point.run_delay.get()),
        ],
    ),
    ReportChart::new("Read from storage", "MiB/s", &[("read", "io", |point| mib(point.io))]),
    ReportChart::new(
        "Network",
        "MiB/s",
        &[("received", "io", |point| mib(point.net_rx)), ("sent", "cpu", |point| mib(point.net_tx))],
    ),
];

fn share(point: &TimelinePoint, activity: LoopActivity) -> Option<f32> {
    let place = LoopActivity::ALL.iter().position(|known| *known == activity)?;
    point.shares?.get(place).map(|share| share * 100.0)
}

fn mib(bytes: Compact) -> Option<f32> {
    bytes.get().map(|bytes| bytes / MIB as f32)
}

/// What the script reads.
#[derive(Serialize)]
struct Numbers {
    /// Seconds since 1970 at which the columns begin, and at last when the last one ends.
    edges: Vec<f64>,
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
    /// Over the whole run, in words.
    #[serde(skip)]
    mean: String,
    values: Vec<Option<f64>>,
}

/// Draws the charts that have numbers, and returns the numbers as JSON.
pub(super) fn draw(out: &mut String, report: &RunReport<'_>) -> String {
    let mut numbers = Numbers { edges: Vec::new(), offset: report.offset_s(), charts: Vec::new() };
    let mut figures = String::new();
    for (nth, chart) in CHARTS.iter().enumerate() {
        let values = |point: &TimelinePoint| {
            std::array::from_fn::<_, { LoopActivity::COUNT }, _>(|nth| chart.series.get(nth)?.2(point))
        };
        let columns = report.run.columns(COLUMNS, values);
        let means = report.run.columns(1, values);
        let series = chart.series.iter().enumerate().map(|(nth, (name, color, _))| {
            let of = |values: &[Option<f32>]| values.get(nth).copied().flatten();
            let mean = means
                .first()
                .and_then(|(_, means)| of(means))
                .map_or(UNMEASURED.to_owned(), |mean| chart.value(mean));
            SeriesNumbers {
                name,
                color,
                mean,
                values: columns.iter().map(|(_, values)| of(values).map(short)).collect(),
            }
        });
        let mut series: Vec<_> = series.filter(|series| series.values.iter().any(Option::is_some)).collect();
        if series.is_empty() {
            continue;
        }
        if let (STEP_CHART, Some(rate), Some(steps)) =
            (chart.name, report.run.totals.steps.per_s(), series.first_mut())
        {
            steps.mean = format!("{}/s", precise(rate));
        }
        if numbers.edges.is_empty() {
            numbers.edges =
                edges(columns.iter().map(|(unix_ms, _)| *unix_ms).collect(), report.run.totals.began_unix_ms);
        }
        let id = format!("chart-{nth}");
        let top = chart.top.unwrap_or_else(|| top_of(&series));
        figure(&mut figures, &id, (chart, &chart.title(report)), (top, &numbers.edges), &series);
        numbers.charts.push(ChartNumbers { id, unit: chart.unit, top, stacked: chart.stacked, series });
    }
    if let [begin, .., end] = numbers.edges[..] {
        out.push_str("<section aria-labelledby=\"timelines\">\n<h2 id=\"timelines\">Timelines</h2>\n");
        band(out, report, (begin, end));
        out.push_str(&figures);
        let ends = [begin, end].map(|time| report.clock((time * 1000.0).round() as i64));
        let [begin, end] = ends.map(|time| format!("<span>{}</span>", escaped(&time)));
        let _ = writeln!(
            out,
            "<p class=\"ends\">{begin}{end}</p>\n<p class=\"range\">{}</p>\n</section>",
            escaped(&report.when())
        );
    }
    script_json(&numbers)
}

/// The ends of the columns, seconds since 1970, and before them the begin of the first one, which is cut where the run began.
pub(super) fn edges(ends_ms: Vec<i64>, began_ms: Option<i64>) -> Vec<f64> {
    let Some(first) = ends_ms.first().copied() else { return Vec::new() };
    let length = ends_ms.get(1).map_or(SHORTEST_MS, |second| second - first);
    let begin = began_ms.unwrap_or(i64::MIN).clamp(first - length.max(1), first - 1);
    std::iter::once(begin).chain(ends_ms).map(|ms| ms as f64 / 1000.0).collect()
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

/// The figure of a chart: its title, its keys with their means, and its drawing.
fn figure(
    out: &mut String,
    id: &str,
    (chart, title): (&ReportChart, &str),
    (top, edges): (f64, &[f64]),
    series: &[SeriesNumbers],
) {
    let (unit, stacked) = (chart.spaced_unit(), chart.stacked);
    let _ = write!(out, "<figure id=\"{id}\">\n<figcaption>{title}<span>0–{top}{unit}, mean of the run:</span>");
    for SeriesNumbers { name, color, mean, .. } in series {
        let _ = write!(out, "<span class=\"key {color}\"><i></i>{name} {mean}</span>");
    }
    let _ = writeln!(
        out,
        "</figcaption>\n<svg viewBox=\"0 0 {CHART_WIDTH} {CHART_HEIGHT}\" preserveAspectRatio=\"none\" role=\"img\" \
         aria-label=\"{title} over time\">"
    );
    // Stacked areas begin at the sum of those below. The last one is drawn first, so that the others lie on it.
    let sum = |upto: usize, column: usize| {
        let below = series.iter().take(upto + 1).map(|series| series.values.get(column).copied().flatten());
        below.sum::<Option<f64>>()
    };
    let order: Vec<usize> = if stacked { (0..series.len()).rev().collect() } else { (0..series.len()).collect() };
    for nth in order {
        let Some(one) = series.get(nth) else { continue };
        let values: Vec<Option<f64>> =
            if stacked { (0..one.values.len()).map(|column| sum(nth, column)).collect() } else { one.values.clone() };
        let kind = match nth {
            _ if stacked => "stack",
            0 => "area",
            _ => "line",
        };
        let path = path(&values, edges, top, kind != "line");
        let _ = writeln!(out, "<path class=\"{kind} {}\" d=\"{path}\"/>", one.color);
    }
    out.push_str("</svg>\n</figure>\n");
}

/// Where a moment lies between the begin and the end, 0–1.
fn place(time: f64, (begin, end): (f64, f64)) -> f64 {
    ((time - begin) / (end - begin).max(f64::MIN_POSITIVE)).clamp(0.0, 1.0)
}

/// A line through the values, or the area below it, in pieces where values are missing.
fn path(values: &[Option<f64>], edges: &[f64], top: f64, closed: bool) -> String {
    let mut out = String::new();
    let [begin, .., end] = edges[..] else { return out };
    let y = |value: f64| CHART_HEIGHT - (value / top.max(f64::MIN_POSITIVE)).clamp(0.0, 1.0) * CHART_HEIGHT;
    let mut is_open = false;
    for (value, times) in values.iter().zip(edges.windows(2)) {
        let [left, right] = [times.first(), times.last()].map(|time| {
            let time = time.copied().unwrap_or(begin);
            place(time, (begin, end)) * CHART_WIDTH
        });
        match value {
            Some(value) if !is_open => {
                let y = y(*value);
                let _ = if closed {
                    write!(out, "M{left:.1} {CHART_HEIGHT}V{y:.1}H{right:.1}")
                } else {
                    write!(out, "M{left:.1} {y:.1}H{right:.1}")
                };
            }
            Some(value) => {
                let _ = write!(out, "V{:.1}H{right:.1}", y(*value));
            }
            None => out.push_str(if is_open && closed { "V100Z" } else { "" }),
        }
        is_open = value.is_some();
    }
    if closed && is_open {
        out.push_str("V100Z");
    }
    out
}

/// The verdicts on the time axis, with the share of each class in the run.
fn band(out: &mut String, report: &RunReport<'_>, ends: (f64, f64)) {
    out.push_str("<figure>\n<figcaption>Verdict<span>of the run:</span>");
    for (class, share) in report.class_shares() {
        let (name, color) = (class.name(), class.word());
        let _ = write!(out, "<span class=\"key {color}\"><i></i>{name} {}%</span>", percent(share));
    }
    out.push_str("</figcaption>\n<div class=\"band\" role=\"img\" aria-label=\"The verdict over time; the table below lists it\"><div>");
    for span in &report.run.spans {
        let from = span.from_unix_ms as f64 / 1000.0;
        let (left, right) = (place(from, ends), place(from + span.seconds, ends));
        if right - left >= THINNEST {
            let (left, width) = (left * 100.0, (right - left) * 100.0);
            let _ =
                write!(out, "<i class=\"{}\" style=\"left:{left:.2}%;width:{width:.2}%\"></i>", span.class.word());
        }
    }
    out.push_str("</div></div>\n</figure>\n");
}

/// Shorter verdicts would be thinner than a pixel.
const THINNEST: f64 = 0.001;
