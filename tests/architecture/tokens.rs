//! A Rust text as tokens with their lines, groups in brackets as one token each. Written here because the crates that do
//! it give lines only by a feature that would have every macro of every dependency built anew.

/// What a token is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    Word(String),
    /// `::`
    DoubleColon,
    /// Any other sign.
    Sign(char),
    /// What stands between brackets, with the opening one.
    Group(char, Vec<Token>),
    /// A text, a character, a number or a lifetime, as it is written.
    Literal(String),
}

/// A token, and the lines of its beginning and its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    pub kind: Kind,
    pub line: usize,
    pub last_line: usize,
}

impl Token {
    pub fn word(&self) -> Option<&str> {
        if let Kind::Word(word) = &self.kind { Some(word) } else { None }
    }

    pub fn is(&self, sign: char) -> bool {
        self.kind == Kind::Sign(sign)
    }

    /// The tokens between brackets that open with `bracket`.
    pub fn group(&self, bracket: char) -> Option<&[Token]> {
        match &self.kind {
            Kind::Group(open, tokens) if *open == bracket => Some(tokens),
            _ => None,
        }
    }
}

/// A comment as written, with its slashes, and its first line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Comment<'a> {
    pub text: &'a str,
    pub line: usize,
}

/// The tokens of a text; brackets that do not match are a panic.
pub fn tokens(text: &str) -> Vec<Token> {
    read(text).0
}

/// The comments of a text, in order.
pub fn comments(text: &str) -> Vec<Comment<'_>> {
    read(text).1
}

fn read(text: &str) -> (Vec<Token>, Vec<Comment<'_>>) {
    let mut reader = Reader { rest: text, line: 1, comments: Vec::new() };
    let (tokens, end) = reader.until_closed();
    assert_eq!(end, None, "line {}: nothing is open", reader.line);
    (tokens, reader.comments)
}

struct Reader<'a> {
    /// What has not been read.
    rest: &'a str,
    line: usize,
    /// The comments read so far.
    comments: Vec<Comment<'a>>,
}

impl Reader<'_> {
    fn next(&mut self) -> Option<char> {
        let next = self.rest.chars().next()?;
        self.rest = &self.rest[next.len_utf8()..];
        self.line += usize::from(next == '\n');
        Some(next)
    }

    fn skip(&mut self, count: usize) {
        (0..count).for_each(|_| {
            self.next();
        });
    }

    fn skip_while(&mut self, holds: impl Fn(char) -> bool) {
        while self.rest.starts_with(&holds) {
            self.next();
        }
    }

    /// Tokens up to a closing bracket, and that bracket.
    fn until_closed(&mut self) -> (Vec<Token>, Option<char>) {
        let mut found = Vec::new();
        loop {
            self.blank();
            let line = self.line;
            let kind = match self.rest.chars().next() {
                None => return (found, None),
                Some(open @ ('(' | '[' | '{')) => {
                    self.next();
                    let (inside, end) = self.until_closed();
                    let close = match open {
                        '(' => ')',
                        '[' => ']',
                        _ => '}',
                    };
                    assert_eq!(end, Some(close), "line {line}: {open} is not closed");
                    Kind::Group(open, inside)
                }
                Some(close @ (')' | ']' | '}')) => {
                    self.next();
                    return (found, Some(close));
                }
                Some(first) => self.token(first),
            };
            found.push(Token { kind, line, last_line: self.line });
        }
    }

    /// Skips white space and comments, and keeps the comments.
    fn blank(&mut self) {
        loop {
            self.skip_while(char::is_whitespace);
            let (rest, line) = (self.rest, self.line);
            if self.rest.starts_with("//") {
                self.skip_while(|c| c != '\n');
            } else if self.rest.starts_with("/*") {
                let mut depth = 0;
                loop {
                    let change = if self.rest.starts_with("/*") {
                        1
                    } else if self.rest.starts_with("*/") {
                        -1
                    } else {
                        0
                    };
                    self.skip(if change == 0 { 1 } else { 2 });
                    depth += change;
                    if depth == 0 || self.rest.is_empty() {
                        break;
                    }
                }
            } else {
                return;
            }
            self.comments.push(Comment { text: &rest[..rest.len() - self.rest.len()], line });
        }
    }

    fn token(&mut self, first: char) -> Kind {
        let rest = self.rest;
        if self.literal(first) {
            return Kind::Literal(rest[..rest.len() - self.rest.len()].to_owned());
        }
        if is_of_word(first) {
            let word = rest.strip_prefix("r#").unwrap_or(rest);
            self.rest = word;
            let word = word.split(|c| !is_of_word(c)).next().unwrap_or_default().to_owned();
            self.skip(word.chars().count());
            return Kind::Word(word);
        }
        if rest.starts_with("::") {
            self.skip(2);
            return Kind::DoubleColon;
        }
        self.next();
        Kind::Sign(first)
    }

    /// Skips a text, a character, a number or a lifetime, if one begins here.
    fn literal(&mut self, first: char) -> bool {
        let rest = self.rest;
        if let Some(hashes) = raw_text(rest) {
            let end = format!("\"{}", "#".repeat(hashes));
            self.skip_while(|c| c != '"');
            self.next();
            while !self.rest.starts_with(&end) && !self.rest.is_empty() {
                self.next();
            }
            self.skip(end.len());
            return true;
        }
        if let Some(prefix) = ["\"", "b\"", "c\""].iter().find(|prefix| rest.starts_with(**prefix)) {
            self.skip(prefix.len());
            self.quoted('"');
            return true;
        }
        if let Some(after) = rest.strip_prefix("b'").or_else(|| rest.strip_prefix('\'')) {
            let mut inside = after.chars();
            let is_character = inside.next() == Some('\\') || inside.next() == Some('\'');
            self.skip(rest.len() - after.len());
            if is_character {
                self.quoted('\'');
            } else {
                self.skip_while(is_of_word);
            }
            return true;
        }
        let is_number = first.is_ascii_digit();
        if is_number {
            self.skip_while(is_of_word);
            // `0.5`, but not `0..1` or `0.max(1)`.
            let after_point = self.rest.strip_prefix('.').unwrap_or_default();
            if after_point.starts_with(|c: char| c.is_ascii_digit()) {
                self.next();
                self.skip_while(is_of_word);
            }
        }
        is_number
    }

    /// Skips to the end of a text with backslashes.
    fn quoted(&mut self, end: char) {
        while let Some(c) = self.next() {
            match c {
                '\\' => self.skip(1),
                c if c == end => return,
                _ => {}
            }
        }
    }
}

