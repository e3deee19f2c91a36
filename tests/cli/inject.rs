//! `trainmon profile --inject`: a job that was not started to be profiled runs a script. A stand-in for its interpreter plays both.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::outcome::{as_user, assert_one_line, finish, program_for_all, refused, wait_for};
use crate::process::{PROGRAM, Target, fake_python, installed, pause, text, trainmon};

/// A job with an interpreter and temporary files of its own.
struct Job {
    target: Target,
    folder: tempfile::TempDir,
}

impl Job {
    fn start(mode: &str) -> Self {
        Self::started(mode, |_| {})
    }

    fn started(mode: &str, with: impl Fn(&mut Command)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("tmp")).unwrap();
        let mut command = Command::new(fake_python(folder.path(), mode));
        let trace = format!("{}/tests/fixtures/profiles/waits-item.json", env!("CARGO_MANIFEST_DIR"));
        command
            .args(["--trace", &trace])
            .env_clear()
            .env("TMPDIR", folder.path().join("tmp"))
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        with(&mut command);
        Self { target: Target::spawn(&mut command), folder }
    }

    fn profile(&self, options: &[&str]) -> Command {
        let pid = self.target.pid();
        let arguments = ["profile", "--pid", &pid, "--inject"].into_iter().chain(options.iter().copied());
        let mut command = trainmon(&arguments.collect::<Vec<_>>());
        // The interpreter must not see it.
        command.env("SECRET", "1");
        command
    }

    /// What is in its folder of temporary files, and in those that trainmon made there.
    fn left(&self) -> Vec<String> {
        let mut names = Vec::new();
        for entry in fs::read_dir(self.folder.path().join("tmp")).unwrap() {
            let path = entry.unwrap().path();
            names.push(path.file_name().unwrap().to_str().unwrap().to_owned());
            names.extend(fs::read_dir(path).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap()));
        }
        names
    }
}

#[test]
fn a_job_that_was_not_started_for_it_gives_a_profile_and_nothing_is_left_behind() {
    let mut job = Job::start("works");
    let output = finish(job.profile(&["--for", "200ms", "--json"]));
    assert!(output.status.success(), "{}", text(&output.stderr));
    let verdict: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&verdict["class"], &verdict["cause"]), (&"cpu".into(), &"host-device-sync".into()));
    assert_eq!((&verdict["profile"]["source"], &verdict["profile"]["steps"]), (&"injected".into(), &4.into()));
    assert!(job.target.lives() && job.left().is_empty(), "{:?}", job.left());
    let kept = job.folder.path().join("kept.json.gz");
    let output = finish(job.profile(&["--steps", "3", "-o", kept.to_str().unwrap()]));
    let page = text(&output.stdout);
    assert!(page.contains("too many GPU syncs"), "{page}");
    let said = text(&output.stderr);
    assert!(said.contains("kept.json.gz") && said.contains("only 2 steps ended in time"), "{said}");
    assert!(kept.exists() && job.left().is_empty(), "{:?}", job.left());
}

#[test]
fn without_the_word_nothing_is_run_and_the_word_is_named() {
    let job = Job::start("works");
    let mut command = job.profile(&[]);
    command = trainmon(
        &command.get_args().filter(|word| *word != "--inject").map(|word| word.to_str().unwrap()).collect::<Vec<_>>(),
    );
    refused(
        command,
        1,
        &["was not started to be profiled", &format!("`trainmon profile --pid {} --inject`", job.target.pid())],
    );
    assert!(job.left().is_empty() && !job.folder.path().join("bin/asked").exists());
    for bad in [&["--probe"][..], &["--all-ranks"], &["--dry-run", "--json"], &["--dry-run", "-o", "a.json"]] {
        assert_eq!(finish(job.profile(bad)).status.code(), Some(2), "{bad:?}");
    }
    let alone = finish(trainmon(&["profile", "--pid", &job.target.pid(), "--dry-run"]));
    assert_eq!(alone.status.code(), Some(2));
    assert!(text(&alone.stderr).contains("--inject"), "{}", text(&alone.stderr));
}

#[test]
fn a_dry_run_prints_all_that_would_run_and_does_nothing() {
    let job = Job::start("works");
    let output = finish(job.profile(&["--dry-run", "--steps", "3", "--stacks"]));
    let script = text(&output.stdout);
    assert!(output.status.success() && output.stderr.is_empty(), "{}", text(&output.stderr));
    let line = script.lines().find_map(|line| line.strip_prefix("PARAMETERS = ")).unwrap();
    let told: Value = serde_json::from_str(line).unwrap();
    let folder = told["folder"].as_str().unwrap();
    assert!(folder.starts_with(job.folder.path().join("tmp").to_str().unwrap()), "{folder}");
    assert_eq!(told["pid"].to_string(), job.target.pid());
    assert_eq!((&told["steps"], &told["stacks"], &told["seconds"]), (&3.into(), &1.into(), &60.0.into()));
    let source = include_str!("../../crates/profiling/assets/inject/profile.py");
    assert_eq!(
        script.lines().filter(|line| !source.lines().any(|own| own == *line)).take(1).collect::<Vec<_>>().len(),
        1
    );
    let (_, command) = script.rsplit_once("run it:\n").unwrap();
    assert!(command.starts_with(&format!("# {}", job.folder.path().join("bin/python3.14").display())), "{command}");
    assert!(
        command.contains("-I -S -c") && command.contains("sys.remote_exec") && command.contains("script.py"),
        "{command}"
    );
    assert!(job.left().is_empty() && !job.folder.path().join("bin/asked").exists());
    let python = installed("python3").unwrap();
    let mut check = Command::new(python)
        .args(["-c", "import ast, sys; ast.parse(sys.stdin.read())"])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    std::io::Write::write_all(check.stdin.as_mut().unwrap(), script.as_bytes()).unwrap();
    drop(check.stdin.take());
    assert!(check.wait().unwrap().success(), "it is a script");
}

