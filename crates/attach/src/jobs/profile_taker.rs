//! A job that is being asked, on a thread of its own: for a profile, or for counts of its calls. It can be given up, and everything
//! else goes on meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use tokio::sync::watch;

use crate::collector::why_no_thread;
use crate::jobs::session::{EndSignals, Session};
use trainmon_diagnosis::pipeline::Tick;
use trainmon_profiles::asked::{ProfileAsker, ProfileStage};

/// How long leaving waits until socket and trace are removed: the thread looks every 20 ms.
const REMOVED_WITHIN: Duration = Duration::from_millis(500);

/// Takes profiles, one at a time, each of one of several `J`obs.
#[derive(Debug)]
pub struct ProfileTaker<J, T>(Option<Taking<J, T>>);

impl<J, T> Default for ProfileTaker<J, T> {
    /// Nothing is on its way.
    fn default() -> Self {
        Self(None)
    }
}

/// A profile on its way.
#[derive(Debug)]
struct Taking<J, T> {
    job: J,
    asker: Arc<AskingThread>,
    stages: watch::Receiver<Option<ProfileStage>>,
    thread: Option<JoinHandle<()>>,
    taken: oneshot::Receiver<anyhow::Result<T>>,
}

/// What the thread that asks shares with the others.
#[derive(Debug)]
struct AskingThread {
    given_up: AtomicBool,
    stage: watch::Sender<Option<ProfileStage>>,
}

impl ProfileAsker for AskingThread {
    fn wanted(&self) -> bool {
        !self.given_up.load(Ordering::Relaxed)
    }

    fn reached(&self, stage: ProfileStage) {
        self.stage.send_if_modified(|last| last.replace(stage) != Some(stage));
    }
}

/// What comes of it.
#[derive(Debug)]
pub enum ProfileNews<T> {
    /// It has come so far.
    Stage(ProfileStage),
    /// It is taken, or why not. Nothing follows.
    Taken(anyhow::Result<T>),
}

impl<J: Copy + PartialEq, T: Send + 'static> ProfileTaker<J, T> {
    /// Begins this work on a job, unless one is being asked.
    pub fn begin(&mut self, job: J, work: impl FnOnce(&dyn ProfileAsker) -> anyhow::Result<T> + Send + 'static) {
        if self.0.is_some() {
            return;
        }
        let (send, mut taken) = oneshot::channel();
        let (stage, stages) = watch::channel(None);
        let asker = Arc::new(AskingThread { given_up: AtomicBool::new(false), stage });
        let asking = Arc::clone(&asker);
        let work = move || {
            // The receiver may have gone meanwhile.
            let _ = send.send(work(&*asking));
        };
        // None of tokio's threads: it panics where no thread can be started.
        let thread = match thread::Builder::new().name("tm-profile".to_owned()).spawn(work) {
            Ok(thread) => Some(thread),
            Err(error) => {
                let (send, why) = oneshot::channel();
                let why_not = why_no_thread(&error);
                let _ = send.send(Err(anyhow::anyhow!("cannot start a thread to take a profile: {why_not}")));
                taken = why;
                None
            }
        };
        self.0 = Some(Taking { job, asker, stages, thread, taken });
    }

    /// Whether a job is being asked.
    pub fn is_asking(&self) -> bool {
        self.0.is_some()
    }

    /// Gives up what is on its way: [`Self::next`] soon says so.
    pub fn give_up(&self) {
        give_up(self.0.as_ref());
    }

    /// The same where it is of this job.
    pub fn give_up_of(&self, job: J) {
        if self.0.as_ref().is_some_and(|taking| taking.job == job) {
            self.give_up();
        }
    }

    /// What comes next; for ever where nothing is on its way. Cancel safe.
    pub async fn next(&mut self) -> (J, ProfileNews<T>) {
        let Some(taking) = &mut self.0 else { return std::future::pending().await };
        let job = taking.job;
        let taken = loop {
            tokio::select! {
                biased;
                taken = &mut taking.taken => break taken,
                Ok(()) = taking.stages.changed() => {
                    if let Some(stage) = *taking.stages.borrow_and_update() {
                        return (job, ProfileNews::Stage(stage));
                    }
                }
            }
        };
        self.0 = None;
        let lost = |_| Err(anyhow::anyhow!("the profile is lost: reading it has failed"));
        (job, ProfileNews::Taken(taken.unwrap_or_else(lost)))
    }
}

