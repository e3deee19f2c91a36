//! Hostile text in every place of a sample that others can write: names of programs, threads, functions and files, command
//! lines, mounts, addresses, reasons of drivers and helpers. None of it comes out of any output or the screen.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use trainmon::commands::screen;
use trainmon::diagnosis::Verdict;
use trainmon::history::archive::Limits;
use trainmon::jobs::{JobEvent, JobKey, Target};
use trainmon::outputs::csv::CsvLog;
use trainmon::outputs::recording::Recorder;
use trainmon::outputs::trace::TraceWriter;
use trainmon::outputs::{anonymize, json, markdown, text};
use trainmon::pipeline::{Pipeline, Tick};
use trainmon::sample::Sample;
use trainmon::sample::recording::Header;
use trainmon::sources::recording::Recording;
use trainmon::tui::{App, AppOptions, Effect, Job, Message};

/// Sets a title, clears the screen (also by the one-byte CSI), breaks the line, reorders it, hides.
const HOSTILE: &str = "\u{1b}]0;x\u{7}\u{9b}2J\u{1b}[2J\r\n\u{202e}\u{200b}\u{feff}\u{85}\u{2028}";
/// Names of fields whose text is written by others.
const FIELDS: &[&str] = &[
    "command",
    "comm",
    "name",
    "link",
    "remote",
    "path",
    "function",
    "file",
    "files",
    "text",
    "mount_point",
    "source",
    "fs_type",
    "examples",
    "disks",
    "whole",
    "reason",
    "mend",
    "fix",
    "library",
    "driver",
    "uuid",
    "version",
    "wchan",
    "cuda_visible_devices",
    "started",
    "trainmon",
    "numbers",
];

/// Puts hostile text behind every text of those fields; ends that something is told by stay the ends.
fn poison(value: &mut Value, field: &str, how_much: &str) {
    match value {
        // Numbers of pipes and sockets are the kernel's.
        Value::String(text) if FIELDS.contains(&field) && !text.contains(":[") => {
            let end = [".py", ".so"].into_iter().find(|end| text.ends_with(end)).unwrap_or("");
            let begin = text.strip_suffix(end).unwrap_or(text);
            *text = format!("{begin}{HOSTILE}{how_much}{end}");
        }
        Value::Array(items) => items.iter_mut().for_each(|item| poison(item, field, how_much)),
        // What may be read of the target are words of our own.
        Value::Object(items) => {
            let items = items.iter_mut().filter(|(field, _)| *field != "access");
            items.for_each(|(field, item)| poison(item, field, how_much));
        }
        _ => {}
    }
}

fn poisoned<T: Serialize + DeserializeOwned>(whole: &T, how_much: &str) -> T {
    let mut value = serde_json::to_value(whole).unwrap();
    poison(&mut value, "", how_much);
    serde_json::from_value(value).unwrap()
}

/// A source that is refused for a hostile reason, and one of each thing that recordings at hand lack.
fn with_reasons(sample: &Sample) -> Sample {
    let mut sample = sample.clone();
    let sources = &mut sample.sources;
    for status in [&mut sources.gpu, &mut sources.stacks, &mut sources.storage] {
        status.state = trainmon::sample::SourceState::Denied;
        status.reason = Some("refused".into());
        status.fix = Some("sudo x".into());
    }
    sample
}

fn assert_safe(what: &str, bytes: &[u8]) {
    let text = std::str::from_utf8(bytes).unwrap();
    let is_bad = |c: char| {
        c.is_control() && !matches!(c, '\n' | '\r')
            || matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2028}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
    };
    if let Some(at) = text.find(is_bad) {
        let begin = (0..=at.saturating_sub(200)).rev().find(|&begin| text.is_char_boundary(begin)).unwrap();
        panic!("{what}: {:?}", text[begin..].chars().take(250).collect::<String>());
    }
}

/// The texts of a verdict itself are safe and of bounded length, whoever shows them.
fn texts(name: &str, value: &Value) {
    match value {
        Value::String(text) => {
            assert_safe(&format!("{name}: verdict"), text.as_bytes());
            assert!(!text.contains(['\n', '\r']) && text.chars().count() <= 1024, "{name}: {text}");
        }
        Value::Array(items) => items.iter().for_each(|item| texts(name, item)),
        Value::Object(items) => items.values().for_each(|item| texts(name, item)),
        _ => {}
    }
}

fn outputs(name: &str, tick: &Tick) {
    let verdict: &Verdict = &tick.verdict;
    texts(name, &serde_json::to_value(verdict).unwrap());
    let mut out = Vec::new();
    json::pretty(&mut out, verdict).unwrap();
    assert_safe(&format!("{name}: JSON"), &out);
    serde_json::from_slice::<Verdict>(&out).unwrap();
    for ascii in [true, false] {
        let page = text::page(verdict, text::Style { ascii, full: true, ..text::Style::default() });
        assert!(!page.contains('\r'));
        assert_safe(&format!("{name}: text"), page.as_bytes());
    }
    assert_safe(&format!("{name}: Markdown"), markdown::markdown(verdict).as_bytes());
    let mut out = Vec::new();
    CsvLog::new(&mut out).write(tick).unwrap();
    assert_eq!(out.iter().filter(|&&b| b == b'\n').count(), 2, "{name}: a header and one row");
    assert_safe(&format!("{name}: CSV"), &out);
}

