//! The diagnosis, driven by data: each file of `tests/diagnosis` is a series of frames and the verdict expected of it.
//!
//! ```json
//! { "name": "…",
//!   "all": { … },                     what all frames have in place of the base frame's values
//!   "spans": [ { "seconds": 20, "set": { … },        what the frames of a span have besides
//!                "cycle": [ { … }, { … } ],          the same, one patch after the other, frame by frame
//!                "expect": { … }, "within_s": 10 } ], holds at the end of the span, and from so many seconds into it
//!   "expect": { … },                  holds at the end
//!   "never": ["gpu"],                 classes that no verdict may have
//!   "most_changes": 0 }               how often class or cause may change once there is one
//! ```
//!
//! Frames are a second long. The base frame is a job that keeps its device busy (`busy_gpu`). A patch is merged onto
//! it: objects field by field; an object onto every entry of a list; a list entry by entry, where entries that the base
//! does not have begin as its first; a number gives a list that many entries; `by_wait_s` takes names of waits.
//! An expectation names `class`, `cause` (null for none), `phase`, `confidence` (least, most), `others`, causes among
//! the other findings, `first_other`, the cause of the first of these, `also`, words of one of these, `waits_for`, the end of the
//! wait chain in a word, `summary`, words of it, `first_advice`, words of its title, `brings`, least and most of its bound, and
//! `culprits`, all of them in order, each with some of its fields.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, missing_docs, reason = "tests")]

use std::collections::BTreeSet;
use std::path::Path;

use proptest::prelude::*;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use trainmon::diagnosis::causes::{Cause, Confirmed};
use trainmon::diagnosis::chain::{ChainNode, waits_for};
use trainmon::diagnosis::verdict::{Ceiling, Class, Limit, Verdict};
use trainmon::diagnosis::{Context, Diagnosis, causes};
use trainmon::rates::frame::{GpuLink, GpuRates, HostRates, JobRates, MountRates, StorageRates};
use trainmon::sample::{MountKind, ProcessId, ProcessRole, Sample};
use trainmon::waits::Frame;
use trainmon::waits::Wait;
use trainmon::waits::frame::{RankRates, WorkerRates};
use trainmon::waits::time_split::TimeSplit;

