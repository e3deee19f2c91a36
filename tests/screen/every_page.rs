//! Every page with whatever a frame or a verdict may hold, at every state of a session, with every key.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::app::*;
use crossterm::event::KeyCode;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use trainmon::commands::screen;
use trainmon::diagnosis::Verdict;
use trainmon::diagnosis::verdict::{Hottest, MainThread, Rank, Stages, Subject, Unavailable, WorkerVerdict};
use trainmon::rates::frame::{DeviceRates, GpuProcessRates, NetRates};
use trainmon::rates::other_processes::{OtherProcessRates, OtherProcesses};
use trainmon::rates::threads::{ThreadRates, ThreadRoleRates};
use trainmon::sample::{SourceState, SourceStatus, Sources};
use trainmon::tui::keys::{Action, TABLE};
use trainmon::tui::pages::Page;
use trainmon::tui::{App, AppOptions, Effect, Message};
use trainmon::waits::Frame;
use trainmon::waits::stacks::{Activities, Activity, CodePlace, ProcessStacks};

const HELP: char = '?';
/// What could steer a terminal, reorder a line or be taken for markup.
const HOSTILE: &str = "\u{1b}]52;c;eA==\u{7}\u{1b}[2J\u{9b}2J\n\u{202e}e\u{301}\u{301}\u{301}日本語</svg>|`*& ";

/// The key of each page.
fn pages() -> impl Iterator<Item = char> {
    Page::ALL.into_iter().filter_map(|page| page.spec().keys.chars().next())
}

fn is_safe(text: &str) -> bool {
    !text.chars().any(|c| (c.is_control() && c != '\n') || ('\u{202a}'..='\u{202e}').contains(&c))
}

/// Draws, and looks at every cell.
fn check(app: &App, size: (u16, u16)) {
    for cell in &draw(app, size).content {
        assert!(is_safe(cell.symbol()) && !cell.symbol().contains('\n'), "{:?}", cell.symbol());
    }
}

/// Every page from top to bottom, whatever opens over it, what is saved and copied, and the past.
fn walk(app: &mut App, size: (u16, u16)) {
    for page in pages() {
        press(app, KeyCode::Esc);
        press(app, KeyCode::Char(page));
        check(app, size);
        for key in [
            KeyCode::PageDown,
            KeyCode::Enter,
            KeyCode::PageDown,
            KeyCode::Esc,
            KeyCode::Char('t'),
            KeyCode::Char('H'),
            KeyCode::Char('I'),
            KeyCode::Char('G'),
            KeyCode::Left,
            KeyCode::Char('+'),
            KeyCode::Char('-'),
            KeyCode::Char('}'),
        ] {
            press(app, key);
            check(app, size);
        }
        for (menu, choices) in [('e', "mjs"), ('c', " ")] {
            for choice in choices.chars() {
                let mut effects = press(app, KeyCode::Char(menu));
                check(app, size);
                effects.extend(press(app, KeyCode::Char(choice)));
                for effect in effects {
                    let text = match effect {
                        Effect::Save(export) => screen::saved(app, export).unwrap(),
                        Effect::Copy(text) => text,
                        _ => continue,
                    };
                    let is_bad = |c: &char| !is_safe(c.encode_utf8(&mut [0; 4]));
                    assert_eq!(text.chars().find(is_bad), None, "{menu}{choice}");
                }
            }
        }
        for popup in [KeyCode::Char('o'), KeyCode::F(2), KeyCode::F(6), KeyCode::F(9), KeyCode::Char('/')] {
            press(app, popup);
            check(app, size);
            press(app, KeyCode::Down);
            press(app, KeyCode::Esc);
        }
    }
}

/// Puts another value into every leaf, the first of `instead` that its type takes.
fn replaced<T: Serialize + DeserializeOwned>(whole: &T, instead: &dyn Fn(&Value) -> Vec<Value>) -> T {
    fn leaves(value: &Value, path: &str, all: &mut Vec<String>) {
        match value {
            Value::Array(items) => (0..).zip(items).for_each(|(i, v)| leaves(v, &format!("{path}/{i}"), all)),
            Value::Object(items) => items.iter().for_each(|(k, v)| leaves(v, &format!("{path}/{k}"), all)),
            _ => all.push(path.to_owned()),
        }
    }
    let mut value = serde_json::to_value(whole).unwrap();
    let mut all = Vec::new();
    leaves(&value, "", &mut all);
    for path in all {
        let place = value.pointer(&path).unwrap().clone();
        for other in instead(&place) {
            *value.pointer_mut(&path).unwrap() = other;
            if T::deserialize(&value).is_ok() {
                break;
            }
            *value.pointer_mut(&path).unwrap() = place.clone();
        }
    }
    T::deserialize(&value).unwrap()
}

