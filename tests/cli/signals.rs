//! Signals without a terminal: what `run` passes on, what stays ignored, the file-size limit, readers that stall, streams
//! that are full or closed.

use std::fs::{self, File};
use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::Signal;

use crate::outcome::{finish, wait_for};
use crate::process::{PROGRAM, Target, children, pause, rows_of, signal, text, trainmon, until};

/// Appends the name of each signal that it gets to `heard`, and ends with 9 once there is a file `done`, or the folder has gone.
const LISTENS: &str = "for s in TERM HUP USR1 USR2 INT; do trap \"echo $s >> heard\" $s; done; echo ready > ready; \
                       while [ -e ready ] && [ ! -e done ]; do sleep 0.05; done; exit 9";

/// `trainmon run --log run.csv` of a shell script in this folder.
fn run_script(folder: &Path, script: &str) -> Command {
    let mut command = trainmon(&["run", "-i", "200ms", "--log", "run.csv", "--", "sh", "-c", script]);
    command.current_dir(folder).stdout(Stdio::null()).stderr(Stdio::piped());
    command
}

fn heard(folder: &Path) -> String {
    fs::read_to_string(folder.join("heard")).unwrap_or_default()
}

fn wait_for_file(path: &Path) {
    until(&format!("{} appears", path.display()), || path.exists());
}

/// Waits until a process handles this signal.
fn wait_for_handler(pid: u32, of: Signal) {
    let handled = || {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:").map(str::trim)).unwrap_or("0");
        u64::from_str_radix(mask, 16).unwrap() & 1 << (of.as_raw() - 1) != 0
    };
    until("it handles the signal", handled);
}

/// Whether lines in the form of `/proc/PID/status` say that a signal is ignored.
fn ignores(status: &str, which: Signal) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap();
    u64::from_str_radix(mask.trim(), 16).unwrap() & 1 << (which.as_raw() - 1) != 0
}

#[test]
fn run_forwards_each_signal_once_and_logs_until_the_program_ends() {
    let folder = tempfile::tempdir().unwrap();
    let child = run_script(folder.path(), LISTENS).spawn().unwrap();
    wait_for_file(&folder.path().join("ready"));
    let mut expected = String::new();
    for (name, number) in [
        ("TERM", Signal::TERM),
        ("HUP", Signal::HUP),
        ("USR1", Signal::USR1),
        ("USR2", Signal::USR2),
        // Sent by a process, not by a terminal.
        ("INT", Signal::INT),
    ] {
        signal(child.id(), number);
        expected += &format!("{name}\n");
        until(name, || heard(folder.path()) == expected);
    }
    let rows = || rows_so_far(&folder.path().join("run.csv"));
    let before = rows();
    until("it goes on logging", || rows() > before + 1);
    File::create(folder.path().join("done")).unwrap();
    let output = wait_for(child);
    assert_eq!(output.status.code(), Some(9), "{}", text(&output.stderr));
    assert_eq!(heard(folder.path()), expected);
    rows_of(&folder.path().join("run.csv"));
    assert!(text(&output.stderr).contains("the job has ended"), "{}", text(&output.stderr));
}

fn rows_so_far(path: &Path) -> usize {
    fs::read(path).unwrap_or_default().iter().filter(|byte| **byte == b'\n').count()
}

#[test]
fn run_gives_the_status_of_a_program_that_a_forwarded_signal_ends() {
    for number in [Signal::TERM, Signal::HUP, Signal::INT, Signal::USR1] {
        let folder = tempfile::tempdir().unwrap();
        let child = run_script(folder.path(), "echo ready > ready; exec sleep 60").spawn().unwrap();
        wait_for_file(&folder.path().join("ready"));
        signal(child.id(), number);
        let output = wait_for(child);
        assert_eq!(output.status.code(), Some(128 + number.as_raw()), "{}", text(&output.stderr));
    }
}

#[test]
fn run_waits_for_the_program_when_its_time_is_over_and_still_forwards() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = trainmon(&["run", "-i", "200ms", "-n", "2", "--log", "run.csv", "--", "sh", "-c", LISTENS]);
    let child = command.current_dir(folder.path()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    wait_for_file(&folder.path().join("ready"));
    until("the last row", || rows_so_far(&folder.path().join("run.csv")) == 3);
    pause(500);
    signal(child.id(), Signal::TERM);
    until("TERM", || heard(folder.path()) == "TERM\n");
    File::create(folder.path().join("done")).unwrap();
    assert_eq!(wait_for(child).status.code(), Some(9));
    assert_eq!(rows_of(&folder.path().join("run.csv")).len(), 2);
}

