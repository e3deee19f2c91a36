//! A trace's JSON, event by event, in bounded memory: a buffer that holds one event and is filled again as events are taken.
//!
//! The file is Chrome's trace event format, "JSON Object Format" or "JSON Array Format": an object whose `traceEvents` is a list, or
//! the list alone. Profilers write some files that are not quite JSON (bytes that are not UTF-8, `nan`, `\U` of a Windows path): an
//! event that does not parse is repaired and tried once more.

use std::io::{self, Read};

use serde::Deserialize;
use serde_json::Value;

/// The buffer grows by this, bytes.
const CHUNK: usize = 256 << 10;
/// Longest event, and longest value besides the events that is kept, bytes.
const LONGEST_VALUE: usize = 8 << 20;

/// Some editors and Windows programs begin a file with it.
const BYTE_ORDER_MARK: char = '\u{feff}';

/// What takes a trace's parts.
pub trait TraceSink {
    /// Takes the event that `text` begins with, and says how many bytes it has. The error of an event that goes on beyond it is
    /// one of an early end.
    ///
    /// # Errors
    /// The event is not JSON, or cut off.
    fn event(&mut self, text: &str) -> serde_json::Result<usize>;

    /// Whether the value of this key beside the events is wanted.
    fn wants(&mut self, key: &str) -> bool;

    /// Takes such a value.
    fn value(&mut self, key: &str, value: Value);

    /// Whether no more is wanted.
    fn is_full(&self) -> bool {
        false
    }
}

/// Why a file is no trace, or how far it is one.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct TraceEnd {
    /// It ended within an event or a list.
    pub cut_off: bool,
    /// Something follows the end of the list or of the object.
    pub goes_on: bool,
    /// Events that could not be read.
    pub damaged: u64,
    /// Lists of events that were found.
    pub lists: u32,
}

/// The value that the text begins with, and its length in bytes.
///
/// # Errors
/// It is not JSON, of another type, or goes on.
pub fn first_value<'de, T: Deserialize<'de>>(text: &'de str) -> serde_json::Result<(T, usize)> {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<T>();
    let value = values.next();
    let length = values.byte_offset();
    match value {
        Some(value) => value.map(|value| (value, length)),
        // Nothing but white space: an early end, as the parser says it.
        None => serde_json::from_str::<T>("").map(|value| (value, 0)),
    }
}

/// Hands a trace's parts to `sink`.
///
/// # Errors
/// The input cannot be read. A file that is no trace ends with no list of events.
pub(crate) fn read_trace(input: impl Read, sink: &mut impl TraceSink) -> io::Result<TraceEnd> {
    let mut text =
        Buffered { input, bytes: Vec::new(), buffer: String::new(), at: 0, unpacked: false, broken: false };
    let mut end = TraceEnd::default();
    text.fill()?;
    if text.rest().starts_with(BYTE_ORDER_MARK) {
        text.at += BYTE_ORDER_MARK.len_utf8();
    }
    match text.next_byte()? {
        Some(b'[') => list(&mut text, sink, &mut end)?,
        Some(b'{') => object(&mut text, sink, &mut end)?,
        _ => {}
    }
    end.goes_on = end.lists > 0 && !end.cut_off && !sink.is_full() && text.next_byte()?.is_some();
    end.cut_off |= text.broken;
    Ok(end)
}

fn object<R: Read>(text: &mut Buffered<R>, sink: &mut impl TraceSink, end: &mut TraceEnd) -> io::Result<()> {
    text.at += 1;
    loop {
        let key = match text.next_byte()? {
            Some(b'"') => text.whole_value::<String>()?,
            Some(b',') => {
                text.at += 1;
                continue;
            }
            Some(b'}') => {
                text.at += 1;
                return Ok(());
            }
            _ => None,
        };
        // What has no key is no object.
        let (Some(key), Some(b':')) = (key, text.next_byte()?) else {
            end.cut_off = true;
            return Ok(());
        };
        text.at += 1;
        let next = text.next_byte()?;
        if key == "traceEvents" && next == Some(b'[') {
            list(text, sink, end)?;
            if end.cut_off || sink.is_full() {
                return Ok(());
            }
        } else if sink.wants(&key)
            && let Some(value) = text.whole_value::<Value>()?
        {
            sink.value(&key, value);
        } else if !text.skip_value()? {
            end.cut_off = true;
            return Ok(());
        }
    }
}

