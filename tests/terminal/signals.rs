//! Signals, job control, a lost terminal, and the end of the target.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};
use trainmon::tui::keys::Action;
use trainmon::tui::pages::Page;

use crate::process::{PROGRAM, Target, pause, state, until};
use crate::pty::{Conditions, Screen, Seen, key};

/// A lost terminal ends the program within this.
const HANG_UP_MAX: Duration = Duration::from_secs(2);

fn screen_of(target: &Target) -> Screen {
    Screen::attached(target, &[], &Conditions::default())
}

#[test]
fn every_polite_signal_ends_it_cleanly() {
    let mut target = Target::sleeping();
    for signal in [Signal::TERM, Signal::HUP, Signal::INT] {
        let screen = screen_of(&target);
        screen.kill(signal);
        screen.left().assert_clean();
    }
    // Ctrl-C is a key in raw mode.
    for chord in ["\x03", "q", "\x1b[21~"] {
        let mut screen = screen_of(&target);
        screen.send(chord);
        screen.left().assert_clean();
    }
    assert!(target.lives(), "the target runs on");
}

#[test]
fn a_log_in_a_terminal_ends_when_it_hangs_up() {
    let target = Target::sleeping();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.csv");
    let arguments = ["--log", path.to_str().unwrap(), "-i", "200ms", "--pid", &target.pid()];
    let screen = Screen::start(PROGRAM, &arguments, &Conditions::default());
    until("it writes", || std::fs::metadata(&path).is_ok_and(|file| file.len() > 0));
    screen.kill(Signal::HUP);
    assert_eq!(screen.left().code, 0);
}

#[test]
fn stopped_and_continued_from_outside_it_takes_the_terminal_again() {
    let target = Target::sleeping();
    let mut screen = screen_of(&target);
    let tty = rustix::io::dup(screen.tty.as_ref().unwrap()).unwrap();
    let raw = tcgetattr(&tty).unwrap();
    assert!(!raw.local_modes.contains(LocalModes::ICANON));
    screen.kill(Signal::STOP);
    until("it stops", || state(screen.pid()) == Some('T'));
    // As a shell leaves the terminal that has got it back.
    let mut cooked = raw.clone();
    cooked.local_modes |= LocalModes::ICANON | LocalModes::ECHO;
    tcsetattr(&tty, OptionalActions::Now, &cooked).unwrap();
    screen.kill(Signal::CONT);
    until("raw mode again", || !tcgetattr(&tty).unwrap().local_modes.contains(LocalModes::ICANON));
    screen.answers("SIGCONT");
    screen.wait_text(&format!("PID {}", target.pid()));
    drop(tty);
    assert_eq!(screen.quit().code, 0);
}

#[test]
fn ctrl_z_in_a_shell_and_fg_as_often_as_one_likes() {
    let target = Target::sleeping();
    let script = format!(
        "set -m; {} --pid {} -i 200ms; stty -a; echo IN-SHELL; fg >/dev/null; echo AGAIN; fg >/dev/null; echo AFTER $?",
        PROGRAM,
        target.pid()
    );
    let mut screen = Screen::start("bash", &["-c", &script], &Conditions::default());
    let count = |seen: &Seen, what: &str| String::from_utf8_lossy(&seen.bytes).matches(what).count();
    screen.wait("the screen", |seen| count(seen, "\x1b[?2026l") >= 1);
    for back in ["IN-SHELL", "AGAIN"] {
        screen.send(&key(Action::Suspend));
        screen.wait(back, |seen| {
            let text = String::from_utf8_lossy(&seen.bytes);
            text.find(back).is_some_and(|at| text[at..].contains("\x1b[?1049h"))
        });
        screen.answers("fg");
        screen.wait_text(&format!("PID {}", target.pid()));
    }
    let left = screen.quit();
    left.assert_clean();
    let text = left.text();
    let (before, after) = text.split_at(text.find("IN-SHELL").unwrap());
    assert!(before.contains("\x1b[?1049l") && before.contains(" icanon"), "{before}");
    assert!(after.contains("AFTER 0"), "{after}");
}

#[test]
fn a_lost_terminal_ends_it() {
    let target = Target::sleeping();
    let mut screen = screen_of(&target);
    let began = Instant::now();
    screen.hang_up();
    let code = screen.wait_for_end();
    assert!(began.elapsed() < HANG_UP_MAX, "{:?}", began.elapsed());
    assert_eq!(code, 0);
}

#[test]
fn a_terminal_that_takes_nothing_does_not_keep_signals_from_being_heard() {
    let target = Target::sleeping();
    for goes_on in [true, false] {
        let large = Conditions { size: (200, 60), ..Conditions::default() };
        let mut screen = Screen::attached(&target, &[], &large);
        screen.stalled.store(true, Ordering::SeqCst);
        // More than the terminal has room for.
        for _ in 0..5 {
            screen.send("\x0c");
            pause(100);
        }
        if goes_on {
            screen.stalled.store(false, Ordering::SeqCst);
            screen.answers("a stall");
            screen.wait_text(&format!("PID {}", target.pid()));
            screen.quit().assert_clean();
        } else {
            screen.kill(Signal::TERM);
            assert_eq!(screen.wait_for_end(), 0);
        }
    }
}

#[test]
fn the_end_of_the_target_is_told_and_the_screen_stays() {
    for (columns, rows) in [(80, 24), (40, 10)] {
        let mut target = Target::sleeping();
        let mut screen = screen_of(&target);
        screen.resize(columns, rows);
        target.end();
        screen.wait_text("ENDED");
        for page in Page::ALL {
            screen.send(&key(Action::Go(page)));
            screen.answers(page.name());
            assert!(screen.contents().contains("ENDED"), "{}", screen.contents());
        }
        screen.quit().assert_clean();
    }
}

#[test]
fn a_target_that_is_not_there_is_told_before_the_screen_is_taken() {
    let mut target = Target::sleeping();
    target.end();
    let left = Screen::start(PROGRAM, &["--pid", &target.pid()], &Conditions::default()).left();
    assert_eq!(left.code, 3);
    assert!(!left.text().contains('\x1b'), "{}", left.text());
    assert_eq!(left.text().trim().lines().count(), 1, "{}", left.text());
}
