//! Text of others on its way out of the program: secrets in command lines stay inside, and nothing that could steer a terminal
//! comes out, whatever programs and files are called.
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::thread;

use crate::process::{Target, installed, trainmon};

/// A shell that sleeps, with these as further arguments.
fn with_arguments(program: &Path, arguments: &[&str]) -> Target {
    let mut command = Command::new(program);
    command.args(["-c", "while :; do sleep 1; done", "train.py"]).args(arguments);
    Target::spawn(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()))
}

/// What the program says and leaves in files about a process, watched in every way that needs no terminal.
fn all_outputs(target: &Target, folder: &Path, more: &[&str]) -> Vec<(String, Vec<u8>)> {
    let pid = target.pid();
    let run = |arguments: &[&str], file: Option<&Path>| -> Output {
        let mut command = trainmon(&["--no-stacks", "--nvml-lib", "/nonexistent"]);
        command.args(more).args(arguments);
        let output = command.args(file).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {said}");
        output
    };
    let recording = folder.join("recording");
    let anonymous = folder.join("anonymous");
    let log = folder.join("log");
    let messages = folder.join("messages");
    let messages_text = messages.to_str().unwrap().to_owned();
    let mut all = Vec::new();
    thread::scope(|scope| {
        let run = &run;
        let cases: Vec<(&str, Vec<&str>, Option<&Path>)> = vec![
            ("JSON", vec!["diagnose", "--json", "--duration", "2s", "--pid", &pid], None),
            ("text", vec!["diagnose", "--duration", "2s", "--log-file", &messages_text, "--pid", &pid], None),
            ("recording", vec!["record", "--duration", "2s", "--pid", &pid, "-o"], Some(&recording)),
            ("anonymous", vec!["record", "--anonymise", "--duration", "2s", "--pid", &pid, "-o"], Some(&anonymous)),
            ("log", vec!["--duration", "2s", "--pid", &pid, "--log"], Some(&log)),
            ("doctor", vec!["doctor", "--json", "--pid", &pid], None),
        ];
        let started =
            cases.into_iter().map(|(name, arguments, file)| (name, file, scope.spawn(move || run(&arguments, file))));
        let started: Vec<_> = started.collect();
        for (name, file, output) in started {
            let output = output.join().unwrap();
            all.push((format!("{name} on standard output"), output.stdout));
            all.push((format!("{name} on standard error"), output.stderr));
            all.extend(file.map(|file| {
                let bytes = fs::read(file).unwrap();
                (name.to_owned(), zstd::stream::decode_all(&bytes[..]).unwrap_or(bytes))
            }));
        }
    });
    all.push(("messages".to_owned(), fs::read(&messages).unwrap()));
    let replayed = run(&["diagnose", "--json", "--replay"], Some(&recording));
    all.push(("replay".to_owned(), replayed.stdout));
    all
}

const SECRETS: [&str; 6] =
    ["Xk7mQ2", "pa55w0rdA", "tok3nB", "hf_abcdefghijKLMNOP123456", "s3cr3tC", "AKIAIOSFODNN7EXAMPLE"];
const ARGUMENTS: [&str; 9] = [
    "--api-key=Xk7mQ2",
    "--password",
    "pa55w0rdA",
    "HF_TOKEN=tok3nB",
    "hf_abcdefghijKLMNOP123456",
    "--data=postgres://me:s3cr3tC@db/x",
    "--id=AKIAIOSFODNN7EXAMPLE",
    "--max-tokens",
    "512",
];

