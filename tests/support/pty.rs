//! Starts a program in a pseudo-terminal of its own, types at it, reads what it writes, and tells how it left.

use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossterm::event::{KeyCode, KeyModifiers};
use portable_pty::{CommandBuilder, ExitStatus, MasterPty, PtySize, native_pty_system};
use rustix::process::Signal;
use rustix::termios::{Termios, tcgetattr};
use tempfile::TempDir;
use trainmon::tui::keys::{self, Action};

use crate::app::named_key;
use crate::process::{PATIENCE, PROGRAM, Target, pause, signal};

/// Escape as terminals with the keyboard protocol write it: unlike the bare byte it never joins what follows.
pub const ESC: &str = "\x1b[27u";
/// Ctrl-L: paint anew.
const REPAINT: &str = "\x0c";
const CLEARED: &[u8] = b"\x1b[2J";
const FRAME_END: &[u8] = b"\x1b[?2026l";
/// Longer than either of the two.
const MARK_MAX: usize = 8;

/// What the program has written so far.
pub struct Seen {
    pub bytes: Vec<u8>,
    parser: vt100::Parser,
    /// Times that the screen was cleared, and how often that was by the end of the last whole frame.
    cleared: usize,
    painted: usize,
    scanned: usize,
    closed: bool,
}

impl Seen {
    pub fn contents(&self) -> String {
        self.parser.screen().contents()
    }

    fn take(&mut self, piece: &[u8]) {
        self.bytes.extend_from_slice(piece);
        self.parser.process(piece);
        while self.scanned + MARK_MAX <= self.bytes.len() {
            let rest = &self.bytes[self.scanned..];
            if rest.starts_with(CLEARED) {
                self.cleared += 1;
            } else if rest.starts_with(FRAME_END) {
                self.painted = self.cleared;
            }
            let next = rest[1..].iter().position(|byte| *byte == 0x1b).map_or(rest.len(), |at| at + 1);
            self.scanned += next;
        }
    }
}

/// In what a program is started.
pub struct Conditions<'a> {
    /// Columns, rows.
    pub size: (u16, u16),
    /// Added to the environment.
    pub environment: &'a [(&'a str, &'a str)],
    /// A home that is kept; a folder of its own where none is given.
    pub home: Option<&'a Path>,
}

impl Default for Conditions<'_> {
    fn default() -> Self {
        Self { size: (80, 24), environment: &[], home: None }
    }
}

/// The program in its terminal.
pub struct Screen {
    child: Box<dyn portable_pty::Child + Send + Sync>,
    master: Option<Box<dyn MasterPty + Send>>,
    writer: Option<Box<dyn Write + Send>>,
    /// The terminal's other side, so that its state can be seen.
    pub tty: Option<OwnedFd>,
    before: Termios,
    seen: Arc<(Mutex<Seen>, Condvar)>,
    reader: Option<JoinHandle<()>>,
    stop: Arc<AtomicBool>,
    /// Whether what is written is left lying.
    pub stalled: Arc<AtomicBool>,
    /// Working directory of the program, and its home where none was given.
    pub folder: TempDir,
}

/// What is seen of a terminal of this size.
fn parser(rows: u16, cols: u16) -> vt100::Parser {
    // It cannot stand a wide character in a terminal of one column, and has no room for millions of cells.
    let odd = cols < 4 || u32::from(rows) * u32::from(cols) > 1_000_000;
    let (rows, cols) = if odd { (100, 300) } else { (rows, cols) };
    vt100::Parser::new(rows, cols, 0)
}

/// How the program left.
pub struct Left {
    pub code: u32,
    /// What the signal is called that has ended it, strsignal(3).
    pub signal: Option<String>,
    pub bytes: Vec<u8>,
    pub contents: String,
    modes: (Termios, Termios),
}

impl Screen {
    /// Starts trainmon, and waits until its first frame has been painted.
    pub fn trainmon(arguments: &[&str], given: &Conditions<'_>) -> Self {
        let screen = Self::start(PROGRAM, arguments, given);
        screen.wait("the first frame", |seen| seen.painted > 0);
        screen
    }

    /// Starts trainmon over a process, with five samples a second, and waits until it says whom it shows.
    pub fn attached(target: &Target, more: &[&str], given: &Conditions<'_>) -> Self {
        let pid = target.pid();
        let screen = Self::trainmon(&[&["--pid", &pid, "-i", "200ms"], more].concat(), given);
        if given.size.0 >= 80 {
            screen.wait_text(&format!("PID {pid}"));
        }
        screen
    }

