//! The pages of storage, stacks and findings at every size, with what is missing, and what their keys do.

use std::sync::Arc;

use crate::app::*;
use crossterm::event::KeyCode;
use proptest::prelude::*;
use ratatui::style::Modifier;
use trainmon::diagnosis::causes::Cause;
use trainmon::diagnosis::verdict::{
    Ceiling, Class, Evidence, Hottest, Limit, MainThread, Rank, Subject, Unavailable,
};
use trainmon::diagnosis::{Signal, Verdict};
use trainmon::rates::frame::{DeviceRates, MountRates, NetRates};
use trainmon::sample::{MountKind, ProcessRole, SourceState, SourceStatus, Sources};
use trainmon::text::format::Unit;
use trainmon::tui::{App, Message, Theme};
use trainmon::waits::Frame;
use trainmon::waits::stacks::{Activities, Activity, CodePlace, ProcessStacks};
use trainmon::waits::time_split::TimeSplit;

const MIB: f64 = 1_048_576.0;
const SIZES: [(u16, u16); 3] = [(80, 24), (120, 40), (200, 60)];
const IO: char = '5';
const STACKS: char = '7';
const FINDINGS: char = '8';

fn disk(name: &str, data: bool, util: f64) -> DeviceRates {
    DeviceRates {
        name: name.into(),
        data,
        read_bytes_per_s: util * 4.0 * MIB,
        write_bytes_per_s: util * 0.1 * MIB,
        reads_per_s: util * 40.0,
        writes_per_s: util * 2.0,
        await_ms: (util > 0.0).then_some(0.8),
        read_await_ms: (util > 0.0).then_some(0.7),
        write_await_ms: (util > 0.0).then_some(2.1),
        queue: util / 50.0,
        utilization_pct: util,
    }
}

fn place(function: &str, file: &str, line: u32, text: Option<&str>, activity: Activity, samples: u32) -> CodePlace {
    CodePlace {
        function: function.into(),
        file: file.into(),
        line,
        text: text.map(Into::into),
        activity,
        user: !file.contains("site-packages"),
        samples,
        leaf: samples / 2,
        blocked: if activity == Activity::Waiting { samples } else { 0 },
    }
}

fn stacks(pid: u32, role: ProcessRole, places: Vec<CodePlace>) -> ProcessStacks {
    let mut main = Activities::default();
    places.iter().for_each(|place| main.add(place.activity, place.samples));
    ProcessStacks { id: id(pid), role, main, places, ..ProcessStacks::default() }
}

const TORCH: &str = "/opt/venv/lib/python3.12/site-packages/torch/nn/modules/linear.py";

/// What the sampler saw in second `t`: the rank, then one worker after the other.
fn seen(t: u64) -> Vec<ProcessStacks> {
    if t.is_multiple_of(2) {
        let rank = vec![
            place("train", "/home/me/train.py", 88, Some("    for x, y in loader:"), Activity::Waiting, 60),
            place("train", "/home/me/train.py", 91, Some("    loss = step(x, y)"), Activity::Forward, 4),
            place("step", "/home/me/train.py", 41, Some("    return loss.item()"), Activity::Sync, 9),
            place("forward", TORCH, 125, Some("    return F.linear(input, self.weight)"), Activity::Forward, 17),
            place("step", "/home/me/train.py", 40, Some("    loss.backward()"), Activity::Backward, 10),
        ];
        return vec![stacks(1234, ProcessRole::Rank, rank)];
    }
    let worker = vec![
        place("load_image", "/home/me/dataset.py", 17, Some("    img = Image.open(f)"), Activity::Decode, 55),
        place("load_image", "/home/me/dataset.py", 18, Some("    img = img.convert('RGB')"), Activity::Decode, 20),
        place("augment", "/home/me/dataset.py", 33, None, Activity::Transform, 20),
        place(
            "default_collate",
            "/v/site-packages/torch/utils/data/_utils/collate.py",
            398,
            None,
            Activity::Collate,
            5,
        ),
    ];
    vec![stacks(1301 + (t / 2 % 4) as u32, ProcessRole::Worker, worker)]
}

