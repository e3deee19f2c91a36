//! What to tell a person about each cause: a headline and the first things to do. One table; the rules give the cause,
//! this gives the words.

use super::verdict::Class;

/// Words for one cause.
#[derive(Debug, Clone, Copy)]
pub struct Cause {
    /// Class it belongs to.
    pub class: Class,
    /// The taxonomy's string.
    pub name: &'static str,
    /// What it means, for a sentence: "… because <meaning>".
    pub meaning: &'static str,
    /// What to do, first thing first: (title, why).
    pub advice: &'static [(&'static str, &'static str)],
}

/// All causes that the rules can give.
pub const ALL: &[Cause] = &[
    Cause {
        class: Class::DataLoader,
        name: "in-process-loading",
        meaning: "the main thread makes the batches itself (num_workers=0)",
        advice: &[
            ("Set num_workers to at least 1 in the DataLoader", "loading then overlaps the training step"),
            ("Use persistent_workers=True", "workers then live on over the epochs"),
        ],
    },
    Cause {
        class: Class::DataLoader,
        name: "too-few-workers",
        meaning: "the workers are busy all the time and allowed CPUs are free",
        advice: &[
            ("Raise num_workers", "each worker is busy and there are free CPUs"),
            (
                "Make the transforms cheaper: crop before decoding, reorder, drop what is not needed",
                "less work per batch needs fewer workers",
            ),
        ],
    },
    Cause {
        class: Class::DataLoader,
        name: "worker-imbalance",
        meaning: "one worker works while the others wait for it (batches are taken in order)",
        advice: &[
            (
                "Even out the shards or the sample cost between workers",
                "the loop takes batches in turn, so the slowest worker sets the pace",
            ),
            (
                "Set in_order=False if the order of batches does not matter",
                "a slow worker then holds up only its own batches",
            ),
        ],
    },
    Cause {
        class: Class::DataLoader,
        name: "slow-samples",
        meaning: "a few batches take many times as long as the others",
        advice: &[
            ("Find the slow samples and preprocess them once", "the queue runs empty at each of them"),
            ("Raise prefetch_factor", "a longer queue bridges a slow batch"),
        ],
    },
    Cause {
        class: Class::DataLoader,
        name: "worker-restart",
        meaning: "the set of workers is started anew again and again",
        advice: &[("Set persistent_workers=True", "the workers then survive the end of an epoch")],
    },
    Cause {
        class: Class::DataLoader,
        name: "too-many-workers",
        meaning: "there are more workers than CPUs and they queue for them",
        advice: &[
            ("Lower num_workers to the number of allowed CPUs", "more workers than CPUs only wait for one another"),
            ("Make the transforms cheaper or move them to the GPU", "the CPUs are full: only less work helps"),
        ],
    },
    Cause {
        class: Class::DataLoader,
        name: "hand-over",
        meaning: "batches are made but moving them to the main thread is slow",
        advice: &[
            (
                "Send smaller batches: collate to fewer, smaller tensors (uint8 instead of float32)",
                "the hand-over copies and maps every tensor",
            ),
            ("Look at the collate function and the pin-memory thread", "they run between the workers and the loop"),
        ],
    },
    Cause {
        class: Class::Io,
        name: "disk-bandwidth",
        meaning: "the workers wait for the disk",
        advice: &[
            (
                "Copy the data set to a faster local disk (NVMe instance store) before training",
                "the disk is what the workers wait for",
            ),
            ("Store the data smaller: compressed, cropped or resized once", "fewer bytes per sample"),
        ],
    },
    Cause {
        class: Class::Io,
        name: "small-files",
        meaning: "many small reads keep the workers waiting",
        advice: &[
            (
                "Pack the samples into large files (tar shards, LMDB, Parquet)",
                "one large read replaces many small ones",
            ),
            ("Raise num_workers", "more reads are then in flight at once"),
        ],
    },
    Cause {
        class: Class::Io,
        name: "network-storage",
        meaning: "the workers wait for data that comes from elsewhere",
        advice: &[
            ("Copy or cache the data set on a local disk", "each sample waits for a round trip"),
            ("Raise num_workers or read ahead asynchronously", "more requests in flight hide the latency"),
        ],
    },
    Cause {
        class: Class::Io,
        name: "page-cache-miss",
        meaning: "the data does not fit in memory and is read from disk again and again",
        advice: &[
            ("Raise the memory limit, or shrink the data set on disk", "pages are evicted and read again"),
            (
                "Read each shard through before the next instead of at random",
                "what was just read is then still in memory",
            ),
        ],
    },
    Cause {
        class: Class::Io,
        name: "memory-pressure",
        meaning: "memory is short: the kernel swaps or reclaims",
        advice: &[(
            "Lower num_workers or prefetch_factor, or use a machine with more memory",
            "each worker keeps batches in memory",
        )],
    },
    Cause {
        class: Class::Io,
        name: "io-throttled",
        meaning: "a limit on the job holds its reads back while the disk has room",
        advice: &[
            ("Raise the I/O limit of the job's cgroup or volume", "the reads run at the limit"),
            ("Copy the data set to a disk without such a limit", "the limit counts per device"),
        ],
    },
    Cause {
        class: Class::Io,
        name: "checkpoint-write",
        meaning: "the loop stands while it saves state",
        advice: &[
            (
                "Save less often, or asynchronously (torch.distributed.checkpoint.async_save)",
                "the device idles while state is written",
            ),
            ("Save to a faster disk", "the write itself takes the time"),
        ],
    },
    Cause {
        class: Class::Cpu,
        name: "cores-saturated",
        meaning: "the allowed CPUs are full with the job's own work",
        advice: &[
            ("Make the transforms cheaper or move them to the GPU", "more workers cannot help: no CPU is free"),
            ("Use a machine with more CPUs per GPU", "the work is more than these CPUs can do"),
        ],
    },
    Cause {
        class: Class::Cpu,
        name: "main-thread",
        meaning: "Python work in the training loop keeps the device waiting",
        advice: &[
            (
                "Do metrics and logging every N steps only, and on the device",
                "the device idles while the main thread runs Python",
            ),
            ("Profile the loop with `py-spy top --pid`", "it names the lines"),
        ],
    },
    Cause {
        class: Class::Cpu,
        name: "launch-bound",
        meaning: "the host cannot launch the many small kernels fast enough",
        advice: &[
            ("Use torch.compile or CUDA graphs", "they launch many kernels at once"),
            ("Raise the batch size", "fewer, larger kernels"),
        ],
    },
    Cause {
        class: Class::Cpu,
        name: "thread-oversubscription",
        meaning: "many more threads want to run than there are CPUs",
        advice: &[
            ("Set OMP_NUM_THREADS=1 and cv2.setNumThreads(0) in the workers", "each worker starts a thread per CPU"),
            ("Call torch.set_num_threads(1) in worker_init_fn", "the same for torch's own threads"),
        ],
    },
    Cause {
        class: Class::Cpu,
        name: "cgroup-throttled",
        meaning: "the container's CPU quota is used up and the kernel pauses the job",
        advice: &[
            (
                "Raise the CPU limit of the container (cpu.max, --cpus, resources.limits.cpu)",
                "the job wants more CPU time than its quota",
            ),
            ("Lower num_workers and thread counts to the quota", "the same work is then paused less often"),
        ],
    },
    Cause {
        class: Class::Cpu,
        name: "noisy-neighbour",
        meaning: "other processes use the CPUs that the job needs",
        advice: &[(
            "Stop or move the other processes, or pin them to other CPUs",
            "they hold the cores that the job waits for",
        )],
    },
    Cause {
        class: Class::Cpu,
        name: "cpu-training",
        meaning: "the model itself runs on the CPU: no device is in use",
        advice: &[(
            "Move model and batches to the GPU (.to(\"cuda\")), or check torch.cuda.is_available()",
            "the steps are computed on the CPU",
        )],
    },
    Cause {
        class: Class::Cpu,
        name: "host-device-sync",
        meaning: "the host waits for the device over and over, and the device runs dry in between",
        advice: &[
            (
                "Remove .item(), .cpu(), nonzero() and printing of tensors from the step",
                "each of them waits for the device",
            ),
            ("Read the loss every N steps only", "the host can then run ahead"),
        ],
    },
    Cause {
        class: Class::Gpu,
        name: "host-device-sync",
        meaning: "the host waits for the device over and over",
        advice: &[("Remove .item(), .cpu() and nonzero() from the step", "each of them waits for the device")],
    },
    Cause {
        class: Class::Gpu,
        name: "compute-bound",
        meaning: "the device computes all the time: healthy",
        advice: &[
            (
                "Use mixed precision (torch.autocast) and torch.compile",
                "the device is busy: only cheaper or fused work helps",
            ),
            ("Use a faster or a second GPU", "nothing on the host holds it back"),
        ],
    },
    Cause {
        class: Class::Gpu,
        name: "memory-bandwidth",
        meaning: "the device's memory is the limit",
        advice: &[(
            "Fuse elementwise operations (torch.compile), use bf16 and channels_last",
            "fewer bytes per step",
        )],
    },
    Cause {
        class: Class::Gpu,
        name: "under-filled",
        meaning: "the device is busy but draws little power: its kernels do not fill it",
        advice: &[
            ("Raise the batch size as far as memory and accuracy allow", "larger kernels fill the device"),
            ("Use torch.compile or CUDA graphs", "fewer, larger kernels"),
        ],
    },
    Cause {
        class: Class::Gpu,
        name: "copy-bound",
        meaning: "copies over PCIe keep the device busy",
        advice: &[(
            "Copy less: uint8 batches, augment on the device; pin_memory=True and non_blocking=True",
            "the link is full",
        )],
    },
    Cause {
        class: Class::Gpu,
        name: "throttled",
        meaning: "heat or power makes the device lower its clocks",
        advice: &[(
            "Check cooling and power supply (`nvidia-smi -q -d PERFORMANCE`)",
            "the clocks are held down while it works",
        )],
    },
    Cause {
        class: Class::Gpu,
        name: "shared-gpu",
        meaning: "another process uses the same device",
        advice: &[("Move one of the jobs to another GPU", "they take turns on the device")],
    },
];

/// The words of a cause.
#[must_use]
pub fn find(class: Class, name: &str) -> Option<&'static Cause> {
    ALL.iter()
        .find(|cause| cause.class == class && cause.name == name)
        .or_else(|| ALL.iter().find(|cause| cause.name == name))
}
