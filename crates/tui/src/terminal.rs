//! The only file that touches the terminal: entering and leaving it, painting, suspending, and the panic hook.
//!
//! ratatui supplies the buffer and the difference of two buffers, [`super::encode`] its bytes. This file does the rest,
//! so that each frame is one write inside synchronized-update marks, nothing is written when nothing changed, and no
//! frame asks the terminal a question (`ratatui::Terminal::clear` asks for the cursor's position and can fail).

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::sync::{Mutex, MutexGuard, Once, PoisonError};
use std::thread::{self, ThreadId};

use crossterm::clipboard::CopyToClipboard;
use crossterm::event::EnableBracketedPaste;
use crossterm::style::ResetColor;
use crossterm::terminal::{
    BeginSynchronizedUpdate, Clear, ClearType, EndSynchronizedUpdate, EnterAlternateScreen, disable_raw_mode,
    enable_raw_mode,
};
use crossterm::{cursor, queue};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};
use rustix::process::{Signal, kill_current_process_group};

use super::encode::encode;
use super::rescue;
use trainmon_base::foreground::{self, Unstopped};

/// Room for a frame: a full repaint of 200×60 in color needs about 40 KiB.
const SCREEN_BYTES: usize = 64 * 1024;

/// The assumed size, if the terminal does not report one.
const FALLBACK_SIZE: (u16, u16) = (80, 24);

/// More cells than any display has: an 8K one with the smallest font has half as many. Two buffers of this size take 80
/// MB.
const CELLS_MAX: u32 = 1_000_000;

/// Longest text for the clipboard: xterm's default limit for OSC 52 is about 100 kB of base64.
const CLIPBOARD_BYTES: usize = 64 * 1024;

/// How long a terminal may accept no output.
const PATIENCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 500_000_000 };

/// Clicks, the wheel, and drags if the terminal supports them, in SGR form. Movement without a button is left out:
/// crossterm would enable it too, and it would cost wakeups and bandwidth for nothing.
const MOUSE_ON: &[u8] = b"\x1b[?1000h\x1b[?1002h\x1b[?1006h";
const MOUSE_OFF: &[u8] = b"\x1b[?1006l\x1b[?1002l\x1b[?1000l";

/// Longest control string (DCS) for GNU screen: it drops those of more than 768 bytes.
const SCREEN_PIECE: usize = 512;

/// What to switch on, and the kind of terminal.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TerminalOptions {
    /// Report the mouse. Selecting text in the terminal then needs Shift.
    pub mouse: bool,
    /// GNU screen runs between us and the terminal: see [`super::theme::in_screen`].
    pub screen: bool,
}

/// The terminal, held until this is dropped, while this process group is in the foreground. Writes to it fail once it has been
/// closed.
#[derive(Debug)]
pub struct Terminal {
    out: File,
    options: TerminalOptions,
    shown: Buffer,
    next: Buffer,
    bytes: Vec<u8>,
    /// The terminal's content is unknown: clear it and paint everything.
    repaint: bool,
    /// Whatever is done to the terminal does not stop the process. Dropped after [`Self::drop`] has restored the terminal.
    _unstopped: Unstopped,
}

/// The thread that holds the terminal.
static HOLDER: Mutex<Option<ThreadId>> = Mutex::new(None);
static HOOK: Once = Once::new();

