//! `--log`: one CSV row per interval, without a screen.

use std::path::Path;
use std::sync::Arc;

use super::LastMoment;
use trainmon_attach::jobs::session::{EndSignals, Reopening, Session, block_on};
use trainmon_base::errors;
use trainmon_diagnosis::pipeline::Tick;
use trainmon_outputs::csv::CsvLog;
use trainmon_outputs::log;
use trainmon_outputs::log::{Existing, LogOut};
use trainmon_sample::SourceState;
use trainmon_views::report::headline;

/// Writes rows until the target ends, the time is over, or one of the signals comes that `listen` begins to listen to. The
/// last row is whole, unless the reader of a pipe has stalled when a signal comes. Gives the last moment that has a row.
pub fn run(
    session: Session,
    path: &Path,
    existing: Existing,
    listen: impl FnOnce() -> std::io::Result<(EndSignals, Reopening)>,
) -> anyhow::Result<Option<LastMoment>> {
    let rows = block_on(async {
        // Before there is a file: a signal may come as soon as there is one.
        let listening = listen()?;
        let (log, note) = log::open(path, existing)?;
        note.iter().for_each(|note| errors::note(note));
        let mut rows = LogRows::new(log);
        super::each_tick(session, listening, None, |tick| match tick {
            Some(tick) => rows.take(tick),
            None => rows.follow(),
        })
        .await?;
        rows.write()?;
        Ok(rows)
    })?;
    // On standard output the log itself is what is wanted, and nothing else.
    if let (Some(tick), false) = (&rows.last, rows.log.out.is_stdout()) {
        let ended = if tick.alive { "" } else { "; the job has ended" };
        let counts = (rows.count, rows.elsewhere);
        let written = super::written(&rows.log.out, ["row", "rows", "written"], counts, "");
        errors::note(&format!("{written}; {}{ended}", headline(&tick.judged)));
    }
    Ok(rows.last.map(|tick| (Arc::clone(&tick.frame), Arc::clone(&tick.verdict))))
}

/// The rows of a log.
#[derive(Debug)]
pub struct LogRows {
    log: CsvLog<LogOut>,
    /// The first row fixes the GPUs of the columns, so rows wait for the driver's first answer, which may take seconds
    /// without persistence mode; a driver that hangs is not waited for.
    waiting: Vec<Arc<Tick>>,
    count: u64,
    /// Rows that were written before the present file was begun.
    elsewhere: u64,
    last: Option<Arc<Tick>>,
}

impl LogRows {
    /// No rows yet.
    pub fn new(log: CsvLog<LogOut>) -> Self {
        Self { log, waiting: Vec::new(), count: 0, elsewhere: 0, last: None }
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
            let written = self.log.write(&tick);
            written.map_err(|error| self.log.out.cannot_write(error))?;
        }
        Ok(())
    }

    /// Goes on in a new file, and says so, where something else has taken the log away.
    pub fn follow(&mut self) -> anyhow::Result<()> {
        if let Some(note) = self.log.follow()? {
            self.elsewhere = self.count - self.waiting.len() as u64;
            errors::note(&note);
        }
        Ok(())
    }
}
