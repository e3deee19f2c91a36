//! The windows of a group of probes: closed, open while calls are counted, and then, of calls that wait, held until those that began
//! in the window have returned.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::ProbeTarget;
use super::kernel::{KernelCounter, ProbeGroup, detach};
use super::schedule::{MOST_LOST, ProbeSchedule};
use trainmon_sample::probe_counts::{GpuCallKind, ProbeWindow};
use trainmon_sources::simulated_gpu::monotonic_ns;

/// How long a call may go on after its window.
const RETURNS_WITHIN: Duration = Duration::from_millis(300);

/// A thread and a call.
type ThreadCall = (u32, u32);

#[derive(Debug)]
enum WindowState {
    Closed,
    Open { links: Vec<OwnedFd>, since: Instant, until: Instant, hits: u64 },
    Returning { links: Vec<OwnedFd>, until: Instant },
    Closing(Vec<JoinHandle<()>>),
}

/// A group and its windows so far.
#[derive(Debug)]
pub(super) struct GroupWindows {
    group: ProbeGroup,
    schedule: ProbeSchedule,
    state: WindowState,
    windows: Vec<ProbeWindow>,
    /// Calls up to the end of each window.
    counts: Vec<BTreeMap<ThreadCall, u64>>,
    /// Time of calls that had not returned when they were given up, nanoseconds.
    unfinished: BTreeMap<ThreadCall, u64>,
}

impl GroupWindows {
    pub(super) fn new(group: ProbeGroup, hit_s: f64) -> Self {
        Self {
            group,
            // Two groups share what the job may lose.
            schedule: ProbeSchedule::new(MOST_LOST / 2.0, hit_s),
            state: WindowState::Closed,
            windows: Vec::new(),
            counts: Vec::new(),
            unfinished: BTreeMap::new(),
        }
    }

    pub(super) fn is_closed(&self) -> bool {
        matches!(self.state, WindowState::Closed)
    }

    pub(super) fn is_counting(&self) -> bool {
        matches!(self.state, WindowState::Open { .. })
    }

    pub(super) fn windows(&self) -> &[ProbeWindow] {
        &self.windows
    }

    pub(super) fn counts(&self, kind: GpuCallKind) -> bool {
        (kind == GpuCallKind::Sync) == (self.group == ProbeGroup::Waits)
    }

    /// Calls of a row in each window.
    pub(super) fn by_window(&self, key: ThreadCall) -> Vec<u64> {
        let mut before = 0;
        let each = self.counts.iter().map(|counts| {
            let all = counts.get(&key).copied().unwrap_or(0);
            all.saturating_sub(std::mem::replace(&mut before, all))
        });
        each.collect()
    }

    pub(super) fn unfinished_ns(&self, key: ThreadCall) -> u64 {
        self.unfinished.get(&key).copied().unwrap_or(0)
    }

    /// Does what is due. `others` says whether the other group is being counted.
    pub(super) fn step(
        &mut self,
        counter: &KernelCounter,
        target: &ProbeTarget,
        begun: Instant,
        length: Duration,
        others: bool,
    ) -> io::Result<()> {
        let elapsed = begun.elapsed();
        let elapsed_s = elapsed.as_secs_f64();
        match std::mem::replace(&mut self.state, WindowState::Closed) {
            WindowState::Closed if elapsed < length => {
                self.state = self.opened(counter, target, (begun, length), others)?;
            }
            WindowState::Open { links, since, until, hits } => {
                let spent = self.schedule.is_spent(since.elapsed().as_secs_f64(), elapsed_s, self.hits(counter)?);
                if Instant::now() < until && !spent {
                    self.state = WindowState::Open { links, since, until, hits };
                    return Ok(());
                }
                let length_s = since.elapsed().as_secs_f64();
                self.switch(counter, false, others)?;
                let hits = self.hits(counter)?.saturating_sub(hits);
                self.schedule.seen(hits, length_s, elapsed_s);
                self.windows.push(ProbeWindow { length_s });
                self.state = match self.group {
                    ProbeGroup::Calls => WindowState::Closing(detach(links)),
                    ProbeGroup::Waits => WindowState::Returning { links, until: Instant::now() + RETURNS_WITHIN },
                };
                self.note_counts(counter)?;
            }
            WindowState::Returning { links, until } => {
                let unfinished = counter.unfinished()?;
                if Instant::now() < until && !unfinished.is_empty() {
                    self.state = WindowState::Returning { links, until };
                    return Ok(());
                }
                let now = monotonic_ns();
                for (tid, call, since) in unfinished {
                    *self.unfinished.entry((tid, call)).or_default() += now.saturating_sub(since);
                }
                self.state = WindowState::Closing(detach(links));
            }
            WindowState::Closing(handles) if handles.iter().all(JoinHandle::is_finished) => {
                if self.group == ProbeGroup::Waits {
                    counter.forget_unfinished()?;
                }
            }
            state => self.state = state,
        }
        Ok(())
    }

    /// A window, if one may begin now.
    fn opened(
        &self,
        counter: &KernelCounter,
        target: &ProbeTarget,
        (begun, length): (Instant, Duration),
        others: bool,
    ) -> io::Result<WindowState> {
        let hits = self.hits(counter)?;
        let Some(window_s) = self.schedule.window_s(begun.elapsed().as_secs_f64(), hits) else {
            return Ok(WindowState::Closed);
        };
        let links = counter.attach(self.group, &target.files, &target.calls, target.pid)?;
        let end = begun + length;
        if links.is_empty() {
            // No such calls: the group has one window, without calls.
            return Ok(WindowState::Open { links, since: Instant::now(), until: end, hits });
        }
        self.switch(counter, true, others)?;
        let since = Instant::now();
        let until = (since + Duration::from_secs_f64(window_s)).min(end);
        Ok(WindowState::Open { links, since, until, hits })
    }

    /// Ends what is open: the process has ended.
    pub(super) fn end(&mut self, counter: &KernelCounter) -> io::Result<()> {
        if let WindowState::Open { since, .. } = &self.state {
            self.windows.push(ProbeWindow { length_s: since.elapsed().as_secs_f64() });
            self.note_counts(counter)?;
        }
        self.state = WindowState::Closed;
        Ok(())
    }

    fn note_counts(&mut self, counter: &KernelCounter) -> io::Result<()> {
        let rows = counter.rows()?;
        self.counts.push(rows.iter().map(|row| ((row.tid, row.call), row.count)).collect());
        Ok(())
    }

    fn switch(&self, counter: &KernelCounter, on: bool, others: bool) -> io::Result<()> {
        match self.group {
            ProbeGroup::Calls => counter.switch(on, others),
            ProbeGroup::Waits => counter.switch(others, on),
        }
    }

    fn hits(&self, counter: &KernelCounter) -> io::Result<u64> {
        let [calls, waits, _] = counter.tally()?;
        Ok(if self.group == ProbeGroup::Calls { calls } else { waits })
    }
}
