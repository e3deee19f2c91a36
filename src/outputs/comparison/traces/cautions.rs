//! What else differs between two traces than the program: the GPUs, what the profiler was asked to record, what the windows cover.

use super::super::WORTH_SAYING;
use super::{ComparedTrace, TraceComparison};
use crate::diagnosis::verdict::Phase;
use crate::profiles::account::{ProfileAccount, StepMark};
use crate::profiles::comparison::Per;
use crate::text::format::{step_time, whole_percent as percent};

/// Windows that differ by more than this factor cover other work.
const OTHER_WINDOW: f64 = 1.25;
/// A step that takes this many times as long as the median moves the mean.
const FAR_STEP: f64 = 1.5;

impl TraceComparison<'_> {
    /// What to bear in mind.
    pub fn cautions(&self) -> Vec<String> {
        let sides = self.sides();
        let accounts = sides.map(|side| side.account);
        let mut all = Vec::new();
        let mut differ = |what: &str, values: [String; 2]| {
            let [one, other] = &values;
            if one != other && values.iter().all(|value| !value.is_empty()) {
                all.push(format!("{what} differ: {one} before, {other} after."));
            }
        };
        differ("The GPUs", accounts.map(|account| gpu(account).unwrap_or_default()));
        differ("The numbers of ranks", accounts.map(|account| number(account.world_size)));
        differ("The ranks", accounts.map(|account| number(account.rank)));
        if self.change.per == Per::Step {
            differ("The steps", accounts.map(|account| account.steps_by.map(mark).unwrap_or_default().to_owned()));
        }
        all.extend(gpu_in_one(sides));
        all.extend(recorded_in_one(sides, "Python functions were recorded (with_stack=True)", |account| {
            account.with_stack
        }));
        all.extend(recorded_in_one(sides, "Shapes were recorded (record_shapes=True)", |account| {
            account.with_shapes
        }));
        if self.change.per == Per::Window {
            all.extend(other_windows(accounts));
        }
        all.extend(
            sides.into_iter().filter(|side| is_start(side)).map(|side| format!("{} covers start-up.", side.name)),
        );
        all.extend(share_in_one(accounts.map(|account| account.compiling), "Compiling took"));
        all.extend(share_in_one(accounts.map(|account| account.overhead), "The profiler took"));
        all.extend(sides.into_iter().filter_map(|side| far_step(side)));
        for side in sides {
            all.extend(side.account.notes.iter().map(|note| format!("{}: {note}", side.name)));
        }
        all
    }
}

/// A step that is much longer than the others: the first, or one that saves.
fn far_step(side: &ComparedTrace<'_>) -> Option<String> {
    let longest = side.account.longest_step_ms?;
    let mut lengths = side.account.step_lengths_ms.clone();
    lengths.sort_by(f64::total_cmp);
    let median = lengths.get(lengths.len().saturating_sub(1) / 2).copied().filter(|ms| *ms > 0.0)?;
    let far = longest >= FAR_STEP * median;
    let [longest, usual] = [longest, median].map(step_time);
    far.then(|| format!("{}: the longest step takes {longest}, a median one {usual}.", side.name))
}

pub(super) fn gpu(account: &ProfileAccount) -> Option<String> {
    let names: Vec<&str> = account.devices.iter().map(|gpu| gpu.name.as_deref().unwrap_or("unknown")).collect();
    let first = names.first()?;
    if *first == "unknown" && names.len() == 1 {
        return None;
    }
    let is_same = names.iter().all(|name| name == first);
    Some(if is_same && names.len() > 1 { format!("{} × {first}", names.len()) } else { names.join(", ") })
}

fn number(value: Option<u32>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

/// What counts as a step.
pub(super) fn mark(mark: StepMark) -> &'static str {
    match mark {
        StepMark::ProfilerStep => "marked for the profiler",
        StepMark::Batch => "from one batch to the next",
        StepMark::Optimizer => "from one step of the optimizer to the next",
        StepMark::Annotation => "by the longest annotation",
    }
}

fn gpu_in_one([before, after]: [&ComparedTrace<'_>; 2]) -> Option<String> {
    let has = |side: &ComparedTrace<'_>| !side.account.devices.is_empty();
    let only = match (has(before), has(after)) {
        (true, false) => &before.name,
        (false, true) => &after.name,
        _ => return None,
    };
    Some(format!("Work on a GPU is in {only} alone."))
}

/// What the profiler was asked to record in one of them alone: it slows the loop there.
fn recorded_in_one(
    [before, after]: [&ComparedTrace<'_>; 2],
    what: &str,
    is_on: fn(&ProfileAccount) -> bool,
) -> Option<String> {
    let only = match (is_on(before.account), is_on(after.account)) {
        (true, false) => &before.name,
        (false, true) => &after.name,
        _ => return None,
    };
    Some(format!("{what} in {only} alone, which slows the loop there."))
}

/// Windows of other lengths, and with other numbers of kernels.
fn other_windows(accounts: [&ProfileAccount; 2]) -> Option<String> {
    let kernels = accounts.map(|account| account.devices.first().map_or(0, |gpu| gpu.kernels));
    let far = |[one, other]: [f64; 2]| one.max(other) > OTHER_WINDOW * one.min(other);
    let is_other = far(accounts.map(|account| account.window_ms)) || far(kernels.map(|kernels| kernels as f64));
    let [before, after] = accounts.map(|account| step_time(account.window_ms));
    let [of_before, of_after] = kernels;
    is_other.then(|| {
        format!(
            "The windows cover other work: {of_before} kernels in {before} before, {of_after} kernels in {after} after. Profile as \
             many steps of each."
        )
    })
}

fn is_start(side: &ComparedTrace<'_>) -> bool {
    matches!(side.verdict.phase, Phase::Init | Phase::Compile)
}

fn share_in_one(shares: [f64; 2], what: &str) -> Option<String> {
    let [before, after] = shares;
    let differs = (after - before).abs() >= WORTH_SAYING;
    differs.then(|| format!("{what} {}% of the time before, {}% after.", percent(before), percent(after)))
}
