//! Everything about one cause: its rule, its words, and what hangs on it.

use serde::Serialize;

use super::{Judgment, RuleInput};
use crate::diagnosis::class::Class;
use crate::diagnosis::culprits::Search;
use crate::diagnosis::features::{Features, LoopStacks};
use crate::diagnosis::parts::{Advice, Hottest};
use crate::diagnosis::place::NAMED;
use crate::diagnosis::signals::{Side, Signal};
use crate::diagnosis::thresholds::{LARGER_HALF, Threshold};
use trainmon_libraries::JobSetting;
use trainmon_waits::taxonomy::Purpose;

/// How far a rule has been checked on programs whose bottleneck is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Confirmed {
    /// Real training programs with a known bottleneck (`tests/workloads`); where the rule depends on a GPU, with a real one
    /// (`python measure gpu`).
    #[serde(rename = "labelled-workloads")]
    LabeledWorkloads,
    /// The same, but the GPU that the rule depends on is simulated.
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
            Self::LabeledWorkloads => "confirmed on real training programs",
            Self::FakeDeviceOnly => "confirmed with a simulated GPU only",
            Self::DataFilesOnly => "checked on hand-made data only",
            Self::Unconfirmed => "not confirmed yet",
        }
    }
}

/// Everything about one cause in one class, or about a state without a cause. Texts end without a full stop.
///
/// A cause gives its words and its rule. [`CauseSpec::in_class`] has a default for everything else, which a cause replaces only
/// where it differs: how far it is confirmed, what its end gains, what it blames. A whole file of a cause:
///
/// ```text
/// //! Each read takes long, however idle the disk is.
///
/// use super::*;
///
/// thresholds! {
///     SLOW_ANSWER = 20.0, "ms", "a disk with moving heads answers in about 10 ms, an SSD in less than one";
/// }
///
/// pub(super) const CAUSE: CauseSpec = CauseSpec {
///     headline: "slow answers of the disk",
///     brief: "each read takes long",
///     meaning: "each read from the disk takes long",
///     rule: &[LOOP_LOSES, SOURCE_IS_SLOW, "the disk with the data takes at least `slow_answer` per I/O"],
///     judge: |case| {
///         let slow = case.window.io.await_ms.is_some_and(|ms| ms >= SLOW_ANSWER);
///         if slow { source::judgment(case, Cause::SlowAnswers, INFERRED.value) } else { None }
///     },
///     signals: &[DISKS, WORKER_WAIT, MAIN_WAIT],
///     source: "kernel Documentation/admin-guide/iostats.rst: the time that I/Os took, divided by their number",
///     limits: "a long queue also makes each read wait (disk-bandwidth)",
///     advice: advice![
///         "Copy the dataset to an SSD before training" => "it answers at least ten times as fast";
///         Tuning "Raise num_workers" => "more reads are then in flight at once";
///     ],
///     confirmed: Confirmed::DataFilesOnly,
///     culprits: &[culprits::data_disk],
///     ..CauseSpec::in_class(Class::Io)
/// };
/// ```
///
/// It is declared in `mod.rs`, by `mod slow_answers;` and by its line in the list: `SlowAnswers = slow_answers, "slow-answers";`.
#[derive(Debug, Clone, Copy)]
pub struct CauseSpec {
    /// Class it belongs to.
    pub class: Class,
    /// The string of verdicts and logs: of a cause from the list of causes; of a state (idle, balanced, unknown) the phase
    /// or the class.
    pub name: &'static str,
    /// Two to five words behind the class: "DATA LOADER · <headline>".
    pub headline: &'static str,
    /// One short line for lists, which says more than the name.
    pub brief: &'static str,
    /// What it means: a clause behind a colon, "The loop waits for data 74% of the time: <meaning>".
    pub meaning: &'static str,
    /// What must hold, in the order in which it is checked. A name of a threshold in backticks is shown as its value with its unit:
    /// "at least `lost_wait` of the time" becomes "at least 10% of the time".
    pub rule: &'static [&'static str],
    /// Whether the rule holds, and how certain that is.
    pub(super) judge: fn(&RuleInput<'_>) -> Option<Judgment>,
    /// Where the numbers come from.
    pub signals: &'static [&'static str],
    /// Why the rule is as it is: documentation, measurements.
    pub source: &'static str,
    /// When the verdict can be wrong, and what looks the same.
    pub limits: &'static str,
    /// What to do, the most promising first.
    pub advice: &'static [AdviceRow],

    // The rest has a default that is right for most causes.
    /// How far it is confirmed. By default as far as most causes of the class, which takes a labeled workload.
    pub confirmed: Confirmed,
    /// How many times faster the loop can get without it, at most; `None` if that is not known. By default what its class or its
    /// wait allows.
    pub(in crate::diagnosis) bound: fn(&Self, &Features) -> Option<f64>,
    /// The line of code that is named.
    pub(in crate::diagnosis) place: CulpritPlace,
    /// Finds what it blames besides that line, the largest share first.
    pub(super) culprits: &'static [Search],
    /// Signals that are shown however small they are, besides that of its wait.
    pub(super) evidence: &'static [Signal],
    /// Counter-evidence, besides that against its whole class.
    pub(in crate::diagnosis) against: &'static [&'static [Against]],
    /// The wait that it is, if it was followed to something that is neither a loader nor a GPU.
    pub(in crate::diagnosis) followed: Option<FollowedWait>,
    /// CPU time goes into spinning and switching, so full CPUs do not limit what can be gained.
    pub(in crate::diagnosis) wastes_cpu: bool,
    /// Gives the first advice the numbers of this run.
    pub(in crate::diagnosis) sharpen: fn(&mut Advice, &Features),
    /// The same cause with other words and other advice, if a window shows a special case of it.
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
    /// What it gains at most.
    pub promise: Promise,
    /// The same, where it ends something else than the cause.
    pub(in crate::diagnosis) gain: Option<fn(&Features) -> Option<f64>>,
    /// Whether it fits a window: advice for a GPU needs one, for example.
    pub(in crate::diagnosis) fits: fn(&Features) -> bool,
    /// The setting of a library that it is about: the title is what the library in use says of it, and without one it does not fit.
    pub(in crate::diagnosis) setting: Option<JobSetting>,
}

