//! Metrics for Prometheus: what is known of a machine and of the jobs on it at one moment, in OpenMetrics or in Prometheus' own
//! text format.
//!
//! Names begin with `trainmon_` and end in their unit, a base unit. What is not known has no series. GPUs have the labels that
//! NVIDIA's DCGM exporter gives them, so both join. Labels that a scraper sets (`job`, `instance`, `node`, `pod`) are never set
//! here, and no label holds a command line.
//!
//! `host`, `gpu`, `job`, `rank` and `worker` hold the tables of the metrics, one row each; the docs are written from them.

mod counters;
mod gpu;
mod host;
mod job;
mod rank;
mod worker;

use std::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};

pub use counters::JobCounters;
use gpu::GpuScope;
use job::JobScope;
use rank::RankScope;
use worker::WorkerScope;

use trainmon_base::text::sanitize;
use trainmon_diagnosis::pipeline::Tick;
use trainmon_rates::frame::GpuRates;

/// Most series of one machine. A Prometheus server that keeps a thousand such machines has two million of them.
pub const MOST_SERIES: usize = 2_000;
/// Longest value of a label, characters.
const LONGEST_LABEL: usize = 128;
/// The type of OpenMetrics in a request's `Accept` and an answer's `Content-Type`
/// (<https://prometheus.io/docs/specs/om/open_metrics_spec/>).
pub const OPEN_METRICS: &str = "application/openmetrics-text";
/// What this module writes in it.
const OPEN_METRICS_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// Prometheus' text format.
const PLAIN_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// A machine at one moment.
#[derive(Debug, Clone, Default)]
pub struct ExportedMachine {
    /// The jobs that are followed.
    pub jobs: Vec<FollowedJob>,
    /// The GPUs, while no job is followed that would show them.
    pub gpus: Vec<GpuRates>,
    /// Version of the GPU driver then.
    pub gpu_driver: Option<Arc<str>>,
    /// Training processes that are not followed, because there are too many.
    pub left_out_jobs: usize,
    /// What trainmon itself costs.
    pub own: OwnProcess,
}

/// A job at one moment.
#[derive(Debug, Clone)]
pub struct FollowedJob {
    /// PID of the process that is attached to.
    pub pid: u32,
    /// What the run is called, if the user says so.
    pub name: Option<Arc<str>>,
    /// The newest interval; `None` before the first, and if there has been none for long.
    pub tick: Option<Arc<Tick>>,
    /// Whether it answers, or was attached to only a moment ago.
    pub answers: bool,
    /// Sums since it is followed.
    pub counters: JobCounters,
}

/// trainmon's own process.
#[derive(Debug, Clone, Copy, Default)]
pub struct OwnProcess {
    /// Its CPU time, without that of the helpers that it started, seconds.
    pub cpu_s: Option<f64>,
    /// Resident set, bytes.
    pub rss_bytes: Option<u64>,
    /// Open file descriptors.
    pub descriptors: Option<u64>,
    /// When it was started, seconds since 1970.
    pub started_unix_s: Option<f64>,
}

/// How a metric behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricKind {
    /// Goes up and down.
    Gauge,
    /// Only goes up, until the job or trainmon starts anew.
    Counter,
}

/// One metric of things of one kind: `Scope` is a GPU, a job, a rank, a worker or the machine.
pub struct Metric<Scope: 'static> {
    /// Its name without `trainmon_`, the unit and `_total`.
    name: &'static str,
    /// A base unit, or nothing for numbers without one.
    unit: &'static str,
    kind: MetricKind,
    /// Its own labels, beside those of the thing that it is of.
    labels: &'static [&'static str],
    /// What it is, in a line.
    help: &'static str,
    read: fn(&Scope, &mut Samples<'_>),
}

