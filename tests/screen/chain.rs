//! The wait chain: its line on the overview, and its page.

use crate::app::*;
use crossterm::event::KeyCode;
use trainmon::diagnosis::Verdict;
use trainmon::diagnosis::chain::ChainNode;
use trainmon::tui::App;
use trainmon::waits::chain::paths::{ChainRates, WaitHop, WaitPath};
use trainmon::waits::taxonomy::{Edge, End};

const SIZES: [(u16, u16); 3] = [(80, 24), (120, 40), (200, 60)];

fn node(node: u32, kind: &str, pid: u32, name: &str, state: &str, share: f64) -> ChainNode {
    let pid = if pid > 0 { Some(pid) } else { None };
    let waits_for: [u32; 0] = [];
    let words = serde_json::json!({
        "node": node, "kind": kind, "pid": pid, "tid": pid, "name": name, "state": state, "share": share, "lost": 0.0,
        "at": null, "by": null, "waits_for": waits_for,
    });
    serde_json::from_value(words).unwrap()
}

/// Four workers, one of which reads from a disk now and then, and an address.
pub fn workers() -> Vec<ChainNode> {
    let worker = |number, share| ChainNode {
        by: Some(Edge::Reads),
        at: Some("decode_image (work.py:22)".into()),
        ..node(number, "process", 1300 + number, "data-loader worker", "cpu", share)
    };
    let at = Some("train_step (train.py:44)".into());
    vec![
        ChainNode { waits_for: vec![1, 2, 3, 4, 5, 7], ..node(0, "thread", 1234, "loop", "waits", 0.68) },
        worker(1, 0.24),
        worker(2, 0.17),
        worker(3, 0.12),
        worker(4, 0.06),
        ChainNode {
            by: Some(Edge::Reads),
            waits_for: vec![6],
            ..node(5, "process", 1304, "data-loader worker", "disk", 0.05)
        },
        node(6, "disk", 0, "nvme1n1", "disk", 0.05),
        node(7, "net", 0, "10.0.3.7:443", "net", 0.04),
        ChainNode { at, ..node(8, "thread", 1234, "loop", "cpu", 0.32) },
    ]
}

/// A loop in a thread beside the main one, which waits for the lock on a file, held by a process that waits to write.
fn locked() -> Vec<ChainNode> {
    let by = |by, node: ChainNode| ChainNode { by: Some(by), ..node };
    vec![
        ChainNode { waits_for: vec![1], tid: Some(1240), ..node(0, "thread", 1234, "loop", "waits", 0.55) },
        by(
            Edge::FileLock,
            ChainNode { waits_for: vec![2], ..node(1, "lock", 0, "/data/cache/index.lock", "lock", 0.55) },
        ),
        by(Edge::FileLock, ChainNode { waits_for: vec![3], ..node(2, "process", 321, "python", "waits", 0.55) }),
        by(Edge::Writes, node(3, "process", 777, "log-collector", "sleeps", 0.55)),
        ChainNode { tid: Some(1240), ..node(4, "thread", 1234, "loop", "cpu", 0.45) },
    ]
}

/// What is followed in second `t`.
pub fn rates(t: u64) -> ChainRates {
    let waits = 0.5 + 0.3 * (t as f64 / 11.0 * std::f64::consts::TAU).sin();
    let path =
        |hops, end, share: f64| WaitPath { hops, end, name: None, lock: None, seconds: share as f32, idle_s: 0.0 };
    let worker = || vec![WaitHop { by: Edge::Reads, pid: 1301, tid: 1301 }];
    let paths = vec![
        path(worker(), End::Cpu, waits),
        path(worker(), End::Disk, 0.05),
        WaitPath { name: Some("10.0.3.7:443".into()), ..path(Vec::new(), End::Net, 0.04) },
        path(Vec::new(), End::Cpu, 0.91 - waits),
    ];
    ChainRates {
        process: id(1234),
        tid: 1234,
        samples: 20,
        seconds: 1.0,
        exact: true,
        paths,
        ..ChainRates::default()
    }
}

