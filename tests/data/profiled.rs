//! A run with a profile that was taken while it was recorded: what it says before, from then on, and without names.

use std::sync::Arc;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use trainmon::diagnosis::profiled;
use trainmon::diagnosis::verdict::Context;
use trainmon::history::archive::Limits;
use trainmon::history::run::WholeRun;
use trainmon::jobs::{JobEvent, JobKey, Target};
use trainmon::outputs::recording::Recorder;
use trainmon::outputs::{anonymize, markdown, text};
use trainmon::pipeline::{Pipeline, Tick};
use trainmon::profiles::account::{ProfileAccount, ProfileSource};
use trainmon::profiles::drawn::{DrawnLane, DrawnSlice, DrawnStep, SliceKind};
use trainmon::sample::Sample;
use trainmon::sample::recording::Header;
use trainmon::sources::recording::Recording;
use trainmon::tui::{App, AppOptions, Job, Message, Theme};
use trainmon::views::run_report::RunReport;

use super::recordings::{recordings, samples};

/// The account of a trace in which the GPU waits for `aten::item`, as the watched job gave it.
fn account() -> ProfileAccount {
    let trace = format!("{}/tests/fixtures/profiles/waits-item.json", env!("CARGO_MANIFEST_DIR"));
    let account = trainmon::profiles::read(std::fs::File::open(trace).unwrap()).unwrap();
    ProfileAccount { source: ProfileSource::Kineto, ..account }
}

/// A recorded run in whose middle a profile was taken, and the place of that.
fn run(account: ProfileAccount) -> (Header, Vec<Sample>, usize) {
    let (_, path) = recordings().into_iter().find(|(name, _)| name == "too-few-workers").unwrap();
    let (header, mut samples) = samples(&path);
    let middle = samples.len() / 2;
    samples[middle].account = Some(Arc::new(account));
    (header, samples, middle)
}

fn ticks(header: &Header, samples: &[Sample]) -> Vec<Arc<Tick>> {
    let mut pipeline = Pipeline::of_recording(header, None);
    samples.iter().map(|sample| pipeline.push(Arc::new(sample.clone()))).collect()
}

/// The run once more, written and read.
fn recorded(header: &Header, samples: &[Sample]) -> (Vec<Sample>, usize) {
    let mut bytes = Vec::new();
    let mut recorder = Recorder::new(&mut bytes, header).unwrap();
    samples.iter().for_each(|sample| recorder.write(sample).unwrap());
    recorder.flush().unwrap();
    let length = bytes.len();
    (Recording::new(&*bytes).unwrap().map(Result::unwrap).collect(), length)
}

/// What a recording keeps of a step.
fn kept(step: &DrawnStep) -> DrawnStep {
    serde_json::from_str(&serde_json::to_string(&step.recorded()).unwrap()).unwrap()
}

#[test]
fn a_recording_keeps_the_drawn_step_and_the_json_does_not() {
    let drawn = account().drawn.unwrap();
    let again = kept(&drawn);
    let [gap, ..] = again.gaps.as_slice() else { panic!("{again:?}") };
    assert_eq!(again.gaps, drawn.gaps);
    assert!(
        gap.work.is_some() && gap.call.as_ref().is_some_and(|call| call.name.contains("cudaLaunchKernel")),
        "{gap:?}"
    );
    let close = |one: f64, other: f64| (one - other).abs() < 1e-7;
    for (one, other) in again.lanes.iter().zip(&drawn.lanes) {
        assert_eq!((&one.name, one.slices.len()), (&other.name, other.slices.len()));
        for (one, other) in one.slices.iter().zip(&other.slices) {
            assert_eq!((one.kind, &one.name), (other.kind, &other.name));
            assert!(close(one.begin, other.begin) && close(one.end, other.end), "{one:?} {other:?}");
        }
    }
    let verdict = trainmon::diagnosis::profiled::verdict(account(), &Default::default());
    let json = serde_json::to_value(&verdict).unwrap();
    assert!(json["profile"].get("kernels").is_some() && json["profile"].get("drawn").is_none());
}