/// Second `t` of the job, with everything that the pages show.
fn full(t: u64) -> Frame {
    let mut frame = frame(t, Job::default());
    frame.job.read_chars_per_s = Some(512.0 * MIB);
    frame.job.read_bytes_per_s = Some((20.0 + (t % 20) as f64) * MIB);
    frame.job.write_chars_per_s = Some(2.0 * MIB);
    frame.job.read_calls_per_s = Some(4210.0);
    frame.job.major_faults_per_s = Some(3.0);
    frame.job.refaults_per_s = Some(120.0);
    frame.job.io_read_limit = (Some(200 << 20), Some(4000));
    frame.host.memory_available_bytes = Some(20 << 30);
    frame.host.memory_total_bytes = Some(62 << 30);
    frame.host.psi_memory_some_pct = Some(0.4);
    frame.host.net = vec![net("lo0", 0.0), net("eth0", 3.0 * MIB), net("ib0", 90.0 * MIB)];
    frame.host.net_rx_bytes_per_s = Some((80.0 + (t % 20) as f64) * MIB);
    frame.storage.write_bytes_per_s = Some(1.5 * MIB);
    frame.storage.devices = vec![
        disk("sda", false, 0.0),
        disk("nvme0n1", false, 32.0),
        disk("nvme1n1", true, 14.0),
        disk("sdb", false, 0.0),
    ];
    frame.storage.mounts = vec![
        MountRates {
            mount_point: "/data".into(),
            fs_type: "ext4".into(),
            kind: MountKind::Local,
            disks: vec!["nvme1n1".into()],
            files: 9,
            examples: vec![
                "/data/imagenet/train/n01440764/n01440764_10026.JPEG".into(),
                "/data/imagenet/labels.csv".into(),
            ],
            disks_read_bytes_per_s: Some(56.0 * MIB),
            disks_write_bytes_per_s: Some(1.4 * MIB),
            ..MountRates::default()
        },
        MountRates {
            mount_point: "/mnt/shared".into(),
            fs_type: "nfs4".into(),
            kind: MountKind::Network,
            files: 120,
            examples: vec!["/mnt/shared/shards/shard-00017.tar".into()],
            nfs_read_bytes_per_s: Some(12.0 * MIB),
            nfs_read_rtt_ms: Some(7.3),
            ..MountRates::default()
        },
    ];
    frame.stacks = seen(t);
    frame
}

fn net(name: &str, rx: f64) -> NetRates {
    NetRates { name: name.into(), rx_bytes_per_s: Some(rx), tx_bytes_per_s: Some(rx / 10.0) }
}

fn evidence(signal: Signal, value: f64, unit: Unit, threshold: Option<f64>, text: &str) -> Evidence {
    Evidence { signal, value: Some(value), unit, threshold, text: text.into(), from: None }
}

fn judged() -> Verdict {
    let mut verdict = data_loader();
    verdict.main_thread = Some(MainThread {
        activities: [
            ("waiting".into(), 0.6),
            ("forward".into(), 0.21),
            ("backward".into(), 0.1),
            ("sync".into(), 0.09),
        ]
        .into(),
        hottest: vec![Hottest { function: "train".into(), file: "train.py".into(), line: 88, share: 0.6 }],
        sync_lines: vec![Hottest { function: "step".into(), file: "train.py".into(), line: 41, share: 0.09 }],
        samples: 1430,
    });
    verdict.ceiling = Some(Ceiling { speedup_at_most: 1.74, limit: Limit::Gpu });
    verdict.evidence.extend([
        evidence(Signal::GpuBusy, 0.88, Unit::Share, Some(0.85), "device busy"),
        evidence(Signal::WorkersIdle, 0.02, Unit::Share, Some(0.4), "workers have nothing to do"),
        evidence(Signal::DiskRead, 60.0 * MIB, Unit::BytesPerS, None, "read from the data's disk"),
    ]);
    verdict.ranks = (0..2)
        .map(|n| Rank {
            rank: None,
            pid: 1234 + n,
            shares: TimeSplit { input_wait: 0.5, device_sync: 0.1, host_busy: 0.4, ..TimeSplit::default() },
            collectives: Some(0.1 * f64::from(n)),
            straggler: n == 0,
            at: None,
            steps_per_s: None,
        })
        .collect();
    verdict
}

