//! `compare`: two runs in a sentence and in tables, as JSON and as pages, its exit status, and what it refuses.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use trainmon::diagnosis::chain::Who;
use trainmon::outputs::csv::CsvLog;
use trainmon::outputs::recording::Recorder;
use trainmon::pipeline::Pipeline;
use trainmon::sample::Sample;
use trainmon::sources::recording::Recording;

use crate::made_trace::MadeTrace;
use crate::outcome::{finish, refused};
use crate::process::{recording, text, trainmon};

/// A run of the recording's samples again and again, so often, as a recording with digests. A run of two minutes is
/// compared; between two times lies a gap.
fn repeated(name: &str, times: u64, folder: &Path) -> String {
    changed((name, times), folder, |_, _| {})
}

/// The same, with samples and command line changed.
fn changed((name, times): (&str, u64), folder: &Path, mut change: impl FnMut(&mut Sample, &mut String)) -> String {
    let mut from = Recording::open(recording(name).as_ref()).unwrap();
    let samples: Vec<Sample> = from.by_ref().map(Result::unwrap).collect();
    let path = folder.join(format!("{times}-{name}"));
    change(&mut Sample::default(), &mut from.header.command);
    let mut pipeline = Pipeline::of_recording(&from.header, None);
    let mut recorder = Recorder::new(fs::File::create(&path).unwrap(), &from.header).unwrap();
    // A gap that is no time of the run: counters begin anew there.
    let length_ns = samples.last().unwrap().monotonic_ns - samples[0].monotonic_ns + 60_000_000_000;
    for time in 0..times {
        for sample in &samples {
            let mut sample = sample.clone();
            sample.sequence += time * samples.len() as u64;
            sample.monotonic_ns += time * length_ns;
            sample.boottime_ns += time * length_ns;
            sample.unix_ms += (time * length_ns / 1_000_000) as i64;
            change(&mut sample, &mut String::new());
            let sample = Arc::new(sample);
            recorder.digest(&pipeline.push(Arc::clone(&sample)));
            recorder.write(&sample).unwrap();
        }
    }
    recorder.flush().unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn what_changed_is_said_in_a_sentence_first() {
    let folder = tempfile::tempdir().unwrap();
    let before = repeated("segmentation.tmz", 12, folder.path());
    let after = repeated("segmentation-fixed.tmz", 12, folder.path());
    let output = finish(trainmon(&["compare", &before, &after]));
    let said = text(&output.stdout);
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    assert!(said.starts_with("Steps take ") && said.contains("less time: "), "{said}");
    for part in [
        "99% sure",
        "Where the time of a step goes",
        "waiting for data",
        "Wait chain",
        "Environment",
        "segmentation.py",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    // The other way around it is slower, and CI hears of it.
    let slower = |limit: &str, files: [&str; 2]| {
        let output = finish(trainmon(&["compare", files[0], files[1], "--fail-if-slower", limit, "--json"]));
        let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        (output.status.code().unwrap(), json["result"].as_str().unwrap().to_owned())
    };
    assert_eq!(slower("5%", [&after, &before]), (4, "slower".to_owned()));
    assert_eq!(slower("500%", [&after, &before]), (0, "slower".to_owned()));
    assert_eq!(slower("5%", [&before, &after]), (0, "faster".to_owned()));
    assert_eq!(slower("5%", [&before, &before]), (0, "same".to_owned()));
    // Nothing is certainly less than no change.
    assert_eq!(slower("0", [&before, &before]), (5, "unclear".to_owned()));
}

/// A log of so many seconds of training with steps of `step_ms`, which vary by `noise` from ten seconds to ten seconds.
fn log_of(path: &Path, seconds: usize, step_ms: f64, noise: f64) -> String {
    let mut random = fastrand::Rng::with_seed(7);
    let mut log = "timestamp,elapsed_s,pid,phase,class,cause,confidence,steps_per_s\n".to_owned();
    let mut slow = 1.0;
    for second in 0..=seconds {
        if second % 10 == 0 {
            slow = 1.0 + noise * (random.f64() - 0.5);
        }
        let at = format!("2026-01-01T00:{:02}:{:02}.000+00:00", second / 60, second % 60);
        let per_s = 1000.0 / step_ms / slow;
        log += &format!("{at},{second}.000,7,training,data-loader,,0.90,{per_s:.3}\n");
    }
    fs::write(path, log).unwrap();
    path.to_str().unwrap().to_owned()
}

/// Exit status, standard error and the comparison as JSON.
fn compared(files: [&str; 2], more: &[&str]) -> (i32, String, serde_json::Value) {
    let output = finish(trainmon(&[&["compare", files[0], files[1], "--json"], more].concat()));
    let json = serde_json::from_slice(&output.stdout).unwrap();
    (output.status.code().unwrap(), text(&output.stderr), json)
}

#[test]
fn what_is_too_noisy_to_be_certain_is_no_equality() {
    let folder = tempfile::tempdir().unwrap();
    let log = |name: &str, seconds, step_ms, noise| log_of(&folder.path().join(name), seconds, step_ms, noise);
    let before = log("before.csv", 90, 62.0, 0.9);
    let after = log("after.csv", 90, 48.0, 0.9);
    let output = finish(trainmon(&["compare", &before, &after]));
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0));
    let said = said.split("\n\n").next().unwrap().replace('\n', " ");
    assert!(said.starts_with("Steps take about 23% less time: "), "{said}");
    assert!(
        said.contains("; too noisy to be certain. The change is between −") && said.contains("(99% sure)"),
        "{said}"
    );
    assert!(said.contains(" Record about ") && said.contains(" minutes of each run."), "{said}");
    let (status, told, json) = compared([&before, &after], &["--fail-if-slower", "5%"]);
    assert_eq!((status, json["result"].as_str(), json["limit"].as_f64()), (5, Some("unclear"), Some(0.05)));
    assert!(told.starts_with("trainmon: --fail-if-slower: not certain: Steps take about 23% less time"), "{told}");
    assert_eq!(json["step_change"]["change"].as_f64().map(|change| (change * 100.0).round()), Some(-23.0));
    assert!(json["step_change"]["low"].as_f64() < Some(-0.3) && json["step_change"]["high"].as_f64() > Some(0.05));
    // So much is enough.
    let needed_s = json["needed_s"].as_f64().unwrap().max(600.0);
    let [before, after] =
        [("b.csv", 62.0), ("a.csv", 48.0)].map(|(name, step_ms)| log(name, 2 * needed_s as usize, step_ms, 0.9));
    let (status, _, json) = compared([&before, &after], &["--fail-if-slower", "5%"]);
    assert_eq!((status, &json["result"], &json["needed_s"]), (0, &"faster".into(), &serde_json::Value::Null));
}

