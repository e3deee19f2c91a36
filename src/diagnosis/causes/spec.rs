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
    /// Signals that are shown even where they are hardly there, besides that of its wait.
    pub(super) evidence: &'static [Signal],
    /// What speaks against it, besides what speaks against its whole class.
    pub(in crate::diagnosis) against: &'static [&'static [Against]],
    /// The wait that it is, where it is one that was followed to somebody who is no loader and no device.
    pub(in crate::diagnosis) followed: Option<FollowedWait>,
    /// Which line of code is named.
    pub(super) place: CulpritPlace,
    /// How many times faster the loop can get at most without it; `None` where that cannot be said.
    pub(in crate::diagnosis) bound: fn(&Features) -> Option<f64>,
    /// The first advice changes numbers only (workers, threads): it brings no more than the ceiling of all tuning.
    pub(in crate::diagnosis) tuning_first: bool,
    /// CPU time goes into spinning and switching, so that full CPUs are no limit of what can be done.
    pub(in crate::diagnosis) wastes_cpu: bool,
    /// Finds whom or what it blames, most to blame first, besides a line of code.
    pub(in crate::diagnosis) culprits: &'static [Search],
    /// The same cause with words and advice of its own, where a window shows a special case of it.
    pub(super) special_case: fn(&Features) -> Option<&'static CauseSpec>,
    /// Gives the first advice the numbers of this run.
    pub(in crate::diagnosis) sharpen: fn(&mut Advice, &Features),
    /// The same cause in another class.
    pub(super) in_other_class: Option<&'static CauseSpec>,
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
    /// What the loop waits for, given who it is: "The loop waits 40 % of the time <words>."
    pub words: fn(&str) -> String,
}

/// The line of code that a verdict names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CulpritPlace {
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
    pub(super) const fn in_class(class: Class) -> Self {
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
            culprits: &[],
            special_case: |_| None,
            sharpen: |_, _| {},
            tuning_first: false,
            wastes_cpu: false,
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

    /// The line of code that it is blamed on, and the words before it in a sentence.
    pub(in crate::diagnosis) fn line<'a>(&self, window: &'a Features) -> Option<(&'static str, &'a Hottest)> {
        let seen = window.loop_stacks();
        let of_loop = || seen.and_then(|seen| seen.hottest_own.as_ref());
        let of_workers = || {
            let each =
                window.workers.iter().flat_map(|workers| &workers.each).filter_map(|worker| worker.hottest.as_ref());
            each.max_by(|a, b| a.share.total_cmp(&b.share).then_with(|| b.line.cmp(&a.line)))
        };
        let (words, found) = match self.place {
            CulpritPlace::Nowhere => return None,
            CulpritPlace::Sync => ("it waits in", seen.and_then(|seen| seen.sync_lines.first())),
            CulpritPlace::Sleep => ("it sleeps at", seen.and_then(|seen| seen.sleep_line.as_ref())),
            CulpritPlace::Loop => ("most of it in", of_loop()),
            CulpritPlace::Workers => ("most of it in", of_workers().or_else(of_loop)),
        };
        Some((words, found.filter(|found| found.share >= NAMED)?))
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
