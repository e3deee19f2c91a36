//! What a real Python counts, read from its memory: every version that is installed is asked.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use trainmon_sample::{FrameLocals, LocalsSample, ProcessId};
use trainmon_sources::process::stat_of;
use trainmon_sources::python::PythonMemory;

use crate::process::installed;

/// It says when it is where all of its loops are in their third turn, and stays there.
const PROGRAM: &str = r#"
import time

class Loader:
    """Iterates, as torch's loader does, and keeps what it yielded in an attribute."""
    def __init__(self, items):
        self.items, self._num_yielded = items, 0
    def __iter__(self):
        return self
    def __next__(self):
        self._num_yielded += 1
        return self.items[self._num_yielded - 1]

def numbered(items):
    n = 0
    for item in items:
        yield item
        n += 1

class Trainer:
    def __init__(self):
        self.global_step, self.batch_size, self.secret = 41, 32, 4321

    def fit(self, loader):
        if not loader:
            unset = 1
        large, negative, text = 2**40 + 7, -3, "größer als ASCII"
        with open("/dev/null"):
            for batch in loader:
                self.global_step += 1
                if batch == 30:
                    self.step(batch)

    def step(self, batch):
        for part in range(10, 100, 10):
            for number, other in enumerate("abcdef"):
                for pair in zip([1, 2, 3, 4], "abcd"):
                    for item in numbered([5, 6, 7, 8]):
                        if (part, number, pair[0], item) == (30, 2, 3, 7):
                            print("there", flush=True)
                            time.sleep(100)

done = 2**30 + 5
CONSTANT, _hidden = 77, 78
for epoch in (10, 20, 30):
    if epoch == 30:
        Trainer().fit(Loader([10, 20, 30, 40]))
"#;

/// The program, once it is where it stays; killed when dropped.
struct Program(Child);

impl Program {
    fn start(python: &Path, folder: &Path) -> Self {
        Self::start_with(python, folder, PROGRAM)
    }

