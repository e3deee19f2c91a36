//! Whom a verdict names: a real hog beside a real job, in the first verdict, in every output, and not in what is anonymous.
use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use trainmon::cli::DemoBottleneck;
use trainmon::demo::{DemoJob, python};

use crate::outcome::with_device_of;
use crate::process::{Target, children, pause, trainmon};

/// What it is called: a name of 15 bytes at most (proc(5), `comm`).
const NAME: &str = "hog-of-a-test";
/// How many of them share the job's CPU.
const HOGS: usize = 4;

/// Moves a process, with all of its threads, to the first of our CPUs.
fn on_one_cpu(pid: u32) -> bool {
    let list = fs::read_to_string("/proc/self/status").unwrap();
    let list = list.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap().trim();
    let first = list.split([',', '-']).next().unwrap();
    let moved = Command::new("taskset").args(["-acp", first, &pid.to_string()]).stdout(Stdio::null()).status();
    moved.is_ok_and(|status| status.success())
}

/// A demo job that has too few workers, and shells that take its CPU.
fn job_beside_hogs(folder: &Path) -> Option<(DemoJob, Vec<Target>)> {
    let program = folder.join(NAME);
    assert!(Command::new("cp").arg("/bin/sh").arg(&program).status().unwrap().success());
    let job = DemoJob::start(&python::find().unwrap(), DemoBottleneck::DataLoader, Some(2)).unwrap();
    pause(1000);
    let spin = ["-c", "while :; do :; done", "x", "--api-key=Xk7mQ2"];
    let hogs = (0..HOGS).map(|_| Target::start(program.to_str().unwrap(), &spin)).collect::<Vec<_>>();
    let mut all = hogs.iter().map(Target::id).chain([job.pid()]).chain(children(job.pid()));
    all.all(on_one_cpu).then_some((job, hogs))
}

fn watch(job: &DemoJob, arguments: &[&str]) -> Output {
    let mut command = with_device_of(trainmon(&["--no-stacks"]), job);
    let output = command.args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output
}

#[test]
fn a_hog_is_named_and_stays_out_of_what_is_anonymous() {
    let folder = tempfile::tempdir().unwrap();
    let Some((job, hogs)) = job_beside_hogs(folder.path()) else {
        return eprintln!("left out: taskset is not installed");
    };
    let pid = job.pid().to_string();
    let file = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    // What else runs on the machine may be the larger hog for a while.
    let mut seen = Vec::new();
    let named = loop {
        let output = watch(&job, &["diagnose", "--json", "--duration", "4s", "--pid", &pid]);
        let verdict: Value = serde_json::from_slice(&output.stdout).unwrap();
        let culprits = verdict["culprits"].as_array().unwrap().clone();
        let ours = culprits.into_iter().find(|culprit| culprit["name"] == NAME);
        if let Some(ours) = ours.filter(|_| verdict["cause"] == "noisy-neighbour") {
            assert!(verdict["summary"].as_str().unwrap().contains("PID "), "{verdict:#}");
            break ours;
        }
        seen.push(verdict);
        assert!(seen.len() < 5, "{seen:#?}");
    };
    assert_eq!((&named["kind"], &named["unit"]), (&"process".into(), &"cpus".into()));
    assert!(hogs.iter().any(|hog| named["pid"] == hog.id()), "{named:#}");
    assert!(named["share"].as_f64().unwrap() > 0.2, "{named:#}");

    let (open, anonymous) = (file("open.tmz"), file("anonymous.tmz"));
    watch(&job, &["record", "--duration", "4s", "--pid", &pid, "-o", &open]);
    watch(&job, &["record", "--anonymise", "--duration", "4s", "--pid", &pid, "-o", &anonymous]);
    let bytes = |path: &str| zstd::stream::decode_all(&fs::read(path).unwrap()[..]).unwrap();
    let holds = |bytes: &[u8], text: &str| bytes.windows(text.len()).any(|window| window == text.as_bytes());
    assert!(holds(&bytes(&open), NAME) && !holds(&bytes(&open), "Xk7mQ2"));
    assert!(!holds(&bytes(&anonymous), NAME));
}
