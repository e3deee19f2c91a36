//! What a process of the job mostly does, in one word: the busiest stage of a worker, the largest part of a trainer's
//! main thread.

use crate::diagnosis::verdict::{Verdict, WorkerVerdict};
use crate::rates::Frame;
use crate::rates::frame::{TrainerRates, WorkerRates};

/// What takes the largest part of a process's time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Doing {
    /// A worker reads.
    Load,
    /// A worker decodes.
    Decode,
    /// A worker runs the user's transforms.
    Transform,
    /// A worker collates.
    Collate,
    /// A worker hands batches over.
    HandOver,
    /// A worker is on a CPU; with what is not known.
    Busy,
    /// A worker waits for its data.
    Io,
    /// A worker queues for a CPU.
    Queue,
    /// A worker has nothing to do.
    Idle,
    /// A trainer waits for a batch.
    Wait,
    /// A trainer waits for the device.
    Sync,
    /// A trainer works on the host.
    Host,
    /// A trainer saves its state.
    Save,
    /// A trainer does something else.
    Other,
}

impl Doing {
    /// The word shown to people.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Load => "load",
            Self::Decode => "decode",
            Self::Transform => "transform",
            Self::Collate => "collate",
            Self::HandOver => "hand-over",
            Self::Busy => "busy",
            Self::Io => "io",
            Self::Queue => "queue",
            Self::Idle => "idle",
            Self::Wait => "wait data",
            Self::Sync => "wait GPU",
            Self::Host => "host work",
            Self::Save => "saving",
            Self::Other => "other",
        }
    }
}

/// What each trainer and worker mostly does, by PID, in the order of the PIDs. Stacks tell the stages of a worker; where
/// they did not look, its states are known.
pub(super) fn all(frame: &Frame, verdict: Option<&Verdict>) -> Vec<(u32, Doing)> {
    let mut told: Vec<&WorkerVerdict> = verdict.map(|v| v.workers.iter().collect()).unwrap_or_default();
    told.sort_by_key(|worker| worker.pid);
    let stage = |pid: u32| told.binary_search_by_key(&pid, |w| w.pid).ok().and_then(|at| told.get(at)).copied();
    let workers = frame.workers.iter().filter_map(|worker| {
        let doing = stage(worker.id.pid).and_then(by_stage).or_else(|| by_state(worker))?;
        Some((worker.id.pid, doing))
    });
    let trainers = frame.trainers.iter().filter_map(|trainer| Some((trainer.id.pid, by_part(trainer)?)));
    let mut all: Vec<_> = trainers.chain(workers).collect();
    all.sort_by_key(|(pid, _)| *pid);
    all
}

/// The largest of some shares, the first of equal ones; none where nothing took any time.
fn largest(shares: impl IntoIterator<Item = (Doing, f64)>) -> Option<Doing> {
    let mut largest = None;
    for (doing, share) in shares {
        if share > largest.map_or(0.0, |(_, most)| most) {
            largest = Some((doing, share));
        }
    }
    largest.map(|(doing, _)| doing)
}

fn by_stage(worker: &WorkerVerdict) -> Option<Doing> {
    let stages = worker.stages?;
    largest([
        (Doing::Load, stages.load),
        (Doing::Decode, stages.decode),
        (Doing::Transform, stages.transform),
        (Doing::Collate, stages.collate),
        (Doing::HandOver, stages.hand_over),
        (Doing::Idle, worker.idle.unwrap_or(0.0)),
    ])
}

fn by_state(worker: &WorkerRates) -> Option<Doing> {
    let share = |share: Option<f64>| share.unwrap_or(0.0);
    largest([
        (Doing::Busy, share(worker.busy)),
        (Doing::Io, share(worker.io_wait)),
        (Doing::Queue, share(worker.runnable)),
        (Doing::Idle, share(worker.idle)),
    ])
}

fn by_part(trainer: &TrainerRates) -> Option<Doing> {
    largest([
        (Doing::Wait, trainer.split_s.input_wait),
        (Doing::Sync, trainer.split_s.device_sync),
        (Doing::Host, trainer.split_s.host_busy),
        (Doing::Save, trainer.split_s.checkpoint),
        (Doing::Other, trainer.split_s.other),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnosis::verdict::Stages;
    use crate::rates::time_split::TimeSplit;
    use crate::sample::ProcessId;

    fn frame() -> Frame {
        let worker = |pid, busy| WorkerRates {
            id: ProcessId { pid, start_ticks: 1 },
            busy: Some(busy),
            idle: Some(1.0 - busy),
            ..WorkerRates::default()
        };
        let id = |pid| ProcessId { pid, start_ticks: 1 };
        let trainer = TrainerRates {
            id: id(10),
            split_s: TimeSplit { input_wait: 0.2, host_busy: 0.8, ..TimeSplit::default() },
            ..TrainerRates::default()
        };
        let unseen = TrainerRates { id: id(9), ..TrainerRates::default() };
        Frame { trainers: vec![trainer, unseen], workers: vec![worker(12, 0.1), worker(11, 0.9)], ..Frame::default() }
    }

    #[test]
    fn states_speak_where_no_stack_was_seen() {
        assert_eq!(all(&frame(), None), [(10, Doing::Host), (11, Doing::Busy), (12, Doing::Idle)]);
    }

    #[test]
    fn stages_speak_first_and_idleness_is_no_stage() {
        let stages = Some(Stages { load: 0.1, transform: 0.4, ..Stages::default() });
        let told = |pid, idle| WorkerVerdict { pid, idle: Some(idle), stages, ..WorkerVerdict::default() };
        let verdict = Verdict { workers: vec![told(12, 0.1), told(11, 0.5)], ..Verdict::default() };
        assert_eq!(all(&frame(), Some(&verdict)), [(10, Doing::Host), (11, Doing::Idle), (12, Doing::Transform)]);
    }
}
