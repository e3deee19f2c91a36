//! Levels that several rules of this folder share, each with its unit and where it comes from. The number of one rule alone stands
//! beside that rule.

/// Share from which something is so all the time: the rest are samples in between, and torn stacks.
pub(super) const NEARLY_ALL: f64 = 0.85;
/// The larger part says what the whole is, share.
pub(super) const MOSTLY: f64 = 0.5;
/// Share that is seen also where two shares are held against each other, each of them known to some 10 points.
pub(super) const CLEARLY: f64 = 0.25;
/// Share beyond chance: a window holds some 35 stacks, which know a share of 0.2 to within 14 points (two standard errors).
pub(super) const BEYOND_CHANCE: f64 = 0.2;
/// The least share that is worth following up: less of a loop's time costs it little.
pub(super) const WORTH_IT: f64 = 0.1;
/// A thread that computes, or a device that is used, for this share of the time is at work. Of the stacks of a window less than this
/// is one by chance.
pub(super) const WORKING_SHARE: f64 = 0.05;
/// Less than this share of the time, or so many cores, is next to nothing: what clock ticks are rounded by, or a process that asks
/// for the name of its host now and then.
pub(super) const NEXT_TO_NOTHING: f64 = 0.02;
/// Less than a single sample of a tick, share.
pub(super) const LESS_THAN_SEEN: f64 = 0.01;
/// Half a clock tick of 10 ms in a second, share of the time: a thread that computes less does nothing. Loops that starved computed
/// 0.009 and more, threads that slept or waited for requests 0.0006 and less.
pub(super) const HALF_A_TICK: f64 = 0.005;

/// What older ticks count against the newest: half after seven ticks.
pub(super) const FADE: f64 = 0.9;
/// What was seen in single samples fades to a half in so many seconds.
const HALF_LIFE_S: f64 = 10.0;
/// What is left of that after so many seconds, 0–1.
pub(super) fn faded(seconds: f64) -> f64 {
    0.5_f64.powf(seconds / HALF_LIFE_S)
}

/// Shorter than this, seconds, something was seen for too short to say anything.
pub(super) const SEEN_S: f64 = 0.15;
/// Shorter than this, seconds, an interval is too short for the steps of what is counted in it.
pub(super) const SHORT_INTERVAL_S: f64 = 0.5;
/// Once a millisecond, per second: faster than any loop takes steps, and than a wait that a sample can see.
pub(super) const EACH_MS: f64 = 1000.0;
/// Samples in which something may be seen by chance.
pub(super) const BY_CHANCE: f64 = 1.5;
