//! The live screen: the loop between terminal, collector and state.

use std::process::ExitCode;
use std::sync::Arc;

use crossterm::event::EventStream;
use tokio::signal::unix::{SignalKind, signal};
use tokio_stream::StreamExt;

use crate::config::Settings;
use crate::errors::Exit;
use crate::tui::app::Effect;
use crate::tui::{App, Message, Target, Terminal, Theme, format, terminal, views};

use super::session::{Ending, Session};

/// Shows the screen until the user leaves it. When the target ends the screen stays.
///
/// # Errors
/// One line when the terminal cannot be used.
pub async fn run(mut session: Session, settings: &Settings, pid: u32) -> anyhow::Result<ExitCode> {
    let mut ending = Ending::listen()?;
    let mut continued = signal(SignalKind::from_raw(rustix::process::Signal::CONT.as_raw()))?;
    let theme = Theme::detect(!settings.color, settings.ascii, |name| std::env::var(name).ok());
    let mut terminal = Terminal::enter(terminal::Options { mouse: settings.mouse })?;
    let target = Target { pid, command: session.command().to_owned() };
    let mut app = App::new(target, settings.interval.as_secs_f64(), theme, terminal.size());
    terminal.draw(|buffer| views::draw(buffer, &app))?;
    let mut events = EventStream::new();
    let mut ended = false;
    loop {
        let effects = tokio::select! {
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
            tick = session.next(), if !ended => {
                ended = !tick.alive();
                let over = tick.frame.seconds > 0.0 && session.is_over();
                take(&mut app, &mut session, tick, pid, over)
            }
        };
        for effect in &effects {
            match effect {
                Effect::Quit => {
                    drop(terminal);
                    if let Some(verdict) = app.latest_verdict() {
                        // What was learned stays in the scrollback.
                        println!("{}", crate::outputs::text::headline(verdict));
                    }
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
                Effect::Copy(text) => terminal.copy(text)?,
            }
        }
        if !effects.is_empty() {
            terminal.draw(|buffer| views::draw(buffer, &app))?;
        }
    }
}

fn take(app: &mut App, session: &mut Session, tick: super::session::Tick, pid: u32, over: bool) -> Vec<Effect> {
    let alive = tick.alive();
    let age = tick.frame.job.age_s;
    let mut effects = app.update(Message::Sources(Box::new(tick.sample.sources.clone())));
    effects.extend(app.update(Message::Frame(Box::new(tick.frame))));
    // The run's last verdict stays on the screen: it says more than that the process has ended.
    if alive || app.latest_verdict().is_none() {
        let verdict = session.judge(app.history(), &tick.sample);
        effects.extend(app.update(Message::Verdict(Arc::new(verdict))));
    }
    if !alive {
        let after = age.map_or_else(String::new, |age| format!(" after {}", format::duration(age)));
        effects.extend(app.update(Message::TargetEnded { text: format!("process {pid} ended{after}") }));
    }
    if over {
        effects.extend(app.update(Message::Quit));
    }
    effects
}
