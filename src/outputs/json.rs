//! The verdict as one JSON object.

use std::io::{self, Write};

use crate::diagnosis::Verdict;

/// Writes the verdict over several lines, with a line end: what `diagnose --json` prints.
///
/// # Errors
/// What the writer answers.
pub fn pretty(out: &mut impl Write, verdict: &Verdict) -> io::Result<()> {
    writeln!(out, "{}", serde_json::to_string_pretty(verdict)?)?;
    out.flush()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn one_object_that_reads_back() {
        let verdict = Verdict { schema: 1, command: "a\u{1b}\"b".to_owned(), ..Verdict::default() };
        let mut bytes = Vec::new();
        pretty(&mut bytes, &verdict).unwrap();
        assert_eq!(serde_json::from_slice::<Verdict>(&bytes).unwrap(), verdict);
        assert!(bytes.iter().all(|&b| b >= 0x20 || b == b'\n'));
    }

    #[test]
    fn unknown_is_null_and_own_cost_is_self() {
        let value = serde_json::to_value(Verdict { confidence: f64::NAN, ..Verdict::default() }).unwrap();
        assert!(value["shares"].is_null() && value["confidence"].is_null());
        assert!(value["self"].is_object());
    }
}
