//! Traces, read back with the schema: every event on a declared track, begins and ends paired, times in order, arrows with two
//! ends, and nothing where nothing was measured.

use std::sync::Arc;

use proptest::prelude::*;
use prost::Message;
use serde_json::json;

use super::proto::{ClockSnapshot, Trace, TrackDescriptor};
use super::*;
use crate::testing_views::verdict;
use trainmon_diagnosis::diagnosis::verdict::Class;
use trainmon_profiles as profiles;
use trainmon_profiles::timeline::TraceTimeline;
use trainmon_rates::frame::{GpuRates, HostRates, ProcessRates};
use trainmon_sample::{JobSample, ProcessId, ProcessSample, Sample};
use trainmon_waits::Frame;
use trainmon_waits::frame::{TimedSteps, WorkerRates};
use trainmon_waits::time_split::TimeSplit;

const SECOND_NS: u64 = 1_000_000_000;
const START_MS: i64 = 1_770_000_000_000;
const START_NS: u64 = START_MS.cast_unsigned() * 1_000_000;

/// A slice of a trace.
#[derive(Debug, Clone, PartialEq)]
struct Drawn {
    /// The names of its track and of those above, the outermost first.
    track: String,
    name: String,
    /// Nanoseconds after the start.
    from: i64,
    to: i64,
    details: Vec<(String, String)>,
}

#[derive(Debug, Default)]
struct ReadTrace {
    slices: Vec<Drawn>,
    /// Track, nanoseconds after the start, value.
    counters: Vec<(String, i64, f64)>,
    units: HashMap<String, String>,
    /// Where each arrow begins and ends.
    arrows: Vec<(String, String)>,
    clocks: Option<ClockSnapshot>,
}

/// Reads a trace and checks what holds for each.
fn read(bytes: &[u8]) -> ReadTrace {
    let trace = Trace::decode(bytes).unwrap();
    let mut found = ReadTrace::default();
    let mut tracks: HashMap<u64, (String, TrackDescriptor)> = HashMap::new();
    let mut open: HashMap<u64, Vec<Drawn>> = HashMap::new();
    let mut times: HashMap<u32, u64> = HashMap::new();
    let mut flows: BTreeMap<u64, (Vec<String>, Vec<String>)> = BTreeMap::new();
    for packet in trace.packet {
        found.clocks = found.clocks.or(packet.clock_snapshot);
        if let Some(track) = packet.track_descriptor {
            let own = match (&track.name, &track.process, &track.thread) {
                (Some(name), None, None) => name.clone(),
                (None, Some(process), None) => format!("process {}", process.pid.unwrap()),
                (None, None, Some(thread)) => format!("thread {}/{}", thread.pid.unwrap(), thread.tid.unwrap()),
                other => panic!("{other:?}"),
            };
            let path = track.parent_uuid.map_or(own.clone(), |parent| format!("{}/{own}", tracks[&parent].0));
            if let Some(counter) = &track.counter {
                found.units.insert(path.clone(), counter.unit_name.clone().unwrap_or_default());
            }
            assert!(tracks.insert(track.uuid.unwrap(), (path, track)).is_none());
        }
        let Some(event) = packet.track_event else { continue };
        let (time, sequence) = (packet.timestamp.unwrap(), packet.trusted_packet_sequence_id.unwrap());
        let before = times.insert(sequence, time).unwrap_or(0);
        assert!(before <= time, "{before} {time}");
        let after = i64::try_from(time).unwrap() - START_NS.cast_signed();
        let uuid = event.track_uuid.unwrap();
        let (track, descriptor) = &tracks[&uuid];
        let name = event.name.clone();
        let details = event.debug_annotations.iter().map(|detail| {
            let number = detail.double_value.map(|value| value.to_string());
            (detail.name.clone().unwrap(), detail.string_value.clone().or(number).unwrap())
        });
        let details: Vec<_> = details.collect();
        match event.r#type() {
            EventType::SliceBegin => open.entry(uuid).or_default().push(Drawn {
                track: track.clone(),
                name: name.unwrap(),
                from: after,
                to: 0,
                details,
            }),
            EventType::SliceEnd => {
                let begun = open.get_mut(&uuid).unwrap().pop().unwrap();
                let details = [begun.details, details].concat();
                found.slices.push(Drawn { to: after, details, ..begun });
            }
            EventType::Counter => {
                assert!(descriptor.counter.is_some(), "{track}");
                found.counters.push((track.clone(), after, event.double_counter_value.unwrap()));
            }
            EventType::Unspecified => panic!("{event:?}"),
        }
        event.flow_ids.iter().for_each(|flow| flows.entry(*flow).or_default().0.push(track.clone()));
        event.terminating_flow_ids.iter().for_each(|flow| flows.entry(*flow).or_default().1.push(track.clone()));
    }
    assert!(open.values().all(Vec::is_empty), "{open:?}");
    for (_, (from, to)) in flows {
        assert_eq!((from.len(), to.len()), (1, 1));
        found.arrows.push((from[0].clone(), to[0].clone()));
    }
    found
}

