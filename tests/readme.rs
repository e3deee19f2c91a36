//! The read-me says what the program says: its keys, its causes and its commands come from the same tables.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use clap::CommandFactory;
use trainmon::cli::Cli;
use trainmon::diagnosis::causes;
use trainmon::diagnosis::verdict::Class;
use trainmon::tui::keys;

fn readme() -> String {
    std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/README.md")).unwrap()
}

#[test]
fn every_key_is_listed() {
    let readme = readme();
    for (binding, keys) in keys::Keymap::default().lines() {
        let name = keys.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
        let line = readme.lines().find(|line| line.starts_with(&name) && line.ends_with(binding.help));
        assert!(line.is_some(), "{name}: {}", binding.help);
    }
}

/// The table of the section on verdicts, as it has to stand there.
fn table() -> String {
    let mut lines = vec!["| class | cause | what it means | how far that is confirmed |".to_owned()];
    lines.push("|---|---|---|---|".to_owned());
    for cause in causes::all() {
        let (class, confirmed) = (cause.class.word(), cause.confirmed.words());
        lines.push(format!("| `{class}` | `{}` | {} | {confirmed} |", cause.name, cause.meaning));
    }
    lines.join("\n") + "\n"
}

#[test]
fn the_causes_stand_there_as_in_their_table() {
    let (readme, table) = (readme(), table());
    let (_, section) = readme.split_once("## What the verdicts mean\n").expect("the section");
    let (section, _) = section.split_once("\n## ").expect("a section after it");
    assert!(section.contains(&table), "what should stand there:\n{table}");
    for class in Class::ALL {
        assert!(section.contains(&format!("`{}`", class.word())), "{class:?}");
    }
    for state in causes::states().filter(|state| state.class == Class::Idle) {
        assert!(section.contains(state.name), "{}", state.name);
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
