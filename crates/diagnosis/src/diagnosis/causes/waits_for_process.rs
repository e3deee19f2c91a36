//! The loop waits for another process: environments, actors, a reward model, a compiler, a program that unpacks a stream. Or its
//! workers do: a feature server, a manager process.

use super::*;
use trainmon_waits::taxonomy::Edge;

pub(super) const CAUSE: CauseSpec = CauseSpec {
    headline: "waiting for another process",
    brief: "the loop waits for another process",
    meaning: "the loop waits for the work of another process",
    rule: &[
        WAIT_IS_FOLLOWED,
        "it ends at a process that shares a pipe, a socket or a lock with the loop and rests while the loop works; \
         a process that works ahead of the loop does not count",
        "or the loop sleeps and polls, and a process of the job works only while it does; less certain if that \
         process never rests",
        "or the loop waits for data at least `lost_wait` of the time, the workers spend at least `workers_io` \
         waiting for their source, and at least `larger_half` of these waits end at a process that computes",
    ],
    judge: |case| {
        let of_loop = case.waits_for(Purpose::Process).then(|| case.found(Cause::WaitsForProcess, 1.0));
        of_loop.or_else(|| source::by_server(case))
    },
    signals: &[CHAIN, MAIN_WAIT, DEVICE],
    source: "a process that makes batches works while the loop does; one that answers requests works only while \
        the loop waits, so its time adds to each step",
    limits: "requests from several processes to one server all show as that server. A loader that makes one batch \
        at a time on request, with none in advance, is recognized as such a process too",
    advice: advice![
        "Request the next answer early: send, step, then receive"
            => "the process then works while the loop does; its answer is one step older", if requests;
        "Let that process work ahead, so that the loop finds its result"
            => "it then works while the loop does; now the loop asks again and again until it is done", if polls;
        "Start the command of the next step while this step runs"
            => "it then works while the loop does; a library in the process also saves its start", if runs_commands;
        Tuning "Run more of these processes, or give each less work"
            => "where CPUs are free, more of them share the work; the slowest sets the pace";
        Nothing "If it only unpacks a stream (xz, gzip, ffmpeg), unpack once"
            => "a single thread unpacks at the pace the loop is held to; more threads for it help too", if reads_a_program;
        Nothing "Profile that process with `py-spy top --pid PID`"
            => "the loop waits for as long as that process works";
    ],
    followed: Some(FollowedWait {
        part: Purpose::Process,
        signal: Signal::WaitsForProcess,
        words: |name| format!("for another process, {name}"),
    }),
    sharpen,
    special_case,
    culprits: &[culprits::processes],
    ..CauseSpec::in_class(Class::Cpu)
};

fn special_case(window: &Features) -> Option<&'static CauseSpec> {
    if behind_workers(window) {
        return Some(&BEHIND_WORKERS);
    }
    match window.does.kind {
        Some(JobKind::ReinforcementLearning) if without_gpu(window) => Some(&ENVIRONMENTS),
        _ if works_in_processes(window) => Some(&OF_A_LIBRARY),
        Some(JobKind::DataPreparation) => Some(&PREPARES_ELSEWHERE),
        _ if hands_out_work(window) => Some(&OF_A_POOL),
        _ => None,
    }
}

/// The processes of a library fit models, and the loop only hands out what to fit.
const OF_A_LIBRARY: CauseSpec = CauseSpec {
    meaning: "the library's own processes do the work, and the loop waits for their results",
    advice: advice![
        Nothing "Use all CPUs" => "the job leaves CPUs free", if leaves_cpus_free, of Threads;
    ],
    bound: |_, _| None,
    sharpen: |_, _| {},
    special_case: |_| None,
    ..CAUSE
};

/// The loop waits to write into processes that are there to work for it: all of them have something to do.
fn hands_out_work(window: &Features) -> bool {
    let longest = window.chain.as_ref().and_then(|chain| chain.longest(Purpose::Process));
    longest.and_then(|way| way.hops.first()).is_some_and(|hop| hop.by == Edge::Writes)
}

/// A pool of processes that is full.
const OF_A_POOL: CauseSpec = CauseSpec {
    meaning: "a pool of processes does the work, and all of them have something to do",
    advice: advice![
        Nothing "Run more of these processes" => "CPUs are free, and more of them share the work", if leaves_cpus_free;
    ],
    ..OF_A_LIBRARY
};

/// Environments in processes of their own: each step needs the answers to the last one.
const ENVIRONMENTS: CauseSpec = CauseSpec {
    advice: advice![
        "Make a step of the environments cheaper"
            => "the loop waits for all of them in each step, and the slowest sets the pace";
        Tuning "Run more environments in processes"
            => "CPUs are free, and each step of the policy then serves more of them", if leaves_cpus_free;
    ],
    sharpen: |_, _| {},
    special_case: |_| None,
    ..CAUSE
};

/// Once both work at the same time, the slower of the two sets the pace.
fn sharpen(first: &mut Advice, window: &Features) {
    let waits = window.chain.as_ref().map_or(0.0, |chain| chain.share(Purpose::Process));
    first.limit(1.0 / waits.max(1.0 - waits));
}

/// The job asks it to prepare data, like a driver of Spark.
const PREPARES_ELSEWHERE: CauseSpec = CauseSpec {
    meaning: "another process prepares the data",
    advice: advice![
        Nothing "Use more processes" => "CPUs are free, and more of them share the work", if pool_leaves_cpus_free, of Threads;
        Nothing "Make the work of these processes cheaper" => "all of them compute, and the job waits for them", if with_workers;
        Nothing "Select the columns and filter the rows first"
            => "the process that prepares the data then has less to do", if without_workers;
        Nothing "Run more of these processes, or give each more CPUs"
            => "the job waits for as long as they work", if leaves_cpus_free;
    ],
    sharpen: |first, window| {
        let place = window.workers.as_ref().and_then(|workers| workers.place.last());
        if let Some(place) = place.filter(|_| !pool_leaves_cpus_free(window)) {
            first.title = format!("Make it cheaper: {place}");
        }
    },
    special_case: |_| None,
    ..CAUSE
};

/// The job's own processes work, and there is room for more of them.
fn pool_leaves_cpus_free(window: &Features) -> bool {
    with_workers(window) && leaves_cpus_free(window)
}

/// The workers wait for it, not the loop.
const BEHIND_WORKERS: CauseSpec = CauseSpec {
    meaning: "the workers wait for the work of another process",
    advice: advice![
        "Run several of these processes, or one inside each worker"
            => "all workers wait for the same process, so more workers gain nothing";
        "Request several samples at once"
            => "one request then returns many samples";
        Nothing "Profile that process with `py-spy top --pid PID`"
            => "the loop waits for as long as that process works";
    ],
    bound: |_, window| Some(window.without(window.lost_wait())),
    evidence: &[Signal::WaitsForProcess],
    culprits: CAUSE.culprits,
    ..CauseSpec::in_class(Class::Cpu)
};

/// More is lost to a process that the workers ask than to processes that the loop itself asks.
fn behind_workers(window: &Features) -> bool {
    let lost = |chain: &Chain| chain.server().is_some_and(|(_, lost)| lost > chain.lost(Purpose::Process));
    source::is_server(window) && window.chain.as_ref().is_some_and(lost)
}
