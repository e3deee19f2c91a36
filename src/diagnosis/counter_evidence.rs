//! What speaks against a verdict: evidence on the wrong side of its threshold, and sources that it rests on.
//!
//! The decision has weighed all of this already: the confidence says how much it counted. Here is what there was to weigh.
//! What speaks against one cause stands in its file; what speaks against all causes of a class, here.

use super::causes::{Against, WAITS_FOR_BATCHES};
use super::class::Class;
use super::signals::{Evidence, Side, Signal};
use super::verdict::Verdict;
use crate::sample::SourceId;

const NOT_THE_DEVICE: &[Against] = &[
    (Signal::GpuBusy, Side::Over, "the device is busy nevertheless: little is left to gain"),
    (Signal::GpuThrottled, Side::Over, "the device is throttled as well"),
    (Signal::GpuOthers, Side::Over, "other processes use the device too"),
];
const STARVED: &[Against] = &[
    (Signal::CgroupThrottled, Side::Over, "the CPU quota throttles the job"),
    (Signal::PsiMemory, Side::Over, "memory is short"),
];
const QUEUES: &[Against] = &[(Signal::MainRunDelay, Side::Over, "the main thread queues for a CPU")];
const NOT_THE_LOADER: &[Against] = &[
    (Signal::InputWait, Side::Under, "the main thread hardly waits for batches"),
    (Signal::LostWait, Side::Under, "the device is busy during most of the waiting"),
    (Signal::DiskBusy, Side::Over, "the disk is busy as well"),
];

/// What speaks against every verdict of a class.
fn of_class(class: Class) -> &'static [&'static [Against]] {
    match class {
        Class::DataLoader => &[NOT_THE_LOADER, NOT_THE_DEVICE, QUEUES, STARVED],
        Class::Io => &[NOT_THE_DEVICE, QUEUES],
        Class::Cpu => &[NOT_THE_DEVICE],
        Class::Gpu | Class::Balanced => &[WAITS_FOR_BATCHES, QUEUES, STARVED],
        Class::Idle | Class::Unknown => &[],
    }
}

/// The evidence that speaks against the verdict, the side of its threshold that it is on, and what that means.
pub fn counter_evidence(verdict: &Verdict) -> impl Iterator<Item = (&Evidence, Side, &'static str)> {
    let of_cause = verdict.cause.map_or(&[][..], |cause| cause.spec_in(verdict.class).against);
    verdict.evidence.iter().filter_map(move |evidence| {
        let side = evidence.side()?;
        let known = of_class(verdict.class).iter().chain(of_cause).copied().flatten();
        let (.., means) =
            known.into_iter().find(|(signal, wrong, _)| *signal == evidence.signal && *wrong == side)?;
        Some((evidence, side, *means))
    })
}

/// Whether any of the verdict's numbers come from this source.
pub fn rests_on(verdict: &Verdict, source: SourceId) -> bool {
    let has_signals = verdict.evidence.iter().any(|evidence| evidence.signal.source() == source);
    match source {
        SourceId::Job => true,
        SourceId::Host | SourceId::Storage => has_signals,
        SourceId::Gpu => has_signals || verdict.gpu_idle.is_some(),
        SourceId::Stacks => {
            verdict.main_thread.is_some() || verdict.workers.iter().any(|worker| worker.stages.is_some())
        }
    }
}
