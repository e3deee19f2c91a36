//! The whole program in terminals of all kinds: the form of its colors, its popups while the size changes, the mouse
//! left alone, and the clipboard from inside GNU screen.

use std::time::Instant;

use rustix::process::Signal;

use crate::process::{PATIENCE, PROGRAM, Target, pause};
use crate::pty::{Conditions, ESC, Screen};

const CTRL_Z: &str = "\x1a";

fn attached(target: &Target, environment: &[(&str, &str)]) -> Screen {
    Screen::attached(target, &[], &Conditions { size: (120, 40), environment, ..Conditions::default() })
}

/// The forms of the colors that were sent: 30–37 and 90–97, `38;5`, `38;2`.
fn forms(text: &str) -> [bool; 3] {
    let mut found = [false; 3];
    let ours = text.split("\x1b[?1049").nth(1).unwrap();
    for rest in ours.split("\x1b[").skip(1) {
        let Some((numbers, _)) = rest.split_once('m') else { continue };
        if !numbers.chars().all(|c| c.is_ascii_digit() || c == ';') {
            continue;
        }
        let (indexed, direct) = (numbers.contains("8;5;"), numbers.contains("8;2;"));
        found[1] |= indexed;
        found[2] |= direct;
        let named = |n: &str| matches!(n.parse::<u32>(), Ok(30..=37 | 40..=47 | 90..=97 | 100..=107));
        found[0] |= !indexed && !direct && numbers.split(';').any(named);
    }
    found
}

#[test]
fn each_terminal_is_sent_colors_in_the_form_that_it_knows() {
    let target = Target::sleeping();
    let (named, indexed, direct) = ([true, false, false], [false, true, false], [false, false, true]);
    let screen = [("TERM", "screen"), ("STY", "7.pts-1.host"), ("COLORTERM", "truecolor")];
    for (environment, form) in [
        (&[("TERM", "xterm")][..], named),
        (&[("TERM", "linux")], named),
        (&[("TERM", "vt100")], named),
        (&[("TERM", "xterm-256color")], indexed),
        (&[("TERM", "tmux-256color")], indexed),
        (&[("TERM", "xterm-256color"), ("COLORFGBG", "0;15")], indexed),
        (&[("TERM", "xterm-256color"), ("COLORTERM", "truecolor")], direct),
        (&[("TERM", "xterm"), ("NO_COLOR", "1")], [false; 3]),
        // It would misread 24 bits.
        (&screen[..2], named),
        (&screen, indexed),
    ] {
        let mut screen = attached(&target, environment);
        for page in "2345678".chars() {
            screen.send(&page.to_string());
            screen.answers("a page");
        }
        let left = screen.quit();
        left.assert_clean();
        assert_eq!(forms(&left.text()), form, "{environment:?}");
    }
}

#[test]
fn popups_survive_changes_of_size() {
    let target = Target::sleeping();
    // The list of jobs, the menu of files, the filter, the process in full.
    for (keys, title) in [("o", "Jobs"), ("e", "Save to"), ("6/", "/"), ("6\r", &target.pid())] {
        let mut screen = attached(&target, &[]);
        screen.send(keys);
        screen.answers(keys);
        assert!(screen.contents().contains(title), "{keys}: {}", screen.contents());
        for (columns, rows) in [(60, 15), (59, 15), (40, 10), (20, 5), (1, 1), (300, 100), (61, 16), (120, 40)] {
            screen.resize(columns, rows);
            screen.answers(&format!("{columns}x{rows}"));
        }
        screen.wait_text(title);
        screen.send(ESC);
        screen.answers("Escape");
        screen.quit().assert_clean();
    }
}

#[test]
fn a_mouse_left_to_the_terminal_stays_there() {
    let target = Target::sleeping();
    // By an option, and by a key.
    for (option, key, reports) in [("--no-mouse", "", 0), ("", "m", 1)] {
        let script = format!("set -m; {PROGRAM} --pid {} {option}; fg >/dev/null; :", target.pid());
        let mut screen = Screen::start("bash", &["-c", &script], &Conditions::default());
        screen.wait_text(&format!("PID {}", target.pid()));
        screen.send(&format!("{key}{CTRL_Z}"));
        let taken = |text: &str| text.matches("\x1b[?1049h").count();
        screen.wait("return to the screen", |seen| taken(&String::from_utf8_lossy(&seen.bytes)) >= 2);
        screen.answers("fg");
        let left = screen.quit();
        left.assert_clean();
        let text = left.text();
        for mode in [1000, 1002, 1006] {
            assert_eq!(text.matches(&format!("\x1b[?{mode}h")).count(), reports, "{option}{key}: {mode}");
        }
    }
}

