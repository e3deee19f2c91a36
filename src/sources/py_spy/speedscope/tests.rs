//! Documents of two py-spy versions, and documents that nobody should send.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use proptest::prelude::*;
use serde_json::json;

use super::*;

const PARENT: &str = include_str!("../../../../tests/fixtures/speedscope/py-spy-0.4.3-parent.json");
const CHILD: &str = include_str!("../../../../tests/fixtures/speedscope/py-spy-0.4.3-child.json");
const PARENT_OLDER: &str = include_str!("../../../../tests/fixtures/speedscope/py-spy-0.4.1-parent.json");
const CHILD_OLDER: &str = include_str!("../../../../tests/fixtures/speedscope/py-spy-0.4.1-child.json");

const PROCESS: ProcessId = ProcessId { pid: 7, start_ticks: 1 };

fn window(bytes: &[u8]) -> Result<StackWindow, ParseError> {
    let window = parse(bytes, PROCESS, 1, 2, 20)?;
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
    Ok(window)
}

fn of(document: &serde_json::Value) -> StackWindow {
    window(document.to_string().as_bytes()).unwrap()
}

/// A thread's stacks as text: functions leaf first, and the count.
fn stacks(window: &StackWindow, thread: usize) -> Vec<(String, u32)> {
    let name = |&at: &u32| &*window.frames[at as usize].function;
    let text = |stack: &StackCount| stack.frames.iter().map(name).collect::<Vec<_>>().join(" < ");
    window.threads[thread].stacks.iter().map(|stack| (text(stack), stack.samples)).collect()
}

fn frame(name: &str, file: &str) -> serde_json::Value {
    json!({"name": name, "file": file, "line": 1, "col": null})
}

#[test]
fn threads_of_a_process_are_read() {
    let window = window(PARENT.as_bytes()).unwrap();
    assert_eq!((&*window.threads[0].name, window.threads[0].tid), ("MainThread", Some(23577)));
    assert_eq!((&*window.threads[1].name, window.threads[1].tid), ("Idle", Some(23582)));
    assert_eq!(stacks(&window, 0), [("Work.hot < <module>".to_owned(), 9)]);
    let idle = "idle < Thread.run < Thread._bootstrap_inner < Thread._bootstrap";
    assert_eq!(stacks(&window, 1), [(idle.to_owned(), 9)]);
    let hot = &window.frames[window.threads[0].stacks[0].frames[0] as usize];
    assert_eq!((&*hot.file, hot.line), ("/home/me/train.py", 4));
}

#[test]
fn a_forked_worker_shows_nothing_of_its_parent() {
    let newer = window(CHILD.as_bytes()).unwrap();
    assert_eq!(stacks(&newer, 0), [("Work.hot < child < BaseProcess.run".to_owned(), 9)]);
    let older = window(CHILD_OLDER.as_bytes()).unwrap();
    assert_eq!(stacks(&older, 0), [("hot < child < run".to_owned(), 9)]);
}

#[test]
fn older_versions_name_functions_plainly() {
    let window = window(PARENT_OLDER.as_bytes()).unwrap();
    assert_eq!(stacks(&window, 0), [("hot < <module>".to_owned(), 9)]);
    // Only multiprocessing's start of a child cuts, not threading's of the same name.
    assert_eq!(stacks(&window, 1), [("idle < run < _bootstrap_inner < _bootstrap".to_owned(), 9)]);
}

#[test]
fn the_innermost_worker_start_cuts() {
    let start = "/usr/lib/python3.11/multiprocessing/process.py";
    let frames = [frame("a", "a.py"), frame("_bootstrap", start), frame("b", "b.py"), frame("c", "c.py")];
    let rows = json!([[0, 1, 2, 1, 3], [1]]);
    let window = of(&json!({"profiles": [{"name": "Thread 7", "samples": rows}], "shared": {"frames": frames}}));
    assert_eq!(stacks(&window, 0), [(String::new(), 1), ("c".to_owned(), 1)]);
}

#[test]
fn the_main_thread_comes_first_and_the_order_stays_otherwise() {
    let names = ["Thread 0x7f00 \"b\"", "Thread 9 \"a\"", "Process 7 Thread 7 \"x \"y\" z\"", "odd"];
    let profiles: Vec<_> = names.iter().map(|name| json!({"name": name, "samples": [[0]]})).collect();
    let window = of(&json!({"profiles": profiles, "shared": {"frames": [frame("f", "f.py")]}}));
    let threads: Vec<_> = window.threads.iter().map(|thread| (thread.tid, &*thread.name)).collect();
    assert_eq!(threads, [(Some(7), "x \"y\" z"), (None, "b"), (Some(9), "a"), (None, "odd")]);
}