#[test]
fn a_slowdown_at_the_limit_never_ends_with_success() {
    let folder = tempfile::tempdir().unwrap();
    let log = |name: &str, step_ms| log_of(&folder.path().join(name), 180, step_ms, 0.02);
    let before = log("before.csv", 100.0);
    for (step_ms, limit, status, result) in [
        (105.0, "5%", 5, "unclear"),
        (108.0, "5%", 4, "slower"),
        (102.0, "5%", 0, "slower"),
        (100.0, "5%", 0, "same"),
        (95.0, "5%", 0, "faster"),
        (105.0, "10%", 0, "slower"),
        (105.0, "0", 4, "slower"),
        (100.0, "0", 5, "unclear"),
    ] {
        let after = log("after.csv", step_ms);
        let (ended, told, json) = compared([&before, &after], &["--fail-if-slower", limit]);
        assert_eq!((ended, json["result"].as_str()), (status, Some(result)), "{step_ms} {limit}: {json:#}");
        assert_eq!(told.is_empty(), status != 5, "{told}");
        if (step_ms, limit) == (105.0, "5%") {
            assert!(told.contains("Steps take about 5% longer: "), "{told}");
            assert!(told.contains("too close to 5% to be certain. The change is between +4."), "{told}");
            assert!(told.contains("Even an hour of each run would not tell."), "{told}");
        }
    }
}

