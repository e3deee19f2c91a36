//! The data comes from elsewhere, and is waited for.

use super::*;

const NEARER: (&str, &str) = ("Copy or cache the data set on a local disk", "each sample waits for a round trip");
const LARGER: (&str, &str) =
    ("Pack samples into shards of 100 MB and more, and stream them", "one request then brings many samples");

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
        let found = |factor: f64| source::judgement(case, Cause::NetworkStorage, factor);
        match case.slow_workers() {
            Some(workers) if io.network || workers.waits_mostly(workers.socket_wait) => found(1.0),
            Some(_) if sleep_most(case.window) => {
                let words = "who sleeps may wait for a source, a rate, or a lock that it tries again (as SQLite's)";
                Some(found(GUESSED.value)?.doubt(words))
            }
            Some(workers) if !workers.waits_mostly(workers.disk_wait) => {
                let words =
                    "the workers wait for a source that is no disk and no socket: a pipe, a timer or a service";
                Some(found(INFERRED.value)?.doubt(words))
            }
            // Threads of the loop's own process that make the batches, or its own thread, which loads them itself.
            _ if source::makers(case.window).is_some_and(|threads| threads.net > threads.disk)
                || loads_from_elsewhere(case.window) =>
            {
                found(1.0)
            }
            _ => found(INFERRED.value).filter(|_| io.fuse),
        }
    },
    signals: &[WORKER_WAIT, MOUNTS, "/proc/PID/mountstats of NFS mounts", MAIN_WAIT],
    source: "a worker that fetches sleeps in a socket call, one that reads NFS in the page wait of the kernel; the \
             type of the mount below the open files tells them from a local disk",
    limits: "a slow pipe, a local service or a sleep in the data set look like it; a remote volume that shows up as \
             a block device (EBS, iSCSI) counts as a disk",
    advice: &[
        NEARER,
        ("Raise num_workers or read ahead asynchronously", "more requests in flight hide the latency"),
        LARGER,
    ],
    against: &[WAIT_FOR_SOURCE],
    place: CulpritPlace::Workers,
    special_case: |window| {
        if sleep_most(window) {
            return Some(&OF_SLEEPERS);
        }
        if source::makers(window).is_some() {
            return Some(&OF_THREADS);
        }
        loads_from_elsewhere(window).then_some(&OF_THE_LOOP)
    },
    culprits: &[culprits::network_mounts, culprits::addresses],
    ..CauseSpec::in_class(Class::Io)
};

/// Threads of the loop's own process make the batches.
const OF_THREADS: CauseSpec = CauseSpec {
    place: CulpritPlace::Nowhere,
    meaning: "threads of its own process wait for data that comes from elsewhere",
    ..CAUSE
};

/// The loop's own thread makes them.
const OF_THE_LOOP: CauseSpec = CauseSpec {
    place: CulpritPlace::Loop,
    meaning: "the loop's own thread fetches the batches, and waits for data that comes from elsewhere",
    advice: &[
        (
            "Fetch ahead of the loop: in the workers of a DataLoader (num_workers), or in threads",
            "the loop waits for each answer, and nothing is asked for meanwhile",
        ),
        NEARER,
        LARGER,
    ],
    ..CAUSE
};

/// The loop loads its batches itself, and waits more for answers over a connection than for a disk.
fn loads_from_elsewhere(window: &Features) -> bool {
    let itself = window.workers.is_none() && source::makers(window).is_none();
    let main = window.main.as_ref().filter(|_| itself);
    main.is_some_and(|main| source::from_elsewhere(window) > main.disk().max(HARDLY.value))
}

/// The workers sleep.
const OF_SLEEPERS: CauseSpec = CauseSpec {
    meaning: "the workers sleep most of their time (a timer, as of time.sleep)",
    advice: advice![
        "Raise num_workers or read ahead asynchronously" => "more of them then sleep at the same time";
        "Find what they sleep for: a source that answers late, a rate limit, a lock that is tried again"
            => "a lock or a limit does not get faster by more workers";
        "Copy or cache the data set on a local disk, where it is a source" => "each sample waits for it";
    ],
    ..CAUSE
};

/// The workers' waits for their source are mostly sleeps, not waits for a disk or a socket.
fn sleep_most(window: &Features) -> bool {
    let sleep = |workers: &&Workers| {
        let elsewhere = workers.waits_mostly(workers.socket_wait) || workers.waits_mostly(workers.disk_wait);
        workers.waits_mostly(workers.sleep) && !elsewhere
    };
    !window.io.network && window.workers.as_ref().filter(sleep).is_some()
}

impl Workers {
    /// This is the larger part of their waits for their source.
    fn waits_mostly(&self, wait: f64) -> bool {
        self.io_wait > 0.0 && wait >= LARGER_HALF.value * self.io_wait
    }
}
