//! The loop waits to write, because the reader of its output is slow.

use super::*;

pub(super) const CAUSE: CauseSpec = CauseSpec {
    headline: "output not read fast enough",
    brief: "the loop waits to write into a full pipe",
    meaning: "the loop waits to write into a pipe or socket whose reader is slow",
    rule: &[WAIT_IS_FOLLOWED, "it ends at the reader of a pipe or socket that the loop writes to"],
    judge: |case| case.waits_for(Purpose::Output).then(|| case.found(Cause::OutputBlocked, 1.0)),
    signals: &[CHAIN, MAIN_WAIT, DEVICE],
    source: "a pipe holds 64 KiB (pipe(7)); once it is full, a write waits until the reader has taken some of it",
    limits: "a slow terminal, or one stopped with Ctrl-S, is shown as a terminal, not as a reader",
    advice: advice![
        "Write the output to a file, or print less per step"
            => "a file takes output as fast as the loop writes it";
        Nothing "Find out why the reader is slow"
            => "the loop continues only when it reads: check for a paused pager, a log collector, or `tee` on a \
                slow disk";
    ],
    followed: Some(FollowedWait {
        part: Purpose::Output,
        signal: Signal::WaitsForReader,
        words: |name| format!("to write, because {name} reads its output too slowly"),
    }),
    culprits: &[culprits::readers],
    ..CauseSpec::in_class(Class::Io)
};
