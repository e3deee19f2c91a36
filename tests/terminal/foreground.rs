//! trainmon where the terminal belongs to another process group: started in the background, moved there, or left behind.

use rustix::process::Signal;

use crate::process::{PROGRAM, Target, children, pause, recording, signal, state, until};
use crate::pty::{Conditions, Left, Screen};

const CTRL_Z: &str = "\x1a";
/// What a shell does to bring back a terminal in which a program was stopped.
const KEEP_MODES: &str = "modes=$(stty -g)";

/// A shell script in a terminal of its own, with job control.
fn script(text: &str) -> Screen {
    plain(&format!("set -m; {KEEP_MODES}; {text}"))
}

/// The same without job control: what timeout starts is then in the background.
fn plain(text: &str) -> Screen {
    Screen::start("bash", &["-c", text], &Conditions::default())
}

fn replay() -> String {
    format!("{PROGRAM} replay {}", recording("balanced.tmz"))
}

/// How often this was written so far.
fn written(screen: &Screen, what: &str) -> usize {
    screen.inspect(|seen| String::from_utf8_lossy(&seen.bytes).matches(what).count())
}

/// What was written between two marks.
fn between<'a>(text: &'a str, from: &str, to: &str) -> &'a str {
    let (_, rest) = text.split_once(from).unwrap_or_else(|| panic!("no {from}: {text}"));
    rest.split_once(to).unwrap_or_else(|| panic!("no {to}: {rest}")).0
}

/// Nothing of a screen was written, and the terminal was left alone.
fn assert_untouched(left: &Left) {
    assert!(!left.text().contains('\x1b'), "{:?}", left.text());
    left.assert_restored();
}

#[test]
fn in_the_background_timeout_ends_every_screen_before_anything_has_started() {
    let target = Target::sleeping();
    let attach = format!("{PROGRAM} --pid {}", target.pid());
    let run = format!("{PROGRAM} run -- touch started");
    let fleet = format!("{PROGRAM} fleet --prometheus http://127.0.0.1:9");
    for command in [&replay(), &attach, &run, &fleet, &format!("{PROGRAM} demo")] {
        let left = plain(&format!("TMPDIR=$PWD timeout 2 {command}; echo ENDED $?; ls -A")).left();
        assert_untouched(&left);
        let text = left.text();
        assert!(text.contains("type fg to see the screen, or use timeout --foreground"), "{command}: {text}");
        let after = text.split("ENDED 124").nth(1).unwrap_or_else(|| panic!("{command}: {text}"));
        assert_eq!(after.trim(), "", "{command}: neither the demo's folder nor the program's file");
    }
}

#[test]
fn where_only_the_foreground_may_write_timeout_ends_every_command() {
    let target = Target::sleeping();
    let pid = target.pid();
    for command in [
        &replay(),
        &format!("{PROGRAM} {pid} --log -"),
        &format!("{PROGRAM} diagnose {pid}"),
        &format!("{PROGRAM} watch {pid}"),
        &format!("{PROGRAM} run --log - -- sleep 600"),
        &format!("{PROGRAM} demo --log -"),
    ] {
        let left =
            plain(&format!("{KEEP_MODES}; stty tostop; timeout 2 {command}; echo ENDED $?; stty $modes")).left();
        assert_untouched(&left);
        assert!(left.text().contains("ENDED 124"), "{command}: {}", left.text());
    }
}

#[test]
fn started_in_the_background_it_stops_like_any_screen_until_fg() {
    let stopped = "until read -r _ _ state _ <\"/proc/$!/stat\" && [ $state = T ]; do sleep 0.05; done; echo STOPPED";
    let screen = script(&format!("{} & {stopped}; fg >/dev/null; echo AFTER $?", replay()));
    screen.wait("the screen", |seen| String::from_utf8_lossy(&seen.bytes).contains("\x1b[?2026l"));
    let left = screen.quit();
    left.assert_clean();
    let text = left.text();
    let before = text.split_once("STOPPED").unwrap_or_else(|| panic!("{text}")).0;
    assert!(!before.contains('\x1b') && text.contains("AFTER 0"), "{text}");

    // As `kill %1` and timeout do it.
    let ends = "kill -TERM $!; kill -CONT $!; while kill -0 $! 2>&-; do sleep 0.05; done; wait $!; echo ENDED $?";
    let left = script(&format!("{} & {stopped}; {ends}", replay())).left();
    assert_untouched(&left);
    assert!(left.text().contains("ENDED 143"), "{}", left.text());
}

#[test]
fn sent_to_the_background_it_goes_on_without_a_screen_until_fg() {
    let target = Target::sleeping();
    let attach = format!("{PROGRAM} --pid {} -i 200ms", target.pid());
    let later = "bg >/dev/null; stty -a; echo IN-BACKGROUND; sleep 1; echo STILL";
    let mut screen = script(&format!("{attach}; {later}; fg >/dev/null; echo AFTER $?"));
    screen.wait_text(&format!("PID {}", target.pid()));
    screen.send(CTRL_Z);
    screen.wait("the screen again", |seen| String::from_utf8_lossy(&seen.bytes).matches("\x1b[?1049h").count() > 1);
    screen.answers("fg");
    let left = screen.quit();
    left.assert_clean();
    let text = left.text();
    assert!(between(&text, "\x1b[?25h", "IN-BACKGROUND").contains(" icanon"), "{text}");
    assert_eq!(between(&text, "IN-BACKGROUND", "STILL").trim(), "");
    assert!(text.contains("AFTER 0"), "{text}");
}

