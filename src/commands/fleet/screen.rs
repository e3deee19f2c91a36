//! The screen of `trainmon fleet`: asks again and again, and shows the newest answer.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::cli::FLEET_INTERVAL_MIN;
use crate::commands::{screen, screen_loop};
use crate::config::Settings;
use trainmon_base::errors::{self, ExitCode};
use trainmon_base::text::format::duration;
use trainmon_diagnosis::fleet::Fleet;
use trainmon_serve::prometheus::Asker;
use trainmon_tui::{App, Effect, Message};

/// Time between two questions unless the user says otherwise: how often machines are usually scraped.
const EVERY: Duration = Duration::from_secs(15);

/// Shows the table until the user leaves.
pub(super) async fn run(settings: &Settings, asker: Asker) -> anyhow::Result<ExitCode> {
    let options = screen::options(settings)?;
    let every = if settings.interval < FLEET_INTERVAL_MIN { EVERY } else { settings.interval };
    let feed = FleetFeed { asker, every, due: Instant::now(), asking: None, answered: None };
    let terminal = screen::terminal_options(options.mouse);
    screen_loop::run(terminal, |size| (App::fleet(options, size), feed)).await?;
    Ok(ExitCode::DONE)
}

struct FleetFeed {
    asker: Asker,
    every: Duration,
    /// When to ask next.
    due: Instant,
    asking: Option<JoinHandle<anyhow::Result<Fleet>>>,
    /// When the newest answer came.
    answered: Option<Instant>,
}

impl screen_loop::Feed for FleetFeed {
    type Outcome = ();

    async fn next(&mut self, _app: &App) -> Vec<Message> {
        let asking = match &mut self.asking {
            Some(asking) => asking,
            None => {
                tokio::time::sleep_until(self.due).await;
                let asker = self.asker.clone();
                self.asking.insert(tokio::spawn(async move { asker.ask().await }))
            }
        };
        let answer = asking.await;
        self.asking = None;
        self.due = Instant::now() + self.every;
        let answer = answer.map_err(anyhow::Error::from).and_then(|answer| answer);
        let message = answer.map(Arc::new).map_err(|error| {
            let age =
                self.answered.map(|when| format!("; the table is {} old", duration(when.elapsed().as_secs_f64())));
            errors::printable(&format!("{}{}", errors::sentence(&error), age.unwrap_or_default()))
        });
        if message.is_ok() {
            self.answered = Some(Instant::now());
        }
        vec![Message::Fleet(message)]
    }

    fn act(&mut self, _app: &mut App, effect: Effect) -> anyhow::Result<ControlFlow<(), Vec<Effect>>> {
        match effect {
            Effect::Quit => return Ok(ControlFlow::Break(())),
            Effect::Refresh => self.due = Instant::now(),
            _ => {}
        }
        Ok(ControlFlow::Continue(Vec::new()))
    }
}
