use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::diagnosis::Verdict;
use crate::diagnosis::causes::Cause;
use crate::diagnosis::verdict::{Class, Phase, Rank};
use trainmon_rates::frame::{GpuRates, JobRates};
use trainmon_sample::gpu::GpuXids;
use trainmon_waits::Frame;
use trainmon_waits::frame::RankRates;
use trainmon_waits::time_split::TimeSplit;

/// A second of a job that trains with nothing to hold it back, in steps of 0.1 s.
#[derive(Debug, Clone)]
struct Second {
    verdict: Verdict,
    step_s: f32,
    reasons: u64,
    throttled: Option<f64>,
    gap: bool,
    alive: bool,
}

fn healthy() -> Second {
    let verdict =
        Verdict { pid: 7, phase: Phase::Training, class: Class::Balanced, confidence: 0.9, ..Verdict::default() };
    Second { verdict, step_s: 0.1, reasons: 0, throttled: None, gap: false, alive: true }
}

fn held_by(class: Class, cause: Cause) -> Second {
    Second { verdict: Verdict { class, cause: Some(cause), ..healthy().verdict }, ..healthy() }
}

fn in_phase(phase: Phase) -> Second {
    let verdict = Verdict { phase, class: Class::Idle, summary: "It stands.".into(), ..healthy().verdict };
    Second { verdict, ..healthy() }
}

fn tick(at: usize, second: &Second) -> Tick {
    let lengths = vec![second.step_s; (1.0 / second.step_s).round().max(1.0) as usize];
    let trains = second.verdict.phase == Phase::Training;
    let rank = RankRates { step_lengths_s: if trains { lengths } else { Vec::new() }, ..RankRates::default() };
    let gpu = GpuRates { attached: true, clock_event_reasons: Some(second.reasons), ..GpuRates::default() };
    let frame = Frame {
        unix_ms: at as i64 * 1000,
        seconds: 1.0,
        gap: second.gap,
        job: JobRates { throttled_share: second.throttled, ..JobRates::default() },
        ranks: vec![rank],
        gpus: vec![gpu],
        ..Frame::default()
    };
    Tick { frame: Arc::new(frame), verdict: Arc::new(second.verdict.clone()), alive: second.alive, ..Tick::default() }
}

/// What is told of these seconds, and when; without the begin.
fn told(pieces: &[(usize, Second)]) -> Vec<(i64, EventKind, Option<EventState>, String)> {
    let mut watcher = Watcher::new(WatchOptions::default());
    let seconds = pieces.iter().flat_map(|(count, second)| std::iter::repeat_n(second, *count));
    let events = seconds.enumerate().flat_map(|(at, second)| watcher.push(&tick(at, second)));
    let events = events.inspect(|event| assert_eq!(event.pid, 7));
    let told = events.filter(|event| event.kind != EventKind::Attached);
    told.map(|event| (event.unix_ms / 1000, event.kind, event.state, event.text)).collect()
}

/// The same without the words.
fn when(pieces: &[(usize, Second)]) -> Vec<(i64, EventKind, Option<EventState>)> {
    told(pieces).into_iter().map(|(at, kind, state, _)| (at, kind, state)).collect()
}

const BEGINS: Option<EventState> = Some(EventState::Begins);
const ENDS: Option<EventState> = Some(EventState::Ends);

#[test]
fn a_bottleneck_comes_changes_and_goes() {
    let [loader, io] = [held_by(Class::DataLoader, Cause::TooFewWorkers), held_by(Class::Io, Cause::NetworkStorage)];
    let told = told(&[(100, healthy()), (100, loader), (100, io), (100, healthy())]);
    let wanted = [
        (119, BEGINS, "DATA LOADER · too few workers (before: nothing holds the job back)"),
        (
            219,
            Some(EventState::Changed),
            "IO · a network file system is slow (before: DATA LOADER · too few workers)",
        ),
        (319, ENDS, "nothing holds the job back (before: IO · a network file system is slow)"),
    ];
    let found: Vec<_> = told.iter().map(|(at, _, state, text)| (*at, *state, &**text)).collect();
    assert!(told.iter().all(|(_, kind, ..)| *kind == EventKind::Bottleneck));
    assert_eq!(found.len(), 3, "{found:?}");
    for ((at, state, text), (wanted_at, wanted_state, wanted)) in found.iter().zip(wanted) {
        assert_eq!((*at, *state), (wanted_at, wanted_state));
        assert!(text.starts_with(wanted.split('·').next().unwrap()) && text.contains("(before: "), "{text}");
    }
}

