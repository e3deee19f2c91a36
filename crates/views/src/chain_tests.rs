//! The chain in words: what the line says, that it fits, and that the tree has every node once.

use proptest::prelude::*;

use super::*;
use crate::testing::{node_of, verdict};
use trainmon_diagnosis::diagnosis::verdict::WorkerVerdict;

/// A loop that waits for `nodes`, the first of them directly and each other one through the one before.
fn waiting(nodes: Vec<ChainNode>, workers: usize) -> Verdict {
    let root = node_of(0, "thread", Some(1234), "loop", "waits", 0.87, "");
    let mut chain = vec![ChainNode { waits_for: vec![1], ..root }];
    chain.extend(nodes);
    let count = chain.len() as u32;
    for node in chain.iter_mut().skip(1).filter(|node| node.node + 1 < count) {
        node.waits_for = vec![node.node + 1];
    }
    Verdict { chain, workers: vec![WorkerVerdict::default(); workers], ..Verdict::default() }
}

fn process(name: &str, pid: u32, state: &str, by: &str) -> ChainNode {
    node_of(1, "process", Some(pid), name, state, 0.87, by)
}

fn resource(node: u32, kind: &str, name: &str) -> ChainNode {
    node_of(node, kind, None, name, kind, 0.87, "")
}

#[test]
fn one_line_for_each_kind_of_wait() {
    let at = |node: ChainNode| ChainNode { at: Some("decode_image (work.py:22)".to_owned()), ..node };
    let lock = ChainNode { by: Some(Edge::FileLock), ..resource(1, "lock", "/data/cache.lock") };
    for (nodes, workers, wanted) in [
        (
            vec![at(process("data worker", 1301, "cpu", "reads"))],
            1,
            "loop waits 87% ← worker 1301 (1 of 1) ← CPU: decode_image work.py:22",
        ),
        (vec![resource(1, "net", "127.0.0.1:4321")], 0, "loop waits 87% ← 127.0.0.1:4321 (network)"),
        (
            vec![lock, ChainNode { node: 2, ..process("python", 321, "waits", "file-lock") }],
            0,
            "loop waits 87% ← lock /data/cache.lock ← python 321",
        ),
        (
            vec![node_of(1, "thread", Some(1240), "thread", "cpu", 0.87, "interpreter-lock")],
            0,
            "loop waits 87% ← interpreter lock ← thread 1240: CPU",
        ),
        (
            vec![process("python", 777, "sleeps", "writes")],
            4,
            "loop waits 87% ← reader of its output: python 777, sleeps",
        ),
        (vec![resource(1, "device", "0")], 0, "loop waits 87% ← GPU 0"),
        (
            vec![process("data worker", 1301, "disk", "reads"), resource(2, "disk", "nvme0n1")],
            4,
            "loop waits 87% ← worker 1301 (1 of 4) ← disk nvme0n1",
        ),
        (vec![process("redis-server", 8, "cpu", "network")], 0, "loop waits 87% ← redis-server 8 (network) ← CPU"),
    ] {
        let verdict = waiting(nodes, workers);
        assert_eq!(line(&verdict, 80).unwrap(), wanted);
        assert_eq!(rows(&verdict.chain).len(), verdict.chain.len());
    }
}

#[test]
fn those_that_are_not_known_one_by_one_are_several() {
    let several = |name: &str, state: &str, by: &str| node_of(1, "process", None, name, state, 0.87, by);
    let commands = waiting(vec![several("short-lived children", "cpu", "child")], 0);
    assert_eq!(line(&commands, 80).unwrap(), "loop waits 87% ← short-lived children ← CPU");
    assert_eq!(rows(&commands.chain)[1].text, "waits for its short-lived children to end");
    let workers = waiting(vec![several("data worker", "unknown", "")], 0);
    assert!(line(&workers, 80).unwrap().contains("87% ← workers"));
}

#[test]
fn those_that_are_alike_are_put_together_and_a_part_says_how_large_it_is() {
    let mut many = verdict();
    assert_eq!(line(&many, 80).unwrap(), "loop waits 68% ← 2 workers ← CPU: decode_image work.py:22");
    many.workers.extend(many.workers.clone());
    many.chain[2].end = Some(End::Timer);
    many.chain[0].tid = Some(1240);
    assert_eq!(
        line(&many, 90).unwrap(),
        "loop (thread 1240) waits 68% ← 2 of 4 workers ← CPU (41%): decode_image work.py:22"
    );
}

