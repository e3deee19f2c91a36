//! Which threads of a process run Python, and which of them train, according to their stacks.

use super::patterns::Pattern;
use super::reading::{KnownFrame, has, named_for_sync, sleeps, waits};
use super::{patterns, seen, tally};
use crate::taxonomy::Activity;
use trainmon_libraries::code::last_part;
use trainmon_sample::StackWindow;

/// A thread with Python frames.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct PythonThread {
    pub tid: u32,
    pub samples: u32,
    /// Of these: in what only a training loop does, or in a function named for training.
    pub trains: u32,
    /// Of these: not waiting, or waiting only for the GPU.
    pub steps: u32,
    /// Of its samples: taking batches from torch's loader; a thread that fetches ahead does that too.
    pub iterates: u32,
    /// Of its samples: waiting for what another thread makes, in a queue or elsewhere in the standard library, but not
    /// for room.
    pub takes: u32,
    /// Of its samples: at a line that sleeps.
    pub sleeps: u32,
}

impl PythonThread {
    /// This many of its samples, as a share.
    pub(crate) fn share(&self, samples: u32) -> f64 {
        f64::from(samples) / f64::from(self.samples.max(1))
    }
}

/// The threads of a window whose IDs are known.
pub(crate) fn python_threads(window: &StackWindow) -> Vec<PythonThread> {
    let patterns = patterns(window);
    let threads = window.threads.iter().filter_map(|thread| {
        let mut found = PythonThread { tid: thread.tid?, ..PythonThread::default() };
        for stack in &thread.stacks {
            let seen = seen(window, &patterns, stack);
            let trains = seen.iter().any(is_sign);
            let takes = waits(&seen) || seen.first().is_some_and(|leaf| leaf.pattern == Pattern::QueueGet);
            let counts = [
                (&mut found.samples, true),
                (&mut found.trains, trains),
                (&mut found.steps, trains && (!waits(&seen) || seen.iter().any(waits_for_gpu))),
                (&mut found.iterates, has(&seen, Pattern::LoaderNext)),
                (&mut found.takes, takes && !has(&seen, Pattern::QueuePut)),
                (&mut found.sleeps, sleeps(&seen)),
            ];
            tally(stack.samples, counts);
        }
        Some(found)
    });
    threads.collect()
}

fn waits_for_gpu(seen: &KnownFrame<'_>) -> bool {
    seen.pattern == Pattern::Is(Activity::Sync) || named_for_sync(last_part(&seen.frame.function))
}

/// Whether only a training loop does this, or a user function is named for training. A forward pass is not a sign:
/// other threads may predict.
fn is_sign(seen: &KnownFrame<'_>) -> bool {
    matches!(seen.pattern, Pattern::Is(Activity::Backward | Activity::Optimizer | Activity::Collective))
        || seen.is_user() && named_for_training(last_part(&seen.frame.function))
}

fn named_for_training(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    name.split('_').any(|word| matches!(word, "train" | "training" | "fit" | "epoch" | "epochs"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainmon_sample::{StackCount, StackFrame, ThreadStacks};

    #[test]
    fn who_trains_is_known_by_torch_or_by_name() {
        let frame = |function: &str, file: &str| StackFrame {
            function: function.into(),
            file: file.into(),
            ..StackFrame::default()
        };
        let frames = vec![
            frame("train_one_epoch", "/home/me/job.py"),
            frame("fill", "/home/me/job.py"),
            frame("backward", "/usr/lib/python3/site-packages/torch/_tensor.py"),
            frame("inner", "/home/me/job.py"),
            // A library's own function of that name says nothing.
            frame("train", "/usr/lib/python3/site-packages/other/runner.py"),
            frame("wait", "/usr/lib/python3.11/threading.py"),
            frame("Queue.get", "/usr/lib/python3.11/queue.py"),
            frame("Queue.put", "/usr/lib/python3.11/queue.py"),
            frame("__next__", "/usr/lib/python3/site-packages/torch/utils/data/dataloader.py"),
            StackFrame { text: Some("time.sleep(0.1)".into()), ..frame("inner", "/home/me/job.py") },
        ];
        let thread = |tid, stacks: &[(&[u32], u32)]| ThreadStacks {
            tid,
            stacks: stacks
                .iter()
                .map(|(at, samples)| StackCount { frames: at.to_vec(), samples: *samples })
                .collect(),
            ..ThreadStacks::default()
        };
        let threads = vec![
            thread(Some(2), &[(&[1], 40), (&[4, 1], 10)]),
            thread(Some(3), &[(&[3, 0], 20), (&[3], 5)]),
            thread(Some(4), &[(&[2, 3], 7)]),
            // Waits for what is in a queue, and for room in one.
            thread(Some(5), &[(&[5, 6, 3], 8), (&[5, 7, 1], 4), (&[3], 2)]),
            thread(Some(6), &[(&[8, 3], 6), (&[3], 1)]),
            thread(Some(7), &[(&[9, 3], 5), (&[3, 9], 1)]),
            thread(None, &[(&[0], 9)]),
        ];
        let seen = python_threads(&StackWindow { frames, threads, ..StackWindow::default() });
        let sleeps: Vec<_> = seen.iter().map(|thread| (thread.tid, thread.sleeps)).collect();
        assert_eq!(sleeps, [(2, 0), (3, 0), (4, 0), (5, 0), (6, 0), (7, 5)]);
        let seen =
            seen.iter().map(|thread| (thread.tid, thread.samples, thread.trains, thread.iterates, thread.takes));
        let seen: Vec<_> = seen.take(5).collect();
        assert_eq!(seen, [(2, 50, 0, 0, 0), (3, 25, 20, 0, 0), (4, 7, 7, 0, 0), (5, 14, 0, 0, 8), (6, 7, 0, 6, 0)]);
    }
}
