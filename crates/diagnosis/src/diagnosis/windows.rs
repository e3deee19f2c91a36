//! How far back a verdict looks.

/// Length of the long window, seconds.
pub(super) const LONG_S: f64 = 12.0;
/// Length of the short window, seconds.
pub(super) const SHORT_S: f64 = 4.0;
/// No window is longer, seconds.
pub(super) const LONGEST_S: f64 = 60.0;
