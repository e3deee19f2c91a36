//! The verdict's page: what it looks like, that it fits, and that nothing in it can reach the terminal raw.

use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::testing::{profiled, profiled_with};
use crate::testing_views::verdict;
use trainmon_diagnosis::diagnosis::causes::Cause;
use trainmon_diagnosis::diagnosis::verdict::{Advice, StepSource, Subject, Unavailable, WorkerVerdict};
use trainmon_profiles::account::ProfileAccount;
use trainmon_views::comparison::AnyComparison;
use trainmon_views::comparison::traces::{ComparedTrace, TraceComparison};
use trainmon_waits::time_split::TimeSplit;

/// Everything, on plain lines.
const FULL: Style = Style { ascii: false, color: false, full: true, width: WIDTH };

#[test]
fn a_verdict() {
    insta::assert_snapshot!(page(&verdict(), Style::default()));
}

#[test]
fn a_full_verdict() {
    insta::assert_snapshot!(page(&verdict(), FULL));
}

#[test]
fn a_full_verdict_in_ascii() {
    let text = page(&verdict(), Style { ascii: true, ..FULL });
    assert!(text.is_ascii());
    insta::assert_snapshot!(text);
}

#[test]
fn the_answer_is_on_the_first_lines() {
    let text = page(&verdict(), Style::default());
    let first: Vec<_> = text.lines().take(8).collect();
    assert_eq!(first[0], "DATA LOADER · too few workers (93% sure)");
    assert!(first.contains(&"▶ Raise num_workers from 4 to 7: up to 1.7× faster · 0.76 s a step"), "{text}");
}

#[test]
fn colors_change_nothing_but_colors() {
    for full in [true, false] {
        let style = Style { full, ..Style::default() };
        let colored = page(&verdict(), Style { color: true, ..style });
        assert!(colored.starts_with("\u{1b}[1;33mDATA LOADER"), "{colored}");
        let mut plain = String::new();
        for (number, part) in colored.split("\u{1b}[").enumerate() {
            plain += if number == 0 { part } else { part.split_once('m').unwrap().1 };
        }
        assert_eq!(plain, page(&verdict(), style));
    }
}

#[test]
fn a_healthy_run_gets_no_alarm() {
    let healthy = Verdict { class: Class::Gpu, cause: Some(Cause::ComputeBound), ..verdict() };
    let text = page(&healthy, Style::default());
    assert!(text.starts_with("✓ GPU"), "{text}");
    let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(flat.contains("Nothing is holding this run back. You could still try: Raise num_workers"), "{text}");
    assert!(!text.contains('▶') && !short(&healthy, false).contains("num_workers"), "{text}");
    assert!(page(&healthy, FULL).contains("What you could still try"));
    let said = Verdict { summary: NOTHING_HOLDS.to_owned(), ..healthy };
    assert_eq!(page(&said, Style::default()).matches("Nothing is holding").count(), 1);
}

#[test]
fn what_could_not_be_read_is_told_where_it_may_change_the_answer() {
    let missing = "Not available, and how to fix it";
    assert!(!page(&verdict(), Style::default()).contains(missing));
    let doubtful = page(&Verdict { confidence: 0.6, ..verdict() }, Style::default());
    assert!(doubtful.contains(missing) && doubtful.contains("fix: sudo trainmon"), "{doubtful}");
    let unknown = page(&Verdict { class: Class::Unknown, cause: None, ..verdict() }, Style::default());
    assert!(unknown.contains(missing), "{unknown}");
}

#[test]
fn one_line_for_a_ticket() {
    let line = short(&verdict(), false);
    assert_eq!(
        line,
        "DATA LOADER · too few workers (93% sure) → Raise num_workers from 4 to 7: up to 1.7× faster · 0.76 s a step\n"
    );
    let hostile = Advice { title: "a\nb\u{1b}[31m".to_owned(), ..Advice::default() };
    let line = short(&Verdict { advice: vec![hostile], ..verdict() }, true);
    assert!(line.is_ascii() && line.lines().count() == 1 && !line.contains('\u{1b}'), "{line}");
}

#[test]
fn many_workers_are_summed_up() {
    let mut many = verdict();
    many.workers = (0..64)
        .map(|n| WorkerVerdict { pid: n, busy: Some(f64::from(n) / 64.0), ..WorkerVerdict::default() })
        .collect();
    let text = page(&many, Style::default());
    assert!(text.contains("the time of the 64 workers") && text.contains("median"), "{text}");
    assert!(text.lines().count() < 60);
}

#[test]
fn little_seen() {
    let none = Verdict {
        pid: 7,
        trainmon: "0.1.0".to_owned(),
        not_seen: vec![Unavailable { what: Subject::Nvml.into(), why: "no driver".to_owned(), fix: None }],
        ..Verdict::default()
    };
    insta::assert_snapshot!(page(&none, Style::default()));
}

#[test]
fn an_unknown_verdict_says_why_in_one_line() {
    let missed = Unavailable {
        what: Subject::Stacks.into(),
        why: "py-spy may not attach".to_owned(),
        fix: Some("sudo trainmon".into()),
    };
    let unknown = Verdict { not_seen: vec![missed], ..Verdict::default() };
    assert_eq!(short(&unknown, false), "UNKNOWN · too little could be seen: py-spy may not attach → sudo trainmon\n");
    let sure = Verdict { class: Class::Gpu, phase: Phase::Training, confidence: 0.8, ..unknown };
    assert_eq!(short(&sure, true), "GPU (80% sure)\n");
}

