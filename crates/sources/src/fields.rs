//! Splitting the kernel's text as bytes, without allocating.

/// The lines of a text, without newlines; no empty line after the last newline.
pub fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let text = text.strip_suffix(b"\n").unwrap_or(text);
    let empty = text.is_empty();
    text.split(|&byte| byte == b'\n').filter(move |_| !empty)
}

/// A decimal number that fills the whole token; `None` for anything else and on overflow.
pub fn number<N: TryFrom<u64>>(token: &[u8]) -> Option<N> {
    if token.is_empty() {
        return None;
    }
    let value = token.iter().try_fold(0_u64, |value, &byte| {
        let digit = byte.checked_sub(b'0').filter(|&digit| digit <= 9)?;
        value.checked_mul(10)?.checked_add(u64::from(digit))
    })?;
    value.try_into().ok()
}

/// A hexadecimal number that fills the whole token, without a prefix.
pub fn hexadecimal(token: &[u8]) -> Option<u64> {
    let is_plain = token.iter().all(u8::is_ascii_hexdigit);
    if is_plain { u64::from_str_radix(std::str::from_utf8(token).ok()?, 16).ok() } else { None }
}

/// The fields of a line, separated by any number of blanks and tabs.
#[derive(Debug, Clone)]
pub struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    /// The fields of `line`.
    pub fn new(line: &'a [u8]) -> Self {
        Self(line)
    }

    /// The next field as a number; `None` at the end or for anything else.
    pub fn number<N: TryFrom<u64>>(&mut self) -> Option<N> {
        self.next().and_then(number)
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let blank = |byte: &u8| matches!(byte, b' ' | b'\t');
        let start = self.0.iter().position(|byte| !blank(byte))?;
        let rest = self.0.get(start..)?;
        let length = rest.iter().position(blank).unwrap_or(rest.len());
        let (field, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some(field)
    }
}

/// The number of the line `KEY NUMBER` (`/proc/vmstat`, `cpu.stat`, `memory.events`).
pub fn keyed_number(text: &[u8], key: &[u8]) -> Option<u64> {
    lines(text).find_map(|line| {
        let mut fields = Fields::new(line);
        (fields.next()? == key).then(|| fields.number())?
    })
}

/// Kernel text as a string; invalid UTF-8 becomes U+FFFD.
pub fn text(bytes: &[u8]) -> std::sync::Arc<str> {
    String::from_utf8_lossy(bytes).into()
}

/// Like [`text`], for paths, mount sources and the like: secrets in it are masked.
pub(crate) fn path_text(bytes: &[u8]) -> std::sync::Arc<str> {
    trainmon_base::text::secrets::prose(&String::from_utf8_lossy(bytes)).into()
}

/// The first `limit` bytes at most, cut between characters.
pub fn head(text: &str, limit: usize) -> &str {
    let end = (0..=limit.min(text.len())).rev().find(|&end| text.is_char_boundary(end)).unwrap_or(0);
    text.get(..end).unwrap_or_default()
}

/// The last `limit` bytes at most, cut between characters: the end of a path identifies the module.
pub(crate) fn tail(text: &str, limit: usize) -> &str {
    let from = text.len().saturating_sub(limit);
    let start = (from..=text.len()).find(|&start| text.is_char_boundary(start)).unwrap_or(text.len());
    text.get(start..).unwrap_or_default()
}

/// All numbers among the words of a text.
pub fn numbers(text: &[u8]) -> impl Iterator<Item = u32> + '_ {
    text.split(u8::is_ascii_whitespace).filter_map(number)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn sources_of_mounts_are_read_without_their_passwords() {
        for (given, wanted) in [
            (&b"https://me:hunter2@dav.example.com/x"[..], "https://me:***@dav.example.com/x"),
            (b"me:hunter2@host:/x", "me:***@host:/x"),
            (b"server:/export", "server:/export"),
            (b"//server/share", "//server/share"),
        ] {
            assert_eq!(&*path_text(given), wanted);
        }
    }

    proptest! {
        #[test]
        fn numbers_round_trip(value: u64) {
            prop_assert_eq!(number(value.to_string().as_bytes()), Some(value));
        }

        #[test]
        fn fields_are_the_words(words in proptest::collection::vec("[a-z0-9:./]{1,8}", 0..8), blanks in "[ \t]{1,3}") {
            let line = words.join(&blanks);
            let found: Vec<String> = Fields::new(line.as_bytes()).map(|f| String::from_utf8(f.to_vec()).unwrap()).collect();
            prop_assert_eq!(found, words);
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes: Vec<u8>) {
            for line in lines(&bytes) {
                let mut fields = Fields::new(line);
                while fields.next().is_some() {}
            }
            let _ = (number::<u64>(&bytes), hexadecimal(&bytes), keyed_number(&bytes, b"a"), text(&bytes), numbers(&bytes).count());
        }
    }
}
