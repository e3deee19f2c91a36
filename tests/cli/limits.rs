//! Limits of the machine and odd states of the job: few descriptors, no threads, more processes than are watched, an exec, a `/proc`
//! that hides the job, a frozen control group.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::outcome::{self, assert_one_line, is_seen, not_seen, program_for_all};
use crate::process::{PROGRAM, Target, children, pause, rows, text, trainmon, until, with_environment};

/// The program in a shell that sets limits first.
fn limited(limits: &str, arguments: &[&str]) -> Command {
    let mut command = with_environment(Command::new("sh"), &["-c", &format!("{limits}; exec \"$@\""), "sh", PROGRAM]);
    command.args(arguments);
    command
}

/// A shell with so many sleeping children, which are there when this returns.
fn with_children(count: usize) -> Target {
    let script = format!("i=0; while [ $i -lt {count} ]; do sleep 600 & i=$((i+1)); done; wait");
    let job = Target::start("sh", &["-c", &script]);
    until("the children start", || children(job.id()).len() == count);
    job
}

fn succeeded(output: &Output) {
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
}

const BESIDE: [&str; 3] = ["--no-stacks", "--nvml-lib", "/nonexistent"];

fn verdict(mut command: Command) -> Value {
    command.args(BESIDE);
    outcome::verdict(command)
}

/// Why something was not seen.
fn why<'v>(verdict: &'v Value, what: &str) -> &'v str {
    not_seen(verdict, what)["why"].as_str().unwrap()
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[test]
fn a_log_goes_on_with_fewer_descriptors_than_the_job_has_files() {
    for (children, descriptors) in [(60, 64), (60, 256), (400, 1024)] {
        let job = with_children(children);
        let limits = format!("ulimit -n {descriptors}");
        let arguments = ["--pid", &job.pid(), "--log", "-", "--interval", "300ms", "--iterations", "4"];
        let output = limited(&limits, &arguments).args(BESIDE).output().unwrap();
        succeeded(&output);
        let rows = rows(&output.stdout);
        assert_eq!(rows.len(), 4);
        for name in ["cpu_util_pct", "mem_available_mib", "job_rss_mib", "job_cpu_pct", "self_rss_mib"] {
            assert!(rows.iter().all(|row| !row[name].is_empty()), "{descriptors} {name}: {rows:?}");
        }
        let arguments = ["diagnose", "--json", "--pid", &job.pid(), "--interval", "300ms", "--iterations", "4"];
        let verdict = verdict(limited(&limits, &arguments));
        assert!(is_seen(&verdict, "processes"), "all are read: {verdict}");
        let (why, fix) = (why(&verdict, "descriptors"), &not_seen(&verdict, "descriptors")["fix"]);
        assert!(why.contains(&format!("of {} processes", children + 1)), "{why}");
        assert!(why.contains(&format!("(ulimit -n {descriptors})")), "{why}");
        assert!(fix.as_str().unwrap().contains(if is_root() { "ulimit -n " } else { "prlimit" }), "{fix:?}");
    }
}

#[test]
fn waits_that_are_not_sampled_for_want_of_descriptors_are_told() {
    let threads = "
import threading, time
def wake():
    while True: time.sleep(0.02)
for _ in range(30): threading.Thread(target=wake, daemon=True).start()
wake()";
    let job = Target::start("python3", &["-c", threads]);
    let tasks = format!("/proc/{}/task", job.id());
    until("the threads start", || fs::read_dir(&tasks).unwrap().count() == 31);
    let arguments = ["diagnose", "--json", "--pid", &job.pid(), "--interval", "500ms", "--iterations", "4"];
    let few = verdict(limited("ulimit -n 64", &arguments));
    let entry = not_seen(&few, "waits");
    assert!(why(&few, "waits").contains("too few file descriptors (ulimit -n 64)"), "{entry}");
    assert!(entry["fix"].is_string(), "{entry}");
    assert!(is_seen(&verdict(trainmon(&arguments)), "waits"));
}

#[test]
fn few_descriptors_are_told_even_where_the_job_is_small() {
    let job = Target::sleeping();
    let arguments = ["diagnose", "--json", "--pid", &job.pid(), "--interval", "300ms", "--iterations", "3"];
    let few = verdict(limited("ulimit -n 64", &arguments));
    let told = why(&few, "descriptors");
    assert!(told.starts_with("cannot sample what more than ") && told.contains("(ulimit -n 64)"), "{told}");
    assert!(not_seen(&few, "descriptors")["fix"].as_str().unwrap().contains("16384"), "{few}");
    for enough in ["ulimit -n 1024", "true"] {
        assert!(is_seen(&verdict(limited(enough, &arguments)), "descriptors"), "{enough}");
    }
}

