//! `trace`: a recording for Perfetto, in a file or on standard output, and what it refuses.

use std::fs;
use std::io::Read;

use crate::outcome::{finish, refused};
use crate::process::{recording, text, trainmon};

/// How a trace begins: a packet with a clock snapshot.
const BEGIN: u8 = 0x0a;

#[test]
fn a_trace_goes_into_a_new_file_of_its_owner() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.pftrace");
    let name = path.to_str().unwrap();
    let file = recording("segmentation.tmz");
    let output = finish(trainmon(&["trace", &file, "-o", name]));
    assert!(output.status.success() && output.stdout.is_empty(), "{output:?}");
    let said = text(&output.stderr);
    assert!(said.contains(&format!("trace in {name} (")) && said.contains("https://ui.perfetto.dev"), "{said}");
    let trace = fs::read(&path).unwrap();
    assert_eq!(trace[0], BEGIN);
    for part in [
        "DATA LOADER · too few workers",
        "waiting for data",
        "gpu_util_pct",
        "wait chain",
        "transform",
        "step",
        "8 batches",
    ] {
        assert!(trace.windows(part.len()).any(|bytes| bytes == part.as_bytes()), "{part}");
    }
    assert_eq!(std::os::unix::fs::MetadataExt::mode(&fs::metadata(&path).unwrap()) & 0o777, 0o600);
    // Nothing is overwritten unasked, and the same recording gives the same trace.
    refused(trainmon(&["trace", &file, "-o", name]), 1, &[name, "--force"]);
    assert!(finish(trainmon(&["trace", &file, "-o", name, "--force"])).status.success());
    assert_eq!(fs::read(&path).unwrap(), trace);
    let compressed = format!("{name}.gz");
    let output = finish(trainmon(&["trace", &file, "-o", &compressed]));
    let bytes = fs::read(&compressed).unwrap();
    assert!(text(&output.stderr).contains(&format!("({} KiB)", bytes.len().div_ceil(1024))), "{output:?}");
    let mut unpacked = Vec::new();
    flate2::read::GzDecoder::new(&bytes[..]).read_to_end(&mut unpacked).unwrap();
    assert_eq!(unpacked, trace);
    let output = finish(trainmon(&["trace", &file, "-o", "-"]));
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    assert_eq!(output.stdout, trace);
}

#[test]
fn a_profile_goes_into_the_trace() {
    let folder = tempfile::tempdir().unwrap();
    let (profile, path) = (folder.path().join("prof.json"), folder.path().join("both.pftrace"));
    let (profile, name) = (profile.to_str().unwrap(), path.to_str().unwrap());
    let file = recording("segmentation.tmz");
    let arguments = ["trace", &file, "--torch-profile", profile, "-o", name];
    let event = r#"{"ph": "X", "cat": "kernel", "name": "gemm_of_a_test", "pid": 0, "tid": 7, "ts": 5.5, "dur": 2}"#;
    fs::write(profile, format!("{{\"baseTimeNanoseconds\": 1000, \"traceEvents\": [{event}]}}")).unwrap();
    let output = finish(trainmon(&arguments));
    assert!(output.status.success(), "{output:?}");
    assert!(text(&output.stderr).contains("covers none of the recorded time"), "{output:?}");
    let trace = fs::read(&path).unwrap();
    assert!(trace.windows(14).any(|bytes| bytes == b"gemm_of_a_test"));
    // What cannot be read is one line and leaves what is there.
    for (other, why) in
        [("", "it is empty"), ("{}", "not a trace of torch.profiler"), ("no json", "not a trace of torch.profiler")]
    {
        fs::write(profile, other).unwrap();
        let forced = [&arguments[..], &["--force"]].concat();
        refused(trainmon(&forced), 1, &[profile, why]);
    }
    assert_eq!(fs::read(&path).unwrap(), trace);
    refused(
        trainmon(&["trace", &file, "--torch-profile", "/nonexistent.json", "-o", name]),
        1,
        &["/nonexistent.json"],
    );
    // What was written before it was cut off is worth a trace.
    let long = format!("{{\"name\": \"{}\"}}", "x".repeat(9 << 20));
    fs::write(profile, format!("{{\"traceEvents\": [{event}, {long}, {event}, {{")).unwrap();
    let output = finish(trainmon(&[&arguments[..], &["--force"]].concat()));
    let said = text(&output.stderr);
    assert!(
        output.status.success() && said.contains("ends early") && said.contains("1 events left out: damaged"),
        "{said}"
    );
    assert!(fs::read(&path).unwrap().windows(14).any(|bytes| bytes == b"gemm_of_a_test"));
}

#[test]
fn what_cannot_be_read_or_named_is_one_line_and_leaves_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let (path, damaged) = (folder.path().join("run.pftrace"), folder.path().join("damaged.tmz"));
    let (name, damaged) = (path.to_str().unwrap(), damaged.to_str().unwrap());
    let file = recording("segmentation.tmz");
    refused(trainmon(&["trace", "/nonexistent.tmz", "-o", name]), 1, &["/nonexistent.tmz"]);
    refused(trainmon(&["trace", "Cargo.toml", "-o", name]), 1, &["not a recording"]);
    refused(trainmon(&["trace", &file, "-o", name, "--append"]), 2, &["a trace cannot be appended to"]);
    refused(trainmon(&["trace", &file, "-o", name, "--pid", "1"]), 2, &["--pid", "recording"]);
    refused(trainmon(&["trace", &file, "-o", "/nonexistent/run.pftrace"]), 1, &["no such folder"]);
    let whole = fs::read(&file).unwrap();
    fs::write(damaged, &whole[..100]).unwrap();
    refused(trainmon(&["trace", damaged, "-o", name]), 1, &[damaged]);
    assert!(!path.exists());
    // What is there before the damage is worth a trace.
    fs::write(damaged, &whole[..whole.len() - whole.len() / 4]).unwrap();
    let output = finish(trainmon(&["trace", damaged, "-o", name]));
    assert!(output.status.success() && text(&output.stderr).contains("cut off"), "{output:?}");
    assert_eq!(fs::read(&path).unwrap()[0], BEGIN);
}