/// What an advice gains at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Promise {
    /// The end of the cause.
    Cause,
    /// The same, but no more than all tuning: it changes a number and no code.
    Tuning,
    /// As much as all tuning, even if it is not known what the end of the cause gains.
    Ceiling,
    /// Nothing: it finds a place in the code, or fits only some programs.
    Nothing,
}

impl AdviceRow {
    /// One that promises the end of the cause.
    pub const fn new(title: &'static str, why: &'static str) -> Self {
        Self { title, why, promise: Promise::Cause, gain: None, fits: |_| true, setting: None }
    }

    /// One that the library in use has its own words for.
    pub(in crate::diagnosis) const fn of_setting(self, setting: JobSetting) -> Self {
        Self { setting: Some(setting), ..self }
    }

    /// One that fits only some windows.
    pub(in crate::diagnosis) const fn fitting(self, fits: fn(&Features) -> bool) -> Self {
        Self { fits, ..self }
    }

    /// One that ends something else than the cause.
    pub(in crate::diagnosis) const fn gaining(self, gain: fn(&Features) -> Option<f64>) -> Self {
        Self { gain: Some(gain), ..self }
    }

    /// What it gains at most, if the end of the cause gains `bound`.
    pub(in crate::diagnosis) fn gain(&self, window: &Features, bound: Option<f64>) -> Option<f64> {
        match self.gain {
            Some(gain) => gain(window).filter(|gain| *gain > 1.0),
            None if self.promise == Promise::Nothing => None,
            None => bound,
        }
    }

    /// The same with another promise.
    pub const fn promising(self, promise: Promise) -> Self {
        Self { promise, ..self }
    }

    /// It only changes a number, which is the least work.
    pub fn is_tuning(&self) -> bool {
        matches!(self.promise, Promise::Tuning | Promise::Ceiling)
    }
}

