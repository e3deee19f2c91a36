//! The screen opens as it was left, and nothing about the kept layout can hinder it.

use std::fs;
use std::path::Path;

use crate::process::{PROGRAM, recording};
use crate::pty::{Conditions, Screen};

/// Runs the screen over this process with a home directory, and types each of the keys once the text before them is shown;
/// the last ones end it.
fn screen(home: &Path, arguments: &[&str], steps: &[(&str, &str)]) {
    let own = std::process::id().to_string();
    typed_over(home, &[&["--no-stacks", "--pid", &own], arguments].concat(), steps);
}

/// The same over whatever the arguments say.
fn typed_over(home: &Path, arguments: &[&str], steps: &[(&str, &str)]) {
    let given = Conditions { size: (100, 24), home: Some(home), ..Conditions::default() };
    let mut screen = Screen::trainmon(arguments, &given);
    for (text, keys) in steps {
        screen.wait_text(text);
        screen.send(keys);
    }
    screen.left().assert_clean();
}

#[test]
fn a_recording_changes_nothing_that_is_kept() {
    let home = tempfile::tempdir().unwrap();
    let steps = [("9 History", "6"), ("COMMAND", "M"), ("by memory", "q")];
    typed_over(home.path(), &["replay", &recording("change.tmz")], &steps);
    assert_eq!(fs::read_dir(home.path()).unwrap().count(), 0, "nothing is written");
    screen(home.path(), &[], &steps);
    assert!(home.path().join(".local/state/trainmon/layout.toml").exists());
}

#[test]
fn the_screen_opens_as_it_was_left() {
    let home = tempfile::tempdir().unwrap();
    let kept = home.path().join(".local/state/trainmon/layout.toml");
    // To the processes, by memory, and out.
    screen(home.path(), &[], &[("9 History", "6"), ("COMMAND", "M"), ("by memory", "q")]);
    let text = fs::read_to_string(&kept).unwrap();
    assert!(text.contains("sort = \"memory\""), "{text}");
    assert!(!text.contains("theme") && !text.contains("tree"), "only what was changed: {text}");
    // The verdict comes first again, then the table as it was left.
    screen(home.path(), &[], &[("9 History", "6"), ("by memory", "q")]);
    assert_eq!(fs::read_to_string(&kept).unwrap(), text, "nothing was changed");

    // The configuration wins, and where nothing is to be kept nothing is read.
    let config = home.path().join("config.toml");
    fs::write(&config, "page = \"help\"\nkeep-layout = false\n").unwrap();
    screen(home.path(), &["-c", config.to_str().unwrap()], &[("this help", "6"), ("by role", "q")]);
    assert_eq!(fs::read_to_string(&kept).unwrap(), text);

    // A damaged file is as none.
    fs::write(&kept, "page = [[[").unwrap();
    screen(home.path(), &[], &[("Overview", "q")]);
}

#[test]
fn a_theme_that_cannot_be_read_is_one_line() {
    let home = tempfile::tempdir().unwrap();
    let theme = home.path().join("mine.toml");
    fs::write(&theme, "base = \"dark\"\nsky = \"blue\"\n").unwrap();
    let own = std::process::id().to_string();
    let arguments = ["--no-stacks", "--pid", &own, "--theme", theme.to_str().unwrap()];
    let left = Screen::start(PROGRAM, &arguments, &Conditions { size: (200, 24), ..Conditions::default() }).left();
    let said = left.text();
    assert_eq!(left.code, 2);
    assert!(said.contains("mine.toml: line 2, column 7: `blue` is not a color"), "{said}");
    assert_eq!(said.trim_end().lines().count(), 1, "{said}");
}

#[test]
fn a_log_file_that_takes_nothing_leaves_the_screen_alone() {
    let home = tempfile::tempdir().unwrap();
    let kept = home.path().join(".local/state/trainmon/layout.toml");
    fs::create_dir_all(kept.parent().unwrap()).unwrap();
    // There is something to say about it.
    fs::write(&kept, "no layout").unwrap();
    let own = std::process::id().to_string();
    let given = Conditions { home: Some(home.path()), ..Conditions::default() };
    let screen = Screen::trainmon(&["--no-stacks", "--pid", &own, "--log-file", "/dev/full"], &given);
    let left = screen.quit();
    left.assert_clean();
    assert!(!left.text().contains("Unable to write"), "{}", left.text());
}
