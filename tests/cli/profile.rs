//! `trainmon profile`: a running job is asked for a profile. A stand-in for the job asks and writes as libkineto does.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::outcome::{finish, refused};
use crate::process::{fake_kineto, pause, text, trainmon};

/// A job with sockets and traces of its own, so that tests do not disturb each other.
pub struct Job {
    child: Child,
    folder: tempfile::TempDir,
}

impl Job {
    pub fn start(trace: &str, options: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut command = fake_kineto(trace);
        command
            .args(options)
            .env("KINETO_IPC_SOCKET_DIR", folder.path())
            .env("KINETO_ONDEMAND_TRACE_DIR", folder.path());
        let child = command.stdout(Stdio::null()).spawn().unwrap();
        Self { child, folder }
    }

    pub fn pid(&self) -> String {
        self.child.id().to_string()
    }

    fn profile(&self, options: &[&str]) -> Command {
        let pid = self.pid();
        let arguments: Vec<&str> = ["profile", "--pid", &pid].into_iter().chain(options.iter().copied()).collect();
        trainmon(&arguments)
    }

    /// What is in its folder beside its own socket.
    fn left(&self) -> Vec<String> {
        let names =
            fs::read_dir(self.folder.path()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| !name.starts_with("dynoconfigclient")).collect()
    }

    fn is_alive(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_running_job_gives_a_profile_and_nothing_is_left_behind() {
    let mut job = Job::start("waits-item.json", &[]);
    let began = Instant::now();
    let output = finish(job.profile(&["--for", "200ms", "--json"]));
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(began.elapsed() < Duration::from_secs(8), "{:?}", began.elapsed());
    let verdict: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&verdict["class"], &verdict["cause"]), (&"cpu".into(), &"host-device-sync".into()));
    assert_eq!((&verdict["profile"]["source"], &verdict["profile"]["steps"]), (&"kineto".into(), &4.into()));
    assert_eq!(verdict["pid"].to_string(), job.pid());
    assert!(verdict["culprits"][0]["name"].as_str().unwrap().contains("train.py:41"), "{}", verdict["culprits"]);
    assert!(job.is_alive() && job.left().is_empty(), "{:?}", job.left());
    // Once more, as a page, and the trace is kept.
    let kept = job.folder.path().join("kept.json.gz");
    let output = finish(job.profile(&["--for", "100ms", "-o", kept.to_str().unwrap()]));
    let page = text(&output.stdout);
    assert!(page.contains("too many GPU syncs") && page.contains("Calls that wait for the GPU"), "{page}");
    assert_eq!(job.left(), ["kept.json.gz"]);
    let again = finish(trainmon(&["diagnose", kept.to_str().unwrap(), "--json"]));
    let again: Value = serde_json::from_slice(&again.stdout).unwrap();
    assert_eq!(again["profile"]["syncs"], verdict["profile"]["syncs"]);
    refused(job.profile(&["-o", kept.to_str().unwrap()]), 1, &["kept.json.gz", "--force"]);
}

#[test]
fn all_ranks_are_asked_for_the_same_moment() {
    let folder = tempfile::tempdir().unwrap();
    let rank = |number: &str| {
        let mut command = fake_kineto("waits-item.json");
        command.env("KINETO_IPC_SOCKET_DIR", folder.path()).env("KINETO_ONDEMAND_TRACE_DIR", folder.path());
        command.env("RANK", number).env("MASTER_PORT", format!("{}", 40_000 + std::process::id() % 20_000));
        Job { child: command.stdout(Stdio::null()).spawn().unwrap(), folder: tempfile::tempdir().unwrap() }
    };
    let jobs = [rank("0"), rank("1")];
    let out = folder.path().join("run.json");
    let output = finish(jobs[0].profile(&["--all-ranks", "--for", "100ms", "-o", out.to_str().unwrap()]));
    let said = text(&output.stderr);
    // Both wrote the same trace, which has no rank and no collective: these are not put side by side.
    assert!(said.contains("compare"), "{said}");
    assert!(!said.contains("did not ask"), "{said}");
}

