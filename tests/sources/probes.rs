//! Counts the calls of a real process through the kernel's probes: `support/calls_cuda.c`, which counts them itself, with libraries in
//! place of CUDA's. Where that cannot be done here, each test says so and ends.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use trainmon::profiling::probes::{self, ProbeError, ProbeTarget};
use trainmon::sample::probe_counts::{GpuCallKind, ProbeCounts};
use trainmon::sources::Roots;

use crate::process::{pause, trainmon};

/// The job's program; `None`, said once, without root, uprobes or a compiler.
fn program() -> Option<&'static Path> {
    static BUILT: OnceLock<Option<(TempDir, PathBuf)>> = OnceLock::new();
    let built = BUILT.get_or_init(|| {
        let why = if !rustix::process::geteuid().is_root() {
            "not root"
        } else if !Path::new("/sys/bus/event_source/devices/uprobe").exists() {
            "no uprobes in this kernel"
        } else {
            match build() {
                Some(built) => return Some(built),
                None => "no C compiler",
            }
        };
        println!("skipped: {why}");
        None
    });
    built.as_ref().map(|(_, program)| program.as_path())
}

fn build() -> Option<(TempDir, PathBuf)> {
    let folder = tempfile::tempdir().unwrap();
    let source = |name: &str| format!("{}/tests/support/{name}", env!("CARGO_MANIFEST_DIR"));
    let (library, job) = (source("counted_cuda.c"), source("calls_cuda.c"));
    let shared = ["-shared", "-fPIC", &library];
    let commands = [
        [&shared[..], &["-DDRIVER", "-o", "libcuda.so.1"]].concat(),
        [&shared[..], &["-o", "libcudart.so.12", "-L.", "-l:libcuda.so.1"]].concat(),
        vec![&job, "-o", "job", "-L.", "-l:libcudart.so.12", "-l:libcuda.so.1", "-lpthread"],
    ];
    for arguments in commands {
        let ran = Command::new("cc")
            .args(["-O2", "-Wl,-rpath,$ORIGIN"])
            .args(arguments)
            .current_dir(folder.path())
            .status();
        if ran.is_err() {
            return None;
        }
        assert!(ran.unwrap().success());
    }
    let program = folder.path().join("job");
    Some((folder, program))
}

