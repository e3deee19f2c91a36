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
    let sources = &mut sample.sources;
    let [job, host, storage] = [&mut sources.job, &mut sources.host, &mut sources.storage];
    for status in [job, host, storage, &mut sources.gpu, &mut sources.stacks] {
        [&mut status.reason, &mut status.fix].into_iter().flatten().for_each(prose);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::sampler::{Descriptor, Observation};
    use crate::sample::{
        CgroupSample, ConnectionsSample, DataMount, JobSample, LockWait, NeighbourProcess, NeighboursSample,
        SamplerSample, SourceStatus, Sources, StackFrame, StacksSample, StorageSample,
    };

    const LINE: &str = "python t.py --password hunter2 --lr 1";
    const TEXT: &str = "me:hunter2@host:/x";

    #[test]
    fn no_text_of_a_recorded_sample_keeps_its_secret() {
        let process = || ProcessSample { command: LINE.into(), ..ProcessSample::default() };
        let descriptor = Descriptor { link: TEXT.into(), ..Descriptor::default() };
        let seen = vec![Observation { descriptors: vec![descriptor], ..Observation::default() }];
        let lock = LockWait { path: Some(TEXT.into()), ..LockWait::default() };
        let connections =
            ConnectionsSample { outside: vec![process()], locks: vec![lock], ..ConnectionsSample::default() };
        let job = JobSample {
            processes: vec![process(), process()],
            sampler: SamplerSample { seen, ..SamplerSample::default() },
            connections: Some(Arc::new(connections)),
            cgroup: CgroupSample { path: Some(TEXT.into()), ..CgroupSample::default() },
            ..JobSample::default()
        };
        let mount = DataMount {
            mount_point: TEXT.into(),
            source: TEXT.into(),
            examples: vec![TEXT.into()],
            ..DataMount::default()
        };
        let frame =
            StackFrame { file: TEXT.into(), text: Some("login(password='hunter2')".into()), ..StackFrame::default() };
        let window = StackWindow { frames: vec![frame], ..StackWindow::default() };
        let neighbour = NeighbourProcess { command: LINE.into(), ..NeighbourProcess::default() };
        let status = SourceStatus { reason: Some(TEXT.into()), fix: Some(TEXT.into()), ..SourceStatus::default() };
        let sample = Sample {
            job: Some(Arc::new(job)),
            storage: Some(Arc::new(StorageSample { mounts: Some(vec![mount]), ..StorageSample::default() })),
            stacks: Some(Arc::new(StacksSample { windows: vec![window], locals: Vec::new() })),
            neighbours: Some(Arc::new(NeighboursSample {
                processes: vec![neighbour],
                ..NeighboursSample::default()
            })),
            sources: Sources { gpu: status.clone(), stacks: status, ..Sources::default() },
            ..Sample::default()
        };
        assert_eq!(format!("{sample:?}").matches("hunter2").count(), 16);
        let masked = format!("{:?}", masked(sample));
        assert!(!masked.contains("hunter2"), "{masked}");
        assert!(masked.contains("--password *** --lr 1") && masked.contains("me:***@host:/x"));
    }
}
