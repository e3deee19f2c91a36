//! The live screen: the loop between terminal, collectors and state.

use std::io;
use std::process::ExitCode;
use std::time::Instant;

use crossterm::event::EventStream;
use tokio::signal::unix::{SignalKind, signal};
use tokio_stream::StreamExt;

use crate::config::{Settings, layout_store, themes};
use crate::errors::Exit;
use crate::history::archive::Limits;
use crate::text;
use crate::tui::{self, App, Effect, Job, JobKey, Message, Options, Target, Terminal, Theme, terminal, theme};

use super::candidates::Candidates;
use super::playing::Player;
use super::session::{Ending, Session};
use super::watching::Watching;
use super::{deeds, watching};

/// Shows the screen until the user leaves it. When the target ends the screen stays.
///
/// # Errors
/// One line when the terminal cannot be used.
pub async fn run(session: Session, settings: &Settings, pid: u32) -> anyhow::Result<ExitCode> {
    let target = Target { pid, command: session.command().to_owned() };
    let options = options(settings)?;
    let job = Job::new(JobKey::default(), target, settings.interval.as_secs_f64(), options.limits);
    show(job, options, settings, Feed::Live(Watching::new(session, pid))).await
}

/// Shows a recording.
///
/// # Errors
/// One line when the terminal cannot be used.
pub async fn replay(player: Player, settings: &Settings) -> anyhow::Result<ExitCode> {
    let options = Options { may_signal: false, limits: super::playing::LIMITS, ..options(settings)? };
    let header = player.header();
    let target = Target { pid: header.pid, command: header.command.clone() };
    let job = Job::new(JobKey::default(), target, header.interval_s, options.limits).recording();
    show(job, options, settings, Feed::Recorded(Box::new(player))).await
}

/// What the screen is set to: the command line and the configuration over what was kept over the defaults.
///
/// # Errors
/// One line when the theme's file cannot be used.
pub fn options(settings: &Settings) -> anyhow::Result<Options> {
    let stored = settings.layout_file.as_deref().map(layout_store::read).unwrap_or_default();
    let layout = settings.layout.or(&stored);
    let environment = |name: &str| std::env::var(name).ok();
    let theme = Theme::detect(!settings.color, settings.ascii, environment);
    // NO_COLOR is a wish; what the terminal could show is another question.
    let wishless = |name: &str| environment(name).filter(|_| name != "NO_COLOR");
    Ok(Options {
        theme,
        depth: Theme::detect(false, settings.ascii, wishless).depth,
        themes: themes::choices(theme.palette, settings.layout.theme.as_ref())?,
        keymap: settings.keymap.clone(),
        limits: Limits { span: settings.history, ..Limits::default() },
        may_signal: settings.signals && !settings.readonly,
        mouse: layout.mouse.unwrap_or(true),
        low_bandwidth: layout.low_bandwidth.unwrap_or(false),
        zone: jiff::tz::TimeZone::system(),
        layout,
    })
}

/// What the terminal is told to do.
pub fn terminal_options(mouse: bool) -> terminal::Options {
    terminal::Options { mouse, screen: theme::in_screen(|name| std::env::var(name).ok()) }
}

/// Where the news come from.
enum Feed {
    Live(Watching),
    Recorded(Box<Player>),
}

impl Feed {
    /// The next news of a job, taken in. Cancel safe.
    async fn next(&mut self) -> watching::Arrived<'_> {
        match self {
            Self::Live(watching) => watching.next().await,
            Self::Recorded(player) => player.next().await,
        }
    }
}

/// Shows a job until the end. A terminal that is gone is an end like any other: nobody is left to show anything to, and
/// its hang-up may reach us only after a write has failed.
async fn show(job: Job, options: Options, settings: &Settings, feed: Feed) -> anyhow::Result<ExitCode> {
    match run_loop(job, options, settings, feed).await {
        Err(error) if error.downcast_ref::<io::Error>().is_some_and(is_gone) => Ok(Exit::Done.into()),
        result => result,
    }
}

/// Whether the terminal has been closed: the kernel answers EIO to who writes to it then, and ENXIO or ENOTTY to who asks
/// for its modes, as we do on the SIGCONT that comes with a hang-up.
fn is_gone(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let gone = [Errno::IO, Errno::NXIO, Errno::NOTTY].map(|errno| Some(errno.raw_os_error()));
    gone.contains(&error.raw_os_error())
}

/// A terminal that takes nothing just now is no reason to end.
fn unless_stalled(written: io::Result<()>) -> io::Result<()> {
    written.or_else(|error| if error.kind() == io::ErrorKind::TimedOut { Ok(()) } else { Err(error) })
}

