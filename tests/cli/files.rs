//! What becomes of the files that are written and read, against the real program: rotated and removed logs, modes, kill -9,
//! recordings that are no recordings, and files that never end.
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;

use rustix::process::{Pid, Signal, kill_process};
use trainmon::outputs::recording::Recorder;
use trainmon::sample::recording::{Header, SCHEMA};
use trainmon::sample::{JobSample, Sample};
use trainmon::sources::recording::Recording;

use crate::outcome::{finish, refused, wait_for};
use crate::process::{PROGRAM, Target, pause, rows, signal, state, text, trainmon, until, with_environment};

/// A watcher of a target, with a file that it writes.
struct Writer {
    _target: Target,
    folder: tempfile::TempDir,
    path: PathBuf,
    child: Child,
}

impl Writer {
    fn new(name: &str, arguments: &[&str]) -> Self {
        let (target, folder) = (Target::sleeping(), tempfile::tempdir().unwrap());
        let path = folder.path().join(name);
        // A session of its own has no controlling terminal, as a daemon's has none.
        let mut command = Command::new("setsid");
        command.arg(PROGRAM);
        let mut command = with_environment(command, arguments);
        command.args([path.to_str().unwrap(), "--no-stacks", "--pid", &target.pid()]);
        command.args(["--nvml-lib", "/nonexistent"]);
        let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        Self { _target: target, folder, path, child }
    }

    fn log() -> Self {
        Self::new("run.csv", &["-i", "100ms", "--log"])
    }

    fn recording() -> Self {
        Self::new("run.tmz", &["record", "-i", "100ms", "-o"])
    }

