//! The demo job: it starts, uses its simulated GPU as its bottleneck says, and leaves nothing behind. A program of its own,
//! because it measures, and other tests would take the CPUs that it needs.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

#[path = "support/process.rs"]
mod process;

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Mutex;

use rustix::process::Signal;
use trainmon::cli::DemoBottleneck;
use trainmon::demo::{DemoJob, RECORDING, python};
use trainmon::sources::simulated_gpu::monotonic_ns;
use trainmon::sources::{SourceOptions, gpu};

use process::{PROGRAM, children, pause, rows, signal, state, text, until};

fn start(bottleneck: DemoBottleneck) -> DemoJob {
    DemoJob::start(&python::find().unwrap(), bottleneck, None).unwrap()
}

fn wait_until_gone(pid: u32) {
    until(&format!("{pid} is left over"), || matches!(state(pid), None | Some('Z')));
}

/// The folder that a demo runs in.
fn folder(pid: u32) -> PathBuf {
    std::fs::read_link(format!("/proc/{pid}/cwd")).unwrap()
}

/// How long the demo's processes have queued for a CPU so far, seconds (proc(5), `schedstat`).
fn queued_s(job: &DemoJob) -> f64 {
    let queued_ns = |pid: u32| {
        let schedstat = std::fs::read_to_string(format!("/proc/{pid}/schedstat")).unwrap();
        schedstat.split_whitespace().nth(1).unwrap().parse::<f64>().unwrap()
    };
    children(job.pid()).into_iter().chain([job.pid()]).map(queued_ns).sum::<f64>() / 1e9
}

/// GPU utilization of a demo over a second and a half, percent, and how long its processes queued for a CPU, seconds.
fn utilization(bottleneck: DemoBottleneck) -> (u32, f64) {
    let job = start(bottleneck);
    let mut reader =
        gpu::open(&SourceOptions { simulated_gpu: Some(job.device_path.clone()), ..SourceOptions::default() })
            .unwrap();
    pause(500);
    reader.read(monotonic_ns()).unwrap();
    let queued = queued_s(&job);
    pause(1500);
    let sample = reader.read(monotonic_ns()).unwrap();
    assert_eq!(sample.devices[0].processes[0].pid, job.pid());
    (sample.devices[0].utilization_pct.unwrap(), queued_s(&job) - queued)
}

#[test]
fn each_bottleneck_shows_on_the_gpu() {
    let _turn = TURN.lock();
    for (bottleneck, least, most) in [
        (DemoBottleneck::DataLoader, 5, 45),
        (DemoBottleneck::Cpu, 3, 30),
        (DemoBottleneck::Io, 5, 40),
        (DemoBottleneck::Gpu, 85, 100),
        (DemoBottleneck::Healthy, 40, 90),
    ] {
        // What else runs on the machine may take the CPUs: a job that queues for them uses its GPU less.
        let mut seen = Vec::new();
        let fits = |&(pct, queued_s): &(u32, f64)| pct <= most && (pct >= least || queued_s >= QUEUES_S);
        while !seen.last().is_some_and(fits) {
            assert!(seen.len() < 3, "{bottleneck:?}: {seen:?}");
            seen.push(utilization(bottleneck));
        }
        println!("{bottleneck:?}: {seen:?}");
    }
}

/// A job that queues so long for CPUs in a second and a half has lost about as much time.
const QUEUES_S: f64 = 0.5;

/// Measurements take turns: the machine may be small.
static TURN: Mutex<()> = Mutex::new(());

/// Class and cause in the last row of a log of the demo, watched for some seconds, without stacks; and the note that other
/// processes kept it from being held back as asked, where they did.
fn verdict(bottleneck: &str) -> (String, String) {
    let arguments = ["demo", "--bottleneck", bottleneck, "--log", "-", "--duration", "5s", "--no-stacks"];
    let out = Command::new(PROGRAM).args(arguments).output().unwrap();
    let said = text(&out.stderr);
    assert!(out.status.success(), "{said}");
    let last = rows(&out.stdout).pop().unwrap();
    if !said.is_empty() {
        let cpus = |column: &str| last[column].parse::<f64>().unwrap() / 100.0;
        let others = cpus("cpu_util_pct") * last["cpus_allowed"].parse::<f64>().unwrap() - cpus("job_cpu_pct");
        assert!(others > 0.25, "{others} {said}");
    }
    (format!("{}/{}", last["class"], last["cause"]), said)
}

