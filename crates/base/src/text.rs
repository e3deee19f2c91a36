//! Makes text from other programs safe to show: command lines, process names, reasons, mount points.
//!
//! The name of a process, a file or a driver may contain escape sequences, line breaks, bidirectional overrides or a
//! hundred combining marks. None of these may reach a terminal or a one-line output, so every string that trainmon did
//! not write itself passes through [`sanitize`] or [`fit`] first. Nothing here knows what a text is about.

pub mod format;
pub mod json;
mod named;
pub mod secrets;
mod shell;

use std::borrow::Cow;

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

pub use crate::named_enum;
pub use shell::{shell_word, sudo_command};

/// Replaces a character that must not be shown (U+FFFD REPLACEMENT CHARACTER).
pub const REPLACEMENT: char = '\u{FFFD}';

/// Combining marks kept after one base character; real scripts need at most two.
const MARKS_KEPT: usize = 2;

/// No word in the vocabulary is nearly this long, bytes.
const LONGEST_WORD: usize = 64;

/// Arguments of a command that are shown where cells are few.
const SHORT_ARGUMENTS: usize = 256;

/// Marks a text that was cut.
const ELLIPSIS: char = '…';

/// How one character is shown, if at all: line breaks and tabs become a space, other controls the replacement
/// character.
fn shown(c: char) -> Option<char> {
    match c {
        ' '..='~' => Some(c),
        '\t' | '\n' | '\r' | '\u{0B}' | '\u{0C}' | '\u{85}' | '\u{2028}' | '\u{2029}' => Some(' '),
        // C0, DEL and C1, including ESC and the single-byte CSI and OSC.
        '\0'..='\u{1F}' | '\u{7F}'..='\u{9F}' => Some(REPLACEMENT),
        // Bidirectional embeddings, overrides, isolates and marks (UAX #9) could reorder the rest of the line.
        '\u{061C}' | '\u{200E}' | '\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{206F}' => Some(REPLACEMENT),
        // Invisible: zero-width spaces and joiners, soft hyphen, byte-order mark, variation selectors (which change the
        // width of the preceding character), tags, fillers.
        '\u{AD}'
        | '\u{034F}'
        | '\u{115F}'
        | '\u{1160}'
        | '\u{17B4}'
        | '\u{17B5}'
        | '\u{180B}'..='\u{180F}'
        | '\u{200B}'..='\u{200D}'
        | '\u{2060}'..='\u{2065}'
        | '\u{3164}'
        | '\u{FE00}'..='\u{FE0F}'
        | '\u{FEFF}'
        | '\u{FFA0}'
        | '\u{FFF0}'..='\u{FFFB}'
        | '\u{1BCA0}'..='\u{1BCA3}'
        | '\u{1D173}'..='\u{1D17A}'
        | '\u{E0000}'..='\u{E0FFF}' => None,
        _ => Some(c),
    }
}

/// The printable characters of `text`, each with its width in terminal cells.
fn cells(text: &str) -> impl Iterator<Item = (char, usize)> {
    let mut marks = MARKS_KEPT; // a mark at the very start has no base character
    text.chars().filter_map(shown).filter_map(move |c| {
        let width = c.width().unwrap_or(0);
        marks = if width == 0 { marks + 1 } else { 0 };
        (marks <= MARKS_KEPT).then_some((c, width))
    })
}

/// The characters of `text`: where each begins, its length in bytes, and whether it is shown unchanged.
fn judged(text: &str) -> impl Iterator<Item = (usize, usize, bool)> {
    let mut marks = MARKS_KEPT;
    text.char_indices().map(move |(at, c)| {
        let is_shown = shown(c) == Some(c);
        if is_shown {
            marks = if c.width().unwrap_or(0) == 0 { marks + 1 } else { 0 };
        }
        (at, c.len_utf8(), is_shown && marks <= MARKS_KEPT)
    })
}

