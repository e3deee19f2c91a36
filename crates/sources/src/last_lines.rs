//! The last lines of a program's output that say why it ended: the end of its last traceback, or the lines at the very end.
//!
//! The text is another program's: it may be of any length and hold anything. What is kept is short, on one line each, without control
//! characters, and secrets are masked.

use std::sync::Arc;

use trainmon_base::text::{fit, sanitize, secrets};
use trainmon_sample::stacks::is_user_code;

/// What Python writes before a stack (Lib/traceback.py).
const TRACEBACK: &str = "Traceback (most recent call last):";
/// Frames at the end of a traceback that are kept, each with its line of code.
const FRAMES: usize = 2;
/// Lines of the exception that are kept: its message may have more.
const MESSAGE: usize = 2;
/// Lines that are kept without a traceback.
const LINES_AT_END: usize = 3;
/// Longest line that is kept, cells.
const LINE_WIDTH: usize = 200;
/// Of a longer line only the begin is looked at, bytes.
const LINE_LOOKED_AT: usize = 4096;

/// The lines that were found.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct LastLines {
    /// The lines.
    pub lines: Vec<Arc<str>>,
    /// They are the end of a traceback.
    pub traceback: bool,
    /// Lines with text that follow the traceback.
    pub lines_after: u32,
}

/// The last lines in the end of a file.
pub fn last_lines(end: &[u8]) -> LastLines {
    let lines: Vec<String> = end.split(|byte| *byte == b'\n').map(shown).collect();
    let traceback = (0..lines.len()).rev().find_map(|at| traceback_at(&lines, at));
    let Some((kept, after)) = traceback else {
        let mut last: Vec<&str> =
            lines.iter().rev().map(String::as_str).filter(|line| has_text(line)).take(LINES_AT_END).collect();
        last.reverse();
        return LastLines { lines: last.into_iter().map(kept_line).collect(), ..LastLines::default() };
    };
    let after = lines.get(after..).unwrap_or_default().iter().filter(|line| has_text(line)).count();
    LastLines {
        lines: kept.into_iter().map(kept_line).collect(),
        traceback: true,
        lines_after: u32::try_from(after).unwrap_or(u32::MAX),
    }
}

fn has_text(line: &str) -> bool {
    !line.trim().is_empty()
}

fn kept_line(line: &str) -> Arc<str> {
    fit(secrets::prose(&sanitize(line.trim_end())).as_ref(), LINE_WIDTH).into()
}

/// A line as a terminal shows it: what a carriage return has overwritten is gone, and so are colors.
fn shown(line: &[u8]) -> String {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let last = line.rsplit(|byte| *byte == b'\r').find(|part| !part.is_empty()).unwrap_or_default();
    let text = String::from_utf8_lossy(last.get(..LINE_LOOKED_AT).unwrap_or(last));
    let mut out = String::with_capacity(text.len());
    let mut parts = text.split("\u{1b}[");
    out.push_str(parts.next().unwrap_or_default());
    // A control sequence ends with a byte from `@` to `~` (ECMA-48, 5.4).
    for part in parts {
        let end = part.find(|c: char| ('@'..='~').contains(&c)).map_or(part.len(), |at| at + 1);
        out.push_str(part.get(end..).unwrap_or_default());
    }
    out
}

/// The end of the traceback that begins at this line, and the line behind it; `None` if none begins there, or it has no end.
fn traceback_at(lines: &[String], at: usize) -> Option<(Vec<&str>, usize)> {
    let (before, _) = lines.get(at)?.split_once(TRACEBACK)?;
    let rest = lines.get(at + 1..)?;
    // Launchers put the name of the rank before each line.
    let lead = if rest.first()?.starts_with(before) { before } else { "" };
    let body = || rest.iter().map_while(|line| line.strip_prefix(lead));
    let is_inside = |line: &str| line.starts_with([' ', '\t']);
    let length = body().take_while(|line| is_inside(line)).count();
    // Each frame, and the lines of code below it.
    let mut frames: Vec<Vec<&str>> = Vec::new();
    for line in body().take(length) {
        match frames.last_mut() {
            _ if line.trim_start().starts_with("File \"") => frames.push(vec![line]),
            // Carets mark a part of the line of code.
            Some(frame) if !line.trim().chars().all(|c| matches!(c, '^' | '~' | ' ')) => frame.push(line),
            _ => {}
        }
    }
    let message: Vec<&str> = body().skip(length).take_while(|line| has_text(line)).take(MESSAGE).collect();
    let exception = message.first()?;
    if frames.is_empty() || !is_exception(exception) {
        return None;
    }
    // The user's own place, if it is not among the last frames.
    let first_last = frames.len().saturating_sub(FRAMES);
    let own = frames.iter().rposition(|frame| frame.first().is_some_and(|line| is_own(line)));
    let own = own.filter(|place| *place < first_last).and_then(|place| frames.get(place));
    let mut kept: Vec<&str> =
        own.into_iter().chain(frames.iter().skip(first_last)).flat_map(|f| f.iter().take(2)).copied().collect();
    // What follows an exception may be another program's line: only where the message is still to come is it taken.
    let with_next = exception.trim_end().ends_with(':');
    kept.extend(message.iter().take(if with_next { MESSAGE } else { 1 }));
    Some((kept, at + 1 + length + if with_next { message.len() } else { 1 }))
}

