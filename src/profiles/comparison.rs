//! Two accounts side by side: what each part of a step contributes to its change, and which kernels, operators, calls and copies
//! changed most. Per step where both have steps, else of the whole window.

use std::collections::HashMap;
use std::hash::Hash;

use serde::Serialize;

use super::account::{CopyDirection, IdleReason, ProfileAccount};
use crate::text::named_enum;

/// Fewer or more than this a step are no other number of them.
const SAME_COUNT: f64 = 0.05;
/// A change by less of a step is none.
const NO_CHANGE: f64 = 1e-4;

named_enum! {
    /// What the numbers are of.
    pub enum Per {
        /// A step.
        Step = "step",
        /// The window: what was recorded.
        Window = "window",
    }
}

named_enum! {
    /// Whose time is divided.
    pub enum PartsOf {
        /// The GPU with most kernels.
        Gpu = "gpu",
        /// The loop's thread, where no GPU was recorded.
        Loop = "loop",
    }
}

named_enum! {
    /// A part of a step. Those of a GPU add up to the step, and so do those of the loop.
    pub enum StepPart {
        /// The GPU runs a kernel that is no collective.
        Compute = "compute",
        /// The GPU runs collectives and no other kernel.
        Communication = "communication",
        /// The GPU copies, and runs no kernel.
        Copies = "copies",
        /// The loop waits for a batch. The parts from here on are idle time of the GPU, or all time of the loop.
        InputWait = "input_wait",
        /// A call waits for the GPU.
        Sync = "sync",
        /// Another call of the GPU's runtime.
        Launch = "launch",
        /// An operator or annotation.
        Operator = "operator",
        /// Python; of a GPU's idle time also what is not recorded.
        Python = "python",
        /// The loop is in a collective of the host's side.
        Collective = "collective",
        /// The loop sleeps, or waits for a lock.
        Blocked = "blocked",
        /// The trace shows nothing of the loop.
        Nothing = "nothing",
    }
}

/// A number before and after; `None` where it is not known or has nothing to be of.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct BeforeAfter {
    /// In the first profile.
    pub before: Option<f64>,
    /// In the second.
    pub after: Option<f64>,
}

impl BeforeAfter {
    /// Both are known.
    pub fn new([before, after]: [f64; 2]) -> Self {
        Self { before: Some(before), after: Some(after) }
    }

    /// Both in order.
    pub fn sides(self) -> [Option<f64>; 2] {
        [self.before, self.after]
    }

    /// Both, with 0 for what is not there.
    pub fn values(self) -> [f64; 2] {
        self.sides().map(Option::unwrap_or_default)
    }

    /// By how much the second is larger.
    pub fn change(self) -> f64 {
        let [before, after] = self.values();
        after - before
    }
}

/// A part of a step before and after.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct PartChange {
    /// Which.
    pub part: StepPart,
    /// Milliseconds of a step.
    pub ms: BeforeAfter,
    /// What it contributes to the change of the step, milliseconds.
    pub change_ms: f64,
}

/// A kernel before and after, by the name that a person reads. Numbers are per step.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct KernelChange {
    /// Its name.
    pub name: String,
    /// Time of all of them, milliseconds.
    pub ms: BeforeAfter,
    /// How often it ran.
    pub count: BeforeAfter,
    /// Median time of one, microseconds.
    pub median_us: BeforeAfter,
    /// Change of its time, milliseconds.
    pub change_ms: f64,
}

/// An operator before and after. Numbers are per step.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OperatorChange {
    /// Its name.
    pub name: String,
    /// Calls.
    pub count: BeforeAfter,
    /// Time of what it launched on the GPU, milliseconds.
    pub device_ms: BeforeAfter,
    /// Time in which the GPU was idle while a thread was in it, milliseconds.
    pub idle_ms: BeforeAfter,
    /// Its time on the host, milliseconds.
    pub host_ms: BeforeAfter,
    /// Change of what it costs: time on the GPU and idle time of it, or without a GPU time on the host, milliseconds.
    pub change_ms: f64,
}

/// Calls of one kind that wait for the GPU, before and after. Numbers are per step.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SyncChange {
    /// The call of the runtime.
    pub call: String,
    /// The outermost operator that made it.
    pub operator: Option<String>,
    /// Calls.
    pub count: BeforeAfter,
    /// How long they waited, milliseconds.
    pub wait_ms: BeforeAfter,
    /// How long the GPU was idle because of them, milliseconds.
    pub idle_ms: BeforeAfter,
    /// Change of that idle time, milliseconds.
    pub change_ms: f64,
}

