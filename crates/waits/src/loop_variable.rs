//! Steps counted by the loop's own variable (`step`, `batch_idx`, `n`), or by the loop itself, if nothing else counts them.
//!
//! A whole number among the local variables of the frame that runs the loop rises by one with each turn; how it moves
//! shows which one it is. The frame is the outermost one that is in nearly every reading and has such a variable.
//! Functions called from it may count as well, but they count samples of a batch or pieces of a step. Anything that
//! makes a batch counts samples.

mod named;
mod turns;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use super::frame::CountedSteps;
use super::stacks::is_in_loader;
pub(super) use named::{EPOCH, is_named_as_count};
use named::{YIELDED, is_in_model, is_unknown, known_turns, may_count_steps};
use trainmon_libraries::{Counter, Library, StepUnit};
use trainmon_rates::levels::NEARLY_ALL;
use trainmon_sample::locals::{LOOPS, MODULE};
use trainmon_sample::{FrameLocals, LocalsSample, ProgressBar, ThreadLocals};
pub(super) use turns::{LARGEST_COUNT, moves, rate};
use turns::{
    is_long, lap, never_falls, rate_of_calls, rate_of_counter, rate_of_laps, rate_of_nested, rises_still, unit_of,
};

/// Most readings kept for one training process.
pub(super) const READINGS: usize = 96;
/// Older readings are forgotten, nanoseconds.
pub(super) const OLDEST_NS: u64 = 240_000_000_000;
/// Without a new reading, a rate is shown no longer than this, nanoseconds: a settled job with workers is read every
/// minute.
const HELD_NS: u64 = 80_000_000_000;
/// Names of variables with the number of turns in all: none of them holds anything private.
pub(super) const TOTALS: [&str; 16] = [
    "total_steps",
    "max_steps",
    "num_steps",
    "n_steps",
    "num_train_steps",
    "num_training_steps",
    "max_train_steps",
    "total_iters",
    "max_iters",
    "num_iters",
    "n_iters",
    "total_iterations",
    "max_iterations",
    "num_iterations",
    "total_batches",
    "num_batches",
];
/// A loop that turns less often may be over epochs, turns/s.
const SLOW_PER_S: f64 = 1.0;

/// The frames of the loop's thread at one moment, outermost first.
#[derive(Debug)]
struct VariableReading {
    at_ns: u64,
    frames: Vec<FrameLocals>,
}

/// A loop whose variable counts its steps.
#[derive(Debug)]
struct FoundVariable {
    steps: CountedSteps,
    /// The frame that has the variable.
    frame: FrameLocals,
    /// Whether the variable is still rising.
    turns: bool,
}

/// The local variables of one training loop over time.
#[derive(Debug, Default)]
pub(super) struct LoopVariable {
    tid: u32,
    kept: VecDeque<VariableReading>,
    /// Counters of the table of libraries by their places there, with the frame that has each.
    known: BTreeMap<usize, (&'static Counter, FrameLocals)>,
    found: Option<FoundVariable>,
}

impl LoopVariable {
    /// The steps as of now.
    pub(super) fn steps(&self, now_ns: u64) -> Option<CountedSteps> {
        let newest_ns = self.kept.back()?.at_ns;
        let is_old = now_ns.saturating_sub(newest_ns) > HELD_NS;
        if is_old { None } else { Some(self.found.as_ref()?.steps.clone()) }
    }

    /// The frame that runs the loop, as long as it takes steps that are known to be some: everything called from it is part of a step.
    pub(super) fn stepping(&self) -> Option<&FrameLocals> {
        self.found.as_ref().filter(|found| found.turns && !found.steps.is_guess).map(|found| &found.frame)
    }

    /// Takes a new reading of the process, whose loop runs in the thread `tid`.
    pub(super) fn take(&mut self, read: &LocalsSample, tid: u32) {
        // Also when another counter was found: all readings are then passed on again, with its values.
        if self.tid != tid || self.kept.back().is_some_and(|last| last.at_ns >= read.began_ns) {
            *self = Self { tid, ..Self::default() };
        }
        let runs_loop = |thread: &&ThreadLocals| thread.tid == Some(tid) || thread.is_main && tid == read.process.pid;
        let Some(thread) = read.threads.iter().find(runs_loop) else { return };
        for frame in &thread.frames {
            for (place, counter) in Library::counters(&frame.file, &frame.function) {
                self.known.entry(place).or_insert_with(|| (counter, frame.clone()));
            }
        }
        self.kept.push_back(VariableReading { at_ns: read.began_ns, frames: thread.frames.clone() });
        let old = |first: &VariableReading| read.began_ns.saturating_sub(first.at_ns) > OLDEST_NS;
        while self.kept.len() > READINGS || self.kept.front().is_some_and(old) {
            self.kept.pop_front();
        }
        self.found = self.find();
    }