fn at(theme: Theme, size: (u16, u16), page: char, frame: impl Fn(u64) -> Frame, verdict: Verdict) -> App {
    let mut app = fresh(theme, size);
    press(&mut app, KeyCode::Char(page));
    let verdict = Arc::new(verdict);
    for t in 1..=90 {
        tell(&mut app, frame(t), Arc::clone(&verdict));
    }
    app
}

fn sources(stacks: SourceStatus, storage: SourceStatus) -> Sources {
    let mut sources = Sources::default();
    sources.all_mut().into_iter().for_each(|status| status.state = SourceState::Fresh);
    Sources { storage, stacks, ..sources }
}

fn status(state: SourceState, reason: Option<&str>, fix: Option<&str>) -> SourceStatus {
    SourceStatus { state, reason: reason.map(Into::into), fix: fix.map(Into::into), age_ms: Some(4200) }
}

#[test]
fn the_io_stacks_and_findings_pages_fit_every_size() {
    for (page, name) in [(IO, "io"), (STACKS, "stacks"), (FINDINGS, "findings_page")] {
        for size in SIZES {
            let app = at(PLAIN, size, page, full, judged());
            insta::assert_snapshot!(format!("{name}_{}x{}", size.0, size.1), text(&app, size));
        }
        let size = (80, 24);
        let screen = text(&at(ASCII, size, page, full, judged()), size);
        assert!(screen.is_ascii(), "{screen}");
        insta::assert_snapshot!(format!("{name}_ascii"), screen);
    }
}

#[test]
fn all_findings_fit_eighty_columns() {
    let size = (80, 120);
    let mut verdict = judged();
    verdict.seen.insert(Subject::Connections, "denied".into());
    verdict.not_seen.push(Unavailable {
        what: Subject::Connections.into(),
        why: "the other end of 2 pipes is not known".into(),
        fix: Some("sudo trainmon --pid 7".into()),
    });
    let mut app = at(PLAIN, size, FINDINGS, full, verdict);
    tell_sources(
        &mut app,
        sources(status(SourceState::Hung, None, None), status(SourceState::Stale, Some("a read takes long"), None)),
    );
    insta::assert_snapshot!("findings_page_whole", text(&app, size));
}

#[test]
fn color_changes_no_character() {
    for page in [IO, STACKS, FINDINGS] {
        for size in SIZES {
            let (color, plain) = (at(*COLOR, size, page, full, judged()), at(PLAIN, size, page, full, judged()));
            let [color, plain] = [text(&color, size), text(&plain, size)];
            assert!(same_words(&color, &plain), "{color}\n{plain}");
        }
    }
}

