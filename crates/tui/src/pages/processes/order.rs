//! The order of processes: amounts descending, words and PIDs ascending, missing values last.

use super::columns::{ColumnKind, ProcessColumn};
use trainmon_rates::frame::ProcessRates;
use trainmon_views::activity;

/// How the table is sorted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sort {
    /// The column to sort by.
    pub column: ProcessColumn,
    /// Reverses the order; otherwise names and PIDs ascend, and amounts descend.
    pub reversed: bool,
}

impl Sort {
    /// Whether the largest is at the top.
    pub fn is_falling(self) -> bool {
        (self.column.spec().kind == ColumnKind::Amount) != self.reversed
    }

    /// Sorts indexes into `processes`.
    pub(super) fn apply(
        self,
        rows: &mut [u32],
        processes: &[ProcessRates],
        activity: impl Fn(u32) -> Option<&'static str>,
    ) {
        let process = |row: &u32| processes.get(*row as usize);
        if self.column == ProcessColumn::Command {
            rows.sort_by(|a, b| {
                let command = process(a).map(command).cmp(&process(b).map(command));
                let command = if self.reversed { command.reverse() } else { command };
                command.then_with(|| process(a).map(|p| p.id).cmp(&process(b).map(|p| p.id)))
            });
            return;
        }
        // Read each process once, not for each comparison.
        rows.sort_by_cached_key(|row| {
            let process = process(row);
            let key = process.and_then(|p| self.key(p, &activity));
            let key = if self.reversed { key.map(|key| !key) } else { key };
            (key.is_none(), key, process.map(|p| p.id))
        });
    }

    /// A number that increases along the order.
    fn key(self, p: &ProcessRates, activity: impl Fn(u32) -> Option<&'static str>) -> Option<u64> {
        match self.column {
            // Roles are declared in this order.
            ProcessColumn::Role => Some((p.role as u64) << 32 | u64::from(p.id.pid)),
            ProcessColumn::Pid => Some(u64::from(p.id.pid)),
            ProcessColumn::State => Some(state(p.state) << 32 | u64::from(u32::from(p.state))),
            ProcessColumn::Stage => activity(p.id.pid).and_then(activity::place),
            ProcessColumn::Nice => p.nice.and_then(|nice| u64::try_from(i64::from(nice) + (1 << 32)).ok()),
            ProcessColumn::Cpu | ProcessColumn::Recent => most(p.cpu_pct),
            ProcessColumn::Queue => most(p.run_delay_share),
            ProcessColumn::Memory => Some(!p.rss_bytes),
            ProcessColumn::GpuMemory => p.gpu_memory_bytes.map(|bytes| !bytes),
            ProcessColumn::Read => most(p.read_bytes_per_s),
            ProcessColumn::Write => most(p.write_bytes_per_s),
            ProcessColumn::Threads => Some(!u64::from(p.threads)),
            ProcessColumn::Time => most(p.cpu_time_s),
            ProcessColumn::Command => None,
        }
    }
}

/// The command line, or the name of a process that has none (kernel threads, zombies).
pub(super) fn command(p: &ProcessRates) -> &str {
    if p.command.is_empty() { &p.comm } else { &p.command }
}

/// The largest first: the bits of IEEE 754 numbers are ordered within a sign.
fn most(amount: Option<f64>) -> Option<u64> {
    let bits = amount.filter(|amount| !amount.is_nan())?.to_bits();
    let rising = if bits >> 63 == 1 { !bits } else { bits | 1 << 63 };
    Some(!rising)
}

/// Running and waiting ones first (proc(5), state).
fn state(letter: char) -> u64 {
    ["R", "D", "Tt", "S", "I", "ZXx"].iter().take_while(|letters| !letters.contains(letter)).count() as u64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use trainmon_sample::{ProcessId, ProcessRole};

    fn processes(cpu: &[Option<f64>]) -> Vec<ProcessRates> {
        let process = |(pid, cpu_pct): (u32, &Option<f64>)| ProcessRates {
            id: ProcessId { pid, start_ticks: 1 },
            cpu_pct: *cpu_pct,
            ..ProcessRates::default()
        };
        (0..).zip(cpu).map(process).collect()
    }

    fn sorted(column: ProcessColumn, reversed: bool, processes: &[ProcessRates]) -> Vec<u32> {
        let mut rows: Vec<u32> = (0..).take(processes.len()).collect();
        Sort { column, reversed }.apply(&mut rows, processes, |_| None);
        rows
    }

    #[test]
    fn amounts_run_downwards_and_unmeasured_comes_last() {
        let p = processes(&[Some(5.0), None, Some(90.0), Some(f64::NAN), Some(-1.0)]);
        assert_eq!(sorted(ProcessColumn::Cpu, false, &p), [2, 0, 4, 1, 3]);
        assert_eq!(sorted(ProcessColumn::Cpu, true, &p), [4, 0, 2, 1, 3]);
    }

    #[test]
    fn roles_and_nice_values_run_upwards() {
        let mut p = processes(&[None, None, None]);
        (p[0].role, p[2].role) = (ProcessRole::Worker, ProcessRole::Rank);
        (p[0].nice, p[1].nice, p[2].nice) = (Some(0), Some(-5), Some(19));
        assert_eq!(sorted(ProcessColumn::Role, false, &p), [2, 0, 1]);
        assert_eq!(sorted(ProcessColumn::Nice, false, &p), [1, 0, 2]);
        assert_eq!(sorted(ProcessColumn::Nice, true, &p), [2, 0, 1]);
        p[1].command = "b".into();
        p[0].comm = "c".into();
        p[2].command = "a".into();
        assert_eq!(sorted(ProcessColumn::Command, false, &p), [2, 1, 0]);
        assert_eq!(sorted(ProcessColumn::Command, true, &p), [0, 1, 2]);
    }

    proptest! {
        #[test]
        fn larger_amounts_come_first(a in any::<f64>(), b in any::<f64>()) {
            if a > b {
                prop_assert!(most(Some(a)) < most(Some(b)));
            }
        }
    }
}
