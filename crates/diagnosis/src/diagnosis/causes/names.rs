//! How people ask for a cause: by its name, its class, the words of a verdict, or what others call it.

use super::{CauseSpec, all, states};
use crate::diagnosis::class::Class;
use trainmon_base::text::is_one_of;

/// Longest text that is compared with the names, characters.
const LONGEST_SPELLED: usize = 64;

/// What others call a thing, and what it is called here: causes, classes, or `class/cause`.
const OTHER_NAMES: &[(&str, &[&str])] = &[
    (
        "starvation starved gpu-starvation data-starvation input-starvation gpu-idle idle-gpu input-wait input-bound \
         data-wait data-bound waiting-for-data input-pipeline",
        &["data-loader", "io"],
    ),
    ("dataloader loader data-loading dataloading loading batches data", &["data-loader"]),
    (
        "workers num-workers more-workers worker",
        &["too-few-workers", "too-many-workers", "worker-imbalance", "worker-restart"],
    ),
    ("prefetch prefetching prefetch-factor no-workers", &["in-process-loading", "too-few-workers"]),
    ("persistent-workers epoch respawn", &["worker-restart"]),
    ("imbalance skew", &["worker-imbalance", "communication"]),
    ("outliers slow-batches spikes jitter", &["slow-samples"]),
    ("queue ipc pickle serialization transfer shared-memory shm", &["hand-over"]),
    ("collate-fn padding", &["collate"]),
    ("jpeg image-decoding decoding video", &["decode"]),
    ("augmentation augmentations transforms preprocessing tokenization tokenizer", &["transform"]),
    (
        "storage disk ssd nvme hdd read reads slow-disk bandwidth",
        &["disk-bandwidth", "small-files", "page-cache-miss"],
    ),
    ("io-bound i/o iowait", &["io"]),
    ("page-cache cache cold-cache", &["page-cache-miss"]),
    ("nfs s3 network remote object-storage fuse lustre download latency", &["network-storage", "remote-service"]),
    ("http api rpc service server database redis", &["remote-service"]),
    ("iops io-limit blkio", &["io-throttled"]),
    ("checkpoint checkpoints checkpointing saving save torch.save", &["checkpoint-write"]),
    ("swap swapping oom ram out-of-memory memory", &["memory-pressure", "memory-bandwidth"]),
    ("pipe stdout print logging log tee", &["output-blocked", "main-thread"]),
    ("locks mutex flock sqlite deadlock contention", &["lock", "gil-contention", "hung"]),
    ("subprocess process ipc-wait", &["waits-for-process"]),
    ("thread future queue.get", &["waits-for-thread"]),
    ("sleep time.sleep poll polling timer", &["sleeps"]),
    ("quota cfs cpu-limit cgroup docker container kubernetes", &["cgroup-throttled", "io-throttled"]),
    ("noisy-neighbor neighbour neighbor other-processes steal shared-machine", &["noisy-neighbour", "shared-gpu"]),
    ("oversubscription threads omp openmp mkl omp-num-threads", &["thread-oversubscription"]),
    ("cpu-bound cpus cores", &["cpu"]),
    ("cpu-full cpu-saturated saturated", &["cores-saturated"]),
    ("gil python interpreter-lock", &["gil-contention", "main-thread"]),
    ("sync syncs synchronize cuda-sync item .item() .item cudastreamsynchronize device-sync", &["host-device-sync"]),
    ("overhead python-overhead host-bound host", &["main-thread", "launch-bound"]),
    ("launch launches kernel-launch launch-overhead small-kernels cuda-graphs kernels", &["launch-bound"]),
    ("no-gpu cuda cuda-not-available", &["cpu-training"]),
    (
        "nccl allreduce all-reduce collective collectives ddp fsdp straggler distributed ranks rank",
        &["communication"],
    ),
    ("gpu-bound gpu-limited", &["gpu"]),
    ("compute compute-limited", &["compute-bound"]),
    ("memory-bound hbm dram vram", &["memory-bandwidth"]),
    (
        "underutilization underutilized under-utilized utilization occupancy batch-size small-batch low-power",
        &["under-filled"],
    ),
    ("mig mps time-slicing", &["shared-gpu"]),
    ("throttle throttling thermal heat overheating temperature clocks power power-cap power-limit", &["throttled"]),
    ("pcie h2d copy copies pin-memory pinned memcpy host-to-device", &["copy-bound"]),
    ("ok fine good normal", &["balanced"]),
    ("hang hangs stuck freeze frozen", &["hung", "stopped"]),
    ("startup start starting warmup warm-up import imports", &["init", "compile"]),
    ("torch.compile compilation jit", &["compile"]),
    ("eval evaluation val", &["validation"]),
    ("ended exited done crash crashed", &["finished"]),
];

