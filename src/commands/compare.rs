//! `trainmon compare`: two runs side by side.

use std::io::Write;
use std::path::Path;

use super::whole_run::{self, ReadRun};
use super::{diagnose, print};
use crate::cli::CompareArgs;
use crate::config::Settings;
use crate::errors::{self, ExitCode, Failure};
use crate::outputs::comparison::{ComparedRun, Comparison};
use crate::outputs::log::LogOut;
use crate::outputs::{html, markdown, text};

/// How a comparison is written, by the ending of its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ComparisonFormat {
    Html,
    Markdown,
    Json,
}

impl ComparisonFormat {
    fn of_path(path: &Path) -> Result<Self, Failure> {
        let ending = path.extension().map(|ending| ending.to_ascii_lowercase());
        match ending.as_deref().and_then(|ending| ending.to_str()) {
            Some("html" | "htm") => Ok(Self::Html),
            Some("md" | "markdown") => Ok(Self::Markdown),
            Some("json") => Ok(Self::Json),
            None if path == Path::new("-") => Ok(Self::Markdown),
            _ => Err(Failure::usage(format!(
                "compare -o {}: name a file that ends in .html, .md or .json",
                path.display()
            ))),
        }
    }
}

/// Reads both runs and says what changed.
pub fn run(settings: &Settings, arguments: &CompareArgs) -> anyhow::Result<ExitCode> {
    let format = arguments.output.as_deref().map(ComparisonFormat::of_path).transpose()?;
    let [before, after] = [&arguments.before, &arguments.after].map(|path| whole_run::read(settings, path));
    let [before, after] = [before?, after?];
    let comparison = Comparison::new(compared(&arguments.before, &before), compared(&arguments.after, &after));
    match (&arguments.output, format) {
        (Some(path), Some(format)) => write(settings, &comparison, path, format)?,
        _ if arguments.json => {
            super::print_json(&comparison.json())?;
        }
        _ => {
            print(text::comparison(&comparison, diagnose::style(settings, true)))?;
        }
    }
    let Some(limit) = arguments.fail_if_slower else { return Ok(ExitCode::DONE) };
    match comparison.is_slower_by(limit) {
        Ok(true) => Ok(ExitCode::FAIL_ON),
        Ok(false) => Ok(ExitCode::DONE),
        Err(why) => Err(Failure::failed(format!("--fail-if-slower: {why}")).into()),
    }
}

fn compared<'r>(path: &Path, read: &'r ReadRun) -> ComparedRun<'r> {
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
    format: ComparisonFormat,
) -> anyhow::Result<()> {
    let bytes = match format {
        ComparisonFormat::Html => html::comparison(comparison).into_bytes(),
        ComparisonFormat::Markdown => markdown::comparison(comparison).into_bytes(),
        ComparisonFormat::Json => {
            let mut bytes = Vec::new();
            crate::text::json::pretty(&mut bytes, &comparison.json())?;
            bytes
        }
    };
    // Only now: an error before leaves no empty file.
    let mut out = LogOut::open("comparison", path, settings.call.existing())?;
    out.write_all(&bytes).map_err(|error| out.cannot_write(error))?;
    if !out.is_stdout() {
        errors::note(&format!("comparison in {}: {}", path.display(), comparison.sentence()));
    }
    Ok(())
}
