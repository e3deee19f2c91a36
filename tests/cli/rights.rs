//! What trainmon executes, loads, reads and writes where it has more rights than the users around it: as root, as under sudo,
//! and as a file that is setuid. All of it needs root, and is left out with a word where the tests are run by another user.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::outcome::not_seen;
use crate::process::{PROGRAM, Target, fake_py_spy, rows, text, trainmon, with_environment};

/// The other user of these tests, who has nothing.
const OTHER: u32 = 65534;

/// A folder that everyone may enter; `None` for ordinary users, who cannot give files away.
fn stage() -> Option<tempfile::TempDir> {
    if !rustix::process::geteuid().is_root() {
        eprintln!("left out: only root can act for two users");
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    mode(folder.path(), 0o755);
    Some(folder)
}

fn mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

/// Gives a file or folder to the other user.
fn give(path: &Path) {
    chown(path, Some(OTHER), Some(OTHER)).unwrap();
}

/// A folder in another one.
fn folder(place: &Path, name: &str) -> PathBuf {
    let folder = place.join(name);
    fs::create_dir_all(&folder).unwrap();
    folder
}

fn copy(file: &Path, to: &Path) {
    assert!(Command::new("cp").arg(file).arg(to).status().unwrap().success());
}

fn error_line(output: &Output) -> String {
    let line = text(&output.stderr);
    assert_eq!(line.lines().count(), 1, "{line}");
    line.trim_end().to_owned()
}

/// How doctor finds py-spy for a process: in which state, in words, and how to fix it.
fn py_spy_of(command: &mut Command) -> (String, String, Option<String>) {
    let output = command.output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", text(&output.stderr)));
    let finding = report["findings"].as_array().unwrap().iter().find(|finding| finding["what"] == "py-spy").unwrap();
    let word = |name: &str| finding[name].as_str().map(str::to_owned);
    (word("state").unwrap(), word("detail").unwrap(), word("fix"))
}

/// A sleeping process of the other user, whose environment names a virtual environment.
fn job_in(environment: &Path) -> Target {
    let mut command = Command::new("sleep");
    Target::spawn(command.arg("600").env("VIRTUAL_ENV", environment).uid(OTHER).gid(OTHER))
}

#[test]
fn root_never_runs_a_py_spy_that_another_user_planted() {
    let Some(stage) = stage() else { return };
    let environment = folder(stage.path(), "venv");
    let planted = fake_py_spy(&folder(&environment, "bin"));
    let marks = || planted.with_file_name("pid");
    for path in [&environment, &environment.join("bin"), &planted] {
        give(path);
    }
    let job = job_in(&environment);
    let doctor = || py_spy_of(&mut trainmon(&["doctor", "--json", "--pid", &job.pid()]));
    let install = "python3 -m venv /opt/py-spy && /opt/py-spy/bin/pip install py-spy && \
                   ln -sf /opt/py-spy/bin/py-spy /usr/local/bin/";
    let refused = |path: &Path| {
        let (state, detail, fix) = doctor();
        assert_eq!(state, "absent");
        assert_eq!(
            detail,
            format!("{} belongs to user 65534, not to root, so py-spy is not run as root", path.display())
        );
        assert_eq!(fix.as_deref(), Some(install));
    };
    refused(&environment);
    // A harmless program of root's behind a link that its user can change at any time.
    let good = fake_py_spy(&folder(stage.path(), "good"));
    fs::remove_file(&planted).unwrap();
    symlink(&good, &planted).unwrap();
    refused(&environment);
    // The real program, with a window.
    let mut command =
        trainmon(&["diagnose", "--json", "--pid", &job.pid(), "--duration", "2s", "--interval", "500ms"]);
    let verdict: Value = serde_json::from_slice(&command.output().unwrap().stdout).unwrap();
    assert_eq!(verdict["seen"]["stacks"], "absent");
    // Root's own folder, but the group may write to it.
    for path in [&environment, &environment.join("bin")] {
        chown(path, Some(0), Some(OTHER)).unwrap();
    }
    mode(&environment.join("bin"), 0o775);
    std::os::unix::fs::lchown(&planted, Some(0), Some(0)).unwrap();
    let (_, detail, fix) = doctor();
    assert!(detail.contains("bin can be written by its group (mode 0775)"), "{detail}");
    assert_eq!(fix.unwrap(), format!("chmod g-w {}", environment.join("bin").display()));
    mode(&environment.join("bin"), 0o755);
    let (state, detail, _) = doctor();
    assert_eq!((state.as_str(), detail), ("ok", format!("{}, version 0.4.3", planted.display())));
    // A script could be read once more, and another one by then.
    fs::remove_file(&planted).unwrap();
    fs::write(&planted, "#!/bin/sh\necho py-spy 0.4.3\n").unwrap();
    mode(&planted, 0o755);
    let (_, detail, fix) = doctor();
    assert!(detail.ends_with("is a script, but root runs only a binary"), "{detail}");
    assert_eq!(fix.as_deref(), Some(install));
    assert!(!marks().exists());
}

#[test]
fn a_refused_py_spy_does_not_hide_a_good_one() {
    let Some(stage) = stage() else { return };
    let theirs = folder(stage.path(), "theirs");
    give(&fake_py_spy(&theirs));
    let good = fake_py_spy(&folder(stage.path(), "good"));
    let path = format!("{}:{}", theirs.display(), good.parent().unwrap().display());
    let job = job_in(&theirs);
    let mut command = trainmon(&["doctor", "--json", "--pid", &job.pid()]);
    let (state, detail, _) = py_spy_of(command.env("PATH", path));
    assert_eq!((state.as_str(), detail), ("ok", format!("{}, version 0.4.3", good.display())));
}

#[test]
fn the_owner_of_trainmon_is_trusted_with_the_py_spy_beside_it() {
    let Some(stage) = stage() else { return };
    let bin = folder(stage.path(), "venv/bin");
    let own = bin.join("trainmon");
    copy(Path::new(PROGRAM), &own);
    let beside = fake_py_spy(&bin);
    fs::write(bin.join("../pyvenv.cfg"), "").unwrap();
    copy(Path::new("/bin/true"), &bin.join("python"));
    fs::write(bin.join("pip"), "").unwrap();
    for path in [&bin.join(".."), &bin, &own, &beside, &bin.join("python")] {
        give(path);
    }
    let job = job_in(Path::new("/nonexistent"));
    let doctor = || {
        let arguments = ["doctor", "--json", "--pid", &job.pid()];
        py_spy_of(&mut with_environment(Command::new(&own), &arguments))
    };
    let (state, detail, _) = doctor();
    assert_eq!((state.as_str(), detail), ("ok", format!("{}, version 0.4.3", beside.display())));
    mode(&beside, 0o775);
    let (_, detail, fix) = doctor();
    assert!(detail.contains("its group (mode 0775)"), "{detail}");
    assert_eq!(fix.unwrap(), format!("chmod g-w {}", beside.display()));
    fs::remove_file(&beside).unwrap();
    let (_, detail, fix) = doctor();
    assert_eq!(detail, "py-spy is not installed");
    assert_eq!(fix.unwrap(), format!("{} -m pip install py-spy", bin.join("python").display()));
}

#[test]
fn root_takes_no_settings_from_another_users_home() {
    let Some(stage) = stage() else { return };
    let home = folder(stage.path(), "home");
    let config = folder(&home, ".config/trainmon").join("config.toml");
    fs::write(&config, "interval = \"7s\"\n").unwrap();
    let printed = |command: &mut Command| {
        let output = command.env("HOME", &home).output().unwrap();
        (text(&output.stdout).contains("interval = \"7s\""), text(&output.stderr), output.status.code())
    };
    assert_eq!(printed(&mut trainmon(&["--print-config"])), (true, String::new(), Some(0)));
    give(&home);
    let why = format!("{} belongs to user 65534, not to root", home.display());
    let (applied, said, status) = printed(&mut trainmon(&["--print-config"]));
    assert_eq!((applied, status), (false, Some(0)));
    assert_eq!(said, format!("trainmon: ignoring the configuration {}: {why}\n", config.display()));
    // Where there is none, there is nothing to tell.
    let elsewhere = config.with_file_name("elsewhere.toml");
    fs::rename(&config, &elsewhere).unwrap();
    assert_eq!(printed(&mut trainmon(&["--print-config"])), (false, String::new(), Some(0)));
    fs::rename(&elsewhere, &config).unwrap();
    // What is asked for by name is refused, with a way to have it.
    let (_, said, status) = printed(&mut trainmon(&["--print-config", "-c", config.to_str().unwrap()]));
    let fix = format!("install -m 644 {} /etc/ makes a copy that root trusts", config.display());
    assert_eq!(said, format!("trainmon: cannot read {}: {why}; {fix}\n", config.display()));
    assert_eq!(status, Some(2));
    // Its messages go nowhere where links of theirs could lead them.
    symlink("/nonexistent", home.join(".local")).unwrap();
    let output = trainmon(&["explain"]).env("HOME", &home).env("RUST_LOG", "info").output().unwrap();
    assert!(
        text(&output.stderr)
            .contains(&format!("cannot log messages: {why}; choose another file with --log-file FILE")),
        "{output:?}"
    );
    assert!(output.status.success());
}

#[test]
fn the_layout_is_not_stored_in_another_users_home() {
    use trainmon::config::layout_store;
    let Some(stage) = stage() else { return };
    let state = folder(stage.path(), "state");
    let file = state.join("trainmon/layout.toml");
    let layout = trainmon::tui::Layout { tree: Some(true), ..Default::default() };
    give(&state);
    layout_store::write(&file, &layout);
    assert!(!state.join("trainmon").exists());
    chown(&state, Some(0), Some(0)).unwrap();
    layout_store::write(&file, &layout);
    assert_eq!(layout_store::read(&file), layout);
    give(&file);
    assert_eq!(layout_store::read(&file), Default::default());
}

#[test]
fn source_lines_are_read_only_where_the_jobs_user_may_read_them() {
    let Some(stage) = stage() else { return };
    let job = job_in(Path::new("/nonexistent"));
    let (code, place) = (stage.path().join("secret.py"), folder(stage.path(), "document"));
    fs::write(&code, "a_line_of_root()\n").unwrap();
    let (pid, py_spy) = (job.pid(), fake_py_spy(&place));
    fs::write(place.join("document"), format!("thread ({pid}): MainThread;main ({}:1) 40\n", code.display()))
        .unwrap();
    let recorded = || {
        let recording = stage.path().join("a.rec");
        let path = recording.to_str().unwrap();
        let arguments = ["record", "--pid", &pid, "-o", path, "--force", "--duration", "3s", "--interval", "500ms"];
        let output = trainmon(&arguments).arg("--py-spy").arg(&py_spy).output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        let samples = zstd::stream::decode_all(fs::File::open(&recording).unwrap()).unwrap();
        let samples = String::from_utf8(samples).unwrap();
        assert!(samples.contains("secret.py"), "there is a window");
        samples.contains("a_line_of_root")
    };
    mode(&code, 0o600);
    assert!(!recorded());
    mode(&code, 0o644);
    assert!(recorded());
}

/// trainmon as a file that is setuid root, called by the other user. `None` where the file system knows no setuid.
struct Setuid(tempfile::TempDir);

impl Setuid {
    fn new() -> Option<Self> {
        let stage = stage()?;
        let knows = rustix::fs::statvfs(stage.path()).unwrap();
        if knows.f_flag.contains(rustix::fs::StatVfsMountFlags::NOSUID) {
            eprintln!("left out: {} is mounted nosuid", stage.path().display());
            return None;
        }
        copy(Path::new(PROGRAM), &stage.path().join("trainmon"));
        mode(&stage.path().join("trainmon"), 0o4755);
        Some(Self(stage))
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// The file has capabilities instead: to pass by modes and to look at every process (capabilities(7)).
    fn capable() -> Option<Self> {
        let setuid = Self::new()?;
        mode(&setuid.at("trainmon"), 0o755);
        // `struct vfs_cap_data` of linux/capability.h: version 2 and the effective bit, permitted, inheritable.
        let permitted = 1_u32 << 1 | 1 << 2 | 1 << 19; // CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH, CAP_SYS_PTRACE
        let words = [0x0200_0001, permitted, 0, 0, 0].map(u32::to_le_bytes);
        let flags = rustix::fs::XattrFlags::empty();
        rustix::fs::setxattr(setuid.at("trainmon"), "security.capability", &words.concat(), flags).ok()?;
        Some(setuid)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = with_environment(Command::new(self.at("trainmon")), arguments);
        command.uid(OTHER).gid(OTHER).current_dir("/").stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }
}

#[test]
fn setuid_nothing_that_the_caller_names_is_loaded() {
    let Some(setuid) = Setuid::new() else { return };
    let config = setuid.at("c.toml");
    fs::write(&config, "interval = \"7s\"\n").unwrap();
    for (option, value) in [
        ("--nvml-lib", "/tmp/evil.so"),
        ("--py-spy", "/bin/sh"),
        ("--proc-root", "/tmp"),
        ("--sys-root", "/tmp"),
        ("--config", config.to_str().unwrap()),
    ] {
        let output = setuid.command(&["doctor", option, value]).output().unwrap();
        let line = error_line(&output);
        assert!(line.starts_with(&format!("trainmon: {option} is refused: this trainmon is setuid")), "{line}");
        assert_eq!(output.status.code(), Some(2));
    }
    let home = folder(setuid.0.path(), "home");
    let config = folder(&home, ".config/trainmon").join("config.toml");
    fs::write(&config, "nvml-lib = \"/tmp/evil.so\"\n").unwrap();
    give(&config);
    let output = setuid.command(&["--print-config"]).env("HOME", &home).output().unwrap();
    assert!(!text(&output.stdout).contains("evil"), "{output:?}");
    assert!(error_line(&output).ends_with("config.toml belongs to user 65534, not to root"));
}

#[test]
fn setuid_files_are_opened_with_the_callers_rights() {
    for setuid in [Setuid::new(), Setuid::capable()].into_iter().flatten() {
        files_are_opened_with_the_callers_rights(&setuid);
    }
}

fn files_are_opened_with_the_callers_rights(setuid: &Setuid) {
    let job = Target::sleeping();
    let pid = job.pid();
    let log = |path: &Path, more: &[&str]| {
        let path = path.to_str().unwrap();
        let arguments = ["--pid", &pid, "--no-stacks", "--log", path, "--interval", "100ms", "-n", "1"];
        setuid.command(&[&arguments[..], more].concat()).output().unwrap()
    };
    let record = |path: &Path| {
        let path = path.to_str().unwrap();
        setuid
            .command(&["record", "--pid", &pid, "-o", path, "--interval", "100ms", "-n", "1", "--force"])
            .output()
            .unwrap()
    };
    // Root's folder, and root's file in a folder where everyone may write.
    let (roots, everyones) = (folder(setuid.0.path(), "roots"), folder(setuid.0.path(), "everyones"));
    mode(&everyones, 0o777);
    let secret = everyones.join("secret");
    fs::write(&secret, "secret\n").unwrap();
    mode(&secret, 0o600);
    for output in [
        log(&roots.join("a.csv"), &[]),
        log(&secret, &["--force"]),
        record(&roots.join("a.rec")),
        record(&secret),
        setuid.command(&["--log-file", secret.to_str().unwrap(), "explain"]).output().unwrap(),
        setuid.command(&["diagnose", "--replay", secret.to_str().unwrap()]).output().unwrap(),
    ] {
        let line = error_line(&output);
        assert!(line.contains("ermission"), "{line}");
        assert!(!output.status.success());
    }
    assert_eq!(fs::read_to_string(&secret).unwrap(), "secret\n");
    assert_eq!(fs::read_dir(&roots).unwrap().count(), 0);
    // Their own files are theirs.
    for (path, output) in [
        (everyones.join("a.csv"), log(&everyones.join("a.csv"), &[])),
        (everyones.join("a.rec"), record(&everyones.join("a.rec"))),
    ] {
        assert!(output.status.success(), "{}", text(&output.stderr));
        assert_eq!(fs::metadata(&path).unwrap().uid(), OTHER);
    }
}

#[test]
fn setuid_programs_run_with_the_callers_rights() {
    let Some(setuid) = Setuid::new() else { return };
    // No shell: it would lay these rights down by itself.
    let (place, mark) = (folder(setuid.0.path(), "everyones"), setuid.at("everyones/mark"));
    mode(&place, 0o777);
    let arguments = ["run", "--no-stacks", "--log", "-", "--", "touch", mark.to_str().unwrap()];
    let output = setuid.command(&arguments).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(fs::metadata(&mark).unwrap().uid(), OTHER);
    // py-spy, too: the supervisor is this setuid file once more, which anybody can start with any request.
    let bin = folder(setuid.0.path(), "whoami");
    fake_py_spy(&bin);
    fs::rename(setuid.at("trainmon"), bin.join("trainmon")).unwrap();
    let job = job_in(Path::new("/nonexistent"));
    let arguments = ["diagnose", "--json", "--pid", &job.pid(), "--duration", "2s", "--interval", "500ms"];
    let mut command = with_environment(Command::new(bin.join("trainmon")), &arguments);
    let output = command.uid(OTHER).gid(OTHER).output().unwrap();
    let verdict: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", text(&output.stderr)));
    let why = not_seen(&verdict, "stacks")["why"].as_str().unwrap();
    assert!(why.ends_with("user 65534, real user 65534, HOME unset"), "{why}");
}

#[test]
fn setuid_lets_proc_be_read_all_the_same() {
    for setuid in [Setuid::new(), Setuid::capable()].into_iter().flatten() {
        lets_proc_be_read(&setuid);
    }
}

fn lets_proc_be_read(setuid: &Setuid) {
    let job = Target::busy();
    let log = |mut command: Command| {
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        rows(&output.stdout).last().unwrap()["job_read_mib_s"].clone()
    };
    let arguments = ["--pid", &job.pid(), "--no-stacks", "--log", "-", "--interval", "300ms", "-n", "2"];
    assert_ne!(log(setuid.command(&arguments)), "", "/proc/PID/io of another user's process");
    copy(Path::new(PROGRAM), &setuid.at("plain"));
    fs::rename(setuid.at("plain"), setuid.at("trainmon")).unwrap();
    assert_eq!(log(setuid.command(&arguments)), "", "an ordinary user may not read it");
}
