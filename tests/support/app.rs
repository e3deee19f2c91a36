//! Made-up jobs for the screen's tests and benchmark: frames and verdicts as a real run would give them, keys and clicks,
//! and what is drawn.

#![allow(dead_code, clippy::unwrap_used, clippy::indexing_slicing, reason = "each test uses a part of it")]

use std::sync::{Arc, LazyLock};

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use trainmon::diagnosis::causes::Cause;
use trainmon::diagnosis::verdict::{Advice, Class, Evidence, Finding, OwnCost, Phase, Steps, Subject, Unavailable};
use trainmon::diagnosis::{Signal, Verdict};
use trainmon::history::archive::Limits;
pub use trainmon::jobs::{JobEvent, JobKey, Target};
pub use trainmon::pipeline::Tick;
use trainmon::pipeline::same_cause;
use trainmon::rates::frame::{
    CpuRates, GpuLink, GpuRates, HostRates, JobRates, MountRates, ProcessRates, StorageRates,
};
use trainmon::sample::{MountKind, ProcessId, ProcessRole, Sample, Sources};
use trainmon::text::format::Unit;
use trainmon::tui::{self, App, AppOptions, Effect, Message, Theme, keys};
use trainmon::waits::Frame;
use trainmon::waits::frame::{RankRates, WorkerRates};
use trainmon::waits::time_split::TimeSplit;

pub static COLOR: LazyLock<Theme> = LazyLock::new(Theme::default);
pub const PLAIN: Theme = Theme::plain(false);
pub const ASCII: Theme = Theme::plain(true);

const MIB: f64 = 1_048_576.0;
const GIB: u64 = 1 << 30;

/// What the made-up job looks like.
#[derive(Debug, Clone, Copy)]
pub struct Job {
    pub workers: u32,
    pub gpus: u32,
    /// Seconds of history.
    pub seconds: u64,
}

impl Default for Job {
    fn default() -> Self {
        Self { workers: 4, gpus: 1, seconds: 90 }
    }
}

pub fn id(pid: u32) -> ProcessId {
    ProcessId { pid, start_ticks: 77_000 + u64::from(pid) }
}

/// A wave between 0 and 1, so that charts have something to show.
fn wave(t: u64, period: f64) -> f64 {
    0.5 + 0.5 * (t as f64 / period * std::f64::consts::TAU).sin()
}

