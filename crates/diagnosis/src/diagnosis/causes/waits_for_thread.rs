//! The loop waits for another thread of its process that makes no batches: it holds a lock, computes a result, or is joined.

use super::*;

pub(super) const CAUSE: CauseSpec = CauseSpec {
    headline: "waiting for another thread",
    brief: "the loop waits for a thread of its own process",
    meaning: "the loop waits for a lock, a result, or the end of another thread in its process",
    rule: &[
        WAIT_IS_FOLLOWED,
        "it ends at another thread of the loop's process",
        "with stacks: for at least `larger_half` of that time, the loop is at a line that takes a lock or joins a \
         thread",
        "or it waits without saying for what, as for a future's result, while the other threads make no batches",
        "or, less certain, it waits at a queue, works less than `lost_wait` of the time itself, and neither a \
         model nor a GPU is in use: then these threads train, and the loop collects their reports",
        "less than `larger_half` of that time goes into saving state",
    ],
    judge: |case| {
        let waits = case.window.chain.as_ref().map_or(0.0, |chain| chain.share(Purpose::Thread));
        let saves = case.main.shares.checkpoint >= LARGER_HALF.value * waits;
        // What comes out of a queue may be a batch after all, of a loop whose model has no frames of its own.
        let at_queue = case.main.share(Activity::QueueWait) >= LARGER_HALF.value * case.lost_to(Purpose::Thread);
        let words = "trainmon cannot see what comes out of that queue, and it may be batches";
        (case.waits_for(Purpose::Thread) && !saves)
            .then(|| case.found(Cause::WaitsForThread, 1.0).less_sure_if(at_queue, GUESSED, words))
    },
    signals: &[CHAIN, MAIN_STACKS, MAIN_WAIT, DEVICE],
    source: "a lock in Python's threading is a futex that does not name its holder (Python/thread_pthread.h), so \
        the thread that runs during the wait is taken for the holder. A queue that waits in native code looks the \
        same except for the line that calls it",
    limits: "without stacks, or where the program's source cannot be read, such a thread is taken for one that \
        makes batches (data-loader/in-process-loading), with less certainty",
    advice: advice![
        "Take the result a step later; hold locks only to copy data"
            => "the loop waits for as long as that thread works";
        "Run that thread less often, or on a copy of the data"
            => "for statistics, every N steps is often enough";
        Nothing "Find the line with `py-spy dump --pid PID`"
            => "it shows where each thread is";
    ],
    followed: Some(FollowedWait {
        part: Purpose::Thread,
        signal: Signal::WaitsForThread,
        words: |name| format!("for {name} of its own process: a lock, a result, or its end"),
    }),
    special_case: |window| match window.does.kind? {
        JobKind::Serving => Some(&ANSWERS_IN_THREADS),
        JobKind::DataPreparation => Some(&COMPUTES_IN_THREADS),
        _ => None,
    },
    ..CauseSpec::in_class(Class::Cpu)
};

/// A server's first thread hands requests to others.
const ANSWERS_IN_THREADS: CauseSpec = CauseSpec {
    headline: "threads answer the requests",
    brief: "the threads that answer requests compute",
    meaning: "the threads that answer requests compute",
    advice: advice![
        Nothing "Answer several requests in one batch"
            => "one forward pass then serves all of them";
        Nothing "Use a machine with a GPU, if the model can compute on one"
            => "the CPU computes the answers, and trainmon sees no GPU here (`trainmon doctor`)", if lacks_gpu;
    ],
    followed: Some(FollowedWait {
        part: Purpose::Thread,
        signal: Signal::WaitsForThread,
        words: |name| format!("for {name} of its own process, which answer the requests"),
    }),
    place: CulpritPlace::Loop,
    special_case: |_| None,
    ..CAUSE
};

/// A library prepares data in threads of its own.
const COMPUTES_IN_THREADS: CauseSpec = CauseSpec {
    headline: "the library's threads compute",
    brief: "the library computes in threads of its own",
    meaning: "the library computes in threads of its own",
    advice: advice![
        Nothing "Select the columns and filter the rows first"
            => "the library then has less to compute";
        Nothing "Compute on whole columns"
            => "a Python function is called for each row or group", if calls_for_each_row, of Columns;
    ],
    followed: Some(FollowedWait {
        part: Purpose::Thread,
        signal: Signal::WaitsForThread,
        words: |name| format!("for {name} of its own process, where the library computes"),
    }),
    special_case: |_| None,
    ..CAUSE
};
