//! `--log`: one CSV row per interval, without a screen.

use std::sync::Arc;

use crate::errors::{self, ExitCode};
use crate::jobs::session::{EndSignals, Reopening, Session, block_on};
use crate::outputs::csv::CsvLog;
use crate::outputs::log::{LogOut, LogSettings};
use crate::outputs::{log, text};
use crate::pipeline::Tick;
use crate::sample::SourceState;

/// Writes rows until the target ends, the time is over, or one of the signals comes that `listen` begins to listen to. The
/// last row is whole, unless the reader of a pipe has stalled when a signal comes.
pub fn run(
    session: Session,
    settings: &LogSettings,
    listen: impl FnOnce() -> std::io::Result<(EndSignals, Reopening)>,
) -> anyhow::Result<ExitCode> {
    let rows = block_on(async {
        // Before there is a file: a signal may come as soon as there is one.
        let listening = listen()?;
        let opened = log::open(settings)?;
        opened.note.iter().for_each(|note| errors::note(note));
        watch(session, LogRows::new(opened.log, settings), listening).await
    })?;
    // On standard output the log itself is what is wanted, and nothing else.
    if let (Some(tick), false) = (&rows.last, settings.path.as_os_str() == "-") {
        let ended = if tick.alive { "" } else { "; the job has ended" };
        let counts = (rows.count, rows.elsewhere);
        let words = ["row", "rows", "written"];
        let written = super::written(rows.log.presence(), &settings.path, words, counts, "");
        errors::note(&format!("{written}; {}{ended}", text::headline(&tick.judged)));
    }
    Ok(ExitCode::DONE)
}

async fn watch<'s>(
    mut session: Session,
    mut rows: LogRows<'s>,
    (mut ending, mut reopening): (EndSignals, Reopening),
) -> anyhow::Result<LogRows<'s>> {
    loop {
        let tick = tokio::select! {
            biased;
            () = ending.signalled() => break,
            () = reopening.asked() => {
                rows.follow()?;
                continue;
            }
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
pub struct LogRows<'s> {
    log: CsvLog<LogOut>,
    settings: &'s LogSettings,
    /// The first row fixes the devices of the columns, so rows wait for the driver's first answer, which may take seconds
    /// without persistence mode; a driver that hangs is not waited for.
    waiting: Vec<Arc<Tick>>,
    count: u64,
    /// Rows that were written before the present file was begun.
    elsewhere: u64,
    last: Option<Arc<Tick>>,
}

impl<'s> LogRows<'s> {
    /// No rows yet.
    #[must_use]
    pub fn new(log: CsvLog<LogOut>, settings: &'s LogSettings) -> Self {
        Self { log, settings, waiting: Vec::new(), count: 0, elsewhere: 0, last: None }
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
        if !self.waiting.is_empty() {
            self.follow()?;
        }
        for tick in self.waiting.drain(..) {
            let written = self.log.write(&tick.frame, &tick.judged);
            written.map_err(|error| log::write_error("log", &self.settings.path, error))?;
        }
        Ok(())
    }

    /// Goes on in a new file, and says so, where something else has taken the log away.
    pub fn follow(&mut self) -> anyhow::Result<()> {
        if let Some(note) = self.log.follow(&self.settings.path)? {
            self.elsewhere = self.count - self.waiting.len() as u64;
            errors::note(&note);
        }
        Ok(())
    }
}
