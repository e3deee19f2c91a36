//! Bad input, bad luck and bad timing, against the real program: every case ends or goes on with one clear line, with the
//! exit code of the contract, and no row is lost or torn.
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;
use trainmon::sources::simulated_gpu::{SimulatedGpu, SimulatedGpuState};

use crate::outcome::{as_user, finish, not_seen, program_for_all, refused, verdict, wait_for};
use crate::process::{Target, helper, library, pause, rows, rows_of, signal, state, text, trainmon, until};

/// Above the highest PID that Linux gives out (PID_MAX_LIMIT is the first that it does not).
const NOBODY: &str = "4194304";

fn wait_for_state(pid: u32, wanted: char) {
    until(&format!("{pid} is {wanted}"), || state(pid) == Some(wanted));
}

/// The verdict on `pid` after so long, as JSON.
fn diagnose(pid: &str, duration: &str, more: &[&str]) -> Value {
    let mut arguments = vec!["diagnose", "--json", "-i", "200ms", "--duration", duration, "--pid", pid];
    arguments.extend(more);
    verdict(trainmon(&arguments))
}

fn assert_no_bottleneck(verdict: &Value) {
    assert!(["unknown", "idle"].contains(&verdict["class"].as_str().unwrap()), "{verdict:#}");
    assert_eq!(verdict["cause"], Value::Null);
}

/// A tree like /proc with one process in it.
fn proc_with(pid: u32, comm: &str, flags: u64, start: u64) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    fs::create_dir_all(root.path().join(format!("{pid}/task/{pid}"))).unwrap();
    write_stat(root.path(), pid, comm, flags, start);
    fs::write(root.path().join("stat"), "cpu  1 0 1 9 0 0 0 0 0 0\ncpu0 1 0 1 9 0 0 0 0 0 0\n").unwrap();
    root
}

fn write_stat(root: &Path, pid: u32, comm: &str, flags: u64, start: u64) {
    let stat = format!(
        "{pid} ({comm}) S 1 {pid} {pid} 0 -1 {flags} 0 0 0 0 5 5 0 0 20 0 1 0 {start} 1000000 100 18446744073709551615\n"
    );
    fs::write(root.join(format!("{pid}/stat")), stat).unwrap();
}

#[test]
fn a_pid_that_nobody_has_is_refused() {
    for arguments in [&["--log", "-"][..], &["diagnose"], &["diagnose", "--json"]] {
        let mut command = trainmon(arguments);
        command.args(["--pid", NOBODY]);
        refused(command, 3, &["no process 4194304", "run `trainmon` to list"]);
    }
    refused(trainmon(&["doctor", "--pid", NOBODY]), 3, &["no process 4194304", "run `trainmon` to list"]);
}

#[test]
fn what_is_no_pid_is_a_usage_error() {
    for pid in ["0", "-1", "4194305"] {
        refused(trainmon(&["--log", "-", "--pid", pid]), 2, &["PIDs go from 1 to"]);
    }
    for pid in ["99999999999999999999", "1.5", "python", "", " ", "１２", "1\n2"] {
        refused(trainmon(&["--log", "-", "--pid", pid]), 2, &["a PID is a number"]);
    }
}

#[test]
fn an_interval_out_of_range_is_a_usage_error() {
    for interval in ["0", "99ms", "2h", "0.0999", "3601", "-1", "NaN", ""] {
        let range = if interval == "0" { "100ms to 1h" } else { "interval" };
        refused(trainmon(&["--log", "-", "--pid", "1", "-i", interval]), 2, &["interval", range]);
    }
}