#[path = "support/contradictions.rs"]
mod contradictions;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    name: String,
    #[serde(default)]
    all: Value,
    spans: Vec<Span>,
    #[serde(default)]
    expect: Expect,
    #[serde(default)]
    never: Vec<Class>,
    most_changes: Option<usize>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Span {
    seconds: usize,
    #[serde(default)]
    set: Value,
    #[serde(default)]
    cycle: Vec<Value>,
    #[serde(default)]
    expect: Expect,
    within_s: Option<usize>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Expect {
    class: Option<Class>,
    #[serde(default, deserialize_with = "given")]
    cause: Option<Option<String>>,
    phase: Option<String>,
    /// Least and most that the rules give: what is shown is fitted to it.
    confidence: Option<(f64, f64)>,
    #[serde(default)]
    others: Vec<String>,
    /// Cause of the first of the other findings.
    first_other: Option<String>,
    /// Words of the first advice's title.
    first_advice: Option<String>,
    /// Least and most that the first advice brings.
    brings: Option<(f64, f64)>,
    /// All culprits in order, each with some of its fields.
    culprits: Option<Vec<Map<String, Value>>>,
    /// Words of another finding.
    also: Option<String>,
    waits_for: Option<String>,
    /// Words of the summary.
    summary: Option<String>,
    /// Least and most of the ceiling, and what is full then.
    ceiling: Option<(f64, f64, Limit)>,
}

/// A null that is written is not the same as nothing written.
fn given<'de, D: serde::Deserializer<'de>>(value: D) -> Result<Option<Option<String>>, D::Error> {
    Option::deserialize(value).map(Some)
}

impl Expect {
    fn check(&self, verdict: &Verdict, whence: &str) {
        let shown = || format!("{whence}: {}", serde_json::to_string_pretty(verdict).unwrap());
        if let Some(words) = &self.summary {
            assert!(verdict.summary.contains(words), "{}", shown());
        }
        if let Some(class) = self.class {
            assert_eq!(verdict.class, class, "{}", shown());
        }
        if let Some(cause) = &self.cause {
            assert_eq!(verdict.cause.map(Cause::name), cause.as_deref(), "{}", shown());
        }
        if let Some(phase) = &self.phase {
            assert_eq!(verdict.phase.word(), phase, "{}", shown());
        }
        if let Some((least, most)) = self.confidence {
            assert!((least..=most).contains(&verdict.confidence_by_rules), "{}", shown());
        }
        if let Some(word) = &self.waits_for {
            let end = waits_for(&verdict.chain).map(ChainNode::word);
            assert_eq!(end.as_ref(), Some(word), "{}", shown());
        }
        if let Some((least, most, limit)) = self.ceiling {
            let right = |found: Ceiling| (least..=most).contains(&found.speedup_at_most) && found.limit == limit;
            assert!(verdict.ceiling.is_some_and(right), "{}", shown());
        }
        if let Some(words) = &self.first_advice {
            assert!(verdict.advice[0].title.contains(words), "{}", shown());
        }
        if let Some((least, most)) = self.brings {
            let bound = verdict.advice[0].speedup_at_most.unwrap_or(1.0);
            assert!((least..=most).contains(&bound), "{}", shown());
        }
        if let Some(expected) = &self.culprits {
            let found = verdict.culprits.iter().map(|culprit| serde_json::to_value(culprit).unwrap());
            let found: Vec<Value> = found.collect();
            let is = |(expected, found): (&Map<String, Value>, &Value)| {
                expected.iter().all(|(field, value)| found[field] == *value)
            };
            assert!(expected.len() == found.len() && expected.iter().zip(&found).all(is), "{}", shown());
        }
        if let Some(cause) = &self.first_other {
            let first = verdict.other_findings.first().and_then(|finding| finding.cause);
            assert_eq!(first.map(Cause::name), Some(cause.as_str()), "{}", shown());
        }
        if let Some(words) = &self.also {
            assert!(verdict.other_findings.iter().any(|finding| finding.text.contains(words)), "{}", shown());
        }
        for other in &self.others {
            let found =
                verdict.other_findings.iter().any(|finding| finding.cause.is_some_and(|cause| cause.name() == other));
            assert!(found, "no other finding {other}; {}", shown());
        }
    }
}

/// A second of a loop that keeps its device busy while its workers have time to spare. Long because it is one list of fields.
fn busy_gpu() -> Frame {
    let rank = RankRates {
        id: ProcessId { pid: 100, start_ticks: 100 },
        seconds_seen: 1.0,
        samples: 50,
        exact: true,
        split_s: TimeSplit { input_wait: 0.01, device_sync: 0.6, host_busy: 0.37, checkpoint: 0.0, other: 0.02 },
        running_s: 0.3,
        gpu_idle_s: Some([0.01, 0.02, 0.02, 0.0, 0.0].into()),
        steps: Some(5),
        step_lengths_s: vec![0.2; 5],
        run_delay_share: Some(0.01),
        cpu_pct: Some(60.0),
        read_chars_per_s: Some(1000.0),
        ..RankRates::default()
    };
    let worker = WorkerRates {
        rank: 100,
        busy: Some(0.28),
        io_wait: Some(0.01),
        runnable: Some(0.01),
        idle: Some(0.7),
        disk_wait: Some(0.01),
        socket_wait: Some(0.0),
        cpu_pct: Some(29.0),
        active_threads: 1,
        batches_per_s: Some(1.25),
        ..WorkerRates::default()
    };
    Frame {
        seconds: 1.0,
        alive: true,
        state: 'S',
        job: JobRates {
            cpu_pct: Some(180.0),
            run_delay_share: Some(0.01),
            cpus_allowed: Some(8),
            throttled_share: Some(0.0),
            read_bytes_per_s: Some(1e6),
            active_threads: Some(6),
            library: Some("libtorch_cpu".into()),
            ..JobRates::default()
        },
        ranks: vec![rank],
        workers: vec![worker; 4],
        host: HostRates {
            allowed_cpu_pct: Some(25.0),
            others_cpu_pct: Some(20.0),
            steal_pct: Some(0.0),
            swap_in_per_s: Some(0.0),
            refaults_per_s: Some(0.0),
            psi_memory_some_pct: Some(0.0),
            ..HostRates::default()
        },
        storage: StorageRates {
            data_devices_known: true,
            read_bytes_per_s: Some(1e6),
            utilization_pct: Some(2.0),
            reads_per_s: Some(10.0),
            read_size_bytes: Some(100_000.0),
            await_ms: Some(0.5),
            mounts: vec![MountRates { kind: MountKind::Local, fs_type: "ext4".into(), ..MountRates::default() }],
            ..StorageRates::default()
        },
        gpus: vec![GpuRates {
            attached: true,
            utilization_pct: Some(95.0),
            job_utilization_pct: Some(95.0),
            memory_utilization_pct: Some(40.0),
            power_w: Some(240.0),
            power_limit_w: Some(300.0),
            clock_event_reasons: Some(0),
            pcie_rx_bytes_per_s: Some(1e9),
            pcie_tx_bytes_per_s: Some(1e8),
            pcie_capacity_bytes_per_s: Some(25e9),
            ..GpuRates::default()
        }],
        gpu_link: GpuLink::Processes,
        ..Frame::default()
    }
}

/// See the head of this file.
fn merge(base: &mut Value, patch: &Value) {
    match (base, patch) {
        (_, Value::Null) => {}
        (Value::Object(base), Value::Object(patch)) => {
            for (key, value) in patch {
                match (key.as_str(), value) {
                    ("by_wait_s", Value::Object(waits)) => {
                        let mut all = vec![0.0; Wait::COUNT];
                        for (wait, seconds) in waits {
                            let wait: Wait = serde_json::from_value(json!(wait)).unwrap();
                            all[wait.index()] = seconds.as_f64().unwrap();
                        }
                        base.insert(key.clone(), json!(all));
                    }
                    _ => {
                        let entry = base.get_mut(key).unwrap_or_else(|| panic!("a frame has no {key}"));
                        if value.is_null() {
                            *entry = Value::Null;
                        } else {
                            merge(entry, value);
                        }
                    }
                }
            }
        }
        (Value::Array(base), Value::Object(_)) => base.iter_mut().for_each(|entry| merge(entry, patch)),
        (Value::Array(base), Value::Number(count)) => {
            let first = base[0].clone();
            base.resize(count.as_u64().unwrap() as usize, first);
        }
        (Value::Array(base), Value::Array(patch)) if base.first().is_some_and(Value::is_object) => {
            let first = base[0].clone();
            base.resize(patch.len(), first);
            base.iter_mut().zip(patch).for_each(|(entry, patch)| merge(entry, patch));
        }
        (base, patch) => *base = patch.clone(),
    }
}

/// The frame of second `at`, with identities and times filled in.
fn frame(at: u64, patches: &[&Value]) -> Frame {
    let mut value = serde_json::to_value(busy_gpu()).unwrap();
    patches.iter().for_each(|patch| merge(&mut value, patch));
    finish(at, serde_json::from_value(value).unwrap())
}

fn finish(at: u64, mut frame: Frame) -> Frame {
    frame.sequence = at;
    frame.monotonic_ns = 1_000_000_000_000 + at * 1_000_000_000;
    for (worker, pid) in frame.workers.iter_mut().zip(1301..) {
        worker.id = ProcessId { pid, start_ticks: u64::from(pid) };
    }
    for (rank, pid) in frame.ranks.iter_mut().zip(100..) {
        rank.id = ProcessId { pid, start_ticks: u64::from(pid) };
    }
    for (gpu, index) in frame.gpus.iter_mut().zip(0..) {
        gpu.index = index;
    }
    frame
}

/// What the first sample of a session gives: state, but no rates.
fn first_frame(patches: &[&Value]) -> Frame {
    let later = frame(0, patches);
    Frame {
        seconds: 0.0,
        gap: true,
        sequence: 0,
        monotonic_ns: later.monotonic_ns,
        alive: later.alive,
        state: later.state,
        job: JobRates { library: later.job.library, age_s: later.job.age_s, ..JobRates::default() },
        ..Frame::default()
    }
}

/// One judge with the frames that it has seen.
struct Judge {
    diagnosis: Diagnosis,
    /// Oldest first.
    recent: Vec<Frame>,
    sample: Sample,
}

impl Judge {
    fn new() -> Self {
        let diagnosis = Diagnosis::new(Context { pid: 100, ..Context::default() });
        Self { diagnosis, recent: Vec::new(), sample: Sample::default() }
    }

    fn observe(&mut self, frame: Frame) -> Verdict {
        self.recent.push(frame);
        self.diagnosis.observe(self.recent.iter(), &self.sample)
    }
}

/// One case from begin to end.
fn run(case: &Case) {
    let mut judge = Judge::new();
    let mut at = 0;
    let mut standing: Option<(Class, Option<Cause>)> = None;
    let mut changes = 0;
    let mut latest = judge.observe(first_frame(&[&case.all, &case.spans[0].set]));
    for (number, span) in case.spans.iter().enumerate() {
        for second in 1..=span.seconds {
            at += 1;
            let empty = Value::Null;
            let turn = if span.cycle.is_empty() { &empty } else { &span.cycle[(second - 1) % span.cycle.len()] };
            latest = judge.observe(frame(at, &[&case.all, &span.set, turn]));
            let whence = format!("{}, second {second} of span {number}", case.name);
            sound(&latest, &whence);
            assert!(!case.never.contains(&latest.class), "{whence}: {:?} {:?}", latest.class, latest.cause);
            let now = (latest.class, latest.cause);
            if standing.as_ref().is_some_and(|before| before.0 != Class::Unknown && *before != now) {
                changes += 1;
            }
            standing = Some(now);
            if second == span.seconds || span.within_s.is_some_and(|within| second >= within) {
                span.expect.check(&latest, &whence);
            }
        }
        let wrong = contradictions::contradictions(&serde_json::to_value(&latest).unwrap());
        assert!(wrong.is_empty(), "{}, span {number}: {wrong:#?}", case.name);
    }
    case.expect.check(&latest, &case.name);
    if let Some(most) = case.most_changes {
        assert!(changes <= most, "{}: {changes} changes", case.name);
    }
}

/// What holds of every verdict.
fn sound(verdict: &Verdict, whence: &str) {
    assert!((0.0..=0.99).contains(&verdict.confidence), "{whence}: confidence {}", verdict.confidence);
    if let Some(shares) = verdict.shares {
        let all = [shares.input_wait, shares.device_sync, shares.host_busy, shares.checkpoint, shares.other];
        assert!((all.iter().sum::<f64>() - 1.0).abs() < 1e-6, "{whence}: {shares:?}");
        assert!(all.iter().all(|share| *share >= -1e-9), "{whence}: {shares:?}");
    }
    for advice in &verdict.advice {
        if let (Some(bound), Some(idle)) = (advice.speedup_at_most, verdict.gpu_idle) {
            // Both are rounded to two decimals; the device counts as busy one percent at least.
            let most = 1.0 / (1.0 - idle.total).max(0.01);
            assert!(bound <= most + 0.005 + 1e-9, "{whence}: {bound} where {idle:?} leaves {most}");
        }
    }
    if let Some(main) = &verdict.main_thread {
        let sum: f64 = main.activities.values().sum();
        assert!(
            (sum - 1.0).abs() < 0.02 && main.activities.values().all(|share| (-1e-9..=1.001).contains(share)),
            "{whence}: {main:?}"
        );
    }
    for stages in verdict.workers.iter().filter_map(|worker| worker.stages) {
        let all = [stages.load, stages.decode, stages.transform, stages.collate, stages.hand_over];
        assert!(all.iter().all(|share| (-1e-9..=1.01).contains(share)), "{whence}: {stages:?}");
    }
    assert!(!verdict.summary.is_empty() && verdict.summary.lines().count() == 1, "{whence}");
    if verdict.class == Class::Unknown || verdict.class == Class::Idle || verdict.class == Class::Balanced {
        assert_eq!(verdict.cause, None, "{whence}");
    }
    if let Some(cause) = verdict.cause {
        assert!(
            cause.spec_in(verdict.class).class == verdict.class && !verdict.advice.is_empty(),
            "{whence}: {cause}"
        );
    }
}

fn cases() -> Vec<Case> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/diagnosis");
    let mut paths: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
        .iter()
        .map(|path| {
            let case: Case = serde_json::from_slice(&std::fs::read(path).unwrap())
                .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            assert_eq!(path.file_stem().unwrap().to_str(), Some(case.name.as_str()));
            case
        })
        .collect()
}

