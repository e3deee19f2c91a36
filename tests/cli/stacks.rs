//! A py-spy that lies, hangs, crashes or may not attach, against the real program: the verdict comes from the rest, says
//! what was not seen and how to fix that, and nothing of it reaches the terminal raw.
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;

use crate::outcome::{finish, not_seen, verdict};
use crate::process::{Target, fake_py_spy, installed, signal, state, trainmon, until};

/// A folder with a stand-in for py-spy that behaves as `mode` says (see `support/fake_py_spy.sh`), and what it writes.
fn stand_in(mode: &str, document: &[u8]) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join(mode);
    fs::create_dir(&place).unwrap();
    fs::write(place.join("document"), document).unwrap();
    let program = fake_py_spy(&place);
    (folder, program)
}

/// Watches for three seconds. Tests of several cases watch for all of them at once.
fn diagnose(target: &Target, py_spy: &Path, more: &[&str]) -> Command {
    let mut command =
        trainmon(&["diagnose", "--pid", &target.pid(), "--duration", "3s", "--interval", "500ms", "--py-spy"]);
    command.arg(py_spy).args(more);
    command
}

/// A window of one main thread that stands in one function all the time.
fn document(target: &Target, function: &str, file: &str) -> Vec<u8> {
    let pid = target.pid();
    format!("thread ({pid}): MainThread;main (/home/me/train.py:3);{function} ({file}:9) 40\n").into_bytes()
}

#[test]
fn hostile_names_of_py_spy_never_reach_the_terminal() {
    let target = Target::sleeping();
    let long = "a".repeat(10_000);
    let name = format!("f\u{1b}[2J\u{7}\n\u{202e}{long}");
    let (_folder, py_spy) = stand_in("document", &document(&target, &name, "/home/me/\u{1b}]0;x\u{7}.py"));
    let (output, printed) = thread::scope(|scope| {
        let printed = scope.spawn(|| finish(diagnose(&target, &py_spy, &[])));
        (finish(diagnose(&target, &py_spy, &["--json"])), printed.join().unwrap())
    });
    let verdict: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(verdict["seen"]["stacks"], "ok", "{verdict:#}");
    assert_eq!(verdict["main_thread"]["activities"]["python"], 1.0);
    assert!(verdict["main_thread"]["hottest"][0]["function"].as_str().unwrap().chars().count() <= 256);
    assert!(output.status.success() && printed.status.success());
    for output in [output.stdout, printed.stdout] {
        let text = String::from_utf8(output).unwrap();
        let raw = text.chars().find(|c| c.is_control() && *c != '\n' || *c == '\u{202e}');
        assert_eq!(raw, None);
        assert!(text.lines().all(|line| line.len() < 2_000));
    }
}

#[test]
fn a_py_spy_that_may_not_attach_is_told_with_its_fix() {
    let target = Target::sleeping();
    let words = b"Permission Denied: Try running again with elevated permissions by going 'sudo env ...'\n";
    let (_folder, py_spy) = stand_in("words", words);
    let verdict = verdict(diagnose(&target, &py_spy, &["--json"]));
    assert_eq!(verdict["seen"]["stacks"], "denied");
    let entry = not_seen(&verdict, "stacks");
    assert!(entry["why"].as_str().unwrap().contains("memory of process"), "{entry}");
    assert_ne!(entry["fix"], Value::Null);
    assert_eq!(verdict["main_thread"], Value::Null);
}

#[test]
fn a_py_spy_that_crashes_or_writes_nonsense_leaves_a_verdict_from_the_rest() {
    let case = |mode: &str, written: &[u8]| {
        let target = Target::sleeping();
        let (_folder, py_spy) = stand_in(mode, written);
        let verdict = verdict(diagnose(&target, &py_spy, &["--json"]));
        assert_eq!(verdict["seen"]["stacks"], "absent", "{mode}: {verdict:#}");
        assert!(!not_seen(&verdict, "stacks")["why"].as_str().unwrap().is_empty(), "{mode}");
    };
    thread::scope(|scope| {
        for (mode, written) in
            [("crash", &b""[..]), ("document", b"{\"profiles\": [1, 2"), ("nothing", b""), ("flood", b"")]
        {
            scope.spawn(move || case(mode, written));
        }
    });
}

