//! What the code of one file names: its modules, its imports, its paths and its words. Tests within it are left out, and
//! so are comments and texts. Read token by token, because a line may hold half an import or three of them.

use std::ops::RangeInclusive;

use crate::items::Items;
use crate::tokens::{Kind, Token, tokens};

/// The code of a file that is compiled into the program.
#[derive(Debug, Default)]
pub struct Code {
    pub paths: Vec<Path>,
    /// Every identifier; the name of a macro that is called ends with `!`.
    pub words: Vec<(String, usize)>,
    /// Modules that are declared here and lie in files of their own.
    pub modules: Vec<Vec<String>>,
    pub items: Items,
    /// Lines of tests.
    tests: Vec<RangeInclusive<usize>>,
}

/// A path with at least two parts, or one that is imported.
#[derive(Debug, PartialEq, Eq)]
pub struct Path {
    /// The modules within the file in which it stands.
    pub inside: Vec<String>,
    pub parts: Vec<String>,
    /// The name that an import gives it; `*` for all that is there.
    pub imported_as: Option<String>,
    pub line: usize,
}

impl Code {
    /// Reads the text of a file.
    pub fn read(text: &str) -> Self {
        let tokens = tokens(text);
        let mut code = Self { items: Items::read(&tokens), ..Self::default() };
        code.walk(&tokens, &[]);
        code
    }

    /// How many of so many lines are no tests.
    pub fn lines_without_tests(&self, all: usize) -> usize {
        all - self.tests.iter().map(|lines| lines.end() - lines.start() + 1).sum::<usize>()
    }

    /// Whether a line belongs to a test.
    pub fn is_of_tests(&self, line: usize) -> bool {
        self.tests.iter().any(|lines| lines.contains(&line))
    }

    fn walk(&mut self, mut tokens: &[Token], inside: &[String]) {
        while !tokens.is_empty() {
            tokens = &tokens[self.step(tokens, inside)..];
        }
    }

    /// Takes in what stands first, and returns how many tokens that were.
    fn step(&mut self, tokens: &[Token], inside: &[String]) -> usize {
        if let Some((content, length)) = attribute(tokens) {
            if !is_test(content) {
                return length;
            }
            // `#![cfg(test)]` is about the whole file.
            let end = if tokens[1].is('!') { tokens.len() } else { length + item(&tokens[length..]) };
            self.tests.push(tokens[0].line..=tokens[end - 1].last_line);
            return end;
        }
        match (&tokens[0].kind, tokens[0].word()) {
            (_, Some("mod")) => self.module(tokens, inside),
            (_, Some("pub")) => visibility(tokens),
            (_, Some("use")) => {
                let end = tokens.iter().position(|token| token.is(';')).unwrap_or(tokens.len());
                self.import(&tokens[1..end], &[], inside);
                end
            }
            (_, Some(word)) => self.path(word, tokens, inside),
            (Kind::Group(_, content), _) => {
                self.walk(content, inside);
                1
            }
            _ => 1,
        }
    }

    fn module(&mut self, tokens: &[Token], inside: &[String]) -> usize {
        let Some(name) = tokens.get(1).and_then(Token::word) else { return 1 };
        let inside = [inside, &[name.to_owned()]].concat();
        match tokens.get(2).and_then(|token| token.group('{')) {
            Some(content) => self.walk(content, &inside),
            None => self.modules.push(inside),
        }
        3
    }

    /// One tree of an import: `a::b`, `a::b as c`, `a::{self, b::c}`, `a::*`.
    fn import(&mut self, tokens: &[Token], before: &[String], inside: &[String]) {
        let mut parts = before.to_vec();
        let mut name = None;
        for (at, token) in tokens.iter().enumerate() {
            match &token.kind {
                Kind::Group(_, trees) => {
                    let trees = trees.split(|token| token.is(',')).filter(|tree| !tree.is_empty());
                    return trees.for_each(|tree| self.import(tree, &parts, inside));
                }
                Kind::Word(word) if word == "as" => {
                    name = tokens.get(at + 1).and_then(Token::word).map(ToOwned::to_owned);
                    break;
                }
                // `a::{self}` is `a`.
                Kind::Word(word) if word == "self" && !parts.is_empty() => {}
                Kind::Word(word) => parts.push(word.clone()),
                Kind::Sign('*') => name = Some("*".to_owned()),
                _ => {}
            }
        }
        let line = tokens[0].line;
        self.words.extend(parts.iter().map(|part| (part.clone(), line)));
        let imported_as = name.or_else(|| parts.last().cloned());
        self.paths.push(Path { inside: inside.to_vec(), parts, imported_as, line });
    }