#[test]
fn a_job_that_ends_while_it_is_attached_to_ends_the_log() {
    for ms in [0, 1, 2, 3, 5, 8, 12, 20, 30, 50, 80] {
        let mut target = Command::new("sleep").arg(format!("0.{ms:03}")).spawn().unwrap();
        let watcher = trainmon(&["--log", "-", "-i", "100ms", "--pid", &target.id().to_string()])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // Half of them are collected at once, half stay zombies.
        if ms % 2 == 0 {
            target.wait().unwrap();
        }
        let output = wait_for(watcher);
        let said = text(&output.stderr);
        match output.status.code() {
            Some(0) => {
                assert!(said.is_empty(), "{said}");
                let rows = rows(&output.stdout);
                assert!(rows.last().is_none_or(|row| row["phase"] == "finished"), "{rows:?}");
            }
            Some(3) => assert!(said.lines().count() == 1 && said.contains("has ended"), "{said}"),
            other => panic!("{other:?}: {said}"),
        }
        target.wait().unwrap();
    }
}

#[test]
fn a_job_that_ends_while_it_is_logged_is_finished_in_the_last_row_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.csv");
    let target = Target::start("sleep", &["4"]);
    let output = finish(trainmon(&["-i", "200ms", "--log", path.to_str().unwrap(), "--pid", &target.pid()]));
    assert_eq!(output.status.code(), Some(0));
    let said = text(&output.stderr);
    assert!(said.lines().count() == 1 && said.trim_end().ends_with("; the job has ended"), "what came of it: {said}");
    let rows = rows_of(&path);
    // Of 20 at most: the machine may be busy when trainmon starts.
    assert!((4..=22).contains(&rows.len()), "{} rows", rows.len());
    let last = &rows[rows.len() - 1];
    assert_eq!((last["phase"].as_str(), last["class"].as_str()), ("finished", "idle"));
    assert!(rows.iter().rev().skip(1).all(|row| row["phase"] != "finished"));
}

#[test]
fn a_job_that_ends_while_it_is_diagnosed_gets_its_verdict_at_once() {
    let target = Target::start("sleep", &["4"]);
    let began = Instant::now();
    let output =
        finish(trainmon(&["diagnose", "--json", "-i", "200ms", "--duration", "30s", "--pid", &target.pid()]));
    assert!(began.elapsed() < Duration::from_secs(15));
    let said = text(&output.stderr);
    assert!(said.lines().count() == 1 && said.contains(" s after"), "{said}");
    assert_no_bottleneck(&serde_json::from_slice(&output.stdout).unwrap());
}

