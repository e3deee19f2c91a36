//! How an activity is shown: a letter that is its texture, a word, and the colour of the kind of time it is.

use crate::rates::stacks::Activity;
use crate::rates::time_split::LoopActivity;
use crate::tui::theme::Look;

/// From left to right in bars, with their letters: getting a batch, then work on it, then waits for others, then the rest.
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

/// Its word, of at most twelve cells.
fn word(activity: Activity) -> &'static str {
    match activity {
        Activity::LoaderStart => "new workers",
        Activity::QueueWait => "queue wait",
        Activity::OtherWait => "other wait",
        Activity::HandOver => "hand over",
        Activity::Sync => "GPU wait",
        Activity::Python => "other code",
        other => other.word(),
    }
}

/// Its colour and its word.
pub fn look(activity: Activity) -> Look {
    let kind = match activity {
        Activity::Load | Activity::HandOver => Look::IO,
        Activity::Decode | Activity::Transform | Activity::Collate => Look::BUSY,
        Activity::Waiting | Activity::QueueWait | Activity::Receiving | Activity::LoaderStart => {
            Look::of(LoopActivity::InputWait)
        }
        Activity::Sync | Activity::Collective => Look::of(LoopActivity::DeviceSync),
        Activity::Copy | Activity::Forward | Activity::Backward | Activity::Optimizer | Activity::Graph => {
            Look::of(LoopActivity::HostBusy)
        }
        Activity::Checkpoint => Look::of(LoopActivity::Checkpoint),
        Activity::OtherWait | Activity::Report | Activity::Compile | Activity::Import | Activity::Python => {
            Look::of(LoopActivity::Other)
        }
    };
    Look { word: word(activity), ..kind }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_activity_has_a_place_a_letter_and_a_short_word_of_its_own() {
        for activity in Activity::ALL {
            assert_eq!(ORDER.iter().filter(|(other, _)| *other == activity).count(), 1);
            assert_eq!(ORDER.iter().filter(|(other, _)| word(*other) == word(activity)).count(), 1, "{activity:?}");
            assert!(word(activity).len() <= 12);
        }
        for (_, letter) in ORDER {
            assert_eq!(ORDER.iter().filter(|(_, other)| *other == letter).count(), 1, "{letter}");
        }
    }
}
