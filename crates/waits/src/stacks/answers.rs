//! Servers: a process whose first thread takes requests, and whose answers are made below the server's library or in threads that it
//! hands them to. Where the time goes is then in all of these threads.

use std::collections::{BTreeMap, BTreeSet};

use super::call_tree::{CallTree, is_told};
use super::patterns::Pattern;
use super::reading::{sleeps, waits};
use super::{main_thread, seen};
use trainmon_libraries::{JobKind, Library};
use trainmon_sample::stacks::is_user_code;
use trainmon_sample::{StackCount, StackFrame, StackWindow, ThreadStacks};

/// Of each frame of the window, the library that runs it, if it is of such a kind.
fn running(window: &StackWindow, is_of: impl Fn(JobKind) -> bool) -> Vec<Option<&'static str>> {
    let library = |frame: &StackFrame| Library::running(&frame.file, &frame.function);
    let name = |frame| library(frame).filter(|library| is_of(library.kind)).map(|library| library.name);
    window.frames.iter().map(name).collect()
}

/// The innermost server of a stack, leaf first, with its place in it.
fn innermost(stack: &[u32], servers: &[Option<&'static str>]) -> Option<(usize, &'static str)> {
    let of = |at: u32| servers.get(usize::try_from(at).ok()?).copied().flatten();
    stack.iter().enumerate().find_map(|(place, at)| Some((place, of(*at)?)))
}

/// The server or search in the first thread of a process whose loop runs in another thread (`main`), with its part of the first
/// thread's samples.
pub(super) fn around_aside(window: &StackWindow, main: Option<&ThreadStacks>) -> Option<(&'static str, f64)> {
    let first = main_thread(window).filter(|first| main.is_none_or(|main| !std::ptr::eq(*first, main)))?;
    server_of(first, &running(window, JobKind::is_around))
}

/// The server that is in most of a thread's samples, with its part of them.
fn server_of(thread: &ThreadStacks, servers: &[Option<&'static str>]) -> Option<(&'static str, f64)> {
    let (mut samples, mut all): (BTreeMap<&str, u32>, u32) = (BTreeMap::new(), 0);
    for stack in &thread.stacks {
        all = all.saturating_add(stack.samples);
        if let Some((_, name)) = innermost(&stack.frames, servers) {
            let known = samples.entry(name).or_default();
            *known = known.saturating_add(stack.samples);
        }
    }
    let (name, most) = samples.into_iter().max_by_key(|(_, samples)| *samples)?;
    Some((name, f64::from(most) / f64::from(all.max(1))))
}

/// What answers requests.
#[derive(Debug)]
pub(super) struct AnsweringCode {
    /// The calls of the user's code.
    pub calls: CallTree,
    /// The libraries of the table in them, with the samples of each.
    pub libraries: BTreeMap<&'static str, u32>,
    /// Share of the time in which the user's code answers at least one request, whether it computes or waits, 0–1: exact for one request at
    /// a time, else a bound.
    pub answering: f64,
}

/// What answers requests, if the first thread serves. Its threads share the samples of the loop's thread.
pub(super) fn answered(window: &StackWindow, patterns: &[Pattern], samples: u32) -> Option<AnsweringCode> {
    let servers = running(window, |kind| kind == JobKind::Serving);
    let first = main_thread(window)?;
    server_of(first, &servers).filter(|(_, part)| *part >= 0.5)?;
    let mut answers: Vec<(&[u32], &StackCount)> = Vec::new();
    let mut in_answers = 0_u64;
    for thread in &window.threads {
        for stack in &thread.stacks {
            // Further out, the first thread is where the server was started.
            let server = innermost(&stack.frames, &servers);
            let below = match server {
                Some((at, _)) => stack.frames.get(..at)?,
                None if std::ptr::eq(thread, first) => continue,
                None => &stack.frames[..],
            };
            let known = seen(window, patterns, stack);
            let is_own = known.iter().take(below.len()).any(|seen| is_user_code(&seen.frame.file));
            if is_own && server.is_some() {
                in_answers += u64::from(stack.samples);
            }
            if is_own && !waits(&known) && !sleeps(&known) {
                answers.push((below, stack));
            }
        }
    }
    let running = running(window, |_| true);
    let index = |at: &u32| usize::try_from(*at).ok();
    let all: u64 = answers.iter().map(|(_, stack)| u64::from(stack.samples)).sum();
    let (mut before, mut given) = (0_u64, 0_u64);
    let rounds: u64 = first.stacks.iter().map(|stack| u64::from(stack.samples)).sum();
    let answering = (in_answers as f64 / rounds.max(1) as f64).min(1.0);
    let mut found = AnsweringCode { calls: CallTree::default(), libraries: BTreeMap::new(), answering };
    for (below, stack) in answers {
        before += u64::from(stack.samples);
        let until = before * u64::from(samples) / all.max(1);
        let part = u32::try_from(until - given).unwrap_or(u32::MAX);
        given = until;
        let frames = below.iter().filter_map(|at| window.frames.get(index(at)?));
        let frames: Vec<&StackFrame> = frames.filter(|frame| is_told(frame)).collect();
        found.calls.add_stack(frames.into_iter(), part);
        let names: BTreeSet<&str> =
            stack.frames.iter().filter_map(|at| running.get(index(at)?).copied().flatten()).collect();
        for name in names {
            let known = found.libraries.entry(name).or_default();
            *known = known.saturating_add(part);
        }
    }
    found.calls = found.calls.cut();
    (!found.calls.calls.is_empty() || in_answers > 0).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stacks::patterns;

    fn frame(function: &str, file: &str) -> StackFrame {
        StackFrame { function: function.into(), file: file.into(), ..StackFrame::default() }
    }

    /// A thread's stacks, each with its samples.
    type Stacks<'a> = &'a [(&'a [u32], u32)];

    /// Leaf first: 0 a wait, 1 the server, 2 what starts it, 3 a handler, 4 what runs handlers, 5 training.
    fn window(threads: &[(&str, Stacks<'_>)]) -> StackWindow {
        let frames = vec![
            frame("select", "/usr/lib/python3.11/selectors.py"),
            frame("serve_forever", "/usr/lib/python3.11/socketserver.py"),
            frame("main", "/home/me/serve.py"),
            frame("do_GET", "/home/me/serve.py"),
            frame("process_request_thread", "/usr/lib/python3.11/socketserver.py"),
            frame("train", "/home/me/train.py"),
        ];
        let threads = threads.iter().map(|(name, stacks)| ThreadStacks {
            name: (*name).into(),
            tid: None,
            stacks: stacks.iter().map(|(at, n)| StackCount { frames: at.to_vec(), samples: *n }).collect(),
        });
        StackWindow { threads: threads.collect(), frames, ..StackWindow::default() }
    }

    #[test]
    fn answers_in_threads_are_where_a_servers_time_goes() {
        let window = window(&[("MainThread", &[(&[0, 1, 2], 50)]), ("Thread-1", &[(&[3, 4], 30), (&[0, 3, 4], 20)])]);
        let found = answered(&window, &patterns(&window), 50).unwrap();
        let names: Vec<_> = found.calls.calls.iter().map(|call| (&*call.function, call.samples)).collect();
        assert_eq!(names, [("do_GET", 50)]);
        assert_eq!(found.libraries.into_iter().collect::<Vec<_>>(), [("http.server", 50)]);
        assert_eq!(found.answering, 1.0);
        assert_eq!(around_aside(&window, window.threads.get(1)), Some(("http.server", 1.0)));
        assert_eq!(around_aside(&window, window.threads.first()), None);
    }

    #[test]
    fn a_thread_that_serves_beside_training_is_no_server() {
        let window = window(&[("MainThread", &[(&[5], 50)]), ("Thread-1", &[(&[0, 1], 50), (&[3, 4], 5)])]);
        assert!(answered(&window, &patterns(&window), 50).is_none());
        assert_eq!(around_aside(&window, window.threads.get(1)), None);
    }
}
