//! Files that cannot be read where a trace or a recording is asked for: one line that says why, and what helps.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::outcome::{as_user, finish, program_for_all, refused};
use crate::process::{text, trainmon};

/// A trace with one operator.
const TRACE: &str =
    r#"{"traceEvents":[{"ph":"X","cat":"cpu_op","name":"aten::mm","pid":1,"tid":1,"ts":1,"dur":5000}]}"#;

/// The commands that read a file of any kind, before its name.
fn readers(folder: &Path) -> Vec<Vec<String>> {
    let in_folder = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    fs::write(folder.join("good.json"), TRACE).unwrap();
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    vec![
        words(&["diagnose"]),
        words(&["diagnose", "--replay"]),
        words(&["watch", "--replay"]),
        words(&["replay"]),
        words(&["report", "-o", &in_folder("out.html")]),
        words(&["trace", "-o", &in_folder("out.pftrace")]),
        words(&["import", "-o", &in_folder("out.tmz")]),
        words(&["compare", &in_folder("good.json")]),
        words(&["diagnose", &in_folder("good.json")]),
    ]
}

fn reading(reader: &[String], file: &str) -> Command {
    let arguments: Vec<&str> = reader.iter().map(String::as_str).chain([file]).collect();
    trainmon(&arguments)
}

#[test]
fn what_cannot_be_read_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    fs::create_dir(path("folder.json")).unwrap();
    fs::write(path("empty.json"), "").unwrap();
    fs::write(path("utf16.json"), b"\xff\xfe{\0}\0").unwrap();
    std::os::unix::fs::symlink(path("loop.json"), path("loop.json")).unwrap();
    for reader in readers(folder.path()) {
        for (name, why) in [
            ("folder.json", "it is a directory; name a file in it"),
            ("empty.json", "it is empty"),
            ("utf16.json", "it is text in UTF-16; convert it first with iconv -f UTF-16 -t UTF-8"),
            ("loop.json", "too many levels of symbolic links"),
        ] {
            refused(reading(&reader, &path(name)), 1, &[&format!("{}: {why}\n", path(name))]);
        }
        let mut piped = reading(&reader, "/dev/stdin");
        let (output, mut input) = std::io::pipe().unwrap();
        std::io::Write::write_all(&mut input, TRACE.as_bytes()).unwrap();
        drop(input);
        piped.stdin(Stdio::from(output));
        refused(piped, 1, &["/dev/stdin: it is a pipe; save it in a file first\n"]);
    }
}

#[test]
fn a_file_of_another_user_says_so() {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let secret = folder.path().join("secret.json");
    fs::write(&secret, TRACE).unwrap();
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
    let program = program_for_all(folder.path());
    for reader in readers(folder.path()) {
        let arguments: Vec<&str> = reader.iter().map(String::as_str).chain(secret.to_str()).collect();
        refused(
            as_user("65533", &program, &arguments).unwrap(),
            1,
            &["secret.json: permission denied; run trainmon as a user who may read it\n"],
        );
    }
}

#[test]
fn a_trace_in_place_of_a_recording_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("trace.json");
    fs::write(&trace, TRACE).unwrap();
    let trace = trace.to_str().unwrap();
    let by_replay = finish(trainmon(&["diagnose", "--replay", trace]));
    assert!(by_replay.status.success(), "{by_replay:?}");
    assert_eq!(text(&by_replay.stdout), text(&finish(trainmon(&["diagnose", trace])).stdout));
    let named = format!("{trace} is a trace, not a recording: trainmon diagnose {trace}");
    refused(trainmon(&["watch", "--replay", trace]), 1, &[&named]);
    let out = folder.path().join("out.pftrace");
    refused(trainmon(&["trace", trace, "-o", out.to_str().unwrap()]), 1, &[&named]);
    assert!(!out.exists());
    // And the other way round.
    let recording = folder.path().join("run.tmz");
    fs::write(&recording, zstd::encode_all(&b"{}\n"[..], 1).unwrap()).unwrap();
    let recording = recording.to_str().unwrap();
    let named = format!("{recording} is a recording, not a trace: trainmon diagnose --replay {recording}");
    refused(trainmon(&["diagnose", recording]), 1, &[&named]);
    refused(trainmon(&["diagnose", trace, recording]), 1, &[&named]);
}
