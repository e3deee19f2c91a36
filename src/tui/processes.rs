//! The process table's order, selection and columns: everything about it that is not drawing.

use std::cmp::Ordering;

use crate::rates::Frame;
use crate::rates::frame::ProcessRates;
use crate::sample::{ProcessId, ProcessRole};

/// A column that the table can be sorted by.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Column {
    /// Trainers, workers, launchers, helpers, others; by PID among themselves.
    #[default]
    Role,
    /// CPU use.
    Cpu,
    /// Share of runnable time spent queueing.
    Queue,
    /// Resident set.
    Memory,
    /// Bytes per second from storage.
    Read,
    /// Device memory.
    GpuMemory,
    /// Threads.
    Threads,
    /// PID.
    Pid,
}

/// The columns of a table that nobody has changed, from left to right.
pub const COLUMNS: [Column; 8] = [
    Column::Pid,
    Column::Role,
    Column::Cpu,
    Column::Queue,
    Column::Memory,
    Column::Read,
    Column::GpuMemory,
    Column::Threads,
];

impl Column {
    /// All columns.
    pub const ALL: [Self; 8] = COLUMNS;

    /// Its word in configuration and kept layout: never changes.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Role => "role",
            Self::Cpu => "cpu",
            Self::Queue => "queue",
            Self::Memory => "memory",
            Self::Read => "read",
            Self::GpuMemory => "gpu-memory",
            Self::Threads => "threads",
            Self::Pid => "pid",
        }
    }

    /// What it says, in a few words.
    #[must_use]
    pub fn meaning(self) -> &'static str {
        match self {
            Self::Role => "role in the job: trainers first",
            Self::Cpu => "CPU, percent of one core",
            Self::Queue => "queueing for a CPU, percent of its runnable time",
            Self::Memory => "memory (resident)",
            Self::Read => "reads from storage, MiB/s",
            Self::GpuMemory => "GPU memory",
            Self::Threads => "threads",
            Self::Pid => "PID",
        }
    }

    /// The column with this word.
    #[must_use]
    pub fn named(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|column| column.word() == word)
    }

    /// The order in which `s` goes through them.
    const CYCLE: [Self; 8] =
        [Self::Role, Self::Cpu, Self::Queue, Self::Memory, Self::Read, Self::GpuMemory, Self::Threads, Self::Pid];

    /// The next column to sort by.
    #[must_use]
    pub fn next(self) -> Self {
        let mut cycle = Self::CYCLE.into_iter().cycle().skip_while(|c| *c != self);
        cycle.nth(1).unwrap_or_default()
    }
}

/// How the table is sorted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sort {
    /// By which column.
    pub column: Column,
    /// Turned round: names and PIDs are sorted upwards, amounts downwards, unless this is set.
    pub reversed: bool,
}

/// Which process stands on which row, and which one is selected. The selection follows its process.
#[derive(Debug, Clone)]
pub struct Table {
    /// The columns, from left to right.
    pub columns: Vec<Column>,
    /// Processes as a tree.
    pub tree: bool,
    /// Threads of processes are shown.
    pub threads: bool,
    /// Positions in the frame's `processes`, in the order shown.
    pub rows: Vec<usize>,
    /// The order.
    pub sort: Sort,
    /// Selected row.
    pub selected: usize,
    /// First row shown.
    pub top: usize,
    selected_id: Option<ProcessId>,
}

impl Default for Table {
    fn default() -> Self {
        Self {
            columns: COLUMNS.to_vec(),
            tree: false,
            threads: false,
            rows: Vec::new(),
            sort: Sort::default(),
            selected: 0,
            top: 0,
            selected_id: None,
        }
    }
}

impl Table {
    /// Takes over the processes of a frame, keeping the selected one selected wherever it stands now.
    pub fn refresh(&mut self, frame: Option<&Frame>) {
        let processes = frame.map(|f| f.processes.as_slice()).unwrap_or_default();
        self.rows.clear();
        self.rows.extend(0..processes.len());
        let sort = self.sort;
        self.rows.sort_by(|a, b| match (processes.get(*a), processes.get(*b)) {
            (Some(a), Some(b)) => order(sort, a, b),
            _ => Ordering::Equal,
        });
        if let Some(id) = self.selected_id {
            let row = self.rows.iter().position(|i| processes.get(*i).is_some_and(|p| p.id == id));
            self.selected = row.unwrap_or(self.selected);
        }
        self.select(frame, self.selected);
    }

    /// Selects a row, or the last one if there are fewer.
    pub fn select(&mut self, frame: Option<&Frame>, row: usize) {
        self.selected = row.min(self.rows.len().saturating_sub(1));
        self.selected_id = self.process(frame).map(|p| p.id);
    }

