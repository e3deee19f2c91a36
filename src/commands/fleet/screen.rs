//! The screen of `trainmon fleet`: asks again and again, and shows the newest answer.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use ratatui::buffer::Buffer;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::cli::FLEET_INTERVAL_MIN;
use crate::commands::{screen, screen_loop};
use crate::config::Settings;
use trainmon_base::errors::{self, ExitCode};
use trainmon_base::text::format::duration;
use trainmon_diagnosis::fleet::Fleet;
use trainmon_serve::prometheus::Asker;
use trainmon_tui::fleet::FleetView;
use trainmon_tui::{Effect, Message};

/// Time between two questions unless the user says otherwise: how often machines are usually scraped.
const EVERY: Duration = Duration::from_secs(15);

/// Shows the table until the user leaves.
pub(super) async fn run(settings: &Settings, asker: Asker) -> anyhow::Result<ExitCode> {
    let options = screen::options(settings)?;
    let every = if settings.interval < FLEET_INTERVAL_MIN { EVERY } else { settings.interval };
    let make = |_| FleetScreen {
        view: FleetView::new(options.theme, options.zone, options.price),
        asker,
        every,
        due: Instant::now(),
        asking: None,
        answered: None,
    };
    screen_loop::run(screen::terminal_options(options.mouse), make).await?;
    Ok(ExitCode::DONE)
}

struct FleetScreen {
    view: FleetView,
    asker: Asker,
    every: Duration,
    /// When to ask next.
    due: Instant,
    asking: Option<JoinHandle<anyhow::Result<Fleet>>>,
    /// When the newest answer came.
    answered: Option<Instant>,
}

impl screen_loop::Screen for FleetScreen {
    type Outcome = ();

    async fn next(&mut self) -> Vec<Message> {
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

    fn update(&mut self, message: Message) -> Vec<Effect> {
        self.view.update(message)
    }

    fn act(&mut self, effect: Effect) -> anyhow::Result<ControlFlow<(), Vec<Effect>>> {
        match effect {
            Effect::Quit => return Ok(ControlFlow::Break(())),
            Effect::Refresh => self.due = Instant::now(),
            _ => {}
        }
        Ok(ControlFlow::Continue(Vec::new()))
    }

    fn draw(&mut self, buffer: &mut Buffer) {
        self.view.draw(buffer);
    }
}
