//! `report`: a page about a recording, in a file or on standard output, and what it refuses.

use std::fs;

use crate::outcome::{finish, refused};
use crate::process::{Target, recording, text, trainmon};

#[test]
fn a_report_goes_into_a_new_file_of_its_owner() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.html");
    let name = path.to_str().unwrap();
    let file = recording("segmentation.tmz");
    let output = finish(trainmon(&["report", &file, "-o", name]));
    assert!(output.status.success() && output.stdout.is_empty(), "{output:?}");
    assert!(text(&output.stderr).contains(&format!("report in {name} (")), "{output:?}");
    let page = fs::read_to_string(&path).unwrap();
    assert!(page.starts_with("<!doctype html>") && page.ends_with("</html>\n"));
    for part in ["<h1>DATA LOADER · ", "dilate_mask", "▶ Raise num_workers", "Timelines", "Environment"] {
        assert!(page.contains(part), "{part}");
    }
    assert_eq!(std::os::unix::fs::MetadataExt::mode(&fs::metadata(&path).unwrap()) & 0o777, 0o600);
    // Nothing is overwritten unasked.
    refused(trainmon(&["report", &file, "-o", name]), 1, &[name, "--force"]);
    assert_eq!(fs::read_to_string(&path).unwrap(), page);
    assert!(finish(trainmon(&["report", &file, "-o", name, "--force"])).status.success());
}

#[test]
fn markdown_goes_to_standard_output() {
    let output = finish(trainmon(&["report", &recording("segmentation.tmz"), "-o", "-"]));
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    let page = text(&output.stdout);
    for part in [
        "## DATA LOADER · ",
        "- Watched: ",
        "### Time by verdict",
        "| From | For | Verdict | Cause |",
        "### Environment",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
}

#[test]
fn a_trace_needs_no_import_for_its_report() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.html");
    let html = path.to_str().unwrap();
    let trace = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/import/trace.json.gz");
    let output = finish(trainmon(&["report", trace, "-o", html]));
    assert!(text(&output.stderr).contains(&format!("report in {html} (")), "{output:?}");
    let page = fs::read_to_string(&path).unwrap();
    assert!(page.contains("<p>trace.json.gz · window ") && page.contains("<path class=\"operator\""), "{page}");
    let output = finish(trainmon(&["report", trace, "-o", "-"]));
    let page = text(&output.stdout);
    assert!(output.status.success() && page.contains("- Profile: trace.json.gz · window "), "{page}");
    let none = folder.path().join("none.json");
    fs::write(&none, "{\"a\": 1}").unwrap();
    refused(trainmon(&["report", none.to_str().unwrap(), "-o", html, "--force"]), 1, &["none.json", "traceEvents"]);
}

#[test]
fn a_report_has_the_title_that_it_is_given() {
    let file = recording("segmentation.tmz");
    let output = finish(trainmon(&["report", &file, "-o", "-", "--title", "Night run, *4* workers"]));
    let page = text(&output.stdout);
    // The run in short, and then the verdict.
    assert!(page.starts_with("# Night run, \\*4\\* workers\n\nWatched for 15 s, "), "{page}");
    let (short, _) = page.split_once("\n\n## DATA LOADER · ").unwrap();
    assert!(short.contains(": 104 steps in 13 s of training, 8 per second.") && !short.contains("\n### "), "{page}");
    refused(trainmon(&["report", &file, "-o", "-", "--title", ""]), 2, &["--title"]);
}

#[test]
fn a_report_names_the_machine_unless_the_recording_is_anonymized() {
    let folder = tempfile::tempdir().unwrap();
    let job = Target::sleeping();
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    let model = fs::read_to_string("/proc/cpuinfo").unwrap();
    let model = model
        .lines()
        .find_map(|line| line.strip_prefix("model name"))
        .map(|line| line.trim_matches([' ', '\t', ':']));
    for (options, is_named) in [(&[][..], true), (&["--anonymize"][..], false)] {
        let path = folder.path().join(format!("{is_named}.tmz"));
        let (pid, path) = (job.pid(), path.to_str().unwrap());
        let record = ["record", "--pid", &pid, "-i", "200ms", "--duration", "1s", "--no-stacks", "-o", path];
        assert!(finish(trainmon(&[&record, options].concat())).status.success());
        let page = text(&finish(trainmon(&["report", path, "-o", "-"])).stdout);
        assert_eq!(page.contains(&format!("| host | {} |", host.trim())), is_named, "{page}");
        assert!(model.is_none_or(|model| page.contains(&format!("| CPU model | {model} |"))), "{page}");
    }
}

#[test]
fn what_cannot_be_read_or_named_is_one_line_and_leaves_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let (path, damaged) = (folder.path().join("run.html"), folder.path().join("damaged.tmz"));
    let (name, damaged) = (path.to_str().unwrap(), damaged.to_str().unwrap());
    let file = recording("segmentation.tmz");
    refused(trainmon(&["report", &file, "-o", "run.pdf"]), 2, &["run.pdf", ".html or .md"]);
    refused(trainmon(&["report", "/nonexistent.tmz", "-o", name]), 1, &["/nonexistent.tmz"]);
    refused(trainmon(&["report", "Cargo.toml", "-o", name]), 1, &["not a recording"]);
    refused(trainmon(&["report", &file, "-o", name, "--append"]), 2, &["--append"]);
    refused(trainmon(&["report", &file, "-o", name, "--pid", "1"]), 2, &["--pid", "recording"]);
    let whole = fs::read(&file).unwrap();
    fs::write(damaged, &whole[..100]).unwrap();
    refused(trainmon(&["report", damaged, "-o", name]), 1, &[damaged]);
    assert!(!path.exists());
    // What is there before the damage is worth a report, which says what is missing.
    fs::write(damaged, &whole[..whole.len() - whole.len() / 4]).unwrap();
    let output = finish(trainmon(&["report", damaged, "-o", name]));
    assert!(output.status.success() && text(&output.stderr).contains("cut off"), "{output:?}");
    assert!(fs::read_to_string(&path).unwrap().contains("cut off"));
}
