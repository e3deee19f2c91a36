//! Documents of three py-spy versions, and documents that nobody should send.

use proptest::prelude::*;

use super::*;

const PARENT: &str = include_str!("../../../../../tests/fixtures/py-spy/0.4.3-parent.txt");
const CHILD: &str = include_str!("../../../../../tests/fixtures/py-spy/0.4.3-child.txt");
const PARENT_OLDER: &str = include_str!("../../../../../tests/fixtures/py-spy/0.4.1-parent.txt");
const CHILD_OLDER: &str = include_str!("../../../../../tests/fixtures/py-spy/0.4.1-child.txt");
const PARENT_NAMELESS: &str = include_str!("../../../../../tests/fixtures/py-spy/0.3.14-parent.txt");
const CHILD_NAMELESS: &str = include_str!("../../../../../tests/fixtures/py-spy/0.3.14-child.txt");

const PROCESS: ProcessId = ProcessId { pid: 7, start_ticks: 1 };

fn window(bytes: &[u8]) -> Option<StackWindow> {
    let window = parse(bytes, PROCESS, &[7, 13948])?;
    assert!(window.frames.len() <= FRAMES && window.threads.len() <= THREADS);
    let mut used = vec![false; window.frames.len()];
    for thread in &window.threads {
        assert!(thread.stacks.len() <= STACKS && thread.name.len() <= NAME);
        assert!(thread.stacks.is_sorted_by(|a, b| a.samples >= b.samples));
        for stack in &thread.stacks {
            assert!(stack.frames.len() <= DEPTH);
            stack.frames.iter().for_each(|&at| used[at as usize] = true);
        }
    }
    assert!(used.into_iter().all(|used| used), "a frame that no stack names");
    assert!(window.frames.iter().all(|frame| frame.function.len() <= NAME && frame.file.len() <= NAME));
    Some(window)
}

fn parsed(document: &str) -> StackWindow {
    window(document.as_bytes()).unwrap()
}

/// A thread's stacks as text: functions leaf first, and the count.
fn stacks(window: &StackWindow, thread: usize) -> Vec<(String, u32)> {
    let name = |&at: &u32| &*window.frames[at as usize].function;
    let text = |stack: &StackCount| stack.frames.iter().map(name).collect::<Vec<_>>().join(" < ");
    window.threads[thread].stacks.iter().map(|stack| (text(stack), stack.samples)).collect()
}

fn threads(window: &StackWindow) -> Vec<(Option<u32>, &str)> {
    window.threads.iter().map(|thread| (thread.tid, &*thread.name)).collect()
}

#[test]
fn threads_of_a_process_are_read() {
    let window = parsed(PARENT);
    assert_eq!(threads(&window), [(Some(13948), "MainThread"), (Some(13954), "Idle")]);
    assert_eq!(stacks(&window, 0), [("Work.hot < <module>".to_owned(), 9)]);
    let idle = "idle < Thread.run < Thread._bootstrap_inner < Thread._bootstrap";
    assert_eq!(stacks(&window, 1), [(idle.to_owned(), 9)]);
    let hot = &window.frames[window.threads[0].stacks[0].frames[0] as usize];
    assert_eq!((&*hot.file, hot.line), ("/home/me/train.py", 4));
}

#[test]
fn a_forked_worker_shows_nothing_of_its_parent() {
    assert_eq!(stacks(&parsed(CHILD), 0), [("Work.hot < child < BaseProcess.run".to_owned(), 9)]);
    for older in [CHILD_OLDER, CHILD_NAMELESS] {
        assert_eq!(stacks(&parsed(older), 0), [("hot < child < run".to_owned(), 9)]);
    }
}

#[test]
fn older_versions_name_functions_plainly_and_threads_not_at_all() {
    for (older, second) in [(PARENT_OLDER, "Idle"), (PARENT_NAMELESS, "")] {
        let window = parsed(older);
        assert_eq!(threads(&window), [(Some(13948), "MainThread"), (Some(13954), second)]);
        assert_eq!(stacks(&window, 0), [("hot < <module>".to_owned(), 9)]);
        // Only multiprocessing's start of a child cuts, not threading's of the same name.
        assert_eq!(stacks(&window, 1), [("idle < run < _bootstrap_inner < _bootstrap".to_owned(), 9)]);
    }
}

#[test]
fn the_innermost_worker_start_cuts() {
    let start = "_bootstrap (/usr/lib/python3.11/multiprocessing/process.py:1)";
    let window =
        parsed(&format!("thread (7);a (a.py:1);{start};b (b.py:2);{start};c (c.py:3) 2\nthread (7);{start} 1\n"));
    assert_eq!(stacks(&window, 0), [("c".to_owned(), 2), (String::new(), 1)]);
}

#[test]
fn the_main_thread_comes_first_and_the_others_by_their_numbers() {
    let names = ["0x7f00): b", "9): a", "7): x \"y\" z", "odd", "3): MainThread"];
    let lines: String = names.iter().map(|name| format!("thread ({name};f (f.py:1) 1\n")).collect();
    let found = parsed(&lines);
    let expected = [(Some(3), "MainThread"), (Some(7), "x \"y\" z"), (None, ""), (None, "b"), (Some(9), "a")];
    assert_eq!(threads(&found), expected);
}