#[test]
fn the_program_outlives_a_killed_trainmon() {
    let folder = tempfile::tempdir().unwrap();
    let script = "echo ready > ready; while [ -e ready ] && [ ! -e done ]; do sleep 0.05; done; echo bye > bye";
    let mut child = run_script(folder.path(), script).stderr(Stdio::null()).spawn().unwrap();
    wait_for_file(&folder.path().join("ready"));
    child.kill().unwrap();
    child.wait().unwrap();
    File::create(folder.path().join("done")).unwrap();
    wait_for_file(&folder.path().join("bye"));
}

#[test]
fn an_unwritable_stream_does_not_replace_the_programs_status() {
    for redirection in ["2>/dev/full", "2>&-", ">&- 2>&-", "<&- >&- 2>&-", ">/dev/full 2>/dev/full"] {
        for log in ["run.csv", "-"] {
            let folder = tempfile::tempdir().unwrap();
            let script =
                format!("exec {PROGRAM} run -i 200ms --log {log} -- sh -c 'sleep 0.6; exit 7' {redirection}");
            let mut command = Command::new("sh");
            command.args(["-c", &script]).current_dir(folder.path()).env("HOME", "/nonexistent");
            let output = finish(command);
            assert_eq!(output.status.code(), Some(7), "{redirection} {log}: {output:?}");
            if log != "-" {
                assert!(!rows_of(&folder.path().join(log)).is_empty(), "{redirection}");
            }
        }
    }
}

#[test]
fn a_log_that_cannot_be_written_does_not_replace_the_programs_status() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("there.csv"), "").unwrap();
    for (log, why) in [("there.csv", "the file exists"), ("no/such.csv", "no such folder"), ("/dev/full", "is full")]
    {
        let mut command = trainmon(&["run", "-i", "200ms", "--log", log, "--", "sh", "-c", "sleep 0.6; exit 7"]);
        command.current_dir(folder.path());
        let output = finish(command);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(7), "{log}: {said}");
        assert!(said.contains(why) && said.lines().count() == 1, "{log}: {said}");
    }
}

#[test]
fn files_do_not_land_on_closed_standard_streams() {
    let target = Target::sleeping();
    let folder = tempfile::tempdir().unwrap();
    let pid = target.pid();
    for (number, command) in [
        format!("--pid {pid} -i 200ms -n 2 --log a.csv"),
        format!("record --pid {pid} -i 200ms -n 2 -o a.tmz"),
        format!("diagnose --pid {pid} -i 200ms -n 2"),
        "--version".to_owned(),
    ]
    .iter()
    .enumerate()
    {
        let script = format!("exec {PROGRAM} {command} <&- >&- 2>&-");
        let mut command = Command::new("sh");
        command.args(["-c", &script]).current_dir(folder.path()).env("HOME", "/nonexistent");
        let output = finish(command);
        assert_eq!(output.status.code(), Some(0), "{number}: {output:?}");
    }
    assert_eq!(rows_of(&folder.path().join("a.csv")).len(), 2);
    let recording = folder.path().join("a.tmz");
    assert!(finish(trainmon(&["diagnose", "--replay", recording.to_str().unwrap()])).status.success());
}

#[test]
fn signals_that_were_ignored_at_the_start_stay_ignored() {
    let target = Target::sleeping();
    let folder = tempfile::tempdir().unwrap();
    for command in
        [format!("--pid {} -i 200ms --log a.csv", target.pid()), format!("record --pid {} -o a.tmz", target.pid())]
    {
        let script = format!("trap '' HUP INT QUIT; exec {PROGRAM} {command}");
        let mut child = Command::new("sh")
            .args(["-c", &script])
            .current_dir(folder.path())
            .env("HOME", "/nonexistent")
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        wait_for_handler(child.id(), Signal::TERM);
        for number in [Signal::HUP, Signal::INT, Signal::QUIT] {
            signal(child.id(), number);
        }
        pause(700);
        assert!(child.try_wait().unwrap().is_none(), "{command}");
        signal(child.id(), Signal::TERM);
        assert_eq!(wait_for(child).status.code(), Some(0), "{command}");
    }
}