/// Second `t` of a job that waits for its workers.
pub fn frame(t: u64, job: Job) -> Frame {
    let gpu_pct = 12.0 + 40.0 * wave(t, 7.0);
    let wait = 0.55 + 0.2 * wave(t, 11.0);
    let workers: Vec<WorkerRates> = (0..job.workers)
        .map(|n| WorkerRates {
            id: id(1301 + n),
            rank: 1234,
            busy: Some(0.93 - 0.05 * f64::from(n % 3)),
            io_wait: Some(0.02 + 0.05 * f64::from(n % 3)),
            runnable: Some(0.03),
            idle: Some(0.02),
            cpu_pct: Some(96.0),
            active_threads: 1,
            batches_per_s: Some(0.19),
            read_chars_per_s: Some(9.0 * MIB),
            read_calls_per_s: Some(210.0),
            read_bytes_per_s: Some(2.0 * MIB),
            major_faults_per_s: Some(0.0),
            ..WorkerRates::default()
        })
        .collect();
    let mut processes = vec![ProcessRates {
        id: id(1234),
        parent: 1200,
        role: ProcessRole::Rank,
        command: Arc::from("python train.py --data /data/imagenet --epochs 90 --batch-size 256"),
        comm: Arc::from("python"),
        state: 'S',
        cpu_pct: Some(31.4),
        run_delay_share: Some(0.004),
        rss_bytes: 4 * GIB,
        read_bytes_per_s: Some(0.0),
        write_bytes_per_s: Some(0.0),
        threads: 42,
        gpu_memory_bytes: Some(6 * GIB),
        ..ProcessRates::default()
    }];
    processes.extend((0..job.workers).map(|n| ProcessRates {
        id: id(1301 + n),
        parent: 1234,
        role: ProcessRole::Worker,
        command: Arc::from("python train.py --data /data/imagenet --epochs 90 --batch-size 256"),
        comm: Arc::from("pt_data_worker"),
        state: if n % 3 == 1 { 'D' } else { 'R' },
        cpu_pct: Some(96.2 - f64::from(n)),
        run_delay_share: Some(0.031),
        rss_bytes: 812 << 20,
        read_bytes_per_s: Some(2.0 * MIB),
        write_bytes_per_s: Some(0.0),
        threads: 3,
        gpu_memory_bytes: None,
        ..ProcessRates::default()
    }));
    processes.push(ProcessRates {
        id: id(1290),
        parent: 1234,
        role: ProcessRole::Helper,
        command: Arc::from("python -c from multiprocessing.resource_tracker import main;main(5)"),
        comm: Arc::from("python"),
        state: 'S',
        rss_bytes: 12 << 20,
        threads: 1,
        ..ProcessRates::default()
    });
    Frame {
        sequence: t,
        unix_ms: 1_760_000_000_000 + t as i64 * 1000,
        monotonic_ns: 5_000_000_000_000 + t * 1_000_000_000,
        seconds: 1.0,
        alive: true,
        state: 'S',
        job: JobRates {
            cpu_pct: Some(410.0),
            run_delay_share: Some(0.03),
            cpus_allowed: Some(8),
            rss_bytes: Some(7 * GIB),
            read_bytes_per_s: Some((30.0 + 90.0 * wave(t, 13.0)) * MIB),
            write_bytes_per_s: Some(0.1 * MIB),
            thread_count: 60,
            age_s: Some(900.0 + t as f64),
            ..JobRates::default()
        },
        ranks: vec![RankRates {
            id: id(1234),
            seconds_seen: 1.0,
            samples: 40,
            exact: true,
            split_s: TimeSplit {
                input_wait: wait,
                device_sync: 0.05,
                host_busy: 0.9 - wait,
                checkpoint: 0.0,
                other: 0.05,
            },
            steps: Some(1),
            ..RankRates::default()
        }],
        workers,
        processes,
        host: HostRates {
            cpus: (0..8).map(|cpu| CpuRates { cpu, allowed: true, busy_pct: 55.0, ..CpuRates::default() }).collect(),
            allowed_cpu_pct: Some(50.0 + 12.0 * wave(t, 5.0)),
            others_cpu_pct: Some(22.0),
            steal_pct: Some(0.0),
            psi_cpu_some_pct: Some(1.2),
            psi_io_some_pct: Some(3.4),
            net_rx_bytes_per_s: Some(0.2 * MIB),
            ..HostRates::default()
        },
        storage: StorageRates {
            data_devices_known: true,
            read_bytes_per_s: Some(60.0 * MIB),
            utilization_pct: Some(14.0),
            await_ms: Some(0.8),
            mounts: vec![MountRates {
                mount_point: Arc::from("/data"),
                fs_type: Arc::from("ext4"),
                kind: MountKind::Local,
                disks: vec![Arc::from("nvme1n1")],
                files: 9,
                ..MountRates::default()
            }],
            ..StorageRates::default()
        },
        gpus: (0..job.gpus)
            .map(|index| GpuRates {
                index,
                name: Some(Arc::from("NVIDIA A10G")),
                attached: true,
                utilization_pct: Some(gpu_pct + f64::from(index)),
                job_utilization_pct: Some(gpu_pct),
                memory_used_bytes: Some(6_549_825_000),
                memory_total_bytes: Some(24_146_608_128),
                power_w: Some(92.0),
                power_limit_w: Some(300.0),
                temperature_c: Some(47),
                ..GpuRates::default()
            })
            .collect(),
        gpu_link: GpuLink::Processes,
        own_cpu_pct: Some(0.4),
        own_rss_bytes: Some(14 << 20),
        ..Frame::default()
    }
}