#[test]
fn denied_counters_say_so_with_their_fix() {
    let denied = |t| {
        let mut frame = full(t);
        frame.job = trainmon::rates::frame::JobRates::default();
        frame.storage.mounts = Vec::new();
        frame.storage.data_devices_known = false;
        frame.storage.devices.iter_mut().for_each(|disk| disk.data = false);
        frame
    };
    let missing = |what: Subject, why: &str| Unavailable {
        what: what.into(),
        why: why.into(),
        fix: Some("sudo trainmon --pid 1234".into()),
    };
    let not_seen = vec![
        missing(Subject::Io, "/proc/1234/io may not be read, so steps, reads and writes are not counted"),
        missing(Subject::Fd, "/proc/1234/fd may not be read, so the disks of the data files are not known"),
    ];
    let verdict = Verdict { not_seen, ..judged() };
    let size = (80, 24);
    let screen = text(&at(PLAIN, size, IO, denied, verdict), size);
    insta::assert_snapshot!("io_denied", screen);
    assert_eq!(screen.matches("sudo trainmon --pid 1234").count(), 2, "{screen}");
    assert!(
        screen.contains("page faults that read –") && screen.contains("Job reads from storage ── – MiB/s"),
        "what was not measured is no zero:\n{screen}"
    );
}

#[test]
fn without_disks_the_reason_stands_in_their_place() {
    let size = (80, 24);
    let bare = |t| {
        let mut frame = full(t);
        frame.storage = trainmon::rates::frame::StorageRates::default();
        frame
    };
    let mut app = at(PLAIN, size, IO, bare, judged());
    tell_sources(
        &mut app,
        sources(
            SourceStatus::default(),
            status(SourceState::Denied, Some("/proc/diskstats: permission denied"), Some("mount /proc")),
        ),
    );
    let screen = text(&app, size);
    assert!(
        screen.contains("No disk found: /proc/diskstats: permission denied.") && screen.contains("mount /proc"),
        "{screen}"
    );
    assert!(screen.contains("no disk found"), "{screen}");
}

#[test]
fn reads_that_are_no_read_calls_are_not_called_page_cache() {
    let size = (120, 40);
    let said = |chars: f64, bytes: f64| {
        let app = at(
            PLAIN,
            size,
            IO,
            |t| {
                let mut frame = full(t);
                (frame.job.read_chars_per_s, frame.job.read_bytes_per_s) = (Some(chars * MIB), Some(bytes * MIB));
                frame
            },
            judged(),
        );
        text(&app, size)
    };
    assert!(said(512.0, 30.0).contains("at most 94% from memory (page cache"), "{}", said(512.0, 30.0));
    assert!(said(2.0, 300.0).contains("mostly through mapped files"));
    let sockets = |t| {
        let mut frame = full(t);
        frame.storage.mounts = Vec::new();
        frame
    };
    let screen = text(&at(PLAIN, size, IO, sockets, judged()), size);
    assert!(screen.contains("No data file is open") && !screen.contains("at most 9"), "{screen}");
    assert!(said(0.001, 0.0).contains("almost nothing"));
}

#[test]
fn many_disks_leave_room_for_the_timelines() {
    let many = |t| {
        let mut frame = full(t);
        frame.storage.devices.extend((0..24).map(|n| disk(&format!("sd{n}"), false, 0.0)));
        frame
    };
    for size in SIZES {
        let mut app = at(PLAIN, size, IO, many, judged());
        let screen = text(&app, size);
        press(&mut app, KeyCode::End);
        let end = text(&app, size);
        assert!(end.contains("Network in"), "{end}");
        let first = screen.lines().position(|line| line.contains("*data")).unwrap();
        assert!(screen.lines().nth(first - 1).unwrap().contains("DISK"), "the job's disk comes first:\n{screen}");
    }
    let narrow = text(&at(PLAIN, (80, 24), IO, many, judged()), (80, 24));
    assert!(narrow.contains("26 idle: "), "{narrow}");
}

#[test]
fn no_stacks_say_why() {
    let size = (80, 24);
    let bare = |t| Frame { stacks: Vec::new(), ..full(t) };
    let mut app = at(PLAIN, size, STACKS, bare, data_loader());
    assert!(text(&app, size).contains("No stacks yet"), "{}", text(&app, size));
    tell_sources(
        &mut app,
        sources(
            status(SourceState::Absent, Some("py-spy is not installed"), Some("pip install py-spy")),
            SourceStatus::default(),
        ),
    );
    let screen = text(&app, size);
    assert!(
        screen.contains("No stacks: py-spy is not installed.") && screen.contains("→ pip install py-spy"),
        "{screen}"
    );
    insta::assert_snapshot!("stacks_absent", screen);
}