#[test]
fn a_py_spy_that_hangs_holds_nothing_up_and_does_not_outlive_us() {
    let target = Target::sleeping();
    let (folder, py_spy) = stand_in("hang", b"");
    let began = Instant::now();
    let verdict = verdict(diagnose(&target, &py_spy, &["--json"]));
    assert!(began.elapsed() < Duration::from_secs(8), "{:?}", began.elapsed());
    assert_eq!(verdict["main_thread"], Value::Null);
    let pid = fs::read_to_string(folder.path().join("hang/pid")).unwrap();
    assert!(!Path::new(&format!("/proc/{}", pid.trim())).exists(), "py-spy lives on as {pid}");
}

#[test]
fn without_stacks_py_spy_is_never_started() {
    let target = Target::sleeping();
    let (folder, py_spy) = stand_in("document", &document(&target, "f", "/home/me/t.py"));
    thread::scope(|scope| {
        for option in ["--no-stacks", "--no-ptrace"] {
            let (target, py_spy) = (&target, &py_spy);
            scope.spawn(move || {
                let verdict = verdict(diagnose(target, py_spy, &["--json", option]));
                assert_eq!(verdict["seen"]["stacks"], "absent");
                assert!(not_seen(&verdict, "stacks")["why"].as_str().unwrap().contains(option));
            });
        }
    });
    assert!(!folder.path().join("document/pid").exists());
}

/// The number that the stand-in left in a file, once it is there.
fn left(file: &Path) -> u32 {
    let read = || fs::read_to_string(file).ok()?.trim().parse().ok();
    until(&format!("{} is there", file.display()), || read().is_some());
    read().unwrap()
}

#[test]
fn a_trainmon_that_is_killed_leaves_no_py_spy_behind() {
    let target = Target::sleeping();
    let (folder, py_spy) = stand_in("daemon-hang", b"");
    let mut command = trainmon(&["--pid", &target.pid(), "--log", "-", "--interval", "500ms", "--py-spy"]);
    let mut program = Target::spawn(command.arg(&py_spy).stdout(Stdio::null()).stderr(Stdio::null()));
    // py-spy itself, and what it has started in a session of its own.
    let pids = ["inner", "pid"].map(|name| left(&folder.path().join("daemon-hang").join(name)));
    assert!(pids.iter().all(|pid| state(*pid).is_some()));
    signal(program.id(), Signal::KILL);
    program.0.wait().unwrap();
    for pid in pids {
        until(&format!("{pid} has gone"), || state(pid).is_none());
    }
}

/// Computes in turns of 40 ms, without a variable that counts them, in epochs of 300 turns.
const LOOP_WITHOUT_COUNTER: &str = r#"
import time
def batches():
    for _ in range(300):
        yield bytes(1000)
def epoch():
    for batch in batches():
        until = time.perf_counter() + 0.04
        while time.perf_counter() < until:
            sum(batch)
while True:
    epoch()
"#;

#[test]
fn a_loop_without_a_counter_counts_itself_without_py_spy() {
    let Some(python) = installed("python3") else { return eprintln!("left out: python3 is not installed") };
    let scope = fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").unwrap_or_default();
    if !matches!(scope.trim(), "" | "0") && !rustix::process::geteuid().is_root() {
        return eprintln!("left out: ptrace_scope lets only root read another process's memory");
    }
    let (folder, py_spy) = stand_in("document", b"");
    let file = folder.path().join("train.py");
    fs::write(&file, LOOP_WITHOUT_COUNTER).unwrap();
    let target = Target::start(python.to_str().unwrap(), &[file.to_str().unwrap()]);
    let mut watching = trainmon(&["diagnose", "--pid", &target.pid(), "--duration", "9s", "--json", "--py-spy"]);
    watching.arg(&py_spy);
    let verdict: Value = serde_json::from_slice(&finish(watching).stdout).unwrap();
    let steps = &verdict["steps"];
    assert_eq!(steps["source"], "for loop in epoch (train.py)", "{verdict:#}");
    // On a busy machine a turn may last longer.
    let per_s = steps["per_s"].as_f64().unwrap();
    assert!(per_s > 1.0 && per_s < 27.0, "{per_s}");
    assert_ne!(verdict["phase"], "validation");

    let without = trainmon(&["diagnose", "--pid", &target.pid(), "--duration", "6s", "--json", "--no-stacks"]);
    let verdict: Value = serde_json::from_slice(&finish(without).stdout).unwrap();
    assert_eq!(verdict["steps"]["per_s"], Value::Null, "its memory is not read");
}
