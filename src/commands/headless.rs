//! `--log`: one CSV row per interval, without a screen.

use std::process::ExitCode;

use crate::errors::Exit;
use crate::history::History;
use crate::outputs::csv::Summary;
use crate::outputs::log::LogSettings;
use crate::outputs::{log, text};
use crate::rates::Frame;
use crate::sample::SourceState;

use super::session::{Ending, Session};

/// Writes rows until the target ends, the time is over, or a signal comes. The last row is whole in every case.
///
/// # Errors
/// One line when the log cannot be written.
pub async fn run(mut session: Session, mut opened: log::Opened, settings: &LogSettings) -> anyhow::Result<ExitCode> {
    let mut ending = Ending::listen()?;
    if let Some(note) = &opened.note {
        eprintln!("trainmon: {note}");
    }
    let mut history = History::default();
    let (mut rows, mut last) = (0_u64, None);
    // The first row fixes the devices of the columns, so rows wait for the driver's first answer, which may take
    // seconds without persistence mode; a driver that hangs is not waited for.
    let mut held: Vec<(Frame, Summary)> = Vec::new();
    loop {
        let tick = tokio::select! {
            biased;
            () = ending.signalled() => break,
            tick = session.next() => tick,
        };
        let alive = tick.alive();
        // The first frame has no length and no rates: it only starts the clock.
        let first = tick.frame.seconds <= 0.0;
        history.push(tick.frame);
        let verdict = session.judge(&history, &tick.sample);
        let mut over = !alive;
        if let (Some(frame), false) = (history.latest(), first && alive) {
            held.push((frame.clone(), Summary::from(&verdict)));
            rows += 1;
            last = Some(verdict);
            over |= session.is_over();
        }
        if over || tick.sample.sources.gpu.state != SourceState::Pending {
            write(&mut opened, &mut held, settings)?;
        }
        if over {
            break;
        }
    }
    write(&mut opened, &mut held, settings)?;
    // On standard output the log itself is what is wanted, and nothing else.
    if let (Some(verdict), false) = (last, settings.path.as_os_str() == "-") {
        let plural = if rows == 1 { "" } else { "s" };
        eprintln!("trainmon: {rows} row{plural} in {}; {}", settings.path.display(), text::headline(&verdict));
    }
    Ok(Exit::Done.into())
}

fn write(opened: &mut log::Opened, held: &mut Vec<(Frame, Summary)>, settings: &LogSettings) -> anyhow::Result<()> {
    for (frame, summary) in held.drain(..) {
        opened.log.write(&frame, &summary).map_err(|error| log::write_error(&settings.path, error))?;
    }
    Ok(())
}