#[test]
fn a_program_inherits_what_is_ignored_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    for trap in ["", "trap '' HUP;"] {
        let script = format!("{trap} exec {PROGRAM} run --log - -- sh -c 'cat /proc/self/status > status'");
        let mut command = Command::new("sh");
        command.args(["-c", &script]).current_dir(folder.path()).env("HOME", "/nonexistent");
        assert!(finish(command).status.success());
        let status = fs::read_to_string(folder.path().join("status")).unwrap();
        assert_eq!(ignores(&status, Signal::HUP), !trap.is_empty());
        // SIGXFSZ is handled here, not ignored; SIGPIPE is ignored by Rust's runtime.
        assert!(!ignores(&status, Signal::XFSZ) && !ignores(&status, Signal::PIPE), "{status}");
    }
}

#[test]
fn the_file_size_limit_is_an_error_of_one_line() {
    let target = Target::sleeping();
    let folder = tempfile::tempdir().unwrap();
    for (command, kib) in [
        (format!("--pid {} -i 100ms --log a.csv", target.pid()), 3),
        (format!("record --pid {} -i 100ms -o a.tmz", target.pid()), 8),
    ] {
        let script = format!("ulimit -f {kib}; exec {PROGRAM} {command}");
        let mut limited = Command::new("bash");
        limited.args(["-c", &script]).current_dir(folder.path()).env("HOME", "/nonexistent");
        let output = finish(limited);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{command}: {:?} {said}", output.status);
        assert!(said.contains("the file-size limit is reached") && said.lines().count() == 1, "{said}");
    }
    // The limit tears a row as a full disk does: that row is cut back.
    let log = folder.path().join("a.csv");
    assert!(rows_of(&log).len() > 2 && fs::metadata(&log).unwrap().len() < 3 * 1024);
    let recording = folder.path().join("a.tmz");
    let output = finish(trainmon(&["diagnose", "--replay", recording.to_str().unwrap()]));
    // It was cut off, but no sample is broken.
    let said = text(&output.stderr);
    assert!(output.status.success() && said.lines().count() == 1 && said.contains("cut off after "), "{said}");
}

/// A pipe that is full, and whose reader does not read.
fn full_pipe() -> (OwnedFd, OwnedFd) {
    let (reader, writer) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).unwrap();
    let mut file = File::from(writer.try_clone().unwrap());
    rustix::io::ioctl_fionbio(&file, true).unwrap();
    while file.write(&[b'x'; 4096]).is_ok() {}
    rustix::io::ioctl_fionbio(&file, false).unwrap();
    (reader, writer)
}

#[test]
fn signals_are_heard_while_a_reader_stalls() {
    let target = Target::sleeping();
    let folder = tempfile::tempdir().unwrap();
    let pid = target.pid();
    for number in [Signal::TERM, Signal::INT] {
        for (arguments, out_stalls) in [
            (vec!["--pid", &pid, "-i", "100ms", "--log", "-"], true),
            (vec!["record", "--pid", &pid, "-i", "100ms", "-o", "-"], true),
            (vec!["diagnose", "--pid", &pid, "-i", "100ms", "--duration", "300ms", "--json"], true),
            // Its last line goes to standard error.
            (vec!["record", "--pid", &pid, "-i", "100ms", "-n", "3", "--force", "-o", "a.tmz"], false),
        ] {
            let (_reader, writer) = full_pipe();
            let mut command = trainmon(&arguments);
            command.current_dir(folder.path()).stdout(Stdio::null()).stderr(Stdio::null());
            if out_stalls {
                command.stdout(writer);
            } else {
                command.stderr(writer);
            }
            let mut child = command.spawn().unwrap();
            drop(command);
            if arguments[0] != "record" || !out_stalls {
                wait_for_handler(child.id(), number);
            }
            pause(if arguments[0] == "diagnose" { 3000 } else { 1500 });
            assert!(child.try_wait().unwrap().is_none(), "{arguments:?} does not wait for its reader");
            signal(child.id(), number);
            let status = wait_for(child).status;
            assert_eq!(status.signal(), Some(number.as_raw()), "{arguments:?}: {status}");
        }
    }
}

