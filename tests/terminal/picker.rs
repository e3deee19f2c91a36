//! `trainmon` without a PID in a real pseudo-terminal: the first screen, what cannot be attached to, and leaving.

use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use portable_pty::{Child, CommandBuilder, MasterPty, PtySize, native_pty_system};
use rustix::termios::{Termios, tcgetattr};
use trainmon::sources::simulated_device::{DeviceState, SimulatedGpu};

const SIZE: (u16, u16) = (80, 24);

/// A trainmon in a terminal of its own.
struct InTerminal {
    child: Box<dyn Child + Send + Sync>,
    keys: Box<dyn Write + Send>,
    screen: Arc<Mutex<vt100::Parser>>,
    tty: File,
    before: Termios,
    _master: Box<dyn MasterPty + Send>,
}

impl InTerminal {
    fn start(term: &str, arguments: &[&str]) -> Self {
        Self::start_with(term, arguments, &[])
    }

    fn start_with(term: &str, arguments: &[&str], environment: &[(&str, &str)]) -> Self {
        let size = PtySize { rows: SIZE.1, cols: SIZE.0, ..PtySize::default() };
        let pty = native_pty_system().openpty(size).unwrap();
        let tty = File::open(pty.master.tty_name().unwrap()).unwrap();
        let before = tcgetattr(&tty).unwrap();
        let mut command = CommandBuilder::new(env!("CARGO_BIN_EXE_trainmon"));
        command.args(arguments);
        command.env("TERM", term);
        command.env("LC_ALL", "C.UTF-8");
        for (name, value) in environment {
            command.env(name, value);
        }
        let child = pty.slave.spawn_command(command).unwrap();
        let screen = Arc::new(Mutex::new(vt100::Parser::new(SIZE.1, SIZE.0, 100)));
        let mut reader = pty.master.try_clone_reader().unwrap();
        let shown = Arc::clone(&screen);
        std::thread::spawn(move || {
            let mut piece = [0; 4096];
            while let Ok(n) = reader.read(&mut piece)
                && n > 0
            {
                shown.lock().unwrap().process(&piece[..n]);
            }
        });
        let keys = pty.master.take_writer().unwrap();
        Self { child, keys, screen, tty, before, _master: pty.master }
    }

    fn text(&self) -> String {
        self.screen.lock().unwrap().screen().contents()
    }