#[test]
fn a_pid_that_is_reused_ends_the_log() {
    // The tree is told to have given the number to another process: its start time has moved.
    let root = proc_with(77, "python", 0, 500);
    let arguments = ["--log", "-", "-i", "200ms", "--pid", "77", "--proc-root", root.path().to_str().unwrap()];
    let mut watcher = trainmon(&arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(watcher.stdout.take().unwrap()).lines().map(Result::unwrap);
    let (header, row) = (lines.next().unwrap(), lines.next().unwrap());
    assert!(header.starts_with("timestamp,") && !row.contains("finished"), "{row}");
    write_stat(root.path(), 77, "python", 0, 900);
    let rest: Vec<String> = lines.collect();
    assert!(rest.last().is_some_and(|row| row.contains(",finished,idle,")), "{rest:?}");
    assert_eq!(wait_for(watcher).status.code(), Some(0));
}

#[test]
fn kept_descriptors_of_a_dead_process_say_that_it_has_gone() {
    use trainmon::sources::job::JobReader;
    let mut target = Target::sleeping();
    let mut reader = JobReader::attach(Path::new("/proc"), target.id(), false).unwrap();
    assert!(reader.read(1).alive);
    target.end();
    // The next number given out is this one's successor; with the rights to say so, the same number once more.
    let _ = fs::write("/proc/sys/kernel/ns_last_pid", (target.id() - 1).to_string());
    let second = Target::sleeping();
    if second.id() != target.id() {
        println!("not checked with a process of the same number: it could not be had");
    }
    assert!(!reader.read(2).alive);
}

#[test]
fn a_process_of_another_user_has_a_verdict_that_asks_for_sudo() {
    let folder = tempfile::tempdir().unwrap();
    let program = program_for_all(folder.path());
    let shell = Path::new("timeout");
    let Some(mut theirs) = as_user("65534", shell, &["20", "sh", "-c", "while :; do :; done"]) else { return };
    let target = Target::spawn(&mut theirs);
    pause(100);
    let pid = target.pid();
    let watch = |more: &[&str]| {
        let mut arguments = vec!["diagnose", "-i", "200ms", "--duration", "3s", "--pid", &pid];
        arguments.extend(more);
        as_user("65533", &program, &arguments).unwrap()
    };
    let verdict = verdict(watch(&["--json"]));
    assert_no_bottleneck(&verdict);
    for what in ["syscall", "wchan", "io", "fd"] {
        assert_eq!(verdict["seen"][what], "denied");
        let missed = not_seen(&verdict, what);
        assert!(missed["why"].as_str().unwrap().contains(": permission denied"), "{missed}");
        assert_eq!(missed["fix"], format!("sudo {} --pid {pid}", program.display()));
    }
    let output = finish(watch(&["--iterations", "2"]));
    assert_eq!(output.status.code(), Some(0));
    assert!(text(&output.stdout).contains("sudo /"), "{}", text(&output.stdout));
}

#[test]
fn a_kernel_thread_is_refused() {
    // PF_KTHREAD among the flags.
    let root = proc_with(2, "kthreadd", 0x0020_8040, 0);
    let root = root.path().to_str().unwrap();
    refused(trainmon(&["--log", "-", "--pid", "2", "--proc-root", root]), 3, &["kernel thread"]);
    if fs::read_to_string("/proc/2/comm").is_ok_and(|comm| comm.trim() == "kthreadd") {
        refused(trainmon(&["diagnose", "--pid", "2"]), 3, &["kernel thread"]);
    }
}

#[test]
fn a_zombie_is_refused() {
    // Its parent is this test, which does not collect it until the end.
    let mut target = Command::new("true").spawn().unwrap();
    wait_for_state(target.id(), 'Z');
    refused(trainmon(&["--log", "-", "--pid", &target.id().to_string()]), 3, &["zombie"]);
    target.wait().unwrap();
}

#[test]
fn a_stopped_process_is_told_and_left_stopped() {
    let target = Target::busy();
    pause(100);
    signal(target.id(), Signal::STOP);
    wait_for_state(target.id(), 'T');
    let verdict = diagnose(&target.pid(), "2s", &[]);
    assert_eq!((verdict["class"].as_str(), verdict["phase"].as_str()), (Some("idle"), Some("stopped")));
    assert_eq!(state(target.id()), Some('T'));
}

#[test]
fn a_running_process_is_left_running() {
    let target = Target::start("sh", &["-c", "while :; do :; done"]);
    let mut watcher = trainmon(&["--log", "-", "-i", "100ms", "--pid", &target.pid()]);
    let mut watcher = watcher.stdout(Stdio::null()).spawn().unwrap();
    let mut seen = Vec::new();
    for _ in 0..100 {
        seen.extend(state(target.id()));
        pause(5);
    }
    // Even a watcher that is killed leaves nothing behind.
    watcher.kill().unwrap();
    watcher.wait().unwrap();
    seen.extend(state(target.id()));
    assert!(!seen.iter().any(|state| matches!(state, 'T' | 't')), "{seen:?}");
    // A page fault on a full machine shows as `D` now and then.
    let runs = seen.iter().filter(|state| **state == 'R').count();
    assert!(runs * 10 >= seen.len() * 9, "{seen:?}");
    let status = fs::read_to_string(format!("/proc/{}/status", target.id())).unwrap();
    assert!(status.lines().any(|line| line.starts_with("TracerPid:") && line.ends_with("\t0")), "{status}");
}

#[test]
fn a_busy_loop_is_no_training() {
    let target = Target::busy();
    let verdict = diagnose(&target.pid(), "3s", &[]);
    assert_no_bottleneck(&verdict);
    assert!(verdict["not_seen"][0]["why"].as_str().unwrap().contains("does not look like training"), "{verdict:#}");
}

#[test]
fn a_server_is_no_training() {
    let mut target = Target::spawn(helper(&["echo"]).stdout(Stdio::piped()));
    let mut port = String::new();
    BufReader::new(target.0.stdout.take().unwrap()).read_line(&mut port).unwrap();
    let port: u16 = port.trim().parse().unwrap();
    std::thread::spawn(move || {
        let mut stream = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
        let mut answer = [0; 4];
        while stream.write_all(b"ping").is_ok() && stream.read_exact(&mut answer).is_ok() {
            pause(2);
        }
    });
    assert_no_bottleneck(&diagnose(&target.pid(), "3s", &[]));
}

#[test]
fn a_log_that_cannot_be_written_is_refused() {
    let target = Target::sleeping();
    let log = |path: &str| trainmon(&["-i", "200ms", "--pid", &target.pid(), "--log", path]);
    let folder = tempfile::tempdir().unwrap();
    let in_folder = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    refused(log("/dev/full"), 1, &["/dev/full", "full", "free some space"]);
    refused(log(&in_folder("none/run.csv")), 1, &["no such folder", "create it first"]);
    refused(log(folder.path().to_str().unwrap()), 2, &["is a directory"]);
    fs::write(in_folder("file"), "").unwrap();
    refused(log(&in_folder("file/run.csv")), 1, &["not a folder"]);

    let inner = tempfile::tempdir().unwrap();
    let path = inner.path().join("closed");
    fs::create_dir(&path).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o555)).unwrap();
    let path = path.join("run.csv");
    let arguments = ["-i", "200ms", "--pid", &target.pid(), "--log", path.to_str().unwrap()];
    let as_nobody = if rustix::process::geteuid().is_root() {
        as_user("65533", &program_for_all(inner.path()), &arguments).unwrap()
    } else {
        trainmon(&arguments)
    };
    refused(as_nobody, 1, &["permission denied", "name a place that you may write to"]);
    assert!(!path.exists());
}