    fn beside(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn length(&self) -> u64 {
        fs::metadata(&self.path).map_or(0, |file| file.len())
    }

    /// Waits until some more rows, or frames, are written to the path.
    fn wait_for_more(&self) {
        let before = self.length();
        let enough = if self.path.extension().is_some_and(|kind| kind == "csv") { 600 } else { 1000 };
        until("it goes on writing", || self.length() > before + enough);
    }

    /// Ends it, and gives what it said.
    fn end(self) -> (i32, String, tempfile::TempDir) {
        // It may have been told before.
        let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
        let output = wait_for(self.child);
        (output.status.code().unwrap(), text(&output.stderr), self.folder)
    }
}

/// The number before ` rows`, and that after `the last `.
fn counts(said: &str) -> (usize, usize) {
    let last = said.lines().last().unwrap();
    let number = |text: &str| text.split_whitespace().next().unwrap().parse().unwrap();
    (number(last.strip_prefix("trainmon: ").unwrap()), number(last.split("the last ").nth(1).unwrap()))
}

#[test]
fn a_log_that_is_moved_or_removed_goes_on_in_a_new_file() {
    for removed in [false, true] {
        let writer = Writer::log();
        writer.wait_for_more();
        let old = writer.beside("run.csv.1");
        if removed { fs::remove_file(&writer.path) } else { fs::rename(&writer.path, &old) }.unwrap();
        writer.wait_for_more();
        let (path, mode) = (writer.path.clone(), fs::metadata(&writer.path).unwrap().permissions().mode());
        let (code, said, _folder) = writer.end();
        assert_eq!(code, 0, "{said}");
        assert_eq!(mode & 0o777, 0o600);
        assert!(said.lines().count() == 2 && said.contains("was moved or removed; the next rows"), "{said}");
        let new = rows(&fs::read(&path).unwrap());
        let (all, last) = counts(&said);
        assert_eq!(last, new.len(), "{said}");
        if !removed {
            assert_eq!(all, new.len() + rows(&fs::read(&old).unwrap()).len(), "no row is lost: {said}");
        }
    }
}

#[test]
fn a_log_that_is_replaced_goes_on_in_the_file_that_is_there() {
    // As logrotate's `create` leaves it, as an editor does, and something else.
    for content in ["", "copy", "a,b\n1,2", "timestamp,elapsed_s\n"] {
        let writer = Writer::log();
        writer.wait_for_more();
        let written = fs::read(&writer.path).unwrap();
        let content = if content == "copy" { written.as_slice() } else { content.as_bytes() };
        let new = writer.beside("new");
        fs::write(&new, content).unwrap();
        fs::rename(&new, &writer.path).unwrap();
        writer.wait_for_more();
        let path = writer.path.clone();
        let (code, said, _folder) = writer.end();
        assert_eq!(code, 0, "{said}");
        let after = fs::read(&path).unwrap();
        assert!(after.starts_with(content) && after.ends_with(b"\r\n"), "what was there stays");
        if content == written {
            assert!(rows(&after).len() > rows(&written).len(), "under its own header: {}", text(&after));
            continue;
        }
        let begin = after.windows(10).rposition(|part| part == b"timestamp,").unwrap();
        assert!(begin >= content.len() && (begin == 0 || after[begin - 1] == b'\n'), "{}", text(&after));
        let (_, last) = counts(&said);
        assert_eq!(rows(&after[begin..]).len(), last, "{said}");
    }
}

#[test]
fn a_log_that_is_truncated_has_no_hole() {
    for to in [0, 100, u64::MAX] {
        let writer = Writer::log();
        writer.wait_for_more();
        // Within the header, and within the last row.
        let to = to.min(writer.length() - 50);
        fs::copy(&writer.path, writer.beside("run.csv.1")).unwrap();
        fs::File::options().write(true).open(&writer.path).unwrap().set_len(to).unwrap();
        writer.wait_for_more();
        let path = writer.path.clone();
        let (code, said, _folder) = writer.end();
        assert_eq!(code, 0, "{said}");
        assert!(said.lines().count() == 2 && said.contains("run.csv was "), "{said}");
        let after = fs::read(&path).unwrap();
        assert!(!after.contains(&0), "cut to {to}: {}", String::from_utf8_lossy(&after));
        let begin = after.windows(10).rposition(|part| part == b"timestamp,").unwrap();
        assert!(begin == 0 || after[begin - 1] == b'\n', "{}", text(&after));
        assert!(!rows(&after[begin..]).is_empty());
    }
}

#[test]
fn a_log_that_is_gone_at_the_end_is_not_said_to_be_there() {
    let writer = Writer::log();
    writer.wait_for_more();
    // Stopped, so that no row comes between: the end is what it hears of first.
    let (pid, path) = (writer.child.id(), writer.path.clone());
    signal(pid, Signal::STOP);
    until("it is stopped", || state(pid) == Some('T'));
    fs::rename(&path, writer.beside("old")).unwrap();
    signal(pid, Signal::TERM);
    signal(pid, Signal::CONT);
    let (code, said, _folder) = writer.end();
    assert_eq!((code, path.exists()), (0, said.contains("the last")), "{said}");
    if !path.exists() {
        assert!(said.lines().count() == 1 && said.contains("run.csv was moved, removed or replaced since"), "{said}");
    }
}

#[test]
fn a_hang_up_looks_for_the_file_again_where_there_is_no_terminal() {
    for writer in [Writer::new("run.csv", &["-i", "600s", "--log"]), Writer::recording()] {
        until("it has begun", || writer.path.exists());
        let mut writer = writer;
        fs::rename(&writer.path, writer.beside("old")).unwrap();
        signal(writer.child.id(), Signal::HUP);
        until("there is a new file", || writer.path.exists());
        assert!(writer.child.try_wait().unwrap().is_none(), "it goes on");
        assert_eq!(writer.end().0, 0);
    }
}

#[test]
fn a_recording_that_is_moved_goes_on_in_a_new_file() {
    let writer = Writer::recording();
    writer.wait_for_more();
    let old = writer.beside("old.tmz");
    fs::rename(&writer.path, &old).unwrap();
    writer.wait_for_more();
    let path = writer.path.clone();
    let (code, said, _folder) = writer.end();
    assert_eq!(code, 0, "{said}");
    assert!(said.lines().count() == 2 && said.contains("run.tmz was moved or removed"), "{said}");
    let mut sequences = Vec::new();
    for part in [&old, &path] {
        let mut recording = Recording::open(part).unwrap();
        sequences.extend(recording.by_ref().map(|sample| sample.unwrap().sequence));
        assert_eq!(recording.note, None);
    }
    assert!(sequences.iter().copied().eq(0..sequences.len() as u64), "no sample is lost: {sequences:?}");
    let (all, last) = counts(&said);
    assert!(all == sequences.len() && last < all, "{said}");
}

#[test]
fn a_log_goes_on_through_no_link_and_no_pipe() {
    for kind in ["symbolic link", "hard link", "pipe", "folder"] {
        let writer = Writer::log();
        writer.wait_for_more();
        let (victim, new) = (writer.beside("victim"), writer.beside("new"));
        fs::write(&victim, "precious").unwrap();
        match kind {
            "symbolic link" => std::os::unix::fs::symlink(&victim, &new).unwrap(),
            "hard link" => fs::hard_link(&victim, &new).unwrap(),
            "pipe" => fifo(&new),
            _ => fs::create_dir(&new).unwrap(),
        }
        // A row may come in between where a folder has to be put in a file's place.
        while fs::rename(&new, &writer.path).is_err() {
            fs::remove_file(&writer.path).unwrap();
        }
        let Writer { child, folder: _folder, .. } = writer;
        let output = wait_for(child);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{kind}: {said}");
        assert!(said.lines().last().unwrap().contains("replaced"), "{kind}: {said}");
        assert_eq!(fs::read_to_string(&victim).unwrap(), "precious", "{kind}");
    }
}

#[test]
fn a_recording_that_something_else_writes_to_ends_in_one_line() {
    let writer = Writer::recording();
    writer.wait_for_more();
    fs::File::options().append(true).open(&writer.path).unwrap().write_all(b"x").unwrap();
    let Writer { child, folder: _folder, .. } = writer;
    let output = wait_for(child);
    let said = text(&output.stderr);
    assert_eq!((output.status.code(), said.lines().count()), (Some(1), 1), "{said}");
    assert!(said.contains("another program wrote to it"), "{said}");
}

#[test]
fn what_is_created_belongs_to_its_owner() {
    let target = Target::sleeping();
    for umask in ["000", "077"] {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().to_str().unwrap();
        let script = format!(
            "umask {umask}; cd '{home}'; export XDG_STATE_HOME='{home}/state'
             '{PROGRAM}' --log run.csv -i 100ms -n 2 --pid {pid} --log-file own.log &&
             RUST_LOG=info '{PROGRAM}' record -o run.tmz -i 100ms -n 2 --pid {pid}",
            pid = target.pid()
        );
        let status = with_environment(Command::new("sh"), &["-c", &script]).stderr(Stdio::null()).status().unwrap();
        assert!(status.success());
        for name in ["run.csv", "own.log", "run.tmz", "state/trainmon/trainmon.log"] {
            let mode = fs::metadata(folder.path().join(name)).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{name} under umask {umask}");
        }
        // One that is there keeps its mode.
        let log = folder.path().join("run.csv");
        fs::set_permissions(&log, fs::Permissions::from_mode(0o644)).unwrap();
        let arguments =
            ["--append", "-i", "100ms", "-n", "1", "--log", log.to_str().unwrap(), "--pid", &target.pid()];
        assert!(trainmon(&arguments).stderr(Stdio::null()).status().unwrap().success());
        assert_eq!(fs::metadata(&log).unwrap().permissions().mode() & 0o777, 0o644);
    }
}

#[test]
fn a_link_that_was_planted_is_not_written_through() {
    if !rustix::process::geteuid().is_root() {
        println!("not checked: only root may make another user's link");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    // Without the sticky bit, for which the kernel has a rule of its own.
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let victim = folder.path().join("victim");
    fs::write(&victim, "precious").unwrap();
    let link = folder.path().join("run.tmz");
    std::os::unix::fs::symlink(&victim, &link).unwrap();
    std::os::unix::fs::lchown(&link, Some(65534), Some(65534)).unwrap();
    let target = Target::sleeping();
    let output = trainmon(&["record", "--force", "-o", link.to_str().unwrap(), "-n", "1", "--pid", &target.pid()]);
    let output = finish(output);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("is a link in a folder that other users can write to"), "{output:?}");
    assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
    // A link of one's own is followed.
    std::os::unix::fs::lchown(&link, Some(0), Some(0)).unwrap();
    let output =
        finish(trainmon(&["record", "--force", "-o", link.to_str().unwrap(), "-n", "1", "--pid", &target.pid()]));
    assert_eq!(output.status.code(), Some(0), "{output:?}");
}

fn fifo(path: &Path) {
    rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
}

#[test]
fn pipes_devices_and_texts_are_no_recordings_and_no_log_files() {
    let (folder, target) = (tempfile::tempdir().unwrap(), Target::sleeping());
    let pipe = folder.path().join("pipe");
    fifo(&pipe);
    let pipe = pipe.to_str().unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(folder.path().join("socket")).unwrap();
    let socket = folder.path().join("socket");
    let text = concat!(env!("CARGO_MANIFEST_DIR"), "/README.md");
    for (path, part) in [
        (pipe, "it is a pipe"),
        ("/dev/zero", "it is a device"),
        ("/dev/null", "it is a device"),
        ("/", "directory"),
        ("/nonexistent.tmz", "no such file"),
        (text, "not a recording"),
    ] {
        refused(trainmon(&["diagnose", "--replay", path]), 1, &[part]);
        refused(trainmon(&["replay", path]), 1, &[part]);
    }
    refused(trainmon(&["diagnose", "--replay", socket.to_str().unwrap()]), 1, &["it is a socket"]);
    refused(trainmon(&["--log-file", pipe, "-n", "1", "--log", "-", "--pid", &target.pid()]), 2, &["log file"]);
    refused(trainmon(&["-n", "1", "--log", socket.to_str().unwrap(), "--pid", &target.pid()]), 2, &["is a socket"]);
}

/// A recording of this many samples, one frame for all.
fn recording_of(samples: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut recorder = Recorder::new(&mut bytes, &Header { schema: SCHEMA, pid: 7, ..Header::default() }).unwrap();
    for sequence in 0..samples {
        let mut sample = Sample { sequence, monotonic_ns: (sequence + 1) * 1_000_000_000, ..Sample::default() };
        // Text that hardly compresses: real samples have a few thousand bytes, too.
        let noise = (0..600_u64).map(|at| (at + sequence * 977).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40);
        sample.sources.job.reason = Some(noise.map(|number| format!("{number:x}")).collect::<String>().into());
        recorder.write(&sample).unwrap();
    }
    recorder.flush().unwrap();
    bytes
}

fn diagnose(folder: &Path, bytes: &[u8]) -> Output {
    let path = folder.join("damaged.tmz");
    fs::write(&path, bytes).unwrap();
    finish(trainmon(&["diagnose", "--replay", path.to_str().unwrap()]))
}

#[test]
fn a_damaged_recording_gives_one_line_and_a_verdict_of_what_is_whole() {
    let folder = tempfile::tempdir().unwrap();
    let whole = recording_of(12);
    let with_line = |line: &str| [&whole, &zstd::bulk::compress(line.as_bytes(), 3).unwrap()[..]].concat();
    let flipped = |at: usize| {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x10;
        bytes
    };
    let cases = [
        whole[..whole.len() - 20].to_vec(),
        flipped(whole.len() - 30),
        with_line("{\"sequence\": 1}\n"),
        with_line("no sample\n"),
        with_line(&format!("[{}]\n", "{},".repeat(2_000_000))),
    ];
    for bytes in cases {
        let output = diagnose(folder.path(), &bytes);
        let said = text(&output.stderr);
        assert_eq!((output.status.code(), said.lines().count()), (Some(0), 1), "{said}");
        assert!(said.contains(" after 1") && said.len() < 400, "how much was read: {said}");
        assert!(!output.stdout.is_empty());
    }
    // Nothing of it is whole.
    let header = recording_of(0).len();
    for length in [header + 1, header + 30] {
        let output = diagnose(folder.path(), &whole[..length]);
        let said = text(&output.stderr);
        assert_eq!((output.status.code(), said.lines().count()), (Some(1), 1), "{said}");
        assert!(said.contains("before its first sample") && output.stdout.is_empty(), "{said}");
    }
    let output = diagnose(folder.path(), &recording_of(0));
    assert!(text(&output.stderr).contains("no samples in it: it was stopped before the first"), "{output:?}");
}

/// The highest resident size of a command until its end, KiB.
fn peak_kib(command: Command) -> u64 {
    let script = "\"$@\" >/dev/null 2>&1 & while kill -0 $! 2>/dev/null; do \
                  sed -n 's/^VmHWM:[^0-9]*\\([0-9]*\\).*/\\1/p' /proc/$!/status 2>/dev/null; done | sort -n | tail -1";
    let mut shell = Command::new("bash");
    shell.args(["-c", script, "bash"]).arg(command.get_program()).args(command.get_args());
    let output = finish(shell);
    text(&output.stdout).trim().parse().unwrap_or_else(|_| panic!("no peak: {output:?}"))
}

#[test]
fn a_small_recording_takes_little_memory_whatever_it_unpacks_to() {
    let folder = tempfile::tempdir().unwrap();
    let sample = Sample { job: Some(Arc::new(JobSample::default())), ..Sample::default() };
    let sample = serde_json::to_string(&sample).unwrap().replace("\"gpus\":null,", "");
    let repeated = |one: &str, bytes: usize| vec![one; bytes / (one.len() + 1) - 1000].join(",");
    let many = |one: &str| repeated(one, 8 << 20);
    let device = r#"{"index":0,"lost":false,"utilization_points":[],"processes":[]}"#;
    let lines = [
        ("\"seen\":[", many("{}")),
        // No more than a single line may hold, and what is kept of each of them.
        ("\"seen\":[", repeated("{}", 8 << 18)),
        ("\"gpus\":{\"monotonic_ns\":1,\"simulated\":false,\"devices\":[", repeated(device, 2 << 20)),
        ("\"gaps_us\":[", many("0")),
        // Of the sampler: its list comes last.
        ("\"processes\":[", many("{}")),
        ("\"processes\":[", many("[]")),
        ("\"connections\":{\"channels\":[", many("{}")),
    ]
    .map(|(list, content)| match sample.rfind(list) {
        Some(at) => format!("{}{list}{content}{}", &sample[..at], &sample[at + list.len()..]),
        None if list.contains("channels") => {
            sample.replace("\"access\":{", &format!("{list}{content}]}},\"access\":{{"))
        }
        None => sample.replace("\"sources\":{", &format!("{list}{content}]}},\"sources\":{{")),
    });
    let header = serde_json::to_string(&Header { schema: SCHEMA, ..Header::default() }).unwrap();
    let packed = |line: &str| zstd::bulk::compress(format!("{line}\n").as_bytes(), 3).unwrap();
    let peak_of = |bytes: &[u8], what: &str| {
        let path = folder.path().join("bomb.tmz");
        fs::write(&path, bytes).unwrap();
        let peak = peak_kib(trainmon(&["diagnose", "--replay", path.to_str().unwrap()]));
        assert!((1000..100 << 10).contains(&peak), "{peak} KiB for {what}");
    };
    for line in &lines {
        assert!(line.len() > 1 << 20);
        // Again and again: what one line may not take, a thousand may not either.
        // The clock goes on, so that each of them is looked back on.
        let at = |second: u64| line.replacen("\"monotonic_ns\":0", &format!("\"monotonic_ns\":{second}000000000"), 1);
        let bytes = [vec![packed(&header)], (1..21).map(|second| packed(&at(second))).collect()].concat().concat();
        assert!(bytes.len() < 60_000, "{}", bytes.len());
        peak_of(&bytes, &line[line.len() - 1000..]);
    }
    // A frame that readers skip (RFC 8878, 3.1.2) makes the file long enough for a heavy line.
    let skipped = [&0x184D_2A50_u32.to_le_bytes()[..], &(4_u32 << 20).to_le_bytes(), &vec![0; 4 << 20]].concat();
    peak_of(&[packed(&header), skipped, packed(&lines[0])].concat(), "a heavy line in a long file");
}

#[test]
fn a_foreign_text_is_cut_in_errors() {
    let folder = tempfile::tempdir().unwrap();
    let (path, long) = (folder.path().join("c.toml"), "k".repeat(120_000));
    let target = Target::sleeping();
    let one_line = |command: Command, what: &str| {
        let output = finish(command);
        let said = text(&output.stderr);
        assert!(said.lines().count() == 1 && said.len() < 1200, "{what}: {} bytes: {said:.300}", said.len());
        assert!(!output.status.success(), "{what}: {said}");
        said
    };
    let key = "k".repeat(900 << 10);
    for (content, part) in [
        (format!("{key} = 1\n"), "line 1, column 1: unknown key `kkk"),
        (format!("page = \"{long}\"\n"), "is not one of overview"),
        (format!("interval = \"{long}\"\n"), "line 1, column 12: write a time"),
        (format!("theme = \"{long}\"\n"), "theme"),
    ] {
        fs::write(&path, content).unwrap();
        let file = path.to_str().unwrap();
        let said = one_line(trainmon(&["-c", file, "--log", "-", "-n", "1", "--pid", &target.pid()]), part);
        assert!(said.contains(part), "{said}");
    }
    for arguments in [
        &["--pid", &long][..],
        &[&long],
        &[&format!("--{long}")],
        &["--page", &long],
        &["-c", &long],
        &["diagnose", "--replay", &long],
        &["explain", &long],
        &["--log", &long, "--pid", &target.pid()],
    ] {
        one_line(trainmon(arguments), arguments[0]);
    }
}

#[test]
fn a_time_zone_that_never_ends_is_utc() {
    let (folder, target) = (tempfile::tempdir().unwrap(), Target::sleeping());
    fifo(&folder.path().join("pipe"));
    let pipe = folder.path().join("pipe").to_str().unwrap().to_owned();
    for (tz, folder) in [
        (":/dev/zero", None),
        ("/dev/zero", None),
        ("zero", Some("/dev")),
        (pipe.as_str(), None),
        ("pipe", Some(folder.path().to_str().unwrap())),
        ("/proc/kmsg", None),
    ] {
        let mut command = trainmon(&["--log", "-", "-i", "100ms", "-n", "2", "--pid", &target.pid()]);
        command.env("TZ", tz);
        folder.iter().for_each(|folder| {
            command.env("TZDIR", folder);
        });
        let output = finish(command);
        assert_eq!(output.status.code(), Some(0), "{tz}: {output:?}");
        assert!(rows(&output.stdout).iter().all(|row| row["timestamp"].ends_with("+00:00")), "{tz}");
    }
    let mut command = trainmon(&["--log", "-", "-i", "100ms", "-n", "1", "--pid", &target.pid()]);
    command.env("TZ", "XYZ-5:30");
    assert!(rows(&finish(command).stdout)[0]["timestamp"].ends_with("+05:30"));
}

#[test]
fn pipes_and_endless_files_under_another_proc_hold_nothing_up() {
    let target = Target::sleeping();
    let stat = fs::read_to_string(format!("/proc/{}/stat", target.pid())).unwrap();
    for hostile in ["pipe", "zero"] {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("77");
        fs::create_dir_all(folder.join("task/77")).unwrap();
        let stat = stat.replacen(&target.pid(), "77", 1);
        for place in [folder.join("stat"), folder.join("task/77/stat")] {
            fs::write(place, &stat).unwrap();
        }
        let put = |path: PathBuf| {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            if hostile == "pipe" { fifo(&path) } else { std::os::unix::fs::symlink("/dev/zero", path).unwrap() }
        };
        for name in [
            "cmdline",
            "environ",
            "status",
            "io",
            "maps",
            "cgroup",
            "mountinfo",
            "syscall",
            "wchan",
            "schedstat",
            "task/77/syscall",
            "task/77/wchan",
            "task/77/schedstat",
            "task/77/children",
            "task/77/comm",
            "limits",
            "statm",
        ] {
            put(folder.join(name));
        }
        for name in [
            "meminfo",
            "vmstat",
            "loadavg",
            "uptime",
            "diskstats",
            "locks",
            "net/dev",
            "net/tcp",
            "pressure/cpu",
            "pressure/io",
            "sys/kernel/yama/ptrace_scope",
            "sys/kernel/osrelease",
            "self/mountinfo",
            "self/cgroup",
            "mounts",
        ] {
            put(root.path().join(name));
        }
        let proc_root = root.path().to_str().unwrap();
        for arguments in [
            &["--log", "-", "-i", "100ms", "-n", "3", "--pid", "77", "--proc-root", proc_root][..],
            &["diagnose", "-i", "100ms", "-n", "3", "--pid", "77", "--proc-root", proc_root],
            &["doctor", "--pid", "77", "--proc-root", proc_root],
            &["diagnose", "--proc-root", proc_root, "-n", "2"],
        ] {
            let output = finish(trainmon(arguments));
            assert!(output.status.code().is_some(), "{hostile}, {arguments:?}: {output:?}");
            assert!(text(&output.stderr).lines().count() <= 1, "{hostile}, {arguments:?}");
            assert!(output.stdout.len() < 50_000, "{hostile}, {arguments:?}: {}", output.stdout.len());
        }
    }
}

#[test]
fn kill_9_costs_no_row_and_no_more_than_a_frame() {
    for ms in [0, 130, 310, 470, 690] {
        let log = Writer::log();
        let recording = Writer::recording();
        log.wait_for_more();
        recording.wait_for_more();
        pause(ms);
        for writer in [&log, &recording] {
            signal(writer.child.id(), Signal::KILL);
        }
        let (path, old) = (log.path.clone(), fs::read(&log.path));
        wait_for(log.child);
        let old = old.unwrap();
        let target = Target::sleeping();
        let arguments =
            ["--append", "-i", "100ms", "-n", "1", "--log", path.to_str().unwrap(), "--pid", &target.pid()];
        let output = finish(trainmon(&arguments));
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        let whole = old.iter().rposition(|&b| b == b'\n').map_or(0, |at| at + 1);
        let after = fs::read(&path).unwrap();
        assert!(after.starts_with(&old[..whole]));
        rows(&after);

        wait_for(recording.child);
        let mut read = Recording::open(&recording.path).unwrap();
        let sequences: Vec<u64> = read.by_ref().map(|sample| sample.unwrap().sequence).collect();
        assert!(sequences.len() >= 5 && sequences.iter().copied().eq(0..sequences.len() as u64), "{sequences:?}");
    }
}