    /// Moves the visible part so that the selected row is in it, with `height` rows to show.
    pub fn scroll_to_selected(&mut self, height: usize) {
        let height = height.max(1);
        self.top = self.top.min(self.rows.len().saturating_sub(height));
        self.top = self.top.clamp((self.selected + 1).saturating_sub(height), self.selected);
    }

    /// The selected process.
    #[must_use]
    pub fn process<'f>(&self, frame: Option<&'f Frame>) -> Option<&'f ProcessRates> {
        frame?.processes.get(*self.rows.get(self.selected)?)
    }
}

fn order(sort: Sort, a: &ProcessRates, b: &ProcessRates) -> Ordering {
    let by_pid = a.id.cmp(&b.id);
    // Amounts run downwards; what was not measured comes last either way.
    let amount = |a: Option<f64>, b: Option<f64>| match (a, b) {
        (Some(a), Some(b)) if sort.reversed => a.total_cmp(&b),
        (Some(a), Some(b)) => b.total_cmp(&a),
        (a, b) => b.is_some().cmp(&a.is_some()),
    };
    let name = |o: Ordering| if sort.reversed { o.reverse() } else { o };
    let by_column = match sort.column {
        Column::Role => name(rank(a.role).cmp(&rank(b.role)).then(by_pid)),
        Column::Pid => name(by_pid),
        Column::Cpu => amount(a.cpu_pct, b.cpu_pct),
        Column::Queue => amount(a.run_delay_share, b.run_delay_share),
        Column::Memory => amount(Some(a.rss_bytes as f64), Some(b.rss_bytes as f64)),
        Column::Read => amount(a.read_bytes_s, b.read_bytes_s),
        Column::GpuMemory => amount(a.gpu_memory_bytes.map(|v| v as f64), b.gpu_memory_bytes.map(|v| v as f64)),
        Column::Threads => amount(Some(f64::from(a.threads)), Some(f64::from(b.threads))),
    };
    by_column.then(by_pid)
}

fn rank(role: ProcessRole) -> u8 {
    match role {
        ProcessRole::Trainer => 0,
        ProcessRole::Worker => 1,
        ProcessRole::Launcher => 2,
        ProcessRole::Helper => 3,
        ProcessRole::Other => 4,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn frame(cpus: &[(u32, Option<f64>)]) -> Frame {
        let processes = cpus
            .iter()
            .map(|(pid, cpu_pct)| ProcessRates {
                id: ProcessId { pid: *pid, start_ticks: 1 },
                cpu_pct: *cpu_pct,
                ..ProcessRates::default()
            })
            .collect();
        Frame { processes, ..Frame::default() }
    }

    fn pids(table: &Table, frame: &Frame) -> Vec<u32> {
        table.rows.iter().map(|i| frame.processes.get(*i).unwrap().id.pid).collect()
    }

    #[test]
    fn amounts_run_downwards_and_unmeasured_comes_last() {
        let f = frame(&[(1, Some(5.0)), (2, None), (3, Some(90.0))]);
        let mut t = Table { sort: Sort { column: Column::Cpu, reversed: false }, ..Table::default() };
        t.refresh(Some(&f));
        assert_eq!(pids(&t, &f), [3, 1, 2]);
        t.sort.reversed = true;
        t.refresh(Some(&f));
        assert_eq!(pids(&t, &f), [1, 3, 2]);
    }

    #[test]
    fn the_selection_follows_its_process() {
        let f = frame(&[(1, Some(5.0)), (2, Some(7.0)), (3, Some(90.0))]);
        let mut t = Table::default();
        t.refresh(Some(&f));
        t.select(Some(&f), 2);
        t.sort.column = Column::Cpu;
        t.refresh(Some(&f));
        assert_eq!((t.selected, t.process(Some(&f)).unwrap().id.pid), (0, 3));
        let fewer = frame(&[(1, None)]);
        t.refresh(Some(&fewer));
        assert_eq!(t.process(Some(&fewer)).unwrap().id.pid, 1);
        t.refresh(None);
        assert!(t.process(None).is_none());
    }

    #[test]
    fn scrolling_keeps_the_selected_row_in_view() {
        let many: Vec<_> = (0..50).map(|pid| (pid, None)).collect();
        let f = frame(&many);
        let mut t = Table::default();
        t.refresh(Some(&f));
        t.select(Some(&f), 30);
        t.scroll_to_selected(10);
        assert_eq!(t.top, 21);
        t.select(Some(&f), 22);
        t.scroll_to_selected(10);
        assert_eq!(t.top, 21);
        t.select(Some(&f), 49);
        t.scroll_to_selected(100);
        assert_eq!(t.top, 0);
    }

    #[test]
    fn sorting_goes_round() {
        let mut column = Column::default();
        for _ in Column::CYCLE {
            column = column.next();
        }
        assert_eq!(column, Column::default());
    }
}
