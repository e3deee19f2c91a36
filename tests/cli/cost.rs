//! What a tick and a round of the sampler may cost, in read calls and wake-ups: unlike CPU time these are the same on every
//! machine, so that cost does not creep back unseen.

use std::process::Stdio;

use crate::process::{Target, pause, trainmon};

/// Of a job of one loop and eight other processes. Measured: 73 a tick, 6.6 a round, 58 wake-ups a second.
const MOST_READS_A_TICK: f64 = 95.0;
const MOST_READS_A_ROUND: f64 = 8.0;
const MOST_WAKE_UPS_S: f64 = 75.0;
/// Rounds a second of a young verdict.
const ROUNDS_S: f64 = 50.0;

/// A loop, and eight processes that wait for it for ever.
const JOB: &str = "
import os, time
for _ in range(8):
    r, w = os.pipe()
    if os.fork() == 0:
        os.close(w)
        os.read(r, 1)
        os._exit(0)
while True: time.sleep(0.01)
";

/// Read calls of a process since it began, of all its threads, and how often they went to sleep.
fn counts(pid: u32) -> (f64, f64) {
    let number = |text: &str, name: &str| -> f64 {
        let line = text.lines().find(|line| line.starts_with(name)).unwrap();
        line.rsplit([' ', '\t']).next().unwrap().parse().unwrap()
    };
    let read = |path: String| std::fs::read_to_string(path).unwrap();
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap().map(|task| task.unwrap().path());
    let sleeps = tasks.map(|task| {
        let status = std::fs::read_to_string(task.join("status")).unwrap_or_default();
        if status.is_empty() { 0.0 } else { number(&status, "voluntary_ctxt_switches:") }
    });
    (number(&read(format!("/proc/{pid}/io")), "syscr:"), sleeps.sum())
}

/// Read calls and wake-ups a second of `trainmon --log` with this interval, once it has found its way about.
fn rates(job: &Target, interval: &str) -> (f64, f64) {
    const SECONDS: f64 = 5.0;
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log.csv");
    let mut command = trainmon(&["--pid", &job.pid(), "--log", log.to_str().unwrap(), "--interval", interval]);
    command.args(["--no-stacks", "--nvml-lib", "/nonexistent"]).stdout(Stdio::null()).stderr(Stdio::null());
    let mut program = Target::spawn(&mut command);
    pause(3000);
    assert!(program.lives(), "it watches the job");
    let before = counts(program.id());
    pause((SECONDS * 1000.0) as u64);
    let after = counts(program.id());
    ((after.0 - before.0) / SECONDS, (after.1 - before.1) / SECONDS)
}

#[test]
fn a_tick_and_a_round_stay_within_their_read_calls() {
    let job = Target::start("python3", &["-c", JOB]);
    pause(500);
    let (slow, wake_ups) = rates(&job, "1s");
    let (fast, _) = rates(&job, "250ms");
    let tick = (fast - slow) / 3.0;
    let round = (slow - tick) / ROUNDS_S;
    let seen = format!("{tick:.0} read calls a tick, {round:.1} a round, {wake_ups:.0} wake-ups a second");
    println!("{seen}");
    // While others hold the CPUs and the job queues, each process of the machine is looked at once in two seconds: at one of the
    // two intervals, or at both.
    let others =
        std::fs::read_dir("/proc").unwrap().filter_map(|entry| entry.unwrap().file_name().into_string().ok());
    let others = others.filter(|name| name.bytes().all(|byte| byte.is_ascii_digit())).count() as f64 / 2.0;
    assert!(tick > 10.0 && tick <= MOST_READS_A_TICK + others / 3.0, "{seen}");
    assert!(round > 1.0 && round <= MOST_READS_A_ROUND + others / ROUNDS_S, "{seen}");
    assert!(wake_ups > 20.0 && wake_ups <= MOST_WAKE_UPS_S, "{seen}");
}
