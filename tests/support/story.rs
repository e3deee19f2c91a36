//! The animation of README.md: attaching, reading the answer, following it, and what became of it, from two recordings.
//!
//! ```text
//! cargo run --example story -- BEFORE.tmz AFTER.tmz "COMMAND AFTER" OUT
//! ```
//!
//! Writes `OUT.svg`, which moves in a browser, and `OUT.cast` for asciinema. What is shown is what the screen drew of each
//! sample; only the time between two samples is shorter.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "a tool of the tests")]

#[path = "svg.rs"]
mod svg;

use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use serde_json::json;
use trainmon::history::archive::Limits;
use trainmon::jobs::{JobEvent, JobKey, Target};
use trainmon::pipeline::Pipeline;
use trainmon::sources::recording::Recording;
use trainmon::tui::encode::encode;
use trainmon::tui::theme::{Depth, Palette};
use trainmon::tui::{App, AppOptions, Job, Message, Theme};

use svg::svg;

const SIZE: (u16, u16) = (100, 30);
/// Seconds that a typed command, a sample, and the last sample of a recording are shown.
const TYPED_S: f64 = 2.0;
const SAMPLE_S: f64 = 0.45;
const LAST_S: f64 = 5.0;

/// A picture and how long it is shown, seconds.
type Scene = (Buffer, f64);

fn empty() -> Buffer {
    Buffer::empty(Rect::new(0, 0, SIZE.0, SIZE.1))
}

/// A shell at which a command has been typed.
fn typed(command: &str) -> Scene {
    let mut buf = empty();
    buf.set_string(0, 0, "$ ", Style::new());
    buf.set_string(2, 0, command, Style::new().add_modifier(Modifier::BOLD));
    (buf, TYPED_S)
}

/// What the screen shows of each sample, and the PID of the job.
fn watched(path: &Path, theme: Theme) -> (Vec<Scene>, u32) {
    let mut recording = Recording::open(path).unwrap();
    let samples: Vec<_> = recording.by_ref().map(Result::unwrap).collect();
    let header = recording.header;
    let pipeline = &mut Pipeline::of_recording(&header, None);
    let target = Target { pid: header.pid, command: header.command.clone() };
    let options = AppOptions { theme, host: "gpu-box".to_owned(), ..AppOptions::default() };
    let mut app = App::new(Job::new(JobKey::default(), target, 1.0, Limits::default()), options, SIZE);
    let mut scenes = Vec::new();
    for sample in samples {
        app.update(Message::Job(JobKey::default(), JobEvent::Tick(pipeline.push(Arc::new(sample)))));
        let mut buf = empty();
        trainmon::tui::draw(&mut buf, &app);
        scenes.push((buf, SAMPLE_S));
    }
    scenes.last_mut().expect("a sample").1 = LAST_S;
    (scenes, header.pid)
}

/// One SVG in which each picture is visible in its turn, from the one at `still` on and then from the beginning again. Without
/// animation, or where the viewer wants less motion, `still` is what is seen.
fn animated(scenes: &[Scene], still: usize, palette: &Palette) -> String {
    let total: f64 = scenes.iter().map(|(_, seconds)| seconds).sum();
    let (mut styles, mut pictures, mut at) = (String::new(), String::new(), 0.0);
    let order = (0..scenes.len()).cycle().skip(still).take(scenes.len());
    for (n, (buf, seconds)) in order.filter_map(|n| Some((n, scenes.get(n)?))) {
        let (from, to) = (at / total * 100.0, (at + seconds) / total * 100.0);
        let (before, after) = ((from - 0.01).max(0.0), (to - 0.01).max(0.0));
        // An attribute, which counts also where styles are ignored.
        let first = if n == still { "visible" } else { "hidden" };
        writeln!(
            styles,
            "@keyframes k{n}{{0%,{before:.2}%{{visibility:{first}}}{from:.2}%,{after:.2}%{{visibility:visible}}\
             {to:.2}%,100%{{visibility:hidden}}}}#f{n}{{animation:k{n} {total:.2}s step-end infinite}}"
        )
        .unwrap();
        let picture = svg(buf, palette);
        writeln!(pictures, "<g id=\"f{n}\" visibility=\"{first}\">{}</g>", picture.trim_end()).unwrap();
        at += seconds;
    }
    let (width, height) = (u32::from(SIZE.0) * 8, u32::from(SIZE.1) * 16);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\">\n\
         <style>\n{styles}@media(prefers-reduced-motion:reduce){{g{{animation:none!important}}}}\n</style>\n{pictures}</svg>\n"
    )
}

/// An asciinema cast, version 2.
fn cast(scenes: &[Scene]) -> String {
    let header = json!({"version": 2, "width": SIZE.0, "height": SIZE.1, "title": "trainmon: attach, read, fix"});
    let (mut out, mut before, mut at) = (format!("{header}\n"), empty(), 0.0);
    let mut event =
        |at: f64, text: &str| writeln!(out, "{}", json!([(at * 100.0).round() / 100.0, "o", text])).unwrap();
    event(0.0, "\x1b[?25l\x1b[2J\x1b[H");
    for (buf, seconds) in scenes {
        let mut bytes = Vec::new();
        encode(&mut bytes, before.diff_iter(buf));
        event(at, &String::from_utf8(bytes).unwrap());
        before = buf.clone();
        at += seconds;
    }
    event(at, "\x1b[?25h");
    out
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [before, after, command, out] = arguments.as_slice() else { panic!("BEFORE.tmz AFTER.tmz COMMAND OUT") };
    let palette = Palette::dark();
    let theme = Theme { depth: Depth::TrueColor, ascii: false, palette };
    let (first, pid) = watched(Path::new(before), theme);
    let (second, pid_after) = watched(Path::new(after), theme);
    let mut scenes = vec![typed(&format!("trainmon --pid {pid}"))];
    scenes.extend(first);
    // The answer, before the fix.
    let still = scenes.len() - 1;
    scenes.push(typed(command));
    scenes.push(typed(&format!("trainmon --pid {pid_after}")));
    scenes.extend(second);
    for (path, text) in
        [(format!("{out}.svg"), animated(&scenes, still, &palette)), (format!("{out}.cast"), cast(&scenes))]
    {
        println!("{path}: {} bytes", text.len());
        std::fs::write(path, text).unwrap();
    }
}
