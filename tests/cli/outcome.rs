//! The program run to its end, and what came of it: its status, the line that it says, a verdict.
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use trainmon::demo::DemoJob;

use crate::process::{PROGRAM, library, pause, text, with_environment};

/// Runs to the end, which must come soon.
pub fn finish(mut command: Command) -> Output {
    wait_for(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
}

pub fn wait_for(mut child: Child) -> Output {
    let began = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if began.elapsed() > Duration::from_secs(20) {
            child.kill().unwrap();
            panic!("it does not end: {:?}", child.wait_with_output().unwrap());
        }
        pause(5);
    }
    child.wait_with_output().unwrap()
}

/// Ends with `code`, nothing on standard output, and one line that holds all of `parts`.
pub fn refused(command: Command, code: i32, parts: &[&str]) {
    let shown = format!("{command:?}");
    let output = finish(command);
    assert_one_line(&output, code, parts);
    assert!(output.stdout.is_empty(), "{shown}: {}", text(&output.stdout));
}

/// It has ended with `code`, and has said one line that holds all of `parts`.
pub fn assert_one_line(output: &Output, code: i32, parts: &[&str]) {
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{parts:?}: {said}");
    assert!(said.lines().count() == 1 && said.ends_with('\n') && said.len() > 20, "{parts:?}: {said:?}");
    assert!(parts.iter().all(|part| said.contains(part)), "{parts:?}: {said}");
}

/// The verdict that the command prints as JSON, and nothing beside it.
pub fn verdict(command: Command) -> Value {
    let output = finish(command);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(output.stderr.is_empty(), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The entry of `not_seen` on `what`.
pub fn not_seen<'a>(verdict: &'a Value, what: &str) -> &'a Value {
    let entries = verdict["not_seen"].as_array().unwrap();
    entries.iter().find(|entry| entry["what"] == what).unwrap_or_else(|| panic!("{what} was seen: {verdict:#}"))
}

/// Whether nothing is missing on `what`.
pub fn is_seen(verdict: &Value, what: &str) -> bool {
    verdict["not_seen"].as_array().unwrap().iter().all(|entry| entry["what"] != what)
}

/// Has the devices read through the made-up NVML library, and the demo's one there.
pub fn with_device_of(mut command: Command, job: &DemoJob) -> Command {
    // The job's device is a descriptor of this process.
    let device = job.device_path.to_str().unwrap().replace("/self/", &format!("/{}/", std::process::id()));
    command.args(["--nvml-lib", &library("fake_nvml")]).env("TRAINMON_SIMULATED_DEVICE", device);
    command
}

/// Runs as another user; `None`, with a note, where that is not possible.
pub fn as_user(user: &str, program: &Path, arguments: &[&str]) -> Option<Command> {
    if !rustix::process::geteuid().is_root() {
        println!("not checked: only root may run programs as other users");
        return None;
    }
    let mut command = Command::new("setpriv");
    command.args([format!("--reuid={user}"), format!("--regid={user}"), "--clear-groups".to_owned()]).arg(program);
    Some(with_environment(command, arguments))
}

/// The program where any user may run it.
pub fn program_for_all(folder: &Path) -> PathBuf {
    fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).unwrap();
    let path = folder.join("trainmon");
    if fs::hard_link(PROGRAM, &path).is_err() {
        fs::copy(PROGRAM, &path).unwrap();
    }
    path
}