/// The row that is selected: it alone is reversed from end to end.
fn selected(app: &App, size: (u16, u16)) -> String {
    let buf = draw(app, size);
    let rows = rows(&buf);
    let body = crate::app::body(buf.area);
    let reversed = |y: u16| (body.left()..body.right()).all(|x| buf[(x, y)].modifier.contains(Modifier::REVERSED));
    let found: Vec<u16> = (body.top()..body.bottom()).filter(|y| reversed(*y)).collect();
    assert_eq!(found.len(), 1, "{}", rows.join("\n"));
    rows[usize::from(found[0])].trim().to_owned()
}

/// Moves down to the row with this text.
fn go_to(app: &mut App, size: (u16, u16), text: &str) {
    for _ in 0..100 {
        if selected(app, size).contains(text) {
            return;
        }
        press(app, KeyCode::Down);
    }
    panic!("no row with {text}");
}

#[test]
fn keys_fold_and_move() {
    let size = (120, 40);
    let mut app = at(PLAIN, size, STACKS, full, judged());
    assert!(selected(&app, size).starts_with("- Training loop, PID 1234"));
    // The first function, and its lines with their source.
    press(&mut app, KeyCode::Down);
    press(&mut app, KeyCode::Down);
    assert!(selected(&app, size).contains("train "), "{}", selected(&app, size));
    // It takes much of the time, so it is unfolded.
    let screen = text(&app, size);
    assert!(screen.contains("line 88 waiting") && screen.contains("for x, y in loader:"), "{screen}");
    // From a line of it, Enter folds the function and selects it.
    press(&mut app, KeyCode::Down);
    assert!(selected(&app, size).contains("line 88"));
    press(&mut app, KeyCode::Enter);
    assert!(!text(&app, size).contains("for x, y in loader:"));
    assert!(selected(&app, size).starts_with("+"), "{}", selected(&app, size));
    // The whole role.
    press(&mut app, KeyCode::Home);
    press(&mut app, KeyCode::Enter);
    assert!(selected(&app, size).starts_with("+ Training loop, PID 1234"));
    assert!(!text(&app, size).contains("linear.py"));
    // One worker of them all.
    go_to(&mut app, size, "Worker 1302");
    press(&mut app, KeyCode::Enter);
    assert!(selected(&app, size).starts_with("- Worker 1302"));
    assert_eq!(text(&app, size).matches("load_image").count(), 2);
    press(&mut app, KeyCode::End);
    assert!(selected(&app, size).contains("loss.item()"), "{}", selected(&app, size));
}

#[test]
fn the_selection_stays_with_its_function_when_shares_change() {
    let size = (120, 40);
    let mut app = at(PLAIN, size, STACKS, full, judged());
    go_to(&mut app, size, "linear.py");
    let row = |app: &App| text(app, size).lines().position(|line| line.contains("linear.py")).unwrap();
    let before = row(&app);
    for t in 91..125 {
        let mut frame = full(t);
        for process in frame.stacks.iter_mut().filter(|process| process.role == ProcessRole::Rank) {
            process.places[3].samples = 400;
            process.main.add(Activity::Forward, 383);
        }
        tell(&mut app, frame, judged());
        assert!(selected(&app, size).contains("linear.py"), "{}", selected(&app, size));
    }
    assert!(row(&app) < before, "it has become the hottest");
    assert!(selected(&app, size).contains("83%"), "{}", selected(&app, size));
}

