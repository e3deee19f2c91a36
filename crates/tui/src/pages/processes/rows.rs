//! Which process or thread is on which row, which ones match the filter, and which row is selected.

use std::collections::BTreeMap;

use super::order::{self, Sort};
use super::tree::{self, Branch};
use crate::widgets::prompt::is_in;
use trainmon_diagnosis::diagnosis::verdict::Verdict;
use trainmon_rates::frame::ProcessRates;
use trainmon_rates::threads::ThreadRates;
use trainmon_sample::ProcessId;
use trainmon_views::activity;
use trainmon_views::labels;
use trainmon_waits::Frame;

/// A row of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessRow {
    /// Index in the frame's `processes`.
    pub process: u32,
    /// Index in the frame's `threads`, if the row is a thread.
    pub thread: Option<u32>,
    /// Position in the tree; threads are below their process in a flat table too.
    pub branch: Branch,
}

impl ProcessRow {
    /// The process; and the thread, if the row is a thread.
    pub fn in_frame<'f>(&self, frame: &'f Frame) -> Option<(&'f ProcessRates, Option<&'f ThreadRates>)> {
        let process = frame.processes.get(self.process as usize)?;
        let Some(thread) = self.thread else { return Some((process, None)) };
        Some((process, Some(frame.threads.get(thread as usize)?)))
    }
}

/// Identifies a row across frames: the process, and the TID of a thread.
type RowKey = (ProcessId, Option<u32>);

/// The rows of the table, in order, and the selected one. The selection follows its process.
#[derive(Debug, Clone, Default)]
pub struct ProcessTable {
    pub rows: Vec<ProcessRow>,
    /// The order; in a tree, the order of siblings.
    pub sort: Sort,
    /// Whether parents are above their children.
    pub tree: bool,
    /// Whether busy threads are below their process.
    pub threads: bool,
    /// Shows only processes whose command line, role or PID contains this text; all if it is empty.
    pub filter: String,
    /// Number of processes shown.
    pub matching: usize,
    pub selected: usize,
    selected_key: Option<RowKey>,
    activities: BTreeMap<u32, &'static str>,
}

impl ProcessTable {
    /// Takes in the processes of a frame; the selected process stays selected wherever it is now.
    pub fn refresh(&mut self, frame: Option<&Frame>, verdict: Option<&Verdict>) {
        self.rows.clear();
        self.activities.clear();
        self.matching = 0;
        if let Some(frame) = frame {
            self.activities = activity::all(frame, verdict);
            self.fill(frame);
        }
        if let Some(key) = self.selected_key {
            let row = frame.and_then(|frame| self.rows.iter().position(|row| key_of(frame, row) == Some(key)));
            // A thread that did nothing in this interval has no row: use its process.
            let process = || frame.and_then(|frame| self.row_of(frame, key.0));
            self.selected = row.or_else(process).unwrap_or(self.selected);
        }
        self.selected = self.selected.min(self.rows.len().saturating_sub(1));
        if let Some(key) = frame.and_then(|frame| key_of(frame, self.rows.get(self.selected)?))
            && self.selected_key.is_none_or(|selected| selected.0 != key.0)
        {
            self.selected_key = Some(key);
        }
    }

    fn fill(&mut self, frame: &Frame) {
        let processes = frame.processes.as_slice();
        let shown = (0..).zip(processes).filter(|(_, process)| is_of(&self.filter, process));
        let mut order: Vec<u32> = shown.map(|(place, _)| place).collect();
        self.sort.apply(&mut order, processes, |pid| self.activity_of(pid));
        self.matching = order.len();
        let threads = if self.threads { frame.threads.as_slice() } else { &[] };
        let threads = tree::grouped(threads.iter().map(|thread| thread.process).zip(0..));
        let rows = &mut self.rows;
        let mut add = |process: u32, branch: Branch, children: bool| {
            rows.push(ProcessRow { process, thread: None, branch });
            let below = processes.get(process as usize).and_then(|process| threads.get(&process.id));
            let below = below.map(Vec::as_slice).unwrap_or_default();
            let last = below.len().saturating_sub(1);
            rows.extend(below.iter().enumerate().map(|(nth, thread)| ProcessRow {
                process,
                thread: Some(*thread),
                branch: branch.child(nth == last && !children),
            }));
        };
        if self.tree {
            tree::walk(processes, &order, add);
        } else {
            order.into_iter().for_each(|place| add(place, Branch::default(), false));
        }
    }