#[test]
fn a_copy_reaches_the_terminal_from_inside_gnu_screen() {
    let target = Target::sleeping();
    let inside = [("TERM", "screen"), ("STY", "7.pts-1.host"), ("TMUX", "/tmp/tmux-0/default,1,0")];
    let tmux = [("TERM", "screen-256color"), ("TMUX", "/tmp/tmux-0/default,1,0")];
    for (environment, lead) in [(&inside[..], "\x1bP\x1b]52;c;"), (&tmux[..], "\x1b]52;c;")] {
        let mut screen = attached(&target, environment);
        // Until there is a verdict, nothing is copied.
        let until = Instant::now() + PATIENCE;
        while !screen.inspect(|seen| String::from_utf8_lossy(&seen.bytes).contains(lead)) && Instant::now() < until {
            screen.send("c");
            screen.answers("c");
            pause(50);
        }
        let left = screen.quit();
        left.assert_clean();
        let text = left.text();
        assert_eq!((text.matches(lead).count(), text.matches("\x1b]52;").count()), (1, 1), "{environment:?}");
        assert_eq!(text.contains("\x1bP"), lead.starts_with("\x1bP"), "{environment:?}");
    }
}

#[test]
fn small_and_simple_terminals_show_something() {
    let target = Target::sleeping();
    for (term, size) in [("xterm-256color", (20, 5)), ("xterm", (8, 2)), ("", (200, 3))] {
        let environment = [("TERM", term)];
        let given = Conditions { size, environment: &environment, ..Conditions::default() };
        let mut screen = Screen::trainmon(&["--pid", &target.pid(), "-i", "200ms"], &given);
        screen.answers(term);
        assert!(!screen.contents().trim().is_empty(), "{term} {size:?}");
        screen.quit().assert_clean();
    }
}

#[test]
fn terminals_of_a_few_cells_are_left_as_they_were_whatever_ends_the_screen() {
    let target = Target::sleeping();
    for size in [(2, 1), (1, 1), (1, 24), (200, 1)] {
        let given = Conditions { size, ..Conditions::default() };
        let start = |more: &[&str]| {
            let screen = Screen::trainmon(&[&["--pid", &target.pid(), "-i", "200ms"], more].concat(), &given);
            // Also with a verdict on the screen.
            pause(500);
            screen
        };
        let mut left = vec![start(&[]).quit(), start(&["--duration", "1s"]).left()];
        for number in [Signal::TERM, Signal::HUP, Signal::INT] {
            let screen = start(&[]);
            screen.kill(number);
            left.push(screen.left());
        }
        for left in left {
            left.assert_clean();
            // The scrollback gets sentences, and no column of single letters.
            let lines = left.text().rsplit("\x1b[?25h").next().unwrap().lines().count();
            assert!(lines < 12 && (lines == 0) == (size.0 < 20), "{size:?}: {lines} lines");
        }
        for number in [Signal::QUIT, Signal::ABORT, Signal::SEGV] {
            let screen = start(&[]);
            screen.kill(number);
            screen.left().assert_restored();
        }
    }
}

#[test]
fn a_dumb_terminal_has_no_screen_and_is_told_what_does_without() {
    let target = Target::sleeping();
    let given = Conditions { size: (200, 24), environment: &[("TERM", "dumb")], ..Conditions::default() };
    let left = Screen::start(PROGRAM, &["--pid", &target.pid()], &given).left();
    let said = left.text();
    assert_eq!((left.code, said.trim().lines().count()), (2, 1), "{said}");
    assert!(
        said.contains(&format!("TERM=dumb cannot show the screen: use `trainmon diagnose {}`", target.pid())),
        "{said}"
    );
    assert!(!said.contains('\x1b'), "{said:?}");
}

#[test]
fn a_screen_needs_a_terminal_on_both_sides() {
    let target = Target::sleeping();
    let pid = target.pid();
    for (redirection, what) in [("</dev/null", "input"), ("| cat; exit ${PIPESTATUS[0]}", "output")] {
        let script = format!("{PROGRAM} --pid {pid} {redirection}");
        let given = Conditions { size: (200, 24), ..Conditions::default() };
        let left = Screen::start("bash", &["-c", &script], &given).left();
        let said = left.text();
        assert_eq!(left.code, 2, "{what}: {said}");
        assert!(said.contains("needs a terminal") && said.trim().lines().count() == 1, "{what}: {said}");
    }
}
