//! What a file declares: its types, constants, functions and fields, each with its lines. Tests are left out. What belongs to
//! a type (associated types and constants) is named with the type, and is not listed; nor are types within a function.

use crate::source::{attribute, is_test, item};
use crate::tokens::{Kind, Token};

/// The declarations of one file.
#[derive(Debug, Default)]
pub struct Items {
    /// Structs, enums, unions, traits and type aliases.
    pub types: Vec<Item>,
    pub constants: Vec<Constant>,
    pub functions: Vec<Item>,
    pub fields: Vec<Item>,
}

/// A declaration, from the line of its keyword to the end of its body.
#[derive(Debug, PartialEq, Eq)]
pub struct Item {
    pub name: String,
    pub line: usize,
    pub last_line: usize,
}

/// A constant or a static, or a row of `thresholds!`, which has no type.
#[derive(Debug)]
pub struct Constant {
    pub item: Item,
    pub typed: Option<String>,
    pub value: String,
}

impl Item {
    pub fn lines(&self) -> usize {
        self.last_line - self.line + 1
    }

    /// The comments right above it, as they stand in the text of its file.
    pub fn comment<'t>(&self, text: &'t str) -> impl Iterator<Item = &'t str> {
        let above: Vec<_> = text.lines().take(self.line - 1).collect();
        let ends_something = |line: &str| line.is_empty() || line.ends_with(['{', '}', ';', ',']);
        let comments = above
            .into_iter()
            .rev()
            .map(str::trim)
            .take_while(move |line| line.starts_with("//") || !ends_something(line));
        comments.filter(|line| line.starts_with("//"))
    }
}

impl Items {
    /// Reads what the tokens declare.
    pub fn read(tokens: &[Token]) -> Self {
        let mut items = Self::default();
        items.walk(tokens, false);
        items
    }

    /// `of_type`: within `impl` or `trait`.
    fn walk(&mut self, mut tokens: &[Token], of_type: bool) {
        while !tokens.is_empty() {
            tokens = &tokens[self.step(tokens, of_type)..];
        }
    }

    /// Takes in what stands first, and returns how many tokens that were.
    fn step(&mut self, tokens: &[Token], of_type: bool) -> usize {
        if let Some((content, length)) = attribute(tokens) {
            return match (is_test(content), tokens[1].is('!')) {
                (false, _) => length,
                (true, true) => tokens.len(),
                (true, false) => length + item(&tokens[length..]),
            };
        }
        if let Kind::Group(_, content) = &tokens[0].kind {
            self.walk(content, false);
            return 1;
        }
        let keyword = tokens[0].word().unwrap_or_default();
        let name = tokens.get(1).and_then(Token::word);
        let body = || tokens.iter().position(|token| token.group('{').is_some() || token.is(';'));
        let declared = |end: usize| Item {
            name: name.unwrap_or_default().to_owned(),
            line: tokens[0].line,
            last_line: tokens[end].last_line,
        };
        match (keyword, name, body()) {
            ("impl", _, Some(body)) | ("trait", Some(_), Some(body)) => {
                if keyword == "trait" {
                    self.types.push(declared(body));
                }
                self.walk(tokens[body].group('{').unwrap_or_default(), true);
                body + 1
            }
            ("fn", Some(_), Some(body)) => {
                if tokens[body].group('{').is_some() {
                    self.functions.push(declared(body));
                }
                let types = self.types.len();
                self.walk(tokens[body].group('{').unwrap_or_default(), false);
                self.types.truncate(types);
                body + 1
            }
            ("struct" | "enum" | "union", Some(_), Some(body)) => {
                self.types.push(declared(body));
                self.fields(tokens[body].group('{').unwrap_or_default());
                body + 1
            }
            ("type", Some(_), _) => {
                if !of_type {
                    self.types.push(declared(1));
                }
                2
            }
            ("const" | "static", Some(_), _) if tokens.get(2).is_some_and(|token| token.is(':')) => {
                let end = tokens.iter().position(|token| token.is(';')).unwrap_or(tokens.len() - 1);
                let value = tokens[..end].iter().position(|token| token.is('=')).map_or(end, |equals| equals + 1);
                if !of_type {
                    let typed = Some(written(&tokens[3..(value - 1).max(3)]));
                    self.constants.push(Constant { item: declared(end), typed, value: written(&tokens[value..end]) });
                }
                end + 1
            }
            ("thresholds", _, _) if tokens.len() > 2 && tokens[1].is('!') => {
                self.rows(tokens[2].group('{').unwrap_or_default());
                3
            }
            _ => 1,
        }
    }

