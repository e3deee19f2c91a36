//! Evidence against a verdict: numbers on the wrong side of their limit, and the sources that the verdict rests on.
//!
//! The decision has weighed all of this already, and the confidence says how much it counted. This file lists what was
//! weighed for every cause of a class; the file of a cause lists what counts against that cause alone.

use super::causes::{Against, WAITS_FOR_BATCHES};
use super::class::Class;
use super::signals::{Evidence, EvidenceFrom, Side, Signal};
use super::verdict::Verdict;
use trainmon_sample::SourceId;

const NOT_THE_GPU: &[Against] = &[
    (Signal::GpuBusy, Side::Over, "the GPU is busy anyway, so little is left to gain"),
    (Signal::GpuThrottled, Side::Over, "the GPU is throttled as well"),
    (Signal::GpuOthers, Side::Over, "other processes use the GPU too"),
];
const STARVED: &[Against] = &[
    (Signal::CgroupThrottled, Side::Over, "the CPU quota throttles the job"),
    (Signal::PsiMemory, Side::Over, "memory is short"),
];
const QUEUES: &[Against] = &[(Signal::MainRunDelay, Side::Over, "the loop queues for a CPU")];
const NOT_THE_LOADER: &[Against] = &[
    (Signal::InputWait, Side::Under, "the loop hardly waits for data"),
    (Signal::LostWait, Side::Under, "the GPU is busy during most of the waiting"),
    (Signal::DiskBusy, Side::Over, "the disk is busy as well"),
];

/// What counts against every verdict of a class.
fn of_class(class: Class) -> &'static [&'static [Against]] {
    match class {
        Class::DataLoader => &[NOT_THE_LOADER, NOT_THE_GPU, QUEUES, STARVED],
        Class::Io => &[NOT_THE_GPU, QUEUES],
        Class::Cpu => &[NOT_THE_GPU],
        Class::Gpu | Class::Balanced => &[WAITS_FOR_BATCHES, QUEUES, STARVED],
        Class::Idle | Class::Unknown => &[],
    }
}

/// The evidence against the verdict, the side of its limit that it is on, and what that means.
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
    let is_read =
        |evidence: &Evidence| evidence.from != Some(EvidenceFrom::Profile) && evidence.signal.source() == source;
    let has_signals = verdict.evidence.iter().any(is_read);
    match source {
        SourceId::Job => true,
        SourceId::Gpu => has_signals || verdict.gpu_idle.is_some(),
        SourceId::Stacks => {
            verdict.main_thread.is_some() || verdict.workers.iter().any(|worker| worker.stages.is_some())
        }
        _ => has_signals,
    }
}
