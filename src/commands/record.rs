//! `trainmon record`: every sample into a file, without a screen.

use std::path::Path;

use crate::cli::RecordArgs;
use crate::config::Settings;
use crate::diagnosis::Verdict;
use crate::errors::{Exit, ExitCode};
use crate::jobs::session::{Ending, Session, block_on};
use crate::outputs::{anonymise, log, recording, text};
use crate::sample::recording::{Header, SCHEMA};
use crate::tui::labels::counted;

type Recorder = recording::Recorder<log::LogOut>;

/// Records until the target ends, the time is over, or a signal comes.
pub fn run(settings: &Settings, arguments: &RecordArgs) -> anyhow::Result<ExitCode> {
    let pid = super::pick::target(settings)?;
    let session = Session::attach(super::attach_options(settings, pid, None))?;
    let mut header = Header {
        schema: SCHEMA,
        trainmon: env!("CARGO_PKG_VERSION").to_owned(),
        pid,
        command: session.context().command.clone(),
        started: session.context().started.clone(),
        interval_s: settings.interval.as_secs_f64(),
        gpus: settings.gpus.iter().flatten().map(ToString::to_string).collect(),
    };
    if arguments.anonymise {
        header = anonymise::header(&header);
    }
    let path = &arguments.output;
    let out = log::open_out("recording", path, settings.call.existing())?;
    let recorder = Recorder::new(out, &header).map_err(|error| cannot_write(path, error))?;
    block_on(watch(session, recorder, arguments))
}

async fn watch(mut session: Session, mut recorder: Recorder, arguments: &RecordArgs) -> anyhow::Result<ExitCode> {
    let path = &arguments.output;
    let mut ending = Ending::listen()?;
    let mut last = None;
    while let Some(tick) = session.next_before_end(&mut ending).await {
        let written = if arguments.anonymise {
            recorder.write(&anonymise::sample(&tick.sample))
        } else {
            recorder.write(&tick.sample)
        };
        written.map_err(|error| cannot_write(path, error))?;
        last = Some(tick);
    }
    recorder.flush().map_err(|error| cannot_write(path, error))?;
    // On standard output the recording itself is what is wanted, and nothing else.
    if path.as_os_str() != "-" {
        crate::errors::note(&summary(path, &recorder, last.as_ref().map(|tick| &*tick.verdict)));
    }
    Ok(Exit::Done.into())
}

fn summary(path: &Path, recorder: &Recorder, verdict: Option<&Verdict>) -> String {
    let samples = counted(recorder.samples, "sample", "samples");
    let kib = recorder.bytes.div_ceil(1024);
    let headline = verdict.map_or_else(String::new, |verdict| format!("; {}", text::headline(verdict)));
    format!("{samples} in {} ({kib} KiB){headline}", path.display())
}

fn cannot_write(path: &Path, error: std::io::Error) -> anyhow::Error {
    log::write_error("recording", path, error)
}