#[test]
fn a_short_run_gives_a_guess_and_says_how_much_more_it_takes() {
    let folder = tempfile::tempdir().unwrap();
    let log = |name: &str, seconds, step_ms| log_of(&folder.path().join(name), seconds, step_ms, 0.3);
    let (before, after) = (log("before.csv", 90, 62.0), log("after.csv", 30, 48.0));
    let (status, told, json) = compared([&before, &after], &["--fail-if-slower", "5%"]);
    assert_eq!((status, json["result"].as_str()), (5, Some("unclear")));
    let said = json["summary"].as_str().unwrap();
    assert!(said.starts_with("Steps take about 18% less time: 49 ms instead of 59 ms; "), "{said}");
    assert!(said.contains("; after.csv is too short to be certain. It has 30 s of training"), "{said}");
    assert!(said.contains(" Record a") && said.ends_with(" of each run."), "{said}");
    assert!(told.contains("too short to be certain"), "{told}");
    assert!(json["step_change"]["low"].is_null() && json["needed_s"].as_f64() >= Some(60.0), "{json:#}");
}

#[test]
fn other_work_on_the_machine_and_other_arguments_are_said() {
    let folder = tempfile::tempdir().unwrap();
    let quiet = folder.path().join("quiet");
    fs::create_dir(&quiet).unwrap();
    let long = format!("python segmentation.py --data {} --workers", "/data/images".repeat(12));
    let with = |folder: &Path, workers: u32, others: u64| {
        let command = format!("{long} {workers} --amp");
        changed(("segmentation.tmz", 12), folder, |sample, header| {
            header.clone_from(&command);
            let Some(host) = &mut sample.host else { return };
            let (host, ticks) = (Arc::make_mut(host), sample.monotonic_ns / 10_000_000);
            host.name = Some(format!("node-{workers}").into());
            // Other processes take so many hundredths of each CPU, which were idle.
            for cpu in &mut host.cpus {
                cpu.user += ticks * others / 100;
                cpu.idle = (cpu.idle + ticks).saturating_sub(ticks * others / 100);
            }
        })
    };
    let (before, after) = (with(&quiet, 1, 0), with(folder.path(), 2, 60));
    let page = folder.path().join("change.html");
    let page = page.to_str().unwrap();
    for words in [vec![], vec!["-o", "-"], vec!["--json"], vec!["-o", page]] {
        let output = finish(trainmon(&[&["compare", &before, &after][..], &words].concat()));
        let said = text(&output.stdout) + &fs::read_to_string(page).unwrap_or_default();
        let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
        let differs = if words == ["--json"] {
            r#""command_change": { "before": "--workers 1", "after": "--workers 2" }"#
        } else {
            "The command lines differ: --workers 1 before, --workers 2 after."
        };
        assert!(said.contains(differs), "{words:?}: {said}");
        let caution = said.find("Other processes used ").unwrap_or_else(|| panic!("{words:?}: {said}"));
        assert!(said[caution..].contains("% of the CPUs before, "), "{said}");
        assert!(said.contains("The machines differ: node-1 before, node-2 after."), "{said}");
        // Before the first table.
        let table = said.find("Where the time of a step goes").unwrap_or(said.len());
        assert!(said.find("command").unwrap() < table && caution < table, "{said}");
    }
    let (_, _, json) = compared([&before, &after], &[]);
    let of = |run: &str| json[run]["surroundings"]["others_cpu_pct"].as_f64().unwrap();
    assert!(of("after") > of("before") + 10.0, "{json:#}");
}

/// The log that `--log` would have written of a recording.
fn logged(recording: &str) -> Vec<u8> {
    let mut recording = Recording::open(recording.as_ref()).unwrap();
    let mut pipeline = Pipeline::of_recording(&recording.header, None);
    let mut log = CsvLog::new(Vec::new());
    for sample in recording.by_ref() {
        let tick = pipeline.push(Arc::new(sample.unwrap()));
        log.write(&tick).unwrap();
    }
    log.out
}

