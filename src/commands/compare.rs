//! `trainmon compare`: two runs, or two traces, side by side.

use std::path::Path;

use anyhow::Context;

use super::{diagnose, document, print};
use crate::cli::CompareArgs;
use crate::config::Settings;
use trainmon_attach::runs::traces;
use trainmon_attach::runs::whole::{self, ReadRun};
use trainmon_base::errors::{self, ExitCode, Failure};
use trainmon_diagnosis::diagnosis::Verdict;
use trainmon_outputs::document::{Document, has_ending};
use trainmon_outputs::text;
use trainmon_views::comparison::traces::{ComparedTrace, TraceComparison};
use trainmon_views::comparison::{AnyComparison, ComparedRun, Comparison};

/// Ending of a file for programs.
const JSON: &str = "json";
/// Most rows of a table of traces or profiles in JSON.
const TRACE_ROWS: usize = 100;

/// What it writes into a file.
enum Format {
    /// For people.
    Document(&'static Document),
    /// For programs.
    Json,
}

impl Format {
    fn of_path(path: &Path) -> Result<Self, Failure> {
        if has_ending(path, &[JSON]) {
            return Ok(Self::Json);
        }
        document::of_path("compare", path, &[JSON]).map(Self::Document)
    }
}

/// Reads both runs and says what changed.
pub fn run(settings: &Settings, arguments: &CompareArgs) -> anyhow::Result<ExitCode> {
    let format = arguments.output.as_deref().map(Format::of_path).transpose()?;
    let limit = arguments.fail_if_slower;
    let paths = [arguments.before.as_path(), &arguments.after];
    if are_traces(paths)? {
        let [before, after] = paths.map(|path| traces::verdict(&[path]));
        let [before, after] = [before?, after?];
        let comparison = compared_traces(paths, [&before, &after], limit, TRACE_ROWS)?;
        return say(settings, arguments, format, &comparison);
    }
    let [before, after] = paths.map(|path| whole::read(path, settings.gpus.as_deref()));
    let [before, after] = [before?, after?];
    let [before_path, after_path] = paths;
    let (before, after) = (compared(before_path, &before), compared(after_path, &after));
    let comparison = Comparison::new(before, after, limit, TRACE_ROWS);
    say(settings, arguments, format, &comparison)
}

/// Whether both files are traces.
///
/// # Errors
/// One is, and the other is something else; or a file cannot be read.
pub(super) fn are_traces(paths: [&Path; 2]) -> anyhow::Result<bool> {
    let [before, after] = paths;
    let (trace, other) = match [traces::is_trace(before)?, traces::is_trace(after)?] {
        [true, true] => return Ok(true),
        [false, false] => return Ok(false),
        [true, false] => (before, after),
        [false, true] => (after, before),
    };
    Err(anyhow::anyhow!(
        "{} is a trace and {} is not: compare two traces, or two recordings or logs",
        trace.display(),
        other.display()
    ))
}

fn say(
    settings: &Settings,
    arguments: &CompareArgs,
    format: Option<Format>,
    comparison: &impl AnyComparison,
) -> anyhow::Result<ExitCode> {
    match (&arguments.output, format) {
        (Some(path), Some(format)) => write(settings, comparison, path, format)?,
        _ if arguments.json => {
            super::print_json(&comparison.json())?;
        }
        _ => {
            print(text::comparison(&comparison.page(), diagnose::style(settings, true)))?;
        }
    }
    match arguments.fail_if_slower.map(|limit| comparison.is_slower_by(limit)) {
        None | Some(Ok(Some(false))) => Ok(ExitCode::DONE),
        Some(Ok(Some(true))) => Ok(ExitCode::FAIL_ON),
        Some(Ok(None)) => {
            errors::note(&format!("--fail-if-slower: not certain: {}", comparison.summary()));
            Ok(ExitCode::UNCLEAR)
        }
        Some(Err(why)) => Err(Failure::failed(format!("--fail-if-slower: {why}")).into()),
    }
}

/// One of the two runs, called like its file.
pub(super) fn compared<'r>(path: &Path, read: &'r ReadRun) -> ComparedRun<'r> {
    ComparedRun { name: name(path), run: &read.run, header: &read.header, note: read.note.clone() }
}

/// Two traces, called like their files, with so many rows of each table at most.
pub(super) fn compared_traces<'t>(
    paths: [&Path; 2],
    verdicts: [&'t Verdict; 2],
    limit: Option<f64>,
    rows: usize,
) -> anyhow::Result<TraceComparison<'t>> {
    let compared = |path: &Path, verdict: &'t Verdict| {
        let account = verdict.profile.as_deref();
        let account = account.with_context(|| format!("trace {}: it has no profile", path.display()))?;
        anyhow::Ok(ComparedTrace { name: name(path), verdict, account })
    };
    let ([before, after], [of_before, of_after]) = (paths, verdicts);
    Ok(TraceComparison::new(compared(before, of_before)?, compared(after, of_after)?, limit, rows))
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

fn write(settings: &Settings, comparison: &impl AnyComparison, path: &Path, format: Format) -> anyhow::Result<()> {
    let bytes = match format {
        Format::Document(document) => (document.comparison)(&comparison.page()).into_bytes(),
        Format::Json => {
            let mut bytes = Vec::new();
            trainmon_base::text::json::pretty(&mut bytes, &comparison.json())?;
            bytes
        }
    };
    if document::write(settings, "comparison", path, &bytes)? {
        errors::note(&format!("comparison in {}: {}", path.display(), comparison.summary()));
    }
    Ok(())
}
