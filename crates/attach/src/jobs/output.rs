//! The last lines that a program wrote, for the screen that hides them. Bytes go in, lines come out: nothing is read here.

use std::collections::VecDeque;

use trainmon_base::text::{sanitize, secrets};

/// Lines that are kept.
const LINES_KEPT: usize = 200;
/// Bytes of a line that are kept.
const LINE_BYTES: usize = 512;

/// The last lines of a program's output, at most 200 of at most 512 bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OutputTail {
    /// Lines that have ended.
    ended: VecDeque<String>,
    /// The line that is still written, raw.
    open: Vec<u8>,
    /// A carriage return came last: what follows replaces the line, like a progress bar.
    returned: bool,
}

impl OutputTail {
    /// Takes in what was written next.
    pub fn push(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            match byte {
                b'\n' => {
                    let line = shown(&std::mem::take(&mut self.open));
                    self.returned = false;
                    if self.ended.len() == LINES_KEPT {
                        self.ended.pop_front();
                    }
                    self.ended.push_back(line);
                }
                b'\r' => self.returned = true,
                _ => {
                    if std::mem::take(&mut self.returned) {
                        self.open.clear();
                    }
                    if self.open.len() < LINE_BYTES {
                        self.open.push(byte);
                    }
                }
            }
        }
    }

    /// All lines that are kept, oldest first, safe to draw and with secrets masked.
    pub fn lines(&self) -> Vec<String> {
        let open = Some(shown(&self.open)).filter(|line| !line.is_empty());
        self.ended.iter().cloned().chain(open).collect()
    }

    /// The last line with something in it.
    pub fn last_line(&self) -> Option<String> {
        let open = std::iter::once_with(|| shown(&self.open));
        open.chain(self.ended.iter().rev().cloned()).find(|line| !line.trim().is_empty())
    }
}

/// A line without escape sequences and secrets, and with nothing in it that steers a terminal.
fn shown(line: &[u8]) -> String {
    let text = without_escapes(&String::from_utf8_lossy(line));
    sanitize(&secrets::line(&text)).trim_end().to_owned()
}

/// The text without escape sequences (ECMA-48): colors, cursor movements, titles.
fn without_escapes(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '\u{1b}' {
            kept.push(c);
            continue;
        }
        match chars.next() {
            // A control sequence ends with a character from @ to ~.
            Some('[') => while chars.next().is_some_and(|c| !('@'..='~').contains(&c)) {},
            // A command ends with BEL, or with ESC and a backslash.
            Some(']' | 'P' | '_' | '^' | 'X') => {
                while let Some(c) = chars.next().filter(|c| *c != '\u{7}') {
                    if c == '\u{1b}' {
                        chars.next();
                        break;
                    }
                }
            }
            _ => {}
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn tail(pieces: &[&str]) -> OutputTail {
        let mut tail = OutputTail::default();
        pieces.iter().for_each(|piece| tail.push(piece.as_bytes()));
        tail
    }

    #[test]
    fn lines_come_in_pieces() {
        let tail = tail(&["epoch 1\r\nepo", "ch 2\n\nloss", " 0.5"]);
        assert_eq!(tail.lines(), ["epoch 1", "epoch 2", "", "loss 0.5"]);
        assert_eq!(tail.last_line().unwrap(), "loss 0.5");
        assert_eq!(OutputTail::default().last_line(), None);
    }

    #[test]
    fn a_progress_bar_is_one_line() {
        let bar = tail(&["\r  1%|#", "\r 50%|#####", "\r\u{1b}[A"]);
        assert_eq!(bar.last_line().as_deref(), None, "what replaces it is empty");
        assert_eq!(tail(&["\r  1%|#\r 50%|#####\r"]).last_line().unwrap(), " 50%|#####");
        assert_eq!(tail(&["done\n", "  \n"]).last_line().unwrap(), "done");
    }

    #[test]
    fn nothing_steers_the_terminal_and_secrets_are_masked() {
        let tail =
            tail(&["\u{1b}[31mred\u{1b}[0m \u{1b}]0;title\u{7}x\u{1b}]8;;u\u{1b}\\y\u{9b}z --password=hunter22\n"]);
        let line = tail.last_line().unwrap();
        assert!(line.starts_with("red xy") && !line.contains(['\u{1b}', '\u{9b}']), "{line}");
        assert!(!line.contains("hunter22"), "{line}");
    }

    #[test]
    fn it_is_bounded() {
        let mut tail = tail(&["x".repeat(100_000).as_str()]);
        (0..1000).for_each(|n| tail.push(format!("\n{n}").as_bytes()));
        let lines = tail.lines();
        assert_eq!((lines.len(), lines[0].as_str(), lines[200].as_str()), (LINES_KEPT + 1, "799", "999"));
        assert!(OutputTail::default().open.capacity() <= LINE_BYTES);
    }

    proptest! {
        #[test]
        fn any_bytes_in_any_pieces_are_the_same_lines(bytes: Vec<u8>, cut in 0usize..40) {
            let mut whole = OutputTail::default();
            whole.push(&bytes);
            let mut pieces = OutputTail::default();
            bytes.chunks(cut + 1).for_each(|piece| pieces.push(piece));
            prop_assert_eq!(&whole, &pieces);
            prop_assert!(whole.lines().iter().all(|line| !line.contains(char::is_control)));
        }
    }
}
