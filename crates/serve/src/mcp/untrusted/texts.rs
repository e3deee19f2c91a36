//! Takes all texts out of a value, whatever its type: it is written as JSON to nowhere, and the formatter sees each of them.

use std::io;

use serde::Serialize;
use serde_json::Serializer;
use serde_json::ser::{CharEscape, Formatter};

/// Passes on each text of a value, with the key that it is below.
pub(super) fn each_text(value: &impl Serialize, take: impl FnMut(&str, &str)) {
    let collector = TextCollector { take, key: String::new(), text: String::new(), is_key: false };
    // A sink takes everything, and a value with a key that is no text has no name for anything.
    let _ = value.serialize(&mut Serializer::with_formatter(io::sink(), collector));
}

struct TextCollector<F> {
    take: F,
    key: String,
    text: String,
    is_key: bool,
}

impl<F: FnMut(&str, &str)> Formatter for TextCollector<F> {
    fn begin_object_key<W: ?Sized + io::Write>(&mut self, _: &mut W, _: bool) -> io::Result<()> {
        self.is_key = true;
        Ok(())
    }

    fn end_object_key<W: ?Sized + io::Write>(&mut self, _: &mut W) -> io::Result<()> {
        self.is_key = false;
        Ok(())
    }

    fn begin_string<W: ?Sized + io::Write>(&mut self, _: &mut W) -> io::Result<()> {
        self.text.clear();
        Ok(())
    }

    fn write_string_fragment<W: ?Sized + io::Write>(&mut self, _: &mut W, fragment: &str) -> io::Result<()> {
        self.text.push_str(fragment);
        Ok(())
    }

    fn write_char_escape<W: ?Sized + io::Write>(&mut self, _: &mut W, escape: CharEscape) -> io::Result<()> {
        self.text.push(match escape {
            CharEscape::Quote => '"',
            CharEscape::ReverseSolidus => '\\',
            CharEscape::Solidus => '/',
            CharEscape::Backspace => '\u{8}',
            CharEscape::FormFeed => '\u{c}',
            CharEscape::LineFeed => '\n',
            CharEscape::CarriageReturn => '\r',
            CharEscape::Tab => '\t',
            CharEscape::AsciiControl(byte) => char::from(byte),
        });
        Ok(())
    }

    fn end_string<W: ?Sized + io::Write>(&mut self, _: &mut W) -> io::Result<()> {
        if self.is_key {
            self.key.clone_from(&self.text);
        } else {
            (self.take)(&self.key, &self.text);
        }
        Ok(())
    }
}
