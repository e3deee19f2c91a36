//! Levels shared by several rules of this folder, each with its unit and origin. A number used by one rule only is next
//! to that rule.

/// From this share on, something happens all the time: the rest are samples in between, and torn stacks.
pub const NEARLY_ALL: f64 = 0.85;
/// From this share on, a part characterizes the whole.
pub const MOSTLY: f64 = 0.5;
/// A share that is visible even when two shares are compared, each known to about 10 points.
pub const CLEARLY: f64 = 0.25;
/// A share beyond chance: a window has about 35 stacks, which give a share of 0.2 to within 14 points (two standard
/// errors).
pub const BEYOND_CHANCE: f64 = 0.2;
/// The smallest share worth pursuing: a smaller part of the loop's time costs little.
pub const WORTH_IT: f64 = 0.1;
/// A thread that computes, or a GPU that is used, for this share of the time is at work. Among the stacks of a window,
/// a smaller share is a single one by chance.
pub const WORKING_SHARE: f64 = 0.05;
/// Less than this share of the time, or this many CPUs, is next to nothing: rounding of clock ticks, or a process that
/// looks up its host's name now and then.
pub const NEXT_TO_NOTHING: f64 = 0.02;
/// Less than a single sample of a tick, share.
pub const LESS_THAN_SEEN: f64 = 0.01;
/// Half a clock tick of 10 ms in a second, share of the time: a thread that computes less does nothing. Starving loops
/// computed 0.009 and more, threads that slept or waited for requests 0.0006 and less.
pub const HALF_A_TICK: f64 = 0.005;

/// The weight of older ticks relative to the newest: half after seven ticks.
pub const FADE: f64 = 0.9;
/// What was seen in single samples fades to half in this many seconds.
const HALF_LIFE_S: f64 = 10.0;
/// What is left of it after this many seconds, 0–1.
pub fn faded(seconds: f64) -> f64 {
    0.5_f64.powf(seconds / HALF_LIFE_S)
}

/// Something seen for less than this, seconds, shows nothing.
pub const SEEN_S: f64 = 0.15;
/// An interval shorter than this, seconds, is too short for the steps of its counters.
pub const SHORT_INTERVAL_S: f64 = 0.5;
/// Once a millisecond, per second: faster than any loop takes steps, and than any wait that a sample can catch.
pub const EACH_MS: f64 = 1000.0;
/// Samples that may happen by chance.
pub const BY_CHANCE: f64 = 1.5;