#[test]
fn a_log_has_the_numbers_of_the_recording() {
    let folder = tempfile::tempdir().unwrap();
    let before = repeated("segmentation.tmz", 12, folder.path());
    let log = logged(&before);
    let path = folder.path().join("run.csv");
    let name = path.to_str().unwrap();
    let text_of_log = String::from_utf8(log.clone()).unwrap();
    let other_ends = format!("\u{feff}{}", text_of_log.replace('\n', "\r\n"));
    for bytes in [log, other_ends.into_bytes()] {
        fs::write(&path, bytes).unwrap();
        let output = finish(trainmon(&["compare", &before, name, "--json"]));
        let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert!(output.stderr.is_empty(), "{output:?}");
        assert_eq!(json["result"], "same");
        let both = |of: fn(&serde_json::Value) -> f64| (of(&json["before"]), of(&json["after"]));
        let values: [fn(&serde_json::Value) -> f64; 5] = [
            |run| run["step_ms"].as_f64().unwrap() / 100.0,
            |run| run["shares"]["input_wait"].as_f64().unwrap(),
            |run| run["resources"]["use of the GPUs"].as_f64().unwrap() / 100.0,
            |run| run["resources"]["use of the allowed CPUs"].as_f64().unwrap() / 100.0,
            |run| run["watched_s"].as_f64().unwrap() / 200.0,
        ];
        for value in values {
            let (recorded, logged) = both(value);
            assert!((recorded - logged).abs() < 0.03, "{recorded} {logged}");
        }
        let page = finish(trainmon(&["report", name, "-o", "-"]));
        let page = text(&page.stdout);
        assert!(page.contains("## DATA LOADER · too few workers") && page.contains("### Time by verdict"), "{page}");
    }
}

#[test]
fn a_damaged_log_gives_what_is_whole_and_a_note() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.csv");
    let name = path.to_str().unwrap();
    let log = logged(&recording("segmentation.tmz"));
    fs::write(&path, &log[..log.len() - 100]).unwrap();
    let output = finish(trainmon(&["report", name, "-o", "-"]));
    assert!(output.status.success());
    assert!(
        text(&output.stderr).contains("cut off or damaged at line ") && text(&output.stdout).contains("- Note: ")
    );
    let html = folder.path().join("run.html");
    let html = html.to_str().unwrap();
    for (bytes, part) in [
        (&b"a,b\n1,2\n"[..], "not a recording or a log of trainmon"),
        (&b""[..], "it is empty"),
        (&log[..log.iter().position(|byte| *byte == b'\n').unwrap() + 1], "no samples in it"),
    ] {
        fs::write(&path, bytes).unwrap();
        refused(trainmon(&["report", name, "-o", html]), 1, &[name, part]);
    }
    fs::write(&path, vec![b'x'; 1 << 20]).unwrap();
    refused(trainmon(&["report", name, "-o", html]), 1, &[name, "longer than 256 KiB"]);
    assert!(!Path::new(html).exists());
}

#[test]
fn the_shares_of_a_step_add_up_to_it() {
    let folder = tempfile::tempdir().unwrap();
    let file = repeated("segmentation.tmz", 12, folder.path());
    let output = finish(trainmon(&["compare", &file, &file, "--json"]));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["schema"], 1);
    assert_eq!(json["before"], json["after"]);
    let shares = json["after"]["shares"].as_object().unwrap();
    assert!((shares.values().map(|share| share.as_f64().unwrap()).sum::<f64>() - 1.0).abs() < 1e-6);
    let step_ms = json["after"]["step_ms"].as_f64().unwrap();
    assert!((100.0..160.0).contains(&step_ms), "{step_ms}");
    let change = &json["step_change"];
    assert!(change["change"] == 0.0 && change["low"].as_f64() < Some(0.0) && change["high"].as_f64() > Some(0.0));
}

