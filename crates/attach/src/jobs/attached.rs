//! The jobs that are attached to at the same time, each with a session of its own.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::thread::JoinHandle;

use super::session::{Session, SessionOptions};
use super::{JobKey, Needs, Target};
use trainmon_base::errors::Failure;
use trainmon_diagnosis::pipeline::Tick;
use trainmon_profiles::account::ProfileAccount;

/// Most jobs attached to at once on the screen: each costs what one trainmon costs.
const JOBS_MAX: usize = 8;

/// All attached jobs.
#[derive(Debug)]
pub struct AttachedJobs {
    jobs: Vec<(JobKey, Session)>,
    most: usize,
    next_key: u32,
    /// Threads that let a session go.
    leaving: Vec<JoinHandle<()>>,
}

/// The wait for the next tick of one of them.
type Waiting<'s> = Pin<Box<dyn Future<Output = Arc<Tick>> + 's>>;

impl AttachedJobs {
    /// One job, which has the default key.
    pub fn new(session: Session) -> Self {
        Self { jobs: vec![(JobKey::default(), session)], most: JOBS_MAX, next_key: 1, leaving: Vec::new() }
    }

    /// No jobs yet, and at most so many later.
    pub fn none(most: usize) -> Self {
        Self { jobs: Vec::new(), most, next_key: 0, leaving: Vec::new() }
    }

    /// The next tick of any of them; for ever where all have ended. Cancel safe.
    pub async fn next(&mut self) -> (JobKey, Arc<Tick>) {
        let mut waits: Vec<(JobKey, Waiting<'_>)> = Vec::new();
        for (key, session) in self.jobs.iter_mut().filter(|(_, session)| !session.has_ended()) {
            waits.push((*key, Box::pin(session.next())));
        }
        poll_fn(move |context| {
            for (key, wait) in &mut waits {
                if let Poll::Ready(tick) = wait.as_mut().poll(context) {
                    return Poll::Ready((*key, tick));
                }
            }
            Poll::Pending
        })
        .await
    }

    /// Whether the first job has reached its limits: they were said of the job that trainmon was started for.
    pub fn is_over(&self) -> bool {
        self.jobs.iter().any(|(key, session)| *key == JobKey::default() && session.is_over())
    }

    /// Attaches to one more process.
    ///
    /// # Errors
    /// There are too many already, or it cannot be watched.
    pub fn attach(&mut self, options: SessionOptions) -> anyhow::Result<(JobKey, Target)> {
        let most = self.most;
        // One that has ended costs nothing but its place; the first one's limits are those of the screen.
        self.jobs.retain(|(key, session)| *key == JobKey::default() || !session.has_ended());
        if self.jobs.len() >= most {
            return Err(Failure::failed(format!(
                "{most} jobs are watched already, which is the limit: close one first"
            ))
            .into());
        }
        let session = Session::attach(options)?;
        let (key, target) = (JobKey(self.next_key), session.target());
        self.next_key += 1;
        self.jobs.push((key, session));
        Ok((key, target))
    }

    /// Adds a profile of a job to its next sample; says whether it is still watched.
    pub fn profiled(&mut self, key: JobKey, account: Arc<ProfileAccount>) -> bool {
        let job = self.jobs.iter_mut().find(|(other, session)| *other == key && !session.has_ended());
        job.map(|(_, session)| session.profiled(account)).is_some()
    }

    /// Stops watching a job. A running py-spy is waited for on a thread of its own: keys are not.
    pub fn detach(&mut self, key: JobKey) {
        let Some(place) = self.jobs.iter().position(|(other, _)| *other == key) else { return };
        let (_, session) = self.jobs.remove(place);
        self.leaving.retain(|thread| !thread.is_finished());
        self.let_go(session);
    }

    fn let_go(&mut self, session: Session) {
        // Where no thread can be started the session goes here and now.
        self.leaving.extend(std::thread::Builder::new().name("tm-detach".to_owned()).spawn(move || drop(session)));
    }

    /// Passes on what the screen needs, on which the job `shown` is.
    pub fn want(&mut self, needs: Needs, shown: JobKey) {
        for (key, session) in &mut self.jobs {
            session.want(needs, *key == shown);
        }
    }
}

impl Drop for AttachedJobs {
    fn drop(&mut self) {
        // All at once: each may wait for its py-spy.
        for (_, session) in std::mem::take(&mut self.jobs) {
            self.let_go(session);
        }
        for thread in self.leaving.drain(..) {
            // It ends within the half second that a session gives py-spy.
            let _ = thread.join();
        }
    }
}
