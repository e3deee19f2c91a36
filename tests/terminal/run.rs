//! `trainmon run` in a terminal: which signals reach the program, how often, and what is left of its output.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rustix::process::Signal;
use tempfile::TempDir;
use trainmon::tui::keys::Action;

use crate::process::{PROGRAM, helper, pause, until, words};
use crate::pty::{Conditions, Screen, key};

/// A program that writes down each signal that it gets, and ends with 9 once there is a file `done`.
struct Listener {
    folder: TempDir,
    arguments: Vec<String>,
}

impl Listener {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let arguments = words(&helper(&["listen", folder.path().to_str().unwrap()]));
        Self { folder, arguments }
    }

    /// Runs it under trainmon in a terminal, and waits until it listens.
    fn run(&self, more: &[&str]) -> Screen {
        self.run_by(&[PROGRAM], more)
    }

    /// The same by a command that starts trainmon.
    fn run_by(&self, starts: &[&str], more: &[&str]) -> Screen {
        let mut arguments = [&starts[1..], &["run", "-i", "200ms"]].concat();
        arguments.extend(more);
        arguments.push("--");
        arguments.extend(self.arguments.iter().map(String::as_str));
        let folder = self.folder.path().to_str().unwrap();
        let environment = [("TMPDIR", folder)];
        let given = Conditions { environment: &environment, ..Conditions::default() };
        let screen = Screen::start(starts[0], &arguments, &given);
        until("the program listens", || self.path("ready").exists());
        screen
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn heard(&self) -> String {
        fs::read_to_string(self.path("heard")).unwrap_or_default()
    }

    fn wait_to_hear(&self, lines: &str) {
        until(&format!("{lines:?} is heard"), || self.heard() == lines);
        // Once more would come at once.
        pause(500);
        assert_eq!(self.heard(), lines);
    }

    fn end(&self) {
        fs::write(self.path("done"), "").unwrap();
    }
}

#[test]
fn ctrl_c_reaches_a_logged_program_once_and_logging_goes_on() {
    let listener = Listener::new();
    let mut screen = listener.run(&["--log", "run.csv"]);
    let log = screen.folder.path().join("run.csv");
    let rows = || fs::read_to_string(&log).unwrap_or_default().lines().count();
    until("the first row", || rows() > 1);
    screen.send("\x03");
    listener.wait_to_hear("SIGINT\n");
    let before = rows();
    until("it goes on logging", || rows() > before + 1);
    // From a process it does not come to both.
    screen.kill(Signal::INT);
    listener.wait_to_hear("SIGINT\nSIGINT\n");
    listener.end();
    assert_eq!(screen.wait_for_end(), 9);
}

#[test]
fn as_process_1_ctrl_c_reaches_the_program_once() {
    let mut unshare = vec!["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"];
    if !rustix::process::geteuid().is_root() {
        unshare.extend(["--user", "--map-root-user"]);
    }
    let tried = std::process::Command::new(unshare[0]).args(&unshare[1..]).arg("true").output();
    if !tried.as_ref().is_ok_and(|output| output.status.success()) {
        return println!("skipped: no PID namespace of its own: {tried:?}");
    }
    let listener = Listener::new();
    let mut screen = listener.run_by(&[&unshare[..], &[PROGRAM]].concat(), &["--log", "run.csv"]);
    screen.send("\x03");
    listener.wait_to_hear("SIGINT\n");
    listener.end();
    assert_eq!(screen.wait_for_end(), 9);
    let listener = Listener::new();
    let mut screen = listener.run_by(&[&unshare[..], &[PROGRAM]].concat(), &[]);
    screen.wait_text("PID");
    screen.send("q");
    screen.wait_text("keeps running");
    screen.send("\x03");
    listener.wait_to_hear("SIGINT\n");
    listener.end();
    assert_eq!(screen.left().code, 9);
}

#[test]
fn on_the_screen_signals_go_on_to_the_program() {
    let listener = Listener::new();
    let mut screen = listener.run(&[]);
    screen.wait_text("PID");
    screen.kill(Signal::USR1);
    listener.wait_to_hear("SIGUSR1\n");
    screen.kill(Signal::USR2);
    listener.wait_to_hear("SIGUSR1\nSIGUSR2\n");
    screen.answers("SIGUSR1 and SIGUSR2");
    screen.kill(Signal::TERM);
    screen.wait_text("keeps running");
    listener.wait_to_hear("SIGUSR1\nSIGUSR2\nSIGTERM\n");
    listener.end();
    let left = screen.left();
    assert_eq!(left.code, 9);
    left.assert_restored();
}