#[test]
fn what_cannot_be_asked_is_named() {
    let mut command = fake_kineto("waits-item.json");
    let mut other = command.env_remove("KINETO_USE_DAEMON").spawn().unwrap();
    refused(
        trainmon(&["profile", "--pid", &other.id().to_string()]),
        1,
        &["was not started to be profiled", "trainmon run -- CMD"],
    );
    other.kill().unwrap();
    other.wait().unwrap();
    refused(trainmon(&["profile", "--pid", "4000000"]), 3, &["4000000"]);
    let job = Job::start("waits-item.json", &[]);
    let socket = std::os::unix::net::UnixDatagram::bind(job.folder.path().join("dynolog")).unwrap();
    refused(job.profile(&[]), 1, &["another daemon has the socket `dynolog`"]);
    // The file of a daemon that was killed is in nobody's way.
    drop(socket);
    assert!(job.folder.path().join("dynolog").exists());
    let output = finish(job.profile(&["--for", "100ms"]));
    assert!(output.status.success(), "{}", text(&output.stderr));
    for bad in [["--for", "0"], ["--for", "2h"], ["--steps", "0"]] {
        assert_eq!(finish(job.profile(&bad)).status.code(), Some(2), "{bad:?}");
    }
}

#[test]
fn a_job_that_ends_stops_or_writes_no_trace_is_one_line() {
    let job = Job::start("waits-item.json", &["--ends"]);
    refused(job.profile(&[]), 3, &["has ended"]);
    let mut job = Job::start("waits-item.json", &["--garbage"]);
    refused(job.profile(&["--for", "100ms"]), 1, &["trace"]);
    assert!(job.is_alive() && job.left().is_empty(), "{:?}", job.left());
    let mut job = Job::start("waits-item.json", &["--never-asks"]);
    refused(job.profile(&[]), 1, &["did not ask for 12 s", "torch"]);
    assert!(job.is_alive());
}

#[test]
fn a_job_that_looks_seldom_for_orders_is_given_a_later_moment() {
    // As torch does after a first profile: the moment that is a second off is over when it looks.
    let mut job = Job::start("waits-item.json", &["--looks", "8"]);
    let began = Instant::now();
    let output = finish(job.profile(&["--for", "100ms", "--json"]));
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
    let verdict: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(verdict["profile"]["steps"], 4);
    assert!(job.is_alive() && job.left().is_empty(), "{:?}", job.left());
}