/// The verdict on [`frame`]s.
pub fn data_loader() -> Verdict {
    Verdict {
        schema: 1,
        trainmon: "0.1.0".into(),
        pid: 1234,
        command: "python train.py".into(),
        observed_s: 90.0,
        phase: Phase::Training,
        class: Class::DataLoader,
        cause: Some(Cause::TooFewWorkers),
        confidence: 0.93,
        summary: "The GPU waits for batches 68 % of the time; 4 workers are 93 % busy and 4 of 8 CPUs are free."
            .into(),
        shares: Some(TimeSplit {
            input_wait: 0.68,
            device_sync: 0.02,
            host_busy: 0.24,
            checkpoint: 0.0,
            other: 0.06,
        }),
        steps: Steps {
            per_s: Some(0.77),
            p50_ms: Some(210.0),
            p95_ms: Some(5480.0),
            stall_every: Some(4),
            ..Steps::default()
        },
        evidence: vec![
            evidence(
                Signal::InputWait,
                0.68,
                Unit::Share,
                0.1,
                "of the main thread's time went into waiting for a batch",
            ),
            evidence(Signal::WorkersBusy, 0.93, Unit::Share, 0.8, "of the workers' time was spent on a CPU"),
            evidence(Signal::CpuJob, 3.7, Unit::Cores, 1.0, "used by the job, of 8.0 that it may use"),
        ],
        advice: vec![
            Advice {
                title: "Raise num_workers from 4 to 7".into(),
                why: "Each worker needs 5.2 s for a batch and the loop 0.76 s without waiting: 7 keep up.".into(),
                speedup_at_most: Some(1.7),
                predicted_step_ms: Some(760.0),
            },
            Advice {
                title: "Make the transforms cheaper".into(),
                why: "Beyond 8 CPUs more workers do not help.".into(),
                speedup_at_most: Some(2.4),
                predicted_step_ms: None,
            },
        ],
        other_findings: vec![Finding {
            class: Class::Gpu,
            cause: Some(Cause::UnderFilled),
            confidence: 0.4,
            text: "When the GPU works it draws 31 % of its power limit.".into(),
            share: None,
        }],
        not_seen: vec![Unavailable {
            what: Subject::Waits.into(),
            why: "what 2 threads of the job wait for is not sampled: too few files may be kept open".into(),
            fix: None,
        }],
        seen: [(Subject::Nvml, "ok".into()), (Subject::Syscall, "ok".into()), (Subject::Cgroup, "v2".into())].into(),
        own: OwnCost { cpu_pct: Some(0.4), rss_mib: Some(14.2) },
        ..Verdict::default()
    }
}

fn evidence(signal: Signal, value: f64, unit: Unit, threshold: f64, text: &str) -> Evidence {
    Evidence { signal, value: Some(value), unit, threshold: Some(threshold), text: text.into(), from: None }
}

/// A verdict that saw too little.
pub fn unknown() -> Verdict {
    Verdict {
        class: Class::Unknown,
        cause: None,
        confidence: 0.2,
        phase: Phase::Unknown,
        summary: "Waits of the main thread cannot be told apart, and no GPU is seen.".into(),
        evidence: Vec::new(),
        advice: Vec::new(),
        other_findings: Vec::new(),
        not_seen: vec![
            Unavailable { what: Subject::Nvml.into(), why: "libnvidia-ml.so.1 not found".into(), fix: None },
            Unavailable {
                what: Subject::Syscall.into(),
                why: "the kernel lets only root or a parent see it (ptrace_scope 1)".into(),
                fix: Some("sudo trainmon --pid 1234".into()),
            },
        ],
        ..data_loader()
    }
}

