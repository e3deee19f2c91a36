//! What the loop's thread spends its wall time on, in five kinds: the one split that frames, verdicts, logs and screens
//! share. Nothing else lists the five by hand.

use std::ops::{AddAssign, Index, IndexMut};

use serde::{Deserialize, Serialize};

use crate::text::named_enum;

/// Makes [`LoopActivity`] and [`TimeSplit`] of the list of the kinds: variant, field, and what the loop does, for a person.
macro_rules! loop_activities {
    ($($(#[$doc:meta])+ $Activity:ident $field:ident $label:literal)+) => {
        named_enum! {
            /// One of the five kinds of time, in the order in which they are shown and logged, with what the loop does.
            pub enum LoopActivity { $($(#[$doc])+ $Activity = $label,)+ }
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
    /// Waiting for a batch, or loading it in the loop's own thread.
    InputWait input_wait "waits for a batch"
    /// Waiting for the device.
    DeviceSync device_sync "waits for the device"
    /// On the host: running, queueing for a CPU, or waiting for the process' own compute threads.
    HostBusy host_busy "works on the host"
    /// Saving state.
    Checkpoint checkpoint "saves state"
    /// Anything else.
    Other other "anything else"
}

impl TimeSplit {
    /// The numbers in the order of [`LoopActivity::ALL`].
    #[must_use]
    pub fn values(&self) -> [f64; LoopActivity::COUNT] {
        LoopActivity::ALL.map(|activity| self[activity])
    }

    /// The kinds with their numbers, in order.
    pub fn iter(&self) -> impl Iterator<Item = (LoopActivity, f64)> + use<> {
        LoopActivity::ALL.into_iter().zip(self.values())
    }

    /// The sum over the five.
    #[must_use]
    pub fn total(&self) -> f64 {
        self.values().iter().sum()
    }

    /// Every number changed by itself.
    #[must_use]
    pub fn map(&self, change: impl Fn(f64) -> f64) -> Self {
        self.values().map(change).into()
    }

    /// Shares of `whole`; none where there is nothing to share out.
    #[must_use]
    pub fn shares_of(&self, whole: f64) -> Option<Self> {
        (whole > 0.0).then(|| self.map(|seconds| seconds / whole))
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
#[allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
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
