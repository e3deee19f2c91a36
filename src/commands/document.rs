//! The files that `report` and `compare` write: their format follows from the name, and they are written once all is known.

use std::io::Write;
use std::path::Path;

use crate::config::Settings;
use trainmon_base::errors::Failure;
use trainmon_outputs::whole_file::WholeFile;

/// A format, by the ending of its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DocumentFormat {
    /// One file that loads nothing.
    Html,
    /// For a ticket or a chat.
    Markdown,
    /// For programs.
    Json,
}

impl DocumentFormat {
    /// The endings of this format, the usual one first.
    fn endings(self) -> &'static [&'static str] {
        match self {
            Self::Html => &["html", "htm"],
            Self::Markdown => &["md", "markdown"],
            Self::Json => &["json"],
        }
    }

    /// One of the formats that a command writes. Standard output gets Markdown, which can be read there.
    pub fn of_path(command: &str, path: &Path, formats: &[Self]) -> Result<Self, Failure> {
        if path == Path::new("-") {
            return Ok(Self::Markdown);
        }
        let ending = path.extension().map(|ending| ending.to_ascii_lowercase());
        let ending = ending.as_deref().and_then(|ending| ending.to_str()).unwrap_or_default();
        let found = formats.iter().find(|format| format.endings().contains(&ending));
        found.copied().ok_or_else(|| {
            let usual: Vec<String> =
                formats.iter().filter_map(|format| Some(format!(".{}", format.endings().first()?))).collect();
            let (last, others) = usual.split_last().map_or(("", &[][..]), |(last, others)| (last.as_str(), others));
            let endings = format!("{} or {last}", others.join(", "));
            Failure::usage(format!("{command} -o {}: name a file that ends in {endings}", path.display()))
        })
    }
}

/// Writes the document, and gives whether it went into a file. Only now: an error before leaves no empty file.
pub fn write(settings: &Settings, what: &'static str, path: &Path, text: &[u8]) -> anyhow::Result<bool> {
    let mut out = WholeFile::create(what, path, settings.call.existing())?;
    out.write_all(text).map_err(|error| out.cannot_write(error))?;
    let is_file = !out.is_stdout();
    out.finish()?;
    Ok(is_file)
}
