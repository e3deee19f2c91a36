//! The events of a run as a story: what was so, from when until when, and how it ended. Its memory does not grow with the length of a
//! run.

use serde::{Deserialize, Serialize};

use super::{EventDetails, EventKind, EventState, JobEnd, WatchEvent};

/// Most episodes that are kept: the longest ones.
const EPISODES_KEPT: usize = 64;
/// Most lines of output: a recording may say anything.
const LINES_KEPT: usize = 10;
/// Longest text of an episode, characters.
const TEXT_MOST: usize = 400;

/// What of an event a story needs. A recording keeps these.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StoryEvent {
    /// Wall clock, milliseconds since 1970.
    pub unix_ms: i64,
    kind: EventKind,
    state: Option<EventState>,
    /// What it is about, where there are several of its kind at a time: a GPU, a rank.
    about: String,
    text: String,
    lasted_s: Option<f64>,
    end: Option<JobEnd>,
}

impl StoryEvent {
    /// Of an event; `None` for those that belong to no story.
    pub fn of_event(event: &WatchEvent) -> Option<Self> {
        let (about, lasted_s, end) = match &event.details {
            EventDetails::Attached { .. } | EventDetails::Profile { .. } => return None,
            EventDetails::Hung { lasted_s, .. } | EventDetails::Bottleneck { lasted_s, .. } => {
                (String::new(), Some(*lasted_s), None)
            }
            EventDetails::Memory { place, gpu, .. } => {
                (format!("{place}{}", gpu.map(|gpu| gpu.to_string()).unwrap_or_default()), None, None)
            }
            EventDetails::ThrottledGpu { gpu, .. } | EventDetails::GpuError { gpu, .. } => {
                (gpu.to_string(), None, None)
            }
            EventDetails::LateRank { .. } => {
                (event.training_pid.map(|pid| pid.to_string()).unwrap_or_default(), None, None)
            }
            EventDetails::Ended { end, .. } => (String::new(), None, Some(end.clone())),
            _ => (String::new(), None, None),
        };
        // What was there before is the episode before.
        let text = event.text.split(" (before: ").next().unwrap_or_default().to_owned();
        Some(Self { unix_ms: event.unix_ms, kind: event.kind, state: event.state, about, text, lasted_s, end })
    }
}

/// Something that was so for a time.
#[derive(Debug, Clone, PartialEq)]
pub struct Episode {
    /// Of which kind.
    pub kind: EventKind,
    /// What was so.
    pub text: String,
    /// Wall clock when it began, milliseconds since 1970.
    pub from_unix_ms: i64,
    /// Wall clock when it ended; `None` if it had not, or is but a moment.
    pub until_unix_ms: Option<i64>,
    about: String,
    is_open: bool,
}

impl Episode {
    /// Its length until it ended, or else until `now`; `None` for a moment. Seconds.
    pub fn seconds(&self, now_unix_ms: i64) -> Option<f64> {
        let until = if self.is_open { Some(now_unix_ms) } else { self.until_unix_ms }?;
        Some(until.saturating_sub(self.from_unix_ms).max(0) as f64 / 1000.0)
    }
}

/// What happened in a run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RunStory {
    /// In the order in which they were told, the longest ones if there were too many.
    episodes: Vec<Episode>,
    /// Those that are left out.
    pub dropped: u64,
    /// How it ended, and when, milliseconds since 1970; `None` for a run that goes on, or that was not watched to its end.
    pub end: Option<(i64, JobEnd)>,
}

impl RunStory {
    /// Adds an event.
    pub fn push(&mut self, event: &WatchEvent) {
        if let Some(told) = StoryEvent::of_event(event) {
            self.add(told);
        }
    }

    /// Adds what was told.
    pub fn add(&mut self, told: StoryEvent) {
        let StoryEvent { unix_ms, kind, state, about, text, lasted_s, end } = told;
        if let Some(mut end) = end {
            end.output_lines.truncate(LINES_KEPT);
            self.end = Some((unix_ms, end));
            return;
        }
        let lasted_ms = lasted_s.map_or(0, |seconds| (seconds * 1000.0) as i64);
        let from_unix_ms = unix_ms.saturating_sub(lasted_ms);
        let open = self.episodes.iter_mut().find(|open| open.is_open && open.kind == kind && open.about == about);
        // Where watching was taken up again, the same is told anew.
        if open.as_ref().is_some_and(|open| open.text == text && state != Some(EventState::Ends)) {
            return;
        }
        if let Some(open) = open {
            // The end of a standstill says for how long it was; that of a bottleneck, for how long there has been another.
            let ends_standstill = kind == EventKind::Hung && state == Some(EventState::Ends);
            let until = if ends_standstill { open.from_unix_ms.saturating_add(lasted_ms) } else { from_unix_ms };
            (open.is_open, open.until_unix_ms) = (false, Some(until));
        }
        if state == Some(EventState::Ends) {
            return;
        }
        let text = text.chars().take(TEXT_MOST).collect();
        let is_open = state.is_some();
        self.episodes.push(Episode { kind, text, from_unix_ms, until_unix_ms: None, about, is_open });
        if self.episodes.len() > EPISODES_KEPT {
            self.drop_shortest(unix_ms);
        }
    }

