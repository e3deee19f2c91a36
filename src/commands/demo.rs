//! `trainmon demo`: start the demo job and attach to it by the ordinary path.

use std::path::Path;

use crate::cli::DemoBottleneck;
use crate::config::Settings;
use crate::errors::ExitCode;

/// Runs the demo until the user has seen enough.
pub fn run(settings: &Settings, bottleneck: DemoBottleneck, workers: Option<u8>) -> anyhow::Result<ExitCode> {
    // Asked before anything starts: the answer must not name a process that ends with us.
    if settings.call.log.is_none() {
        super::live::terminal_or("trainmon demo --log -")?;
    }
    // Not current_exe(): this goes on working when the file has been replaced meanwhile.
    let job = crate::demo::start_with(Path::new("/proc/self/exe"), bottleneck, workers)?;
    // The job lives until the screen or the log has ended, and ends on every way out of here, panics included.
    super::live::attach(settings, job.pid(), Some(&job.device_path))
}