/// Printable ASCII: most text, and quick to check.
fn is_plain(text: &str) -> bool {
    text.bytes().all(|b| (b' '..=b'~').contains(&b))
}

/// `text` on one line and without anything that could steer a terminal. Borrows if nothing had to change.
///
/// Printable text is returned unchanged; the function is idempotent.
pub fn sanitize(text: &str) -> Cow<'_, str> {
    if is_plain(text) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(cells(text).map(|(c, _)| c).collect())
}

/// Sanitizes `text` and cuts it to at most `width` terminal cells, ending in `…` if something was cut.
///
/// Reads no more of `text` than it shows, so a 4 KiB command line costs no more than its cells.
pub fn fit(text: &str, width: usize) -> String {
    let mut out = String::with_capacity(width.min(256));
    let mut used = 0;
    let mut last_fitting = 0; // byte length at which an ellipsis still fits
    for (c, w) in cells(text) {
        if used + w > width {
            out.truncate(last_fitting);
            if width > 0 {
                out.push(ELLIPSIS);
            }
            return out;
        }
        used += w;
        out.push(c);
        if used < width {
            last_fitting = out.len();
        }
    }
    out
}

/// Like [`fit`], but what is cut is the part before `end`, so that it stays readable: `Move it out … (train.py:52)`.
///
/// A text that fits is returned unchanged. An `end` that leaves no room for any text is dropped.
pub fn fit_before(text: &str, end: &str, width: usize) -> String {
    let room = width.saturating_sub(end.width() + 1);
    if text.width() <= width || end.is_empty() || room < LEAST_BEFORE {
        return fit(text, width);
    }
    let text = text.strip_suffix(end).unwrap_or(text);
    // One cell more than fits, so that the ellipsis shows even where the text ends at a word.
    let cut = fit(&format!("{text} "), room.min(text.width().saturating_sub(1)));
    format!("{} {}", cut.trim_end(), sanitize(end))
}

/// Fewest cells of a text that is cut before its end.
const LEAST_BEFORE: usize = 12;

/// The place in parentheses at the end of `text`: `(train.py:52)`; empty if it has no such end.
pub fn place_at_end(text: &str) -> &str {
    let at = if text.ends_with(')') { text.rfind(" (") } else { None };
    at.map_or("", |at| &text[at + 1..])
}

/// Breaks sanitized `text` into lines of at most `width` cells at spaces, or inside a word that is longer than a line.
/// A character wider than a whole line (they take up to three cells) becomes the replacement character.
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    let width = width.max(1);
    let mut lines = Vec::new();
    let mut line = String::new();
    let mut used = 0;
    for word in sanitize(text).split(' ').filter(|w| !w.is_empty()) {
        let word = word.chars().map(|c| match c.width().unwrap_or(0) {
            w if w > width => (REPLACEMENT, 1),
            w => (c, w),
        });
        let word_width: usize = word.clone().map(|(_, w)| w).sum();
        if used > 0 && used + 1 + word_width > width {
            lines.push(std::mem::take(&mut line));
            used = 0;
        }
        if used > 0 {
            line.push(' ');
            used += 1;
        }
        for (c, w) in word {
            if used + w > width && used > 0 {
                lines.push(std::mem::take(&mut line));
                used = 0;
            }
            line.push(c);
            used += w;
        }
    }
    if !line.is_empty() {
        lines.push(line);
    }
    lines
}

/// [`wrap`] with a hanging indent: the first line begins with `first`, the others with as many blanks. `width` is that
/// of the whole lines; an empty text gives one line.
pub fn wrap_hanging(first: &str, text: &str, width: usize) -> Vec<String> {
    let indent = first.width();
    let mut lines = wrap(text, width.saturating_sub(indent).max(8));
    if lines.is_empty() {
        lines.push(String::new());
    }
    let begin = |number| if number == 0 { first.to_owned() } else { " ".repeat(indent) };
    lines.iter().enumerate().map(|(number, line)| (begin(number) + line).trim_end().to_owned()).collect()
}

