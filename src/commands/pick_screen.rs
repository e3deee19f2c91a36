//! `trainmon` without a PID on a terminal: the processes that may be training as a first screen.

use crossterm::event::EventStream;
use rustix::process::Signal;
use tokio::signal::unix::{SignalKind, signal};
use tokio_stream::StreamExt;

use super::candidates::Candidates;
use super::pick::nothing_chosen;
use super::screen;
use super::session::{Ending, Session};
use crate::config::Settings;
use crate::tui::picker::Picker;
use crate::tui::{Effect, Message, Terminal};

/// Shows the list until a process is chosen that can be attached to: its session and PID. One that cannot be attached
/// to is told in a line, and the list stays.
///
/// # Errors
/// A usage failure when nothing is chosen; one line when the terminal cannot be used.
pub async fn run(settings: &Settings) -> anyhow::Result<(Session, u32)> {
    let mut ending = Ending::listen()?;
    let mut continued = signal(SignalKind::from_raw(Signal::CONT.as_raw()))?;
    let options = screen::options(settings)?;
    let mut terminal = Terminal::enter(screen::terminal_options(options.mouse))?;
    let mut picker = Picker::new(options.theme);
    let mut candidates = Candidates::new(settings);
    candidates.want(true);
    picker.set_drawn(terminal.draw(|buffer| picker.draw(buffer))?);
    let mut events = EventStream::new();
    loop {
        let effects = tokio::select! {
            biased;
            () = ending.signalled() => picker.update(Message::Quit),
            _ = continued.recv() => {
                terminal.resumed()?;
                vec![Effect::Repaint]
            }
            event = events.next() => match event {
                Some(Ok(event)) => Message::of_event(event).map_or_else(Vec::new, |message| picker.update(message)),
                Some(Err(_)) | None => picker.update(Message::Quit),
            },
            list = candidates.next() => picker.update(Message::Candidates(list)),
        };
        for effect in &effects {
            match effect {
                Effect::Quit => return Err(nothing_chosen().into()),
                Effect::Repaint => terminal.repaint(),
                Effect::Suspend => {
                    // The stream's own thread must not read the shell's input meanwhile.
                    drop(events);
                    terminal.suspend()?;
                    events = EventStream::new();
                }
                Effect::Attach(pid) => match Session::attach(settings, *pid, None) {
                    Ok(session) => return Ok((session, *pid)),
                    Err(error) => {
                        picker.update(Message::Notice(format!("{error:#}")));
                    }
                },
                _ => {}
            }
        }
        if !effects.is_empty() {
            picker.set_drawn(terminal.draw(|buffer| picker.draw(buffer))?);
        }
    }
}