#[test]
fn a_log_that_exists_is_replaced_by_force_and_continued_by_append() {
    let target = Target::sleeping();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.csv");
    let name = path.to_str().unwrap();
    let pid = target.pid();
    let log = |more: &[&str]| {
        let mut arguments = vec!["-i", "200ms", "-n", "2", "--pid", &pid, "--log", name];
        arguments.extend(more);
        trainmon(&arguments)
    };
    fs::write(&path, "step,loss\n1,0.5\n").unwrap();
    refused(log(&[]), 1, &["exists", "--append", "--force"]);
    refused(log(&["--append"]), 2, &["header", "name a new file"]);
    assert_eq!(fs::read_to_string(&path).unwrap(), "step,loss\n1,0.5\n", "left as it was");

    assert_eq!(finish(log(&["--force"])).status.code(), Some(0));
    assert_eq!(rows_of(&path).len(), 2);
    // A row torn by a crash is taken out, with a word about it; the whole ones before it stay.
    let before = fs::read(&path).unwrap();
    fs::write(&path, [before.as_slice(), b"2026-01-01T00:0"].concat()).unwrap();
    let output = finish(log(&["--append"]));
    assert_eq!(output.status.code(), Some(0));
    assert!(text(&output.stderr).contains("torn"), "{}", text(&output.stderr));
    let after = fs::read(&path).unwrap();
    assert!(after.starts_with(&before));
    assert_eq!(rows(&after).len(), 4);
}

#[test]
fn a_log_whose_reader_leaves_is_success() {
    let target = Target::sleeping();
    let mut watcher = trainmon(&["-i", "100ms", "--log", "-", "--pid", &target.pid()])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(watcher.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.starts_with("timestamp,"), "{line}");
    let output = wait_for(watcher);
    assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(0), ""));
}