#[test]
fn after_quitting_ctrl_c_is_forwarded_once() {
    let listener = Listener::new();
    let mut screen = listener.run(&[]);
    screen.wait_text("PID");
    screen.send("q");
    screen.wait_text("keeps running");
    screen.send("\x03");
    listener.wait_to_hear("SIGINT\n");
    screen.kill(Signal::HUP);
    listener.wait_to_hear("SIGINT\nSIGHUP\n");
    listener.end();
    assert_eq!(screen.left().code, 9);
}

#[test]
fn a_lost_terminal_is_told_to_the_program() {
    let listener = Listener::new();
    let mut screen = listener.run(&[]);
    screen.wait_text("PID");
    screen.hang_up();
    listener.wait_to_hear("SIGHUP\n");
    listener.end();
    assert_eq!(screen.wait_for_end(), 9);
}

#[test]
fn ctrl_z_on_the_screen_does_not_stop_the_program() {
    let listener = Listener::new();
    let mut screen = listener.run(&[]);
    screen.wait_text("PID");
    screen.send(&key(Action::Suspend));
    screen.answers("Ctrl-Z without a shell");
    screen.kill(Signal::USR1);
    listener.wait_to_hear("SIGUSR1\n");
    listener.end();
    screen.wait_text("ENDED");
    assert_eq!(screen.quit().code, 9);
}

/// The files of a program's output in this folder.
fn outputs(folder: &Path) -> Vec<PathBuf> {
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    files.filter(|path| path.extension().is_some_and(|extension| extension == "out")).collect()
}

/// Runs a script under the screen, with TMPDIR in `folder`, until it has ended.
fn ran(folder: &Path, script: &str) -> String {
    let environment = [("TMPDIR", folder.to_str().unwrap())];
    let given = Conditions { environment: &environment, size: (160, 40), ..Conditions::default() };
    let screen = Screen::start(PROGRAM, &["run", "--", "sh", "-c", script], &given);
    screen.wait_text("ENDED");
    let left = screen.quit();
    assert_eq!(left.code, 5, "{}", left.contents);
    left.contents
}

#[test]
fn the_screen_shows_what_the_program_wrote_last() {
    let folder = tempfile::tempdir().unwrap();
    let environment = [("TMPDIR", folder.path().to_str().unwrap())];
    let given = Conditions { environment: &environment, size: (160, 40), ..Conditions::default() };
    let script = "for n in 1 2 3; do echo step $n; done; printf '\\r 10%%\\r 50%%'; sleep 60";
    let mut screen = Screen::start(PROGRAM, &["run", "-i", "200ms", "sh", "-c", script], &given);
    screen.wait_text("O output ·  50%");
    screen.send("O");
    screen.wait_text("Output of the program");
    screen.wait_text("step 2");
    screen.send("q");
    screen.wait_text("keeps running");
    screen.send("\x03");
    assert_eq!(screen.left().code, 130);
}

#[test]
fn redirected_errors_of_the_program_go_where_they_were_sent() {
    let folder = tempfile::tempdir().unwrap();
    let environment = [("TMPDIR", folder.path().to_str().unwrap())];
    let given = Conditions { environment: &environment, ..Conditions::default() };
    let file = folder.path().join("errors");
    let script = format!("{PROGRAM} run -- sh -c 'sleep 1; echo a warning >&2; exit 5' 2>{}", file.display());
    let screen = Screen::start("bash", &["-c", &script], &given);
    screen.wait_text("ENDED");
    assert_eq!(screen.quit().code, 5);
    assert!(fs::read_to_string(file).unwrap().contains("a warning"));
    assert!(outputs(folder.path()).is_empty());
}

#[test]
fn the_programs_output_is_private_and_kept_only_if_there_is_some() {
    let folder = tempfile::tempdir().unwrap();
    ran(folder.path(), "sleep 1; exit 5");
    assert!(outputs(folder.path()).is_empty(), "nothing was printed");
    let contents = ran(folder.path(), "echo first; sleep 1; echo last >&2; exit 5");
    let kept = outputs(folder.path());
    assert_eq!(kept.len(), 1, "{kept:?}");
    assert_eq!(fs::metadata(&kept[0]).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(fs::read_to_string(&kept[0]).unwrap(), "first\nlast\n");
    assert!(contents.contains(kept[0].to_str().unwrap()), "{contents}");
    assert!(contents.contains("first\nlast"), "{contents}");
}