    fn find(&self) -> Option<FoundVariable> {
        let common = self.common();
        self.find_known(&common).or_else(|| {
            let outside = common.iter().take_while(|frame| !is_in_loader(frame)).count();
            let outside = common.get(..outside)?;
            self.find_common(outside).or_else(|| self.find_nested(outside)).or_else(|| self.find_loop(outside))
        })
    }

    /// A variable that counts by the table of libraries. Its function need not run all the time: between two calls nothing is counted.
    /// Tokens come last: a training loop may generate text within a step.
    fn find_known(&self, common: &[&FrameLocals]) -> Option<FoundVariable> {
        let (of_tokens, others): (Vec<_>, Vec<_>) =
            self.known.values().partition(|(counter, _)| counter.unit == StepUnit::Token);
        others.into_iter().chain(of_tokens).find_map(|(counter, frame)| {
            let mut values = self.values_anywhere(frame, counter.variable);
            if counter.unit == StepUnit::Token {
                self.without_prompts(&mut values, frame, counter.variable);
            }
            let between_calls = || {
                let mut within = values.iter().peekable();
                let of_reading = |reading: &VariableReading| {
                    let value = within.next_if(|(at_ns, _)| *at_ns == reading.at_ns).map(|(_, value)| *value);
                    (reading.at_ns, value)
                };
                rate_of_calls(&self.kept.iter().map(of_reading).collect::<Vec<_>>())
            };
            let total =
                counter.total.and_then(|total| self.values_anywhere(frame, total).last().map(|(_, total)| *total));
            let depth = common.iter().position(|found| found.is_same_place(frame));
            let outer = common.get(..depth.unwrap_or(common.len()))?;
            let unit = unit_of(&values);
            let scaled: Vec<(u64, i64)> = values.iter().map(|(at_ns, value)| (*at_ns, value / unit)).collect();
            let by_laps = || {
                // What is outside counts laps that end unseen. Without it, the code must be there nearly all the time.
                depth?;
                rate_of_laps(&scaled, total.map(|total| total / unit).or_else(|| lap(&scaled))?)
            };
            let of_units = |per_s: f64| per_s * unit as f64;
            let by_outer = self.rate_within(&scaled, outer).map(of_units);
            let per_s = if counter.unit == StepUnit::Token {
                by_outer.or_else(between_calls)
            } else {
                by_outer.or_else(|| rate_of_counter(&values, total)).or_else(|| by_laps().map(of_units))
            }?;
            let variable = shown(counter.variable, frame);
            let steps = CountedSteps { per_s, variable, place: None, unit: counter.unit, is_guess: false };
            Some(FoundVariable { steps, frame: frame.clone(), turns: rises_still(&values) })
        })
    }

    /// Takes from the numbers what the call began with: a frame outside has the same variable.
    fn without_prompts(&self, values: &mut [(u64, i64)], place: &FrameLocals, name: &str) {
        let prompt = |reading: &VariableReading| {
            let outside = reading.frames.iter().rev().skip_while(|frame| !frame.is_same_place(place)).skip(1);
            outside.flat_map(|frame| &frame.numbers).find(|(known, _)| **known == *name).map(|(_, prompt)| *prompt)
        };
        for (at_ns, value) in values {
            let reading = self.kept.iter().find(|reading| reading.at_ns == *at_ns);
            *value -= reading.and_then(prompt).filter(|prompt| prompt <= value).unwrap_or(0);
        }
    }

    /// How fast a variable of a frame counts that begins anew with each turn of something in these frames. It may count turns before or
    /// after they end, so where a loop of the frame begins anew with it, that is counted instead.
    fn rate_by_laps(&self, depth: usize, values: &[(u64, i64)], frames: &[&FrameLocals]) -> Option<f64> {
        let frame = frames.get(depth)?;
        let own = lap(values)?;
        let mut loops = LOOPS.iter().map(|name| self.values(depth, frame, name));
        let is_same = |turns: &Vec<(u64, i64)>| {
            let is_there = turns.len() as f64 >= NEARLY_ALL * values.len() as f64;
            is_there && lap(turns).is_some_and(|lap| lap.abs_diff(own) <= 1)
        };
        let outer = frames.get(..=depth)?;
        let by_loop = loops.find(is_same).and_then(|turns| self.rate_within(&turns, outer));
        by_loop.or_else(|| self.rate_within(values, outer))
    }

    /// How fast something counts that begins anew with each turn of something in these frames, the innermost first.
    fn rate_within(&self, values: &[(u64, i64)], frames: &[&FrameLocals]) -> Option<f64> {
        lap(values)?;
        let within = |rises: bool| {
            frames.iter().enumerate().rev().find_map(|(depth, frame)| {
                let outer = self.names(depth, frame).into_iter().map(|name| self.values(depth, frame, name));
                let mut fits = outer.filter(|outer| moves(outer) && outer != values && never_falls(outer) == rises);
                fits.find_map(|outer| rate_of_nested(values, &outer))
            })
        };
        within(true).or_else(|| within(false))
    }

