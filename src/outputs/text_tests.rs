//! The verdict's page: what it looks like, that it fits, and that nothing in it can reach the terminal raw.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use proptest::prelude::*;

use super::*;
use crate::diagnosis::causes::Cause;
use crate::diagnosis::verdict::{Advice, OwnCost};
use crate::rates::time_split::TimeSplit;

fn verdict() -> Verdict {
    let worker = |pid| WorkerVerdict {
        pid,
        busy: Some(0.97),
        io_wait: Some(0.0),
        runnable: Some(0.02),
        idle: Some(0.01),
        batches_per_s: Some(0.19),
        ..WorkerVerdict::default()
    };
    Verdict {
        schema: 1,
        trainmon: "0.1.0".to_owned(),
        pid: 1234,
        command: "python train.py --data /data/imagenet".to_owned(),
        observed_s: 20.0,
        phase: Phase::Training,
        class: Class::DataLoader,
        cause: Some(Cause::TooFewWorkers),
        confidence: 0.93,
        summary: "The GPU waits for batches 68 % of the time; 4 workers are 97 % busy and 4 of 8 CPUs are free."
            .to_owned(),
        first_verdict_s: Some(3.1),
        shares: Some(TimeSplit {
            input_wait: 0.68,
            device_sync: 0.02,
            host_busy: 0.24,
            checkpoint: 0.0,
            other: 0.06,
        }),
        gpu_idle: Some(GpuIdle {
            total: 0.81,
            while_input_wait: 0.66,
            while_host_busy: 0.13,
            while_sync: 0.01,
            while_other: 0.01,
        }),
        steps: Steps {
            per_s: Some(0.77),
            p50_ms: Some(210.0),
            p95_ms: Some(5480.0),
            count: Some(15),
            stall_every: Some(4),
            source: None,
        },
        workers: vec![worker(1301), worker(1302)],
        evidence: vec![
            Evidence {
                signal: "input_wait".to_owned(),
                value: Some(0.68),
                unit: "share".to_owned(),
                threshold: Some(0.1),
                text: "main thread waits for batches".to_owned(),
            },
            Evidence {
                signal: "cores_free".to_owned(),
                value: Some(4.0),
                unit: "cores".to_owned(),
                threshold: Some(1.0),
                text: String::new(),
            },
        ],
        advice: vec![Advice {
            title: "Raise num_workers from 4 to 7".to_owned(),
            why: "Each worker takes 5.2 s for a batch and the trainer needs one every 0.8 s.".to_owned(),
            speedup_at_most: Some(1.7),
            predicted_step_ms: Some(760.0),
        }],
        other_findings: vec![Finding {
            class: Class::Gpu,
            cause: Some(Cause::UnderFilled),
            confidence: 0.4,
            text: "Power stays under half of its limit while the device is busy.".to_owned(),
        }],
        not_seen: vec![NotSeen {
            what: "syscall".to_owned(),
            why: "Yama's ptrace_scope is 1".to_owned(),
            mend: Some("sudo trainmon diagnose --pid 1234".to_owned()),
        }],
        own: OwnCost { cpu_pct: Some(0.4), rss_mib: Some(14.2) },
        ..Verdict::default()
    }
}

fn page(verdict: &Verdict, style: Style) -> String {
    let mut out = Vec::new();
    write(&mut out, verdict, style).unwrap();
    String::from_utf8(out).unwrap()
}

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
        not_seen: vec![NotSeen { what: "nvml".to_owned(), why: "no driver".to_owned(), mend: None }],
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
        "DATA-LOADER: too few workers (80 % sure)"
    );
    assert_eq!(of(Class::Idle, None, Phase::Stopped), "IDLE: stopped by a signal or a debugger (80 % sure)");
    assert_eq!(of(Class::Unknown, None, Phase::Unknown), "UNKNOWN: too little could be seen");
    assert_eq!(of(Class::Gpu, None, Phase::Training), "GPU (80 % sure)");
}

proptest! {
    #[test]
    fn any_verdict_fits_and_is_safe(texts in proptest::collection::vec("\\PC*|[\u{0}-\u{9f}\u{202a}-\u{202e}]{0,60}", 8), number in proptest::num::f64::ANY, ascii: bool) {
        let mut hostile = verdict();
        hostile.command.clone_from(&texts[0]);
        hostile.summary.clone_from(&texts[1]);
        hostile.evidence[0].signal.clone_from(&texts[2]);
        hostile.confidence = number;
        hostile.shares = Some(TimeSplit { input_wait: number, ..TimeSplit::default() });
        hostile.evidence[0].text.clone_from(&texts[3]);
        hostile.evidence[0].unit.clone_from(&texts[4]);
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