#[test]
fn the_largest_step_takes_some_dozen_kib_of_a_recording() {
    // As many lanes and slices as are drawn, no two with the same length and name.
    let mut random = 7_u64;
    let mut next = |most: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % most
    };
    let mut lane = |nth: usize| {
        let mut at = 0.0;
        let slices = (0..2400).map(|_| {
            let (begin, end) = (at + next(1000) as f64 / 6e6, at + 2e-4 + next(1000) as f64 / 6e6);
            at = end.max(begin);
            let name = format!("aten::operator_{} (train.py:{})", next(200), next(900));
            let kind = SliceKind::ALL[next(SliceKind::COUNT as u64) as usize];
            DrawnSlice { begin, end: at, kind, filled: next(100) as f64 / 100.0, count: next(50), name }
        });
        DrawnLane { name: format!("thread {nth}"), slices: slices.collect(), ..DrawnLane::default() }
    };
    let step = DrawnStep { length_ms: 1000.0, lanes: (0..12).map(&mut lane).collect(), ..DrawnStep::default() };
    let account = ProfileAccount { drawn: Some(step), ..account() };
    let (header, samples, _) = run(account);
    let without: Vec<_> = samples.iter().map(|sample| Sample { account: None, ..sample.clone() }).collect();
    let more = recorded(&header, &samples).1 - recorded(&header, &without).1;
    assert!(more < 64 << 10, "{more} bytes");
}

#[test]
fn a_profile_is_in_the_verdicts_from_its_moment_on_and_changes_none_before() {
    let (header, samples, middle) = run(account());
    let without: Vec<_> = samples.iter().map(|sample| Sample { account: None, ..sample.clone() }).collect();
    let (read, length) = recorded(&header, &samples);
    assert!(length < recorded(&header, &without).1 + (16 << 10), "an account of some KiB, once");
    let (live, replayed, plain) = (ticks(&header, &samples), ticks(&header, &read), ticks(&header, &without));
    let mut profile = account();
    profile.drawn = profile.drawn.as_ref().map(kept);
    for (place, ((live, replayed), plain)) in live.iter().zip(&replayed).zip(&plain).enumerate() {
        assert_eq!((live.verdict.class, live.verdict.cause), (replayed.verdict.class, replayed.verdict.cause));
        if place < middle {
            assert_eq!(replayed.verdict, plain.verdict);
            continue;
        }
        let age_s = (live.frame.monotonic_ns - samples[middle].monotonic_ns) as f64 / 1e9;
        assert_eq!(
            (replayed.verdict.profile.as_deref(), replayed.verdict.profile_age_s),
            (Some(&profile), Some(age_s))
        );
        // What is measured goes on.
        assert_eq!((replayed.verdict.shares, &replayed.verdict.steps), (plain.verdict.shares, &plain.verdict.steps));
        assert_eq!(replayed.frame.monotonic_ns, plain.frame.monotonic_ns);
    }
    // Both are told while they disagree: the workers are late, and the GPU waits for a value.
    let told = &replayed[middle].verdict;
    assert_eq!(told.heading(), "CPU · too many GPU syncs");
    let found = told.other_findings.iter().find(|finding| finding.text.starts_with("From outside: DATA LOADER"));
    assert!(found.is_some(), "{:?}", told.other_findings);
}

#[test]
fn a_replay_has_the_page_from_the_moment_of_the_profile_on() {
    let (header, samples, middle) = run(account());
    let (samples, _) = recorded(&header, &samples);
    let target = Target { pid: header.pid, command: header.command.clone() };
    let job = Job::new(JobKey::default(), target, 1.0, Limits::default()).recording();
    let mut app = App::new(job, AppOptions { theme: Theme::plain(false), ..AppOptions::default() }, (120, 40));
    for tick in ticks(&header, &samples) {
        app.update(Message::Job(JobKey::default(), JobEvent::Tick(tick)));
    }
    app.update(Message::Job(JobKey::default(), JobEvent::Loaded(None)));
    let press = |app: &mut App, c| app.update(Message::Key(KeyEvent::new(KeyCode::Char(c), KeyModifiers::NONE)));
    let screen = |app: &App| {
        let mut buf = Buffer::empty(Rect::new(0, 0, 120, 40));
        trainmon::tui::draw(&mut buf, app);
        buf.content
            .chunks(120)
            .map(|row| row.iter().map(|cell| cell.symbol()).collect::<String>() + "\n")
            .collect::<String>()
    };
    press(&mut app, '0');
    press(&mut app, '{');
    assert!(screen(&app).contains("No profile"), "{}", screen(&app));
    for place in 0..samples.len() {
        let shown = screen(&app);
        assert_eq!(shown.contains("Calls that wait for the GPU"), place >= middle, "sample {place}\n{shown}");
        assert!(place != middle || shown.contains("taken just now · window 40 ms"), "{shown}");
        assert_eq!(shown.contains("The step") || shown.contains("Step "), place >= middle, "sample {place}\n{shown}");
        // On this page the key goes from gap to gap.
        press(&mut app, '1');
        app.update(Message::Key(KeyEvent::new(KeyCode::Right, KeyModifiers::NONE)));
        press(&mut app, '0');
    }
    press(&mut app, '}');
    assert!(screen(&app).contains("Calls that wait for the GPU"));
}

