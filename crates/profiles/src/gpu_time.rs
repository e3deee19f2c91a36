//! A GPU's time: what ran when, on any of its streams.

use super::account::{GpuAccount, IdleBy, IdleReason};
use super::host_time::HostTime;
use super::intervals::{Intervals, TimeRange};
use super::scope::Scope;
use super::timeline::{GpuKind, GpuSpan, TraceTimeline};

/// Sets of moments of one GPU, within the window.
#[derive(Debug, Default)]
pub struct GpuTime {
    /// Its number.
    pub index: i64,
    /// Anything ran.
    pub busy: Intervals,
    /// Nothing ran.
    pub idle: Intervals,
    /// The same, divided by reason: each moment has the first that holds.
    pub idle_by: [Intervals; IdleReason::COUNT],
    /// A kernel ran that is no collective.
    pub compute: Intervals,
    /// A collective ran.
    pub communication: Intervals,
    /// A copy ran, or memory was set.
    pub copy: Intervals,
    /// Lengths of the kernels, nanoseconds, the shortest first.
    pub kernel_lengths: Vec<i64>,
    /// Streams on which something ran.
    pub streams: u64,
}

/// The GPUs of a trace, the one with most kernels first.
pub fn gpus(timeline: &TraceTimeline, scope: &Scope, host: &HostTime) -> Vec<GpuTime> {
    // The one with most kernels is among them.
    let mut indexes: Vec<i64> = scope.gpu.into_iter().collect();
    for (index, _) in &timeline.streams {
        if indexes.len() < GPUS_MAX && !indexes.contains(index) {
            indexes.push(*index);
        }
    }
    let mut gpus: Vec<GpuTime> =
        indexes.into_iter().map(|index| GpuTime::new(index, timeline, scope, host)).collect();
    gpus.retain(|gpu| gpu.busy.count() > 0 || Some(gpu.index) == scope.gpu);
    gpus.sort_by_key(|gpu| (Some(gpu.index) != scope.gpu, std::cmp::Reverse(gpu.kernel_lengths.len()), gpu.index));
    gpus
}

/// Most GPUs that are told apart: no machine has more.
const GPUS_MAX: usize = 64;

impl GpuTime {
    fn new(index: i64, timeline: &TraceTimeline, scope: &Scope, host: &HostTime) -> Self {
        let (mut compute, mut communication, mut copy) = (Vec::new(), Vec::new(), Vec::new());
        let mut kernel_lengths = Vec::new();
        let mut streams = std::collections::HashSet::new();
        for span in spans(index, timeline, scope.window) {
            let interval: TimeRange = (span.start, span.end);
            match span.kind {
                GpuKind::Kernel => {
                    kernel_lengths.push(span.end - span.start);
                    let collective = timeline.names.facts(span.name).collective;
                    if collective { communication.push(interval) } else { compute.push(interval) }
                }
                GpuKind::Copy | GpuKind::Set => copy.push(interval),
            }
            streams.insert(span.lane);
        }
        kernel_lengths.sort_unstable();
        let [compute, communication, copy] =
            [compute, communication, copy].map(|intervals| Intervals::union(intervals, scope.window));
        let all = compute.iter().chain(communication.iter()).chain(copy.iter());
        let busy = Intervals::union(all, scope.window);
        let idle = Intervals::one(scope.window.0, scope.window.1).minus(&busy);
        let (idle_by, streams) = (host.divided(&idle), streams.len() as u64);
        Self { index, busy, idle, idle_by, compute, communication, copy, kernel_lengths, streams }
    }

    /// What the account says of it, what needs other parts aside.
    pub fn account(&self, scope: &Scope) -> GpuAccount {
        let share = |set: &Intervals| scope.share(set.length());
        let kernels = Intervals::union(self.compute.iter().chain(self.communication.iter()), scope.window);
        let [input_wait, sync, launch, operator, python] = self.idle_by.each_ref().map(share);
        GpuAccount {
            index: self.index,
            busy: share(&self.busy),
            compute: share(&self.compute),
            communication: share(&self.communication),
            exposed: share(&self.communication.minus(&self.compute)),
            copy: share(&self.copy),
            copy_alone: share(&self.copy.minus(&kernels)),
            kernels: self.kernel_lengths.len() as u64,
            median_kernel_us: median(&self.kernel_lengths).map(|ns| ns as f64 / 1e3),
            streams: self.streams,
            idle_by: IdleBy { input_wait, sync, launch, operator, python },
            ..GpuAccount::default()
        }
    }
}

/// The spans of a GPU in the window, in the order of their begins.
pub fn spans(index: i64, timeline: &TraceTimeline, window: TimeRange) -> impl Iterator<Item = &GpuSpan> {
    let mine: Vec<bool> = timeline.streams.iter().map(|(device, _)| *device == index).collect();
    timeline.gpu.iter().filter(move |span| {
        mine.get(usize::from(span.lane)).copied().unwrap_or(false) && span.end > window.0 && span.start < window.1
    })
}

/// The middle one of sorted numbers: of an even count, the later one.
pub fn median(sorted: &[i64]) -> Option<i64> {
    sorted.get(sorted.len() / 2).copied()
}
