//! The sessions behind the live screen: one for each attached job.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::thread::JoinHandle;

use crate::config::Settings;
use crate::diagnosis::Verdict;
use crate::history::History;
use crate::sample::Sample;
use crate::tui::{App, Effect, JobKey, Message, News, Target, format};

use super::fold::Fold;
use super::session::{Session, Tick};

/// Most jobs watched at once: each costs what one trainmon costs.
const JOBS_MAX: usize = 8;

/// All attached jobs.
#[derive(Debug)]
pub struct Watching {
    jobs: Vec<Watched>,
    next_key: u32,
    /// Threads that let a session go.
    leaving: Vec<JoinHandle<()>>,
}

/// The wait for the next tick of one of them.
type Waiting<'s> = Pin<Box<dyn Future<Output = Tick> + 's>>;

#[derive(Debug)]
struct Watched {
    key: JobKey,
    pid: u32,
    session: Session,
    ended: bool,
}

/// What has come from a job.
pub struct Arrived<'w> {
    key: JobKey,
    news: Came<'w>,
}

/// From a live job or from a recording.
enum Came<'w> {
    /// A tick, which the session is to judge.
    Live { tick: Box<Tick>, pid: u32, session: &'w mut Session },
    /// Ticks of a recording, which its fold is to judge; with a note where something is missing at its end, once it has
    /// been read.
    Recorded { ticks: Vec<Tick>, fold: &'w mut Fold, loaded: Option<Option<String>> },
}

impl<'w> Arrived<'w> {
    /// From a recording.
    #[must_use]
    pub fn recorded(ticks: Vec<Tick>, fold: &'w mut Fold, loaded: Option<Option<String>>) -> Self {
        Self { key: JobKey::default(), news: Came::Recorded { ticks, fold, loaded } }
    }

    /// Tells the screen.
    pub fn tell(self, app: &mut App) -> Vec<Effect> {
        let key = self.key;
        match self.news {
            Came::Live { tick, pid, session } => tell_live(app, key, *tick, pid, session),
            Came::Recorded { ticks, fold, loaded } => {
                let mut effects = Vec::new();
                for tick in ticks {
                    effects.extend(tell_tick(app, key, tick, |history, sample| fold.judge(history, sample)));
                }
                if let Some(note) = loaded {
                    effects.extend(app.update(Message::Job(key, News::Loaded(note))));
                }
                effects
            }
        }
    }
}

/// A tick, and the verdict that stands after it.
fn tell_tick(
    app: &mut App,
    key: JobKey,
    tick: Tick,
    judge: impl FnOnce(&History, &Sample) -> Verdict,
) -> Vec<Effect> {
    let alive = tick.alive();
    let mut effects = app.update(Message::Job(key, News::Sources(Box::new(tick.sample.sources.clone()))));
    effects.extend(app.update(Message::Job(key, News::Frame(Box::new(tick.frame)))));
    if let Some(job) = app.job_of(key)
        // The run's last verdict stays on the screen: it says more than that the process has ended.
        && (alive || job.latest_verdict().is_none())
    {
        let verdict = judge(job.history(), &tick.sample);
        effects.extend(app.update(Message::Job(key, News::Verdict(Arc::new(verdict)))));
    }
    effects
}

fn tell_live(app: &mut App, key: JobKey, tick: Tick, pid: u32, session: &mut Session) -> Vec<Effect> {
    let alive = tick.alive();
    let age = tick.frame.job.age_s;
    // `--duration` and `--iterations` were said of the job that trainmon was started for.
    let over = key == JobKey::default() && tick.frame.seconds > 0.0 && session.is_over();
    let mut effects = tell_tick(app, key, tick, |history, sample| session.judge(history, sample));
    if !alive {
        let after = age.map_or_else(String::new, |age| format!(" after {}", format::duration(age)));
        let text = format!("process {pid} ended{after}");
        effects.extend(app.update(Message::Job(key, News::Ended { text })));
    }
    if over {
        effects.extend(app.update(Message::Quit));
    }
    effects
}

impl Watching {
    /// Watches one job.
    #[must_use]
    pub fn new(session: Session, pid: u32) -> Self {
        let first = Watched { key: JobKey::default(), pid, session, ended: false };
        Self { jobs: vec![first], next_key: 1, leaving: Vec::new() }
    }

    /// The next tick of any of them; for ever where all have ended. Cancel safe.
    pub async fn next(&mut self) -> Arrived<'_> {
        let (place, tick) = {
            let mut waits: Vec<(usize, Waiting<'_>)> = Vec::new();
            for (place, job) in self.jobs.iter_mut().enumerate().filter(|(_, job)| !job.ended) {
                waits.push((place, Box::pin(job.session.next())));
            }
            poll_fn(move |context| {
                for (place, wait) in &mut waits {
                    if let Poll::Ready(tick) = wait.as_mut().poll(context) {
                        return Poll::Ready((*place, tick));
                    }
                }
                Poll::Pending
            })
            .await
        };
        #[allow(clippy::indexing_slicing, reason = "the place was counted above")]
        let job = &mut self.jobs[place];
        job.ended = !tick.alive();
        Arrived { key: job.key, news: Came::Live { tick: Box::new(tick), pid: job.pid, session: &mut job.session } }
    }

    /// Attaches to one more process; the message says whether that worked.
    pub fn attach(&mut self, settings: &Settings, pid: u32) -> Message {
        if self.jobs.len() >= JOBS_MAX {
            return Message::Notice(format!("{JOBS_MAX} jobs are watched already: close one first"));
        }
        match Session::attach(settings, pid, None) {
            Ok(session) => {
                let key = JobKey(self.next_key);
                self.next_key += 1;
                let target = Target { pid, command: session.command().to_owned() };
                self.jobs.push(Watched { key, pid, session, ended: false });
                Message::Attached(key, target)
            }
            Err(error) => Message::Notice(format!("{error:#}")),
        }
    }

    /// Stops watching a job. A running py-spy is waited for on a thread of its own: keys are not.
    pub fn detach(&mut self, key: JobKey) {
        let Some(place) = self.jobs.iter().position(|job| job.key == key) else { return };
        let session = self.jobs.remove(place).session;
        self.leaving.retain(|thread| !thread.is_finished());
        self.let_go(session);
    }

    fn let_go(&mut self, session: Session) {
        // Where no thread can be started the session goes here and now.
        self.leaving.extend(std::thread::Builder::new().name("tm-detach".to_owned()).spawn(move || drop(session)));
    }

    /// Passes on what the screen needs: from the job that is shown, and from no other.
    pub fn want(&mut self, app: &App) {
        let (needs, shown) = (app.needs(), app.job().key);
        for job in &mut self.jobs {
            job.session.put_aside(job.key != shown);
            job.session.want_often(needs.stacks && job.key == shown);
            job.session.want_neighbours(needs.neighbours && job.key == shown);
        }
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        // All at once: each may wait for its py-spy.
        for job in std::mem::take(&mut self.jobs) {
            self.let_go(job.session);
        }
        for thread in self.leaving.drain(..) {
            // It ends within the half second that a session gives py-spy.
            let _ = thread.join();
        }
    }
}
