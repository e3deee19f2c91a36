//! What a verdict says, and the parts that its sentences are made of.

use super::super::culprits::{Culprit, CulpritKind, ShareOf};
use super::super::parts::Advice;
use super::super::stats::round;
use crate::profiles::account::{IdleReason, IdleRow};

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
