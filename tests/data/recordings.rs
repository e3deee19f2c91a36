//! The diagnosis held against recorded runs whose truth is known: `recordings/NAME.tmz` with what is true about it in
//! `recordings/NAME.json`. `python measure record` makes both.
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use serde::Deserialize;
use trainmon::commands::log::LogRows;
use trainmon::diagnosis::Verdict;
use trainmon::diagnosis::causes::Cause;
use trainmon::diagnosis::culprits::CulpritKind;
use trainmon::diagnosis::verdict::{Advice, Class, Phase};
use trainmon::history::archive::{Archive, Limits, MomentId};
use trainmon::history::run::WholeRun;
use trainmon::jobs::recorded::Player;
use trainmon::jobs::session::block_on;
use trainmon::jobs::{JobEvent, JobKey, Target};
use trainmon::outputs::log::{self, Existing};
use trainmon::outputs::recording::Recorder;
use trainmon::outputs::{anonymize, json};
use trainmon::pipeline::{Pipeline, Tick};
use trainmon::sample::recording::{Header, SCHEMA};
use trainmon::sample::{JobSample, ProcessSample, Sample, ThreadSample};
use trainmon::sources::job::JobReader;
use trainmon::sources::recording::Recording;
use trainmon::sources::sampler::Sampler;
use trainmon::tui::{App, AppOptions, Job, Message};
use trainmon::views::stages::{StageKind, stages};
use trainmon::waits::{Frames, Wait};

/// The log and the verdict may differ by this much over the same time, percent: the verdict learns while the rows are written.
const APART: f64 = 2.0;

/// What is true about a recorded run.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Truth {
    class: String,
    /// None where the class has no cause, or any will do.
    cause: Option<String>,
    /// Causes that are right as well.
    #[serde(default)]
    also_causes: Vec<String>,
    min_confidence: f64,
    /// Bounds of the share of the main thread's time spent waiting for batches.
    input_wait: Option<(f64, f64)>,
    /// The same of waiting for the device.
    #[serde(default)]
    device_sync: Option<(f64, f64)>,
    /// How it was made.
    source: String,
}

pub fn recordings() -> Vec<(String, PathBuf)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recordings");
    let mut found: Vec<_> = std::fs::read_dir(folder)
        .into_iter()
        .flatten()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "tmz"))
        .map(|path| (path.file_stem().unwrap().to_string_lossy().into_owned(), path))
        .collect();
    found.sort();
    found
}

pub fn samples(path: &Path) -> (Header, Vec<Sample>) {
    let mut recording = Recording::open(path).unwrap();
    let samples: Vec<Sample> = recording.by_ref().map(Result::unwrap).collect();
    assert_eq!(recording.note, None, "{}", path.display());
    (recording.header, samples)
}

fn written(header: &Header, samples: &[Sample]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut recorder = Recorder::new(&mut bytes, header).unwrap();
    for sample in samples {
        recorder.write(sample).unwrap();
    }
    recorder.flush().unwrap();
    bytes
}

fn header() -> Header {
    Header { schema: SCHEMA, ..Header::default() }
}

fn judged(bytes: &[u8]) -> Option<Arc<Verdict>> {
    let recording = Recording::new(bytes).unwrap();
    Pipeline::of_recording(&recording.header, None).last_verdict(recording).unwrap()
}

fn judged_samples(header: &Header, samples: &[Sample]) -> Option<Arc<Verdict>> {
    let samples = samples.iter().cloned().map(Ok::<_, std::convert::Infallible>);
    Pipeline::of_recording(header, None).last_verdict(samples).unwrap()
}

fn text(verdict: &Verdict) -> Vec<u8> {
    let mut text = Vec::new();
    json::pretty(&mut text, verdict).unwrap();
    text
}

#[path = "../support/contradictions.rs"]
mod contradictions;

#[test]
fn no_verdict_contradicts_itself() {
    let mut found = Vec::new();
    for (name, path) in recordings() {
        let recording = Recording::open(&path).unwrap();
        let mut pipeline = Pipeline::of_recording(&recording.header, None);
        for (at, sample) in recording.enumerate() {
            let verdict = &pipeline.push(Arc::new(sample.unwrap())).verdict;
            if at % 5 == 0 {
                let verdict = serde_json::to_value(verdict).unwrap();
                let wrong = contradictions::contradictions(&verdict);
                found.extend(wrong.into_iter().map(|what| format!("{name}, sample {at}: {what}")));
            }
        }
    }
    assert!(found.is_empty(), "{} contradictions:\n{}", found.len(), found.join("\n"));
}

