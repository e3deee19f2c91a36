//! `trainmon record`: every sample into a file, without a screen.

use std::io;
use std::sync::Arc;

use crate::cli::RecordArgs;
use crate::config::Settings;
use trainmon_attach::jobs::recorded_profile::RecordedProfile;
use trainmon_attach::jobs::session::{EndSignals, Session, block_on};
use trainmon_base::errors::{self, ExitCode};
use trainmon_diagnosis::pipeline::Pipeline;
use trainmon_outputs::log::{Existing, LogOut, write_error};
use trainmon_outputs::{anonymize, recording};
use trainmon_sample::recording::{Header, SCHEMA};
use trainmon_views::report::headline;

type Recorder = recording::Recorder<LogOut>;

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
    if arguments.anonymize {
        header = anonymize::header(&header);
    }
    let profile = if arguments.profile { Some(RecordedProfile::new(settings.proc_root.clone(), pid)) } else { None };
    block_on(watch(session, (&header, profile), settings.call.existing(), arguments))
}

async fn watch(
    session: Session,
    (header, mut profile): (&Header, Option<RecordedProfile>),
    existing: Existing,
    arguments: &RecordArgs,
) -> anyhow::Result<ExitCode> {
    // Before there is a file: a signal may come as soon as there is one.
    let listening = EndSignals::listen_beside_a_file()?;
    let path = &arguments.output;
    let out = LogOut::open("recording", path, existing)?;
    let mut recorder = Recorder::new(out, header).map_err(|error| write_error("recording", path, error))?;
    let mut anonymous = arguments.anonymize.then(|| Pipeline::of_recording(header, None));
    let mut last = None;
    super::each_tick(session, listening, profile.as_mut(), |tick| {
        follow(&mut recorder)?;
        let Some(tick) = tick else { return Ok(()) };
        let written = match &mut anonymous {
            // The digest is made of what is written.
            Some(pipeline) => {
                let sample = Arc::new(anonymize::sample(&tick.sample));
                recorder.digest(&pipeline.push(Arc::clone(&sample)));
                recorder.write(&sample)
            }
            None => {
                recorder.digest(&tick);
                recorder.write(&tick.sample)
            }
        };
        last = Some(tick);
        written.map_err(|error| match error.kind() {
            io::ErrorKind::InvalidData => {
                anyhow::anyhow!("recording {}: {error}; record with a shorter --interval", path.display())
            }
            _ => recorder.out.cannot_write(error),
        })
    })
    .await?;
    if recorder.has_pending() {
        follow(&mut recorder)?;
    }
    recorder.flush().map_err(|error| recorder.out.cannot_write(error))?;
    // On standard output the recording itself is what is wanted, and nothing else.
    if !recorder.out.is_stdout() {
        let counts = (recorder.samples, recorder.elsewhere);
        let size = format!(" ({} KiB)", recorder.bytes.div_ceil(1024));
        let written = super::written(&recorder.out, ["sample", "samples", "recorded"], counts, &size);
        let headline = last.map_or_else(String::new, |tick| format!("; {}", headline(&tick.verdict)));
        let profile = profile.map_or_else(String::new, |profile| format!("; {}", profile.words()));
        errors::note(&format!("{written}{headline}{profile}"));
    }
    Ok(ExitCode::DONE)
}

/// Begins a new file where something else has taken the recording away, and says so.
fn follow(recorder: &mut Recorder) -> anyhow::Result<()> {
    recorder.follow()?.iter().for_each(|note| errors::note(note));
    Ok(())
}
