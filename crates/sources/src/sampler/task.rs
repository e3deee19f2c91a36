//! One sample of one thread: which of its files are read, and the observation they make.

use std::path::Path;
use std::sync::Arc;

use rustix::time::{ClockId, clock_gettime};

use super::ThreadPlan;
use crate::connections::{Connections, MOST_POLLED};
use crate::descriptors::{ThriftyFile, Use};
use crate::fields::text;
use crate::files::KeptFile;
use crate::task_files::{self, Syscall};
use trainmon_sample::syscall::{CallKind, FdUse, Machine, fd_use, kind, waits_for_lock};
use trainmon_sample::{Descriptor, Observation, SampledThread};

/// Most `wchan` symbols remembered; a job shows a few dozen.
const MOST_SYMBOLS: usize = 256;
/// An observation is searched among this many of the latest.
const RECENT: usize = 256;
/// A thread, the descriptors that show what it does, and what was sampled of it.
#[derive(Debug)]
pub(super) struct Task {
    syscall: Option<ThriftyFile>,
    wchan: Option<ThriftyFile>,
    stat: Option<ThriftyFile>,
    pub(super) samples: SampledThread,
}

/// The table of observations, and the symbols kept from tick to tick so that a sample does not allocate.
#[derive(Debug, Default)]
pub(super) struct TaskRead {
    pub(super) table: Vec<Observation>,
    symbols: Vec<Arc<str>>,
}

impl TaskRead {
    fn symbol(&mut self, symbol: &[u8]) -> Arc<str> {
        if let Some(known) = self.symbols.iter().find(|known| known.as_bytes() == symbol) {
            return Arc::clone(known);
        }
        if self.symbols.len() >= MOST_SYMBOLS {
            self.symbols.clear();
        }
        self.symbols.push(text(symbol));
        self.symbols.last().map(Arc::clone).unwrap_or_default()
    }

    /// The index of an observation in the table. One that was last seen long ago may be there twice.
    fn place(&mut self, observation: Observation) -> u32 {
        let from = self.table.len().saturating_sub(RECENT);
        let recent = self.table.get(from..).unwrap_or_default();
        let at = match recent.iter().rposition(|known| *known == observation) {
            Some(at) => from + at,
            None => {
                self.table.push(observation);
                self.table.len() - 1
            }
        };
        u32::try_from(at).unwrap_or(u32::MAX)
    }
}

impl Task {
    pub(super) fn open(proc_root: &Path, pid: u32, plan: &ThreadPlan, no_syscall: bool) -> Self {
        let ThreadPlan { tid, role, aside } = *plan;
        let folder = proc_root.join(format!("{pid}/task/{tid}"));
        let file = |name: &str, keep: Option<Use>| ThriftyFile::open(folder.join(name), keep).ok();
        let keep = Some(Use::Rounds);
        Self {
            syscall: if no_syscall { None } else { file("syscall", keep) },
            wchan: file("wchan", keep),
            // Hardly ever needed along with the call.
            stat: file("stat", if no_syscall { keep } else { None }),
            samples: SampledThread { tid, role, aside, ..SampledThread::default() },
        }
    }

    /// Whether sampling it costs only reads, because its files are kept open.
    pub(super) fn is_cheap(&self) -> bool {
        [&self.syscall, &self.wchan].into_iter().flatten().all(ThriftyFile::is_kept)
    }

    /// Samples the thread and records the result. With `connections`, what it waits on is looked up too.
    pub(super) fn sample(
        &mut self,
        round: u32,
        memory: Option<&KeptFile>,
        connections: Option<(u32, &mut Connections)>,
        seen: &mut TaskRead,
    ) -> Observation {
        let observation = self.observe(memory, connections, seen);
        self.samples.rounds.push(round);
        self.samples.seen.push(seen.place(observation.clone()));
        observation
    }

