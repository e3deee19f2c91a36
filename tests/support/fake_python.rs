//! A stand-in for the interpreter of a job that profiles itself (see `crates/profiling/src/inject.rs`). Copied to `FOLDER/python3.14`, it is both
//! the job and the interpreter that trainmon calls, and the file `FOLDER/mode` says what both do.
//!
//! ```text
//! python3.14 --trace FILE            the job: it does nothing until the other one asks, and then plays the script
//! python3.14 -I -S -c CODE PID FILE  the interpreter: it plays `sys.remote_exec`
//! python3.15 -I -S -B -c CODE PID SECONDS HZ FILE  the interpreter: it plays the reader of stacks
//! ```
//!
//! Modes of the reader: `denied`, `no-reader`, `other-reader`, `works`. Modes of the interpreter: `old`, `forbidden`, `without`, `ptrace`, `replaced`, `crashes`. Modes of the job: `never` (it does not come
//! to the script), `no-torch`, `profiled`, `failed`, `ends`, `execs`, `stops`, `garbage` (in place of a trace), `link` (its trace leads
//! to another file), `long` (it records until trainmon has gone), `works`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "for tests")]

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::thread::sleep;
use std::time::Duration;

use rustix::fs::{FlockOperation, fcntl_lock};
use rustix::process::{Signal, getpid, kill_process};
use serde_json::Value;

fn main() -> ExitCode {
    let own = fs::read_link("/proc/self/exe").unwrap();
    let folder = own.parent().unwrap();
    let mode = fs::read_to_string(folder.join("mode")).unwrap_or_default();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.as_slice() {
        [isolated, site, c, code, pid, script]
            if (isolated.as_str(), site.as_str(), c.as_str()) == ("-I", "-S", "-c") =>
        {
            assert!(code.contains("sys.remote_exec") && std::env::var_os("SECRET").is_none(), "{code}");
            called(folder, &mode, pid, script)
        }
        [isolated, site, bytecode, c, code, pid, seconds, hz, output]
            if [isolated, site, bytecode, c].map(String::as_str) == ["-I", "-S", "-B", "-c"] =>
        {
            assert!(code.contains("RemoteUnwinder") && std::env::var_os("SECRET").is_none(), "{code}");
            read_stacks(&mode, [pid, seconds, hz].map(|number| number.parse().unwrap()), output)
        }
        [option, trace] if option == "--trace" => job(folder, &mode, trace),
        _ => ExitCode::from(2),
    }
}

/// Plays the reader of stacks.
fn read_stacks(mode: &str, [pid, seconds, hz]: [u32; 3], output: &str) -> ExitCode {
    match mode {
        "denied" => eprintln!("PermissionError: [Errno 1] Operation not permitted"),
        "no-reader" => eprintln!("no reader of stacks: No module named '_remote_debugging'"),
        "other-reader" => eprintln!("no known reader of stacks: TypeError: an unexpected keyword"),
        _ => {
            let samples = seconds * hz;
            fs::write(
                output,
                format!("thread ({pid});<module> (/srv/train.py:9);step (/srv/train.py:3) {samples}\n"),
            )
            .unwrap();
            return ExitCode::SUCCESS;
        }
    }
    ExitCode::FAILURE
}

/// Plays `sys.remote_exec`.
fn called(folder: &Path, mode: &str, pid: &str, script: &str) -> ExitCode {
    let said = match mode {
        "old" => "old 3.13.1",
        "forbidden" => "RuntimeError Remote debugging is not enabled in the remote process",
        "without" => "RuntimeError Remote debugging support has not been compiled in",
        "ptrace" => "PermissionError [Errno 1] Operation not permitted",
        "replaced" => "FileNotFoundError [Errno 2] No such file or directory",
        "crashes" => {
            eprintln!("Fatal Python error: Failed to import encodings module");
            return ExitCode::FAILURE;
        }
        _ => "done",
    };
    if said == "done" {
        assert!(fs::metadata(script).unwrap().is_file() && pid.parse::<u32>().is_ok(), "{pid} {script}");
        fs::write(folder.join("asking"), script).unwrap();
        fs::rename(folder.join("asking"), folder.join("asked")).unwrap();
    }
    println!("{said}");
    ExitCode::SUCCESS
}

/// Waits until it is asked, and plays the script.
fn job(folder: &Path, mode: &str, trace: &str) -> ExitCode {
    loop {
        if let Ok(script) = fs::read_to_string(folder.join("asked"))
            && mode != "never"
        {
            fs::remove_file(folder.join("asked")).unwrap();
            if let Some(code) = play(&Script::read(Path::new(&script)), mode, trace) {
                return code;
            }
        }
        sleep(Duration::from_millis(10));
    }
}

/// What a script was told.
struct Script {
    folder: PathBuf,
    told: Value,
}

impl Script {
    fn read(path: &Path) -> Self {
        let text = fs::read_to_string(path).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix("PARAMETERS = ")).unwrap();
        let told: Value = serde_json::from_str(line).unwrap();
        assert_eq!(told["pid"], std::process::id());
        Self { folder: told["folder"].as_str().unwrap().into(), told }
    }

    fn tell(&self, state: &str) {
        let text =
            format!("{{\"state\": \"{state}\", \"why\": \"No space left\\u001b[31m on device\", \"steps\": 2}}");
        fs::write(self.folder.join("status"), text).unwrap();
    }

    fn is_awaited(&self) -> bool {
        let lock = File::options().read(true).write(true).open(self.folder.join("lock"));
        lock.is_ok_and(|lock| fcntl_lock(&lock, FlockOperation::NonBlockingLockExclusive).is_err())
    }
}

fn play(script: &Script, mode: &str, trace: &str) -> Option<ExitCode> {
    if matches!(mode, "no-torch" | "profiled" | "failed") {
        script.tell(mode);
        return None;
    }
    script.tell("began");
    sleep(Duration::from_millis(100));
    let file = script.folder.join("trace.json");
    match mode {
        "ends" => return Some(ExitCode::SUCCESS),
        "execs" => panic!("{}", Command::new("sleep").arg("600").exec()),
        "stops" => kill_process(getpid(), Signal::STOP).unwrap(),
        "garbage" => fs::write(&file, b"{\"traceEvents\": [ {\"ph\": \"X\", \"na").unwrap(),
        "link" => std::os::unix::fs::symlink(trace, &file).unwrap(),
        "long" => {
            while script.is_awaited() {
                sleep(Duration::from_millis(10));
            }
            let _ = fs::remove_dir_all(&script.folder);
            return None;
        }
        _ => {
            let most = Duration::from_secs_f64(script.told["seconds"].as_f64().unwrap());
            sleep(most.min(Duration::from_millis(300)));
            fs::copy(trace, &file).unwrap();
        }
    }
    script.tell("written");
    None
}
