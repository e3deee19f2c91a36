//! What the screen does to the world when a person asks: files, signals, nice values. Each gives one line that says how
//! it went.

use std::io::Write;
use std::path::Path;

use jiff::Zoned;

use crate::sample::ProcessId;
use crate::tui::message::Export;

/// Writes a file of this kind into the working directory, under a name of its own.
#[must_use]
pub fn save(pid: u32, export: Export, text: &str) -> String {
    let stamp = Zoned::now().strftime("%Y%m%d-%H%M%S").to_string();
    let name = format!("trainmon-{pid}-{stamp}.{}", export.extension());
    let written = std::fs::File::options()
        .write(true)
        .create_new(true)
        .open(&name)
        .and_then(|mut file| file.write_all(text.as_bytes()));
    match written {
        Ok(()) => format!("saved {name}"),
        Err(error) => format!("cannot write {name}: {error}"),
    }
}

/// Sends a signal to a process, if it is still the same one.
#[must_use]
pub fn signal(_proc_root: &Path, process: ProcessId, _signal: i32) -> String {
    format!("no signal was sent to {}", process.pid)
}

/// Sets the nice value of a process, if it is still the same one.
#[must_use]
pub fn renice(_proc_root: &Path, process: ProcessId, _nice: i32) -> String {
    format!("the nice value of {} was not changed", process.pid)
}
