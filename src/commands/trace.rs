//! `trainmon trace`: a recording as a trace for Perfetto.

use std::io::IsTerminal;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context;

use crate::cli::TraceArgs;
use crate::config::Settings;
use trainmon_attach::runs;
use trainmon_attach::runs::traces;
use trainmon_base::errors::{self, ExitCode, Failure};
use trainmon_diagnosis::pipeline::Pipeline;
use trainmon_outputs::trace::TraceWriter;
use trainmon_outputs::trace_out::TraceOut;
use trainmon_outputs::whole_file;
use trainmon_profiles::timeline::TraceTimeline;
use trainmon_profiles::{self as profiles, ProfileError};
use trainmon_sources::recording::Recording;
use trainmon_sources::unpacked;

/// Reads what torch's profiler wrote.
fn read_profile(path: &Path) -> anyhow::Result<(TraceTimeline, &Path)> {
    let read = unpacked::open(path).map_err(ProfileError::from).and_then(profiles::timeline);
    let profile = read.with_context(|| format!("profile {}", path.display()))?;
    let note = |what: &str| errors::note(&format!("profile {}: {what}", path.display()));
    if profile.horizon.is_some() {
        note("it has too many events: its later part is left out");
    }
    if profile.end.damaged > 0 {
        note(&format!("{} events left out: damaged", profile.end.damaged));
    }
    if profile.end.goes_on {
        note("it goes on after its end: what follows is left out");
    }
    if profile.end.cut_off {
        note("it ends early: the profiler did not finish writing it");
    }
    Ok((profile, path))
}

/// Reads a recording and writes the trace.
pub fn run(settings: &Settings, arguments: &TraceArgs) -> anyhow::Result<ExitCode> {
    let (file, path) = (&arguments.file, &arguments.output);
    if path == Path::new("-") && std::io::stdout().is_terminal() {
        return Err(Failure::usage("a trace is not text: name a file (-o FILE), or write into a pipe").into());
    }
    traces::refuse(file)?;
    let mut recording = Recording::open(file).with_context(|| format!("recording {}", file.display()))?;
    let mut pipeline = Pipeline::of_recording(&recording.header, settings.gpus.as_deref());
    let profile = arguments.torch_profile.as_deref().map(read_profile).transpose()?;
    let (mut writer, mut damage) = (None, None);
    let cannot = |error| whole_file::cannot_write("trace", path, error);
    for sample in recording.by_ref() {
        match sample {
            Ok(sample) => {
                let tick = pipeline.push(Arc::new(sample));
                // Only now: an error before leaves no empty file.
                let writer = match &mut writer {
                    Some(writer) => writer,
                    None => writer.insert(TraceWriter::new(TraceOut::open(path, settings.call.existing())?)),
                };
                writer.push(&tick).map_err(cannot)?;
            }
            Err(error) => damage = Some(error),
        }
    }
    let (mut writer, _) = runs::with_its_end(writer, recording.ended_early(damage.as_ref()), file)?;
    if let Some((profile, profile_path)) = profile {
        let overlaps = writer.profile(&profile).map_err(cannot)?;
        if !overlaps {
            let name = profile_path.display();
            errors::note(&format!("profile {name}: it covers none of the recorded time: is it of the same run?"));
        }
    }
    let out = writer.finish().and_then(TraceOut::finish).map_err(cannot)?;
    let is_stdout = out.is_stdout();
    let size = out.finish()?.div_ceil(1024);
    if !is_stdout {
        errors::note(&format!("trace in {} ({size} KiB): open it at https://ui.perfetto.dev", path.display()));
    }
    Ok(ExitCode::DONE)
}
