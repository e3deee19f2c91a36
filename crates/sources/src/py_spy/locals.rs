//! py-spy's dump with local variables (`dump --locals --json`), as whole numbers by frame: a pure function of bytes.
//!
//! Everything except whole numbers is dropped here, so no text from the target's variables goes any further.

use serde::Deserialize;

use crate::fields::{head, tail};
use trainmon_sample::locals::{FRAMES, NAME, NUMBERS, THREADS};
use trainmon_sample::{FrameLocals, LocalsSample, ProcessId, ThreadLocals, stacks};

/// Larger documents are refused, bytes; a hundred threads of forty frames with thirty variables of 80 bytes take 10 MB.
pub(crate) const LARGEST_LOCALS: usize = 16 << 20;

#[derive(Deserialize)]
struct DumpedThread<'t> {
    #[serde(default)]
    os_thread_id: Option<u64>,
    #[serde(borrow, default)]
    frames: Vec<DumpedFrame<'t>>,
}

#[derive(Deserialize)]
struct DumpedFrame<'t> {
    #[serde(borrow)]
    name: JsonText<'t>,
    #[serde(borrow)]
    filename: JsonText<'t>,
    #[serde(borrow, default)]
    locals: Option<Vec<Local<'t>>>,
}

#[derive(Deserialize)]
struct Local<'t> {
    #[serde(borrow)]
    name: JsonText<'t>,
    #[serde(borrow, default)]
    repr: Option<JsonText<'t>>,
}

/// Borrowed if the document has it without escapes.
type JsonText<'t> = std::borrow::Cow<'t, str>;

/// Reads a document; `None` if it is malformed or too large. The thread with one of `main_tids` comes first.
pub fn parse(bytes: &[u8], process: ProcessId, main_tids: &[u32], began_ns: u64) -> Option<LocalsSample> {
    if bytes.len() > LARGEST_LOCALS {
        return None;
    }
    let threads: Vec<DumpedThread> = serde_json::from_slice(bytes).ok()?;
    let mut threads: Vec<ThreadLocals> = threads
        .iter()
        .map(|thread| {
            let tid = thread.os_thread_id.and_then(|tid| u32::try_from(tid).ok());
            // The document lists the innermost frame first.
            let frames = thread.frames.iter().rev().take(FRAMES).map(frame).collect();
            ThreadLocals { tid, is_main: tid.is_some_and(|tid| main_tids.contains(&tid)), frames }
        })
        .filter(|thread| thread.frames.iter().any(|frame| !frame.numbers.is_empty()))
        .collect();
    threads.sort_by_key(|thread| !thread.is_main);
    threads.truncate(THREADS);
    Some(LocalsSample { process, began_ns, threads })
}

fn frame(frame: &DumpedFrame) -> FrameLocals {
    let number = |local: &Local| {
        let value = local.repr.as_ref()?.parse::<i64>().ok()?;
        Some((head(&local.name, NAME).into(), value))
    };
    FrameLocals {
        function: head(&frame.name, stacks::NAME).into(),
        file: tail(&frame.filename, stacks::NAME).into(),
        numbers: frame.locals.iter().flatten().filter_map(number).take(NUMBERS).collect(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TARGET: ProcessId = ProcessId { pid: 7, start_ticks: 1 };

    /// As py-spy 0.4.3 writes it, shortened.
    const DUMP: &str = r#"[
      {"pid": 7, "thread_id": 1, "thread_name": "Thread-1", "os_thread_id": 9, "active": false, "owns_gil": false,
       "frames": [{"name": "wait", "filename": "/usr/lib/python3.11/threading.py", "module": null, "short_filename":
         "threading.py", "line": 320, "is_entry": true, "locals": [{"name": "gotit", "addr": 1, "arg": false, "repr": "False"}]}]},
      {"pid": 7, "thread_id": 2, "thread_name": "MainThread", "os_thread_id": 7, "active": true, "owns_gil": true,
       "frames": [
         {"name": "train", "filename": "/home/me/train.py", "module": null, "short_filename": "train.py", "line": 3,
          "locals": [{"name": "step", "addr": 1, "arg": false, "repr": "412"}, {"name": "key", "addr": 2, "arg": true,
            "repr": "\"secret \\\"12\\\"\""}, {"name": "lr", "addr": 3, "arg": false, "repr": "0.5"}, {"name": "x", "addr": 4,
            "arg": false, "repr": null}]},
         {"name": "<module>", "filename": "/home/me/train.py", "module": null, "short_filename": "train.py", "line": 9,
          "locals": null}]}]"#;

    #[test]
    fn whole_numbers_by_frame_outermost_first_and_nothing_else() {
        let read = parse(DUMP.as_bytes(), TARGET, &[7], 5).unwrap();
        assert_eq!(read.threads.len(), 1, "the other thread has no number");
        let thread = &read.threads[0];
        assert!(thread.is_main && thread.tid == Some(7));
        assert_eq!(&*thread.frames[0].function, "<module>");
        assert_eq!(thread.frames[1].numbers, [("step".into(), 412)]);
        assert!(!format!("{read:?}").contains("secret"));
    }

    #[test]
    fn what_is_no_dump_is_refused() {
        for bytes in ["", "{}", "[1]", "[{\"frames\": [{\"name\": 1}]}]", "Error: no such process"] {
            assert_eq!(parse(bytes.as_bytes(), TARGET, &[7], 0), None, "{bytes}");
        }
        assert_eq!(parse(b"[]", TARGET, &[7], 0).unwrap().threads, []);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_harm(cut in 0..DUMP.len(), noise in proptest::collection::vec(any::<u8>(), 0..40)) {
            let mut bytes = DUMP.as_bytes()[..cut].to_vec();
            bytes.extend(noise);
            parse(&bytes, TARGET, &[7], 0);
        }

        #[test]
        fn what_is_kept_is_bounded(frames in 0..200_usize, numbers in 0..200_usize, name in "[a-zé]{0,90}") {
            let local = format!(r#"{{"name": "{name}", "repr": "1"}}"#);
            let locals = vec![local; numbers].join(",");
            let frame = format!(r#"{{"name": "f", "filename": "g", "locals": [{locals}]}}"#);
            let document = format!(r#"[{{"os_thread_id": 7, "frames": [{}]}}]"#, vec![frame; frames].join(","));
            let read = parse(document.as_bytes(), TARGET, &[7], 0).unwrap();
            for thread in read.threads {
                prop_assert!(thread.frames.len() <= FRAMES);
                let all_short = thread.frames.iter().all(|frame| {
                    frame.numbers.len() <= NUMBERS && frame.numbers.iter().all(|(name, _)| name.len() <= NAME)
                });
                prop_assert!(all_short);
            }
        }
    }
}
