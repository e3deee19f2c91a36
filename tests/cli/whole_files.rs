//! Files that are written as a whole: on a full disk, in folders that may not be written, through links and into pipes, and when a
//! signal comes. What was there stays, and nothing is left of what was not finished.

use std::fs;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use rustix::process::Signal;
use trainmon::outputs::recording::Recorder;
use trainmon::sample::Sample;
use trainmon::sample::recording::{Header, SCHEMA};

use crate::outcome::{assert_one_line, finish, refused, wait_for};
use crate::process::{PROGRAM, pause, recording, signal, text, trainmon, until, with_environment};

/// A command for each kind of whole file, and the name of that.
fn commands() -> Vec<(Vec<String>, &'static str)> {
    let (run, other) = (recording("balanced.tmz"), recording("too-few-workers.tmz"));
    let log = format!("{}/tests/fixtures/import/nvidia-smi.csv", env!("CARGO_MANIFEST_DIR"));
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    vec![
        (words(&["report", &run]), "keep.html"),
        (words(&["report", &run]), "keep.md"),
        (words(&["compare", &run, &other]), "keep.html"),
        (words(&["compare", &run, &other]), "keep.json"),
        (words(&["trace", &run]), "keep.pftrace"),
        (words(&["trace", &run]), "keep.pftrace.gz"),
        (words(&["import", &log]), "keep.tmz"),
    ]
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Runs a script in mount and user namespaces of its own; `None` where the kernel gives none.
fn in_namespaces(script: &str, arguments: &[&str]) -> Option<Output> {
    let possible = Command::new("unshare").args(["-rm", "true"]).stderr(Stdio::null()).status();
    if !possible.is_ok_and(|status| status.success()) {
        println!("not checked: no file system can be mounted here");
        return None;
    }
    let mut command = with_environment(Command::new("unshare"), &["-rm", "sh", "-ec", script, "sh"]);
    command.args(arguments);
    Some(finish(command))
}

#[test]
fn a_full_disk_leaves_the_old_file_and_nothing_of_a_new_one() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path().to_str().unwrap();
    for (words, name) in commands() {
        for old in [true, false] {
            // The second of two pages is the old file's, or full as well.
            let script = r#"
                mount -t tmpfs -o size=8k none "$1"; cd "$1"; name=$2; old=$3; program=$4; shift 4
                if [ "$old" = true ]; then printf mine > "$name"; fi
                cat /dev/zero > filler 2>/dev/null || true
                if "$program" "$@" -o "$name" --force; then exit 9; else status=$?; fi
                echo "$status: $(ls -A | tr '\n' ' '): $(cat "$name" 2>/dev/null)""#;
            let arguments: Vec<&str> = words.iter().map(String::as_str).collect();
            let old_word = if old { "true" } else { "false" };
            let Some(output) = in_namespaces(script, &[&[place, name, old_word, PROGRAM], &arguments[..]].concat())
            else {
                return;
            };
            let left = if old { format!("1: filler {name} : mine\n") } else { "1: filler : \n".to_owned() };
            assert_eq!(text(&output.stdout), left, "{words:?}: {}", text(&output.stderr));
            let end = if old { format!("; {name} is as it was\n") } else { "; nothing of it is left\n".to_owned() };
            assert_one_line(&output, 0, &[name, "the disk is full", "free some space", &end]);
        }
    }
}

/// The same by a limit of the file's size, which needs no rights: an error of the write, too.
#[test]
fn a_limit_leaves_the_old_file_and_nothing_of_a_new_one() {
    for (words, name) in commands() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        let limited = || {
            let mut command =
                with_environment(Command::new("bash"), &["-c", "ulimit -f 1; exec \"$0\" \"$@\"", PROGRAM]);
            command.args(&words).args(["--force", "-o"]).arg(&path);
            command
        };
        refused(limited(), 1, &["the file-size limit is reached", "ulimit -f", "; nothing of it is left"]);
        assert_eq!(names(folder.path()), [""; 0], "{words:?}");
        fs::write(&path, "mine").unwrap();
        let end = format!("; {} is as it was", path.display());
        refused(limited(), 1, &["the file-size limit is reached", &end]);
        assert_eq!(
            (names(folder.path()), fs::read_to_string(&path).unwrap()),
            (vec![name.to_owned()], "mine".into())
        );
    }
}

