//! The rows that changed: kernels, operators, calls, copies and collectives of both accounts.

use std::collections::HashMap;
use std::hash::Hash;

use serde::{Serialize, Serializer};

use super::{BeforeAfter, Sides};
use crate::account::{CopyDirection, ProfileAccount};
use trainmon_base::text::named_enum;

/// Fewer or more than this a step are no other number of them.
const SAME_COUNT: f64 = 0.05;

named_enum! {
    /// A number of a row, per step.
    pub enum RowNumber {
        /// How many: runs, calls, copies.
        Count = "count",
        /// Time of all of them, milliseconds.
        Ms = "ms",
        /// Median time of one, microseconds.
        MedianUs = "median_us",
        /// Time of what an operator launched on the GPU, milliseconds.
        DeviceMs = "device_ms",
        /// How long calls waited, milliseconds.
        WaitMs = "wait_ms",
        /// Time in which the GPU was idle while a thread was in an operator, or because of calls, milliseconds.
        IdleMs = "idle_ms",
        /// Time on the host, milliseconds.
        HostMs = "host_ms",
        /// Bytes.
        Bytes = "bytes",
        /// Time in which a thread was blocked by copies, milliseconds.
        BlockedMs = "blocked_ms",
        /// Time in which no other kernel ran, milliseconds.
        ExposedMs = "exposed_ms",
    }
}

/// What is known by one name: a kernel, an operator, collectives.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
pub struct ByName {
    /// The name that a person reads.
    pub name: String,
}

/// Calls of one kind that wait for the GPU. Lines move between two versions of a program.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
pub struct ByCall {
    /// The call of the runtime.
    pub call: String,
    /// The outermost operator that made it.
    pub operator: Option<String>,
}

/// Copies of one direction and memory.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
pub struct ByDirection {
    /// From where to where.
    pub direction: Option<CopyDirection>,
    /// The host's memory is pageable rather than pinned.
    pub pageable: Option<bool>,
}

/// What is the same in both accounts, before and after.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RowChange<K> {
    /// What it is.
    #[serde(flatten)]
    pub key: K,
    #[serde(flatten, serialize_with = "as_map")]
    numbers: Vec<(RowNumber, BeforeAfter)>,
    /// Change of what it costs, milliseconds.
    pub change_ms: f64,
}

fn as_map<S: Serializer>(numbers: &[(RowNumber, BeforeAfter)], to: S) -> Result<S::Ok, S::Error> {
    to.collect_map(numbers.iter().copied())
}

impl<K> RowChange<K> {
    /// One of its numbers.
    pub fn number(&self, wanted: RowNumber) -> BeforeAfter {
        self.numbers.iter().find(|(number, _)| *number == wanted).map(|(_, values)| *values).unwrap_or_default()
    }
}

/// Rows, and how many more there are.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct ChangedRows<K> {
    /// Those that changed most.
    pub rows: Vec<RowChange<K>>,
    /// Others that changed.
    pub left_out: usize,
}

/// What a number of a row is: a sum over all rows of the same thing.
type RowValue<R> = (RowNumber, fn(&R) -> f64);

/// What belongs into a table.
#[derive(Debug, Clone, Copy)]
pub struct RowLimits {
    /// Most rows.
    pub rows: usize,
    /// Smaller changes do not count.
    pub least_ms: f64,
}

impl RowLimits {
    /// The rows that changed most, in either direction, by the change of what they cost and their counts: those of both accounts by
    /// what makes them the same, with the numbers that a row has, and those of them that it costs.
    pub fn changed<'a, R, K: Clone + Eq + Hash>(
        self,
        sides: &Sides<'a>,
        of: fn(&'a ProfileAccount) -> &'a [R],
        key: fn(&R) -> K,
        values: &[RowValue<R>],
        costs: &[RowNumber],
    ) -> ChangedRows<K> {
        let mut places: HashMap<K, usize> = HashMap::new();
        let mut joined: Vec<(K, [Vec<&R>; 2])> = Vec::new();
        for (place, side) in sides.iter().enumerate() {
            for row in of(side.account) {
                let at = *places.entry(key(row)).or_insert_with(|| {
                    joined.push((key(row), [Vec::new(), Vec::new()]));
                    joined.len() - 1
                });
                joined.get_mut(at).and_then(|(_, rows)| rows.get_mut(place)).into_iter().for_each(|of| of.push(row));
            }
        }
        let row = |(key, rows): (K, [Vec<&R>; 2])| {
            let numbers = values.iter().map(|(number, value)| {
                let sums = rows.each_ref().map(|rows| rows.iter().map(|row| value(row)).reduce(|sum, one| sum + one));
                let ([before, after], [of_before, of_after]) = (sums, sides.map(|side| side.count));
                let mean = |sum: Option<f64>, count: f64| sum.map(|sum| sum / count);
                (*number, BeforeAfter { before: mean(before, of_before), after: mean(after, of_after) })
            });
            let mut row = RowChange { key, numbers: numbers.collect(), change_ms: 0.0 };
            row.change_ms = costs.iter().map(|number| row.number(*number).change()).sum();
            row
        };
        let mut rows: Vec<RowChange<K>> = joined.into_iter().map(row).collect();
        let change = |row: &RowChange<K>| row.change_ms.abs();
        rows.retain(|row| change(row) >= self.least_ms || row.number(RowNumber::Count).change().abs() >= SAME_COUNT);
        rows.sort_by(|a, b| change(b).total_cmp(&change(a)));
        let left_out = rows.len().saturating_sub(self.rows);
        rows.truncate(self.rows);
        ChangedRows { rows, left_out }
    }
}

impl ChangedRows<ByName> {
    /// Adds the median time of kernels: the middle one of the runs of all of a name, by their medians.
    pub(crate) fn add_medians(&mut self, sides: &Sides<'_>) {
        for row in &mut self.rows {
            let [before, after] = sides.map(|side| {
                let of_name = side.account.kernels.iter().filter(|kernel| kernel.name == row.key.name);
                let mut medians: Vec<(f64, u64)> = of_name.map(|kernel| (kernel.median_us, kernel.count)).collect();
                medians.sort_by(|a, b| a.0.total_cmp(&b.0));
                let half = medians.iter().map(|(_, count)| count).sum::<u64>() / 2;
                let mut passed = 0;
                let middle = medians.iter().find(|(_, count)| {
                    passed += count;
                    passed > half
                });
                middle.map(|(median, _)| *median)
            });
            row.numbers.push((RowNumber::MedianUs, BeforeAfter { before, after }));
        }
    }
}
