//! The path of a thread's time: from the user's line through a library's stage to the innermost function that takes a large part.

use trainmon_base::text::sanitize;
use trainmon_libraries::Library;
use trainmon_sample::stacks::NAME;
use trainmon_waits::stacks::{CallTree, CodeCall, MODULE};

use super::parts::Hottest;
use super::thresholds::*;
use trainmon_base::stats::round;

thresholds! {
    NAMED = 0.10, "share", "a line with less than a tenth of the time is not worth naming";
    LARGE_PART = 0.25, "of the loop's own time", "a function with less of it is one of many";
    VISIBLE_PART = 0.10, "of the loop's own time", "below a function that takes all, the largest one is named even if it is one of many";
    EVERYTHING = 0.90, "of the loop's own time", "a function with more of it says only that the loop is in it";
}

/// At most three functions: the user's last one on the heaviest path, the one where the time divides, and the innermost one that
/// takes a large part. `share` is the weight of a number of samples.
pub(super) fn path(calls: &CallTree, share: impl Fn(u32) -> f64) -> Vec<Hottest> {
    let part = |call: &CodeCall| f64::from(call.samples) / f64::from(calls.samples.max(1));
    let heaviest = calls.heaviest((VISIBLE_PART.value * f64::from(calls.samples)).ceil() as u32);
    // Beyond a large part, only what is directly below a function that takes all.
    let below_all =
        |at: usize| at.checked_sub(1).and_then(|at| heaviest.get(at)).is_none_or(|call| part(call) >= EVERYTHING);
    let told = heaviest.iter().enumerate().take_while(|(at, call)| part(call) >= LARGE_PART || below_all(*at));
    let told: Vec<&CodeCall> = told.map(|(_, call)| *call).collect();
    let Some(innermost) = told.len().checked_sub(1) else { return Vec::new() };
    let users_last = told.iter().rposition(|call| call.is_user());
    // Where the time divides, what only passes nearly all of it on says no more than what it calls.
    let passes_on = |at: usize| {
        told.get(at).zip(told.get(at + 1)).is_some_and(|(call, called)| {
            !call.is_user() && f64::from(called.samples) >= EVERYTHING.value * f64::from(call.samples)
        })
    };
    let divides = told.iter().position(|call| part(call) < EVERYTHING);
    let divides = divides.and_then(|first| (first..=innermost).find(|at| !passes_on(*at)));
    let mut places: Vec<usize> = users_last.into_iter().chain(divides).chain([innermost]).collect();
    // The user's innermost function may be the innermost of all: then the one around it says where that is.
    if users_last == Some(innermost) {
        let around = told.iter().take(innermost).rposition(|call| call.is_user() && part(call) >= EVERYTHING);
        places.extend(around);
    }
    places.sort_unstable();
    places.dedup();
    let short = |text: &str| sanitize(text).chars().take(NAME).collect();
    let hottest = |call: &CodeCall| Hottest {
        function: short(&call.function),
        file: short(call.file.rsplit('/').next().unwrap_or_default()),
        line: call.line,
        share: round(share(call.samples), 3),
    };
    places.into_iter().filter_map(|at| told.get(at).copied().map(hottest)).collect()
}

/// Whether a function of the user's takes all of the time because it calls what runs the loop: it is the outermost one, or a library
/// of the table runs below it.
pub(super) fn only_calls(calls: &CallTree, own: &Hottest) -> bool {
    let heaviest = calls.heaviest((EVERYTHING.value * f64::from(calls.samples)).ceil() as u32);
    let is_own = |call: &&CodeCall| *call.function == *own.function && call.file.ends_with(&own.file);
    let Some(at) = heaviest.iter().position(is_own) else { return false };
    let (around, below) = heaviest.split_at(at);
    // A function without the loop's waits is one of several that the loop calls.
    let takes_all = own.share >= EVERYTHING;
    let is_outermost = takes_all && !around.iter().any(|call| call.is_user() && &*call.function != MODULE);
    let runs = |call: &&CodeCall| Library::running(&call.file, &call.function).is_some();
    is_outermost || below.iter().any(runs)
}