    /// The values of a variable of a function, wherever it was called.
    fn values_anywhere(&self, place: &FrameLocals, name: &str) -> Vec<(u64, i64)> {
        let value = |reading: &VariableReading| {
            let frame = reading.frames.iter().find(|frame| frame.is_same_place(place))?;
            let (_, value) = frame.numbers.iter().find(|(known, _)| **known == *name)?;
            (0..=LARGEST_COUNT).contains(value).then_some((reading.at_ns, *value))
        };
        self.kept.iter().filter_map(value).collect()
    }

    /// The outermost variable of these frames that moves like a counter.
    fn find_common(&self, frames: &[&FrameLocals]) -> Option<FoundVariable> {
        frames.iter().enumerate().find_map(|(depth, frame)| {
            let counters = self.names(depth, frame).into_iter().filter(|name| may_count_steps(name));
            let rates = counters.filter_map(|name| {
                let values = self.values(depth, frame, name);
                let per_s = rate(&values)?;
                let by_laps = self.rate_by_laps(depth, &values, frames);
                Some((by_laps.unwrap_or(per_s), name, rises_still(&values)))
            });
            let (per_s, name, turns) = rates.max_by(|a, b| a.0.total_cmp(&b.0))?;
            if per_s < SLOW_PER_S
                && !is_named_as_count(name)
                && let Some(found) = self.find_inner(depth, frame, name)
            {
                return Some(found);
            }
            let place = self.turn_of(depth, frame, name);
            Some(FoundVariable {
                steps: CountedSteps { place, ..by_name(per_s, name, frame) },
                frame: (*frame).clone(),
                turns,
            })
        })
    }

    /// The innermost loop of a frame that begins anew with each turn of a slow variable whose name does not say what it counts: epochs.
    fn find_inner(&self, depth: usize, frame: &FrameLocals, outer: &str) -> Option<FoundVariable> {
        let outer = self.values(depth, frame, outer);
        LOOPS.iter().rev().find_map(|name| {
            let values = self.values(depth, frame, name);
            let is_there = values.len() as f64 >= NEARLY_ALL * outer.len() as f64;
            let per_s = if is_there && is_long(&values) { rate_of_nested(&values, &outer)? } else { return None };
            let steps = CountedSteps { is_guess: true, ..by_name(per_s, name, frame) };
            Some(FoundVariable { steps, frame: frame.clone(), turns: rises_still(&values) })
        })
    }

    /// The outermost variable of these frames that begins anew too often to be counted alone, with each turn of something outside of it:
    /// batches of short epochs.
    fn find_nested(&self, frames: &[&FrameLocals]) -> Option<FoundVariable> {
        frames.iter().enumerate().find_map(|(depth, frame)| {
            let counters = self.names(depth, frame).into_iter().filter(|name| may_count_steps(name));
            let rates = counters.filter_map(|name| {
                let values = self.values(depth, frame, name);
                let per_s = if is_long(&values) { self.rate_by_laps(depth, &values, frames) } else { None };
                Some((per_s?, name, rises_still(&values)))
            });
            let (per_s, name, turns) = rates.min_by(|a, b| a.0.total_cmp(&b.0))?;
            Some(FoundVariable { steps: by_name(per_s, name, frame), frame: (*frame).clone(), turns })
        })
    }

    /// The innermost `for` loop of these frames, if its turns can be counted: loops around it may be epochs. Without a name there is
    /// no other way to tell. If one of a few turns, or of an unknown number, runs inside of it in the same file, either of them may take
    /// the steps.
    fn find_loop(&self, frames: &[&FrameLocals]) -> Option<FoundVariable> {
        let frames: Vec<&FrameLocals> = frames.iter().copied().take_while(|frame| !is_in_model(frame)).collect();
        let loops = frames.iter().enumerate().rev().flat_map(|(depth, frame)| {
            LOOPS.iter().rev().map(move |name| (*name, *frame, self.values(depth, frame, name)))
        });
        let nearly_always = |values: &[(u64, i64)]| values.len() as f64 >= NEARLY_ALL * self.kept.len() as f64;
        let always = loops.filter(|(_, _, values)| nearly_always(values));
        let always = always.map(|(name, frame, values)| (name, frame, known_turns(values)));
        let mut running = always.filter(|(_, _, values)| moves(values) || is_unknown(values));
        let mut within: Vec<&Arc<str>> = Vec::new();
        let (name, frame, values) = running.find(|(_, frame, values)| {
            within.push(&frame.file);
            is_long(values) && !is_unknown(values)
        })?;
        within.pop();
        if within.contains(&&frame.file) {
            return None;
        }
        let outer = running.next().map(|(_, _, values)| values);
        let by_laps = || outer.as_deref().and_then(|outer| rate_of_nested(&values, outer));
        let per_s = by_laps().or_else(|| rate(&values)).or_else(|| rate_of_laps(&values, lap(&values)?))?;
        let steps =
            CountedSteps { per_s, variable: shown(name, frame), place: None, unit: StepUnit::Step, is_guess: true };
        Some(FoundVariable { steps, frame: frame.clone(), turns: rises_still(&values) })
    }

