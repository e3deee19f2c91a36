//! What the loop spends its wall time on, in five kinds: the one split that frames, verdicts, logs and screens share.
//! No other code lists the five kinds.

use std::ops::{AddAssign, Index, IndexMut};

use serde::{Deserialize, Serialize};

use trainmon_base::text::named_enum;
use trainmon_rates::levels::LESS_THAN_SEEN;

/// Makes [`LoopActivity`] and [`TimeSplit`] from the list of the kinds: variant, field, what the loop is doing, the same in
/// one word, and the same as a verb.
macro_rules! loop_activities {
    ($($(#[$doc:meta])+ $Activity:ident $field:ident $label:literal $short:literal $verb:literal)+) => {
        named_enum! {
            /// One of the five kinds of time, in the order in which they are shown and logged. Its word is the one
            /// shown everywhere: on the screen, in reports and in the docs.
            pub enum LoopActivity { $($(#[$doc])+ $Activity = $label,)+ }
        }

        impl LoopActivity {
            /// Its key in the JSON, and the value of a metric's label.
            pub fn key(self) -> &'static str {
                match self { $(Self::$Activity => stringify!($field),)+ }
            }

            /// One word, for legends with little room.
            pub fn short(self) -> &'static str {
                match self { $(Self::$Activity => $short,)+ }
            }

            /// What the loop does, as a verb: "the loop waits for data".
            pub fn verb(self) -> &'static str {
                match self { $(Self::$Activity => $verb,)+ }
            }
        }

        /// A number for each kind of time: seconds of an interval, or shares of it.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
        #[serde(default)]
        pub struct TimeSplit { $($(#[$doc])+ pub $field: f64,)+ }

        impl From<[f64; LoopActivity::COUNT]> for TimeSplit {
            fn from([$($field),+]: [f64; LoopActivity::COUNT]) -> Self {
                Self { $($field),+ }
            }
        }

        impl Index<LoopActivity> for TimeSplit {
            type Output = f64;

            fn index(&self, activity: LoopActivity) -> &f64 {
                match activity { $(LoopActivity::$Activity => &self.$field),+ }
            }
        }

        impl IndexMut<LoopActivity> for TimeSplit {
            fn index_mut(&mut self, activity: LoopActivity) -> &mut f64 {
                match activity { $(LoopActivity::$Activity => &mut self.$field),+ }
            }
        }
    };
}

loop_activities! {
    /// Waiting for a batch, or loading it in the loop's thread.
    InputWait input_wait "waiting for data" "data" "waits for data"
    /// Waiting for the GPU.
    DeviceSync device_sync "waiting for the GPU" "GPU wait" "waits for the GPU"
    /// On the host: running, queueing for a CPU, or waiting for the process's own compute threads.
    HostBusy host_busy "own work" "work" "works"
    /// Saving state.
    Checkpoint checkpoint "saving" "saving" "saves"
    /// Anything else.
    Other other "other" "other" "does something else"
}

impl TimeSplit {
    /// The numbers in the order of [`LoopActivity::ALL`].
    pub fn values(&self) -> [f64; LoopActivity::COUNT] {
        LoopActivity::ALL.map(|activity| self[activity])
    }

    /// The kinds with their numbers, in order.
    pub fn iter(&self) -> impl Iterator<Item = (LoopActivity, f64)> + use<> {
        LoopActivity::ALL.into_iter().zip(self.values())
    }

    /// The sum over the five.
    pub fn total(&self) -> f64 {
        self.values().iter().sum()
    }

    /// Changes every number on its own.
    pub fn map(&self, change: impl Fn(f64) -> f64) -> Self {
        self.values().map(change).into()
    }

    /// Shares of `whole`; `None` if there is nothing to share out.
    pub fn shares_of(&self, whole: f64) -> Option<Self> {
        (whole > 0.0).then(|| self.map(|seconds| seconds / whole))
    }
}

/// A kind's idle part is never assumed to be all or nothing, so that any total can be met.
const LEAST_PART: f64 = 1e-3;
/// Halvings that find the factor to within rounding.
const HALVINGS: u32 = 60;

/// A GPU's use and the loop's time, sampled together: seconds by kind, and how many of them had the GPU idle.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Overlapped {
    /// Seconds of the loop.
    pub seconds: TimeSplit,
    /// Of these, with the GPU idle.
    pub idle: TimeSplit,
}

impl Overlapped {
    /// The GPU's idle time by what the loop did meanwhile, if the loop's time is `split` and the GPU is idle for
    /// `total` of it, in the same unit. It is the one table that has these margins and is as close as possible to what
    /// was sampled (iterative proportional fitting): the parts add up to `total`, and none is longer than its kind of
    /// time or shorter than the GPU's use allows. A wait for the GPU that was not sampled as one counts as busy time.
    pub fn idle_during(&self, split: &TimeSplit, total: f64) -> TimeSplit {
        let whole = split.total();
        if whole.is_nan() || whole <= 0.0 {
            return TimeSplit::default();
        }
        let total = total.clamp(0.0, whole);
        // A kind of time that was sampled only once or twice says little about the GPU's use during it.
        let beside = LESS_THAN_SEEN * self.seconds.total().max(f64::MIN_POSITIVE);
        // Odds of idle to busy during each kind.
        let odds = LoopActivity::ALL.map(|activity| {
            let expected = if activity == LoopActivity::DeviceSync { 0.0 } else { total / whole };
            let part = (self.idle[activity] + beside * expected) / (self.seconds[activity] + beside);
            let part = part.clamp(LEAST_PART, 1.0 - LEAST_PART);
            part / (1.0 - part)
        });
        let idle = |factor: f64| -> TimeSplit {
            let parts = odds.map(|odds| 1.0 / (1.0 + 1.0 / (odds * factor)));
            let mut values = split.values();
            values.iter_mut().zip(parts).for_each(|(value, part)| *value *= part);
            values.into()
        };
        // The sum rises with the factor.
        let (mut low, mut high) = (-40.0_f64, 40.0_f64);
        for _ in 0..HALVINGS {
            let middle = (low + high) / 2.0;
            if idle(middle.exp()).total() < total { low = middle } else { high = middle }
        }
        idle(((low + high) / 2.0).exp())
    }
}

impl AddAssign for Overlapped {
    fn add_assign(&mut self, more: Self) {
        self.seconds += more.seconds;
        self.idle += more.idle;
    }
}

impl AddAssign for TimeSplit {
    fn add_assign(&mut self, more: Self) {
        for (activity, value) in more.iter() {
            self[activity] += value;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_and_names_agree() {
        let split = TimeSplit::from([0.1, 0.2, 0.3, 0.15, 0.25]);
        let json = serde_json::to_value(split).unwrap();
        let names = ["input_wait", "device_sync", "host_busy", "checkpoint", "other"];
        for (name, (_, value)) in names.into_iter().zip(split.iter()) {
            assert_eq!(json[name], value);
        }
        assert_eq!(json.as_object().unwrap().len(), LoopActivity::COUNT);
        assert_eq!(serde_json::from_value::<TimeSplit>(json).unwrap(), split);
        assert!((split.total() - 1.0).abs() < 1e-12);
    }

    fn split(values: [f64; LoopActivity::COUNT]) -> TimeSplit {
        values.into()
    }

    #[test]
    fn idle_time_follows_a_corrected_split() {
        // All of it looked like work; stacks show batches being made, and a wait that spins.
        let sampled =
            Overlapped { seconds: split([0.0, 0.0, 1.0, 0.0, 0.0]), idle: split([0.0, 0.0, 0.7, 0.0, 0.0]) };
        let idle = sampled.idle_during(&split([0.6, 0.25, 0.15, 0.0, 0.0]), 0.7);
        assert!((idle.total() - 0.7).abs() < 1e-6, "{idle:?}");
        assert!(idle.input_wait > 0.5 && idle.device_sync < 0.02 && idle.host_busy > 0.1, "{idle:?}");
        // Nothing to correct: what was sampled.
        let sampled =
            Overlapped { seconds: split([0.5, 0.3, 0.2, 0.0, 0.0]), idle: split([0.45, 0.01, 0.1, 0.0, 0.0]) };
        let idle = sampled.idle_during(&sampled.seconds, 0.56);
        assert!(idle.values().into_iter().zip(sampled.idle.values()).all(|(a, b)| (a - b).abs() < 0.02), "{idle:?}");
        assert_eq!(sampled.idle_during(&TimeSplit::default(), 0.5), TimeSplit::default());
    }

    proptest::proptest! {
        #[test]
        fn parts_of_idle_time_fit_whatever_was_sampled(
            seconds in proptest::array::uniform5(0.0..1.0_f64),
            parts in proptest::array::uniform5(0.0..1.0_f64),
            shares in proptest::array::uniform5(0.0..1.0_f64),
            total in 0.0..1.0_f64,
        ) {
            let whole: f64 = shares.iter().sum();
            proptest::prop_assume!(whole > 0.01);
            let split = TimeSplit::from(shares.map(|share| share / whole));
            let mut idle = seconds;
            idle.iter_mut().zip(parts).for_each(|(idle, part)| *idle *= part);
            let sampled = Overlapped { seconds: seconds.into(), idle: idle.into() };
            let found = sampled.idle_during(&split, total);
            proptest::prop_assert!((found.total() - total).abs() < 1e-3, "{found:?}");
            for (activity, part) in found.iter() {
                let share = split[activity];
                proptest::prop_assert!(part <= share.min(total) + 1e-3 && part >= (share + total - 1.0).max(0.0) - 1e-3);
            }
        }
    }

    #[test]
    fn sums_and_shares() {
        let mut sum = TimeSplit { input_wait: 1.0, other: 1.0, ..TimeSplit::default() };
        sum += TimeSplit { input_wait: 2.0, ..TimeSplit::default() };
        assert_eq!(sum.shares_of(4.0).unwrap().input_wait, 0.75);
        assert_eq!(sum.shares_of(0.0), None);
        sum[LoopActivity::Other] = 5.0;
        assert_eq!(sum.values(), [3.0, 0.0, 0.0, 0.0, 5.0]);
    }
}