    fn observe(
        &self,
        memory: Option<&KeptFile>,
        mut connections: Option<(u32, &mut Connections)>,
        seen: &mut TaskRead,
    ) -> Observation {
        let mut room = [0_u8; 512];
        let line = line_of(self.syscall.as_ref(), &mut room);
        let mut found = match line.and_then(task_files::syscall) {
            Some(Syscall::Running) => return Observation { state: Some('R'), ..Observation::default() },
            Some(Syscall::In(number, arguments)) => {
                let (mut found, tells) = of_call(number, arguments, memory);
                if let Some((pid, connections)) = &mut connections {
                    found.descriptors = waited_on(number, arguments, *pid, memory, connections);
                    if kind(Machine::OWN, number) == Some(CallKind::Sleep) || found.nfds == Some(0) {
                        connections.sleeps(*pid);
                    }
                }
                if tells {
                    return found;
                }
                found
            }
            None => Observation::default(),
        };
        if let Some(symbol) = line_of(self.wchan.as_ref(), &mut room) {
            let symbol = seen.symbol(symbol.trim_ascii());
            // If the call cannot be read, the kernel function still shows a wait for a file lock or for a pipe.
            if let Some((pid, connections)) = connections {
                let (pipe, hidden) = (symbol.contains("pipe_read"), self.syscall.is_none());
                if hidden && waits_for_lock(&symbol) {
                    connections.lock(pid);
                } else if hidden && pipe {
                    connections.reads_a_pipe(pid);
                } else if hidden && symbol.contains("nanosleep") {
                    connections.sleeps(pid);
                }
                let fd = found.argument.and_then(|fd| u32::try_from(fd).ok());
                if (pipe || symbol.contains("pipe_write"))
                    && let (Some(fd), [descriptor]) = (fd, &mut found.descriptors[..])
                {
                    connections.name_pipe(pid, fd, descriptor);
                }
            }
            found.wchan = Some(symbol);
        }
        // `wchan` reads `0` for a running thread and for one that may not be inspected; the state letter tells them
        // apart.
        if matches!(found.wchan.as_deref(), None | Some("" | "0")) {
            let line = line_of(self.stat.as_ref(), &mut room);
            found.state = line.and_then(task_files::stat).map(|stat| stat.state);
        }
        found
    }
}

/// The content of one of a thread's files.
fn line_of<'r>(file: Option<&ThriftyFile>, room: &'r mut [u8]) -> Option<&'r [u8]> {
    let length = file?.with(|file| file.read_line(room).map(<[u8]>::len)).ok()?;
    room.get(..length)
}

/// What a call and its arguments say, and whether nothing else is needed.
fn of_call(number: i32, [first, second, third, fourth]: [u64; 4], memory: Option<&KeptFile>) -> (Observation, bool) {
    let mut found = Observation { call: Some(number), ..Observation::default() };
    let kind = kind(Machine::OWN, number);
    // Descriptors and PIDs are below 4 Mi (PID_MAX_LIMIT); no program is mapped below 4 MiB.
    found.argument = (number >= 0 && (first < 1 << 22 || kind == Some(CallKind::Futex))).then_some(first);
    match kind {
        Some(CallKind::Poll) => {
            found.nfds = u32::try_from(second).ok();
            // An `int`; the kernel shows the whole register.
            found.timeout_ms = Some(third as u32 as i32);
        }
        // A sleep if there is nothing to wait for; Python before 3.11 sleeps this way.
        Some(CallKind::PollLike) if fd_use(Machine::OWN, number) == Some(FdUse::Selects) => {
            found.nfds = (first & 0xffff_ffff == 0).then_some(0);
        }
        // `epoll_wait` and `epoll_pwait`; `epoll_pwait2` has a pointer there. Rounded up, so that calls compare equal.
        Some(CallKind::PollLike) if number < 441 && fd_use(Machine::OWN, number) == Some(FdUse::Epolls) => {
            let limit = fourth as u32 as i32;
            found.timeout_ms = Some(if limit > 0 { up_to_power_of_two(limit) } else { limit });
        }
        // `futex_waitv` and `futex_wait` have other arguments.
        Some(CallKind::Futex) if number < 449 => {
            found.operation = u32::try_from(second & 0xffff_ffff).ok();
            found.deadline_ms = memory.and_then(|memory| deadline_ms(memory, second, fourth));
        }
        _ => {}
    }
    (found, kind.is_some_and(|kind| kind != CallKind::Write))
}

fn up_to_power_of_two(number: i32) -> i32 {
    number.unsigned_abs().checked_next_power_of_two().and_then(|power| i32::try_from(power).ok()).unwrap_or(i32::MAX)
}

