//! The longest idle times of a GPU in the step that is drawn: what the host did meanwhile, and which call ended each. Without a
//! GPU, the waits of the loop.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::account::IdleReason;
use super::deeds::{Deeds, HostDeed};
use super::drawn::SliceKind;
use super::gpu_time::GpuTime;
use super::host_time::RuntimeCall;
use super::intervals::{Intervals, TimeRange};
use super::parts::AccountParts;
use super::slice_label::SliceLabel;
use super::timeline::GpuSpan;

/// Most gaps of a GPU.
const GAPS: usize = 64;
/// Around a launch and what it launched so much is drawn as it is, nanoseconds: a launch takes some microseconds.
const AROUND: i64 = 20_000;
/// A launch that lies further before its kernel has a range of its own, nanoseconds.
const FAR: i64 = 200_000;

/// A gap within the step.
#[derive(Debug)]
pub struct FoundGap<'a> {
    /// The GPU's number; `None` for a wait of the loop.
    pub gpu: Option<i64>,
    /// Its part within the step.
    pub range: TimeRange,
    /// Where it ends, in the step or after it.
    pub end: i64,
    /// What the host did meanwhile: nanoseconds by kind.
    pub by: [i64; SliceKind::COUNT],
    /// What it did longest.
    pub host: Option<HostDeed>,
    /// What ran next.
    pub work: Option<&'a GpuSpan>,
    /// The call that launched it.
    pub call: Option<FoundCall>,
}

/// A call that launched what ended a gap.
#[derive(Debug, Clone, Copy)]
pub struct FoundCall {
    /// The call.
    pub call: RuntimeCall,
    /// What it was made for.
    pub made: HostDeed,
}

impl FoundGap<'_> {
    fn new(gpu: Option<i64>, (begin, end): TimeRange, window: TimeRange) -> Self {
        let range = (begin.max(window.0), end.min(window.1));
        Self { gpu, range, end, by: Default::default(), host: None, work: None, call: None }
    }

    /// What the host did for the largest part of it.
    pub(crate) fn main_kind(&self) -> SliceKind {
        let parts = SliceKind::ALL.into_iter().zip(self.by);
        parts.rev().max_by_key(|(_, part)| *part).map_or(SliceKind::Python, |(kind, _)| kind)
    }
}

/// A stretch of a GPU's idle time, and how it is drawn.
pub type IdleMoment = (TimeRange, SliceKind);

/// The idle time of a GPU within a window, in order. `copying` are the moments in which a thread was in a call that copies.
pub(crate) fn idle_moments(
    parts: &AccountParts<'_>,
    gpu: &GpuTime,
    copying: &Intervals,
    window: TimeRange,
) -> Vec<IdleMoment> {
    let mut moments = Vec::new();
    for (reason, part) in IdleReason::ALL.into_iter().zip(&gpu.idle_by) {
        let within = part.iter().filter(|(begin, end)| *end > window.0 && *begin < window.1);
        match reason {
            IdleReason::Launch => divide(within, copying, [SliceKind::Sync, SliceKind::Launch], &mut moments),
            IdleReason::Operator => {
                let kinds = [SliceKind::Operator, SliceKind::Annotation];
                divide(within, &parts.host.operated, kinds, &mut moments);
            }
            reason => moments.extend(within.map(|moment| (moment, reason.drawn()))),
        }
    }
    moments.sort_unstable();
    moments
}

/// Adds stretches: of one kind where another set has them, of another kind elsewhere.
fn divide(
    stretches: impl Iterator<Item = TimeRange>,
    by: &Intervals,
    [inside, outside]: [SliceKind; 2],
    moments: &mut Vec<IdleMoment>,
) {
    let mut cursor = 0;
    for (mut begin, end) in stretches {
        by.within((begin, end), &mut cursor, |(from, to), _| {
            if begin < from {
                moments.push(((begin, from), outside));
            }
            moments.push(((from, to), inside));
            begin = to;
        });
        if begin < end {
            moments.push(((begin, end), outside));
        }
    }
}

