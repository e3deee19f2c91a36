//! The commands on the pages of the documentation: those that work on files are run, the others are read as a command line.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Command;

use crate::outcome::finish;
use crate::process::{PROGRAM, recording, text};

/// Commands that need neither a job nor a terminal.
const RUN: [&str; 8] = ["report", "compare", "trace", "import", "explain", "completions", "man", "help"];

/// What torch's profiler writes, cut down to one operator.
const PROFILE: &str = r#"{"schemaVersion": 1, "baseTimeNanoseconds": 1795000000000000000, "traceEvents": [
  {"ph": "X", "cat": "cpu_op", "name": "aten::to", "pid": 495, "tid": 495, "ts": 4627862367.862, "dur": 2483.389}]}"#;

/// What other tools wrote: as the page about imports calls it, and the file that is taken.
const IMPORTED: [(&str, &str); 4] = [
    ("trace.json.gz", "trace.json.gz"),
    ("smi.csv", "nvidia-smi.csv"),
    ("pidstat.txt", "pidstat.txt"),
    ("sar.txt", "sar.txt"),
];

/// The command lines in blocks of code, without what is said of them beside.
fn examples() -> BTreeSet<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let pages = fs::read_dir(root.join("docs")).unwrap().map(|entry| entry.unwrap().path());
    let pages = pages.filter(|path| path.extension().is_some_and(|ending| ending == "md"));
    let mut found = BTreeSet::new();
    for page in pages.chain([root.join("README.md")]) {
        let mut in_code = false;
        for line in fs::read_to_string(page).unwrap().lines() {
            in_code ^= line.starts_with("```");
            // Those with an output below them, `$ trainmon …`, are run by the tests of the documentation.
            let command = line.split("  ").next().unwrap_or_default();
            let command = command.split(" #").next().unwrap_or_default().trim();
            if in_code && (command == "trainmon" || command.starts_with("trainmon ")) {
                found.insert(command.to_owned());
            }
        }
    }
    found
}

/// The output that a command writes, if it names one.
fn output(words: &[&str]) -> Option<String> {
    let at = words.iter().position(|word| *word == "-o")?;
    words.get(at + 1).filter(|path| **path != "-").map(|path| (*path).to_owned())
}

#[test]
fn every_command_on_a_page_works_as_written() {
    let folder = tempfile::tempdir().unwrap();
    let given = [("run", "segmentation"), ("before", "segmentation"), ("after", "segmentation-fixed")];
    let fresh = || {
        for (name, from) in given {
            fs::copy(recording(&format!("{from}.tmz")), folder.path().join(format!("{name}.tmz"))).unwrap();
        }
    };
    for name in ["prof.json.gz", "before.json.gz", "after.json.gz"] {
        let profile = fs::File::create(folder.path().join(name)).unwrap();
        let mut profile = flate2::write::GzEncoder::new(profile, flate2::Compression::fast());
        profile.write_all(PROFILE.as_bytes()).unwrap();
        profile.finish().unwrap();
    }
    let imported = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/import");
    for (name, from) in IMPORTED {
        let bytes = fs::read(imported.join(from)).unwrap();
        // They were recorded apart, and are imported together.
        let bytes = match String::from_utf8(bytes) {
            Ok(text) => text.replace(" 13:27:3", " 14:19:0").into_bytes(),
            Err(compressed) => compressed.into_bytes(),
        };
        fs::write(folder.path().join(name), bytes).unwrap();
    }
    let compressed = fs::File::open(folder.path().join("trace.json.gz")).unwrap();
    let mut plain = fs::File::create(folder.path().join("trace.json")).unwrap();
    std::io::copy(&mut flate2::read::GzDecoder::new(compressed), &mut plain).unwrap();
    let (mut ran, mut read) = (0, 0);
    for line in examples() {
        let words: Vec<&str> = line.split_whitespace().skip(1).collect();
        let runs = words.first().is_some_and(|command| RUN.contains(command)) || line.contains("--replay");
        let runs = runs || line.starts_with("trainmon export") && line.contains("--duration");
        // Without a minute of training, there is nothing to fail on.
        let runs = runs && !line.contains("--fail-if-slower");
        let output = output(&words).filter(|_| runs);
        let mut command = Command::new("bash");
        command.current_dir(folder.path()).env("HOME", "/nonexistent").env("SLURM_PROCID", "0");
        if runs {
            fresh();
            // What a command is to write is not there yet.
            if let Some(path) = &output {
                let _ = fs::remove_file(folder.path().join(path));
            }
            // Completions are longer than a pipe holds.
            command.args(["-c", &format!("{} >said.txt", line.replacen("trainmon", PROGRAM, 1))]);
            ran += 1;
        } else {
            // Right behind the command: what follows `--` is another program's.
            let place =
                words.iter().take_while(|word| !word.starts_with('-') && !word.starts_with('"')).count().min(1);
            let (before, after) = words.split_at(place);
            let words = [before, &["--print-config"], after].concat();
            command.args(["-c", &format!("{PROGRAM} {}", words.join(" "))]);
            read += 1;
        }
        let result = finish(command);
        let said = text(&result.stderr);
        let is_pid = said.contains("no process") || line.contains("pgrep");
        assert!(result.status.success() || is_pid, "{line}: {said}");
        if let Some(path) = output {
            assert!(fs::metadata(folder.path().join(&path)).unwrap().len() > 100, "{line}: {path}");
            fs::remove_file(folder.path().join(&path)).unwrap();
        }
    }
    assert!(ran >= 6 && read >= 15, "{ran} run, {read} read");
}
