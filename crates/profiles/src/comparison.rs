//! Two accounts side by side: what each part of a step contributes to its change, and which kernels, operators, calls and copies
//! changed most. Per step where both have steps, else of the whole window.

mod tables;

use serde::Serialize;

pub use super::account::StepPart;
use super::account::{CollectiveRow, CopyRow, KernelRow, OperatorRow, ProfileAccount, SyncRow};
use tables::RowLimits;
pub use tables::{ByCall, ByDirection, ByName, ChangedRows, RowChange, RowNumber};
use trainmon_base::text::named_enum;

/// A change by less of a step is no change.
const LEAST_CHANGE: f64 = 1e-4;

named_enum! {
    /// What the numbers are of.
    pub enum Per {
        /// A step.
        Step = "step",
        /// The window: what was recorded.
        Window = "window",
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

/// An account, and what its numbers are divided by.
#[derive(Debug, Clone, Copy)]
pub struct ComparedSide<'a> {
    /// What ran.
    pub account: &'a ProfileAccount,
    /// Mean length of a step, milliseconds.
    pub length_ms: f64,
    /// Steps in the window.
    pub count: f64,
}

impl<'a> ComparedSide<'a> {
    /// The account, per step or of its window.
    pub fn new(account: &'a ProfileAccount, per: Per) -> Self {
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

/// Both accounts.
pub type Sides<'a> = [ComparedSide<'a>; 2];

named_enum! {
    /// Whose time is divided.
    pub enum PartsOf {
        /// The GPU with most kernels.
        Gpu = "gpu",
        /// The loop's thread, where no GPU was recorded.
        Loop = "loop",
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
    pub kernels: ChangedRows<ByName>,
    /// Operators.
    pub operators: ChangedRows<ByName>,
    /// Calls that wait for the GPU.
    pub syncs: ChangedRows<ByCall>,
    /// Copies.
    pub copies: ChangedRows<ByDirection>,
    /// Collectives.
    pub collectives: ChangedRows<ByName>,
}

impl ProfileChange {
    /// Compares, with so many rows of each table at most.
    pub fn between(accounts: [&ProfileAccount; 2], rows: usize) -> Self {
        use RowNumber::{Count, DeviceMs, ExposedMs, HostMs, IdleMs, Ms, WaitMs};
        let all_steps =
            accounts.iter().all(|account| account.steps > 0 && account.step_ms.is_some_and(|ms| ms > 0.0));
        let per = if all_steps { Per::Step } else { Per::Window };
        let sides = accounts.map(|account| ComparedSide::new(account, per));
        let (parts_of, parts) = parts(&sides);
        let length_ms = BeforeAfter::new(sides.map(|side| side.length_ms));
        let limits = RowLimits { rows, least_ms: LEAST_CHANGE * length_ms.values().into_iter().fold(0.0, f64::max) };
        let has_gpu = accounts.iter().all(|account| !account.devices.is_empty());
        let of_operators: &[RowNumber] = if has_gpu { &[DeviceMs, IdleMs] } else { &[HostMs] };
        let mut kernels = limits.changed(
            &sides,
            |account| &account.kernels,
            |row| ByName { name: row.name.clone() },
            &[(Ms, |row: &KernelRow| row.total_ms), (Count, |row| row.count as f64)],
            &[Ms],
        );
        kernels.add_medians(&sides);
        let operators = limits.changed(
            &sides,
            |account| &account.operators,
            |row| ByName { name: row.name.clone() },
            &[
                (Count, |row: &OperatorRow| row.count as f64),
                (DeviceMs, |row| row.device_ms),
                (IdleMs, |row| row.idle_ms),
                (HostMs, |row| row.host_ms),
            ],
            of_operators,
        );
        let syncs = limits.changed(
            &sides,
            |account| &account.syncs,
            |row| ByCall { call: row.call.clone(), operator: row.operator.clone() },
            &[(Count, |row: &SyncRow| row.count as f64), (WaitMs, |row| row.wait_ms), (IdleMs, |row| row.idle_ms)],
            &[IdleMs],
        );
        let copies = copies(&sides, limits);
        let collectives = limits.changed(
            &sides,
            |account| &account.collectives,
            |row| ByName { name: row.name.clone() },
            &[
                (Count, |row: &CollectiveRow| row.count as f64),
                (Ms, |row| row.total_ms),
                (ExposedMs, |row| row.exposed_ms),
            ],
            &[ExposedMs],
        );
        Self { per, length_ms, parts_of, parts, kernels, operators, syncs, copies, collectives }
    }
}

fn copies(sides: &Sides<'_>, limits: RowLimits) -> ChangedRows<ByDirection> {
    use RowNumber::{BlockedMs, Bytes, Count, Ms};
    limits.changed(
        sides,
        |account| &account.copies,
        |row| ByDirection { direction: row.direction, pageable: row.pageable },
        &[
            (Count, |row: &CopyRow| row.count as f64),
            (Bytes, |row| row.bytes as f64),
            (Ms, |row| row.ms),
            (BlockedMs, |row| row.blocked_ms),
        ],
        &[Ms],
    )
}

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
    let idle = gpu.idle_by.iter().filter_map(|(reason, share)| Some((StepPart::named(reason.word())?, share)));
    Some(busy.into_iter().chain(idle).collect())
}

/// The shares of the loop's time, if the profile shows the loop.
pub fn shares_of_loop(account: &ProfileAccount) -> Option<Shares> {
    use StepPart::{
        Annotation, Blocked, Collective, Copies, InputWait, Launch, Nothing, Operator, Python, Saving, Sync,
    };
    let mut of_loop = account.of_loop?;
    let parts = [InputWait, Sync, Copies, Collective, Blocked, Saving, Launch, Operator, Annotation, Python, Nothing];
    Some(parts.into_iter().filter_map(|part| Some((part, *of_loop.part(part)?))).collect())
}

#[cfg(test)]
#[path = "comparison_tests.rs"]
mod tests;