    /// The main activity of a rank or worker.
    pub fn activity_of(&self, pid: u32) -> Option<&'static str> {
        self.activities.get(&pid).copied()
    }

    /// Selects a row, or the last one if there are fewer.
    pub fn select(&mut self, frame: Option<&Frame>, row: usize) {
        self.selected = row.min(self.rows.len().saturating_sub(1));
        self.selected_key = frame.and_then(|frame| key_of(frame, self.rows.get(self.selected)?));
    }

    /// The selected process; for a thread, its process.
    pub fn process<'f>(&self, frame: Option<&'f Frame>) -> Option<&'f ProcessRates> {
        Some(self.rows.get(self.selected)?.in_frame(frame?)?.0)
    }

    /// The row of a process.
    pub fn row_of(&self, frame: &Frame, process: ProcessId) -> Option<usize> {
        self.rows.iter().position(|row| key_of(frame, row) == Some((process, None)))
    }

    /// The first row at or below `from` that contains this text, wrapping around at the end.
    pub fn find(&self, frame: &Frame, text: &str, from: usize) -> Option<usize> {
        let is_found = |row: &ProcessRow| {
            row.in_frame(frame).is_some_and(|(process, thread)| match thread {
                Some(thread) => is_in(text, [&thread.name, thread.role.word()], thread.tid),
                None => is_of(text, process),
            })
        };
        let below = self.rows.iter().enumerate().skip(from);
        let above = self.rows.iter().enumerate().take(from);
        below.chain(above).find(|(_, row)| is_found(row)).map(|(place, _)| place)
    }
}

fn key_of(frame: &Frame, row: &ProcessRow) -> Option<RowKey> {
    row.in_frame(frame).map(|(process, thread)| (process.id, thread.map(|thread| thread.tid)))
}

