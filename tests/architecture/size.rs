//! The size of the program: code lines of each crate, and the numbers that tune rates, waits and diagnosis.
//!
//! A code line holds a part of the program that is neither blank, nor a comment, nor of a test. Constants count in the rooms
//! `rates`, `waits` and `diagnosis`: each row of a `thresholds!` table as one, and so does each other constant of type `f64` or
//! `f32`. A tuple counts once for each number in it. Integers are shown apart, because they are mostly sizes, limits and clock
//! units. Arrays and structs do not count: they list facts, or refer to numbers that have their own row.

use std::collections::{BTreeMap, BTreeSet};

use crate::graph::File;
use crate::items::Constant;
use crate::source::Code;
use crate::tokens::{Kind, Token, tokens};

const ENGINE: [&str; 3] = ["rates", "waits", "diagnosis"];
const FLOATS: [&str; 2] = ["f32", "f64"];
const INTEGERS: [&str; 12] = ["i8", "i16", "i32", "i64", "i128", "isize", "u8", "u16", "u32", "u64", "u128", "usize"];

/// What a constant counts as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Counted {
    Tabled,
    Other,
    Integer,
}

/// What a constant counts as, and how many numbers it holds.
fn counted(constant: &Constant) -> Option<(Counted, usize)> {
    let Some(typed) = &constant.typed else { return Some((Counted::Tabled, 1)) };
    let words: Vec<_> = typed.split_whitespace().filter(|word| !["(", ","].contains(word)).collect();
    if words.iter().any(|word| !FLOATS.contains(word) && !INTEGERS.contains(word)) {
        return None;
    }
    match words.iter().filter(|word| FLOATS.contains(word)).count() {
        0 => Some((Counted::Integer, words.len())),
        floats => Some((Counted::Other, floats)),
    }
}

/// Adds the lines on which something is written.
fn add_lines(tokens: &[Token], lines: &mut BTreeSet<usize>) {
    for token in tokens {
        match &token.kind {
            Kind::Group(_, inside) => {
                lines.extend([token.line, token.last_line]);
                add_lines(inside, lines);
            }
            Kind::Literal(text) => {
                let written = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
                lines.extend(written.map(|(at, _)| token.line + at));
            }
            Kind::Word(_) | Kind::DoubleColon | Kind::Sign(_) => drop(lines.insert(token.line)),
        }
    }
}

fn code_lines(text: &str, code: &Code) -> usize {
    let mut lines = BTreeSet::new();
    add_lines(&tokens(text), &mut lines);
    lines.into_iter().filter(|line| !code.is_of_tests(*line)).count()
}

/// The crate of a file.
fn part(file: &File) -> String {
    let folder = file.source.parent().and_then(|folder| folder.file_name());
    folder.map_or("the program".into(), |name| name.to_string_lossy().into_owned())
}

/// What a tree holds.
#[derive(Debug, Default)]
pub struct Size {
    /// Code lines by crate.
    pub parts: BTreeMap<String, usize>,
    /// How many numbers the constants of rates, waits and diagnosis hold.
    pub numbers: BTreeMap<Counted, usize>,
    /// Each constant, with its kind and file.
    pub names: Vec<String>,
}

impl Size {
    pub fn of(files: &[File]) -> Self {
        let mut size = Self::default();
        for file in files {
            *size.parts.entry(part(file)).or_default() += code_lines(&file.text, &file.code);
            if ENGINE.contains(&file.unit()) {
                size.add_constants(file);
            }
        }
        size
    }

    fn add_constants(&mut self, file: &File) {
        for constant in &file.code.items.constants {
            if let Some((kind, count)) = counted(constant) {
                *self.numbers.entry(kind).or_default() += count;
                let kind = format!("{kind:?}").to_lowercase();
                self.names.push(format!("{kind:8} {count} {} {}", constant.item.name, file.whole_path().display()));
            }
        }
    }

    pub fn numbers(&self, kind: Counted) -> usize {
        self.numbers.get(&kind).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::graph::files;

    #[test]
    fn blank_lines_comments_and_tests_are_no_code() {
        let text =
            "//! a\nfn b() { // c\n\n    let d = \"e\n\n f\";\n}\n#[cfg(test)]\nmod tests {\n}\n/* g\n*/ mod h;\n";
        assert_eq!(code_lines(text, &Code::read(text)), 5);
    }

    #[test]
    fn numbers_count_and_lists_and_structs_do_not() {
        let text = "const A: f64 = 0.5; pub(super) const B: (f64, f64) = (0.3, 1.5); const C: usize = 64;\n\
                    const D: [f64; 2] = [1.0, 2.0]; const E: Sure = Sure { least: 0.5 }; const F: &str = \"const G: f64 = 1.0;\";\n\
                    thresholds! { H = -3.0, \"points\", \"because I = 3\"; }\n#[cfg(test)]\nconst J: f64 = 1.0;";
        let found = Code::read(text).items.constants;
        let found: Vec<_> = found.iter().filter_map(|one| Some((&*one.item.name, counted(one)?))).collect();
        let numbers = [
            ("A", (Counted::Other, 1)),
            ("B", (Counted::Other, 2)),
            ("C", (Counted::Integer, 1)),
            ("H", (Counted::Tabled, 1)),
        ];
        assert_eq!(found, numbers);
    }

    #[test]
    fn this_tree_has_all_of_it() {
        let size = Size::of(&files(Path::new(env!("CARGO_MANIFEST_DIR"))));
        assert!(size.parts.values().sum::<usize>() > 20_000 && size.numbers(Counted::Tabled) > 20, "{size:?}");
        assert!(!size.names.iter().any(|name| name.ends_with("tests.rs")));
    }
}
