//! What changes about a job, for days: ticks in, events out. One file per kind of event.
//!
//! Pure, without a clock and without I/O: the same ticks give the same events, live and from a recording. It knows neither where
//! ticks come from nor how an event is written. Its memory does not grow with the length of a run.
//!
//! A running job is never quite even: epochs end, state is saved, another process takes a CPU for some seconds. So a kind of event is
//! told only after it has lasted, and the longer such a thing has lasted before without staying, the longer the next one has to
//! ([`lasting`]).

mod bottleneck;
mod deadline;
mod event;
mod filling;
mod gpu_error;
mod held_down;
mod job_end;
mod lasting;
mod late_rank;
mod restarted;
mod slow_steps;
mod standstill;
mod story;

pub use event::{EventDetails, EventKind, EventState, WatchEvent};
pub use job_end::JobEnd;
pub use story::{Episode, RunStory, StoryEvent};

use crate::pipeline::Tick;
use trainmon_base::text::format::duration;
use trainmon_base::text::short_command;

/// No interval is longer, seconds, whatever a recording says.
const INTERVAL_MAX_S: f64 = 3600.0;

/// What to tell.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct WatchOptions {
    /// Steps are told as slower from this part of their past length on: 0.2 is 20% longer.
    pub slower: f64,
}

impl Default for WatchOptions {
    fn default() -> Self {
        // Epochs differ by less; more is noticed by people anyway.
        Self { slower: 0.2 }
    }
}

/// A tick, and the seconds it is about: 0 where the series is broken.
#[derive(Debug, Clone, Copy)]
struct WatchedMoment<'a> {
    tick: &'a Tick,
    seconds: f64,
}

/// Watches one job.
#[derive(Debug)]
pub struct Watcher {
    bottleneck: bottleneck::HeldBack,
    standstill: standstill::Standstill,
    slow_steps: slow_steps::SlowSteps,
    late_rank: late_rank::LateRank,
    held_down: held_down::HeldDown,
    gpu_errors: gpu_error::GpuErrors,
    memory: filling::FillingMemory,
    deadline: deadline::Deadline,
    restarted: restarted::Restarted,
    oom_kills: job_end::OomKills,
    began: bool,
    ended: bool,
    watched_s: f64,
    steps: Option<u64>,
}

impl Watcher {
    /// A watcher that has seen nothing.
    pub fn new(options: WatchOptions) -> Self {
        Self {
            bottleneck: bottleneck::HeldBack::default(),
            standstill: standstill::Standstill::default(),
            slow_steps: slow_steps::SlowSteps::new(options.slower),
            late_rank: late_rank::LateRank::default(),
            held_down: held_down::HeldDown::default(),
            gpu_errors: gpu_error::GpuErrors::default(),
            memory: filling::FillingMemory::default(),
            deadline: deadline::Deadline::default(),
            restarted: restarted::Restarted::default(),
            oom_kills: job_end::OomKills::default(),
            began: false,
            ended: false,
            watched_s: 0.0,
            steps: None,
        }
    }

    /// Takes the next tick in, and gives what there is to tell.
    pub fn push(&mut self, tick: &Tick) -> Vec<WatchEvent> {
        let mut events = Vec::new();
        if self.ended {
            return events;
        }
        if !std::mem::replace(&mut self.began, true) && tick.alive {
            let command = tick.verdict.command.clone();
            let text = format!("watching {}", short_command(&command));
            events.push(WatchEvent::new(EventKind::Attached, None, text, EventDetails::Attached { command }));
        }
        let frame = &tick.frame;
        let seconds =
            if frame.gap || !frame.seconds.is_finite() { 0.0 } else { frame.seconds.clamp(0.0, INTERVAL_MAX_S) };
        self.watched_s += seconds;
        self.steps = tick.verdict.steps.count.or(self.steps);
        let moment = WatchedMoment { tick, seconds };
        self.oom_kills.push(moment);
        if tick.alive {
            events.extend(self.standstill.push(moment));
            events.extend(self.bottleneck.push(moment));
            events.extend(self.late_rank.push(moment));
            events.extend(self.slow_steps.push(moment));
            events.extend(self.held_down.push(moment));
            events.extend(self.gpu_errors.push(moment));
            events.extend(self.memory.push(moment));
            events.extend(self.deadline.push(moment));
            events.extend(self.restarted.push(moment));
        } else {
            self.ended = true;
            events.push(self.end("the job has ended", self.oom_kills.end(tick)));
        }
        for event in &mut events {
            (event.unix_ms, event.pid) = (frame.unix_ms, tick.verdict.pid);
        }
        events
    }

    /// The job of this last tick is not followed any more; `None` if its end was told.
    pub fn let_go(&mut self, last: &Tick) -> Option<WatchEvent> {
        let event = self.end("the process no longer trains", JobEnd::default());
        let told = std::mem::replace(&mut self.ended, true);
        (!told && self.began).then(|| WatchEvent { unix_ms: last.frame.unix_ms, pid: last.verdict.pid, ..event })
    }

    /// Whether what is remembered stays within its bounds.
    #[cfg(test)]
    fn is_small(&self) -> bool {
        self.bottleneck.is_small()
            && self.slow_steps.is_small()
            && self.held_down.is_small()
            && self.gpu_errors.is_small()
            && self.memory.is_small()
            && self.deadline.is_small()
    }

    fn end(&self, what: &str, end: JobEnd) -> WatchEvent {
        let how = end.words().map(|words| format!(": {words}")).unwrap_or_default();
        let text = format!("{what}, after {} of watching{how}", duration(self.watched_s));
        let details = EventDetails::Ended { watched_s: self.watched_s, steps: self.steps, end };
        WatchEvent::new(EventKind::Ended, None, text, details)
    }
}

#[cfg(test)]
mod tests;
