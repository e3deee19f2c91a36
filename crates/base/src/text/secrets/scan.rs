//! Secrets recognized by their place: after a name, or in a URL.

use std::ops::Range;

use super::{SecretKind, is_option, names};

/// What separates a name from its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Separator {
    /// `name=value`.
    Equals,
    /// `name: value`.
    Colon,
    /// `--name value`, also as a list in code (`"--name", "value"`).
    Blank,
}

/// How a header value starts that names its authentication scheme, which stays visible. RFC 9110, 11.6, and Amazon's
/// signatures.
const SCHEMES: &[&str] =
    &["bearer", "basic", "digest", "token", "apikey", "negotiate", "aws4-hmac-sha256", "sharedkey"];
/// What may follow a parameter's name in Python without being a value.
const TYPES: &[&str] = &["str", "int", "float", "bool", "bytes", "Any", "Tensor", "torch.Tensor", "Optional[str]"];
/// Most quotes and brackets between a name and its separator (`"name\": `, `environ["name"] =`).
const CLOSERS: usize = 4;

/// The byte at an index; 0 after the end.
fn byte(text: &str, at: usize) -> u8 {
    text.as_bytes().get(at).copied().unwrap_or(0)
}

/// Where a run of matching bytes ends.
pub(super) fn run_end(text: &str, from: usize, is_like: impl Fn(u8) -> bool) -> usize {
    let bytes = text.as_bytes().get(from..).unwrap_or_default();
    from + bytes.iter().position(|&b| !is_like(b)).unwrap_or(bytes.len())
}

/// Whether a byte may be part of an option's or variable's name.
pub(super) fn is_name(b: u8) -> bool {
    b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.')
}

fn is_blank(b: u8) -> bool {
    b.is_ascii_whitespace()
}

fn is_quote(b: u8) -> bool {
    matches!(b, b'"' | b'\'' | b'`')
}

/// Where the value of a name starts, if one follows it.
pub(super) fn value_start(text: &str, name: Range<usize>, kind: SecretKind) -> Option<(usize, Separator)> {
    let mut at = name.end;
    while at < name.end + CLOSERS && (is_quote(byte(text, at)) || matches!(byte(text, at), b'\\' | b']')) {
        at += 1;
    }
    let is_quoted = at > name.end;
    let closed = at;
    at = run_end(text, at, is_blank);
    let (length, separator) = match (byte(text, at), byte(text, at + 1)) {
        (b':', b'/' | b':') => return None,
        (b':', b'=') => (2, Separator::Equals),
        // `==`, and Ruby's and Perl's `=>`. Without a blank, the value itself may start that way.
        (b'=', b'=' | b'>') if is_blank(byte(text, at + 2)) || is_quote(byte(text, at + 2)) => (2, Separator::Equals),
        (b'=', _) => (1, Separator::Equals),
        (b':', _) => (1, Separator::Colon),
        (found, _) if byte(text, name.start) == b'-' => {
            // In code an option and its value are two strings.
            let in_list = is_quoted && found == b',';
            let is_word =
                name.start == 0 || is_blank(byte(text, name.start - 1)) || is_quote(byte(text, name.start - 1));
            if !in_list && (kind == SecretKind::Prose || at == closed || !is_word) {
                return None;
            }
            (usize::from(in_list), Separator::Blank)
        }
        _ => return None,
    };
    Some((run_end(text, at + length, is_blank), separator))
}

/// Length of the authentication scheme at the start of a value, with the blanks after it.
pub(super) fn scheme(value: &str) -> usize {
    let end = run_end(value, 0, is_name);
    let is_known = value.get(..end).is_some_and(|word| SCHEMES.contains(&word.to_ascii_lowercase().as_str()));
    let next = run_end(value, end, is_blank);
    if is_known && next > end { next } else { 0 }
}

/// Values of names that introduce a secret.
pub(super) fn assignments(text: &str, kind: SecretKind, secrets: &mut Vec<Range<usize>>) {
    let mut at = 0;
    while at < text.len() {
        let start = run_end(text, at, |b| !is_name(b));
        let end = run_end(text, start, is_name);
        at = end;
        let Some(name) = text.get(start..end).filter(|name| !name.is_empty()) else { continue };
        bearer(text, start..end, secrets);
        let Some((from, separator)) = value_start(text, start..end, kind) else { continue };
        let is_parameter = start > 0 && matches!(byte(text, start - 1), b'?' | b'&');
        if !names::is_secret(name, is_parameter) {
            continue;
        }
        let Some(range) = value(text, from, separator, is_parameter, kind) else { continue };
        let Some(found) = text.get(range.clone()) else { continue };
        at = range.end.max(end);
        if !names::is_harmless(name, found) {
            secrets.push(range);
        }
    }
}

/// `Bearer TOKEN` without a header name before it.
fn bearer(text: &str, word: Range<usize>, secrets: &mut Vec<Range<usize>>) {
    let start = run_end(text, word.end, is_blank);
    if text.get(word.clone()) != Some("Bearer") || start == word.end {
        return;
    }
    let end = run_end(text, start, |b| !is_blank(b) && !is_quote(b));
    if end - start >= 6 {
        secrets.push(start..end);
    }
}