/// A signal on the wrong side of its threshold, and what that means.
pub(in crate::diagnosis) type Against = (Signal, Side, &'static str);

/// A wait of the loop that was followed.
#[derive(Debug, Clone, Copy)]
pub(in crate::diagnosis) struct FollowedWait {
    /// The part of the loop's time.
    pub part: Purpose,
    /// The signal of that part.
    pub signal: Signal,
    /// What the loop waits for, given its name: "The loop waits 40% of the time <words>."
    pub words: fn(&str) -> String,
}

/// The line of code that a verdict names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::diagnosis) enum CulpritPlace {
    /// None.
    Nowhere,
    /// The line at which the loop waits for the GPU most.
    Sync,
    /// The line at which it sleeps.
    Sleep,
    /// The hottest function of the loop.
    Loop,
    /// That of the workers; without workers that of the loop.
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
                _ => Confirmed::LabeledWorkloads,
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
        let loads = self.class == Class::DataLoader;
        let of_loop = || seen.and_then(if loads { LoopStacks::place_of_loading } else { LoopStacks::place_of_work });
        let of_workers = || {
            let each =
                window.workers.iter().flat_map(|workers| &workers.each).filter_map(|worker| worker.hottest.as_ref());
            each.max_by(|a, b| a.share.total_cmp(&b.share).then_with(|| b.line.cmp(&a.line)))
        };
        let (place, found) = match (self.place, of_workers()) {
            (CulpritPlace::Nowhere, _) => (CulpritPlace::Sync, self.wait_line(window)),
            (CulpritPlace::Sync, _) => (CulpritPlace::Sync, seen.and_then(|seen| seen.sync_lines.first())),
            (CulpritPlace::Sleep, _) => (CulpritPlace::Sleep, seen.and_then(|seen| seen.sleep_line.as_ref())),
            (CulpritPlace::Workers, Some(found)) => (CulpritPlace::Workers, Some(found)),
            (CulpritPlace::Workers, None) | (CulpritPlace::Loop, _) => (CulpritPlace::Loop, of_loop()),
        };
        Some((place, found.filter(|found| found.share >= NAMED)?))
    }

    /// The loop's hottest function, if the loop is in it for most of the time of the wait that this cause is. Stacks and
    /// the wait are sampled apart: what remains if they overlap as little as they can, beside the waits for the GPU, must
    /// be most of the function's time.
    fn wait_line<'a>(&self, window: &'a Features) -> Option<&'a Hottest> {
        let waits = window.chain.as_ref()?.share(self.followed?.part);
        let hottest = window.loop_stacks()?.hottest_own.as_ref()?;
        let beside = 1.0 - window.main.as_ref()?.shares.device_sync;
        (hottest.share + waits - beside >= LARGER_HALF.value * hottest.share).then_some(hottest)
    }

    /// The thresholds that the rule names, in that order.
    pub fn thresholds(&self) -> Vec<&'static Threshold> {
        let mut found: Vec<&Threshold> = Vec::new();
        for word in self.rule.iter().flat_map(|condition| condition.split('`').skip(1).step_by(2)) {
            found.extend(threshold(word).filter(|known| !found.contains(known)));
        }
        found
    }

    /// The rule for a person: with the values of its thresholds in place of their names.
    pub fn rule_in_words(&self) -> impl Iterator<Item = String> {
        self.rule.iter().map(|condition| {
            let parts = condition.split('`').enumerate();
            let value = |name: &str| threshold(name).map_or_else(|| name.to_owned(), Threshold::words);
            parts.map(|(place, part)| if place % 2 == 1 { value(part) } else { part.to_owned() }).collect()
        })
    }
}

/// The threshold of this name.
fn threshold(name: &str) -> Option<&'static Threshold> {
    super::ALL_NUMBERS.iter().copied().flatten().find(|threshold| threshold.name() == name)
}

/// What the end of a followed wait gains, otherwise the end of what its class loses.
pub(super) fn without_what_is_lost(spec: &CauseSpec, window: &Features) -> Option<f64> {
    let lost = window.lost_wait();
    match (&spec.followed, spec.class) {
        // Waits that could not be traced may be of this kind too.
        (Some(wait), _) => {
            let chain = window.chain.as_ref()?;
            Some(window.without(chain.lost(wait.part) + chain.lost(Purpose::Unknown)))
        }
        // Where system calls cannot be read, some waits for batches are not recognized: then all of the GPU's idle time may be.
        (None, Class::DataLoader | Class::Io) => {
            let exact = window.main.as_ref().is_none_or(|main| main.exact);
            let idle = if window.gpu.is_some() && !exact { window.device_idle() } else { 0.0 };
            Some(window.without(lost.max(idle)))
        }
        // The host's waits for batches, otherwise the GPU's idle time.
        (None, Class::Cpu) if window.waits_lead() => Some(window.without(lost)),
        (None, Class::Cpu) => window.gpu.as_ref().map(|gpu| window.without(1.0 - gpu.job_busy)),
        _ => None,
    }
}
