//! The loop waits for a lock on a file, or its data workers for one that they share.

use super::*;

thresholds! {
    /// Of the worker that waits least.
    TAKE_TURNS = 0.25, "share", "two workers that take turns wait half of the time each, more of them longer; a quarter leaves room for work outside of the lock";
}

const BY_TURNS: ConfidenceRamp = ConfidenceRamp { least: 0.75, most: 1.0, from: TAKE_TURNS, to: LARGER_HALF };

pub(super) const CAUSE: CauseSpec = CauseSpec {
    headline: "the loop waits for a file lock",
    brief: "somebody else holds a lock on a file",
    meaning: "the loop waits for a lock on a file that another process holds",
    rule: &[
        WAIT_IS_FOLLOWED,
        "there is a lock on a file (flock or fcntl)",
        "less sure: the loop sleeps, and another process has locked a file for writing that the loop has open as well: who does not \
         wait for a lock sleeps and tries again (SQLite, portalocker)",
    ],
    judge: |case| {
        if !case.waits_for(PathPart::FileLock) {
            return take_turns(case);
        }
        let tries = case.window.chain.as_ref().is_some_and(Chain::tries_lock);
        let words = "the loop sleeps: that it tries to lock the file was not seen";
        Some(case.found(Cause::Lock, 1.0).less_sure_if(tries, INFERRED, words))
    },
    signals: &[CHAIN, "/proc/locks: who holds the lock", MAIN_WAIT],
    source: "flock(2), fcntl(2): F_SETLKW waits until the holder lets go; with F_SETLK and LOCK_NB the caller is told, and may sleep \
             (sqlite3_busy_timeout)",
    in_other_class: Some(&OF_WORKERS),
    limits: "locks within the process are futexes and show as its threads; who holds a lock in another PID namespace is \
             not seen",
    advice: advice![
        "Give each process a file of its own, and put them together later" => "then there is nothing to wait for";
        "Hold the lock for a shorter time, or take it once for many steps" => "each step waits for the holder";
    ],
    followed: Some(FollowedWait {
        part: PathPart::FileLock,
        signal: Signal::WaitsForLock,
        words: |who| format!("for a lock on {who}"),
    }),
    culprits: &[culprits::locks],
    ..CauseSpec::in_class(Class::Io)
};

/// Data workers that wait for each other.
const OF_WORKERS: CauseSpec = CauseSpec {
    name: "lock",
    headline: "the workers take turns at a lock",
    brief: "only one worker at a time works",
    meaning: "the workers take turns at a lock that they share, so that hardly more than one of them works at a time",
    rule: &[
        LOOP_LOSES,
        "there are two workers and more, and each waits at least `take_turns` of its time in a futex that processes share, \
         while another one works and none waits for an index",
    ],
    signals: &[MAIN_WAIT, WORKER_WAIT, WORKER_TIME],
    source: "multiprocessing's Lock is a semaphore in shared memory: sem_wait(3) sleeps in a futex until the holder lets go; N workers \
             that do all their work under it are on a CPU for 1/N of the time each",
    limits: "which lock it is, and which line takes it, only the workers' stacks tell; locks of files show as waits for a source",
    advice: advice![
        "Keep the work out of the lock: hold it only for what really must not run twice at a time"
            => "more workers bring nothing while they take turns";
        "Give each worker its own copy of what the lock protects (open it in worker_init_fn)"
            => "then there is nothing to take turns at";
    ],
    evidence: &[Signal::WorkersLockWait],
    place: CulpritPlace::Workers,
    culprits: &[culprits::locks],
    ..CauseSpec::in_class(Class::DataLoader)
};

/// The workers wait for each other.
fn take_turns(case: &RuleInput<'_>) -> Option<Judgement> {
    let workers = case.slow_workers().filter(|workers| workers.count > 1 && workers.lock_wait >= TAKE_TURNS)?;
    let judgement = case.found(Cause::Lock, BY_TURNS.at(workers.lock_wait));
    let words = "where the lock stands was not seen: room in a queue that the workers share is waited for alike";
    Some(Judgement { class: Class::DataLoader, ..judgement.less_sure(INFERRED, words) })
}
