//! The fast lane: many looks a second at what the trainers' main threads and the workers are doing.
//!
//! A look at a blocked thread costs one read of `/proc/PID/task/TID/syscall` and, where the call alone does not tell
//! (a read may be of a pipe, a socket or a disk), one of `wchan`. Neither stops the thread. Where `syscall` may not be
//! read, `wchan` alone is; it cannot tell torch's data poll from another one.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::time::{ClockId, clock_gettime};

use super::kept;
use super::task_files::{self, Syscall};
use crate::sample::{Access, LanePoint, LaneSample, ProcessId, TrainerLane, Wait, WorkerLane};

/// The feeders' counters are read at every so many looks.
const FEEDERS_EVERY: u64 = 2;
/// With more feeders than this their counters are not read more often than that.
const MOST_FEEDERS_EVERY_LOOK: usize = 16;
/// The workers are looked at at every so many looks.
const WORKERS_EVERY: u64 = 3;
/// Bytes written by the main thread are read at every so many looks.
const WRITTEN_EVERY: u64 = 4;
/// Most workers that one look goes through; more are taken in turns.
const MOST_WORKERS: usize = 16;
/// A wait on the queue of pinned batches ends after torch's MP_STATUS_CHECK_INTERVAL of 5 s.
const LONGEST_QUEUE_WAIT_S: i64 = 5;
/// Most points kept between two ticks, a minute's worth: more are dropped, oldest kept.
const MOST_POINTS: usize = 6000;

/// What to look at.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LanePlan {
    /// `syscall` may not be read.
    pub no_syscall: bool,
    /// Trainers, the attached one first.
    pub trainers: Vec<TrainerPlan>,
    /// Workers.
    pub workers: Vec<WorkerPlan>,
}

/// One trainer to look at.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TrainerPlan {
    /// Identity.
    pub id: ProcessId,
    /// Pin-memory thread.
    pub pin: Option<u32>,
    /// Threads that have lately computed.
    pub helpers: Vec<u32>,
    /// Queue feeders.
    pub feeders: Vec<u32>,
}

/// One worker to look at.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WorkerPlan {
    /// Identity.
    pub id: ProcessId,
    /// PID of its trainer.
    pub trainer: u32,
    /// Its queue feeder.
    pub feeder: Option<u32>,
    /// One of torch's workers: it waits for an index in torch's data poll.
    pub torch: bool,
}

/// Looks at trainers and workers; see [`LaneReader::look`].
#[derive(Debug)]
pub struct LaneReader {
    proc_root: PathBuf,
    plan: LanePlan,
    trainers: BTreeMap<ProcessId, Trainer>,
    workers: BTreeMap<ProcessId, Worker>,
    looks: u64,
    next_worker: usize,
}

#[derive(Debug)]
struct Trainer {
    main: Task,
    pin: Option<Task>,
    helpers: Vec<Task>,
    feeders: Vec<(u32, OwnedFd)>,
    main_io: Option<OwnedFd>,
    points: Vec<LanePoint>,
    /// The feeders' count while the main thread was last seen waiting for a batch, until it moves on.
    asking: Option<u64>,
}

#[derive(Debug)]
struct Worker {
    task: Task,
    feeder: Option<(u32, OwnedFd)>,
    lane: WorkerLane,
    torch: bool,
}

/// A thread with the descriptors that tell what it does.
#[derive(Debug)]
struct Task {
    tid: u32,
    syscall: Option<OwnedFd>,
    wchan: Option<OwnedFd>,
    stat: Option<OwnedFd>,
    /// Memory of the process, open only where the end of a futex wait is wanted.
    memory: Option<OwnedFd>,
}

impl Task {
    fn open(proc_root: &Path, pid: u32, tid: u32, no_syscall: bool) -> Self {
        let file = |name: &str| kept::open(&proc_root.join(format!("{pid}/task/{tid}/{name}"))).ok();
        Self {
            tid,
            syscall: if no_syscall { None } else { file("syscall") },
            wchan: file("wchan"),
            stat: file("stat"),
            memory: None,
        }
    }

    fn look(&self) -> Wait {
        let mut room = [0_u8; 256];
        if let Some(syscall) = &self.syscall
            && let Ok(bytes) = kept::read_line(syscall, &mut room)
            && let Some(parsed) = task_files::syscall(bytes)
        {
            return match parsed {
                Syscall::Running => Wait::Running,
                Syscall::Blocked => self.look_at_wchan(false),
                Syscall::In(number, arguments) if self.waits_for_pinned(number, arguments) => Wait::LoaderPoll,
                Syscall::In(number, arguments) => task_files::wait_of_syscall(number, arguments)
                    .unwrap_or_else(|| self.look_at_wchan(task_files::is_write_call(number))),
            };
        }
        self.look_at_wchan(false)
    }

