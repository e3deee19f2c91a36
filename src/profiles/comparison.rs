//! Two accounts side by side: what each part of a step contributes to its change, and which kernels, operators, calls and copies
//! changed most. Per step where both have steps, else of the whole window.

mod sides;
mod tables;

use serde::Serialize;

use super::account::{IdleReason, ProfileAccount};
use crate::text::named_enum;
pub use sides::{BeforeAfter, Per};
use sides::{ComparedSide, Sides};
use tables::RowLimits;
pub use tables::{ChangedRows, CollectiveChange, CopyChange, KernelChange, OperatorChange, SyncChange};

/// A change by less of a step is no change.
const LEAST_CHANGE: f64 = 1e-4;

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
        /// The loop saves a state.
        Saving = "saving",
        /// The trace shows nothing of the loop, or no more than an annotation.
        Nothing = "nothing",
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
        let limits = RowLimits { rows, least_ms: LEAST_CHANGE * length_ms.values().into_iter().fold(0.0, f64::max) };
        Self {
            per,
            length_ms,
            parts_of,
            parts,
            kernels: limits.most(tables::kernels(&sides), |row| (row.change_ms, row.count)),
            operators: limits.most(tables::operators(&sides), |row| (row.change_ms, row.count)),
            syncs: limits.most(tables::syncs(&sides), |row| (row.change_ms, row.count)),
            copies: limits.most(tables::copies(&sides), |row| (row.change_ms, row.count)),
            collectives: limits.most(tables::collectives(&sides), |row| (row.change_ms, row.count)),
        }
    }
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
        (StepPart::Sync, of_loop.waits_for_gpu()),
        (StepPart::Collective, of_loop.collective),
        (StepPart::Blocked, of_loop.blocked),
        (StepPart::Launch, of_loop.launch),
        (StepPart::Saving, of_loop.saving),
        (StepPart::Operator, of_loop.operator),
        (StepPart::Python, of_loop.python),
        (StepPart::Nothing, of_loop.nothing + of_loop.annotation),
    ])
}

#[cfg(test)]
#[path = "comparison_tests.rs"]
mod tests;