/// Whether a line names an exception: `ValueError: no`, `torch.OutOfMemoryError: …`, `KeyboardInterrupt`.
fn is_exception(line: &str) -> bool {
    let name = line.split(':').next().unwrap_or_default().trim_end();
    let plain = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.');
    name.starts_with(|c: char| c.is_alphabetic() || c == '_') && name.chars().all(plain)
}

/// Whether a frame is in the user's own code.
fn is_own(line: &str) -> bool {
    let file = line.trim_start().strip_prefix("File \"").and_then(|rest| rest.split('"').next());
    file.is_some_and(is_user_code)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn found(text: &str) -> (Vec<String>, bool, u32) {
        let LastLines { lines, traceback, lines_after } = last_lines(text.as_bytes());
        (lines.iter().map(|line| line.to_string()).collect(), traceback, lines_after)
    }

    #[test]
    fn the_end_of_a_traceback_and_the_users_own_place_are_kept() {
        let text = "step 1\nTraceback (most recent call last):\n  File \"/home/a/train.py\", line 9, in <module>\n    main()\n    ~~~~^^\n  \
                    File \"/home/a/train.py\", line 5, in main\n    loss.backward()\n  \
                    File \"/v/lib/python3.12/site-packages/torch/_tensor.py\", line 581, in backward\n    torch.autograd.backward(\n  \
                    File \"/v/lib/python3.12/site-packages/torch/autograd/__init__.py\", line 347, in backward\n    _engine_run_backward(\n\
                    RuntimeError: CUDA error: an illegal memory access\nwandb: done\n\n";
        let (lines, traceback, after) = found(text);
        assert_eq!((traceback, after, lines.len()), (true, 1, 7));
        assert_eq!(lines[0], "  File \"/home/a/train.py\", line 5, in main");
        assert_eq!(lines[1], "    loss.backward()");
        assert!(lines[2].contains("_tensor.py") && lines[4].contains("autograd/__init__.py"));
        assert_eq!(lines[6], "RuntimeError: CUDA error: an illegal memory access");
    }

    #[test]
    fn tracebacks_of_ranks_workers_and_launchers_are_read() {
        let rank = "[rank1]: Traceback (most recent call last):\n[rank1]:   File \"a.py\", line 1, in <module>\n[rank1]:     f()\n[rank1]: ValueError: bad\nother\n";
        assert_eq!(
            found(rank),
            (
                vec!["  File \"a.py\", line 1, in <module>".into(), "    f()".into(), "ValueError: bad".into()],
                true,
                1
            )
        );
        let worker = "Traceback (most recent call last):\n  File \"a.py\", line 1, in <module>\n    f()\n\
                      RuntimeError: Caught ValueError in DataLoader worker process 0.\n\
                      Original Traceback (most recent call last):\n  File \"b.py\", line 2, in g\n    h()\nValueError: bad image\n";
        assert_eq!(found(worker).0.last().unwrap(), "ValueError: bad image");
        let launcher = "Traceback (most recent call last):\n  File \"run.py\", line 1, in main\n    run()\n\
                        torch.distributed.elastic.ChildFailedError: \n=====\ntrain.py FAILED\n";
        assert_eq!(
            found(launcher).0[2..],
            ["torch.distributed.elastic.ChildFailedError:".to_owned(), "=====".to_owned()]
        );
    }

    #[test]
    fn without_a_traceback_the_last_lines_are_what_a_terminal_shows() {
        let text = "one\ntwo\r\n\u{1b}[31mthree\u{1b}[0m\n 1%|#| 1/9 [0:1<2]\r 2%|#| 2/9 [0:1<2]\nKilled\n\n";
        assert_eq!(found(text), (vec!["three".into(), " 2%|#| 2/9 [0:1<2]".into(), "Killed".into()], false, 0));
        assert_eq!(found(""), (vec![], false, 0));
        let unfinished = "Traceback (most recent call last):\n  File \"a.py\", line 1, in <module>\n";
        assert!(!found(unfinished).1, "the exception is missing");
    }

    #[test]
    fn what_is_kept_is_harmless() {
        let text =
            format!("HF_TOKEN=hf_abcdefghijklmnopqrstuvwxyz012345 x\n\u{1b}]0;title\u{7} {}\n", "y".repeat(1 << 20));
        let (lines, ..) = found(&text);
        assert!(!lines[0].contains("abcdefgh"), "{lines:?}");
        assert!(
            lines.iter().all(|line| line.chars().count() <= LINE_WIDTH && !line.chars().any(char::is_control)),
            "{lines:?}"
        );
    }

    proptest! {
        #[test]
        fn any_text_gives_few_short_lines(text in "(Traceback \\(most recent call last\\):|  File \"a\", line 1|E: x|\\PC{0,8}|\n|\r|\x1b\\[){0,40}", bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            for found in [last_lines(text.as_bytes()), last_lines(&bytes)] {
                prop_assert!(found.lines.len() <= 2 * (FRAMES + 1) + MESSAGE);
                prop_assert!(found.lines.iter().all(|line| !line.chars().any(char::is_control)));
            }
        }
    }
}
