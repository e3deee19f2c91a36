//! Another Python thread of the process holds the interpreter lock that the loop's thread waits for.

use super::*;

thresholds! {
    LOCK_WAITS = 0.15, "share", "a loop beside one busy Python thread was seen waiting in a futex 0.3 to 0.35 of its time (CPython 3.11, a switch interval of 5 ms)";
    TAKES_TURNS = 0.25, "share", "a thread that waits for the lock runs in between; one that hardly runs waits for the other's result";
}

const BY_FUTEX_WAITS: ConfidenceRamp = ConfidenceRamp { least: 0.45, most: 0.70, from: LOCK_WAITS, to: CLEARLY_LOST };

pub(super) const CAUSE: CauseSpec = CauseSpec {
    headline: "another Python thread holds the interpreter lock",
    brief: "another Python thread holds the interpreter lock",
    meaning: "another Python thread of the process computes and keeps the interpreter lock from the loop",
    rule: &[
        "where waits can be followed: the largest part of them, set against half of the loop's own work, are waits of 5 ms for \
         the lock while another thread of the process runs. Else:",
        RUNS_DRY,
        "exactly one other thread of the trainer, neither torch's nor a feeder, runs or queues at least `busy` of its time",
        "the main thread waits in a futex at least `lock_waits` of its time and runs at least `takes_turns` of it: \
         they take turns, and the process uses less than `compute_threads`",
        "no autograd or communication thread works meanwhile, and stacks show no other wait",
    ],
    judge: |case| {
        if case.window.followed_chain().is_some() {
            return case.waits_for(PathPart::InterpreterLock).then(|| case.found(Cause::GilContention, 1.0));
        }
        let main = case.main;
        let trains_on_cpu = case.computes_on_cpu() && !cpu_training::may_be_set_up(case);
        let idle = case.device_kept_idle().is_some() || trains_on_cpu;
        let others_waits = [
            Activity::Waiting,
            Activity::QueueWait,
            Activity::OtherWait,
            Activity::Collective,
            Activity::Sync,
            Activity::Graph,
        ];
        let other_wait = others_waits.map(|activity| main.share(activity)).iter().sum::<f64>() >= HARDLY;
        let takes_turns = main.waits(Wait::Running) >= TAKES_TURNS && case.main.cores() < COMPUTE_THREADS;
        let contends = main.other_threads.busy == 1 && main.waits(Wait::Futex) >= LOCK_WAITS && takes_turns;
        (idle && contends && main.other_threads.torch < HARDLY && !other_wait).then(|| {
            Judgement::new(Cause::GilContention, BY_FUTEX_WAITS.at(main.waits(Wait::Futex))).doubt(
                "which lock the main thread waits for is not seen: a thread that prepares batches looks the same",
            )
        })
    },
    signals: &[MAIN_WAIT, MAIN_TIME, THREADS, DEVICE],
    source: "CPython's take_gil waits in a futex with the switch interval (5 ms) as its time-out; of two threads \
             that compute in Python only one runs at a time, so together they use about one CPU",
    confirmed: Confirmed::DataFilesOnly,
    limits: "which lock a futex belongs to is not seen: a thread of the program's own that prepares batches looks \
             the same where there are no stacks, and so does a native thread that the loop takes turns with",
    advice: advice![
        "Move the other thread's work into a process of its own (multiprocessing, or the DataLoader's workers)"
            => "threads of one process take turns at the interpreter lock, processes do not";
        "Find it with `py-spy dump --pid` or `py-spy top --gil --pid`"
            => "the latter counts only threads that hold the lock";
        "Let it work in calls that release the lock (numpy, torch, compiled code) on larger pieces"
            => "Python code between them holds it";
    ],
    evidence: &[Signal::FutexWait, Signal::OtherThread],
    followed: Some(FollowedWait {
        part: PathPart::InterpreterLock,
        signal: Signal::WaitsForInterpreter,
        words: |who| format!("for the interpreter lock, which {who} holds"),
    }),
    against: &[WAITS_FOR_BATCHES],
    bound: |_, window| Some(window.without(window.main.as_ref()?.waits(Wait::Futex))),
    ..CauseSpec::in_class(Class::Cpu)
};