/// The gaps of a GPU, in the order of their begins.
pub fn of_gpu<'a>(
    parts: &AccountParts<'a>,
    gpu: &GpuTime,
    moments: &[IdleMoment],
    window: TimeRange,
) -> Vec<FoundGap<'a>> {
    let longest = longest(gpu.idle.iter(), window).into_iter();
    let mut gaps: Vec<_> = longest.map(|range| FoundGap::new(Some(gpu.index), range, window)).collect();
    let mut first = 0;
    for ((begin, end), kind) in moments {
        while gaps.get(first).is_some_and(|gap| gap.range.1 <= *begin) {
            first += 1;
        }
        let Some(gap) = gaps.get_mut(first) else { break };
        let common = (*end).min(gap.range.1) - (*begin).max(gap.range.0);
        if let Some(sum) = gap.by.get_mut(kind.index()) {
            *sum += common.max(0);
        }
    }
    for gap in &mut gaps {
        gap.work = begun_at(parts, gpu.index, gap.end);
        gap.call = gap.work.and_then(|work| {
            let call = *parts.host.call_of(work.link, work.external)?;
            let label = SliceLabel { operator: call.operator, ..SliceLabel::new(call.name) };
            Some(FoundCall { call, made: HostDeed { label, shapes: 0, lane: call.lane } })
        });
    }
    gaps
}

/// The waits of the loop for batches and for a GPU of which nothing is recorded.
pub fn of_loop<'a>(parts: &AccountParts<'a>, window: TimeRange) -> Vec<FoundGap<'a>> {
    let nothing = Intervals::default();
    let did = |reason: IdleReason| parts.host.did.get(reason.index()).unwrap_or(&nothing);
    let (batches, syncs) = (did(IdleReason::InputWait), did(IdleReason::Sync));
    let syncs = syncs.minus(batches);
    let kind_of = |range: TimeRange| {
        let mut found = SliceKind::Sync;
        batches.within(range, &mut 0, |_, _| found = SliceKind::Data);
        found
    };
    let ranges = longest(batches.iter().chain(syncs.iter()), window);
    let gaps = ranges.into_iter().map(|range| {
        let mut gap = FoundGap::new(None, range, window);
        if let Some(part) = gap.by.get_mut(kind_of(range).index()) {
            *part = gap.range.1 - gap.range.0;
        }
        gap
    });
    gaps.collect()
}

/// The longest parts of intervals within the step, each as its whole interval, in order of time.
fn longest(intervals: impl Iterator<Item = TimeRange>, window: TimeRange) -> Vec<TimeRange> {
    let mut heap = BinaryHeap::new();
    for (begin, end) in intervals {
        let within = end.min(window.1) - begin.max(window.0);
        if within > 0 {
            heap.push(Reverse((within, Reverse(begin), end)));
        }
        if heap.len() > GAPS {
            heap.pop();
        }
    }
    let mut ranges: Vec<TimeRange> = heap.into_iter().map(|Reverse((_, Reverse(begin), end))| (begin, end)).collect();
    ranges.sort_unstable();
    ranges
}

/// What begins on a GPU at a moment; of several the one that takes longest.
fn begun_at<'a>(parts: &AccountParts<'a>, gpu: i64, moment: i64) -> Option<&'a GpuSpan> {
    let timeline = parts.timeline;
    let first = timeline.gpu.partition_point(|span| span.start < moment);
    let same = timeline.gpu.get(first..)?.iter().take_while(|span| span.start == moment);
    same.filter(|span| timeline.gpu_of(span) == gpu && span.end > span.start).max_by_key(|span| span.end)
}

