//! Draws the screen as pictures, so that people can look at it: every page × size × theme × situation, from recordings.
//!
//! ```text
//! cargo run --example pictures -- FOLDER [PAGE | SIZE | THEME | SITUATION | TRACE | press:KEYS]…
//! ```
//!
//! Writes `SITUATION-PAGE-SIZE-THEME.svg` for each; words after the folder choose (`overview 80x24 dark hung`), and where none
//! of a kind is given, all of that kind are drawn. A recording's name is a situation too, and so is the path of a trace; keys are
//! pressed on each page before it is drawn.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "a tool of the tests")]

#[path = "svg.rs"]
mod svg;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::ValueEnum;
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use trainmon::diagnosis::verdict::Context;
use trainmon::history::archive::Limits;
use trainmon::jobs::{JobEvent, JobKey, Target};
use trainmon::pipeline::{Pipeline, Tick};
use trainmon::profiles::account::ProfileAccount;
use trainmon::sample::Sample;
use trainmon::sample::recording::Header;
use trainmon::sources::recording::Recording;
use trainmon::tui::pages::Page;
use trainmon::tui::theme::{Depth, Palette};
use trainmon::tui::{App, AppOptions, Job, Message, Theme};

use svg::svg;

const SIZES: [(u16, u16); 4] = [(80, 24), (100, 30), (120, 40), (200, 60)];
const THEMES: [&str; 3] = ["dark", "light", "16"];
/// A situation: its name, its recording, and how much of that is seen.
const SITUATIONS: [(&str, &str, Seen); 14] = [
    ("segmentation", "segmentation", Seen::All),
    ("segmentation-fixed", "segmentation-fixed", Seen::All),
    ("healthy", "balanced", Seen::All),
    ("data-loader", "too-few-workers", Seen::All),
    ("decode", "datasets-decode", Seen::All),
    ("io", "network-storage", Seen::All),
    ("cpu", "main-thread", Seen::All),
    ("lock", "file-lock-tried", Seen::All),
    ("gpu", "h100-compute-bound", Seen::All),
    ("hung", "hung", Seen::All),
    ("first-second", "too-few-workers", Seen::First),
    ("replay", "too-few-workers", Seen::Replayed),
    ("eight-ranks", "eight-ranks-loader", Seen::All),
    ("no-gpu", "cpu-training", Seen::All),
];

#[derive(Clone, Copy, PartialEq)]
enum Seen {
    All,
    First,
    /// Half of it, paused, as a recording.
    Replayed,
}

fn path_of(recording: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recordings").join(recording).with_extension("tmz")
}

fn samples(name: &str) -> (Header, Vec<Sample>) {
    let mut recording = Recording::open(&path_of(name)).unwrap();
    let samples = recording.by_ref().map(Result::unwrap).collect();
    (recording.header, samples)
}

/// The screen after a recording, or a part of it.
fn app(recording: &str, seen: Seen, theme: Theme, size: (u16, u16)) -> App {
    let (header, samples) = samples(recording);
    let pipeline = &mut Pipeline::of_recording(&header, None);
    let target = Target { pid: header.pid, command: header.command.clone() };
    let job = Job::new(JobKey::default(), target, 1.0, Limits::default());
    let job = if seen == Seen::Replayed { job.recording() } else { job };
    let options = AppOptions { theme, host: "gpu-box".to_owned(), ..AppOptions::default() };
    let mut app = App::new(job, options, size);
    let count = if seen == Seen::First { 2 } else { samples.len() };
    for sample in samples.into_iter().take(count) {
        let tick = pipeline.push(Arc::new(sample));
        app.update(Message::Job(JobKey::default(), JobEvent::Tick(tick)));
    }
    if seen == Seen::Replayed {
        app.update(Message::Job(JobKey::default(), JobEvent::Loaded(None)));
        for code in [KeyCode::Char('}'), KeyCode::Left, KeyCode::Left] {
            app.update(Message::Key(KeyEvent::new(code, KeyModifiers::NONE)));
        }
    }
    app
}

