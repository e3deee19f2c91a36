//! How many bytes a second every page sends to the terminal when all its numbers move, in the normal mode and in that for
//! thin lines, live and from a recording that plays.

use std::sync::{Arc, LazyLock};

use crate::app::*;
use crossterm::event::KeyCode;
use trainmon::diagnosis::verdict::Verdict;
use trainmon::rates::frame::{CpuRates, DeviceRates, GpuProcessRates, NetRates};
use trainmon::rates::other_processes::{OtherProcessRates, OtherProcesses};
use trainmon::rates::threads::{ThreadRates, ThreadRoleRates};
use trainmon::sample::{ProcessRole, ThreadRole};
use trainmon::tui::encode::encode;
use trainmon::tui::pages::Page;
use trainmon::tui::theme::{Depth, Theme};
use trainmon::tui::{self, App, AppOptions, Message};
use trainmon::waits::Frame;
use trainmon::waits::stacks::{Activities, Activity, CodePlace, ProcessStacks};

const SIZE: (u16, u16) = (120, 40);
/// Begin and end of synchronised update, which the terminal's file puts around every frame.
const MARKS: usize = "\u{1b}[?2026h\u{1b}[?2026l".len();

/// Most bytes a second, on a thin line and on any other.
const THIN: usize = 1228;
const NORMAL: usize = 6 * 1024;

/// A number from 0 to 1 that looks like noise (splitmix64).
fn noise(seed: u64) -> f64 {
    let mut z = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    (z ^ (z >> 31)) as f64 / u64::MAX as f64
}

/// A frame in which every number moves that a page shows.
fn noisy(t: u64, job: Job) -> Frame {
    let mut frame = frame(t, job);
    let n = |k: u64| noise(t * 2048 + k);
    noisy_devices(&mut frame, n);
    if job.gpus > 1 {
        let cpu = |cpu| CpuRates { cpu, allowed: true, ..CpuRates::default() };
        frame.host.cpus = (0..64).map(cpu).collect();
    }
    noisy_cpus(&mut frame, |k| n(200 + k));
    noisy_storage(&mut frame, |k| n(500 + k));
    noisy_processes(&mut frame, |k| n(600 + k));
    if t.is_multiple_of(4) {
        frame.stacks = stacks(t, |k| n(1000 + k));
    }
    frame
}

fn noisy_devices(frame: &mut Frame, n: impl Fn(u64) -> f64) {
    for (gpu, at) in frame.gpus.iter_mut().zip((0..).step_by(20)) {
        gpu.utilization_pct = Some(20.0 + 60.0 * n(at + 1));
        gpu.job_utilization_pct = gpu.utilization_pct;
        gpu.power_w = Some(80.0 + 60.0 * n(at + 2));
        gpu.temperature_c = Some(44 + (6.0 * n(at + 3)) as u32);
        gpu.memory_used_bytes = Some(6_000_000_000 + (8e8 * n(at + 4)) as u64);
        gpu.job_memory_bytes = gpu.memory_used_bytes;
        gpu.memory_utilization_pct = Some(40.0 * n(at + 5));
        (gpu.sm_clock_mhz, gpu.sm_clock_max_mhz) = (Some(1500 + (200.0 * n(at + 6)) as u32), Some(1710));
        (gpu.memory_clock_mhz, gpu.memory_clock_max_mhz) = (Some(6251), Some(6251));
        gpu.clock_event_reasons = Some(if n(at + 7) > 0.5 { 0x4 } else { 0 });
        gpu.pcie_rx_bytes_per_s = Some(4e9 * n(at + 8));
        gpu.pcie_tx_bytes_per_s = Some(4e8 * n(at + 9));
        gpu.pcie_capacity_bytes_per_s = Some(31e9);
        gpu.processes = vec![GpuProcessRates {
            pid: 1234,
            ours: Some(true),
            memory_bytes: gpu.memory_used_bytes,
            sm_utilization_pct: Some((90.0 * n(at + 10)) as u32),
            compute: true,
            ..GpuProcessRates::default()
        }];
    }
}

