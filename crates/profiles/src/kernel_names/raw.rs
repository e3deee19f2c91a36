//! A kernel's raw name, taken apart: the path of its function, and the template arguments.

use super::mangled::spelled;
use super::table::first;

/// As much of a name is looked at, bytes: the function and what it was made for come first.
const HEAD_MAX: usize = 2 << 10;

/// A raw name in parts. All of them are short, whatever the name is.
pub struct RawName {
    /// `at::native::reduce_kernel`, without anonymous namespaces, result, template arguments and parameters.
    pub path: String,
    /// What is between the brackets of the last part of the path: `512, 1, at::native::ReduceOp<…`.
    pub args: String,
    /// The path in lower case.
    pub path_lower: Lower,
    /// The arguments in lower case.
    pub args_lower: Lower,
    head_lower: Lower,
}

/// A text in lower case, in which many words are searched.
pub struct Lower {
    /// The text itself.
    pub text: String,
    /// The bytes below 128 that occur, a bit each: most words are ruled out by a letter.
    letters: u128,
}

impl Lower {
    fn new(text: &str) -> Self {
        let text = text.to_ascii_lowercase();
        let letters = text.bytes().filter(u8::is_ascii).fold(0, |letters, byte| letters | 1 << byte);
        Self { text, letters }
    }

    /// Whether a word of ASCII occurs.
    pub fn contains(&self, word: &str) -> bool {
        word.bytes().all(|byte| self.letters & (1 << (byte & 127)) != 0) && self.text.contains(word)
    }
}

impl RawName {
    pub fn new(name: &str) -> Self {
        let end = (0..=HEAD_MAX.min(name.len())).rev().find(|at| name.is_char_boundary(*at)).unwrap_or_default();
        let head = name.get(..end).unwrap_or_default().trim();
        let head = head.split(" [clone").next().unwrap_or(head).trim_end_matches(".kd");
        let head = if head.starts_with("_Z") { spelled(head) } else { head.replace("(anonymous namespace)::", "") };
        // Copies have names for people: `Memcpy HtoD (Pageable -> Device)`.
        let is_copy = head.starts_with("Memcpy ") || head.starts_with("Memset ");
        let (path, args) = if is_copy { (head.clone(), String::new()) } else { parts(&head) };
        Self {
            path_lower: Lower::new(&path),
            args_lower: Lower::new(&args),
            head_lower: Lower::new(&head),
            path,
            args,
        }
    }

    /// What the first row of a table means whose pattern matches.
    pub fn meaning(&self, title: &str) -> Option<&'static str> {
        first(title, |pattern| self.matches(pattern))
    }

    /// Whether all words of a pattern occur, each of which is a choice: `conv|winograd`. They are searched in the path, and behind
    /// a `<` in the whole name.
    fn matches(&self, pattern: &str) -> bool {
        pattern.split(' ').all(|choice| {
            choice.split('|').any(|word| match word.strip_prefix('<') {
                Some(word) => self.head_lower.contains(word),
                None => self.path_lower.contains(word),
            })
        })
    }
}

/// The path of the function and its template arguments.
fn parts(head: &str) -> (String, String) {
    let (mut path, mut args) = (String::new(), (0, 0));
    let mut open: Vec<char> = Vec::new();
    let mut before = ' ';
    for (at, sign) in head.char_indices() {
        let rest = head.get(at + sign.len_utf8()..).unwrap_or_default();
        match sign {
            '<' | '{' | '[' => {
                if open.is_empty() {
                    args = (at + 1, head.len());
                }
                open.push(sign);
            }
            // The parameters end the path.
            '(' if open.is_empty() && !path.is_empty() => break,
            '(' => open.push(sign),
            // A comparison among the arguments opens nothing.
            ')' => while open.pop().is_some_and(|opened| opened != '(') {},
            '>' if before != '-' && open.last() == Some(&'<') => {
                open.pop();
                if open.is_empty() {
                    args.1 = at;
                }
            }
            '}' | ']' if open.last().is_some_and(|opened| !"<(".contains(*opened)) => {
                open.pop();
            }
            // The result type comes before the path.
            ' ' if open.is_empty() && rest.starts_with(|c: char| !" (<{[".contains(c)) => path.clear(),
            _ if open.is_empty() && !sign.is_whitespace() => path.push(sign),
            _ => {}
        }
        before = sign;
    }
    (path, head.get(args.0..args.1).unwrap_or_default().to_owned())
}
