//! The program, processes for it to look at, and this test program itself started again for a part that needs a process
//! of its own.

#![allow(dead_code, reason = "each test uses a part of it")]

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use trainmon::sample::ProcessId;

pub const PROGRAM: &str = env!("CARGO_BIN_EXE_trainmon");

/// How long anything may take: far more than it does, for a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// The program with an environment of its own, away from the person's configuration.
pub fn trainmon(arguments: &[&str]) -> Command {
    with_environment(Command::new(PROGRAM), arguments)
}

pub fn with_environment(mut command: Command, arguments: &[&str]) -> Command {
    command.args(arguments).env_clear().env("HOME", "/nonexistent").env("PATH", "/usr/bin:/bin").stdin(Stdio::null());
    command
}

/// This test program again, to run one test of it alone: `module_path!()` of the file that it is in, and its name.
pub fn this_test(module: &str, name: &str) -> Command {
    let path = module.split_once("::").map_or(name.to_owned(), |(_program, module)| format!("{module}::{name}"));
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", &path, "--test-threads=1"]);
    command
}

/// The made-up NVML library of `support/NAME.rs`.
pub fn library(name: &str) -> String {
    example(&format!("lib{name}.so")).to_str().unwrap().to_owned()
}

/// What is built of an example.
pub fn example(file: &str) -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    let profile = tests.parent().and_then(Path::parent).unwrap();
    let built = profile.join("examples").join(file);
    assert!(built.exists(), "{} is missing: cargo build --examples", built.display());
    built
}

/// A process that a test needs beside itself (see `support/helper.rs`).
pub fn helper(words: &[&str]) -> Command {
    let mut command = Command::new(example("helper"));
    command.args(words);
    command
}

/// The words of a command, the program first.
pub fn words(command: &Command) -> Vec<String> {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_str().unwrap().to_owned()).collect()
}

/// A stand-in for py-spy in this folder, whose name tells it what to do (see `support/fake_py_spy.sh`).
pub fn fake_py_spy(folder: &Path) -> PathBuf {
    let program = folder.join("py-spy");
    // Not written by this process: a test beside this one that forks meanwhile would keep it open ("text file busy").
    let copied = Command::new("cp").arg(example("fake_py_spy")).arg(&program).status();
    assert!(copied.unwrap().success());
    program
}

/// A stand-in for a job that can be asked for a profile (see `support/fake_kineto.rs`), which writes this trace of the
/// fixtures. Give it sockets and traces of its own, so that tests do not disturb each other.
pub fn fake_kineto(trace: &str) -> Command {
    let mut command = Command::new(example("fake_kineto"));
    let trace = format!("{}/tests/fixtures/profiles/{trace}", env!("CARGO_MANIFEST_DIR"));
    command.args(["--trace", &trace]).env_clear().env("KINETO_USE_DAEMON", "1");
    command.stdin(Stdio::null()).stdout(Stdio::null());
    command
}

/// A stand-in for Python 3.14 in the folder `bin` of this one (see `support/fake_python.rs`), which does what the mode says.
pub fn fake_python(folder: &Path, mode: &str) -> PathBuf {
    fake_python_of(folder, mode, 14)
}

/// The same for another minor version.
pub fn fake_python_of(folder: &Path, mode: &str, minor: u32) -> PathBuf {
    let folder = folder.join("bin");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("mode"), mode).unwrap();
    // The library that it imports from, as far as that is checked.
    let library = folder.with_file_name("lib").join(format!("python3.{minor}"));
    std::fs::create_dir_all(library.join("lib-dynload")).unwrap();
    std::fs::write(library.join("os.py"), "").unwrap();
    let program = folder.join(format!("python3.{minor}"));
    let copied = Command::new("cp").arg(example("fake_python")).arg(&program).status();
    assert!(copied.unwrap().success());
    program
}

