//! A polling loop, like `while not result.ready(): time.sleep(0.01)`, waits for the threads that work while it sleeps.
//!
//! The kernel shows such a wait only as a sleep. A thread that works while the loop sleeps, and is idle while the loop
//! works, is what the loop waits for. A thread that is never idle either works ahead and does not keep up, or has
//! nothing to do with the loop: then it is only a guess that the loop waits for it. A loop that sleeps while no thread
//! works just sleeps.
//!
//! A wait for the GPU may sleep too. While the loop's stacks are at a line that sleeps, it does not wait for the GPU.

use std::collections::HashMap;

use super::graph::Graph;
use super::paths::WaitHop;
use super::round_paths::{FoundPaths, RoundPath};
use crate::stacks::PythonThread;
use crate::stacks::correction::ENOUGH_SAMPLES;
use crate::taxonomy::{Edge, End};
use crate::wait::Wait;
use trainmon_rates::levels::{CLEARLY, MOSTLY, SEEN_S, SHORT_INTERVAL_S, faded};

/// Most threads kept.
const MOST_WORKERS_BESIDE: usize = 512;

/// Seconds in which the loop slept, and in which it did not.
#[derive(Debug, Default, Clone, Copy)]
struct Seconds {
    asleep: f64,
    beside: f64,
}

impl Seconds {
    fn add(&mut self, sleeps: bool, seconds: f64) {
        *(if sleeps { &mut self.asleep } else { &mut self.beside }) += seconds;
    }

    fn fade(&mut self, part: f64) {
        self.asleep *= part;
        self.beside *= part;
    }
}

/// Which threads worked while a loop slept, and which while it did not.
#[derive(Debug, Default)]
pub(super) struct Polling {
    /// For each thread, by process and thread: the seconds in which it worked.
    known: HashMap<(u32, u32), Seconds>,
    all: Seconds,
    /// Number of the loop's stacks at a line that sleeps, and of all its stacks.
    at_sleep: (f64, f64),
    /// The latest sleep was attributed to threads that are never idle.
    guesses: bool,
}

impl Polling {
    /// Takes the stacks of the loop's thread. Older ones count half as much as those of the next window.
    pub(super) fn take_stacks(&mut self, of_loop: Option<&PythonThread>) {
        let Some(of_loop) = of_loop else { return };
        let (sleeps, all) = self.at_sleep;
        self.at_sleep = (sleeps / 2.0 + f64::from(of_loop.sleeps), all / 2.0 + f64::from(of_loop.samples));
    }

    /// Share of the loop's sleep, 0–1, requested by lines of its code.
    fn by_code(&self) -> f64 {
        let (sleeps, all) = self.at_sleep;
        if all < ENOUGH_SAMPLES as f64 || self.all.asleep <= 0.0 {
            return 0.0;
        }
        (sleeps / all * (self.all.asleep + self.all.beside) / self.all.asleep).clamp(0.0, 1.0)
    }

    /// Whether most of it is.
    pub(super) fn is_by_code(&self) -> bool {
        self.by_code() >= MOSTLY
    }

    /// Whether the latest sleep was attributed to threads that are never idle, which may have nothing to do with it.
    pub(super) fn guesses(&self) -> bool {
        self.guesses
    }

    /// Leaves the GPU the part of a sleep that the loop's code does not request. Idle time stays unchanged.
    fn leave_gpu(&self, paths: &mut Vec<RoundPath>) {
        let by_code = self.by_code();
        let parts = |path: RoundPath| {
            let moved = if path.is_own(End::Gpu) { path.share * by_code } else { 0.0 };
            let own = RoundPath { share: moved, idle: path.idle, ..RoundPath::end(End::Timer) };
            [RoundPath { share: path.share - moved, ..path }, own]
        };
        *paths = paths.drain(..).flat_map(parts).filter(|path| path.share > 0.0).collect();
    }

    /// Takes the result for one round of this many seconds, in which the process's loop thread was in this wait. A
    /// sleep leads to the threads that work only during such sleeps.
    pub(super) fn take(
        &mut self,
        found: &mut FoundPaths,
        graph: &Graph<'_>,
        (pid, tid, wait): (u32, u32, Wait),
        seconds: f64,
    ) {
        let sleeps = wait == Wait::Sleep;
        if !sleeps && self.all.asleep <= 0.0 {
            return;
        }
        self.fade(seconds);
        let busy = graph.busy_threads((pid, tid));
        self.count(&busy, sleeps, seconds);
        if !sleeps {
            return;
        }
        self.leave_gpu(&mut found.paths);
        let of = |works: fn(&Self, (u32, u32)) -> bool| -> Vec<(u32, u32)> {
            busy.iter().copied().filter(|thread| works(self, *thread)).collect()
        };
        let (asked, ahead) = (of(Self::works_meanwhile), of(Self::never_rests));
        let guesses = asked.is_empty();
        let asked = if guesses { ahead } else { asked };
        if asked.is_empty() {
            return;
        }
        self.guesses = guesses;
        let to = |path: RoundPath| -> Vec<RoundPath> {
            if !path.is_own(End::Timer) {
                return vec![path];
            }
            let share = path.share / asked.len() as f64;
            let hop = |(of, tid): (u32, u32)| WaitHop {
                by: if of == pid { Edge::Thread } else { Edge::Polls },
                pid: of,
                tid,
            };
            let by = |thread: &(u32, u32)| RoundPath {
                hops: vec![hop(*thread)],
                end: End::Cpu,
                name: None,
                lock: None,
                share,
                ..path
            };
            asked.iter().map(by).collect()
        };
        for paths in [&mut found.paths, &mut found.otherwise] {
            *paths = paths.drain(..).flat_map(to).collect();
        }
    }

    fn count(&mut self, busy: &[(u32, u32)], sleeps: bool, seconds: f64) {
        self.all.add(sleeps, seconds);
        for thread in busy {
            if self.known.len() >= MOST_WORKERS_BESIDE && !self.known.contains_key(thread) {
                continue;
            }
            self.known.entry(*thread).or_default().add(sleeps, seconds);
        }
    }

    fn fade(&mut self, seconds: f64) {
        let part = faded(seconds);
        self.known.values_mut().for_each(|worked| worked.fade(part));
        self.known.retain(|_, worked| worked.asleep + worked.beside > 0.001);
        self.all.fade(part);
    }

    /// Whether it works during part of the loop's sleep, and far less otherwise.
    fn works_meanwhile(&self, thread: (u32, u32)) -> bool {
        let Some(worked) = self.known.get(&thread) else { return false };
        if self.all.asleep < SHORT_INTERVAL_S || self.all.beside < SEEN_S {
            return false;
        }
        let (asleep, beside) = (worked.asleep / self.all.asleep, worked.beside / self.all.beside);
        asleep >= CLEARLY && beside <= MOSTLY * asleep
    }

    fn never_rests(&self, thread: (u32, u32)) -> bool {
        let asleep_s = self.known.get(&thread).map_or(0.0, |worked| worked.asleep);
        self.all.asleep >= SHORT_INTERVAL_S && asleep_s >= (1.0 - CLEARLY) * self.all.asleep
    }
}