    /// Starts any program in a terminal.
    pub fn start(program: &str, arguments: &[&str], given: &Conditions<'_>) -> Self {
        let (cols, rows) = given.size;
        let pty = native_pty_system().openpty(PtySize { rows, cols, ..PtySize::default() }).unwrap();
        // A program of another test would keep this terminal open.
        let flags = rustix::fs::OFlags::RDWR | rustix::fs::OFlags::NOCTTY | rustix::fs::OFlags::CLOEXEC;
        let tty = rustix::fs::open(pty.master.tty_name().unwrap(), flags, rustix::fs::Mode::empty()).unwrap();
        let before = tcgetattr(&tty).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let mut command = CommandBuilder::new(program);
        command.args(arguments);
        command.env_clear();
        command.cwd(folder.path());
        command.env("PATH", std::env::var("PATH").unwrap_or_default());
        command.env("HOME", given.home.unwrap_or(folder.path()));
        for (name, value) in [("TERM", "xterm-256color"), ("LC_ALL", "C.UTF-8"), ("TZ", "UTC")] {
            command.env(name, value);
        }
        given.environment.iter().for_each(|(name, value)| command.env(name, value));
        let child = pty.slave.spawn_command(command).unwrap();
        let mut from = pty.master.try_clone_reader().unwrap();
        let writer = pty.master.take_writer().unwrap();
        let seen =
            Seen { bytes: Vec::new(), parser: parser(rows, cols), cleared: 0, painted: 0, scanned: 0, closed: false };
        let seen = Arc::new((Mutex::new(seen), Condvar::new()));
        let stop = Arc::new(AtomicBool::new(false));
        let stalled = Arc::new(AtomicBool::new(false));
        let (theirs, stopped, stalling) = (Arc::clone(&seen), Arc::clone(&stop), Arc::clone(&stalled));
        let reader = std::thread::spawn(move || {
            let mut piece = vec![0; 1 << 16];
            while !stopped.load(Ordering::SeqCst) {
                while stalling.load(Ordering::SeqCst) {
                    pause(5);
                }
                let count = from.read(&mut piece).unwrap_or(0);
                let mut seen = theirs.0.lock().unwrap();
                seen.take(&piece[..count]);
                seen.closed = count == 0;
                theirs.1.notify_all();
                if count == 0 {
                    break;
                }
            }
        });
        Self {
            child,
            master: Some(pty.master),
            writer: Some(writer),
            tty: Some(tty),
            before,
            seen,
            reader: Some(reader),
            stop,
            stalled,
            folder,
        }
    }

    pub fn pid(&self) -> u32 {
        self.child.process_id().unwrap()
    }

    pub fn kill(&self, by: Signal) {
        signal(self.pid(), by);
    }

    pub fn send(&mut self, text: &str) {
        self.send_bytes(text.as_bytes());
    }

    pub fn send_bytes(&mut self, bytes: &[u8]) {
        let writer = self.writer.as_mut().unwrap();
        writer.write_all(bytes).unwrap();
        writer.flush().unwrap();
    }

    pub fn inspect<T>(&self, at: impl FnOnce(&Seen) -> T) -> T {
        at(&self.seen.0.lock().unwrap())
    }

    pub fn contents(&self) -> String {
        self.inspect(Seen::contents)
    }

    /// Waits for a condition to hold; what stands on the screen is told where it does not come to hold.
    pub fn wait(&self, what: &str, holds: impl Fn(&Seen) -> bool) {
        let met = self.wait_for(PATIENCE, holds);
        assert!(met, "no {what} within {PATIENCE:?}; the screen:\n{}", self.contents());
    }

    pub fn wait_text(&self, text: &str) {
        self.wait(text, |seen| seen.contents().contains(text));
    }

    fn wait_for(&self, patience: Duration, holds: impl Fn(&Seen) -> bool) -> bool {
        let until = Instant::now() + patience;
        let mut seen = self.seen.0.lock().unwrap();
        loop {
            if holds(&seen) {
                return true;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || seen.closed {
                return false;
            }
            seen = self.seen.1.wait_timeout(seen, left).unwrap().0;
        }
    }

    /// Asks for a fresh painting and waits for it: all that was typed before has been worked off then.
    pub fn answers(&mut self, after: &str) {
        // A bare Escape just before may have joined our key: ask again.
        for _ in 0..10 {
            let before = self.inspect(|seen| seen.cleared);
            self.send(REPAINT);
            if self.wait_for(PATIENCE / 10, |seen| seen.painted > before) {
                return;
            }
        }
        panic!("no answer after {after}; the screen:\n{}", self.contents());
    }

    /// Gives the terminal another size. What was parsed of the old picture is forgotten.
    pub fn resize(&mut self, cols: u16, rows: u16) {
        self.seen.0.lock().unwrap().parser = parser(rows, cols);
        self.master.as_ref().unwrap().resize(PtySize { rows, cols, ..PtySize::default() }).unwrap();
    }

    /// Closes the terminal's outer side, as a lost connection does.
    pub fn hang_up(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        // Whatever is written next wakes the reader, which then lets go.
        self.send(REPAINT);
        self.reader.take().unwrap().join().unwrap();
        self.writer = None;
        self.master = None;
    }

    pub fn wait_for_end(&mut self) -> u32 {
        self.wait_for_status().exit_code()
    }

    fn wait_for_status(&mut self) -> ExitStatus {
        let began = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(began.elapsed() < PATIENCE, "it did not end; the screen:\n{}", self.contents());
            pause(5);
        }
    }

