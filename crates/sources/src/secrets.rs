//! Masks the secrets in a sample from elsewhere: recordings of earlier versions contain them. The readers of `/proc`
//! mask what they read themselves, each text once, when it first appears.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use trainmon_base::text::secrets;
use trainmon_sample::Sample;
use trainmon_sample::private::{Private, TextKind, Visit};

/// The sample with its texts masked.
pub(super) fn masked(mut sample: Sample) -> Sample {
    mask(&mut sample);
    sample
}

/// Masks all texts.
pub(super) fn mask(texts: &mut impl Private) {
    // Ranks and workers share their command line.
    let mut known: HashMap<Arc<str>, Arc<str>> = HashMap::new();
    let visit: Visit<'_> = &mut |kind, text| match kind {
        TextKind::Command | TextKind::OwnCommand => {
            let masked = known.entry(Arc::clone(text)).or_insert_with_key(|given| secrets::line(given).into());
            *text = Arc::clone(masked);
        }
        TextKind::Path | TextKind::Link | TextKind::CodeFile | TextKind::Prose => {
            if let Cow::Owned(masked) = secrets::prose(text) {
                *text = masked.into();
            }
        }
        // Too short for a secret, or of a form that contains none.
        TextKind::Name | TextKind::Address => {}
    };
    texts.visit_texts(visit);
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainmon_profiles::account::{IdleRow, KernelRow, ModuleRow, ProfileAccount, RequestAccount, SyncRow};
    use trainmon_profiles::ranks_account::{RankRow, RanksAccount, Straggler};
    use trainmon_sample::sampler::{Descriptor, Observation};
    use trainmon_sample::{
        CgroupSample, ConnectionsSample, DataMount, JobSample, LockWait, OtherProcessProcess, OtherProcessesSample,
        ProcessSample, SamplerSample, SourceStatus, Sources, StackFrame, StackWindow, StacksSample, StorageSample,
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
        let other_process = OtherProcessProcess { command: LINE.into(), ..OtherProcessProcess::default() };
        let status = SourceStatus { reason: Some(TEXT.into()), fix: Some(TEXT.into()), ..SourceStatus::default() };
        let text = || Some(TEXT.to_owned());
        let account = ProfileAccount {
            file: text(),
            kernels: vec![KernelRow { name: TEXT.into(), raw: TEXT.into(), ..KernelRow::default() }],
            syncs: vec![SyncRow { operator: text(), at: text(), function: text(), ..SyncRow::default() }],
            idle_at: vec![IdleRow { name: TEXT.into(), at: text(), ..IdleRow::default() }],
            modules: vec![ModuleRow { name: TEXT.into(), ..ModuleRow::default() }],
            across_ranks: Some(RanksAccount {
                ranks: vec![RankRow { file: TEXT.into(), host: text(), ..RankRow::default() }],
                straggler: Some(Straggler { at: text(), ..Straggler::default() }),
                ..RanksAccount::default()
            }),
            requests: Some(RequestAccount { name: TEXT.into(), ..RequestAccount::default() }),
            ..ProfileAccount::default()
        };
        let sample = Sample {
            job: Some(Arc::new(job)),
            storage: Some(Arc::new(StorageSample { mounts: Some(vec![mount]), ..StorageSample::default() })),
            stacks: Some(Arc::new(StacksSample { windows: vec![window], locals: Vec::new() })),
            other_processes: Some(Arc::new(OtherProcessesSample {
                processes: vec![other_process],
                ..OtherProcessesSample::default()
            })),
            account: Some(Arc::new(account)),
            sources: Sources { gpu: status.clone(), stacks: status, ..Sources::default() },
            ..Sample::default()
        };
        assert_eq!(format!("{sample:?}").matches("hunter2").count(), 29);
        let masked = format!("{:?}", masked(sample));
        assert!(!masked.contains("hunter2"), "{masked}");
        assert!(masked.contains("--password *** --lr 1") && masked.contains("me:***@host:/x"));
    }
}
