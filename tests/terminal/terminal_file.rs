//! The terminal in a real pseudo-terminal: entered, painted, suspended, and given back as it was, whatever happens.
//!
//! What draws is `tests/support/helper.rs`.

use trainmon::tui::terminal::{Terminal, TerminalOptions};

use crate::process::{helper, words};
use crate::pty::{Conditions, Left, Screen, shown_after};

const SIZE: (u16, u16) = (80, 24);

/// Runs a command in a terminal of this size.
fn in_terminal(call: &[&str], size: (u16, u16)) -> Left {
    let given = Conditions { size, environment: &[("RUST_BACKTRACE", "0")], ..Conditions::default() };
    Screen::start(call[0], &call[1..], &given).left()
}

/// The command that draws in this mode.
fn drawing(mode: &str) -> Vec<String> {
    words(&helper(&["draw", mode]))
}

fn run(mode: &str) -> Left {
    run_at(mode, SIZE)
}

fn run_at(mode: &str, size: (u16, u16)) -> Left {
    in_terminal(&drawing(mode).iter().map(String::as_str).collect::<Vec<_>>(), size)
}

#[test]
fn the_terminal_is_given_back_as_it_was() {
    for mode in ["plain", "mouse"] {
        let seen = run(mode);
        seen.assert_clean();
        assert_eq!(seen.count("\x1b[?1049h"), 1);
        assert_eq!(seen.count("\x1b[?1002h"), usize::from(mode == "mouse"));
        assert!(seen.text().contains("too few workers"));
    }
}

#[test]
fn a_frame_is_one_synchronised_update_and_an_unchanged_one_is_nothing() {
    assert_eq!(run("same").count("\x1b[?2026h"), 1);
    let repaint = run("repaint");
    assert_eq!(repaint.count("\x1b[?2026h"), 2);
    assert_eq!(repaint.count("\x1b[2J"), 2);
}

#[test]
fn a_panic_of_the_screen_restores_before_it_speaks() {
    let seen = run("panic");
    assert_ne!(seen.code, 0);
    seen.assert_restored();
    let left = seen.text().find("\x1b[?1049l").unwrap();
    let message = seen.text().find("panicked at").unwrap();
    assert!(left < message);
    assert!(seen.contents.contains("panicked at"));
    for size in [(2, 1), (1, 1)] {
        run_at("panic", size).assert_restored();
    }
}

#[test]
fn where_there_is_no_other_screen_to_go_back_to_the_picture_is_wiped_off() {
    for (mode, left) in [("plain", "the terminal is given back"), ("panic", "panicked at")] {
        let text = run(mode).text().replace("\x1b[?1049h", "").replace("\x1b[?1049l", "");
        let contents = shown_after(text.as_bytes(), SIZE).screen().contents();
        assert!(contents.contains(left) && !contents.contains("too few workers"), "{contents}");
    }
}

#[test]
fn a_panic_elsewhere_leaves_the_screen_alone() {
    let seen = run("panic-elsewhere");
    seen.assert_clean();
    assert_eq!(seen.count("a source fell over"), 0);
    assert_eq!(seen.count("\x1b[?1049h"), 1);
}

#[test]
fn suspending_without_job_control_comes_straight_back() {
    // A session leader whose parent is elsewhere: the kernel ignores SIGTSTP there.
    let seen = run("suspend");
    seen.assert_clean();
    assert_eq!(seen.count("\x1b[?1049h"), 2);
}

#[test]
fn suspending_hands_the_terminal_to_the_shell_and_fg_brings_the_screen_back() {
    let script =
        format!("set -m; {}; stty -a; echo IN-SHELL; fg >/dev/null; echo AFTER", drawing("suspend").join(" "));
    let seen = in_terminal(&["bash", "-c", &script], SIZE);
    seen.assert_restored();
    let text = seen.text();
    let (before, after) = text.split_at(text.find("IN-SHELL").expect(&text));
    assert!(before.contains("\x1b[?1049l") && before.contains(" icanon") && !before.contains("-icanon"), "{before}");
    assert!(after.contains("\x1b[?1049h") && after.contains("AFTER"), "{after}");
}

#[test]
fn a_copy_goes_out_as_osc_52() {
    assert_eq!(run("copy").count("\x1b]52;c;d8O2cnRlcg==\x1b\\"), 1);
}

