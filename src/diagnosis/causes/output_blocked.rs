//! The loop waits to write: whoever reads its output is slow.

use super::*;

pub(super) const CAUSE: CauseSpec = CauseSpec {
    headline: "whoever reads the output is slow",
    brief: "the loop waits to write into a full pipe",
    meaning: "the loop waits to write into a pipe or socket whose reader is slow",
    rule: &[WAIT_IS_FOLLOWED, "there is the reader of a pipe or socket that the loop wants to write into"],
    judge: |case| case.waits_for(PathPart::Output).then(|| case.found(Cause::OutputBlocked, 1.0)),
    signals: &[CHAIN, MAIN_WAIT, DEVICE],
    source: "a pipe holds 64 KiB (pipe(7)); a writer waits from then on until its reader has taken some",
    limits: "a terminal that is slow, or stopped with Ctrl-S, is seen as a terminal, not as a reader",
    advice: advice![
        "Write the output to a file, or print less per step" => "a file takes it as fast as it comes";
        "Find out why the reader is slow: a pager that waits, a log collector, `tee` on a slow disk"
            => "the loop goes on only when it reads";
    ],
    followed: Some(FollowedWait {
        part: PathPart::Output,
        signal: Signal::WaitsForReader,
        words: |who| format!("to write: {who} reads its output too slowly"),
    }),
    culprits: &[culprits::readers],
    ..CauseSpec::in_class(Class::Io)
};