fn is_of_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The number of hashes of a raw text that begins here.
fn raw_text(rest: &str) -> Option<usize> {
    let rest = rest.strip_prefix(['b', 'c']).unwrap_or(rest).strip_prefix('r')?;
    let after = rest.trim_start_matches('#');
    after.starts_with('"').then_some(rest.len() - after.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The words outside of texts and comments, groups in brackets.
    fn words(text: &str) -> String {
        fn collect(tokens: &[Token], all: &mut Vec<String>) {
            for token in tokens {
                match &token.kind {
                    Kind::Word(word) => all.push(word.clone()),
                    Kind::Group(open, tokens) => {
                        all.push(open.to_string());
                        collect(tokens, all);
                        all.push("end".into());
                    }
                    _ => {}
                }
            }
        }
        let mut all = Vec::new();
        collect(&tokens(text), &mut all);
        all.join(" ")
    }

    #[test]
    fn texts_and_comments_are_no_code() {
        for (text, expected) in [
            ("a // crate::x }\nb", "a b"),
            ("a /* { /* b */ } */ c", "a c"),
            ("/// `crate::x`\n//! {\nfn a", "fn a"),
            (r#"a("} \" {", b"{", c"\\") d"#, "a ( end d"),
            ("a(r\"\\\", r#\"}\" \"#, br##\"\"# \"##) b", "a ( end b"),
            ("a 'b' c '{' d '\\'' e '\\u{1b}' f b'x' g", "a c d e f g"),
            ("fn a<'b>(c: &'b str) {}", "fn a ( c str end { end"),
            ("r#type 1e5 0..b 0x_ff", "type b"),
        ] {
            assert_eq!(words(text), expected, "{text}");
        }
    }

    #[test]
    fn comments_are_kept_with_their_lines() {
        let found = comments("//! a\nfn b() { // c\n    \"// no\" /* d\n */ }\n/// e");
        let found: Vec<_> = found.iter().map(|comment| (comment.line, comment.text)).collect();
        assert_eq!(found, [(1, "//! a"), (2, "// c"), (3, "/* d\n */"), (5, "/// e")]);
    }

    #[test]
    fn tokens_know_their_lines() {
        let tokens = tokens("a\n\"x\ny\"\nb {\n\n} c");
        let lines: Vec<_> = tokens.iter().map(|token| (token.line, token.last_line)).collect();
        assert_eq!(lines, [(1, 1), (2, 3), (4, 4), (4, 6), (6, 6)]);
    }

    #[test]
    #[should_panic(expected = "line 1: { is not closed")]
    fn brackets_match() {
        tokens("a { b )");
    }
}