fn list<R: Read>(text: &mut Buffered<R>, sink: &mut impl TraceSink, end: &mut TraceEnd) -> io::Result<()> {
    text.at += 1;
    end.lists += 1;
    while !sink.is_full() {
        match text.next_byte()? {
            Some(b']') => {
                text.at += 1;
                return Ok(());
            }
            Some(b',') => text.at += 1,
            Some(b'{') => {
                if !event(text, sink, end)? {
                    end.cut_off = true;
                    return Ok(());
                }
            }
            // The format allows a list without its end.
            None => {
                end.cut_off = true;
                return Ok(());
            }
            Some(_) => {
                end.damaged += 1;
                let before = text.at;
                if !text.skip_value()? {
                    end.cut_off = true;
                    return Ok(());
                }
                // A character that begins nothing.
                if text.at == before {
                    text.at += text.rest().chars().next().map_or(0, char::len_utf8);
                }
            }
        }
    }
    Ok(())
}

/// Takes one event; `false` if the file ends within it.
fn event<R: Read>(text: &mut Buffered<R>, sink: &mut impl TraceSink, end: &mut TraceEnd) -> io::Result<bool> {
    loop {
        match sink.event(text.rest()) {
            Ok(length) => {
                text.at += length;
                return Ok(true);
            }
            // What is cut off may look wrong rather than short: within a character, or an escape.
            Err(error)
                if (error.is_eof() || value_length(text.rest()).is_none())
                    && text.rest().len() < LONGEST_VALUE
                    && text.fill()? => {}
            Err(_) => break,
        }
    }
    if let Some(length) = value_length(text.rest())
        && length <= LONGEST_VALUE
        && sink.event(&repaired(text.rest().get(..length).unwrap_or_default())).is_ok()
    {
        text.at += length;
        return Ok(true);
    }
    end.damaged += 1;
    text.skip_value()
}

/// A part of the input, and where in it reading goes on.
struct Buffered<R> {
    input: R,
    /// What was read last; afterwards the begin of a character that is not whole yet.
    bytes: Vec<u8>,
    /// Bytes that are not UTF-8 became U+FFFD.
    buffer: String,
    at: usize,
    /// Anything could be read.
    unpacked: bool,
    /// It could not be read to its end.
    broken: bool,
}

impl<R: Read> Buffered<R> {
    fn rest(&self) -> &str {
        self.buffer.get(self.at..).unwrap_or_default()
    }

    /// Reads more; `false` at the end of the input.
    fn fill(&mut self) -> io::Result<bool> {
        self.buffer.drain(..std::mem::take(&mut self.at));
        let held = self.bytes.len();
        // An event that does not fit is read again from its begin: doubling keeps that in proportion.
        let more = CHUNK.max(self.buffer.len());
        match self.input.by_ref().take(more as u64).read_to_end(&mut self.bytes) {
            Ok(_) => {}
            // A packed file that is cut off or damaged: what was unpacked of it counts.
            Err(error) if self.unpacked => self.broken |= error.kind() != io::ErrorKind::Interrupted,
            Err(error) => return Err(error),
        }
        let is_end = self.bytes.len() == held;
        self.unpacked |= !is_end;
        self.take_text(is_end);
        Ok(!is_end)
    }

    /// Moves what was read to the text.
    fn take_text(&mut self, is_end: bool) {
        let mut bytes = std::mem::take(&mut self.bytes);
        // Nearly always so, and four times as fast as looking for what is wrong.
        if let Ok(text) = str::from_utf8(&bytes) {
            self.buffer.push_str(text);
            bytes.clear();
            self.bytes = bytes;
        } else {
            let mut chunks = bytes.utf8_chunks().peekable();
            while let Some(chunk) = chunks.next() {
                self.buffer.push_str(chunk.valid());
                if !is_end && chunks.peek().is_none() {
                    self.bytes = chunk.invalid().to_vec();
                } else if !chunk.invalid().is_empty() {
                    self.buffer.push(char::REPLACEMENT_CHARACTER);
                }
            }
        }
    }