#[test]
fn every_case_has_the_verdict_expected_of_it() {
    let failed: Vec<String> = cases()
        .iter()
        .filter_map(|case| {
            let outcome = std::panic::catch_unwind(|| run(case));
            outcome.is_err().then(|| case.name.clone())
        })
        .collect();
    assert!(failed.is_empty(), "failed (see above): {failed:#?}");
}

/// Causes of the table that no file expects as the verdict yet, each with the reason.
const WITHOUT_A_CASE: &[(&str, &str, &str)] =
    &[("gpu", "host-device-sync", "told apart from cpu/host-device-sync by stacks only")];

#[test]
fn every_cause_has_a_case() {
    let mut expected = BTreeSet::new();
    for case in cases() {
        for expect in case.spans.iter().map(|span| &span.expect).chain([&case.expect]) {
            if let (Some(class), Some(Some(cause))) = (expect.class, &expect.cause) {
                expected.insert((class.word(), cause.clone()));
            }
        }
    }
    for cause in causes::all() {
        let excused =
            WITHOUT_A_CASE.iter().any(|(class, name, _)| (*class, *name) == (cause.class.word(), cause.name));
        let has_one = expected.contains(&(cause.class.word(), cause.name.to_owned()));
        assert!(has_one != excused, "{}/{}: a case {has_one}, excused {excused}", cause.class.word(), cause.name);
        // What has a case is checked at least against that.
        assert_eq!(cause.confirmed == Confirmed::Unconfirmed, excused, "{}/{}", cause.class.word(), cause.name);
    }
    for (class, name, _) in WITHOUT_A_CASE {
        assert!(causes::named(&format!("{class}/{name}")).len() == 1, "{class}/{name}");
    }
}