    /// A word, with the path that it begins.
    fn path(&mut self, first: &str, tokens: &[Token], inside: &[String]) -> usize {
        let line = tokens[0].line;
        let mut parts = vec![first.to_owned()];
        let mut used = 1;
        while let [Token { kind: Kind::DoubleColon, .. }, next, ..] = &tokens[used..]
            && let Some(next) = next.word()
        {
            parts.push(next.to_owned());
            used += 2;
        }
        self.words.extend(parts.iter().map(|part| (part.clone(), line)));
        if let (Some(last), true) = (parts.last(), tokens.get(used).is_some_and(|token| token.is('!'))) {
            self.words.push((format!("{last}!"), line));
        }
        if parts.len() > 1 {
            self.paths.push(Path { inside: inside.to_vec(), parts, imported_as: None, line });
        }
        used
    }
}

/// An attribute that stands first, `#[…]` or `#![…]`: what it says, and its length.
pub fn attribute(tokens: &[Token]) -> Option<(&[Token], usize)> {
    let inner = usize::from(tokens.get(1)?.is('!'));
    let content = tokens.get(1 + inner)?.group('[')?;
    tokens[0].is('#').then_some((content, 2 + inner))
}

/// Whether an attribute leaves its item to tests alone: `cfg(test)`, also within `all`.
pub fn is_test(attribute: &[Token]) -> bool {
    let [name, conditions] = attribute else { return false };
    let mut conditions = conditions.group('(').unwrap_or_default().split(|token| token.is(','));
    matches!(name.word(), Some("cfg" | "all"))
        && conditions.any(|condition| match condition {
            [word] => word.word() == Some("test"),
            condition => is_test(condition),
        })
}

/// The length of a visibility that stands first: `pub`, `pub(crate)`, `pub(in crate::a)`. Its path is no use.
fn visibility(tokens: &[Token]) -> usize {
    match tokens.get(1).and_then(|token| token.group('(')) {
        Some([scope]) if matches!(scope.word(), Some("crate" | "self" | "super")) => 2,
        Some([first, ..]) if first.word() == Some("in") => 2,
        _ => 1,
    }
}