#[test]
fn processes_and_threads_beyond_those_that_are_watched_are_told() {
    let job = with_children(1100);
    let verdict_on = |job: &Target| {
        verdict(trainmon(&["diagnose", "--json", "--pid", &job.pid(), "--interval", "2s", "--iterations", "2"]))
    };
    let crowd = verdict_on(&job);
    let told = why(&crowd, "processes");
    assert!(told.starts_with("77 of the job's 1101 processes") && told.contains("1024"), "{told}");
    drop(job);
    let threads = "
import threading, time
threading.stack_size(65536)
for _ in range(2100): threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
time.sleep(600)";
    let job = Target::start("python3", &["-c", threads]);
    let tasks = format!("/proc/{}/task", job.id());
    until("the threads start", || fs::read_dir(&tasks).unwrap().count() == 2101);
    let crowd = verdict_on(&job);
    let told = why(&crowd, "threads");
    assert!(told.contains("53 of") && told.contains("2101 threads") && told.contains("2048"), "{told}");
}

#[test]
fn too_few_descriptors_to_begin_are_one_line() {
    let own = std::process::id().to_string();
    for limit in [16, 32] {
        let output =
            limited(&format!("ulimit -n {limit}"), &["--pid", &own, "--log", "-", "--iterations", "1"]).output();
        assert_one_line(&output.unwrap(), 1, &[&format!("too few file descriptors (ulimit -n {limit})")]);
    }
}

const AS_NOBODY: [&str; 4] = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];

/// The program with a limit on processes and threads, as a user who has no others; root is not bound by it.
fn with_threads(most: u32, arguments: &[&str]) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let program = program_for_all(folder.path());
    // A number that no other test uses at the same time.
    let user = 100_000 + std::process::id() % 100_000 + most;
    let words = [format!("--reuid={user}"), format!("--regid={user}"), "--clear-groups".into(), "prlimit".into()];
    let words = words.into_iter().chain([format!("--nproc={most}:{most}"), program.to_str().unwrap().into()]);
    with_environment(Command::new("setpriv"), &[]).args(words).args(arguments).output().unwrap()
}

#[test]
fn a_user_who_may_start_no_thread_is_told_the_limit() {
    if !is_root() {
        return; // becoming another user takes root
    }
    let job = Target::sleeping();
    let output = with_threads(1, &["--pid", &job.pid(), "--log", "-", "--iterations", "1"]);
    assert_one_line(&output, 1, &["(ulimit -u 1)"]);
    assert!(text(&output.stderr).contains("cannot start a thread"));
}

#[test]
fn sources_whose_threads_cannot_be_started_say_so_and_the_rest_goes_on() {
    if !is_root() {
        return;
    }
    let job = Target::sleeping();
    let arguments = ["diagnose", "--json", "--pid", &job.pid(), "--interval", "200ms", "--iterations", "3"];
    let output = with_threads(2, &arguments);
    succeeded(&output);
    let verdict: Value = serde_json::from_slice(&output.stdout).unwrap();
    for source in ["nvml", "disks", "stacks"] {
        let why = why(&verdict, source);
        assert!(why.contains("cannot start a thread") && why.contains("(ulimit -u 2)"), "{source}: {why}");
    }
    assert!(verdict["observed_s"].as_f64().unwrap() > 0.0, "the job is read: {verdict}");
}

#[test]
fn an_address_space_without_room_for_threads_is_told() {
    let job = Target::sleeping();
    // Largest first: how much the program itself takes differs from build to build.
    let tried = (2..20).rev().map(|step| 10_000 * step).find_map(|kib| {
        let arguments = ["--pid", &job.pid(), "--log", "-", "--interval", "100ms", "--iterations", "1"];
        let output = limited(&format!("ulimit -v {kib}"), &arguments).args(BESIDE).output().unwrap();
        (output.status.code() != Some(0)).then_some((kib, output))
    });
    let (kib, output) = tried.unwrap();
    assert_one_line(&output, 1, &[&format!("(ulimit -v {kib}); run `ulimit -v unlimited` first")]);
}

#[test]
fn the_program_of_run_has_the_limit_that_trainmon_was_started_with() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log.csv");
    let arguments = ["--log", log.to_str().unwrap(), "--interval", "100ms", "run", "--"];
    let script = "sleep 1; ulimit -Sn";
    let output = limited("ulimit -Sn 200", &arguments).args(["sh", "-c", script]).output().unwrap();
    assert_eq!(text(&output.stdout).trim(), "200", "{}", text(&output.stderr));
}

#[test]
fn after_an_exec_the_verdict_is_on_the_new_program() {
    let exec = "
import os, time
time.sleep(2)
os.execvp('python3', ['python3', '-c', 'import time\\nwhile True: time.sleep(0.01)', 'second'])";
    let job = Target::start("python3", &["-c", exec]);
    let arguments = ["diagnose", "--json", "--pid", &job.pid(), "--interval", "500ms", "--iterations", "12"];
    let verdict = verdict(trainmon(&arguments));
    let command = verdict["command"].as_str().unwrap();
    assert!(command.ends_with(" second") && !command.contains("execvp"), "{command}");
    assert_eq!(verdict["pid"], job.id(), "it is still attached");
}