/// A command line without the directories of its program and of its first Python file: where cells are few, the names
/// say more than the paths.
pub fn short_command(command: &str) -> String {
    let mut script = false;
    let shown = command.split(' ').enumerate().map(|(place, argument)| {
        let is_script = !script && argument.ends_with(".py");
        script |= is_script;
        let long = (place == 0 || is_script) && argument.contains('/') && !argument.ends_with('/');
        if long { argument.rsplit('/').next().unwrap_or_default() } else { argument }
    });
    // 4 KiB of arguments are not put together again for a title of a hundred cells.
    let first: Vec<&str> = shown.take(SHORT_ARGUMENTS).collect();
    first.join(" ")
}

/// Whether a word is in this blank-separated list.
pub fn is_one_of(words: &str, word: &str) -> bool {
    words.split(' ').any(|known| known == word)
}

/// The word spelled most like this one, if any is similar enough.
pub fn nearest<'k>(word: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    // The comparison takes time and memory in proportion to the product of both lengths.
    let word = word.get(..word.len().min(LONGEST_WORD)).unwrap_or_default();
    let alike = |known| (strsim::normalized_damerau_levenshtein(&word.to_ascii_lowercase(), known), known);
    let found = known.into_iter().map(alike).max_by(|(a, _), (b, _)| a.total_cmp(b));
    // Less similarity than this (two differing letters in five) would be a guess.
    found.filter(|(alike, _)| *alike >= 0.6).map(|(_, known)| known)
}

/// What is wrong with a text at a byte offset, in one line. Lines and columns count from 1, columns in characters.
pub fn refused(text: &str, offset: usize, what: &str) -> String {
    let before = text.get(..offset).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    format!("line {line}, column {column}: {}", what.replace('\n', " "))
}

