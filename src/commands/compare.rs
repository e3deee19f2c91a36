//! `trainmon compare`: two runs side by side.

use std::path::Path;

use super::document::{self, DocumentFormat};
use super::whole_run::{self, ReadRun};
use super::{diagnose, print};
use crate::cli::CompareArgs;
use crate::config::Settings;
use crate::errors::{self, ExitCode, Failure};
use crate::outputs::comparison::{ComparedRun, Comparison};
use crate::outputs::{html, markdown, text};

/// What it writes.
const FORMATS: [DocumentFormat; 3] = [DocumentFormat::Html, DocumentFormat::Markdown, DocumentFormat::Json];

/// Reads both runs and says what changed.
pub fn run(settings: &Settings, arguments: &CompareArgs) -> anyhow::Result<ExitCode> {
    let format = |path| DocumentFormat::of_path("compare", path, &FORMATS);
    let format = arguments.output.as_deref().map(format).transpose()?;
    let [before, after] = [&arguments.before, &arguments.after].map(|path| whole_run::read(settings, path));
    let [before, after] = [before?, after?];
    let limit = arguments.fail_if_slower;
    let comparison = Comparison::new(compared(&arguments.before, &before), compared(&arguments.after, &after), limit);
    match (&arguments.output, format) {
        (Some(path), Some(format)) => write(settings, &comparison, path, format)?,
        _ if arguments.json => {
            super::print_json(&comparison.json())?;
        }
        _ => {
            print(text::comparison(&comparison, diagnose::style(settings, true)))?;
        }
    }
    let Some(limit) = limit else { return Ok(ExitCode::DONE) };
    match comparison.is_slower_by(limit) {
        Ok(Some(true)) => Ok(ExitCode::FAIL_ON),
        Ok(Some(false)) => Ok(ExitCode::DONE),
        Ok(None) => {
            errors::note(&format!("--fail-if-slower: not certain: {}", comparison.summary()));
            Ok(ExitCode::UNCLEAR)
        }
        Err(why) => Err(Failure::failed(format!("--fail-if-slower: {why}")).into()),
    }
}

/// One of the two runs, called like its file.
pub(super) fn compared<'r>(path: &Path, read: &'r ReadRun) -> ComparedRun<'r> {
    ComparedRun {
        name: path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned(),
        run: &read.run,
        header: &read.header,
        note: read.note.clone(),
    }
}

fn write(
    settings: &Settings,
    comparison: &Comparison<'_>,
    path: &Path,
    format: DocumentFormat,
) -> anyhow::Result<()> {
    let bytes = match format {
        DocumentFormat::Html => html::comparison(comparison).into_bytes(),
        DocumentFormat::Markdown => markdown::comparison(comparison).into_bytes(),
        DocumentFormat::Json => {
            let mut bytes = Vec::new();
            crate::text::json::pretty(&mut bytes, &comparison.json())?;
            bytes
        }
    };
    if document::write(settings, "comparison", path, &bytes)? {
        errors::note(&format!("comparison in {}: {}", path.display(), comparison.summary()));
    }
    Ok(())
}
