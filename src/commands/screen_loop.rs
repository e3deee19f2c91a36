//! The loop of every screen: what happens to the terminal and beside it goes in as messages, the screen's effects come
//! out and are done, and the picture is drawn when something has changed.

use std::io;
use std::ops::ControlFlow;
use std::time::Duration;

use crossterm::event::{Event, EventStream};
use ratatui::buffer::Buffer;
use rustix::process;
use tokio::signal::unix::{SignalKind, signal};
use tokio_stream::StreamExt;

use crate::collector::why_no_thread;
use crate::errors::Failure;
use crate::jobs::session::EndSignals;
use crate::tui::{Effect, Message, Terminal, terminal};

/// What the loop drives.
pub(super) trait Screen {
    /// What is left when the screen closes.
    type Outcome;

    /// What arrives without a key: ticks, lists, the time of a replay. Cancel safe.
    async fn next(&mut self) -> Vec<Message>;

    /// Takes in what happened and says what is to be done about it.
    fn update(&mut self, message: Message) -> Vec<Effect>;

    /// Does what the terminal has no part in, and says what more is to be done; breaks when the screen closes.
    fn act(&mut self, effect: Effect) -> anyhow::Result<ControlFlow<Self::Outcome, Vec<Effect>>>;

    /// Draws, and keeps what was drawn where.
    fn draw(&mut self, buffer: &mut Buffer);
}

/// Drives a screen on the terminal until it closes, and gives both back with what is left.
///
/// Long because one loop waits for signals, keys and ticks, and what it does about each needs the terminal, the keys and the screen.
pub(super) async fn run<S: Screen>(
    options: terminal::TerminalOptions,
    make: impl FnOnce((u16, u16)) -> S,
) -> anyhow::Result<(Terminal, S, S::Outcome)> {
    // The stream of events starts a thread, and panics (crossterm 0.29) where that fails: the terminal is not touched before.
    let no_thread = |error| Failure::failed(format!("cannot start a thread to read keys: {}", why_no_thread(&error)));
    std::thread::Builder::new().spawn(|| ()).map_err(no_thread)?;
    let mut ending = EndSignals::listen()?;
    let mut continued = signal(SignalKind::from_raw(process::Signal::CONT.as_raw()))?;
    let mut terminal = Terminal::enter(options)?;
    // Opens the terminal for reading. Without it a stream of events does so, and panics (crossterm 0.29) where the terminal
    // has gone meanwhile.
    crossterm::event::poll(Duration::ZERO)?;
    let mut events = EventStream::new();
    let mut screen = make(terminal.size());
    terminal.draw(|buffer| screen.draw(buffer))?;
    loop {
        // Signals are heard by the runtime, which must have its turn while keys or ticks come faster than they are drawn.
        tokio::task::yield_now().await;
        let mut effects = Vec::new();
        let messages = tokio::select! {
            biased;
            () = ending.signalled() => vec![Message::Quit],
            _ = continued.recv() => {
                terminal.resumed()?;
                effects.push(Effect::Repaint);
                Vec::new()
            }
            event = events.next() => match event {
                // The size that the terminal is drawn with: what it claims may be absurd.
                Some(Ok(Event::Resize(..))) => vec![Message::Resize(terminal.size().0, terminal.size().1)],
                Some(Ok(event)) => Message::from_event(event).into_iter().collect(),
                // The terminal has gone.
                Some(Err(_)) | None => vec![Message::Quit],
            },
            messages = screen.next() => messages,
        };
        effects.extend(messages.into_iter().flat_map(|message| screen.update(message)));
        let mut next = 0;
        while let Some(effect) = effects.get(next).cloned() {
            next += 1;
            match effect {
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
                effect => match screen.act(effect)? {
                    ControlFlow::Continue(more) => effects.extend(more),
                    ControlFlow::Break(outcome) => return Ok((terminal, screen, outcome)),
                },
            }
        }
        if !effects.is_empty() {
            terminal.draw(|buffer| screen.draw(buffer))?;
        }
    }
}

/// A terminal that takes nothing just now is no reason to end.
fn unless_stalled(written: io::Result<()>) -> io::Result<()> {
    written.or_else(|error| if error.kind() == io::ErrorKind::TimedOut { Ok(()) } else { Err(error) })
}
