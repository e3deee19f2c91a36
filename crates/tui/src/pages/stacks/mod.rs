//! The page of the functions where the job's Python code spends its time: recent samples, which parts are unfolded, and
//! which line is selected.
//!
//! Selection and folds are stored by name, not by position: shares change with every sample, and a selected line stays
//! selected while it moves.

mod absent;
mod activity;
mod outline;
mod view;

use std::collections::HashSet;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::action::Action;
use super::{Content, Reply};
use crate::widgets::{Drawn, Hit, Scene};
use outline::{OutlineKey, OutlineRow};
use trainmon_attach::jobs::JobKey;
use trainmon_diagnosis::history::recent_stacks::{RecentStacks, Unpacked};

/// Maximum number of stored folds; only a job that never stops starting new processes needs more.
const FOLDS: usize = 4096;

/// State of the page.
#[derive(Debug, Clone, Default)]
pub struct Stacks {
    /// Recent samples.
    recent: RecentStacks,
    /// The lines of the page, without folded ones.
    rows: Vec<OutlineRow>,
    selected: usize,
    /// Parts whose fold state differs from the default.
    turned: HashSet<OutlineKey>,
    /// Whether a person has selected a line; until then, the first line is selected.
    chosen: bool,
    /// What is unpacked of which job.
    unpacked: (JobKey, Unpacked),
}

impl Content for Stacks {
    fn draw(&self, buf: &mut Buffer, area: Rect, scene: &Scene<'_>, top: usize, drawn: &mut Drawn) {
        view::draw(buf, area, self, scene, top, drawn);
    }

    fn refresh(&mut self, scene: &Scene<'_>) {
        let (job, (key, unpacked)) = (scene.job, &mut self.unpacked);
        if *key != job.key {
            (*key, *unpacked) = (job.key, Unpacked::default());
        }
        let gather = |shown| RecentStacks::gather(shown, job.archive(), unpacked);
        self.recent = job.shown().map(gather).unwrap_or_default();
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

    /// Selects a line; folds or unfolds it if it is already selected.
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

    /// Folds or unfolds the selected line, or the part that contains it.
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
        // After folding from inside, the whole part is selected.
        if let Some(place) = self.rows.iter().position(|row| row.key == key) {
            self.selected = place;
        }
        self.list(scene);
    }

    /// Rebuilds the lines, and finds the selected one among them, or the part that contained it.
    fn list(&mut self, scene: &Scene<'_>) {
        let selected = if self.chosen { self.rows.get(self.selected) } else { None };
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
