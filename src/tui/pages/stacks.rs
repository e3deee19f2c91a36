//! The functions that the job's Python code spends its time in: what was seen lately, which parts are unfolded, and
//! which line is selected.
//!
//! The selection and the folds go by name, not by place: shares change with every sample, and a line that a person has
//! chosen stays chosen while it moves.

pub mod outline;
pub mod recent;

use std::collections::HashSet;

use super::{Reply, Seen, lines};
use crate::tui::keys::Action;
use outline::{Key, Row};
use recent::{Recent, Unpacked};

/// Folds remembered; more come only from a job that never stops making new processes.
const FOLDS: usize = 4096;

/// What the page remembers.
#[derive(Debug, Clone, Default)]
pub struct Stacks {
    /// What was seen lately.
    pub recent: Recent,
    /// The lines of the page, folded ones left out.
    pub rows: Vec<Row>,
    /// The selected one.
    pub selected: usize,
    /// First line shown.
    pub top: usize,
    /// Parts that are not as they are at first.
    turned: HashSet<Key>,
    /// A person has chosen the selected line; until then it is the first one.
    chosen: bool,
    unpacked: Unpacked,
}

impl Stacks {
    /// Another frame is shown, or the body has another size.
    pub fn refresh(&mut self, seen: &Seen<'_>) {
        self.recent = Recent::of(seen.job, &mut self.unpacked);
        self.list(seen);
    }

    /// What a key does here.
    pub fn act(&mut self, action: Action, seen: &Seen<'_>) -> Reply {
        if let Some(by) = lines(action, u16::try_from(visible(seen)).unwrap_or(u16::MAX)) {
            self.selected = self.selected.saturating_add_signed(by);
            self.chosen = true;
            self.keep_in_view(seen);
            return Reply::Changed;
        }
        match action {
            Action::Enter => self.turn(seen),
            _ => Reply::Ignored,
        }
    }

    /// A cell of the body was clicked on: selects a line; the selected one folds or unfolds.
    pub fn click(&mut self, row: u16, seen: &Seen<'_>) -> Reply {
        let Some(row) = row.checked_sub(seen.body.y + 1) else { return Reply::Ignored };
        let row = self.top + usize::from(row);
        if row == self.selected {
            return self.turn(seen);
        }
        self.selected = row;
        self.chosen = true;
        self.keep_in_view(seen);
        Reply::Changed
    }

    /// Folds or unfolds the selected line, or what it is a part of.
    fn turn(&mut self, seen: &Seen<'_>) -> Reply {
        let Some(row) = self.rows.get(self.selected) else { return Reply::Ignored };
        let key = if row.open.is_some() { Some(row.key.clone()) } else { row.key.parent() };
        let Some(key) = key else { return Reply::Ignored };
        self.chosen = true;
        if !self.turned.remove(&key) {
            if self.turned.len() >= FOLDS {
                self.turned.clear();
            }
            self.turned.insert(key.clone());
        }
        // What is folded in from inside stays selected as a whole.
        if let Some(place) = self.rows.iter().position(|row| row.key == key) {
            self.selected = place;
        }
        self.list(seen);
        Reply::Changed
    }

    /// Makes the lines anew, and finds the selected one among them.
    fn list(&mut self, seen: &Seen<'_>) {
        let mut wanted = self.rows.get(self.selected).filter(|_| self.chosen).map(|row| row.key.clone());
        self.rows = outline::rows(&self.recent, seen.job, &self.turned);
        if wanted.is_none() {
            self.selected = 0;
        }
        while let Some(key) = wanted {
            if let Some(place) = self.rows.iter().position(|row| row.key == key) {
                self.selected = place;
                break;
            }
            wanted = key.parent();
        }
        self.keep_in_view(seen);
    }

    fn keep_in_view(&mut self, seen: &Seen<'_>) {
        let visible = visible(seen).max(1);
        self.selected = self.selected.min(self.rows.len().saturating_sub(1));
        let lowest = self.selected.saturating_sub(visible - 1);
        self.top = self.top.clamp(lowest, self.selected).min(self.rows.len().saturating_sub(visible));
    }
}

/// Lines that are visible, heading not counted.
fn visible(seen: &Seen<'_>) -> usize {
    usize::from(seen.body.height.saturating_sub(1))
}
