//! `import`: what other tools recorded becomes a recording that every other command reads, and its verdict says no more than they
//! recorded.

use std::fs;

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
        let page = fs::read_to_string(page).unwrap();
        // What a profile does not show is not missing: its account is all that is judged.
        assert_eq!(page.contains("imported files"), !names.contains(&"trace.json.gz"), "{names:?}");
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
fn a_trace_is_judged_as_without_an_import() {
    let exact = verdict(trainmon(&["diagnose", &fixture("trace.json.gz"), "--json"]));
    assert_eq!(exact["profile"]["file"], "trace.json.gz");
    for names in [&["trace.json.gz"][..], &["trace.json.gz", "dmon.txt"], &["dmon.txt", "trace.json.gz"]] {
        let imported = imported(names);
        for key in ["class", "cause", "confidence", "summary", "shares", "steps", "advice", "profile"] {
            assert_eq!(imported[key], exact[key], "{names:?}: {key}");
        }
    }
    let wait = exact["shares"]["input_wait"].as_f64().unwrap();
    // trainmon's own recording of this process at the same time: 91%, and 22.4 steps a second.
    assert!((wait - 0.91).abs() < 0.03, "{wait}");
    let steps = &exact["steps"];
    assert!((steps["per_s"].as_f64().unwrap() - 22.4).abs() < 2.0 && steps["source"] == "profile", "{steps}");
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

/// The samples of a recording of these fixtures.
fn samples(names: &[&str]) -> Vec<Value> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.tmz");
    let files: Vec<String> = names.iter().map(|name| fixture(name)).collect();
    let mut words = vec!["import", "-o", path.to_str().unwrap()];
    words.extend(files.iter().map(String::as_str));
    let output = finish(trainmon(&words));
    assert!(output.status.success(), "{output:?}");
    let lines = zstd::stream::decode_all(fs::File::open(path).unwrap()).unwrap();
    let lines = text(&lines);
    lines.lines().skip(1).map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn files_of_one_time_are_put_together() {
    let samples = samples(&["trace.json.gz", "dmon.txt"]);
    let with_account = samples.iter().filter(|sample| sample.get("account").is_some()).count();
    assert_eq!((with_account, samples[0]["account"]["file"].as_str()), (1, Some("trace.json.gz")));
    let profiled = samples.iter().filter(|sample| sample.get("profile").is_some());
    let seconds: f64 = profiled.clone().map(|sample| sample["profile"]["seconds"].as_f64().unwrap()).sum();
    let window_s = samples[0]["account"]["window_ms"].as_f64().unwrap() / 1000.0;
    assert!((seconds - window_s).abs() < 0.001, "{seconds} of {window_s}");
    assert!(profiled.clone().count() > 1);
    let both = profiled.filter(|sample| sample["gpus"]["devices"][0]["power_mw"].is_u64());
    assert!(both.count() > 0, "nvidia-smi's figures beside the trace's");
    let traces = [fixture("trace.json.gz"), fixture("trace.json.gz")];
    refused(trainmon(&["import", &traces[0], &traces[1], "-o", "/nonexistent/x"]), 1, &["more than one trace"]);
}

/// Imports one text; gives what was said, the verdict, and the report.
fn imported_text(content: &str) -> (String, Value, String) {
    let folder = tempfile::tempdir().unwrap();
    let (file, path) = (folder.path().join("log.csv"), folder.path().join("run.tmz"));
    let (file, path) = (file.to_str().unwrap(), path.to_str().unwrap());
    fs::write(file, content).unwrap();
    let output = finish(trainmon(&["import", file, "-o", path]));
    assert!(output.status.success(), "{output:?}");
    let report = finish(trainmon(&["report", path, "-o", "-"]));
    let report = text(&report.stdout);
    (text(&output.stderr), verdict(trainmon(&["diagnose", "--replay", path, "--json"])), report)
}

/// The time of a row, so many milliseconds after 13:27:00.
fn row_time(ms: u64) -> String {
    format!("2026/11/26 13:{:02}:{:02}.{:03}", 27 + ms / 60_000, ms / 1000 % 60, ms % 1000)
}

#[test]
fn gpus_of_a_log_without_an_index_are_told_apart() {
    // As `nvidia-smi -l 1` writes them: each row with the moment at which its GPU was asked.
    let uses = [97, 12, 55];
    let rows = |with: &str| {
        let row = |round: u64, gpu: usize| {
            let key = if with.is_empty() { String::new() } else { format!(", 00000000:0{gpu}:00.0") };
            format!("{}, {} %{key}\n", row_time(round * 1006 + gpu as u64 * 3), uses[gpu])
        };
        let rows = (0..30).flat_map(|round| (0..3).map(move |gpu| (round, gpu)));
        format!("timestamp, utilization.gpu [%]{with}\n")
            + &rows.map(|(round, gpu)| row(round, gpu)).collect::<String>()
    };
    for (with, guessed) in [("", true), (", pci.bus_id", false)] {
        let (said, verdict, report) = imported_text(&rows(with));
        assert_eq!(said.contains("taken for 3 GPUs in turn; `--query-gpu=timestamp,index,…`"), guessed, "{said}");
        assert!(said.contains("31 samples in "), "a sample for each round: {said}");
        let summary = verdict["summary"].as_str().unwrap();
        assert!(summary.contains("on average the 3 GPUs are busy 55% of the time"), "{summary}");
        assert!(["| 0 ", "1 ", "2 "].iter().all(|gpu| report.contains(&format!("{gpu}unknown GPU"))), "{report}");
    }
}

#[test]
fn a_logs_use_of_the_gpu_is_its_mean() {
    // Idle for the first tenth, then 99%: what the last moments show is not what the log shows.
    let rows: String =
        (0..300).map(|at| format!("{}, 0, {} %\n", row_time(at * 1000), if at < 30 { 19 } else { 99 })).collect();
    let (_, verdict, report) = imported_text(&format!("timestamp, index, utilization.gpu [%]\n{rows}"));
    let summary = verdict["summary"].as_str().unwrap();
    assert!(summary.contains("on average the GPU is busy 91% of the time"), "{summary}");
    let idle = verdict["gpu_idle"]["total"].as_f64().unwrap();
    assert!((idle - 0.09).abs() < 0.005, "{idle}");
    let busy = &verdict["evidence"][0];
    assert!(busy["signal"] == "gpu_busy" && (busy["value"].as_f64().unwrap() - 0.91).abs() < 0.005, "{busy}");
    assert!(report.contains("busy 91% of the time") && report.contains("| 27 s | 9% |"), "{report}");
    assert!(!report.contains("99") && !report.contains("last moments"), "{report}");
}

#[test]
fn older_tables_and_those_without_a_head_are_read() {
    let old = "Linux 3.10.0-1160.el7.x86_64 (node7) \t11/26/2026 \t_x86_64_\t(8 CPU)\n\n\
               #      Time   UID       PID    %usr %system  %guest    %CPU   CPU  minflt/s  majflt/s     VSZ    RSS   %MEM   kB_rd/s   kB_wr/s kB_ccwr/s  Command\n";
    let rows: String = (0..9)
        .map(|at| format!(" {}     0      2487   50.00   10.00    0.00   60.00     1      8.00      0.00 3619904   1000   3.07     64.00      0.00      0.00  python\n", 1_795_702_742 + at))
        .collect();
    let (said, verdict, _) = imported_text(&format!("{old}{rows}"));
    assert!(said.contains("10 samples in ") && said.lines().count() == 1, "{said}");
    assert_eq!(verdict["pid"], 2487);
    let whole = fs::read_to_string(fixture("sar.txt")).unwrap();
    let (_, without) = whole.split_once("\n\n").unwrap();
    let (said, verdict, _) = imported_text(without);
    assert!(said.contains("no date in it: taken as of the day"), "{said}");
    assert_eq!(verdict["seen"]["disks"], "ok");
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
    refuse(b"", &["it is empty"]);
    refuse(b"a,b\n1,2\n", &["not of a format", "--format"]);
    refuse(b"\xef\xbb\xbftimestamp, index, name\r\n", &["utilization.gpu", "nvidia-smi --query-gpu"]);
    refuse(b"# gpu pid type sm\n", &["pmon", "nvidia-smi dmon"]);
    refuse(b"{\"traceEvents\": [", &["no operator"]);
    refuse(&[0; 5000], &["not of a format"]);
    let gpus: String = (0..20_000).map(|gpu| format!("2026/11/26 13:27:35.139, {gpu}, 50 %\n")).collect();
    refuse(format!("timestamp, index, utilization.gpu\n{gpus}").as_bytes(), &["more than 1024 GPUs at one moment"]);
    refuse(b"{\"traceEvents\": 7}", &["no list of `traceEvents`"]);
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
