//! What `trainmon export` knows of this machine, as pages that Prometheus scrapes, and as a file for node_exporter.

use std::collections::BTreeMap;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hyper::body::Bytes;

use crate::http::server::{ServedPage, Site};
use trainmon_attach::jobs::JobKey;
use trainmon_attach::jobs::followed::{Followed, FollowedJobs};
use trainmon_attach::jobs::session::{EndSignals, Reopening};
use trainmon_base::errors::{self, Failure};
use trainmon_base::text::shell_word;
use trainmon_diagnosis::pipeline::Tick;
use trainmon_outputs::log::explain;
use trainmon_outputs::metrics::{self, ExportedMachine, FollowedJob, JobCounters, OPEN_METRICS, OwnProcess};
use trainmon_rates::frame::GpuRates;
use trainmon_rates::{Rates, RatesOptions};
use trainmon_sample::{GpuSample, Sample};
use trainmon_sources::clock;

/// Time between two texts for node_exporter: how often it is usually scraped.
const TEXT_EVERY: Duration = Duration::from_secs(15);
/// A job without a new interval for so long, beyond five of them, does not answer.
const SILENT: Duration = Duration::from_secs(10);
/// A text is made anew no sooner than after this, unless there is a new interval.
const KEPT: Duration = Duration::from_secs(1);
/// What a browser sees.
const FRONT: &str = "trainmon: the metrics are at /metrics\n";

/// Takes in what is followed until the job ends, the time is over or a signal comes.
///
/// # Errors
/// The file cannot be written.
pub async fn follow(
    node: &Node,
    mut followed: FollowedJobs,
    duration: Option<Duration>,
    text_file: Option<TextFile>,
    (mut ending, mut reopening): (EndSignals, Reopening),
) -> anyhow::Result<()> {
    let over = duration.map(|duration| tokio::time::Instant::now() + duration);
    let over = async {
        match over {
            Some(over) => tokio::time::sleep_until(over).await,
            None => std::future::pending().await,
        }
    };
    tokio::pin!(over);
    let mut writing = tokio::time::interval(TEXT_EVERY.max(node.interval));
    writing.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    while !followed.has_ended() {
        tokio::select! {
            biased;
            () = ending.signalled() => break,
            () = &mut over => break,
            // There is no file to look for again: each text is a new one.
            () = reopening.asked() => {}
            event = followed.next() => node.take(event),
            _ = writing.tick(), if text_file.is_some() => {
                if let Some(file) = &text_file {
                    file.write(&node.text(false).0)?;
                }
            }
        }
    }
    Ok(())
}

/// What is known of this machine, shared with the thread that answers.
#[derive(Debug)]
pub struct Node {
    interval: Duration,
    /// What all runs here are called, if the user says so.
    name: Option<Arc<str>>,
    started_unix_s: f64,
    known: Mutex<NodeKnowledge>,
    /// The newest texts, and what they were made of: in OpenMetrics, and in Prometheus' own format.
    texts: Mutex<[Option<MadeText>; 2]>,
}

#[derive(Debug, Clone)]
struct MadeText {
    version: u64,
    made: Instant,
    page: ServedPage,
}

#[derive(Debug, Default)]
struct NodeKnowledge {
    /// Rises with each change.
    version: u64,
    jobs: BTreeMap<JobKey, KnownJob>,
    left_out: usize,
    /// The GPUs while no job is followed.
    gpus: Vec<GpuRates>,
    gpu_driver: Option<Arc<str>>,
    rates: Option<Rates>,
}

