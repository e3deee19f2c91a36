//! A profile of a job on the screen: taken on a thread of its own, so that the screen goes on meanwhile.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tokio::sync::oneshot::{self, Receiver};

use super::profiled;
use crate::collector::why_no_thread;
use crate::errors;
use crate::jobs::JobKey;
use crate::profiles::account::{ProfileAccount, ProfileSource};
use crate::sources::kineto::{self, KinetoTarget, ProfileWindow, ProfileWish};

/// How long the job is profiled.
const WINDOW: Duration = Duration::from_millis(500);
/// How long leaving waits until the socket and the trace are removed: the thread looks every 20 ms.
const LEAVES: Duration = Duration::from_millis(500);

/// The account of a profile, or why there is none, in a line.
type Taken = Result<Arc<ProfileAccount>, String>;

/// Takes profiles, one at a time.
#[derive(Debug, Default)]
pub(super) struct ProfileTaker(Option<Taking>);

/// A profile on its way.
#[derive(Debug)]
struct Taking {
    job: JobKey,
    wanted: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    taken: Receiver<Taken>,
}

impl ProfileTaker {
    /// Begins to ask these processes of a job, unless another one is being asked.
    pub(super) fn begin(&mut self, proc_root: &Path, job: JobKey, processes: Vec<u32>) {
        if self.0.is_some() {
            return;
        }
        let (send, taken) = oneshot::channel();
        let wanted = Arc::new(AtomicBool::new(true));
        let (proc_root, still_wanted) = (proc_root.to_owned(), Arc::clone(&wanted));
        let send = Arc::new(std::sync::Mutex::new(Some(send)));
        let _ = (&proc_root, &still_wanted, &send);
        let _: Option<PathBuf> = None;
        self.0 = Some(Taking { job, wanted, thread: None, taken });
    }
}
