//! `compare`: two runs in a sentence and in tables, as JSON and as pages, its exit status, and what it refuses.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use trainmon::diagnosis::chain::NodeName;
use trainmon::outputs::csv::CsvLog;
use trainmon::outputs::recording::Recorder;
use trainmon::pipeline::Pipeline;
use trainmon::sample::Sample;
use trainmon::sources::recording::Recording;

use crate::outcome::{assert_one_line, finish, refused};
use crate::process::{recording, text, trainmon};

/// A run of the recording's samples again and again, so often, as a recording with digests. A run of two minutes is
/// compared; counters that begin anew every few seconds make gaps, but steps and time stay right.
fn repeated(name: &str, times: u64, folder: &Path) -> String {
    let mut from = Recording::open(recording(name).as_ref()).unwrap();
    let samples: Vec<Sample> = from.by_ref().map(Result::unwrap).collect();
    let path = folder.join(format!("{times}-{name}"));
    let mut pipeline = Pipeline::of_recording(&from.header, None);
    let mut recorder = Recorder::new(fs::File::create(&path).unwrap(), &from.header).unwrap();
    let length_ns = samples.last().unwrap().monotonic_ns - samples[0].monotonic_ns + 1_000_000_000;
    for time in 0..times {
        for sample in &samples {
            let mut sample = sample.clone();
            sample.sequence += time * samples.len() as u64;
            sample.monotonic_ns += time * length_ns;
            sample.boottime_ns += time * length_ns;
            sample.unix_ms += (time * length_ns / 1_000_000) as i64;
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
    assert_eq!(slower("0", [&before, &before]), (0, "same".to_owned()));
}

/// The log that `--log` would have written of a recording.
fn logged(recording: &str) -> Vec<u8> {
    let mut recording = Recording::open(recording.as_ref()).unwrap();
    let mut pipeline = Pipeline::of_recording(&recording.header, None);
    let mut log = CsvLog::new(Vec::new());
    for sample in recording.by_ref() {
        let tick = pipeline.push(Arc::new(sample.unwrap()));
        log.write(&tick.frame, &tick.verdict).unwrap();
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
        assert!(
            page.starts_with("## DATA LOADER · too few workers") && page.contains("### Time by verdict"),
            "{page}"
        );
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
        (&b""[..], "not a recording or a log of trainmon"),
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
        verdict.chain.iter_mut().for_each(|node| node.name = NodeName::Named(HOSTILE.to_owned()));
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
    assert!(said([&short, &short]).starts_with("Step times cannot be compared: segmentation.tmz is too short."));
    assert!(said([&short, &other]).starts_with("These are two programs, segmentation.py and "));
    let output = finish(trainmon(&["compare", &short, &short, "--fail-if-slower", "5%"]));
    assert_one_line(&output, 1, &["--fail-if-slower", "too short"]);
    refused(trainmon(&["compare", &short, &short, "--fail-if-slower", "5x"]), 2, &["5x", "write 5%"]);
    refused(trainmon(&["compare", &short, "/nonexistent.tmz"]), 1, &["/nonexistent.tmz", "no such file"]);
    refused(trainmon(&["compare", &short, &short, "-o", "change.pdf"]), 2, &["change.pdf", ".html, .md or .json"]);
    refused(trainmon(&["compare", &short, &short, "--pid", "1"]), 2, &["--pid", "recording"]);
    refused(trainmon(&["compare", &short]), 2, &["missing AFTER"]);
}