#[test]
fn a_signal_ends_the_asking_and_not_the_job() {
    let mut job = Job::start("waits-item.json", &["--never-asks"]);
    let mut asking = job.profile(&[]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let socket = job.folder.path().join("dynolog");
    while !socket.exists() {
        pause(10);
    }
    let pid = rustix::process::Pid::from_child(&asking);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let status = asking.wait().unwrap();
    assert!(!status.success() && job.is_alive(), "{status:?}");
    assert!(!socket.exists() && job.left().is_empty(), "{:?}", job.left());
}

#[test]
fn a_program_that_is_started_may_be_profiled_unless_it_is_refused() {
    let sees = |options: &[&str]| {
        let log = tempfile::tempdir().unwrap();
        let rows = log.path().join("log.csv");
        let out = log.path().join("said");
        let script = format!("echo ${{KINETO_USE_DAEMON-none}} ${{KINETO_LOG_LEVEL-none}} > {}", out.display());
        let mut arguments = vec!["--log", rows.to_str().unwrap(), "run"];
        arguments.extend_from_slice(options);
        arguments.extend_from_slice(&["--", "sh", "-c", &script]);
        let mut command = trainmon(&arguments);
        if options.is_empty() {
            command.env("KINETO_LOG_LEVEL", "1");
        }
        finish(command);
        read(&out)
    };
    assert_eq!(sees(&[]), "1 1\n", "what the user set stays");
    assert_eq!(sees(&["--no-profiler"]), "none none\n");
}

#[test]
fn advice_on_a_profile_names_the_command_that_takes_the_next_one() {
    // Work on the host of which the trace names no code.
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("trace.json");
    let with_code = format!("{}/tests/fixtures/profiles/host-work.json", env!("CARGO_MANIFEST_DIR"));
    let mut events: Value = serde_json::from_str(&read(with_code.as_ref())).unwrap();
    events["with_stack"] = 0.into();
    events["traceEvents"].as_array_mut().unwrap().retain(|event| event["cat"] != "python_function");
    fs::write(&trace, events.to_string()).unwrap();
    let job = Job::start("host-work.json", &["--trace", trace.to_str().unwrap()]);
    let output = finish(job.profile(&["--for", "100ms", "--json"]));
    let said = text(&output.stdout);
    let verdict: Value = serde_json::from_str(&said).unwrap();
    let title = format!("Name the code: trainmon profile {} --stacks", job.pid());
    assert_eq!(verdict["advice"][0]["title"], title.as_str(), "{}", verdict["advice"]);
    assert!(!said.contains("with_stack=True") && !said.contains("torch.profiler.schedule"), "{said}");
    assert!(!verdict["summary"].as_str().unwrap().contains("trace"), "{said}");
    assert_eq!(verdict["profile"]["pid"].to_string(), job.pid());
    // A file that the user brings is a trace.
    let kept = job.folder.path().join("kept.json");
    finish(job.profile(&["--for", "100ms", "-o", kept.to_str().unwrap()]));
    let said = text(&finish(trainmon(&["diagnose", kept.to_str().unwrap(), "--json"])).stdout);
    assert!(said.contains("with_stack=True") && !said.contains("trainmon profile"), "{said}");
}

#[test]
fn a_recording_gets_its_profile_and_all_that_reads_it_has_it() {
    let job = Job::start("waits-item.json", &[]);
    let record = |name: &str, options: &[&str]| {
        let path = job.folder.path().join(name).to_str().unwrap().to_owned();
        let pid = job.pid();
        let about = ["record", "--pid", &pid, "--profile", "-i", "500ms", "-o", &path];
        let output = finish(trainmon(&[&about, options].concat()));
        assert!(output.status.success(), "{}", text(&output.stderr));
        (path, text(&output.stderr))
    };
    // Nothing is known of what the stand-in does, so it is asked after ten seconds.
    let (path, said) = record("run.tmz", &["--duration", "16s"]);
    assert!(said.trim_end().ends_with("; with a profile") && !said.contains("no profile"), "{said}");
    let page = text(&finish(trainmon(&["diagnose", "--replay", &path, "--full"])).stdout);
    assert!(page.contains("Profile of ") && page.contains(" before the end: window 40 ms · "), "{page}");
    assert!(page.contains("aten::item") && page.contains("GPU busy, in the profile"), "{page}");
    for name in ["report.md", "report.html"] {
        let report = job.folder.path().join(name);
        let output = finish(trainmon(&["report", &path, "-o", report.to_str().unwrap()]));
        assert!(output.status.success(), "{}", text(&output.stderr));
        let report = read(&report);
        assert!(report.contains("before the end") && report.contains("GPU busy, in the profile"), "{report}");
        assert!(report.contains("aten::item"), "{report}");
    }
    let output = finish(trainmon(&["compare", &path, &path]));
    let said = text(&output.stdout);
    let at = |text: &str| said.find(text).unwrap_or_else(|| panic!("{text}:\n{said}"));
    let (profiles, tables) = (at("The profiles"), at("Where the time of a step goes, in the profiles"));
    assert!(at("Environment") < profiles && profiles < tables, "{said}");
    let json: Value = serde_json::from_slice(&finish(trainmon(&["compare", &path, &path, "--json"])).stdout).unwrap();
    assert_eq!(json["profile"]["per"], "step");
    // One that ends before has none, and says so.
    let (path, said) = record("short.tmz", &["--duration", "2s"]);
    assert!(said.trim_end().ends_with("; no profile: the recording ended before"), "{said}");
    let json: Value = serde_json::from_slice(&finish(trainmon(&["compare", &path, &path, "--json"])).stdout).unwrap();
    assert_eq!(json["profile"], Value::Null);
}

#[test]
fn a_recording_goes_on_without_a_profile() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.tmz");
    let job = Job::start("waits-item.json", &["--garbage"]);
    let pid = job.pid();
    let about = ["record", "--pid", &pid, "--profile", "--duration", "15s", "-o", path.to_str().unwrap()];
    let output = finish(trainmon(&about));
    let said = text(&output.stderr);
    assert!(output.status.success(), "{said}");
    let lines: Vec<&str> = said.lines().collect();
    let [note, end] = lines[..] else { panic!("{said}") };
    assert!(
        note.starts_with("trainmon: no profile: the profile is empty") && note.ends_with("; the recording goes on")
    );
    assert!(end.contains(" samples in ") && end.contains("; no profile: the profile is empty"), "{end}");
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap()
}