struct Job {
    child: Child,
    commands: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Job {
    fn start(program: &Path) -> Self {
        let mut child = Command::new(program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (commands, answers) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        let mut job = Self { child, commands, answers };
        // Once it answers, its libraries are mapped.
        job.ask("calls 0 0 0 0 0");
        job
    }

    fn tell(&mut self, command: &str) {
        writeln!(self.commands, "{command}").unwrap();
    }

    fn answer(&mut self) -> Vec<u64> {
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        line.split_whitespace().map(|word| word.parse().unwrap()).collect()
    }

    /// What a command answers: work done, launches, copies, allocations, waits, nanoseconds in waits, nanoseconds on a CPU.
    fn ask(&mut self, command: &str) -> Vec<u64> {
        self.tell(command);
        self.answer()
    }

    fn count(&self, length: Duration) -> std::thread::JoinHandle<Result<ProbeCounts, ProbeError>> {
        let pid = self.child.id();
        std::thread::spawn(move || {
            let target = ProbeTarget::find(&Roots::default(), pid)?;
            probes::count(Path::new("/proc"), &target, length, &|| true)
        })
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Calls of a kind by thread.
fn by_thread(counts: &ProbeCounts, kind: GpuCallKind) -> Vec<(u32, u64)> {
    let rows = counts.rows.iter().filter(|row| row.kind == kind && row.count > 0);
    let mut all: Vec<_> = rows.map(|row| (row.tid, row.count)).collect();
    all.sort_unstable();
    all
}

#[test]
fn calls_within_a_window_are_counted_exactly_and_waits_are_timed() {
    let Some(program) = program() else { return };
    let mut job = Job::start(program);
    let counting = job.count(Duration::from_secs(4));
    // The short first window is over: with no calls yet, the next one lasts.
    pause(1500);
    let own = job.ask("calls 20 15 10 12 5000");
    job.ask("thread 7 5 3 0 0");
    let counts = counting.join().unwrap().unwrap();
    let main = job.child.id();
    for (kind, of_main, of_thread) in
        [(GpuCallKind::Launch, 20, 7), (GpuCallKind::Copy, 15, 5), (GpuCallKind::Allocation, 10, 3)]
    {
        let [first, second] = by_thread(&counts, kind)[..] else { panic!("{kind:?}: {:?}", counts.rows) };
        assert_eq!((first, second.1), ((main, of_main), of_thread), "{kind:?}");
    }
    let waits: Vec<_> = counts.rows.iter().filter(|row| row.kind == GpuCallKind::Sync).collect();
    let [wait] = waits[..] else { panic!("{waits:?}") };
    assert_eq!((wait.tid, wait.call, wait.count), (main, "cudaStreamSynchronize", 12));
    let ratio = wait.waited_ns as f64 / own[5] as f64;
    assert!((0.95..1.05).contains(&ratio), "{} of {}", wait.waited_ns, own[5]);
}

#[test]
fn a_job_that_calls_often_loses_little() {
    let Some(program) = program() else { return };
    let mut job = Job::start(program);
    job.tell("rate 100000 4 0");
    pause(700);
    let counts = job.count(Duration::from_secs(3)).join().unwrap().unwrap();
    let cost = counts.hits as f64 * 10e-6 / counts.elapsed_s;
    assert!(counts.hits > 0 && cost < 0.01, "{} hits: {:.2}% of the time", counts.hits, 100.0 * cost);
    assert!(!counts.calls.is_empty() && counts.calls[0].length_s < 0.05, "{:?}", counts.calls);
    assert_eq!(by_thread(&counts, GpuCallKind::Launch).len(), 1, "{:?}", counts.rows);
    assert!(job.answer()[0] > 0);
}

#[test]
fn a_job_may_fork_exec_or_end_meanwhile() {
    let Some(program) = program() else { return };
    let mut job = Job::start(program);
    let counting = job.count(Duration::from_millis(2500));
    pause(500);
    // The child lives on while the probes are taken out, and its calls are not the job's.
    job.tell("fork");
    pause(700);
    assert_eq!(job.answer()[0], 0, "the child ended well");
    assert!(by_thread(&counting.join().unwrap().unwrap(), GpuCallKind::Launch).is_empty());
    let counting = job.count(Duration::from_millis(1500));
    pause(500);
    job.tell("exec");
    pause(200);
    // What was counted of the program before does not hold it up.
    assert_eq!(job.ask("calls 3 0 0 0 0")[1], 3);
    assert!(counting.join().unwrap().is_ok());
    let counting = job.count(Duration::from_secs(30));
    pause(500);
    job.child.kill().unwrap();
    job.child.wait().unwrap();
    let begun = Instant::now();
    let counts = counting.join().unwrap();
    assert!(begun.elapsed() < Duration::from_secs(5));
    assert!(matches!(counts, Ok(_) | Err(ProbeError::Ended(_))), "{counts:?}");
}

#[test]
fn killed_at_any_moment_it_leaves_no_breakpoint() {
    let Some(program) = program() else { return };
    let mut job = Job::start(program);
    let pid = job.child.id().to_string();
    for after in [150, 250, 400] {
        job.tell("rate 20000 0.3 1000");
        let mut command = trainmon(&["profile", "--pid", &pid, "--probe"]);
        let mut counting = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        pause(after);
        counting.kill().unwrap();
        counting.wait().unwrap();
        job.answer();
        // A breakpoint that was left without its probe would end the job.
        pause(300);
        assert_eq!(job.ask("calls 1 1 1 1 1").len(), 7);
    }
}

#[test]
fn the_command_prints_what_was_counted_beside_the_verdict() {
    let Some(program) = program() else { return };
    let mut job = Job::start(program);
    job.tell("rate 2000 3 0");
    let pid = job.child.id().to_string();
    let ran = trainmon(&["profile", "--pid", &pid, "--probe", "--for", "1s", "--json"]).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let verdict: serde_json::Value = serde_json::from_slice(&ran.stdout).unwrap();
    let profile = &verdict["profile"];
    assert_eq!(profile["source"], "probe");
    assert!(profile["kernels"].is_null() && profile["devices"].is_null() && profile["loop"].is_null());
    let launches = &profile["calls"]["rows"][0];
    assert_eq!((&launches["kind"], &launches["call"]), (&"launch".into(), &"cudaLaunchKernel".into()));
    assert!(verdict["summary"].as_str().unwrap().contains("launches a second"), "{}", verdict["summary"]);
    assert_ne!(verdict["class"], "gpu");
    let ran = trainmon(&["profile", "--pid", &pid, "--probe", "--for", "300ms"]).output().unwrap();
    let page = String::from_utf8(ran.stdout).unwrap();
    assert!(page.contains("Calls of the GPU's runtime, counted from outside"), "{page}");
    assert!(!page.contains("GPU idle"), "{page}");
}

#[test]
fn a_job_without_a_gpu_is_refused() {
    let Some(_) = program() else { return };
    let mut job = Command::new("sleep").arg("60").spawn().unwrap();
    let ran = trainmon(&["profile", "--pid", &job.id().to_string(), "--probe"]).output().unwrap();
    job.kill().unwrap();
    job.wait().unwrap();
    let said = String::from_utf8(ran.stderr).unwrap();
    assert!(said.contains("no library of CUDA or HIP loaded") && said.trim_end().lines().count() == 1, "{said}");
    assert_eq!(ran.status.code(), Some(1));
}