fn recorded(header: &Header, samples: &[Sample]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut recorder = Recorder::new(&mut out, header).unwrap();
    samples.iter().for_each(|sample| recorder.write(sample).unwrap());
    recorder.flush().unwrap();
    out
}

/// A trace is not text, but holds some.
fn trace(name: &str, ticks: &[Arc<Tick>]) {
    let mut writer = TraceWriter::new(Vec::new());
    ticks.iter().for_each(|tick| writer.push(tick).unwrap());
    let trace = writer.finish().unwrap();
    for hostile in ["\u{1b}]0;", "\u{1b}[2J", "\u{202e}", "\u{200b}", "\u{feff}"] {
        assert!(!trace.windows(hostile.len()).any(|bytes| bytes == hostile.as_bytes()), "{name}: {hostile:?}");
    }
    assert!(trace.windows(6).any(|bytes| bytes == b"python"), "{name}: it holds the names of processes");
}

/// Every page, what is copied and what is saved.
fn screens(name: &str, header: &Header, ticks: &[Arc<Tick>]) {
    let target = Target { pid: header.pid, command: header.command.clone() };
    let size = (120, 40);
    let mut app = App::new(Job::new(JobKey::default(), target, 1.0, Limits::default()), AppOptions::default(), size);
    for tick in ticks {
        app.update(Message::Job(JobKey::default(), JobEvent::Tick(Arc::clone(tick))));
    }
    let press = |app: &mut App, code| app.update(Message::Key(KeyEvent::new(code, KeyModifiers::NONE)));
    for page in "1234567890".chars() {
        press(&mut app, KeyCode::Esc);
        press(&mut app, KeyCode::Char(page));
        for key in [KeyCode::Null, KeyCode::Char('t'), KeyCode::Char('H'), KeyCode::PageDown, KeyCode::Enter] {
            press(&mut app, key);
            let mut buffer = Buffer::empty(Rect::new(0, 0, size.0, size.1));
            trainmon::tui::draw(&mut buffer, &app);
            for cell in &buffer.content {
                assert!(!cell.symbol().contains(['\n', '\r']), "{name}: page {page}");
                assert_safe(&format!("{name}: page {page}"), cell.symbol().as_bytes());
            }
        }
        for keys in ["em", "ej", "es", "c"] {
            press(&mut app, KeyCode::Esc);
            let effects: Vec<_> = keys.chars().flat_map(|key| press(&mut app, KeyCode::Char(key))).collect();
            for effect in effects {
                let text = match effect {
                    Effect::Save(export) => screen::saved(&app, export).unwrap(),
                    Effect::Copy(text) => text,
                    _ => continue,
                };
                assert_safe(&format!("{name}: {keys}"), text.as_bytes());
            }
        }
    }
}

#[test]
fn hostile_text_comes_out_of_no_output() {
    let folder = tempfile::tempdir().unwrap();
    let long = "a".repeat(5000);
    for name in
        ["file-lock", "worker-server", "web-server", "remote-metrics", "network-storage", "dilation", "copy-bound"]
    {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/recordings/{name}.tmz"));
        let mut recording = Recording::open(&path).unwrap();
        let samples: Vec<Sample> = recording.by_ref().map(Result::unwrap).collect();
        // Longer than anything may be, which takes long as well, in two of them.
        let variants = [("", true), (long.as_str(), false)];
        let is_enough = !["file-lock", "network-storage"].contains(&name);
        for (how_much, sources_fail) in variants.into_iter().take(if is_enough { 1 } else { 2 }) {
            let header = poisoned(&recording.header, how_much);
            let given = samples.iter().map(|sample| if sources_fail { with_reasons(sample) } else { sample.clone() });
            let samples: Vec<Sample> = given.map(|sample| poisoned(&sample, how_much)).collect();
            let mut pipeline = Pipeline::of_recording(&header, None);
            let ticks: Vec<Arc<Tick>> =
                samples.iter().map(|sample| pipeline.push(Arc::new(sample.clone()))).collect();
            for tick in [ticks.first(), ticks.last()].into_iter().flatten() {
                outputs(name, tick);
            }
            screens(name, &header, &ticks);
            trace(name, &ticks);

            let written = recorded(&header, &samples);
            assert_safe(&format!("{name}: recording"), &zstd::stream::decode_all(&written[..]).unwrap());
            let anonymous: Vec<Sample> = samples.iter().map(anonymize::sample).collect();
            let anonymous = recorded(&anonymize::header(&header), &anonymous);
            assert_safe(&format!("{name}: anonymized"), &zstd::stream::decode_all(&anonymous[..]).unwrap());

            let file = folder.path().join("hostile\u{1b}[2J.tmz");
            std::fs::File::create(&file).unwrap().write_all(&written).unwrap();
            for form in [&[][..], &["--json"], &["--ascii"]] {
                let output = Command::new(env!("CARGO_BIN_EXE_trainmon"))
                    .args(["diagnose", "--replay"])
                    .arg(&file)
                    .args(form)
                    .stdin(Stdio::null())
                    .output()
                    .unwrap();
                assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
                assert_safe(&format!("{name}: diagnose {form:?}"), &[output.stdout, output.stderr].concat());
            }
        }
    }
}
