//! `diagnose` for people: what it prints into a pipe, how much of it, in one line, and when it stops.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::outcome::{finish, refused};
use crate::process::{PROGRAM, Target, recording, signal, text, trainmon, with_environment};

/// What it prints about a recording of the repository.
fn printed(name: &str, more: &[&str]) -> String {
    let file = recording(name);
    let output = finish(trainmon(&[&["diagnose", "--replay", &file], more].concat()));
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    text(&output.stdout)
}

#[test]
fn the_answer_comes_first_and_the_evidence_where_it_is_asked_for() {
    let brief = printed("file-lock.tmz", &[]);
    let first: Vec<_> = brief.lines().take(8).collect();
    assert!(first[0].starts_with("IO · ") && first[0].ends_with("% sure)"), "{brief}");
    assert!(first.iter().any(|line| line.starts_with("▶ ")), "{brief}");
    assert!(brief.lines().count() < 40 && !brief.contains("Evidence"), "{brief}");
    let last = brief.lines().last().unwrap();
    assert_eq!(last, "more: trainmon diagnose --full, trainmon explain io/lock");
    let full = printed("file-lock.tmz", &["--full"]);
    for title in ["What to do", "Evidence", "more: trainmon explain io/lock", "used"] {
        assert!(full.contains(title), "{title}: {full}");
    }
    for page in [brief, full] {
        assert!(!page.contains('\u{1b}') && page.lines().all(|line| line.chars().count() <= 80), "{page}");
    }
}

#[test]
fn one_line_names_the_cause_and_what_to_do() {
    let line = printed("file-lock.tmz", &["--short"]);
    assert!(line.starts_with("IO · ") && line.contains("% sure) → ") && line.lines().count() == 1, "{line}");
    let healthy = printed("compute-bound-run-ahead.tmz", &["--short"]);
    assert!(healthy.starts_with("GPU · ") && !healthy.contains('→'), "{healthy}");
}

#[test]
fn what_excludes_each_other_is_refused() {
    for options in [["--short", "--json"], ["--full", "--json"], ["--full", "--short"]] {
        refused(trainmon(&[&["diagnose", "-p", "1"], &options[..]].concat()), 2, &options);
    }
    refused(trainmon(&["diagnose", "--until-sure", "--replay", "x.tmz"]), 2, &["--until-sure", "--replay"]);
}

#[test]
fn until_sure_ends_with_the_first_sure_verdict_or_with_the_duration() {
    let watch = |target: &Target, duration: &str| {
        let began = Instant::now();
        let pid = target.pid();
        let arguments = ["diagnose", "--short", "--until-sure", "-i", "200ms", "--duration", duration, "--pid", &pid];
        let output = finish(trainmon(&arguments));
        assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
        (text(&output.stdout), began.elapsed())
    };
    let stopped = Target::sleeping();
    signal(stopped.id(), Signal::STOP);
    let (line, took) = watch(&stopped, "60s");
    assert!(line.starts_with("NOT TRAINING · stopped") && line.contains("% sure)"), "{line}");
    assert!(took > Duration::from_secs(3), "{took:?}");
    // A process that does not train is never surely anything else.
    let (line, took) = watch(&Target::sleeping(), "4s");
    assert!(line.starts_with("UNKNOWN") && took > Duration::from_secs(4), "{took:?}: {line}");
}

/// The program where another user may execute it, and as that user.
fn as_other(folder: &Path, arguments: &[&str]) -> (PathBuf, Command) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o755)).unwrap();
    let program = folder.join("trainmon");
    assert!(Command::new("cp").arg(PROGRAM).arg(&program).status().unwrap().success());
    let mut command = with_environment(Command::new(&program), arguments);
    command.uid(65534).gid(65534);
    (program, command)
}

#[test]
fn the_job_of_another_user_is_judged_and_the_command_that_shows_all_is_named() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("left out: only root can act for two users");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let job = Target::sleeping();
    let pid = job.pid();
    let arguments = ["diagnose", "--short", "-i", "200ms", "--duration", "1s", "--pid", &pid];
    let (program, command) = as_other(folder.path(), &arguments);
    let output = finish(command);
    assert!(output.status.success() && text(&output.stdout).starts_with("UNKNOWN"), "{output:?}");
    let said = format!(
        "trainmon: PID {pid} belongs to root: run `sudo {} diagnose --pid {pid}` to see everything\n",
        program.display()
    );
    assert_eq!(text(&output.stderr), said);
    // Who does not want it read is not told how.
    let (_, command) = as_other(folder.path(), &[&arguments[..], &["--no-ptrace"]].concat());
    assert!(finish(command).stderr.is_empty());
    let roots = finish(trainmon(&arguments));
    assert!(roots.stderr.is_empty(), "{roots:?}");
}
