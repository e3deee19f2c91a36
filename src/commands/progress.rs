//! One line on standard error that says how far a command is, rewritten in place.

use std::io::{IsTerminal, Write};

use rustix::termios::tcgetwinsize;

use trainmon_base::foreground;
use trainmon_base::streams::Stream;
use trainmon_outputs::text;

/// Whether the terminal knows neither colors nor how to rewrite a line: Emacs' shell, some editors' consoles.
pub(super) fn is_dumb() -> bool {
    std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb")
}

/// The line.
#[derive(Debug)]
pub(super) struct ProgressLine {
    ascii: bool,
    /// `None` where standard error is no terminal that can rewrite a line.
    out: Option<Stream>,
}

impl ProgressLine {
    /// An empty one.
    pub(super) fn new(ascii: bool) -> Self {
        let rewrites = std::io::stderr().is_terminal() && !is_dumb();
        let out = if rewrites { Stream::duplicate(rustix::stdio::stderr()).ok() } else { None };
        Self { ascii, out }
    }

    /// Whether anything shows it.
    pub(super) fn is_shown(&self) -> bool {
        self.out.is_some()
    }

    /// Says this instead of what it said before.
    pub(super) fn show(&mut self, line: &str) {
        let columns = tcgetwinsize(rustix::stdio::stderr()).map_or(0, |size| usize::from(size.ws_col));
        let columns = if columns == 0 { text::WIDTH } else { columns };
        // In the last column some terminals would wrap.
        self.rewrite(&text::cut(line, columns - 1, self.ascii));
    }

    /// Removes it.
    pub(super) fn clear(&mut self) {
        self.rewrite("");
    }

    /// The line's start (CR) and what is right of the new text erased (EL, ECMA-48). A terminal that is gone shows nothing.
    fn rewrite(&mut self, line: &str) {
        // In the background the line belongs to another program.
        if let Some(out) = &mut self.out
            && foreground::is_ours()
        {
            let _ = out.write_all(format!("\r{line}\u{1b}[K").as_bytes());
        }
    }
}