#[test]
fn verdicts_are_those_of_the_labels() {
    let mut wrong = Vec::new();
    for (name, path) in recordings() {
        let truth: Truth = serde_json::from_slice(&std::fs::read(path.with_extension("json")).unwrap()).unwrap();
        assert!(!truth.source.is_empty(), "{name}");
        let verdict = judged(&std::fs::read(&path).unwrap()).unwrap();
        let cause_right = truth.cause.is_none()
            || verdict.cause.map(Cause::name) == truth.cause.as_deref()
            || verdict.cause.is_some_and(|cause| truth.also_causes.iter().any(|also| also == cause.name()));
        let wait = verdict.shares.map(|shares| shares.input_wait);
        let sync = verdict.shares.map(|shares| shares.device_sync);
        let within = |bounds: Option<(f64, f64)>, share: Option<f64>| {
            bounds.is_none_or(|(least, most)| share.is_some_and(|share| (least..=most).contains(&share)))
        };
        let wait_right = within(truth.input_wait, wait) && within(truth.device_sync, sync);
        if verdict.class.word() != truth.class
            || !cause_right
            || verdict.confidence < truth.min_confidence
            || !wait_right
        {
            wrong.push(format!(
                "{name}: {} {:?} {:.2}, input wait {wait:?}, device sync {sync:?}; the truth: {truth:?}",
                verdict.class.word(),
                verdict.cause,
                verdict.confidence
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What changes how many there are of something, and neither the code nor the machine.
const TUNING: [&str; 7] = [
    "num_workers",
    "prefetch_factor",
    "persistent_workers",
    "in_order",
    "NUM_THREADS",
    "in processes instead of threads",
    "more of these processes",
];

#[test]
fn every_bottleneck_has_its_stage_in_the_pipeline() {
    for (name, path) in recordings() {
        let (header, samples) = samples(&path);
        let frame = {
            let pipeline = &mut Pipeline::of_recording(&header, None);
            samples.iter().map(|sample| pipeline.push(Arc::new(sample.clone()))).last().unwrap().frame.clone()
        };
        let verdict = judged_samples(&header, &samples).unwrap();
        let stages = stages(&verdict, Some(&frame));
        let limits = stages.iter().filter(|stage| stage.limit).count();
        let is_bottleneck = matches!(verdict.class, Class::DataLoader | Class::Io | Class::Cpu | Class::Gpu);
        assert_eq!(limits, usize::from(is_bottleneck), "{name}: {stages:?}");
        let ends = stages.iter().rev().map(|stage| stage.kind).find(|kind| *kind != StageKind::Gpu);
        assert!(stages.is_empty() || ends == Some(StageKind::Loop), "{name}: the loop feeds the GPU: {stages:?}");
        for stage in &stages {
            assert!(stage.busy.is_none_or(|busy| (0.0..=1.0).contains(&busy)), "{name}: {stage:?}");
            assert!(!stage.name.is_empty() && !stage.name.chars().any(char::is_control), "{name}: {stage:?}");
        }
        // The GPU's share is the verdict's own.
        let gpu = stages.iter().find(|stage| stage.kind == StageKind::Gpu).and_then(|stage| stage.busy);
        let of_others = verdict.cause == Some(Cause::SharedGpu);
        if let (Some(idle), Some(busy)) = (verdict.gpu_idle, gpu) {
            let by_job = 1.0 - idle.total;
            assert!((busy - by_job).abs() < 0.005 || (of_others && busy > by_job), "{name}: {busy} beside {idle:?}");
        }
    }
}

#[test]
fn advice_promises_no_more_than_can_be_and_most_first() {
    for (name, path) in recordings() {
        let verdict = judged(&std::fs::read(&path).unwrap()).unwrap();
        let bound = |advice: &Advice| advice.speedup_at_most.unwrap_or(1.0);
        for advice in verdict.advice.iter().filter(|advice| TUNING.iter().any(|knob| advice.title.contains(knob))) {
            let most = verdict.ceiling.map_or(f64::INFINITY, |ceiling| ceiling.speedup_at_most);
            // The ceiling is that of the CPUs as they are in use now.
            let frees_cpus = advice.title.starts_with("Free ");
            assert!(frees_cpus || bound(advice) <= most, "{name}: {advice:?} where tuning brings {most}");
        }
        if let Some((first, rest)) = verdict.advice.split_first() {
            let is_first = rest.iter().all(|other| bound(other) <= bound(first)) || first.why.contains("comes first");
            assert!(is_first, "{name}: {:?}", verdict.advice);
        }
        for looks in verdict.advice.iter().filter(|advice| advice.title.contains("py-spy")) {
            assert_eq!(looks.speedup_at_most, None, "{name}: {looks:?}");
        }
    }
}

/// An advice that a number or a name on the same page speaks against is worse than none.
#[test]
fn advice_agrees_with_what_is_shown_beside_it() {
    let mut seen = [0; 4];
    for (name, path) in recordings() {
        let (header, samples) = samples(&path);
        let pipeline = &mut Pipeline::of_recording(&header, None);
        let Some(tick) = samples.iter().map(|sample| pipeline.push(Arc::new(sample.clone()))).last() else {
            continue;
        };
        let verdict = judged_samples(&header, &samples).unwrap();
        let texts = || verdict.advice.iter().map(|advice| format!("{}: {}", advice.title, advice.why));
        // The first one gains a tenth at least, if it promises anything, and nothing is said to be 100 times as fast.
        if let Some(first) = verdict.advice.first() {
            assert!(first.speedup_at_most.is_none_or(|times| times >= 1.1), "{name}: {:?}", verdict.advice);
        }
        for gain in verdict.advice.iter().filter_map(Advice::gain) {
            let times = gain.strip_prefix("up to ").and_then(|gain| gain.strip_suffix("× faster"));
            assert!(
                times.is_none_or(|times| (1.05..=10.0).contains(&times.parse::<f64>().unwrap())),
                "{name}: {gain}"
            );
        }
        for target in verdict.advice.iter().filter_map(|advice| advice.predicted_step_ms) {
            assert!(verdict.steps.p50_ms.is_none_or(|median| target < median), "{name}: {target} beside the median");
            seen[0] += 1;
        }
        if tick.frame.gpus.is_empty() && tick.frame.job.accelerators.is_empty() {
            let moves = |text: &String| text.contains("the GPU") || text.contains("cuda");
            let asks = texts().find(|text| moves(text) && !text.contains("a machine with a GPU"));
            assert_eq!(asks, None, "{name}: there is no GPU");
            seen[1] += 1;
        }
        let shown = [verdict.summary.clone(), verdict.heading()].into_iter().chain(texts());
        if verdict.summary.contains("(127.0.0.1:") || verdict.summary.contains(" 127.0.0.1:") {
            assert!(shown.into_iter().all(|text| !text.contains("network")), "{name}: {}", verdict.summary);
            seen[2] += 1;
        }
        if verdict.cause == Some(Cause::MainThread) {
            let line = verdict.culprits.iter().any(|culprit| culprit.kind == CulpritKind::Line);
            let names_it = verdict.advice[0].title.contains(".py:") || verdict.advice[0].title.contains("<ipython");
            assert!(!line || names_it, "{name}: {:?}", verdict.advice);
            seen[3] += 1;
        }
    }
    assert!(seen.iter().all(|count| *count > 2), "{seen:?}");
}

/// What the first advice says of a loop that collects garbage, of one with a costly sampler, of one that waits for files to
/// appear in a folder, and of one whose options ask for bf16.
#[test]
fn advice_is_about_what_the_loop_does() {
    let of = |name: &str, command: Option<&str>| {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/recordings/{name}.tmz"));
        let (header, mut samples) = samples(&path);
        for process in samples
            .iter_mut()
            .filter_map(|sample| sample.job.as_mut())
            .flat_map(|job| &mut Arc::make_mut(job).processes)
        {
            command.into_iter().for_each(|command| process.command = command.into());
        }
        judged_samples(&header, &samples)
            .unwrap()
            .advice
            .iter()
            .map(|advice| advice.title.clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(
        of("collects-garbage", None),
        ["Make it cheaper, or move it out of the step: main (k_gc_every_step.py:12)"]
    );
    assert_eq!(
        of("costly-sampler", None),
        ["Make it cheaper, or move it out of the step: S.__iter__ (k_multinomial_sampler.py:13)"]
    );
    let polls = of("polls-a-folder", None);
    assert!(polls[0].starts_with("Let that process work ahead") && polls.iter().all(|title| !title.contains("send")));
    assert!(of("compute-bound-block", None)[0].contains("mixed precision"));
    assert!(of("h100-compute-bound", None)[0].contains("bf16 (torch.autocast) if not in use yet"));
    assert!(of("h100-gpt2", Some("python3 gpt.py --dtype bf16")).iter().all(|title| !title.contains("mixed")));
    assert!(of("compute-bound-block", Some("python train.py --amp false"))[0].contains("mixed precision"));
}

#[test]
fn a_second_replay_is_the_same_to_the_byte() {
    for (name, path) in recordings() {
        let bytes = std::fs::read(&path).unwrap();
        let first = text(&judged(&bytes).unwrap());
        assert_eq!(first, text(&judged(&bytes).unwrap()), "{name}");
        // Reading and writing changes nothing that a verdict rests on, and neither does anonymizing.
        let (header, samples) = samples(&path);
        let again: Vec<Sample> = samples.iter().map(anonymize::sample).collect();
        assert_eq!(first, text(&judged(&written(&anonymize::header(&header), &again)).unwrap()), "{name}");
    }
}

#[test]
fn any_number_of_samples_is_judged() {
    for (name, path) in recordings() {
        let (header, samples) = samples(&path);
        assert_eq!(judged_samples(&header, &[]), None);
        let samples: Vec<Arc<Sample>> = samples.into_iter().map(Arc::new).collect();
        // Whole, so that each of its beginnings is judged, and with each of its ticks missing.
        for missing in std::iter::once(None).chain((0..samples.len()).map(Some)) {
            let mut pipeline = Pipeline::of_recording(&header, None);
            for (at, sample) in samples.iter().enumerate().filter(|(at, _)| Some(*at) != missing) {
                let tick = pipeline.push(Arc::clone(sample));
                assert!(!tick.verdict.summary.is_empty(), "{name} without {missing:?}: {at}");
            }
        }
    }
}

#[test]
fn recordings_are_small_and_name_no_directory() {
    for (name, path) in recordings() {
        assert!(std::fs::metadata(&path).unwrap().len() <= 48 * 1024, "{name}");
        let (header, samples) = samples(&path);
        assert!(!header.command.contains('/'), "{name}: {}", header.command);
        for sample in &samples {
            let plain = serde_json::to_value(sample).unwrap();
            let anonymous = serde_json::to_value(anonymize::sample(sample)).unwrap();
            assert_eq!(plain, anonymous, "{name}: record it with --anonymize");
        }
    }
}

/// Puts `number` in the place of the `at`-th number of a JSON value.
fn replace_number(value: &mut serde_json::Value, at: &mut usize, number: u64) {
    match value {
        serde_json::Value::Number(place) => {
            if *at == 0 {
                *place = number.into();
            }
            *at = at.wrapping_sub(1);
        }
        serde_json::Value::Array(values) => values.iter_mut().for_each(|value| replace_number(value, at, number)),
        serde_json::Value::Object(values) => values.values_mut().for_each(|value| replace_number(value, at, number)),
        _ => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    /// A recording may say anything: counters that overflow, clocks that jump, times before the machine's start.
    #[test]
    fn numbers_that_no_kernel_gives_are_judged_without_a_panic(
        which in any::<prop::sample::Index>(),
        edits in prop::collection::vec(
            (any::<prop::sample::Index>(), 0..3000_usize, prop::sample::select(vec![0, 1, 255, u32::MAX as u64, i64::MAX as u64, u64::MAX])),
            1..6,
        ),
    ) {
        let all = recordings();
        if all.is_empty() {
            return Ok(());
        }
        let (header, mut samples) = samples(&all[which.index(all.len())].1);
        for (sample, mut at, number) in edits {
            let place = sample.index(samples.len());
            let mut value = serde_json::to_value(&samples[place]).unwrap();
            replace_number(&mut value, &mut at, number);
            // A number too large for its field is refused by the reader.
            if let Ok(edited) = serde_json::from_value(value) {
                samples[place] = edited;
            }
        }
        judged_samples(&header, &samples);
    }
}

/// The ticks of a recording of which a copy is at `path`: as a live job's come, and as they are read to be replayed.
fn ticks(path: &Path, header: &Header, samples: &[Sample]) -> (Vec<Arc<Tick>>, Vec<Arc<Tick>>) {
    let mut live = Pipeline::of_recording(header, None);
    let live = samples.iter().map(|sample| live.push(Arc::new(sample.clone()))).collect();
    let mut player = Player::open(path, None).unwrap();
    let mut replayed = Vec::new();
    let mut loaded = false;
    while !loaded {
        for event in block_on(async { Ok(player.next().await) }).unwrap() {
            match event {
                JobEvent::Tick(tick) => replayed.push(tick),
                JobEvent::Loaded(note) => {
                    assert_eq!(note, None);
                    loaded = true;
                }
            }
        }
    }
    (live, replayed)
}

/// What the screen remembers of its verdicts.
fn on_screen(ticks: &[Arc<Tick>], replayed: bool) -> Vec<Arc<Verdict>> {
    let job = Job::new(JobKey::default(), Target::default(), 1.0, Limits::default());
    let job = if replayed { job.recording() } else { job };
    let mut app = App::new(job, AppOptions::default(), (80, 24));
    for tick in ticks {
        app.update(Message::Job(JobKey::default(), JobEvent::Tick(Arc::clone(tick))));
    }
    let archive: &Archive = app.job().archive();
    (0..archive.len() as u64).map(|id| archive.load(MomentId(id)).unwrap().verdict).collect()
}

/// Class, cause and confidence of each row of a log.
fn in_log(folder: &Path, ticks: &[Arc<Tick>]) -> Vec<(String, String, String, String)> {
    let path = folder.join("run.csv");
    let mut rows = LogRows::new(log::open(&path, Existing::Overwrite).unwrap().0);
    ticks.iter().for_each(|tick| rows.take(Arc::clone(tick)).unwrap());
    rows.write().unwrap();
    let mut reader = csv::Reader::from_path(&path).unwrap();
    let rows = reader.records().map(Result::unwrap);
    let field = |row: &csv::StringRecord, at: usize| row[at].to_owned();
    rows.map(|row| (field(&row, 3), field(&row, 4), field(&row, 5), field(&row, 6))).collect()
}

/// The five shares of each row of a log, percent, with the seconds that the row is of.
fn shares_in_log(folder: &Path, ticks: &[Arc<Tick>]) -> Vec<(f64, Vec<f64>)> {
    let path = folder.join("shares.csv");
    let mut rows = LogRows::new(log::open(&path, Existing::Overwrite).unwrap().0);
    ticks.iter().for_each(|tick| rows.take(Arc::clone(tick)).unwrap());
    rows.write().unwrap();
    let mut reader = csv::Reader::from_path(&path).unwrap();
    let mut before = 0.0;
    let row = |row: csv::StringRecord| {
        let elapsed: f64 = row[1].parse().unwrap();
        let seconds = elapsed - std::mem::replace(&mut before, elapsed);
        (seconds, (7..12).filter_map(|at| row[at].parse().ok()).collect())
    };
    reader.records().map(Result::unwrap).map(row).collect()
}

/// The mean share that waits for data over the last seconds of a log, percent.
fn mean_wait(rows: &[(f64, Vec<f64>)], last_s: f64) -> Option<f64> {
    let (mut covered, mut seconds, mut waited) = (0.0, 0.0, 0.0);
    for (length, shares) in rows.iter().rev() {
        covered += length;
        if covered > last_s + 0.5 {
            break;
        }
        if let Some(wait) = shares.first() {
            (seconds, waited) = (seconds + length, waited + length * wait);
        }
    }
    (seconds > 0.0).then(|| waited / seconds)
}

#[test]
fn log_report_and_verdict_agree_on_the_wait_for_data() {
    let folder = tempfile::tempdir().unwrap();
    let (mut apart, mut compared) = (Vec::new(), 0);
    for (name, path) in recordings() {
        let (header, samples) = samples(&path);
        let mut pipeline = Pipeline::of_recording(&header, None);
        let ticks: Vec<_> = samples.iter().map(|sample| pipeline.push(Arc::new(sample.clone()))).collect();
        let rows = shares_in_log(folder.path(), &ticks);
        let mut run = WholeRun::default();
        ticks.iter().for_each(|tick| run.push(tick));
        let split_s = run.totals.split_s;
        let of_report = split_s.shares_of(split_s.total()).map(|shares| shares.input_wait * 100.0);
        let of_log = mean_wait(&rows, f64::INFINITY);
        assert_eq!(of_report.is_some(), of_log.is_some(), "{name}");
        let apart_by = of_report.zip(of_log).map_or(0.0, |(report, log)| (report - log).abs());
        assert!(apart_by < 0.1, "{name}: the report says {of_report:?}, the log {of_log:?}");
        let last = ticks.last().unwrap();
        let told = last.verdict.shares.filter(|_| last.frame.ranks.len() == 1);
        if let (Some(told), Some(seen)) = (told, mean_wait(&rows, last.verdict.window_s)) {
            compared += 1;
            if (told.input_wait * 100.0 - seen).abs() > APART {
                apart.push(format!("{name}: the verdict says {:.1}%, the log {seen:.1}%", told.input_wait * 100.0));
            }
        }
    }
    // Programs that change, or are watched from their first second, are among them.
    let few = apart.len() * 6 <= compared;
    assert!(compared > 100 && few, "{} of {compared} are apart:\n{}", apart.len(), apart.join("\n"));
}

fn row(verdict: &Verdict) -> (String, String, String, String) {
    let cause = verdict.cause.map(|cause| cause.to_string()).unwrap_or_default();
    (verdict.phase.word().into(), verdict.class.word().into(), cause, format!("{:.3}", verdict.confidence))
}

#[test]
fn screen_log_diagnose_and_replay_give_the_same_verdicts() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["change", "worker-restart", "stopped"] {
        let (_, path) = recordings().into_iter().find(|(other, _)| other == name).unwrap();
        let (header, mut samples) = samples(&path);
        for ends in [false, true] {
            if ends {
                let mut last = samples.last().unwrap().clone();
                (last.sequence, last.monotonic_ns) = (last.sequence + 1, last.monotonic_ns + 1_000_000_000);
                last.boottime_ns += 1_000_000_000;
                Arc::make_mut(last.job.as_mut().unwrap()).alive = false;
                samples.push(last);
            }
            let file = folder.path().join("run.tmz");
            let bytes = written(&header, &samples);
            std::fs::write(&file, &bytes).unwrap();
            let (live, replayed) = ticks(&file, &header, &samples);
            let seen: Vec<_> = live.iter().map(|tick| Arc::clone(&tick.verdict)).collect();
            assert_eq!((seen.len(), replayed.len()), (samples.len(), samples.len()), "{name}");
            assert_eq!(on_screen(&live, false), seen, "{name}");
            assert_eq!(on_screen(&replayed, true), seen, "{name}");
            assert_eq!(judged(&bytes).as_ref(), seen.last(), "{name}");
            // The first tick has no length, and no row. That the target has ended is in the log's last row alone.
            let mut rows = in_log(folder.path(), &live);
            assert_eq!(rows, in_log(folder.path(), &replayed), "{name}");
            let mut wanted: Vec<_> = seen.iter().skip(1).map(|verdict| row(verdict)).collect();
            if ends {
                assert_eq!(rows.pop().unwrap().0, Phase::Finished.word());
                assert_eq!(wanted.pop(), wanted.last().cloned(), "{name}: the run's last verdict stays");
            }
            assert_eq!(rows, wanted, "{name}");
        }
    }
}

/// The pipeline sees the same, whether samples come from the collector or from a file.
#[test]
fn written_and_read_samples_are_the_same() {
    for (name, path) in recordings() {
        let (header, samples) = samples(&path);
        let bytes = written(&header, &samples);
        let read: Vec<Sample> = Recording::new(&bytes[..]).unwrap().map(Result::unwrap).collect();
        let shown = |samples: &[Sample]| samples.iter().map(|sample| format!("{sample:?}")).collect::<Vec<_>>();
        assert_eq!(shown(&samples), shown(&read), "{name}");
    }
    // Numbers with many digits survive.
    let host = trainmon::sample::HostSample { load: Some([0.1, 1e-30, 1.0 / 3.0]), ..Default::default() };
    let cgroup = trainmon::sample::CgroupSample { cpu_quota_cores: Some(0.1 + 0.2), ..Default::default() };
    let job = trainmon::sample::JobSample { cgroup, alive: true, ..Default::default() };
    let sample = Sample { host: Some(Arc::new(host)), job: Some(Arc::new(job)), ..Default::default() };
    let bytes = written(&header(), std::slice::from_ref(&sample));
    let read = Recording::new(&bytes[..]).unwrap().next().unwrap().unwrap();
    assert_eq!(format!("{read:?}"), format!("{sample:?}"));
}

/// What the sampler saw of a real process gives the same frames live and from a recording.
/// Nothing of ours packs better, and takes more memory for each of its bytes.
#[test]
fn a_job_of_thousands_of_idle_threads_is_read_back() {
    let thread = |tid| ThreadSample {
        tid,
        name: "worker".into(),
        on_cpu_ns: Some(u64::from(tid) * 1_234_567),
        ..ThreadSample::default()
    };
    // Twice as many as are watched of one process.
    let process = ProcessSample { threads: (1..4096).map(thread).collect(), ..ProcessSample::default() };
    let job = JobSample { processes: vec![process], alive: true, ..JobSample::default() };
    let sample = Sample { job: Some(Arc::new(job)), ..Sample::default() };
    let sample = |sequence| Sample { sequence, monotonic_ns: sequence * 1_000_000_000, ..sample.clone() };
    let samples: Vec<Sample> = (0..40).map(sample).collect();
    let bytes = written(&header(), &samples);
    let json: usize = samples.iter().map(|sample| serde_json::to_vec(sample).unwrap().len()).sum();
    assert!(json / bytes.len() > 50, "{json} bytes of JSON in {}", bytes.len());
    let read: Vec<Sample> = Recording::new(&bytes[..]).unwrap().map(Result::unwrap).collect();
    assert_eq!(read.len(), samples.len());
}

#[test]
fn a_live_run_replays_to_its_own_frames() {
    let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut pipe = child.stdin.take().unwrap();
    let root = Path::new("/proc");
    let mut job = JobReader::attach(root, child.id(), false).unwrap();
    let mut sampler = Sampler::new(root);
    let ms = |since: Instant| u64::try_from(since.elapsed().as_nanos()).unwrap() + 1_000_000_000;
    let begun = Instant::now();
    let samples: Vec<Sample> = (0..5)
        .map(|sequence| {
            for _ in 0..10 {
                sampler.round(ms(begun));
                pipe.write_all(b"x").unwrap();
                std::thread::sleep(Duration::from_millis(3));
            }
            let monotonic_ns = ms(begun);
            let mut job_sample = job.read(monotonic_ns);
            job_sample.sampler = sampler.take();
            sampler.follow(job.sampler_plan());
            let job = Some(Arc::new(job_sample));
            Sample { sequence, monotonic_ns, boottime_ns: monotonic_ns, job, ..Sample::default() }
        })
        .collect();
    drop(pipe);
    child.kill().unwrap();
    child.wait().unwrap();
    let frames = |samples: Vec<Sample>| {
        let mut rates = Frames::default();
        samples.into_iter().map(|sample| rates.next(Arc::new(sample))).collect::<Vec<_>>()
    };
    let read = Recording::new(&written(&header(), &samples)[..]).unwrap().map(Result::unwrap).collect();
    let live = frames(samples);
    assert_eq!(format!("{live:?}"), format!("{:?}", frames(read)));
    // It mostly waits for its pipe.
    let rank = live.last().unwrap().ranks.first().unwrap();
    assert!(rank.samples == 10 && rank.by_wait_s[Wait::Pipe.index()] > 0.0, "{rank:?}");
}
