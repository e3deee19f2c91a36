//! External text made safe to show: command lines, process names, device names and paths may hold anything.

use std::borrow::Cow;

/// Replaces what could move the cursor, recolour, reorder or break a line: control characters (escape and newline
/// among them), bidirectional marks and overrides, line and paragraph separators, invisible format characters.
///
/// Tabs and newlines become a space; everything else that is replaced becomes U+FFFD.
#[must_use]
pub fn sanitise(text: &str) -> Cow<'_, str> {
    if !text.chars().any(unsafe_to_show) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(
        text.chars()
            .map(|c| match c {
                '\t' | '\n' | '\r' => ' ',
                c if unsafe_to_show(c) => char::REPLACEMENT_CHARACTER,
                c => c,
            })
            .collect(),
    )
}

/// Control characters (C0, DEL, C1) and the format characters of Unicode's `Bidi_Control` property and their kin.
fn unsafe_to_show(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_text_is_borrowed() {
        assert!(matches!(sanitise("python träin.py 日本"), Cow::Borrowed(_)));
    }

    #[test]
    fn escapes_and_overrides_are_replaced() {
        assert_eq!(sanitise("a\u{1b}[31mb\nc\u{202e}d"), "a\u{fffd}[31mb c\u{fffd}d");
    }
}
