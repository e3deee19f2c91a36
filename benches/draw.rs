//! Cost of the screen: drawing every page with an hour of history, finding and encoding what changed, taking in a frame
//! with its archive, and travelling back through the hour.
//!
//! What it must reach, in release: at most 400 µs for a frame of 120×40, at most 1 ms for one of 200×60, and a table of
//! 5,000 processes costs no more than its visible rows.

#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs, reason = "a benchmark")]

#[path = "../tests/support/app.rs"]
mod app;

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use app::*;
use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use trainmon::rates::frame::ProcessRates;
use trainmon::tui::encode::encode;
use trainmon::tui::keys::{self, Action};
use trainmon::tui::pages::Page;
use trainmon::tui::{App, Message};
use trainmon::waits::Frame;
use trainmon::waits::frame::RankRates;

const SIZES: [(u16, u16); 3] = [(80, 24), (120, 40), (200, 60)];
/// An hour at 1 Hz.
const HOUR: u64 = 3600;
/// One GPU and eight workers.
const USUAL: Job = Job { workers: 8, gpus: 1, seconds: HOUR };
/// A whole machine: [`RANKS`] ranks with eight workers each.
const MANY: Job = Job { workers: 64, gpus: 16, seconds: HOUR };
const RANKS: u32 = 8;

fn press(app: &mut App, action: Action) {
    app.update(Message::Key(named_key(keys::key_of(action))));
}

/// Shows so many seconds in the charts.
fn zoom(app: &mut App, span_s: f64) {
    for _ in 0..16 {
        match app.span_s() {
            now if now < span_s => press(app, Action::ZoomOut),
            now if now > span_s => press(app, Action::ZoomIn),
            _ => return,
        }
    }
    panic!("the charts cannot show {span_s} s");
}

/// The frame of a job of several ranks.
fn ranks(mut frame: Frame) -> Frame {
    let (Some(rank), Some(process)) = (frame.ranks.first().cloned(), frame.processes.first().cloned()) else {
        return frame;
    };
    for number in 1..RANKS {
        let id = id(2000 + number);
        frame.ranks.push(RankRates { id, ..rank.clone() });
        frame.processes.push(ProcessRates { id, ..process.clone() });
    }
    for (place, worker) in frame.workers.iter_mut().enumerate() {
        let rank = place as u32 % RANKS;
        worker.rank = if rank == 0 { 1234 } else { 2000 + rank };
    }
    frame
}

/// The frame of a job with so many processes.
fn crowded(mut frame: Frame, count: u32) -> Frame {
    let like = frame.processes.last().cloned().expect("a process");
    while frame.processes.len() < count as usize {
        let place = frame.processes.len() as u32;
        let command = Arc::from(format!("python shard.py --part {place} --of {count}"));
        frame.processes.push(ProcessRates {
            id: id(10_000 + place),
            cpu_pct: Some(f64::from(place % 97)),
            command,
            ..like.clone()
        });
    }
    frame
}

/// A screen after an hour.
fn hour(size: (u16, u16), job: Job, last: impl Fn(Frame) -> Frame) -> App {
    let mut app = running(*COLOR, size, job);
    // The newest moments have all there is; the charts have their hour from those before.
    for t in HOUR + 1..HOUR + 4 {
        tell(&mut app, last(frame(t, job)), data_loader());
    }
    app
}

fn resized(app: &App, size: (u16, u16)) -> App {
    let mut app = app.clone();
    app.update(Message::Resize(size.0, size.1));
    app
}

fn bench_draw(c: &mut Criterion, name: &str, app: &App, size: (u16, u16)) {
    let mut buf = Buffer::empty(Rect::new(0, 0, size.0, size.1));
    c.bench_function(&format!("draw {name} {}x{}", size.0, size.1), |b| {
        b.iter(|| {
            buf.reset();
            trainmon::tui::draw(&mut buf, black_box(app));
        });
    });
}

fn pages(c: &mut Criterion) {
    let usual = hour((80, 24), USUAL, |frame| frame);
    let many = hour((80, 24), MANY, ranks);
    for size in SIZES {
        for (word, base, spans) in [
            ("", &usual, &[("1 m", 60.0), ("1 h", 3600.0)][..]),
            (", 16 GPUs 8 ranks 64 workers", &many, &[("1 h", 3600.0)]),
        ] {
            for (span, span_s) in spans {
                let mut app = resized(base, size);
                zoom(&mut app, *span_s);
                for page in Page::ALL {
                    press(&mut app, Action::Go(page));
                    bench_draw(c, &format!("{}, {span}{word}", page.name()), &app, size);
                }
            }
        }
    }
}

fn tables(c: &mut Criterion) {
    for size in [(120, 40), (200, 60)] {
        for count in [50, 5000] {
            let mut app = hour(size, Job { seconds: 60, ..USUAL }, |frame| crowded(frame, count));
            press(&mut app, Action::Go(Page::Processes));
            bench_draw(c, &format!("Processes, {count} of them"), &app, size);
            let next = crowded(frame(HOUR + 9, USUAL), count);
            c.bench_function(
                &format!("take in {count} processes while their table is up {}x{}", size.0, size.1),
                |b| {
                    b.iter_batched_ref(
                        || (app.clone(), Some(next.clone())),
                        |(app, frame)| frame.take().map(|frame| tell(app, frame, data_loader())),
                        BatchSize::LargeInput,
                    );
                },
            );
        }
    }
}

/// A second later: drawing, finding what changed, and encoding it.
fn next_second(c: &mut Criterion) {
    for size in SIZES {
        let mut app = hour(size, USUAL, |frame| frame);
        let before = draw(&app, size);
        tell(&mut app, frame(HOUR + 4, USUAL), data_loader());
        let mut buf = Buffer::empty(Rect::new(0, 0, size.0, size.1));
        let mut bytes = Vec::with_capacity(65_536);
        c.bench_function(&format!("draw, compare and encode the next second {}x{}", size.0, size.1), |b| {
            b.iter(|| {
                buf.reset();
                trainmon::tui::draw(&mut buf, black_box(&app));
                bytes.clear();
                encode(&mut bytes, before.diff_iter(&buf));
            });
        });
        println!("{}x{}: {} bytes for the next second", size.0, size.1, bytes.len());
    }
}

fn updates(c: &mut Criterion) {
    for (word, job) in [("10", USUAL), ("74", MANY)] {
        let app = hour((120, 40), job, ranks);
        // Whole blocks of the archive are packed now and then: all of a minute's frames together.
        c.bench_function(&format!("take in 60 frames of {word} processes with the archive"), |b| {
            b.iter_batched_ref(
                || (app.clone(), (4..64).map(|t| ranks(frame(HOUR + t, job))).collect::<Vec<_>>()),
                |(app, frames)| {
                    for frame in frames.drain(..) {
                        tell(app, frame, data_loader());
                    }
                },
                BatchSize::LargeInput,
            );
        });
        let mut app = app;
        c.bench_function(&format!("go to the oldest and back, an hour of {word} processes"), |b| {
            b.iter(|| {
                press(&mut app, Action::Oldest);
                press(&mut app, Action::Newest);
            });
        });
        press(&mut app, Action::Oldest);
        c.bench_function(&format!("step forward and back in the past, {word} processes"), |b| {
            b.iter(|| {
                press(&mut app, Action::StepForward);
                press(&mut app, Action::StepBack);
            });
        });
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_millis(600))
        .sample_size(30)
        .without_plots();
    targets = pages, tables, next_second, updates
}
criterion_main!(benches);