#[test]
fn the_past_has_its_own_stacks() {
    let size = (120, 40);
    let early = |t| {
        let mut frame = full(t);
        if t <= 800 {
            frame.stacks = vec![stacks(
                1234,
                ProcessRole::Rank,
                vec![place("import_all", "/home/me/train.py", 3, None, Activity::Import, 50)],
            )];
        }
        frame
    };
    let mut app = fresh(PLAIN, size);
    press(&mut app, KeyCode::Char(STACKS));
    for t in 1..=1000 {
        tell(&mut app, early(t), judged());
    }
    assert!(!text(&app, size).contains("import_all"));
    // Back to a moment that is only kept packed.
    press(&mut app, KeyCode::Char('{'));
    for _ in 0..40 {
        press(&mut app, KeyCode::Right);
    }
    let screen = text(&app, size);
    assert!(screen.contains("import_all") && screen.contains("1550 samples in 30 s"), "{screen}");
    press(&mut app, KeyCode::Right);
    assert_eq!(text(&app, size).matches("1550 samples in 30 s").count(), 1, "the oldest goes as a new one comes");
    press(&mut app, KeyCode::Char('}'));
    assert!(!text(&app, size).contains("import_all"));
}

#[test]
fn a_click_selects_and_a_second_one_unfolds() {
    let size = (120, 40);
    let mut app = at(PLAIN, size, STACKS, full, judged());
    let y = text(&app, size).lines().position(|line| line.contains("linear.py")).unwrap();
    click(&mut app, 20, y as u16);
    assert!(selected(&app, size).contains("linear.py"));
    click(&mut app, 20, y as u16);
    assert!(text(&app, size).contains("return F.linear(input, self.weight)"));
}

#[test]
fn a_click_on_a_timeline_looks_at_that_moment() {
    for size in SIZES {
        let mut app = at(PLAIN, size, IO, full, judged());
        press(&mut app, KeyCode::End);
        let y = text(&app, size).lines().position(|line| line.contains("Disk busy")).unwrap();
        click(&mut app, size.0 - 20, y as u16);
        assert!(app.job().is_live(), "that is its name");
        click(&mut app, size.0 - 20, y as u16 + 1);
        assert!(!app.job().is_live(), "{}", text(&app, size));
    }
}

#[test]
fn findings_name_what_speaks_against_the_verdict() {
    let size = (120, 60);
    let mut app = at(PLAIN, size, FINDINGS, full, judged());
    let screen = text(&app, size);
    assert!(screen.contains("busy: 88%, over the limit of 85%"), "{screen}");
    assert!(!screen.contains("against: workers_idle"), "2 % idle is no contradiction");
    tell_sources(
        &mut app,
        sources(SourceStatus::default(), status(SourceState::Hung, Some("the disk does not answer"), None)),
    );
    let screen = text(&app, size);
    assert!(screen.contains("source:  disks hung (the disk does not answer, last value 4 s old)"), "{screen}");
    let calm = Verdict {
        evidence: vec![evidence(Signal::InputWait, 0.6, Unit::Share, Some(0.1), "waits")],
        other_findings: vec![],
        ..data_loader()
    };
    let calm = text(&at(PLAIN, size, FINDINGS, full, calm), size);
    assert!(calm.contains("No counter-evidence, no other findings."), "{calm}");
    let gpu = Verdict { class: Class::Gpu, cause: Some(Cause::ComputeBound), ..judged() };
    let gpu = text(&at(PLAIN, size, FINDINGS, full, gpu), size);
    assert!(gpu.contains("68%, over the limit"), "{gpu}");
}

