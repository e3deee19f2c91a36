//! `trainmon fleet`: asks Prometheus for what `trainmon export` has told it of many machines, and shows it in one table.

mod screen;

use std::io::IsTerminal;

use super::live::say_what_to_do;
use crate::cli::FleetArgs;
use crate::config::Settings;
use trainmon_attach::jobs::session::block_on;
use trainmon_base::errors::{ExitCode, Failure};
use trainmon_base::foreground;
use trainmon_serve::prometheus::{AskedServer, Asker};
use trainmon_views::fleet;

/// Shows the table on the screen, or prints it.
pub fn run(settings: &Settings, arguments: &FleetArgs) -> anyhow::Result<ExitCode> {
    let asker = Asker::new(AskedServer {
        url: &arguments.prometheus,
        job: arguments.job.as_deref(),
        window: arguments.window,
        token_file: arguments.token_file.as_deref(),
        ca_file: arguments.ca_file.as_deref(),
        insecure: arguments.insecure,
    })?;
    let print = arguments.once || arguments.json || !std::io::stdout().is_terminal();
    if !print {
        foreground::wait(say_what_to_do).map_err(|error| Failure::usage(format!("{error}: use --once")))?;
    }
    block_on(async {
        if !print {
            return screen::run(settings, asker).await;
        }
        let mut fleet = asker.ask().await?;
        if arguments.json {
            fleet.price = settings.price.as_ref().map(ToString::to_string);
            super::print_json(&fleet)
        } else {
            let mut text = fleet::text(&fleet, settings.price.as_ref());
            if settings.ascii {
                text = text.chars().map(|c| if c == '\n' { c } else { trainmon_tui::theme::ascii(c) }).collect();
            }
            super::print(text)
        }
    })
}
