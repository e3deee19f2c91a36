//! The columns of the process table: their words, headings and widths, and which of them a terminal has room for.

/// A column of the table. All of them can be sorted by.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, clap::ValueEnum)]
pub enum Column {
    /// PID; of a thread its TID.
    Pid,
    /// Trainers, workers, launchers, helpers, others; by PID among themselves.
    #[default]
    Role,
    /// State letter.
    State,
    /// What the process mostly does.
    Stage,
    /// CPU use.
    Cpu,
    /// Share of runnable time spent queueing.
    Queue,
    /// Resident set.
    Memory,
    /// Device memory.
    GpuMemory,
    /// Bytes per second from storage.
    Read,
    /// Bytes per second to storage.
    Write,
    /// Threads.
    Threads,
    /// CPU time since the start.
    Time,
    /// Nice value.
    Nice,
    /// Command line: always there, always last.
    Command,
}

/// The columns of a table that nobody has changed, from left to right.
pub const COLUMNS: [Column; 13] = [
    Column::Pid,
    Column::Role,
    Column::State,
    Column::Stage,
    Column::Cpu,
    Column::Queue,
    Column::Memory,
    Column::GpuMemory,
    Column::Read,
    Column::Write,
    Column::Threads,
    Column::Time,
    Column::Nice,
];

/// Which columns stay where not all fit: the first stay longest.
const IMPORTANCE: [Column; 13] = [
    Column::Pid,
    Column::Cpu,
    Column::Role,
    Column::State,
    Column::Stage,
    Column::Memory,
    Column::Queue,
    Column::GpuMemory,
    Column::Read,
    Column::Write,
    Column::Threads,
    Column::Time,
    Column::Nice,
];

/// Cells that the command line keeps.
const COMMAND_MIN: u16 = 18;

impl Column {
    /// All columns, in the order in which `s` goes through them.
    pub const ALL: [Self; 14] = [
        Self::Role,
        Self::Cpu,
        Self::Queue,
        Self::Memory,
        Self::GpuMemory,
        Self::Read,
        Self::Write,
        Self::Threads,
        Self::Time,
        Self::Nice,
        Self::State,
        Self::Stage,
        Self::Command,
        Self::Pid,
    ];

    /// What it says, in a few words.
    #[must_use]
    pub fn meaning(self) -> &'static str {
        match self {
            Self::Pid => "PID",
            Self::Role => "role in the job: trainers first",
            Self::State => "state: R runs, D waits for the disk, T stopped, S sleeps, Z ended",
            Self::Stage => "stage: what it mostly does",
            Self::Cpu => "CPU, percent of one core",
            Self::Queue => "queueing for a CPU, percent of its runnable time",
            Self::Memory => "memory (resident)",
            Self::GpuMemory => "GPU memory",
            Self::Read => "reads from storage, MiB/s",
            Self::Write => "writes to storage, MiB/s",
            Self::Threads => "threads",
            Self::Time => "CPU time since its start",
            Self::Nice => "nice value",
            Self::Command => "command line",
        }
    }

    /// Its heading.
    #[must_use]
    pub fn heading(self) -> &'static str {
        match self {
            Self::Pid => "PID",
            Self::Role => "ROLE",
            Self::State => "S",
            Self::Stage => "STAGE",
            Self::Cpu => "CPU%",
            Self::Queue => "QUE%",
            Self::Memory => "MEM",
            Self::GpuMemory => "GPUMEM",
            Self::Read => "rMiB/s",
            Self::Write => "wMiB/s",
            Self::Threads => "THR",
            Self::Time => "TIME",
            Self::Nice => "NI",
            Self::Command => "COMMAND",
        }
    }

    /// Its width in cells; the command line takes what is left.
    #[must_use]
    pub fn width(self) -> u16 {
        match self {
            Self::Pid => 7,
            Self::Role => 8,
            Self::State => 1,
            Self::Stage => 9,
            Self::Cpu | Self::Queue | Self::Memory => 5,
            Self::GpuMemory | Self::Read | Self::Write | Self::Time => 6,
            Self::Threads => 4,
            Self::Nice => 3,
            Self::Command => 0,
        }
    }

    /// Words begin at the left, numbers end at the right.
    #[must_use]
    pub fn is_word(self) -> bool {
        matches!(self, Self::Role | Self::State | Self::Stage | Self::Command)
    }

    /// The next column to sort by.
    #[must_use]
    pub fn next(self) -> Self {
        let mut cycle = Self::ALL.into_iter().cycle().skip_while(|c| *c != self);
        cycle.nth(1).unwrap_or_default()
    }
}

