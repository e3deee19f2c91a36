//! Everything about one cause: its rule, its words, and what hangs on it.

use serde::Serialize;

use super::{Judgement, RuleInput};
use crate::diagnosis::class::Class;
use crate::diagnosis::features::{Features, PathPart};
use crate::diagnosis::parts::Advice;
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
    #[must_use]
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
#[derive(Debug, Clone, Copy)]
pub struct CauseSpec {
    /// Class it belongs to.
    pub class: Class,
    /// The string of verdicts and logs, for a cause from the list of causes; of a state (idle, balanced, unknown) the phase
    /// or the class.
    pub name: &'static str,
    /// A few words, for a headline: "DATA-LOADER: <headline>".
    pub headline: &'static str,
    /// A few words that stand behind the name and say more than it.
    pub brief: &'static str,
    /// What it means, for a sentence: "… because <meaning>".
    pub meaning: &'static str,
    /// What has to be the case, in the order in which it is looked at. Names of thresholds stand in backticks.
    pub rule: &'static [&'static str],
    /// Where the numbers come from.
    pub signals: &'static [&'static str],
    /// Why the rule is as it is: documentation, measurements.
    pub source: &'static str,
    /// How far it is confirmed.
    pub confirmed: Confirmed,
    /// What it can be mistaken for, and when.
    pub limits: &'static str,
    /// What to do, first thing first: (title, why).
    pub advice: &'static [(&'static str, &'static str)],
    /// The rule.
    pub(super) judge: fn(&RuleInput<'_>) -> Option<Judgement>,
    /// Signals that are shown even where they are hardly there.
    pub(in crate::diagnosis) evidence: &'static [Signal],
    /// What speaks against it, besides what speaks against its whole class.
    pub(in crate::diagnosis) against: &'static [&'static [Against]],
    /// The wait that it is, where it is one that was followed to somebody who is no loader and no device.
    pub(in crate::diagnosis) followed: Option<Followed>,
    /// Which line of code is named.
    pub(in crate::diagnosis) place: CulpritPlace,
    /// How many times faster the loop can get at most without it; `None` where that cannot be said.
    pub(in crate::diagnosis) bound: fn(&Features) -> Option<f64>,
    /// The first advice changes numbers only (workers, threads): it brings no more than the ceiling of all tuning.
    pub(in crate::diagnosis) tuning_first: bool,
    /// CPU time goes into spinning and switching, so that full CPUs are no limit of what can be done.
    pub(in crate::diagnosis) wastes_cpu: bool,
    /// What stands in place of its meaning and its advice in a case of its own kind.
    pub(in crate::diagnosis) instead: fn(&Features) -> Option<Instead>,
    /// Gives the first advice the numbers of this run.
    pub(in crate::diagnosis) sharpen: fn(&mut Advice, &Features),
    /// The same cause in another class.
    pub(super) elsewhere: Option<&'static CauseSpec>,
}

/// A meaning and advice for a case of its own kind; see [`CauseSpec`].
#[derive(Debug, Clone, Copy)]
pub(in crate::diagnosis) struct Instead {
    /// See [`CauseSpec::place`].
    pub place: CulpritPlace,
    /// See [`CauseSpec::meaning`].
    pub meaning: &'static str,
    /// See [`CauseSpec::advice`].
    pub advice: &'static [(&'static str, &'static str)],
}

/// A signal on the wrong side of its threshold, and what that means.
pub(in crate::diagnosis) type Against = (Signal, Side, &'static str);

/// A wait of the loop's that was followed.
#[derive(Debug, Clone, Copy)]
pub(in crate::diagnosis) struct Followed {
    /// The part of the loop's time that it is.
    pub part: PathPart,
    /// The signal that tells of that part.
    pub signal: Signal,
    /// What the loop waits for, given who it is: "The loop waits 40 % of the time <words>."
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
    /// What the causes of a class have in common; a file gives the rest.
    pub(super) const fn of(class: Class) -> Self {
        Self {
            class,
            name: "",
            headline: "",
            brief: "",
            meaning: "",
            rule: &[],
            signals: &[],
            source: "",
            confirmed: Confirmed::Unconfirmed,
            limits: "",
            advice: &[],
            judge: |_| None,
            evidence: &[],
            against: &[],
            followed: None,
            place: CulpritPlace::Nowhere,
            bound: match class {
                Class::DataLoader | Class::Io => on_batches,
                Class::Cpu => on_the_host,
                _ => |_| None,
            },
            instead: |_| None,
            sharpen: |_, _| {},
            tuning_first: false,
            wastes_cpu: false,
            elsewhere: None,
        }
    }

    /// The thresholds that the rule names, in that order.
    #[must_use]
    pub fn thresholds(&self) -> Vec<&'static Threshold> {
        let mut found: Vec<&Threshold> = Vec::new();
        for word in self.rule.iter().flat_map(|condition| condition.split('`').skip(1).step_by(2)) {
            let known = super::ALL_NUMBERS.iter().copied().flatten().find(|threshold| threshold.name() == word);
            found.extend(known.filter(|known| !found.contains(known)));
        }
        found
    }
}

/// What is gained where batches do: their waits. Where calls may not be seen some waits are not told to be for batches: then all
/// that the device idles may be.
fn on_batches(window: &Features) -> Option<f64> {
    let exact = window.main.as_ref().is_none_or(|main| main.exact);
    let idle = if exact { 0.0 } else { window.gpu.as_ref().map_or(0.0, |_| window.device_idle()) };
    Some(window.without(window.lost_wait().max(idle)))
}

/// What is gained where the host holds the loop back: its waits for batches, else the device's idle time.
fn on_the_host(window: &Features) -> Option<f64> {
    let lost = window.lost_wait();
    match &window.gpu {
        _ if window.waits_lead() => Some(window.without(lost)),
        gpu => gpu.as_ref().map(|gpu| window.without(1.0 - gpu.job_busy)),
    }
}