#[test]
fn in_the_background_every_polite_signal_ends_it_and_its_job_at_once() {
    for name in ["TERM", "HUP", "INT"] {
        let later = format!("bg >/dev/null; echo IN-BACKGROUND; kill -{name} $!; wait -f $!; echo ENDED $?; ls -A");
        let mut screen = script(&format!("export TMPDIR=$PWD; {PROGRAM} demo -i 200ms; {later}"));
        screen.wait_text("PID ");
        let (_, job) = demo_of(&screen);
        screen.send(CTRL_Z);
        let left = screen.left();
        left.assert_clean();
        let text = left.text();
        let after = text.split("ENDED 0").nth(1).unwrap_or_else(|| panic!("{name}: {text}"));
        assert_eq!(after.trim(), "", "{name}: the demo's folder is gone");
        assert_eq!(state(job), None, "{name}: its job has ended");
    }
}

/// trainmon's process and the demo's, below the shell.
fn demo_of(screen: &Screen) -> (u32, u32) {
    let trainmon = children(screen.pid())[0];
    (trainmon, children(trainmon)[0])
}

#[test]
fn stopped_by_force_and_continued_in_the_background_it_leaves_the_screen_and_the_keys_to_the_shell() {
    let target = Target::sleeping();
    let attach = format!("{PROGRAM} --pid {} -i 200ms", target.pid());
    let later = "stty $modes; bg >/dev/null; echo IN-BACKGROUND; read -r line; echo \"GOT $line\"; fg >/dev/null";
    let mut screen = script(&format!("{attach}; {later}; echo AFTER $?"));
    screen.wait_text(&format!("PID {}", target.pid()));
    let trainmon = children(screen.pid())[0];
    signal(trainmon, Signal::STOP);
    screen.wait("the shell", |seen| {
        let text = String::from_utf8_lossy(&seen.bytes);
        text.contains("IN-BACKGROUND") && text.contains("\x1b[?1049l")
    });
    screen.send("typed\n");
    screen.wait("the screen again", |seen| String::from_utf8_lossy(&seen.bytes).matches("\x1b[?1049h").count() > 1);
    screen.answers("fg");
    let left = screen.quit();
    left.assert_clean();
    let text = left.text();
    assert!(text.contains("GOT typed") && text.contains("AFTER 0"), "{text}");
}

#[test]
fn a_signal_that_ends_it_in_the_background_leaves_the_modes_of_the_shell_alone() {
    let target = Target::sleeping();
    let attach = format!("{PROGRAM} --pid {} -i 200ms", target.pid());
    for name in ["TERM", "QUIT", "USR1"] {
        let ends = format!(
            "stty $modes -echo; kill -{name} %1; kill -CONT %1; wait -f %1; stty -a; echo ENDED; stty $modes"
        );
        let screen = script(&format!("{attach}; {ends}"));
        screen.wait_text(&format!("PID {}", target.pid()));
        signal(children(screen.pid())[0], Signal::STOP);
        let left = screen.left();
        left.assert_restored();
        let text = left.text();
        let (after, _) = text.rsplit_once("ENDED").unwrap_or_else(|| panic!("{name}: {text}"));
        assert!(after.contains("\x1b[?1049l") && after.contains(" -echo "), "{name}: {after}");
    }
}

#[test]
fn left_behind_in_the_background_it_ends() {
    let target = Target::sleeping();
    let attach = format!("{PROGRAM} --pid {} -i 200ms", target.pid());
    let screen = script(&format!("sh -c '{attach}; :'; stty $modes; echo IN-SHELL; read -r line"));
    screen.wait_text(&format!("PID {}", target.pid()));
    let wrapper = children(screen.pid())[0];
    let trainmon = children(wrapper)[0];
    signal(wrapper, Signal::KILL);
    until("it ends", || matches!(state(trainmon), None | Some('Z')));
    let mut screen = screen;
    screen.wait("the shell", |seen| String::from_utf8_lossy(&seen.bytes).contains("IN-SHELL"));
    screen.send("\n");
    screen.left().assert_restored();
}

#[test]
fn where_no_shell_can_bring_it_to_the_foreground_it_names_what_does_without() {
    // The shell that has started it is gone.
    let mut screen = script(&format!("sh -c '({} </dev/tty; echo ENDED $?) &'; read -r line", replay()));
    screen.wait_text("ENDED");
    screen.send("\n");
    let left = screen.left();
    assert_untouched(&left);
    let said = left.text();
    assert!(said.contains("no shell can bring trainmon there: use `trainmon diagnose --replay"), "{said}");
    assert!(said.contains("ENDED 2") && !said.contains("type fg"), "{said}");
}

#[test]
fn without_job_control_the_terminal_is_used_as_it_is() {
    let screen = Screen::start("setsid", &["--wait", "sh", "-c", &replay()], &Conditions::default());
    screen.wait("the screen", |seen| String::from_utf8_lossy(&seen.bytes).contains("\x1b[?2026l"));
    pause(100);
    assert_eq!(written(&screen, "\x1b[?1049l"), 0);
    screen.quit().assert_clean();
}