/// Rules compare with numbers that have names: no file of a cause holds a decimal but in those and in its words.
#[test]
fn no_rule_compares_with_a_bare_literal() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/diagnosis/src/diagnosis");
    let files = std::fs::read_dir(folder.join("causes")).unwrap().map(|entry| entry.unwrap().path());
    let files: Vec<_> = files.chain(["decision.rs", "phases.rs"].map(|name| folder.join(name))).collect();
    assert!(files.len() > Cause::ALL.len(), "{files:?}");
    for path in files.iter().filter(|path| !path.ends_with("tests.rs")) {
        let text = std::fs::read_to_string(path).unwrap();
        let named = |line: &str| line.contains(" = ") && line.ends_with("\";") || line.contains("ConfidenceRamp {");
        let code = text.lines().map(str::trim).filter(|line| !line.starts_with("//") && !named(line));
        // Outside of quotes.
        let code = code.collect::<Vec<_>>().join("\n").replace("\\\"", "");
        let outside: String = code.split('"').step_by(2).collect();
        let mut words = outside.split(|c: char| !(c.is_ascii_alphanumeric() || c == '.' || c == '_'));
        let bare = |number: f64| ![0.0, 1.0, 100.0, 1000.0].contains(&number);
        let found = words.find(|word| word.contains('.') && word.parse().is_ok_and(bare));
        assert_eq!(found, None, "{}", path.display());
    }
}

