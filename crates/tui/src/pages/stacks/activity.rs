//! How an activity is shown: a letter as its texture, a word, and the color of its kind of time.

use ratatui::style::Style;

use crate::theme::{Look, Theme, WithLook};
use trainmon_waits::stacks::{Activities, Activity};
use trainmon_waits::time_split::LoopActivity;

/// In the order of bars, with their letters: getting a batch, work on it, waits for others, the rest.
pub const ORDER: [(Activity, char); Activity::COUNT] = [
    (Activity::Waiting, 'w'),
    (Activity::QueueWait, 'q'),
    (Activity::Receiving, 'r'),
    (Activity::LoaderStart, 'n'),
    (Activity::Load, 'l'),
    (Activity::Decode, 'd'),
    (Activity::Transform, 't'),
    (Activity::Collate, 'c'),
    (Activity::HandOver, 'h'),
    (Activity::Copy, 'y'),
    (Activity::Forward, 'f'),
    (Activity::Backward, 'b'),
    (Activity::Optimizer, 'o'),
    (Activity::Fit, 'x'),
    (Activity::Generate, 'u'),
    (Activity::Environment, 'v'),
    (Activity::Graph, 'g'),
    (Activity::Sync, 's'),
    (Activity::Collective, 'a'),
    (Activity::OtherWait, 'e'),
    (Activity::Checkpoint, 'k'),
    (Activity::Report, 'p'),
    (Activity::Compile, 'm'),
    (Activity::Import, 'i'),
    (Activity::Python, '.'),
];

/// Each activity with its character in bars and legends, its style, and its part of the samples, in the order of bars. Activities of
/// one kind have its color in two shades by turns, so that each differs from the next.
pub fn parts(activities: &Activities, theme: Theme) -> Vec<(Activity, char, Style, f64)> {
    let total = activities.total().max(1) as f64;
    let mut seen: Vec<Look> = Vec::new();
    let some =
        ORDER.into_iter().map(|(activity, letter)| (activity, letter, f64::from(activities.get(activity)) / total));
    let part = |(activity, letter, share): (Activity, char, f64)| {
        let look = activity.look();
        let nth = seen.iter().filter(|other| other.slot == look.slot).count();
        seen.push(look);
        let style = if nth.is_multiple_of(2) { theme.style(look) } else { theme.filled(look, 0.0) };
        (activity, if theme.is_solid() { '█' } else { letter }, style, share)
    };
    some.filter(|(.., share)| *share > 0.0).map(part).collect()
}

impl WithLook for Activity {
    /// Its color, by kind of time, and its word, at most twelve cells.
    fn look(self) -> Look {
        let kind = match self {
            Self::Load | Self::HandOver => Look::IO,
            Self::Decode | Self::Transform | Self::Collate => Look::BUSY,
            Self::Waiting | Self::QueueWait | Self::Receiving | Self::LoaderStart => LoopActivity::InputWait.look(),
            Self::Sync | Self::Collective => LoopActivity::DeviceSync.look(),
            Self::Copy
            | Self::Forward
            | Self::Backward
            | Self::Optimizer
            | Self::Fit
            | Self::Generate
            | Self::Environment
            | Self::Graph => LoopActivity::HostBusy.look(),
            Self::Checkpoint => LoopActivity::Checkpoint.look(),
            Self::OtherWait | Self::Report | Self::Compile | Self::Import | Self::Python => {
                LoopActivity::Other.look()
            }
        };
        let word = match self {
            Self::LoaderStart => "new workers",
            Self::QueueWait => "queue wait",
            Self::OtherWait => "other wait",
            Self::HandOver => "send",
            Self::Sync => "GPU wait",
            Self::Python => "other code",
            other => other.word(),
        };
        Look { word, ..kind }
    }
}
