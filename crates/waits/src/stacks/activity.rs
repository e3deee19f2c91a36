//! What a thread was doing according to its stack, and counts of samples by activity.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use trainmon_base::text::named_enum;

named_enum! {
    /// What a thread was doing.
    pub enum Activity {
        /// Training process: waiting for a batch. Worker: waiting for an index.
        Waiting = "waiting",
        /// Training process: receiving a batch, unpickling it.
        Receiving = "receiving",
        /// Training process: making an iterator, starting workers.
        LoaderStart = "loader_start",
        /// Waiting for one of the program's own queues.
        QueueWait = "queue_wait",
        /// Waiting for something that the code does not name: a future, a pipe, an event loop, a child.
        OtherWait = "other_wait",
        /// Reading samples.
        Load = "load",
        /// Decoding them.
        Decode = "decode",
        /// Transforming them.
        Transform = "transform",
        /// Collating them into a batch.
        Collate = "collate",
        /// Sending a batch.
        HandOver = "hand_over",
        /// Moving a batch to the GPU.
        Copy = "copy",
        /// Forward pass.
        Forward = "forward",
        /// Backward pass.
        Backward = "backward",
        /// Optimizer, scheduler, gradient clipping and scaling.
        Optimizer = "optimizer",
        /// Waiting for the GPU in a call made for that.
        Sync = "sync",
        /// Collectives.
        Collective = "collective",
        /// Saving state.
        Checkpoint = "checkpoint",
        /// Logging, metrics, progress bars, callbacks.
        Report = "report",
        /// Compiling.
        Compile = "compile",
        /// Importing modules.
        Import = "import",
        /// A compiled call that contains the whole step, including fetching its batch (Keras on TensorFlow).
        Graph = "graph",
        /// Anything else: the user's own code, or the framework's.
        Python = "python",
    }
}

impl Activity {
    /// Whether it makes a batch; in a training process this means loading in the process itself.
    pub fn is_loading(self) -> bool {
        matches!(self, Self::Load | Self::Decode | Self::Transform | Self::Collate)
    }

    /// Whether it is part of getting a batch.
    pub fn is_input(self) -> bool {
        self.is_loading() || matches!(self, Self::Waiting | Self::Receiving | Self::LoaderStart | Self::QueueWait)
    }
}

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

    /// Adds another count.
    pub fn merge(&mut self, other: &Self) {
        for (sum, samples) in self.0.iter_mut().zip(other.0) {
            *sum = sum.saturating_add(samples);
        }
    }
}
