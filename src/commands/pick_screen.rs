//! `trainmon` without a PID on a terminal: the processes that may be training as a first screen.

use std::ops::ControlFlow;

use ratatui::buffer::Buffer;

use super::pick::nothing_chosen;
use super::{attach_options, places, screen, screen_loop};
use crate::config::Settings;
use trainmon_attach::jobs::candidates::polling::Candidates;
use trainmon_attach::jobs::session::Session;
use trainmon_base::errors;
use trainmon_tui::{self as tui, App, Effect, Message};

/// Shows the list until a process is chosen that can be attached to; leaving it without a choice is a usage failure. A process
/// that cannot be attached to gets one line, and the list stays.
pub async fn run(settings: &Settings) -> anyhow::Result<Session> {
    let options = screen::options(settings)?;
    let mouse = options.mouse;
    let mut candidates = Candidates::new(places(settings));
    candidates.want(true);
    let make = |size| PickScreen { app: App::picker(options, size), candidates, settings };
    let (.., session) = screen_loop::run(screen::terminal_options(mouse), make).await?;
    Ok(session)
}

struct PickScreen<'s> {
    app: App,
    candidates: Candidates,
    settings: &'s Settings,
}

impl screen_loop::Screen for PickScreen<'_> {
    type Outcome = Session;

    async fn next(&mut self) -> Vec<Message> {
        vec![Message::Candidates(self.candidates.next().await)]
    }

    fn update(&mut self, message: Message) -> Vec<Effect> {
        self.app.update(message)
    }

    fn act(&mut self, effect: Effect) -> anyhow::Result<ControlFlow<Session, Vec<Effect>>> {
        match effect {
            Effect::Quit => return Err(nothing_chosen().into()),
            Effect::Attach(pid) => match Session::attach(attach_options(self.settings, pid, None)) {
                Ok(session) => return Ok(ControlFlow::Break(session)),
                Err(error) => {
                    self.app.update(Message::Notice(errors::sentence(&error)));
                }
            },
            _ => {}
        }
        Ok(ControlFlow::Continue(Vec::new()))
    }

    fn draw(&mut self, buffer: &mut Buffer) {
        let drawn = tui::draw(buffer, &self.app);
        self.app.set_drawn(drawn);
    }
}
