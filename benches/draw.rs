//! Cost of drawing the screen, and of what it sends to the terminal, with every chart live.

#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs, reason = "a benchmark")]

#[path = "../tests/tui_support/mod.rs"]
mod tui_support;

use std::hint::black_box;
use std::time::Duration;

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::backend::{Backend, CrosstermBackend};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use trainmon::tui::{Message, News};
use trainmon::tui::views;
use tui_support::*;

fn draw_sizes(c: &mut Criterion) {
    for size in [(80, 24), (120, 40), (200, 60)] {
        let job = Job { workers: 8, seconds: 590, ..Job::default() };
        let mut app = running(*COLOUR, size, job);
        for _ in 0..3 {
            app.update(Message::Key(KeyEvent::new(KeyCode::Char('-'), KeyModifiers::NONE)));
        }
        let area = Rect::new(0, 0, size.0, size.1);
        let mut buf = Buffer::empty(area);
        c.bench_function(&format!("draw {}x{}", size.0, size.1), |b| {
            b.iter(|| {
                buf.reset();
                views::draw(&mut buf, black_box(&app));
            });
        });

        // A second later: drawing, finding what changed, and encoding it.
        let before = draw(&app, size);
        tell(&mut app, News::Frame(Box::new(frame(591, job))));
        let mut bytes = Vec::with_capacity(65_536);
        c.bench_function(&format!("draw, compare and encode {}x{}", size.0, size.1), |b| {
            b.iter(|| {
                buf.reset();
                views::draw(&mut buf, black_box(&app));
                bytes.clear();
                CrosstermBackend::new(&mut bytes).draw(before.diff_iter(&buf)).unwrap();
            });
        });
        println!("{}x{}: {} bytes for the next second", size.0, size.1, bytes.len());
    }
}

fn update(c: &mut Criterion) {
    let job = Job { workers: 32, seconds: 300, ..Job::default() };
    let app = running(*COLOUR, (120, 40), job);
    c.bench_function("take in a frame of 34 processes", |b| {
        b.iter_batched_ref(
            || (app.clone(), Box::new(frame(301, job))),
            |(app, frame)| tell(app, News::Frame(std::mem::take(frame))),
            BatchSize::LargeInput,
        );
    });
}

criterion_group! {
    name = benches;
    config = Criterion::default().warm_up_time(Duration::from_millis(300)).measurement_time(Duration::from_secs(1)).without_plots();
    targets = draw_sizes, update
}
criterion_main!(benches);
