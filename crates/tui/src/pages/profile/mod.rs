//! The page of a profile: what each GPU did in its window, one step of it with a cursor on its gaps, and its tables, one of which
//! has a selected row.
//!
//! ```text
//! │ trace.json.gz · window of 1.05 s · 6 steps of 175 ms                  │
//! │ GPU 0 V100  56% busy ████████████████████▚▚╳╳╳╳╳╳╳╳╳╳╳╳╳╳╳  44% idle  │
//! │   █ computing 55%  ▒ only copying 1%  ╳ waiting for data 34% …        │
//! │ ── Step 3 of 6 · 175 ms: threads, streams, gaps ───────────────────── │
//! │ Waits  Idle  Kernels  Copies  Operators                               │
//! │ ── Kernels ── 3/67 ────────────────────────────────────────────────── │
//! │ tables: one, or as many as there is room for                          │
//! ```

mod cursor;
mod detail;
mod gpus;
mod lanes;
mod step;
mod table;
mod view;
mod words;
mod zoom;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::action::Action;
use super::{Content, Reply};
use crate::widgets::{Drawn, Hit, Scene};
use cursor::StepCursor;
use table::ShownTable;
use trainmon_diagnosis::diagnosis::Verdict;
use trainmon_diagnosis::diagnosis::causes::Cause;
use trainmon_diagnosis::diagnosis::verdict::Class;
use trainmon_views::profile_tables::{self, TableName};

/// State of the page.
#[derive(Debug, Clone, Default)]
pub struct Profile {
    /// The tables that have rows.
    tables: Vec<ShownTable>,
    /// Place of the one with the selected row.
    current: usize,
    /// Whether a person has selected a row; until then, the table that explains the verdict is current.
    chosen: bool,
    /// The cursor in the drawn step.
    cursor: StepCursor,
}

impl Content for Profile {
    fn draw(&self, buf: &mut Buffer, area: Rect, scene: &Scene<'_>, top: usize, drawn: &mut Drawn) {
        view::draw(buf, area, self, scene, top, drawn);
    }

    fn refresh(&mut self, scene: &Scene<'_>) {
        self.cursor.refresh(scene.verdict().and_then(|verdict| verdict.profile.as_ref()));
        let before = std::mem::take(&mut self.tables);
        let name = if self.chosen { before.get(self.current).map(|table| table.name) } else { None };
        let Some((verdict, account)) = scene.verdict().and_then(|v| Some((v, v.profile.as_deref()?))) else {
            self.chosen = false;
            return;
        };
        self.tables = profile_tables::tables(account).filter_map(|table| ShownTable::new(table, account)).collect();
        for table in &mut self.tables {
            let selected = before.iter().find(|old| old.name == table.name).map_or(0, |old| old.selected);
            table.select(selected);
        }
        let name = name.unwrap_or_else(|| explaining(verdict));
        self.current = self.tables.iter().position(|table| table.name == name).unwrap_or(0);
    }

    /// Moves within the table, and by a single row also into the next or the previous one.
    fn select_by(&mut self, rows: isize, _scene: &Scene<'_>) -> bool {
        let Some(table) = self.tables.get_mut(self.current) else { return false };
        self.chosen = true;
        let (selected, last) = (table.selected, table.rows.len().saturating_sub(1));
        let turns = self.tables.len() > 1 && (rows == 1 && selected == last || rows == -1 && selected == 0);
        match self.tables.get_mut(self.current) {
            Some(table) if !turns => table.select(selected.saturating_add_signed(rows)),
            _ => {
                self.turn(rows > 0);
                let end = if rows > 0 { 0 } else { usize::MAX };
                self.tables.get_mut(self.current).into_iter().for_each(|table| table.select(end));
            }
        }
        true
    }

    fn takes(&self, action: Action) -> bool {
        self.cursor.takes(action)
    }

    fn act(&mut self, action: Action, _scene: &Scene<'_>) -> Reply {
        match action {
            Action::Enter => return self.open(),
            Action::NextTable | Action::PreviousTable => self.turn(action == Action::NextTable),
            action => self.cursor.act(action),
        }
        Reply::Changed
    }

    /// A click on a gap puts the cursor on it; on a table, makes it current; on a row of the current one, it selects; on the selected row, it opens it.
    fn click(&mut self, hit: Hit, _scene: &Scene<'_>) -> Reply {
        let count = self.tables.len();
        match (hit, self.tables.get_mut(self.current)) {
            (Hit::Gap(place), _) => self.cursor.go(place),
            (Hit::Heading(place), Some(_)) if place < count => (self.current, self.chosen) = (place, true),
            (Hit::Row(row), Some(table)) if row == table.selected => return self.open(),
            (Hit::Row(row), Some(table)) if row < table.rows.len() => {
                table.select(row);
                self.chosen = true;
            }
            _ => {}
        }
        Reply::Changed
    }

    fn detail(&self, buf: &mut Buffer, scene: &Scene<'_>, top: usize, drawn: &mut Drawn) {
        if let Some(table) = self.tables.get(self.current) {
            detail::draw(buf, table, scene.theme, top, drawn);
        }
    }
}

impl Profile {
    /// Goes to the next or the previous table.
    fn turn(&mut self, forward: bool) {
        let count = self.tables.len().max(1);
        self.current = (self.current + if forward { 1 } else { count - 1 }) % count;
        self.chosen = true;
    }

    fn open(&self) -> Reply {
        if self.tables.is_empty() { Reply::Changed } else { Reply::Detail }
    }
}

/// The table that says most about what a verdict blames.
fn explaining(verdict: &Verdict) -> TableName {
    match (verdict.class, verdict.cause) {
        (_, Some(Cause::HostDeviceSync)) => TableName::Waits,
        (_, Some(Cause::CopyBound)) => TableName::Copies,
        (_, Some(Cause::Communication)) => TableName::Collectives,
        (Class::Gpu, _) => TableName::Kernels,
        (_, Some(Cause::CpuTraining)) => TableName::Operators,
        _ => TableName::Idle,
    }
}