    /// The frames present in nearly every reading, outermost first.
    fn common(&self) -> Vec<&FrameLocals> {
        let mut common: Vec<&FrameLocals> = Vec::new();
        loop {
            let depth = common.len();
            let on_path = self.kept.iter().filter(|reading| {
                common.iter().zip(&reading.frames).all(|(known, frame)| known.is_same_place(frame))
            });
            let mut counts: Vec<(usize, &FrameLocals)> = Vec::new();
            for frame in on_path.filter_map(|reading| reading.frames.get(depth)) {
                match counts.iter_mut().find(|(_, known)| known.is_same_place(frame)) {
                    Some((count, _)) => *count += 1,
                    None => counts.push((1, frame)),
                }
            }
            match counts.into_iter().max_by_key(|(count, _)| *count) {
                Some((count, frame)) if count as f64 >= NEARLY_ALL * self.kept.len() as f64 => common.push(frame),
                _ => return common,
            }
        }
    }

    /// The newest value of a counter and the number of turns in all, if a variable beside it holds that number.
    fn turn_of(&self, depth: usize, frame: &FrameLocals, name: &str) -> Option<ProgressBar> {
        let (at_ns, done) = *self.values(depth, frame, name).last()?;
        let total = TOTALS.iter().find_map(|name| {
            let values = self.values(depth, frame, name);
            let (_, total) = *values.last()?;
            (values.len() > 1 && values.iter().all(|(_, value)| *value == total)).then_some(total)
        })?;
        let is_total = done >= 0 && total >= done && total > 0;
        is_total.then_some(ProgressBar { read_ns: at_ns, done: done as f64, total: total as f64 })
    }

    /// The names of all numbers of a frame.
    fn names(&self, depth: usize, frame: &FrameLocals) -> Vec<&Arc<str>> {
        let numbers =
            self.kept.iter().filter_map(|reading| reading.at(depth, frame)).flat_map(|frame| &frame.numbers);
        let mut names: Vec<&Arc<str>> = numbers.map(|(name, _)| name).collect();
        names.sort();
        names.dedup();
        names
    }