    /// The rows of a table: `NAME = value, unit, source;`.
    fn rows(&mut self, tokens: &[Token]) {
        for row in tokens.split(|token| token.is(';')) {
            let Some(at) = row.iter().position(|token| token.word().is_some()) else { continue };
            let (name, line, last_line) =
                (row[at].word().unwrap_or_default().to_owned(), row[at].line, row[at].last_line);
            let value = row[at..].split(|token| token.is(',')).next().and_then(|value| value.get(2..));
            let item = Item { name, line, last_line };
            self.constants.push(Constant { item, typed: None, value: written(value.unwrap_or_default()) });
        }
    }

    /// The fields of a struct, or those of the variants of an enum.
    fn fields(&mut self, mut tokens: &[Token]) {
        while let Some(token) = tokens.first() {
            if let Some(content) = token.group('{') {
                self.fields(content);
            }
            if let (Some(name), true) = (token.word(), tokens.get(1).is_some_and(|next| next.is(':'))) {
                self.fields.push(Item { name: name.to_owned(), line: token.line, last_line: token.last_line });
            }
            tokens = &tokens[1..];
        }
    }
}

/// Tokens as text, for comparing.
fn written(tokens: &[Token]) -> String {
    let words = tokens.iter().map(|token| match &token.kind {
        Kind::Word(text) | Kind::Literal(text) => text.clone(),
        Kind::DoubleColon => "::".to_owned(),
        Kind::Sign(sign) => sign.to_string(),
        Kind::Group(open, inside) => format!("{open} {} ", written(inside)),
    });
    words.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokens::tokens;

    fn read(text: &str) -> Items {
        Items::read(&tokens(text))
    }

    fn names<'a>(items: impl IntoIterator<Item = &'a Item>) -> Vec<&'a str> {
        items.into_iter().map(|item| item.name.as_str()).collect()
    }

    #[test]
    fn types_are_found_but_not_those_of_types_or_tests() {
        let items = read(
            "pub struct A<'a>(&'a str); enum B { C { d: u8 } } trait E { type F; const G: u8 = 1; }
            impl E for A<'_> { type F = u8; fn h() { struct X; } } type J = fn(u8) -> u8; mod m { pub(crate) struct K {} }
            #[cfg(test)] struct L; #[cfg(test)] mod tests { struct M; } #[derive(Debug)] struct N;
            fn o() -> impl Iterator<Item = u8> { type Y = u8; }",
        );
        assert_eq!(names(&items.types), ["A", "B", "E", "J", "K", "N"]);
    }

    #[test]
    fn constants_have_their_values() {
        let items = read(
            "const A: u64 = 60 * 60; pub static B: [u8; 2] = [1, 2]; thresholds! { /// Doc.
            C = 0.5, \"share\", \"x = 1, y\"; D = -2.0, \"s\", \"z\"; }
            impl X { const E: u8 = 1; } fn f(g: *const u8) { const H: &str = \"h\"; } #[cfg(test)] const I: u8 = 1;",
        );
        let found: Vec<_> = items.constants.iter().map(|one| format!("{} {}", one.item.name, one.value)).collect();
        assert_eq!(found, ["A 60 * 60", "B [ 1 , 2 ", "C 0.5", "D - 2.0", "H \"h\""]);
    }

    #[test]
    fn functions_reach_from_their_name_to_their_last_brace() {
        let text = "/// Long because it is.\n#[inline]\nfn a(\n    b: u8,\n) -> impl Fn() {\n}\ntrait T {\n    fn c();\n    fn d() {\n        fn e() {}\n    }\n}";
        let items = read(text);
        let found: Vec<_> = items.functions.iter().map(|item| (&*item.name, item.lines())).collect();
        assert_eq!(found, [("a", 4), ("d", 3), ("e", 1)]);
        assert_eq!(items.functions[0].comment(text).collect::<Vec<_>>(), ["/// Long because it is."]);
        assert_eq!(items.functions[1].comment(text).count(), 0);
    }

    #[test]
    fn fields_have_their_comments() {
        let text = "struct A {\n    /// Reads a second.\n    #[serde(default)]\n    pub reads_s: f64,\n    age_s: a::B<u8>,\n}\nenum C {\n    D { e: u8 },\n}";
        let items = read(text);
        assert_eq!(names(&items.fields), ["reads_s", "age_s", "e"]);
        let comments: Vec<_> = items.fields.iter().map(|field| field.comment(text).collect::<String>()).collect();
        assert_eq!(comments, ["/// Reads a second.", "", ""]);
    }
}