    fn until(&self, wanted: &str) {
        let begun = Instant::now();
        while !self.text().contains(wanted) {
            assert!(begun.elapsed() < Duration::from_secs(15), "no “{wanted}”:\n{}", self.text());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
    }

    /// The exit code; the terminal must be what it was.
    fn end(mut self) -> u32 {
        let code = self.child.wait().unwrap().exit_code();
        let after = tcgetattr(&self.tty).unwrap();
        assert_eq!((self.before.local_modes, self.before.input_modes), (after.local_modes, after.input_modes));
        let begun = Instant::now();
        while self.screen.lock().unwrap().screen().alternate_screen() {
            assert!(begun.elapsed() < Duration::from_secs(5), "the alternate screen is left");
            std::thread::sleep(Duration::from_millis(20));
        }
        code
    }
}

/// The made-up NVML library of `tests/support/fake_nvml.rs`.
fn fake_nvml() -> String {
    let tests = std::env::current_exe().unwrap();
    let library = tests.parent().and_then(Path::parent).unwrap().join("examples/libfake_nvml.so");
    assert!(library.exists(), "{} is missing: cargo build --examples", library.display());
    library.to_str().unwrap().to_owned()
}

/// A /proc with two trees that may be training, which cannot be attached to.
fn two_candidates(root: &Path) {
    for (pid, parent, comm) in
        [(7, 1, "python"), (8, 7, "pt_data_worker"), (17, 1, "python"), (18, 17, "pt_data_worker")]
    {
        let folder = root.join(pid.to_string());
        std::fs::create_dir(&folder).unwrap();
        let stat = format!("{pid} ({comm}) S {parent} 1 1 0 -1 0 1 0 0 0 250 50 0 0 20 0 4 0 99 9000000 512 1 1\n");
        std::fs::write(folder.join("stat"), stat).unwrap();
        std::fs::write(folder.join("cmdline"), format!("python\0train{pid}.py\0")).unwrap();
    }
}

#[test]
fn the_first_screen_lists_tells_and_is_left() {
    let proc = tempfile::tempdir().unwrap();
    two_candidates(proc.path());
    let mut seen = InTerminal::start("xterm-256color", &["--proc-root", proc.path().to_str().unwrap()]);
    seen.until("2 processes that may be training");
    seen.until("python train7.py");
    seen.press("j");
    seen.until("PID 17 of");
    // Its memory is that of its tree; two looks give its CPU use.
    seen.until("CPU 0 %");
    seen.until("4.0 MiB");
    seen.press("p4000000000\r");
    seen.until("4000000000");
    assert!(seen.text().contains("2 processes that may be training"), "the list stays:\n{}", seen.text());
    seen.press("q");
    let shown = Arc::clone(&seen.screen);
    assert_eq!(seen.end(), 2);
    assert!(shown.lock().unwrap().screen().contents().contains("nothing chosen; give a process with --pid"));
}

#[test]
fn an_empty_list_waits_for_a_run_to_start() {
    let proc = tempfile::tempdir().unwrap();
    let mut seen = InTerminal::start("xterm-256color", &["--proc-root", proc.path().to_str().unwrap()]);
    seen.until("No process that may be training is seen");
    two_candidates(proc.path());
    seen.until("python train7.py");
    seen.press("\x03");
    assert_eq!(seen.end(), 2);
}

#[test]
fn a_dumb_terminal_gets_the_question_in_lines() {
    let proc = tempfile::tempdir().unwrap();
    two_candidates(proc.path());
    let mut seen = InTerminal::start("dumb", &["--proc-root", proc.path().to_str().unwrap()]);
    seen.until("Attach to which? [1]");
    seen.press("q\r");
    assert_eq!(seen.end(), 2);
}

#[test]
fn whoever_holds_device_memory_comes_first() {
    let proc = tempfile::tempdir().unwrap();
    two_candidates(proc.path());
    // The made-up device belongs to this very process.
    let own = std::process::id();
    let folder = proc.path().join(own.to_string());
    std::fs::create_dir(&folder).unwrap();
    let stat = format!("{own} (job) R 1 1 1 0 -1 0 1 0 0 0 250 50 0 0 20 0 4 0 99 9000000 512 1 1\n");
    std::fs::write(folder.join("stat"), stat).unwrap();
    std::fs::write(folder.join("cmdline"), "./job\0--fast\0").unwrap();
    let state = proc.path().join("device");
    let device = DeviceState { owner_memory_bytes: 8 << 30, memory_used_bytes: 9 << 30, ..DeviceState::default() };
    let _owner = SimulatedGpu::create(&state, &[device]).unwrap();
    let arguments = ["--proc-root", proc.path().to_str().unwrap(), "--nvml-lib", &fake_nvml()];
    let environment = [("TRAINMON_SIMULATED_DEVICE", state.to_str().unwrap())];
    let mut seen = InTerminal::start_with("xterm-256color", &arguments, &environment);
    seen.until("3 processes that may be training");
    seen.until("GPU memory 8.0 GiB");
    let text = seen.text();
    let place = |part: &str| text.find(part).unwrap_or_else(|| panic!("no {part}: {text}"));
    assert!(place("job --fast") < place("python train7.py"), "{text}");
    seen.press("q");
    assert_eq!(seen.end(), 2);
}

#[test]
fn a_driver_that_hangs_holds_up_neither_list_nor_keys() {
    let proc = tempfile::tempdir().unwrap();
    two_candidates(proc.path());
    let arguments = ["--proc-root", proc.path().to_str().unwrap(), "--nvml-lib", &fake_nvml()];
    let state = proc.path().join("device");
    let _owner = SimulatedGpu::create(&state, &[DeviceState::default()]).unwrap();
    let environment = [
        ("TRAINMON_SIMULATED_DEVICE", state.to_str().unwrap()),
        ("FAKE_NVML_FAIL", "hang:nvmlDeviceGetPowerUsage_60000"),
    ];
    let begun = Instant::now();
    let mut seen = InTerminal::start_with("xterm-256color", &arguments, &environment);
    seen.until("python train7.py");
    // The driver is given up on once, before the list: it does hang.
    assert!(begun.elapsed() > Duration::from_secs(2), "{:?}", begun.elapsed());
    for (key, pid) in [("j", "PID 17 of"), ("k", "PID 7 of"), ("j", "PID 17 of")] {
        let begun = Instant::now();
        seen.press(key);
        seen.until(pid);
        assert!(begun.elapsed() < Duration::from_millis(500), "{:?}", begun.elapsed());
    }
    seen.press("q");
    assert_eq!(seen.end(), 2);
}