/// Copies of one direction before and after. Numbers are per step.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CopyChange {
    /// From where to where.
    pub direction: Option<CopyDirection>,
    /// The host's memory is pageable rather than pinned.
    pub pageable: Option<bool>,
    /// Number of copies.
    pub count: BeforeAfter,
    /// Bytes.
    pub bytes: BeforeAfter,
    /// Time of all of them, milliseconds.
    pub ms: BeforeAfter,
    /// Time in which a thread was blocked by them, milliseconds.
    pub blocked_ms: BeforeAfter,
    /// Change of their time, milliseconds.
    pub change_ms: f64,
}

/// Collectives of one kind before and after. Numbers are per step.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CollectiveChange {
    /// The name that a person reads.
    pub name: String,
    /// Number of them.
    pub count: BeforeAfter,
    /// Time of all of them, milliseconds.
    pub ms: BeforeAfter,
    /// Time in which no other kernel ran, milliseconds.
    pub exposed_ms: BeforeAfter,
    /// Change of the time in which no other kernel ran, milliseconds.
    pub change_ms: f64,
}

/// Rows, and how many more there are.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct ChangedRows<R> {
    /// Those that changed most.
    pub rows: Vec<R>,
    /// Others that changed.
    pub left_out: usize,
}

/// Two accounts side by side.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ProfileChange {
    /// What the numbers are of.
    pub per: Per,
    /// Its mean length, milliseconds.
    pub length_ms: BeforeAfter,
    /// Whose time the parts are; `None` where nothing of both can be compared.
    pub parts_of: Option<PartsOf>,
    /// Parts that add up to the length. Their changes add up to its change.
    pub parts: Vec<PartChange>,
    /// Kernels of the GPU with most kernels.
    pub kernels: ChangedRows<KernelChange>,
    /// Operators.
    pub operators: ChangedRows<OperatorChange>,
    /// Calls that wait for the GPU.
    pub syncs: ChangedRows<SyncChange>,
    /// Copies.
    pub copies: ChangedRows<CopyChange>,
    /// Collectives.
    pub collectives: ChangedRows<CollectiveChange>,
}

impl ProfileChange {
    /// Compares, with so many rows of each table at most.
    pub fn between(accounts: [&ProfileAccount; 2], rows: usize) -> Self {
        let all_steps =
            accounts.iter().all(|account| account.steps > 0 && account.step_ms.is_some_and(|ms| ms > 0.0));
        let per = if all_steps { Per::Step } else { Per::Window };
        let sides = accounts.map(|account| ComparedSide::new(account, per));
        let (parts_of, parts) = parts(&sides);
        let length_ms = BeforeAfter::new(sides.map(|side| side.length_ms));
        let limits = RowLimits { rows, least_ms: NO_CHANGE * length_ms.values().into_iter().fold(0.0, f64::max) };
        Self {
            per,
            length_ms,
            parts_of,
            parts,
            kernels: limits.most(kernels(&sides), |row| (row.change_ms, row.count)),
            operators: limits.most(operators(&sides), |row| (row.change_ms, row.count)),
            syncs: limits.most(syncs(&sides), |row| (row.change_ms, row.count)),
            copies: limits.most(copies(&sides), |row| (row.change_ms, row.count)),
            collectives: limits.most(collectives(&sides), |row| (row.change_ms, row.count)),
        }
    }
}

/// An account, and what its numbers are divided by.
#[derive(Clone, Copy)]
struct ComparedSide<'a> {
    account: &'a ProfileAccount,
    length_ms: f64,
    /// Steps in the window.
    count: f64,
}

impl<'a> ComparedSide<'a> {
    fn new(account: &'a ProfileAccount, per: Per) -> Self {
        match account.step_ms {
            // The window may begin before the first step, or end after the last.
            Some(length_ms) if per == Per::Step => {
                let count = account.window_ms / length_ms;
                let whole = account.steps as f64;
                let count = if (count - whole).abs() < 0.01 * whole { whole } else { count };
                Self { account, length_ms, count }
            }
            _ => Self { account, length_ms: account.window_ms, count: 1.0 },
        }
    }
}

type Sides<'a> = [ComparedSide<'a>; 2];