fn process(pid: u32, comm: &str) -> ProcessRates {
    ProcessRates {
        id: ProcessId { pid, start_ticks: 1 },
        comm: comm.into(),
        command: comm.into(),
        ..ProcessRates::default()
    }
}

/// Second `second` of a job that waits for two workers.
fn frame(second: u64) -> Frame {
    let worker = |pid| WorkerRates {
        id: ProcessId { pid, start_ticks: 1 },
        rank: 1234,
        busy: Some(0.97),
        idle: Some(0.03),
        ..WorkerRates::default()
    };
    let split_s = TimeSplit { input_wait: 0.68, host_busy: 0.32, ..TimeSplit::default() };
    let gpu = GpuRates { attached: true, utilization_pct: Some(19.0), power_w: Some(62.0), ..GpuRates::default() };
    Frame {
        seconds: if second == 0 { 0.0 } else { 1.0 },
        gap: second == 0,
        monotonic_ns: 5 * SECOND_NS + second * SECOND_NS,
        unix_ms: START_MS + second.cast_signed() * 1000,
        host: HostRates { allowed_cpu_pct: Some(50.0), ..HostRates::default() },
        ranks: vec![RankRates { id: ProcessId { pid: 1234, start_ticks: 1 }, split_s, ..RankRates::default() }],
        workers: vec![worker(1301), worker(1302)],
        processes: vec![process(1234, "python"), process(1301, "pt_data_worker"), process(1302, "pt_data_worker")],
        gpus: vec![gpu],
        ..Frame::default()
    }
}

fn tick(frame: Frame, verdict: Verdict) -> Tick {
    let (frame, verdict) = (Arc::new(frame), Arc::new(verdict));
    Tick { frame, judged: Arc::clone(&verdict), verdict, alive: true, ..Tick::default() }
}

fn written(ticks: impl IntoIterator<Item = Tick>, profile: Option<TraceTimeline>) -> ReadTrace {
    let mut writer = TraceWriter::new(Vec::new());
    ticks.into_iter().for_each(|tick| writer.push(&tick).unwrap());
    if let Some(profile) = profile {
        writer.profile(&profile).unwrap();
    }
    read(&writer.finish().unwrap())
}

/// Name, begin and end, seconds, of the slices of a track.
fn of_track<'t>(trace: &'t ReadTrace, track: &str) -> Vec<(&'t str, i64, i64)> {
    let slices = trace.slices.iter().filter(|slice| slice.track == track);
    let second = SECOND_NS.cast_signed();
    slices.map(|slice| (slice.name.as_str(), slice.from / second, slice.to / second)).collect()
}