/// Tables of metrics. A row is its kind, name, unit, own labels, and how to read it; its comment is its help.
macro_rules! metrics {
    ($(#[$doc:meta])* $TABLE:ident of $Scope:ty { $(
        $(#[doc = $help:literal])+ $Kind:ident $name:ident $unit:literal $([$($label:literal),+])?, $read:expr;
    )+ }) => {
        $(#[$doc])*
        pub(super) const $TABLE: &[$crate::metrics::Metric<$Scope>] = &[$($crate::metrics::Metric {
            name: stringify!($name),
            unit: $unit,
            kind: $crate::metrics::MetricKind::$Kind,
            labels: &[$($($label),+)?],
            help: concat!($($help),+).trim_ascii(),
            read: $read,
        }),+];
    };
}
use metrics;

/// The labels of one thing.
type Labels = Arc<[(&'static str, String)]>;

/// Something that has metrics, with its labels.
struct Labeled<Scope> {
    labels: Labels,
    scope: Scope,
}

impl<Scope> Labeled<Scope> {
    fn new(labels: impl IntoIterator<Item = (&'static str, String)>, scope: Scope) -> Self {
        Self { labels: labels.into_iter().collect(), scope }
    }
}

/// A name for a label's value: without control characters, and short.
fn label(text: &str) -> String {
    sanitize(text).chars().take(LONGEST_LABEL).collect()
}

/// Takes the values of one metric.
pub struct Samples<'s> {
    labels: &'s Labels,
    names: &'static [&'static str],
    into: &'s mut Vec<Series>,
}

impl Samples<'_> {
    /// Its only value; none where it is not known.
    fn value(&mut self, value: impl Into<Option<f64>>) {
        self.labeled([], value);
    }

    /// Its value where its own labels have these values.
    fn labeled<const N: usize>(&mut self, own: [&str; N], value: impl Into<Option<f64>>) {
        // NaN and infinity are no measurements.
        if let Some(value) = value.into().filter(|value: &f64| value.is_finite()) {
            // An unknown value has no label.
            let own = self.names.iter().zip(own).filter(|(_, text)| !text.is_empty());
            let own = own.map(|(name, text)| (*name, label(text))).collect();
            self.into.push(Series { labels: Arc::clone(self.labels), own, value });
        }
    }
}

/// One series, and its value.
#[derive(Debug)]
struct Series {
    labels: Labels,
    own: Vec<(&'static str, String)>,
    value: f64,
}

/// One metric with all its series.
#[derive(Debug)]
struct MetricFamily {
    name: &'static str,
    unit: &'static str,
    kind: MetricKind,
    help: &'static str,
    series: Vec<Series>,
}

/// What a scrape gets.
#[derive(Debug)]
struct Exposition(Vec<MetricFamily>);

impl Exposition {
    fn add<Scope>(&mut self, table: &[Metric<Scope>], things: &[Labeled<Scope>]) {
        for metric in table {
            let mut series = Vec::new();
            for thing in things {
                let mut samples = Samples { labels: &thing.labels, names: metric.labels, into: &mut series };
                (metric.read)(&thing.scope, &mut samples);
            }
            if !series.is_empty() {
                let Metric { name, unit, kind, help, .. } = *metric;
                self.0.push(MetricFamily { name, unit, kind, help, series });
            }
        }
    }

    /// Drops whole metrics from the end, those of the smallest things, until there are not too many series. Gives how many went.
    fn limit(&mut self, most: usize) -> usize {
        let mut left_out = 0;
        let count = |families: &[MetricFamily]| families.iter().map(|family| family.series.len()).sum::<usize>();
        while count(&self.0) > most {
            let Some(last) = self.0.pop() else { break };
            left_out += last.series.len();
        }
        left_out
    }
}

impl Collector for Exposition {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for family in &self.0 {
            let unit = (!family.unit.is_empty()).then(|| Unit::Other(family.unit.to_owned()));
            let kind = match family.kind {
                MetricKind::Gauge => MetricType::Gauge,
                MetricKind::Counter => MetricType::Counter,
            };
            let mut metric = encoder.encode_descriptor(family.name, family.help, unit.as_ref(), kind)?;
            for series in &family.series {
                let labels: Vec<(&str, &str)> =
                    series.labels.iter().chain(&series.own).map(|(name, value)| (*name, value.as_str())).collect();
                let of_series = metric.encode_family(&labels)?;
                match family.kind {
                    MetricKind::Gauge => ConstGauge::new(series.value).encode(of_series)?,
                    MetricKind::Counter => ConstCounter::new(series.value).encode(of_series)?,
                }
            }
        }
        Ok(())
    }
}

/// What a scrape gets of a machine, and its content type: in OpenMetrics or Prometheus' text format.
pub fn exposition(machine: &ExportedMachine, open_metrics: bool) -> (String, &'static str) {
    let mut text = String::new();
    let mut registry = Registry::with_prefix("trainmon");
    registry.register_collector(Box::new(families(machine)));
    // A String takes everything.
    let _ = text::encode(&mut text, &registry);
    if open_metrics { (text, OPEN_METRICS_TYPE) } else { (plain(&text), PLAIN_TYPE) }
}

fn families(machine: &ExportedMachine) -> Exposition {
    let mut all = Exposition(Vec::new());
    all.add(host::OWN, &[Labeled::new([], machine.clone())]);
    let newest = machine.jobs.iter().filter_map(|job| job.tick.as_ref()).max_by_key(|tick| tick.frame.monotonic_ns);
    let hosts = newest.map(|tick| Labeled::new([], Arc::clone(&tick.frame)));
    let gpus = newest.map_or(machine.gpus.as_slice(), |tick| tick.frame.gpus.as_slice());
    let driver = newest.map_or(&machine.gpu_driver, |tick| &tick.frame.gpu_driver);
    let gpus: Vec<Labeled<GpuScope>> = gpus.iter().map(|gpu| GpuScope::labeled(gpu, driver)).collect();
    let jobs: Vec<Labeled<JobScope>> = machine.jobs.iter().filter_map(JobScope::labeled).collect();
    let ranks: Vec<Labeled<RankScope>> = jobs.iter().flat_map(RankScope::all).collect();
    let workers: Vec<Labeled<WorkerScope>> = ranks.iter().flat_map(WorkerScope::all).collect();
    all.add(job::JOB, &jobs);
    all.add(rank::RANK, &ranks);
    all.add(host::HOST, hosts.as_slice());
    all.add(gpu::GPU, &gpus);
    all.add(worker::WORKER, &workers);
    let left_out = all.limit(MOST_SERIES - 1);
    all.add(host::LEFT_OUT, &[Labeled::new([], left_out)]);
    all
}

/// Prometheus' text format of what is in OpenMetrics: a counter's name ends in `_total` in its description, too, and there are
/// neither units nor a mark at the end.
fn plain(open_metrics: &str) -> String {
    let mut counter = None;
    let mut plain = String::with_capacity(open_metrics.len());
    let mut lines = open_metrics.lines().peekable();
    while let Some(line) = lines.next() {
        if line.starts_with("# HELP ") {
            // The type follows the help.
            counter = lines
                .peek()
                .is_some_and(|next| next.starts_with("# TYPE ") && next.ends_with(" counter"))
                .then_some(());
        } else if line.starts_with("# UNIT ") || line == "# EOF" {
            continue;
        }
        let (words, rest) = match line.strip_prefix("# ").zip(counter) {
            Some((described, ())) => {
                described.match_indices(' ').nth(1).map_or((line, ""), |(at, _)| line.split_at(at + 2))
            }
            None => (line, ""),
        };
        plain.push_str(words);
        if !rest.is_empty() {
            plain.push_str("_total");
            plain.push_str(rest);
        }
        plain.push('\n');
    }
    plain
}

/// A metric for the docs: name, labels, help.
pub struct MetricRow {
    /// Its full name.
    pub name: String,
    /// All its labels, besides those of the thing that it is of.
    pub labels: &'static [&'static str],
    /// What it is.
    pub help: &'static str,
}

