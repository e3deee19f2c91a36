//! The loop of the screen: what happens to the terminal and beside it goes in as messages, the screen's effects come
//! out and are done, and the picture is drawn when something has changed.

use std::io;
use std::ops::ControlFlow;
use std::time::Duration;

use crossterm::event::{Event, EventStream};
use ratatui::buffer::Buffer;
use rustix::process;
use tokio::signal::unix::{SignalKind, signal};
use tokio_stream::StreamExt;

use trainmon_attach::collector::why_no_thread;
use trainmon_attach::jobs::session::EndSignals;
use trainmon_base::errors::Failure;
use trainmon_base::foreground;
use trainmon_tui::{App, Effect, Message, Terminal, terminal};

/// How often to look in the background whether trainmon is in the foreground again: a shell does not always send SIGCONT.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// What the screen is of.
pub(super) trait Feed {
    /// What is left when the screen closes.
    type Outcome;

    /// What arrives without a key: ticks, lists, the time of a replay. Cancel safe.
    async fn next(&mut self, app: &App) -> Vec<Message>;

    /// Does what the terminal has no part in, and says what more is to be done; breaks when the screen closes.
    fn act(&mut self, app: &mut App, effect: Effect) -> anyhow::Result<ControlFlow<Self::Outcome, Vec<Effect>>>;
}

/// Drives the screen on the terminal until it closes, and gives both back with what is left.
///
/// Long because one loop waits for signals, keys and ticks, and what it does about each needs the terminal, the keys and the screen.
pub(super) async fn run<F: Feed>(
    options: terminal::TerminalOptions,
    make: impl FnOnce((u16, u16)) -> (App, F),
) -> anyhow::Result<(Terminal, App, F::Outcome)> {
    // The stream of events starts a thread, and panics (crossterm 0.29) where that fails: the terminal is not touched before.
    let no_thread = |error| Failure::failed(format!("cannot start a thread to read keys: {}", why_no_thread(&error)));
    std::thread::Builder::new().spawn(|| ()).map_err(no_thread)?;
    let mut ending = EndSignals::listen()?;
    let mut continued = signal(SignalKind::from_raw(process::Signal::CONT.as_raw()))?;
    let mut terminal = Terminal::enter(options)?;
    // Opens the terminal for reading. Without it a stream of events does so, and panics (crossterm 0.29) where the terminal
    // has gone meanwhile.
    crossterm::event::poll(Duration::ZERO)?;
    let mut events = None;
    let (mut app, mut feed) = make(terminal.size());
    terminal.draw(|buffer| draw(buffer, &mut app))?;
    loop {
        // Signals are heard by the runtime, which must have its turn while keys or ticks come faster than they are drawn.
        tokio::task::yield_now().await;
        let was_held = terminal.is_held();
        if was_held {
            events.get_or_insert_with(EventStream::new);
        } else {
            // The stream's own thread must not read what is typed for others.
            events = None;
        }
        let mut effects = Vec::new();
        // The size that the terminal is drawn with: what it claims may be absurd.
        let resized = |terminal: &Terminal| Message::Resize(terminal.size().0, terminal.size().1);
        let mut messages = tokio::select! {
            biased;
            () = ending.signalled() => vec![Message::Quit],
            _ = continued.recv() => {
                terminal.resumed()?;
                effects.push(Effect::Repaint);
                vec![resized(&terminal)]
            }
            event = next_event(events.as_mut()) => match event {
                Some(Ok(Event::Resize(..))) => vec![resized(&terminal)],
                Some(Ok(event)) => Message::from_event(event).into_iter().collect(),
                // In the background nothing can be read.
                Some(Err(_)) | None if !foreground::is_ours() => Vec::new(),
                // The terminal has gone.
                Some(Err(_)) | None => vec![Message::Quit],
            },
            messages = feed.next(&app) => messages,
            () = tokio::time::sleep(LOOK_AGAIN), if !was_held => Vec::new(),
        };
        match terminal.settle()? {
            true if !was_held => messages.push(resized(&terminal)),
            // It would wait in vain for the foreground.
            false if !foreground::has_shell() => messages.push(Message::Quit),
            _ => {}
        }
        effects.extend(messages.into_iter().flat_map(|message| app.update(message)));
        let mut next = 0;
        while let Some(effect) = effects.get(next).cloned() {
            next += 1;
            match effect {
                Effect::Redraw => {}
                Effect::Repaint => terminal.repaint(),
                Effect::Suspend => {
                    // The stream's own thread must not read the shell's input meanwhile.
                    events = None;
                    terminal.suspend()?;
                }
                Effect::Copy(text) => unless_stalled(terminal.copy(&text))?,
                Effect::Mouse(on) => unless_stalled(terminal.mouse(on))?,
                effect => match feed.act(&mut app, effect)? {
                    ControlFlow::Continue(more) => effects.extend(more),
                    ControlFlow::Break(outcome) => return Ok((terminal, app, outcome)),
                },
            }
        }
        if !effects.is_empty() {
            terminal.draw(|buffer| draw(buffer, &mut app))?;
        }
    }
}

/// Draws, and keeps what was drawn where.
fn draw(buffer: &mut Buffer, app: &mut App) {
    let drawn = trainmon_tui::draw(buffer, app);
    app.set_drawn(drawn);
}

/// The next key, click or change of size; never one in the background. Cancel safe.
async fn next_event(events: Option<&mut EventStream>) -> Option<io::Result<Event>> {
    match events {
        Some(events) => events.next().await,
        None => std::future::pending().await,
    }
}

/// A terminal that takes nothing just now is no reason to end.
fn unless_stalled(written: io::Result<()>) -> io::Result<()> {
    written.or_else(|error| if error.kind() == io::ErrorKind::TimedOut { Ok(()) } else { Err(error) })
}