#[test]
fn appended_rows_say_that_the_earlier_ones_are_intact() {
    let target = crate::process::Target::sleeping();
    let folder = tempfile::tempdir().unwrap();
    for (words, name, kept) in [
        (&["-i", "100ms", "--log"][..], "run.csv", "earlier rows are intact"),
        (&["record", "-i", "100ms", "-o"], "run.tmz", "earlier samples are intact"),
    ] {
        let path = folder.path().join(name);
        let mut command = with_environment(Command::new("bash"), &["-c", "ulimit -f 3; exec \"$0\" \"$@\"", PROGRAM]);
        command.args(words).arg(&path).args(["--no-stacks", "--pid", &target.pid()]);
        let output = finish(command);
        assert_one_line(&output, 1, &["the file-size limit is reached", kept]);
        assert!(fs::metadata(&path).unwrap().len() > 1024, "what was written stays: {name}");
    }
}

#[test]
fn a_file_keeps_its_mode_and_its_links() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("deep")).unwrap();
    let (real, link) = (folder.path().join("deep/real.html"), folder.path().join("link.html"));
    let run = recording("balanced.tmz");
    let report =
        |path: &Path, more: &[&str]| trainmon(&[&["report", &run, "-o", path.to_str().unwrap()], more].concat());
    let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
    assert!(finish(report(&real, &[])).status.success());
    assert_eq!(mode(&real), 0o600, "only its owner may read it");
    fs::set_permissions(&real, fs::Permissions::from_mode(0o644)).unwrap();
    symlink("deep/real.html", &link).unwrap();
    refused(report(&link, &[]), 1, &["the file exists", "--force"]);
    fs::write(&real, "old").unwrap();
    assert!(finish(report(&link, &["--force"])).status.success());
    assert_eq!(fs::read_link(&link).unwrap(), Path::new("deep/real.html"));
    let page = fs::read_to_string(&real).unwrap();
    assert!(page.starts_with("<!") && page.trim_end().ends_with("</html>"), "{}", page.len());
    assert_eq!((mode(&real), names(&folder.path().join("deep"))), (0o644, vec!["real.html".to_owned()]));
    // A link to nothing yet is refused unless forced, and then leads to the new file.
    fs::remove_file(&real).unwrap();
    refused(report(&link, &[]), 1, &["the file exists", "--force"]);
    assert!(finish(report(&link, &["--force"])).status.success());
    assert_eq!((fs::read_to_string(&real).unwrap().len(), mode(&real)), (page.len(), 0o600));
}

#[test]
fn pipes_and_descriptors_get_what_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let run = recording("balanced.tmz");
    let whole = finish(trainmon(&["trace", &run, "-o", "-"])).stdout;
    assert!(whole.len() > 10_000);
    // A named pipe.
    let pipe = folder.path().join("pipe");
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    // Held open, so that there is a reader from the start and no end before all is written.
    let held = fs::File::options().read(true).write(true).open(&pipe).unwrap();
    let reader = std::thread::spawn({
        let pipe = pipe.clone();
        move || fs::read(pipe).unwrap()
    });
    let output = finish(trainmon(&["trace", &run, "-o", pipe.to_str().unwrap()]));
    assert!(output.status.success(), "{output:?}");
    drop(held);
    assert!(reader.join().unwrap() == whole);
    // Standard output by its name: a pipe, and a file behind what is in it.
    let output = finish(trainmon(&["trace", &run, "-o", "/dev/stdout"]));
    assert!(output.status.success() && output.stdout == whole, "{output:?}");
    let file = folder.path().join("all");
    let script = "{ echo before; \"$0\" trace \"$1\" -o /dev/stdout; echo after; } > \"$2\"";
    let output = finish(with_environment(Command::new("sh"), &["-c", script, PROGRAM, &run, file.to_str().unwrap()]));
    assert!(output.status.success(), "{output:?}");
    let all = fs::read(&file).unwrap();
    assert!(
        all.starts_with(b"before\n") && all.ends_with(b"after\n") && all.len() == whole.len() + 13,
        "{}",
        all.len()
    );
    let full = finish(trainmon(&["trace", &run, "-o", "/dev/full"]));
    assert_one_line(&full, 1, &["/dev/full", "the disk is full"]);
    assert!(!text(&full.stderr).contains("as it was"), "{full:?}");
}

