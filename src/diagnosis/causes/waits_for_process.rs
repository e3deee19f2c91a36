//! The loop waits for another process: environments, actors, a reward model, a compiler, a program that unpacks a stream.

use super::*;

thresholds! {}

pub(super) const CAUSE: Spec = Spec {
    headline: "another process works while the loop waits",
    brief: "the loop waits for another process",
    meaning: "the loop waits for what another process, which is no data worker, does for it",
    rule: &[
        WAIT_IS_FOLLOWED,
        "there is a process with a pipe, a socket or a lock in common with the loop, and not one that works ahead of it: \
         it rests while the loop works",
    ],
    judge: |case| case.waits_for(Part::Process).then(|| case.of(Cause::WaitsForProcess, 1.0)),
    signals: &[CHAIN, MAIN_WAIT, DEVICE],
    source: "a process that makes batches works while the loop does; one that answers requests works only while it is \
             waited for, so its time adds to each step",
    confirmed: Confirmed::LabelledWorkloads,
    limits: "what several processes ask of one server shows as that server; a loader that is asked for one batch at a \
             time, with nothing in advance, is such a process too",
    advice: advice![
        "Ask for the next answer before the last one is used (send, step, then receive)"
            => "the process then works while the loop and the device do";
        "Run more of these processes, or give each a smaller part, where CPUs are free"
            => "the slowest of them sets the pace";
        "Unpack the data once, or by more threads, where that process only sends a stream (xz, gzip, ffmpeg)"
            => "one thread unpacks at the pace that the loop is held to";
        "Profile that process with `py-spy top --pid`" => "its time is the loop's time";
    ],
    evidence: &[Signal::WaitsForProcess],
    followed: Some(Followed {
        part: Part::Process,
        signal: Signal::WaitsForProcess,
        words: |who| format!("for the work of {who}, another process"),
    }),
    bound: |window| bound_of(window, Part::Process),
    ..Spec::of(Class::Cpu)
};