    /// The values of a variable: CLOCK_MONOTONIC in nanoseconds, value.
    fn values(&self, depth: usize, frame: &FrameLocals, name: &str) -> Vec<(u64, i64)> {
        // An iterator that has handed out nothing yet is before its first turn.
        let counts_items = LOOPS.contains(&name) || name.contains(YIELDED);
        let value = |reading: &VariableReading| {
            let (_, value) = reading.at(depth, frame)?.numbers.iter().find(|(known, _)| **known == *name)?;
            if *value == 0 && counts_items { None } else { Some((reading.at_ns, *value)) }
        };
        self.kept.iter().filter_map(value).collect()
    }
}

/// Steps counted by a variable.
fn by_name(per_s: f64, name: &str, frame: &FrameLocals) -> CountedSteps {
    let is_guess = *frame.function == *MODULE && !is_named_as_count(name);
    CountedSteps { per_s, variable: shown(name, frame), place: None, unit: StepUnit::Step, is_guess }
}

/// The name and the function of a variable.
fn shown(name: &str, frame: &FrameLocals) -> Arc<str> {
    let file = frame.file.rsplit('/').next().unwrap_or_default();
    format!("{name} in {} ({file})", frame.function).into()
}

impl VariableReading {
    /// The frame at this depth, if it is the same one.
    fn at(&self, depth: usize, frame: &FrameLocals) -> Option<&FrameLocals> {
        self.frames.get(depth).filter(|found| found.is_same_place(frame))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRAINER: trainmon_sample::ProcessId = trainmon_sample::ProcessId { pid: 7, start_ticks: 1 };

    fn frame(function: &str, numbers: &[(&str, i64)]) -> FrameLocals {
        let numbers = numbers.iter().map(|(name, value)| ((*name).into(), *value)).collect();
        FrameLocals { function: function.into(), file: "/home/me/train.py".into(), numbers }
    }

    fn reading(ms: u64, frames: Vec<FrameLocals>) -> LocalsSample {
        let thread = ThreadLocals { tid: Some(7), is_main: true, frames };
        LocalsSample { process: TRAINER, began_ns: ms * 1_000_000, threads: vec![thread] }
    }

    /// Moments of readings: before and after windows of a second, milliseconds.
    fn moments() -> impl Iterator<Item = u64> {
        (0..16).map(|at| at / 2 * 1110 + at % 2 * 1040)
    }

    /// What is made of readings whose frames are these functions of time in seconds.
    fn found(frames: impl Fn(f64) -> Vec<FrameLocals>) -> Option<CountedSteps> {
        let mut variable = LoopVariable::default();
        for ms in moments() {
            variable.take(&reading(ms, frames(ms as f64 / 1000.0)), 7);
        }
        variable.steps(9_000_000_000)
    }

    fn turns(seconds: f64, per_s: f64) -> i64 {
        (seconds * per_s) as i64
    }

    #[test]
    fn the_loops_counter_is_found_among_other_numbers() {
        let steps = found(|s| {
            let numbers = [
                ("batch_size", 64),
                ("epoch", turns(s, 3.0)),
                ("child_pid", 4000 + turns(s, 46.0)),
                ("now", 1_700_000_000 + turns(s, 1.0)),
                ("seen", 64 * turns(s, 19.8)),
                ("started_ns", 50_000_000 * turns(s, 19.8)),
                ("step", turns(s, 19.8)),
                ("tokens", 311 * turns(s, 19.8) + turns(s, 3.0)),
            ];
            vec![frame("<module>", &[]), frame("main", &[("seed", 3)]), frame("train", &numbers)]
        });
        let steps = steps.unwrap();
        assert_eq!(&*steps.variable, "step in train (train.py)");
        assert!((steps.per_s / 19.8 - 1.0).abs() < 0.03, "{}", steps.per_s);
    }

    #[test]
    fn the_number_of_turns_in_all_stands_beside_the_counter() {
        let place = |beside: fn(f64) -> (&'static str, i64)| {
            let found = found(|s| vec![frame("train", &[("step", turns(s, 20.0)), beside(s)])]);
            found.unwrap().place.map(|place| (place.done, place.total))
        };
        let (done, total) = place(|_| ("max_steps", 5000)).unwrap();
        assert!((100.0..300.0).contains(&done) && total == 5000.0, "{done}");
        assert_eq!(place(|_| ("seed", 5000)), None, "the name says nothing of turns");
        assert_eq!(place(|s| ("max_steps", 5000 + turns(s, 1.0))), None, "it changes");
        assert_eq!(place(|_| ("num_steps", 5)), None, "the loop is beyond it");
    }

    #[test]
    fn the_outermost_counts_steps_and_not_samples() {
        let of_sample = |s: f64| frame("__getitem__", &[("index", turns(s, 80.0))]);
        let steps = found(|s| vec![frame("train", &[("i", turns(s, 10.0))]), of_sample(s)]).unwrap();
        assert_eq!(&*steps.variable, "i in train (train.py)");
    }

    #[test]
    fn what_makes_a_batch_counts_samples() {
        let loader = |s: f64| {
            let fetch = FrameLocals { file: "/x/torch/utils/data/_utils/fetch.py".into(), ..frame("fetch", &[]) };
            vec![frame("train", &[]), fetch, frame("fill", &[("number", turns(s, 90.0))])]
        };
        assert_eq!(found(loader), None, "torch's loader fills a shuffle buffer");
        let own = |s: f64| vec![frame("main", &[]), frame("load_examples", &[("number", turns(s, 90.0))])];
        assert_eq!(found(own), None);
    }

    #[test]
    fn a_loop_takes_steps_as_long_as_its_counter_rises() {
        let is_stepping = |until_s: f64| {
            let mut variable = LoopVariable::default();
            for ms in moments() {
                let step = turns((ms as f64 / 1000.0).min(until_s), 20.0);
                variable.take(&reading(ms, vec![frame("main", &[("step", step)])]), 7);
            }
            variable.stepping().map(|frame| frame.function.to_string())
        };
        assert_eq!(is_stepping(60.0).as_deref(), Some("main"));
        assert_eq!(is_stepping(5.0), None, "it is counted, and stands still");
    }

    #[test]
    fn a_counter_that_begins_anew_every_two_seconds() {
        let steps = found(|s| vec![frame("main", &[("n", turns(s % 2.0, 25.0))])]).unwrap();
        assert!((steps.per_s / 25.0 - 1.0).abs() < 0.05, "{}", steps.per_s);
    }

    #[test]
    fn a_value_half_written_does_no_harm() {
        for (at, value) in [(5.0, 94_930_505_027_001), (5.0, 4000), (5.0, 3), (8.8, 4000)] {
            let torn = |s: f64| if (at - 0.4..at + 0.4).contains(&s) { value } else { turns(s, 30.0) };
            let steps = found(|s| vec![frame("main", &[("step", torn(s))])]).unwrap();
            assert!((steps.per_s / 30.0 - 1.0).abs() < 0.03, "{value} at {at}: {}", steps.per_s);
        }
    }

    #[test]
    fn numbers_that_count_no_steps() {
        let none = |what: &str, number: &dyn Fn(f64) -> i64| {
            assert_eq!(found(|s| vec![frame("main", &[("x", number(s))])]), None, "{what}");
        };
        none("it stands still", &|_| 5);
        none("it runs through a few values again and again", &|s| turns(s, 37.0) % 8);
        none("it falls", &|s| 1000 - turns(s, 20.0));
        none("it rises by batches", &|s| 32 * turns(s, 20.3));
        none("it rises too fast", &|s| turns(s, 5000.0));
        none("it rises in lumps", &|s| 37 * turns(s, 1.9) + turns(s, 0.3));
        none("it rose once", &|s| i64::from(s > 4.0));
    }

    #[test]
    fn a_loop_that_stops_has_no_steps() {
        let steps = found(|s| vec![frame("main", &[("step", turns(s.min(4.0), 20.0))])]).unwrap();
        assert!(steps.per_s < 12.0, "{}", steps.per_s);
    }

    #[test]
    fn what_is_known_to_count_need_not_move_like_a_counter() {
        let values = |count: fn(f64) -> i64| {
            moments().map(|ms| (ms * 1_000_000, count(ms as f64 / 1000.0))).collect::<Vec<_>>()
        };
        let is_near =
            |found: Option<f64>, wanted: f64| assert!((found.unwrap() / wanted - 1.0).abs() < 0.1, "{found:?}");
        is_near(rate_of_counter(&values(|s| turns(s, 4.0) * 32), None), 128.0);
        is_near(rate_of_counter(&values(|s| turns(s, 30.0) % 100), Some(100)), 30.0);
        assert_eq!(rate_of_counter(&values(|s| turns(s, 30.0) % 20), None), None, "it begins anew all the time");
        assert_eq!(
            rate_of_counter(&values(|s| turns(s, 30.0) % 20), Some(20)),
            None,
            "several laps between two readings"
        );
        let torn = |s: f64| if (4.0..4.5).contains(&s) { 900_000 } else { turns(s, 5.0) };
        is_near(rate_of_counter(&values(torn), None), 5.0);
        assert_eq!(rate_of_counter(&values(|_| 7), None), None);
    }

    /// Moments of three readings close to each other, again and again, milliseconds.
    fn bursts() -> impl Iterator<Item = u64> {
        (0..38).flat_map(|second| [0, 42, 155].map(|ms| second * 409 + ms))
    }

    #[test]
    fn a_slow_counter_is_found_among_readings_close_to_each_other() {
        for per_s in [1.3, 4.0] {
            let steps = found_in_bursts(|s| vec![frame("main", &[("step", turns(s, per_s))])]).unwrap();
            assert!((steps.per_s / per_s - 1.0).abs() < 0.08, "{per_s}: {}", steps.per_s);
        }
    }

    #[test]
    fn a_counter_that_is_raised_after_each_turn_has_one_number_more_than_its_loop_turns() {
        // Twelve batches in a second, a pause of a quarter of one, and then the next epoch.
        let batch = |s: f64| turns((s % 1.25) / 1.25 * 15.0, 1.0).min(12);
        let numbers =
            move |s: f64| [("epoch", turns(s, 0.8)), ("for loop", (batch(s) + 1).min(12)), ("step", batch(s))];
        let steps = found_in_bursts(move |s| vec![frame("<module>", &numbers(s))]).unwrap();
        assert!((steps.per_s / (12.0 * 0.8) - 1.0).abs() < 0.03, "{} by {}", steps.per_s, steps.variable);
    }

    fn found_in_bursts(frames: impl Fn(f64) -> Vec<FrameLocals>) -> Option<CountedSteps> {
        let mut variable = LoopVariable::default();
        for ms in bursts() {
            variable.take(&reading(ms, frames(ms as f64 / 1000.0)), 7);
        }
        variable.steps(15_000_000_000)
    }

    #[test]
    fn a_loop_without_a_variable_counts_itself() {
        let of_layers = |s: f64| frame("forward", &[("for loop", turns(s, 400.0) % 3)]);
        let epochs = |per_s: f64, batches: i64| {
            found_in_bursts(move |s| {
                let numbers =
                    [("for loop", 1 + turns(s, per_s) / batches), ("second for loop", 1 + turns(s, per_s) % batches)];
                vec![frame("train", &numbers), of_layers(s)]
            })
        };
        for (per_s, batches) in [(20.0, 500), (17.0, 10), (31.0, 20)] {
            let steps = epochs(per_s, batches).unwrap();
            assert_eq!(&*steps.variable, "second for loop in train (train.py)");
            assert!((steps.per_s / per_s - 1.0).abs() < 0.06, "{batches} batches: {}", steps.per_s);
        }
        assert!(epochs(300.0, 10).is_none(), "several epochs between any two readings");
        assert_eq!(
            found_in_bursts(|s| vec![frame("train", &[("step", turns(s, 41.0) % 15)])]).map(|steps| steps.per_s),
            None
        );
    }

    #[test]
    fn what_passes_between_epochs_counts_as_well() {
        // An epoch of 40 steps takes two seconds, and validation behind it one.
        let batch = |s: f64| turns((s % 3.0).min(1.999), 20.0);
        let by_loop = found_in_bursts(|s| vec![frame("train", &[("for loop", batch(s))])]).unwrap();
        let by_variable = found_in_bursts(|s| vec![frame("train", &[("step", batch(s))])]).unwrap();
        for steps in [by_loop, by_variable] {
            assert!((steps.per_s / (40.0 / 3.0) - 1.0).abs() < 0.1, "{} by {}", steps.per_s, steps.variable);
        }
    }

    #[test]
    fn a_known_counter_that_begins_anew_between_most_readings() {
        let values: Vec<(u64, i64)> =
            bursts().map(|ms| (ms * 1_000_000, turns(ms as f64 / 1000.0, 41.0) % 15)).collect();
        let found = rate_of_counter(&values, None);
        assert!(found.is_none_or(|per_s| (per_s / 41.0 - 1.0).abs() < 0.1), "{found:?}");
    }

    #[test]
    fn what_begins_anew_with_each_turn_of_something_outside_counts_by_its_laps() {
        // Epochs of 15 batches, each a third of a second long, as numbers of a loop, a variable or an attribute.
        for (epoch, batch) in [("for loop", "step"), ("epoch", "it._num_yielded"), ("rounds", "second for loop")] {
            let handed_out = i64::from(batch != "step");
            let numbers = move |s: f64| [(epoch, turns(s, 41.0) / 15), (batch, handed_out + turns(s, 41.0) % 15)];
            let train = move |s: f64| frame("train", &numbers(s));
            let steps = found_in_bursts(move |s| vec![frame("<module>", &[]), train(s)]).unwrap();
            let wanted = if epoch == "rounds" { 41.0 / 15.0 } else { 41.0 };
            assert!((steps.per_s / wanted - 1.0).abs() < 0.03, "{epoch}: {} by {}", steps.per_s, steps.variable);
        }
        // Something faster outside is none of its laps.
        let among = |s: f64| {
            vec![frame("fit", &[("seen", turns(s, 500.0))]), frame("train", &[("step", turns(s, 5.0) % 15)])]
        };
        let steps = found_in_bursts(among);
        assert!(
            steps.as_ref().is_none_or(|steps| steps.per_s < 6.0 || &*steps.variable == "seen in fit (train.py)"),
            "{steps:?}"
        );
        let other = |s: f64| frame("train", &[("part", turns(s, 2.0)), ("step", turns(s, 41.0) % 15)]);
        let steps = found_in_bursts(move |s| vec![other(s)]);
        assert!(steps.is_none_or(|steps| steps.per_s < 3.0), "it does not begin anew with each part");
    }

    #[test]
    fn a_slow_variable_of_any_name_around_a_loop_counts_epochs() {
        let train = |name: &'static str, per_s: f64| {
            let numbers = move |s: f64| [(name, turns(s, per_s) / 20), ("for loop", 1 + turns(s, per_s) % 20)];
            let steps = found_in_bursts(move |s| vec![frame("train", &numbers(s))]).unwrap();
            steps.per_s / per_s
        };
        assert!((train("itn", 12.0) - 1.0).abs() < 0.03, "batches");
        assert!((train("step", 12.0) * 20.0 - 1.0).abs() < 0.1, "it says that it counts steps");
        assert!((train("itn", 40.0) * 20.0 - 1.0).abs() < 0.1, "two turns a second may be steps of many parts");
    }