#[test]
fn text_in_a_digest_controls_no_terminal() {
    const HOSTILE: &str = "\u{1b}]0;owned\u{7}\u{1b}[31m<script>alert(1)</script>\u{202e}\n# heading";
    let folder = tempfile::tempdir().unwrap();
    let mut from = Recording::open(recording("segmentation.tmz").as_ref()).unwrap();
    let path = folder.path().join("hostile.tmz");
    let name = path.to_str().unwrap();
    let mut pipeline = Pipeline::of_recording(&from.header, None);
    let mut recorder = Recorder::new(fs::File::create(&path).unwrap(), &from.header).unwrap();
    for sample in from.by_ref() {
        let sample = Arc::new(sample.unwrap());
        let tick = pipeline.push(Arc::clone(&sample));
        let mut verdict = (*tick.verdict).clone();
        verdict.summary = HOSTILE.to_owned();
        verdict.command = HOSTILE.to_owned();
        verdict.advice.iter_mut().for_each(|advice| advice.title = HOSTILE.to_owned());
        verdict.chain.iter_mut().for_each(|node| node.who = Who::Process(HOSTILE.to_owned()));
        recorder.digest(&trainmon::pipeline::Tick { verdict: Arc::new(verdict), ..(*tick).clone() });
        recorder.write(&sample).unwrap();
    }
    recorder.flush().unwrap();
    let html = folder.path().join("page.html");
    let html = html.to_str().unwrap();
    for words in [
        vec!["report", name, "-o", "-"],
        vec!["report", name, "-o", html],
        vec!["compare", name, name],
        vec!["compare", name, name, "-o", "-"],
        vec!["compare", name, name, "-o", html, "--force"],
    ] {
        let output = finish(trainmon(&words));
        let page = fs::read_to_string(html).unwrap_or_default();
        let all = format!("{}{}{page}", text(&output.stdout), text(&output.stderr));
        assert!(output.status.success() && all.contains("alert"), "{words:?}: {all}");
        let controls = |c: char| c.is_control() && c != '\n' || c == '\u{202e}';
        assert!(!all.contains(controls) && !page.contains("<script>alert"), "{words:?}");
    }
}

#[test]
fn pages_are_new_files() {
    let folder = tempfile::tempdir().unwrap();
    let file = recording("segmentation.tmz");
    for (ending, begin, end) in [("html", "<!doctype html>", "</html>\n"), ("md", "## ", ""), ("json", "{", "}\n")] {
        let path = folder.path().join(format!("change.{ending}"));
        let name = path.to_str().unwrap();
        let output = finish(trainmon(&["compare", &file, &file, "-o", name]));
        assert!(output.status.success() && output.stdout.is_empty(), "{output:?}");
        let page = fs::read_to_string(&path).unwrap();
        assert!(page.starts_with(begin) && page.ends_with(end), "{page}");
        refused(trainmon(&["compare", &file, &file, "-o", name]), 1, &[name, "--force"]);
        assert_eq!(fs::read_to_string(&path).unwrap(), page);
    }
    let page = finish(trainmon(&["compare", &file, &file, "-o", "-"])).stdout;
    assert!(text(&page).starts_with("## segmentation.tmz → segmentation.tmz\n"));
}

#[test]
fn what_cannot_be_compared_is_said() {
    let (short, other) = (recording("segmentation.tmz"), recording("balanced.tmz"));
    let said = |files: [&str; 2]| text(&finish(trainmon(&["compare", files[0], files[1]])).stdout).replace('\n', " ");
    assert!(said([&short, &other]).starts_with("These are two programs, segmentation.py and "));
    let output = finish(trainmon(&["compare", &short, &other, "--fail-if-slower", "5%", "-o", "-"]));
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("--fail-if-slower: These are two programs"), "{output:?}");
    refused(trainmon(&["compare", &short, &short, "--fail-if-slower", "5x"]), 2, &["5x", "write 5%"]);
    refused(trainmon(&["compare", &short, "/nonexistent.tmz"]), 1, &["/nonexistent.tmz", "no such file"]);
    refused(trainmon(&["compare", &short, &short, "-o", "change.pdf"]), 2, &["change.pdf", ".html, .md or .json"]);
    refused(trainmon(&["compare", &short, &short, "--pid", "1"]), 2, &["--pid", "recording"]);
    refused(trainmon(&["compare", &short]), 2, &["missing AFTER"]);
}