/// A name as it is compared: lower case, with dashes for blanks and underscores.
fn spelled(text: &str) -> String {
    let words: Vec<&str> =
        text.split(|c: char| c.is_whitespace() || "_-,".contains(c)).filter(|word| !word.is_empty()).collect();
    words.join("-").to_lowercase()
}

fn everything() -> impl Iterator<Item = &'static CauseSpec> {
    all().chain(states())
}

/// What a person asks for: `cause`, `class/cause` (a cause may belong to two classes), `class`, which gives all of its causes, the
/// words of a verdict, or what others call it. Case does not matter, and spaces and underscores count as dashes. Empty if there
/// is no such cause or class.
pub fn named(text: &str) -> Vec<&'static CauseSpec> {
    // A verdict reads `GPU · too many GPU syncs`.
    let name = spelled(text.rsplit('·').next().unwrap_or_default());
    let own = own_name(&name);
    if !own.is_empty() {
        return own;
    }
    let known = OTHER_NAMES.iter().find(|(others, _)| is_one_of(others, &name));
    known.iter().flat_map(|(_, names)| names.iter().flat_map(|name| own_name(name))).collect()
}

/// What is called this, by trainmon itself.
fn own_name(name: &str) -> Vec<&'static CauseSpec> {
    let found = |is: &dyn Fn(&CauseSpec) -> bool| everything().filter(|cause| is(cause)).collect::<Vec<_>>();
    if let Some((class, name)) = name.split_once('/') {
        return found(&|cause| cause.class.word() == class && cause.name == name);
    }
    let ways: [&dyn Fn(&CauseSpec) -> bool; 4] = [
        &|cause| cause.class.word() == name,
        &|cause| cause.name == name,
        &|cause| spelled(cause.headline) == name,
        &|cause| spelled(cause.class.title()) == name,
    ];
    ways.into_iter().map(found).find(|found| !found.is_empty()).unwrap_or_default()
}

/// At most four names and classes that look like `text`, the most similar first.
pub fn near(text: &str) -> Vec<&'static str> {
    let spelled: String = spelled(text).chars().take(LONGEST_SPELLED).collect();
    let name = spelled.rsplit('/').next().unwrap_or_default();
    let mut found: Vec<(usize, &'static str)> = Class::ALL
        .iter()
        .map(|class| class.word())
        .chain(everything().map(|cause| cause.name))
        .filter_map(|known| {
            let part = name.len() >= 3 && (known.contains(name) || name.contains(known));
            let apart = strsim::damerau_levenshtein(name, known);
            (part || apart <= known.len() / 3).then_some((if part { apart.min(2) } else { apart }, known))
        })
        .collect();
    found.sort_unstable();
    found.dedup_by_key(|(_, known)| *known);
    found.truncate(4);
    found.into_iter().map(|(_, known)| known).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn names(text: &str) -> Vec<&'static str> {
        named(text).into_iter().map(|cause| cause.name).collect()
    }

    #[test]
    fn a_name_may_be_several_words_and_those_of_a_verdict() {
        for text in ["too-few-workers", "Too few  workers", "TOO_FEW_WORKERS", "DATA LOADER · too few workers"] {
            assert_eq!(names(text), ["too-few-workers"], "{text}");
        }
        assert_eq!(names("CPU · the loop's own work"), ["main-thread"]);
        assert_eq!(names("HEALTHY"), ["balanced"]);
        assert_eq!(names("data loader"), names("data-loader"));
        assert_eq!(names("coffee"), [] as [&str; 0]);
    }

    #[test]
    fn what_others_call_it_is_found_and_hides_no_name_of_trainmons() {
        let mut seen = BTreeSet::new();
        for (others, names) in OTHER_NAMES {
            for other in others.split(' ').filter(|other| !other.is_empty()) {
                assert!(seen.insert(other), "{other} is listed twice");
                assert!(own_name(other).is_empty(), "{other} is a name");
                assert_eq!(spelled(other), other);
                assert!(!named(other).is_empty());
            }
            names.iter().for_each(|name| assert!(!own_name(name).is_empty(), "{name}"));
        }
        assert!(names("starvation").starts_with(&["lock", "too-many-workers"]), "{:?}", names("starvation"));
        assert_eq!(names("NCCL"), ["communication"]);
    }

    #[test]
    fn letters_that_change_places_are_one_slip() {
        assert_eq!(near("lcok"), ["lock"]);
    }
}
