//! Storms of input: resizes, pastes, the mouse.

use std::fmt::Write;
use std::time::{Duration, Instant};

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use rustix::process::Signal;
use trainmon::tui::keys::{self, Action};
use trainmon::tui::pages::Page;

use crate::process::{Target, pause, peak_kib, recording};
use crate::pty::{Conditions, ESC, Screen, key};

/// A paste of a megabyte may take so long.
const PASTE_MAX: Duration = Duration::from_secs(2);
/// And so much memory may be used beside what is used without it, KiB: the paste itself a few times over.
const PASTE_MEMORY_KIB: u64 = 16 * 1024;

/// Numbers that look random and are the same each time.
fn numbers(mut state: u64) -> impl FnMut(u64) -> u64 {
    move |below| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    }
}

#[test]
fn a_storm_of_resizes_leaves_it_answering() {
    let target = Target::sleeping();
    let mut screen = Screen::trainmon(&["--pid", &target.pid(), "-i", "100ms"], &Conditions::default());
    let mut number = numbers(4);
    for round in 0..200_usize {
        let (columns, rows) = match round % 10 {
            0 => (1, 1),
            1 => (300, 100),
            2 => (1, 100),
            3 => (300, 1),
            _ => (1 + number(300), 1 + number(100)),
        };
        screen.resize(u16::try_from(columns).unwrap(), u16::try_from(rows).unwrap());
        if round % 5 == 0 {
            screen.send(&key(Action::Go(Page::ALL[round / 5 % Page::ALL.len()])));
        }
        pause(number(20));
    }
    screen.resize(100, 30);
    screen.answers("200 resizes");
    screen.send(&key(Action::Go(Page::Overview)));
    screen.wait_text(&format!("PID {}", target.pid()));
    screen.quit().assert_clean();
}

#[test]
fn a_terminal_that_is_too_small_says_what_it_needs() {
    use trainmon::tui::{MIN_HEIGHT, MIN_WIDTH};

    let target = Target::sleeping();
    let small = Conditions { size: (40, 10), ..Conditions::default() };
    let mut screen = Screen::attached(&target, &[], &small);
    screen.wait_text(&format!("{MIN_WIDTH}x{MIN_HEIGHT}"));
    assert!(screen.contents().contains("needs"));
    for page in Page::ALL {
        screen.send(&key(Action::Go(page)));
        screen.answers(page.name());
    }
    screen.resize(80, 24);
    screen.wait_text(&format!("PID {}", target.pid()));
    screen.quit().assert_clean();
}

/// Pastes a megabyte and gives the time until the program answers again.
fn paste(screen: &mut Screen, text: &str) -> Duration {
    let whole = format!("\x1b[200~{}\x1b[201~", text.repeat((1 << 20) / text.len()));
    let began = Instant::now();
    screen.send(&whole);
    screen.answers("a paste");
    began.elapsed()
}

#[test]
fn a_paste_of_a_megabyte_is_taken_in_time_and_in_bounds() {
    let target = Target::sleeping();
    let mut screen = Screen::trainmon(&["--pid", &target.pid(), "-i", "500ms"], &Conditions::default());
    let before = peak_kib(screen.pid());
    // Without a prompt what is pasted is no keys: q would quit, F10 too.
    let mut times = vec![paste(&mut screen, "q\x1b[21~\x03 wörter\n")];
    for action in [Action::Filter, Action::Search] {
        screen.send(&format!("{}{}", key(Action::Go(Page::Processes)), key(action)));
        times.push(paste(&mut screen, "\x1b]0;x\x07\u{202e}\u{301}漢z"));
        screen.send(ESC);
        screen.answers("closing the prompt");
    }
    for time in &times {
        assert!(*time < PASTE_MAX, "{times:?}");
    }
    let after = peak_kib(screen.pid());
    assert!(after - before < PASTE_MEMORY_KIB, "{before} KiB before, {after} KiB after");
    screen.quit().assert_clean();
}

#[test]
fn a_paste_that_is_not_marked_as_one_is_read_to_its_end() {
    let target = Target::sleeping();
    let mut screen = Screen::attached(&target, &[], &Conditions::default());
    let bound = |c| keys::action(KeyEvent::new(KeyCode::Char(c), KeyModifiers::NONE)).is_some();
    let idle = ('a'..='z').find(|c| !bound(*c)).unwrap();
    for length in [1023, 1024, 1025, 3000, 100_000] {
        screen.send(&idle.to_string().repeat(length));
        screen.answers("a paste as keys");
    }
    screen.quit().assert_clean();
}

#[test]
fn a_paste_whose_end_never_comes_does_not_keep_it_from_ending() {
    let target = Target::sleeping();
    let mut screen = Screen::trainmon(&["--pid", &target.pid(), "-i", "100ms"], &Conditions::default());
    screen.send("\x1b[200~and then the connection stalls");
    screen.resize(100, 30);
    // Drawing goes on.
    screen.wait_text(&format!("PID {}", target.pid()));
    screen.kill(Signal::TERM);
    screen.left().assert_clean();
}

#[test]
fn a_storm_of_the_mouse_leaves_it_answering() {
    let mut screen = Screen::trainmon(&["replay", &recording("change.tmz")], &Conditions::default());
    let mut number = numbers(9);
    // The mouse has to be ours; sent whether it is or not, for a terminal may lag behind.
    for page in Page::ALL {
        let mut storm = key(Action::Go(page));
        for _ in 0..300 {
            // Press, drag, move, wheel; inside, at the edges, and far outside.
            let button = [0, 1, 2, 32, 34, 35, 64, 65, 66, 67][usize::try_from(number(10)).unwrap()];
            let (column, row) = match number(8) {
                0 => (65_535, 65_535),
                1 => (1, 1),
                2 => (80, 24),
                _ => (1 + number(90), 1 + number(30)),
            };
            let end = if number(5) == 0 { 'm' } else { 'M' };
            write!(storm, "\x1b[<{button};{column};{row}{end}").unwrap();
        }
        for _ in 0..2000 {
            write!(storm, "\x1b[<35;{};{}M", 1 + number(80), 1 + number(24)).unwrap();
        }
        screen.send(&storm);
        screen.answers(&format!("the mouse on {}", page.name()));
    }
    screen.quit().assert_clean();
}

#[test]
fn input_that_is_no_key_does_nothing() {
    let target = Target::sleeping();
    let mut screen = Screen::attached(&target, &[], &Conditions::default());
    let mut number = numbers(77);
    // What a terminal answers to questions nobody asked, torn sequences, bytes that are no UTF-8.
    let mut garbage =
        b"\x1b[?62;22c\x1b[24;80R\x1b]11;rgb:0000/0000/0000\x1b\\\x1bP1$r0m\x1b\\\x1b[I\x1b[O\xc3(\xff\xfe".to_vec();
    for _ in 0..2000 {
        let byte = u8::try_from(0x80 + number(0x80)).unwrap();
        garbage.push(byte);
    }
    screen.send_bytes(&garbage);
    screen.answers("garbage");
    screen.send(ESC);
    screen.quit().assert_clean();
}