/// The length of the item, statement, field or match arm that stands first, with its attributes.
pub fn item(tokens: &[Token]) -> usize {
    const WITH_BRACES: [&str; 12] = [
        "fn",
        "mod",
        "struct",
        "enum",
        "union",
        "trait",
        "impl",
        "async",
        "unsafe",
        "extern",
        "macro_rules",
        "const fn",
    ];
    let word = |at: usize| tokens.get(at).and_then(Token::word).unwrap_or_default();
    let mut at = 0;
    while let Some((_, length)) = attribute(&tokens[at..]) {
        at += length;
    }
    if word(at) == "pub" {
        at += visibility(&tokens[at..]);
    }
    let first = match (word(at), word(at + 1)) {
        ("const", "fn" | "unsafe" | "extern" | "async") => "const fn",
        (word, _) => word,
    };
    let to_semicolon = ["use", "static", "type", "let", "const"].contains(&first);
    let is_part = !to_semicolon && !WITH_BRACES.contains(&first);
    let ends =
        |token: &Token| token.is(';') || (is_part && token.is(',')) || (!to_semicolon && token.group('{').is_some());
    let end = tokens[at..].iter().position(ends).map_or(tokens.len(), |end| at + end + 1);
    // The comma after the braces of a field or an arm belongs to it.
    end + usize::from(is_part && tokens.get(end).is_some_and(|token| token.is(',')))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(text: &str) -> Vec<String> {
        Code::read(text).paths.iter().map(|path| path.parts.join("::")).collect()
    }

    #[test]
    fn every_form_of_import_is_read() {
        for (text, expected) in [
            ("use crate::a;", &["crate::a"][..]),
            ("pub use crate::a::B;", &["crate::a::B"]),
            ("pub(in crate::x) use crate::a::B;", &["crate::a::B"]),
            ("use crate::{a, b::c};", &["crate::a", "crate::b::c"]),
            (
                "use crate::{\n    a::{self, b as c, d::*},\n    e,\n};",
                &["crate::a", "crate::a::b", "crate::a::d", "crate::e"],
            ),
            ("use {crate::a, super::super::b};", &["crate::a", "super::super::b"]),
            ("use ::std::fs;", &["std::fs"]),
            ("fn f() { use self::a::B; }", &["self::a::B"]),
        ] {
            assert_eq!(paths(&text.replace("\\n", "\n")), expected, "{text}");
        }
    }

    #[test]
    fn imports_know_their_names_and_their_modules() {
        let code = Code::read("use a::{self, b as c, d::*};\nmod m { mod n { use super::x; } }");
        let names: Vec<_> = code.paths.iter().map(|path| (path.imported_as.as_deref(), path.line)).collect();
        assert_eq!(names, [(Some("a"), 1), (Some("c"), 1), (Some("*"), 1), (Some("x"), 2)]);
        assert_eq!(code.paths[3].inside, ["m", "n"]);
    }

    #[test]
    fn paths_in_code_are_read() {
        for (text, expected) in [
            (
                "fn f(a: &crate::a::B<super::C>) -> Vec<crate::d::E> {}",
                &["crate::a::B", "super::C", "crate::d::E"][..],
            ),
            ("let a = crate::b::c::<crate::D>(self::e());", &["crate::b::c", "crate::D", "self::e"]),
            ("vec![format!(\"{}\", crate::a::b())]", &["crate::a::b"]),
            ("macro_rules! m { () => { $crate::a::b!() } }", &["crate::a::b"]),
            (
                "#[derive(crate::A)] struct B(crate::c::D, pub(in crate::e) u8, pub (crate::f::G, u8));",
                &["crate::c::D", "crate::f::G"],
            ),
            ("impl crate::a::B for C where D: crate::e::F {}", &["crate::a::B", "crate::e::F"]),
            ("x.y::<crate::a::B>().c", &["crate::a::B"]),
            ("// crate::a::b\nlet a = \"crate::a\"; /* crate::a */", &[]),
        ] {
            assert_eq!(paths(text), expected, "{text}");
        }
    }

    #[test]
    fn tests_are_left_out_and_nothing_else_is() {
        for (text, expected) in [
            ("#[cfg(test)]\nmod tests { use crate::a; }\nuse crate::b;", &["crate::b"][..]),
            ("#[cfg(test)] #[path = \"t.rs\"] mod tests; use crate::b;", &["crate::b"]),
            ("#[cfg(test)] use crate::a::{b, c}; use crate::d;", &["crate::d"]),
            ("#[cfg(test)] pub(crate) fn f(a: u8, b: [u8; 3]) { crate::a() } use crate::b;", &["crate::b"]),
            ("#[cfg(test)] const fn f() { crate::a::b() } use crate::b;", &["crate::b"]),
            ("#[cfg(test)] const A: B = B { c: crate::d::E }; use crate::b;", &["crate::b"]),
            ("#[cfg(test)] impl<A, B> C<A, B> { fn f() { crate::a::b() } } use crate::b;", &["crate::b"]),
            ("#[cfg(test)] struct A(crate::a::B); use crate::b;", &["crate::b"]),
            ("struct A { #[cfg(test)] b: crate::a::B, c: crate::d::E }", &["crate::d::E"]),
            ("match a { #[cfg(test)] B => { crate::a::b() }, C => crate::d::e() }", &["crate::d::e"]),
            ("fn f() { #[cfg(test)] crate::a::b(); crate::c::d() }", &["crate::c::d"]),
            ("#[cfg(all(test, unix))] mod t { use crate::a; } use crate::b;", &["crate::b"]),
            ("#[cfg(not(test))] use crate::a; #[cfg(any(test, unix))] use crate::b;", &["crate::a", "crate::b"]),
            ("#[cfg_attr(test, derive(A))] struct B(crate::c::D);", &["crate::c::D"]),
            ("#![cfg(test)] use crate::a;", &[]),
            ("#[allow(x, reason = \"cfg(test)\")] use crate::a;", &["crate::a"]),
        ] {
            assert_eq!(paths(text), expected, "{text}");
        }
    }

    #[test]
    fn modules_in_files_are_found_but_not_those_of_tests() {
        let code = Code::read("mod a; pub(crate) mod b; mod c { mod d; } #[cfg(test)] mod e; fn f() {}");
        assert_eq!(code.modules, [vec!["a"], vec!["b"], vec!["c", "d"]]);
    }

    #[test]
    fn words_are_found_in_code_alone() {
        let code = Code::read(
            "// unsafe\nprintln!(\"unsafe\");\nuse std::{fs, time::Instant};\n#[cfg(test)]\nunsafe fn f() {}",
        );
        let has = |word: &str| code.words.iter().find(|(found, _)| found == word).map(|(_, line)| *line);
        assert_eq!((has("unsafe"), has("println!"), has("Instant")), (None, Some(2), Some(3)));
    }

    #[test]
    fn lines_of_tests_are_not_counted() {
        let text = "fn a() {}\n\n#[cfg(test)]\n#[allow(x)]\nmod tests {\n    fn b() {}\n}\nfn c() {}\n";
        assert_eq!(Code::read(text).lines_without_tests(text.lines().count()), 3);
    }
}
