//! A profile of a job on the screen: taken on a thread of its own, so that the screen goes on meanwhile.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tokio::sync::oneshot::{self, Receiver};

use super::profile::{self, TakenTraces};
use crate::collector::why_no_thread;
use crate::errors;
use crate::jobs::JobKey;
use crate::profiles::ProfileError;
use crate::profiles::account::ProfileAccount;
use crate::sources::kineto::{self, KinetoTarget};
use crate::sources::profile_wish::{ProfileWindow, ProfileWish};

/// How long the job is profiled.
const WINDOW: Duration = Duration::from_millis(500);
/// How long leaving waits until socket and trace are removed: the thread looks every 20 ms.
const REMOVED_WITHIN: Duration = Duration::from_millis(500);

/// The account of a profile, or why there is no profile, in a line.
pub(super) type TakenAccount = Result<Arc<ProfileAccount>, String>;

/// Takes profiles, one at a time.
#[derive(Debug, Default)]
pub(super) struct ProfileTaker(Option<Taking>);

/// A profile on its way.
#[derive(Debug)]
struct Taking {
    job: JobKey,
    wanted: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    taken: Receiver<TakenAccount>,
}

impl ProfileTaker {
    /// Begins to ask these processes of a job, unless a job is being asked.
    pub(super) fn begin(&mut self, proc_root: &Path, job: JobKey, processes: Vec<u32>) {
        if self.0.is_some() {
            return;
        }
        let (send, mut taken) = oneshot::channel();
        let wanted = Arc::new(AtomicBool::new(true));
        let (proc_root, asking) = (proc_root.to_owned(), Arc::clone(&wanted));
        let work = move || {
            let account = take(&proc_root, &processes, &|| asking.load(Ordering::Relaxed));
            // The receiver may have gone meanwhile.
            let _ = send.send(account.map_err(|error| why(&error)));
        };
        // None of tokio's threads: it panics where no thread can be started.
        let thread = match thread::Builder::new().name("tm-profile".to_owned()).spawn(work) {
            Ok(thread) => Some(thread),
            Err(error) => {
                let (send, why) = oneshot::channel();
                let _ = send.send(Err(format!("cannot start a thread to take a profile: {}", why_no_thread(&error))));
                taken = why;
                None
            }
        };
        self.0 = Some(Taking { job, wanted, thread, taken });
    }

    /// Gives up what is on its way: [`Self::next`] soon says so.
    pub(super) fn give_up(&self) {
        if let Some(taking) = &self.0 {
            taking.wanted.store(false, Ordering::Relaxed);
        }
    }

    /// The same where it is of this job.
    pub(super) fn give_up_of(&self, job: JobKey) {
        if self.0.as_ref().is_some_and(|taking| taking.job == job) {
            self.give_up();
        }
    }

    /// What has come of it; for ever where nothing is on its way. Cancel safe.
    pub(super) async fn next(&mut self) -> (JobKey, TakenAccount) {
        let Some(taking) = &mut self.0 else { return std::future::pending().await };
        let lost = || Err("the profile is lost: reading it has failed".to_owned());
        let taken = (&mut taking.taken).await.unwrap_or_else(|_| lost());
        let job = taking.job;
        self.0 = None;
        (job, taken)
    }
}

impl Drop for ProfileTaker {
    fn drop(&mut self) {
        self.give_up();
        let thread = self.0.as_mut().and_then(|taking| taking.thread.take());
        let until = Instant::now() + REMOVED_WITHIN;
        while thread.as_ref().is_some_and(|thread| !thread.is_finished()) && Instant::now() < until {
            thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Why there is no profile, in a line.
fn why(error: &anyhow::Error) -> String {
    match error.downcast_ref() {
        Some(ProfileError::Nothing | ProfileError::NothingInThread) => {
            "the profile is empty: the job ran no operator of torch meanwhile; try again while it trains".to_owned()
        }
        _ => errors::sentence(error),
    }
}

/// Takes a profile and reads it.
fn take(proc_root: &Path, processes: &[u32], wanted: &dyn Fn() -> bool) -> anyhow::Result<Arc<ProfileAccount>> {
    let targets = processes.iter().map(|pid| KinetoTarget::find(proc_root, *pid)).collect::<Result<_, _>>()?;
    let wish = ProfileWish { window: ProfileWindow::For(WINDOW), stacks: false };
    let traces = kineto::take(proc_root, targets, wish, wanted)?;
    let account = profile::account(&TakenTraces::Asked(traces), wanted)?;
    Ok(Arc::new(account))
}