    #[test]
    fn a_pause_after_each_short_lap_is_part_of_it() {
        // 38 batches in 0.37 s, validation for 0.12 s.
        let batch = |s: f64| turns((s % 0.49) / 0.37 * 38.0, 1.0).min(37) + 1;
        let numbers = move |s: f64| [("epoch", turns(s, 1.0 / 0.49)), ("it._num_yielded", batch(s))];
        let steps = found_in_bursts(move |s| vec![frame("fit", &numbers(s))]).unwrap();
        assert!((steps.per_s / (38.0 / 0.49) - 1.0).abs() < 0.03, "{} by {}", steps.per_s, steps.variable);
    }

    #[test]
    fn tokens_are_counted_over_all_texts_of_a_batch_and_come_after_steps() {
        let generate = |s: f64| {
            let file: Arc<str> = "/v/site-packages/transformers/generation/utils.py".into();
            // Prompts are of several lengths.
            let prompt = 20 + turns(s, 30.0) / 40 % 5;
            let sample = frame("GenerationMixin._sample", &[("input_ids", 8 * (prompt + turns(s, 30.0) % 40))]);
            vec![
                FrameLocals { file: Arc::clone(&file), ..frame("generate", &[("input_ids", 8 * prompt)]) },
                FrameLocals { file, ..sample },
            ]
        };
        let answers = |s: f64| frame("answer", &[("n", turns(s, 30.0) / 40)]);
        let [generates, samples] = [0, 1].map(|at| move |s: f64| generate(s).swap_remove(at));
        let tokens = found_in_bursts(|s| vec![answers(s), generates(s), samples(s)]).unwrap();
        assert_eq!(tokens.unit, StepUnit::Token);
        assert!((tokens.per_s / 240.0 - 1.0).abs() < 0.03, "{}", tokens.per_s);
        let trains = |s: f64| FrameLocals {
            file: "/v/site-packages/transformers/trainer.py".into(),
            ..frame("Trainer._inner_training_loop", &[("self.state.global_step", turns(s, 3.0))])
        };
        assert_eq!(found_in_bursts(|s| vec![trains(s), generates(s), samples(s)]).unwrap().unit, StepUnit::Step);
    }