    /// Whether this is a main thread's wait for a batch from its pin-memory thread: a timed wait on a queue of 5 s, where
    /// a wait for anything else ends sooner or has no end. The time-out stands in the target's memory; reading it does
    /// not stop the target. In the last second of each 5 s the wait cannot be told from others.
    fn waits_for_pinned(&self, number: u64, arguments: [u64; 4]) -> bool {
        let Some(memory) = &self.memory else { return false };
        let Some((address, realtime)) = task_files::timed_futex(number, arguments) else { return false };
        let mut seconds = [0_u8; 8];
        if rustix::io::pread(memory, &mut seconds, address) != Ok(8) {
            return false;
        }
        let clock = if realtime { ClockId::Realtime } else { ClockId::Monotonic };
        let ahead = i64::from_ne_bytes(seconds).saturating_sub(clock_gettime(clock).tv_sec);
        (2..=LONGEST_QUEUE_WAIT_S).contains(&ahead)
    }

    /// `writing`: the thread is in a write call, so a wait for a page is one for writing.
    fn look_at_wchan(&self, writing: bool) -> Wait {
        let mut room = [0_u8; 128];
        let symbol = self.wchan.as_ref().and_then(|wchan| kept::read_line(wchan, &mut room).ok());
        match symbol.and_then(task_files::wait_of_wchan) {
            Some(Wait::DiskRead) if writing => Wait::DiskWrite,
            Some(wait) => wait,
            None => self.look_at_state(),
        }
    }

    /// `wchan` reads `0` for a running thread and for one that we may not see into: the state letter tells them apart.
    fn look_at_state(&self) -> Wait {
        let mut room = [0_u8; 512];
        let state = self
            .stat
            .as_ref()
            .and_then(|stat| kept::read_line(stat, &mut room).ok())
            .and_then(task_files::stat)
            .map(|stat| stat.state);
        match state {
            Some('R') => Wait::Running,
            Some('D') => Wait::DiskRead,
            Some('T' | 't') => Wait::Stopped,
            _ => Wait::Unknown,
        }
    }
}

impl LaneReader {
    /// A reader with nothing to look at yet.
    #[must_use]
    pub fn new(proc_root: &Path) -> Self {
        Self {
            proc_root: proc_root.to_path_buf(),
            plan: LanePlan::default(),
            trainers: BTreeMap::new(),
            workers: BTreeMap::new(),
            looks: 0,
            next_worker: 0,
        }
    }

    /// Takes a new plan, keeping the descriptors of whatever stays.
    pub fn follow(&mut self, plan: LanePlan) {
        if plan == self.plan {
            return;
        }
        let no_syscall = plan.no_syscall;
        self.trainers.retain(|id, _| plan.trainers.iter().any(|trainer| trainer.id == *id));
        self.workers.retain(|id, _| plan.workers.iter().any(|worker| worker.id == *id));
        for wanted in &plan.trainers {
            let pid = wanted.id.pid;
            let root = &self.proc_root;
            let open = |tid: u32| Task::open(root, pid, tid, no_syscall);
            let io = |tid: u32| kept::open(&root.join(format!("{pid}/task/{tid}/io"))).ok();
            let trainer = self.trainers.entry(wanted.id).or_insert_with(|| Trainer {
                main: open(pid),
                pin: None,
                helpers: Vec::new(),
                feeders: Vec::new(),
                main_io: io(pid),
                points: Vec::with_capacity(64),
                asking: None,
            });
            if trainer.pin.as_ref().map(|pin| pin.tid) != wanted.pin {
                trainer.pin = wanted.pin.map(open);
                let wanted = trainer.pin.is_some() && !no_syscall;
                trainer.main.memory = wanted.then(|| kept::open(&root.join(format!("{pid}/mem"))).ok()).flatten();
            }
            if !trainer.helpers.iter().map(|helper| helper.tid).eq(wanted.helpers.iter().copied()) {
                trainer.helpers = wanted.helpers.iter().map(|tid| open(*tid)).collect();
            }
            if !trainer.feeders.iter().map(|(tid, _)| *tid).eq(wanted.feeders.iter().copied()) {
                trainer.feeders = wanted.feeders.iter().filter_map(|tid| Some((*tid, io(*tid)?))).collect();
            }
        }
        for wanted in &plan.workers {
            let pid = wanted.id.pid;
            let root = &self.proc_root;
            let worker = self.workers.entry(wanted.id).or_insert_with(|| Worker {
                task: Task::open(root, pid, pid, no_syscall),
                feeder: None,
                lane: WorkerLane { id: wanted.id, ..WorkerLane::default() },
                torch: wanted.torch,
            });
            worker.lane.trainer = wanted.trainer;
            worker.torch = wanted.torch;
            if worker.feeder.as_ref().map(|(tid, _)| *tid) != wanted.feeder {
                worker.feeder = wanted
                    .feeder
                    .and_then(|tid| Some((tid, kept::open(&root.join(format!("{pid}/task/{tid}/io"))).ok()?)));
            }
        }
        self.plan = plan;
    }

