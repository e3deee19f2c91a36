//! The key that asks the watched job for a profile, with a stand-in for a job of torch that answers as libkineto does.

use std::path::Path;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use trainmon::tui::keys::Action;
use trainmon::tui::pages::Page;

use crate::process::{PROGRAM, Target, fake_kineto, until};
use crate::pty::{Conditions, ESC, Screen, key};

const ASKING: &str = "profile: asking the job";
/// A trace in which the GPU waits for `aten::item`.
const TRACE: &str = "waits-item.json";

/// A job that behaves like this, and the screen over it.
fn watched(options: &[&str], size: (u16, u16)) -> (TempDir, Target, Screen) {
    let folder = tempfile::tempdir().unwrap();
    let mut job = fake_kineto(TRACE);
    job.env("KINETO_IPC_SOCKET_DIR", folder.path()).env("KINETO_ONDEMAND_TRACE_DIR", folder.path());
    let target = Target::spawn(job.args(options));
    let screen = Screen::attached(&target, &["--no-stacks"], &Conditions { size, ..Conditions::default() });
    (folder, target, screen)
}

/// What trainmon or the job has left there, except the job's own socket.
fn left_in(folder: &Path) -> Vec<String> {
    let names = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| !name.starts_with("dynoconfigclient")).collect()
}

#[test]
fn the_profile_of_the_watched_job_opens_its_page_and_stays() {
    for size in [(80, 24), (120, 40)] {
        let (folder, mut target, mut screen) = watched(&[], size);
        screen.send(&key(Action::TakeProfile));
        screen.wait_text(ASKING);
        // Nothing waits for it.
        screen.send(&key(Action::Go(Page::Io)));
        screen.answers("another page");
        screen.wait_text("the profile is taken");
        screen.wait_text("Calls that wait for the GPU");
        screen.wait_text("aten::item, train.py:41");
        screen.wait_text("CPU · too many GPU syncs");
        screen.wait("its age", |seen| {
            seen.contents().contains("taken 1 s ago") || seen.contents().contains("taken 2 s ago")
        });
        screen.send(&key(Action::Go(Page::Overview)));
        screen.wait_text("CPU · too many GPU syncs");
        screen.send(&key(Action::Go(Page::Profile)));
        screen.wait_text("Calls that wait for the GPU");
        assert_eq!(left_in(folder.path()), <[String; 0]>::default());
        assert!(target.lives());
        screen.quit().assert_clean();
    }
}

#[test]
fn what_stands_in_the_way_is_told_in_a_line_and_the_screen_goes_on() {
    let words = |text: String| text.split_whitespace().collect::<Vec<_>>().join(" ");
    for (options, line) in [
        (["--ends"].as_slice(), "has ended"),
        (&["--garbage"], "the profile is empty: the job ran no operator of torch meanwhile"),
    ] {
        let (folder, _target, mut screen) = watched(options, (120, 40));
        screen.send(&key(Action::TakeProfile));
        screen.wait_text(ASKING);
        screen.wait("the reason", |seen| !seen.contents().contains(ASKING) && words(seen.contents()).contains(line));
        screen.answers("the reason");
        assert_eq!(left_in(folder.path()), <[String; 0]>::default(), "{options:?}");
        screen.quit().assert_clean();
    }
    let target = Target::sleeping();
    let mut screen = Screen::attached(&target, &["--no-stacks"], &Conditions::default());
    screen.send(&key(Action::TakeProfile));
    screen.wait("the reason", |seen| {
        words(seen.contents()).contains("was not started to be profiled: start it with `trainmon run -- CMD`")
    });
    screen.send(&key(Action::Down));
    screen.wait("the footer", |seen| !seen.contents().contains("was not started"));
    screen.quit().assert_clean();
}

#[test]
fn a_profile_is_given_up_by_key_and_by_leaving_and_nothing_is_left() {
    let (folder, mut target, mut screen) = watched(&["--never-asks"], (80, 24));
    let asks = || folder.path().join("dynolog").exists();
    for give_up in [ESC, &key(Action::TakeProfile)] {
        screen.send(&key(Action::TakeProfile));
        until("the job is asked", asks);
        screen.wait_text(ASKING);
        screen.send(give_up);
        screen.wait_text("given up: the job goes on");
        until("the socket is removed", || !asks());
        screen.send(ESC);
        screen.answers("giving up");
    }
    screen.send(&key(Action::TakeProfile));
    until("the job is asked", asks);
    let began = Instant::now();
    screen.quit().assert_clean();
    assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
    assert!(!asks() && target.lives());
}

#[test]
fn a_job_that_has_missed_its_moment_is_asked_for_longer() {
    let (_folder, _target, mut screen) = watched(&["--looks", "8"], (80, 24));
    screen.send(&key(Action::TakeProfile));
    screen.wait_text("profile: asking the job (up to 12 s) · Esc gives up");
    screen.wait_text("profile: asking the job (up to 23 s) · Esc gives up");
    screen.send(ESC);
    screen.wait_text("given up: the job goes on");
    screen.quit().assert_clean();
}

#[test]
fn the_command_says_in_one_line_how_far_the_profile_is() {
    let folder = tempfile::tempdir().unwrap();
    let mut job = fake_kineto(TRACE);
    job.env("KINETO_IPC_SOCKET_DIR", folder.path()).env("KINETO_ONDEMAND_TRACE_DIR", folder.path());
    let target = Target::spawn(job.args(["--asks", "1", "--writes", "3"]));
    let tall = Conditions { size: (100, 60), ..Conditions::default() };
    let screen = Screen::start(PROGRAM, &["profile", "--for", "600ms", "--pid", &target.pid()], &tall);
    let line = |stage: &str| format!("profile of PID {} · {stage} · Ctrl-C gives up", target.id());
    screen.wait_text(&line("asking the job (up to 12 s)"));
    screen.wait_text(&line("recording 0.6 s"));
    screen.wait_text(&line("the job writes its trace (1 s)"));
    screen.wait_text(&line("the job writes its trace (2 s)"));
    let left = screen.left();
    assert_eq!(left.code, 0, "{}", left.contents);
    assert!(left.contents.starts_with("CPU · too many GPU syncs"), "{}", left.contents);
    assert!(!left.contents.contains("Ctrl-C gives up"), "{}", left.contents);
    // When so many steps are over is seen by the file.
    let screen = Screen::start(PROGRAM, &["profile", "--steps", "3", "--pid", &target.pid()], &tall);
    screen.wait_text(&line("asking the job (up to 12 s)"));
    screen.wait_text(&line("the job writes its trace (2 s)"));
    assert_eq!(screen.left().code, 0);
}
