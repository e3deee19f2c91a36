//! How many bytes a second the screen sends to the terminal, in the normal mode and in that for thin lines.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::expect_used, missing_docs, reason = "tests")]

mod tui_support;

use std::sync::Arc;

use ratatui::buffer::Buffer;
use trainmon::diagnosis::verdict::Verdict;
use trainmon::rates::Frame;
use trainmon::tui::theme::{Depth, Theme};
use trainmon::tui::{App, JobKey, Message, News, Options};
use tui_support::*;

const SIZE: (u16, u16) = (120, 40);
/// Begin and end of synchronised update, which the terminal's file puts around every frame.
const MARKS: usize = "\u{1b}[?2026h\u{1b}[?2026l".len();

/// A number from 0 to 1 that looks like noise (splitmix64).
fn noise(seed: u64) -> f64 {
    let mut z = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    (z ^ (z >> 31)) as f64 / u64::MAX as f64
}

/// A frame in which every number moves.
fn noisy(t: u64, job: Job) -> Frame {
    let mut frame = frame(t, job);
    let n = |k: u64| noise(t * 64 + k);
    for gpu in &mut frame.gpus {
        gpu.utilization_pct = Some(20.0 + 60.0 * n(1));
        gpu.job_utilization_pct = Some(20.0 + 60.0 * n(1));
        gpu.power_w = Some(80.0 + 60.0 * n(2));
        gpu.temperature_c = Some(44 + (6.0 * n(3)) as u32);
        gpu.memory_used_bytes = Some(6_000_000_000 + (8e8 * n(4)) as u64);
    }
    for (k, worker) in frame.workers.iter_mut().enumerate() {
        let busy = 0.5 + 0.4 * n(10 + k as u64);
        (worker.busy, worker.idle) = (Some(busy), Some(0.95 - busy));
    }
    for trainer in &mut frame.trainers {
        let wait = 0.4 + 0.4 * n(5);
        (trainer.input_wait_s, trainer.host_busy_s) = (wait, 0.9 - wait);
    }
    frame.host.allowed_cpu_pct = Some(40.0 + 30.0 * n(6));
    frame.host.others_cpu_pct = Some(20.0 * n(7));
    frame.job.read_bytes_s = Some(120e6 * n(8));
    frame.job.cpu_pct = Some(300.0 + 200.0 * n(9));
    frame.storage.utilization_pct = Some(30.0 * n(40));
    frame.storage.await_ms = Some(2.0 * n(41));
    frame
}

/// The same verdict with numbers that move a little, as they do.
fn verdict(t: u64) -> Arc<Verdict> {
    let mut verdict = data_loader();
    let share = 0.6 + 0.1 * noise(t * 64 + 50);
    verdict.confidence = 0.9 + 0.05 * noise(t * 64 + 51);
    verdict.summary = format!("The GPU waits for batches {:.0} % of the time; 4 workers are busy.", share * 100.0);
    verdict.steps.per_s = Some(0.7 + 0.1 * noise(t * 64 + 52));
    Arc::new(verdict)
}

/// Mean bytes a second over a minute at one sample a second, after two minutes.
fn bytes_a_second(low_bandwidth: bool, depth: Depth) -> usize {
    let job = Job { workers: 8, ..Job::default() };
    let attached = trainmon::tui::Job::new(JobKey::default(), target(), 1.0, Options::default().limits);
    let options = Options { theme: Theme { depth, ..*COLOUR }, low_bandwidth, ..Options::default() };
    let mut app = App::new(attached, options, SIZE);
    let mut before = Buffer::default();
    let mut sent = 0;
    for t in 1..=180 {
        tell(&mut app, News::Frame(Box::new(noisy(t, job))));
        app.update(Message::Job(JobKey::default(), News::Verdict(verdict(t))));
        let now = draw(&app, SIZE);
        if t > 120 {
            let mut bytes = Vec::new();
            encode(&mut bytes, before.diff_iter(&now));
            sent += bytes.len() + if bytes.is_empty() { 0 } else { MARKS };
        }
        before = now;
    }
    sent / 60
}

#[test]
fn a_thin_line_gets_few_bytes() {
    for depth in [Depth::Indexed256, Depth::TrueColour, Depth::Ansi16, Depth::None] {
        let sent = bytes_a_second(true, depth);
        println!("low bandwidth true, {depth:?}: {sent} bytes a second");
        assert!(sent <= 1228, "{depth:?}: {sent} bytes a second");
    }
}

#[test]
fn the_normal_mode_stays_within_its_bytes() {
    for depth in [Depth::Indexed256, Depth::TrueColour, Depth::Ansi16, Depth::None] {
        let sent = bytes_a_second(false, depth);
        println!("low bandwidth false, {depth:?}: {sent} bytes a second");
        assert!(sent <= 6 * 1024, "{depth:?}: {sent} bytes a second");
    }
}
