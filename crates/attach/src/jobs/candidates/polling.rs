//! Candidates scanned for again and again. A scan walks /proc, so it runs on a thread of its own, one at a time.

use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tokio::sync::oneshot::{self, Receiver};

use super::JobCandidate;
use super::scan::Scan;
use trainmon_sample::GpuSample;
use trainmon_sources::SourceOptions;

/// Time between two scans while their list is shown.
pub const FOR_A_LIST: Duration = Duration::from_secs(2);
/// Time between two scans that only look for one program.
pub const FOR_A_RESTART: Duration = Duration::from_secs(4);
/// Time to the second scan: rates need two.
const SECOND: Duration = Duration::from_millis(500);
/// How long a scan for the list waits for the GPUs.
const GPU_WAIT: Duration = Duration::from_millis(400);

/// What a scan found.
#[derive(Debug, Default)]
pub(crate) struct Scanned {
    /// The candidates.
    pub list: Vec<JobCandidate>,
    /// What the GPUs do, if that can be read.
    pub gpus: Option<Arc<GpuSample>>,
    /// How long the scan took.
    pub took: Duration,
}

/// A scan on a thread of its own: none of tokio's, which panics where no thread can be started.
#[derive(Debug)]
struct Running {
    thread: Option<JoinHandle<()>>,
    done: Receiver<(Scan, Scanned)>,
}

impl Running {
    /// Where no thread can be started nothing is found.
    fn start(mut scan: Scan) -> Self {
        let (send, done) = oneshot::channel();
        let work = move || {
            let begun = Instant::now();
            let list = scan.candidates();
            let found = Scanned { list, gpus: scan.gpus(), took: begun.elapsed() };
            // The receiver may have gone meanwhile.
            let _ = send.send((scan, found));
        };
        Self { thread: thread::Builder::new().name("tm-candidates".to_owned()).spawn(work).ok(), done }
    }

    fn is_finished(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }
}

/// Scans, one after the other.
#[derive(Debug)]
pub(crate) struct Scans {
    options: SourceOptions,
    gpu_wait: Duration,
    /// Between two scans, after the first one.
    scan: Option<Scan>,
    running: Option<Running>,
    /// When the next scan begins, unless one runs.
    pub due: Instant,
}

impl Scans {
    /// Scans nothing yet. Each scan waits this long for the GPUs.
    pub fn new(options: SourceOptions, gpu_wait: Duration) -> Self {
        Self { options, gpu_wait, scan: None, running: None, due: Instant::now() }
    }

    /// What the next scan finds. Cancel safe.
    pub async fn next(&mut self) -> Scanned {
        if self.running.is_none() {
            tokio::time::sleep_until(self.due.into()).await;
        }
        let running = self.running.get_or_insert_with(|| {
            Running::start(self.scan.take().unwrap_or_else(|| Scan::new(self.options.clone(), self.gpu_wait)))
        });
        let done = (&mut running.done).await;
        self.running = None;
        // A scan that has panicked has found nothing; the next one begins anew.
        let (scan, found) = done.map_or_else(|_| (None, Scanned::default()), |(scan, found)| (Some(scan), found));
        self.scan = scan;
        found
    }
}

/// The list of candidates, kept up to date while it is wanted.
#[derive(Debug)]
pub struct Candidates {
    scans: Scans,
    every: Option<Duration>,
    /// Scans since the list is wanted.
    count: u32,
}

impl Candidates {
    /// Scans nothing yet.
    pub fn new(options: SourceOptions) -> Self {
        Self { scans: Scans::new(options, GPU_WAIT), every: None, count: 0 }
    }

    /// Says how often the list is wanted, if at all.
    pub fn want(&mut self, every: Option<Duration>) {
        if every.is_some() && self.every != every {
            (self.count, self.scans.due) = (0, Instant::now());
            // What was found while the list was not wanted is old.
            self.scans.running.take_if(|running| running.is_finished());
        }
        self.every = every;
    }

    /// The next list; for ever while none is wanted. Cancel safe.
    pub async fn next(&mut self) -> Vec<JobCandidate> {
        let Some(every) = self.every else { return std::future::pending().await };
        let found = self.scans.next().await;
        self.count = self.count.saturating_add(1);
        self.scans.due = Instant::now() + if self.count == 1 { SECOND } else { every };
        found.list
    }
}
