//! Tables of text: columns of fixed widths, followed by a text that takes the remaining cells.

use std::borrow::Cow;

use super::text::cells;
use trainmon_base::text::fit;

/// A column: its heading, and its width. A positive width is a right-aligned number; a negative one is a left-aligned
/// word with a blank after it.
pub type Column = (&'static str, i16);

/// A value in the width of its column; words that are too long are cut, numbers are not.
pub fn set(text: &str, width: i16) -> String {
    let room = usize::from(width.unsigned_abs());
    if width >= 0 {
        return format!("{}{text}", " ".repeat(room.saturating_sub(usize::from(cells(text)))));
    }
    let text = fit(text, room.saturating_sub(1));
    format!("{text}{}", " ".repeat(room.saturating_sub(usize::from(cells(&text)))))
}

/// The headings of columns. A heading may extend over columns with empty headings.
pub fn headings(columns: &[Column]) -> String {
    let mut line = String::new();
    let mut end = 0;
    for (heading, width) in columns {
        let start = end;
        end += usize::from(width.unsigned_abs());
        let blanks = if *width < 0 { start } else { end.saturating_sub(heading.chars().count()) };
        if !heading.is_empty() {
            let have = line.chars().count();
            line.push_str(&" ".repeat(blanks.saturating_sub(have)));
            line.push_str(heading);
        }
    }
    let have = line.chars().count();
    line + &" ".repeat(end.saturating_sub(have))
}

/// One row.
pub fn row<'c>(columns: &[Column], values: impl IntoIterator<Item = impl Into<Cow<'c, str>>>) -> String {
    columns.iter().zip(values).map(|((_, width), value)| set(&value.into(), *width)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_stand_left_and_numbers_right() {
        let columns = [("WHO", -6), ("N", 4), ("", -3), ("", 0)];
        assert_eq!(headings(&columns), "WHO      N   ");
        assert_eq!(row(&columns, ["somebody", "12345", "a", "rest"]), "some… 12345a  rest");
        assert_eq!(headings(&[("two columns", -4), ("", -6), ("n", 4)]), "two columns  n");
    }
}