/// [`refused`] for invalid TOML, or TOML of the wrong shape.
pub fn refused_by_toml(text: &str, error: &toml::de::Error) -> String {
    refused(text, error.span().map_or(0, |span| span.start), error.message())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn escapes_and_line_breaks_are_taken_out() {
        assert_eq!(sanitize("a\x1b[31mb\x07c\nd\te"), "a\u{FFFD}[31mb\u{FFFD}c d e");
        assert_eq!(sanitize("\u{9b}2J"), "\u{FFFD}2J");
        assert_eq!(sanitize("exe\u{202E}gpj"), "exe\u{FFFD}gpj");
        assert_eq!(sanitize("zero\u{200B}width"), "zerowidth");
    }

    #[test]
    fn ordinary_text_is_borrowed() {
        assert!(matches!(sanitize("python train.py --lr 0.1"), Cow::Borrowed(_)));
    }

    #[test]
    fn combining_marks_are_bounded() {
        let zalgo = format!("a{}", "\u{0301}".repeat(50));
        assert_eq!(sanitize(&zalgo).chars().count(), 3);
        assert_eq!(sanitize("\u{0301}a"), "a");
    }

    #[test]
    fn fitting_counts_cells_not_characters() {
        assert_eq!(fit("abcdef", 6), "abcdef");
        assert_eq!(fit("abcdefg", 6), "abcde…");
        assert_eq!(fit("日本語のデータ", 7), "日本語…");
        assert_eq!(fit("日本", 1), "…");
        assert_eq!(fit("abc", 0), "");
        assert_eq!(fit("", 5), "");
    }

    #[test]
    fn the_end_of_a_cut_text_is_kept() {
        let advice = "Make it cheaper, or move it out of the step: burn (common.py:234)";
        assert_eq!(place_at_end(advice), "(common.py:234)");
        assert_eq!(fit_before(advice, "(common.py:234)", 80), advice);
        assert_eq!(fit_before(advice, "(common.py:234)", 40), "Make it cheaper, or mov… (common.py:234)");
        assert_eq!(fit_before("a single worker … (a.py:1)", "(a.py:1)", 24), "a single worke… (a.py:1)");
        assert_eq!(fit_before(advice, "(common.py:234)", 20), "Make it cheaper, or…", "the end leaves no room");
        assert_eq!((place_at_end("Raise it (to 2) now"), place_at_end("(a.py:1)")), ("", ""));
    }

    #[test]
    fn wrapping_breaks_at_spaces_and_inside_long_words() {
        assert_eq!(wrap("the quick brown fox", 10), ["the quick", "brown fox"]);
        assert_eq!(wrap("abcdefghij kl", 4), ["abcd", "efgh", "ij", "kl"]);
        assert_eq!(wrap("", 4), Vec::<String>::new());
    }

    #[test]
    fn wrapping_replaces_what_no_line_can_hold() {
        assert_eq!(wrap("a日b", 1), ["a", "\u{FFFD}", "b"]);
        // KHMER SIGN BEYYAL takes three cells.
        assert_eq!(wrap("a\u{17D8}b", 2), ["a\u{FFFD}", "b"]);
        assert_eq!(wrap("a\u{17D8}b", 3), ["a", "\u{17D8}", "b"]);
    }

    #[test]
    fn wrapping_with_a_hanging_indent() {
        assert_eq!(
            wrap_hanging("1. ", "raise the number of workers", 15),
            ["1. raise the", "   number of", "   workers"]
        );
        assert_eq!(wrap_hanging("- ", "", 80), ["-"]);
        assert_eq!(wrap_hanging("", "abcdefghijkl", 8), ["abcdefgh", "ijkl"]);
    }

    proptest! {
        #[test]
        fn sanitized_text_holds_nothing_dangerous_and_is_stable(text in any::<String>()) {
            let once = sanitize(&text).into_owned();
            prop_assert!(!once.chars().any(char::is_control));
            let bidi = once.chars().any(|c| matches!(c, '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}'));
            prop_assert!(!bidi);
            prop_assert_eq!(sanitize(&once), once.as_str());
        }

        #[test]
        fn fitted_text_is_never_wider_than_asked(text in any::<String>(), width in 0usize..60) {
            prop_assert!(fit(&text, width).width() <= width);
        }

        #[test]
        fn text_that_fits_is_not_cut(text in "[ -~]{0,40}") {
            prop_assert_eq!(fit(&text, 40), text);
        }

        #[test]
        fn texts_cut_before_their_end_are_never_wider_than_asked(text in any::<String>(), end in "\\(\\PC{0,12}\\)", width in 0usize..60) {
            let cut = fit_before(&(text + &end), &end, width);
            prop_assert!(cut.width() <= width, "{cut:?}");
        }

        #[test]
        fn wrapped_lines_fit_and_lose_no_word(text in "(?s)(.|[\u{17D8}日 a])*", width in 1usize..60) {
            let lines = wrap(&text, width);
            for line in &lines {
                prop_assert!(line.as_str().width() <= width, "{line:?}");
            }
            let squeeze = |s: &str| s.chars().filter(|c| *c != ' ').collect::<String>();
            let kept = |c: char| if c.width().unwrap_or(0) > width { REPLACEMENT } else { c };
            prop_assert_eq!(squeeze(&lines.concat()), squeeze(&sanitize(&text)).chars().map(kept).collect::<String>());
        }

        #[test]
        fn hanging_lines_fit_and_lose_no_word(text in "(\\PC| ){0,200}", width in 20usize..100) {
            let lines = wrap_hanging("  ", &text, width);
            prop_assert!(lines.iter().all(|line| line.width() <= width), "{:?}", lines);
            let letters = |text: &str| text.chars().filter(|c| !c.is_whitespace()).collect::<String>();
            // What may not be shown is taken out before.
            prop_assert_eq!(letters(&lines.concat()), letters(&sanitize(&text)));
        }
    }
}