#[test]
fn frames_as_they_are_written() {
    let window = parsed("thread (7);a;b (/x y (1)/b;c.py:3);c (d.py);e (f.py:99999999999);<lambda> (g.py:0) 1\n");
    let frames: Vec<_> = window.frames.iter().map(|frame| (&*frame.function, &*frame.file, frame.line)).collect();
    let expected = [
        ("<lambda>", "g.py", 0),
        ("e", "f.py:99999999999", 0),
        ("c", "d.py", 0),
        ("b", "/x y (1)/b;c.py", 3),
        ("a", "", 0),
    ];
    assert_eq!(frames, expected);
}

#[test]
fn names_may_hold_line_ends_and_semicolons() {
    let window = parsed("thread (7): a;b;f\n5 g (f.py:1) 4\nthread (9);h (h.py:1) 5\n");
    assert_eq!(stacks(&window, 0), [("f\n5 g < b".to_owned(), 4)]);
    assert_eq!(stacks(&window, 1), [("h".to_owned(), 5)]);
}

#[test]
fn long_names_are_cut_between_characters_and_stay_raw() {
    let name = format!("\u{0}\u{1b}{}", "ä".repeat(10_000));
    let file = format!("/{}/x.py", "ö".repeat(10_000));
    let window = parsed(&format!("thread (7): {name};{name} ({file}:1) 1\n"));
    assert!(window.frames[0].function.starts_with("\u{0}\u{1b}ää"));
    assert!(window.frames[0].file.ends_with("ö/x.py"));
    assert_eq!(window.frames[0].file.len(), 255);
}

#[test]
fn of_too_much_the_most_frequent_and_the_leafs_side_stay() {
    // A stack deeper than is kept, three times; 4,999 stacks of one frame, once each; 10,000 threads.
    let deep: String = (0..400).map(|at| format!(";f{at} (f.py:1)")).collect();
    let mut document: String = (1..5000).map(|at| format!("thread (10): MainThread;f{at} (f.py:1) 1\n")).collect();
    document += &format!("thread (10): MainThread{deep} 3\n");
    document.extend((0..10_000).map(|tid| format!("thread ({}): x;f (f.py:1) 1\n", 100 + tid)));
    let window = parsed(&document);
    assert_eq!(&*window.threads[0].name, "MainThread");
    assert_eq!((window.threads.len(), window.threads[0].stacks.len()), (THREADS, STACKS));
    let first = &window.threads[0].stacks[0];
    assert_eq!((first.samples, first.frames.len()), (3, DEPTH));
    assert_eq!(&*window.frames[first.frames[0] as usize].function, "f399");
}

#[test]
fn stacks_that_need_too_many_frames_go_and_the_rest_is_whole() {
    let row = |row: u32| -> String { (row * 90..row * 90 + 90).map(|at| format!(";f{at} (f.py:1)")).collect() };
    let document: String = (0..200).map(|at| format!("thread (7){} 1\n", row(at))).collect();
    let window = parsed(&document);
    assert_eq!(window.threads[0].stacks.len(), FRAMES / 90);
    assert_eq!(window.frames.len(), FRAMES / 90 * 90);
}

#[test]
fn what_is_no_document_is_refused() {
    assert!(window(b"").unwrap().threads.is_empty());
    let cut = &PARENT[..20];
    for bad in [
        "{}",
        "null\n",
        cut,
        "f (f.py:1) 3\n",
        "thread (7);f (f.py:1) -3\n",
        &"[".repeat(100_000),
        &"\n;".repeat(100_000),
    ] {
        assert!(window(bad.as_bytes()).is_none(), "{}", &bad[..bad.len().min(80)]);
    }
    assert!(window(&vec![b' '; LARGEST_STACKS + 1]).is_none());
    let mut bytes = PARENT.as_bytes().to_vec();
    bytes[PARENT.find("hot").unwrap()] = 0xff;
    assert_eq!(window(&bytes).unwrap().threads.len(), 2);
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(bytes in any::<Vec<u8>>()) {
        let _ = window(&bytes);
    }

    #[test]
    fn changed_documents_never_panic(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let mut bytes = CHILD.as_bytes().to_vec();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            // Digits, brackets and separators change the meaning more often than noise does.
            bytes[at] = if byte < 128 { b"0123456789-();: \nn"[byte as usize % 18] } else { byte };
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        let _ = window(&bytes);
    }

    #[test]
    fn every_sample_is_counted_within_the_bounds(
        threads in prop::collection::vec(prop::collection::vec((prop::collection::vec(0u32..30, 0..12), 1u32..50), 1..60), 1..8),
    ) {
        let text = |(frames, count): &(Vec<u32>, u32)| {
            frames.iter().map(|at| format!(";f{at} (f.py:1)")).collect::<String>() + &format!(" {count}\n")
        };
        let of_thread = |(tid, rows): (u32, &Vec<_>)| -> String { rows.iter().map(|row| format!("thread ({tid}){}", text(row))).collect() };
        let document: String = (10..).zip(&threads).map(of_thread).collect();
        let window = parsed(&document);
        prop_assert_eq!(window.threads.len(), threads.len());
        for (thread, rows) in window.threads.iter().zip(&threads) {
            let total: u32 = rows.iter().map(|(_, count)| count).sum();
            prop_assert_eq!(thread.stacks.iter().map(|stack| stack.samples).sum::<u32>(), total);
            for stack in &thread.stacks {
                let name = |&at: &u32| window.frames[at as usize].function[1..].parse::<u32>().unwrap();
                let row: Vec<u32> = stack.frames.iter().rev().map(name).collect();
                let same: u32 = rows.iter().filter(|(other, _)| *other == row).map(|(_, count)| count).sum();
                prop_assert_eq!(same, stack.samples);
            }
        }
    }
}