fn holds(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

#[test]
fn secrets_in_arguments_reach_no_output() {
    let target = with_arguments(Path::new("/bin/sh"), &ARGUMENTS);
    let folder = tempfile::tempdir().unwrap();
    let all = all_outputs(&target, folder.path(), &[]);
    for (name, bytes) in &all {
        for secret in SECRETS {
            assert!(!holds(bytes, secret), "{secret} in {name}: {}", String::from_utf8_lossy(bytes));
        }
    }
    let json = &all[0].1;
    for kept in ["--api-key=***", "--password ***", "HF_TOKEN=***", "postgres://me:***@db/x", "--max-tokens 512"] {
        assert!(holds(json, kept), "{kept}: {}", String::from_utf8_lossy(json));
    }
}

#[test]
fn secrets_are_kept_for_those_who_ask() {
    let target = with_arguments(Path::new("/bin/sh"), &ARGUMENTS);
    let folder = tempfile::tempdir().unwrap();
    let all = all_outputs(&target, folder.path(), &["--show-secrets"]);
    for output in ["JSON on standard output", "recording", "replay"] {
        let (_, bytes) = all.iter().find(|(name, _)| name == output).unwrap();
        for secret in SECRETS {
            assert!(holds(bytes, secret), "{secret} in {output}: {}", String::from_utf8_lossy(bytes));
        }
    }
    // The recording holds them, but is read by somebody who did not ask.
    let recording = folder.path().join("recording");
    let output = trainmon(&["diagnose", "--json", "--replay"]).arg(&recording).output().unwrap();
    assert!(output.status.success());
    for secret in SECRETS {
        assert!(!holds(&output.stdout, secret), "{secret}: {}", String::from_utf8_lossy(&output.stdout));
    }
}

#[test]
fn a_program_that_cannot_be_started_is_named_without_its_secrets() {
    let program = "API_KEY=Xk7mQ2\u{1b}[2J";
    let output = trainmon(&["run", "--log", "-", "--", program]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("cannot start API_KEY=***"), "{said}");
    assert!(!said.contains("Xk7mQ2") && !said.contains('\u{1b}'), "{said}");
}

/// Bytes that steer a terminal, reorder a line, break it or are no UTF-8, in a name of a file and of a process.
const HOSTILE: &[u8] = b"\x1b[2J\xc2\x9b2J\xe2\x80\xae\xff\r\n\x07";

fn assert_safe(name: &str, bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let is_bad = |c: char| c.is_control() && !matches!(c, '\n' | '\r') || c == '\u{202e}';
    assert!(!text.contains(is_bad), "{name}: {text:?}");
}

#[test]
fn hostile_names_of_programs_and_files_come_out_of_no_output() {
    let folder = tempfile::tempdir().unwrap();
    let hostile = folder.path().join(OsStr::from_bytes(HOSTILE));
    fs::create_dir(&hostile).unwrap();
    let program = hostile.join(OsStr::from_bytes(&HOSTILE[..15]));
    fs::copy("/bin/sh", &program).unwrap();
    let long = "a".repeat(5000);
    let target = with_arguments(&program, &["\u{1b}]0;x\u{7}\u{9b}31m\u{202e}\n\u{200b}", &long]);
    // The message file is named as text.
    let all = all_outputs(&target, folder.path(), &[]);
    for (name, bytes) in &all {
        assert_safe(name, bytes);
    }

    // The names of what trainmon itself writes and reads.
    let pid = target.pid();
    let cases: [(&[&str], &str); 5] = [
        (&["--no-stacks", "--duration", "1s", "--pid", &pid, "--log"], "a"),
        (&["record", "--no-stacks", "--duration", "1s", "--pid", &pid, "-o"], "b"),
        (&["record", "--no-stacks", "--duration", "1s", "--pid", &pid, "-o"], "b"),
        (&["diagnose", "--replay"], "missing"),
        (&["diagnose", "--replay"], "a"),
    ];
    for (arguments, name) in cases {
        let output = trainmon(arguments).arg(hostile.join(name)).output().unwrap();
        assert_safe(&format!("{arguments:?}"), &[output.stdout, output.stderr.clone()].concat());
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.lines().count() == 1 && said.ends_with('\n'), "{arguments:?}: {said:?}");
    }
}

/// A loop of its own that counts twenty turns a second, between numbers that are nobody's business.
const COUNTS: &str = "
import threading, time

def serve():
    account = 918273645
    while True:
        time.sleep(0.2)

def train(pin, card_number):
    step = 0
    while True:
        time.sleep(0.05)
        step += 1

threading.Thread(target=serve, daemon=True).start()
train(736455463, 4111111111111111)
";

#[test]
fn a_recording_holds_no_local_integers_but_counters() {
    let Some((py_spy, python)) = installed("py-spy").zip(installed("python3")) else {
        return eprintln!("left out: py-spy or python3 is not installed");
    };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("train.py");
    fs::write(&file, COUNTS).unwrap();
    let target = Target::start(python.to_str().unwrap(), &[file.to_str().unwrap()]);
    let recording = folder.path().join("recording");
    let mut command =
        trainmon(&["record", "--nvml-lib", "/nonexistent", "--duration", "14s", "--pid", &target.pid()]);
    let output = command.arg("--py-spy").arg(&py_spy).arg("-o").arg(&recording).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines = zstd::stream::decode_all(&fs::read(&recording).unwrap()[..]).unwrap();
    for number in ["918273645", "736455463", "4111111111111111"] {
        assert!(!holds(&lines, number), "{number}");
    }
    for line in lines.split(|&byte| byte == b'\n').filter(|line| holds(line, "\"locals\"")) {
        let sample: serde_json::Value = serde_json::from_slice(line).unwrap();
        let readings = sample["stacks"]["locals"].as_array().into_iter().flatten();
        let threads = readings.flat_map(|reading| reading["threads"].as_array().unwrap());
        for frame in threads.flat_map(|thread| thread["frames"].as_array().unwrap()) {
            for number in frame["numbers"].as_array().into_iter().flatten() {
                assert_eq!(number[0], "step", "{frame}");
            }
        }
    }
}
