//! What people type at their first try, who know other programs: it does what they mean, or one line has the command that does.

use std::process::Output;

use crate::outcome::{finish, refused};
use crate::process::{recording, text, trainmon};

fn run(arguments: &[&str]) -> Output {
    finish(trainmon(arguments))
}

/// Each call with a part of the one line that it prints.
fn are_refused(calls: &[(&str, &str)]) {
    for (call, part) in calls {
        refused(trainmon(&call.split(' ').collect::<Vec<_>>()), 2, &[part]);
    }
}

#[test]
fn a_program_in_place_of_a_command_is_started() {
    for before in [&["--log", "-", "-i", "100ms"][..], &["-i", "100ms", "--log", "-", "--"]] {
        let output = run(&[before, &["sh", "-c", "exit 7", "--pid"]].concat());
        assert_eq!(output.status.code(), Some(7), "{before:?}: {}", text(&output.stderr));
    }
    // `--version` is for the program.
    let version = run(&["--log", "-", "env", "--version"]);
    assert!(text(&version.stdout).contains("env ("), "{}", text(&version.stdout));
    // A launcher that is not installed, and a script that cannot be started.
    refused(trainmon(&["--log", "-", "torchrun", "train.py"]), 1, &["cannot start torchrun: no such file"]);
    let script = "cannot start train.py (a script: trainmon run -- python train.py): no such file";
    refused(trainmon(&["run", "--log", "-", "train.py"]), 1, &[script]);
}

#[test]
fn a_program_is_not_started_where_something_else_is_more_likely_meant() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["recrod", "kill", "list"] {
        let program = folder.path().join(name);
        std::fs::write(&program, "#!/bin/sh\ntouch \"$0.started\"\n").unwrap();
        std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let mut command = trainmon(&["--log", "-", name, "-9", "1234"]);
        command.env("PATH", folder.path());
        refused(
            command,
            2,
            &[if name == "recrod" { "did you mean trainmon record -9 1234?" } else { "is not a command" }],
        );
        assert!(!folder.path().join(format!("{name}.started")).exists(), "{name}");
    }
}

#[test]
fn other_names_of_the_screen_attach() {
    for name in ["attach", "top", "monitor"] {
        refused(trainmon(&["--log", "-", name, "4194303"]), 3, &["no process 4194303"]);
        refused(trainmon(&[name, "--pid", "4194303", "--log", "-"]), 3, &["no process 4194303"]);
    }
    refused(trainmon(&[&recording("balanced.tmz")]), 2, &["the screen needs a terminal"]);
}

#[test]
fn other_names_of_commands_are_told() {
    are_refused(&[
        ("list", "`list` is not a command; to list training processes and pick one: trainmon"),
        ("ps", "to list training processes and pick one: trainmon"),
        ("why 1234", "to print what holds a job back: trainmon diagnose 1234"),
        ("why", "trainmon diagnose PID"),
        ("stat -p 1234", "trainmon diagnose -p 1234"),
        ("dump --pid 1234", "trainmon 1234 --page stacks"),
        ("gpu 1234", "trainmon 1234 --page gpu"),
        ("save 1234", "trainmon record 1234 -o run.tmz"),
        ("save 1234 -o x.tmz", "trainmon record 1234 -o x.tmz"),
        ("diff a.tmz b.tmz", "trainmon compare a.tmz b.tmz"),
        ("start python train.py", "trainmon run -- python train.py"),
        ("version", "trainmon --version"),
        ("train.py --lr 0.1", "trainmon run -- python train.py --lr 0.1"),
        ("run.csv", "trainmon report run.csv -o run.html"),
        ("trace.json.gz", "trainmon diagnose trace.json.gz"),
        ("--demo", "`demo` is a command: trainmon demo"),
        ("--replay run.tmz", "`replay` is a command: trainmon replay run.tmz"),
        ("coffee", "`coffee` is neither a command, a program nor a PID"),
    ]);
    refused(trainmon(&["python train.py"]), 2, &["is one word; without quotes: trainmon run -- python train.py"]);
}