    #[test]
    fn the_time_between_two_calls_that_generate_counts_as_well() {
        // A call for 32 tokens takes 0.8 s, and what is done with the answer 0.5 s.
        let frames = |s: f64| {
            let file: Arc<str> = "/v/site-packages/transformers/generation/utils.py".into();
            let ids = [("input_ids", 10 + turns((s % 1.3).min(0.8), 40.0))];
            let sample = FrameLocals { file, ..frame("GenerationMixin._sample", &ids) };
            let outside = FrameLocals { file: Arc::clone(&sample.file), ..frame("generate", &[("input_ids", 10)]) };
            let calls = (s % 1.3 < 0.8).then_some([outside, sample]);
            let check = frame("check", &[("distance", turns(s, 7.0) % 40)]);
            let below = calls.map_or_else(|| vec![check], Vec::from);
            [vec![frame("<module>", &[])], below].concat()
        };
        let tokens = found_in_bursts(frames).unwrap();
        assert!((tokens.per_s / (32.0 / 1.3) - 1.0).abs() < 0.05, "{}", tokens.per_s);
    }

    #[test]
    fn short_calls_for_tokens_are_counted_by_the_loop_around_them() {
        // A call for 40 tokens begins with 30 ms for its prompt, which is one longer than the last one, up to 20.
        for per_s in [80.0, 150.0] {
            let call = 0.03 + 40.0 / per_s;
            let frames = |s: f64| {
                let (calls, within) = (turns(s, 1.0 / call), (s % call - 0.03).max(0.0));
                let prompt = 12 + calls % 9;
                let file: Arc<str> = "/v/site-packages/transformers/generation/utils.py".into();
                let ids = [("input_ids", prompt + turns(within, per_s).min(39))];
                let sample = FrameLocals { file, ..frame("GenerationMixin._sample", &ids) };
                let outside =
                    FrameLocals { file: Arc::clone(&sample.file), ..frame("generate", &[("input_ids", prompt)]) };
                vec![frame("<module>", &[("n", calls + 1), ("for loop", calls + 2)]), outside, sample]
            };
            let tokens = found_in_bursts(frames).unwrap();
            assert!((tokens.per_s * call / 40.0 - 1.0).abs() < 0.03, "{per_s}: {}", tokens.per_s * call / 40.0);
        }
    }