/// A claim to be confirmed by a labeled workload needs one with that label; what has none may not claim it.
#[test]
fn what_is_called_confirmed_has_a_labeled_workload() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/workloads/labels.py");
    let labels = std::fs::read_to_string(path).unwrap();
    for cause in causes::all() {
        let label = format!("\"{}\", \"{}\",", cause.class.word(), cause.name);
        let claims = matches!(cause.confirmed, Confirmed::LabeledWorkloads | Confirmed::FakeDeviceOnly);
        assert!(!claims || labels.contains(&label), "{label}: {:?}", cause.confirmed);
        // The device of all labeled workloads is simulated, so what rests on it needs a recording of a real one.
        let rests_on_gpu = cause.class == Class::Gpu && cause.confirmed == Confirmed::LabeledWorkloads;
        assert!(!rests_on_gpu || was_recorded_on_a_gpu(cause.class.word(), cause.name), "{label}");
    }
}

/// Whether `python measure gpu` recorded a program of this class and cause on a real GPU, and trainmon was right about it.
fn was_recorded_on_a_gpu(class: &str, cause: &str) -> bool {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recordings");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut labels = files.filter(|path| {
        let name = path.file_name().unwrap().to_string_lossy();
        name.starts_with("h100-") && name.ends_with(".json")
    });
    labels.any(|path| {
        let label: serde_json::Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        label["class"] == class && label["cause"] == cause
    })
}

