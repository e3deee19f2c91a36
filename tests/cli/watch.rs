//! `watch`: events of a recording and of a job, how a job ended, a command at each event, and what it refuses.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::outcome::{finish, refused};
use crate::process::{Target, installed, recording, text, trainmon, until};

#[test]
fn the_events_of_a_recording_come_at_once() {
    let file = recording("too-few-workers-beside-a-visitor.tmz");
    let output = finish(trainmon(&["watch", "--replay", &file]));
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    let told = text(&output.stdout);
    let (events, summary) = told.split_once("\n\n").unwrap();
    let lines: Vec<&str> = events.lines().collect();
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(summary.starts_with("PID ") && summary.contains("\nWatched for "), "{summary}");
    assert!(summary.contains("Most costly: data loader · too few workers"), "{summary}");
    assert!(lines[0].contains("  attached: watching "), "{lines:?}");
    assert!(lines[1].contains("  bottleneck: DATA LOADER · too few workers"), "{lines:?}");
    let output = finish(trainmon(&["watch", "--json", "--replay", &file]));
    let events: Vec<Value> = text(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((&events[1]["kind"], &events[1]["state"]), (&"bottleneck".into(), &"begins".into()));
    assert_eq!(events[1]["details"]["cause"], "too-few-workers");
    let summary = &events[2];
    assert_eq!((events.len(), &summary["kind"], &summary["state"]), (3, &"summary".into(), &Value::Null));
    assert_eq!(summary["details"]["verdicts"][0]["cause"], "too-few-workers");
    assert!(summary["details"]["steps"].as_f64().unwrap() > 0.0 && summary["details"]["end"].is_null(), "{summary}");
    assert!(events[1]["time"].as_str().unwrap().starts_with("20") && events[1]["unix_ms"].is_i64());
}

#[test]
fn what_cannot_be_watched_is_one_line() {
    let file = recording("segmentation.tmz");
    refused(trainmon(&["watch", "--replay", "/nonexistent.tmz"]), 1, &["/nonexistent.tmz"]);
    refused(trainmon(&["watch", "--replay", "Cargo.toml"]), 1, &["not a recording"]);
    refused(trainmon(&["watch", "--replay", &file, "--pid", "1"]), 2, &["--pid"]);
    refused(trainmon(&["watch", "--replay", &file, "--exec", "true"]), 2, &["--exec"]);
    refused(trainmon(&["watch", "--all", "1"]), 2, &["--all", "--pid"]);
    refused(trainmon(&["watch", "--all", "-n", "3"]), 2, &["--iterations"]);
    refused(trainmon(&["watch", "1", "--slower", "much"]), 2, &["percentage"]);
    refused(trainmon(&["watch", "1", "--log", "a.csv"]), 2, &["--log"]);
    refused(trainmon(&["watch", "4194304"]), 3, &["4194304"]);
    // A cut recording gives what is before the cut, and says so.
    let folder = tempfile::tempdir().unwrap();
    let cut = folder.path().join("cut.tmz");
    let whole = fs::read(&file).unwrap();
    fs::write(&cut, &whole[..whole.len() * 2 / 3]).unwrap();
    let output = finish(trainmon(&["watch", "--replay", cut.to_str().unwrap()]));
    assert!(text(&output.stdout).contains("attached") && text(&output.stderr).contains("cut.tmz"), "{output:?}");
}

/// `watch` on a process, with a command at each event.
fn watch(target: &Target, command: &str) -> Command {
    trainmon(&["watch", "--no-stacks", "-i", "100ms", "--exec", command, &target.pid().to_string()])
}

#[test]
fn a_job_is_watched_to_its_end_and_each_event_runs_the_command() {
    let folder = tempfile::tempdir().unwrap();
    let told = folder.path().join("told");
    let command =
        r#"echo "$TRAINMON_EVENT|$TRAINMON_STATE|$TRAINMON_PID|$TRAINMON_TEXT" >> "$TOLD"; cat >> "$TOLD"; exit 3"#;
    let target = Target::sleeping();
    let pid = target.pid();
    let mut watch = watch(&target, command);
    let child = watch.env("TOLD", &told).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    until("the first event", || fs::read_to_string(&told).is_ok_and(|told| told.contains("attached")));
    drop(target);
    let output = crate::outcome::wait_for(child);
    assert!(output.status.success(), "{output:?}");
    let lines = text(&output.stdout);
    assert!(lines.lines().next().unwrap().ends_with("attached: watching sleep 600"), "{lines}");
    let (events, summary) = lines.split_once("\n\n").unwrap();
    assert!(events.lines().last().unwrap().contains("ended: the job has ended, after "), "{lines}");
    assert!(summary.starts_with(&format!("PID {pid}: sleep 600\nWatched for ")), "{summary}");
    let told = fs::read_to_string(&told).unwrap();
    assert!(told.starts_with(&format!("attached||{pid}|attached: watching sleep 600\n")), "{told}");
    assert!(told.contains(&format!("ended||{pid}|ended: the job has ended")), "{told}");
    assert!(told.contains(&format!("summary||{pid}|summary: Watched for ")), "{told}");
    let said = text(&output.stderr);
    assert_eq!(said.matches("the command failed").count(), 1, "once a minute: {said}");
}

/// A Python program that does this once it may go on. Its status is left to be read until it is dropped.
fn python(then: &str, stderr: Stdio) -> Option<Target> {
    let code = format!("import os, signal, sys\ndef main():\n    sys.stdin.read()\n    {then}\nmain()");
    let mut python = Command::new(installed("python3")?);
    Some(Target::spawn(python.args(["-c", &code]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(stderr)))
}

/// What `watch` prints of such a program, which goes on when the watching has begun.
fn watched_to_its_end(mut target: Target, options: &[&str]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let (out, pid) = (folder.path().join("out"), target.pid());
    let mut watch = trainmon(&[&["watch", "--no-stacks", "-i", "100ms", "-p", &pid], options].concat());
    let child = watch.stdout(fs::File::create(&out).unwrap()).stderr(Stdio::null()).spawn().unwrap();
    until("the watching has begun", || fs::read_to_string(&out).is_ok_and(|told| told.contains("attached")));
    drop(target.0.stdin.take());
    assert!(crate::outcome::wait_for(child).status.success());
    fs::read_to_string(&out).unwrap()
}

#[test]
fn an_exception_at_the_end_is_told_from_the_file_that_it_was_written_to() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("train.log");
    let then = "raise ValueError('bad image 17 at https://me:hunter2@host/x')";
    let Some(target) = python(then, fs::File::create(&log).unwrap().into()) else { return };
    let told = watched_to_its_end(target, &[]);
    let said = told.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("ended: the job has ended, after"), "{told}");
    assert!(said.contains("with exit code 1. Last traceback: ValueError: bad image 17"), "{told}");
    assert!(said.contains("Last traceback in ") && said.contains("train.log"), "{told}");
    assert!(said.contains("File \"<string>\", line 4, in main"), "{told}");
    assert!(!told.contains("hunter2"), "{told}");
}