#[derive(Debug)]
struct KnownJob {
    pid: u32,
    since: Instant,
    tick: Option<Arc<Tick>>,
    counters: JobCounters,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Whoever panicked left whole values behind.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Node {
    /// Nothing is known yet. `name` is what all runs here are called.
    pub fn new(interval: Duration, name: Option<&str>) -> Self {
        let started_unix_s = clock::unix_us() as f64 / 1e6;
        Self { interval, name: name.map(Arc::from), started_unix_s, known: Mutex::default(), texts: Mutex::default() }
    }

    fn take(&self, event: Followed) {
        let mut known = lock(&self.known);
        known.version += 1;
        match event {
            Followed::Came(key, target) => {
                let job =
                    KnownJob { pid: target.pid, since: Instant::now(), tick: None, counters: JobCounters::default() };
                known.jobs.insert(key, job);
            }
            Followed::Tick(key, tick) => {
                if let Some(job) = known.jobs.get_mut(&key) {
                    job.counters.add(&tick);
                    (job.since, job.tick) = (Instant::now(), Some(tick));
                }
            }
            Followed::Gone(key) => {
                known.jobs.remove(&key);
            }
            Followed::Refused(pid, why) => errors::note(&format!("process {pid} is not followed: {why}")),
            Followed::Scanned(gpus, left_out) => known.scanned(gpus, left_out),
        }
    }

    fn machine(&self) -> (u64, ExportedMachine) {
        let known = lock(&self.known);
        let silent = SILENT + self.interval * 5;
        let job = |job: &KnownJob| FollowedJob {
            pid: job.pid,
            name: self.name.clone(),
            tick: if job.since.elapsed() <= silent { job.tick.clone() } else { None },
            answers: job.since.elapsed() <= silent,
            counters: job.counters.clone(),
        };
        let machine = ExportedMachine {
            jobs: known.jobs.values().map(job).collect(),
            gpus: known.gpus.clone(),
            gpu_driver: known.gpu_driver.clone(),
            left_out_jobs: known.left_out,
            own: OwnProcess { started_unix_s: Some(self.started_unix_s), ..own_process() },
        };
        (known.version, machine)
    }

    /// The text of this moment.
    fn text(&self, open_metrics: bool) -> ServedPage {
        let mut texts = lock(&self.texts);
        let [open, plain] = &mut *texts;
        let place = if open_metrics { open } else { plain };
        let version = lock(&self.known).version;
        if let Some(text) = place.as_ref().filter(|text| text.version == version && text.made.elapsed() < KEPT) {
            return text.page.clone();
        }
        let (version, machine) = self.machine();
        let (text, kind) = metrics::exposition(&machine, open_metrics);
        let page = (Bytes::from(text), kind);
        *place = Some(MadeText { version, made: Instant::now(), page: page.clone() });
        page
    }
}

impl NodeKnowledge {
    fn scanned(&mut self, gpus: Option<Arc<GpuSample>>, left_out: usize) {
        self.left_out = left_out;
        self.gpus.clear();
        // A followed job shows them better.
        let (Some(gpus), true) = (gpus, self.jobs.is_empty()) else {
            self.rates = None;
            return;
        };
        self.gpu_driver.clone_from(&gpus.driver);
        let sample = Sample { monotonic_ns: gpus.monotonic_ns, gpus: Some(gpus), ..Sample::default() };
        let rates = self.rates.get_or_insert_with(|| Rates::new(RatesOptions::default()));
        self.gpus = rates.next(Arc::new(sample)).gpu.rates;
    }
}

impl Site for Node {
    fn page(&self, path: &str, accept: &str) -> Option<ServedPage> {
        match path {
            "/metrics" => Some(self.text(accept.contains(OPEN_METRICS))),
            "/" => Some((Bytes::from_static(FRONT.as_bytes()), "text/plain; charset=utf-8")),
            _ => None,
        }
    }
}

fn own_process() -> OwnProcess {
    let statm = std::fs::read_to_string("/proc/self/statm").ok();
    // The second field is the resident set in pages (proc(5)).
    let pages: Option<u64> = statm.and_then(|statm| statm.split(' ').nth(1)?.parse().ok());
    OwnProcess {
        cpu_s: Some(clock::own_cpu_ns() as f64 / 1e9),
        rss_bytes: pages.map(|pages| pages.saturating_mul(rustix::param::page_size() as u64)),
        descriptors: std::fs::read_dir("/proc/self/fd").ok().map(|open| open.count() as u64),
        started_unix_s: None,
    }
}

/// The file that node_exporter's textfile collector reads. Each text replaces the one before as a whole.
#[derive(Debug)]
pub struct TextFile {
    path: PathBuf,
    folder: PathBuf,
}

impl TextFile {
    /// The file at this path. Nothing is written yet.
    ///
    /// # Errors
    /// node_exporter would not read it.
    pub fn new(path: &Path) -> Result<Self, Failure> {
        if path.extension().is_none_or(|extension| extension != "prom") {
            let named = shell_word(&path.with_extension("prom"));
            return Err(Failure::usage(format!(
                "node_exporter reads only files that end in .prom: use --textfile {named}"
            )));
        }
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        Ok(Self { path: path.to_path_buf(), folder: folder.to_path_buf() })
    }

    fn write(&self, text: &[u8]) -> anyhow::Result<()> {
        let write = || {
            // O_EXCL, and a name that node_exporter does not read.
            let mut file = tempfile::Builder::new().prefix(".trainmon-").tempfile_in(&self.folder)?;
            file.write_all(text)?;
            // It runs as another user.
            file.as_file().set_permissions(std::fs::Permissions::from_mode(0o644))?;
            file.persist(&self.path).map_err(|error| error.error)
        };
        write().map_err(|error| anyhow::anyhow!(explain("metrics", &self.path, &error)))?;
        Ok(())
    }
}

impl Drop for TextFile {
    fn drop(&mut self) {
        // What it says is no longer so.
        let _ = std::fs::remove_file(&self.path);
    }
}
