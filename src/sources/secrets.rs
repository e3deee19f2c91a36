//! Masks the secrets in a sample that was made elsewhere: recordings of earlier versions hold them. The readers of `/proc` mask
//! what they read themselves, each text once, when it is first seen.

use std::collections::HashMap;
use std::sync::Arc;

use crate::sample::{ProcessSample, Sample, StackWindow};
use crate::text::secrets;

/// The sample with every text masked that is a command line, a path, a source or a line of code.
pub(super) fn masked(mut sample: Sample) -> Sample {
    if let Some(job) = &mut sample.job {
        let job = Arc::make_mut(job);
        // Ranks and workers share their command line.
        let mut known = HashMap::new();
        job.processes.iter_mut().for_each(|process| command(process, &mut known));
        for descriptor in job.sampler.seen.iter_mut().flat_map(|seen| &mut seen.descriptors) {
            prose(&mut descriptor.link);
        }
        if let Some(connections) = &mut job.connections {
            let connections = Arc::make_mut(connections);
            connections.outside.iter_mut().for_each(|process| command(process, &mut known));
            connections.locks.iter_mut().filter_map(|lock| lock.path.as_mut()).for_each(prose);
        }
        job.cgroup.path.iter_mut().for_each(prose);
    }
    for mount in sample.storage.iter_mut().flat_map(|storage| &mut Arc::make_mut(storage).mounts).flatten() {
        [&mut mount.mount_point, &mut mount.source].into_iter().chain(&mut mount.examples).for_each(prose);
    }
    if let Some(stacks) = &mut sample.stacks {
        Arc::make_mut(stacks).windows.iter_mut().for_each(mask_window);
    }
    for neighbour in sample.neighbours.iter_mut().flat_map(|found| &mut Arc::make_mut(found).processes) {
        neighbour.command = secrets::line(&neighbour.command).into();
    }
    if let Some(addresses) = &mut sample.addresses {
        Arc::make_mut(addresses).files.iter_mut().for_each(prose);
    }
    let sources = &mut sample.sources;
    let [job, host, storage] = [&mut sources.job, &mut sources.host, &mut sources.storage];
    for status in [job, host, storage, &mut sources.gpu, &mut sources.stacks, &mut sources.addresses] {
        [&mut status.reason, &mut status.mend].into_iter().flatten().for_each(prose);
    }
    sample
}

/// Masks the lines of source and the names of files in a window of stacks.
pub(super) fn mask_window(window: &mut StackWindow) {
    for frame in &mut window.frames {
        prose(&mut frame.file);
        frame.text.iter_mut().for_each(prose);
    }
}

fn command(process: &mut ProcessSample, known: &mut HashMap<Arc<str>, Arc<str>>) {
    let masked = known.entry(Arc::clone(&process.command)).or_insert_with_key(|given| secrets::line(given).into());
    process.command = Arc::clone(masked);
}

fn prose(text: &mut Arc<str>) {
    if let std::borrow::Cow::Owned(masked) = secrets::prose(text) {
        *text = masked.into();
    }
}
