//! The read-me says what the program says: its keys, its causes and its commands come from the same tables.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use clap::CommandFactory;
use trainmon::cli::Cli;
use trainmon::diagnosis::causes;
use trainmon::tui::keys;

fn readme() -> String {
    std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/README.md")).unwrap()
}

#[test]
fn every_key_is_listed() {
    let readme = readme();
    for binding in keys::TABLE {
        let line = readme.lines().find(|line| line.starts_with(binding.name) && line.ends_with(binding.help));
        assert!(line.is_some(), "{}: {}", binding.name, binding.help);
    }
}

#[test]
fn every_cause_stands_in_the_row_of_its_class() {
    let readme = readme();
    for cause in causes::ALL {
        let start = format!("| `{}` |", cause.class.word());
        let row = readme.lines().find(|line| line.starts_with(&start)).expect("a row for each class");
        // The rules give host-device-sync as a CPU matter only; the device's side is there for completeness.
        assert!(row.contains(cause.name) || cause.name == "host-device-sync", "{} in {row}", cause.name);
    }
}

#[test]
fn every_command_is_mentioned() {
    let readme = readme();
    for command in Cli::command().get_subcommands().filter(|command| !command.is_hide_set()) {
        let call = format!("trainmon {}", command.get_name());
        assert!(readme.contains(&call) || readme.contains(&format!("-- {}", command.get_name())), "{call}");
    }
}

#[test]
fn nothing_was_left_to_be_filled_in() {
    assert!(!readme().contains("@@"));
}