#[test]
fn a_run_becomes_slices_counters_and_arrows() {
    let change =
        |second| if second <= 3 { verdict() } else { Verdict { class: Class::Balanced, ..Verdict::default() } };
    let trace = written((0..=6).map(|second| tick(frame(second), change(second))), None);
    let heading = "DATA LOADER · too few workers";
    assert_eq!(of_track(&trace, "trainmon/verdict"), [(heading, 0, 3), ("HEALTHY · nothing holds it back", 3, 6)]);
    assert_eq!(of_track(&trace, "trainmon/phase"), [("training", 0, 3), ("unknown", 3, 6)]);
    assert_eq!(of_track(&trace, "thread 1234/1234/loop"), [("waiting for data", 0, 6)]);
    assert_eq!(of_track(&trace, "thread 1301/1301"), [("busy", 0, 6)]);
    let told = &trace.slices.iter().find(|slice| slice.name == heading).unwrap().details;
    assert!(told.contains(&("confidence".to_owned(), "0.93".to_owned())), "{told:?}");
    assert!(told.contains(&(
        "advice".to_owned(),
        "Raise num_workers from 4 to 7: up to 1.7× faster · 0.76 s a step".to_owned()
    )));
    // Each counter has its unit and one event, as nothing changes.
    let values = |track: &str| -> Vec<_> { trace.counters.iter().filter(|(name, ..)| name == track).collect() };
    for (track, unit, value) in [
        ("thread 1234/1234/waiting for data", "%", 68.0),
        ("thread 1234/1234/saving", "%", 0.0),
        ("trainmon/cpu_util_pct", "%", 50.0),
        ("trainmon/workers", "", 2.0),
        ("trainmon/GPU 0/util_pct", "%", 19.0),
        ("trainmon/GPU 0/power_w", "W", 62.0),
    ] {
        assert_eq!(values(track), [&(track.to_owned(), 0, value)]);
        assert_eq!(trace.units[track], unit, "{track}");
    }
    assert!(NO_COUNTERS.iter().all(|name| !trace.units.contains_key(&format!("trainmon/{name}"))));
    let from_loop: Vec<_> = trace.arrows.iter().map(|(from, to)| (from.as_str(), to.as_str())).collect();
    let chain = |pid: u32| format!("thread {pid}/{pid}/wait chain");
    assert_eq!(from_loop, [(chain(1234).as_str(), chain(1301).as_str()), (&chain(1234), &chain(1302))]);
    assert_eq!(of_track(&trace, &chain(1234)), [("the loop waits", 0, 3)]);
}

#[test]
fn what_was_not_measured_has_no_event() {
    let second = |second| {
        let mut frame = frame(second);
        frame.host.allowed_cpu_pct = (second != 3).then_some(50.0);
        frame.host.psi_io_some_pct = Some(f64::NAN);
        frame.ranks.iter_mut().for_each(|rank| rank.split_s = TimeSplit::default());
        tick(frame, verdict())
    };
    let trace = written((0..=5).map(second), None);
    let cpu = trace.counters.iter().filter(|(name, ..)| name == "trainmon/cpu_util_pct");
    let seconds: Vec<_> = cpu.map(|(_, at, _)| at / SECOND_NS.cast_signed()).collect();
    assert_eq!(seconds, [0, 3], "again after the second without it");
    for absent in ["psi_io_some_pct", "waiting for data", "loop", "mem_used_mib", "temp_c"] {
        assert!(!trace.units.keys().any(|track| track.ends_with(&format!("/{absent}"))), "{absent}");
    }
    assert!(of_track(&trace, "thread 1234/1234/loop").is_empty());
}

#[test]
fn a_gap_ends_what_is_open_and_is_told() {
    let second = |second| {
        let gap = second == 0 || second == 10;
        Frame { gap, seconds: if gap { 0.0 } else { 1.0 }, ..frame(second) }
    };
    let trace = written([0, 1, 2, 10, 11].map(|at| tick(second(at), verdict())), None);
    let heading = "DATA LOADER · too few workers";
    assert_eq!(of_track(&trace, "trainmon/verdict"), [(heading, 0, 2), ("not recorded", 2, 10), (heading, 10, 11)]);
    assert_eq!(of_track(&trace, "thread 1301/1301"), [("busy", 0, 2), ("busy", 10, 11)]);
    assert_eq!(trace.arrows.len(), 4);
}

