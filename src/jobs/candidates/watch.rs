//! The candidates, looked for again and again while somebody looks at the list of them.
//!
//! ```text
//!  loop of the screen ──ask──▶ tm-candidates: a scan of /proc, one at a time
//!                     ◀─list──
//! ```
//!
//! The thread sleeps while nobody asks, and ends with the program.

use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::mpsc as waking;

use super::Candidate;
use super::scan::{Places, Scan};

/// Time between two scans.
const EVERY: Duration = Duration::from_secs(2);
/// Time to the second scan: rates need two.
const SECOND: Duration = Duration::from_millis(500);
/// How long a scan waits for the devices.
const GPU_WAIT: Duration = Duration::from_millis(400);

/// The list of candidates, kept up to date from the screen's side.
#[derive(Debug)]
pub struct Candidates {
    /// Where to ask; none before the first question.
    thread: Option<(SyncSender<()>, waking::Receiver<Vec<Candidate>>)>,
    places: Places,
    wanted: bool,
    /// A scan has been asked for and has not come back.
    outstanding: bool,
    scans: u32,
    due: Instant,
}

impl Candidates {
    /// Looks at nothing yet.
    #[must_use]
    pub fn new(places: Places) -> Self {
        Self { thread: None, places, wanted: false, outstanding: false, scans: 0, due: Instant::now() }
    }

    /// Says whether somebody looks at the list.
    pub fn want(&mut self, wanted: bool) {
        if wanted && !self.wanted {
            // What has come since nobody looked is old.
            if let Some((_, lists)) = &mut self.thread
                && lists.try_recv().is_ok()
            {
                self.outstanding = false;
            }
            (self.scans, self.due) = (0, Instant::now());
        }
        self.wanted = wanted;
    }

    /// The next list; for ever while none is wanted, or where no thread could be started. Cancel safe.
    pub async fn next(&mut self) -> Vec<Candidate> {
        if !self.wanted {
            std::future::pending::<()>().await;
        }
        if !self.outstanding {
            tokio::time::sleep_until(self.due.into()).await;
            if self.thread.is_none() {
                self.thread = start(&self.places);
            }
            self.outstanding = self.thread.as_ref().is_some_and(|(ask, _)| ask.try_send(()).is_ok());
        }
        let list = match &mut self.thread {
            Some((_, lists)) if self.outstanding => lists.recv().await,
            _ => None,
        };
        let Some(list) = list else { return std::future::pending().await };
        self.outstanding = false;
        self.scans = self.scans.saturating_add(1);
        self.due = Instant::now() + if self.scans == 1 { SECOND } else { EVERY };
        list
    }
}

fn start(places: &Places) -> Option<(SyncSender<()>, waking::Receiver<Vec<Candidate>>)> {
    let (ask, asked) = sync_channel::<()>(1);
    let (send, lists) = waking::channel(1);
    let places = places.clone();
    let work = move || {
        let mut scan = Scan::new(places, GPU_WAIT);
        while asked.recv().is_ok() {
            if send.blocking_send(scan.candidates()).is_err() {
                return;
            }
        }
    };
    thread::Builder::new().name("tm-candidates".to_owned()).spawn(work).ok()?;
    Some((ask, lists))
}