fn noisy_cpus(frame: &mut Frame, n: impl Fn(u64) -> f64) {
    for (cpu, at) in frame.host.cpus.iter_mut().zip(0..) {
        cpu.busy_pct = 90.0 * n(at) as f32;
        cpu.iowait_pct = 8.0 * n(70 + at) as f32;
    }
    let host = &mut frame.host;
    host.allowed_cpu_pct = Some(40.0 + 30.0 * n(140));
    host.others_cpu_pct = Some(20.0 * n(141));
    host.load = Some([9.0 + n(142) as f32, 7.0, 3.0]);
    host.psi_cpu_some_pct = Some(20.0 * n(143));
    host.psi_io_some_pct = Some(20.0 * n(144));
    host.psi_memory_some_pct = Some(2.0 * n(145));
    frame.job.cpu_pct = Some(300.0 + 200.0 * n(146));
    frame.job.run_delay_share = Some(0.2 * n(147));
    frame.thread_roles = [ThreadRole::Main, ThreadRole::Pin, ThreadRole::QueueThread, ThreadRole::Other]
        .into_iter()
        .zip(0..)
        .map(|(thread_role, at)| ThreadRoleRates {
            process_role: ProcessRole::Worker,
            thread_role,
            count: 8,
            ran: 8,
            cpu_pct: Some(300.0 * n(150 + at)),
            run_delay_share: Some(0.2 * n(160 + at)),
        })
        .collect();
    frame.threads = (0..12)
        .map(|at| ThreadRates {
            process: id(1301 + at as u32),
            tid: 1301 + at as u32,
            role: ThreadRole::Main,
            name: "pt_data_worker".into(),
            cpu_pct: 96.0 * n(170 + at) as f32,
            run_delay_pct: 20.0 * n(190 + at) as f32,
        })
        .collect();
    let other_process = |at: u64| OtherProcessRates {
        id: id(9000 + at as u32),
        comm: "postgres".into(),
        command: "postgres: writer".into(),
        cpu_pct: 80.0 * n(210 + at),
        ..OtherProcessRates::default()
    };
    frame.other_processes = Some(OtherProcesses { seconds: 3.0, processes: (0..8).map(other_process).collect() });
}

fn noisy_storage(frame: &mut Frame, n: impl Fn(u64) -> f64) {
    frame.job.read_bytes_per_s = Some(120e6 * n(0));
    frame.job.write_bytes_per_s = Some(2e6 * n(1));
    frame.job.read_chars_per_s = Some(300e6 * n(2));
    frame.job.read_calls_per_s = Some(4000.0 * n(3));
    frame.job.major_faults_per_s = Some(30.0 * n(4));
    frame.host.memory_available_bytes = Some((20e9 + 1e9 * n(5)) as u64);
    frame.host.memory_total_bytes = Some(64_000_000_000);
    frame.host.net_rx_bytes_per_s = Some(90e6 * n(6));
    frame.host.net_tx_bytes_per_s = Some(9e6 * n(7));
    frame.host.net =
        vec![NetRates { name: "eth0".into(), rx_bytes_per_s: Some(90e6 * n(6)), tx_bytes_per_s: Some(9e6 * n(7)) }];
    frame.storage.utilization_pct = Some(30.0 * n(8));
    frame.storage.await_ms = Some(2.0 * n(9));
    frame.storage.read_bytes_per_s = Some(120e6 * n(10));
    frame.storage.write_bytes_per_s = Some(5e6 * n(11));
    frame.storage.devices = (0..3)
        .map(|disk| DeviceRates {
            name: format!("nvme{disk}n1").into(),
            data: disk == 0,
            read_bytes_per_s: 90e6 * n(20 + disk),
            write_bytes_per_s: 9e6 * n(25 + disk),
            reads_per_s: 3000.0 * n(30 + disk),
            writes_per_s: 300.0 * n(35 + disk),
            await_ms: Some(2.0 * n(40 + disk)),
            read_await_ms: Some(2.0 * n(45 + disk)),
            write_await_ms: Some(2.0 * n(50 + disk)),
            queue: 3.0 * n(55 + disk),
            utilization_pct: 90.0 * n(60 + disk),
        })
        .collect();
    for mount in &mut frame.storage.mounts {
        mount.disks_read_bytes_per_s = Some(90e6 * n(20));
        mount.disks_write_bytes_per_s = Some(9e6 * n(25));
    }
}

