//! The data comes from elsewhere, and is waited for.

use super::*;

thresholds! {}

const NEARER: (&str, &str) = ("Copy or cache the data set on a local disk", "each sample waits for a round trip");
const LARGER: (&str, &str) =
    ("Pack samples into shards of 100 MB and more, and stream them", "one request then brings many samples");

const ADVICE: &[(&str, &str)] =
    &[NEARER, ("Raise num_workers or read ahead asynchronously", "more requests in flight hide the latency"), LARGER];

const ASLEEP: &str = "the workers sleep most of their time (a timer, as of time.sleep)";

pub(super) const CAUSE: CauseSpec = CauseSpec {
    headline: "the data comes over the network",
    brief: "data comes over the network",
    meaning: "the batches wait for data that comes from elsewhere",
    rule: &[
        LOOP_LOSES,
        SOURCE_IS_SLOW,
        "the open data files lie on nfs, cifs, lustre, ceph or fuse, or at least `larger_half` of the wait is for a \
         socket",
        "or the loop, which loads the batches itself, waits for an answer over a connection longer than it works for them",
        "less sure: the workers wait for something that is neither a disk nor a socket; still less where they sleep for at \
         least `larger_half` of it",
    ],
    judge: |case| {
        let io = &case.window.io;
        let of = |factor: f64| source::judgement(case, Cause::NetworkStorage, factor);
        if let Some(workers) = case.slow_workers() {
            let of_wait = |part: f64| if workers.io_wait > 0.0 { part / workers.io_wait } else { 0.0 };
            if io.network || of_wait(workers.socket_wait) >= LARGER_HALF {
                return of(1.0);
            }
            if of_wait(workers.disk_wait) < LARGER_HALF {
                if of_wait(workers.sleep) >= LARGER_HALF {
                    let words =
                        "who sleeps may wait for a source, a rate, or a lock that it tries again (as SQLite's)";
                    return of(GUESSED.value).map(|judgement| judgement.meaning(ASLEEP).doubt(words));
                }
                let words =
                    "the workers wait for a source that is no disk and no socket: a pipe, a timer or a service";
                return of(INFERRED.value).map(|judgement| judgement.doubt(words));
            }
        }
        // Threads of the loop's own process that make the batches.
        if source::makers(case.window).is_some_and(|threads| threads.net > threads.disk) {
            return of(1.0);
        }
        // The loop's own thread, which loads them itself.
        if loads_from_elsewhere(case.window) {
            return of(1.0);
        }
        of(INFERRED.value).filter(|_| io.fuse)
    },
    signals: &[WORKER_WAIT, MOUNTS, "/proc/PID/mountstats of NFS mounts", MAIN_WAIT],
    source: "a worker that fetches sleeps in a socket call, one that reads NFS in the page wait of the kernel; the \
             type of the mount below the open files tells them from a local disk",
    confirmed: Confirmed::LabelledWorkloads,
    limits: "a slow pipe, a local service or a sleep in the data set look like it; a remote volume that shows up as \
             a block device (EBS, iSCSI) counts as a disk",
    advice: ADVICE,
    against: &[WAIT_FOR_SOURCE],
    place: CulpritPlace::Workers,
    instead: |window| {
        if sleep_most(window) {
            return Some(Instead { place: CulpritPlace::Workers, meaning: ASLEEP, advice: OF_SLEEPERS });
        }
        if source::makers(window).is_some() {
            let meaning = "threads of its own process wait for data that comes from elsewhere";
            return Some(Instead { place: CulpritPlace::Nowhere, meaning, advice: ADVICE });
        }
        let meaning = "the loop's own thread fetches the batches, and waits for data that comes from elsewhere";
        loads_from_elsewhere(window).then_some(Instead { place: CulpritPlace::Loop, meaning, advice: OF_THE_LOOP })
    },
    ..CauseSpec::of(Class::Io)
};

const OF_THE_LOOP: &[(&str, &str)] = &[
    (
        "Fetch ahead of the loop: in the workers of a DataLoader (num_workers), or in threads",
        "the loop waits for each answer, and nothing is asked for meanwhile",
    ),
    NEARER,
    LARGER,
];

/// What the loop waits for while it loads is an answer over a connection, rather than a disk.
fn loads_from_elsewhere(window: &Features) -> bool {
    let itself = window.workers.is_none() && source::makers(window).is_none();
    let main = window.main.as_ref().filter(|_| itself);
    main.is_some_and(|main| source::from_elsewhere(window) > main.disk().max(HARDLY.value))
}

const OF_SLEEPERS: &[(&str, &str)] = advice![
    "Raise num_workers or read ahead asynchronously" => "more of them then sleep at the same time";
    "Find what they sleep for: a source that answers late, a rate limit, a lock that is tried again"
        => "a lock or a limit does not get faster by more workers";
    "Copy or cache the data set on a local disk, where it is a source" => "each sample waits for it";
];

/// The workers' waits for their source are sleeps, rather than waits for a disk or a socket.
fn sleep_most(window: &Features) -> bool {
    let half = |workers: &Workers| LARGER_HALF.value * workers.io_wait;
    let others = |workers: &Workers| workers.socket_wait >= half(workers) || workers.disk_wait >= half(workers);
    window
        .workers
        .as_ref()
        .is_some_and(|workers| workers.io_wait > 0.0 && workers.sleep >= half(workers) && !others(workers))
        && !window.io.network
}
