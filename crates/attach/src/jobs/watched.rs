//! What there is to tell of followed jobs: events, and the profiles that events ask for.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::followed::{Followed, MOST_FOLLOWED};
use super::profile_taker::{ProfileNews, ProfileTaker};
use super::{JobKey, profile};
use trainmon_base::errors;
use trainmon_diagnosis::diagnosis::Verdict;
use trainmon_diagnosis::history::interval::Interval;
use trainmon_diagnosis::history::totals::Totals;
use trainmon_diagnosis::pipeline::Tick;
use trainmon_diagnosis::watch::{EventKind, EventState, RunStory, WatchEvent, WatchOptions, Watcher};
use trainmon_profiling::kineto::ProfileWish;
use trainmon_sources::clock;

/// One job from the begin of its watching on: its sums, and what happened. Its memory does not grow with time.
#[derive(Debug)]
pub struct WatchedJob {
    /// Sums over the time watched.
    pub totals: Totals,
    /// What happened.
    pub story: RunStory,
    /// The newest tick.
    pub last: Option<Arc<Tick>>,
    watcher: Watcher,
}

impl WatchedJob {
    /// Nothing has been seen of it yet.
    pub fn new(options: WatchOptions) -> Self {
        let (totals, story) = (Totals::default(), RunStory::default());
        Self { totals, story, last: None, watcher: Watcher::new(options) }
    }

    /// Takes the next tick in, and gives what there is to tell.
    pub fn push(&mut self, tick: &Arc<Tick>) -> Vec<WatchEvent> {
        self.totals.add(&Interval::new(&tick.frame, &tick.verdict, tick.shares), &tick.verdict);
        let events = self.watcher.push(tick);
        events.iter().for_each(|event| self.story.push(event));
        self.last = Some(Arc::clone(tick));
        events
    }

    /// Its PID and its command line.
    pub fn name(&self) -> (u32, &str) {
        self.last.as_ref().map_or((0, ""), |tick| (tick.verdict.pid, &tick.verdict.command))
    }
}

/// A watcher for each job.
#[derive(Debug)]
pub struct WatchedJobs {
    jobs: BTreeMap<JobKey, WatchedJob>,
    options: WatchOptions,
    /// Jobs that are too many, as of the last scan.
    left_out: usize,
}

impl WatchedJobs {
    /// None yet.
    pub fn new(options: WatchOptions) -> Self {
        Self { jobs: BTreeMap::new(), options, left_out: 0 }
    }

    /// What there is to tell of what has happened, and the command line of the job; and the job itself once it is over.
    pub fn take(&mut self, what: Followed) -> (Vec<WatchEvent>, String, Option<WatchedJob>) {
        let command = |job: &WatchedJob| job.name().1.to_owned();
        match what {
            Followed::Came(key, _) => {
                self.jobs.insert(key, WatchedJob::new(self.options));
            }
            Followed::Tick(key, tick) => {
                let Some(job) = self.jobs.get_mut(&key) else { return Default::default() };
                let events = job.push(&tick);
                let command = if events.is_empty() { String::new() } else { command(job) };
                return (events, command, None);
            }
            Followed::Gone(key) => {
                let Some(mut job) = self.jobs.remove(&key) else { return Default::default() };
                let Some(last) = job.last.clone() else { return Default::default() };
                return (job.watcher.let_go(&last).into_iter().collect(), command(&job), Some(job));
            }
            Followed::Refused(pid, why) => errors::note(&format!("PID {pid} is not watched: {why}")),
            Followed::Scanned(_, left_out) => {
                if left_out > 0 && self.left_out == 0 {
                    errors::note(&format!("{left_out} jobs are not watched: {MOST_FOLLOWED} at most"));
                }
                self.left_out = left_out;
            }
        }
        Default::default()
    }

    /// The jobs that are still watched, when watching ends.
    pub fn remaining(self) -> impl Iterator<Item = WatchedJob> {
        self.jobs.into_values().filter(|job| job.last.is_some())
    }
}

/// Profiles that events ask for, one at a time.
#[derive(Debug)]
pub struct ProfilesOnEvents {
    proc_root: PathBuf,
    on: Vec<EventKind>,
    taker: ProfileTaker<u32, Verdict>,
    /// When one was begun, by PID.
    begun: BTreeMap<u32, Instant>,
}

/// A job is profiled no more often.
const BETWEEN_PROFILES: Duration = Duration::from_secs(600);

impl ProfilesOnEvents {
    /// At events of these kinds.
    pub fn new(proc_root: PathBuf, on: Vec<EventKind>) -> Self {
        Self { proc_root, on, taker: ProfileTaker::default(), begun: BTreeMap::new() }
    }

    /// Begins one if an event asks for it.
    pub fn begin(&mut self, events: &[WatchEvent]) {
        let asks = |event: &&WatchEvent| {
            let recent = self.begun.get(&event.pid).is_some_and(|at| at.elapsed() < BETWEEN_PROFILES);
            self.on.contains(&event.kind) && event.state != Some(EventState::Ends) && !recent
        };
        if self.taker.is_asking() {
            return;
        }
        let Some(event) = events.iter().find(asks) else { return };
        let (proc_root, pid) = (self.proc_root.clone(), event.pid);
        self.begun.insert(pid, Instant::now());
        self.taker.begin(pid, move |asker| profile::alone(&proc_root, pid, ProfileWish::default(), asker));
    }

    /// The next one that is done, as an event. Cancel safe.
    pub async fn next(&mut self) -> WatchEvent {
        let (pid, taken) = loop {
            if let (pid, ProfileNews::Taken(taken)) = self.taker.next().await {
                break (pid, taken);
            }
        };
        let mut event = match taken {
            Ok(verdict) => WatchEvent::of_profile(&verdict),
            Err(error) => WatchEvent::without_profile(&errors::sentence(&error)),
        };
        (event.unix_ms, event.pid) = (i64::try_from(clock::unix_us() / 1000).unwrap_or_default(), pid);
        event
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jobs::session::block_on;

    #[test]
    fn an_event_asks_for_a_profile_once_and_what_came_of_it_is_an_event() {
        let told = block_on(async {
            let mut profiles = ProfilesOnEvents::new("/proc".into(), vec![EventKind::Slower]);
            let mut event = WatchEvent::without_profile("");
            (event.pid, event.kind) = (u32::MAX / 2, EventKind::Bottleneck);
            profiles.begin(std::slice::from_ref(&event));
            assert!(!profiles.taker.is_asking(), "not at this event");
            event.kind = EventKind::Slower;
            profiles.begin(std::slice::from_ref(&event));
            let told = profiles.next().await;
            profiles.begin(&[event]);
            assert!(!profiles.taker.is_asking(), "no more often than every ten minutes");
            Ok(told)
        });
        let told = told.unwrap();
        let pid = u32::MAX / 2;
        assert_eq!((told.pid, told.kind), (pid, EventKind::Profile));
        assert_eq!(told.text, format!("no profile: process {pid} has ended"));
    }
}
