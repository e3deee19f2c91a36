//! The screen of live jobs and of recordings.

use std::io::{self, ErrorKind, Write};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;

use super::{LastMoment, attach_options, screen_loop, sources};
use crate::config::{Settings, layout_store, themes};
use trainmon_attach::jobs::attached::AttachedJobs;
use trainmon_attach::jobs::candidates::polling::{self, Candidates};
use trainmon_attach::jobs::output::OutputTail;
use trainmon_attach::jobs::output_file::OutputReader;
use trainmon_attach::jobs::profile;
use trainmon_attach::jobs::profile_taker::{ProfileNews, ProfileTaker};
use trainmon_attach::jobs::recorded::Player;
use trainmon_attach::jobs::restart::Restart;
use trainmon_attach::jobs::session::Session;
use trainmon_attach::jobs::{JobCandidate, JobEvent, JobKey, Target, actions};
use trainmon_attach::runs::whole;
use trainmon_base::errors::{self, ExitCode, Failure};
use trainmon_base::text;
use trainmon_base::zone;
use trainmon_diagnosis::diagnosis::Verdict;
use trainmon_diagnosis::history::archive::Limits;
use trainmon_diagnosis::pipeline::Tick;
use trainmon_outputs::{json, markdown};
use trainmon_profiles::account::ProfileAccount;
use trainmon_tui::message::Export;
use trainmon_tui::pages::Page;
use trainmon_tui::{App, AppOptions, Effect, Job, Layout, Message, Theme, terminal, theme};
use trainmon_views::cost::Price;
use trainmon_views::earlier_run::{Before, EarlierRun};
use trainmon_views::totals;

/// How much of a recording can be gone back to: a day, packed.
const RECORDING: Limits = Limits { span: Duration::from_secs(26 * 3600), bytes: 256 << 20 };

/// Narrowest terminal that gets a summary.
const SUMMARY_WIDTH: usize = 20;

/// Shows a job until the user leaves the screen, with what the program writes to `output`. When the target ends the screen stays.
/// Gives the job's last moment.
pub(super) async fn live(
    session: Session,
    settings: &Settings,
    output: Option<OutputReader>,
) -> anyhow::Result<Option<LastMoment>> {
    let options = options(settings)?;
    let interval_s = settings.interval.as_secs_f64();
    let mut job = Job::new(JobKey::default(), session.target(), interval_s, options.limits);
    job.before = earlier(settings)?;
    show(job, options, settings, JobTicks::Live(AttachedJobs::new(session)), output).await
}

/// Shows a recording.
pub async fn replay(player: Player, settings: &Settings) -> anyhow::Result<ExitCode> {
    // A recording may be of another machine.
    let options = AppOptions { may_signal: false, host: String::new(), limits: RECORDING, ..options(settings)? };
    let header = player.header();
    let target = Target { pid: header.pid, command: header.command.clone() };
    let mut job = Job::new(JobKey::default(), target, header.interval_s, options.limits).recording();
    job.before = earlier(settings)?;
    show(job, options, settings, JobTicks::Recorded(Box::new(player)), None).await.map(|_| ExitCode::DONE)
}

/// The run that `--against` names.
fn earlier(settings: &Settings) -> anyhow::Result<Option<Before>> {
    let Some(path) = &settings.call.against else { return Ok(None) };
    let read = whole::read(path, settings.gpus.as_deref())?;
    let unit = read.run.verdict().map(|(verdict, _)| verdict.steps.unit).unwrap_or_default();
    if read.run.steps.mean_s().is_none() {
        return Err(Failure::failed(format!(
            "--against {}: no steps were counted in that run: record one that trains",
            path.display()
        ))
        .into());
    }
    Ok(Some(Before::new(EarlierRun { steps: read.run.steps, unit })))
}

/// Shows a trace: one moment, which has its verdict.
pub async fn trace(verdict: Arc<Verdict>, settings: &Settings) -> anyhow::Result<ExitCode> {
    let mut options = AppOptions { may_signal: false, host: String::new(), ..options(settings)? };
    options.layout.page = options.layout.page.or(Some(Page::Profile));
    let target = Target { pid: verdict.pid, command: verdict.command.clone() };
    let job = Job::new(JobKey::default(), target, 1.0, options.limits).recording();
    let tick = Tick { judged: Arc::clone(&verdict), verdict, alive: true, ..Tick::default() };
    show(job, options, settings, JobTicks::Trace(Some(Arc::new(tick))), None).await.map(|_| ExitCode::DONE)
}