#[test]
fn a_loop_that_works_says_where() {
    let mut own = verdict();
    own.chain[3].share = 0.7;
    own.chain[0].share = 0.3;
    assert_eq!(
        line(&own, 200).unwrap(),
        "loop works 70%: train_step train.py:44; \
         waits 30% ← 2 workers ← CPU: decode_image work.py:22"
    );
    assert_eq!(line(&own, 80).unwrap(), "loop works 70%: train_step train.py:44");
    own.chain.retain(ChainNode::is_loop);
    own.chain[0].waits_for.clear();
    assert_eq!(line(&own, 80).unwrap(), "loop works 70%: train_step train.py:44");
    assert_eq!(rows(&own.chain).len(), 1);
    assert_eq!(line(&Verdict::default(), 80), None);
}

#[test]
fn what_is_too_long_loses_the_least_first() {
    let lock = ChainNode { by: Some(Edge::FileLock), ..resource(1, "lock", "/a/very/long/way/to/the.lock") };
    let holder = ChainNode { node: 2, ..process("python", 321, "cpu", "file-lock") };
    let verdict = waiting(vec![lock, ChainNode { at: Some("save (ckpt.py:7)".to_owned()), ..holder }], 0);
    for (width, wanted) in [
        (90, "loop waits 87% ← lock /a/very/long/way/to/the.lock ← python 321 ← CPU: save ckpt.py:7"),
        (70, "loop waits 87% ← lock the.lock ← python 321 ← CPU: save ckpt.py:7"),
        (61, "loop waits 87% ← lock the.lock ← python 321 ← CPU: ckpt.py:7"),
        (59, "loop waits 87% ← lock the.lock ← python 321 ← CPU"),
        (20, "loop waits 87% ← lo…"),
    ] {
        assert_eq!(line(&verdict, width).unwrap(), wanted);
    }
}

#[test]
fn the_tree_reads_from_the_top() {
    let verdict = verdict();
    let lines: Vec<String> = rows(&verdict.chain).iter().map(|row| format!("{}{}", row.branch, row.text)).collect();
    assert_eq!(
        lines,
        [
            "the loop waits",
            "├ waits for worker 1301, which computes in decode_image (work.py:22)",
            "├ waits for worker 1302, which computes in decode_image (work.py:22)",
            "└ waits for 10.0.3.7:443 (network)",
            "the loop works in train_step (train.py:44)",
        ]
    );
}

proptest! {
    #[test]
    fn any_graph_gives_a_line_that_fits_and_a_bounded_tree(
        nodes in prop::collection::vec(
            (0u32..12, 0usize..8, prop::option::of(0u32..5), "\\PC{0,12}|\x1b\\[2J", any::<f64>(), prop::collection::vec(0u32..12, 0..6)),
            0..12,
        ),
        width in 0usize..120,
    ) {
        const KINDS: [&str; 8] = ["thread", "process", "net", "disk", "device", "lock", "timer", "unknown"];
        let nodes = nodes.into_iter().map(|(node, kind, pid, name, share, waits_for)| {
            let state = ["cpu", "waits", "disk", "sleeps"][kind % 4];
            ChainNode { waits_for, share, ..node_of(node, KINDS[kind], pid, &name, state, 0.0, "reads") }
        });
        let mut chain: Vec<ChainNode> = nodes.collect();
        if let Some(root) = chain.first_mut() {
            root.who = Who::Loop(None);
        }
        let verdict = Verdict { chain, ..Verdict::default() };
        prop_assert!(rows(&verdict.chain).len() <= verdict.chain.len());
        prop_assert!(rows(&verdict.chain).iter().all(|row| !row.text.chars().any(char::is_control)));
        if let Some(line) = line(&verdict, width) {
            prop_assert!(unicode_width::UnicodeWidthStr::width(line.as_str()) <= width);
            prop_assert!(!line.chars().any(char::is_control));
        }
    }
}
