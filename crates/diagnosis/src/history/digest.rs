//! A stretch of a run as bytes: what [`WholeRun`] needs of it, a hundredth of its samples. A recording holds one for every few
//! minutes, so that a day of it is summed up within a second.
//!
//! It holds verdicts, and is good only for the version of trainmon that made it: another one judges the samples anew.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::environment::Environment;
use super::interval::Interval;
use super::packed;
use super::run::WholeRun;
use crate::diagnosis::Verdict;
use crate::pipeline::{Tick, same_cause};
use crate::watch::{StoryEvent, WatchOptions, Watcher};
use trainmon_waits::Frame;

/// Changes with what a digest holds. Every digest begins with it and the version of trainmon.
const DIGEST_FORMAT: u32 = 3;
/// More classes and causes than there are: a digest with more verdicts is not trainmon's.
const VERDICTS: usize = 500;
/// Most events of one digest.
const MOST_TOLD: usize = 200;

/// The begin of a digest, which is not rounded.
#[derive(Debug, Serialize, Deserialize)]
struct DigestHead {
    format: u32,
    trainmon: String,
    /// As in [`Digested`].
    sequence: u64,
    environment: Environment,
    /// One for each class and cause, the newest.
    verdicts: Vec<Arc<Verdict>>,
    /// What was told in it.
    told: Vec<StoryEvent>,
}

/// What is rounded: the place of its verdict and the numbers of each interval, and the last frame.
type DigestBody = (Vec<(u16, Interval)>, Arc<Frame>);

/// Gathers the ticks of one digest.
#[derive(Debug)]
pub struct DigestWriter {
    environment: Environment,
    frame: Option<Arc<Frame>>,
    intervals: Vec<(u16, Interval)>,
    verdicts: Vec<Arc<Verdict>>,
    watcher: Watcher,
    told: Vec<StoryEvent>,
    sequence: u64,
}

impl Default for DigestWriter {
    fn default() -> Self {
        Self {
            environment: Environment::default(),
            frame: None,
            intervals: Vec::new(),
            verdicts: Vec::new(),
            watcher: Watcher::new(WatchOptions::default()),
            told: Vec::new(),
            sequence: 0,
        }
    }
}

impl DigestWriter {
    /// Adds a tick.
    pub fn push(&mut self, tick: &Tick) {
        let interval = Interval::new(&tick.frame, &tick.verdict, tick.shares);
        let events = self.watcher.push(tick);
        let room = MOST_TOLD.saturating_sub(self.told.len());
        self.told.extend(events.iter().filter_map(StoryEvent::of_event).take(room));
        self.environment.update(tick);
        self.frame = Some(Arc::clone(&tick.frame));
        let place = self.verdicts.iter().position(|known| same_cause(known, &tick.verdict));
        let place = place.unwrap_or(self.verdicts.len());
        match self.verdicts.get_mut(place) {
            Some(known) => *known = Arc::clone(&tick.verdict),
            None => self.verdicts.push(Arc::clone(&tick.verdict)),
        }
        self.intervals.push((u16::try_from(place).unwrap_or(u16::MAX), interval));
        self.sequence = tick.sample.sequence;
    }

    /// Ticks since the last digest.
    pub fn len(&self) -> usize {
        self.intervals.len()
    }

    /// Whether there were no ticks.
    pub fn is_empty(&self) -> bool {
        self.intervals.is_empty()
    }

    /// The digest of the ticks since the last one; `None` if there were no ticks.
    pub fn take(&mut self) -> Option<Vec<u8>> {
        let frame = self.frame.take()?;
        let head = DigestHead {
            format: DIGEST_FORMAT,
            trainmon: env!("CARGO_PKG_VERSION").to_owned(),
            sequence: self.sequence,
            environment: self.environment.clone(),
            verdicts: std::mem::take(&mut self.verdicts),
            told: std::mem::take(&mut self.told),
        };
        let body: DigestBody = (std::mem::take(&mut self.intervals), frame);
        let mut bytes = Vec::new();
        packed::pack(&mut bytes, &body, &head)?;
        Some(bytes)
    }
}

/// What was added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Digested {
    /// [`trainmon_sample::Sample::sequence`] of its last sample.
    pub sequence: u64,
    /// How many samples.
    pub samples: u64,
}

/// Adds a digest to `run`; `None` for a digest of another version. Part of it may have been added then.
pub fn add(run: &mut WholeRun, bytes: &[u8]) -> Option<Digested> {
    let (body, head): (DigestBody, DigestHead) = packed::unpack(bytes)?;
    let known = head.format == DIGEST_FORMAT && head.trainmon == env!("CARGO_PKG_VERSION");
    if !known || head.verdicts.len() > VERDICTS {
        return None;
    }
    head.told.into_iter().take(MOST_TOLD).for_each(|told| run.story.add(told));
    let (intervals, frame) = body;
    let digested = Digested { sequence: head.sequence, samples: intervals.len() as u64 };
    for (place, interval) in intervals {
        run.add(&interval, head.verdicts.get(usize::from(place))?);
    }
    run.frame = Some(frame);
    run.environment = head.environment;
    Some(digested)
}
