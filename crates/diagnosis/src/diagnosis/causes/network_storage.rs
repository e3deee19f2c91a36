//! The batches wait for data that comes from a server, a network mount, or another source that is no local disk.

use super::*;

const NEARER: AdviceRow =
    AdviceRow::new("Copy or cache the dataset on a local disk", "each sample waits for a round trip");
const LARGER: AdviceRow = AdviceRow::new(
    "Pack samples into shards of 100 MB or more, and stream them",
    "one request then fetches many samples",
);

pub(super) const CAUSE: CauseSpec = CauseSpec {
    headline: "slow data source",
    brief: "the data source is slow: a server, a mount or a pipe",
    meaning: "the batches wait for data that comes over the network",
    rule: &[
        LOOP_LOSES,
        SOURCE_IS_SLOW,
        "the open data files are on nfs, cifs, lustre, ceph or fuse, or at least `larger_half` of the wait is for \
         a socket",
        "or the loop loads its batches itself, and waits for an answer over a connection longer than it works on \
         them",
        "less certain: the workers wait for something that is neither a disk nor a socket; even less if they sleep \
         for at least `larger_half` of it",
    ],
    judge: |case| {
        let io = &case.window.io;
        let found = |factor: f64| source::judgment(case, Cause::NetworkStorage, factor);
        match case.slow_workers() {
            Some(workers) if io.network || workers.waits_mostly(workers.socket_wait) => found(1.0),
            Some(_) if sleep_most(case.window) => {
                let words =
                    "workers that sleep may wait for a source, a rate limit, or a lock that they retry (SQLite)";
                Some(found(GUESSED.value)?.doubt(words))
            }
            Some(workers) if !workers.waits_mostly(workers.disk_wait) => {
                let words =
                    "the wait is neither for a disk nor for a socket: it may be for a pipe, a timer or a service";
                Some(found(INFERRED.value)?.meaning("the workers wait for a source that is no disk").doubt(words))
            }
            // Threads of the loop's process make the batches, or its thread loads them.
            _ if source::makers(case.window).is_some_and(|threads| threads.net > threads.disk)
                || loads_from_elsewhere(case.window) =>
            {
                found(1.0)
            }
            _ if io.fuse => found(INFERRED.value),
            _ => None,
        }
    },
    signals: &[WORKER_WAIT, MOUNTS, "/proc/PID/mountstats of NFS mounts", MAIN_WAIT],
    source: "a worker that fetches sleeps in a socket call, and one that reads NFS in the kernel's page wait; the \
        mount type of the open files tells them from a local disk",
    limits: "a slow pipe, a local service or a sleep in the dataset looks the same. A remote volume that appears \
        as a block device (EBS, iSCSI) counts as a disk",
    advice: &[
        NEARER,
        AdviceRow::new("Raise num_workers, or read ahead asynchronously", "more requests in flight hide the latency")
            .promising(Promise::Tuning),
        LARGER,
    ],
    against: &[WAIT_FOR_SOURCE],
    place: CulpritPlace::Workers,
    special_case: |window| {
        if sleep_most(window) {
            return Some(&OF_SLEEPERS);
        }
        let here = served_here(window);
        if source::makers(window).is_some() {
            return Some(if here { &OF_THREADS_HERE } else { &OF_THREADS });
        }
        if loads_from_elsewhere(window) {
            return Some(if here { &OF_THE_LOOP_HERE } else { &OF_THE_LOOP });
        }
        here.then_some(&HERE)
    },
    culprits: &[culprits::network_mounts, culprits::addresses],
    ..CauseSpec::in_class(Class::Io)
};

/// The server is on this machine.
const HERE: CauseSpec = CauseSpec { meaning: "the batches wait for a server on this machine", ..CAUSE };

/// Threads of the loop's process make the batches.
const OF_THREADS: CauseSpec = CauseSpec {
    place: CulpritPlace::Nowhere,
    meaning: "threads of the loop's process wait for data that comes over the network",
    ..CAUSE
};

/// The same from a server on this machine.
const OF_THREADS_HERE: CauseSpec =
    CauseSpec { meaning: "threads of the loop's process wait for a server on this machine", ..OF_THREADS };

/// The loop's thread fetches them.
const OF_THE_LOOP: CauseSpec = CauseSpec {
    place: CulpritPlace::Loop,
    meaning: "the loop fetches its batches itself, and waits for each answer from the network",
    advice: &[
        AdviceRow::new(
            "Fetch ahead of the loop, in DataLoader workers or threads",
            "the loop waits for each answer, and nothing is requested meanwhile",
        )
        .promising(Promise::Tuning),
        NEARER,
        LARGER,
    ],
    ..CAUSE
};

/// The same from a server on this machine.
const OF_THE_LOOP_HERE: CauseSpec = CauseSpec {
    meaning: "the loop fetches its batches itself, and waits for each answer of a server on this machine",
    ..OF_THE_LOOP
};

/// The loop loads its batches itself, and waits longer for answers over a connection than for a disk.
fn loads_from_elsewhere(window: &Features) -> bool {
    let itself = window.workers.is_none() && source::makers(window).is_none();
    let main = if itself { window.main.as_ref() } else { None };
    main.is_some_and(|main| source::from_elsewhere(window) > main.disk().max(HARDLY.value))
}

/// The workers sleep most of the time.
const OF_SLEEPERS: CauseSpec = CauseSpec {
    meaning: "the workers sleep most of the time, on a timer such as time.sleep",
    advice: advice![
        Tuning "Raise num_workers, or read ahead asynchronously"
            => "more workers then sleep at the same time";
        Nothing "Find out what the workers sleep for"
            => "it may be a slow source, a rate limit, or a lock that is retried; more workers do not speed up a \
                lock or a limit";
        "Copy or cache the dataset on a local disk, if it is a source"
            => "each sample waits for it";
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
