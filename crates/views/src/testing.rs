//! A verdict with something in every section, for the tests of what is said of it.

use trainmon_base::text::format::Unit;
use trainmon_diagnosis::diagnosis::causes::Cause;
use trainmon_diagnosis::diagnosis::chain::ChainNode;
use trainmon_diagnosis::diagnosis::verdict::{
    Advice, Ceiling, Class, Culprit, CulpritKind, Evidence, Finding, GpuIdle, Limit, OwnCost, Phase, ShareOf, Steps,
    Subject, Unavailable, WorkerVerdict,
};
use trainmon_diagnosis::diagnosis::{Signal, Verdict};
use trainmon_waits::taxonomy::Edge;
use trainmon_waits::time_split::TimeSplit;

pub(super) fn verdict() -> Verdict {
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
        summary: "The GPU waits for batches 68% of the time; 4 workers are 97% busy and 4 of 8 CPUs are free."
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
            unit: Default::default(),
        },
        workers: vec![worker(1301), worker(1302)],
        evidence: vec![
            Evidence {
                signal: Signal::InputWait,
                value: Some(0.68),
                unit: Unit::Share,
                threshold: Some(0.1),
                text: "main thread waits for batches".to_owned(),
                from: None,
            },
            Evidence {
                signal: Signal::CpuOthers,
                value: Some(4.0),
                unit: Unit::Cores,
                threshold: Some(1.0),
                text: "cores free".to_owned(),
                from: None,
            },
        ],
        advice: vec![Advice {
            title: "Raise num_workers from 4 to 7".to_owned(),
            why: "Each worker takes 5.2 s for a batch and the loop needs one every 0.8 s.".to_owned(),
            speedup_at_most: Some(1.7),
            predicted_step_ms: Some(760.0),
        }],
        ceiling: Some(Ceiling { speedup_at_most: 1.74, limit: Limit::Gpu }),
        other_findings: vec![Finding {
            class: Class::Gpu,
            cause: Some(Cause::UnderFilled),
            confidence: 0.4,
            text: "Power stays under half of its limit while the device is busy.".to_owned(),
            share: None,
        }],
        culprits: vec![Culprit {
            kind: CulpritKind::Line,
            pid: None,
            name: "decode_image (work.py:22)".to_owned(),
            more: 0,
            share: Some(0.41),
            unit: Some(ShareOf::Time),
        }],
        chain: chain(),
        not_seen: vec![Unavailable {
            what: Subject::Syscall.into(),
            why: "Yama's ptrace_scope is 1".to_owned(),
            fix: Some("sudo trainmon diagnose --pid 1234".to_owned()),
        }],
        own: OwnCost { cpu_pct: Some(0.4), rss_mib: Some(14.2) },
        ..Verdict::default()
    }
}

/// Of a loop that waits for two workers and now and then for the network.
fn chain() -> Vec<ChainNode> {
    let worker = |node, pid, share| ChainNode {
        at: Some("decode_image (work.py:22)".to_owned()),
        ..node_of(node, "process", Some(pid), "data worker", "cpu", share, "reads")
    };
    vec![
        ChainNode { waits_for: vec![1, 2, 4], ..node_of(0, "thread", Some(1234), "loop", "waits", 0.68, "") },
        worker(1, 1301, 0.41),
        worker(2, 1302, 0.23),
        ChainNode {
            at: Some("train_step (train.py:44)".to_owned()),
            ..node_of(3, "thread", Some(1234), "loop", "cpu", 0.32, "")
        },
        node_of(4, "net", None, "10.0.3.7:443", "net", 0.04, ""),
    ]
}

/// A node without a place in the code; kind, state and how it is waited for by their words, the last empty where it is not.
pub(super) fn node_of(
    node: u32,
    kind: &str,
    pid: Option<u32>,
    name: &str,
    state: &str,
    share: f64,
    by: &str,
) -> ChainNode {
    let waits_for: [u32; 0] = [];
    let words = serde_json::json!({
        "node": node, "kind": kind, "pid": pid, "tid": pid, "name": name, "state": state, "share": share, "lost": 0.0,
        "at": null, "by": Edge::named(by), "waits_for": waits_for,
    });
    serde_json::from_value(words).unwrap()
}