#[test]
fn the_first_bottleneck_is_told_and_a_healthy_begin_is_not() {
    let io = held_by(Class::Io, Cause::NetworkStorage);
    assert_eq!(when(&[(100, io)]), [(19, EventKind::Bottleneck, BEGINS)]);
    assert_eq!(when(&[(100, healthy())]), []);
    let busy = held_by(Class::Gpu, Cause::ComputeBound);
    assert_eq!(when(&[(100, healthy()), (100, busy)]), [], "a GPU that computes all the time is healthy");
}

#[test]
fn phases_doubt_and_short_changes_are_no_bottleneck() {
    let mut unsure = held_by(Class::Io, Cause::NetworkStorage);
    unsure.verdict.confidence = 0.5;
    let phases = [Phase::Init, Phase::Compile, Phase::Validation, Phase::Checkpoint, Phase::Idle];
    let mut pieces: Vec<_> = phases.iter().flat_map(|phase| [(300, healthy()), (60, in_phase(*phase))]).collect();
    pieces.push((1000, unsure));
    pieces.extend([(300, healthy()), (15, held_by(Class::Io, Cause::NetworkStorage)), (300, healthy())]);
    let mut saving = held_by(Class::Io, Cause::CheckpointWrite);
    saving.verdict.phase = Phase::Checkpoint;
    pieces.extend([(120, saving), (300, healthy())]);
    assert_eq!(when(&pieces), []);
}

#[test]
fn a_job_that_alternates_is_told_a_few_times_a_day() {
    let turn = [(300, healthy()), (60, held_by(Class::Io, Cause::NetworkStorage))];
    let pieces: Vec<_> = std::iter::repeat_n(turn, 240).flatten().collect();
    assert!(when(&pieces).len() <= 4, "{:?}", when(&pieces));
}

#[test]
fn a_standstill_and_its_end() {
    for phase in [Phase::Hung, Phase::Stopped] {
        let told = told(&[(100, healthy()), (100, in_phase(phase)), (100, healthy())]);
        let found: Vec<_> = told.iter().map(|(at, kind, state, text)| (*at, *kind, *state, &**text)).collect();
        let wanted = [
            (111, EventKind::Hung, BEGINS, "It stands."),
            (209, EventKind::Hung, ENDS, "the job goes on, after 1m40s"),
        ];
        assert_eq!(found, wanted, "{phase:?}");
    }
    let pieces = [(100, healthy()), (60, in_phase(Phase::Idle)), (100, healthy()), (900, in_phase(Phase::Idle))];
    assert_eq!(when(&pieces), [(379, EventKind::Hung, BEGINS)], "an idle minute is none");
    assert_eq!(when(&[(900, in_phase(Phase::Idle))]), [], "what has not trained is not hung");
}

#[test]
fn slower_steps_and_their_end() {
    let slow = Second { step_s: 0.125, ..healthy() };
    let told = told(&[(600, healthy()), (100, slow), (100, healthy())]);
    let found: Vec<_> = told.iter().map(|(_, kind, state, text)| (*kind, *state, &**text)).collect();
    let wanted = [
        (EventKind::Slower, BEGINS, "steps take 25% longer than before: 125 ms instead of 100 ms"),
        (EventKind::Slower, ENDS, "steps take 100 ms again (usual: 100 ms)"),
    ];
    assert_eq!(found, wanted);
    assert!((611..=630).contains(&told[0].0) && (700..=730).contains(&told[1].0), "{told:?}");
}

#[test]
fn stalls_short_slowness_and_faster_steps_are_not_slower() {
    let step = |step_s| Second { step_s, ..healthy() };
    let gap = Second { gap: true, ..healthy() };
    let pieces = [
        (600, healthy()),
        (1, step(60.0)),
        (600, healthy()),
        (10, step(0.2)),
        (600, healthy()),
        (1, gap),
        (1, step(3600.0)),
        (600, healthy()),
        (600, step(0.11)),
        (600, step(0.05)),
        // The past is what it was for the most part.
        (600, healthy()),
    ];
    assert_eq!(when(&pieces), []);
}