fn parts(sides: &Sides<'_>) -> (Option<PartsOf>, Vec<PartChange>) {
    let shares = sides.map(|side| shares_of_gpu(side.account));
    let (of, shares) = match shares {
        [Some(before), Some(after)] => (PartsOf::Gpu, [before, after]),
        _ => match sides.map(|side| shares_of_loop(side.account)) {
            [Some(before), Some(after)] => (PartsOf::Loop, [before, after]),
            _ => return (None, Vec::new()),
        },
    };
    let [before, after] = shares;
    let parts = before.into_iter().zip(after).map(|((part, before), (_, after))| {
        let [of_before, of_after] = sides.map(|side| side.length_ms);
        let ms = BeforeAfter::new([before * of_before, after * of_after]);
        PartChange { part, ms, change_ms: ms.change() }
    });
    (Some(of), parts.collect())
}

/// Shares of the parts of a step, which add up to 1.
pub type Shares = Vec<(StepPart, f64)>;

fn shares_of_gpu(account: &ProfileAccount) -> Option<Shares> {
    let gpu = account.devices.first()?;
    let busy = [
        (StepPart::Compute, gpu.compute),
        (StepPart::Communication, gpu.exposed),
        (StepPart::Copies, gpu.copy_alone),
    ];
    let idle = gpu.idle_by.iter().map(|(reason, share)| {
        let part = match reason {
            IdleReason::InputWait => StepPart::InputWait,
            IdleReason::Sync => StepPart::Sync,
            IdleReason::Launch => StepPart::Launch,
            IdleReason::Operator => StepPart::Operator,
            IdleReason::Python => StepPart::Python,
        };
        (part, share)
    });
    Some(busy.into_iter().chain(idle).collect())
}

/// The shares of the loop's time, if the profile shows the loop.
pub fn shares_of_loop(account: &ProfileAccount) -> Option<Shares> {
    let of_loop = account.of_loop?;
    Some(vec![
        (StepPart::InputWait, of_loop.input_wait),
        (StepPart::Sync, of_loop.sync),
        (StepPart::Collective, of_loop.collective),
        (StepPart::Blocked, of_loop.blocked),
        (StepPart::Launch, of_loop.launch),
        (StepPart::Operator, of_loop.operator),
        (StepPart::Python, of_loop.python),
        (StepPart::Nothing, of_loop.nothing),
    ])
}

fn kernels(sides: &Sides<'_>) -> Vec<KernelChange> {
    let joined = Joined::new(sides, |account| &account.kernels, |row| row.name.clone());
    joined.each(|name, of| {
        let ms = of.per_step(|row| row.total_ms);
        let count = of.per_step(|row| row.count as f64);
        let [before, after] = of.rows.map(|rows| median(rows.iter().map(|row| (row.median_us, row.count)).collect()));
        KernelChange { name, ms, count, median_us: BeforeAfter { before, after }, change_ms: ms.change() }
    })
}

/// The middle one of the runs of several kernels of one name, by their medians.
fn median(mut medians: Vec<(f64, u64)>) -> Option<f64> {
    medians.sort_by(|a, b| a.0.total_cmp(&b.0));
    let half = medians.iter().map(|(_, count)| count).sum::<u64>() / 2;
    let mut passed = 0;
    let middle = medians.iter().find(|(_, count)| {
        passed += count;
        passed > half
    });
    middle.map(|(median, _)| *median)
}

fn operators(sides: &Sides<'_>) -> Vec<OperatorChange> {
    let has_gpu = sides.iter().all(|side| !side.account.devices.is_empty());
    let joined = Joined::new(sides, |account| &account.operators, |row| row.name.clone());
    joined.each(|name, of| {
        let device_ms = of.per_step(|row| row.device_ms);
        let idle_ms = of.per_step(|row| row.idle_ms);
        let host_ms = of.per_step(|row| row.host_ms);
        let count = of.per_step(|row| row.count as f64);
        let change_ms = if has_gpu { device_ms.change() + idle_ms.change() } else { host_ms.change() };
        OperatorChange { name, count, device_ms, idle_ms, host_ms, change_ms }
    })
}

