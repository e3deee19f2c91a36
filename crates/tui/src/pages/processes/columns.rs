//! The columns of the process table: their words, headings and widths, and which of them fit a terminal.

use ratatui::layout::Constraint;

use ColumnKind::*;
use ProcessColumn::*;

/// A column of the table. The table can be sorted by any of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, clap::ValueEnum)]
#[allow(missing_docs, reason = "the table below says what each is")]
pub enum ProcessColumn {
    Pid,
    #[default]
    Role,
    State,
    Stage,
    Cpu,
    Recent,
    Queue,
    Memory,
    GpuMemory,
    Read,
    Write,
    Threads,
    Time,
    Nice,
    Command,
}

/// How a column is aligned, and its sort order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ColumnKind {
    /// Left-aligned, ascending.
    Word,
    /// Right-aligned, ascending.
    Number,
    /// Right-aligned, descending.
    Amount,
}

/// Description of a column.
#[derive(Debug, Clone, Copy)]
pub struct ColumnSpec {
    /// Its name in the configuration.
    pub word: &'static str,
    pub(super) heading: &'static str,
    /// Width.
    pub(super) width: u16,
    pub(super) kind: ColumnKind,
    /// What it shows, in a few words.
    pub meaning: &'static str,
}

/// The default columns, from left to right.
pub const COLUMNS: [ProcessColumn; 14] =
    [Pid, Role, State, Stage, Cpu, Recent, Queue, Memory, GpuMemory, Read, Write, Threads, Time, Nice];

/// Which columns stay if not all fit: the first ones stay longest.
const IMPORTANCE: [ProcessColumn; 14] =
    [Pid, Cpu, Role, State, Stage, Memory, Queue, Recent, GpuMemory, Read, Write, Threads, Time, Nice];

/// Minimum width of the command line.
const COMMAND_MIN: u16 = 18;

impl ProcessColumn {
    /// All columns, in the order in which `s` goes through them.
    pub const ALL: [Self; 15] =
        [Role, Cpu, Recent, Queue, Memory, GpuMemory, Read, Write, Threads, Time, Nice, State, Stage, Command, Pid];

    /// Its description.
    pub const fn spec(self) -> ColumnSpec {
        let (word, heading, width, kind, meaning) = match self {
            Pid => ("pid", "PID", 7, Number, "PID"),
            Role => ("role", "ROLE", 8, Word, "role in the job: training processes first"),
            State => ("state", "S", 1, Word, "state: R runs, D waits for the disk, T stopped, S sleeps, Z ended"),
            Stage => ("stage", "STAGE", 9, Word, "stage: what it mostly does"),
            Cpu => ("cpu", "CPU%", 5, Amount, "CPU, percent of one CPU"),
            Recent => ("recent", "RECENT", 10, Word, "CPU over the last samples, one cell each"),
            Queue => ("queue", "QUE%", 5, Amount, "queueing for a CPU, percent of the time it could run"),
            Memory => ("memory", "MEM", 5, Amount, "memory (resident)"),
            GpuMemory => ("gpu-memory", "GPUMEM", 6, Amount, "GPU memory"),
            Read => ("read", "rMiB/s", 6, Amount, "reads from storage, MiB/s"),
            Write => ("write", "wMiB/s", 6, Amount, "writes to storage, MiB/s"),
            Threads => ("threads", "THR", 4, Amount, "threads"),
            Time => ("time", "TIME", 6, Amount, "CPU time since it started"),
            Nice => ("nice", "NI", 3, Number, "nice value"),
            // Always there, always last, in the remaining cells.
            Command => ("command", "COMMAND", 0, Word, "command line"),
        };
        ColumnSpec { word, heading, width, kind, meaning }
    }

    /// Its index in [`ProcessColumn::ALL`].
    pub(super) fn place(self) -> usize {
        Self::ALL.iter().position(|column| *column == self).unwrap_or(0)
    }

    /// Its cells, with the blank after it.
    pub(super) fn constraint(self) -> Constraint {
        if self == Command { Constraint::Fill(1) } else { Constraint::Length(self.spec().width + 1) }
    }

    /// The next column to sort by.
    pub(super) fn next(self) -> Self {
        Self::ALL.get(self.place() + 1).copied().unwrap_or_default()
    }
}

/// Chooses among the wanted columns for a table of so many cells: first the column that the table is sorted by, then the
/// more important ones. They keep their order, and the command line is the last.
pub fn choose(wanted: &[ProcessColumn], sorted: ProcessColumn, width: u16) -> Vec<ProcessColumn> {
    let mut room = width.saturating_sub(COMMAND_MIN);
    let by_importance = [sorted].into_iter().chain(IMPORTANCE.into_iter().filter(|column| *column != sorted));
    let mut chosen: Vec<ProcessColumn> =
        by_importance.filter(|column| *column != Command && wanted.contains(column)).collect();
    chosen.retain(|column| {
        let cells = column.spec().width + 1;
        let fits = cells <= room;
        room -= if fits { cells } else { 0 };
        fits
    });
    chosen.sort_by_key(|column| wanted.iter().position(|other| other == column));
    chosen.push(Command);
    chosen
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn sorting_goes_round_all_columns() {
        let mut column = ProcessColumn::default();
        let mut seen = Vec::new();
        for _ in ProcessColumn::ALL {
            column = column.next();
            assert!(!seen.contains(&column), "{column:?} twice");
            seen.push(column);
        }
        assert_eq!(column, ProcessColumn::default());
    }

    #[test]
    fn words_name_their_columns_and_headings_fit() {
        for column in ProcessColumn::ALL {
            assert_eq!(column.to_string(), column.spec().word);
            assert_eq!(column.spec().word.parse(), Ok(column));
            assert!(
                column == ProcessColumn::Command || column.spec().heading.len() <= usize::from(column.spec().width)
            );
            assert!(column == ProcessColumn::Command || (COLUMNS.contains(&column) && IMPORTANCE.contains(&column)));
        }
        assert!("CPU".parse::<ProcessColumn>().is_err());
    }

    #[test]
    fn what_is_sorted_by_is_always_seen_and_a_wide_terminal_shows_all() {
        assert!(choose(&COLUMNS, Nice, 60).contains(&Nice));
        assert_eq!(choose(&COLUMNS, Role, 120).len(), ProcessColumn::ALL.len());
        assert_eq!(choose(&[Cpu, Pid, Cpu, Command], Role, 80), [Cpu, Pid, Command]);
    }

    proptest! {
        #[test]
        fn the_command_keeps_its_room(
            wanted in proptest::collection::vec(proptest::sample::select(ProcessColumn::ALL.to_vec()), 0..20),
            sorted in proptest::sample::select(ProcessColumn::ALL.to_vec()),
            width in 0u16..300,
        ) {
            let chosen = choose(&wanted, sorted, width);
            let cells: u16 = chosen.iter().filter(|column| **column != Command).map(|column| column.spec().width + 1).sum();
            prop_assert!(cells <= width.saturating_sub(COMMAND_MIN));
            prop_assert_eq!(chosen.last(), Some(&Command));
            for (place, column) in chosen.iter().enumerate() {
                prop_assert!(!chosen[place + 1..].contains(column), "{:?} twice", column);
            }
        }
    }
}
