//! Differences of counters, and finding the same process or thread in two samples.

use std::collections::HashMap;
use std::hash::Hash;

/// Later minus earlier; `None` if one is missing or the counter went backwards.
pub fn delta(now: Option<u64>, before: Option<u64>) -> Option<u64> {
    now?.checked_sub(before?)
}

/// Seconds between two readings; `None` without an earlier one, or if the clock did not advance (a stale part).
pub fn span(before_ns: Option<u64>, now_ns: u64) -> Option<f64> {
    now_ns.checked_sub(before_ns?).filter(|ns| *ns > 0).map(|ns| ns as f64 / 1e9)
}

/// Difference per second.
pub fn rate(now: Option<u64>, before: Option<u64>, seconds: Option<f64>) -> Option<f64> {
    Some(delta(now, before)? as f64 / seconds?)
}

/// `part / whole` as a share 0–1; 0 if both are 0.
pub fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { (part as f64 / whole as f64).clamp(0.0, 1.0) }
}

/// Adds a known value; the total stays `None` as long as no value is known.
pub fn add(total: &mut Option<f64>, value: Option<f64>) {
    if let Some(value) = value {
        *total = Some(total.unwrap_or(0.0) + value);
    }
}

/// Scheduler counts for one or more threads: nanoseconds on a CPU, and queueing for one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Scheduled {
    /// On a CPU.
    pub on_cpu: u64,
    /// Queueing.
    pub delay: u64,
}

impl Scheduled {
    /// Adds a known value; the total stays `None` as long as no value is known.
    pub fn add(total: &mut Option<Self>, more: Option<Self>) {
        let Some(more) = more else { return };
        let all = total.get_or_insert_default();
        all.on_cpu = all.on_cpu.saturating_add(more.on_cpu);
        all.delay = all.delay.saturating_add(more.delay);
    }

    /// Share of the runnable time spent queueing, 0–1.
    pub fn delay_share(self) -> f64 {
        share(self.delay, self.delay.saturating_add(self.on_cpu))
    }

    /// On a CPU or queueing, seconds.
    pub fn seconds(self) -> f64 {
        (self.on_cpu as f64 + self.delay as f64) / 1e9
    }
}

/// A struct of rates: the named fields come from a sample, the others from `base` or from defaults.
#[macro_export]
macro_rules! copied {
    ($from:expr, $base:expr => $type:ident: $($field:ident)*) => {
        $type { $($field: $from.$field.clone(),)* ..$base }
    };
    ($from:expr => $type:ident: $($field:ident)*) => { $crate::copied!($from, $type::default() => $type: $($field)*) };
}
pub use copied;

/// Processes, threads or GPUs of an earlier sample, by their identity.
pub fn by_key<T, K: Eq + Hash>(items: &[T], key: impl Fn(&T) -> K) -> HashMap<K, &T> {
    items.iter().map(|item| (key(item), item)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_checked() {
        assert_eq!(delta(Some(5), Some(3)), Some(2));
        assert_eq!(delta(Some(3), Some(5)), None);
        assert_eq!(delta(None, Some(5)), None);
        assert_eq!(span(Some(5), 5), None);
        assert_eq!(span(None, 5), None);
        assert_eq!(span(Some(0), 500_000_000), Some(0.5));
        assert_eq!(rate(Some(10), Some(4), Some(2.0)), Some(3.0));
        assert_eq!(rate(Some(10), Some(4), None), None);
        assert_eq!(share(0, 0), 0.0);
    }
}