fn noisy_processes(frame: &mut Frame, n: impl Fn(u64) -> f64) {
    for (worker, at) in frame.workers.iter_mut().zip(0..) {
        let busy = 0.5 + 0.4 * n(at);
        (worker.busy, worker.idle) = (Some(busy), Some(0.95 - busy));
        (worker.io_wait, worker.runnable) = (Some(0.03 * n(40 + at)), Some(0.02));
    }
    for rank in &mut frame.ranks {
        let wait = 0.4 + 0.4 * n(90);
        (rank.split_s.input_wait, rank.split_s.host_busy) = (wait, 0.9 - wait);
        let mut chain = crate::chain::rates(0);
        for (path, at) in chain.paths.iter_mut().zip(91..) {
            path.seconds = (path.seconds + 0.2 * n(at) as f32) / 2.0;
        }
        rank.chain = Some(chain);
    }
    for (process, at) in frame.processes.iter_mut().zip((100..).step_by(8)) {
        process.cpu_pct = Some(100.0 * n(at));
        process.run_delay_share = Some(0.2 * n(at + 1));
        process.rss_bytes = (8e8 + 1e8 * n(at + 2)) as u64;
        process.read_bytes_per_s = Some(20e6 * n(at + 3));
        process.write_bytes_per_s = Some(2e6 * n(at + 4));
        process.cpu_time_s = Some(1000.0 + frame.sequence as f64 * n(at + 5));
        process.state = if n(at + 6) > 0.5 { 'R' } else { 'S' };
    }
}

/// Stacks of the rank whose samples move.
fn stacks(t: u64, n: impl Fn(u64) -> f64) -> Vec<ProcessStacks> {
    let activities = [Activity::Waiting, Activity::Forward, Activity::Sync, Activity::Backward, Activity::Decode];
    let mut main = Activities::default();
    let places = (0..14u64)
        .map(|at| {
            let activity = activities[at as usize % activities.len()];
            let samples = (60.0 * n(at)) as u32;
            main.add(activity, samples);
            CodePlace {
                function: format!("function_{at}").into(),
                file: "/home/me/train.py".into(),
                line: 40 + at as u32,
                text: Some("    loss = criterion(model(x), y)".into()),
                activity,
                user: true,
                samples,
                leaf: samples / 2,
                blocked: samples / 3,
            }
        })
        .collect();
    let (id, role) =
        if t.is_multiple_of(8) { (id(1234), ProcessRole::Rank) } else { (id(1301), ProcessRole::Worker) };
    vec![ProcessStacks { id, role, main, places, ..ProcessStacks::default() }]
}

/// The same verdict with numbers that move a little, as they do.
fn verdict(t: u64) -> Arc<Verdict> {
    let mut verdict = data_loader();
    let share = 0.6 + 0.1 * noise(t * 64 + 50);
    verdict.confidence = 0.9 + 0.05 * noise(t * 64 + 51);
    verdict.summary = format!("The GPU waits for batches {:.0} % of the time; 4 workers are busy.", share * 100.0);
    verdict.steps.per_s = Some(0.7 + 0.1 * noise(t * 64 + 52));
    verdict.chain = crate::chain::workers();
    for (node, at) in verdict.chain.iter_mut().zip(60..) {
        node.share = (node.share + 0.05 * noise(t * 64 + at)).clamp(0.0, 1.0);
    }
    for (evidence, at) in verdict.evidence.iter_mut().zip(53..) {
        evidence.value = Some(0.6 + 0.3 * noise(t * 64 + at));
    }
    Arc::new(verdict)
}

/// Seconds after which the charts are full.
const PAST: u64 = 75;
/// Seconds that a page is shown before its bytes count.
const SETTLE: u64 = 3;

const JOB: Job = Job { workers: 8, gpus: 1, seconds: 0 };
/// One that fills its pages, on a machine with 64 CPUs.
const LARGE: Job = Job { workers: 32, gpus: 8, seconds: 0 };

fn second(app: &mut App, t: u64, job: Job) {
    tell(app, noisy(t, job), verdict(t));
}

/// A live job with a past that fills the charts.
fn with_past(shape: Job) -> tui::Job {
    let mut app = App::new(job(), AppOptions::default(), SIZE);
    (1..=PAST).for_each(|t| second(&mut app, t, shape));
    app.job().clone()
}

/// A recording that has played so long, and has more to come.
static PLAYED: LazyLock<tui::Job> = LazyLock::new(|| {
    let mut app = App::new(job().recording(), AppOptions::default(), SIZE);
    (1..=PAST + SETTLE + 65).for_each(|t| second(&mut app, t, JOB));
    tell_loaded(&mut app);
    for _ in 0..PAST {
        app.step(Message::Advance(1.0));
    }
    app.job().clone()
});