/// What a call waits on: the descriptor in its first argument, or those of a poll, select or epoll set. A wait for a
/// file lock is looked up as well.
fn waited_on(
    number: i32,
    [first, second, third, _]: [u64; 4],
    pid: u32,
    memory: Option<&KeptFile>,
    connections: &mut Connections,
) -> Vec<Descriptor> {
    // Like PIDs, descriptors stay below 4 Mi in practice: the kernel's NR_OPEN is 1 Mi.
    let named = u32::try_from(first).ok().filter(|fd| *fd < 1 << 22);
    let one = |connections: &mut Connections, writes: bool| {
        named.and_then(|fd| connections.descriptor(pid, fd, writes)).into_iter().collect()
    };
    let read = |address: u64, room: &mut [u8]| {
        memory.is_some_and(|memory| address != 0 && memory.read_at(room, address) == Ok(room.len()))
    };
    match fd_use(Machine::OWN, number) {
        Some(FdUse::Reads) => one(connections, false),
        Some(FdUse::Writes) => one(connections, true),
        Some(FdUse::Locks) => {
            connections.lock(pid);
            one(connections, false)
        }
        Some(FdUse::Polls) => {
            let mut room = [0_u8; 8 * MOST_POLLED];
            let count = usize::try_from(second).unwrap_or(MOST_POLLED).min(MOST_POLLED);
            let Some(room) = room.get_mut(..8 * count) else { return Vec::new() };
            if room.is_empty() || !read(first, room) {
                return Vec::new();
            }
            polled(room).filter_map(|(fd, writes)| connections.descriptor(pid, fd, writes)).collect()
        }
        Some(FdUse::Selects) => {
            let count = u32::try_from(first).unwrap_or(0).min(1024);
            let mut found = Vec::new();
            for (address, writes) in [(second, false), (third, true)] {
                let mut room = [0_u8; 128];
                // The kernel reads whole words of a set, but no more than there are descriptors.
                let Some(room) = room.get_mut(..count.div_ceil(64) as usize * 8) else { break };
                if !room.is_empty() && read(address, room) {
                    found.extend(selected(room, count).filter_map(|fd| connections.descriptor(pid, fd, writes)));
                }
            }
            found
        }
        Some(FdUse::Epolls) => named.map(|fd| connections.polled(pid, fd)).unwrap_or_default(),
        // A thread that accepts connections has nothing to do until one arrives.
        Some(FdUse::Accepts) | None => Vec::new(),
    }
}

/// The descriptors in an array of `struct pollfd` (descriptor, requested events, returned events), and whether each is
/// waited on for writing. Negative ones are skipped, like in the kernel (poll(2)).
fn polled(array: &[u8]) -> impl Iterator<Item = (u32, bool)> + '_ {
    const POLLIN: u16 = 1;
    const POLLOUT: u16 = 4;
    array.chunks_exact(8).filter_map(|one| {
        let (fd, rest) = one.split_first_chunk::<4>()?;
        let (events, _) = rest.split_first_chunk::<2>()?;
        let events = u16::from_ne_bytes(*events);
        Some((u32::try_from(i32::from_ne_bytes(*fd)).ok()?, events & POLLOUT != 0 && events & POLLIN == 0))
    })
}

/// The descriptors below `count` in a select(2) set, at most [`MOST_POLLED`]. Both supported architectures are
/// little-endian.
fn selected(set: &[u8], count: u32) -> impl Iterator<Item = u32> + '_ {
    let is_set = |fd: &u32| set.get(*fd as usize / 8).is_some_and(|byte| byte >> (fd % 8) & 1 == 1);
    (0..count).filter(is_set).take(MOST_POLLED)
}

/// Time until a futex wait ends, if it has a deadline. FUTEX_WAIT_BITSET takes an absolute time as its fourth argument,
/// by CLOCK_REALTIME with that flag (futex(2)). Reading the target's memory does not stop it.
fn deadline_ms(memory: &KeptFile, operation: u64, address: u64) -> Option<i32> {
    const WAIT_BITSET: u64 = 9;
    const CLOCK_REALTIME: u64 = 0x100;
    if operation & 0x7f != WAIT_BITSET || address == 0 {
        return None;
    }
    let mut timespec = [0_u8; 16];
    (memory.read_at(&mut timespec, address) == Ok(16)).then_some(())?;
    let (seconds, nanoseconds) = timespec.split_first_chunk::<8>()?;
    let (seconds, nanoseconds) = (i64::from_ne_bytes(*seconds), i64::from_ne_bytes(nanoseconds.try_into().ok()?));
    let now = clock_gettime(if operation & CLOCK_REALTIME == 0 { ClockId::Monotonic } else { ClockId::Realtime });
    let ms = seconds.saturating_sub(now.tv_sec).saturating_mul(1000);
    let ms = ms.saturating_add(nanoseconds.saturating_sub(now.tv_nsec) / 1_000_000);
    let rounded = if ms > 100 { ms / 100 * 100 } else { ms };
    i32::try_from(rounded).ok()
}

#[cfg(test)]
mod tests;
