//! What a kernel computes with: the data type, from template arguments, or from the letters of a library's naming scheme.

use super::raw::RawName;

/// Types as templates spell them, by the last word of their path. What comes first in a name is what the kernel reads.
const DECLARED: &[(&str, &str)] = &[
    ("float", "f32"),
    ("double", "f64"),
    ("half", "f16"),
    ("half2", "f16"),
    ("half_t", "f16"),
    ("__half", "f16"),
    ("__half2", "f16"),
    ("_float16", "f16"),
    ("bf16", "bf16"),
    ("bfloat16", "bf16"),
    ("bfloat16_t", "bf16"),
    ("__nv_bfloat16", "bf16"),
    ("__nv_bfloat162", "bf16"),
    ("__hip_bfloat16", "bf16"),
    ("hip_bfloat16", "bf16"),
    ("float8_e4m3fn", "f8"),
    ("float8_e4m3fnuz", "f8"),
    ("float8_e5m2", "f8"),
    ("float8_e5m2fnuz", "f8"),
    ("__nv_fp8_e4m3", "f8"),
    ("__nv_fp8_e5m2", "f8"),
    ("__hip_fp8_e4m3", "f8"),
    ("__hip_fp8_e5m2", "f8"),
    ("float_e4m3_t", "f8"),
    ("complex", "complex"),
    ("bool", "bool"),
    ("int8_t", "i8"),
    ("uint8_t", "u8"),
    ("short", "i16"),
    ("int", "i32"),
    ("int32_t", "i32"),
    ("long", "i64"),
    ("int64_t", "i64"),
];

/// Types as names of matrix products, convolutions and attention spell them. These name the types of inputs, sums and outputs: the
/// narrowest one, which comes first here, is that of the inputs, and decides how fast the GPU can be.
const NARROWEST_FIRST: &[(&[&str], &str)] = &[
    (&["mxfp4", "nvfp4", "fp4", "e2m1"], "f4"),
    (&["e4m3", "e5m2", "fp8", "float8"], "f8"),
    (&["int8"], "i8"),
    (&["tf32", "tfloat32"], "tf32"),
    (&["bf16", "bfloat16"], "bf16"),
    (&["fp16", "f16", "float16", "half"], "f16"),
    (&["double", "fp64", "f64"], "f64"),
];

/// What comes behind the letter of the type in the names of BLAS functions: `sgemm`, `h16816gemm`, `scudnn`.
const BLAS: [&str; 6] = ["gemm", "cudnn", "fprop", "dgrad", "wgrad", "gemv"];

/// The type of what a kernel reads, from its template arguments, or from its own name where it has none.
pub fn declared(raw: &RawName) -> Option<&'static str> {
    // The innermost lambda is made for one type, and named last in what dispatches to it.
    let lambda =
        raw.args.rfind("const::{lambda(").and_then(|at| raw.args.get(at..)).and_then(|text| text.split(')').next());
    let of_lambda = lambda.and_then(|lambda| {
        let mut types = types(lambda).filter(|name| *name != "i32");
        let first = types.next()?;
        // A mask comes before what it masks.
        Some(if first == "bool" { types.next().unwrap_or(first) } else { first })
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
        match (size, word) {
            (Some("1"), _) => Some("8-bit"),
            (Some("2"), _) => Some("16-bit"),
            (Some("4"), _) => Some("32-bit"),
            (Some("8"), _) => Some("64-bit"),
            (Some("16"), _) => Some("128-bit"),
            (_, "char") if unsigned => Some("u8"),
            (_, "char") if signed => Some("i8"),
            _ if unsigned => None,
            _ => DECLARED.iter().find(|(name, _)| word.eq_ignore_ascii_case(name)).map(|(_, name)| *name),
        }
    })
}