fn holder() -> MutexGuard<'static, Option<ThreadId>> {
    HOLDER.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Terminal {
    /// Takes over the terminal on standard output: raw mode, alternate screen, hidden cursor, bracketed paste. In the
    /// background it waits for [`Self::settle`].
    ///
    /// # Errors
    /// If standard output is not a terminal, or raw mode is refused. Everything that was switched on is switched off
    /// again.
    pub fn enter(options: TerminalOptions) -> io::Result<Self> {
        let stdout = rustix::stdio::stdout();
        if !rustix::termios::isatty(stdout) {
            return Err(io::Error::other("standard output is not a terminal"));
        }
        check_size()?;
        let mut terminal = Self {
            out: own_handle()?,
            options,
            shown: Buffer::default(),
            next: Buffer::default(),
            bytes: Vec::with_capacity(SCREEN_BYTES),
            repaint: true,
            _unstopped: foreground::unstopped(),
        };
        install_hook();
        // From here on dropping `terminal` restores.
        terminal.settle()?;
        Ok(terminal)
    }

    /// Takes the terminal if this process group has come to the foreground, and lets go of it if it no longer is. Returns whether
    /// the terminal is held: only then may anything be drawn and keys be read.
    pub fn settle(&mut self) -> io::Result<bool> {
        let is_ours = foreground::is_ours();
        match (is_ours, self.is_held()) {
            (true, false) => self.take()?,
            (false, true) => restore(&mut self.out),
            _ => {}
        }
        Ok(is_ours)
    }

    /// Whether the terminal is held.
    pub fn is_held(&self) -> bool {
        holder().is_some()
    }

    /// Columns and rows of the terminal. An impossible size is ignored: the last valid one is used.
    pub fn size(&self) -> (u16, u16) {
        match claimed_size(&self.out) {
            Some(size) if !is_absurd(size) => size,
            Some(_) if !self.shown.area.is_empty() => (self.shown.area.width, self.shown.area.height),
            _ => FALLBACK_SIZE,
        }
    }

    /// Lets `view` paint an empty buffer of the terminal's size, and updates the terminal to show it. Writes once, or
    /// not at all if nothing changed or the terminal is not held.
    pub fn draw(&mut self, view: impl FnOnce(&mut Buffer)) -> io::Result<()> {
        if !self.settle()? {
            return Ok(());
        }
        let (columns, rows) = self.size();
        let area = Rect::new(0, 0, columns, rows);
        if self.shown.area != area {
            self.next.resize(area);
            self.shown.resize(area);
            self.repaint = true;
        }
        self.next.reset();
        view(&mut self.next);

        self.bytes.clear();
        queue!(self.bytes, BeginSynchronizedUpdate)?;
        if self.repaint {
            self.shown.reset();
            queue!(self.bytes, ResetColor, Clear(ClearType::All))?;
        }
        let mut updates = self.shown.diff_iter(&self.next).peekable();
        if !self.repaint && updates.peek().is_none() {
            return Ok(());
        }
        encode(&mut self.bytes, updates);
        queue!(self.bytes, EndSynchronizedUpdate)?;
        // If writing fails halfway, the next frame must not build on this one.
        self.repaint = true;
        match self.write() {
            // The other end does not read. Everything else continues; the next frame tries again.
            Err(error) if error.kind() == io::ErrorKind::TimedOut => return Ok(()),
            written => written?,
        }
        self.repaint = false;
        std::mem::swap(&mut self.shown, &mut self.next);
        Ok(())
    }

    /// Makes the next draw clear the terminal and paint everything.
    pub fn repaint(&mut self) {
        self.repaint = true;
    }

    /// Puts `text` on the clipboard by OSC 52, which also works through ssh. A terminal without OSC 52 ignores it, and
    /// so does tmux unless its option `set-clipboard` is `on`.
    pub fn copy(&mut self, text: &str) -> io::Result<()> {
        let mut end = text.len().min(CLIPBOARD_BYTES);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        self.bytes.clear();
        queue!(self.bytes, CopyToClipboard::to_clipboard_from(text.get(..end).unwrap_or_default()))?;
        if self.options.screen {
            self.bytes = through_screen(&self.bytes);
        }
        self.write()
    }

    /// Reports the mouse from now on, or leaves it to the terminal.
    pub fn mouse(&mut self, on: bool) -> io::Result<()> {
        self.options.mouse = on;
        self.bytes.clear();
        self.bytes.extend_from_slice(if on { MOUSE_ON } else { MOUSE_OFF });
        self.write()
    }

    /// Restores the terminal, stops the process group like Ctrl-Z, and takes the terminal again once the shell has
    /// continued the group in the foreground.
    ///
    /// The whole group is stopped, like the terminal driver stops it: a wrapper script in the same group must stop too,
    /// or the shell would never get the terminal back. In a group without a job-control shell the kernel ignores
    /// SIGTSTP, so that no stopped program can leave a dead terminal. A program that trainmon starts belongs in its own
    /// group.
    pub fn suspend(&mut self) -> io::Result<()> {
        restore(&mut self.out);
        let _held = trainmon_base::signals::no_starts();
        kill_current_process_group(Signal::TSTP)?;
        // The signal may go to another thread of ours and stop us a moment later.
        thread::sleep(std::time::Duration::from_millis(20));
        self.settle().map(drop)
    }

    /// Takes the terminal again after another program has stopped and continued the process (SIGCONT). In the background it
    /// waits for [`Self::settle`].
    pub fn resumed(&mut self) -> io::Result<()> {
        if foreground::is_ours() { self.take() } else { self.settle().map(drop) }
    }

    /// Restores the terminal and prints these lines.
    pub fn leave_with(mut self, lines: &[String]) {
        restore(&mut self.out);
        let text: String = lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect();
        // The reader may be gone.
        let _ = write_whole(&mut self.out, text.as_bytes());
    }

    fn take(&mut self) -> io::Result<()> {
        // Leaving first makes crossterm forget the modes that it assumes to be set.
        let _ = disable_raw_mode();
        rescue::hold(&self.out)?;
        enable_raw_mode()?;
        *holder() = Some(thread::current().id());
        self.bytes.clear();
        queue!(self.bytes, EnterAlternateScreen, EnableBracketedPaste)?;
        if self.options.mouse {
            self.bytes.extend_from_slice(MOUSE_ON);
        }
        queue!(self.bytes, cursor::Hide)?;
        self.repaint = true;
        self.write()
    }

    /// Writes all of `bytes`, if the terminal is held.
    fn write(&mut self) -> io::Result<()> {
        if self.is_held() { write_whole(&mut self.out, &self.bytes) } else { Ok(()) }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        restore(&mut self.out);
    }
}