#[test]
fn times_follow_the_monotonic_clock_until_a_gap() {
    let mut clock = WallClock::default();
    let mut at = |monotonic_s: u64, unix_ms: i64, gap| {
        let frame = Frame { monotonic_ns: monotonic_s * SECOND_NS, unix_ms, gap, seconds: 1.0, ..Frame::default() };
        let (from, to) = clock.interval(&frame);
        (from / 1_000_000, to / 1_000_000)
    };
    assert_eq!(at(100, 50_000, true), (50_000, 50_000));
    assert_eq!(at(101, 51_000, false), (50_000, 51_000));
    // The clock is set, both ways.
    assert_eq!(at(102, 90_000, false), (51_000, 52_000));
    assert_eq!(at(103, 0, false), (52_000, 53_000));
    // A suspend, a reboot, and a reboot with a clock that has lost the time.
    assert_eq!(at(104, 80_000, true), (80_000, 80_000));
    assert_eq!(at(5, 95_000, true), (95_000, 95_000));
    assert_eq!(at(6, 96_000, false), (95_000, 96_000));
    assert_eq!(at(2, -1, true), (96_000, 96_000));
    assert_eq!(at(3, 0, false), (96_000, 97_000));
}

#[test]
fn the_clocks_are_told_and_the_wall_clock_is_that_of_the_trace() {
    let sample = Arc::new(Sample { boottime_ns: 7 * SECOND_NS, ..Sample::default() });
    let first = Tick { sample, ..tick(frame(0), verdict()) };
    let clocks = written([first], None).clocks.unwrap();
    let readings: Vec<_> = clocks.clocks.iter().map(|clock| (clock.clock_id(), clock.timestamp())).collect();
    assert_eq!(readings, [(1, START_NS), (3, 5 * SECOND_NS), (6, 7 * SECOND_NS)]);
    assert_eq!(clocks.primary_trace_clock, Some(1));
}

#[test]
fn a_worker_that_is_gone_has_no_slice_any_more() {
    let second = |second| {
        let mut frame = frame(second);
        frame.workers.truncate(if second > 3 { 1 } else { 2 });
        tick(frame, verdict())
    };
    let trace = written((0..=5).map(second), None);
    assert_eq!(of_track(&trace, "thread 1301/1301"), [("busy", 0, 5)]);
    assert_eq!(of_track(&trace, "thread 1302/1302"), [("busy", 0, 3)]);
}

/// Name, begin and end in milliseconds, and details, of the slices of a track.
fn timed(trace: &ReadTrace, track: &str) -> Vec<(String, i64, i64, String)> {
    let slices = trace.slices.iter().filter(|slice| slice.track == track);
    let details =
        |slice: &Drawn| slice.details.iter().map(|(name, value)| format!("{name} {value}")).collect::<Vec<_>>();
    slices
        .map(|slice| (slice.name.clone(), slice.from / 1_000_000, slice.to / 1_000_000, details(slice).join(", ")))
        .collect()
}

#[test]
fn steps_are_slices_as_far_as_they_are_timed() {
    // Milliseconds after the start: those of the monotonic clock are five seconds ahead.
    let steps = |second: u64| -> Vec<TimedSteps> {
        let rises: &[(u64, u64, u64)] = match second {
            // The first has no begin. One step across the end of a second, then two in 30 ms, too short to tell apart.
            1 => &[(400, 700, 1)],
            2 => &[(700, 1300, 1), (1300, 1330, 2), (1330, 1360, 1)],
            // After a pause in the counting: an epoch ended.
            3 => &[(2500, 2600, 1)],
            _ => &[],
        };
        let ns = |ms: u64| 5 * SECOND_NS + ms * 1_000_000;
        let timed = |&(from, to, steps): &(u64, u64, u64)| TimedSteps {
            from_ns: ns(from),
            to_ns: ns(to),
            steps,
            within_ns: 30_000_000,
        };
        rises.iter().map(timed).collect()
    };
    let second = |second| {
        let mut frame = frame(second);
        frame.ranks[0].timed_steps = steps(second);
        tick(frame, verdict())
    };
    let trace = written((0..=4).map(second), None);
    let expected = [
        ("step", 400, 700, "ms_each 300, within_ms 30"),
        ("step", 700, 1300, "ms_each 600, within_ms 30"),
        ("3 steps", 1300, 1360, "ms_each 20, within_ms 30"),
        ("step", 2500, 2600, "ms_each 100, within_ms 30"),
    ];
    let expected = expected.map(|(name, from, to, about)| (name.to_owned(), from, to, about.to_owned()));
    assert_eq!(timed(&trace, "thread 1234/1234/steps"), expected);
    let none = written((0..=4).map(|second| tick(frame(second), verdict())), None);
    assert!(!none.slices.iter().any(|slice| slice.track.ends_with("/steps")), "nothing is made up");
}

