//! `trainmon watch`: a line when something changes, for days.

mod hook;

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use jiff::tz::TimeZone;

use super::profile_taker::{ProfileNews, ProfileTaker};
use super::{profile, profiled};
use crate::cli::{ProfiledEvent, WatchArgs};
use crate::config::Settings;
use hook::Hook;
use trainmon_attach::jobs::JobKey;
use trainmon_attach::jobs::followed::{Followed, MOST_FOLLOWED};
use trainmon_attach::jobs::session::{EndSignals, block_on};
use trainmon_base::errors::{self, ExitCode};
use trainmon_base::streams::Stream;
use trainmon_base::zone;
use trainmon_diagnosis::diagnosis::Verdict;
use trainmon_diagnosis::pipeline::{Pipeline, Tick};
use trainmon_diagnosis::watch::{EventKind, EventState, WatchEvent, WatchOptions, Watcher};
use trainmon_outputs::events;
use trainmon_profiling::kineto::ProfileWish;
use trainmon_sources::recording::Recording;

/// Watches jobs, or reads a recording.
pub fn run(settings: &Settings, arguments: &WatchArgs) -> anyhow::Result<ExitCode> {
    let hook = arguments.exec.as_deref().map(Hook::start).transpose()?;
    let mut out = EventsOut { out: Stream::stdout()?, json: arguments.json, zone: zone::local(), hook };
    let options = WatchOptions { slower: arguments.slower };
    if let Some(path) = &arguments.replay {
        return replay(settings, path, options, &mut out);
    }
    let pid = if arguments.all { None } else { Some(super::pick::target(settings)?) };
    let profiles = ProfilesOnEvents {
        on: arguments.profile_on.iter().map(|event| kind_of(*event)).collect(),
        taker: ProfileTaker::new(),
        begun: BTreeMap::new(),
    };
    let watched = block_on(watch(settings, pid, (options, profiles), &mut out));
    // Also where the reader of the events has gone: those that were told have their command.
    out.hook.into_iter().for_each(Hook::finish);
    watched.map(|()| ExitCode::DONE)
}

/// Where events go.
struct EventsOut {
    out: Stream,
    json: bool,
    zone: TimeZone,
    hook: Option<Hook>,
}

impl EventsOut {
    /// Writes events at once, each in one piece, and has the command run. `command` is the command line of the job.
    fn write(&mut self, events: &[WatchEvent], command: &str) -> anyhow::Result<()> {
        for event in events {
            if let Some(hook) = &mut self.hook {
                hook.run(events::variables(event, command, &self.zone).to_vec());
            }
            let line =
                if self.json { events::json_line(event, &self.zone)? } else { events::line(event, &self.zone) };
            self.out.write_all(format!("{line}\n").as_bytes())?;
        }
        Ok(())
    }
}

/// The events of a recording, at once.
fn replay(settings: &Settings, path: &Path, options: WatchOptions, out: &mut EventsOut) -> anyhow::Result<ExitCode> {
    profiled::refuse(path)?;
    let mut recording = Recording::open(path).with_context(|| format!("recording {}", path.display()))?;
    let mut pipeline = Pipeline::of_recording(&recording.header, settings.gpus.as_deref());
    let (mut watcher, mut damage) = (Watcher::new(options), None);
    for sample in recording.by_ref() {
        match sample {
            Ok(sample) => out.write(&watcher.push(&pipeline.push(Arc::new(sample))), "")?,
            Err(error) => damage = Some(error),
        }
    }
    let read = (recording.samples > 0).then_some(());
    super::with_its_end(read, recording.ended_early(damage.as_ref()), path)?;
    Ok(ExitCode::DONE)
}

async fn watch(
    settings: &Settings,
    pid: Option<u32>,
    (options, mut profiles): (WatchOptions, ProfilesOnEvents),
    out: &mut EventsOut,
) -> anyhow::Result<()> {
    let (mut ending, mut reopening) = EndSignals::listen_beside_a_file()?;
    let mut followed = super::followed(settings, pid)?;
    let what = pid.map_or_else(|| "all training processes".to_owned(), |pid| format!("PID {pid}"));
    errors::note(&format!("watching {what}; a line follows when something changes"));
    let over = tokio::time::sleep(settings.call.duration.unwrap_or(FOR_EVER));
    tokio::pin!(over);
    let mut watched = WatchedJobs { watchers: BTreeMap::new(), options, left_out: 0 };
    let mut intervals = 0;
    while !followed.has_ended() {
        tokio::select! {
            biased;
            () = ending.signalled() => break,
            // There is no file to look for.
            () = reopening.asked() => {}
            what = followed.next() => {
                intervals += u64::from(matches!(&what, Followed::Tick(_, tick) if tick.frame.seconds > 0.0));
                let (events, command) = watched.take(what);
                out.write(&events, &command)?;
                profiles.begin(settings, &events);
                if settings.call.iterations.is_some_and(|most| intervals >= most) {
                    break;
                }
            }
            profile = profiles.next() => out.write(&[profile], "")?,
            () = &mut over => break,
        }
    }
    Ok(())
}