/// Numbers as large, or as small, as their types take them; text that is hostile; nothing left out.
fn extremes(large: bool) -> impl Fn(&Value) -> Vec<Value> {
    let numbers: Vec<Value> = if large {
        vec![
            1e308.into(),
            u64::MAX.into(),
            i64::MAX.into(),
            u32::MAX.into(),
            i32::MAX.into(),
            u16::MAX.into(),
            255.into(),
        ]
    } else {
        vec![(-1e308).into(), i64::MIN.into(), i32::MIN.into(), 0.into()]
    };
    move |value| match value {
        Value::Number(number) if number.is_f64() => numbers[..1].to_vec(),
        Value::Number(_) => numbers[1..].to_vec(),
        Value::Null => numbers.iter().cloned().chain([HOSTILE.into(), true.into()]).collect(),
        Value::String(_) => vec![HOSTILE.repeat(60).into()],
        _ => Vec::new(),
    }
}

/// A frame with at least one of everything.
fn rich(t: u64) -> Frame {
    let mut frame = frame(t, Job { workers: 2, gpus: 2, seconds: 0 });
    frame.ranks[0].chain = Some(crate::chain::rates(t));
    frame.ranks.push(frame.ranks[0].clone());
    frame.threads = vec![ThreadRates { process: id(1234), ..ThreadRates::default() }];
    frame.thread_roles = vec![ThreadRoleRates::default()];
    frame.other_processes = Some(OtherProcesses { processes: vec![OtherProcessRates::default()], seconds: 2.0 });
    frame.host.net = vec![NetRates::default()];
    frame.storage.devices = vec![DeviceRates { data: true, ..DeviceRates::default() }, DeviceRates::default()];
    frame.storage.mounts[0].examples = vec!["/data/a".into()];
    frame.gpus[0].processes = vec![GpuProcessRates { pid: 1234, ours: Some(true), ..GpuProcessRates::default() }];
    frame.gpus[0].others = vec![Default::default()];
    let place = CodePlace {
        function: "f".into(),
        file: "a.py".into(),
        line: 3,
        text: None,
        activity: Activity::Forward,
        user: true,
        samples: 3,
        leaf: 3,
        blocked: 0,
    };
    let mut main = Activities::default();
    main.add(place.activity, place.samples);
    frame.stacks = vec![ProcessStacks { id: id(1234), main, places: vec![place], ..ProcessStacks::default() }];
    frame
}

fn rich_verdict() -> Verdict {
    let hottest = || Hottest { function: "f".into(), file: "a.py".into(), line: 3, share: 0.2 };
    Verdict {
        main_thread: Some(MainThread {
            hottest: vec![hottest()],
            sync_lines: vec![hottest()],
            ..MainThread::default()
        }),
        workers: vec![WorkerVerdict {
            pid: 1301,
            stages: Some(Stages::default()),
            hottest: Some(hottest()),
            ..WorkerVerdict::default()
        }],
        chain: crate::chain::workers(),
        ranks: vec![Rank { pid: 1234, straggler: true, ..Rank::default() }],
        profile: Some(crate::profile::account().into()),
        ..data_loader()
    }
}

#[test]
fn numbers_of_any_size_and_hostile_text_break_no_page() {
    for large in [true, false] {
        let mut verdict = replaced(&rich_verdict(), &extremes(large));
        // The JSON of a verdict does not have it.
        let step = Some(replaced(&crate::profile_step::step(), &extremes(large)));
        Arc::make_mut(verdict.profile.as_mut().unwrap()).drawn = step;
        let verdict = Arc::new(verdict);
        let frame = replaced(&rich(4), &extremes(large));
        for size in [(80, 24), (200, 60), (40, 10)] {
            let mut app = fresh(if large { *COLOR } else { ASCII }, size);
            for frame in (1..4).map(rich).chain([frame.clone()]) {
                tell(&mut app, frame, Arc::clone(&verdict));
            }
            walk(&mut app, size);
        }
    }
}

