//! The words of a readable name that depend on the kernel: its operation, direction, algorithm and library.

use super::raw::RawName;
use super::table::{first, table};

/// The function of an element that a general kernel was made for: `add` of `vectorized_elementwise_kernel<4, CUDAFunctor_add<float>…`.
pub fn operation(raw: &RawName) -> Option<String> {
    identifiers(&raw.args).find_map(|name| {
        let lower = name.to_ascii_lowercase();
        let bare = bare(name);
        let wraps = || first("wrappers", |known| lower.starts_with(known)).is_some();
        let words = || (bare.len() < name.len() && !wraps()).then(|| spaced(bare));
        first("operations", |known| known == lower).map(str::to_owned).or_else(words)
    })
}

/// The library, in brackets.
pub fn library(raw: &RawName) -> Option<String> {
    raw.meaning("libraries").filter(|word| !word.is_empty()).map(|word| format!("({word})"))
}

/// The operators that torch.compile fused, without those that only look at a tensor in another way, unless there are no others.
pub fn fused(raw: &RawName) -> String {
    let name = without_launch_suffix(&raw.path);
    let (_, names) = name.split_once("_fused_").unwrap_or_default();
    let names = names
        .replace("_to_copy", "cast")
        .replace("_unsafe_view", "view")
        .replace("native_", "")
        .replace("empty_like", "");
    let names = spaced(&names);
    let words: Vec<_> = names.split(' ').filter(|word| !word.bytes().all(|c| c.is_ascii_digit())).collect();
    let telling: Vec<_> = words.iter().copied().filter(|word| !table("views").contains(&(word, ""))).collect();
    let words = if telling.is_empty() { words } else { telling };
    if words.is_empty() { "(no name)".to_owned() } else { words.join(" ") }
}

/// The function's own name in words: `linearize index` of `void linearize_index_kernel<long>(…`.
pub fn cleaned(raw: &RawName) -> String {
    let mut name = String::new();
    for part in raw.path.rsplit("::") {
        let words = spaced(bare(without_launch_suffix(part)));
        let words = match words.rsplit_once(' ') {
            Some((words, number)) if number.bytes().all(|c| c.is_ascii_digit()) => words.to_owned(),
            _ => words,
        };
        name = if name.is_empty() { words } else { format!("{words} {name}") };
        if !name.is_empty() && !table("quiet").contains(&(&name, "")) {
            break;
        }
    }
    name
}

/// Triton's older names end in the kinds of the arguments: `_0d1d2de`.
fn without_launch_suffix(name: &str) -> &str {
    let kinds = |text: &str| {
        text.starts_with(|c: char| c.is_ascii_digit())
            && text.contains('d')
            && text.bytes().all(|c| b"0123456789dec".contains(&c))
    };
    match name.rsplit_once('_') {
        Some((before, last)) if kinds(last) => before,
        _ => name,
    }
}

fn identifiers(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}

/// An identifier without what says only that it is a kernel.
fn bare(name: &str) -> &str {
    let name = table("beginnings").iter().find_map(|(begin, _)| name.strip_prefix(begin)).unwrap_or(name);
    let unnumbered = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let name = if unnumbered.to_ascii_lowercase().ends_with("kernel") { unnumbered } else { name };
    let shortest = table("ends").iter().filter_map(|(end, _)| name.strip_suffix(end)).min_by_key(|rest| rest.len());
    shortest.filter(|rest| !rest.is_empty()).unwrap_or(name)
}

/// `max_pool`, `MaxPool` and `maxPool` are two words; so are the words of `LSTMCell`.
fn spaced(name: &str) -> String {
    let signs: Vec<char> = name.chars().collect();
    let mut words = String::new();
    for (at, sign) in signs.iter().enumerate() {
        let before = at.checked_sub(1).and_then(|at| signs.get(at));
        let after = signs.get(at + 1);
        let small = |sign: Option<&char>| sign.is_some_and(char::is_ascii_lowercase);
        let begins = sign.is_ascii_uppercase()
            && (small(before) || (before.is_some_and(char::is_ascii_uppercase) && small(after)));
        if begins {
            words.push(' ');
        }
        words.push(if sign.is_ascii_alphanumeric() { sign.to_ascii_lowercase() } else { ' ' });
    }
    words.split_whitespace().collect::<Vec<_>>().join(" ")
}
