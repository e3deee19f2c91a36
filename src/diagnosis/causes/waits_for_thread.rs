//! The loop waits for another thread of its own process that makes no batches: it holds a lock, computes a result, or is joined.

use super::*;

pub(super) const CAUSE: CauseSpec = CauseSpec {
    headline: "another thread of the program holds the loop up",
    brief: "the loop waits for a thread of its own",
    meaning: "the loop waits for a lock that another thread of its process holds, or for that thread's result or end",
    rule: &[
        WAIT_IS_FOLLOWED,
        "it leads to another thread of the loop's process",
        "with stacks: at least `larger_half` of that time the loop's code stands at a line that takes a lock or joins a thread; or \
         waits without saying for what, as for a future's result, while the other threads are seen to make no batches; or, less \
         surely, at a queue, where the loop itself works less than `lost_wait`, no model is seen and no device used: then these \
         threads train, and the loop notes what they report",
        "less than `larger_half` of that time is for saving state",
    ],
    judge: |case| {
        let waits = case.window.chain.as_ref().map_or(0.0, |chain| chain.share(PathPart::OwnThread));
        let saves = case.main.shares.checkpoint >= LARGER_HALF.value * waits;
        // What comes out of a queue may be a batch after all, of a loop whose model has no frames of its own.
        let at_queue = case.main.share(Activity::QueueWait) >= LARGER_HALF.value * case.lost_to(PathPart::OwnThread);
        let words = "what comes out of that queue is not seen";
        (case.waits_for(PathPart::OwnThread) && !saves)
            .then(|| case.found(Cause::WaitsForThread, 1.0).less_sure_if(at_queue, GUESSED, words))
    },
    signals: &[CHAIN, MAIN_STACKS, MAIN_WAIT, DEVICE],
    source: "a lock of Python's threading is a futex without a holder's name (Python/thread_pthread.h), so who runs meanwhile \
             tells the holder; a queue that waits in native code looks alike but for the line that it is called from",
    limits: "without stacks, or where the program's source cannot be read, such a thread is taken for one that makes batches \
             (data-loader/in-process-loading), less surely",
    advice: advice![
        "Take the thread's result or end in a later step, and hold a lock only to copy or swap what is shared"
            => "the loop waits as long as the thread works";
        "Let the thread run less often, or on a copy that the loop leaves behind" => "every N steps is often enough for statistics";
        "Find the line with `py-spy dump --pid`" => "it shows which thread stands where";
    ],
    followed: Some(FollowedWait {
        part: PathPart::OwnThread,
        signal: Signal::WaitsForThread,
        words: |who| format!("for {who} of its own process, at a lock or for that thread's result or end"),
    }),
    ..CauseSpec::in_class(Class::Cpu)
};