    #[test]
    fn what_is_outside_may_rise_by_more_than_one_and_begin_anew_itself() {
        // Forests of 10, 20, … 200 trees: ten are added with each turn.
        let added = |s: f64| 10 + turns(s, 23.0) / 10 % 20 * 10;
        let tree = |s: f64| FrameLocals {
            file: "/v/site-packages/sklearn/ensemble/_forest.py".into(),
            ..frame("_parallel_build_trees", &[("tree_idx", turns(s, 23.0) % 10), ("n_trees", 10)])
        };
        let found = found_in_bursts(|s| vec![frame("<module>", &[("trees", added(s))]), tree(s)]).unwrap();
        assert_eq!(found.unit, StepUnit::Tree);
        assert!((found.per_s / 23.0 - 1.0).abs() < 0.03, "{}", found.per_s);
    }

    #[test]
    fn a_variable_comes_before_loops() {
        let steps = found_in_bursts(|s| {
            let numbers = [("for loop", turns(s, 30.0)), ("self.global_step", turns(s, 10.0))];
            vec![frame("fit", &numbers)]
        });
        assert_eq!(&*steps.unwrap().variable, "self.global_step in fit (train.py)");
    }

    #[test]
    fn another_thread_runs_the_loop() {
        let mut variable = LoopVariable::default();
        for ms in moments() {
            let mut read = reading(ms, vec![frame("serve", &[("polls", turns(ms as f64 / 1000.0, 50.0))])]);
            let frames = vec![frame("train", &[("step", turns(ms as f64 / 1000.0, 12.0))])];
            read.threads.push(ThreadLocals { tid: Some(9), is_main: false, frames });
            variable.take(&read, 9);
        }
        assert_eq!(&*variable.steps(9_000_000_000).unwrap().variable, "step in train (train.py)");
        assert_eq!(variable.steps(100_000_000_000), None, "no reading for long");
    }
}
