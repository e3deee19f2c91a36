//! The thread that waits for the end of the attached process and reads what is known of it then. Until then it sleeps, and only looks
//! now and then where the output goes.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;

use super::{Shared, spawn};
use trainmon_sample::ProcessId;
use trainmon_sources::ending::EndingReader;

/// Time between two looks at where the output goes: a new file is known of a job that runs for so long.
const EVERY: Duration = Duration::from_secs(10);

/// Starts the thread. If that is impossible, nothing is known of the end.
pub(super) fn start(shared: &Arc<Shared>, target: ProcessId) -> Option<JoinHandle<()>> {
    let reader = EndingReader::new(shared.options.sources.roots.proc.clone(), target);
    spawn("tm-ending", shared, move |shared| watch(shared, reader)).ok()
}

fn watch(shared: &Shared, mut reader: EndingReader) {
    let Shared { latest, stop, wake_ending, .. } = shared;
    let Some(wake) = wake_ending else { return };
    let target = shared.options.pid;
    loop {
        let mut writers = latest.values().processes_and_writers().1;
        if writers.is_empty() {
            writers.push(target);
        }
        reader.hold_outputs(&writers);
        let ended = reader.wait(wake.as_fd(), EVERY);
        if stop.load(Ordering::Relaxed) {
            return;
        }
        let is_gone = latest.values().sample.job.as_ref().is_some_and(|job| !job.alive);
        if ended == Some(true) || is_gone {
            break;
        }
    }
    let mut ending = reader.read_status();
    latest.values().sample.ending = Some(Arc::new(ending.clone()));
    // The file may be on a server that does not answer.
    ending.output = reader.read_output();
    latest.write(|values| {
        values.sample.ending = Some(Arc::new(ending));
        values.ending_read = true;
    });
}