#[test]
fn batches_of_a_worker_are_slices_from_interval_to_interval() {
    let second = |second: u64| {
        let mut frame = frame(second);
        // Of the first, so many a second; the second one makes one in three seconds, and rests in the end.
        frame.workers[0].batches_per_s = Some([0.0, 4.0, 4.5, 4.5, 4.0, 4.0, 4.0][second as usize]);
        frame.workers[1].batches_per_s = Some(f64::from(u8::from(second == 2 || second == 5)));
        (frame.workers[0].idle, frame.workers[1].idle) = (Some(0.0), Some(if second > 5 { 0.9 } else { 0.0 }));
        tick(frame, verdict())
    };
    let trace = written((0..=6).map(second), None);
    let names: Vec<_> =
        timed(&trace, "thread 1301/1301/batches").into_iter().map(|slice| (slice.0, slice.1, slice.2)).collect();
    let batches = |count: u64, from: i64| (format!("{count} batches"), from * 1000, (from + 1) * 1000);
    assert_eq!(names, [batches(4, 1), batches(5, 2), batches(4, 3), batches(4, 4), batches(4, 5)]);
    let slow = timed(&trace, "thread 1302/1302/batches");
    assert_eq!(slow, [("batch".to_owned(), 2000, 5000, "ms_each 3000, within_ms 1000".to_owned())]);
}

fn profile(events: impl IntoIterator<Item = serde_json::Value>) -> TraceTimeline {
    let events: Vec<_> = events.into_iter().collect();
    let text = json!({ "baseTimeNanoseconds": START_NS, "traceEvents": events }).to_string();
    profiles::timeline(text.as_bytes()).unwrap()
}

fn profiled(name: &str, (pid, tid): (i64, i64), at_us: f64, length_us: f64) -> serde_json::Value {
    let (category, more) = match name {
        "launch" => ("cuda_runtime", 5),
        _ if pid == 0 => ("kernel", if name == "gemm" { 5 } else { 0 }),
        _ => ("cpu_op", 0),
    };
    json!({"ph": "X", "cat": category, "name": name, "pid": pid, "tid": tid, "ts": at_us, "dur": length_us,
           "args": {"correlation": more}})
}

#[test]
fn a_profile_goes_into_the_same_trace() {
    let (of_loop, stream) = ((1234, 1234), (0, 7));
    let profile = profile([
        profiled("late", of_loop, 500.0, 10.0),
        profiled("inner", of_loop, 100.0, 50.0),
        profiled("outer", of_loop, 100.0, 200.001),
        profiled("launch", of_loop, 110.0, 10.0),
        profiled("gemm", stream, 400.0, 100.0),
        profiled("overlaps", stream, 450.0, 100.0),
        profiled("moment", stream, 460.0, 0.0),
        json!({"ph": "i", "s": "g", "name": "Iteration Start", "pid": "Traces", "tid": "Trace", "ts": 1.0}),
    ]);
    let trace = written((0..=2).map(|second| tick(frame(second), verdict())), Some(profile));
    let of = |track: &str| -> Vec<_> {
        let slices = trace.slices.iter().filter(|slice| slice.track == track);
        slices.map(|slice| (slice.name.as_str(), slice.from, slice.to)).collect()
    };
    let thread = "thread 1234/1234/torch profiler";
    assert_eq!(
        of(thread),
        [
            ("launch", 110_000, 120_000),
            ("inner", 100_000, 150_000),
            ("outer", 100_000, 300_001),
            ("late", 500_000, 510_000)
        ]
    );
    let gpu = "torch profiler: GPU 0/stream 7";
    assert_eq!(of(gpu), [("moment", 460_000, 460_000), ("gemm", 400_000, 500_000)]);
    assert_eq!(of(&format!("{gpu} (2)")), [("overlaps", 450_000, 550_000)]);
    let ours = trace.arrows.iter().filter(|(from, _)| from.contains("wait chain")).count();
    assert_eq!((ours, &trace.arrows[ours..]), (2, &[(thread.to_owned(), gpu.to_owned())][..]));
}