#[test]
fn a_signal_that_killed_the_job_is_told() {
    let Some(target) = python("os.kill(os.getpid(), signal.SIGKILL)", Stdio::null()) else { return };
    let told = watched_to_its_end(target, &["--json"]);
    let events: Vec<Value> = told.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let [.., ended, summary] = events.as_slice() else { panic!("{told}") };
    assert_eq!((&ended["kind"], &summary["kind"]), (&"ended".into(), &"summary".into()));
    assert_eq!((&ended["details"]["signal"], &ended["details"]["exit_code"]), (&9.into(), &Value::Null));
    assert_eq!(summary["details"]["end"]["signal"], 9);
    assert!(ended["text"].as_str().unwrap().ends_with(": killed by SIGKILL"), "{ended}");
    assert!(summary["text"].as_str().unwrap().contains(" It was killed by SIGKILL at "), "{summary}");
}

#[test]
fn a_command_that_hangs_forks_or_prints_holds_nothing_up() {
    // Megabytes on both streams, a child in the background, and an end that does not come.
    let command = "yes | head -c 10000000; sleep 601.25 & sleep 601.25";
    let target = Target::sleeping();
    let mut child = watch(&target, command).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut lines = String::new();
    out.read_line(&mut lines).unwrap();
    std::thread::sleep(Duration::from_secs(1));
    let begun = Instant::now();
    let pid = rustix::process::Pid::from_raw(child.id() as i32).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    let status = child.wait().unwrap();
    assert!(status.success() && begun.elapsed() < Duration::from_secs(8), "{status}, {:?}", begun.elapsed());
    out.read_to_string(&mut lines).unwrap();
    let (events, summary) = lines.split_once("\n\n").unwrap();
    assert_eq!(events.lines().count(), 1, "only the events: {lines}");
    assert!(summary.contains("It had not ended by "), "SIGTERM ends it with the summary, too: {summary}");
    let is_left = || {
        let mut list = Command::new("ps");
        list.args(["-eo", "args="]);
        text(&finish(list).stdout).lines().any(|line| line == "sleep 601.25")
    };
    until("its whole group is ended", || !is_left());
}

#[test]
fn under_sudo_the_command_runs_as_the_caller() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let told = folder.path().join("told");
    fs::write(&told, "").unwrap();
    let open = |path: &std::path::Path, mode| {
        fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
    };
    open(folder.path(), 0o755);
    open(&told, 0o666);
    let target = Target::sleeping();
    let mut watch = watch(&target, "id -u >> $TOLD; id -G >> $TOLD");
    let watch = watch.env("TOLD", &told).env("SUDO_UID", "65534").env("SUDO_GID", "65534");
    let child = watch.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    until("the command has run", || fs::read_to_string(&told).is_ok_and(|told| told.lines().count() >= 2));
    drop(target);
    crate::outcome::wait_for(child);
    let told = fs::read_to_string(&told).unwrap();
    assert!(told.lines().all(|line| line == "65534"), "no group of root is left: {told}");
}

#[test]
fn the_reader_of_the_events_may_leave() {
    let target = Target::sleeping();
    let line = format!("{} watch --no-stacks -i 100ms {} | head -1", crate::process::PROGRAM, target.pid());
    let mut shell = Command::new("bash");
    shell.args(["-c", &format!("{line}; echo ${{PIPESTATUS[0]}}")]).stdout(Stdio::piped()).stderr(Stdio::null());
    let child = shell.spawn().unwrap();
    std::thread::sleep(Duration::from_secs(1));
    drop(target);
    let output = text(&crate::outcome::wait_for(child).stdout);
    assert!(output.contains("attached: ") && output.ends_with("\n0\n"), "{output}");
}

#[test]
fn a_duration_ends_the_watching_of_all_jobs() {
    let output = finish(trainmon(&["watch", "--all", "--duration", "1s", "--no-stacks"]));
    assert!(output.status.success(), "{output:?}");
    assert!(text(&output.stderr).contains("watching all training processes"), "{output:?}");
}
