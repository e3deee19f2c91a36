//! Starts the program in a pseudo-terminal of its own, types at it, reads what it writes, and tells how it left.

use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossterm::event::KeyCode;
use portable_pty::{CommandBuilder, MasterPty, PtySize, native_pty_system};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use rustix::termios::{Termios, tcgetattr};
use tempfile::TempDir;
use trainmon::tui::keys::Chord;

/// How long anything may take: far more than it does, for a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(10);
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

/// How the program is started.
pub struct Look<'a> {
    /// Columns, rows.
    pub size: (u16, u16),
    /// Added to the environment.
    pub environment: &'a [(&'a str, &'a str)],
}

impl Default for Look<'_> {
    fn default() -> Self {
        Self { size: (80, 24), environment: &[] }
    }
}

/// A process to look at.
pub struct Target(pub Child);

impl Target {
    pub fn new(program: &str, arguments: &[&str]) -> Self {
        let child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .unwrap();
        Self(child)
    }

    pub fn sleeping() -> Self {
        Self::new("sleep", &["600"])
    }

    pub fn pid(&self) -> String {
        self.0.id().to_string()
    }

    pub fn lives(&mut self) -> bool {
        self.0.try_wait().unwrap().is_none()
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        // With all that it has started.
        let _ = kill_process_group(Pid::from_child(&self.0), Signal::KILL);
        let _ = self.0.wait();
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
    /// Working directory and home of the program.
    pub folder: TempDir,
}

/// How the program left.
pub struct Left {
    pub code: u32,
    pub bytes: Vec<u8>,
    pub contents: String,
    modes: (Termios, Termios),
}

impl Screen {
    /// Starts trainmon, and waits until its first frame stands.
    pub fn trainmon(arguments: &[&str], look: &Look<'_>) -> Self {
        let screen = Self::start(env!("CARGO_BIN_EXE_trainmon"), arguments, look);
        screen.wait("the first frame", |seen| seen.painted > 0);
        screen
    }

    /// Starts any program in a terminal.
    pub fn start(program: &str, arguments: &[&str], look: &Look<'_>) -> Self {
        let (cols, rows) = look.size;
        let pty = native_pty_system().openpty(PtySize { rows, cols, ..PtySize::default() }).unwrap();
        let flags = rustix::fs::OFlags::RDWR | rustix::fs::OFlags::NOCTTY;
        let tty = rustix::fs::open(pty.master.tty_name().unwrap(), flags, rustix::fs::Mode::empty()).unwrap();
        let before = tcgetattr(&tty).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let mut command = CommandBuilder::new(program);
        command.args(arguments);
        command.env_clear();
        command.cwd(folder.path());
        command.env("PATH", std::env::var("PATH").unwrap_or_default());
        command.env("HOME", folder.path());
        for (name, value) in [("TERM", "xterm-256color"), ("LC_ALL", "C.UTF-8"), ("TZ", "UTC")] {
            command.env(name, value);
        }
        look.environment.iter().for_each(|(name, value)| command.env(name, value));
        let child = pty.slave.spawn_command(command).unwrap();
        let mut from = pty.master.try_clone_reader().unwrap();
        let writer = pty.master.take_writer().unwrap();
        let seen = Seen {
            bytes: Vec::new(),
            parser: vt100::Parser::new(rows, cols, 0),
            cleared: 0,
            painted: 0,
            scanned: 0,
            closed: false,
        };
        let seen = Arc::new((Mutex::new(seen), Condvar::new()));
        let stop = Arc::new(AtomicBool::new(false));
        let stalled = Arc::new(AtomicBool::new(false));
        let (theirs, stopped, stalling) = (Arc::clone(&seen), Arc::clone(&stop), Arc::clone(&stalled));
        let reader = std::thread::spawn(move || {
            let mut piece = vec![0; 1 << 16];
            while !stopped.load(Ordering::SeqCst) {
                while stalling.load(Ordering::SeqCst) {
                    std::thread::sleep(Duration::from_millis(5));
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

    pub fn kill(&self, signal: Signal) {
        kill_process(Pid::from_raw(self.pid().cast_signed()).unwrap(), signal).unwrap();
    }

    pub fn send(&mut self, text: &str) {
        self.send_bytes(text.as_bytes());
    }

    pub fn send_bytes(&mut self, bytes: &[u8]) {
        let writer = self.writer.as_mut().unwrap();
        writer.write_all(bytes).unwrap();
        writer.flush().unwrap();
    }

    pub fn look<T>(&self, at: impl FnOnce(&Seen) -> T) -> T {
        at(&self.seen.0.lock().unwrap())
    }

    pub fn contents(&self) -> String {
        self.look(Seen::contents)
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
            let before = self.look(|seen| seen.cleared);
            self.send(REPAINT);
            if self.wait_for(PATIENCE / 10, |seen| seen.painted > before) {
                return;
            }
        }
        panic!("no answer after {after}; the screen:\n{}", self.contents());
    }

    /// Gives the terminal another size. What was parsed of the old picture is forgotten.
    pub fn resize(&mut self, cols: u16, rows: u16) {
        // The parser cannot stand a wide character in a terminal of one column.
        let parsed = if cols < 4 { (100, 300) } else { (rows, cols) };
        self.seen.0.lock().unwrap().parser = vt100::Parser::new(parsed.0, parsed.1, 0);
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
        let until = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.exit_code();
            }
            assert!(Instant::now() < until, "it did not end; the screen:\n{}", self.contents());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits for the end, and tells how the terminal was left.
    pub fn left(mut self) -> Left {
        let code = self.wait_for_end();
        let after = tcgetattr(self.tty.as_ref().unwrap()).unwrap();
        self.tty = None;
        self.reader.take().unwrap().join().unwrap();
        let (bytes, contents) = self.look(|seen| (seen.bytes.clone(), seen.contents()));
        Left { code, bytes, contents, modes: (self.before.clone(), after) }
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
    /// It ended with status 0, and the terminal is what it was.
    pub fn assert_clean(&self) {
        assert_eq!(self.code, 0, "{}", self.contents);
        self.assert_restored();
    }

    pub fn assert_restored(&self) {
        let (before, after) = &self.modes;
        assert_eq!(format!("{before:?}"), format!("{after:?}"), "the line discipline");
        let last = |what: &str| self.bytes.windows(what.len()).rposition(|window| window == what.as_bytes());
        // Alternate screen, bracketed paste, the mouse in all its ways, synchronised update.
        for mode in [1049, 2004, 1000, 1002, 1003, 1006, 1015, 2026] {
            let (on, off) = (last(&format!("\x1b[?{mode}h")), last(&format!("\x1b[?{mode}l")));
            assert!(on < off || on.is_none(), "mode {mode} is left on");
        }
        assert!(last("\x1b[?25l") < last("\x1b[?25h"), "the cursor is left hidden");
        assert!(last("\x1b[?1049l") > last("\x1b[?25l"), "the screen was taken again");
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }
}

/// What a terminal sends for a key.
pub fn typed(chord: Chord) -> String {
    let shift = if chord.shift { "1;2" } else { "" };
    match chord.code {
        KeyCode::Char(c) if chord.control => char::from(u8::try_from(c).unwrap() & 0x1f).to_string(),
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
