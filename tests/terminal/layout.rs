//! The whole program in a pseudo-terminal: it opens as it was left, and nothing about the kept layout can hinder it.

use std::fs;
use std::io::{Read, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use portable_pty::{CommandBuilder, PtySize, native_pty_system};

/// Runs the screen over this process with a home directory, types the keys one after the other, each once the screen
/// shows the text before it, and returns the last screen.
fn screen(home: &Path, arguments: &[&str], steps: &[(&str, &str)]) -> String {
    let own = std::process::id().to_string();
    of(home, &[&["--no-stacks", "--pid", &own], arguments].concat(), steps)
}

/// The same over whatever the arguments say.
fn of(home: &Path, arguments: &[&str], steps: &[(&str, &str)]) -> String {
    let size = PtySize { rows: 24, cols: 100, ..PtySize::default() };
    let pty = native_pty_system().openpty(size).unwrap();
    let mut command = CommandBuilder::new(env!("CARGO_BIN_EXE_trainmon"));
    command.args(arguments);
    command.env_clear();
    command.env("TERM", "xterm-256color");
    command.env("LANG", "C.UTF-8");
    command.env("HOME", home);
    command.cwd("/");
    let mut child = pty.slave.spawn_command(command).unwrap();
    let mut reader = pty.master.try_clone_reader().unwrap();
    let (send, receive) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let mut piece = [0; 4096];
        while let Ok(count @ 1..) = reader.read(&mut piece) {
            if send.send(piece[..count].to_vec()).is_err() {
                break;
            }
        }
    });
    let mut writer = pty.master.take_writer().unwrap();
    let mut terminal = vt100::Parser::new(24, 100, 0);
    let mut steps = steps.iter();
    let mut step = steps.next();
    let (mut shown, began) = (String::new(), Instant::now());
    loop {
        while let Ok(piece) = receive.recv_timeout(Duration::from_millis(20)) {
            terminal.process(&piece);
            if terminal.screen().alternate_screen() {
                shown = terminal.screen().contents();
            }
        }
        if let Some((text, keys)) = step
            && shown.contains(text)
        {
            writer.write_all(keys.as_bytes()).unwrap();
            step = steps.next();
        }
        if child.try_wait().unwrap().is_some() {
            assert!(step.is_none(), "it ended before {step:?}:\n{shown}");
            return shown;
        }
        if began.elapsed() > Duration::from_secs(60) {
            child.kill().unwrap();
            panic!("{step:?} does not come:\n{shown}");
        }
    }
}

#[test]
fn a_recording_changes_nothing_that_is_kept() {
    let home = tempfile::tempdir().unwrap();
    let recording = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/recordings/change.tmz");
    let steps = [("Verdicts", "5"), ("COMMAND", "M"), ("by memory", "q")];
    of(home.path(), &["replay", recording], &steps);
    assert_eq!(fs::read_dir(home.path()).unwrap().count(), 0, "nothing is written");
    screen(home.path(), &[], &steps);
    assert!(home.path().join(".local/state/trainmon/layout.toml").exists());
}

#[test]
fn the_screen_opens_as_it_was_left() {
    let home = tempfile::tempdir().unwrap();
    let kept = home.path().join(".local/state/trainmon/layout.toml");
    // To the processes, by memory, and out.
    screen(home.path(), &[], &[("Verdicts", "5"), ("COMMAND", "M"), ("by memory", "q")]);
    let text = fs::read_to_string(&kept).unwrap();
    assert!(text.contains("sort = \"memory\""), "{text}");
    assert!(!text.contains("theme") && !text.contains("tree"), "only what was changed: {text}");
    // The verdict comes first again, then the table as it was left.
    screen(home.path(), &[], &[("Verdicts", "5"), ("by memory", "q")]);
    assert_eq!(fs::read_to_string(&kept).unwrap(), text, "nothing was changed");

    // The configuration wins, and where nothing is to be kept nothing is read.
    let config = home.path().join("config.toml");
    fs::write(&config, "page = \"help\"\nkeep-layout = false\n[keys]\nquit = [\"Q\"]\n").unwrap();
    screen(home.path(), &["-c", config.to_str().unwrap()], &[("this help", "5"), ("by role", "Q")]);
    assert_eq!(fs::read_to_string(&kept).unwrap(), text);

    // A damaged file is as none.
    fs::write(&kept, "page = [[[").unwrap();
    screen(home.path(), &[], &[("Verdicts", "q")]);
}

#[test]
fn a_theme_that_cannot_be_read_is_one_line() {
    let home = tempfile::tempdir().unwrap();
    let theme = home.path().join("mine.toml");
    fs::write(&theme, "base = \"dark\"\nsky = \"blue\"\n").unwrap();
    let size = PtySize { rows: 24, cols: 200, ..PtySize::default() };
    let pty = native_pty_system().openpty(size).unwrap();
    let mut command = CommandBuilder::new(env!("CARGO_BIN_EXE_trainmon"));
    command.args(["--no-stacks", "--pid", &std::process::id().to_string(), "--theme", theme.to_str().unwrap()]);
    command.env("TERM", "xterm-256color");
    command.env("HOME", home.path());
    command.cwd("/");
    let mut child = pty.slave.spawn_command(command).unwrap();
    drop(pty.slave);
    let mut said = String::new();
    // A pseudo-terminal whose other side has gone ends with an error.
    let _ = pty.master.try_clone_reader().unwrap().read_to_string(&mut said);
    assert_eq!(child.wait().unwrap().exit_code(), 2);
    assert!(said.contains("mine.toml: line 2, column 7: `blue` is no colour"), "{said}");
    assert_eq!(said.trim_end().lines().count(), 1, "{said}");
}
