//! What can hold a loop back: one file per cause, with everything about it: its rule and the numbers in it, counter-evidence, its
//! words, its advice and how much that can gain. Verdicts, `trainmon explain`, the screen and the documentation all read it
//! from here. [`CauseSpec`] shows what a cause's file looks like.
//!
//! The list below is the order of decision: a rule is tried only if none before it held.

mod fits;
mod judgment;
mod names;
mod rule_input;
mod source;
mod spec;
mod stages;
pub(super) mod starvation;
mod states;
#[cfg(test)]
mod tests;
mod texts;

mod cgroup_throttled;
pub(super) mod checkpoint_write;
mod collate;
mod communication;
mod compute_bound;
mod copy_bound;
mod cores_saturated;
pub(super) mod cpu_training;
mod decode;
mod disk_bandwidth;
pub(super) mod file_lock;
mod gains;
mod gil_contention;
mod hand_over;
mod host_device_sync;
mod in_process_loading;
mod io_throttled;
mod launch_bound;
mod main_thread;
pub(super) mod memory_bandwidth;
mod memory_pressure;
mod network_storage;
mod noisy_neighbour;
mod output_blocked;
mod page_cache_miss;
mod remote_service;
mod shared_gpu;
mod sleeps;
mod slow_samples;
mod small_files;
mod thread_oversubscription;
pub(super) mod throttled;
mod too_few_workers;
mod too_many_workers;
mod transform;
mod under_filled;
mod waits_for_process;
mod waits_for_thread;
mod worker_imbalance;
pub(super) mod worker_restart;

use std::fmt;

use serde::{Deserialize, Deserializer};

use super::class::{Class, Phase};
use super::culprits::{self, Culprit, CulpritKind, ShareOf};
use super::features::{Chain, Device, Features, LoopStacks, LoopThread, OwnThreads, Workers};
use super::parts::{Advice, Hottest};
use super::signals::{Side, Signal};
use super::thresholds::{self, *};
use super::what_if::{self, Capacity, Loop, Prediction};
use super::{account, job, place};
pub(super) use fits::with_gpu;
use fits::*;
use gains::*;
pub use judgment::Finding;
pub(super) use judgment::Judgment;
pub use names::{named, near};
pub(super) use rule_input::{Known, RuleInput};
use spec::without_what_is_lost;
pub use spec::{AdviceRow, CauseSpec, Confirmed, Promise};
pub(super) use spec::{Against, CulpritPlace, FollowedWait};
pub(super) use texts::WAITS_FOR_BATCHES;
use texts::*;
use trainmon_base::stats::{percent, quantile, round};
use trainmon_base::text::named_enum;
use trainmon_libraries::{JobKind, JobSetting, StepUnit};
use trainmon_waits::Wait;
use trainmon_waits::stacks::Activity;
use trainmon_waits::taxonomy::Purpose;

/// What to do and why, the most promising first. A promise other than the end of the cause precedes the title. A row that fits
/// only some windows ends with their condition, one that a library has its own words for with the setting that it is about, and one that
/// ends something else than the cause with what that gains.
macro_rules! advice {
    ($($($promise:ident)? $title:literal => $why:literal $(, if $fits:expr)? $(, of $setting:ident)? $(, gains $gain:expr)?;)*) => {
        &[$(
            AdviceRow::new($title, $why)
                $(.promising(Promise::$promise))?
                $(.fitting($fits))?
                $(.of_setting(JobSetting::$setting))?
                $(.gaining($gain))?
        ),*]
    };
}
use advice;

/// The numbers of a cause without any.
const NUMBERS: &[Threshold] = &[];

