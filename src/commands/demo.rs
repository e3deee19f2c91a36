//! `trainmon demo`: start the demo job and attach to it by the ordinary path.

use std::path::Path;

use crate::cli::DemoArgs;
use crate::config::Settings;
use crate::errors::ExitCode;

/// Runs the demo until the user has seen enough.
pub fn run(settings: &Settings, arguments: &DemoArgs) -> anyhow::Result<ExitCode> {
    // Asked before anything starts: the answer must not name a process that ends with us.
    if settings.call.log.is_none() {
        super::live::terminal_or("trainmon demo --log -")?;
    }
    // Not current_exe(): this goes on working when the file has been replaced meanwhile.
    let job = crate::demo::start_with(Path::new("/proc/self/exe"), arguments.bottleneck, arguments.workers)?;
    // The job lives until the screen or the log has ended, and ends on every way out of here, panics included.
    super::live::attach(settings, job.pid(), Some(&job.device_path))
}
