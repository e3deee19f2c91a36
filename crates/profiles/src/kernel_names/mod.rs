//! Names of kernels as a person reads them: `gemm bf16 (cutlass sm90)` instead of 900 letters of C++.
//!
//! A raw name is taken apart (`raw`), the first row of `assets/kernel-names.txt` that matches it (`table`) gives the readable
//! name, and its placeholders are filled in (`words`, `data_type`). To name another kernel, add a row to the table and its raw name
//! to `tests/fixtures/kernel-names.tsv`. What matches no row keeps the cleaned name of its function.

mod data_type;
mod mangled;
mod raw;
mod table;
mod words;

use raw::RawName;

/// Longest readable name, characters.
pub(crate) const READABLE_MAX: usize = 48;

/// The name of a kernel, copy or memset as a person reads it, from the raw name in a trace, demangled or not: lower-case printable
/// ASCII, at most [`READABLE_MAX`] characters, never empty.
pub fn kernel_name(raw: &str) -> String {
    let parts = RawName::new(raw);
    readable(&filled(parts.meaning("kernels").unwrap_or("{name}"), &parts))
}

/// Whether a kernel communicates with other GPUs, by its raw name: NCCL, RCCL, or a collective's name in any case.
pub fn is_collective(raw: &str) -> bool {
    let raw = raw.to_ascii_lowercase();
    ["nccl", "rccl", "allreduce", "allgather", "reducescatter", "sendrecv"].iter().any(|word| raw.contains(word))
}

/// A template with its placeholders filled in. A placeholder without a value leaves nothing.
fn filled(template: &str, raw: &RawName) -> String {
    let words = template.split(' ').filter_map(|word| match word {
        "{type}" => data_type::declared(raw).map(str::to_owned),
        "{inputs}" => data_type::of_inputs(raw).map(str::to_owned),
        "{op}" => words::operation(raw),
        "{pass}" => raw.meaning("passes").map(str::to_owned),
        "{algorithm}" => raw.meaning("algorithms").map(str::to_owned),
        "{by}" => words::library(raw),
        "{fused}" => Some(words::fused(raw)),
        "{name}" => Some(words::cleaned(raw)),
        _ => Some(word.to_owned()),
    });
    words.collect::<Vec<_>>().join(" ")
}

/// Whatever a name holds, as one short line of printable ASCII. A cut name ends in `...`.
fn readable(name: &str) -> String {
    let printable = name.chars().map(|c| if c.is_ascii_graphic() { c.to_ascii_lowercase() } else { ' ' });
    let printable: String = printable.take(4 * READABLE_MAX).collect();
    let line = printable.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.is_empty() {
        return "kernel without a name".to_owned();
    }
    if line.len() <= READABLE_MAX {
        return line;
    }
    let head = line.get(..READABLE_MAX - 3).unwrap_or_default();
    let whole_words = head.rsplit_once(' ').map_or(head, |(words, _)| words);
    let kept = if whole_words.len() * 2 > READABLE_MAX { whole_words } else { head };
    format!("{kept}...")
}

#[cfg(test)]
mod tests;