/// Puts a value into every measured number of a frame.
fn flood(frame: &mut Frame, v: f64) {
    macro_rules! set {
        ($of:expr; $($field:ident)*) => { $( $of.$field = Some(v); )* };
    }
    frame.seconds = v;
    set!(frame; own_cpu_pct);
    set!(frame.job; cpu_pct run_delay_share read_bytes_per_s write_bytes_per_s read_chars_per_s age_s throttled_share cpu_quota_cores
        major_faults_per_s refaults_per_s read_calls_per_s);
    set!(frame.host; allowed_cpu_pct others_cpu_pct steal_pct psi_cpu_some_pct psi_io_some_pct psi_memory_some_pct
        net_rx_bytes_per_s net_tx_bytes_per_s refaults_per_s swap_in_per_s);
    set!(frame.storage; read_bytes_per_s write_bytes_per_s utilization_pct await_ms);
    for cpu in &mut frame.host.cpus {
        (cpu.busy_pct, cpu.iowait_pct, cpu.steal_pct) = (v as f32, v as f32, v as f32);
    }
    for t in &mut frame.ranks {
        (t.seconds_seen, t.split_s.input_wait, t.split_s.device_sync, t.split_s.host_busy, t.split_s.other) =
            (v, v, v, v, v);
    }
    for w in &mut frame.workers {
        set!(w; busy io_wait runnable idle batches_per_s read_chars_per_s major_faults_per_s);
    }
    for p in &mut frame.processes {
        set!(p; cpu_pct run_delay_share read_bytes_per_s write_bytes_per_s cpu_time_s minor_faults_per_s);
    }
    for d in &mut frame.storage.devices {
        (d.utilization_pct, d.read_bytes_per_s, d.reads_per_s, d.queue) = (v, v, v, v);
        set!(d; await_ms);
    }
    for g in &mut frame.gpus {
        set!(g; utilization_pct job_utilization_pct power_w power_limit_w pcie_rx_bytes_per_s pcie_capacity_bytes_per_s);
    }
    for t in &mut frame.threads {
        (t.cpu_pct, t.run_delay_pct) = (v as f32, v as f32);
    }
    if let Some(other_processes) = &mut frame.other_processes {
        other_processes.seconds = v;
        other_processes.processes.iter_mut().for_each(|p| p.cpu_pct = v);
    }
}

#[test]
fn what_is_no_number_is_shown_as_none() {
    for v in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        let size = (120, 40);
        let mut app = fresh(PLAIN, size);
        for t in 1..4 {
            let mut frame = rich(t);
            flood(&mut frame, v);
            tell(&mut app, frame, rich_verdict());
        }
        for page in pages() {
            press(&mut app, KeyCode::Char(page));
            let shown = text(&app, size);
            let bad = ["NaN", "inf %", "inf ", "-inf"].iter().find(|bad| shown.contains(**bad));
            assert!(bad.is_none(), "{v} on page {page}: {bad:?}\n{shown}");
        }
        walk(&mut app, size);
    }
}