/// GNU screen takes the device control strings apart and hands their insides on, those of at most 768 bytes.
#[test]
fn in_gnu_screen_a_copy_goes_out_in_pieces_that_it_hands_on() {
    let seen = run("copy-in-screen");
    let text = seen.text();
    let pieces: Vec<&str> = text.split("\x1bP").skip(1).map(|rest| rest.split("\x1b\\").next().unwrap()).collect();
    assert!(pieces.len() > 3 && pieces.iter().all(|piece| piece.len() <= 768), "{pieces:?}");
    let base64 = pieces.concat();
    let base64 = base64.strip_prefix("\x1b]52;c;").unwrap().strip_suffix('\x07').unwrap();
    assert!(base64.len() == 3200 && base64.starts_with("d8O2cnRlciB3w7ZydGVy"), "{base64}");
    assert!(base64.chars().all(|c| c.is_ascii_alphanumeric() || "+/=".contains(c)), "{base64}");
}

/// The modes of the mouse that are on after each time that one was switched.
fn mouse_modes(bytes: &str) -> Vec<bool> {
    let mut on = std::collections::BTreeSet::new();
    let mut seen = Vec::new();
    for rest in bytes.split("\x1b[?").skip(1) {
        let mode: String = rest.chars().take_while(char::is_ascii_digit).collect();
        if !["1000", "1002", "1003", "1006", "1015"].contains(&mode.as_str()) {
            continue;
        }
        if rest[mode.len()..].starts_with('h') {
            on.insert(mode)
        } else {
            on.remove(&mode)
        };
        seen.push(!on.is_empty());
    }
    seen.dedup();
    seen
}

#[test]
fn a_mouse_that_was_left_to_the_terminal_stays_so_after_a_stop() {
    // On, off by the key, neither suspending nor resuming switches it on, then on by the key, and off at the end.
    assert_eq!(mouse_modes(&run("mouse-off").text()), [true, false, true, false]);
    assert_eq!(mouse_modes(&run("mouse").text()), [true, false]);
    assert_eq!(mouse_modes(&run("plain").text()), [false]);
    // Nobody is woken up by a mouse that only moves.
    assert_eq!(run("mouse").count("\x1b[?1003h"), 0);
}

#[test]
fn sixteen_colors_go_out_as_every_terminal_knows_them() {
    for (depth, forms) in [("16", [true, false]), ("256", [false, true]), ("none", [false, false])] {
        let seen = run(&format!("colors-{depth}"));
        // What the helper writes before and after is not of the screen.
        let text = seen.text();
        let ours = text.split("\x1b[?1049").nth(1).unwrap();
        let parameters: Vec<&str> = ours
            .split("\x1b[")
            .filter_map(|rest| rest.split_once('m').map(|(numbers, _)| numbers))
            .filter(|numbers| numbers.chars().all(|c| c.is_ascii_digit() || c == ';'))
            .collect();
        let new = |p: &str| p.contains("38;") || p.contains("48;");
        let old = parameters.iter().filter(|p| !new(p)).flat_map(|p| p.split(';'));
        let old = old.filter_map(|n| n.parse::<u32>().ok()).any(|n| matches!(n, 30..=37 | 90..=97));
        assert_eq!([old, parameters.iter().any(|p| new(p))], forms, "{depth}: {parameters:?}");
        // What was written is what was meant: the badge and the charts have their colors. What stood there before it was
        // wiped off:
        let drawn = text.rsplit_once("\x1b[J").map_or(text.as_str(), |(drawn, _)| drawn);
        let terminal = shown_after(drawn.as_bytes(), SIZE);
        let screen = terminal.screen();
        let colors: std::collections::BTreeSet<String> = (0..SIZE.1)
            .flat_map(|y| (0..SIZE.0).map(move |x| (y, x)))
            .filter_map(|(y, x)| Some(format!("{:?}", screen.cell(y, x)?.fgcolor())))
            .collect();
        assert_eq!(colors.len() > 3, depth != "none", "{depth}: {colors:?}");
    }
}

#[test]
fn without_a_terminal_entering_fails_with_a_reason() {
    // Under a test runner standard output may be either; only the refusal is of interest.
    if !rustix::termios::isatty(rustix::stdio::stdout()) {
        let error = Terminal::enter(TerminalOptions::default()).unwrap_err();
        assert!(error.to_string().contains("not a terminal"));
    }
}