/// A change from a case with stacks to one without them, in which no cheap signal moves much, is none that happens: stacks
/// do not end where a run changes, and the old ones speak for what looks the same.
fn only_loses_its_stacks(before: &Frame, after: &Frame) -> bool {
    let signals = |frame: &Frame| {
        let rank = &frame.ranks[0];
        let worker = frame.workers.first().and_then(|worker| worker.busy).unwrap_or(0.0);
        let device = frame.gpus.first().and_then(|gpu| gpu.job_utilization_pct).unwrap_or(0.0) / 100.0;
        [
            rank.split_s.input_wait,
            rank.split_s.device_sync,
            rank.split_s.host_busy,
            rank.split_s.other,
            worker,
            device,
        ]
    };
    let moved = signals(before).iter().zip(signals(after)).any(|(a, b)| (a - b).abs() > 0.25);
    !before.stacks.is_empty() && after.stacks.is_empty() && !moved
}

/// One steady case for each class and cause: from any of them to any other the verdict follows within ten seconds.
#[test]
fn every_change_is_followed() {
    const BEFORE_S: u64 = 20;
    const WITHIN_S: u64 = 10;
    let mut steady: Vec<Case> = cases().into_iter().filter(|case| case.spans.len() == 1).collect();
    steady.retain(|case| case.spans[0].cycle.is_empty() && case.expect.phase.as_deref() == Some("training"));
    let mut known = BTreeSet::new();
    steady.retain(|case| known.insert((case.expect.class, case.expect.cause.clone())));
    let frames: Vec<Frame> = steady.iter().map(|case| frame(0, &[&case.all, &case.spans[0].set])).collect();
    let mut late = Vec::new();
    for (from, before) in steady.iter().zip(&frames) {
        let mut settled = Judge::new();
        (0..BEFORE_S).for_each(|at| drop(settled.observe(finish(at, before.clone()))));
        for (to, after) in steady.iter().zip(&frames) {
            if only_loses_its_stacks(before, after) {
                continue;
            }
            let mut judge = Judge {
                diagnosis: settled.diagnosis.clone(),
                recent: settled.recent.clone(),
                sample: Sample::default(),
            };
            let mut verdict = Verdict::default();
            for at in BEFORE_S..BEFORE_S + WITHIN_S {
                verdict = judge.observe(finish(at, after.clone()));
            }
            // That nothing is known any more is believed only once the long window says so too.
            if Some(verdict.class) != to.expect.class && to.expect.class != Some(Class::Unknown) {
                late.push(format!("{} -> {}: still {:?} {:?}", from.name, to.name, verdict.class, verdict.cause));
            }
        }
    }
    assert!(steady.len() > 25, "{}", steady.len());
    assert!(late.is_empty(), "{} changes of class are followed too late: {late:#?}", late.len());
}

/// A rank's and a worker's stacks with something of everything.
fn some_stacks() -> Value {
    let place = json!({ "function": "f\u{1b}[31m", "file": "/x/\u{202e}y.py", "line": 7, "text": "x.item()", "activity": "python",
        "user": true, "samples": 9, "leaf": 4, "blocked": 2 });
    json!([
        { "id": { "pid": 100, "start_ticks": 100 }, "role": "trainer", "validation": 3, "feeder": [0, 0],
          "main": { "waiting": 9, "receiving": 3, "transform": 4, "python": 9, "sync": 2, "checkpoint": 1, "collective": 5 },
          "places": [place] },
        { "id": { "pid": 1301, "start_ticks": 1301 }, "role": "worker", "feeder": [20, 3],
          "main": { "waiting": 5, "load": 3, "decode": 8, "transform": 4, "collate": 2 }, "places": [] },
    ])
}

/// A change to one number of a frame: which one, and what it becomes.
fn change() -> impl Strategy<Value = (prop::sample::Index, Option<f64>)> {
    let number = prop_oneof![Just(0.0), Just(1.0), 0.0..1.0, 0.0..120.0, 0.0..1e13, Just(1e300),];
    (any::<prop::sample::Index>(), prop::option::weighted(0.9, number))
}