#[test]
fn the_run_that_is_reported_has_its_profile() {
    let (header, samples, middle) = run(account());
    let mut run = WholeRun::default();
    ticks(&header, &samples).iter().for_each(|tick| run.push(tick));
    let (verdict, _) = run.verdict().unwrap();
    let page = text::page(verdict, text::Style::default());
    assert!(page.contains("Calls that wait for the GPU") && page.contains("aten::item"), "{page}");
    // When it was taken: the last sample is some seconds later, whatever the verdict knew of its age.
    let (taken, last) = (samples[middle].unix_ms, samples.last().unwrap().unix_ms);
    let report =
        RunReport { run: &run, header: &header, note: None, zone: jiff::tz::TimeZone::UTC, price: None, title: None };
    let clock = trainmon::zone::clock(taken, &jiff::tz::TimeZone::UTC);
    let before = trainmon::text::format::duration((last - taken) as f64 / 1000.0);
    let told = format!("### Profile of {clock}, {before} before the end\n\nwindow 40 ms · 4 steps of ");
    let page = markdown::run(&report);
    assert!(page.contains(&told), "{told}:\n{page}");
}

#[test]
fn what_is_said_of_a_profile_that_was_taken_names_no_trace_and_the_command_for_the_next_one() {
    let folder = format!("{}/tests/fixtures/profiles", env!("CARGO_MANIFEST_DIR"));
    let traces = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let style = text::Style { full: true, width: 120, ..text::Style::default() };
    let mut with_command = 0;
    for path in traces.filter(|path| path.extension().is_some_and(|ending| ending == "json")) {
        let read = trainmon::profiles::read(std::fs::File::open(&path).unwrap()).unwrap();
        for source in [ProfileSource::Kineto, ProfileSource::Injected] {
            let taken = ProfileAccount { with_stack: false, ..read.clone().asked_of(4242, source) };
            let verdict = profiled::verdict(taken, &Context { pid: 4242, ..Context::default() });
            let page = text::page(&verdict, style);
            for word in [" trace", "with_stack=", "torch.profiler.schedule", "PID PID", "profile PID"] {
                assert!(!page.contains(word), "{word}, {}:\n{page}", path.display());
            }
            let way = if source == ProfileSource::Injected { " --inject" } else { "" };
            with_command += usize::from(page.contains(&format!("trainmon profile 4242{way}")));
        }
        // The user's own file keeps its words.
        let page = text::page(&profiled::verdict(read, &Context::default()), style);
        assert!(!page.contains("trainmon profile"), "{page}");
    }
    assert!(with_command > 20, "{with_command}");
}

#[test]
fn an_anonymous_recording_names_no_directory_of_the_profile() {
    let mut account = account();
    account.syncs[0].at = Some("/home/anna/secret/train.py:41".into());
    account.kernels[0].raw = "built in /scratch/anna/kernels.cu".into();
    let drawn = account.drawn.as_mut().unwrap();
    drawn.lanes[0].slices[0].name = "load (/home/anna/load.py:3)".into();
    drawn.gaps[0].host = "read /home/anna/data".into();
    drawn.gaps[0].call.as_mut().unwrap().name = "launch, /home/anna/kernels.py:9".into();
    drawn.gaps[0].work.as_mut().unwrap().name = "kernel of /home/anna/kernels.cu".into();
    let (header, samples, middle) = run(account);
    let samples: Vec<_> = samples.iter().map(anonymize::sample).collect();
    let kept = serde_json::to_string(&samples[middle]).unwrap();
    assert!(!kept.contains("anna") && kept.contains("train.py:41"), "{kept}");
    let verdict = Arc::clone(&ticks(&header, &samples)[middle].verdict);
    assert_eq!(verdict.profile.as_ref().unwrap().syncs[0].at.as_deref(), Some("train.py:41"));
}
