//! When something has lasted for long enough to be told.
//!
//! What comes and goes is part of how a job runs. So each time a thing has been there and has gone again, the next one has to last
//! half as long again before it is told, up to a limit. What is really new is told soon, and a validation at the end of each epoch
//! once at most.

/// So much longer than the longest one before, which had gone again.
const LONGER: f64 = 1.5;
/// An episode is forgotten after so many seconds of watching without one that is as long.
const FORGOTTEN_S: f64 = 24.0 * 3600.0;
/// An absence counts so many times: something that is there less than two thirds of the time does not last.
const ABSENT: f64 = 2.0;
/// A single tick can be long, and wrong.
const LEAST_TICKS: u32 = 2;

/// For how long something must last, seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct LastingRule {
    /// Until it is told.
    pub(super) begins_s: f64,
    /// At most, however long it has been there before and gone again.
    pub(super) most_s: f64,
    /// Its absence, until its end is told.
    pub(super) ends_s: f64,
}

/// Waits for something to last.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Patience {
    lasted_s: f64,
    ticks: u32,
    /// The longest that this episode has lasted.
    peak_s: f64,
    /// The longest episode that went away, and the seconds since.
    longest_s: f64,
    since_s: f64,
}

impl Patience {
    /// Adds an interval in which it was there or not; whether it has lasted.
    pub(super) fn push(&mut self, rule: LastingRule, there: bool, seconds: f64) -> bool {
        self.since_s += seconds;
        if self.since_s > FORGOTTEN_S {
            self.longest_s = 0.0;
        }
        if there {
            self.lasted_s += seconds;
            self.ticks = self.ticks.saturating_add(1);
            self.peak_s = self.peak_s.max(self.lasted_s);
        } else {
            self.lasted_s -= ABSENT * seconds;
            if self.lasted_s <= 0.0 {
                self.went_away(rule, self.peak_s);
                self.begin_anew();
            }
        }
        self.lasted_s >= self.needed_s(rule) && self.ticks >= LEAST_TICKS
    }

    /// It has been there for so long, and has gone.
    pub(super) fn went_away(&mut self, rule: LastingRule, lasted_s: f64) {
        // What was there for longer is no passing thing.
        if lasted_s > 0.0 && lasted_s >= self.longest_s && lasted_s <= rule.most_s {
            (self.longest_s, self.since_s) = (lasted_s, 0.0);
        }
    }

    /// What was counted of the present episode is over.
    pub(super) fn begin_anew(&mut self) {
        (self.lasted_s, self.ticks, self.peak_s) = (0.0, 0, 0.0);
    }

    /// For how long it has lasted, seconds.
    pub(super) fn lasted_s(&self) -> f64 {
        self.lasted_s
    }

    /// For how long it must last, seconds.
    pub(super) fn needed_s(&self, rule: LastingRule) -> f64 {
        (self.longest_s * LONGER).clamp(rule.begins_s, rule.most_s)
    }
}

/// What there is to tell.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Turn {
    /// It is there to stay.
    Begins,
    /// It has gone, after so many seconds.
    Ends(f64),
}

/// Something that begins and ends.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lasting {
    rule: LastingRule,
    patience: Patience,
    /// It was told, and has lasted for so many seconds.
    told_s: Option<f64>,
    absent_s: f64,
}

impl Lasting {
    pub(super) fn new(rule: LastingRule) -> Self {
        Self { rule, patience: Patience::default(), told_s: None, absent_s: 0.0 }
    }

    /// Whether it was told and has not ended.
    pub(super) fn is_told(&self) -> bool {
        self.told_s.is_some()
    }

    /// Adds an interval in which it was there or not.
    pub(super) fn push(&mut self, there: bool, seconds: f64) -> Option<Turn> {
        let Some(told_s) = &mut self.told_s else {
            let lasts = self.patience.push(self.rule, there, seconds);
            return lasts.then(|| {
                (self.told_s, self.absent_s) = (Some(self.patience.lasted_s()), 0.0);
                self.patience.begin_anew();
                Turn::Begins
            });
        };
        *told_s += seconds;
        self.absent_s = if there { (self.absent_s - ABSENT * seconds).max(0.0) } else { self.absent_s + seconds };
        if self.absent_s < self.rule.ends_s {
            return None;
        }
        let lasted_s = (*told_s - self.absent_s).max(0.0);
        self.told_s = None;
        self.patience.went_away(self.rule, lasted_s);
        Some(Turn::Ends(lasted_s))
    }

    /// For how long it has lasted, seconds.
    pub(super) fn lasted_s(&self) -> f64 {
        self.told_s.unwrap_or_else(|| self.patience.lasted_s())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULE: LastingRule = LastingRule { begins_s: 20.0, most_s: 600.0, ends_s: 20.0 };

    /// The seconds at which something is told that is there in these seconds of each period.
    fn told(there: impl Fn(u32) -> bool, seconds: u32) -> Vec<(u32, bool)> {
        let mut lasting = Lasting::new(RULE);
        let turns = (0..seconds).filter_map(|second| {
            let turn = lasting.push(there(second), 1.0)?;
            Some((second, turn == Turn::Begins))
        });
        turns.collect()
    }

    #[test]
    fn what_lasts_is_told_and_its_end() {
        assert_eq!(told(|second| (100..500).contains(&second), 1000), [(119, true), (519, false)]);
    }

    #[test]
    fn a_short_one_is_not_told_and_an_interruption_does_not_matter() {
        assert_eq!(told(|second| second % 100 < 15, 10_000), []);
        assert_eq!(told(|second| second >= 100 && second % 10 > 0, 1000).len(), 1);
    }

    #[test]
    fn what_comes_and_goes_is_told_once() {
        let told = told(|second| second % 600 < 60, 86_400);
        assert_eq!(told.len(), 2, "{told:?}");
    }

    #[test]
    fn what_stays_for_long_is_told_each_time() {
        assert_eq!(told(|second| second % 7200 > 3600, 86_400).len(), 23);
    }

    #[test]
    fn one_long_tick_is_not_enough() {
        let mut lasting = Lasting::new(RULE);
        assert_eq!(lasting.push(true, 60.0), None);
        assert_eq!(lasting.push(true, 60.0), Some(Turn::Begins));
    }
}