/// The columns that a terminal has room for, and where they stand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placed {
    /// From left to right, with the first cell of each, counted from the left edge of the table.
    pub columns: Vec<(Column, u16)>,
    /// First cell of the command line.
    pub command: u16,
}

impl Placed {
    /// Chooses among the wanted columns for a table of so many cells: the more important first, and before all others
    /// the one that is sorted by.
    #[must_use]
    pub fn choose(wanted: &[Column], sorted: Column, width: u16) -> Self {
        let mut room = width.saturating_sub(COMMAND_MIN);
        let mut chosen = Vec::with_capacity(IMPORTANCE.len());
        let by_importance = [sorted].into_iter().chain(IMPORTANCE.into_iter().filter(|column| *column != sorted));
        for column in by_importance.filter(|column| *column != Column::Command && wanted.contains(column)) {
            let cells = column.width() + 1;
            if cells <= room {
                room -= cells;
                chosen.push(column);
            }
        }
        let mut columns = Vec::with_capacity(chosen.len());
        let mut x = 0;
        for column in wanted.iter().copied().filter(|column| chosen.contains(column)) {
            if !columns.iter().any(|(placed, _)| *placed == column) {
                columns.push((column, x));
                x += column.width() + 1;
            }
        }
        Self { columns, command: x }
    }

    /// The column at this cell.
    #[must_use]
    pub fn at(&self, x: u16) -> Column {
        let place =
            |(column, start): &(Column, u16)| (*start..=start + column.width()).contains(&x).then_some(*column);
        self.columns.iter().find_map(place).unwrap_or(Column::Command)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn sorting_goes_round_all_columns() {
        let mut column = Column::default();
        let mut seen = Vec::new();
        for _ in Column::ALL {
            column = column.next();
            assert!(!seen.contains(&column), "{column:?} twice");
            seen.push(column);
        }
        assert_eq!(column, Column::default());
    }

    #[test]
    fn words_name_their_columns_and_headings_fit() {
        for column in Column::ALL {
            assert_eq!(column.to_string().parse(), Ok(column));
            assert!(column == Column::Command || column.heading().len() <= usize::from(column.width()));
            assert!(column == Column::Command || (COLUMNS.contains(&column) && IMPORTANCE.contains(&column)));
        }
        assert!("CPU".parse::<Column>().is_err());
    }

    #[test]
    fn what_is_sorted_by_is_always_seen_and_a_wide_terminal_shows_all() {
        let narrow = Placed::choose(&COLUMNS, Column::Nice, 60);
        assert!(narrow.columns.iter().any(|(column, _)| *column == Column::Nice));
        assert_eq!(Placed::choose(&COLUMNS, Column::Role, 120).columns.len(), COLUMNS.len());
        let own = Placed::choose(&[Column::Cpu, Column::Pid, Column::Cpu, Column::Command], Column::Role, 80);
        assert_eq!(own, Placed { columns: vec![(Column::Cpu, 0), (Column::Pid, 6)], command: 14 });
    }

    proptest! {
        #[test]
        fn the_command_keeps_its_room(
            wanted in proptest::collection::vec(proptest::sample::select(Column::ALL.to_vec()), 0..20),
            sorted in proptest::sample::select(Column::ALL.to_vec()),
            width in 0u16..300,
        ) {
            let placed = Placed::choose(&wanted, sorted, width);
            prop_assert!(placed.command <= width.saturating_sub(COMMAND_MIN));
            let mut end = 0;
            for (column, x) in &placed.columns {
                prop_assert_eq!(*x, end);
                prop_assert_eq!(placed.at(*x), *column);
                end = x + column.width() + 1;
            }
            prop_assert_eq!(placed.at(end), Column::Command);
        }
    }
}
