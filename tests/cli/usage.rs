//! The command line from outside: help, usage errors, exit codes, completions, the manual, closed pipes.
use std::path::Path;
use std::process::{Command, Output};

use trainmon::diagnosis::causes;

use crate::outcome;
use crate::process::{text, trainmon, two_candidates};

fn run(arguments: &[&str]) -> Output {
    trainmon(arguments).output().unwrap()
}

/// A usage error: exit code 2 and one line that holds `part`.
fn refused(arguments: &[&str], part: &str) {
    outcome::refused(trainmon(arguments), 2, &[part]);
}

#[test]
fn the_version_is_that_of_the_package() {
    for flag in ["-V", "--version"] {
        let output = run(&[flag]);
        assert!(output.status.success());
        assert_eq!(text(&output.stdout), format!("trainmon {}\n", env!("CARGO_PKG_VERSION")));
    }
}

#[test]
fn help_offers_every_command_and_option() {
    for flag in ["-h", "--help"] {
        let output = run(&[flag]);
        assert!(output.status.success() && output.stderr.is_empty());
        let help = text(&output.stdout);
        for wanted in [
            "diagnose",
            "record",
            "replay",
            "watch",
            "report",
            "compare",
            "trace",
            "import",
            "export",
            "fleet",
            "run",
            "demo",
            "doctor",
            "explain",
            "mcp",
            "completions",
            "man",
            "--pid",
            "--interval",
            "--duration",
            "--iterations",
            "--gpu",
            "--no-stacks",
            "--py-spy",
            "--nvml-lib",
            "--proc-root",
            "--sys-root",
            "--config",
            "--history",
            "--ascii",
            "--no-color",
            "--no-colour",
            "--readonly",
            "--log",
            "--force",
            "--append",
            "--log-file",
            "--no-ptrace",
            "--no-mouse",
            "--theme",
            "--page",
            "--low-bandwidth",
            "--print-config",
            "--version",
            "--help",
        ] {
            assert!(help.contains(wanted), "{flag}: {wanted} is missing");
        }
    }
}

#[test]
fn the_printed_configuration_can_be_used_as_one() {
    let printed = run(&["--print-config", "--theme", "light", "--interval", "2s", "--readonly"]);
    assert!(printed.status.success() && printed.stderr.is_empty());
    let first = text(&printed.stdout);
    for line in ["interval = \"2s\"", "theme = \"light\"", "readonly = true", "# page = \"overview\""] {
        assert!(first.lines().any(|l| l == line), "{line} is missing:\n{first}");
    }
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("config.toml");
    std::fs::write(&file, &first).unwrap();
    let again = run(&["demo", "--print-config", "-c", file.to_str().unwrap()]);
    assert!(again.status.success());
    assert_eq!(text(&again.stdout), first);
}

#[test]
fn a_bad_configuration_is_refused_in_one_line_with_its_place() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("config.toml");
    let path = file.to_str().unwrap();
    for (content, part) in [
        ("colour = true", "line 1, column 1: unknown key `colour`"),
        ("interval = 1\nintervall = 2\n", "line 2, column 1: unknown key `intervall`"),
        ("interval = 1\n[keys]\nquit = [\"Q\"]\n", "config.toml: line 2, column 2: unknown key `keys`"),
    ] {
        std::fs::write(&file, content).unwrap();
        refused(&["--print-config", "-c", path], part);
        refused(&["-c", path, "--pid", "1"], part);
        refused(&["doctor", "-c", path], part);
    }
    let none = "'--theme <NAME>': `pink` is not one of auto, dark, light, high-contrast";
    refused(&["--theme", "pink", "--print-config"], none);
    std::fs::write(&file, "page = \"overveiw\"").unwrap();
    refused(&["-c", path, "--print-config"], "line 1, column 8: `overveiw` is not one of overview, chain");
    refused(&["-c", path, "--print-config"], "did you mean overview?");
    refused(&["--page", "overveiw", "--print-config"], "did you mean 'overview'?");
}