/// A program of the virtual environment or the path.
pub fn installed(name: &str) -> Option<PathBuf> {
    let environment = std::env::var_os("VIRTUAL_ENV").map(|place| Path::new(&place).join("bin"));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut places = environment.into_iter().chain(std::env::split_paths(&path)).map(|place| place.join(name));
    places.find(|place| Command::new(place).arg("--version").output().is_ok_and(|output| output.status.success()))
}

/// A recording of the repository.
pub fn recording(name: &str) -> String {
    format!("{}/tests/recordings/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// A /proc with two trees that may be training, which cannot be attached to.
pub fn two_candidates(root: &Path) {
    for (pid, parent, comm) in
        [(7, 1, "python"), (8, 7, "pt_data_worker"), (17, 1, "python"), (18, 17, "pt_data_worker")]
    {
        let folder = root.join(pid.to_string());
        std::fs::create_dir(&folder).unwrap();
        let stat = format!("{pid} ({comm}) S {parent} 1 1 0 -1 0 1 0 0 0 250 50 0 0 20 0 4 0 99 9000000 512 1 1\n");
        std::fs::write(folder.join("stat"), stat).unwrap();
        std::fs::write(folder.join("cmdline"), format!("python\0train{pid}.py\0")).unwrap();
    }
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// A row of a log, by the names of its columns.
pub type Row = std::collections::HashMap<String, String>;

/// The rows of a log, each of them whole: as many fields as the header, and a line end.
pub fn rows(bytes: &[u8]) -> Vec<Row> {
    assert!(bytes.is_empty() || bytes.ends_with(b"\r\n"), "the last row is torn: {}", text(bytes));
    let mut reader = csv::Reader::from_reader(bytes);
    reader.deserialize().map(Result::unwrap).collect()
}

pub fn rows_of(path: &Path) -> Vec<Row> {
    rows(&std::fs::read(path).unwrap())
}

/// A process to look at, with all that it starts; ended with the test.
pub struct Target(pub Child);

impl Target {
    pub fn spawn(command: &mut Command) -> Self {
        Self(command.process_group(0).spawn().unwrap())
    }

    pub fn start(program: &str, arguments: &[&str]) -> Self {
        let mut command = Command::new(program);
        Self::spawn(command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()))
    }

    pub fn sleeping() -> Self {
        Self::start("sleep", &["600"])
    }

    pub fn busy() -> Self {
        Self::start("timeout", &["20", "sh", "-c", "while :; do :; done"])
    }

    pub fn id(&self) -> u32 {
        self.0.id()
    }

    pub fn pid(&self) -> String {
        self.id().to_string()
    }

    pub fn lives(&mut self) -> bool {
        self.0.try_wait().unwrap().is_none()
    }

    /// Ends it and waits until it has gone.
    pub fn end(&mut self) {
        let _ = kill_process_group(Pid::from_child(&self.0), Signal::KILL);
        let _ = self.0.wait();
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        self.end();
    }
}

pub fn signal(pid: u32, signal: Signal) {
    kill_process(Pid::from_raw(pid.cast_signed()).unwrap(), signal).unwrap();
}

/// Fields of `/proc/PID/stat` from the third on, the state; `None` once the process has gone.
fn stat(pid: u32) -> Option<Vec<String>> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    Some(stat.rsplit(')').next()?.split_whitespace().map(str::to_owned).collect())
}

pub fn state(pid: u32) -> Option<char> {
    stat(pid)?.first()?.chars().next()
}

/// Which process has the number now: field 22 of proc(5) is its start time.
pub fn process_id(pid: u32) -> ProcessId {
    ProcessId { pid, start_ticks: stat(pid).unwrap()[22 - 3].parse().unwrap() }
}

/// The processes that its first thread has started.
pub fn children(pid: u32) -> Vec<u32> {
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    children.split_whitespace().map(|child| child.parse().unwrap()).collect()
}

/// The most memory that it has held so far.
pub fn peak_kib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// Waits for a condition to hold.
pub fn until(what: &str, holds: impl Fn() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < PATIENCE, "{what}");
        pause(5);
    }
}

pub fn pause(ms: u64) {
    std::thread::sleep(Duration::from_millis(ms));
}
