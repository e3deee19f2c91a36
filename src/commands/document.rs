//! The files that `report` and `compare` write: their format follows from the name, and they are written once all is known.

use std::io::Write;
use std::path::Path;

use crate::config::Settings;
use trainmon_base::errors::Failure;
use trainmon_outputs::document::Document;
use trainmon_outputs::whole_file::WholeFile;
use trainmon_outputs::{DOCUMENTS, markdown};

/// The format of a command's document. `others` are endings that the command writes besides. Standard output gets Markdown.
pub fn of_path(command: &str, path: &Path, others: &[&str]) -> Result<&'static Document, Failure> {
    if path == Path::new("-") {
        return Ok(&markdown::DOCUMENT);
    }
    Document::of_ending(path).ok_or_else(|| {
        let usual = DOCUMENTS.iter().filter_map(|document| document.endings.first()).chain(others);
        let usual: Vec<String> = usual.map(|ending| format!(".{ending}")).collect();
        let (last, others) = usual.split_last().map_or(("", &[][..]), |(last, others)| (last.as_str(), others));
        let endings = format!("{} or {last}", others.join(", "));
        Failure::usage(format!("{command} -o {}: name a file that ends in {endings}", path.display()))
    })
}

/// Writes the document, and gives whether it went into a file. Only now: an error before leaves no empty file.
pub fn write(settings: &Settings, what: &'static str, path: &Path, text: &[u8]) -> anyhow::Result<bool> {
    let mut out = WholeFile::create(what, path, settings.call.existing())?;
    out.write_all(text).map_err(|error| out.cannot_write(error))?;
    let is_file = !out.is_stdout();
    out.finish()?;
    Ok(is_file)
}