fn following(theme: trainmon::tui::Theme, size: (u16, u16), chain: Vec<ChainNode>) -> App {
    let mut app = fresh(theme, size);
    for t in 1..=90 {
        let mut frame = frame(t, Job::default());
        frame.ranks[0].chain = Some(rates(t));
        tell(&mut app, frame, Verdict { chain: chain.clone(), ..data_loader() });
    }
    app
}

#[test]
fn the_overview_has_it_as_the_pipeline_with_its_limit() {
    for size in SIZES {
        let screen = text(&following(PLAIN, size, workers()), size);
        let lines: Vec<&str> = screen.lines().collect();
        let limit = lines.iter().position(|line| line.contains("◀ LIMIT")).unwrap();
        assert!(lines[limit].contains("worker 1301 ◀ LIMIT"), "{screen}");
        assert!(lines[limit].contains("loop") && lines[limit].contains("GPU 0"), "{screen}");
        assert!(screen.contains("▶ Raise num_workers from 4 to 7"), "{screen}");
        insta::assert_snapshot!(format!("chain_line_{}x{}", size.0, size.1), screen);
    }
    for size in [(60, 15), (80, 24)] {
        let screen = text(&following(ASCII, size, locked()), size);
        assert!(screen.is_ascii() && screen.contains(" <LIMIT -> "), "{screen}");
    }
}

#[test]
fn the_page_has_the_whole_tree() {
    for size in SIZES {
        for (name, chain) in [("workers", workers()), ("lock", locked())] {
            let mut app = following(PLAIN, size, chain);
            press(&mut app, KeyCode::Char('2'));
            insta::assert_snapshot!(format!("chain_{name}_{}x{}", size.0, size.1), text(&app, size));
        }
    }
    let mut app = following(ASCII, (80, 24), workers());
    press(&mut app, KeyCode::Char('2'));
    let screen = text(&app, (80, 24));
    assert!(screen.is_ascii());
    insta::assert_snapshot!("chain_ascii", screen);
}

#[test]
fn a_tree_that_is_longer_than_the_page_is_scrolled() {
    let mut chain = workers();
    chain[0].waits_for.extend(9..32);
    chain.extend((9..32).map(|n| ChainNode {
        by: Some(Edge::Reads),
        ..node(n, "process", 2000 + n, "data-loader worker", "cpu", 0.01)
    }));
    let size = (80, 24);
    let mut app = following(PLAIN, size, chain);
    press(&mut app, KeyCode::Char('2'));
    assert!(!text(&app, size).contains("2031"));
    press(&mut app, KeyCode::Char('G'));
    let screen = text(&app, size);
    assert!(screen.contains("2031"), "{screen}");
}

#[test]
fn where_there_is_no_chain_the_page_says_why() {
    let size = (80, 24);
    let page = |mut app: App| {
        press(&mut app, KeyCode::Char('2'));
        text(&app, size)
    };
    assert!(page(fresh(PLAIN, size)).contains("No wait chain yet: it takes two seconds."));
    assert!(
        page(running(PLAIN, size, Job::default()))
            .contains("No wait chain: in 1m30s trainmon found no training loop")
    );
    let own = vec![
        node(0, "thread", 1234, "loop", "waits", 0.0),
        ChainNode { at: Some("tokenize (train.py:44)".into()), ..node(1, "thread", 1234, "loop", "cpu", 0.93) },
    ];
    let app = following(PLAIN, size, own);
    let own = page(app);
    assert!(own.contains("93%: tokenize train.py:44"), "{own}");
    assert!(own.contains("The loop waits for nothing long."));
    let mut replay =
        App::new(job().recording(), trainmon::tui::AppOptions { theme: PLAIN, ..Default::default() }, size);
    tell(&mut replay, frame(1, Job::default()), data_loader());
    assert!(page(replay).contains("This recording is older than the wait chain: it has none."));
}