#[test]
fn signals_end_the_log_with_a_whole_row() {
    for by in [Signal::TERM, Signal::INT] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.csv");
        let target = Target::sleeping();
        let mut watcher = trainmon(&["-i", "100ms", "--pid", &target.pid(), "--log", path.to_str().unwrap()]);
        let watcher = watcher.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let began = Instant::now();
        while fs::read_to_string(&path).map_or(0, |log| log.lines().count()) < 4 {
            assert!(began.elapsed() < Duration::from_secs(5));
            pause(7);
        }
        signal(watcher.id(), by);
        let began = Instant::now();
        let output = wait_for(watcher);
        assert!(began.elapsed() < Duration::from_secs(1), "{by:?}: {:?}", began.elapsed());
        assert_eq!(output.status.code(), Some(0), "{by:?}");
        assert_eq!(text(&output.stderr).lines().count(), 1, "{}", text(&output.stderr));
        assert!(rows_of(&path).len() >= 3);
    }
}

#[test]
fn a_locale_without_utf_8_changes_no_number() {
    let target = Target::sleeping();
    for locale in ["C", "de_DE.UTF-8", "no-such-locale"] {
        let mut command = trainmon(&["-i", "100ms", "-n", "3", "--log", "-", "--pid", &target.pid()]);
        command.env("LC_ALL", locale);
        let output = finish(command);
        assert_eq!(output.status.code(), Some(0));
        let rows = rows(&output.stdout);
        assert_eq!(rows.len(), 3);
        assert!(rows.iter().all(|row| row["elapsed_s"].parse::<f64>().is_ok()), "{rows:?}");
    }
    let mut command = trainmon(&["diagnose", "-i", "100ms", "-n", "2", "--pid", &target.pid()]);
    command.env("LC_ALL", "C").env("TERM", "dumb");
    let output = finish(command);
    assert_eq!(output.status.code(), Some(0));
    assert!(!output.stdout.contains(&0x1b), "{}", text(&output.stdout));
}

#[test]
fn without_a_terminal_the_screen_is_refused() {
    let target = Target::sleeping();
    refused(trainmon(&["--pid", &target.pid()]), 2, &["needs a terminal", "--log"]);
}

#[test]
fn a_driver_that_hangs_holds_up_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let device = folder.path().join("device");
    let _owner = SimulatedGpu::create(&device, &[SimulatedGpuState::default()]).unwrap();
    let target = Target::sleeping();
    let (library, pid) = (library("fake_nvml"), target.pid());
    let watch = |arguments: &[&str]| {
        let mut command = trainmon(arguments);
        command.args(["--nvml-lib", &library, "--pid", &pid]);
        command.env("TRAINMON_SIMULATED_DEVICE", &device).env("FAKE_NVML_FAIL", "hang:nvmlDeviceGetPowerUsage_60000");
        command
    };
    let mut log = watch(&["--log", "-", "-i", "200ms", "-n", "20"]);
    let log = log.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let began = Instant::now();
    let verdict = verdict(watch(&["diagnose", "--json", "-i", "200ms", "--duration", "4s"]));
    assert!(began.elapsed() < Duration::from_millis(5500), "{:?}", began.elapsed());
    assert_eq!(verdict["seen"]["nvml"], "hung", "{verdict:#}");
    assert!(not_seen(&verdict, "nvml")["why"].as_str().unwrap().contains("NVML hangs"));
    assert!(not_seen(&verdict, "nvml")["fix"].as_str().unwrap().contains("dmesg | grep -i xid"));
    let rows = rows(&wait_for(log).stdout);
    assert_eq!(rows.len(), 20);
    let elapsed: Vec<f64> = rows.iter().map(|row| row["elapsed_s"].parse().unwrap()).collect();
    assert!(elapsed[19] < 5.2, "{elapsed:?}");
    let longest = elapsed.windows(2).map(|pair| pair[1] - pair[0]).fold(0.0, f64::max);
    assert!(longest < 0.8, "{elapsed:?}");
    assert!(rows.iter().all(|row| row["gpu_util_pct"].is_empty()));
}