/// Any other verdict, by class and cause.
pub fn other(class: Class, cause: Option<Cause>, summary: &str) -> Verdict {
    Verdict { class, cause, summary: summary.into(), ..data_loader() }
}

pub fn target() -> Target {
    Target { pid: 1234, command: "python train.py --data /data/imagenet --epochs 90 --batch-size 256".into() }
}

/// The first job of a session, before anything is known about it.
pub fn job() -> tui::Job {
    tui::Job::new(JobKey::default(), target(), 1.0, Limits::default())
}

/// A screen on which nothing has happened yet.
pub fn fresh(theme: Theme, size: (u16, u16)) -> App {
    App::new(job(), AppOptions { theme, ..AppOptions::default() }, size)
}

/// The next tick of a job, as the pipeline would make it.
pub fn tick(app: &App, key: JobKey, frame: Frame, verdict: impl Into<Arc<Verdict>>) -> Tick {
    let verdict = verdict.into();
    let before = app.jobs().iter().find(|job| job.key == key).and_then(|job| job.archive().latest());
    let since_ns = before.filter(|before| same_cause(&before.verdict, &verdict)).map(|before| before.since_ns);
    Tick {
        alive: true,
        since_ns: since_ns.unwrap_or(frame.monotonic_ns),
        shares: frame.loop_shares(),
        frame: frame.into(),
        judged: Arc::clone(&verdict),
        verdict,
        sample: Arc::default(),
        moves: false,
    }
}

/// Tells the screen of the next tick of a job.
pub fn tell_of(app: &mut App, key: JobKey, frame: Frame, verdict: impl Into<Arc<Verdict>>) -> Vec<Effect> {
    let tick = tick(app, key, frame, verdict);
    app.update(Message::Job(key, JobEvent::Tick(Arc::new(tick))))
}

/// Tells the screen of the next tick of its first job.
pub fn tell(app: &mut App, frame: Frame, verdict: impl Into<Arc<Verdict>>) -> Vec<Effect> {
    tell_of(app, JobKey::default(), frame, verdict)
}

/// Tells the screen of the newest moment of its first job once more, with something changed: no time has passed.
pub fn again(app: &mut App, change: impl FnOnce(&mut Tick)) -> Vec<Effect> {
    let latest = app.jobs()[0].archive().latest().unwrap().clone();
    let frame = Frame { seconds: 1e-9, ..(*latest.frame).clone() };
    let mut tick = tick(app, JobKey::default(), frame, latest.verdict);
    change(&mut tick);
    app.update(Message::Job(JobKey::default(), JobEvent::Tick(Arc::new(tick))))
}

/// Tells the screen how the sources stand.
pub fn tell_sources(app: &mut App, sources: Sources) {
    again(app, |tick| tick.sample = Arc::new(Sample { sources, ..Sample::default() }));
}

/// Tells the screen that its first job has ended.
pub fn tell_end(app: &mut App, age_s: Option<f64>) -> Vec<Effect> {
    again(app, |tick| {
        tick.alive = false;
        Arc::make_mut(&mut tick.frame).job.age_s = age_s;
    })
}

/// Tells the screen of another verdict on the newest moment.
pub fn tell_verdict(app: &mut App, verdict: Verdict) -> Vec<Effect> {
    again(app, |tick| (tick.since_ns, tick.verdict) = (tick.frame.monotonic_ns, Arc::new(verdict)))
}

/// Tells the screen that all of a recording has been read.
pub fn tell_loaded(app: &mut App) {
    app.update(Message::Job(JobKey::default(), JobEvent::Loaded(None)));
}

pub fn key(code: KeyCode) -> Message {
    Message::Key(KeyEvent::new(code, KeyModifiers::NONE))
}

