//! `memory`: at the rate at which it grows, memory will be full soon: the host's, that of the control group, or a GPU's.
//!
//! Points of ten seconds are kept for a quarter of an hour. Memory fills if it grew about as much in each third of the last minutes, and
//! is higher than ever before: what rises and falls with each epoch does not fill. Where only minutes are left, points of two seconds
//! tell it after half a minute. Page cache is left out: of the host, what is available
//! counts, and of the control group, the memory of the job's processes: with shared pages counted once where that is known.

use std::collections::{BTreeMap, VecDeque};

use super::lasting::{Lasting, LastingRule, Turn};
use super::{EventDetails, EventKind, EventState, WatchEvent, WatchedMoment};
use crate::diagnosis::verdict::Phase;
use crate::pipeline::Tick;
use trainmon_base::text::format;

/// How closely memory is looked at.
#[derive(Debug)]
struct GrowthPace {
    /// Length of a point, seconds.
    point_s: f64,
    /// Windows in points, each with three thirds.
    windows: &'static [usize],
    /// Memory that is full later than this, seconds, is not told.
    soon_s: f64,
    rule: LastingRule,
}

/// Three, six and fifteen minutes. What is full in more than an hour is not told: there is time, and such a rate seldom stays. Buffers
/// that fill at the begin of training need some minutes.
const PATIENT: GrowthPace = GrowthPace {
    point_s: 10.0,
    windows: &[18, 36, 90],
    soon_s: 3600.0,
    rule: LastingRule { begins_s: 60.0, most_s: 1200.0, ends_s: 120.0 },
};
/// Eighteen seconds. A few minutes are left to save what there is.
const URGENT: GrowthPace = GrowthPace {
    point_s: 2.0,
    windows: &[9],
    soon_s: 300.0,
    rule: LastingRule { begins_s: 6.0, most_s: 120.0, ends_s: 120.0 },
};
/// A third grows at least this part of what another one does: less is a step, or levels off.
const EVEN: f64 = 0.4;
/// Growth over a window, part of all memory: less is noise.
const GREW: f64 = 0.01;
/// Most GPUs that are watched: no machine has more.
const MOST: usize = 64;

/// Which memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum MemoryPlace {
    Host,
    ControlGroup,
    Gpu(u32),
}

impl MemoryPlace {
    fn name(self) -> String {
        match self {
            Self::Host => "the machine's memory".to_owned(),
            Self::ControlGroup => "the control group's memory".to_owned(),
            Self::Gpu(index) => format!("the memory of GPU {index}"),
        }
    }
}

/// Memory that may fill.
#[derive(Debug, Default)]
pub(super) struct FillingMemory {
    places: BTreeMap<MemoryPlace, Filling>,
}

/// One memory over time.
#[derive(Debug)]
struct Filling {
    paces: [Growth; 2],
    /// It was told.
    told: bool,
}

/// One memory over time, at one pace.
#[derive(Debug)]
struct Growth {
    pace: &'static GrowthPace,
    /// The point that is being made: seconds, and bytes times seconds.
    open: (f64, f64),
    /// Bytes used, oldest first.
    points: VecDeque<f64>,
    /// The most that was used before those.
    highest: f64,
    lasting: Lasting,
}

/// Bytes used, and bytes in all, of each memory that is known.
fn levels(tick: &Tick) -> impl Iterator<Item = (MemoryPlace, u64, u64)> {
    let frame = &tick.frame;
    let host = frame.host.memory_total_bytes.zip(frame.host.memory_available_bytes);
    let host = host.map(|(total, available)| (MemoryPlace::Host, total.saturating_sub(available), total));
    // Never now the one and now the other: they differ by all shared pages.
    let used = if tick.sample.outlook.is_some() { frame.job.pss_bytes } else { frame.job.rss_bytes };
    let group = frame.job.memory_limit_bytes.zip(used);
    // Resident sets count shared pages once for each process: what seems to be above the limit is not known.
    let group = group.filter(|(limit, rss)| rss < limit).map(|(limit, rss)| (MemoryPlace::ControlGroup, rss, limit));
    let gpus = frame.gpus.iter().filter(|gpu| gpu.attached && !gpu.lost).filter_map(|gpu| {
        let (used, total) = gpu.memory_used_bytes.zip(gpu.memory_total_bytes)?;
        Some((MemoryPlace::Gpu(gpu.index), used, total))
    });
    host.into_iter().chain(group).chain(gpus)
}

impl FillingMemory {
    #[cfg(test)]
    pub(super) fn is_small(&self) -> bool {
        let mut paces = self.places.values().flat_map(|filling| &filling.paces);
        self.places.len() <= MOST && paces.all(|growth| growth.points.len() <= growth.longest())
    }

