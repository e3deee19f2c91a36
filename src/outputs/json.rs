//! The verdict as one JSON object.

use std::io::{self, Write};

use crate::diagnosis::Verdict;

/// Writes the verdict over several lines, with a line end: what `diagnose --json` prints.
///
/// # Errors
/// What the writer answers.
pub fn pretty(out: &mut impl Write, verdict: &Verdict) -> io::Result<()> {
    let mut text = serde_json::to_string_pretty(verdict)?;
    text.push('\n');
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// Writes the verdict on one line, with a line end.
///
/// # Errors
/// What the writer answers.
pub fn compact(out: &mut impl Write, verdict: &Verdict) -> io::Result<()> {
    let mut text = serde_json::to_string(verdict)?;
    text.push('\n');
    out.write_all(text.as_bytes())?;
    out.flush()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn one_object_that_reads_back() {
        let verdict = Verdict { schema: 1, command: "a\u{1b}\"b".to_owned(), ..Verdict::default() };
        let (mut many, mut one) = (Vec::new(), Vec::new());
        pretty(&mut many, &verdict).unwrap();
        compact(&mut one, &verdict).unwrap();
        assert_eq!(one.iter().filter(|&&b| b == b'\n').count(), 1);
        for bytes in [many, one] {
            assert_eq!(serde_json::from_slice::<Verdict>(&bytes).unwrap(), verdict);
            assert!(bytes.iter().all(|&b| b >= 0x20 || b == b'\n'));
        }
    }

    #[test]
    fn unknown_is_null_and_own_cost_is_self() {
        let value = serde_json::to_value(Verdict { confidence: f64::NAN, ..Verdict::default() }).unwrap();
        assert!(value["shares"].is_null() && value["confidence"].is_null());
        assert!(value["self"].is_object());
    }
}
