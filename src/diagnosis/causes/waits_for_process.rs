//! The loop waits for another process: environments, actors, a reward model, a compiler, a program that unpacks a stream. Or its
//! data workers do: a server of features, a manager's process.

use super::*;

pub(super) const CAUSE: CauseSpec = CauseSpec {
    headline: "another process works while the loop waits",
    brief: "the loop waits for another process",
    meaning: "the loop waits for what another process, which is no data worker, does for it",
    rule: &[
        WAIT_IS_FOLLOWED,
        "there is a process with a pipe, a socket or a lock in common with the loop, and not one that works ahead of it: \
         it rests while the loop works",
        "or the loop sleeps and looks again, and a process of the job works only meanwhile; less surely, one that never rests",
        "or the loop loses at least `lost_wait` of its time waiting for batches, waiting for their source is at least `workers_io` \
         of the workers' active time, and at least `larger_half` of the waits end at such a process, which computes",
    ],
    judge: |case| {
        let of_loop = case.waits_for(PathPart::Process).then(|| case.found(Cause::WaitsForProcess, 1.0));
        of_loop.or_else(|| source::by_server(case))
    },
    signals: &[CHAIN, MAIN_WAIT, DEVICE],
    source: "a process that makes batches works while the loop does; one that answers requests works only while it is \
             waited for, so its time adds to each step",
    limits: "what several processes ask of one server shows as that server; a loader that is asked for one batch at a \
             time, with nothing in advance, is such a process too",
    advice: advice![
        "Ask for the next answer before the last one is used (send, step, then receive)"
            => "the process then works while the loop and the device do; its answer is a step older then";
        "Run more of these processes, or give each a smaller part, where CPUs are free"
            => "the slowest of them sets the pace";
        "Where that process only sends a stream (xz, gzip, ffmpeg): unpack the data once, or by more threads"
            => "one thread unpacks at the pace that the loop is held to";
        "Profile that process with `py-spy top --pid`" => "its time is the loop's time";
    ],
    followed: Some(FollowedWait {
        part: PathPart::Process,
        signal: Signal::WaitsForProcess,
        words: |who| format!("for the work of {who}, another process"),
    }),
    sharpen,
    special_case: |window| behind_workers(window).then_some(&BEHIND_WORKERS),
    culprits: &[culprits::processes],
    ..CauseSpec::in_class(Class::Cpu)
};

/// If both work at the same time, the slower of the two sets the pace.
fn sharpen(first: &mut Advice, window: &Features) {
    let waits = window.chain.as_ref().map_or(0.0, |chain| chain.share(PathPart::Process));
    first.limit(1.0 / waits.max(1.0 - waits));
}

/// The data workers wait for it, not the loop.
const BEHIND_WORKERS: CauseSpec = CauseSpec {
    meaning: "its data workers wait for the work of another process",
    advice: advice![
        "Give each worker its own copy of what that process does or holds, or run several of them"
            => "all workers wait for the one: more workers bring nothing";
        "Ask for several samples at once" => "one request then brings many";
        "Profile that process with `py-spy top --pid`" => "its time is the loop's time";
    ],
    bound: |_, window| Some(window.without(window.lost_wait())),
    evidence: &[Signal::WaitsForProcess],
    culprits: CAUSE.culprits,
    ..CauseSpec::in_class(Class::Cpu)
};

/// More is lost to a process that the workers ask than to processes that the loop asks itself.
fn behind_workers(window: &Features) -> bool {
    let lost = |chain: &Chain| chain.server().is_some_and(|(_, lost)| lost > chain.lost(PathPart::Process));
    source::server(window).is_some() && window.chain.as_ref().is_some_and(lost)
}