#[test]
fn headlines() {
    let of = |class, cause: Option<Cause>, phase| {
        headline(&Verdict { class, cause, phase, confidence: 0.8, ..Verdict::default() })
    };
    assert_eq!(
        of(Class::DataLoader, Some(Cause::TooFewWorkers), Phase::Training),
        "DATA LOADER · too few workers (80% sure)"
    );
    assert_eq!(of(Class::Idle, None, Phase::Stopped), "NOT TRAINING · stopped or frozen (80% sure)");
    assert_eq!(of(Class::Unknown, None, Phase::Unknown), "UNKNOWN · too little could be seen");
    assert_eq!(of(Class::Gpu, None, Phase::Training), "GPU (80% sure)");
}

#[test]
fn a_profile() {
    insta::assert_snapshot!(page(&profiled(), Style::default()));
}

#[test]
fn a_full_profile() {
    insta::assert_snapshot!(page(&profiled(), FULL));
}

#[test]
fn a_profile_with_nothing_in_it_has_no_table() {
    let file = Some("t.json".to_owned());
    let empty = ProfileAccount { file, with_stack: true, with_shapes: true, ..ProfileAccount::default() };
    let text = page(&Verdict { profile: Some(empty.into()), ..Verdict::default() }, FULL);
    let expected = "UNKNOWN · too little could be seen\nt.json · window 0 ms · no steps\n\ntrainmon\n";
    assert_eq!(text.replace("trainmon \n", "trainmon\n"), expected);
}

proptest! {
    #[test]
    fn any_profile_fits_and_is_safe(text in "\\PC*|[\u{0}-\u{9f}\u{202a}-\u{202e}]{0,60}", number in proptest::num::f64::ANY, ascii: bool, full: bool, width in 0usize..200) {
        let page = page(&profiled_with(&text, number), Style { ascii, width, full, color: false });
        let most = width.clamp(NARROWEST, WIDEST);
        prop_assert!(page.lines().all(|line| line.width() <= most), "{}", page);
        let raw = |c: char| c.is_control() && c != '\n' || matches!(c, '\u{200e}'..='\u{200f}' | '\u{202a}'..='\u{202e}');
        prop_assert!(!page.chars().any(raw));
        prop_assert!(!ascii || page.is_ascii());
        prop_assert!(text.contains("NaN") || text.contains("inf") || !page.contains("NaN") && !page.contains("inf "), "{}", page);
    }

    #[test]
    fn any_verdict_fits_and_is_safe(texts in proptest::collection::vec("\\PC*|[\u{0}-\u{9f}\u{202a}-\u{202e}]{0,60}", 8), number in proptest::num::f64::ANY, ascii: bool, width in 0usize..200) {
        let mut hostile = verdict();
        hostile.command.clone_from(&texts[0]);
        hostile.summary.clone_from(&texts[1]);
        hostile.steps.source = Some(StepSource::Variable(texts[2].clone()));
        hostile.confidence = number;
        hostile.shares = Some(TimeSplit { input_wait: number, ..TimeSplit::default() });
        hostile.evidence[0].text.clone_from(&texts[3]);
        hostile.advice[0].why.clone_from(&texts[4]);
        hostile.evidence[0].value = Some(number);
        hostile.advice[0].title.clone_from(&texts[5]);
        hostile.not_seen[0].why.clone_from(&texts[6]);
        hostile.trainmon.clone_from(&texts[7]);
        let text = page(&hostile, Style { ascii, width, ..FULL });
        let most = width.clamp(NARROWEST, WIDEST);
        prop_assert!(text.lines().all(|line| line.width() <= most), "{}", text);
        let brief = page(&hostile, Style { ascii, width, ..Style::default() });
        prop_assert!(brief.lines().all(|line| line.width() <= most), "{}", brief);
        let raw = |c: char| c.is_control() && c != '\n' || matches!(c, '\u{200e}'..='\u{200f}' | '\u{202a}'..='\u{202e}');
        let reaches = text.chars().any(raw);
        prop_assert!(!reaches);
        prop_assert!(!ascii || text.is_ascii());
    }
}

#[test]
fn a_comparison_of_traces_fits_into_80_columns() {
    let before = profiled();
    let mut after = before.clone();
    let account = Arc::make_mut(after.profile.as_mut().unwrap());
    account.kernels.iter_mut().for_each(|kernel| kernel.name = format!("another kernel than {}", kernel.name));
    let [before, after] = [("a.json", &before), ("b.json", &after)].map(|(name, verdict)| ComparedTrace {
        name: name.to_owned(),
        verdict,
        account: verdict.profile.as_deref().unwrap(),
    });
    let compared = TraceComparison::new(before, after, None, 50);
    let said = comparison(&compared.page(), FULL);
    assert!(said.contains("Where the time of a step goes") && said.contains("another kernel than"), "{said}");
    assert!(said.lines().all(|line| line.chars().count() <= 80), "{said}");
}