    /// Waits for the end, and tells how the terminal was left.
    pub fn left(mut self) -> Left {
        let status = self.wait_for_status();
        let (code, signal) = (status.exit_code(), status.signal().map(str::to_owned));
        let after = tcgetattr(self.tty.as_ref().unwrap()).unwrap();
        self.tty = None;
        self.reader.take().unwrap().join().unwrap();
        let (bytes, contents) = self.inspect(|seen| (seen.bytes.clone(), seen.contents()));
        Left { code, signal, bytes, contents, modes: (self.before.clone(), after) }
    }

    /// Quits by key.
    pub fn quit(mut self) -> Left {
        self.send("q");
        self.left()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.stalled.store(false, Ordering::SeqCst);
        self.tty = None;
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
    }
}

impl Left {
    /// It took the screen, ended with status 0, and the terminal is what it was.
    pub fn assert_clean(&self) {
        assert_eq!(self.code, 0, "{}", self.contents);
        assert!(self.count("\x1b[?1049h") > 0 && self.count("\x1b[?25l") > 0, "it never took the screen");
        self.assert_restored();
    }

    /// The terminal is what it was.
    pub fn assert_restored(&self) {
        let (before, after) = &self.modes;
        assert_eq!(format!("{before:?}"), format!("{after:?}"), "the line discipline");
        let text = self.text();
        let last = |what: &str| text.rfind(what);
        // Alternate screen, bracketed paste, the mouse in all its ways, synchronised update.
        for mode in [1049, 2004, 1000, 1002, 1003, 1006, 1015, 2026] {
            let (on, off) = (last(&format!("\x1b[?{mode}h")), last(&format!("\x1b[?{mode}l")));
            assert!(on < off || on.is_none(), "mode {mode} is left on");
        }
        let hidden = last("\x1b[?25l");
        assert!(hidden < last("\x1b[?25h") || hidden.is_none(), "the cursor is left hidden");
        assert!(hidden < last("\x1b[?1049l") || hidden.is_none(), "the screen was taken again");
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }

    /// How often this was written.
    pub fn count(&self, what: &str) -> usize {
        self.text().matches(what).count()
    }
}

/// What a terminal of this size shows after these bytes.
pub fn shown_after(bytes: &[u8], (columns, rows): (u16, u16)) -> vt100::Parser {
    let mut terminal = vt100::Parser::new(rows, columns, 0);
    terminal.process(bytes);
    terminal
}

/// What a terminal sends for the key that does this.
pub fn key(action: Action) -> String {
    typed(keys::key_of(action))
}

/// What a terminal sends for a key of this name.
pub fn typed(name: &str) -> String {
    let key = named_key(name);
    let shift = if key.modifiers.contains(KeyModifiers::SHIFT) { "1;2" } else { "" };
    match key.code {
        KeyCode::Char(c) if key.modifiers.contains(KeyModifiers::CONTROL) => {
            char::from(u8::try_from(c).unwrap() & 0x1f).to_string()
        }
        KeyCode::Char(c) => c.to_string(),
        KeyCode::Esc => "\x1b".to_owned(),
        KeyCode::Enter => "\r".to_owned(),
        KeyCode::Tab => "\t".to_owned(),
        KeyCode::Backspace => "\x7f".to_owned(),
        KeyCode::BackTab => "\x1b[Z".to_owned(),
        KeyCode::Up => format!("\x1b[{shift}A"),
        KeyCode::Down => format!("\x1b[{shift}B"),
        KeyCode::Right => format!("\x1b[{shift}C"),
        KeyCode::Left => format!("\x1b[{shift}D"),
        KeyCode::Home => format!("\x1b[{shift}H"),
        KeyCode::End => format!("\x1b[{shift}F"),
        KeyCode::Insert => "\x1b[2~".to_owned(),
        KeyCode::Delete => "\x1b[3~".to_owned(),
        KeyCode::PageUp => "\x1b[5~".to_owned(),
        KeyCode::PageDown => "\x1b[6~".to_owned(),
        KeyCode::F(n @ 1..=4) => format!("\x1bO{}", char::from(b'O' + n)),
        KeyCode::F(n @ 5..=12) => format!("\x1b[{}~", [15, 17, 18, 19, 20, 21, 23, 24][usize::from(n) - 5]),
        other => panic!("what does a terminal send for {other:?}?"),
    }
}
