//! The terminal in a real pseudo-terminal: entered, painted, suspended, and given back as it was, whatever happens.
//!
//! The child is this same test program, started again with a mode in its environment.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "tests")]

mod tui_support;

use std::fs::File;
use std::io::Read;

use portable_pty::{CommandBuilder, PtySize, native_pty_system};
use rustix::termios::{Termios, tcgetattr};
use trainmon::tui;
use trainmon::tui::Theme;
use trainmon::tui::terminal::{Options, Terminal};
use trainmon::tui::theme::Depth;
use tui_support::*;

const MODE: &str = "TRAINMON_TEST_CHILD";
const SIZE: (u16, u16) = (80, 24);

/// What the child did to its terminal.
struct Seen {
    bytes: String,
    screen: vt100::Parser,
    /// What stood there before it was wiped off.
    drawn: vt100::Parser,
    /// Terminal attributes before and after.
    modes: (Termios, Termios),
    success: bool,
}

impl Seen {
    fn count(&self, what: &str) -> usize {
        self.bytes.matches(what).count()
    }

    /// Cursor, screen, paste mode and line discipline are what they were.
    fn assert_restored(&self) {
        let screen = self.screen.screen();
        assert!(!screen.alternate_screen() && !screen.hide_cursor() && !screen.bracketed_paste(), "{}", self.bytes);
        let (before, after) = &self.modes;
        assert_eq!(before.local_modes, after.local_modes);
        assert_eq!(before.input_modes, after.input_modes);
        assert_eq!(before.output_modes, after.output_modes);
    }
}

/// Runs `program` with `args` in a pseudo-terminal and gathers what it does.
fn in_terminal(program: &str, args: &[&str], mode: &str) -> Seen {
    let size = PtySize { rows: SIZE.1, cols: SIZE.0, ..PtySize::default() };
    let pty = native_pty_system().openpty(size).unwrap();
    let tty = File::open(pty.master.tty_name().unwrap()).unwrap();
    let before = tcgetattr(&tty).unwrap();
    let mut command = CommandBuilder::new(program);
    command.args(args);
    command.env(MODE, mode);
    command.env("TERM", "xterm-256color");
    command.env("RUST_BACKTRACE", "0");
    let mut child = pty.slave.spawn_command(command).unwrap();
    let mut reader = pty.master.try_clone_reader().unwrap();
    let gather = std::thread::spawn(move || {
        let mut all = Vec::new();
        let mut piece = [0; 4096];
        while let Ok(n) = reader.read(&mut piece) {
            if n == 0 {
                break;
            }
            all.extend_from_slice(&piece[..n]);
        }
        all
    });
    let success = child.wait().unwrap().success();
    let after = tcgetattr(&tty).unwrap();
    drop((tty, pty.slave, pty.master));
    let all = gather.join().unwrap();
    let mut screen = vt100::Parser::new(SIZE.1, SIZE.0, 0);
    screen.process(&all);
    let bytes = String::from_utf8_lossy(&all).into_owned();
    let mut drawn = vt100::Parser::new(SIZE.1, SIZE.0, 0);
    drawn.process(bytes.rsplit_once("\x1b[J").map_or(bytes.as_str(), |(shown, _)| shown).as_bytes());
    Seen { bytes, screen, drawn, modes: (before, after), success }
}

fn child_args() -> [&'static str; 4] {
    ["child", "--exact", "--ignored", "--test-threads=1"]
}

fn run(mode: &str) -> Seen {
    let exe = std::env::current_exe().unwrap();
    in_terminal(exe.to_str().unwrap(), &child_args(), mode)
}

/// The theme that the mode names.
fn theme() -> Theme {
    let depth = match std::env::var(MODE).unwrap_or_default().as_str() {
        "colours-16" => Depth::Ansi16,
        "colours-none" => Depth::None,
        _ => Depth::Indexed256,
    };
    Theme { depth, ..*COLOUR }
}

#[test]
#[ignore = "only the other tests of this file start it"]
fn child() {
    let Ok(mode) = std::env::var(MODE) else { return };
    let app = running(theme(), SIZE, Job::default());
    let mut terminal =
        Terminal::enter(Options { mouse: mode.starts_with("mouse"), screen: mode == "copy-in-screen" }).unwrap();
    assert_eq!(terminal.size(), SIZE);
    terminal.draw(|buf| drop(tui::draw(buf, &app))).unwrap();
    match mode.as_str() {
        "same" => {
            for _ in 0..5 {
                terminal.draw(|buf| drop(tui::draw(buf, &app))).unwrap();
            }
        }
        "repaint" => {
            terminal.repaint();
            terminal.draw(|buf| drop(tui::draw(buf, &app))).unwrap();
        }
        "panic" => panic!("the screen fell over"),
        "panic-elsewhere" => {
            let _ = std::thread::spawn(|| panic!("a source fell over")).join();
            terminal.draw(|buf| drop(tui::draw(buf, &app))).unwrap();
        }
        "suspend" => {
            terminal.suspend().unwrap();
            terminal.draw(|buf| drop(tui::draw(buf, &app))).unwrap();
        }
        "copy" => terminal.copy("wörter").unwrap(),
        "copy-in-screen" => terminal.copy(&"wörter ".repeat(300)).unwrap(),
        "mouse-off" => {
            terminal.mouse(false).unwrap();
            terminal.suspend().unwrap();
            terminal.resumed().unwrap();
            terminal.draw(|buf| drop(tui::draw(buf, &app))).unwrap();
            terminal.mouse(true).unwrap();
        }
        _ => {}
    }
}