#[test]
fn run_ends_with_the_program_while_the_reader_of_its_log_stalls() {
    let folder = tempfile::tempdir().unwrap();
    let (_reader, writer) = full_pipe();
    let script = "trap 'exit 9' TERM; echo ready > ready; while [ -e ready ]; do sleep 0.05; done";
    let mut command = trainmon(&["run", "-i", "100ms", "--log", "-", "--", "sh", "-c", script]);
    // The program does not write to the pipe.
    let child = command.current_dir(folder.path()).stdout(writer).stderr(Stdio::piped()).spawn().unwrap();
    drop(command);
    wait_for_file(&folder.path().join("ready"));
    pause(500);
    signal(child.id(), Signal::TERM);
    let output = wait_for(child);
    assert_eq!(output.status.code(), Some(9), "{}", text(&output.stderr));
}

/// `trainmon run` as process 1 of a PID namespace, or why there is none.
fn as_process_1(folder: &Path, script: &str) -> Option<Command> {
    let rights: &[&str] = if rustix::process::geteuid().is_root() { &[] } else { &["--user", "--map-root-user"] };
    let unshare = || {
        let mut command = Command::new("unshare");
        command.args(rights).args(["--pid", "--fork", "--mount-proc", "--kill-child"]).current_dir(folder);
        command.stdin(Stdio::null()).env("HOME", "/nonexistent");
        command
    };
    let tried = unshare().arg("true").output();
    if !tried.as_ref().is_ok_and(|output| output.status.success()) {
        println!("skipped: no PID namespace of its own: {tried:?}");
        return None;
    }
    let mut command = unshare();
    command.args([PROGRAM, "run", "-i", "200ms", "--log", "run.csv", "--", "sh", "-c", script]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    Some(command)
}

#[test]
fn as_process_1_it_reaps_orphans_and_passes_the_status_on() {
    let folder = tempfile::tempdir().unwrap();
    // Ten orphans end. None may be left as a zombie; there were some to reap.
    let script = "for i in 0 1 2 3 4 5 6 7 8 9; do (sh -c 'echo $$ >> orphans; sleep 0.2' &); done; \
                  until [ -e orphans ] && [ $(wc -l < orphans) = 10 ]; do sleep 0.05; done; \
                  for i in $(seq 100); do sleep 0.1; left=0; for p in $(cat orphans); do \
                  [ -e /proc/$p ] && left=1; done; [ $left = 0 ] && exit 40; done; exit 41";
    let Some(command) = as_process_1(folder.path(), script) else { return };
    let output = finish(command);
    assert_eq!(output.status.code(), Some(40), "{}", text(&output.stderr));
    rows_of(&folder.path().join("run.csv"));
}

#[test]
fn as_process_1_it_forwards_signals_once() {
    let folder = tempfile::tempdir().unwrap();
    let Some(mut command) = as_process_1(folder.path(), LISTENS) else { return };
    let child = command.spawn().unwrap();
    wait_for_file(&folder.path().join("ready"));
    let init = children(child.id())[0];
    for (name, number) in [("TERM\n", Signal::TERM), ("INT\n", Signal::INT), ("HUP\n", Signal::HUP)] {
        signal(init, number);
        until(name, || heard(folder.path()).ends_with(name));
    }
    File::create(folder.path().join("done")).unwrap();
    assert_eq!(wait_for(child).status.code(), Some(9));
    assert_eq!(heard(folder.path()), "TERM\nINT\nHUP\n");
}

#[test]
fn as_process_1_it_keeps_the_program_when_the_monitor_crashes() {
    let folder = tempfile::tempdir().unwrap();
    let script = "kill -KILL $PPID; until grep -q '^PPid:.1$' /proc/$$/status; do sleep 0.05; done; sleep 0.3; \
                  echo still > here; exit 3";
    let Some(command) = as_process_1(folder.path(), script) else { return };
    let output = finish(command);
    let said = text(&output.stderr);
    assert!(folder.path().join("here").exists(), "the program was ended: {said}");
    assert_eq!(output.status.code(), Some(128 + Signal::KILL.as_raw()), "{said}");
    assert!(said.contains("the monitor was killed by signal 9"), "{said}");
}