#[test]
fn a_profiled_process_in_a_container_is_found() {
    let process = ProcessSample {
        id: ProcessId { pid: 1234, start_ticks: 1 },
        inner_pid: Some(17),
        ..ProcessSample::default()
    };
    let job = JobSample { processes: vec![process], ..JobSample::default() };
    let sample = Arc::new(Sample { job: Some(Arc::new(job)), ..Sample::default() });
    let ticks = (0..=1).map(|second| Tick { sample: Arc::clone(&sample), ..tick(frame(second), verdict()) });
    let trace =
        written(ticks, Some(profile([profiled("op", (17, 17), 1.0, 1.0), profiled("op", (17, 18), 1.0, 1.0)])));
    let tracks: Vec<_> = trace.slices.iter().filter(|slice| slice.name == "op").map(|slice| &slice.track).collect();
    assert_eq!(tracks, ["thread 1234/1234/torch profiler", "thread 1234/18/torch profiler"]);
}

#[test]
fn a_profile_of_another_time_is_told() {
    let overlaps = |at_us| {
        let mut writer = TraceWriter::new(Vec::new());
        (0..=2).for_each(|second| writer.push(&tick(frame(second), verdict())).unwrap());
        writer.profile(&profile([profiled("op", (1, 1), at_us, 1.0)])).unwrap()
    };
    assert_eq!((overlaps(1e6), overlaps(3e6)), (true, false));
    assert!(!TraceWriter::new(Vec::new()).profile(&TraceTimeline::default()).unwrap());
}

proptest! {
    #[test]
    fn any_series_of_ticks_makes_a_whole_trace(
        ticks in prop::collection::vec((any::<u64>(), any::<i64>(), any::<bool>(), any::<f64>(), 0..3usize), 0..20),
    ) {
        let ticks = ticks.into_iter().map(|(monotonic_ns, unix_ms, gap, value, workers)| {
            let mut frame = Frame { monotonic_ns, unix_ms, gap, seconds: value, ..frame(1) };
            frame.host.allowed_cpu_pct = Some(value);
            frame.workers.iter_mut().for_each(|worker| worker.batches_per_s = Some(value));
            frame.workers.truncate(workers);
            let timed = TimedSteps { from_ns: unix_ms.unsigned_abs(), to_ns: monotonic_ns, steps: 1, within_ns: 1 };
            for rank in &mut frame.ranks {
                (rank.split_s.other, rank.timed_steps) = (value, vec![timed; workers]);
            }
            tick(frame, Verdict { confidence: value, ..verdict() })
        });
        let trace = written(ticks, None);
        prop_assert!(trace.counters.iter().all(|(.., value)| value.is_finite()));
    }

    #[test]
    fn any_profile_makes_a_whole_trace(
        events in prop::collection::vec((0..4usize, "[a-c\u{1b}é]{0,3}", -1..3i64, 0..3i64, 0..3u64, 0..20u32, 0..20u32), 0..60),
        scale in prop::sample::select(vec![1.0, 0.0001, 1e300, -1.0]),
    ) {
        let events = events.into_iter().map(|(kind, name, pid, tid, id, at, length)| {
            let category = ["cpu_op", "cuda_runtime", "kernel", "other"][kind];
            json!({"ph": "X", "name": name, "cat": category, "pid": pid, "tid": tid, "ts": f64::from(at) * scale,
                   "dur": f64::from(length) * scale, "args": {"correlation": id}})
        });
        let profile = profile(events);
        let spans = profile.host.len() + profile.gpu.len();
        let trace = written([tick(frame(0), verdict())], Some(profile));
        prop_assert_eq!(trace.slices.len(), spans);
    }
}
