//! The candidates, scanned for again and again while their list is shown. A scan walks /proc, so it runs beside the loop
//! of the screen, one at a time.

use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tokio::sync::oneshot::{self, Receiver};

use super::JobCandidate;
use super::scan::{Places, Scan};

/// Time between two scans while their list is shown.
const EVERY: Duration = Duration::from_secs(2);
/// Time to the second scan: rates need two.
const SECOND: Duration = Duration::from_millis(500);
/// How long a scan waits for the GPUs.
const GPU_WAIT: Duration = Duration::from_millis(400);

/// A scan on a thread of its own: none of tokio's, which panics where no thread can be started.
#[derive(Debug)]
struct Running {
    thread: Option<JoinHandle<()>>,
    found: Receiver<(Scan, Vec<JobCandidate>)>,
}

impl Running {
    /// Where no thread can be started nothing is found.
    fn start(mut scan: Scan) -> Self {
        let (send, found) = oneshot::channel();
        let work = move || {
            let list = scan.candidates();
            // The receiver may have gone meanwhile.
            let _ = send.send((scan, list));
        };
        Self { thread: thread::Builder::new().name("tm-candidates".to_owned()).spawn(work).ok(), found }
    }

    fn is_finished(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }
}

/// The list of candidates, kept up to date.
#[derive(Debug)]
pub struct Candidates {
    places: Places,
    /// Between two scans, after the first one.
    scan: Option<Scan>,
    running: Option<Running>,
    wanted: bool,
    /// Scans since the list is shown.
    scans: u32,
    due: Instant,
}

impl Candidates {
    /// Scans nothing yet.
    pub fn new(places: Places) -> Self {
        Self { places, scan: None, running: None, wanted: false, scans: 0, due: Instant::now() }
    }

    /// Says whether the list is shown.
    pub fn want(&mut self, wanted: bool) {
        if wanted && !self.wanted {
            (self.scans, self.due) = (0, Instant::now());
            // What was found while the list was not shown is old.
            self.running.take_if(|running| running.is_finished());
        }
        self.wanted = wanted;
    }

    /// The next list; for ever while none is wanted. Cancel safe.
    pub async fn next(&mut self) -> Vec<JobCandidate> {
        if !self.wanted {
            std::future::pending::<()>().await;
        }
        if self.running.is_none() {
            tokio::time::sleep_until(self.due.into()).await;
        }
        let (scan, places) = (&mut self.scan, &self.places);
        let running = self.running.get_or_insert_with(|| {
            Running::start(scan.take().unwrap_or_else(|| Scan::new(places.clone(), GPU_WAIT)))
        });
        let done = (&mut running.found).await;
        self.running = None;
        self.scans = self.scans.saturating_add(1);
        self.due = Instant::now() + if self.scans == 1 { SECOND } else { EVERY };
        // A scan that has panicked has found nothing; the next one begins anew.
        let (scan, list) = done.map_or_else(|_| (None, Vec::new()), |(scan, list)| (Some(scan), list));
        self.scan = scan;
        list
    }
}