/// What is to be gathered of the host for the gaps of each GPU.
pub(crate) fn sought(found: &[Vec<FoundGap<'_>>]) -> Deeds {
    let mut deeds = Deeds::default();
    for gaps in found {
        deeds.add_gaps(gaps.iter().map(|gap| (gap.main_kind(), gap.range)));
    }
    let calls = found.iter().flatten().filter_map(|gap| gap.call.as_ref());
    deeds.add_calls(calls.map(|found| (found.call.lane, found.call.start)));
    deeds
}

/// Takes over what was gathered.
pub fn take(found: &mut [Vec<FoundGap<'_>>], deeds: &Deeds) {
    for (gpu, gaps) in found.iter_mut().enumerate() {
        for (place, gap) in gaps.iter_mut().enumerate() {
            gap.host = deeds.longest(gpu, place);
            let Some(FoundCall { call, made }) = &mut gap.call else { continue };
            if let Some(deed) = deeds.at_call(call.lane, call.start) {
                (made.label.function, made.shapes) = (deed.label.function, deed.shapes);
            }
        }
    }
}

/// The ranges around launches that end gaps, and around what they launch, in order.
pub fn ends(found: &[Vec<FoundGap<'_>>], window: TimeRange) -> Vec<TimeRange> {
    let around = |(begin, end): TimeRange| (begin - AROUND, end + AROUND);
    let ranges = found.iter().flatten().flat_map(|gap| {
        let work = gap.work.map(|work| (work.start, work.end.min(work.start + FAR)));
        match (gap.call.map(|found| (found.call.start, found.call.end)), work) {
            (Some(call), Some(work)) if work.0 - call.0 < FAR => [Some((call.0, work.1.max(call.1))), None],
            (call, work) => [call, work],
        }
    });
    Intervals::union(ranges.flatten().map(around), window).iter().collect()
}

#[cfg(test)]
mod tests {
    use crate::account::ProfileAccount;
    use crate::drawn::{DrawnGap, DrawnWork, SliceKind};
    use crate::kernel_names::kernel_name;

    fn event(category: &str, name: &str, lane: u32, (begin, end): (i64, i64), more: &str) -> String {
        let length = end - begin;
        format!(
            r#"{{"ph":"X","cat":"{category}","name":"{name}","pid":0,"tid":{lane},"ts":{begin},"dur":{length},"args":{{{more}}}}}"#
        )
    }

    fn launched(link: u32, lane: u32, call: (i64, i64), stream: u32, kernel: (i64, i64)) -> [String; 2] {
        let tie = format!("\"correlation\":{link}");
        [
            event("cuda_runtime", "cudaLaunchKernel", lane, call, &tie),
            event("kernel", "gemm", stream, kernel, &format!("{tie},\"device\":0,\"stream\":{stream}")),
        ]
    }

    fn read(events: &[String]) -> ProfileAccount {
        let text = format!(r#"{{"traceEvents":[{}]}}"#, events.join(","));
        crate::read(text.as_bytes()).unwrap()
    }

    const LOADER: &str = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__";

    const BATCH: &str = "enumerate(DataLoader)";

    /// A step of 1 ms with two kernels, the second one launched by autograd's thread, and a shorter and a longer step after it.
    fn trace() -> Vec<String> {
        let backward = "autograd::engine::evaluate_function: MmBackward0";
        let mut events = vec![
            event("user_annotation", "ProfilerStep#1", 1, (0, 1000), ""),
            event("user_annotation", LOADER, 1, (0, 400), ""),
            event("python_function", "/home/me/train.py(41): train_step", 1, (400, 1000), ""),
            event("cpu_op", "aten::mm", 1, (420, 600), ""),
            event("cpu_op", "aten::item", 1, (650, 900), ""),
            event("cuda_runtime", "cudaStreamSynchronize", 1, (660, 760), "\"correlation\":9"),
            event("cpu_op", backward, 2, (760, 950), ""),
            event("user_annotation", "ProfilerStep#2", 1, (1000, 1900), ""),
            event("user_annotation", "ProfilerStep#3", 1, (1900, 3100), ""),
        ];
        events.extend(launched(1, 1, (450, 460), 7, (468, 700)));
        events.extend(launched(2, 2, (800, 805), 8, (810, 990)));
        events.extend(launched(3, 1, (1050, 1055), 7, (1100, 3100)));
        events
    }

    fn close(one: f64, other: f64) -> bool {
        (one - other).abs() < 1e-9
    }

    fn check_work(work: &Option<DrawnWork>, lane: usize, place: &str, name: &str, (begin, end): (f64, f64)) {
        let work = work.as_ref().unwrap();
        assert_eq!((work.lane, &*work.place, &*work.name), (Some(lane), place, name));
        assert!(close(work.begin, begin) && close(work.end, end), "{work:?}");
    }

    #[test]
    fn each_gap_has_its_reasons_and_the_launch_that_ended_it() {
        let drawn = read(&trace()).drawn.unwrap();
        assert_eq!(drawn.step, Some((1, 3)));
        let names: Vec<_> = drawn.lanes.iter().map(|lane| &*lane.name).collect();
        let expected = ["annotations", "loop, thread 1", "backward, thread 2", "GPU 0, stream 7", "GPU 0, stream 8"];
        assert_eq!(names[..5], expected);
        let [first, second, last] = drawn.gaps.as_slice() else { panic!("{:?}", drawn.gaps) };
        let extent = |gap: &DrawnGap, begin, end| close(gap.begin, begin) && close(gap.end, end);
        assert!(extent(first, 0.0, 0.468) && extent(second, 0.7, 0.81) && extent(last, 0.99, 1.0), "{drawn:?}");
        use SliceKind::{Data, Launch, Operator, Python, Sync};
        assert_eq!(first.by, [(Data, 0.4), (Operator, 0.038), (Python, 0.02), (Launch, 0.01)]);
        assert_eq!(second.by, [(Sync, 0.06), (Operator, 0.045), (Launch, 0.005)]);
        assert_eq!((first.gpu, first.ms, first.goes_on, &*first.host), (Some(0), 0.468, false, BATCH));
        assert_eq!(second.host, "cudaStreamSynchronize in aten::item, train.py:41");
        let gemm = kernel_name("gemm");
        check_work(&first.work, 3, "stream 7", &gemm, (0.468, 0.7));
        check_work(&first.call, 1, "thread 1", "cudaLaunchKernel in aten::mm, train.py:41", (0.45, 0.46));
        check_work(&second.work, 4, "stream 8", &gemm, (0.81, 0.99));
        check_work(&second.call, 2, "thread 2", "cudaLaunchKernel in MmBackward0", (0.8, 0.805));
        // What ends after the step is told, and that it does.
        assert!(last.goes_on && close(last.ms, 0.01), "{last:?}");
        check_work(&last.work, 3, "stream 7", &gemm, (1.1, 3.1));
    }

    #[test]
    fn without_a_gpu_the_waits_of_the_loop_are_the_gaps() {
        let mut events = vec![event("cpu_op", "aten::mm", 2, (0, 2000), "")];
        for (number, begin) in [(1, 0), (2, 1000)] {
            events.push(event("user_annotation", &format!("ProfilerStep#{number}"), 1, (begin, begin + 1000), ""));
            events.push(event("user_annotation", LOADER, 1, (begin + 100, begin + 400), ""));
            events.push(event("cpu_op", "aten::mm", 1, (begin + 450, begin + 900), ""));
        }
        let drawn = read(&events).drawn.unwrap();
        let [gap] = drawn.gaps.as_slice() else { panic!("{:?}", drawn.gaps) };
        assert!(close(gap.begin, 0.1) && close(gap.end, 0.4) && gap.gpu.is_none(), "{gap:?}");
        assert_eq!((&*gap.by, &*gap.host), ([(SliceKind::Data, 0.3)].as_slice(), BATCH));
        assert!(gap.work.is_none() && gap.call.is_none());
    }

    #[test]
    fn the_longest_gaps_are_kept_and_what_ends_them_is_not_joined_with_others() {
        // Kernels of 1 µs every 10 µs, and after each 100th a gap of 50 µs more for each time.
        let mut events = vec![event("user_annotation", "ProfilerStep#1", 1, (0, 1_000_000), "")];
        let mut at = 1;
        for nth in 1..=20_000 {
            at += if nth % 100 == 0 { nth / 2 } else { 10 };
            events.extend(launched(nth as u32, 1, (at - 5, at - 3), 7, (at, at + 1)));
        }
        events.push(event("user_annotation", "ProfilerStep#2", 1, (1_000_000, at + 10), ""));
        let drawn = read(&events).drawn.unwrap();
        assert_eq!(drawn.gaps.len(), super::GAPS);
        assert!(drawn.gaps.windows(2).all(|pair| pair[0].end <= pair[1].begin), "in order of time");
        let kernels = &drawn.lanes.iter().find(|lane| lane.name == "GPU 0, stream 7").unwrap().slices;
        assert!(kernels.len() <= crate::packed_lane::SLICES + super::GAPS * 16, "{}", kernels.len());
        for work in drawn.gaps.iter().filter(|gap| !gap.goes_on).filter_map(|gap| gap.work.as_ref()) {
            let alone = kernels.iter().any(|kernel| close(kernel.begin, work.begin) && kernel.count == 1);
            assert!(alone, "{work:?}");
        }
    }
}
