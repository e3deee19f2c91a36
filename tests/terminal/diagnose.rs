//! `trainmon diagnose` at a terminal: the line that says how it goes, and the report in color.

use crate::process::{PROGRAM, Target};
use crate::pty::{Conditions, Screen};

/// A terminal with room for the whole report.
const TALL: Conditions<'_> = Conditions { size: (80, 50), environment: &[], home: None };

fn watch(target: &Target, duration: &str, given: &Conditions<'_>) -> Screen {
    let pid = target.pid();
    Screen::start(PROGRAM, &["diagnose", "-i", "200ms", "--duration", duration, "--pid", &pid], given)
}

#[test]
fn one_line_says_how_it_goes_and_leaves_no_trace() {
    let target = Target::sleeping();
    let screen = watch(&target, "3s", &TALL);
    screen.wait_text(&format!("watching PID {} · ", target.id()));
    screen.wait_text(" left · no verdict yet");
    let left = screen.left();
    assert_eq!(left.code, 0, "{}", left.contents);
    assert!(!left.contents.contains("watching") && left.contents.starts_with("UNKNOWN"), "{}", left.contents);
    assert!(left.bytes.windows(5).any(|bytes| bytes == b"\x1b[1;3"), "no colors");
    left.assert_restored();
}

#[test]
fn an_interrupt_prints_the_verdict_so_far() {
    let target = Target::sleeping();
    let mut screen = watch(&target, "60s", &TALL);
    // The first sample has been taken by then.
    screen.wait("two seconds later", |seen| {
        let left = seen.contents().split(" s left").next().and_then(|before| before.rsplit(' ').next()?.parse().ok());
        left.is_some_and(|left: u32| left <= 57)
    });
    screen.send("\x03");
    let left = screen.left();
    assert_eq!(left.code, 0, "{}", left.contents);
    assert!(left.contents.starts_with("UNKNOWN") && !left.contents.contains("watching"), "{}", left.contents);
    left.assert_restored();
}

#[test]
fn a_dumb_terminal_gets_what_a_pipe_gets() {
    let target = Target::sleeping();
    let given = Conditions { size: (120, 30), environment: &[("TERM", "dumb")], ..Conditions::default() };
    let left = watch(&target, "1s", &given).left();
    assert_eq!(left.code, 0, "{}", left.contents);
    assert!(!left.bytes.contains(&0x1b) && !left.contents.contains("watching"), "{}", left.contents);
    assert!(left.contents.lines().all(|line| line.chars().count() <= 80), "{}", left.contents);
}