    /// One look at everything that is due. `now_ns` is CLOCK_MONOTONIC.
    pub fn look(&mut self, now_ns: u64) {
        let mut room = [0_u8; 256];
        let looks = self.looks;
        for trainer in self.trainers.values_mut() {
            if trainer.points.len() >= MOST_POINTS {
                continue;
            }
            let main = trainer.main.look();
            let helper_running = (!matches!(main, Wait::Running | Wait::LoaderPoll) && !trainer.helpers.is_empty())
                .then(|| trainer.helpers.iter().any(|helper| helper.look() == Wait::Running));
            let written_chars = looks
                .is_multiple_of(WRITTEN_EVERY)
                .then(|| io_counters(trainer.main_io.as_ref()?, &mut room))
                .flatten()
                .map(|io| io.write_chars);
            // Fetching a batch ends when the next index is handed out: the count is read while that is awaited.
            let waits = matches!(main, Wait::LoaderPoll | Wait::Poll | Wait::Socket | Wait::Pipe);
            let fetching = (waits || main == Wait::Running && trainer.asking.is_some())
                && trainer.feeders.len() <= MOST_FEEDERS_EVERY_LOOK;
            let batches_requested = ((looks.is_multiple_of(FEEDERS_EVERY) || fetching)
                && !trainer.feeders.is_empty())
            .then(|| {
                trainer
                    .feeders
                    .iter()
                    .try_fold(0_u64, |sum, (_, fd)| Some(sum + io_counters(fd, &mut room)?.write_calls))
            })
            .flatten();
            trainer.asking = match batches_requested {
                Some(count) if waits => Some(count),
                Some(count) if main == Wait::Running && trainer.asking == Some(count) => Some(count),
                _ => None,
            };
            trainer.points.push(LanePoint {
                at_ns: now_ns,
                main,
                pin: trainer.pin.as_ref().map(Task::look),
                helper_running,
                written_chars,
                batches_requested,
            });
        }
        if looks.is_multiple_of(WORKERS_EVERY) {
            self.look_at_workers();
        }
        self.looks += 1;
    }

    fn look_at_workers(&mut self) {
        let count = self.workers.len();
        if count == 0 {
            return;
        }
        let start = if count > MOST_WORKERS { self.next_worker % count } else { 0 };
        let no_syscall = self.plan.no_syscall;
        for (at, worker) in self.workers.values_mut().enumerate() {
            if (at + count - start) % count >= MOST_WORKERS {
                continue;
            }
            let wait = worker.task.look();
            if let Some(looks) = worker.lane.looks.get_mut(wait.index()) {
                *looks += 1;
            }
            if is_idle(wait, worker.torch, no_syscall) {
                worker.lane.idle_looks += 1;
            }
        }
        self.next_worker = self.next_worker.wrapping_add(MOST_WORKERS);
    }

    /// All points since the last call.
    pub fn take(&mut self) -> LaneSample {
        let syscall = if self.plan.no_syscall { Access::Denied } else { Access::Ok };
        let mut room = [0_u8; 256];
        // In the order of the plan: the attached trainer first.
        let trainers = self
            .plan
            .trainers
            .iter()
            .filter_map(|plan| {
                let trainer = self.trainers.get_mut(&plan.id)?;
                let points = std::mem::replace(&mut trainer.points, Vec::with_capacity(64));
                Some(TrainerLane {
                    id: plan.id,
                    syscall,
                    feeders: u32::try_from(trainer.feeders.len()).unwrap_or(u32::MAX),
                    points,
                })
            })
            .collect();
        let workers = self
            .workers
            .values_mut()
            .map(|worker| {
                let batches = worker.feeder.as_ref().and_then(|(_, fd)| io_counters(fd, &mut room));
                let lane = WorkerLane { batches: batches.map(|io| io.write_calls), ..worker.lane.clone() };
                worker.lane.looks = [0; Wait::COUNT];
                worker.lane.idle_looks = 0;
                lane
            })
            .collect();
        LaneSample { trainers, workers }
    }
}

/// Whether a worker in this wait has nothing to do. torch's workers wait for an index in a poll of 5 s; other loaders'
/// workers wait on a lock or a pipe, for work or for room to hand it over.
fn is_idle(wait: Wait, torch: bool, no_syscall: bool) -> bool {
    match wait {
        Wait::LoaderPoll => true,
        Wait::Poll => torch && no_syscall,
        Wait::Futex | Wait::Pipe => !torch,
        _ => false,
    }
}

fn io_counters(fd: &OwnedFd, room: &mut [u8]) -> Option<crate::sample::IoCounters> {
    task_files::io(kept::read_line(fd, room).ok()?)
}