#[test]
fn hostile_names_reach_no_cell_raw() {
    for name in HOSTILE_NAMES.into_iter().chain([&*"x/".repeat(4096)]) {
        let hostile = |t| {
            let mut frame = full(t);
            frame.storage.devices.push(disk(name, true, 50.0));
            frame.host.net.push(net(name, 1e9));
            frame.storage.mounts.push(MountRates {
                mount_point: name.into(),
                fs_type: name.into(),
                disks: vec![name.into(); 9],
                examples: vec![name.into(); 8],
                ..MountRates::default()
            });
            frame.stacks.push(stacks(
                1234,
                ProcessRole::Rank,
                vec![place(name, name, 7, Some(name), Activity::Forward, 500)],
            ));
            frame
        };
        let mut verdict = judged();
        verdict.evidence.push(evidence(Signal::Workers, 1.0, Unit::Count, Some(2.0), name));
        verdict.main_thread.as_mut().unwrap().sync_lines.push(Hottest {
            function: name.into(),
            file: name.into(),
            line: 1,
            share: 0.4,
        });
        verdict.not_seen.push(Unavailable { what: Subject::Stacks.into(), why: name.into(), fix: Some(name.into()) });
        let mut app = at(PLAIN, SIZES[0], STACKS, hostile, verdict);
        for page in [IO, STACKS, FINDINGS] {
            press(&mut app, KeyCode::Char(page));
            for size in SIZES {
                app.step(Message::Resize(size.0, size.1));
                press(&mut app, KeyCode::Down);
                press(&mut app, KeyCode::Down);
                press(&mut app, KeyCode::Enter);
                assert_harmless(&draw(&app, size), PLAIN);
            }
        }
    }
}

fn any_frame() -> impl Strategy<Value = Frame> {
    let value = || prop::option::of(any::<f64>());
    let name = || prop_oneof![Just("nvme0n1".to_owned()), ".{0,40}"];
    let disks = prop::collection::vec((name(), any::<bool>(), any::<f64>()), 0..20);
    let mounts = prop::collection::vec((name(), any::<u32>(), value(), prop::collection::vec(name(), 0..9)), 0..20);
    let places = prop::collection::vec((name(), name(), any::<u32>(), 0usize..Activity::COUNT, any::<u32>()), 0..20);
    (disks, mounts, places, [value(), value(), value(), value()], 0u64..200, any::<u32>()).prop_map(
        |(disks, mounts, places, values, t, pid)| {
            let mut frame = full(t);
            [
                frame.job.read_chars_per_s,
                frame.job.read_bytes_per_s,
                frame.host.net_rx_bytes_per_s,
                frame.storage.utilization_pct,
            ] = values;
            frame.storage.devices = disks.iter().map(|(name, data, util)| disk(name, *data, *util)).collect();
            frame.storage.mounts = mounts
                .into_iter()
                .map(|(point, files, rate, examples)| MountRates {
                    mount_point: point.as_str().into(),
                    files,
                    nfs_read_bytes_per_s: rate,
                    nfs_read_rtt_ms: rate,
                    examples: examples.iter().map(|example| example.as_str().into()).collect(),
                    ..MountRates::default()
                })
                .collect();
            let places = places.iter().map(|(function, file, line, activity, samples)| {
                place(function, file, *line, Some(function), Activity::ALL[*activity], *samples)
            });
            let role = if pid % 2 == 0 { ProcessRole::Rank } else { ProcessRole::Worker };
            frame.stacks = vec![stacks(pid, role, places.collect())];
            frame
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn no_frame_and_no_key_panics(
        frames in prop::collection::vec(any_frame(), 1..6), keys in prop::collection::vec(0usize..10, 0..30),
        width in 1u16..220, height in 1u16..70, ascii in any::<bool>(),
    ) {
        const KEYS: [KeyCode; 10] = [
            KeyCode::Down, KeyCode::Up, KeyCode::Enter, KeyCode::End, KeyCode::Home, KeyCode::PageDown,
            KeyCode::Left, KeyCode::Char(IO), KeyCode::Char(STACKS), KeyCode::Char(FINDINGS),
        ];
        let size = (width, height);
        let mut app = fresh(if ascii { ASCII } else { PLAIN }, size);
        press(&mut app, KeyCode::Char(STACKS));
        for frame in frames {
            tell(&mut app, frame, judged());
        }
        for key in keys {
            press(&mut app, KEYS[key]);
            draw(&app, size);
        }
    }
}