/// Two traces, of which the second waits less for data, and one of a single step.
fn traces(folder: &Path) -> [String; 3] {
    let slow = [40.0, 40.2, 40.1, 39.9, 40.0];
    let fast = [25.4, 25.9, 24.9, 25.4, 25.6];
    let made = |name: &str, steps_ms: &[f64], wait_ms| {
        let trace = MadeTrace { steps_ms, wait_ms, kernel: "ampere_sgemm_128x64_tn", operator: "aten::mm" };
        let path = folder.join(name);
        fs::write(&path, trace.text()).unwrap();
        path.to_str().unwrap().to_owned()
    };
    // By its content, not by its name.
    [made("slow.json", &slow, 15.0), made("fast", &fast, 0.4), made("one.json", &slow[..1], 15.0)]
}

#[test]
fn two_traces_are_compared_as_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let [slow, fast, one] = traces(folder.path());
    let output = finish(trainmon(&["compare", &slow, &fast]));
    let said = text(&output.stdout).replace('\n', " ");
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    assert!(said.starts_with("A step takes 25 ms instead of 40 ms (36% less;"), "{said}");
    assert!(said.contains("the GPU no longer waits for data (−15 ms)."), "{said}");
    assert!(said.contains("idle: waiting for data") && said.contains("Tesla V100"), "{said}");
    let json = |arguments: &[&str]| {
        let output = finish(trainmon(&[&["compare", "--json"], arguments].concat()));
        let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        (output.status.code().unwrap(), json)
    };
    let (status, compared) = json(&[&slow, &fast]);
    assert_eq!((status, compared["result"].as_str()), (0, Some("faster")));
    let parts = compared["profile"]["parts"].as_array().unwrap();
    let sum: f64 = parts.iter().map(|part| part["change_ms"].as_f64().unwrap()).sum();
    let length = &compared["profile"]["length_ms"];
    let change = length["after"].as_f64().unwrap() - length["before"].as_f64().unwrap();
    assert!((sum - change).abs() < 1e-6 && (change + 14.6).abs() < 0.01, "{sum} of {change}");
    for (files, limit, wanted) in [
        ([&fast, &slow], "5%", (4, "slower")),
        ([&slow, &fast], "5%", (0, "faster")),
        ([&slow, &slow], "5%", (0, "same")),
        ([&fast, &one], "5%", (5, "unclear")),
        ([&one, &one], "5%", (5, "unclear")),
    ] {
        let (status, compared) = json(&[files[0], files[1], "--fail-if-slower", limit]);
        assert_eq!((status, compared["result"].as_str().unwrap()), wanted, "{compared}");
    }
    for (name, begin, part) in [
        ("c.md", "## slow.json → fast\n", "| idle: waiting for data"),
        ("c.html", "<!doctype html>", "idle: waiting for data"),
        ("c.json", "{\n", "\"parts_of\": \"gpu\""),
    ] {
        let path = folder.path().join(name);
        let output = finish(trainmon(&["compare", &slow, &fast, "-o", path.to_str().unwrap()]));
        let page = fs::read_to_string(path).unwrap();
        assert!(output.status.success() && page.starts_with(begin), "{output:?}: {page}");
        assert!(page.contains(part), "{page}");
    }
}

#[test]
fn a_trace_is_compared_with_a_trace_alone() {
    let folder = tempfile::tempdir().unwrap();
    let [slow, _, one] = traces(folder.path());
    let other = recording("segmentation.tmz");
    for files in [[&slow, &other], [&other, &slow]] {
        refused(trainmon(&["compare", files[0], files[1]]), 1, &["slow.json is a trace and", "compare two traces"]);
    }
    refused(trainmon(&["compare", &slow, "/nonexistent.json"]), 1, &["/nonexistent.json", "no such file"]);
    let nothing = folder.path().join("nothing.json");
    fs::write(&nothing, "{\"traceEvents\": []}").unwrap();
    refused(
        trainmon(&["compare", &slow, nothing.to_str().unwrap()]),
        1,
        &["nothing.json", "no operator and no kernel"],
    );
    let said = text(&finish(trainmon(&["compare", &one, &one])).stdout).replace('\n', " ");
    assert!(said.contains("One step each cannot be distinguished from noise."), "{said}");
}
