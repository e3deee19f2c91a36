//! Signals, job control, a lost terminal, and the end of the target.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};
use trainmon::sources::simulated_gpu::{SimulatedGpu, SimulatedGpuState};
use trainmon::tui::keys::Action;
use trainmon::tui::pages::Page;

use crate::process::{PROGRAM, Target, children, library, pause, peak_kib, signal, state, until};
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
    assert_shell_had_the_terminal(screen);
}

/// Quits a screen that a shell has continued: the terminal was given to the shell before, and is given back clean.
fn assert_shell_had_the_terminal(screen: Screen) {
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

#[test]
fn a_signal_that_ends_it_at_once_leaves_the_terminal_as_it_was() {
    let target = Target::sleeping();
    for (number, name) in [
        (Signal::QUIT, "Quit"),
        (Signal::USR1, "User defined signal 1"),
        (Signal::USR2, "User defined signal 2"),
        (Signal::ALARM, "Alarm clock"),
        (Signal::VTALARM, "Virtual timer expired"),
        (Signal::PROF, "Profiling timer expired"),
        (Signal::XCPU, "CPU time limit exceeded"),
        (Signal::ABORT, "Aborted"),
        (Signal::SEGV, "Segmentation fault"),
        (Signal::BUS, "Bus error"),
        (Signal::ILL, "Illegal instruction"),
        (Signal::FPE, "Floating point exception"),
        (Signal::SYS, "Bad system call"),
        (Signal::TRAP, "Trace/breakpoint trap"),
        (Signal::POWER, "Power failure"),
    ] {
        let screen = screen_of(&target);
        screen.kill(number);
        let left = screen.left();
        left.assert_restored();
        assert_eq!(left.count("\x1b[?1049l"), 1, "{name}");
        let said = left.signal.unwrap_or_default();
        assert!(said.starts_with(name), "{number:?}: {said} {}", left.code);
    }
}

#[test]
fn a_crash_in_the_drivers_library_leaves_the_terminal_as_it_was() {
    let target = Target::sleeping();
    for (crash, name) in [("fault", "Segmentation fault"), ("abort", "Aborted"), ("overflow", "Aborted")] {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("device");
        let trigger = folder.path().join("crash");
        let _owner = SimulatedGpu::create(&state, &[SimulatedGpuState::default()]).unwrap();
        let environment =
            [("TRAINMON_SIMULATED_DEVICE", state.to_str().unwrap()), ("FAKE_NVML_CRASH", trigger.to_str().unwrap())];
        let given = Conditions { environment: &environment, ..Conditions::default() };
        let screen = Screen::attached(&target, &["--nvml-lib", &library("fake_nvml")], &given);
        std::fs::write(&trigger, crash).unwrap();
        let left = screen.left();
        left.assert_restored();
        let said = left.signal.clone().unwrap_or_default();
        assert!(said.starts_with(name), "{crash}: {said} {}", left.code);
        if crash == "overflow" {
            let text = left.text();
            let after = text.rsplit("\x1b[?1049l").next().unwrap();
            assert!(after.contains("has overflowed its stack"), "Rust's own message: {after}");
        }
    }
}

#[test]
fn a_stop_from_outside_gives_the_terminal_to_the_shell() {
    let target = Target::sleeping();
    let script = format!(
        "set -m; {PROGRAM} --pid {} -i 200ms; stty -a; echo IN-SHELL; fg >/dev/null; echo AFTER $?",
        target.pid()
    );
    let mut screen = Screen::start("bash", &["-c", &script], &Conditions::default());
    screen.wait_text(&format!("PID {}", target.pid()));
    signal(children(screen.pid())[0], Signal::TSTP);
    screen.wait("the shell", |seen| {
        let text = String::from_utf8_lossy(&seen.bytes);
        text.find("IN-SHELL").is_some_and(|at| text[at..].contains("\x1b[?1049h"))
    });
    screen.answers("fg");
    assert_shell_had_the_terminal(screen);
}

#[test]
fn a_stop_that_the_kernel_does_not_carry_out_brings_the_screen_back() {
    let target = Target::sleeping();
    // It leads its session, so that there is no shell that could continue it.
    let mut screen = screen_of(&target);
    for _ in 0..2 {
        let before = screen.inspect(|seen| String::from_utf8_lossy(&seen.bytes).matches("\x1b[?1049h").count());
        screen.kill(Signal::TSTP);
        screen.wait("the screen again", |seen| {
            String::from_utf8_lossy(&seen.bytes).matches("\x1b[?1049h").count() > before
        });
        screen.answers("SIGTSTP");
    }
    screen.quit().assert_clean();
}

#[test]
fn a_terminal_of_an_absurd_size_is_refused() {
    let target = Target::sleeping();
    for size in [(u16::MAX, u16::MAX), (2000, 1000)] {
        for arguments in [&["--pid", &target.pid()][..], &["run", "--", "sleep", "60"], &["demo"]] {
            let given = Conditions { size, ..Conditions::default() };
            let left = Screen::start(PROGRAM, arguments, &given).left();
            assert_eq!(left.code, 1, "{}", left.text());
            left.assert_restored();
            let said = left.text();
            assert!(said.contains(&format!("{} columns and {} rows", size.0, size.1)), "{said}");
            assert!(!said.contains('\x1b') && said.trim().lines().count() == 1, "{said}");
        }
    }
}

#[test]
fn a_resize_to_an_absurd_size_is_not_believed() {
    let target = Target::sleeping();
    let mut screen = screen_of(&target);
    screen.resize(u16::MAX, u16::MAX);
    screen.answers("an absurd size");
    screen.send("?");
    screen.send("\x1b[27u");
    screen.answers("keys");
    let peak = peak_kib(screen.pid());
    assert!(peak < 300_000, "{peak} KiB");
    screen.resize(80, 24);
    screen.answers("a size");
    screen.wait_text(&format!("PID {}", target.pid()));
    screen.quit().assert_clean();
}