#[test]
fn a_process_that_proc_hides_is_told_from_one_that_is_not_there() {
    if !is_root() {
        return; // mounting takes root
    }
    let folder = tempfile::tempdir().unwrap();
    let program = program_for_all(folder.path());
    for option in ["1", "2"] {
        let nobody = AS_NOBODY.join(" ");
        let script = format!(
            "mount --make-rprivate / && mount -t proc -o hidepid={option} proc /proc || exit 77
             sleep 60 & kill -0 $! && {nobody} {0} --pid $! --log - --iterations 1; status=$?
             {nobody} {0} --pid 4000000 --log - --iterations 1
             kill $!; exit $status",
            program.display()
        );
        let mut command = Command::new("unshare");
        command.args(["--mount", "--pid", "--fork", "sh", "-c", &script]).stdin(Stdio::null());
        let output = command.output().unwrap();
        let said = text(&output.stderr);
        if output.status.code() == Some(77) || said.contains("unshare failed") {
            return; // a container that may not mount
        }
        let lines: Vec<&str> = said.lines().collect();
        assert_eq!((output.status.code(), lines.len()), (Some(3), 2), "{said}");
        assert!(lines[0].contains("mounted with hidepid=") && lines[0].contains("`sudo /"), "{said}");
        assert!(lines[1].contains("no process 4000000"), "{said}");
    }
}

/// A control group that is thawed and removed with the test.
struct Group {
    folder: PathBuf,
    thaw: (&'static str, &'static str),
}

impl Group {
    fn new(root: &str, thaw: (&'static str, &'static str)) -> Option<Self> {
        let folder = Path::new(root).join(format!("trainmon-test-{}", std::process::id()));
        fs::create_dir(&folder).ok()?;
        let group = Self { folder, thaw };
        group.folder.join(thaw.0).exists().then_some(group)
    }

    fn write(&self, name: &str, text: &str) -> bool {
        fs::write(self.folder.join(name), text).is_ok()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.write(self.thaw.0, self.thaw.1);
        for _ in 0..100 {
            // Busy until its last process has gone.
            if fs::remove_dir(&self.folder).is_ok() {
                return;
            }
            pause(20);
        }
    }
}

#[test]
fn a_frozen_group_is_told_with_the_command_that_resumes_it() {
    for (root, freeze, thaw) in [
        ("/sys/fs/cgroup", "1", ("cgroup.freeze", "0")),
        ("/sys/fs/cgroup/unified", "1", ("cgroup.freeze", "0")),
        ("/sys/fs/cgroup/freezer", "FROZEN", ("freezer.state", "THAWED")),
    ] {
        // Where no group can be made (no root, a container) the tests of the reader have to do.
        let Some(group) = Group::new(root, thaw) else { continue };
        let mut job = Target::sleeping();
        if !group.write("cgroup.procs", &job.pid()) || !group.write(thaw.0, freeze) {
            continue;
        }
        let arguments = ["diagnose", "--json", "--pid", &job.pid(), "--interval", "300ms", "--iterations", "10"];
        let verdict = verdict(trainmon(&arguments));
        group.write(thaw.0, thaw.1);
        job.end();
        assert_eq!((&verdict["class"], &verdict["phase"]), (&"idle".into(), &"stopped".into()), "{verdict}");
        let summary = verdict["summary"].as_str().unwrap();
        let switch = group.folder.join(thaw.0);
        assert!(summary.contains("frozen") && summary.contains(switch.to_str().unwrap()), "{summary}");
        let advice = verdict["advice"][0]["title"].as_str().unwrap();
        assert!(advice.starts_with("Resume it: echo "), "{advice}");
    }
}

#[test]
fn a_small_memory_limit_of_our_own_allows_few_open_files() {
    let (children, most) = (400, (32_u64 << 20) / 8 / 5500);
    for (root, file, unlimited) in
        [("/sys/fs/cgroup/memory", "memory.limit_in_bytes", "-1"), ("/sys/fs/cgroup", "memory.max", "max")]
    {
        let Some(group) = Group::new(root, (file, unlimited)) else { continue };
        if !group.write(file, "33554432") {
            continue;
        }
        let job = with_children(children);
        let enter = format!("echo $$ > {}/cgroup.procs", group.folder.display());
        let arguments = ["--pid", &job.pid(), "--log", "/dev/null", "--append", "--interval", "200ms"];
        let mut command = limited(&enter, &arguments);
        let mut program = Target::spawn(command.args(BESIDE).stdout(Stdio::null()).stderr(Stdio::null()));
        let folder = format!("/proc/{}/fd", program.id());
        let files = || fs::read_dir(&folder).map_or(0, Iterator::count) as u64;
        until("it keeps as many as it may", || files() >= most / 2);
        pause(1500);
        let kept = files();
        assert!(program.lives() && kept <= most + 60, "{kept} files of {most}");
        program.end();
        return;
    }
}
