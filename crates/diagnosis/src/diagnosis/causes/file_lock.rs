//! The loop waits for a lock on a file, or its workers wait for a lock that they share.

use super::*;

thresholds! {
    /// Of the worker that waits the least.
    TAKE_TURNS = 0.25, "share", "two workers that take turns each wait half of the time, more workers longer; a quarter leaves room for work outside the lock";
}

const BY_TURNS: ConfidenceRamp = ConfidenceRamp { least: 0.75, most: 1.0, from: TAKE_TURNS, to: LARGER_HALF };

pub(super) const CAUSE: CauseSpec = CauseSpec {
    headline: "waiting for a file lock",
    brief: "another process holds a file lock",
    meaning: "the loop waits for a file lock that another process holds",
    rule: &[
        WAIT_IS_FOLLOWED,
        "it ends at a lock on a file (flock or fcntl)",
        "less certain: the loop sleeps, and another process has locked a file for writing that the loop has open \
         too. SQLite and portalocker poll this way: they sleep and try again instead of waiting for the lock",
    ],
    judge: |case| {
        if !case.waits_for(Purpose::FileLock) {
            return take_turns(case);
        }
        let tries = case.window.chain.as_ref().is_some_and(Chain::tries_lock);
        let words = "the loop was seen to sleep, but not to try the lock";
        Some(case.found(Cause::Lock, 1.0).less_sure_if(tries, INFERRED, words))
    },
    signals: &[CHAIN, "/proc/locks: the process that holds the lock", MAIN_WAIT],
    source: "flock(2), fcntl(2): F_SETLKW waits until the holder releases the lock; F_SETLK and LOCK_NB return at \
        once, and the caller may sleep before it tries again (sqlite3_busy_timeout)",
    in_other_class: Some(&OF_WORKERS),
    limits: "locks between threads of one process are futexes and show as waits for those threads. A holder in \
        another PID namespace cannot be seen",
    advice: advice![
        "Give each process its own file and merge the files later"
            => "then there is nothing to wait for";
        "Hold the lock for less time, or once for many steps"
            => "each step waits for the holder";
    ],
    followed: Some(FollowedWait {
        part: Purpose::FileLock,
        signal: Signal::WaitsForLock,
        words: |name| format!("for a lock on {name}"),
    }),
    culprits: &[culprits::locks],
    ..CauseSpec::in_class(Class::Io)
};

/// Workers that wait for each other.
const OF_WORKERS: CauseSpec = CauseSpec {
    name: "lock",
    headline: "workers take turns at a lock",
    brief: "only one worker works at a time",
    meaning: "the workers take turns at a shared lock, so hardly more than one works at a time",
    rule: &[
        LOOP_LOSES,
        "there are two or more workers, and each waits at least `take_turns` of its time in a futex shared between \
         processes, while another worker works and none waits for an index",
    ],
    signals: &[MAIN_WAIT, WORKER_WAIT, WORKER_TIME],
    source: "multiprocessing's Lock is a semaphore in shared memory: sem_wait(3) sleeps in a futex until the \
        holder releases it. N workers that do all their work under it are each on a CPU for 1/N of the time",
    limits: "only the workers' stacks show which lock it is and which line takes it. File locks show as waits for \
        a source",
    advice: advice![
        "Hold the lock only for what must not run concurrently"
            => "more workers gain nothing while they take turns";
        "Give each worker its own copy of what the lock protects"
            => "then there is nothing to take turns at: open it in worker_init_fn";
    ],
    evidence: &[Signal::WorkersLockWait],
    // No worker can gain more than the time that it waits, in which it looks idle.
    bound: |_, window| Some(window.without(window.lost_wait().min(window.workers.as_ref()?.idle))),
    place: CulpritPlace::Workers,
    culprits: &[culprits::locks],
    ..CauseSpec::in_class(Class::DataLoader)
};

/// The workers wait for each other.
fn take_turns(case: &RuleInput<'_>) -> Option<Judgment> {
    let workers = case.slow_workers().filter(|workers| workers.count > 1 && workers.lock_wait >= TAKE_TURNS)?;
    let judgment = case.found(Cause::Lock, BY_TURNS.at(workers.lock_wait));
    let words =
        "trainmon did not see the lock itself: a wait for room in a queue that the workers share looks the same";
    Some(Judgment { class: Class::DataLoader, ..judgment.less_sure(INFERRED, words) })
}
