//! Plain words for the taxonomy's classes, causes and phases, as the banner and the strip show them.

use jiff::tz::TimeZone;

use super::format::UNMEASURED;
use crate::diagnosis::verdict::{Advice, Class, Phase, Verdict};

/// What each cause means, in a few words. The first of each pair is the exact string of the taxonomy.
const CAUSES: [(&str, &str); 32] = [
    ("in-process-loading", "the main thread loads the batches itself"),
    ("too-few-workers", "all workers busy, CPUs left over"),
    ("decode", "workers mostly decode"),
    ("transform", "workers mostly run transforms"),
    ("collate", "workers mostly collate"),
    ("hand-over", "batches are ready, moving them is slow"),
    ("worker-imbalance", "one worker holds up the others"),
    ("slow-samples", "a few batches take many times longer"),
    ("worker-restart", "workers are rebuilt at each epoch"),
    ("too-many-workers", "more workers than CPUs"),
    ("disk-bandwidth", "the disk is saturated"),
    ("small-files", "many small reads: latency, not bandwidth"),
    ("network-storage", "data comes over the network"),
    ("page-cache-miss", "data set does not fit in memory"),
    ("memory-pressure", "memory is short: swap, reclaim"),
    ("io-throttled", "a limit holds reads back"),
    ("checkpoint-write", "saving state while the GPU idles"),
    ("cores-saturated", "the allowed CPUs are full"),
    ("main-thread", "Python work between launches"),
    ("launch-bound", "many tiny kernels to launch"),
    ("thread-oversubscription", "far more threads than CPUs"),
    ("cgroup-throttled", "the container's CPU quota is used up"),
    ("noisy-neighbour", "other processes hold the CPUs"),
    ("cpu-training", "the model runs on the CPU"),
    ("compute-bound", "busy and healthy"),
    ("memory-bandwidth", "device memory is the limit"),
    ("under-filled", "busy, but with little work"),
    ("host-device-sync", "one line makes the host wait, again and again"),
    ("copy-bound", "PCIe transfers dominate"),
    ("throttled", "power or heat lowers the clocks"),
    ("shared-gpu", "another process uses the GPU"),
    ("communication", "collectives: waiting for other ranks"),
];

/// Arguments of a command that are shown where cells are few.
const SHORT_ARGUMENTS: usize = 256;

/// What a cause means, in a few words.
#[must_use]
pub fn cause_in_words(cause: &str) -> Option<&'static str> {
    pair(cause).map(|(_, words)| words)
}

fn pair(cause: &str) -> Option<(&'static str, &'static str)> {
    CAUSES.iter().find(|(name, _)| *name == cause).copied()
}

/// What a verdict says, in a few words, where there is no cause to say it.
#[must_use]
pub fn verdict_in_words(verdict: &Verdict) -> &'static str {
    if let Some(words) = verdict.cause.as_deref().and_then(cause_in_words) {
        return words;
    }
    match (verdict.class, verdict.phase) {
        (Class::DataLoader, _) => "the input pipeline is too slow",
        (Class::Io, _) => "storage or network is too slow",
        (Class::Cpu, _) => "the CPU is the limit",
        (Class::Gpu, _) => "the GPU is the limit",
        (Class::Balanced, _) => "nothing costs more than a few percent",
        (Class::Idle, Phase::Init) => "starting up: not training yet",
        (Class::Idle, Phase::Checkpoint) => "saving state",
        (Class::Idle, Phase::Stopped) => "stopped by a signal or a debugger",
        (Class::Idle, Phase::Finished) => "the target has ended",
        (Class::Idle, _) => "not training now",
        (Class::Unknown, _) => "too little could be seen",
    }
}

/// The letter of a class on the strip of past verdicts.
#[must_use]
pub fn letter(class: Class) -> char {
    match class {
        Class::DataLoader => 'D',
        Class::Io => 'I',
        Class::Cpu => 'C',
        Class::Gpu => 'G',
        Class::Balanced => 'B',
        Class::Idle => 'z',
        Class::Unknown => '?',
    }
}

/// A command line without the directories of its program and of its first Python file: where cells are few, the names
/// say more than the paths.
#[must_use]
pub fn short_command(command: &str) -> String {
    let mut script = false;
    let shown = command.split(' ').enumerate().map(|(place, argument)| {
        let is_script = !script && argument.ends_with(".py");
        script |= is_script;
        let long = (place == 0 || is_script) && argument.contains('/') && !argument.ends_with('/');
        if long { argument.rsplit('/').next().unwrap_or_default() } else { argument }
    });
    // 4 KiB of arguments are not put together again for a title of a hundred cells.
    let first: Vec<&str> = shown.take(SHORT_ARGUMENTS).collect();
    first.join(" ")
}

/// The bound of an advice as it follows its title: ` (at most 1.7× faster)`.
#[must_use]
pub fn bound(advice: &Advice) -> String {
    match (advice.speedup_at_most.filter(|s| s.is_finite()), advice.predicted_step_ms.filter(|s| s.is_finite())) {
        (Some(s), Some(ms)) => format!(" (at most {s:.1}× faster, steps of {ms:.0} ms)"),
        (Some(s), None) => format!(" (at most {s:.1}× faster)"),
        (None, Some(ms)) => format!(" (steps of {ms:.0} ms)"),
        (None, None) => String::new(),
    }
}

/// A wall clock time: `14:03:27`.
#[must_use]
pub fn clock(unix_ms: i64, zone: &TimeZone) -> String {
    let Ok(moment) = jiff::Timestamp::from_millisecond(unix_ms) else { return UNMEASURED.to_owned() };
    moment.to_zoned(zone.clone()).strftime("%H:%M:%S").to_string()
}

/// How sure a confidence is, in one word.
#[must_use]
pub fn sureness(confidence: f64) -> &'static str {
    if confidence >= 0.8 {
        "sure"
    } else if confidence >= 0.5 {
        "likely"
    } else {
        "unsure"
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnosis::causes;

    #[test]
    fn every_class_has_its_own_letter() {
        let mut letters: Vec<char> = Class::ALL.into_iter().map(letter).collect();
        letters.sort_unstable();
        letters.dedup();
        assert_eq!(letters.len(), Class::ALL.len());
    }

    #[test]
    fn every_cause_has_words() {
        for cause in causes::all() {
            assert!(cause_in_words(cause.name).is_some(), "{}", cause.name);
        }
        assert!(CAUSES.iter().all(|(name, _)| causes::all().any(|cause| cause.name == *name)));
    }

    #[test]
    fn commands_lose_their_directories_only() {
        let short = short_command;
        assert_eq!(
            short("/usr/bin/python3 -u /home/a/train.py --data /data/b.py"),
            "python3 -u train.py --data /data/b.py"
        );
        assert_eq!(short("python train.py --lr 0.1"), "python train.py --lr 0.1");
        assert_eq!(short("pt_data_worker"), "pt_data_worker");
        assert_eq!(short("/ /x/"), "/ /x/");
        assert_eq!(short(""), "");
    }

    #[test]
    fn causes_are_found_by_the_exact_string_only() {
        assert_eq!(cause_in_words("too-few-workers"), Some("all workers busy, CPUs left over"));
        assert_eq!(cause_in_words("Too-Few-Workers"), None);
    }
}
