//! Everything about one cause: its rule, its words, and what hangs on it.

use serde::Serialize;

use super::{Judgement, RuleInput};
use crate::diagnosis::class::Class;
use crate::diagnosis::culprits::{NAMED, Search};
use crate::diagnosis::features::{Features, PathPart};
use crate::diagnosis::parts::{Advice, Hottest};
use crate::diagnosis::signals::{Side, Signal};
use crate::diagnosis::thresholds::Threshold;

/// How far a rule has been held against programs of which the truth is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Confirmed {
    /// Real training programs with a known bottleneck (`tests/workloads`), whose truth does not rest on a device.
    LabelledWorkloads,
    /// The same, but the device that the rule rests on is simulated: no real GPU was at hand.
    FakeDeviceOnly,
    /// Series of numbers written by hand (`tests/diagnosis`).
    DataFilesOnly,
    /// Nothing yet.
    Unconfirmed,
}

impl Confirmed {
    /// For a person.
    pub fn words(self) -> &'static str {
        match self {
            Self::LabelledWorkloads => "confirmed on labelled real training programs",
            Self::FakeDeviceOnly => "confirmed with a simulated GPU only",
            Self::DataFilesOnly => "checked against hand-made data only",
            Self::Unconfirmed => "not confirmed yet",
        }
    }
}

/// Everything about one cause in one class, or about a state without a cause. Texts end without a full stop.
///
/// A cause gives its words and its rule. [`CauseSpec::in_class`] has a default for everything else, which a cause replaces only
/// where it differs: how far it is confirmed, what it brings to be rid of it, whom it blames. A whole file of a cause:
///
/// ```text
/// //! Each read takes long, however little the disk is used.
///
/// use super::*;
///
/// thresholds! {
///     SLOW_ANSWER = 20.0, "ms", "a disk with moving heads answers in some 10 ms, an SSD in less than one";
/// }
///
/// pub(super) const CAUSE: CauseSpec = CauseSpec {
///     headline: "the disk answers slowly",
///     brief: "each read takes long",
///     meaning: "each read from the disk takes long",
///     rule: &[LOOP_LOSES, SOURCE_IS_SLOW, "the data's disk takes at least `slow_answer` for an I/O"],
///     judge: |case| {
///         let slow = case.window.io.await_ms.is_some_and(|ms| ms >= SLOW_ANSWER);
///         source::judgement(case, Cause::SlowDisk, INFERRED.value).filter(|_| slow)
///     },
///     signals: &[DISKS, WORKER_WAIT, MAIN_WAIT],
///     source: "kernel Documentation/admin-guide/iostats.rst: the time that I/Os took, over their number",
///     limits: "a long queue makes each read wait as well (disk-bandwidth)",
///     advice: advice![
///         "Copy the data set to an SSD before training" => "it answers ten times as fast and more";
///         Tuning "Raise num_workers" => "more reads are then in flight at once";
///     ],
///     confirmed: Confirmed::DataFilesOnly,
///     culprits: &[culprits::data_disk],
///     ..CauseSpec::in_class(Class::Io)
/// };
/// ```
///
/// It is declared in `mod.rs`, by `mod slow_disk;` and by its line in the list: `SlowDisk = slow_disk, "slow-disk";`.
#[derive(Debug, Clone, Copy)]
pub struct CauseSpec {
    /// Class it belongs to.
    pub class: Class,
    /// The string of verdicts and logs: of a cause from the list of causes; of a state (idle, balanced, unknown) the phase
    /// or the class.
    pub name: &'static str,
    /// A few words for a headline: "DATA-LOADER: <headline>".
    pub headline: &'static str,
    /// A few words that stand behind the name and say more than it.
    pub brief: &'static str,
    /// What it means, for a sentence: "… because <meaning>".
    pub meaning: &'static str,
    /// What has to be the case, in the order in which it is checked. Names of thresholds stand in backticks.
    pub rule: &'static [&'static str],
    /// Whether the rule holds, and how surely.
    pub(super) judge: fn(&RuleInput<'_>) -> Option<Judgement>,
    /// Where the numbers come from.
    pub signals: &'static [&'static str],
    /// Why the rule is as it is: documentation, measurements.
    pub source: &'static str,
    /// What it can be mistaken for, and when.
    pub limits: &'static str,
    /// What to do, first thing first.
    pub advice: &'static [AdviceRow],

    // What follows has a default that is right for most causes.
    /// How far it is confirmed. By default as far as most causes of the class, which takes a labeled workload.
    pub confirmed: Confirmed,
    /// How many times faster the loop can get at most without it; `None` where that cannot be said. By default what its class
    /// or its wait allows.
    pub(in crate::diagnosis) bound: fn(&Self, &Features) -> Option<f64>,
    /// The line of code that is named.
    pub(super) place: CulpritPlace,
    /// Finds whom or what it blames, most to blame first, besides that line.
    pub(super) culprits: &'static [Search],
    /// Signals that are shown even where they are hardly there, besides that of its wait.
    pub(super) evidence: &'static [Signal],
    /// What speaks against it, besides what speaks against its whole class.
    pub(in crate::diagnosis) against: &'static [&'static [Against]],
    /// The wait that it is, where it is one that was followed to somebody who is no loader and no device.
    pub(in crate::diagnosis) followed: Option<FollowedWait>,
    /// CPU time goes into spinning and switching, so that full CPUs are no limit of what can be done.
    pub(in crate::diagnosis) wastes_cpu: bool,
    /// Gives the first advice the numbers of this run.
    pub(in crate::diagnosis) sharpen: fn(&mut Advice, &Features),
    /// The same cause in other words and with other advice, where a window shows a special case of it.
    pub(super) special_case: fn(&Features) -> Option<&'static CauseSpec>,
    /// The same cause in another class, with a page of its own.
    pub(super) in_other_class: Option<&'static CauseSpec>,
}