#[test]
fn each_bottleneck_is_named() {
    let _turn = TURN.lock();
    for (bottleneck, named) in [
        ("data-loader", "data-loader/too-few-workers"),
        ("cpu", "cpu/main-thread"),
        ("io", "io/network-storage"),
        ("gpu", "gpu/compute-bound"),
        ("healthy", "balanced/"),
    ] {
        let honest = format!("trainmon: the demo was to show {bottleneck}, but other processes take ");
        let mut seen: Vec<(String, String)> = Vec::new();
        while !seen.iter().any(|(verdict, said)| verdict == named || said.starts_with(&honest)) {
            assert!(seen.len() < 3, "{bottleneck}: {seen:?}");
            seen.push(verdict(bottleneck));
        }
        println!("{bottleneck}: {seen:?}");
    }
}

#[test]
fn without_python_it_says_so() {
    let out = Command::new(PROGRAM).args(["demo", "--log", "-"]).env("PATH", "/nonexistent").output().unwrap();
    let said = text(&out.stderr);
    assert_eq!(out.status.code(), Some(1), "{said}");
    assert_eq!(said, "trainmon: cannot run the demo: no python3 on PATH. Install Python 3\n");
}

#[test]
fn the_bundled_recording_has_a_sure_verdict() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("recording.tmz");
    std::fs::write(&path, RECORDING).unwrap();
    let out = Command::new(PROGRAM).args(["diagnose", "--json", "--replay"]).arg(&path).output().unwrap();
    let verdict: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!(verdict["class"], "data-loader");
    assert!(verdict["confidence"].as_f64().unwrap() > 0.9, "{verdict:#}");
}

#[test]
fn dropping_the_job_ends_and_reaps_everything() {
    for bottleneck in [DemoBottleneck::Io, DemoBottleneck::DataLoader] {
        let job = start(bottleneck);
        let rank = job.pid();
        let (workers, folder) = (children(rank), folder(rank));
        assert!(!workers.is_empty() && folder.join("train.py").exists());
        drop(job);
        assert!(!folder.exists(), "{folder:?} is left over");
        for pid in workers.into_iter().chain([rank]) {
            assert_eq!(state(pid), None, "{pid} is left over");
        }
    }
}

#[test]
fn a_stopped_rank_is_ended_too() {
    let job = start(DemoBottleneck::Gpu);
    let (rank, workers, folder) = (job.pid(), children(job.pid()), folder(job.pid()));
    signal(rank, Signal::STOP);
    drop(job);
    assert_eq!(state(rank), None);
    assert!(!folder.exists(), "{folder:?} is left over");
    workers.into_iter().for_each(wait_until_gone);
}

#[test]
fn a_dead_worker_ends_the_rank() {
    let job = start(DemoBottleneck::DataLoader);
    let rank = job.pid();
    signal(children(rank)[0], Signal::KILL);
    wait_until_gone(rank);
}

/// Killing trainmon itself leaves nothing behind either.
#[test]
fn a_killed_trainmon_leaves_nothing_behind() {
    let arguments = ["demo", "--bottleneck", "io", "--log", "-", "--no-stacks"];
    let mut trainmon = Command::new(PROGRAM).args(arguments).stdout(Stdio::piped()).spawn().unwrap();
    // Once there is a row below the header, the job trains.
    let rows = BufReader::new(trainmon.stdout.take().unwrap()).lines();
    assert_eq!(rows.take(2).filter_map(Result::ok).count(), 2);
    let started = children(trainmon.id());
    // The one with workers: another serves its data.
    let rank = *started.iter().find(|pid| !children(**pid).is_empty()).unwrap();
    let (workers, folder) = (children(rank), folder(rank));
    trainmon.kill().unwrap();
    trainmon.wait().unwrap();
    workers.into_iter().chain(started).for_each(wait_until_gone);
    assert!(!folder.exists(), "{folder:?} is left over");
}
