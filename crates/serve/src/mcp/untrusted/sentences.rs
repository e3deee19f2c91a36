//! Finds foreign text in sentences, and marks it there.

use std::collections::{HashMap, HashSet};

use super::{RUN, marked};
use trainmon_base::errors::shorten;

/// The characters that count: layout, and what Markdown escapes with, do not.
pub(super) fn squeezed(text: &str) -> Vec<char> {
    text.chars().filter(|c| counts(*c)).collect()
}

fn counts(c: char) -> bool {
    !c.is_whitespace() && c != '\\'
}

/// Sentences behind each other, squeezed, with a character between them that no text has.
#[derive(Default)]
pub(super) struct Squeezed {
    pub(super) chars: Vec<char>,
    /// Whether something was left out before the character.
    after_gap: Vec<bool>,
}

impl Squeezed {
    pub(super) fn add(&mut self, sentence: &str) {
        let mut gap = true;
        for c in sentence.chars().chain(['\0']) {
            if counts(c) {
                self.chars.push(c);
                self.after_gap.push(gap);
            }
            gap = !counts(c);
        }
    }

    /// For each character whether it is part of something foreign.
    pub(super) fn foreign(&self, texts: &HashSet<Box<str>>, names: &HashSet<Box<str>>) -> Vec<bool> {
        let mut foreign = vec![false; self.chars.len()];
        let mut runs: HashMap<u64, Vec<usize>> = HashMap::new();
        for (at, run) in hashes(&self.chars) {
            runs.entry(run).or_default().push(at);
        }
        for text in texts {
            for (_, run) in hashes(&squeezed(text)) {
                // Once is enough: what repeats itself takes no longer.
                for at in runs.remove(&run).into_iter().flatten() {
                    foreign.iter_mut().skip(at).take(RUN).for_each(|foreign| *foreign = true);
                }
            }
        }
        for at in (0..self.chars.len()).filter(|at| self.is_boundary(*at)) {
            let mut name = String::new();
            let mut longest = 0;
            for (length, c) in self.chars.iter().skip(at).take(RUN).enumerate() {
                name.push(*c);
                if self.is_boundary(at + length + 1) && names.contains(name.as_str()) {
                    longest = length + 1;
                }
            }
            foreign.iter_mut().skip(at).take(longest).for_each(|foreign| *foreign = true);
        }
        self.add_functions(&mut foreign);
        foreign
    }

    fn get(&self, at: usize) -> Option<char> {
        self.chars.get(at).copied()
    }

    /// Whether a word may begin or end before this character.
    fn is_boundary(&self, at: usize) -> bool {
        let is_word = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
        let gap = self.after_gap.get(at).copied().unwrap_or(true);
        gap || !is_word(at.checked_sub(1).and_then(|before| self.get(before))) || !is_word(self.get(at))
    }

    /// The function in `burn (common.py:234)`, where only the file is known.
    fn add_functions(&self, foreign: &mut [bool]) {
        for at in 2..self.chars.len() {
            let is_file = foreign.get(at) == Some(&true) && self.get(at - 1) == Some('(') && self.is_place(at);
            if is_file && foreign.get(at - 2) == Some(&false) && self.after_gap.get(at - 1) == Some(&true) {
                let begin = (0..at - 1).rev().find(|at| self.after_gap.get(*at) == Some(&true)).unwrap_or(0);
                foreign.iter_mut().take(at - 1).skip(begin).for_each(|foreign| *foreign = true);
            }
        }
    }

    /// Whether this is `common.py:234`, up to a comma or the end of the parentheses.
    fn is_place(&self, at: usize) -> bool {
        let inside = self.chars.iter().skip(at).take_while(|c| !",)\0".contains(**c));
        let mut digits = None;
        for c in inside {
            digits = match digits {
                _ if *c == ':' => Some(true),
                Some(so_far) => Some(so_far && c.is_ascii_digit()),
                None => None,
            };
        }
        digits == Some(true)
    }
}

/// The hash of each run of [`RUN`] characters, with where it begins.
fn hashes(chars: &[char]) -> impl Iterator<Item = (usize, u64)> {
    /// An odd number without a pattern; 2^64 divided by the golden ratio.
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let oldest = FACTOR.wrapping_pow(RUN as u32);
    let mut hash = 0_u64;
    chars.iter().enumerate().filter_map(move |(at, c)| {
        let gone = at.checked_sub(RUN).and_then(|gone| chars.get(gone)).map_or(0, |c| u64::from(u32::from(*c)) + 1);
        hash = hash.wrapping_mul(FACTOR).wrapping_add(u64::from(u32::from(*c)) + 1);
        hash = hash.wrapping_sub(gone.wrapping_mul(oldest));
        Some((at.checked_sub(RUN - 1)?, hash))
    })
}

/// The sentence with marks around what is foreign in it, which is cut. No mark reaches over the end of a line.
pub(super) fn with_marks(sentence: &str, foreign: &[bool], most: usize) -> String {
    let mut out = String::with_capacity(sentence.len() + 16);
    let mut foreign = foreign.iter().copied();
    // What lies between two characters belongs to them if both are foreign.
    let mut between = String::new();
    let mut name: Option<String> = None;
    let end = |out: &mut String, name: Option<String>| out.extend(name.map(|name| marked(&shorten(&name, most))));
    for c in sentence.chars() {
        if !counts(c) {
            between.push(c);
            continue;
        }
        let is_foreign = foreign.next().unwrap_or(true);
        // A column of a table ends with two blanks at least.
        if !is_foreign || between.contains('\n') || between.len() > 1 {
            end(&mut out, name.take());
        }
        match (&mut name, is_foreign) {
            (Some(name), true) => {
                name.push_str(&between);
                name.push(c);
            }
            (none, true) => {
                out.push_str(&between);
                *none = Some(c.to_string());
            }
            (_, false) => {
                out.push_str(&between);
                out.push(c);
            }
        }
        between.clear();
    }
    end(&mut out, name);
    out + &between
}