/// Something to do about a cause.
#[derive(Debug, Clone, Copy)]
pub struct AdviceRow {
    /// Imperative, short.
    pub title: &'static str,
    /// Why it helps.
    pub why: &'static str,
    /// What it brings at most.
    pub promise: Promise,
}

/// What an advice brings at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Promise {
    /// The end of the cause.
    Cause,
    /// The same, but no more than all tuning: it changes how many there are of something, and no code.
    Tuning,
    /// As much as all tuning, even if it is not known what the end of the cause brings.
    Ceiling,
    /// Nothing by itself: it looks for a place in the code, or is for programs of which this may be none.
    Nothing,
}

impl AdviceRow {
    /// One that promises the end of the cause.
    pub const fn new(title: &'static str, why: &'static str) -> Self {
        Self { title, why, promise: Promise::Cause }
    }

    /// The same with another promise.
    pub const fn promising(self, promise: Promise) -> Self {
        Self { promise, ..self }
    }

    /// It only changes how many there are of something: the least work.
    pub fn is_tuning(&self) -> bool {
        matches!(self.promise, Promise::Tuning | Promise::Ceiling)
    }
}

/// A signal on the wrong side of its threshold, and what that means.
pub(in crate::diagnosis) type Against = (Signal, Side, &'static str);

/// A wait of the loop's that was followed.
#[derive(Debug, Clone, Copy)]
pub(in crate::diagnosis) struct FollowedWait {
    /// The part of the loop's time that it is.
    pub part: PathPart,
    /// The signal that tells of that part.
    pub signal: Signal,
    /// What the loop waits for, given who it is: "The loop waits 40% of the time <words>."
    pub words: fn(&str) -> String,
}

/// The line of code that a verdict names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::diagnosis) enum CulpritPlace {
    /// None.
    Nowhere,
    /// The line at which the main thread waits for the device most.
    Sync,
    /// The line at which it sleeps.
    Sleep,
    /// The hottest function of the main thread.
    Loop,
    /// That of the workers; of the main thread where there are none.
    Workers,
}