    fn drop_shortest(&mut self, now_unix_ms: i64) {
        let length = |episode: &Episode| episode.seconds(now_unix_ms).unwrap_or(0.0);
        let closed = self.episodes.iter().enumerate().filter(|(_, episode)| !episode.is_open);
        let shortest = closed.min_by(|a, b| length(a.1).total_cmp(&length(b.1))).map_or(0, |(place, _)| place);
        self.episodes.remove(shortest);
        self.dropped += 1;
    }

    /// What happened, by when it began.
    pub fn episodes(&self) -> Vec<&Episode> {
        let mut all: Vec<&Episode> = self.episodes.iter().collect();
        all.sort_by_key(|episode| episode.from_unix_ms);
        all
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::diagnosis::verdict::Phase;

    fn event(second: i64, kind: EventKind, state: EventState, text: &str, details: EventDetails) -> WatchEvent {
        WatchEvent { unix_ms: second * 1000, ..WatchEvent::new(kind, Some(state), text.into(), details) }
    }

    fn hung(second: i64, state: EventState, lasted_s: f64) -> WatchEvent {
        event(second, EventKind::Hung, state, "The loop hangs.", EventDetails::Hung { phase: Phase::Hung, lasted_s })
    }

    fn gpu(second: i64, state: EventState, gpu: u32) -> WatchEvent {
        let details = EventDetails::ThrottledGpu {
            gpu,
            reasons: Vec::new(),
            temperature_c: None,
            sm_clock_mhz: None,
            sm_clock_max_mhz: None,
        };
        event(second, EventKind::Throttled, state, &format!("GPU {gpu} is held down"), details)
    }

    fn story(events: &[WatchEvent]) -> RunStory {
        let mut story = RunStory::default();
        events.iter().for_each(|event| story.push(event));
        story
    }

    fn told(story: &RunStory, now_s: i64) -> Vec<(i64, Option<f64>, &str)> {
        let episodes = story.episodes().into_iter();
        episodes.map(|one| (one.from_unix_ms / 1000, one.seconds(now_s * 1000), &*one.text)).collect()
    }

    #[test]
    fn begins_and_ends_are_episodes_from_when_it_was_so() {
        let story = story(&[
            hung(130, EventState::Begins, 30.0),
            gpu(140, EventState::Begins, 1),
            gpu(150, EventState::Begins, 0),
            hung(400, EventState::Ends, 300.0),
            gpu(450, EventState::Ends, 1),
        ]);
        assert_eq!(
            told(&story, 500),
            [
                (100, Some(300.0), "The loop hangs."),
                (140, Some(310.0), "GPU 1 is held down"),
                (150, Some(350.0), "GPU 0 is held down"),
            ]
        );
    }

    #[test]
    fn what_is_told_again_is_one_episode() {
        let again = [gpu(140, EventState::Begins, 1), gpu(200, EventState::Begins, 1), gpu(240, EventState::Ends, 1)];
        assert_eq!(told(&story(&again), 500), [(140, Some(100.0), "GPU 1 is held down")]);
    }

    #[test]
    fn many_episodes_leave_the_longest_ones() {
        let long = [hung(0, EventState::Begins, 0.0), hung(9000, EventState::Ends, 9000.0)];
        let short = (10_000..11_000)
            .flat_map(|at| [gpu(at * 10, EventState::Begins, 0), gpu(at * 10 + 5, EventState::Ends, 0)]);
        let story = story(&long.into_iter().chain(short).collect::<Vec<_>>());
        assert_eq!((story.episodes().len(), story.dropped), (EPISODES_KEPT, 1001 - EPISODES_KEPT as u64));
        assert_eq!(told(&story, 200_000)[0], (0, Some(9000.0), "The loop hangs."));
    }

    proptest! {
        #[test]
        fn any_events_stay_few(events in prop::collection::vec((any::<i64>(), 0usize..3, any::<f64>(), any::<bool>()), 0..300)) {
            let mut story = RunStory::default();
            for (unix_ms, state, lasted_s, is_gpu) in events {
                let state = EventState::ALL[state];
                let event = if is_gpu { gpu(0, state, 0) } else { hung(0, state, lasted_s) };
                story.push(&WatchEvent { unix_ms, ..event });
            }
            prop_assert!(story.episodes().len() <= EPISODES_KEPT);
            prop_assert!(story.episodes().iter().all(|one| one.seconds(i64::MAX).is_none_or(|seconds| seconds >= 0.0)));
        }
    }
}
