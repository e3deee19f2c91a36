//! Paragraphs for a terminal: text broken at blanks to a width in columns, with a hanging indent.

use unicode_width::UnicodeWidthStr;

/// Breaks `text` at blanks so that every line, its indent included, is at most `width` columns wide. The first line
/// begins with `first`, the others with blanks of the same width. Words longer than a line are cut through.
#[must_use]
pub fn wrap(first: &str, text: &str, width: usize) -> Vec<String> {
    let indent = first.width();
    let room = width.saturating_sub(indent).max(8);
    let mut lines = crate::text::wrap(text, room);
    if lines.is_empty() {
        lines.push(String::new());
    }
    lines
        .into_iter()
        .enumerate()
        .map(|(number, line)| {
            let begin = if number == 0 { first.to_owned() } else { " ".repeat(indent) };
            (begin + &line).trim_end().to_owned()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn breaks_at_blanks_with_a_hanging_indent() {
        assert_eq!(wrap("1. ", "raise the number of workers", 15), ["1. raise the", "   number of", "   workers"]);
        assert_eq!(wrap("- ", "", 80), ["-"]);
        assert_eq!(wrap("", "abcdefghijkl", 8), ["abcdefgh", "ijkl"]);
    }

    proptest! {
        #[test]
        fn no_line_is_too_wide_and_no_word_is_lost(text in "(\\PC| ){0,200}", width in 20usize..100) {
            let lines = wrap("  ", &text, width);
            prop_assert!(lines.iter().all(|line| line.width() <= width), "{:?}", lines);
            let letters = |text: &str| text.chars().filter(|c| !c.is_whitespace()).collect::<String>();
            prop_assert_eq!(letters(&lines.concat()), letters(&text));
        }
    }
}