#[test]
fn a_late_rank_its_cause_and_its_end() {
    let rank = |pid, other: f64, straggler| Rank {
        pid,
        rank: Some(pid - 10),
        shares: TimeSplit { other, host_busy: 1.0 - other, ..TimeSplit::default() },
        straggler,
        ..Rank::default()
    };
    let late = |late: Option<u32>| {
        let ranks = (10..13).map(|pid| rank(pid, if late == Some(pid) { 0.1 } else { 0.6 }, late == Some(pid)));
        let mut second = held_by(Class::Cpu, Cause::MainThread);
        second.verdict.ranks = ranks.collect();
        second
    };
    let told: Vec<_> = told(&[(100, late(None)), (100, late(Some(11))), (100, late(None))])
        .into_iter()
        .filter(|(_, kind, ..)| *kind == EventKind::LateRank)
        .collect();
    assert_eq!(told.len(), 2, "{told:?}");
    assert!((114..118).contains(&told[0].0), "{told:?}");
    let wanted = "the other ranks wait for rank 1 (PID 11): they wait 60% of the time, it waits 10%; CPU · ";
    assert!(told[0].3.starts_with(wanted), "{told:?}");
    assert_eq!((told[1].2, &*told[1].3), (ENDS, "the other ranks no longer wait for rank 1 (PID 11)"));
    let turns: Vec<_> = (0..300).map(|turn| (5, late(Some(10 + turn % 3)))).collect();
    assert!(when(&turns).iter().all(|(_, kind, _)| *kind != EventKind::LateRank), "ranks that are late in turn");
}

#[test]
fn what_holds_a_gpu_or_the_job_down() {
    let hot = Second { reasons: 0x40, ..healthy() };
    let told_hot = told(&[(100, healthy()), (100, hot.clone()), (100, healthy())]);
    let texts: Vec<_> = told_hot.iter().map(|(at, _, _, text)| (*at, &**text)).collect();
    assert_eq!(texts, [(114, "GPU 0 is held down: hw-thermal"), (229, "GPU 0 is no longer held down")]);
    let quota = Second { throttled: Some(0.5), ..healthy() };
    let free = Second { throttled: Some(0.0), ..healthy() };
    let wanted = [(114, EventKind::Throttled, BEGINS), (229, EventKind::Throttled, ENDS)];
    assert_eq!(when(&[(100, free.clone()), (100, quota), (100, free)]), wanted);
    let capped = Second { reasons: 0x4, ..healthy() };
    assert_eq!(when(&[(300, capped), (5, hot), (300, healthy())]), [], "a power cap, and five hot seconds");
}

#[test]
fn errors_of_a_gpu_are_told_once() {
    let mut watcher = Watcher::new(WatchOptions::default());
    let mut at = |second: usize, count: u64, last: Option<u32>| {
        let mut tick = tick(second, &healthy());
        let gpu = &mut Arc::make_mut(&mut tick.frame).gpus[0];
        gpu.xids = Some(GpuXids { count, last, last_ns: 0 });
        let events = watcher.push(&tick).into_iter().filter(|event| event.kind == EventKind::GpuError);
        events.map(|event| event.text).collect::<Vec<_>>()
    };
    assert!(at(0, 0, None).is_empty());
    assert_eq!(at(1, 1, Some(31)), ["GPU 0 reported Xid 31 (a program accessed memory that is not its own)"]);
    assert!(at(2, 1, Some(31)).is_empty());
    assert_eq!(at(3, 4, Some(79)), ["GPU 0 reported Xid 79 (fell off the bus), the last of 3 errors"]);
    assert_eq!(at(4, 1, Some(13)), ["GPU 0 reported Xid 13 (fault in a kernel of a program)"], "counted anew");
    let again: Vec<_> = (5..200).flat_map(|second| at(second, second as u64, Some(13))).collect();
    assert_eq!(again.len(), 3, "{again:?}");
    assert!(again.iter().all(|text| text.contains("the last of ")), "{again:?}");
    assert!(at(200, u64::MAX, None).is_empty());
}

