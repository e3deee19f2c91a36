//! Secrets recognized by their shape: tokens of well-known services, JSON Web Tokens and private keys.

use std::ops::Range;

use super::scan::run_end;

/// The shape of a service's tokens.
struct TokenForm {
    /// Their prefixes.
    prefixes: &'static [&'static str],
    /// Characters allowed besides letters and digits.
    others: &'static [u8],
    /// Shortest length after the prefix, bytes.
    shortest: usize,
    /// Ordinary names start the same way (`hf_dataset`, `sk-learn`), so it must also look random.
    random: bool,
}

const fn form(prefixes: &'static [&'static str], others: &'static [u8], shortest: usize, random: bool) -> TokenForm {
    TokenForm { prefixes, others, shortest, random }
}

/// Tokens by prefix, as documented by their services; see also GitHub's list of patterns for secret scanning
/// (docs.github.com, "Supported secret scanning patterns").
const FORMS: &[TokenForm] = &[
    form(&["ghp_", "gho_", "ghu_", "ghs_", "ghr_", "sk_live_", "sk_test_", "rk_live_"], b"", 8, false),
    form(&["hf_", "npm_"], b"", 8, true),
    form(&["AKIA", "ASIA"], b"", 12, false),
    form(&["dop_v1_", "shpat_"], b"", 16, false),
    form(&["gsk_", "xai-", "r8_"], b"", 16, true),
    form(&["github_pat_"], b"_", 8, false),
    form(&["glsa_"], b"_", 16, false),
    form(&["lsv2_"], b"_", 16, true),
    form(&["xoxa-", "xoxb-", "xoxp-", "xoxr-", "xoxs-", "xapp-"], b"-", 8, false),
    form(&["dckr_pat_"], b"_-", 8, false),
    form(&["sk-", "pypi-"], b"_-", 8, true),
    form(&["nvapi-", "tgp_v1_", "AIza", "hvs."], b"_-", 16, false),
    form(&["glpat-", "ya29."], b"_-.", 8, false),
];

const PRIVATE_KEY: &str = "PRIVATE KEY";
const FRAME: &str = "-----";

fn is_word(b: u8) -> bool {
    b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-')
}

/// Everything that looks like a token or a private key.
pub(super) fn find(text: &str, secrets: &mut Vec<Range<usize>>) {
    private_keys(text, secrets);
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < text.len() {
        let start = run_end(text, at, |b| !is_word(b));
        let run = run_end(text, start, is_word);
        at = run.max(start + 1);
        // A letter or a digit before it belongs to the run; dots join the parts of some tokens.
        let Some(rest) = text.get(start..) else { continue };
        let found = FORMS.iter().find_map(|form| token(rest, form)).or_else(|| dotted(rest));
        if let Some(length) = found
            && !bytes.get(start + length).is_some_and(u8::is_ascii_alphanumeric)
        {
            secrets.push(start..start + length);
            at = start + length;
        }
    }
}

/// Length of the token of this form at the start of the text.
fn token(text: &str, form: &TokenForm) -> Option<usize> {
    let prefix = form.prefixes.iter().find(|prefix| text.starts_with(**prefix))?;
    let body = text.get(prefix.len()..)?;
    let end = run_end(body, 0, |b| b.is_ascii_alphanumeric() || form.others.contains(&b));
    let body = body.get(..end)?.trim_end_matches('.');
    let is_token = body.len() >= form.shortest && (!form.random || body.split(['-', '_']).any(looks_random));
    is_token.then_some(prefix.len() + body.len())
}

/// Whether it is long, or has digits or capitals among lower-case letters, unlike words.
fn looks_random(part: &str) -> bool {
    let has = |is_like: fn(&u8) -> bool| part.as_bytes().iter().any(is_like);
    let is_mixed = has(u8::is_ascii_digit) || has(u8::is_ascii_uppercase);
    part.len() >= 16 || part.len() >= 10 && is_mixed && has(u8::is_ascii_alphabetic)
}

/// JSON Web Tokens (RFC 7519: base64url of `{"`, dots between the parts) and SendGrid's keys (`SG.id.secret`).
fn dotted(text: &str) -> Option<usize> {
    let is_jwt = text.starts_with("eyJ");
    if !is_jwt && !text.starts_with("SG.") {
        return None;
    }
    // The first parts decide: a text with many beginnings must not be read to its end for each.
    let first = run_end(text, 0, is_word);
    let second = run_end(text, first + 1, is_word) - first.min(text.len());
    let third = text.as_bytes().get(first + second) == Some(&b'.');
    let is_token = text.as_bytes().get(first) == Some(&b'.')
        && if is_jwt { first >= 9 && second > 4 } else { second > 6 && third };
    is_token
        .then(|| run_end(text, 0, |b| is_word(b) || b == b'.'))
        .map(|end| text.get(..end).map_or(end, |token| token.trim_end_matches('.').len()))
}

/// The text between the frames of a private key (RFC 7468), or to the end if the second frame is missing.
fn private_keys(text: &str, secrets: &mut Vec<Range<usize>>) {
    let mut frames = text.match_indices(FRAME).map(|(at, _)| at).peekable();
    while let Some(open) = frames.next() {
        let Some(close) = frames.peek().copied() else { return };
        let label = text.get(open + FRAME.len()..close).unwrap_or_default();
        if !(label.starts_with("BEGIN ") && label.ends_with(PRIVATE_KEY)) {
            continue;
        }
        frames.next();
        let start = close + FRAME.len();
        let end = frames.peek().copied().unwrap_or(text.len());
        if start < end {
            secrets.push(start..end);
        }
    }
}