/// What the screen is set to: the command line and the configuration over the stored layout over the defaults.
pub fn options(settings: &Settings) -> anyhow::Result<AppOptions> {
    let stored = settings.layout_file.as_deref().map(layout_store::read).unwrap_or_default();
    let layout = settings.layout.or(&stored);
    let environment = |name: &str| std::env::var(name).ok();
    let theme = Theme::detect(!settings.color, settings.ascii, environment);
    // NO_COLOR is a wish; what the terminal could show is another question.
    let wishless = |name: &str| if name == "NO_COLOR" { None } else { environment(name) };
    Ok(AppOptions {
        theme,
        depth: Theme::detect(false, settings.ascii, wishless).depth,
        themes: themes::choices(theme.palette, settings.layout.theme.as_ref())?,
        limits: Limits { span: settings.history, ..Limits::default() },
        may_signal: settings.signals && !settings.readonly,
        may_profile: !settings.readonly,
        mouse: layout.mouse.unwrap_or(true),
        low_bandwidth: layout.low_bandwidth.unwrap_or(false),
        zone: zone::local(),
        price: settings.price.clone(),
        host: sysinfo::System::host_name().unwrap_or_default(),
        layout,
    })
}

/// What the terminal is told to do.
pub fn terminal_options(mouse: bool) -> terminal::TerminalOptions {
    terminal::TerminalOptions { mouse, screen: theme::in_screen(|name| std::env::var(name).ok()) }
}

/// Shows a job until the end. A terminal that is gone is an end like any other, and its hang-up may
/// arrive only after a write has failed.
async fn show(
    job: Job,
    options: AppOptions,
    settings: &Settings,
    ticks: JobTicks,
    output: Option<OutputReader>,
) -> anyhow::Result<Option<LastMoment>> {
    let ascii = options.theme.ascii;
    let make = |size| {
        let app = App::new(job, options.clone(), size);
        let (begun, candidates) = (app.layout(), Candidates::new(sources(settings, None)));
        let may_signal = options.may_signal;
        let (restart, profile, played_at) = (Restart::default(), ProfileTaker::default(), Instant::now());
        (app, JobFeed { ticks, candidates, restart, profile, output, settings, may_signal, begun, played_at })
    };
    match screen_loop::run(terminal_options(options.mouse), make).await {
        Ok((terminal, app, ())) => {
            let width = usize::from(terminal.size().0);
            terminal.leave_with(&what_was_learned(&app, settings.price.as_ref(), width, ascii));
            let last = app.jobs().first().and_then(|job| job.archive().latest());
            Ok(last.map(|moment| (Arc::clone(&moment.frame), Arc::clone(&moment.verdict))))
        }
        Err(error) if error.downcast_ref::<io::Error>().is_some_and(is_gone) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whether the terminal has been closed: writing to it then fails with EIO, and asking for its modes with ENXIO or ENOTTY.
/// trainmon asks on the SIGCONT that comes with a hang-up.
fn is_gone(error: &io::Error) -> bool {
    use rustix::io::Errno;
    matches!(Errno::from_io_error(error), Some(Errno::IO | Errno::NXIO | Errno::NOTTY))
}

/// Where the ticks come from.
enum JobTicks {
    Live(AttachedJobs),
    Recorded(Box<Player>),
    /// Until its one moment is taken.
    Trace(Option<Arc<Tick>>),
}

impl JobTicks {
    /// The next ticks. Cancel safe.
    async fn next(&mut self) -> Vec<Message> {
        match self {
            Self::Live(jobs) => {
                let (key, tick) = jobs.next().await;
                let over = jobs.is_over().then_some(Message::Quit);
                [Message::Job(key, JobEvent::Tick(tick))].into_iter().chain(over).collect()
            }
            Self::Recorded(player) => {
                player.next().await.into_iter().map(|event| Message::Job(JobKey::default(), event)).collect()
            }
            Self::Trace(tick) => match tick.take() {
                Some(tick) => [JobEvent::Tick(tick), JobEvent::Loaded(None)]
                    .map(|event| Message::Job(JobKey::default(), event))
                    .into(),
                None => std::future::pending().await,
            },
        }
    }
}

/// What the screen of jobs is fed with, and what may be done from it.
struct JobFeed<'s> {
    ticks: JobTicks,
    candidates: Candidates,
    restart: Restart,
    profile: ProfileTaker<JobKey, Arc<ProfileAccount>>,
    output: Option<OutputReader>,
    settings: &'s Settings,
    may_signal: bool,
    /// How the screen was arranged at first.
    begun: Layout,
    /// When a replay went on last.
    played_at: Instant,
}

impl JobFeed<'_> {
    fn attach(&mut self, pid: u32) -> Message {
        match &mut self.ticks {
            JobTicks::Live(jobs) => match jobs.attach(attach_options(self.settings, pid, None)) {
                Ok((key, target)) => Message::Attached(key, target),
                Err(error) => Message::Notice(errors::sentence(&error)),
            },
            JobTicks::Recorded(_) | JobTicks::Trace(_) => {
                Message::Notice(format!("this is a recording: to watch that process, run trainmon {pid}"))
            }
        }
    }

    /// Attaches to the next run of a job that has ended, once there is one.
    fn restarted(&mut self, list: &[JobCandidate], ended: &Job) -> Vec<Message> {
        let Some(pid) = self.restart.find(list, &ended.target, ended.uid) else { return Vec::new() };
        let attached = self.attach(pid);
        let note = format!("started again as PID {pid}; o lists the runs, the ended one is PID {}", ended.target.pid);
        let note = matches!(attached, Message::Attached(..)).then_some(Message::Notice(note));
        [attached].into_iter().chain(note).collect()
    }

    /// Tells how far a profile is, and hands it to its job, whose next sample has it.
    fn profiled(&mut self, key: JobKey, news: ProfileNews<Arc<ProfileAccount>>) -> Message {
        let taken = match news {
            ProfileNews::Stage(stage) => return Message::ProfileStage(key, stage),
            ProfileNews::Taken(taken) => taken.map_err(|error| profile::why_none(&error)),
        };
        let taken = taken.and_then(|account| {
            let is_watched = match &mut self.ticks {
                JobTicks::Live(jobs) => jobs.profiled(key, account),
                JobTicks::Recorded(_) | JobTicks::Trace(_) => false,
            };
            if is_watched { Ok(()) } else { Err("the profile is taken, but its job has ended".to_owned()) }
        });
        Message::Profile(key, taken)
    }
}