fn syncs(sides: &Sides<'_>) -> Vec<SyncChange> {
    let joined = Joined::new(sides, |account| &account.syncs, |row| (row.call.clone(), row.operator.clone()));
    joined.each(|(call, operator), of| {
        let idle_ms = of.per_step(|row| row.idle_ms);
        SyncChange {
            call,
            operator,
            count: of.per_step(|row| row.count as f64),
            wait_ms: of.per_step(|row| row.wait_ms),
            idle_ms,
            change_ms: idle_ms.change(),
        }
    })
}

fn copies(sides: &Sides<'_>) -> Vec<CopyChange> {
    let joined = Joined::new(sides, |account| &account.copies, |row| (row.direction, row.pageable));
    joined.each(|(direction, pageable), of| {
        let ms = of.per_step(|row| row.ms);
        CopyChange {
            direction,
            pageable,
            count: of.per_step(|row| row.count as f64),
            bytes: of.per_step(|row| row.bytes as f64),
            ms,
            blocked_ms: of.per_step(|row| row.blocked_ms),
            change_ms: ms.change(),
        }
    })
}

fn collectives(sides: &Sides<'_>) -> Vec<CollectiveChange> {
    let joined = Joined::new(sides, |account| &account.collectives, |row| row.name.clone());
    joined.each(|name, of| {
        let exposed_ms = of.per_step(|row| row.exposed_ms);
        CollectiveChange {
            name,
            count: of.per_step(|row| row.count as f64),
            ms: of.per_step(|row| row.total_ms),
            exposed_ms,
            change_ms: exposed_ms.change(),
        }
    })
}

/// What belongs into a table.
#[derive(Clone, Copy)]
struct RowLimits {
    rows: usize,
    /// Smaller changes are none.
    least_ms: f64,
}

impl RowLimits {
    /// The rows that changed most, in either direction, by the change of their time and their counts.
    fn most<R>(self, mut rows: Vec<R>, of: impl Fn(&R) -> (f64, BeforeAfter)) -> ChangedRows<R> {
        let change = |row: &R| of(row).0.abs();
        rows.retain(|row| change(row) >= self.least_ms || of(row).1.change().abs() >= SAME_COUNT);
        rows.sort_by(|a, b| change(b).total_cmp(&change(a)));
        let left_out = rows.len().saturating_sub(self.rows);
        rows.truncate(self.rows);
        ChangedRows { rows, left_out }
    }
}

/// Rows of both accounts by what makes them the same, in the order in which they come.
struct Joined<'a, R, K> {
    keys: Vec<K>,
    rows: HashMap<K, [Vec<&'a R>; 2]>,
    counts: [f64; 2],
}

/// The rows of one key.
struct RowsOfKey<'a, 'r, R> {
    rows: [&'r [&'a R]; 2],
    counts: [f64; 2],
}

impl<'a, R, K: Clone + Eq + Hash> Joined<'a, R, K> {
    fn new(sides: &Sides<'a>, rows: impl Fn(&'a ProfileAccount) -> &'a [R], key: impl Fn(&R) -> K) -> Self {
        let mut joined = Self { keys: Vec::new(), rows: HashMap::new(), counts: sides.map(|side| side.count) };
        for (place, side) in sides.iter().enumerate() {
            for row in rows(side.account) {
                let key = key(row);
                let of = joined.rows.entry(key.clone()).or_insert_with(|| {
                    joined.keys.push(key);
                    [Vec::new(), Vec::new()]
                });
                of.get_mut(place).into_iter().for_each(|of| of.push(row));
            }
        }
        joined
    }

    fn each<C>(self, change: impl Fn(K, RowsOfKey<'a, '_, R>) -> C) -> Vec<C> {
        let Self { keys, rows, counts } = self;
        let of = |key: K| {
            let rows = rows.get(&key)?.each_ref().map(Vec::as_slice);
            Some(change(key, RowsOfKey { rows, counts }))
        };
        keys.into_iter().filter_map(of).collect()
    }
}

impl<R> RowsOfKey<'_, '_, R> {
    fn per_step(&self, value: impl Fn(&R) -> f64) -> BeforeAfter {
        let [before, after] = self.rows;
        let [of_before, of_after] = self.counts;
        let mean = |rows: &[&R], count: f64| {
            let sum: f64 = rows.iter().map(|row| value(row)).sum();
            if rows.is_empty() { None } else { Some(sum / count) }
        };
        BeforeAfter { before: mean(before, of_before), after: mean(after, of_after) }
    }
}

#[cfg(test)]
#[path = "comparison_tests.rs"]
mod tests;