/// The press of a key by its name in the table of keys.
pub fn named_key(name: &str) -> KeyEvent {
    let (held, name) = match name.split_once('-') {
        Some(("Ctrl", letter)) => (KeyModifiers::CONTROL, &*letter.to_lowercase()),
        Some(("Shift", name)) => (KeyModifiers::SHIFT, name),
        _ => (KeyModifiers::NONE, name),
    };
    let code = match name {
        "Space" => KeyCode::Char(' '),
        "Tab" if held == KeyModifiers::SHIFT => KeyCode::BackTab,
        "Tab" => KeyCode::Tab,
        "Enter" => KeyCode::Enter,
        "Esc" => KeyCode::Esc,
        "Home" => KeyCode::Home,
        "End" => KeyCode::End,
        "PgUp" => KeyCode::PageUp,
        "PgDn" => KeyCode::PageDown,
        "Up" => KeyCode::Up,
        "Down" => KeyCode::Down,
        "Left" => KeyCode::Left,
        "Right" => KeyCode::Right,
        name => match name.parse() {
            Ok(c) => KeyCode::Char(c),
            Err(_) => KeyCode::F(name[1..].parse().unwrap()),
        },
    };
    KeyEvent::new(code, held)
}

pub fn press(app: &mut App, code: KeyCode) -> Vec<Effect> {
    app.step(key(code))
}

/// Presses the keys of these characters.
pub fn type_text(app: &mut App, text: &str) -> Vec<Effect> {
    text.chars().flat_map(|c| press(app, KeyCode::Char(c))).collect()
}

pub fn mouse(kind: MouseEventKind, column: u16, row: u16) -> Message {
    Message::Mouse(MouseEvent { kind, column, row, modifiers: KeyModifiers::NONE })
}

pub fn click(app: &mut App, column: u16, row: u16) -> Vec<Effect> {
    app.step(mouse(MouseEventKind::Down(MouseButton::Left), column, row))
}

/// What the loop does with an event.
pub trait Step {
    /// Draws, as the loop has before anything can happen, and lets it happen.
    fn step(&mut self, message: Message) -> Vec<Effect>;
}

impl Step for App {
    fn step(&mut self, message: Message) -> Vec<Effect> {
        let is_move = |key| keys::action(key).is_some_and(|action| action.rows(1).is_some());
        // Nothing else looks at what was drawn where.
        let looks = match &message {
            Message::Key(key) => is_move(*key),
            message => matches!(message, Message::Mouse(_)),
        };
        if !looks {
            return self.update(message);
        }
        let (width, height) = self.size();
        let drawn = trainmon::tui::draw(&mut Buffer::empty(Rect::new(0, 0, width, height)), self);
        self.set_drawn(drawn);
        self.update(message)
    }
}

/// Where pages other than the overview are drawn: below header and card, above the footer, off the edges where there are
/// frames.
pub fn body(area: Rect) -> Rect {
    let framed = area.width >= 100 && area.height >= 30;
    let above = match area.height {
        _ if framed => 7,
        0..18 => 4,
        18..30 => 5,
        _ => 6,
    };
    let body = Rect { y: area.y + above.min(area.height), height: area.height.saturating_sub(above + 1), ..area };
    if framed { body.inner(ratatui::layout::Margin::new(1, 0)) } else { body }
}

/// A screen after a while of a data-loader-bound run.
pub fn running(theme: Theme, size: (u16, u16), job: Job) -> App {
    running_until(theme, size, job, |_| ())
}

/// The same with its last tick changed.
pub fn running_until(theme: Theme, size: (u16, u16), job: Job, change: impl FnOnce(&mut Tick)) -> App {
    let mut app = fresh(theme, size);
    let mut change = Some(change);
    let start = Arc::new(Verdict { class: Class::Unknown, phase: Phase::Init, ..unknown() });
    let gpu = Arc::new(other(Class::Gpu, Some(Cause::ComputeBound), "The GPU is busy."));
    let loader = Arc::new(data_loader());
    for t in 1..=job.seconds {
        if (61..65).contains(&t) {
            continue; // five seconds that were not seen
        }
        let verdict = match t {
            ..5 => &start,
            5..55 => &loader,
            55..70 => &gpu,
            _ => &loader,
        };
        let mut next = tick(&app, JobKey::default(), frame(t, job), Arc::clone(verdict));
        if t == job.seconds
            && let Some(change) = change.take()
        {
            change(&mut next);
        }
        app.update(Message::Job(JobKey::default(), JobEvent::Tick(Arc::new(next))));
    }
    app
}

