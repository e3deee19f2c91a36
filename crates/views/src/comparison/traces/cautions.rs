//! What else differs between two traces than the program: the GPUs, what the profiler was asked to record, what the windows cover.

use super::super::cautions::differing;
use super::super::{WORTH_SAYING, counted};
use super::ComparedTrace;
use crate::profile_sections::mark;
use trainmon_base::text::format::{step_time, whole_percent as percent};
use trainmon_diagnosis::diagnosis::verdict::Phase;
use trainmon_profiles::account::ProfileAccount;
use trainmon_profiles::comparison::Per;

/// Windows that differ by more than this factor cover other work.
const OTHER_WINDOW: f64 = 1.25;
/// A step that takes this many times as long as the median moves the mean.
const FAR_STEP: f64 = 1.5;

/// What to bear in mind of two traces.
pub(super) fn listed(sides: [&ComparedTrace<'_>; 2], per: Per) -> Vec<String> {
    let accounts = sides.map(|side| side.account);
    let of_step = |account: &ProfileAccount| if per == Per::Step { account.steps_by } else { None };
    let mut all: Vec<String> = differing([
        ("The GPUs", accounts.map(|account| gpu(account).unwrap_or_default())),
        ("The numbers of ranks", accounts.map(|account| number(account.world_size))),
        ("The ranks", accounts.map(|account| number(account.rank))),
        ("The steps", accounts.map(|account| of_step(account).map(mark).unwrap_or_default().to_owned())),
    ])
    .collect();
    let in_one = |is: fn(&ProfileAccount) -> bool| match accounts.map(is) {
        [before, after] if before == after => None,
        [before, _] => sides.into_iter().nth(usize::from(!before)).map(|side| &side.name),
    };
    let are_files = accounts.iter().all(|account| account.is_of_file());
    let by = |option: &str| if are_files { format!(" ({option})") } else { String::new() };
    let slows = |name, what: &str| format!("{what} in {name} alone, which slows the loop there.");
    all.extend(
        in_one(|account| !account.devices.is_empty()).map(|name| format!("Work on a GPU is in {name} alone.")),
    );
    all.extend(
        in_one(|account| account.with_stack)
            .map(|name| slows(name, &format!("Python functions were recorded{}", by("with_stack=True")))),
    );
    all.extend(
        in_one(|account| account.with_shapes)
            .map(|name| slows(name, &format!("Shapes were recorded{}", by("record_shapes=True")))),
    );
    if per == Per::Window {
        all.extend(other_windows(accounts));
    }
    let starting = sides.into_iter().filter(|side| matches!(side.verdict.phase, Phase::Init | Phase::Compile));
    all.extend(starting.map(|side| format!("{} covers start-up.", side.name)));
    all.extend(share_in_one(accounts.map(|account| account.compiling), "Compiling took"));
    all.extend(share_in_one(accounts.map(|account| account.overhead), "The profiler took"));
    all.extend(sides.into_iter().filter_map(far_step));
    for side in sides {
        all.extend(side.account.notes.iter().map(|note| format!("{}: {note}", side.name)));
    }
    all
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
    let names = account.devices.iter().map(|gpu| gpu.name.clone().unwrap_or_else(|| "unknown".to_owned()));
    Some(counted(names.collect())).filter(|names| !names.is_empty() && names != "unknown")
}

fn number(value: Option<u32>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
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

fn share_in_one(shares: [f64; 2], what: &str) -> Option<String> {
    let [before, after] = shares;
    let differs = (after - before).abs() >= WORTH_SAYING;
    differs.then(|| format!("{what} {}% of the time before, {}% after.", percent(before), percent(after)))
}
