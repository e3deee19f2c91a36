use std::fs;
use std::io::Write;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::*;

/// Ended with the test.
struct Job(Child);

impl Job {
    /// A shell that does this; what it reads is written by the test. It may be started before it has its command line.
    fn shell(script: &str) -> Self {
        let mut command = Command::new("sh");
        command.args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::null());
        let job = Self(command.spawn().unwrap());
        let (path, until) = (format!("/proc/{}/cmdline", job.0.id()), Instant::now() + Duration::from_secs(20));
        while fs::read(&path).unwrap().is_empty() {
            assert!(Instant::now() < until, "{path} stays empty");
            std::thread::sleep(Duration::from_millis(1));
        }
        job
    }

    fn line(&mut self) {
        self.0.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Reads until a sample is as it should be.
fn read_until(reader: &mut JobReader, what: &str, is_so: impl Fn(&JobSample) -> bool) -> JobSample {
    let until = Instant::now() + Duration::from_secs(20);
    loop {
        let sample = reader.read(0);
        if is_so(&sample) {
            return sample;
        }
        assert!(Instant::now() < until, "{what}: {:?}", sample.processes);
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn an_exec_of_the_same_interpreter_is_seen() {
    let mut job = Job::shell("read a; exec sh -c 'read b; exit 0' second");
    let mut reader = JobReader::attach(Path::new("/proc"), job.0.id(), true).unwrap();
    // The first reads look at the command line anyway.
    for _ in 0..6 {
        reader.read(0);
    }
    let target = reader.target;
    assert!(reader.command().contains("exec sh"), "{}", reader.command());
    if let Some(process) = reader.processes.get_mut(&target.pid) {
        process.library = Some("libtorch".into());
        process.rank = Some(None);
    }
    assert_eq!(reader.sampler_plan().processes.first().map(|process| process.execs), Some(0));
    job.line();
    let after = read_until(&mut reader, "an exec", |sample| sample.processes.iter().any(|process| process.execs > 0));
    let process = after.processes.first().unwrap();
    assert!(process.command.starts_with("sh -c read b") && process.id == target && after.alive, "{process:?}");
    assert_eq!((process.rank, after.library), (None, None), "what was true of the program before");
    assert_eq!(reader.sampler_plan().processes.first().map(|planned| planned.execs), Some(process.execs));
}

#[test]
fn an_exec_is_counted_although_its_middle_was_read() {
    let tree = tempfile::tempdir().unwrap();
    write_process(tree.path(), 10, 1, 10, 100);
    let path = tree.path().join("10/stat");
    let line = fs::read_to_string(&path).unwrap();
    // Fields 26 to 28, 45 and 46: where code, stack and data are.
    let run_at = |code: u64| {
        let mut fields: Vec<String> = line.trim_end().split(' ').map(str::to_owned).collect();
        for place in [25, 26, 27, 44, 45] {
            fields[place] = code.to_string();
        }
        fs::write(&path, fields.join(" ") + "\n").unwrap();
    };
    run_at(0x40_0000);
    let mut reader = JobReader::attach(tree.path(), 10, true).unwrap();
    let mut execs_at = |code| {
        run_at(code);
        reader.read(0).processes.first().unwrap().execs
    };
    let counted = [0x40_0000, 0, 0x40_0000, 0, 0x50_0000, 0x50_0000, 0x60_0000].map(&mut execs_at);
    assert_eq!(counted, [0, 0, 0, 0, 1, 1, 2]);
}

#[test]
fn a_fork_is_no_exec() {
    let mut job = Job::shell("(read b); read a");
    let mut reader = JobReader::attach(Path::new("/proc"), job.0.id(), true).unwrap();
    let is_there = |sample: &JobSample| sample.processes.len() == 2;
    read_until(&mut reader, "a child", is_there);
    job.line();
    let sample = read_until(&mut reader, "no child", |sample| !is_there(sample));
    assert!(sample.processes.iter().all(|process| process.execs == 0));
}

#[test]
fn a_process_whose_main_thread_has_ended_before_others_lives() {
    let tree = tempfile::tempdir().unwrap();
    write_process(tree.path(), 10, 1, 10, 100);
    let stat = |state: char, threads: u32| {
        let line = fs::read_to_string(tree.path().join("10/stat")).unwrap();
        let mut fields: Vec<String> = line.split(' ').map(str::to_owned).collect();
        (fields[2], fields[19]) = (state.to_string(), threads.to_string());
        fs::write(tree.path().join("10/stat"), fields.join(" ")).unwrap();
    };
    stat('Z', 3);
    let mut reader = JobReader::attach(tree.path(), 10, true).unwrap();
    assert!(reader.read(0).alive);
    stat('Z', 1);
    assert!(!reader.read(1).alive);
    assert!(matches!(JobReader::attach(tree.path(), 10, true), Err(AttachError::Zombie(10))));
}

#[test]
fn whatever_vanishes_between_two_reads_ends_no_more_than_its_process() {
    const FILES: [&str; 9] =
        ["stat", "io", "cmdline", "status", "maps", "fd", "task/20/children", "task/20/schedstat", "task"];
    for keep in [true, false] {
        for vanishing in FILES {
            let tree = tempfile::tempdir().unwrap();
            write_process(tree.path(), 10, 1, 10, 100);
            write_process(tree.path(), 20, 10, 10, 200);
            fs::write(tree.path().join("10/task/10/children"), "20").unwrap();
            for name in ["io", "cmdline", "status", "maps", "task/20/schedstat"] {
                fs::write(tree.path().join("20").join(name), "1 2 3\n").unwrap();
            }
            fs::create_dir(tree.path().join("20/fd")).unwrap();
            let mut reader = JobReader::attach(tree.path(), 10, true).unwrap();
            assert_eq!(pids(&reader.read(0)), [10, 20]);
            reader.processes.values_mut().for_each(|process| process.set_kept(keep));
            let path = tree.path().join("20").join(vanishing);
            if path.is_dir() {
                fs::remove_dir_all(path).unwrap()
            } else {
                fs::remove_file(path).unwrap()
            }
            for second in 1..=SCAN_EVERY {
                let sample = reader.read(second);
                let expected = if vanishing == "stat" && !keep { vec![10] } else { vec![10, 20] };
                assert_eq!((pids(&sample), sample.alive), (expected, true), "{vanishing} {keep}");
            }
        }
    }
}

#[test]
fn a_number_with_another_owner_is_another_process_whether_its_files_are_kept_or_not() {
    for keep in [true, false] {
        let tree = tempfile::tempdir().unwrap();
        write_process(tree.path(), 10, 1, 10, 100);
        write_process(tree.path(), 20, 10, 10, 200);
        fs::write(tree.path().join("10/task/10/children"), "20").unwrap();
        let mut reader = JobReader::attach(tree.path(), 10, true).unwrap();
        reader.processes.values_mut().for_each(|process| process.set_kept(keep));
        let start = |sample: &JobSample| sample.processes[1].id.start_ticks;
        assert_eq!(start(&reader.read(0)), 200);
        write_process(tree.path(), 20, 10, 10, 300);
        fs::write(tree.path().join("10/task/10/children"), "20").unwrap();
        assert_eq!(start(&reader.read(1)), 300);
        write_process(tree.path(), 10, 1, 10, 400);
        assert!(!reader.read(2).alive, "the target has gone, whoever has its number now");
    }
}

#[test]
fn processes_that_come_and_go_all_the_time_end_nothing() {
    let mut job = Job::shell("i=0; while [ $i -lt 300 ]; do /bin/true & i=$((i+1)); done; wait; read a");
    let mut reader = JobReader::attach(Path::new("/proc"), job.0.id(), false).unwrap();
    let mut sampler = crate::sources::sampler::Sampler::new(Path::new("/proc"));
    let until = Instant::now() + Duration::from_millis(1500);
    while Instant::now() < until {
        assert!(reader.read(clock::monotonic_ns()).alive);
        sampler.follow(reader.sampler_plan());
        sampler.round(clock::monotonic_ns());
        sampler.take();
    }
    job.line();
    read_until(&mut reader, "the end", |sample| !sample.alive);
}

#[test]
fn a_hidden_process_is_told_from_one_that_is_not_there() {
    let tree = tempfile::tempdir().unwrap();
    fs::create_dir(tree.path().join("self")).unwrap();
    let at = tree.path().display();
    fs::write(tree.path().join("self/mountinfo"), format!("22 28 0:21 / {at} rw - proc proc rw,hidepid=invisible\n"))
        .unwrap();
    // Process 1 always exists.
    let said = JobReader::attach(tree.path(), 1, true).unwrap_err().to_string();
    assert!(said.contains("/proc is mounted with hidepid=invisible; run `"), "{said}");
    let gone = JobReader::attach(tree.path(), i32::MAX.unsigned_abs(), true);
    assert!(matches!(gone, Err(AttachError::NoSuchProcess(_))));
}

/// A process in a tree of files like `/proc`: what it is a child of, its session, which is its group as well, and its start.
fn write_process(proc_root: &Path, pid: u32, parent: u32, session: u32, start_ticks: u64) {
    let folder = proc_root.join(pid.to_string());
    fs::create_dir_all(folder.join(format!("task/{pid}"))).unwrap();
    let stat = format!(
        "{pid} (python) S {parent} {session} {session} 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 {start_ticks} 0 0{}\n",
        " 0".repeat(28)
    );
    fs::write(folder.join("stat"), stat).unwrap();
    fs::write(folder.join(format!("task/{pid}/children")), "").unwrap();
}

fn pids(sample: &JobSample) -> Vec<u32> {
    sample.processes.iter().map(|process| process.id.pid).collect()
}

#[test]
fn an_orphan_is_found_also_under_the_number_of_a_process_that_was_none_of_the_job() {
    let tree = tempfile::tempdir().unwrap();
    write_process(tree.path(), 10, 1, 10, 100);
    write_process(tree.path(), 20, 1, 20, 200); // of another session
    write_process(tree.path(), 21, 1, 10, 50); // older than the job
    let mut reader = JobReader::attach(tree.path(), 10, true).unwrap();
    let mut read = |times: u64| (0..times).map(|second| reader.read(second)).last().map(|sample| pids(&sample));
    assert_eq!(read(SCAN_EVERY), Some(vec![10]));
    write_process(tree.path(), 30, 1, 10, 300);
    assert_eq!(read(SCAN_EVERY), Some(vec![10, 30]), "whoever is new is read at the next scan");
    write_process(tree.path(), 20, 1, 10, 400);
    assert_eq!(read(SCAN_EVERY * RULED_OUT_EVERY), Some(vec![10, 20, 30]));
}

#[test]
fn without_lists_of_children_a_child_is_found_at_once() {
    let tree = tempfile::tempdir().unwrap();
    write_process(tree.path(), 10, 1, 10, 100);
    write_process(tree.path(), 20, 1, 20, 200);
    fs::remove_file(tree.path().join("10/task/10/children")).unwrap();
    let mut reader = JobReader::attach(tree.path(), 10, true).unwrap();
    assert_eq!(pids(&reader.read(0)), [10]);
    // A number that was a stranger's a moment ago.
    write_process(tree.path(), 20, 10, 20, 300);
    assert_eq!(pids(&reader.read(1)), [10, 20]);
}

#[test]
fn ten_thousand_processes_beside_the_job_are_read_once() {
    // In memory where that is offered: some disks take a minute to remove so many files.
    let tree = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    write_process(tree.path(), 10, 1, 10, 100);
    // Numbers that no process has, ours among them (PID_MAX_LIMIT is 4 Mi).
    let others = 5_000_000..5_010_000;
    let write = |pid: u32, session: u32, start_ticks: u64| {
        // A folder with nothing but what a scan reads.
        let folder = tree.path().join(pid.to_string());
        fs::create_dir_all(&folder).unwrap();
        let rest = " 0".repeat(28);
        let stat =
            format!("{pid} (x) S 1 {session} {session} 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 {start_ticks} 0 0{rest}\n");
        fs::write(folder.join("stat"), stat).unwrap();
    };
    others.clone().for_each(|pid| write(pid, pid, 500));
    let mut reader = JobReader::attach(tree.path(), 10, true).unwrap();
    (0..SCAN_EVERY).for_each(|second| assert_eq!(pids(&reader.read(second)), [10]));
    assert_eq!(reader.ruled_out.len(), 10_000);
    // Now each would be an orphan of the job, if it were read again.
    others.for_each(|pid| write(pid, 10, 600));
    (0..SCAN_EVERY).for_each(|second| assert_eq!(pids(&reader.read(second)), [10]));
}

#[test]
fn accelerators_that_cannot_be_read_are_named() {
    let tree = tempfile::tempdir().unwrap();
    write_process(tree.path(), 10, 1, 10, 100);
    let open = |files: &[&str]| {
        let folder = tree.path().join("10/fd");
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir(&folder).unwrap();
        for (number, file) in files.iter().enumerate() {
            std::os::unix::fs::symlink(file, folder.join(number.to_string())).unwrap();
        }
        let sample = JobReader::attach(tree.path(), 10, true).unwrap().read(0);
        (sample.nvidia_minors.unwrap(), sample.accelerators.iter().map(|file| file.to_string()).collect::<Vec<_>>())
    };
    let of = |files: &[&str]| (Vec::new(), files.iter().map(|file| (*file).to_owned()).collect::<Vec<_>>());
    let amd = ["/dev/null", "/dev/kfd", "/dev/dri/renderD129", "/dev/dri/renderD128", "/dev/kfd"];
    assert_eq!(open(&amd), of(&["/dev/dri/renderD128", "/dev/dri/renderD129", "/dev/kfd"]));
    assert_eq!(open(&["/dev/accel/accel0", "/dev/accel1", "/dev/vfio/3"]).1.len(), 3);
    assert_eq!(open(&["/dev/dri/card0", "/home/me/dev/kfd", "socket:[1]"]), of(&[]));
    // NVIDIA's cards have render nodes too, and NVML reads those.
    assert_eq!(open(&["/dev/nvidiactl", "/dev/nvidia2", "/dev/dri/renderD128"]), (vec![2], Vec::new()));
}