#[test]
fn a_lost_device_is_told_with_its_fix() {
    let folder = tempfile::tempdir().unwrap();
    let device = folder.path().join("device");
    let _owner = SimulatedGpu::create(&device, &[SimulatedGpuState::default()]).unwrap();
    let target = Target::sleeping();
    let library = library("fake_nvml");
    let cases = [
        ("lost", "gone", "gpu0", "nvidia-smi --gpu-reset"),
        ("gone", "gone", "nvml", "modprobe"),
        ("no_driver", "absent", "nvml", "modprobe"),
        ("no_permission", "denied", "nvml", "/dev/nvidiactl"),
    ];
    for (failure, seen, what, fix) in cases {
        let mut command = trainmon(&["diagnose", "--json", "-i", "100ms", "-n", "4", "--pid", &target.pid()]);
        command.args(["--nvml-lib", &library]);
        command.env("TRAINMON_SIMULATED_DEVICE", &device).env("FAKE_NVML_FAIL", failure);
        let verdict = verdict(command);
        assert_eq!(verdict["seen"]["nvml"], seen, "{failure}: {verdict:#}");
        let entry = not_seen(&verdict, what);
        assert!(entry["fix"].as_str().is_some_and(|text| text.contains(fix)), "{failure}: {entry:#}");
    }
}

#[test]
fn a_library_that_cannot_be_loaded_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let text_file = folder.path().join("libnvidia-ml.so.1");
    fs::write(&text_file, "no library").unwrap();
    let target = Target::sleeping();
    for path in ["/nonexistent/libnvidia-ml.so.1", text_file.to_str().unwrap(), "/", "libc.so.6"] {
        let verdict = diagnose(&target.pid(), "1s", &["--nvml-lib", path]);
        let nvml = not_seen(&verdict, "nvml");
        assert!(nvml["why"].as_str().unwrap().contains(path), "{nvml:#}");
        assert!(nvml["fix"].as_str().is_some_and(|fix| fix.contains("--nvml-lib")), "{nvml:#}");
        assert_eq!(verdict["seen"]["syscall"], "ok");
    }
}

#[test]
fn run_passes_the_exit_code_on() {
    let folder = tempfile::tempdir().unwrap();
    for (number, (script, code)) in
        [("exit 7", 7), ("sleep 0.6; exit 7", 7), ("kill -TERM $$", 128 + 15), ("exit 0", 0)].into_iter().enumerate()
    {
        let path = folder.path().join(format!("{number}.csv"));
        let log = path.to_str().unwrap();
        let output = finish(trainmon(&["run", "-i", "200ms", "--log", log, "--", "sh", "-c", script]));
        assert_eq!(output.status.code(), Some(code), "{script}: {}", text(&output.stderr));
        assert!(text(&output.stderr).lines().count() <= 1, "{}", text(&output.stderr));
        if path.exists() {
            rows_of(&path);
        }
    }
}

#[test]
fn run_refuses_what_cannot_be_started() {
    let program = "/nonexistent/train";
    refused(trainmon(&["run", "--log", "-", "--", program]), 1, &["cannot start /nonexistent/train"]);
    refused(trainmon(&["run", "--log", "-", "--", "/tmp"]), 1, &["cannot start /tmp"]);
    // As it is started where Yama lets only ancestors attach.
    refused(trainmon(&["become-program", program]), 1, &["cannot start /nonexistent/train"]);
    let output = finish(trainmon(&["become-program", "sh", "-c", "exit 7"]));
    assert_eq!((output.status.code(), output.stderr.is_empty()), (Some(7), true));
}