#[test]
fn a_page_is_called_as_on_its_tab_or_as_people_guess() {
    for (words, page) in [
        (["overview", "Overview", "main", "1"], "overview"),
        (["gpu", "GPU", "Gpu", "3"], "gpu"),
        (["processes", "Procs", "procs", "6"], "processes"),
        (["why", "Why", "findings", "8"], "why"),
        (["history", "History", "run", "9"], "history"),
        (["profile", "Profile", "prof", "0"], "profile"),
        (["help", "Help", "h", "?"], "help"),
    ] {
        for word in words {
            let printed = run(&["--page", word, "--print-config"]);
            assert!(text(&printed.stdout).contains(&format!("\npage = \"{page}\"\n")), "{word}: {printed:?}");
        }
    }
    let names = "[possible values: overview, chain, gpu, cpu, io, processes, stacks, why, history, profile, help]";
    refused(&["--page", "disks", "--print-config"], names);
}

#[test]
fn every_command_has_help() {
    for command in [
        "diagnose",
        "record",
        "replay",
        "report",
        "compare",
        "trace",
        "import",
        "export",
        "fleet",
        "run",
        "demo",
        "doctor",
        "explain",
        "mcp",
        "completions",
        "man",
        "help",
    ] {
        let output = run(&[command, "--help"]);
        assert!(output.status.success(), "{command}");
        assert!(text(&output.stdout).contains(&format!("Usage: trainmon {command}")), "{command}");
        assert_eq!(run(&["help", command]).stdout, output.stdout, "{command}");
        assert_eq!(run(&[command, "-h"]).stdout, output.stdout, "{command}");
    }
    assert_eq!(run(&["help"]).stdout, run(&["--help"]).stdout);
    refused(&["help", "reocrd"], "no command is called `reocrd`: did you mean record?");
    assert!(text(&run(&["diagnose", "-h"]).stdout).contains("--fail-on"));
    assert!(text(&run(&["demo", "-h"]).stdout).contains("data-loader, cpu, io, gpu, healthy"));
}

#[test]
fn usage_errors_are_one_line_and_exit_2() {
    refused(&["-i", "-1", "-p", "1"], "negative");
    refused(&["-i", "soon", "-p", "1"], "500ms, 20s, 5m or 1h");
    refused(&["--duration", "0", "-p", "1"], "longer than 0");
    refused(&["-n", "0", "-p", "1"], "0");
    refused(&["--gpu", "cuda:0", "-p", "1"], "index (0) or its UUID");
    refused(&["diagnose", "--fail-on", "disk", "-p", "1"], "data-loader, io, cpu, gpu");
    refused(&["--fail-on", "io", "-p", "1"], "--fail-on");
    refused(&["demo", "--bottleneck", "coffee"], "coffee");
    refused(&["--forse"], "unexpected argument `--forse`: did you mean --force? (see trainmon --help)");
    refused(&["record", "--forse"], "(see trainmon record --help)");
    refused(&["diagnoze"], "no command is called `diagnoze`: did you mean trainmon diagnose?");
    refused(&["train.py"], "to start it: trainmon run -- python train.py");
    refused(&["diagnose", "train.py"], "a PID is a number");
    refused(&["0"], "PIDs go from 1 to 4194304");
    refused(&["record", "-o", "x.tmz", "--append", "--pid", "1"], "--append");
    refused(&["record", "-o", "x.tmz", "--log", "x.csv", "--pid", "1"], "writes no log");
    refused(&["diagnose", "--replay", "x.tmz", "--pid", "1"], "remove --pid");
    refused(&["diagnose", "--replay", "x.tmz", "1"], "remove --pid");
    refused(&["diagnose", "--replay", "x.tmz", "--duration", "5s"], "remove --duration");
    refused(&["replay"], "FILE");
    refused(&["run"], "CMD");
    refused(&["--force", "-p", "1"], "--log PATH");
    refused(&["--log", "x.csv", "--force", "--append", "-p", "1"], "--append");
    refused(&["--log", "-", "--append", "-p", "1"], "standard output");
    refused(&["diagnose", "--log", "x.csv", "-p", "1"], "writes no log");
    refused(&["run", "--pid", "1", "--", "true"], "remove --pid");
    refused(&["-c", "/nonexistent/trainmon.toml", "-p", "1"], "/nonexistent/trainmon.toml");
    refused(&["completions", "tcsh"], "tcsh");
    refused(&["explain", "too-few-worker"], "did you mean too-few-workers");
    refused(&["explain", "io/decode"], "no cause is called `io/decode`: did you mean decode?");
    refused(&["explain", "coffee"], "trainmon explain lists all causes");
    refused(&["explain", "\u{1b}[31m\nx"], "no cause is called");
    refused(&["explain", "decode", "--log", "x.csv"], "writes no log");
    refused(&["man", "summary"], "no command is called `summary`");
    refused(&["-p", "1", "\u{1b}[31m\nx"], "trainmon");
}

