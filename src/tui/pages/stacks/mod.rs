//! The page of the functions that the job's Python code spends its time in: what was seen lately, which parts are
//! unfolded, and which line is selected.
//!
//! The selection and the folds go by name, not by place: shares change with every sample, and a line that a person has
//! chosen stays chosen while it moves.

mod absent;
mod activity;
mod outline;
mod recent;
mod view;

use std::collections::HashSet;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::action::Action;
use super::{Content, Reply};
use crate::tui::widgets::{Drawn, Hit, Scene};
use outline::{OutlineKey, OutlineRow};
use recent::{RecentStacks, Unpacked};

/// Folds remembered; more come only from a job that never stops making new processes.
const FOLDS: usize = 4096;

/// What the page remembers.
#[derive(Debug, Clone, Default)]
pub struct Stacks {
    /// What was seen lately.
    recent: RecentStacks,
    /// The lines of the page, folded ones left out.
    rows: Vec<OutlineRow>,
    selected: usize,
    /// Parts that are not as they are at first.
    turned: HashSet<OutlineKey>,
    /// A person has chosen the selected line; until then it is the first one.
    chosen: bool,
    unpacked: Unpacked,
}

impl Content for Stacks {
    fn draw(&self, buf: &mut Buffer, area: Rect, scene: &Scene<'_>, top: usize, drawn: &mut Drawn) {
        view::draw(buf, area, self, scene, top, drawn);
    }

    fn refresh(&mut self, scene: &Scene<'_>) {
        self.recent = RecentStacks::gather(scene.job, &mut self.unpacked);
        self.list(scene);
    }

    fn select_by(&mut self, rows: isize, _scene: &Scene<'_>) -> bool {
        self.select(self.selected.saturating_add_signed(rows));
        true
    }

    fn act(&mut self, action: Action, scene: &Scene<'_>) -> Reply {
        if action == Action::Enter {
            self.turn(scene);
        }
        Reply::Changed
    }

    /// Selects a line; the selected one folds or unfolds.
    fn click(&mut self, hit: Hit, scene: &Scene<'_>) -> Reply {
        match hit {
            Hit::Row(row) if row == self.selected => self.turn(scene),
            Hit::Row(row) => self.select(row),
            _ => {}
        }
        Reply::Changed
    }
}

impl Stacks {
    fn select(&mut self, row: usize) {
        self.selected = row.min(self.rows.len().saturating_sub(1));
        self.chosen = true;
    }

    /// Folds or unfolds the selected line, or what it is a part of.
    fn turn(&mut self, scene: &Scene<'_>) {
        let Some(row) = self.rows.get(self.selected) else { return };
        let mut key = row.key.clone();
        if row.open.is_none() {
            key.pop();
        }
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
        self.list(scene);
    }

    /// Makes the lines anew, and finds the selected one among them, or else what it was a part of.
    fn list(&mut self, scene: &Scene<'_>) {
        let selected = self.rows.get(self.selected).filter(|_| self.chosen);
        let mut wanted = selected.map(|row| row.key.clone()).unwrap_or_default();
        self.rows = outline::rows(&self.recent, scene.job, &self.turned);
        if wanted.is_empty() {
            self.selected = 0;
        }
        while !wanted.is_empty() {
            if let Some(place) = self.rows.iter().position(|row| row.key == wanted) {
                self.selected = place;
                break;
            }
            wanted.pop();
        }
        self.selected = self.selected.min(self.rows.len().saturating_sub(1));
    }
}
