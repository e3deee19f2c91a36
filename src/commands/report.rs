//! `trainmon report`: a recording, a log or a trace as a page to show to a colleague.

use super::document;
use crate::cli::ReportArgs;
use crate::config::Settings;
use trainmon_attach::runs::traces;
use trainmon_attach::runs::whole::{self, ReadRun};
use trainmon_base::errors::{self, ExitCode};
use trainmon_base::zone;
use trainmon_views::run_report::RunReport;

/// Reads a run and writes the report.
pub fn run(settings: &Settings, arguments: &ReportArgs) -> anyhow::Result<ExitCode> {
    let path = &arguments.output;
    let format = document::of_path("report", path, &[])?;
    let text = if traces::is_trace(&arguments.file)? {
        let verdict = traces::verdict(&[&arguments.file])?;
        (format.profile)(&verdict, arguments.title.as_deref())
    } else {
        let ReadRun { run, header, note } = whole::read(&arguments.file, settings.gpus.as_deref())?;
        let (zone, price, title) = (zone::local(), settings.price.clone(), arguments.title.clone());
        (format.run)(&RunReport { run: &run, header: &header, note, zone, price, title })
    };
    if document::write(settings, "report", path, text.as_bytes())? {
        errors::note(&format!("report in {} ({} KiB)", path.display(), text.len().div_ceil(1024)));
    }
    Ok(ExitCode::DONE)
}