static PAST_OF_JOB: LazyLock<tui::Job> = LazyLock::new(|| with_past(JOB));
static PAST_OF_LARGE: LazyLock<tui::Job> = LazyLock::new(|| with_past(LARGE));

/// A page of a job that has a past.
fn screen(job: &tui::Job, low_bandwidth: bool, depth: Depth, page: Page) -> App {
    let options = AppOptions { theme: Theme { depth, ..*COLOR }, low_bandwidth, ..AppOptions::default() };
    let mut app = App::new(job.clone(), options, SIZE);
    let key = page.spec().keys.chars().next().unwrap();
    press(&mut app, KeyCode::Char(key));
    assert_eq!(app.page(), page);
    app
}

/// Mean bytes a second over a minute of pictures, one a second; `next` leads to the next.
fn over_a_minute(app: &mut App, mut next: impl FnMut(&mut App, u64)) -> usize {
    let mut before = draw(app, SIZE);
    let mut sent = 0;
    for t in 1..=60 {
        next(app, t);
        let now = draw(app, SIZE);
        let mut bytes = Vec::new();
        encode(&mut bytes, before.diff_iter(&now));
        sent += bytes.len() + if bytes.is_empty() { 0 } else { MARKS };
        before = now;
    }
    sent / 60
}

/// Mean bytes a second of a live job.
fn live(low_bandwidth: bool, depth: Depth, page: Page, past: &tui::Job, shape: Job) -> usize {
    let mut app = screen(past, low_bandwidth, depth, page);
    (1..=SETTLE).for_each(|t| second(&mut app, PAST + t, shape));
    over_a_minute(&mut app, |app, t| second(app, PAST + SETTLE + t, shape))
}

/// The same of a recording that plays at its own speed.
fn replayed(low_bandwidth: bool, depth: Depth, page: Page) -> usize {
    let mut app = screen(&PLAYED, low_bandwidth, depth, page);
    for _ in 0..SETTLE {
        app.step(Message::Advance(1.0));
    }
    let sent = over_a_minute(&mut app, |app, _| {
        app.step(Message::Advance(1.0));
    });
    assert_eq!(app.job().moment_ns(), noisy(PAST + SETTLE + 61, JOB).monotonic_ns, "it played");
    sent
}

/// Every page in every number of colors stays within so many bytes a second.
fn assert_within(most: usize, sent: impl Fn(Depth, Page) -> usize) {
    assert_within_in(most, &[Depth::Indexed256, Depth::TrueColor, Depth::Ansi16, Depth::None], sent);
}

fn assert_within_in(most: usize, depths: &[Depth], sent: impl Fn(Depth, Page) -> usize) {
    let mut over = Vec::new();
    for depth in depths.iter().copied() {
        for page in Page::ALL {
            let sent = sent(depth, page);
            println!("{:<10} {depth:?}: {sent} bytes a second", page.name());
            if sent > most {
                over.push(format!("{} {depth:?}: {sent}", page.name()));
            }
        }
    }
    assert!(over.is_empty(), "more than {most} bytes a second: {}", over.join(", "));
}

#[test]
fn a_thin_line_gets_few_bytes_on_every_page() {
    assert_within(THIN, |depth, page| live(true, depth, page, &PAST_OF_JOB, JOB));
    assert_within_in(THIN, &[Depth::Indexed256], |depth, page| live(true, depth, page, &PAST_OF_LARGE, LARGE));
}

#[test]
fn the_normal_mode_stays_within_its_bytes_on_every_page() {
    assert_within(NORMAL, |depth, page| live(false, depth, page, &PAST_OF_JOB, JOB));
    assert_within_in(NORMAL, &[Depth::Indexed256], |depth, page| live(false, depth, page, &PAST_OF_LARGE, LARGE));
}

#[test]
fn a_recording_that_plays_over_a_thin_line_gets_few_bytes() {
    assert_within(THIN, |depth, page| replayed(true, depth, page));
}

#[test]
fn a_recording_that_plays_stays_within_its_bytes() {
    assert_within(NORMAL, |depth, page| replayed(false, depth, page));
}

#[test]
fn nothing_is_sent_while_the_picture_stands() {
    for low_bandwidth in [false, true] {
        for page in Page::ALL {
            let mut app = screen(&PAST_OF_JOB, low_bandwidth, Depth::Indexed256, page);
            press(&mut app, KeyCode::Char(' '));
            assert_eq!(over_a_minute(&mut app, |app, t| second(app, PAST + t, JOB)), 0, "{}", page.name());
        }
    }
}
