//! Traces that lack a part: what is left is judged, and what is missing is said.

use super::account::ProfileAccount;
use super::{ProfileError, read};

/// An event of one thread, with times as they are written.
fn event(category: &str, name: &str, start: &str, length: Option<&str>) -> String {
    let length = length.map(|length| format!(r#","dur":{length}"#)).unwrap_or_default();
    format!(r#"{{"ph":"X","cat":"{category}","name":"{name}","pid":1,"tid":1,"ts":{start}{length}}}"#)
}

fn of(events: &[String]) -> String {
    format!(r#"{{"traceEvents":[{}]}}"#, events.join(","))
}

fn account(text: &str) -> ProfileAccount {
    read(text.as_bytes()).unwrap()
}

/// Three steps of 1000 µs with an operator of 400 µs each; the first step has this length.
fn steps(first: Option<&str>) -> Vec<String> {
    let step = |number: u32| {
        let length = if number == 0 { first } else { Some("1000") };
        let name = format!("ProfilerStep#{number}");
        let start = (number * 1000).to_string();
        [event("user_annotation", &name, &start, length), event("cpu_op", "aten::mm", &start, Some("400"))]
    };
    (0..3).flat_map(step).collect()
}

#[test]
fn a_step_without_a_length_is_no_window() {
    assert_eq!(account(&of(&steps(Some("1000")))).window_ms, 3.0);
    for (first, notes) in [
        (None, 1),
        (Some("null"), 1),
        (Some("nan"), 1),
        (Some("-5"), 1),
        (Some("1e300"), 1),
        (Some("\"\""), 1),
        (Some("0"), 0),
    ] {
        let account = account(&of(&steps(first)));
        assert_eq!((account.window_ms, account.steps), (2.0, 2), "{first:?}");
        assert_eq!(account.notes.len(), notes, "{first:?}: {:?}", account.notes);
    }
    // The only one: the window is that of the operators.
    let mut one = steps(None);
    one.drain(2..);
    assert_eq!((account(&of(&one)).window_ms, account(&of(&one)).steps), (0.4, 0));
}

#[test]
fn what_has_no_time_or_no_length_counts_as_missing() {
    let mut events = steps(Some("1000"));
    events.push(event("kernel", "gemm", "100", None));
    events.push(event("cpu_op", "aten::add", "nan", Some("5")));
    events.push(event("cuda_runtime", "cudaLaunchKernel", "1e300", Some("5")));
    // What is not read loses nothing.
    events.push(event("Trace", "x", "nan", None));
    let account = account(&of(&events));
    assert_eq!(account.notes, ["3 events could not be read, and count as missing."]);
    assert_eq!((account.window_ms, account.devices.len()), (3.0, 0));
}

#[test]
fn a_second_trace_in_the_file_is_said() {
    let one = of(&steps(Some("1000")));
    let twice = account(&format!("{one}\n{one}"));
    assert_eq!(twice.notes, ["The file goes on after the trace's end: what follows is left out."]);
    assert_eq!(ProfileAccount { notes: Vec::new(), ..twice }, account(&format!("{one} \n")));
    let list = format!("[{}]", steps(Some("1000")).join(","));
    assert_eq!(account(&format!("{list}{list}")).notes.len(), 1);
    assert_eq!(account(&list).notes.len(), 0);
}

#[test]
fn events_that_are_there_twice_are_said() {
    let once = steps(Some("1000"));
    let doubled = account(&of(&[once.clone(), once.clone()].concat()));
    assert_eq!(doubled.notes, ["The file has nearly all events twice: rows of it count too much."]);
    // Some events are equal without that.
    assert_eq!(account(&of(&[&once[..], &once[..2]].concat())).notes.len(), 0);
}

#[test]
fn a_profiler_in_another_thread_is_said() {
    let ran = event("Trace", "PyTorch Profiler (0)", "0", Some("9000"));
    let nothing = read(of(std::slice::from_ref(&ran)).as_bytes()).unwrap_err();
    assert!(matches!(nothing, ProfileError::NothingInThread), "{nothing}");
    assert!(nothing.to_string().contains("torch records only the thread that starts it"), "{nothing}");
    // Of other programs, and where something was lost, nothing is known of that.
    for events in [vec![], vec![ran.clone(), event("cpu_op", "aten::mm", "1", None)]] {
        assert!(matches!(read(of(&events).as_bytes()), Err(ProfileError::Nothing)));
    }
    let steps = steps(Some("1000"));
    let without_work = account(&of(&[&[ran], &steps[..1], &steps[2..3]].concat()));
    let [note] = &without_work.notes[..] else { panic!("{:?}", without_work.notes) };
    assert!(note.starts_with("The trace has no operator: torch records only the thread"), "{note}");
}