/// An operating system command that GNU screen passes on to its terminal: in pieces, each in a control string (DCS).
/// Without them, a long command would show up as text on the screen.
fn through_screen(command: &[u8]) -> Vec<u8> {
    // The end of a DCS string would also end our command, so the command ends with BEL.
    let inside = command.strip_suffix(b"\x1b\\").unwrap_or(command);
    let inside = [inside, b"\x07"].concat();
    let pieces = inside.chunks(SCREEN_PIECE);
    pieces.flat_map(|piece| [b"\x1bP".as_slice(), piece, b"\x1b\\"].concat()).collect()
}

/// Refuses a terminal of an absurd size.
///
/// # Errors
/// One line that says so. A missing terminal is not an error.
pub fn check_size() -> io::Result<()> {
    match claimed_size(rustix::stdio::stdout()) {
        Some(size) if is_absurd(size) => {
            let (columns, rows) = size;
            let why =
                format!("the terminal reports {columns} columns and {rows} rows; set its size: stty cols 80 rows 24");
            Err(io::Error::other(why))
        }
        _ => Ok(()),
    }
}

/// Columns and rows that the terminal reports, if it reports any.
fn claimed_size(terminal: impl AsFd) -> Option<(u16, u16)> {
    let size = rustix::termios::tcgetwinsize(terminal).ok()?;
    (size.ws_col > 0 && size.ws_row > 0).then_some((size.ws_col, size.ws_row))
}

fn is_absurd((columns, rows): (u16, u16)) -> bool {
    u32::from(columns) * u32::from(rows) > CELLS_MAX
}

/// The terminal on standard output, reopened if permitted: writes to it then do not block, and programs that share
/// standard output with us are not affected.
fn own_handle() -> io::Result<File> {
    let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    match rustix::fs::open("/proc/self/fd/1", flags, Mode::empty()) {
        Ok(own) => Ok(File::from(own)),
        // After su the terminal belongs to another user.
        Err(_) => Ok(File::from(rustix::io::dup(rustix::stdio::stdout())?)),
    }
}

/// Writes everything, as fast as the terminal accepts it.
///
/// # Errors
/// `TimedOut` if it accepts nothing for [`PATIENCE`]: a stalled connection must not keep signals from being handled.
fn write_whole(out: &mut File, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match out.write(bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(n) => bytes = bytes.get(n..).unwrap_or_default(),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                match poll(&mut [PollFd::new(out, PollFlags::OUT)], Some(&PATIENCE)) {
                    Ok(0) => return Err(io::ErrorKind::TimedOut.into()),
                    Ok(_) | Err(rustix::io::Errno::INTR) => {}
                    Err(e) => return Err(e.into()),
                }
            }
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

/// Undoes [`Terminal::take`], once. In the background the modes are those of another program by now, and stay.
fn restore(out: &mut File) {
    if holder().take().is_none() {
        return;
    }
    // A signal that has stopped the process may have left the screen already: see `rescue`.
    if rescue::is_due() {
        let _ = write_whole(out, rescue::LEAVE);
    }
    if foreground::is_ours() {
        let _ = disable_raw_mode();
    }
    rescue::release();
}

/// Restores the terminal before the thread that holds it prints its panic message. A panic of another thread leaves the
/// screen alone: that thread's source is gone, and the screen says so.
fn install_hook() {
    HOOK.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let holder = *holder();
            if holder.is_some_and(|holder| holder != thread::current().id()) {
                return;
            }
            if let (Some(_), Ok(mut out)) = (holder, own_handle()) {
                restore(&mut out);
            }
            before(info);
        }));
    });
}
