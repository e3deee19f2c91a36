//! Causes in storage and memory: data does not arrive, or state is not saved, fast enough.

use super::signals::{
    CPUS, DEVICE, DISKS, IO_LIMITS, MAIN_STACKS, MAIN_WAIT, MEMORY, MOUNTS, READS, REFAULTS, WORKER_TIME, WORKER_WAIT,
};
use super::{Cause, Confirmed};
use crate::diagnosis::thresholds as limit;
use crate::diagnosis::verdict::Class;

/// What nearly every rule of this class begins with.
const LOST: &str = "the loop loses at least `lost_wait` of its time waiting for batches while the device is idle";
/// The workers, or the main thread where there are none, wait for their source.
const SOURCE: &str = "waiting for their source is at least `workers_io` of the workers' active time; without workers, \
    the main thread waits for a disk more than it runs";

pub(super) const CAUSES: &[Cause] = &[
    Cause {
        class: Class::Io,
        name: "disk-bandwidth",
        headline: "the disk is at its limit",
        meaning: "the workers wait for the disk",
        rule: &[
            LOST,
            SOURCE,
            "most of that wait is for a local disk, with reads of `small_read` and more",
            "surer where the disk is in use `disk_busy`",
            "no limit, no re-reading of evicted pages and no network file system explains it",
        ],
        thresholds: &[&limit::LOST_WAIT, &limit::WORKERS_IO, &limit::SMALL_READ, &limit::DISK_BUSY],
        signals: &[WORKER_WAIT, DISKS, READS, MOUNTS, MAIN_WAIT],
        source: "kernel Documentation/admin-guide/iostats.rst; a thread that reads what is not in memory sleeps in \
                 folio_wait_bit_common, state D (measured on Linux 6.18)",
        confirmed: Confirmed::LabelledWorkloads,
        limits: "use of an SSD in percent says little about what it has left; the disk may also be busy for another \
                 job; the first epoch reads cold by nature",
        advice: &[
            (
                "Copy the data set to a faster local disk (NVMe instance store) before training",
                "the disk is what the workers wait for",
            ),
            ("Store the data smaller: compressed, cropped or resized once", "fewer bytes per sample"),
            (
                "Raise num_workers or prefetch_factor while the disk is not fully used",
                "more reads in flight give an SSD more to do at once",
            ),
        ],
    },
    Cause {
        class: Class::Io,
        name: "small-files",
        headline: "many small reads",
        meaning: "many small reads keep the workers waiting",
        rule: &[LOST, SOURCE, "the wait is for a local disk, and the mean read is smaller than `small_read`"],
        thresholds: &[&limit::LOST_WAIT, &limit::WORKERS_IO, &limit::SMALL_READ],
        signals: &[WORKER_WAIT, DISKS, READS, MAIN_WAIT],
        source: "/proc/diskstats gives reads and sectors; below half of the kernel's read-ahead window (128 KiB) the \
                 latency of each read, not the bandwidth, sets the pace",
        confirmed: Confirmed::LabelledWorkloads,
        limits: "random access to one large file (mmap, Arrow, LMDB) reads small pieces too; opening and stat calls \
                 do not count as reads",
        advice: &[
            (
                "Pack the samples into large files (tar shards, LMDB, Parquet)",
                "one large read replaces many small ones",
            ),
            ("Raise num_workers", "more reads are then in flight at once"),
            (
                "Read shards in sequence with a shuffle buffer instead of single samples at random",
                "read-ahead works only on sequential reads",
            ),
        ],
    },
    Cause {
        class: Class::Io,
        name: "network-storage",
        headline: "the data comes over the network",
        meaning: "the workers wait for data that comes from elsewhere",
        rule: &[
            LOST,
            SOURCE,
            "the open data files lie on nfs, cifs, lustre, ceph or fuse, or at least half of the wait is for a socket",
            "less sure: the workers wait for something that is neither a disk nor a socket",
        ],
        thresholds: &[&limit::LOST_WAIT, &limit::WORKERS_IO],
        signals: &[WORKER_WAIT, MOUNTS, "/proc/PID/mountstats of NFS mounts", MAIN_WAIT],
        source: "a worker that fetches sleeps in a socket call, one that reads NFS in the page wait of the kernel; \
                 the type of the mount below the open files tells them from a local disk",
        confirmed: Confirmed::LabelledWorkloads,
        limits: "a slow pipe, a local service or a sleep in the data set look like it; a remote volume that shows up \
                 as a block device (EBS, iSCSI) counts as a disk",
        advice: &[
            ("Copy or cache the data set on a local disk", "each sample waits for a round trip"),
            ("Raise num_workers or read ahead asynchronously", "more requests in flight hide the latency"),
            ("Pack samples into shards of 100 MB and more, and stream them", "one request then brings many samples"),
        ],
    },
    Cause {
        class: Class::Io,
        name: "page-cache-miss",
        headline: "the data does not fit into memory",
        meaning: "the data does not fit in memory and is read from disk again and again",
        rule: &[LOST, SOURCE, "of the bytes read, at least `refault` had been in the page cache before"],
        thresholds: &[&limit::LOST_WAIT, &limit::WORKERS_IO, &limit::REFAULT],
        signals: &[REFAULTS, READS, WORKER_WAIT, DISKS],
        source: "mm/workingset.c: workingset_refault_file counts pages that were evicted and are needed again; a cold \
                 first epoch reads as much, but without refaults",
        confirmed: Confirmed::LabelledWorkloads,
        limits: "outside a control group the counter is the whole machine's; reads past the page cache (O_DIRECT) \
                 never refault and are called disk-bandwidth",
        advice: &[
            ("Raise the memory limit, or shrink the data set on disk", "pages are evicted and read again"),
            (
                "Read each shard through before the next instead of at random",
                "what was just read is then still in memory",
            ),
            (
                "Lower num_workers or prefetch_factor if the workers are large",
                "their memory and the page cache share one limit",
            ),
        ],
    },
    Cause {
        class: Class::Io,
        name: "memory-pressure",
        headline: "memory is short",
        meaning: "memory is short: the kernel swaps or reclaims",
        rule: &[
            LOST,
            "some task waits for memory at least `memory_pressure` of the time, or at least `swap_in` are swapped in",
        ],
        thresholds: &[&limit::LOST_WAIT, &limit::MEMORY_PRESSURE, &limit::SWAP_IN],
        signals: &[MEMORY, MAIN_WAIT, WORKER_TIME],
        source: "kernel Documentation/accounting/psi.rst: `some` is the share of time in which a task waits for memory",
        confirmed: Confirmed::LabelledWorkloads,
        limits: "the numbers are the machine's: another job may be the one that is short of memory",
        advice: &[
            (
                "Lower num_workers or prefetch_factor, or use a machine with more memory",
                "each worker keeps batches in memory",
            ),
            (
                "Hold sample lists as numpy arrays or tensors, not as Python lists or dicts",
                "reference counts make every forked worker copy the pages of Python objects",
            ),
        ],
    },
    Cause {
        class: Class::Io,
        name: "io-throttled",
        headline: "a limit holds reads back",
        meaning: "a limit on the job holds its reads back while the disk has room",
        rule: &[LOST, SOURCE, "the job's control group has a read limit, and most of it is used"],
        thresholds: &[&limit::LOST_WAIT, &limit::WORKERS_IO],
        signals: &[IO_LIMITS, READS, WORKER_WAIT, DISKS],
        source: "kernel Documentation/admin-guide/cgroup-v2.rst, io.max: reads beyond it are delayed",
        confirmed: Confirmed::LabelledWorkloads,
        limits: "limits outside the machine (a cloud volume's IOPS or bandwidth) cannot be seen and are called \
                 disk-bandwidth or small-files",
        advice: &[
            ("Raise the I/O limit of the job's cgroup or volume", "the reads run at the limit"),
            ("Copy the data set to a disk without such a limit", "the limit counts per device"),
        ],
    },
    Cause {
        class: Class::Io,
        name: "checkpoint-write",
        headline: "saving checkpoints",
        meaning: "the loop stands while it saves state",
        rule: &[
            "the main thread saves state at least `checkpoint` of its time while the device is idle, and more than it \
             waits for batches",
            "saving is: waiting for a disk to take data, or writing far more than logs and metrics do; with stacks: \
             frames of torch/serialization.py or torch.distributed.checkpoint",
        ],
        thresholds: &[&limit::CHECKPOINT],
        signals: &[MAIN_WAIT, "/proc/PID/task/TID/io of the main thread (wchar)", MAIN_STACKS, DEVICE, CPUS],
        source: "torch.save runs in the calling thread: it copies from the device, pickles and writes",
        confirmed: Confirmed::LabelledWorkloads,
        limits: "saves that come less often than the watch lasts are missed or look large; other large writes of the \
                 main thread count as saving where there are no stacks",
        advice: &[
            (
                "Save less often, or asynchronously (torch.distributed.checkpoint.async_save)",
                "the device idles while state is written",
            ),
            ("Save to a faster disk", "the write itself takes the time"),
            ("Copy the state to host memory and write it in a thread", "the loop then waits for the copy only"),
        ],
    },
];