/// Every command that watches takes the PID without `--pid`, and `run` its program without `--`.
#[test]
fn a_bare_number_is_a_pid_and_a_program_needs_no_dashes() {
    for arguments in [&["4194303", "--log", "-"][..], &["diagnose", "4194303"], &["doctor", "4194303"]] {
        outcome::refused(trainmon(arguments), 3, &["no process 4194303"]);
    }
    let output = run(&["run", "--log", "-", "-i", "100ms", "sh", "-c", "exit 7", "--log"]);
    assert_eq!(output.status.code(), Some(7), "{}", text(&output.stderr));
}

#[test]
fn without_a_candidate_a_pid_is_asked_for() {
    let proc = tempfile::tempdir().unwrap();
    let none = "no training process found: give its PID (trainmon PID), or try trainmon demo";
    outcome::refused(trainmon(&["--proc-root", proc.path().to_str().unwrap()]), 3, &[none]);
}

#[test]
fn candidates_are_printed_where_nobody_can_be_asked() {
    let proc = tempfile::tempdir().unwrap();
    two_candidates(proc.path());
    let output = run(&["--proc-root", proc.path().to_str().unwrap()]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(
        said.contains("train7.py") && said.contains("train17.py") && said.contains("give the PID of one"),
        "{said}"
    );
    assert_eq!(said.lines().count(), 3, "{said}");
}

#[test]
fn every_shell_gets_completions() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let output = run(&["completions", shell]);
        assert!(output.status.success());
        let script = text(&output.stdout);
        assert!(script.contains("no-ptrace") && script.contains("diagnose"), "{shell}");
        // The generators of the other shells leave the values of arguments out.
        assert!(script.contains("too-few-workers") || !["bash", "zsh"].contains(&shell), "{shell}");
    }
}

#[test]
fn bash_can_parse_its_completions() {
    let script = run(&["completions", "bash"]).stdout;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trainmon.bash");
    std::fs::write(&path, script).unwrap();
    assert!(Command::new("bash").arg("-n").arg(&path).status().unwrap().success());
}

#[test]
fn the_manual_has_pages_for_the_program_and_its_commands() {
    let page = text(&run(&["man"]).stdout);
    assert!(page.contains(".TH trainmon 1") && page.contains("no\\-ptrace"), "{page}");
    for part in [".SH EXAMPLES", ".SH FILES", "config.toml", ".SH ENVIRONMENT", "NO_COLOR", ".SH \"EXIT STATUS\""] {
        assert!(page.contains(part), "{part}: {page}");
    }
    let page = text(&run(&["man", "diagnose"]).stdout);
    assert!(page.contains("fail\\-on"));
    for part in [".SH EXAMPLES", "trainmon diagnose", "COMMON OPTIONS"] {
        assert!(page.contains(part), "{part}: {page}");
    }
    let page = text(&run(&["man", "explain"]).stdout);
    assert!(page.contains("CAUSE") && page.contains("\\-\\-json"), "{page}");
}

#[test]
fn printing_into_a_closed_pipe_is_success() {
    for arguments in
        [&["man"][..], &["completions", "zsh"], &["--help"], &["doctor"], &["doctor", "--json"], &["explain"]]
    {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = trainmon(arguments).stdout(writer).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", text(&output.stderr));
        assert!(output.stderr.is_empty(), "{}", text(&output.stderr));
    }
}

#[test]
fn doctor_reports_as_text_and_as_json() {
    let output = run(&["doctor", "--pid", &std::process::id().to_string()]);
    assert!(output.status.success());
    let page = text(&output.stdout);
    for what in [
        "host",
        "kernel",
        "rights",
        "yama",
        "processes",
        "pressure",
        "cgroup",
        "nvml",
        "py-spy",
        "terminal",
        "syscall",
        "wchan",
    ] {
        assert!(page.contains(what), "{what}");
    }
    assert!(page.lines().all(|line| line.chars().count() <= 80), "{page}");
    assert!(page.starts_with(&format!("trainmon works for process {}", std::process::id())), "{page}");
    let output = run(&["doctor", "--json"]);
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(report["findings"].as_array().unwrap().len() >= 9);
}

