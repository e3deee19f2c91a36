//! Scans of made and of real trees of processes.

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::Instant;

use proptest::prelude::*;

use super::*;

const SECOND: u64 = 1_000_000_000;

/// A `/proc` of files.
struct Tree(tempfile::TempDir);

impl Tree {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn reader(&self) -> OtherProcessesReader {
        OtherProcessesReader::new(&Roots { proc: self.0.path().into(), ..Roots::default() })
    }

    fn folder(&self, pid: u32) -> PathBuf {
        self.0.path().join(pid.to_string())
    }

    fn set(&self, pid: u32, parent: u32, comm: &str, ticks: u64, start: u64) {
        std::fs::create_dir_all(self.folder(pid)).unwrap();
        let flags = if comm.starts_with("kworker") { 0x0020_0000 } else { 0 };
        let stat = format!(
            "{pid} ({comm}) S {parent} 1 1 0 -1 {flags} 0 0 0 0 {ticks} 0 0 0 20 0 1 0 {start} 1000 3 0 0 0\n"
        );
        std::fs::write(self.folder(pid).join("stat"), stat).unwrap();
        std::fs::write(self.folder(pid).join("status"), "Name:\tx\nUid:\t1000\t0\t0\t0\n").unwrap();
        std::fs::write(self.folder(pid).join("cmdline"), format!("{comm}\0--all\0")).unwrap();
    }
}

fn ticks(sample: &OtherProcessesSample) -> Vec<(u32, u64)> {
    sample.processes.iter().map(|process| (process.id.pid, process.cpu_ticks)).collect()
}

#[test]
fn the_busiest_since_the_last_scan() {
    let tree = Tree::new();
    let mut reader = tree.reader();
    tree.set(10, 1, "idle", 500, 1);
    tree.set(11, 1, "a) b (c", 500, 1);
    tree.set(12, 1, "kworker/u8:2", 7, 1);
    tree.set(13, 1, "reused", 900, 1);
    std::fs::write(tree.0.path().join("uptime"), "1 1").unwrap();
    let first = reader.read(SECOND, &[]).unwrap();
    assert_eq!((first.window_ns, first.processes.len(), first.others), (0, 0, 4));
    tree.set(11, 1, "a) b (c", 530, 1);
    tree.set(12, 1, "kworker/u8:2", 8, 1);
    tree.set(13, 1, "reused", 20, 2);
    tree.set(9, 1, "new", 40, 3);
    let second = reader.read(3 * SECOND, &[]).unwrap();
    assert_eq!(ticks(&second), [(9, 40), (11, 30), (13, 20), (12, 1)]);
    assert_eq!((second.window_ns, second.others), (2 * SECOND, 1));
    let named = &second.processes[1];
    assert_eq!((&*named.comm, &*named.command, named.uid), ("a) b (c", "a) b (c --all", Some(1000)));
    assert_eq!((named.rss_bytes, named.kernel), (3 * rustix::param::page_size() as u64, false));
    let kernel = &second.processes[3];
    assert!(kernel.kernel && kernel.command.is_empty());
    assert_eq!(ticks(&reader.read(4 * SECOND, &[]).unwrap()), []);
}

#[test]
fn the_job_and_its_children_are_left_out_and_we_are_marked() {
    let tree = Tree::new();
    let mut reader = tree.reader();
    std::os::unix::fs::symlink("20", tree.0.path().join("self")).unwrap();
    let at = |ticks| {
        for (pid, parent) in [(10, 1), (11, 10), (12, 10), (13, 1), (20, 1), (21, 20), (22, 21)] {
            tree.set(pid, parent, "x", ticks, 1);
        }
    };
    at(0);
    reader.read(SECOND, &[11, 10]).unwrap();
    at(5);
    let sample = reader.read(2 * SECOND, &[11, 10]).unwrap();
    let own: Vec<_> = sample.processes.iter().map(|process| (process.id.pid, process.own)).collect();
    assert_eq!((own, sample.others), (vec![(13, false), (20, true), (21, true), (22, true)], 0));
}

