//! The reader of Python stacks against the real py-spy and a real interpreter; left out, with a word, where one of them
//! is not installed.

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use trainmon::sample::{LocalsSample, ProcessId, SourceState, StackWindow, ThreadStacks};
use trainmon::sources::py_spy::{self, PySpy};
use trainmon::sources::task_files;

use crate::process::{Target, fake_py_spy, installed, pause, process_id, state};

/// Nine tenths of the main thread's time in `hot`, one tenth in `cold`; a second thread sleeps in `rest`.
const PROGRAM: &str = r#"
import threading, time

def rest():
    while True:
        time.sleep(60)

class Work:
    def hot(self, end):
        while time.monotonic() < end: pass

    def cold(self, end):
        while time.monotonic() < end: pass

threading.Thread(target=rest, daemon=True, name="Rester").start()
work = Work()
print("ready", flush=True)
while True:
    work.hot(time.monotonic() + 0.09)
    work.cold(time.monotonic() + 0.01)
"#;

/// Twenty turns a second, which `step` counts.
const COUNTS: &str = r#"
import time

def train(password):
    learning_rate, step = 0.1, 1000
    while True:
        time.sleep(0.05)
        step += 1

print("ready", flush=True)
train("4711 is secret")
"#;

/// The program, and the folder in which it lies.
struct Python {
    target: Target,
    _folder: tempfile::TempDir,
}

impl Python {
    fn start(python: &Path) -> Self {
        Self::running(python, PROGRAM)
    }

