//! The Markdown of a verdict: what it looks like, and that nothing from outside becomes markup.

use proptest::prelude::*;

use super::*;
use crate::testing::{profiled, profiled_with};
use crate::testing_views::verdict;
use trainmon_base::text::format::Unit;
use trainmon_diagnosis::diagnosis::Signal;
use trainmon_diagnosis::diagnosis::verdict::{
    Advice, Evidence, Finding, Missing, StepSource, Steps, Subject, Unavailable,
};
use trainmon_waits::time_split::TimeSplit;

fn number(value: f64) -> Evidence {
    let signal = Signal::Workers;
    Evidence { signal, value: Some(value), unit: Unit::Count, threshold: None, text: String::new(), from: None }
}

/// A verdict every text of which is `text`.
fn filled_with(text: &str) -> Verdict {
    let text = || text.to_owned();
    Verdict {
        trainmon: text(),
        command: text(),
        started: text(),
        summary: text(),
        steps: Steps { source: Some(StepSource::Variable(text())), ..Steps::default() },
        evidence: vec![Evidence { text: text(), ..number(1.0) }],
        advice: vec![Advice { title: text(), why: text(), ..Advice::default() }],
        other_findings: vec![Finding { text: text(), ..Finding::default() }],
        not_seen: vec![Unavailable { what: Subject::Io.into(), why: text(), fix: Some(text()) }],
        ..Verdict::default()
    }
}

fn full() -> Verdict {
    let mut full = Verdict {
        command: "python train.py --data /data/image_net".to_owned(),
        started: "2026-02-03T04:05:06Z".to_owned(),
        summary: "The GPU waits for batches 68% of the time; 4 workers are 97% busy.".to_owned(),
        ..verdict()
    };
    full.evidence[0].text = "of the main thread's time went into waiting for a batch".to_owned();
    (full.evidence[1].value, full.evidence[1].threshold) = (None, None);
    full.advice.push(Advice { title: "Make the transforms cheaper".to_owned(), ..Advice::default() });
    full.not_seen.push(Unavailable {
        what: Missing::Gpu("gpu0_load".to_owned()),
        why: "NVML does not say how busy the device is".to_owned(),
        fix: None,
    });
    full
}

#[test]
fn a_full_verdict() {
    insta::assert_snapshot!(markdown(&full()));
}

#[test]
fn a_hostile_verdict() {
    insta::assert_snapshot!(markdown(&filled_with(
        "1. <b>|`x``y`\n# [a](javascript:b) \u{1b}[31m*c* &lt; _d_ $e$ ~~f~~\u{202E}"
    )));
}

#[test]
fn what_is_not_known_is_left_out_or_a_dash() {
    let text = markdown(&Verdict::default());
    assert!(!text.contains("###") && !text.contains("NaN") && !text.contains("``"), "{text}");
    let odd = Verdict {
        confidence: f64::NAN,
        shares: Some(TimeSplit { input_wait: f64::NAN, ..TimeSplit::default() }),
        evidence: vec![number(f64::INFINITY)],
        advice: vec![Advice { speedup_at_most: Some(f64::NAN), ..Advice::default() }],
        ..Verdict::default()
    };
    let text = markdown(&odd);
    assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
    assert!(!text.contains("waiting for data |"), "{text}");
}

#[test]
fn a_profile_has_its_file_its_parts_and_its_tables() {
    let text = profile(&profiled(), Some("Eight *ranks*"));
    assert!(text.starts_with("# Eight \\*ranks\\*\n\n## DATA LOADER"), "{text}");
    for part in [
        "- Profile: trace.json.gz · rank 1 of 8 · window 1.05 s · 6 steps of 175 ms · longest 181 ms · steps marked for the profiler\n",
        "### GPU 0 (NVIDIA H100 80GB HBM3): 50% busy, 50% idle\n\n| Share | What |\n| ---: | :--- |\n| 42% | computing |\n",
        "| 20% | waiting for data |\n",
        "| 1 | 150.2 | 125.9 | cudaStreamSynchronize in aten::item, train.py:41 (train\\_step) |\n",
        "| 2 | 1.5 | 0.2 | cudaMemcpyAsync, copies 12 MiB to the GPU |\n",
        "waiting for data: aten::to in enumerate(DataLoader), train.py:41 (train\\_step) |\n",
        "| in Python or nothing recorded: train.py:41 (train\\_step) |\n",
        "| nothing recorded |\n",
    ] {
        let plain = text.replace("train_step", "train\\_step");
        assert!(plain.contains(part), "{part}: {text}");
    }
    assert!(!text.contains("Watched:") && !text.contains("PID") && !text.contains("Kernel2"), "{text}");
}

#[test]
fn code_keeps_its_backticks() {
    assert_eq!(code("a").unwrap(), "`a`");
    assert_eq!(code("a `b` ``c``").unwrap(), "``` a `b` ``c`` ```");
    assert_eq!(code("a\nb").unwrap(), "`a b`");
    assert_eq!(code("  "), None);
}

#[test]
fn words_are_left_alone_and_markup_is_not() {
    assert_eq!(
        inline("raise num_workers from 4 to 7 (at most 1.7×)"),
        "raise num_workers from 4 to 7 (at most 1.7×)"
    );
    assert_eq!(inline("_a_ *b* <c>"), "\\_a\\_ \\*b\\* \\<c\\>");
    assert_eq!(inline("12. no item"), "12\\. no item");
    assert_eq!(inline("0.1.0"), "0.1.0");
    assert_eq!(inline("- no item - at all"), "\\- no item - at all");
    assert_eq!(inline("   indented"), "indented");
}

proptest! {
    #[test]
    fn no_text_changes_the_structure(text in "\\PC{0,40}|[-+=#>*_`|<&~$ \\[\\]()!.0-9a\\\\\n\u{1b}\u{2028}]{0,30}") {
        // How many cells of a table each line has.
        let cells = |document: &str| {
            let bars = |line: &str| {
                let (mut bars, mut escaped) = (0, false);
                for c in line.chars() {
                    bars += usize::from(c == '|' && !escaped);
                    escaped = c == '\\' && !escaped;
                }
                if line.starts_with('|') { bars } else { 0 }
            };
            document.lines().map(bars).collect::<Vec<_>>()
        };
        let document = markdown(&filled_with(&text));
        prop_assert!(!document.chars().any(|c| c.is_control() && c != '\n'));
        // A text that is nothing takes its line with it.
        if !sanitize(&text).trim().is_empty() {
            prop_assert_eq!(cells(&document), cells(&markdown(&filled_with("word"))), "{}", document);
            let summary = document.lines().nth(2).unwrap_or("");
            prop_assert!(!summary.starts_with(['#', '>', '-', '+', '=', '*', '|', '`', '~', ' ', '<']), "{}", summary);
            let item = summary.trim_start_matches(|c: char| c.is_ascii_digit());
            let numbered = item.len() < summary.len() && (item == "." || item.starts_with(". ") || item.starts_with(") "));
            prop_assert!(!numbered, "{}", summary);
        }
        let profile = markdown(&profiled_with(&text, 1.5));
        prop_assert!(!profile.chars().any(|c| c.is_control() && c != '\n'));
        if !sanitize(&text).trim().is_empty() {
            prop_assert_eq!(cells(&profile), cells(&markdown(&profiled_with("word", 1.5))), "{}", profile);
        }
        // Whatever HTML knows begins with this.
        for (at, _) in document.match_indices('<') {
            let line = document[..at].rsplit('\n').next().unwrap_or("");
            prop_assert!(document[..at].ends_with('\\') || line.contains('`'), "{}", document);
        }
    }
}