#[test]
fn no_more_than_32_and_those_the_busiest() {
    let tree = Tree::new();
    let mut reader = tree.reader();
    let at = |factor| (1..=300).for_each(|pid| tree.set(pid, 0, "x", u64::from(pid) * factor, 1));
    at(0);
    reader.read(SECOND, &[]).unwrap();
    at(2);
    let sample = reader.read(2 * SECOND, &[]).unwrap();
    let expected: Vec<(u32, u64)> = (269..=300).rev().map(|pid| (pid, u64::from(pid) * 2)).collect();
    assert_eq!((ticks(&sample), sample.others), (expected, 268));
    assert_eq!(reader.names.len(), MOST_OTHER_PROCESSES);
}

#[test]
fn what_cannot_be_read_makes_no_spike_later() {
    let tree = Tree::new();
    let mut reader = tree.reader();
    tree.set(10, 1, "x", 0, 1);
    tree.set(11, 1, "x", 90_000, 1);
    std::fs::write(tree.folder(11).join("stat"), "garbage").unwrap();
    std::fs::create_dir(tree.folder(12)).unwrap();
    assert_eq!(reader.read(SECOND, &[]).unwrap().others, 1);
    tree.set(11, 1, "x", 90_001, 1);
    assert_eq!(ticks(&reader.read(2 * SECOND, &[]).unwrap()), []);
    tree.set(11, 1, "x", 90_003, 1);
    assert_eq!(ticks(&reader.read(3 * SECOND, &[]).unwrap()), [(11, 2)]);
    assert!(OtherProcessesReader::new(&Roots { proc: "/nowhere".into(), ..Roots::default() }).read(1, &[]).is_err());
}

#[test]
fn we_are_seen_at_work_on_this_host() {
    let mut reader = OtherProcessesReader::new(&Roots::default());
    reader.read(1, &[]).unwrap();
    let begun = Instant::now();
    let own = loop {
        // Long enough for some ticks of 10 ms, on a loaded machine too.
        assert!(begun.elapsed().as_secs() < 30);
        let spin = Instant::now();
        while spin.elapsed().as_millis() < 100 {
            std::hint::spin_loop();
        }
        let sample = reader.read(2, &[]).unwrap();
        if let Some(own) = sample.processes.into_iter().find(|process| process.id.pid == std::process::id()) {
            break own;
        }
    };
    assert!(own.own && !own.kernel && own.command.contains("trainmon"), "{own:?}");
    assert_eq!(own.uid, Some(rustix::process::getuid().as_raw()));
}

fn table() -> impl Strategy<Value = HashMap<u32, (u64, u64)>> {
    proptest::collection::hash_map(0..12_u32, (0..3_u64, prop_oneof![0..9_u64, any::<u64>()]), 0..10)
}

proptest! {
    #[test]
    fn ticks_are_those_since_the_scan(before in table(), now in table(), complete: bool) {
        let counters = OtherProcessCounters { seen: before.clone(), complete };
        for (pid, (start_ticks, now)) in now {
            let expected = match before.get(&pid) {
                Some((start, ticks)) if *start == start_ticks => now.checked_sub(*ticks),
                Some(_) => Some(now),
                None => complete.then_some(now),
            };
            prop_assert_eq!(counters.moved(ProcessId { pid, start_ticks }, now), expected);
        }
    }

    #[test]
    fn no_line_makes_a_scan_fail(lines in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..200), 1..4)) {
        let tree = Tree::new();
        for (pid, line) in (1..).zip(&lines) {
            std::fs::create_dir(tree.folder(pid)).unwrap();
            std::fs::write(tree.folder(pid).join("stat"), line).unwrap();
        }
        let mut reader = tree.reader();
        for at in 0..2 {
            prop_assert!(reader.read(at, &[]).unwrap().processes.len() <= lines.len());
        }
    }
}
