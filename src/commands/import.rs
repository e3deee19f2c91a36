//! `trainmon import`: a recording of what other tools recorded.

use std::io;
use std::path::Path;
use std::time::UNIX_EPOCH;

use anyhow::Context;

use crate::cli::import::ImportArgs;
use crate::config::Settings;
use trainmon_base::errors::{self, ExitCode};
use trainmon_base::text::format::counted;
use trainmon_base::text::secrets;
use trainmon_base::zone;
use trainmon_imports::merge::Merge;
use trainmon_imports::{self as imports, ImportContext, ImportFormat, Imported};
use trainmon_outputs::recording::Recorder;
use trainmon_outputs::whole_file::{WholeFile, cannot_write};
use trainmon_sample::recording::{Header, SCHEMA};
use trainmon_sources::regular_file;

/// Reads the files and writes the recording.
pub fn run(settings: &Settings, arguments: &ImportArgs) -> anyhow::Result<ExitCode> {
    let format = arguments.format.as_deref().and_then(ImportFormat::named);
    let mut files = Vec::new();
    for path in &arguments.files {
        let (format, mut file) = read(path, format).with_context(|| format!("import {}", path.display()))?;
        let notes = file.notes.iter().map(|note| format!("{} ({}): {note}", path.display(), format.word()));
        notes.for_each(|note| errors::note(&note));
        if let Some(account) = &mut file.account {
            account.file = path.file_name().map(|name| name.to_string_lossy().into_owned());
        }
        files.push((format, file));
    }
    let names: Vec<_> = arguments.files.iter().filter_map(|path| path.file_name()?.to_str()).collect();
    let merge = Merge::new(files).context("import")?;
    let header = header(&merge, &names.join(", "));
    // Only now: an error before leaves no empty file.
    let path = &arguments.output;
    let out = WholeFile::create("recording", path, settings.call.existing())?;
    let mut recorder = Recorder::new(out, &header).map_err(|error| cannot_write("recording", path, error))?;
    for sample in merge.samples() {
        recorder.write(&sample).map_err(|error| match error.kind() {
            io::ErrorKind::InvalidData => {
                anyhow::anyhow!(
                    "import {}: they say more of one moment than a recording holds (8 MiB)",
                    names.join(", ")
                )
            }
            _ => recorder.out.cannot_write(error),
        })?;
    }
    recorder.flush().map_err(|error| recorder.out.cannot_write(error))?;
    let is_stdout = recorder.out.is_stdout();
    let size = recorder.out.finish()?.div_ceil(1024);
    if !is_stdout {
        let samples = counted(recorder.samples, "sample", "samples");
        errors::note(&format!("{samples} in {} ({size} KiB)", path.display()));
    }
    Ok(ExitCode::DONE)
}

fn read(path: &Path, format: Option<ImportFormat>) -> anyhow::Result<(ImportFormat, Imported)> {
    let file = regular_file::opened(path)?;
    let written = file.metadata()?.modified()?.duration_since(UNIX_EPOCH).unwrap_or_default();
    let written_ms = i64::try_from(written.as_millis()).unwrap_or(i64::MAX);
    let context = ImportContext { zone: zone::local(), written_ms };
    Ok(imports::read(file, format, &context)?)
}

fn header(merge: &Merge, names: &str) -> Header {
    let started = jiff::Timestamp::from_millisecond(merge.began_ms).unwrap_or_default().to_zoned(zone::local());
    let command = match &merge.command {
        Some(command) => format!("{command} (imported from {names})"),
        None => format!("imported from {names}"),
    };
    Header {
        schema: SCHEMA,
        trainmon: env!("CARGO_PKG_VERSION").to_owned(),
        pid: merge.pid.unwrap_or_default(),
        command: secrets::line(&command).into_owned(),
        started: started.strftime("%Y-%m-%dT%H:%M:%S%:z").to_string(),
        interval_s: merge.interval_ms as f64 / 1000.0,
        gpus: merge.gpus.iter().map(u32::to_string).collect(),
    }
}
