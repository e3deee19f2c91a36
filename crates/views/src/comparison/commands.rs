//! How two command lines differ: the arguments that only one of them has, each value with its option.

use std::ops::Range;

use serde::Serialize;
use similar::{Algorithm, DiffOp, capture_diff_slices};

use trainmon_base::errors::shorten;

/// Of more arguments that differ the middle is left out, characters.
const ARGUMENTS_MAX: usize = 200;

/// The arguments that differ. One side may have none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CommandChange {
    /// In the first command line.
    before: String,
    /// In the second.
    after: String,
}

impl CommandChange {
    /// The difference of two command lines; `None` if they are the same, or if one is not known.
    pub(super) fn between(before: &str, after: &str) -> Option<Self> {
        if before.is_empty() || after.is_empty() || before == after {
            return None;
        }
        let [old, new] = [before, after].map(|command| command.split(' ').collect::<Vec<_>>());
        let changes = capture_diff_slices(Algorithm::Myers, &old, &new);
        let changes: Vec<_> = changes.into_iter().filter(|change| !matches!(change, DiffOp::Equal { .. })).collect();
        let side = |words: &[&str], range: fn(&DiffOp) -> Range<usize>| {
            let parts = changes.iter().map(range).filter(|range| !range.is_empty());
            let parts: Vec<String> = parts.map(|range| with_its_option(words, range)).collect();
            shorten(&parts.join(" "), ARGUMENTS_MAX)
        };
        Some(Self { before: side(&old, DiffOp::old_range), after: side(&new, DiffOp::new_range) })
    }

    /// In a sentence.
    pub(super) fn sentence(&self) -> String {
        let Self { before, after } = self;
        let differ = match (before.is_empty(), after.is_empty()) {
            (false, true) => format!("{before} only before"),
            (true, false) => format!("{after} only after"),
            _ => format!("{before} before, {after} after"),
        };
        format!("The command lines differ: {differ}.")
    }
}

/// Words in this range. A value follows its option.
fn with_its_option(words: &[&str], Range { start, end }: Range<usize>) -> String {
    let is_option = |word: &&&str| word.starts_with('-') && !word.contains('=');
    let is_value = words.get(start).is_some_and(|word| !word.starts_with('-'));
    let option = start.checked_sub(1).and_then(|before| words.get(before)).filter(is_option);
    let start = if is_value && option.is_some() { start - 1 } else { start };
    words.get(start..end).unwrap_or_default().join(" ")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn said(before: &str, after: &str) -> String {
        CommandChange::between(before, after).map(|change| change.sentence()).unwrap_or_default()
    }

    #[test]
    fn only_what_differs_is_said() {
        let long = "python train.py --data /data/images --epochs 90 --batch-size 256 --lr 0.1 --workers";
        assert_eq!(
            said(&format!("{long} 1 --amp"), &format!("{long} 2 --amp")),
            "The command lines differ: --workers 1 before, --workers 2 after."
        );
        assert_eq!(said(long, &format!("{long} --amp")), "The command lines differ: --amp only after.");
        assert_eq!(said("a --x=1 b", "a --x=2 b"), "The command lines differ: --x=1 before, --x=2 after.");
        assert_eq!(said("a -v 1 --t 5", "a -v 2"), "The command lines differ: -v 1 --t 5 before, -v 2 after.");
        assert_eq!(said("a b c", "a c"), "The command lines differ: b only before.");
        assert_eq!((said("a b", "a b"), said("", "a"), said("a", "")), Default::default());
    }

    proptest! {
        #[test]
        fn any_command_lines_have_a_difference_or_none(before in "[-a-c= ]{0,40}", after in "[-a-c= ]{0,40}") {
            let change = CommandChange::between(&before, &after);
            let known = !before.is_empty() && !after.is_empty();
            prop_assert_eq!(change.is_some(), known && before != after);
            for (part, whole) in change.iter().flat_map(|change| [(&change.before, &before), (&change.after, &after)]) {
                let known: Vec<&str> = whole.split(' ').collect();
                prop_assert!(part.split(' ').all(|word| word.is_empty() || known.contains(&word)), "{part} of {whole}");
            }
        }
    }
}