#[test]
fn slips_of_the_fingers_are_told() {
    are_refused(&[
        ("exlpain io", "no command is called `exlpain`: did you mean trainmon explain io?"),
        ("recrod 1234", "did you mean trainmon record 1234?"),
        ("pyhton train.py", "no program is called `pyhton`: did you mean trainmon run -- python train.py?"),
        ("diagnose 1234 --jsno", "unexpected argument `--jsno`: did you mean --json?"),
    ]);
}

#[test]
fn options_of_other_programs_are_told() {
    are_refused(&[
        ("--headless", "`--headless` is not an option; for a log without a screen: trainmon PID --log run.csv"),
        ("--headless 1234", "trainmon 1234 --log run.csv; for one verdict: trainmon diagnose 1234"),
        ("-i 5 -b 77", "trainmon 77 --log run.csv"),
        ("--csv out.csv 1234", "trainmon 1234 --log out.csv"),
        ("--once 1234", "trainmon diagnose 1234"),
        ("-d 10 1234", "--interval 1s"),
        ("--loop=1", "--interval 1s"),
        ("--rate 100 --pid 3", "--interval 1s"),
        ("-t 5 1234", "--duration 20s"),
        ("--color=never", "--no-color"),
        ("--native --pid 7", "leave it out"),
        ("--json 1234", "is an option of diagnose, profile, watch"),
        ("--json 1234", "trainmon diagnose --json 1234"),
        ("demo --json", "is an option of diagnose, profile, watch"),
        ("--listen 9845", "trainmon export --listen 9845"),
        ("--sort-key CPU", "trainmon PID --page processes"),
    ]);
}

#[test]
fn what_is_missing_or_too_much_is_told_with_the_whole_command() {
    are_refused(&[
        ("report run.tmz", "missing the file to write, as in: trainmon report run.tmz -o run.html"),
        ("record 1234", "missing the file to write, as in: trainmon record 1234 -o run.tmz"),
        ("record --pid 1234", "trainmon record --pid 1234 -o run.tmz"),
        ("report", "missing FILE and the file to write, as in: trainmon report run.tmz -o run.html"),
        ("compare a.tmz", "missing AFTER, as in: trainmon compare before.tmz after.tmz"),
        ("fleet", "trainmon fleet --prometheus http://prom:9090"),
        ("report run.tmz run.html", "did you mean trainmon report run.tmz -o run.html?"),
        ("demo cpu", "did you mean trainmon demo --bottleneck cpu?"),
        ("fleet http://prom:9090", "did you mean trainmon fleet --prometheus http://prom:9090?"),
        ("1234 5678", "one PID at a time: trainmon 1234; `o` on the screen attaches to more"),
        ("-p 1234 -p 5678", "one PID at a time: trainmon 1234"),
        ("1234 --pid 5678", "one PID at a time"),
        (
            "diagnose 1234 --against run.tmz",
            "--against is for the screen: to compare two recordings, use trainmon compare",
        ),
        ("1234 --log - --against run.tmz", "--against is for the screen"),
        ("diagnose 1234 5678", "one PID at a time: trainmon diagnose 1234"),
        ("diagnose run.tmz", "`run.tmz` is a recording: trainmon diagnose --replay run.tmz"),
        ("watch run.tmz", "trainmon watch --replay run.tmz"),
    ]);
}

#[test]
fn a_cause_is_explained_by_what_people_call_it() {
    let explained = |arguments: &[&str]| {
        let output = run(&[&["explain"], arguments].concat());
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    let page = explained(&["too-few-workers"]);
    assert_eq!(explained(&["too", "few", "workers"]), page);
    assert_eq!(explained(&["data loader · too few workers"]), page);
    assert!(explained(&["starvation"]).starts_with("data-loader: batches are not ready in time\n"));
    assert!(explained(&["thermal"]).starts_with("gpu/throttled: "));
    refused(trainmon(&["explain", "lcok"]), 2, &["did you mean lock?"]);
}