/// The screen over a trace.
fn traced(path: &Path, theme: Theme, size: (u16, u16)) -> App {
    let account = trainmon::profiles::read(trainmon::sources::unpacked::open(path).unwrap()).unwrap();
    let file = path.file_name().unwrap().to_string_lossy().into_owned();
    let account = ProfileAccount { file: Some(file.clone()), ..account };
    let context = Context { command: file, ..Context::default() };
    let verdict = Arc::new(trainmon::diagnosis::profiled::verdict(account, &context));
    let target = Target { pid: verdict.pid, command: verdict.command.clone() };
    let job = Job::new(JobKey::default(), target, 1.0, Limits::default()).recording();
    let mut app = App::new(job, AppOptions { theme, ..AppOptions::default() }, size);
    let tick = Tick { judged: Arc::clone(&verdict), verdict, alive: true, ..Tick::default() };
    app.update(Message::Job(JobKey::default(), JobEvent::Tick(Arc::new(tick))));
    app.update(Message::Job(JobKey::default(), JobEvent::Loaded(None)));
    app
}

fn main() {
    let mut words = std::env::args().skip(1);
    let folder = words.next().expect("the folder for the pictures");
    let words: Vec<String> = words.collect();
    std::fs::create_dir_all(&folder).unwrap();
    let chosen = |all: &[String]| -> Vec<String> {
        let some: Vec<String> = all.iter().filter(|name| words.contains(name)).cloned().collect();
        if some.is_empty() { all.to_vec() } else { some }
    };
    let strings = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let pages = chosen(&Page::ALL.map(|page| page.to_string()));
    let sizes = chosen(&SIZES.map(|(width, height)| format!("{width}x{height}")));
    let themes = chosen(&strings(&THEMES));
    let is_recording = |word: &&String| path_of(word).exists() && !SITUATIONS.iter().any(|(name, ..)| name == word);
    let mut situations: Vec<(&str, &str, Seen)> =
        words.iter().filter(is_recording).map(|word| (word.as_str(), word.as_str(), Seen::All)).collect();
    situations.extend(SITUATIONS.into_iter().filter(|(name, ..)| words.iter().any(|word| word == name)));
    let is_trace =
        |word: &&String| (word.ends_with(".json") || word.ends_with(".json.gz")) && Path::new(word).exists();
    let traces: Vec<&str> = words.iter().filter(is_trace).map(String::as_str).collect();
    for trace in &traces {
        let name = Path::new(trace).file_name().and_then(|name| name.to_str()).unwrap();
        situations.push((name.trim_end_matches(".gz").trim_end_matches(".json"), trace, Seen::All));
    }
    if situations.is_empty() {
        situations.extend(SITUATIONS);
    }
    let keys: String = words.iter().filter_map(|word| word.strip_prefix("press:")).collect();
    let mut drawn = 0;
    for (name, recording, seen) in situations {
        for size in SIZES.into_iter().filter(|(w, h)| sizes.contains(&format!("{w}x{h}"))) {
            for theme_name in &themes {
                let (depth, palette) = match theme_name.as_str() {
                    "16" => (Depth::Ansi16, Palette::dark()),
                    name => (Depth::TrueColor, Palette::built_in(name).unwrap()),
                };
                let theme = Theme { depth, ascii: false, palette };
                let of_trace = traces.contains(&recording);
                let mut app = if of_trace {
                    traced(Path::new(recording), theme, size)
                } else {
                    app(recording, seen, theme, size)
                };
                for page in &pages {
                    let key = Page::from_str(page, true).unwrap().spec().keys.chars().next().unwrap();
                    for key in std::iter::once(key).chain(keys.chars()) {
                        app.update(Message::Key(KeyEvent::new(KeyCode::Char(key), KeyModifiers::NONE)));
                    }
                    let mut buf = Buffer::empty(Rect::new(0, 0, size.0, size.1));
                    trainmon::tui::draw(&mut buf, &app);
                    let path = format!("{folder}/{name}-{page}-{}x{}-{theme_name}.svg", size.0, size.1);
                    std::fs::write(path, svg(&buf, &palette)).unwrap();
                    drawn += 1;
                }
            }
        }
    }
    println!("{drawn} pictures in {folder}");
}