    fn start_with(python: &Path, folder: &Path, program: &str) -> Self {
        let file = folder.join("counts.py");
        fs::write(&file, program).unwrap();
        let mut child = Command::new(python).arg(&file).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "there\n");
        Self(child)
    }

    fn id(&self) -> ProcessId {
        let pid = self.0.id();
        ProcessId { pid, start_ticks: stat_of(Path::new("/proc"), pid).unwrap().start_ticks }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The installed versions, and what each calls itself.
fn every_python() -> Vec<(PathBuf, u32)> {
    let names = ["python3", "python3.9", "python3.10", "python3.11", "python3.12", "python3.13", "python3.14"];
    let version = |python: PathBuf| {
        let asked = Command::new(&python).args(["-c", "import sys; print(sys.version_info[1])"]).output().ok()?;
        Some((python, String::from_utf8(asked.stdout).ok()?.trim().parse().ok()?))
    };
    names
        .into_iter()
        .filter_map(installed)
        .filter_map(version)
        .filter(|(_, minor)| (9..=14).contains(minor))
        .collect()
}

/// Reads until it is asleep, in so many frames: before that they may change.
fn read(id: ProcessId, frames: usize) -> LocalsSample {
    let until = Instant::now() + Duration::from_secs(20);
    loop {
        let found = PythonMemory::find(Path::new("/proc"), id).and_then(|python| python.read(Path::new("/proc")));
        match found {
            Some(read) if read.threads.iter().any(|thread| thread.frames.len() == frames) => return read,
            found => assert!(Instant::now() < until, "{found:?}"),
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn number(frame: &FrameLocals, name: &str) -> Option<i64> {
    frame.numbers.iter().find(|(known, _)| **known == *name).map(|(_, value)| *value)
}

#[test]
fn loops_variables_attributes_and_a_modules_names_are_read() {
    for (python, minor) in every_python() {
        let folder = tempfile::tempdir().unwrap();
        let program = Program::start(&python, folder.path());
        let read = read(program.id(), 3);
        let thread = &read.threads[0];
        assert!(thread.is_main && thread.tid == Some(program.0.id()), "3.{minor}: {thread:?}");
        let functions: Vec<&str> = thread.frames.iter().map(|frame| &*frame.function).collect();
        let class = if minor > 10 { "Trainer." } else { "" };
        assert_eq!(functions, ["<module>", &format!("{class}fit"), &format!("{class}step")], "3.{minor}");
        assert!(thread.frames.iter().all(|frame| frame.file.ends_with("/counts.py")), "3.{minor}");
        let [module, fit, step] = thread.frames.first_chunk().unwrap();
        let is = |frame: &FrameLocals, name: &str, value: i64| {
            assert_eq!(number(frame, name), Some(value), "{name} in 3.{minor}: {frame:?}");
        };
        is(module, "epoch", 30);
        is(module, "done", (1 << 30) + 5);
        is(module, "for loop", 3);
        for hidden in ["CONSTANT", "_hidden", "PROGRAM"] {
            assert_eq!(number(module, hidden), None, "3.{minor}");
        }
        is(fit, "batch", 30);
        is(fit, "large", (1 << 40) + 7);
        is(fit, "negative", -3);
        is(fit, "self.global_step", 44);
        is(fit, "for loop", 3);
        assert_eq!(number(fit, "self.secret"), None, "it is not called like a count");
        is(step, "part", 30);
        // Where a range keeps what is left instead, the third of nine turns has left six.
        is(step, "for loop", if minor > 11 { (1 << 29) - 6 } else { 3 });
        is(step, "second for loop", 3);
        is(step, "third for loop", 3);
        is(step, "fourth for loop", 3);
    }
}

/// Other iterators, each in its third turn: those of itertools, of dictionaries, of what has only items, and generators that take
/// batches from one.
const ITERATORS: &str = r#"
import time
from itertools import count, cycle, islice

class Items:
    def __getitem__(self, at):
        return at

class State:
    def __init__(self):
        self.step, self.secret = 0, 4321

class tqdm:
    def __init__(self, n):
        self.n, self.last_print_n, self.total = n, 0, 9

def batches(items, size):
    rest = iter(items)
    while taken := list(islice(rest, size)):
        yield taken

def run(state, seen):
    turns = 0
    for a in islice(range(100, 200), 50):
        if a == 102:
            for b in cycle([1, 2]):
                turns += 1
                if turns == 3:
                    for c in map(str, {5: 6, 7: 8, 9: 10, 11: 12}):
                        if c == "9":
                            for d in Items():
                                state.step += 1
                                seen["batches"] = state.step
                                if d == 2:
                                    more()

def more():
    bar, other = tqdm(7), type("Other", (), {})()
    other.n = 8
    for a in batches(list(range(100)), 8):
        if a[0] == 16:
            for b in count():
                if b == 2:
                    print("there", flush=True)
                    time.sleep(100)

def main():
    run(State(), {"batches": 0, "secret": 4321})

main()
"#;

#[test]
fn other_iterators_and_what_other_objects_count_are_read() {
    for (python, minor) in every_python() {
        let folder = tempfile::tempdir().unwrap();
        let program = Program::start_with(&python, folder.path(), ITERATORS);
        let read = read(program.id(), 4);
        let [_, _, run, more] = read.threads[0].frames.first_chunk().unwrap();
        let is = |frame: &FrameLocals, name: &str, value: i64| {
            assert_eq!(number(frame, name), Some(value), "{name} in 3.{minor}: {frame:?}");
        };
        is(run, "for loop", 3);
        // It began anew with the third one.
        is(run, "second for loop", 1);
        is(run, "third for loop", 3);
        is(run, "fourth for loop", 3);
        is(run, "state.step", 3);
        is(run, "seen['batches']", 3);
        assert!(run.numbers.iter().all(|(name, _)| !name.contains("secret")), "3.{minor}: {run:?}");
        is(more, "for loop", 3);
        is(more, "second for loop", 3);
        is(more, "bar.n", 7);
        assert_eq!(number(more, "other.n"), None, "no progress bar");
    }
}

/// A server that has answered three requests in threads of their own.
const SERVER: &str = r#"
import threading, urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

class Answer(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
    def log_message(self, *_):
        pass

server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
def ask():
    for _ in range(3):
        urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}").read()
    print("there", flush=True)
threading.Thread(target=ask, daemon=True).start()
server.serve_forever()
"#;

#[test]
fn a_server_counts_the_threads_that_it_began() {
    for (python, minor) in every_python() {
        let folder = tempfile::tempdir().unwrap();
        let program = Program::start_with(&python, folder.path(), SERVER);
        let found = PythonMemory::find(Path::new("/proc"), program.id()).unwrap();
        let read = found.read(Path::new("/proc")).unwrap();
        let serves = |frame: &&FrameLocals| frame.file.ends_with("/socketserver.py");
        let server = read.threads[0].frames.iter().find(serves).unwrap_or_else(|| panic!("3.{minor}: {read:?}"));
        // One asks, and three have answered. Versions differ in the first number.
        let begun = number(server, "threads begun").unwrap();
        assert!((4..=5).contains(&begun), "{begun} in 3.{minor}");
    }
}

/// A thousand generators, each of which iterates over the one before.
const GENERATORS: &str = r#"
import sys, time
sys.setrecursionlimit(10000)
def over(items):
    for item in items:
        yield item
def there():
    print("there", flush=True)
    while True:
        yield time.sleep(100)
items = there()
for _ in range(1000):
    items = over(items)
def main():
    for item in items:
        pass
main()
"#;

#[test]
fn generators_within_generators_are_followed_a_few_deep() {
    let Some((python, _)) = every_python().into_iter().next() else { return };
    let folder = tempfile::tempdir().unwrap();
    let program = Program::start_with(&python, folder.path(), GENERATORS);
    let found = PythonMemory::find(Path::new("/proc"), program.id()).unwrap();
    let read = found.read(Path::new("/proc")).unwrap();
    assert!(read.threads[0].frames.len() > 40, "{read:?}");
}

#[test]
fn a_process_that_is_another_one_or_no_python_is_not_read() {
    let Some((python, _)) = every_python().into_iter().next() else { return };
    let folder = tempfile::tempdir().unwrap();
    let program = Program::start(&python, folder.path());
    let id = program.id();
    let found = PythonMemory::find(Path::new("/proc"), id).unwrap();
    assert!(found.read(Path::new("/proc")).is_some());
    let other = ProcessId { start_ticks: id.start_ticks + 1, ..id };
    assert!(PythonMemory::find(Path::new("/proc"), other).unwrap().read(Path::new("/proc")).is_none());
    drop(program);
    assert!(found.read(Path::new("/proc")).is_none(), "it has ended");
    let own = ProcessId { pid: std::process::id(), start_ticks: 0 };
    assert!(PythonMemory::find(Path::new("/proc"), own).is_none());
}

#[test]
fn reading_does_not_stop_the_program() {
    let Some((python, _)) = every_python().into_iter().next() else { return };
    let folder = tempfile::tempdir().unwrap();
    let program = Program::start(&python, folder.path());
    let id = program.id();
    let found = PythonMemory::find(Path::new("/proc"), id).unwrap();
    for _ in 0..200 {
        found.read(Path::new("/proc"));
        let stat = stat_of(Path::new("/proc"), id.pid).unwrap();
        assert!(!matches!(stat.state, 'T' | 't'), "{}", stat.state);
    }
    let status = fs::read_to_string(format!("/proc/{}/status", id.pid)).unwrap();
    assert!(status.contains("TracerPid:\t0\n"), "{status}");
}
