//! The loop waits for a lock on a file.

use super::*;

thresholds! {}

pub(super) const CAUSE: Spec = Spec {
    headline: "the loop waits for a file lock",
    brief: "somebody else holds a lock on a file",
    meaning: "the loop waits for a lock on a file that another process holds",
    rule: &[WAIT_IS_FOLLOWED, "there is a lock on a file (flock or fcntl)"],
    judge: |case| case.waits_for(Part::FileLock).then(|| case.of(Cause::Lock, 1.0)),
    signals: &[CHAIN, "/proc/locks: who holds the lock", MAIN_WAIT],
    source: "flock(2), fcntl(2): F_SETLKW waits until the holder lets go",
    confirmed: Confirmed::LabelledWorkloads,
    limits: "locks within the process are futexes and show as its threads; who holds a lock in another PID namespace is \
             not seen",
    advice: advice![
        "Give each process a file of its own, and put them together later" => "then there is nothing to wait for";
        "Hold the lock for a shorter time, or take it once for many steps" => "each step waits for the holder";
    ],
    evidence: &[Signal::WaitsForLock],
    followed: Some(Followed {
        part: Part::FileLock,
        signal: Signal::WaitsForLock,
        words: |who| format!("for a lock on {who}"),
    }),
    bound: |window| bound_of(window, Part::FileLock),
    ..Spec::of(Class::Io)
};