#[test]
fn every_cause_is_explained_within_80_columns() {
    let list = text(&run(&["explain"]).stdout);
    for cause in causes::all().chain(causes::states()) {
        let asked = format!("{}/{}", cause.class.word(), cause.name);
        let output = run(&["explain", &asked]);
        let page = text(&output.stdout);
        assert!(output.status.success() && output.stderr.is_empty(), "{asked}: {}", text(&output.stderr));
        let confirmed = page.to_lowercase().contains(&cause.confirmed.words().to_lowercase());
        assert!(page.contains("How it is recognized") && confirmed, "{page}");
        assert!(page.lines().chain(list.lines()).all(|line| line.chars().count() <= 80), "{page}");
        assert!(list.contains(cause.name), "{list}");
    }
    let both = text(&run(&["explain", "host-device-sync"]).stdout);
    assert!(both.contains("cpu/host-device-sync: ") && both.contains("gpu/host-device-sync: "), "{both}");
    let class = text(&run(&["explain", "io"]).stdout);
    assert!(class.contains("small-files") && !class.contains("decode"), "{class}");
    assert_eq!(run(&["explain", "Small_Files"]).stdout, run(&["explain", "io/small-files"]).stdout);
}

#[test]
fn every_cause_is_explained_as_json() {
    let causes_of = |arguments: &[&str]| -> Vec<serde_json::Value> {
        let report: serde_json::Value = serde_json::from_slice(&run(arguments).stdout).unwrap();
        assert_eq!(report["schema"], 1);
        report["causes"].as_array().unwrap().clone()
    };
    assert_eq!(causes_of(&["explain", "--json"]).len(), causes::all().chain(causes::states()).count());
    assert_eq!(causes_of(&["explain", "host-device-sync", "--json"]).len(), 2);
    let one = &causes_of(&["explain", "--json", "network-storage"])[0];
    for (key, value) in one.as_object().unwrap() {
        assert_eq!(value.is_null(), key == "phase", "{key}");
    }
    assert_eq!(one["thresholds"][0]["name"], "lost_wait");
}

/// A recording of this test's own process: nothing it finds matters, only the file.
#[test]
fn a_recording_is_diagnosed_as_often_as_one_likes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.tmz");
    let (file, pid) = (path.to_str().unwrap(), std::process::id().to_string());
    let record = ["record", "-p", &pid, "-o", file, "-i", "100ms", "-n", "3", "--no-stacks"];
    let output = run(&record);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("4 samples in"), "{}", text(&output.stderr));
    assert!(output.stdout.is_empty());
    outcome::refused(trainmon(&record), 1, &["the file exists; --force"]);
    assert!(run(&[&record[..], &["--force", "--anonymise"]].concat()).status.success());

    let output = run(&["diagnose", "--replay", file, "--json"]);
    assert!(output.status.success() && output.stderr.is_empty(), "{}", text(&output.stderr));
    let verdict: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(verdict["pid"], std::process::id());
    assert!(!verdict["command"].as_str().unwrap().contains('/'));
    assert_eq!(run(&["diagnose", "--replay", file, "--json"]).stdout, output.stdout);
    let class = verdict["class"].as_str().unwrap();
    assert_eq!(run(&["diagnose", "--replay", file, "--fail-on", class]).status.code(), Some(4));

    // Cut off in the middle of its last frame.
    let whole = std::fs::read(&path).unwrap();
    std::fs::write(&path, &whole[..whole.len() - 3]).unwrap();
    let said = text(&run(&["diagnose", "--replay", file]).stderr);
    assert!(said.contains("cut off"), "{said}");
}

#[test]
fn messages_go_to_a_file_or_are_refused() {
    refused(&["doctor", "--log-file", "/nonexistent/x.log"], "/nonexistent/x.log");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("own.log");
    assert!(run(&["doctor", "--log-file", path.to_str().unwrap()]).status.success());
    assert!(Path::new(&path).exists());
}