impl<T: Send + 'static> ProfileTaker<(), T> {
    /// Does this work while the job is watched, and gives what came of it with the last tick before. A signal gives it up. `told` hears
    /// each stage.
    pub async fn beside(
        mut session: Session,
        work: impl FnOnce(&dyn ProfileAsker) -> anyhow::Result<T> + Send + 'static,
        mut told: impl FnMut(ProfileStage),
    ) -> anyhow::Result<(T, Option<Arc<Tick>>)> {
        let mut ending = EndSignals::listen()?;
        let mut taker = Self::default();
        taker.begin((), work);
        let (mut before, mut watching) = (None, true);
        loop {
            let tick = async {
                if watching {
                    return session.next_before_end(&mut ending).await;
                }
                ending.signalled().await;
                None
            };
            tokio::select! {
                (_, news) = taker.next() => match news {
                    ProfileNews::Stage(stage) => told(stage),
                    ProfileNews::Taken(taken) => return Ok((taken?, before)),
                },
                tick = tick => match tick {
                    Some(tick) => before = Some(tick),
                    None => {
                        // The thread sees the end of a job.
                        if !(watching && session.has_ended()) {
                            taker.give_up();
                        }
                        watching = false;
                    }
                },
            }
        }
    }
}

fn give_up<J, T>(taking: Option<&Taking<J, T>>) {
    if let Some(taking) = taking {
        taking.asker.given_up.store(true, Ordering::Relaxed);
    }
}

impl<J, T> Drop for ProfileTaker<J, T> {
    fn drop(&mut self) {
        give_up(self.0.as_ref());
        let thread = self.0.as_mut().and_then(|taking| taking.thread.take());
        let until = Instant::now() + REMOVED_WITHIN;
        while thread.as_ref().is_some_and(|thread| !thread.is_finished()) && Instant::now() < until {
            thread::sleep(Duration::from_millis(5));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jobs::session::block_on;
    use trainmon_profiles::asked::ProfileWindow;

    const RECORDING: ProfileStage = ProfileStage::Recording(ProfileWindow::Steps(3));

    /// Waits until it is given up, and says so at each look.
    fn until_given_up(asker: &dyn ProfileAsker) -> anyhow::Result<u8> {
        while asker.wanted() {
            asker.reached(RECORDING);
            thread::sleep(Duration::from_millis(1));
        }
        anyhow::bail!("given up")
    }

    #[test]
    fn each_stage_is_told_once_and_then_what_came_of_it() {
        let told = block_on(async {
            let mut taker = ProfileTaker::default();
            taker.begin(7, until_given_up);
            taker.begin(8, |_| Ok(1));
            assert!(taker.is_asking(), "one at a time");
            let (job, first) = taker.next().await;
            assert!(matches!(first, ProfileNews::Stage(RECORDING)) && job == 7);
            taker.give_up_of(8);
            let again = tokio::time::timeout(Duration::from_millis(50), taker.next()).await;
            assert!(again.is_err(), "the stage is the same, and another job was given up");
            taker.give_up_of(7);
            let (_, last) = taker.next().await;
            assert!(!taker.is_asking());
            taker.begin(8, |_| Ok(1));
            let (job, next) = taker.next().await;
            assert!(matches!(next, ProfileNews::Taken(Ok(1))) && job == 8);
            Ok(last)
        });
        let Ok(ProfileNews::Taken(Err(error))) = told else { panic!("{told:?}") };
        assert_eq!(error.to_string(), "given up");
    }

    #[test]
    fn work_that_panics_is_lost_and_leaving_gives_up() {
        let lost = block_on(async {
            let mut taker = ProfileTaker::<(), u8>::default();
            taker.begin((), |_| std::panic::resume_unwind(Box::new(())));
            Ok(taker.next().await.1)
        });
        let Ok(ProfileNews::Taken(Err(error))) = lost else { panic!("{lost:?}") };
        assert_eq!(error.to_string(), "the profile is lost: reading it has failed");
        let ended = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&ended);
        let mut taker = ProfileTaker::default();
        taker.begin((), move |asker| {
            let answer = until_given_up(asker);
            seen.store(true, Ordering::Relaxed);
            answer
        });
        drop(taker);
        assert!(ended.load(Ordering::Relaxed), "leaving waits for it");
    }
}