/// The screen as a buffer.
pub fn draw(app: &App, size: (u16, u16)) -> Buffer {
    let mut buf = Buffer::empty(Rect::new(0, 0, size.0, size.1));
    trainmon::tui::draw(&mut buf, app);
    buf
}

/// The rows of a buffer as text, blanks at their ends cut.
pub fn rows(buf: &Buffer) -> Vec<String> {
    (buf.area.top()..buf.area.bottom())
        .map(|y| {
            let mut row = String::new();
            let mut skip = 0;
            for x in buf.area.left()..buf.area.right() {
                let symbol = buf.cell((x, y)).map_or(" ", |c| c.symbol());
                if skip > 0 {
                    skip -= 1;
                    continue;
                }
                skip = unicode_width::UnicodeWidthStr::width(symbol).saturating_sub(1);
                row.push_str(symbol);
            }
            row.trim_end().to_owned()
        })
        .collect()
}

/// Whether two screens have the same words in the same places. Without colors, textures and letters tell the parts of bars and stacks
/// from each other, so cells that are a block in one of them may differ.
pub fn same_words(color: &str, plain: &str) -> bool {
    let is_block = |c: char| "█▄▌■▒░╱╳▓".contains(c);
    // The end of a line of blanks is cut off.
    let same = |(a, b): (char, char)| a == b || is_block(a) || is_block(b);
    color.lines().zip(plain.lines()).all(|(color, plain)| {
        let length = color.chars().count().max(plain.chars().count());
        let [color, plain] = [color, plain].map(|line| line.chars().chain(std::iter::repeat(' ')).take(length));
        color.zip(plain).all(same)
    })
}

pub fn text(app: &App, size: (u16, u16)) -> String {
    rows(&draw(app, size)).join("\n")
}

/// What a process, a file or a device may call itself to retitle, recolor or break a line, to turn the reading direction,
/// and to take two cells or none.
pub const HOSTILE_NAMES: [&str; 7] = [
    "\x1b]0;owned\x07\x1b[2J\x1b[31mred",
    "line\nbreak\r\ttab\u{9b}31m",
    "\u{202E}desrever\u{2066}iso\u{200F}",
    "e\u{0301}\u{0301}\u{0301}\u{0301}\u{0301}\u{0301}\u{0301}",
    "日本語のとても長い名前のプロセス🚀🚀🚀👩‍👩‍👧‍👦/日本語のとても長い名前のファイル",
    "\u{FEFF}\u{200B}\u{E0041}",
    "\u{5E9}\u{5DC}\u{5D5}\u{5DD}",
];

/// No cell holds anything that steers a terminal, and no row is wider than the screen.
pub fn assert_harmless(buf: &Buffer, theme: Theme) {
    let turns = |c: char| ('\u{202A}'..='\u{202E}').contains(&c) || ('\u{2060}'..='\u{2069}').contains(&c);
    let is_bad = |c: char| c.is_control() || turns(c) || "\u{200B}\u{200E}\u{200F}\u{FEFF}".contains(c);
    for cell in &buf.content {
        let symbol = cell.symbol();
        assert!(!symbol.chars().any(is_bad) && symbol.chars().count() <= 3, "{symbol:?}");
        assert!(!theme.ascii || symbol.is_ascii(), "{symbol:?}");
    }
    for row in rows(buf) {
        assert!(unicode_width::UnicodeWidthStr::width(row.as_str()) <= usize::from(buf.area.width), "{row}");
    }
}
