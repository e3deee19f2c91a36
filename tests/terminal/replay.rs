//! `trainmon replay`: recordings that are whole, damaged, cut, and none at all.

use std::path::{Path, PathBuf};

use trainmon::tui::keys::Action;

use crate::process::{PROGRAM, recording, text, trainmon};
use crate::pty::{Conditions, Screen, key};

#[test]
fn a_recording_plays_stops_and_is_travelled_through() {
    let mut screen = Screen::trainmon(&["replay", &recording("change.tmz")], &Conditions::default());
    screen.wait("playing", |seen| seen.contents().contains("REPLAY") && !seen.contents().contains("PAUSED"));
    screen.send(&key(Action::Pause));
    screen.wait_text("REPLAY PAUSED");
    let standing = screen.contents();
    for action in [Action::Newest, Action::Oldest, Action::NextChange, Action::StepForward, Action::PreviousChange] {
        screen.send(&key(action));
        screen.answers("travelling");
        assert!(screen.contents().contains("REPLAY PAUSED"), "{}", screen.contents());
    }
    screen.send(&key(Action::Newest));
    screen.answers("the end");
    let end = screen.contents();
    screen.send(&key(Action::Oldest));
    screen.answers("the start");
    assert_ne!(end, screen.contents(), "both ends look alike");
    assert_ne!(end, standing);
    // It plays on by itself, faster and slower.
    let start = screen.contents();
    screen.send(&format!("{}{}{}", key(Action::Faster).repeat(9), key(Action::Slower), key(Action::Pause)));
    screen.wait("another moment", |seen| seen.contents().contains("REPLAY") && seen.contents() != start);
    screen.quit().assert_clean();
}

#[test]
fn a_run_is_compared_with_an_earlier_one() {
    let [before, after] = ["segmentation.tmz", "segmentation-fixed.tmz"].map(recording);
    let mut screen = Screen::trainmon(&["replay", &after, "--against", &before], &Conditions::default());
    screen.wait_text("REPLAY");
    screen.send(&key(Action::Newest));
    screen.wait_text("less time a step than before");
    screen.wait_text(" before 1");
    screen.quit().assert_clean();
    let folder = tempfile::tempdir().unwrap();
    let empty = folder.path().join("empty.tmz");
    std::fs::write(&empty, "").unwrap();
    for (earlier, part) in [("/nowhere.tmz", "/nowhere.tmz: no such file"), (empty.to_str().unwrap(), "empty.tmz: ")]
    {
        let arguments = ["replay", &after, "--against", earlier];
        let left = Screen::start(PROGRAM, &arguments, &Conditions::default()).left();
        assert!(left.text().contains(part), "{}", left.text());
        assert_eq!(left.text().trim_end().lines().count(), 1, "{}", left.text());
    }
}

fn damaged(folder: &Path, change: impl FnOnce(&mut Vec<u8>)) -> PathBuf {
    let mut bytes = std::fs::read(recording("change.tmz")).unwrap();
    change(&mut bytes);
    let path = folder.join("damaged.tmz");
    std::fs::write(&path, bytes).unwrap();
    path
}

#[test]
fn a_recording_with_a_damaged_end_shows_what_there_is_and_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let cut = |bytes: &mut Vec<u8>| bytes.truncate(bytes.len() * 2 / 3);
    let overwritten = |bytes: &mut Vec<u8>| {
        let from = bytes.len() * 2 / 3;
        bytes[from..].fill(0xa5);
    };
    for change in [cut, overwritten] as [fn(&mut Vec<u8>); 2] {
        let path = damaged(folder.path(), change);
        let mut screen = Screen::trainmon(&["replay", path.to_str().unwrap()], &Conditions::default());
        screen.wait("a note on what is missing", |seen| seen.contents().contains("the recording "));
        screen.answers("damage");
        screen.wait_text("REPLAY");
        screen.quit().assert_clean();
    }
}

#[test]
fn a_trace_opens_on_its_profile() {
    let trace = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/profiles/waits-item.json");
    let mut screen = Screen::trainmon(&["replay", trace], &Conditions::default());
    screen.wait_text("TRACE");
    screen.wait_text("Calls that wait for the GPU");
    let seen = screen.contents();
    assert!(seen.contains("aten::item") && seen.contains("% busy"), "{seen}");
    // The drawn step, with the cursor on its longest gap: on to the next one, by key and by mouse, and closer to it.
    screen.wait_text("gap 1 of 5 by length");
    screen.wait_text("GPU 0 idle 700 µs: the host is in no operator, train.py:41");
    screen.send(&key(Action::StepForward));
    screen.wait_text("ended by gemm bf16");
    screen.send(&key(Action::ZoomIn));
    screen.wait_text(" shown");
    screen.send(&key(Action::ZoomOut));
    screen.wait("all of the step", |seen| !seen.contents().contains(" shown"));
    screen.send("1");
    screen.wait_text("press 0 for its profile");
    // The other ways through a recording do nothing to its one moment.
    for action in [Action::Pause, Action::StepBack, Action::Newest, Action::NextChange, Action::Faster] {
        screen.send(&key(action));
        screen.answers("travelling");
    }
    screen.quit().assert_clean();
    // A page that was asked for comes first.
    let screen = Screen::trainmon(&["--page", "why", "replay", trace], &Conditions::default());
    screen.wait_text("Evidence");
    screen.quit().assert_clean();
    // JSON of another kind is refused in one line.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("other.json");
    std::fs::write(&path, "{\"a\": 1}").unwrap();
    let out = trainmon(&["replay", path.to_str().unwrap()]).output().unwrap();
    let error = text(&out.stderr);
    assert!(out.status.code() == Some(1) && error.lines().count() == 1 && error.contains("traceEvents"), "{error}");
}

#[test]
fn what_is_no_recording_is_refused_in_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    };
    let whole = std::fs::read(recording("change.tmz")).unwrap();
    let paths = [
        file("empty", b""),
        file("text", b"timestamp,elapsed_s\n1,2\n"),
        file("start", &whole[..9]),
        file("zeros", &[0; 4096]),
        PathBuf::from("/nonexistent/run.tmz"),
        folder.path().to_path_buf(),
    ];
    for path in paths {
        let path = path.to_str().unwrap();
        let left = Screen::start(PROGRAM, &["replay", path], &Conditions::default()).left();
        let said = left.text();
        assert_eq!(left.code, 1, "{path}: {said}");
        assert!(!said.contains('\x1b') && said.starts_with("trainmon: "), "{path}: {said}");
        assert_eq!(said.trim_end().matches('\n').count(), 0, "{path}: {said}");
    }
}

#[test]
fn without_a_terminal_the_command_that_needs_none_is_named() {
    let file = recording("change.tmz");
    let output = trainmon(&["replay", &file]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let said = text(&output.stderr);
    assert!(said.lines().count() == 1 && said.contains("trainmon diagnose --replay"), "{said}");
}
