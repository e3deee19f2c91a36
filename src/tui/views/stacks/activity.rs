//! How an activity is shown: a letter that is its texture, a word, and the colour of the kind of time it is.

use ratatui::style::Style;

use crate::rates::stacks::Activity;
use crate::rates::time_split::LoopActivity;
use crate::tui::theme::{Stage, Theme};

/// From left to right in bars: getting a batch, then work on it, then waits for others, then the rest.
pub const ORDER: [Activity; Activity::COUNT] = [
    Activity::Waiting,
    Activity::QueueWait,
    Activity::Receiving,
    Activity::LoaderStart,
    Activity::Load,
    Activity::Decode,
    Activity::Transform,
    Activity::Collate,
    Activity::HandOver,
    Activity::Copy,
    Activity::Forward,
    Activity::Backward,
    Activity::Optimizer,
    Activity::Graph,
    Activity::Sync,
    Activity::Collective,
    Activity::Checkpoint,
    Activity::Report,
    Activity::Compile,
    Activity::Import,
    Activity::Python,
];

/// Its letter: no two are alike.
pub fn letter(activity: Activity) -> char {
    match activity {
        Activity::Waiting => 'w',
        Activity::Receiving => 'r',
        Activity::LoaderStart => 'n',
        Activity::QueueWait => 'q',
        Activity::Load => 'l',
        Activity::Decode => 'd',
        Activity::Transform => 't',
        Activity::Collate => 'c',
        Activity::HandOver => 'h',
        Activity::Copy => 'y',
        Activity::Forward => 'f',
        Activity::Backward => 'b',
        Activity::Optimizer => 'o',
        Activity::Sync => 's',
        Activity::Collective => 'a',
        Activity::Checkpoint => 'k',
        Activity::Report => 'p',
        Activity::Compile => 'm',
        Activity::Import => 'i',
        Activity::Graph => 'g',
        Activity::Python => '.',
    }
}

/// Its word, of at most twelve cells.
pub fn word(activity: Activity) -> &'static str {
    match activity {
        Activity::LoaderStart => "new workers",
        Activity::QueueWait => "queue wait",
        Activity::HandOver => "hand over",
        Activity::Sync => "GPU wait",
        Activity::Python => "other code",
        other => other.word(),
    }
}

/// Its colour.
pub fn style(theme: Theme, activity: Activity) -> Style {
    match activity {
        Activity::Waiting | Activity::QueueWait | Activity::Receiving | Activity::LoaderStart => {
            theme.activity(LoopActivity::InputWait)
        }
        Activity::Load | Activity::HandOver => theme.stage(Stage::Io),
        Activity::Decode | Activity::Transform | Activity::Collate => theme.stage(Stage::Busy),
        Activity::Sync | Activity::Collective => theme.activity(LoopActivity::DeviceSync),
        Activity::Checkpoint => theme.activity(LoopActivity::Checkpoint),
        Activity::Copy | Activity::Forward | Activity::Backward | Activity::Optimizer | Activity::Graph => {
            theme.activity(LoopActivity::HostBusy)
        }
        Activity::Report | Activity::Compile | Activity::Import | Activity::Python => {
            theme.activity(LoopActivity::Other)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_activity_has_a_place_a_letter_and_a_short_word_of_its_own() {
        for activity in Activity::ALL {
            assert_eq!(ORDER.iter().filter(|other| **other == activity).count(), 1);
            let same = |other: &&Activity| letter(**other) == letter(activity) || word(**other) == word(activity);
            assert_eq!(ORDER.iter().filter(same).count(), 1, "{activity:?}");
            assert!(word(activity).len() <= 12);
        }
    }
}