macro_rules! causes {
    ($($Cause:ident = $module:ident, $name:literal;)+) => {
        named_enum! {
            /// A cause; the variants are in the order of decision.
            pub enum Cause {
                $(#[doc = concat!("See `", stringify!($module), ".rs`.")] $Cause = $name,)+
            }
        }

        impl Cause {
            /// Everything about it in its main class.
            pub fn spec(self) -> &'static CauseSpec {
                match self { $(Self::$Cause => const { &CauseSpec { name: $name, ..$module::CAUSE } }),+ }
            }
        }

        /// The numbers that decide: shared ones, and those of each cause.
        const ALL_NUMBERS: &[&[Threshold]] = &[
            thresholds::NUMBERS, account::NUMBERS, job::NUMBERS, place::NUMBERS, fits::NUMBERS, rule_input::NUMBERS, starvation::NUMBERS, stages::NUMBERS, culprits::NUMBERS,
            // Those of the cause's file; if it has none, the empty list of this file.
            $({ #[allow(unused_imports, reason = "not every cause has numbers")] use $module::*; NUMBERS }),+
        ];
    };
}

causes! {
    // The loop waits for something that is neither a loader nor the GPU, and the wait could be followed.
    WaitsForProcess = waits_for_process, "waits-for-process";
    WaitsForThread = waits_for_thread, "waits-for-thread";
    Sleeps = sleeps, "sleeps";
    RemoteService = remote_service, "remote-service";
    OutputBlocked = output_blocked, "output-blocked";
    Lock = file_lock, "lock";
    // Collectives and saving cost the loop more than its waits for batches.
    Communication = communication, "communication";
    CheckpointWrite = checkpoint_write, "checkpoint-write";
    // Another process uses the GPU, its clocks are held down, or the link to it is full.
    SharedGpu = shared_gpu, "shared-gpu";
    Throttled = throttled, "throttled";
    CopyBound = copy_bound, "copy-bound";
    // The job gets too little CPU time or memory: before any code is blamed for being slow.
    CgroupThrottled = cgroup_throttled, "cgroup-throttled";
    MemoryPressure = memory_pressure, "memory-pressure";
    NoisyNeighbour = noisy_neighbour, "noisy-neighbour";
    ThreadOversubscription = thread_oversubscription, "thread-oversubscription";
    TooManyWorkers = too_many_workers, "too-many-workers";
    CoresSaturated = cores_saturated, "cores-saturated";
    // The workers, or the threads that make the batches, wait for their source.
    NetworkStorage = network_storage, "network-storage";
    IoThrottled = io_throttled, "io-throttled";
    PageCacheMiss = page_cache_miss, "page-cache-miss";
    SmallFiles = small_files, "small-files";
    DiskBandwidth = disk_bandwidth, "disk-bandwidth";
    // The loader itself.
    WorkerRestart = worker_restart, "worker-restart";
    WorkerImbalance = worker_imbalance, "worker-imbalance";
    SlowSamples = slow_samples, "slow-samples";
    HandOver = hand_over, "hand-over";
    Collate = collate, "collate";
    Decode = decode, "decode";
    Transform = transform, "transform";
    TooFewWorkers = too_few_workers, "too-few-workers";
    InProcessLoading = in_process_loading, "in-process-loading";
    // The GPU is busy, and this is what it is busy with.
    MemoryBandwidth = memory_bandwidth, "memory-bandwidth";
    UnderFilled = under_filled, "under-filled";
    ComputeBound = compute_bound, "compute-bound";
    // The GPU runs dry or is missing, and this is what the host does.
    HostDeviceSync = host_device_sync, "host-device-sync";
    GilContention = gil_contention, "gil-contention";
    LaunchBound = launch_bound, "launch-bound";
    MainThread = main_thread, "main-thread";
    CpuTraining = cpu_training, "cpu-training";
}

impl Cause {
    /// The exact string of verdicts and logs.
    pub fn name(self) -> &'static str {
        self.word()
    }

    /// Everything about it in a class: a cause may belong to two.
    pub fn spec_in(self, class: Class) -> &'static CauseSpec {
        let main = self.spec();
        main.in_other_class.filter(|other| other.class == class).unwrap_or(main)
    }

    /// Whether it is a wait of the loop for something other than a loader or the GPU.
    pub fn is_wait(self, class: Class) -> bool {
        self.spec_in(class).followed.is_some()
    }

    /// That of a wait of the loop for this purpose, if it has one of its own.
    pub(super) fn of_wait(purpose: Purpose) -> Option<Self> {
        let is_of = |cause: &Self| cause.spec().followed.is_some_and(|wait| wait.part == purpose);
        Self::ALL.into_iter().find(is_of)
    }

    /// It lies outside the job, so a cause inside the job may be true at the same time.
    pub fn is_outside(self) -> bool {
        matches!(self, Self::NoisyNeighbour | Self::SharedGpu)
    }

    /// Whether its rule holds, and how certain that is.
    pub(super) fn judge(self, case: &RuleInput<'_>) -> Option<Judgment> {
        (self.spec().judge)(case)
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Judgment {
    /// What it blames, the largest share first, given what is known of its cause.
    pub fn culprits(&self, spec: Option<&CauseSpec>, window: &Features) -> Vec<Culprit> {
        let mut found: Vec<Culprit> = match spec {
            Some(spec) => spec.culprits.iter().flat_map(|search| search(window)).collect(),
            None if self.phase == Phase::Hung => {
                window.ranks_gone.iter().map(|rank| Culprit::rank(*rank, None)).collect()
            }
            None => Vec::new(),
        };
        let line = spec.and_then(|spec| spec.line(window));
        found.extend(
            line.map(|(_, line)| Culprit::new(CulpritKind::Line, line.to_string()).taking(line.share, ShareOf::Time)),
        );
        found.truncate(culprits::MOST_CULPRITS);
        found
    }

    /// What the causes outside the job blame that are true at the same time.
    pub fn culprits_outside(&self, window: &Features) -> Vec<Culprit> {
        let causes = self.others.iter().filter_map(|other| other.cause).filter(|cause| cause.is_outside());
        causes.flat_map(|cause| cause.spec().culprits).flat_map(|search| search(window)).collect()
    }
}

/// Reads a cause; a name that this version does not know becomes `None`.
///
/// # Errors
/// Anything but a string or null.
pub(super) fn known<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Cause>, D::Error> {
    let name = Option::<String>::deserialize(deserializer)?;
    Ok(name.as_deref().and_then(Cause::named))
}

/// What the loop does for a share of its time, if that is such a wait: "waits 40% of the time for …".
pub(super) fn in_words(window: &Features, wait: &FollowedWait, share: f64) -> Option<String> {
    if wait.part == Purpose::Sleep {
        return Some(sleeps::in_words(window, share));
    }
    let name = window.chain.as_ref()?.who(wait.part)?;
    Some(format!("waits {} of the time {}", percent(share), (wait.words)(&name)))
}

/// Everything about every cause, by class and in the order of decision; a cause of two classes appears twice.
pub fn all() -> impl Iterator<Item = &'static CauseSpec> {
    let of_class = |class: Class| {
        let specs = Cause::ALL.into_iter().map(Cause::spec);
        specs.flat_map(|spec| [Some(spec), spec.in_other_class]).flatten().filter(move |spec| spec.class == class)
    };
    Class::ALL.into_iter().flat_map(of_class)
}

/// What a verdict can say without a cause: nothing costs much, not training now, too little seen.
pub fn states() -> impl Iterator<Item = &'static CauseSpec> {
    states::STATES.iter()
}

/// What there is to say about a verdict: about its cause, or about its state. `None` for a class alone.
pub fn spec_of(class: Class, cause: Option<Cause>, phase: Phase) -> Option<&'static CauseSpec> {
    let state = |name: &str| states().find(|state| state.class == class && state.name == name);
    cause.map(|cause| cause.spec_in(class)).or_else(|| state(phase.word())).or_else(|| state(class.word()))
}

/// Class and cause in words: `data loader · too few workers`.
pub fn verdict_name(class: Class, cause: Option<Cause>) -> String {
    let name = class.name();
    cause.map_or_else(|| name.to_owned(), |cause| format!("{name} · {}", cause.spec_in(class).headline))
}