    pub(super) fn push(&mut self, moment: WatchedMoment<'_>) -> Vec<WatchEvent> {
        let mut events = Vec::new();
        // Starting, validating and saving have their own needs, for a while.
        if moment.tick.verdict.phase != Phase::Training {
            return events;
        }
        for (place, used, total) in levels(moment.tick) {
            if self.places.len() >= MOST && !self.places.contains_key(&place) {
                continue;
            }
            let filling = self
                .places
                .entry(place)
                .or_insert_with(|| Filling { paces: [&PATIENT, &URGENT].map(Growth::new), told: false });
            events.extend(filling.push(place, (used as f64, total as f64), moment.seconds));
        }
        events
    }
}

impl Filling {
    /// It is told once, by whichever pace sees it first, and its end once neither sees it.
    fn push(&mut self, place: MemoryPlace, levels: (f64, f64), seconds: f64) -> Option<WatchEvent> {
        let [patient, urgent] = &mut self.paces;
        let turns = [patient.push(levels, seconds), urgent.push(levels, seconds)];
        let is_there = patient.lasting.is_told() || urgent.lasting.is_told();
        let turn = turns.into_iter().flatten().find(|_| is_there != self.told)?;
        self.told = is_there;
        Some(tell(place, levels, turn))
    }
}

/// A turn, and the bytes per second by which it grows with the seconds until it is full.
type GrowthTurn = (Turn, f64, Option<f64>);

impl Growth {
    fn new(pace: &'static GrowthPace) -> Self {
        Self { pace, open: (0.0, 0.0), points: VecDeque::new(), highest: 0.0, lasting: Lasting::new(pace.rule) }
    }

    /// The longest window, points.
    fn longest(&self) -> usize {
        self.pace.windows.iter().copied().max().unwrap_or(0)
    }

    fn push(&mut self, (used, total): (f64, f64), seconds: f64) -> Option<GrowthTurn> {
        self.open = (self.open.0 + seconds, self.open.1 + used * seconds);
        if self.open.0 < self.pace.point_s {
            return None;
        }
        let (seconds, sum) = std::mem::take(&mut self.open);
        self.points.push_back(sum / seconds);
        if self.points.len() > self.longest() {
            self.highest = self.points.pop_front().map_or(self.highest, |point| point.max(self.highest));
        }
        // Points have one length; with long intervals a longer one.
        let windows = self.pace.windows.iter();
        let per_s = windows.filter_map(|window| self.growth(*window, total)).fold(0.0, f64::max) / seconds;
        let full_in_s = (per_s > 0.0).then(|| (total - used).max(0.0) / per_s);
        let fills = full_in_s.is_some_and(|full_in_s| full_in_s < self.pace.soon_s) && used > self.highest;
        self.lasting.push(fills, seconds).map(|turn| (turn, per_s, full_in_s))
    }

    /// Bytes a point by which it grew over so many points, if it did so evenly.
    fn growth(&self, window: usize, total: f64) -> Option<f64> {
        let begin = self.points.len().checked_sub(window)?;
        let third = window / 3;
        let middle = |number: usize| {
            let mut part: Vec<f64> = self.points.iter().skip(begin + number * third).take(third).copied().collect();
            part.sort_by(f64::total_cmp);
            part.get(third / 2).copied()
        };
        let [first, second, last] = [middle(0)?, middle(1)?, middle(2)?];
        let grew = [second - first, last - second];
        let (less, more) = (grew[0].min(grew[1]), grew[0].max(grew[1]));
        let fills = less > 0.0 && less >= EVEN * more && last - first >= GREW * total;
        fills.then_some((last - first) / (2 * third) as f64)
    }
}

fn tell(place: MemoryPlace, (used, total): (f64, f64), (turn, per_s, full_in_s): GrowthTurn) -> WatchEvent {
    let name = place.name();
    let bytes = |bytes: f64| format::bytes(Some(bytes as u64));
    let levels = format!("{} of {} in use", bytes(used), bytes(total));
    let (state, text) = match turn {
        Turn::Begins => {
            let soon = format::duration(full_in_s.unwrap_or_default());
            let growth = bytes(per_s * 60.0);
            (EventState::Begins, format!("{name} will be full in {soon}: {levels}, {growth} more each minute"))
        }
        Turn::Ends(_) => (EventState::Ends, format!("{name} does not grow as fast any more: {levels}")),
    };
    let details = EventDetails::Memory {
        place: match place {
            MemoryPlace::Host => "host",
            MemoryPlace::ControlGroup => "cgroup",
            MemoryPlace::Gpu(_) => "gpu",
        },
        gpu: if let MemoryPlace::Gpu(index) = place { Some(index) } else { None },
        used_bytes: used as u64,
        total_bytes: total as u64,
        growth_bytes_per_s: (per_s > 0.0).then_some(per_s),
        full_in_s,
    };
    WatchEvent::new(EventKind::Memory, Some(state), text, details)
}
