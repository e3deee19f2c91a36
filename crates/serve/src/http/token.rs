//! Bearer tokens (RFC 6750).

use std::fmt;

/// Shortest token taken, characters: a shorter one can be guessed.
const SHORTEST: usize = 16;
/// Longest, so that it fits into a header.
const LONGEST: usize = 4096;

/// A token. It is never printed.
#[derive(Clone)]
pub struct Token(String);

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(***)")
    }
}

impl Token {
    /// The token in the text of a file: its only line.
    ///
    /// # Errors
    /// What is wrong with it, in a few words.
    pub fn new(text: &str) -> Result<Self, String> {
        let token = text.trim();
        if token.is_empty() {
            return Err("it is empty".to_owned());
        }
        // RFC 6750, section 2.1, and what generators of passwords print.
        if !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err("a token is one line of ASCII characters without blanks".to_owned());
        }
        if !(SHORTEST..=LONGEST).contains(&token.len()) {
            return Err(format!("a token has {SHORTEST} to {LONGEST} characters, this one {}", token.len()));
        }
        Ok(Self(token.to_owned()))
    }

    /// Whether an `Authorization` header gives it. Takes as long for a wrong token as for the right one.
    pub fn is_in(&self, header: &[u8]) -> bool {
        let Some((scheme, given)) = header.split_at_checked("Bearer ".len()) else { return false };
        let given = given.trim_ascii();
        let differences = self.0.bytes().zip(given).fold(0, |sum, (ours, theirs)| sum | (ours ^ theirs));
        scheme.eq_ignore_ascii_case(b"Bearer ")
            && given.len() == self.0.len()
            && std::hint::black_box(differences) == 0
    }

    /// The header that gives it.
    pub fn header(&self) -> String {
        format!("Bearer {}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_whole_token_is_right() {
        let token = Token::new(" 0123456789abcdef\n").unwrap();
        for right in ["Bearer 0123456789abcdef", "bearer  0123456789abcdef "] {
            assert!(token.is_in(right.as_bytes()), "{right}");
        }
        for wrong in [
            "",
            "Bearer",
            "Bearer ",
            "Bearer 0123456789abcde",
            "Bearer 0123456789abcdefg",
            "Basic 0123456789abcdef",
            "Bearer 0123456789abcdeF",
        ] {
            assert!(!token.is_in(wrong.as_bytes()), "{wrong}");
        }
        assert_eq!(token.header(), "Bearer 0123456789abcdef");
        assert_eq!(format!("{token:?}"), "Token(***)");
    }

    #[test]
    fn what_is_no_token_is_refused() {
        for (text, why) in [
            ("\n", "empty"),
            ("short", "16 to 4096"),
            ("two words in one", "one line"),
            ("0123456789abcdefä", "ASCII"),
        ] {
            assert!(Token::new(text).unwrap_err().contains(why), "{text}");
        }
        assert!(Token::new(&"x".repeat(5000)).is_err());
    }
}