#[test]
fn ten_thousand_of_everything_do_not_take_seconds() {
    const MANY: usize = 10_000;
    fn many<T: Clone>(list: &mut Vec<T>, each: impl Fn(usize, &mut T)) {
        let one = list[0].clone();
        *list = (0..MANY)
            .map(|n| {
                let mut one = one.clone();
                each(n, &mut one);
                one
            })
            .collect();
    }
    let mut frame = rich(1);
    many(&mut frame.ranks, |n, t| t.id = id(10_000 + n as u32));
    many(&mut frame.workers, |n, w| w.id = id(20_000 + n as u32));
    many(&mut frame.processes, |n, p| (p.id, p.parent) = (id(20_000 + n as u32), 19_999 + n as u32));
    many(&mut frame.threads, |n, t| (t.process, t.tid) = (id(20_000 + n as u32), n as u32));
    many(&mut frame.thread_roles, |_, _| ());
    many(&mut frame.other_processes.as_mut().unwrap().processes, |n, p| p.id = id(40_000 + n as u32));
    many(&mut frame.host.net, |_, n| n.rx_bytes_per_s = Some(1e6));
    many(&mut frame.host.cpus, |n, c| c.cpu = n as _);
    many(&mut frame.storage.devices, |n, d| d.utilization_pct = n as f64);
    many(&mut frame.storage.mounts, |_, _| ());
    many(&mut frame.gpus, |n, g| g.index = n as u32);
    many(&mut frame.stacks, |n, s| s.id = id(20_000 + n as u32));
    let mut verdict = rich_verdict();
    many(&mut verdict.workers, |n, w| w.pid = 20_000 + n as u32);
    many(&mut verdict.ranks, |n, r| r.pid = 10_000 + n as u32);
    let profile = std::sync::Arc::make_mut(verdict.profile.as_mut().unwrap());
    many(&mut profile.devices, |n, device| device.index = n as i64);
    many(&mut profile.kernels, |n, row| row.name = format!("kernel {n}"));
    many(&mut profile.idle_at, |_, _| ());
    many(&mut profile.notes, |_, _| ());
    let step = profile.drawn.as_mut().unwrap();
    many(&mut step.lanes, |_, _| ());
    many(&mut step.gaps, |n, gap| gap.begin = n as f64 / MANY as f64);
    let (frame, verdict) = (frame, Arc::new(verdict));
    let size = (120, 40);
    let mut app = fresh(PLAIN, size);
    for page in pages() {
        press(&mut app, KeyCode::Char(page));
        // Tests are not optimised: a tenth of this, or less, is what somebody would wait.
        let begun = Instant::now();
        tell(&mut app, frame.clone(), Arc::clone(&verdict));
        let told = begun.elapsed();
        draw(&app, size);
        let drawn = begun.elapsed() - told;
        press(&mut app, KeyCode::Down);
        draw(&app, size);
        let pressed = begun.elapsed() - told - drawn;
        if std::env::var_os("SHOW").is_some() {
            eprintln!("page {page}: told {told:?} drawn {drawn:?} pressed {pressed:?}");
        }
        assert!(drawn.max(pressed) < Duration::from_secs(2), "page {page}: drawn {drawn:?}, a key {pressed:?}");
        assert!(told < Duration::from_secs(10), "page {page}: {told:?}");
    }
}

fn denied(reason: &str) -> SourceStatus {
    SourceStatus {
        state: SourceState::Denied,
        reason: Some(reason.into()),
        fix: Some("sudo trainmon".into()),
        ..Default::default()
    }
}

/// A session as it may stand, with its name.
fn states(size: (u16, u16)) -> Vec<(&'static str, App)> {
    let told = |frames: Vec<Frame>, verdict: Verdict| {
        let mut app = fresh(PLAIN, size);
        for frame in frames {
            tell(&mut app, frame, verdict.clone());
        }
        app
    };
    let some = |workers, gpus| (1..4).map(|t| frame(t, Job { workers, gpus, seconds: 0 })).collect::<Vec<_>>();
    let mut no_io = some(4, 1);
    for frame in &mut no_io {
        frame.job.read_bytes_per_s = None;
        frame.job.write_bytes_per_s = None;
        frame.storage = Default::default();
    }
    let missing = |what: Subject| Unavailable {
        what: what.into(),
        why: "it may not be read".into(),
        fix: Some("sudo x".into()),
    };
    let blind = Verdict {
        not_seen: [Subject::Io, Subject::Stacks, Subject::Nvml, Subject::Fd].map(missing).to_vec(),
        ..unknown()
    };
    let mut no_stacks = told(some(4, 0), blind.clone());
    let sources = Sources { stacks: denied("py-spy is not installed"), gpu: denied("no NVML"), ..Sources::default() };
    tell_sources(&mut no_stacks, sources);
    let mut ended = told(some(4, 1), data_loader());
    tell_end(&mut ended, None);
    let replay = |frames: Vec<Frame>| {
        let mut app = App::new(job().recording(), AppOptions { theme: PLAIN, ..AppOptions::default() }, size);
        for frame in frames {
            tell(&mut app, frame, unknown());
        }
        tell_loaded(&mut app);
        app
    };
    let backwards = [9, 8, 8, 700, 3, 3, 90_000, 4].map(|t| frame(t, Job::default())).to_vec();
    let mut trace = App::new(job().recording(), AppOptions { theme: PLAIN, ..AppOptions::default() }, size);
    tell(&mut trace, Frame { alive: true, ..Frame::default() }, crate::profile::judged());
    tell_loaded(&mut trace);
    vec![
        ("fresh", fresh(PLAIN, size)),
        ("a trace", trace),
        ("a first sample", told(vec![Frame { alive: true, ..Frame::default() }], Verdict::default())),
        ("no verdict", told(some(4, 1), Verdict::default())),
        ("no GPU, no workers", told(some(0, 0), unknown())),
        ("no I/O", told(no_io, blind)),
        ("no stacks", no_stacks),
        ("ended", ended),
        ("an empty recording", replay(Vec::new())),
        ("a recording of one moment", replay(some(1, 1)[..1].to_vec())),
        ("a damaged recording", replay(backwards)),
    ]
}

