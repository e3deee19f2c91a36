//! Standard input and output of `trainmon mcp`, each with a thread of its own, and a bounded queue between it and the loop: a
//! client that does not read its answers is not read either.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::thread;
use std::time::Duration;

use anyhow::Context;
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};

use super::jsonrpc::LINE_MAX;
use trainmon_base::streams::Stream;
use trainmon_base::text::json;

/// Lines that wait to be answered.
const LINES: usize = 4;
/// Messages that wait to be written.
const MESSAGES: usize = 16;
/// Where a read would block, although it should wait.
const AGAIN: Duration = Duration::from_millis(20);

/// A line of the client.
#[derive(Debug, PartialEq, Eq)]
pub enum Line {
    /// Without its end.
    Whole(Vec<u8>),
    /// It is longer than [`LINE_MAX`].
    TooLong,
}

/// The lines of standard input, until it ends.
///
/// # Errors
/// No thread can be started.
pub fn lines() -> anyhow::Result<mpsc::Receiver<Line>> {
    let (send, lines) = mpsc::channel(LINES);
    let read = move || {
        // Whatever goes wrong, there is nothing more to read.
        let _ = split(BufReader::new(io::stdin()), |line| send.blocking_send(line).is_ok());
    };
    thread::Builder::new().name("tm-mcp-in".to_owned()).spawn(read).context("cannot start a thread")?;
    Ok(lines)
}

/// Passes lines on until `take` wants no more. Blank ones are left out, and of one that is too long nothing is kept.
fn split(mut from: impl BufRead, mut take: impl FnMut(Line) -> bool) -> io::Result<()> {
    let mut line = Vec::new();
    let mut is_too_long = false;
    loop {
        let room = (LINE_MAX + 1).saturating_sub(line.len());
        let read = match (&mut from).take(room as u64).read_until(b'\n', &mut line) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                thread::sleep(AGAIN);
                continue;
            }
            read => read?,
        };
        let is_whole = line.last() == Some(&b'\n');
        let is_over = line.len() > LINE_MAX && !is_whole;
        if read > 0 && !is_whole && !is_over {
            continue;
        }
        let begins = !std::mem::replace(&mut is_too_long, is_over);
        let text = std::mem::take(&mut line);
        let goes_on = match text.trim_ascii() {
            // The error was sent when it grew too long.
            _ if !begins => true,
            _ if is_over => take(Line::TooLong),
            [] => true,
            text => take(Line::Whole(text.to_vec())),
        };
        if read == 0 || !goes_on {
            return Ok(());
        }
    }
}

/// Standard output.
#[derive(Debug)]
pub struct Messages {
    pub queue: mpsc::Sender<Value>,
    written: oneshot::Receiver<()>,
}

impl Messages {
    /// # Errors
    /// No thread can be started, or no descriptor is left.
    pub fn start() -> anyhow::Result<Self> {
        let mut out = Stream::stdout()?;
        let (queue, mut messages) = mpsc::channel::<Value>(MESSAGES);
        let (done, written) = oneshot::channel();
        let write = move || {
            while let Some(message) = messages.blocking_recv() {
                let mut line = Vec::new();
                // Only a client that has gone makes it fail, and then it gets no more.
                if json::compact(&mut line, &message).is_err() || out.write_all(&[&line[..], b"\n"].concat()).is_err()
                {
                    break;
                }
            }
            drop(messages);
            let _ = done.send(());
        };
        thread::Builder::new().name("tm-mcp-out".to_owned()).spawn(write).context("cannot start a thread")?;
        Ok(Self { queue, written })
    }

    /// Waits until all is written, or the client has gone.
    pub async fn finish(self) {
        drop(self.queue);
        let _ = self.written.await;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn lines_of(bytes: &[u8]) -> Vec<Line> {
        let mut lines = Vec::new();
        split(BufReader::with_capacity(100, bytes), |line| {
            lines.push(line);
            true
        })
        .unwrap();
        lines
    }

    #[test]
    fn a_line_that_is_too_long_is_told_once_and_left_out() {
        let whole = |text: &[u8]| Line::Whole(text.to_vec());
        let long = vec![b'x'; 3 * LINE_MAX + 7];
        let bytes = [b"a\r\n\n  \n", &long[..], b"\nb\n", &long[..LINE_MAX], b"\nlast"].concat();
        let all = [whole(b"a"), Line::TooLong, whole(b"b"), whole(&long[..LINE_MAX]), whole(b"last")];
        assert!(lines_of(&bytes) == all);
        assert_eq!(lines_of(&long), [Line::TooLong]);
        assert_eq!(lines_of(&[&long[..], b"\n"].concat()), [Line::TooLong]);
        assert_eq!(lines_of(b""), []);
    }

    #[test]
    fn reading_ends_where_no_line_is_wanted() {
        let mut taken = 0;
        split(&b"a\nb\nc\n"[..], |_| {
            taken += 1;
            false
        })
        .unwrap();
        assert_eq!(taken, 1);
    }

    proptest! {
        #[test]
        fn lines_are_those_between_line_ends(bytes in proptest::collection::vec(prop_oneof![Just(b'\n'), any::<u8>()], 0..300)) {
            let wanted = bytes.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii).filter(|line| !line.is_empty());
            let wanted: Vec<_> = wanted.map(|line| Line::Whole(line.to_vec())).collect();
            prop_assert_eq!(lines_of(&bytes), wanted);
        }
    }
}
