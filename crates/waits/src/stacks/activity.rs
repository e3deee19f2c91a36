//! Counts of samples by what a thread was doing according to its stack.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::taxonomy::Activity;

/// Samples by activity; in JSON an object with the activities that occurred.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "BTreeMap<Activity, u32>", into = "BTreeMap<Activity, u32>")]
pub struct Activities([u32; Activity::COUNT]);

impl From<BTreeMap<Activity, u32>> for Activities {
    fn from(map: BTreeMap<Activity, u32>) -> Self {
        let mut activities = Self::default();
        map.into_iter().for_each(|(activity, samples)| activities.add(activity, samples));
        activities
    }
}

impl From<Activities> for BTreeMap<Activity, u32> {
    fn from(activities: Activities) -> Self {
        activities.iter().filter(|(_, samples)| *samples > 0).collect()
    }
}

impl Activities {
    /// Samples of one activity.
    pub fn get(&self, activity: Activity) -> u32 {
        self.0.get(activity.index()).copied().unwrap_or(0)
    }

    /// The activities with their samples, in order.
    pub fn iter(&self) -> impl Iterator<Item = (Activity, u32)> + use<> {
        Activity::ALL.into_iter().zip(self.0)
    }

    /// Samples in all.
    pub fn total(&self) -> u64 {
        self.0.iter().map(|samples| u64::from(*samples)).sum()
    }

    /// Samples of the activities of a kind.
    pub fn samples_where(&self, wanted: impl Fn(Activity) -> bool) -> u64 {
        self.iter().filter(|(activity, _)| wanted(*activity)).map(|(_, samples)| u64::from(samples)).sum()
    }

    /// Adds samples.
    pub fn add(&mut self, activity: Activity, samples: u32) {
        if let Some(count) = self.0.get_mut(activity.index()) {
            *count = count.saturating_add(samples);
        }
    }

    /// Counts samples of one activity as another's.
    pub fn move_samples(&mut self, from: Activity, to: Activity, samples: u32) {
        let samples = samples.min(self.get(from));
        if let Some(count) = self.0.get_mut(from.index()) {
            *count -= samples;
        }
        self.add(to, samples);
    }

    /// Adds another count.
    pub fn merge(&mut self, other: &Self) {
        for (sum, samples) in self.0.iter_mut().zip(other.0) {
            *sum = sum.saturating_add(samples);
        }
    }
}
