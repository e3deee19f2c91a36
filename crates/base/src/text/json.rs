//! JSON that is safe to print to a terminal: every character that [`super::sanitize`] would replace or drop is written
//! as `\uXXXX`. Parsing the JSON gives the very same text; `cat` shows nothing that could steer a terminal or reorder a
//! line.
//!
//! Everything that trainmon writes as JSON goes through here.

use std::io::{self, Write};

use serde::Serialize;

/// Writes a value on one line, without a newline.
///
/// # Errors
/// The writer's, or that the value cannot be written as JSON.
pub fn compact(out: impl Write, value: &impl Serialize) -> io::Result<()> {
    Ok(serde_json::to_writer(Escaping(out), value)?)
}

/// Writes a value over several lines, with a newline.
///
/// # Errors
/// Same as [`compact`].
pub fn pretty(mut out: impl Write, value: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer_pretty(Escaping(&mut out), value)?;
    out.write_all(b"\n")
}

/// Escapes more than serde_json, which escapes only what RFC 8259 requires: quotes, backslashes and C0. Anything else
/// that needs it is inside a string, and not a line break. serde_json passes on whole characters.
struct Escaping<W>(W);

impl<W: Write> Write for Escaping<W> {
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        let text = str::from_utf8(piece).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        if super::is_plain(text) {
            self.0.write_all(piece)?;
            return Ok(piece.len());
        }
        for (at, length, is_shown) in super::judged(text) {
            let character = text.get(at..at + length).unwrap_or_default();
            if is_shown || character == "\n" {
                self.0.write_all(character.as_bytes())?;
                continue;
            }
            for unit in character.encode_utf16() {
                write!(self.0, "\\u{unit:04x}")?;
            }
        }
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn both(value: &impl Serialize) -> [String; 2] {
        let (mut one_line, mut lines) = (Vec::new(), Vec::new());
        compact(&mut one_line, value).unwrap();
        pretty(&mut lines, value).unwrap();
        [one_line, lines].map(|bytes| String::from_utf8(bytes).unwrap())
    }

    #[test]
    fn what_is_not_shown_is_escaped() {
        let text = "a\u{1b}[2J\n\u{9b}2J\u{202e}\u{200b}\u{2028}\u{e0041}é日";
        let wanted = r#""a\u001b[2J\n\u009b2J\u202e\u200b\u2028\udb40\udc41é日""#;
        assert_eq!(both(&text), [wanted.to_owned(), format!("{wanted}\n")]);
    }

    #[test]
    fn the_rest_is_written_as_serde_json_writes_it() {
        let value = serde_json::json!({"a": [1, 2.5, null, true, {}], "b": {"c": "d \"e\" \\"}, "f": []});
        let [one_line, lines] = both(&value);
        assert_eq!(one_line, serde_json::to_string(&value).unwrap());
        assert_eq!(lines, serde_json::to_string_pretty(&value).unwrap() + "\n");
    }

    proptest! {
        #[test]
        fn any_text_reads_back_and_is_harmless(key in any::<String>(), text in "(\\PC|[\u{0}-\u{ff}\u{200b}-\u{202f}\u{301}]){0,40}") {
            let value = BTreeMap::from([(key, text)]);
            for written in both(&value) {
                let shown = written.replace('\n', "");
                prop_assert_eq!(crate::text::sanitize(&shown), shown.as_str());
                prop_assert_eq!(&serde_json::from_str::<BTreeMap<String, String>>(&written).unwrap(), &value);
            }
        }
    }
}