/// Paths of all numbers and nulls of a value.
fn leaves(value: &Value, path: &str, out: &mut Vec<String>) {
    match value {
        Value::Object(fields) => fields.iter().for_each(|(key, value)| leaves(value, &format!("{path}/{key}"), out)),
        Value::Array(entries) => {
            entries.iter().enumerate().for_each(|(at, value)| leaves(value, &format!("{path}/{at}"), out));
        }
        Value::Number(_) | Value::Null => out.push(path.to_owned()),
        _ => {}
    }
}

/// The base frame with some of its numbers changed; a change that the type does not take is left out.
fn changed(
    counts: (u64, u64, u64),
    flags: (bool, bool, char),
    changes: &[(prop::sample::Index, Option<f64>)],
) -> Frame {
    let mut value = serde_json::to_value(busy_gpu()).unwrap();
    merge(&mut value, &json!({ "ranks": counts.0, "workers": counts.1, "gpus": counts.2 }));
    merge(&mut value, &json!({ "stacks": some_stacks() }));
    merge(&mut value, &json!({ "alive": flags.0, "state": flags.2, "ranks": { "exact": flags.1 } }));
    let mut paths = Vec::new();
    leaves(&value, "", &mut paths);
    for (at, number) in changes {
        let path: &String = at.get(&paths);
        let candidates = match number {
            Some(number) => vec![json!(number), json!(*number as u32)],
            None => vec![Value::Null],
        };
        let before = value.pointer(path).cloned().unwrap();
        for candidate in candidates {
            *value.pointer_mut(path).unwrap() = candidate;
            if Frame::deserialize(&value).is_ok() {
                break;
            }
            *value.pointer_mut(path).unwrap() = before.clone();
        }
    }
    let mut frame: Frame = serde_json::from_value(value).unwrap();
    frame.stacks.retain(|stacks| !(counts.0 == 0 && stacks.role != ProcessRole::Worker));
    for rank in &mut frame.ranks {
        // What the fold of samples promises: shares of an interval, adding up.
        rank.seconds_seen = rank.split_s.total();
        rank.running_s = rank.running_s.min(rank.split_s.host_busy);
    }
    for gpu in &mut frame.gpus {
        for pct in [&mut gpu.utilization_pct, &mut gpu.job_utilization_pct] {
            *pct = pct.map(|pct| pct.min(100.0));
        }
    }
    frame
}

fn any_frame() -> impl Strategy<Value = Frame> {
    let counts = (0_u64..3, 0_u64..6, 0_u64..3);
    let flags = (prop::bool::weighted(0.97), any::<bool>(), prop::sample::select(vec!['S', 'R', 'D', 'T', 'Z']));
    (counts, flags, prop::collection::vec(change(), 0..12))
        .prop_map(|(counts, flags, changes)| changed(counts, flags, &changes))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_frames_give_sound_verdicts(frames in prop::collection::vec(any_frame(), 1..12)) {
        let mut judge = Judge::new();
        let mut again = Judge::new();
        for (at, frame) in (0..).zip(frames) {
            let frame = finish(at, frame);
            let verdict = judge.observe(frame.clone());
            sound(&verdict, "arbitrary frames");
            prop_assert_eq!(&verdict, &again.observe(frame), "the same frames give the same verdict");
        }
    }
}

#[test]
fn patches_are_merged_as_the_head_of_this_file_says() {
    let mut value = json!({ "a": [{ "x": 1, "y": 2 }], "b": { "c": 1 } });
    merge(&mut value, &json!({ "a": 2, "b": { "c": null } }));
    assert_eq!(value, json!({ "a": [{ "x": 1, "y": 2 }, { "x": 1, "y": 2 }], "b": { "c": null } }));
    merge(&mut value, &json!({ "a": { "x": 5 } }));
    merge(&mut value, &json!({ "a": [{ "y": 7 }, {}, {}] }));
    assert_eq!(value["a"], json!([{ "x": 5, "y": 7 }, { "x": 5, "y": 2 }, { "x": 5, "y": 2 }]));
    merge(&mut value, &json!({ "a": 0 }));
    assert_eq!(value["a"], Value::Array(Vec::new()));
    let frame = frame(3, &[&json!({ "ranks": { "by_wait_s": { "disk-read": 0.5 } } })]);
    assert!((frame.ranks[0].by_wait_s[Wait::DiskRead.index()] - 0.5).abs() < 1e-6);
    let _: Map<String, Value> = serde_json::from_value(serde_json::to_value(frame).unwrap()).unwrap();
}