/// The type of the inputs of a matrix product, a convolution, an attention kernel or a collective.
pub fn of_inputs(raw: &RawName) -> Option<&'static str> {
    let names = || tokens(&raw.path_lower.text).chain(tokens(&raw.args_lower.text));
    let by_scheme = || tensile(&raw.path).or_else(|| nvjet(&raw.path));
    by_scheme()
        .or_else(|| {
            NARROWEST_FIRST
                .iter()
                .find_map(|(needles, name)| names().any(|token| has_any(token, needles)).then_some(*name))
        })
        .or_else(|| names().find_map(|token| blas_letter(token)))
        // Composable Kernel keeps bf16 in integers.
        .or_else(|| (raw.path.starts_with("ck") && raw.args.contains("unsigned short")).then_some("bf16"))
        .or_else(|| names().any(|token| has_any(token, &["float", "fp32", "f32"])).then_some("f32"))
        .or_else(|| names().any(|token| matches!(token, "s8" | "i8" | "u8")).then_some("i8"))
}

fn narrowest_in(path: &str) -> Option<&'static str> {
    let found = NARROWEST_FIRST
        .iter()
        .find_map(|(needles, name)| tokens(path).any(|token| has_any(token, needles)).then_some(*name));
    found.or_else(|| tokens(path).any(|token| matches!(token, "fp32" | "f32")).then_some("f32"))
}

/// Letters and digits between other signs.
fn tokens(lower: &str) -> impl Iterator<Item = &str> {
    lower.split(|c: char| !c.is_ascii_alphanumeric()).filter(|token| !token.is_empty())
}

fn has_any(token: &str, needles: &[&str]) -> bool {
    // `bf16f32` has two types, but `off64` none.
    let begins = |at: usize, needle: &str| {
        !needle.starts_with('f') || !token.get(..at).unwrap_or_default().ends_with(|c: char| c.is_ascii_alphabetic())
    };
    // An enum of vLLM that lists what a cache may hold.
    !token.ends_with("datatype")
        && needles.iter().any(|needle| token.match_indices(needle).any(|(at, _)| begins(at, needle)))
}

/// `sgemm` is a product of f32, `s1688gemm` one of f32 on the tensor cores (in tf32), `gcgemm` one of complex numbers.
fn blas_letter(token: &str) -> Option<&'static str> {
    let before = BLAS.iter().find_map(|function| token.split_once(function)).map(|(before, _)| before)?;
    let letters = before.trim_end_matches(|c: char| c.is_ascii_digit());
    match letters {
        "s" if before.len() > 1 => Some("tf32"),
        "s" => Some("f32"),
        "h" => Some("f16"),
        "d" => Some("f64"),
        "i" => Some("i8"),
        "c" | "z" | "gc" | "gz" => Some("complex"),
        _ => None,
    }
}

/// Names of AMD's Tensile: `Cijk_Alik_Bljk_BBS_…` has its types behind the indexes of A and B, that of A first.
fn tensile(path: &str) -> Option<&'static str> {
    let (_, scheme) = path.split_once("Cijk_")?;
    let mut parts = scheme.split('_').skip(2);
    let (types, next) = (parts.next()?, parts.next());
    let by_letter = |letter| match letter {
        'H' => Some("f16"),
        'B' => Some("bf16"),
        'S' if next == Some("MX") => Some("tf32"),
        'S' => Some("f32"),
        'D' => Some("f64"),
        'C' | 'Z' => Some("complex"),
        _ => None,
    };
    match types.get(..2) {
        Some("F8" | "B8") => Some("f8"),
        Some("I8") => Some("i8"),
        _ => types.chars().next().and_then(by_letter),
    }
}

/// cuBLAS since 12.5: `nvjet_tst_192x8_…` or `nvjet_sm100_hsh_…`; the first letter is the type of A.
fn nvjet(path: &str) -> Option<&'static str> {
    let (_, scheme) = path.split_once("nvjet_")?;
    let types = scheme.split('_').find(|part| !part.starts_with("sm"))?;
    match types.chars().next()? {
        'h' => Some("f16"),
        't' => Some("bf16"),
        's' => Some("f32"),
        'd' => Some("f64"),
        'q' => Some("f8"),
        _ => None,
    }
}