#[test]
fn the_terminal_is_given_back_as_it_was() {
    for mode in ["plain", "mouse"] {
        let seen = run(mode);
        assert!(seen.success);
        seen.assert_restored();
        assert_eq!(seen.count("\x1b[?1049h"), 1);
        assert_eq!(seen.count("\x1b[?1002h"), usize::from(mode == "mouse"));
        assert!(seen.bytes.contains("too-few-workers"));
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
    assert!(!seen.success);
    seen.assert_restored();
    let left = seen.bytes.find("\x1b[?1049l").unwrap();
    let message = seen.bytes.find("panicked at").unwrap();
    assert!(left < message);
    assert!(seen.screen.screen().contents().contains("panicked at"));
}

#[test]
fn where_there_is_no_other_screen_to_go_back_to_the_picture_is_wiped_off() {
    for (mode, left) in [("plain", "test result"), ("panic", "panicked at")] {
        let bytes = run(mode).bytes.replace("\x1b[?1049h", "").replace("\x1b[?1049l", "");
        let mut screen = vt100::Parser::new(SIZE.1, SIZE.0, 0);
        screen.process(bytes.as_bytes());
        let contents = screen.screen().contents();
        assert!(contents.contains(left) && !contents.contains("too-few-workers"), "{contents}");
    }
}

#[test]
fn a_panic_elsewhere_leaves_the_screen_alone() {
    let seen = run("panic-elsewhere");
    assert!(seen.success);
    seen.assert_restored();
    assert_eq!(seen.count("a source fell over"), 0);
    assert_eq!(seen.count("\x1b[?1049h"), 1);
}

#[test]
fn suspending_without_job_control_comes_straight_back() {
    // A session leader whose parent is elsewhere: the kernel ignores SIGTSTP there.
    let seen = run("suspend");
    assert!(seen.success);
    seen.assert_restored();
    assert_eq!(seen.count("\x1b[?1049h"), 2);
}

#[test]
fn suspending_hands_the_terminal_to_the_shell_and_fg_brings_the_screen_back() {
    let exe = std::env::current_exe().unwrap();
    let script =
        format!("set -m; {:?} {}; stty -a; echo IN-SHELL; fg >/dev/null; echo AFTER", exe, child_args().join(" "));
    let seen = in_terminal("bash", &["-c", &script], "suspend");
    seen.assert_restored();
    let shell = seen.bytes.find("IN-SHELL").expect(&seen.bytes);
    let (before, after) = seen.bytes.split_at(shell);
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
    let pieces: Vec<&str> =
        seen.bytes.split("\x1bP").skip(1).map(|rest| rest.split("\x1b\\").next().unwrap()).collect();
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
    assert_eq!(mouse_modes(&run("mouse-off").bytes), [true, false, true, false]);
    assert_eq!(mouse_modes(&run("mouse").bytes), [true, false]);
    assert_eq!(mouse_modes(&run("plain").bytes), [false]);
    // Nobody is woken up by a mouse that only moves.
    assert_eq!(run("mouse").count("\x1b[?1003h"), 0);
}

#[test]
fn sixteen_colours_go_out_as_every_terminal_knows_them() {
    for (depth, forms) in [("16", [true, false]), ("256", [false, true]), ("none", [false, false])] {
        let seen = run(&format!("colours-{depth}"));
        // The test's runner writes in colours before and after.
        let ours = seen.bytes.split("\x1b[?1049").nth(1).unwrap();
        let parameters: Vec<&str> = ours
            .split("\x1b[")
            .filter_map(|rest| rest.split_once('m').map(|(numbers, _)| numbers))
            .filter(|numbers| numbers.chars().all(|c| c.is_ascii_digit() || c == ';'))
            .collect();
        let new = |p: &str| p.contains("38;") || p.contains("48;");
        let old = parameters.iter().filter(|p| !new(p)).flat_map(|p| p.split(';'));
        let old = old.filter_map(|n| n.parse::<u32>().ok()).any(|n| matches!(n, 30..=37 | 90..=97));
        assert_eq!([old, parameters.iter().any(|p| new(p))], forms, "{depth}: {parameters:?}");
        // What was written is what was meant: the badge and the charts have their colours.
        let screen = seen.drawn.screen();
        let colours: std::collections::BTreeSet<String> = (0..SIZE.1)
            .flat_map(|y| (0..SIZE.0).map(move |x| (y, x)))
            .filter_map(|(y, x)| Some(format!("{:?}", screen.cell(y, x)?.fgcolor())))
            .collect();
        assert_eq!(colours.len() > 3, depth != "none", "{depth}: {colours:?}");
    }
}

#[test]
fn without_a_terminal_entering_fails_with_a_reason() {
    // Under a test runner standard output may be either; only the refusal is of interest.
    if !rustix::termios::isatty(rustix::stdio::stdout()) {
        let error = Terminal::enter(Options::default()).unwrap_err();
        assert!(error.to_string().contains("not a terminal"));
    }
}
