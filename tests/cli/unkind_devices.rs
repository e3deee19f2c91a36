//! What the program says of training on devices that are as unkind as real ones: the load unknown under MIG, points late and
//! coarse, PIDs of another namespace, process lists that take seconds. Never a verdict that is sure and wrong, nothing
//! made up for what was not measured, and no tick that waits.
//!
//! The jobs are the demo's; the device is read through the made-up NVML library, as a real one is through the driver's.
use std::process::Command;
use std::sync::Mutex;

use serde_json::Value;
use trainmon::cli::DemoBottleneck;
use trainmon::demo::{DemoJob, python};

use crate::outcome::{finish, not_seen, verdict, with_device_of};
use crate::process::{Row, pause, rows, trainmon};

/// A verdict this sure has to be right.
const SURE: f64 = 0.8;
/// Jobs take turns: the machine may be small.
static TURN: Mutex<()> = Mutex::new(());

/// A demo job whose device is read with these failures.
struct Watched {
    job: DemoJob,
    failures: &'static str,
}

impl Watched {
    fn start(bottleneck: DemoBottleneck, failures: &'static str) -> Self {
        let job = DemoJob::start(&python::find().unwrap(), bottleneck, None).unwrap();
        pause(1_000);
        Self { job, failures }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = with_device_of(trainmon(arguments), &self.job);
        command.args(["--no-stacks", "--pid", &self.job.pid().to_string()]).env("FAKE_NVML_FAIL", self.failures);
        command
    }

    fn verdict(&self) -> Value {
        verdict(self.command(&["diagnose", "--json", "-i", "500ms", "--duration", "5s"]))
    }

    fn rows(&self, arguments: &[&str]) -> Vec<Row> {
        rows(&finish(self.command(&[&["--log", "-"], arguments].concat())).stdout)
    }
}

/// Right, or not sure. What else runs on the machine may take the CPUs that the job needs, and then that is right.
fn assert_not_sure_and_wrong(verdict: &Value, class: &str, what: &str) {
    let said = (verdict["class"].as_str().unwrap(), verdict["cause"].as_str().unwrap_or("-"));
    let confidence = verdict["confidence"].as_f64().unwrap();
    println!("{what}: {}/{} {confidence:.2}: {}", said.0, said.1, verdict["summary"]);
    let right = said.0 == class || said.0 == "unknown" || said.1 == "noisy-neighbour";
    assert!(right || confidence < SURE, "{what}: {verdict:#}");
    // The job uses a device, whether its load is known or not.
    assert_ne!(said.1, "cpu-training", "{what}: {verdict:#}");
}

const JOBS: [(DemoBottleneck, &str); 3] =
    [(DemoBottleneck::Gpu, "gpu"), (DemoBottleneck::DataLoader, "data-loader"), (DemoBottleneck::Cpu, "cpu")];

#[test]
fn a_device_whose_load_is_unknown_is_no_unused_one() {
    let _turn = TURN.lock();
    for (bottleneck, class) in JOBS {
        let verdict = Watched::start(bottleneck, "mig").verdict();
        assert_not_sure_and_wrong(&verdict, class, &format!("{class} under MIG"));
        let summary = verdict["summary"].as_str().unwrap();
        assert!(not_seen(&verdict, "gpu0_load")["why"].as_str().unwrap().contains("MIG is on"));
        assert!(!summary.contains("no GPU") && !summary.contains("on the CPU"), "{summary}");
    }
    let rows = Watched::start(DemoBottleneck::Gpu, "mig").rows(&["-i", "200ms", "-n", "6"]);
    let last = rows.last().unwrap();
    assert_eq!((last["gpu0_util_pct"].as_str(), last["gpu0_job_util_pct"].as_str()), ("", ""), "{last:?}");
    assert!(last["gpu0_mem_used_mib"].parse::<f64>().unwrap() > 0.0 && !last["gpu0_power_w"].is_empty(), "{last:?}");
}

#[test]
fn late_and_coarse_points_change_no_class() {
    let _turn = TURN.lock();
    for (bottleneck, class) in JOBS.into_iter().take(2) {
        let watched = Watched::start(bottleneck, "coarse,late:300,average_power,maxima");
        assert_not_sure_and_wrong(&watched.verdict(), class, &format!("{class} by coarse points"));
    }
}

#[test]
fn processes_of_another_namespace_make_nobody_wrong_and_sure() {
    let _turn = TURN.lock();
    for (bottleneck, class) in JOBS.into_iter().take(2) {
        let watched = Watched::start(bottleneck, "other_pids");
        assert_not_sure_and_wrong(&watched.verdict(), class, &format!("{class} with other PIDs"));
    }
}

#[test]
fn lists_that_take_seconds_hold_up_no_tick() {
    let _turn = TURN.lock();
    let lock = "lock:nvmlDeviceGetComputeRunningProcesses_v3_1500";
    let rows = Watched::start(DemoBottleneck::Gpu, lock).rows(&["-i", "200ms", "-n", "15"]);
    let elapsed: Vec<f64> = rows.iter().map(|row| row["elapsed_s"].parse().unwrap()).collect();
    assert_eq!(rows.len(), 15);
    let longest = elapsed.windows(2).map(|pair| pair[1] - pair[0]).fold(0.0, f64::max);
    assert!(longest < 1.0, "{elapsed:?}");
}