#[test]
fn each_reason_not_to_is_one_line_with_what_to_do() {
    for (mode, code, parts) in [
        ("old", 1, ["runs Python 3.13.1, and only 3.14", "`trainmon run -- CMD`"]),
        ("forbidden", 1, ["PYTHON_DISABLE_REMOTE_DEBUG", "-X disable-remote-debug"]),
        ("without", 1, ["built without remote debugging", "--probe"]),
        ("replaced", 1, ["python3.14, was replaced", "start the job again"]),
        ("crashes", 1, ["cannot run ", "Failed to import encodings"]),
        ("no-torch", 1, ["has not imported torch", "`trainmon` lists them"]),
        ("profiled", 1, ["a profiler runs in process", "try again"]),
        ("failed", 1, ["took no profile: ", "No space left"]),
        ("ends", 3, ["has ended", "process"]),
        ("execs", 1, ["runs another program since", "try again"]),
        ("stops", 1, ["is stopped", "kill -CONT"]),
    ] {
        let job = Job::start(mode);
        let output = finish(job.profile(&["--for", "100ms"]));
        assert_one_line(&output, code, &parts);
        assert!(output.stdout.is_empty() && !text(&output.stderr).contains('\u{1b}'), "{mode}");
        assert!(job.left().is_empty(), "{mode}: {:?}", job.left());
    }
    let job = Job::start("ptrace");
    let why = if rustix::process::geteuid().is_root() { "CAP_SYS_PTRACE" } else { "kernel" };
    refused(job.profile(&[]), 1, &["does not let trainmon write to the memory of process", why]);
    assert!(job.left().is_empty());
}

#[test]
fn what_is_no_job_for_it_is_refused_before_anything_runs() {
    let mut sleeping = Target::sleeping();
    refused(
        trainmon(&["profile", "--pid", &sleeping.pid(), "--inject"]),
        1,
        &["runs sleep, not an interpreter of Python"],
    );
    let pid = sleeping.pid();
    sleeping.end();
    refused(trainmon(&["profile", "--pid", &pid, "--inject"]), 3, &["has ended"]);
    // The version is in the name of the program.
    let job = Job::start("works");
    let older = job.folder.path().join("bin/python3.13");
    fs::rename(job.folder.path().join("bin/python3.14"), &older).unwrap();
    refused(job.profile(&[]), 1, &["runs Python 3.13,", "--probe"]);
    fs::remove_file(&older).unwrap();
    refused(job.profile(&[]), 1, &["python3.13, was replaced"]);
    // Nowhere to write.
    let job = Job::started("works", |command| {
        command.env("TMPDIR", "/proc/nowhere");
    });
    let output = finish(job.profile(&["--dry-run"]));
    assert!(text(&output.stdout).contains("\"/proc/nowhere/trainmon-"), "the place is only tried");
    let output = finish(job.profile(&["--for", "100ms"]));
    assert!(output.status.success(), "Python would take the next one, too: {}", text(&output.stderr));
}

#[test]
fn a_trace_that_is_none_or_leads_elsewhere_is_refused() {
    let mut job = Job::start("garbage");
    refused(job.profile(&["--for", "100ms"]), 1, &["trace "]);
    assert!(job.target.lives() && job.left().is_empty());
    let job = Job::start("link");
    refused(job.profile(&["--for", "100ms"]), 1, &["its trace cannot be read: "]);
    assert!(job.left().is_empty());
}

#[test]
fn a_job_that_does_not_come_to_the_script_keeps_it_for_later() {
    let mut job = Job::start("never");
    let began = Instant::now();
    refused(job.profile(&[]), 1, &["did not come to run the script for 15 s", "--probe"]);
    assert!(began.elapsed() < Duration::from_secs(18));
    // Without the script its interpreter would complain; nothing is locked any more.
    let left = job.left();
    assert!(left.iter().any(|name| name == "script.py") && left.len() == 4, "{left:?}");
    let folder = job.folder.path().join("tmp").join(left.iter().find(|name| name.starts_with("trainmon-")).unwrap());
    let lock = fs::File::options().write(true).open(folder.join("lock")).unwrap();
    rustix::fs::fcntl_lock(&lock, rustix::fs::FlockOperation::NonBlockingLockExclusive).unwrap();
    drop(lock);
    // The next call of any job removes what ended jobs have left.
    job.target.end();
    let other = Job::started("works", |command| {
        command.env("TMPDIR", job.folder.path().join("tmp"));
    });
    let output = finish(other.profile(&["--for", "100ms"]));
    assert!(output.status.success() && job.left().is_empty(), "{:?}", job.left());
}

