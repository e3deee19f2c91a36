//! Another Python thread of the process holds the interpreter lock (GIL) that the loop waits for.

use super::*;

thresholds! {
    LOCK_WAITS = 0.15, "share", "a loop beside one busy Python thread waited in a futex 0.3 to 0.35 of its time (CPython 3.11, switch interval 5 ms)";
    TAKES_TURNS = 0.25, "share", "a thread that waits for the lock runs in between; one that hardly runs waits for the other thread's result";
}

const BY_FUTEX_WAITS: ConfidenceRamp = ConfidenceRamp { least: 0.45, most: 0.70, from: LOCK_WAITS, to: CLEARLY_LOST };

pub(super) const CAUSE: CauseSpec = CauseSpec {
    headline: "another thread holds the GIL",
    brief: "another Python thread holds the GIL",
    meaning: "another Python thread of the process computes and keeps the interpreter lock (GIL) from the loop",
    rule: &[
        "where waits can be followed: waits of 5 ms for the lock, while another thread of the process runs, are \
         the largest loss; half of the loop's own work counts against them. Without stacks, a loop that runs less than \
         `takes_turns` makes it less sure",
        "where they cannot, all of the following",
        RUNS_DRY,
        "exactly one other thread of the loop's process, neither torch's nor a queue thread, runs or queues at \
         least `busy` of the time",
        "the loop's thread waits in a futex at least `lock_waits` of the time and runs at least `takes_turns` of \
         it: they take turns, and the process uses less than `compute_threads`",
        "no autograd or communication thread works meanwhile, and stacks show no other wait",
    ],
    judge: |case| {
        if case.window.followed_chain().is_some() {
            let hardly_runs = fits::without_stacks(case.window) && case.main.waits(Wait::Running) < TAKES_TURNS;
            let words = "the loop hardly runs between its waits: it may wait for what that thread makes, and only ask for it \
                now and then. Stacks would tell";
            return case
                .waits_for(Purpose::InterpreterLock)
                .then(|| case.found(Cause::GilContention, 1.0).less_sure_if(hardly_runs, INFERRED, words));
        }
        let main = case.main;
        let trains_on_cpu = case.computes_on_cpu() && !cpu_training::may_be_set_up(case);
        let idle = case.gpu_kept_idle().is_some() || trains_on_cpu;
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
            Judgment::new(Cause::GilContention, BY_FUTEX_WAITS.at(main.waits(Wait::Futex)))
                .doubt("the lock itself cannot be seen: a thread that prepares batches looks the same")
        })
    },
    signals: &[MAIN_WAIT, MAIN_TIME, THREADS, DEVICE],
    source: "CPython's take_gil waits in a futex with the switch interval (5 ms) as its timeout. Of two threads \
        that compute in Python, only one runs at a time, so together they use about one CPU",
    confirmed: Confirmed::DataFilesOnly,
    limits: "a futex does not show which lock it belongs to. Without stacks, a thread of the program that prepares \
        batches looks the same; so does a native thread that the loop takes turns with",
    advice: advice![
        "Move that thread's work into a separate process"
            => "threads of one process take turns at the interpreter lock, processes do not (multiprocessing, \
                DataLoader workers)";
        Nothing "Find it with `py-spy top --gil --pid PID`"
            => "it counts only threads that hold the lock; `py-spy dump --pid PID` shows all of them";
        "Do its work in calls that release the lock, on larger pieces"
            => "NumPy, torch and compiled code release it; the Python code between them holds it";
    ],
    evidence: &[Signal::FutexWait, Signal::OtherThread],
    followed: Some(FollowedWait {
        part: Purpose::InterpreterLock,
        signal: Signal::WaitsForInterpreter,
        words: |name| format!("for the interpreter lock (GIL), held by {name}"),
    }),
    against: &[WAITS_FOR_BATCHES],
    bound: |_, window| Some(window.without(window.main.as_ref()?.waits(Wait::Futex))),
    ..CauseSpec::in_class(Class::Cpu)
};
