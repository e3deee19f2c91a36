use proptest::prelude::*;

use super::table::table;
use super::*;

/// Raw names as profilers wrote them, each with its readable name.
const NAMES: &str = include_str!("../../../../tests/fixtures/kernel-names.tsv");

fn rows() -> impl Iterator<Item = (&'static str, &'static str)> {
    NAMES.lines().map(|line| line.split_once('\t').unwrap())
}

#[test]
fn kernels_have_the_names_that_a_person_reads() {
    let wrong = rows().filter(|(raw, readable)| kernel_name(raw) != *readable);
    let wrong = wrong.map(|(raw, readable)| format!("{raw}\n    is {}\n    not {readable}", kernel_name(raw)));
    let wrong: Vec<_> = wrong.collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(rows().count() >= 150);
}

#[test]
fn collectives_are_found_by_their_words_anywhere_in_any_case() {
    for raw in
        ["ncclKernel", "a::RCCL_b", "xAllReduce", "all_allgather_x", "void f<ReduceScatter>()", "SENDRECV", "ncncclx"]
    {
        assert!(is_collective(raw), "{raw}");
    }
    for raw in
        ["", "ncc", "all_reduce", "nc cl", "AllReduc", "volta_sgemm_128x64_nn", "Memcpy DtoD (Device -> Device)"]
    {
        assert!(!is_collective(raw), "{raw}");
    }
}

#[test]
fn a_name_that_no_row_knows_is_cleaned() {
    for (raw, readable) in [
        ("void lib::(anonymous namespace)::frobnicate_widgets_kernel<float, 4>(float*, int)", "frobnicate widgets"),
        ("_ZN3lib12_GLOBAL__N_125frobnicate_widgets_kernelIfLi4EEEvPfi", "frobnicate widgets"),
        ("frobnicateWidgets_0d1d2de", "frobnicate widgets"),
        ("void lib::frobnicate::kernel<int>(int)", "frobnicate kernel"),
        ("FROBNICATE", "frobnicate"),
        ("", "kernel without a name"),
        ("\u{1b}\tfrobnicate\u{7f}", "frobnicate"),
        ("(((", "kernel without a name"),
        ("ФРОБ", "kernel without a name"),
    ] {
        assert_eq!(kernel_name(raw), readable, "{raw}");
    }
    let long = kernel_name(&"frobnicate_".repeat(20));
    assert_eq!(long, "frobnicate frobnicate frobnicate frobnicate...");
}

#[test]
fn only_the_head_of_a_name_is_read() {
    let head = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, ".to_owned();
    assert_eq!(kernel_name(&(head + &"at::detail::Array<char*, 3>, ".repeat(50_000))), "elementwise add f32");
    for part in ["<", "(", ">", ")", " ", "::", "_Z", "1a", "N", "I", "E", "{lambda(", "kernel::", "é", "_", "Nn"] {
        for head in ["", "_ZN", "void ", "cutlass::Kernel<"] {
            let raw = head.to_owned() + &part.repeat((1 << 20) / part.len());
            let begun = std::time::Instant::now();
            let name = kernel_name(&raw);
            assert!(begun.elapsed().as_secs() < 2, "{part}");
            assert_eq!(name, kernel_name(&raw.chars().take(8 << 10).collect::<String>()), "{part}");
        }
    }
}

#[test]
fn the_tables_are_well_formed() {
    let placeholders = ["{type}", "{inputs}", "{op}", "{pass}", "{algorithm}", "{by}", "{fused}", "{name}"];
    for (pattern, template) in table("kernels") {
        let braced = template.split(' ').filter(|word| word.contains(['{', '}']));
        assert!(braced.clone().all(|word| placeholders.contains(&word)), "{template}");
        let words = template.split(' ').filter(|word| !word.contains('{')).map(|word| word.len() + 1).sum::<usize>();
        assert!(words <= READABLE_MAX && template.is_ascii() && *template == template.to_lowercase(), "{template}");
        assert!(pattern.len() > 2 && template.len() > 2, "{pattern}");
    }
    for (pattern, _) in ["kernels", "passes", "algorithms", "libraries"].into_iter().flat_map(table) {
        assert_eq!(*pattern, pattern.to_lowercase());
        let words = pattern.split([' ', '|']).map(|word| word.trim_start_matches('<'));
        assert!(words.clone().all(|word| word.len() > 1), "{pattern}");
    }
    for (title, is_list) in [
        ("operations", false),
        ("types", false),
        ("input types", false),
        ("opaque", false),
        ("blas", false),
        ("tensile", false),
        ("nvjet", false),
        ("built-in", false),
        ("wrappers", true),
        ("views", true),
        ("quiet", true),
        ("beginnings", true),
        ("ends", true),
    ] {
        assert!(table(title).len() >= 5, "{title}");
        assert!(table(title).iter().all(|(left, right)| !left.is_empty() && right.is_empty() == is_list), "{title}");
    }
}

proptest! {
    #[test]
    fn any_name_becomes_one_short_line_of_ascii(
        raw in prop_oneof![
            ".{0,300}",
            "(_Z)?[NISTLDXJFZUEa-l0-9_]{0,80}",
            proptest::collection::vec(
                prop_oneof![
                    proptest::sample::select(rows().map(|(raw, _)| raw).collect::<Vec<_>>()).prop_map(str::to_owned),
                    "[<>(){}:*&, \\[\\]|-]{1,5}",
                    "\\PC{0,5}",
                    "[\\x00-\\x1f]{0,3}",
                ],
                0..6,
            ).prop_map(|parts| parts.concat()),
        ],
        cut in 0usize..400,
    ) {
        for raw in [raw.as_str(), raw.get(..cut).unwrap_or_default(), raw.get(cut..).unwrap_or_default()] {
            let name = kernel_name(raw);
            prop_assert!(!name.is_empty() && name.len() <= READABLE_MAX, "{raw:?}: {name:?}");
            prop_assert!(name.bytes().all(|c| c == b' ' || (c.is_ascii_graphic() && !c.is_ascii_uppercase())), "{name:?}");
            prop_assert_eq!(name.trim(), name.as_str());
            let plain = raw.to_ascii_lowercase();
            let words = ["nccl", "rccl", "allreduce", "allgather", "reducescatter", "sendrecv"];
            prop_assert_eq!(is_collective(raw), words.iter().any(|word| plain.contains(word)));
        }
    }
}