#[test]
fn every_key_on_every_page_in_every_state_at_every_size() {
    let usual = (80, 24);
    let mut sessions: Vec<_> = states(usual).into_iter().map(|(name, app)| (name, app, usual)).collect();
    for size in [(20, 5), usual, (200, 60)] {
        sessions.push(("running", running(PLAIN, size, Job::default()), size));
    }
    for size in [(20, 5), (200, 60)] {
        sessions.push(("fresh", fresh(PLAIN, size), size));
    }
    for (name, mut app, size) in sessions {
        for page in pages() {
            press(&mut app, KeyCode::Esc);
            press(&mut app, KeyCode::Char(page));
            for binding in TABLE.iter() {
                // What a second key does is the same in the other states.
                let most = if ["running", "fresh"].contains(&name) { usize::MAX } else { 1 };
                for (nth, key) in binding.keys.split(' ').take(most).enumerate() {
                    let mut app = app.clone();
                    app.step(Message::Key(named_key(key)));
                    check(&app, size);
                    if nth == 0 && size == usual && binding.action != Action::Quit {
                        // What has opened takes keys as well, and time goes on.
                        press(&mut app, KeyCode::Down);
                        press(&mut app, KeyCode::Enter);
                        app.step(Message::Advance(2.0));
                        check(&app, size);
                    }
                }
            }
        }
        assert!(app.jobs().len() == 1, "{name}");
    }
}

#[test]
fn nothing_is_claimed_before_anything_was_measured() {
    let size = (80, 24);
    for (name, mut app) in
        states(size).into_iter().filter(|(name, _)| ["fresh", "a first sample", "an empty recording"].contains(name))
    {
        for page in pages().filter(|page| *page != HELP) {
            press(&mut app, KeyCode::Char(page));
            let shown = text(&app, size);
            for claim in ["0 processes", "0 CPUs", "0 %", "0%  ", "0 MiB/s", "0 W", "0 °C", " 0 B", "0 steps"] {
                let said = shown.lines().find(|line| line.contains(claim) && !line.contains("100%"));
                assert_eq!(said, None, "{name}, page {page}:\n{shown}");
            }
        }
    }
}

#[test]
fn what_to_do_first_is_on_every_page_at_every_size() {
    for width in [60, 80, 120, 200] {
        for height in 15..62 {
            let job = Job { seconds: 3, ..Job::default() };
            let mut app = running_until(PLAIN, (width, height), job, |last| last.verdict = Arc::new(data_loader()));
            for page in pages() {
                press(&mut app, KeyCode::Char(page));
                let shown = text(&app, (width, height));
                assert!(shown.contains("▶ Raise num_workers from 4 to 7"), "{width}×{height}\n{shown}");
            }
        }
    }
}

#[test]
fn a_recording_is_not_said_to_be_attached_to() {
    let size = (80, 24);
    for (name, mut app) in states(size).into_iter().filter(|(name, _)| name.contains("recording")) {
        for page in pages().filter(|page| *page != HELP) {
            press(&mut app, KeyCode::Char(page));
            let shown = text(&app, size);
            assert!(shown.contains("REPLAY"), "{name}, page {page}:\n{shown}");
            for wrong in ["MEASURING", "Watching PID", "runs on unchanged", " now"] {
                assert!(
                    !shown.contains(wrong) || app.job().frame().is_none() && wrong == " now",
                    "{name}: {wrong}\n{shown}"
                );
            }
        }
    }
}