impl screen_loop::Feed for JobFeed<'_> {
    type Outcome = ();

    async fn next(&mut self, app: &App) -> Vec<Message> {
        let needs = app.needs();
        let ended = app.ended();
        self.restart.wait_for(ended.map(|job| job.key));
        let for_restart = ended.map(|_| polling::FOR_A_RESTART);
        self.candidates.want(if needs.candidates { Some(polling::FOR_A_LIST) } else { for_restart });
        if let JobTicks::Live(jobs) = &mut self.ticks {
            jobs.want(needs, app.job().key);
        }
        let due = app.job().due_s();
        if due.is_none() {
            self.played_at = Instant::now();
        }
        // Keys and what is still being read of a recording come in between: the wait does not begin anew with each.
        let left = due.map(|due| due - self.played_at.elapsed().as_secs_f64());
        tokio::select! {
            biased;
            messages = self.ticks.next() => messages,
            list = self.candidates.next() => match ended {
                Some(ended) => self.restarted(&list, ended),
                None => vec![Message::Candidates(list)],
            },
            (key, news) = self.profile.next() => vec![self.profiled(key, news)],
            tail = written(self.output.as_mut()) => vec![Message::Output(tail)],
            () = wait(left) => {
                let seconds = self.played_at.elapsed().as_secs_f64();
                self.played_at = Instant::now();
                vec![Message::Advance(seconds)]
            }
        }
    }

    fn act(&mut self, app: &mut App, effect: Effect) -> anyhow::Result<ControlFlow<(), Vec<Effect>>> {
        let proc_root = &self.settings.proc_root;
        let message = match effect {
            Effect::Quit => {
                // The layout of a replay says nothing about how live jobs are to be shown.
                if let (JobTicks::Live(_), Some(file)) = (&self.ticks, &self.settings.layout_file) {
                    layout_store::write(file, &app.layout().changed_since(&self.begun));
                }
                return Ok(ControlFlow::Break(()));
            }
            Effect::Save(export) => Message::Notice(save(app, export)),
            // The screen does not ask for it where signals are off; that they stay off does not rest on it.
            Effect::Signal(process, signal) if self.may_signal => {
                Message::Notice(actions::signal(proc_root, process, signal))
            }
            Effect::Attach(pid) => self.attach(pid),
            Effect::Profile(key, processes) if !self.settings.readonly => {
                let proc_root = proc_root.clone();
                self.profile.begin(key, move |asker| profile::of_processes(&proc_root, &processes, asker));
                return Ok(ControlFlow::Continue(Vec::new()));
            }
            Effect::GiveUpProfile => {
                self.profile.give_up();
                return Ok(ControlFlow::Continue(Vec::new()));
            }
            Effect::Detach(key) => {
                self.profile.give_up_of(key);
                if let JobTicks::Live(jobs) = &mut self.ticks {
                    jobs.detach(key);
                }
                return Ok(ControlFlow::Continue(Vec::new()));
            }
            _ => return Ok(ControlFlow::Continue(Vec::new())),
        };
        Ok(ControlFlow::Continue(app.update(message)))
    }
}

