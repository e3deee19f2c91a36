//! JSON that may be printed to a terminal: every character that [`super::sanitise`] would replace or leave out is written as
//! `\uXXXX`. Whoever reads the JSON gets the very same text; `cat` shows nothing that could steer a terminal or reorder a line.
//!
//! Everything that trainmon writes as JSON goes through here.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::ser::{CompactFormatter, Formatter, PrettyFormatter, Serializer};

/// Writes a value on one line, without a line end.
///
/// # Errors
/// What the writer answers, or that the value cannot be written as JSON.
pub fn compact(out: impl Write, value: &impl Serialize) -> io::Result<()> {
    Ok(value.serialize(&mut Serializer::with_formatter(out, Escaping(CompactFormatter)))?)
}

/// Writes a value over several lines, with a line end.
///
/// # Errors
/// As [`compact`].
pub fn pretty(mut out: impl Write, value: &impl Serialize) -> io::Result<()> {
    value.serialize(&mut Serializer::with_formatter(&mut out, Escaping(PrettyFormatter::new())))?;
    out.write_all(b"\n")
}

/// A formatter that escapes more than serde_json does, which escapes what RFC 8259 asks for: quotes, backslashes and C0.
struct Escaping<F>(F);

impl<F: Formatter> Formatter for Escaping<F> {
    fn write_string_fragment<W: ?Sized + Write>(&mut self, out: &mut W, fragment: &str) -> io::Result<()> {
        if super::is_plain(fragment) {
            return out.write_all(fragment.as_bytes());
        }
        let mut written = 0;
        for (at, length, is_shown) in super::judged(fragment) {
            if is_shown {
                continue;
            }
            let end = at + length;
            out.write_all(fragment.get(written..at).unwrap_or_default().as_bytes())?;
            for unit in fragment.get(at..end).unwrap_or_default().encode_utf16() {
                write!(out, "\\u{unit:04x}")?;
            }
            written = end;
        }
        out.write_all(fragment.get(written..).unwrap_or_default().as_bytes())
    }

    // What follows only hands on: the defaults of the trait write compact JSON.

    fn begin_array<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.0.begin_array(out)
    }

    fn end_array<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.0.end_array(out)
    }

    fn begin_array_value<W: ?Sized + Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        self.0.begin_array_value(out, first)
    }

    fn end_array_value<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.0.end_array_value(out)
    }

    fn begin_object<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.0.begin_object(out)
    }

    fn end_object<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.0.end_object(out)
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        self.0.begin_object_key(out, first)
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.0.begin_object_value(out)
    }

    fn end_object_value<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.0.end_object_value(out)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
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
                prop_assert_eq!(crate::text::sanitise(&shown), shown.as_str());
                prop_assert_eq!(&serde_json::from_str::<BTreeMap<String, String>>(&written).unwrap(), &value);
            }
        }
    }
}