fn kind_of(event: ProfiledEvent) -> EventKind {
    match event {
        ProfiledEvent::Slower => EventKind::Slower,
        ProfiledEvent::Bottleneck => EventKind::Bottleneck,
    }
}

/// Profiles that events ask for, one at a time.
struct ProfilesOnEvents {
    on: Vec<EventKind>,
    taker: ProfileTaker<u32, Verdict>,
    /// When one was begun, by PID.
    begun: BTreeMap<u32, Instant>,
}

/// A job is profiled no more often.
const BETWEEN_PROFILES: Duration = Duration::from_secs(600);

impl ProfilesOnEvents {
    /// Begins one if an event asks for it.
    fn begin(&mut self, settings: &Settings, events: &[WatchEvent]) {
        let asks = |event: &&WatchEvent| {
            let recent = self.begun.get(&event.pid).is_some_and(|at| at.elapsed() < BETWEEN_PROFILES);
            self.on.contains(&event.kind) && event.state != Some(EventState::Ends) && !recent
        };
        if self.taker.is_asking() {
            return;
        }
        let Some(event) = events.iter().find(asks) else { return };
        let (settings, pid) = (settings.clone(), event.pid);
        self.begun.insert(pid, Instant::now());
        self.taker.begin(pid, move |asker| profile::alone(&settings, pid, ProfileWish::default(), asker));
    }

    /// The next one that is done, as an event. Cancel safe.
    async fn next(&mut self) -> WatchEvent {
        let (pid, taken) = loop {
            if let (pid, ProfileNews::Taken(taken)) = self.taker.next().await {
                break (pid, taken);
            }
        };
        let mut event = match taken {
            Ok(verdict) => WatchEvent::of_profile(&verdict),
            Err(error) => WatchEvent::without_profile(&errors::sentence(&error)),
        };
        (event.unix_ms, event.pid) = (jiff::Timestamp::now().as_millisecond(), pid);
        event
    }
}

/// Longer than any machine runs.
const FOR_EVER: Duration = Duration::from_secs(100 * 365 * 86_400);

/// A watcher for each job.
struct WatchedJobs {
    watchers: BTreeMap<JobKey, (Watcher, Option<Arc<Tick>>)>,
    options: WatchOptions,
    /// Jobs that are too many, as of the last scan.
    left_out: usize,
}

impl WatchedJobs {
    /// What there is to tell of what has happened, and the command line of the job.
    fn take(&mut self, what: Followed) -> (Vec<WatchEvent>, String) {
        let command = |tick: &Tick| tick.verdict.command.clone();
        match what {
            Followed::Came(key, _) => {
                self.watchers.insert(key, (Watcher::new(self.options), None));
            }
            Followed::Tick(key, tick) => {
                let Some((watcher, last)) = self.watchers.get_mut(&key) else { return Default::default() };
                let events = watcher.push(&tick);
                let command = if events.is_empty() { String::new() } else { command(&tick) };
                *last = Some(tick);
                return (events, command);
            }
            Followed::Gone(key) => {
                let Some((mut watcher, Some(last))) = self.watchers.remove(&key) else { return Default::default() };
                return (watcher.let_go(&last).into_iter().collect(), command(&last));
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_asks_for_a_profile_once_and_what_came_of_it_is_an_event() {
        let told = block_on(async {
            let mut profiles =
                ProfilesOnEvents { on: vec![EventKind::Slower], taker: ProfileTaker::new(), begun: BTreeMap::new() };
            let mut event = WatchEvent::without_profile("");
            (event.pid, event.kind) = (u32::MAX / 2, EventKind::Bottleneck);
            profiles.begin(&Settings::default(), std::slice::from_ref(&event));
            assert!(!profiles.taker.is_asking(), "not at this event");
            event.kind = EventKind::Slower;
            profiles.begin(&Settings::default(), std::slice::from_ref(&event));
            let told = profiles.next().await;
            profiles.begin(&Settings::default(), &[event]);
            assert!(!profiles.taker.is_asking(), "no more often than every ten minutes");
            Ok(told)
        });
        let told = told.unwrap();
        let pid = u32::MAX / 2;
        assert_eq!((told.pid, told.kind), (pid, EventKind::Profile));
        assert_eq!(told.text, format!("no profile: process {pid} has ended"));
    }
}