#[test]
fn missing_and_impossible_lines_are_unknown() {
    let lines = ["null", "0", "-3", "1.5", "99999999999999999999", "4294967296", "7"];
    let frames: Vec<_> =
        lines.iter().map(|line| format!(r#"{{"name":"f{line}","file":null,"line":{line}}}"#)).collect();
    let document = format!(
        r#"{{"profiles":[{{"name":"Thread 1","samples":[[0,1,2,3,4,5,6]]}}],"shared":{{"frames":[{}]}}}}"#,
        frames.join(",")
    );
    let window = window(document.as_bytes()).unwrap();
    assert_eq!(window.frames.iter().map(|frame| frame.line).collect::<Vec<_>>(), [7, 0, 0, 0, 0, 0, 0]);
}

#[test]
fn long_names_are_cut_between_characters_and_stay_raw() {
    let name = format!("\u{0}\u{1b}{}", "ä".repeat(10_000));
    let file = format!("/{}/x.py", "ö".repeat(10_000));
    let profile = json!({"name": format!("Thread 1 \"{name}\""), "samples": [[0]]});
    let window = of(&json!({"profiles": [profile], "shared": {"frames": [frame(&name, &file)]}}));
    assert!(window.frames[0].function.starts_with("\u{0}\u{1b}ää"));
    assert!(window.frames[0].file.ends_with("ö/x.py"));
    assert_eq!(window.frames[0].file.len(), 255);
}

#[test]
fn of_too_much_the_most_frequent_and_the_leafs_side_stay() {
    let frames: Vec<_> = (0..5000).map(|at| frame(&format!("f{at}"), "f.py")).collect();
    // A stack deeper than is kept, three times; 4,999 stacks of one frame, once each.
    let deep: Vec<u32> = (0..400).collect();
    let mut rows: Vec<_> = (1..5000).map(|at| json!([at])).collect();
    rows.extend([json!(deep), json!(deep), json!(deep)]);
    let profiles: Vec<_> = (0..10_000)
        .map(|tid| match tid {
            500 => json!({"name": "Thread 500 \"MainThread\"", "samples": rows}),
            _ => json!({"name": format!("Thread {}", 100 + tid), "samples": [[4999]]}),
        })
        .collect();
    let window = of(&json!({"profiles": profiles, "shared": {"frames": frames}}));
    assert_eq!(&*window.threads[0].name, "MainThread");
    assert_eq!((window.threads.len(), window.threads[0].stacks.len()), (THREADS, STACKS));
    let first = &window.threads[0].stacks[0];
    assert_eq!((first.samples, first.frames.len()), (3, DEPTH));
    assert_eq!(&*window.frames[first.frames[0] as usize].function, "f399");
}

#[test]
fn stacks_that_need_too_many_frames_go_and_the_rest_is_whole() {
    let frames: Vec<_> = (0..20_000).map(|at| frame(&format!("f{at}"), "f.py")).collect();
    let rows: Vec<Vec<u32>> = (0..200).map(|row| (row * 90..row * 90 + 90).collect()).collect();
    let profile = json!({"name": "Thread 7", "samples": rows});
    let window = of(&json!({"profiles": [profile], "shared": {"frames": frames}}));
    assert_eq!(window.threads[0].stacks.len(), FRAMES / 90);
    assert_eq!(window.frames.len(), FRAMES / 90 * 90);
}

#[test]
fn what_is_no_document_is_refused() {
    let cut = &PARENT[..PARENT.len() / 2];
    let deep = "[".repeat(100_000);
    let outside = r#"{"profiles":[{"name":"Thread 1","samples":[[1]]}],"shared":{"frames":[{"name":"f"}]}}"#;
    let negative = r#"{"profiles":[{"name":"Thread 1","samples":[[-1]]}],"shared":{"frames":[{"name":"f"}]}}"#;
    for bad in ["", "{}", "null", cut, &deep, outside, negative, &format!("{PARENT} x")] {
        assert!(window(bad.as_bytes()).is_err(), "{}", &bad[..bad.len().min(80)]);
    }
    let mut bytes = PARENT.as_bytes().to_vec();
    let at = PARENT.find("hot").unwrap();
    bytes[at] = 0xff;
    assert!(matches!(window(&bytes), Err(ParseError::Json(_))));
    assert!(matches!(window(&vec![b' '; LARGEST + 1]), Err(ParseError::TooLarge(_))));
    let frames = vec![json!({"name": "f"}); TABLE + 1];
    let many = json!({"profiles": [], "shared": {"frames": frames}});
    assert!(window(many.to_string().as_bytes()).is_err());
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
            // Digits, brackets and quotes change the meaning more often than noise does.
            bytes[at] = if byte < 128 { b"0123456789-[]{},\"n"[byte as usize % 18] } else { byte };
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        let _ = window(&bytes);
    }

    #[test]
    fn every_sample_is_counted_within_the_bounds(
        threads in prop::collection::vec(prop::collection::vec(prop::collection::vec(0u32..30, 0..12), 1..60), 1..8),
    ) {
        let frames: Vec<_> = (0..30).map(|at| frame(&format!("f{at}"), "f.py")).collect();
        let profiles: Vec<_> = threads
            .iter()
            .enumerate()
            .map(|(tid, rows)| json!({"name": format!("Thread {}", tid + 10), "samples": rows}))
            .collect();
        let window = of(&json!({"profiles": profiles, "shared": {"frames": frames}}));
        prop_assert_eq!(window.threads.len(), threads.len());
        for (thread, rows) in window.threads.iter().zip(&threads) {
            let counted: u32 = thread.stacks.iter().map(|stack| stack.samples).sum();
            prop_assert_eq!(counted as usize, rows.len());
            for stack in &thread.stacks {
                let name = |&at: &u32| window.frames[at as usize].function[1..].parse::<u32>().unwrap();
                let row: Vec<u32> = stack.frames.iter().rev().map(name).collect();
                let same = rows.iter().filter(|other| **other == row).count();
                prop_assert_eq!(same, stack.samples as usize);
            }
        }
    }
}