    /// The next byte that is no white space; it is not taken.
    fn next_byte(&mut self) -> io::Result<Option<u8>> {
        loop {
            let rest = self.rest();
            match rest.bytes().position(|byte| !byte.is_ascii_whitespace()) {
                Some(skipped) => {
                    self.at += skipped;
                    return Ok(self.rest().bytes().next());
                }
                None => self.at = self.buffer.len(),
            }
            if !self.fill()? {
                return Ok(None);
            }
        }
    }

    /// The next value if it is of this type and not too long; else nothing is taken.
    fn whole_value<T: for<'de> Deserialize<'de>>(&mut self) -> io::Result<Option<T>> {
        loop {
            match first_value::<T>(self.rest()) {
                Ok((value, length)) => {
                    self.at += length;
                    return Ok(Some(value));
                }
                Err(error) if error.is_eof() && self.rest().len() < LONGEST_VALUE && self.fill()? => {}
                Err(_) => return Ok(None),
            }
        }
    }

    /// Passes over a value of any length and depth; `false` if the input ends within it.
    fn skip_value(&mut self) -> io::Result<bool> {
        let mut skip = Skip::default();
        loop {
            if let Some(length) = skip.end_in(self.rest()) {
                self.at += length;
                return Ok(true);
            }
            self.at = self.buffer.len();
            if !self.fill()? {
                return Ok(false);
            }
        }
    }
}

/// The length of the value that the text begins with, by its brackets and quotes.
fn value_length(text: &str) -> Option<usize> {
    Skip::default().end_in(text)
}

/// Finds the end of a value by its brackets and quotes.
#[derive(Debug, Default)]
struct Skip {
    depth: u64,
    in_string: bool,
    escaped: bool,
    begun: bool,
}

impl Skip {
    /// Where the value ends in this text, if it does.
    fn end_in(&mut self, text: &str) -> Option<usize> {
        for (at, byte) in text.bytes().enumerate() {
            if self.in_string {
                match byte {
                    _ if self.escaped => self.escaped = false,
                    b'\\' => self.escaped = true,
                    b'"' => {
                        self.in_string = false;
                        if self.depth == 0 {
                            return Some(at + 1);
                        }
                    }
                    _ => {}
                }
                continue;
            }
            match byte {
                b'"' => self.in_string = true,
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' if self.depth == 0 => return Some(at),
                b'}' | b']' => {
                    self.depth -= 1;
                    if self.depth == 0 {
                        return Some(at + 1);
                    }
                }
                b',' if self.depth == 0 && self.begun => return Some(at),
                _ => {}
            }
            self.begun |= !byte.is_ascii_whitespace();
        }
        None
    }
}

/// An event as JSON, where it is almost that: control characters and unknown escapes in strings, and
/// the numbers that JSON has not (`nan`, `inf`) become something that can be read.
fn repaired(event: &str) -> String {
    let mut out = String::with_capacity(event.len());
    let (mut in_string, mut chars) = (false, event.chars().peekable());
    while let Some(one) = chars.next() {
        match one {
            '"' => {
                in_string = !in_string;
                out.push(one);
            }
            '\\' if in_string => match chars.peek().copied() {
                Some(next @ ('"' | '\\' | '/' | 'b' | 'f' | 'n' | 'r' | 't')) => {
                    out.extend([one, next]);
                    chars.next();
                }
                _ => out.push_str("\\\\"),
            },
            one if in_string && one.is_control() => out.push(' '),
            '-' | '+' if !in_string && chars.peek().is_some_and(char::is_ascii_alphabetic) => {}
            one if !in_string && one.is_ascii_alphabetic() => {
                let mut word = String::from(one);
                while let Some(next) = chars.next_if(char::is_ascii_alphabetic) {
                    word.push(next);
                }
                // The exponent of a number is no word.
                let exponent = word.len() == 1 && out.ends_with(|last: char| last.is_ascii_digit());
                let known = exponent || matches!(word.as_str(), "true" | "false" | "null");
                out.push_str(if known { &word } else { "null" });
            }
            one => out.push(one),
        }
    }
    out
}

#[cfg(test)]
#[path = "json_tests.rs"]
mod tests;