#[test]
fn memory_that_fills() {
    const GIB: u64 = 1 << 30;
    let told = |used: &dyn Fn(u64) -> u64, seconds: u64| {
        let mut watcher = Watcher::new(WatchOptions::default());
        let events = (0..seconds).flat_map(|second| {
            let mut tick = tick(second as usize, &healthy());
            let frame = Arc::make_mut(&mut tick.frame);
            frame.host.memory_total_bytes = Some(100 * GIB);
            frame.host.memory_available_bytes = Some(100 * GIB - used(second));
            watcher.push(&tick)
        });
        let events = events.filter(|event| event.kind == EventKind::Memory);
        events.map(|event| (event.unix_ms / 1000, event.text)).collect::<Vec<_>>()
    };
    // 2 GiB a minute from the twentieth minute to the fiftieth.
    let leak = told(&|second| 20 * GIB + second.clamp(1200, 3000).saturating_sub(1200) * GIB / 30, 4000);
    assert_eq!(leak.len(), 2, "{leak:?}");
    assert!((1340..1480).contains(&leak[0].0) && (3000..3700).contains(&leak[1].0), "{leak:?}");
    assert!(
        leak[0].1.starts_with("the machine's memory will be full in 3") && leak[0].1.contains("GiB more each"),
        "{leak:?}"
    );
    // A step, a slow leak, one that falls again at each epoch, and noise.
    assert_eq!(told(&|second| if second > 1200 { 80 * GIB } else { 20 * GIB }, 4000), []);
    assert_eq!(told(&|second| 20 * GIB + second * GIB / 600, 4000), []);
    let epochs = told(&|second| 20 * GIB + (second % 2000) * GIB / 40, 20_000);
    assert!(epochs.len() <= 2, "{epochs:?}");
    assert_eq!(told(&|second| 95 * GIB + (second * 7919 % 1000) * GIB / 1000, 4000), []);
}

#[test]
fn the_end_is_told_once_and_is_the_last() {
    let dead = Second { alive: false, ..in_phase(Phase::Finished) };
    assert_eq!(when(&[(100, healthy()), (5, dead.clone()), (100, healthy())]), [(100, EventKind::Ended, None)]);
    assert_eq!(when(&[(5, dead)]), [(0, EventKind::Ended, None)]);
    let mut watcher = Watcher::new(WatchOptions::default());
    let last = tick(0, &healthy());
    watcher.push(&last);
    assert_eq!(watcher.let_go(&last).map(|event| event.kind), Some(EventKind::Ended));
    assert_eq!(watcher.let_go(&last), None);
}

fn second() -> impl Strategy<Value = Second> {
    let number = prop_oneof![any::<f64>(), 0.0..1e9];
    let words = (0..Class::COUNT, 0..Phase::COUNT, proptest::option::of(0..Cause::COUNT));
    (words, any::<(f32, u64, bool)>(), number.clone(), proptest::option::of(number), 0..5_u32).prop_map(
        |((class, phase, cause), (step_s, reasons, gap), confidence, throttled, straggler)| {
            let ranks = (0..3).map(|pid| Rank { pid, straggler: pid == straggler, ..Rank::default() }).collect();
            let verdict = Verdict {
                pid: 7,
                class: Class::ALL[class],
                phase: Phase::ALL[phase],
                cause: cause.map(|cause| Cause::ALL[cause]),
                confidence,
                summary: "x".into(),
                ranks,
                ..Verdict::default()
            };
            Second { verdict, step_s, reasons, throttled, gap, alive: true }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn whatever_comes_nothing_panics_and_memory_is_bounded(
        seconds in proptest::collection::vec((second(), any::<f64>()), 1..200),
        slower in 0.0..100.0_f64,
    ) {
        let mut watcher = Watcher::new(WatchOptions { slower });
        for (at, (second, length)) in seconds.iter().cycle().take(400).enumerate() {
            let mut tick = tick(at, &Second { step_s: 0.5, ..second.clone() });
            let frame = Arc::make_mut(&mut tick.frame);
            frame.seconds = *length;
            frame.gpus[0].index = at as u32;
            frame.ranks[0].step_lengths_s.push(second.step_s);
            for event in watcher.push(&tick) {
                prop_assert!(!event.text.is_empty() && serde_json::to_string(&event).is_ok());
            }
        }
        prop_assert!(watcher.is_small());
    }
}
