//! `trainmon report`: a recording as a page to show to a colleague.

use std::io::Write;
use std::path::Path;

use super::whole_run::{self, ReadRun};
use crate::cli::ReportArgs;
use crate::config::Settings;
use crate::errors::{self, ExitCode, Failure};
use crate::outputs::log::LogOut;
use crate::outputs::run_report::RunReport;
use crate::outputs::{html, markdown};
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
    let ReadRun { run, header, note } = whole_run::read(settings, &arguments.file)?;
    let report = RunReport { run: &run, header: &header, note, zone: zone::local(), price: settings.price.clone() };
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
