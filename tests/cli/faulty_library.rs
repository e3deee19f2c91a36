//! An NVML library that cannot be loaded as libraries are: the verdict, the rows and the recording come all the same, what is wrong
//! with the library is said, and nothing that was started to load it stays behind.
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::fs::{CWD, FileType, mknodat};
use serde_json::Value;

use crate::outcome::{not_seen, verdict, wait_for};
use crate::process::{Target, library, rows, text, trainmon, until};

/// Runs a command with a library that fails while it is loaded in this way, if in any.
fn command(arguments: &[&str], library: &Path, failure: &str) -> Command {
    let mut command = trainmon(arguments);
    command.args(["--no-stacks", "--nvml-lib"]).arg(library).env("FAKE_NVML_FAIL", failure);
    command
}

/// What `diagnose` says of the library, after long enough for its loading to be given up.
fn said(target: &Target, library: &Path, failure: &str) -> (String, Value) {
    let pid = target.0.id().to_string();
    let arguments = ["diagnose", "--json", "-i", "500ms", "--duration", "8s", "--pid", &pid];
    let verdict = verdict(command(&arguments, library, failure));
    let why = not_seen(&verdict, "nvml");
    let state = verdict["seen"]["nvml"].as_str().unwrap().to_owned();
    assert!(why["fix"].as_str().unwrap().contains("--nvml-lib"), "{why}");
    (state, why["why"].clone())
}

#[test]
fn a_library_whose_loading_never_ends_holds_nothing_up() {
    let target = Target::start("sleep", &["600"]);
    let fake = PathBuf::from(library("fake_nvml"));
    let (state, why) = said(&target, &fake, "loading_hangs");
    assert_eq!(state, "hung");
    assert!(why.as_str().unwrap().contains("loading it took longer than 5 s"), "{why}");
    let pid = target.0.id().to_string();
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("run.csv");
    let arguments = ["--pid", &pid, "--log", log.to_str().unwrap(), "-i", "200ms", "-n", "4"];
    let output = wait_for(command(&arguments, &fake, "loading_hangs").spawn().unwrap());
    assert_eq!((output.status.code(), rows(&fs::read(&log).unwrap()).len()), (Some(0), 4));

    let recording = folder.path().join("run.tmz");
    let arguments = ["record", "--pid", &pid, "-o", recording.to_str().unwrap(), "-i", "200ms", "-n", "4"];
    let output = wait_for(command(&arguments, &fake, "loading_hangs").spawn().unwrap());
    assert_eq!(output.status.code(), Some(0));
    assert!(trainmon::sources::recording::Recording::open(&recording).unwrap().all(|sample| sample.is_ok()));
    // Given up after 5 s in the first case, ended with trainmon in the others.
    until("what loaded it on trial has ended", || !is_running("load-library:"));
}

#[test]
fn doctor_says_in_time_that_the_driver_hangs() {
    let fake = PathBuf::from(library("fake_nvml"));
    let began = Instant::now();
    let mut doctor = command(&["doctor", "--json"], &fake, "init_hangs");
    let output = wait_for(doctor.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    assert_eq!(text(&output.stderr), "trainmon: waiting for the driver of the GPUs\n");
    let said: Value = serde_json::from_slice(&output.stdout).unwrap();
    let nvml = said["findings"].as_array().unwrap().iter().find(|finding| finding["what"] == "nvml").unwrap();
    assert_eq!(nvml["state"], "hung");
    assert_eq!(nvml["detail"], "NVML hangs: the NVIDIA driver has not answered for 6 s");
    let fix = nvml["fix"].as_str().unwrap();
    assert!(fix.starts_with("if nvidia-smi hangs, too") && fix.contains("dmesg | grep -i xid"), "{fix}");

    // The same while a job is watched.
    let target = Target::start("sleep", &["600"]);
    let pid = target.0.id().to_string();
    let verdict = verdict(command(&["diagnose", "--json", "--duration", "4s", "--pid", &pid], &fake, "init_hangs"));
    let why = not_seen(&verdict, "nvml");
    assert_eq!(why["why"], "NVML hangs: the NVIDIA driver has not answered for 3 s");
    assert_eq!(why["fix"].as_str(), Some(fix));
}

#[test]
fn a_library_that_crashes_while_it_is_loaded_ends_nothing_else() {
    let target = Target::start("sleep", &["600"]);
    let (state, why) = said(&target, Path::new(&library("fake_nvml")), "loading_crashes");
    assert_eq!(state, "gone");
    assert!(why.as_str().unwrap().contains("loading it crashes with signal 6"), "{why}");
}

#[test]
fn a_truncated_library_and_what_is_no_file_are_not_loaded() {
    let target = Target::start("sleep", &["600"]);
    let folder = tempfile::tempdir().unwrap();
    let (short, fifo) = (folder.path().join("short.so"), folder.path().join("fifo.so"));
    let whole = fs::read(library("fake_nvml")).unwrap();
    // Debug information, which is not mapped, is most of the file.
    fs::write(&short, whole.get(..64 * 1024).unwrap()).unwrap();
    mknodat(CWD, &fifo, FileType::Fifo, 0o600.into(), 0).unwrap();
    for (file, part) in [
        (short.as_path(), "it is truncated: "),
        (&fifo, "not a regular file"),
        (Path::new("/dev/zero"), "not a regular file"),
    ] {
        let pid = target.0.id().to_string();
        let arguments = ["diagnose", "--json", "-i", "200ms", "--duration", "1s", "--pid", &pid];
        let verdict = verdict(command(&arguments, file, ""));
        let why = not_seen(&verdict, "nvml")["why"].as_str().unwrap();
        assert!(why.contains(part) && why.contains(file.to_str().unwrap()), "{why}");
        let output = wait_for(command(&["doctor"], file, "").stdout(Stdio::piped()).spawn().unwrap());
        assert!(text(&output.stdout).contains(file.to_str().unwrap()), "{}", text(&output.stdout));
    }
    // By a name that the loader finds, as the driver's own library is.
    let named = folder.path().join("libnvidia-ml.so.1");
    fs::rename(&short, &named).unwrap();
    let pid = target.0.id().to_string();
    let mut found =
        trainmon(&["diagnose", "--json", "--no-stacks", "-i", "200ms", "--duration", "1s", "--pid", &pid]);
    let verdict = verdict(std::mem::replace(found.env("LD_LIBRARY_PATH", folder.path()), trainmon(&[])));
    let why = not_seen(&verdict, "nvml")["why"].as_str().unwrap();
    assert!(why.contains("it is truncated: ") && why.contains(named.to_str().unwrap()), "{why}");
}

/// Whether a process has a second argument that begins with this.
fn is_running(word: &str) -> bool {
    let commands =
        fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
    commands
        .into_iter()
        .any(|command| command.split(|&byte| byte == 0).nth(1).is_some_and(|one| one.starts_with(word.as_bytes())))
}