/// The last verdict of each job with its run summed up, in lines of at most `width` cells: what stays in the scrollback. A terminal
/// too narrow for words gets nothing.
fn what_was_learned(app: &App, price: Option<&Price>, width: usize, ascii: bool) -> Vec<String> {
    let mut lines = Vec::new();
    if width < SUMMARY_WIDTH {
        return lines;
    }
    let zone = zone::local();
    for job in app.jobs() {
        let Some(verdict) = job.latest_verdict() else { continue };
        if app.jobs().len() > 1 {
            lines.push(text::fit(&format!("PID {} {}", job.target.pid, job.target.command), width));
        }
        lines.push(trainmon_views::report::headline(verdict));
        for (_, line) in job.summary().iter().flat_map(|run| totals::lines(run, &zone, price)) {
            lines.extend(text::wrap(&line, width.saturating_sub(2)).into_iter().map(|line| format!("  {line}")));
        }
    }
    if ascii {
        lines.iter_mut().for_each(|line| *line = line.chars().map(theme::ascii).collect());
    }
    lines
}

/// What is saved.
///
/// # Errors
/// There is no verdict, or it cannot be written as JSON.
pub fn saved(app: &App, export: Export) -> anyhow::Result<String> {
    let verdict = || app.job().verdict().context("no verdict to save yet");
    Ok(match export {
        Export::Markdown => markdown::markdown(verdict()?),
        Export::Json => {
            let mut bytes = Vec::new();
            json::pretty(&mut bytes, verdict()?)?;
            String::from_utf8(bytes)?
        }
    })
}

/// Writes a file of this kind into the working directory, under a name of its own.
fn save(app: &App, export: Export) -> String {
    let text = match saved(app, export) {
        Ok(text) => text,
        Err(error) => return error.to_string(),
    };
    let pid = app.job().target.pid;
    let stamp = zone::now().strftime("%Y%m%d-%H%M%S").to_string();
    let name = format!("trainmon-{pid}-{stamp}.{}", export.word());
    // Half a file is useless: it gets its name once it is complete. Only its owner may read it.
    let made = tempfile::Builder::new().prefix(".trainmon-").tempfile_in(".");
    let written = made.and_then(|mut file| {
        file.as_file_mut().write_all(text.as_bytes())?;
        Ok(file.persist_noclobber(&name)?)
    });
    match written {
        Ok(_) => format!("saved {name}"),
        Err(error) if matches!(error.kind(), ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem) => {
            let why = errors::without_number(&error).to_lowercase();
            format!("cannot write {name}: {why}; start trainmon in a directory where you may write")
        }
        Err(error) => format!("cannot write {name}: {}", errors::without_number(&error).to_lowercase()),
    }
}

/// The last lines that the program wrote, once there are more; for ever where there is no program of ours. Cancel safe.
async fn written(output: Option<&mut OutputReader>) -> OutputTail {
    match output {
        Some(output) => output.next().await,
        None => std::future::pending().await,
    }
}

/// Waits for so many seconds, for ever where none are given. Cancel safe.
async fn wait(seconds: Option<f64>) {
    match seconds {
        Some(seconds) if seconds <= 0.0 => {}
        Some(seconds) => tokio::time::sleep(Duration::from_secs_f64(seconds.clamp(0.0, 60.0))).await,
        None => std::future::pending().await,
    }
}
