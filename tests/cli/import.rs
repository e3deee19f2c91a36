//! `import`: what other tools recorded becomes a recording that every other command reads, and its verdict says no more than they
//! recorded.

use std::fs;
use std::io::Write;

use serde_json::Value;

use crate::outcome::{finish, refused, verdict};
use crate::process::{text, trainmon};

fn fixture(name: &str) -> String {
    format!("{}/tests/fixtures/import/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// Imports fixtures, and the verdict on them.
fn imported(names: &[&str]) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.tmz");
    let path = path.to_str().unwrap();
    let files: Vec<String> = names.iter().map(|name| fixture(name)).collect();
    let mut words = vec!["import", "-o", path];
    words.extend(files.iter().map(String::as_str));
    let output = finish(trainmon(&words));
    assert!(output.status.success() && text(&output.stderr).contains("samples in "), "{output:?}");
    let verdict = verdict(trainmon(&["diagnose", "--replay", path, "--json"]));
    for (command, ending) in [("report", "md"), ("report", "html")] {
        let page = folder.path().join(format!("run.{ending}"));
        let output = finish(trainmon(&[command, path, "-o", page.to_str().unwrap()]));
        assert!(output.status.success(), "{names:?}: {output:?}");
        assert!(fs::read_to_string(page).unwrap().contains("imported files"), "{names:?}: what is missing is said");
    }
    verdict
}

fn why(verdict: &Value, what: &str) -> String {
    let missing = verdict["not_seen"].as_array().unwrap().iter().find(|missing| missing["what"] == what);
    missing.unwrap_or_else(|| panic!("{what}: {verdict}"))["why"].as_str().unwrap().to_owned()
}

#[test]
fn a_gpu_alone_gives_no_cause() {
    for name in ["nvidia-smi.csv", "dmon.txt"] {
        let verdict = imported(&[name]);
        assert_eq!((&verdict["class"], &verdict["cause"]), (&"unknown".into(), &Value::Null), "{name}");
        let summary = verdict["summary"].as_str().unwrap();
        assert!(
            summary.contains("the GPU is busy 2% of the time") && summary.contains("trainmon record"),
            "{summary}"
        );
        assert!(why(&verdict, "stacks").contains("torch.profiler"), "{name}");
        assert!(why(&verdict, "disks").contains("sar"), "{name}");
    }
}

#[test]
fn a_trace_shows_the_wait_for_data_and_not_why() {
    let verdict = imported(&["trace.json.gz"]);
    assert_eq!((&verdict["class"], &verdict["cause"]), (&"data-loader".into(), &Value::Null));
    let wait = verdict["shares"]["input_wait"].as_f64().unwrap();
    // trainmon's own recording of this process at the same time: 91%, and 22.4 steps a second.
    assert!((wait - 0.91).abs() < 0.03, "{wait}");
    let steps = &verdict["steps"];
    assert!((steps["per_s"].as_f64().unwrap() - 22.4).abs() < 2.0 && steps["source"] == "profile", "{steps}");
    assert!(verdict["gpu_idle"]["total"].as_f64().unwrap() > 0.95);
    let doubts = verdict["other_findings"].to_string();
    assert!(doubts.contains("do not show what makes the batches"), "{doubts}");
}

#[test]
fn stacks_with_waits_are_the_loops_time() {
    let verdict = imported(&["py-spy.txt"]);
    assert_eq!((&verdict["class"], &verdict["cause"]), (&"data-loader".into(), &Value::Null));
    assert!(verdict["shares"]["input_wait"].as_f64().unwrap() > 0.9, "{verdict}");
}

#[test]
fn tables_of_the_host_and_the_process_give_no_verdict() {
    let verdict = imported(&["pidstat.txt", "sar.txt"]);
    assert_eq!((&verdict["class"], &verdict["cause"]), (&"unknown".into(), &Value::Null));
    assert_eq!((&verdict["seen"]["nvml"], &verdict["seen"]["disks"]), (&"absent".into(), &"ok".into()));
}

#[test]
fn files_of_one_time_are_put_together() {
    let verdict = imported(&["trace.json.gz", "dmon.txt"]);
    assert_eq!(&verdict["class"], "data-loader", "{verdict}");
    assert_eq!((&verdict["seen"]["nvml"], &verdict["seen"]["stacks"]), (&"ok".into(), &"stale".into()));
}

#[test]
fn what_cannot_be_imported_is_one_line_and_leaves_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let (path, other) = (folder.path().join("run.tmz"), folder.path().join("other.csv"));
    let (path_name, other_name) = (path.to_str().unwrap(), other.to_str().unwrap());
    let refuse = |content: &[u8], parts: &[&str]| {
        fs::write(&other, content).unwrap();
        refused(trainmon(&["import", other_name, "-o", path_name]), 1, &[&[other_name], parts].concat());
        assert!(!path.exists());
    };
    refuse(b"", &["not of a format"]);
    refuse(b"a,b\n1,2\n", &["not of a format", "--format"]);
    refuse(b"\xef\xbb\xbftimestamp, index, name\r\n", &["utilization.gpu", "nvidia-smi --query-gpu"]);
    refuse(b"# gpu pid type sm\n", &["pmon", "nvidia-smi dmon"]);
    refuse(b"{\"traceEvents\": [", &["cut off"]);
    refuse(&[0; 5000], &["not of a format"]);
    let mut bomb = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    bomb.write_all(b"{\"traceEvents\": [\"").unwrap();
    (0..64).for_each(|_| bomb.write_all(&[b' '; 1 << 20]).unwrap());
    refuse(&bomb.finish().unwrap(), &["longer than 1 MiB"]);
    refused(trainmon(&["import", "/", "-o", path_name]), 1, &["directory"]);
    refused(
        trainmon(&["import", &fixture("dmon.txt"), &fixture("pidstat.txt"), "-o", path_name]),
        1,
        &["no time in common"],
    );
    refused(trainmon(&["import", &fixture("dmon.txt"), "-o", path_name, "--format", "xml"]), 2, &["kineto"]);
    refused(trainmon(&["import", &fixture("dmon.txt"), "-o", path_name, "--pid", "1"]), 2, &["--pid"]);
    fs::write(&path, "mine").unwrap();
    refused(trainmon(&["import", &fixture("dmon.txt"), "-o", path_name]), 1, &["--force"]);
    assert_eq!(fs::read_to_string(&path).unwrap(), "mine");
    assert!(finish(trainmon(&["import", &fixture("dmon.txt"), "-o", path_name, "--force"])).status.success());
}