    fn running(python: &Path, program: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("train.py");
        fs::write(&file, program).unwrap();
        let mut target = Target::spawn(Command::new(python).arg(&file).stdout(Stdio::piped()));
        let mut line = String::new();
        BufReader::new(target.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        Self { target, _folder: folder }
    }

    fn id(&self) -> ProcessId {
        process_id(self.target.id())
    }
}

/// Every py-spy that is installed: the current one, and an older one in a folder of its own beside the environment's `bin`
/// (`requirements-older.txt`), which names functions without their class.
fn every_py_spy() -> Vec<PathBuf> {
    let older = env::var_os("VIRTUAL_ENV").map(|place| Path::new(&place).join("older/bin/py-spy"));
    installed("py-spy").into_iter().chain(older.filter(|path| path.is_file())).collect()
}

fn both() -> Option<(PathBuf, PathBuf)> {
    // This test program is no trainmon, which is what watches over py-spy.
    py_spy::supervise_with(crate::process::PROGRAM, &["supervise-py-spy"]);
    let found = installed("py-spy").zip(installed("python3"));
    if found.is_none() {
        eprintln!("left out: py-spy or python3 is not installed");
    }
    found
}

/// Share of a thread's samples that have the function, by the last part of its name, in their stack.
fn share(window: &StackWindow, thread: &ThreadStacks, function: &str) -> f64 {
    let all: u32 = thread.stacks.iter().map(|stack| stack.samples).sum();
    let named = |&at: &u32| window.frames[at as usize].function.rsplit('.').next() == Some(function);
    let with = thread.stacks.iter().filter(|stack| stack.frames.iter().any(named));
    f64::from(with.map(|stack| stack.samples).sum::<u32>()) / f64::from(all)
}

#[test]
fn a_window_shows_the_hot_function_and_its_line_and_never_stops_the_program() {
    let Some((_, python)) = both() else { return };
    for py_spy in every_py_spy() {
        a_window_of(&py_spy, &python);
    }
}

fn a_window_of(py_spy: &Path, python: &Path) {
    let program = Python::start(python);
    let (proc_root, id) = (Path::new("/proc"), program.id());
    let reader = PySpy::find(proc_root, id, Some(py_spy)).unwrap();

    // Looks at every thread's state as fast as it can while the window is taken.
    let over = Arc::new(AtomicBool::new(false));
    let watcher = std::thread::spawn({
        let (over, pid) = (Arc::clone(&over), id.pid);
        move || {
            let mut seen = BTreeSet::new();
            while !over.load(Ordering::Relaxed) {
                for task in fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten() {
                    if let Ok(stat) = fs::read(task.path().join("stat")) {
                        seen.extend(task_files::stat(&stat).map(|stat| stat.state));
                    }
                }
                pause(1);
            }
            seen
        }
    });
    let begun = Instant::now();
    let window = reader.record(proc_root, id, 2, 50, &AtomicBool::new(false));
    let took = begun.elapsed();
    over.store(true, Ordering::Relaxed);
    let states = watcher.join().unwrap();
    let window = window.unwrap().unwrap().what;

    assert!(!states.contains(&'T') && !states.contains(&'t'), "{states:?}");
    assert_eq!(window.process, id);
    // Its samples come at random distances, so that a window is about as long as was asked for.
    assert!(took >= Duration::from_millis(1200));
    let [main, other] = window.threads.as_slice() else { panic!("{:?}", window.threads) };
    assert_eq!((&*main.name, main.tid), ("MainThread", Some(id.pid)));
    assert_eq!(&*other.name, "Rester");
    let hot = share(&window, main, "hot");
    assert!((0.75..=0.99).contains(&hot), "hot has {hot}");
    assert!((share(&window, other, "rest") - 1.0).abs() < 1e-9);
    let leaf = &window.frames[main.stacks[0].frames[0] as usize];
    assert!(leaf.file.ends_with("train.py"), "{leaf:?}");
    assert_eq!(leaf.text.as_deref(), Some("while time.monotonic() < end: pass"));
}

#[test]
fn whole_numbers_among_local_variables_are_read_and_nothing_else() {
    let Some((_, python)) = both() else { return };
    for py_spy in every_py_spy() {
        let program = Python::running(&python, COUNTS);
        let (proc_root, id) = (Path::new("/proc"), program.id());
        let reader = PySpy::find(proc_root, id, Some(&py_spy)).unwrap();
        let read = || reader.locals(proc_root, id, &AtomicBool::new(false)).unwrap().unwrap().what;
        let step = |read: &LocalsSample| {
            let [main] = read.threads.as_slice() else { panic!("{read:?}") };
            assert!(main.is_main && main.tid == Some(id.pid));
            let [_, train] = main.frames.as_slice() else { panic!("{main:?}") };
            assert!(train.function.ends_with("train") && train.file.ends_with("train.py"));
            let [(name, value)] = train.numbers.as_slice() else { panic!("{train:?}") };
            assert_eq!(&**name, "step");
            *value
        };
        let before = read();
        pause(1000);
        let after = read();
        let turns = step(&after) - step(&before);
        let seconds = (after.began_ns - before.began_ns) as f64 / 1e9;
        assert!((2.0..=20.0 * seconds + 2.0).contains(&(turns as f64)), "{turns} in {seconds} s");
        assert!(!format!("{before:?}").contains("4711"));
        assert!(!matches!(state(id.pid), Some('T' | 't')));
    }
}

#[test]
fn what_is_no_python_and_what_has_ended_are_told_apart() {
    let Some((py_spy, _)) = both() else { return };
    let mut sleeper = Target::sleeping();
    let id = process_id(sleeper.id());
    let proc_root = Path::new("/proc");
    let reader = PySpy::find(proc_root, id, Some(&py_spy)).unwrap();
    let refusal = reader.record(proc_root, id, 1, 20, &AtomicBool::new(false)).unwrap_err();
    assert_eq!(refusal.status.state, SourceState::Absent);
    assert!(refusal.status.to_string().contains("no Python"), "{refusal:?}");
    // It may be starting its interpreter yet.
    assert!(!refusal.last);
    sleeper.end();
    let refusal = reader.record(proc_root, id, 1, 20, &AtomicBool::new(false)).unwrap_err();
    assert_eq!((refusal.status.state, refusal.last), (SourceState::Gone, true));
}

#[test]
fn a_wish_to_stop_ends_a_window_at_once() {
    let Some((py_spy, python)) = both() else { return };
    let program = Python::start(&python);
    let (proc_root, id) = (Path::new("/proc"), program.id());
    let reader = PySpy::find(proc_root, id, Some(&py_spy)).unwrap();
    let stop = AtomicBool::new(false);
    let (result, took) = std::thread::scope(|scope| {
        let recording = scope.spawn(|| reader.record(proc_root, id, 30, 20, &stop));
        pause(500);
        let asked = Instant::now();
        stop.store(true, Ordering::Relaxed);
        (recording.join().unwrap(), asked.elapsed())
    });
    assert_eq!(result.unwrap(), None);
    assert!(took < Duration::from_secs(1), "{took:?}");
    assert!(!matches!(state(id.pid), Some('T' | 't')));
}

#[test]
fn what_was_decided_on_is_executed_whatever_has_its_name_by_then() {
    py_spy::supervise_with(crate::process::PROGRAM, &["supervise-py-spy"]);
    let target = Target::sleeping();
    let (proc_root, id) = (Path::new("/proc"), process_id(target.id()));
    let folder = tempfile::tempdir().unwrap();
    let place = |name: &str| folder.path().join(name);
    fs::create_dir(place("bin")).unwrap();
    fs::create_dir(place("words")).unwrap();
    let program = fake_py_spy(&place("bin"));
    let reader = PySpy::find(proc_root, id, Some(&program)).unwrap();
    fs::rename(&program, place("words/py-spy")).unwrap();
    fs::write(place("words/document"), "Error: it was I\n").unwrap();
    fs::write(&program, format!("#!/bin/sh\ntouch {}\n", place("planted").display())).unwrap();
    fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let refusal = reader.record(proc_root, id, 1, 20, &AtomicBool::new(false)).unwrap_err();
    assert!(refusal.status.to_string().ends_with("it was I"), "{refusal:?}");
    assert!(!place("planted").exists());
}
