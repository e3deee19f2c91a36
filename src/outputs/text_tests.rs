//! The verdict's page: what it looks like, that it fits, and that nothing in it can reach the terminal raw.

use proptest::prelude::*;

use super::*;
use crate::diagnosis::causes::Cause;
use crate::diagnosis::verdict::Subject;
use crate::outputs::testing::verdict;
use crate::rates::time_split::TimeSplit;

#[test]
fn a_full_verdict() {
    insta::assert_snapshot!(page(&verdict(), Style::default()));
}

#[test]
fn a_full_verdict_in_ascii() {
    let text = page(&verdict(), Style { ascii: true, color: false });
    assert!(text.is_ascii());
    insta::assert_snapshot!(text);
}

#[test]
fn many_workers_are_summed_up() {
    let mut many = verdict();
    many.workers = (0..64)
        .map(|n| WorkerVerdict { pid: n, busy: Some(f64::from(n) / 64.0), ..WorkerVerdict::default() })
        .collect();
    let text = page(&many, Style::default());
    assert!(text.contains("The 64 workers' time") && text.contains("median"), "{text}");
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

proptest! {
    #[test]
    fn any_verdict_fits_and_is_safe(texts in proptest::collection::vec("\\PC*|[\u{0}-\u{9f}\u{202a}-\u{202e}]{0,60}", 8), number in proptest::num::f64::ANY, ascii: bool) {
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
        let text = page(&hostile, Style { ascii, color: false });
        prop_assert!(text.lines().all(|line| line.width() <= WIDTH), "{}", text);
        let raw = |c: char| c.is_control() && c != '\n' || matches!(c, '\u{200e}'..='\u{200f}' | '\u{202a}'..='\u{202e}');
        let reaches = text.chars().any(raw);
        prop_assert!(!reaches);
        prop_assert!(!ascii || text.is_ascii());
    }
}
