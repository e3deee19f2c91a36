//! What a kernel computes with: the data type, from template arguments, or from the letters of a library's naming scheme.

use super::raw::RawName;
use super::table::first;

/// What comes behind the letter of the type in the names of BLAS functions: `sgemm`, `h16816gemm`, `scudnn`.
const BLAS: [&str; 6] = ["gemm", "cudnn", "fprop", "dgrad", "wgrad", "gemv"];

/// The type of what a kernel reads, from its template arguments, or from its own name where it has none.
pub fn declared(raw: &RawName) -> Option<&'static str> {
    // The innermost lambda is made for one type, and named last in what dispatches to it.
    let lambda =
        raw.args.rfind("const::{lambda(").and_then(|at| raw.args.get(at..)).and_then(|text| text.split(')').next());
    let of_lambda = lambda.and_then(|lambda| {
        let mut types = types(lambda).filter(|name| *name != "i32");
        let outer = types.next()?;
        // A mask comes before what it masks.
        Some(if outer == "bool" { types.next().unwrap_or(outer) } else { outer })
    });
    of_lambda.or_else(|| first_type(&raw.args)).or_else(|| narrowest_in(&raw.path_lower.text))
}

/// The first data type of some arguments. Unsigned integers are indexes and sizes.
fn first_type(args: &str) -> Option<&'static str> {
    types(args).next()
}

fn types(args: &str) -> impl Iterator<Item = &'static str> {
    let mut before = "";
    let words = args.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|word| !word.is_empty());
    words.filter_map(move |word| {
        let (unsigned, signed) = (before == "unsigned", before == "signed");
        let size = before.eq_ignore_ascii_case("opaquetype").then_some(word.trim_end_matches('u'));
        before = word;
        match size.and_then(|size| first("opaque", |known| known == size)) {
            Some(opaque) => Some(opaque),
            None if unsigned => (word == "char").then_some("u8"),
            None if signed && word == "char" => Some("i8"),
            None => first("types", |known| word.eq_ignore_ascii_case(known)),
        }
    })
}

/// The type of the inputs of a matrix product, a convolution, an attention kernel or a collective.
pub(crate) fn of_inputs(raw: &RawName) -> Option<&'static str> {
    let names = || tokens(&raw.path_lower.text).chain(tokens(&raw.args_lower.text));
    let by_scheme = tensile(&raw.path).or_else(|| nvjet(&raw.path));
    by_scheme
        .or_else(|| narrowest(names))
        .or_else(|| names().find_map(|token| blas_letter(token)))
        // Composable Kernel keeps bf16 in integers.
        .or_else(|| (raw.path.starts_with("ck") && raw.args.contains("unsigned short")).then_some("bf16"))
        .or_else(|| names().any(|token| has_any(token, "float|fp32|f32")).then_some("f32"))
        .or_else(|| names().any(|token| matches!(token, "s8" | "i8" | "u8")).then_some("i8"))
}

/// The narrowest type that is among the words of a name.
fn narrowest<'a, T: Iterator<Item = &'a str>>(names: impl Fn() -> T) -> Option<&'static str> {
    first("input types", |needles| names().any(|token| has_any(token, needles)))
}

fn narrowest_in(path: &str) -> Option<&'static str> {
    let f32 = || tokens(path).any(|token| matches!(token, "fp32" | "f32")).then_some("f32");
    narrowest(|| tokens(path)).or_else(f32)
}

/// Letters and digits between other signs.
fn tokens(lower: &str) -> impl Iterator<Item = &str> {
    lower.split(|c: char| !c.is_ascii_alphanumeric()).filter(|token| !token.is_empty())
}

/// Whether a word has one of several parts, with `|` between.
fn has_any(token: &str, needles: &str) -> bool {
    // `bf16f32` has two types, but `off64` none.
    let begins = |at: usize, needle: &str| {
        !needle.starts_with('f') || !token.get(..at).unwrap_or_default().ends_with(|c: char| c.is_ascii_alphabetic())
    };
    // An enum of vLLM that lists what a cache may hold.
    !token.ends_with("datatype")
        && needles.split('|').any(|needle| token.match_indices(needle).any(|(at, _)| begins(at, needle)))
}

/// `sgemm` is a product of f32, `s1688gemm` one of f32 on the tensor cores (in tf32), `gcgemm` one of complex numbers.
fn blas_letter(token: &str) -> Option<&'static str> {
    let before = BLAS.iter().find_map(|function| token.split_once(function)).map(|(before, _)| before)?;
    let letters = before.trim_end_matches(|c: char| c.is_ascii_digit());
    let is_tf32 = letters == "s" && before.len() > 1;
    if is_tf32 { Some("tf32") } else { first("blas", |known| known == letters) }
}

/// Names of AMD's Tensile: `Cijk_Alik_Bljk_BBS_…` has its types behind the indexes of A and B, that of A first.
fn tensile(path: &str) -> Option<&'static str> {
    let (_, scheme) = path.split_once("Cijk_")?;
    let mut parts = scheme.split('_').skip(2);
    let (types, next) = (parts.next()?, parts.next());
    let is_tf32 = types.starts_with('S') && next == Some("MX");
    if is_tf32 { Some("tf32") } else { first("tensile", |known| types.starts_with(known)) }
}

/// cuBLAS since 12.5: `nvjet_tst_192x8_…` or `nvjet_sm100_hsh_…`; the first letter is the type of A.
fn nvjet(path: &str) -> Option<&'static str> {
    let (_, scheme) = path.split_once("nvjet_")?;
    let types = scheme.split('_').find(|part| !part.starts_with("sm"))?;
    first("nvjet", |known| types.starts_with(known))
}