fn value(
    text: &str,
    from: usize,
    separator: Separator,
    is_parameter: bool,
    kind: SecretKind,
) -> Option<Range<usize>> {
    // f"…", rb'…'
    let letters = run_end(text, from, |b| matches!(b, b'f' | b'F' | b'r' | b'R' | b'b' | b'B' | b'u' | b'U'));
    let open = if letters - from <= 2 && is_quote(byte(text, letters)) { letters } else { from };
    let is_escaped = byte(text, open) == b'\\' && is_quote(byte(text, open + 1));
    let open = open + usize::from(is_escaped);
    let quote = byte(text, open);
    if is_quote(quote) {
        let three = [quote; 3];
        let is_triple = text.as_bytes().get(open..).is_some_and(|rest| rest.starts_with(&three));
        let start = open + if is_triple { 3 } else { 1 };
        let end = closing(text, start, quote, is_escaped, is_triple);
        let start = start + text.get(start..end).map_or(0, scheme);
        return (start < end).then_some(start..end);
    }
    if kind == SecretKind::Prose && !is_parameter {
        return None;
    }
    let rest = text.get(from..)?;
    let word_end = from + rest.find(char::is_whitespace).unwrap_or(rest.len());
    if separator == Separator::Blank && is_option(text.get(from..word_end)?) {
        return None;
    }
    let start = from + scheme(rest);
    let ends = |b: u8| is_blank(b) || is_quote(b) || is_parameter && matches!(b, b'&' | b'#');
    let mut end = run_end(text, start, |b| !ends(b));
    while end > start && matches!(byte(text, end - 1), b';' | b',' | b')' | b'}' | b']') {
        end -= 1;
    }
    let is_type = separator == Separator::Colon && text.get(start..end).is_some_and(|word| TYPES.contains(&word));
    (start < end && !is_type).then_some(start..end)
}

/// Where a quoted value ends: before its quote, or at the end of the text.
fn closing(text: &str, start: usize, quote: u8, is_escaped: bool, is_triple: bool) -> usize {
    let mut at = start;
    while at < text.len() {
        let here = byte(text, at);
        if is_escaped && here == b'\\' && byte(text, at + 1) == quote {
            return at;
        }
        if !is_escaped && here == b'\\' {
            at += 2;
            continue;
        }
        let is_end = !is_triple || byte(text, at + 1) == quote && byte(text, at + 2) == quote;
        if here == quote && is_end {
            return at;
        }
        at += 1;
    }
    text.len()
}

/// Passwords in URLs (`scheme://user:pass@host`) and in addresses without a scheme (`user:pass@host`), and parts of a
/// URL's path that are secret.
pub(super) fn addresses(text: &str, secrets: &mut Vec<Range<usize>>) {
    let mut at = 0;
    while at < text.len() {
        let start = run_end(text, at, |b| is_blank(b) || is_quote(b));
        let end = run_end(text, start, |b| !is_blank(b) && !is_quote(b));
        at = end;
        let Some(word) = text.get(start..end) else { continue };
        let mut found = Vec::new();
        if word.contains("://") {
            urls(word, &mut found);
        } else {
            found.extend(user_and_password(word));
        }
        secrets.extend(found.into_iter().map(|range| range.start + start..range.end + start));
    }
}

fn urls(word: &str, secrets: &mut Vec<Range<usize>>) {
    let mut begins: Vec<usize> = word.match_indices("://").map(|(at, _)| at + 3).collect();
    begins.push(word.len() + 3);
    for pair in begins.windows(2) {
        let [begin, next] = *pair else { continue };
        let Some(url) = word.get(begin..next - 3) else { continue };
        let shift = |range: Range<usize>| range.start + begin..range.end + begin;
        let authority = url.get(..url.find(['/', '?', '#']).unwrap_or(url.len())).unwrap_or(url);
        let colon = authority.find(':');
        let found = match (authority.rfind('@'), colon) {
            (Some(end), Some(colon)) if colon < end => Some(colon + 1..end),
            // A user name alone is not a secret; a token in its place is.
            (Some(end), _) => authority.get(..end).filter(|user| user.len() >= 20).map(|user| 0..user.len()),
            // A password with a slash in it.
            (None, Some(colon)) => {
                let is_port = authority.bytes().skip(colon + 1).all(|b| b.is_ascii_digit() || b == b',');
                if is_port { None } else { url.rfind('@').map(|end| colon + 1..end) }
            }
            (None, None) => None,
        };
        secrets.extend(found.filter(|range| !range.is_empty()).map(shift));
        secrets.extend(webhook(url).map(shift));
    }
}

/// The part of a webhook's URL that grants write access.
fn webhook(url: &str) -> Option<Range<usize>> {
    let begins = ["hooks.slack.com/services/", "discord.com/api/webhooks/", "discordapp.com/api/webhooks/"];
    let start = begins.iter().find_map(|begin| url.strip_prefix(begin)).map(|rest| url.len() - rest.len())?;
    let end = run_end(url, start, |b| b != b'?');
    (start < end).then_some(start..end)
}

fn user_and_password(word: &str) -> Option<Range<usize>> {
    let end = word.rfind('@')?;
    let (before, host) = (word.get(..end)?, word.get(end + 1..)?);
    let colon = before.find(':')?;
    let user = before.get(..colon)?.rsplit(['=', ',', '(', '[', '{', ';', '/']).next()?;
    let is_user =
        !user.is_empty() && user.chars().all(|c| c.is_alphanumeric() || "_.%+-".contains(c)) && user != "npm";
    let is_host = host.starts_with(|c: char| c.is_alphanumeric() || c == '[') && !host.starts_with("sha256:");
    let is_path = before.get(colon + 1..)?.starts_with('/');
    (is_user && is_host && !is_path && colon + 1 < end).then_some(colon + 1..end)
}
