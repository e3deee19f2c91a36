//! `trainmon` without a PID on a terminal: the processes that may be training as a first screen.

use std::ops::ControlFlow;

use super::pick::nothing_chosen;
use super::{attach_options, screen, screen_loop, sources};
use crate::config::Settings;
use trainmon_attach::jobs::candidates::polling::{self, Candidates};
use trainmon_attach::jobs::session::Session;
use trainmon_base::errors;
use trainmon_tui::{App, Effect, Message};

/// Shows the list until a process is chosen that can be attached to; leaving it without a choice is a usage failure. A process
/// that cannot be attached to gets one line, and the list stays.
pub async fn run(settings: &Settings) -> anyhow::Result<Session> {
    let options = screen::options(settings)?;
    let mouse = options.mouse;
    let mut candidates = Candidates::new(sources(settings, None));
    candidates.want(Some(polling::FOR_A_LIST));
    let make = |size| (App::picker(options, size), PickFeed { candidates, settings });
    let (.., session) = screen_loop::run(screen::terminal_options(mouse), make).await?;
    Ok(session)
}

struct PickFeed<'s> {
    candidates: Candidates,
    settings: &'s Settings,
}

impl screen_loop::Feed for PickFeed<'_> {
    type Outcome = Session;

    async fn next(&mut self, _app: &App) -> Vec<Message> {
        vec![Message::Candidates(self.candidates.next().await)]
    }

    fn act(&mut self, app: &mut App, effect: Effect) -> anyhow::Result<ControlFlow<Session, Vec<Effect>>> {
        match effect {
            Effect::Quit => return Err(nothing_chosen().into()),
            Effect::Attach(pid) => match Session::attach(attach_options(self.settings, pid, None)) {
                Ok(session) => return Ok(ControlFlow::Break(session)),
                Err(error) => {
                    app.update(Message::Notice(errors::sentence(&error)));
                }
            },
            _ => {}
        }
        Ok(ControlFlow::Continue(Vec::new()))
    }
}
