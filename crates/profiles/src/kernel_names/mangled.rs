//! Mangled C++ names, as profilers leave them where their demangler does not know a type: `_ZN5aiter…IDF16b…`.
//!
//! This is no demangler: it spells the function's path and the words of its template arguments, which is all that the tables look
//! for. So it needs neither substitutions nor the end of a name that was cut, and takes one walk whatever the name says.

use super::table::{first, table};

/// `path::of::function<words of its arguments>`, from a name that starts with `_Z`. See the Itanium C++ ABI, 5.1.
pub fn spelled(mangled: &str) -> String {
    let mut walk =
        Spelling { rest: mangled.strip_prefix("_Z").unwrap_or(mangled), open: Vec::new(), out: String::new() };
    while walk.step() {}
    walk.out
}

struct Spelling<'a> {
    rest: &'a str,
    /// The letters that opened what is still open: an `E` closes the last one.
    open: Vec<char>,
    out: String,
}

impl<'a> Spelling<'a> {
    /// Reads the next part; false at the end of what is of interest: the types of the parameters follow it.
    fn step(&mut self) -> bool {
        let Some(letter) = self.rest.chars().next() else { return false };
        if letter.is_ascii_digit() {
            if self.open.last() == Some(&'l') {
                self.skip_before('E');
                return true;
            }
            self.identifier();
            return !self.open.is_empty() || self.rest.starts_with('I');
        }
        self.rest = self.rest.get(letter.len_utf8()..).unwrap_or_default();
        match letter {
            'E' => return self.close(),
            'I' => self.opens('I', "<"),
            'N' | 'X' | 'J' | 'F' | 'Z' => self.opens(letter, " "),
            'L' => self.literal(),
            'U' if self.rest.starts_with('l') => {
                self.skip(1);
                self.opens('U', "const::{lambda(");
            }
            'S' if self.rest.starts_with(|c: char| c.is_ascii_lowercase()) => self.skip(1),
            'T' if self.rest.starts_with('n') => self.skip(1),
            'S' | 'T' | 'U' | 'A' => self.skip_after('_'),
            'D' => self.extended_type(),
            'a'..='z' => self.small(letter),
            _ => {}
        }
        true
    }

    /// `7kernel_`: seven bytes of a name.
    fn identifier(&mut self) {
        let digits = self.rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(self.rest.len());
        let (length, rest) = self.rest.split_at(digits);
        let length = length.parse().unwrap_or(usize::MAX).min(rest.len());
        let name = rest.get(..length).unwrap_or_default();
        self.rest = rest.get(length..).unwrap_or_default();
        if name != "_GLOBAL__N_1" {
            let in_path = !self.open.iter().any(|open| *open != 'N') && !self.out.trim().is_empty();
            self.out.push_str(if in_path { "::" } else { " " });
            self.out.push_str(name);
        }
    }

    fn opens(&mut self, letter: char, sign: &str) {
        self.open.push(letter);
        self.out.push_str(sign);
    }

    fn close(&mut self) -> bool {
        match self.open.pop() {
            Some('I') => self.out.push('>'),
            Some('U') => {
                self.out.push_str(")}");
                self.skip_after('_');
            }
            _ => {}
        }
        !self.open.is_empty()
    }

    /// `Li64E`, `L_Z4siluE`, or a value of an enum, `LN2ck4KindE3E`.
    fn literal(&mut self) {
        match self.rest.chars().next() {
            Some('_') => {
                self.skip(2);
                self.open.push('L');
            }
            Some('N' | 'S') => self.open.push('l'),
            _ => {
                self.skip_before('E');
                self.skip(1);
            }
        }
    }

    /// `DF16b`, `DF16_`, `Dh`; other types of two letters say nothing of interest.
    fn extended_type(&mut self) {
        let known = table("mangled").iter().find(|(letters, _)| self.rest.starts_with(letters));
        if let Some((letters, name)) = known {
            self.out.push_str(&format!(" {name},"));
            self.skip(letters.len());
        } else {
            self.out.push(' ');
            if self.rest.starts_with('F') { self.skip_after('_') } else { self.skip(1) }
        }
    }

    /// A built-in type among the arguments; elsewhere an operator of two letters.
    fn small(&mut self, letter: char) {
        match self.open.last() {
            Some('l') => {}
            Some('N' | 'X') => self.skip(1),
            _ => match first("built-in", |known| known.starts_with(letter)) {
                Some(name) => self.out.push_str(&format!(" {name},")),
                None => self.out.push(' '),
            },
        }
    }

    fn skip(&mut self, letters: usize) {
        self.rest = self.rest.char_indices().nth(letters).and_then(|(at, _)| self.rest.get(at..)).unwrap_or_default();
    }

    fn skip_before(&mut self, letter: char) {
        self.rest = self.rest.find(letter).and_then(|at| self.rest.get(at..)).unwrap_or_default();
    }

    fn skip_after(&mut self, letter: char) {
        self.skip_before(letter);
        self.skip(1);
    }
}

#[cfg(test)]
mod tests {
    use super::spelled;

    #[test]
    fn paths_and_the_words_of_arguments_are_spelled() {
        for (mangled, text) in [
            (
                "_ZN5aiter24add_rmsnorm_quant_kernelIDF16bDF16bLi64EEEvPT0_",
                "aiter::add_rmsnorm_quant_kernel< bf16, bf16,>",
            ),
            ("_Z20softmax_warp_forwardIffLi9EEvPT_PKS0_i", "softmax_warp_forward< float, float,>"),
            ("_Z6simplePfi", "simple"),
            (
                "_ZN2ck8functionIttNS_4EnumELNS_4KindE3EfE",
                "ck::function< unsigned short, unsigned short,  Enum  Kind float,>",
            ),
            (
                "_ZN2at6native1fIZZNS0_4tanhEvENKUlvE_clEvEUldE_EEv",
                "at::native::f<    tanh  const::{lambda( )} const::{lambda( double,)}>",
            ),
            ("_ZN3cut", "cut"),
            ("_Z", ""),
            ("_Z99999999999999999999999a", "a"),
        ] {
            assert_eq!(spelled(mangled).trim(), text, "{mangled}");
        }
    }
}
