//! `--log`: one CSV row per interval, without a screen.

use std::sync::Arc;

use crate::errors::{Exit, ExitCode};
use crate::jobs::session::{Ending, Session, block_on};
use crate::outputs::csv::CsvLog;
use crate::outputs::log::{LogOut, LogSettings};
use crate::outputs::{log, text};
use crate::pipeline::Tick;
use crate::sample::SourceState;
use crate::tui::labels::counted;

/// Writes rows until the target ends, the time is over, or a signal comes. The last row is whole in every case.
pub fn run(session: Session, settings: &LogSettings) -> anyhow::Result<ExitCode> {
    let opened = log::open(settings)?;
    if let Some(note) = &opened.note {
        crate::errors::note(note);
    }
    let rows = block_on(watch(session, Rows::new(opened.log, settings)))?;
    // On standard output the log itself is what is wanted, and nothing else.
    if let (Some(tick), false) = (&rows.last, settings.path.as_os_str() == "-") {
        let count = counted(rows.count, "row", "rows");
        let ended = if tick.alive { "" } else { "; the job has ended" };
        let headline = text::headline(&tick.judged);
        crate::errors::note(&format!("{count} in {}; {headline}{ended}", settings.path.display()));
    }
    Ok(Exit::Done.into())
}

async fn watch(mut session: Session, mut rows: Rows<'_>) -> anyhow::Result<Rows<'_>> {
    let mut ending = Ending::listen()?;
    loop {
        let tick = tokio::select! {
            biased;
            () = ending.signalled() => break,
            tick = session.next() => tick,
        };
        rows.take(tick)?;
        if session.has_ended() || session.is_over() {
            break;
        }
    }
    rows.write()?;
    Ok(rows)
}

/// The rows of a log.
#[derive(Debug)]
pub struct Rows<'s> {
    log: CsvLog<LogOut>,
    settings: &'s LogSettings,
    /// The first row fixes the devices of the columns, so rows wait for the driver's first answer, which may take seconds
    /// without persistence mode; a driver that hangs is not waited for.
    waiting: Vec<Arc<Tick>>,
    count: u64,
    last: Option<Arc<Tick>>,
}

impl<'s> Rows<'s> {
    /// No rows yet.
    #[must_use]
    pub fn new(log: CsvLog<LogOut>, settings: &'s LogSettings) -> Self {
        Self { log, settings, waiting: Vec::new(), count: 0, last: None }
    }

    /// Takes in the next tick: its row is written, or waits.
    pub fn take(&mut self, tick: Arc<Tick>) -> anyhow::Result<()> {
        let pending = tick.sample.sources.gpu.state == SourceState::Pending;
        // The first frame has no length and no rates: it only starts the clock.
        if tick.frame.seconds > 0.0 || !tick.alive {
            self.count += 1;
            self.waiting.push(Arc::clone(&tick));
            self.last = Some(tick);
        }
        if pending { Ok(()) } else { self.write() }
    }

    /// Writes the rows that wait.
    pub fn write(&mut self) -> anyhow::Result<()> {
        for tick in self.waiting.drain(..) {
            let written = self.log.write(&tick.frame, &tick.judged);
            written.map_err(|error| log::write_error("log", &self.settings.path, error))?;
        }
        Ok(())
    }
}
