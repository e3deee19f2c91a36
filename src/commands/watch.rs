//! `trainmon watch`: a line when something changes, for days, and at the end a summary.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use jiff::tz::TimeZone;

use crate::cli::{ProfiledEvent, WatchArgs};
use crate::config::Settings;
use trainmon_attach::jobs::followed::Followed;
use trainmon_attach::jobs::session::{EndSignals, block_on};
use trainmon_attach::jobs::watched::{ProfilesOnEvents, WatchedJob, WatchedJobs};
use trainmon_attach::runs::{self, traces};
use trainmon_attach::started::hook::Hook;
use trainmon_base::errors::{self, ExitCode};
use trainmon_base::streams::Stream;
use trainmon_base::text::short_command;
use trainmon_base::zone;
use trainmon_diagnosis::pipeline::Pipeline;
use trainmon_diagnosis::watch::{EventKind, WatchEvent, WatchOptions};
use trainmon_outputs::events;
use trainmon_outputs::text::{self, Style};
use trainmon_sources::recording::Recording;
use trainmon_views::cost::Price;
use trainmon_views::report::pid_words;
use trainmon_views::run_summary::RunSummary;

/// Watches jobs, or reads a recording.
pub fn run(settings: &Settings, arguments: &WatchArgs) -> anyhow::Result<ExitCode> {
    let hook = arguments.exec.as_deref().map(Hook::start).transpose()?;
    let (price, style) = (settings.price.clone(), super::diagnose::style(settings, true));
    let (json, zone) = (arguments.json, zone::local());
    let mut out = EventsOut { out: Stream::stdout()?, json, zone, hook, price, style };
    let options = WatchOptions { slower: arguments.slower };
    if let Some(path) = &arguments.replay {
        return replay(settings, path, options, &mut out);
    }
    let pid = if arguments.all { None } else { Some(super::pick::target(settings)?) };
    let on = arguments.profile_on.iter().map(|event| kind_of(*event)).collect();
    let profiles = ProfilesOnEvents::new(settings.proc_root.clone(), on);
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
    price: Option<Price>,
    style: Style,
}

impl EventsOut {
    /// Writes events at once, each in one piece, and has the command run. `command` is the command line of the job.
    fn write(&mut self, events: &[WatchEvent], command: &str) -> anyhow::Result<()> {
        for event in events {
            self.run_command(event, command);
            let line =
                if self.json { events::json_line(event, &self.zone)? } else { events::line(event, &self.zone) };
            self.out.write_all(format!("{line}\n").as_bytes())?;
        }
        Ok(())
    }

    fn run_command(&mut self, event: &WatchEvent, command: &str) {
        if let Some(hook) = &mut self.hook {
            hook.run(events::variables(event, command, &self.zone).to_vec());
        }
    }

    /// Writes a job in short: a page, or with `--json` an event. The command runs where the job is over.
    fn write_summary(&mut self, job: &WatchedJob, is_over: bool) -> anyhow::Result<()> {
        let (zone, price) = (self.zone.clone(), self.price.clone());
        let summary = RunSummary { totals: &job.totals, story: Some(&job.story), zone: &zone, price: price.as_ref() };
        let (pid, command) = job.name();
        let unix_ms = job.totals.ended_unix_ms.unwrap_or_default();
        let event = WatchEvent::of_summary(unix_ms, pid, summary.in_short(), summary.numbers());
        if is_over {
            self.run_command(&event, command);
        }
        let text = if self.json {
            events::json_line(&event, &self.zone)? + "\n"
        } else {
            let title = format!("{}: {}", pid_words(pid), short_command(command));
            format!("\n{}", text::summary(&summary, &title, self.style))
        };
        self.out.write_all(text.as_bytes())?;
        Ok(())
    }
}

/// The events of a recording, at once.
fn replay(settings: &Settings, path: &Path, options: WatchOptions, out: &mut EventsOut) -> anyhow::Result<ExitCode> {
    traces::refuse(path)?;
    let mut recording = Recording::open(path).with_context(|| format!("recording {}", path.display()))?;
    let mut pipeline = Pipeline::of_recording(&recording.header, settings.gpus.as_deref());
    let (mut job, mut damage) = (WatchedJob::new(options), None);
    for sample in recording.by_ref() {
        match sample {
            Ok(sample) => out.write(&job.push(&pipeline.push(Arc::new(sample))), "")?,
            Err(error) => damage = Some(error),
        }
    }
    if job.last.is_some() {
        out.write_summary(&job, true)?;
    }
    let read = (recording.samples > 0).then_some(());
    runs::with_its_end(read, recording.ended_early(damage.as_ref()), path)?;
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
    errors::note(&format!("watching {what}; a line follows when something changes, and a summary at the end"));
    let over = tokio::time::sleep(settings.call.duration.unwrap_or(FOR_EVER));
    tokio::pin!(over);
    let mut watched = WatchedJobs::new(options);
    let mut intervals = 0;
    while !followed.has_ended() {
        tokio::select! {
            biased;
            () = ending.signalled() => break,
            // There is no file to look for.
            () = reopening.asked() => {}
            what = followed.next() => {
                intervals += u64::from(matches!(&what, Followed::Tick(_, tick) if tick.frame.seconds > 0.0));
                let (events, command, gone) = watched.take(what);
                out.write(&events, &command)?;
                gone.iter().try_for_each(|job| out.write_summary(job, true))?;
                profiles.begin(&events);
                if settings.call.iterations.is_some_and(|most| intervals >= most) {
                    break;
                }
            }
            profile = profiles.next() => out.write(&[profile], "")?,
            () = &mut over => break,
        }
    }
    for job in watched.remaining() {
        out.write_summary(&job, false)?;
    }
    Ok(())
}

fn kind_of(event: ProfiledEvent) -> EventKind {
    match event {
        ProfiledEvent::Slower => EventKind::Slower,
        ProfiledEvent::Bottleneck => EventKind::Bottleneck,
    }
}

/// Longer than any machine runs.
const FOR_EVER: Duration = Duration::from_secs(100 * 365 * 86_400);
