//! `trainmon report`: a recording as a page to show to a colleague.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context;

use crate::cli::ReportArgs;
use crate::config::Settings;
use crate::errors::{self, ExitCode, Failure};
use crate::history::run::WholeRun;
use crate::outputs::log::LogOut;
use crate::outputs::run_report::RunReport;
use crate::outputs::{html, markdown};
use crate::pipeline::Pipeline;
use crate::sources::recording::Recording;
use crate::zone;

/// A format of a report, by the ending of its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReportFormat {
    Html,
    Markdown,
}

impl ReportFormat {
    /// Standard output gets Markdown, which can be read there.
    fn of_path(path: &Path) -> Result<Self, Failure> {
        let ending = path.extension().map(|ending| ending.to_ascii_lowercase());
        match ending.as_deref().and_then(|ending| ending.to_str()) {
            Some("html" | "htm") => Ok(Self::Html),
            Some("md" | "markdown") => Ok(Self::Markdown),
            None if path == Path::new("-") => Ok(Self::Markdown),
            _ => Err(Failure::usage(format!("report {}: name a file that ends in .html or .md", path.display()))),
        }
    }
}

/// Reads a recording and writes the report.
pub fn run(settings: &Settings, arguments: &ReportArgs) -> anyhow::Result<ExitCode> {
    let format = ReportFormat::of_path(&arguments.output)?;
    let mut recording =
        Recording::open(&arguments.file).with_context(|| format!("recording {}", arguments.file.display()))?;
    let mut pipeline = Pipeline::of_recording(&recording.header, settings.gpus.as_deref());
    let (mut whole, mut damage) = (WholeRun::default(), None);
    for sample in recording.by_ref() {
        match sample {
            Ok(sample) => whole.push(pipeline.push(Arc::new(sample))),
            Err(error) => damage = Some(error),
        }
    }
    let whole = whole.last.is_some().then_some(whole);
    let (whole, note) = super::with_its_end(whole, recording.ended_early(damage.as_ref()), &arguments.file)?;
    let report = RunReport { run: &whole, header: &recording.header, note, zone: zone::local() };
    let text = match format {
        ReportFormat::Html => html::html(&report),
        ReportFormat::Markdown => markdown::run(&report),
    };
    // Only now: an error before leaves no empty file.
    let mut out = LogOut::open("report", &arguments.output, settings.call.existing())?;
    out.write_all(text.as_bytes()).map_err(|error| out.cannot_write(error))?;
    if !out.is_stdout() {
        errors::note(&format!("report in {} ({} KiB)", arguments.output.display(), text.len().div_ceil(1024)));
    }
    Ok(ExitCode::DONE)
}