/// Whether a process's command line, role or PID contains this text.
fn is_of(text: &str, process: &ProcessRates) -> bool {
    is_in(text, [order::command(process), labels::role(process.role)], process.id.pid)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::super::columns::ProcessColumn;
    use super::*;
    use trainmon_sample::ProcessRole;

    fn id(pid: u32) -> ProcessId {
        ProcessId { pid, start_ticks: 1 }
    }

    fn frame(cpus: &[(u32, Option<f64>)]) -> Frame {
        let processes = cpus.iter().map(|(pid, cpu_pct)| ProcessRates {
            id: id(*pid),
            cpu_pct: *cpu_pct,
            command: Arc::from(format!("python Train{pid}.py")),
            ..ProcessRates::default()
        });
        Frame { processes: processes.collect(), ..Frame::default() }
    }

    fn thread(process: u32, tid: u32) -> ThreadRates {
        ThreadRates { process: id(process), tid, name: "pt_data_pin".into(), ..ThreadRates::default() }
    }

    fn shown(table: &ProcessTable, frame: &Frame) -> Vec<u32> {
        table
            .rows
            .iter()
            .map(|row| key_of(frame, row).map(|(process, tid)| tid.unwrap_or(process.pid)).unwrap())
            .collect()
    }

    #[test]
    fn the_selection_follows_its_process() {
        let f = frame(&[(1, Some(5.0)), (2, Some(7.0)), (3, Some(90.0))]);
        let mut t = ProcessTable::default();
        t.refresh(Some(&f), None);
        t.select(Some(&f), 2);
        t.sort.column = ProcessColumn::Cpu;
        t.refresh(Some(&f), None);
        assert_eq!((t.selected, t.process(Some(&f)).unwrap().id.pid), (0, 3));
        let fewer = frame(&[(1, None)]);
        t.refresh(Some(&fewer), None);
        assert_eq!(t.process(Some(&fewer)).unwrap().id.pid, 1);
        t.refresh(None, None);
        assert!(t.process(None).is_none());
    }

    #[test]
    fn a_selected_thread_that_rests_leaves_the_selection_with_its_process() {
        let mut f = frame(&[(1, None), (2, None), (3, None)]);
        f.threads = vec![thread(2, 22), thread(2, 21)];
        let mut t = ProcessTable { threads: true, ..ProcessTable::default() };
        t.refresh(Some(&f), None);
        assert_eq!(shown(&t, &f), [1, 2, 22, 21, 3]);
        t.select(Some(&f), 3);
        f.threads.pop();
        t.refresh(Some(&f), None);
        assert_eq!((t.selected, t.process(Some(&f)).unwrap().id.pid), (1, 2));
        f.threads = vec![thread(2, 21), thread(2, 22)];
        t.refresh(Some(&f), None);
        assert_eq!(t.selected, 2, "and back when it works again");
    }

    #[test]
    fn threads_hang_on_their_processes_before_the_children_do() {
        let mut f = frame(&[(1, None), (2, None)]);
        f.processes[1].parent = 1;
        f.threads = vec![thread(1, 11), thread(1, 12)];
        let mut t = ProcessTable { threads: true, tree: true, ..ProcessTable::default() };
        t.refresh(Some(&f), None);
        assert_eq!(shown(&t, &f), [1, 11, 12, 2]);
        let last: Vec<bool> = t.rows.iter().map(|row| row.branch.last).collect();
        assert_eq!(last, [false, false, false, true]);
        t.tree = false;
        t.refresh(Some(&f), None);
        assert!(t.rows[2].branch.last && t.rows[3].branch.depth == 0);
    }

    #[test]
    fn filter_and_search_look_at_command_role_and_pid_whatever_the_case() {
        let mut f = frame(&[(17, None), (2, None), (30, None)]);
        f.processes[1].role = ProcessRole::Worker;
        f.processes[2].command = Arc::from("ÜBUNG");
        for (text, expected) in [
            ("TRAIN17", &[17][..]),
            ("work", &[2]),
            ("30", &[30]),
            ("übung", &[30]),
            ("", &[2, 17, 30]),
            ("nothing", &[]),
        ] {
            let mut t = ProcessTable { filter: text.to_owned(), ..ProcessTable::default() };
            t.refresh(Some(&f), None);
            assert_eq!(shown(&t, &f), expected, "{text}");
            assert_eq!(t.matching, expected.len());
        }
        let mut t = ProcessTable::default();
        t.refresh(Some(&f), None);
        assert_eq!(
            (t.find(&f, "train", 0), t.find(&f, "train", 2), t.find(&f, "py", 2)),
            (Some(0), Some(0), Some(0))
        );
        assert_eq!((t.find(&f, "bung", 0), t.find(&f, "no such", 0)), (Some(2), None));
    }

    proptest! {
        #[test]
        fn every_matching_process_has_one_row(
            pids in proptest::collection::vec((0u32..99, 0u32..99, 0u32..3), 0..40),
            tree in any::<bool>(),
            threads in any::<bool>(),
            filter in "[0-9pY]{0,2}",
            column in proptest::sample::select(ProcessColumn::ALL.to_vec()),
        ) {
            let mut f = frame(&[]);
            for (pid, parent, busy) in &pids {
                let process = ProcessRates { id: id(*pid), parent: *parent, comm: "Py".into(), ..ProcessRates::default() };
                f.threads.extend((0..*busy).map(|nth| thread(*pid, pid * 100 + nth)));
                f.processes.push(process);
            }
            let mut t = ProcessTable { tree, threads, filter: filter.clone(), ..ProcessTable::default() };
            t.sort.column = column;
            t.refresh(Some(&f), None);
            let places = t.rows.iter().filter(|row| row.thread.is_none()).map(|row| row.process);
            let mut places: Vec<u32> = places.collect();
            places.sort_unstable();
            let expected: Vec<u32> = (0..).zip(&f.processes).filter(|(_, p)| is_of(&filter, p)).map(|(n, _)| n).collect();
            prop_assert_eq!(&places, &expected);
            prop_assert_eq!(t.matching, expected.len());
            prop_assert!(threads || t.rows.len() == expected.len());
        }
    }
}