async fn run_loop(job: Job, options: Options, settings: &Settings, mut feed: Feed) -> anyhow::Result<ExitCode> {
    let mut ending = Ending::listen()?;
    let mut continued = signal(SignalKind::from_raw(rustix::process::Signal::CONT.as_raw()))?;
    let (ascii, may_signal) = (options.theme.ascii, options.may_signal);
    let mut terminal = Terminal::enter(terminal_options(options.mouse))?;
    let mut app = App::new(job, options, terminal.size());
    let begun = app.layout();
    app.set_drawn(terminal.draw(|buffer| tui::draw(buffer, &app))?);
    let mut events = EventStream::new();
    let mut candidates = Candidates::new(settings);
    let mut played_at = Instant::now();
    loop {
        // Signals are heard by the runtime, which must have its turn while keys or frames come faster than they are drawn.
        tokio::task::yield_now().await;
        let due = app.due_s();
        if due.is_none() {
            played_at = Instant::now();
        }
        // Keys and what is still being read of a recording come in between: the wait does not begin anew with each.
        let left = due.map(|due| due - played_at.elapsed().as_secs_f64());
        let mut effects = tokio::select! {
            biased;
            () = ending.signalled() => app.update(Message::Quit),
            _ = continued.recv() => {
                terminal.resumed()?;
                vec![Effect::Repaint]
            }
            event = events.next() => match event {
                Some(Ok(event)) => Message::of_event(event).map_or_else(Vec::new, |message| app.update(message)),
                // The terminal has gone: nobody is left to show anything to.
                Some(Err(_)) | None => app.update(Message::Quit),
            },
            arrived = feed.next() => arrived.tell(&mut app),
            list = candidates.next() => app.update(Message::Candidates(list)),
            () = wait(left) => {
                let seconds = played_at.elapsed().as_secs_f64();
                played_at = Instant::now();
                app.update(Message::Advance(seconds))
            }
        };
        let mut next = 0;
        while let Some(effect) = effects.get(next).cloned() {
            next += 1;
            match effect {
                Effect::Quit => {
                    let width = usize::from(terminal.size().0);
                    // How somebody's recording was looked at says nothing about how runs are watched.
                    if let (Feed::Live(_), Some(file)) = (&feed, &settings.layout_file) {
                        layout_store::write(file, &app.layout().changed_since(&begun));
                    }
                    terminal.leave_with(&what_was_learned(&app, width, ascii));
                    return Ok(Exit::Done.into());
                }
                Effect::Redraw => {}
                Effect::Repaint => terminal.repaint(),
                Effect::Suspend => {
                    // The stream's own thread must not read the shell's input meanwhile.
                    drop(events);
                    terminal.suspend()?;
                    events = EventStream::new();
                }
                Effect::Copy(text) => unless_stalled(terminal.copy(&text))?,
                Effect::Mouse(on) => unless_stalled(terminal.mouse(on))?,
                Effect::Save(export, text) => {
                    effects.extend(app.update(Message::Notice(deeds::save(app.job().target.pid, export, &text))));
                }
                // The screen asks for neither where they are off; that they stay off does not rest on it.
                Effect::Signal(..) | Effect::Renice(..) if !may_signal => {}
                Effect::Signal(process, signal) => {
                    let text = deeds::signal(&settings.proc_root, process, signal);
                    effects.extend(app.update(Message::Notice(text)));
                }
                Effect::Renice(process, nice) => {
                    let text = deeds::renice(&settings.proc_root, process, nice);
                    effects.extend(app.update(Message::Notice(text)));
                }
                Effect::Attach(pid) => {
                    let message = match &mut feed {
                        Feed::Live(watching) => watching.attach(settings, pid),
                        Feed::Recorded(_) => Message::Notice(format!(
                            "a recording is shown: trainmon --pid {pid} watches that process"
                        )),
                    };
                    effects.extend(app.update(message));
                }
                Effect::Detach(key) => {
                    if let Feed::Live(watching) = &mut feed {
                        watching.detach(key);
                    }
                }
            }
        }
        candidates.want(app.needs().candidates);
        if let Feed::Live(watching) = &mut feed {
            watching.want(&app);
        }
        if !effects.is_empty() {
            app.set_drawn(terminal.draw(|buffer| tui::draw(buffer, &app))?);
        }
    }
}

/// The last verdict of each job with its run summed up, in lines of at most `width` cells: what stays in the scrollback.
fn what_was_learned(app: &App, width: usize, ascii: bool) -> Vec<String> {
    let mut lines = Vec::new();
    let zone = jiff::tz::TimeZone::system();
    for job in app.jobs() {
        let Some(verdict) = job.latest_verdict() else { continue };
        if app.jobs().len() > 1 {
            lines.push(text::fit(&format!("PID {} {}", job.target.pid, job.target.command), width));
        }
        lines.push(crate::outputs::text::headline(verdict));
        for line in job.summary().iter().flat_map(|summary| summary.lines(&zone)) {
            lines.extend(text::wrap(&line, width.saturating_sub(2)).into_iter().map(|line| format!("  {line}")));
        }
    }
    if ascii {
        lines.iter_mut().for_each(|line| *line = line.chars().map(theme::ascii).collect());
    }
    lines
}

/// Waits for so many seconds, for ever where none are given. Cancel safe.
async fn wait(seconds: Option<f64>) {
    match seconds {
        Some(seconds) if seconds <= 0.0 => {}
        Some(seconds) => tokio::time::sleep(std::time::Duration::from_secs_f64(seconds.clamp(0.0, 60.0))).await,
        None => std::future::pending().await,
    }
}
