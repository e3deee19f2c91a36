//! What a verdict says, and the parts that its sentences are made of.

use super::super::culprits::{Culprit, CulpritKind, ShareOf};
use super::super::parts::Advice;
use super::super::stats::round;
use super::NAMED_LOSS;
use crate::profiles::account::{IdleReason, IdleRow, ProfileAccount};
use crate::profiles::ranks_account::RanksAccount;

/// What a verdict says.
#[derive(Debug, Default)]
pub(super) struct Words {
    pub summary: String,
    pub advice: Vec<Advice>,
    pub culprits: Vec<Culprit>,
}

/// Advice with what it gains at most.
pub(super) fn advice(title: impl Into<String>, why: impl Into<String>, gain: Option<f64>) -> Advice {
    Advice {
        title: title.into(),
        why: why.into(),
        speedup_at_most: gain.map(|gain| round(gain.max(1.0), 2)),
        predicted_step_ms: None,
    }
}

/// What tells a collective's own time from waits for a late rank; where the ranks were compared, what helps those that are late in
/// turn.
pub(super) fn of_ranks(account: &ProfileAccount) -> Option<Advice> {
    match &account.across_ranks {
        None => Some(advice(
            "Compare the ranks: trainmon diagnose rank*.json",
            "a collective also waits for the last rank to enter: the traces of all ranks tell the two apart",
            None,
        )),
        Some(across) if waits_in_turn(across) => Some(advice(
            "Give all ranks batches of equal cost in each step",
            "each rank is late now and then, so it is the work of a step that differs, not one rank",
            None,
        )),
        Some(_) => None,
    }
}

/// Whether the ranks wait for one another in turn, and not next to never.
fn waits_in_turn(across: &RanksAccount) -> bool {
    across.skew >= NAMED_LOSS.value && across.in_turn_words().is_some()
}

/// A line of code to blame: `train_step (train.py:41)`.
pub(super) fn line(function: Option<&str>, at: Option<&str>, share: f64) -> Option<Culprit> {
    let at = at?;
    let name = function.map_or_else(|| at.to_owned(), |function| format!("{function} ({at})"));
    let share = Some(round(share, 3));
    Some(Culprit { kind: CulpritKind::Line, pid: None, name, more: 0, share, unit: Some(ShareOf::Time) })
}

/// ` (train.py:41)`.
pub(super) fn place(at: Option<&str>) -> String {
    at.map(|at| format!(" ({at})")).unwrap_or_default()
}

/// `json.dumps`, `aten::add`: what a row is of, for a sentence.
pub(super) fn named(row: &IdleRow) -> String {
    let name = row.function.as_deref().filter(|_| row.reason == Some(IdleReason::Python)).unwrap_or(&row.name);
    format!("`{name}`")
}

/// A built-in function that waits, with the function that calls it: `sleep`, called by `report`.
pub(super) fn called(row: &IdleRow) -> String {
    let built_in =
        row.name.trim_start_matches("<built-in ").trim_start_matches("function ").trim_start_matches("method ");
    let built_in = built_in.split([' ', '>']).next().unwrap_or_default();
    match &row.function {
        Some(function) => format!("`{built_in}`, called by `{function}`"),
        None => format!("`{built_in}`"),
    }
}