impl CauseSpec {
    /// What the causes of a class have in common; a cause gives the rest.
    pub(super) const fn in_class(class: Class) -> Self {
        Self {
            class,
            name: "",
            headline: "",
            brief: "",
            meaning: "",
            rule: &[],
            judge: |_| None,
            signals: &[],
            source: "",
            limits: "",
            advice: &[],
            confirmed: match class {
                Class::Gpu | Class::Balanced => Confirmed::FakeDeviceOnly,
                _ => Confirmed::LabelledWorkloads,
            },
            bound: without_what_is_lost,
            place: CulpritPlace::Nowhere,
            culprits: &[],
            evidence: &[],
            against: &[],
            followed: None,
            wastes_cpu: false,
            sharpen: |_, _| {},
            special_case: |_| None,
            in_other_class: None,
        }
    }

    /// This cause as a window shows it: a special case of it, or itself.
    pub(in crate::diagnosis) fn for_window(&'static self, window: &Features) -> &'static Self {
        (self.special_case)(window).unwrap_or(self)
    }

    /// Its evidence has this signal whatever its value is.
    pub(in crate::diagnosis) fn always_shows(&self, signal: Signal) -> bool {
        self.evidence.contains(&signal) || self.followed.is_some_and(|wait| wait.signal == signal)
    }

    /// The line of code to blame, and what spends time there: `Loop` for a cause of the workers where only the loop has stacks.
    pub(in crate::diagnosis) fn line<'a>(&self, window: &'a Features) -> Option<(CulpritPlace, &'a Hottest)> {
        let seen = window.loop_stacks();
        let of_loop = || seen.and_then(|seen| seen.hottest_own.as_ref());
        let of_workers = || {
            let each =
                window.workers.iter().flat_map(|workers| &workers.each).filter_map(|worker| worker.hottest.as_ref());
            each.max_by(|a, b| a.share.total_cmp(&b.share).then_with(|| b.line.cmp(&a.line)))
        };
        let (place, found) = match (self.place, of_workers()) {
            (CulpritPlace::Nowhere, _) => return None,
            (CulpritPlace::Sync, _) => (CulpritPlace::Sync, seen.and_then(|seen| seen.sync_lines.first())),
            (CulpritPlace::Sleep, _) => (CulpritPlace::Sleep, seen.and_then(|seen| seen.sleep_line.as_ref())),
            (CulpritPlace::Workers, Some(found)) => (CulpritPlace::Workers, Some(found)),
            (CulpritPlace::Workers, None) | (CulpritPlace::Loop, _) => (CulpritPlace::Loop, of_loop()),
        };
        Some((place, found.filter(|found| found.share >= NAMED)?))
    }

    /// The thresholds that the rule names, in that order.
    pub fn thresholds(&self) -> Vec<&'static Threshold> {
        let mut found: Vec<&Threshold> = Vec::new();
        for word in self.rule.iter().flat_map(|condition| condition.split('`').skip(1).step_by(2)) {
            let known = super::ALL_NUMBERS.iter().copied().flatten().find(|threshold| threshold.name() == word);
            found.extend(known.filter(|known| !found.contains(known)));
        }
        found
    }
}

/// What is gained by the end of a wait that was followed, else of what a class loses.
fn without_what_is_lost(spec: &CauseSpec, window: &Features) -> Option<f64> {
    let lost = window.lost_wait();
    match (&spec.followed, spec.class) {
        // Waits that lead to nobody known may be of this kind too.
        (Some(wait), _) => {
            let chain = window.chain.as_ref()?;
            Some(window.without(chain.lost(wait.part) + chain.lost(PathPart::Unknown)))
        }
        // Where calls may not be seen some waits are not told to be for batches: then all that the device idles may be.
        (None, Class::DataLoader | Class::Io) => {
            let exact = window.main.as_ref().is_none_or(|main| main.exact);
            let idle = window.gpu.as_ref().filter(|_| !exact).map_or(0.0, |_| window.device_idle());
            Some(window.without(lost.max(idle)))
        }
        // The host's waits for batches, else the device's idle time.
        (None, Class::Cpu) if window.waits_lead() => Some(window.without(lost)),
        (None, Class::Cpu) => window.gpu.as_ref().map(|gpu| window.without(1.0 - gpu.job_busy)),
        _ => None,
    }
}