/// The tables of the docs, below the heading of what the metrics are of.
pub fn tables() -> Vec<(&'static str, Vec<MetricRow>)> {
    fn rows<Scope>(table: &[Metric<Scope>]) -> Vec<MetricRow> {
        let name = |metric: &Metric<Scope>| {
            let unit = if metric.unit.is_empty() { String::new() } else { format!("_{}", metric.unit) };
            let total = if metric.kind == MetricKind::Counter { "_total" } else { "" };
            format!("trainmon_{}{unit}{total}", metric.name)
        };
        table
            .iter()
            .map(|metric| MetricRow { name: name(metric), labels: metric.labels, help: metric.help })
            .collect()
    }
    let mut own = rows(host::OWN);
    own.extend(rows(host::LEFT_OUT));
    vec![
        ("Trainmon itself", own),
        ("A job", rows(job::JOB)),
        ("A rank", rows(rank::RANK)),
        ("The machine", rows(host::HOST)),
        ("A GPU", rows(gpu::GPU)),
        ("A data-loader worker", rows(worker::WORKER)),
    ]
}

/// The share that a percentage is.
fn ratio(pct: impl Into<Option<f64>>) -> Option<f64> {
    pct.into().map(|pct| pct / 100.0)
}

/// A count or a size as the number of a series.
fn count(number: impl Into<Option<u64>>) -> Option<f64> {
    number.into().map(|number| number as f64)
}

#[cfg(test)]
#[path = "metrics_tests.rs"]
mod tests;