#[test]
fn a_folder_that_may_not_be_written_is_one_line() {
    let place = tempfile::tempdir().unwrap();
    // The file may be written, but its folder is mounted read-only.
    let script = r#"
        mount -t tmpfs none "$1"; cd "$1"; printf mine > keep.html
        mount --bind keep.html keep.html; mount -o remount,bind,ro "$1"; cd "$1"
        if "$2" report "$3" -o keep.html --force; then exit 9; fi
        ls -A; cat keep.html"#;
    let run = recording("balanced.tmz");
    if let Some(output) = in_namespaces(script, &[place.path().to_str().unwrap(), PROGRAM, &run]) {
        assert_eq!(text(&output.stdout), "keep.html\nmine");
        assert_one_line(&output, 0, &["cannot create a file in its folder", "read-only", "another folder"]);
    }
    // A file that is a mount of its own cannot be replaced.
    let script = r#"
        mount -t tmpfs none "$1"; cd "$1"; printf mine > keep.html; mount --bind keep.html keep.html
        if "$2" report "$3" -o keep.html --force; then exit 9; fi
        ls -A; cat keep.html"#;
    if let Some(output) = in_namespaces(script, &[place.path().to_str().unwrap(), PROGRAM, &run]) {
        assert_eq!(text(&output.stdout), "keep.html\nmine");
        assert_one_line(&output, 0, &["is a mount point", "name another file"]);
    }
    refused(trainmon(&["report", &run, "-o", "/nonexistent/a.html"]), 1, &["no such folder", "create it first"]);
}

#[test]
fn a_file_that_another_trainmon_writes_is_not_replaced() {
    let (target, folder) = (crate::process::Target::sleeping(), tempfile::tempdir().unwrap());
    let path = folder.path().join("run.tmz");
    let name = path.to_str().unwrap();
    let mut recorder = trainmon(&["record", "-i", "100ms", "-o", name, "--no-stacks", "--pid", &target.pid()]);
    let recorder = recorder.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    until("it records", || fs::metadata(&path).is_ok_and(|file| file.len() > 0));
    let log = format!("{}/tests/fixtures/import/nvidia-smi.csv", env!("CARGO_MANIFEST_DIR"));
    refused(trainmon(&["import", &log, "--force", "-o", name]), 1, &["another trainmon is writing to it"]);
    signal(recorder.id(), Signal::TERM);
    let output = wait_for(recorder);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(names(folder.path()), ["run.tmz"]);
}

/// A recording whose trace takes a while.
fn long_recording(path: &Path) {
    let mut recorder =
        Recorder::new(fs::File::create(path).unwrap(), &Header { schema: SCHEMA, pid: 7, ..Header::default() })
            .unwrap();
    for sequence in 0..4000 {
        recorder
            .write(&Sample { sequence, monotonic_ns: (sequence + 1) * 1_000_000_000, ..Sample::default() })
            .unwrap();
    }
    recorder.flush().unwrap();
}

#[test]
fn a_signal_leaves_the_old_file_and_nothing_of_the_new_one() {
    let place = tempfile::tempdir().unwrap();
    let run = place.path().join("run.tmz");
    long_recording(&run);
    for number in [Signal::INT, Signal::TERM, Signal::HUP] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.pftrace");
        fs::write(&path, "mine").unwrap();
        let mut command = trainmon(&["trace", run.to_str().unwrap(), "--force", "-o", path.to_str().unwrap()]);
        let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        until("it has begun", || names(folder.path()).len() > 1);
        signal(child.id(), number);
        let output = wait_for(child);
        assert_eq!(output.status.signal(), Some(number.as_raw()), "{output:?}");
        assert_eq!(names(folder.path()), ["run.pftrace"], "after {number:?}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "mine");
    }
}

#[test]
fn a_signal_that_is_ignored_does_not_end_it() {
    let folder = tempfile::tempdir().unwrap();
    let (run, path) = (folder.path().join("run.tmz"), folder.path().join("out/run.pftrace"));
    long_recording(&run);
    fs::create_dir(path.parent().unwrap()).unwrap();
    let mut command = with_environment(Command::new("sh"), &["-c", "trap '' HUP; exec \"$0\" \"$@\"", PROGRAM]);
    command.args(["trace", run.to_str().unwrap(), "-o", path.to_str().unwrap()]);
    let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    until("it has begun", || !names(path.parent().unwrap()).is_empty());
    signal(child.id(), Signal::HUP);
    pause(20);
    let output = wait_for(child);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(names(path.parent().unwrap()), ["run.pftrace"]);
    let mut begin = [0; 1];
    fs::File::open(&path).unwrap().read_exact(&mut begin).unwrap();
    assert_eq!(begin, [0x0a], "a packet with a clock snapshot");
}