#[test]
fn ctrl_c_and_kill_leave_the_job_alone_which_removes_the_rest() {
    for signal in [Signal::INT, Signal::KILL] {
        let mut job = Job::start("long");
        let mut command = job.profile(&["--for", "30s"]);
        let taking = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        while !job.left().iter().any(|name| name == "status") {
            pause(10);
        }
        pause(200);
        kill_process(Pid::from_child(&taking), signal).unwrap();
        let output = wait_for(taking);
        if signal == Signal::INT {
            assert_one_line(&output, 1, &["given up: the job goes on"]);
        }
        let began = Instant::now();
        while !job.left().is_empty() && began.elapsed() < Duration::from_secs(5) {
            pause(10);
        }
        assert!(job.target.lives() && job.left().is_empty(), "{signal:?}: {:?}", job.left());
    }
}

#[test]
fn another_view_of_the_files_is_a_container() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = fake_python(folder.path(), "works");
    let spawn = |arguments: &[&str]| {
        let mut command = Command::new(arguments[0]);
        let command = command
            .args(&arguments[1..])
            .arg(&program)
            .args(["--trace", "x"])
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        Target::spawn(command)
    };
    for enclosed in [&["unshare", "--mount"][..], &["chroot", "/."]] {
        let job = spawn(enclosed);
        let is_there = || fs::read_link(format!("/proc/{}/exe", job.id())).is_ok_and(|exe| exe == program);
        while !is_there() {
            pause(10);
        }
        if enclosed[0] == "unshare" {
            refused(
                trainmon(&["profile", "--pid", &job.pid(), "--inject"]),
                1,
                &["sees other files or processes than trainmon", "run trainmon inside it"],
            );
        } else {
            let output = finish(trainmon(&["profile", "--pid", &job.pid(), "--inject", "--dry-run"]));
            assert!(output.status.success(), "the same root is no container: {}", text(&output.stderr));
        }
    }
}

#[test]
fn root_runs_no_interpreter_that_the_jobs_user_may_have_written() {
    let job = Job::started("works", |_| {});
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let program = job.folder.path().join("bin/python3.14");
    std::os::unix::fs::chown(&program, Some(65534), None).unwrap();
    let parts = ["belongs to user 65534", "so root does not run it", "profile --pid"];
    refused(job.profile(&[]), 1, &parts);
    assert!(!job.folder.path().join("bin/asked").exists());
    // The job of another user, whose command does without root.
    let job = Job::started("works", |command| {
        command.uid(65534).gid(65534);
    });
    std::os::unix::fs::chown(job.folder.path().join("bin/python3.14"), Some(65534), None).unwrap();
    let said = text(&finish(job.profile(&[])).stderr);
    assert!(said.contains("sudo -u '#65534' ") || said.contains("has ended"), "{said}");
}

#[test]
fn the_files_belong_to_the_jobs_user() {
    let stage = tempfile::tempdir().unwrap();
    let program = program_for_all(stage.path());
    let Some(_) = as_user("65534", &program, &[]) else { return };
    assert!(Path::new(PROGRAM).exists());
    let place = stage.path().join("tmp");
    fs::create_dir(&place).unwrap();
    std::os::unix::fs::chown(&place, Some(65534), Some(65534)).unwrap();
    fs::set_permissions(&place, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    let trace = stage.path().join("trace.json");
    fs::copy(format!("{}/tests/fixtures/profiles/waits-item.json", env!("CARGO_MANIFEST_DIR")), &trace).unwrap();
    let python = fake_python(stage.path(), "works");
    // Both write beside the interpreter.
    fs::set_permissions(stage.path().join("bin"), std::os::unix::fs::PermissionsExt::from_mode(0o1777)).unwrap();
    let mut command = Command::new(&python);
    command
        .arg("--trace")
        .arg(&trace)
        .env_clear()
        .env("TMPDIR", &place)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .uid(65534)
        .gid(65534);
    let job = Target::spawn(&mut command);
    while !fs::read_link(format!("/proc/{}/exe", job.id())).is_ok_and(|exe| exe == python) {
        pause(10);
    }
    let pid = job.pid();
    let mut taking = trainmon(&["profile", "--pid", &pid, "--inject", "--for", "300ms", "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut owners = Vec::new();
    while taking.try_wait().unwrap().is_none() {
        for entry in fs::read_dir(&place).unwrap().flatten() {
            if let Ok(found) = entry.metadata() {
                owners.push((
                    std::os::unix::fs::MetadataExt::uid(&found),
                    std::os::unix::fs::MetadataExt::mode(&found) & 0o777,
                ));
            }
        }
        pause(5);
    }
    let output = wait_for(taking);
    owners.dedup();
    assert_eq!(owners, [(65534, 0o700)], "{}", text(&output.stderr));
    assert!(fs::read_dir(&place).unwrap().next().is_none());
}
