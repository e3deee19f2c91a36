//! The process table: order, selection.

use super::{Reply, Seen, lines};
use crate::rates::frame::ProcessRates;
use crate::tui::kept::Layout;
use crate::tui::keys::Action;
use crate::tui::popup::{Popup, Purpose};
use crate::tui::processes::{Column, Sort, Table};

/// What the page remembers.
#[derive(Debug, Clone, Default)]
pub struct Processes {
    /// Rows, order and selection.
    pub table: Table,
}

impl Processes {
    /// Another frame is shown, or the body has another size.
    pub fn refresh(&mut self, seen: &Seen<'_>) {
        self.table.refresh(seen.job.frame());
        self.table.scroll_to_selected(visible(seen));
    }

    /// What a key does here.
    pub fn act(&mut self, action: Action, seen: &Seen<'_>) -> Reply {
        if let Some(by) = lines(action, u16::try_from(visible(seen)).unwrap_or(u16::MAX)) {
            let row = self.table.selected.saturating_add_signed(by);
            self.table.select(seen.job.frame(), row);
            self.table.scroll_to_selected(visible(seen));
            return Reply::Changed;
        }
        match action {
            Action::NextSort => self.sort_by(self.table.sort.column.next(), seen),
            Action::Sort(column) => self.sort_by(column, seen),
            Action::Reverse => {
                self.table.sort.reversed = !self.table.sort.reversed;
                self.refresh(seen);
            }
            Action::Enter if self.selected(seen).is_some() => return Reply::Open(Popup::Detail),
            _ => return Reply::Ignored,
        }
        Reply::Changed
    }

    /// A cell of the body was clicked on.
    pub fn click(&mut self, row: u16, seen: &Seen<'_>) -> Reply {
        let Some(row) = row.checked_sub(seen.body.y + 1) else { return Reply::Ignored };
        self.table.select(seen.job.frame(), self.table.top + usize::from(row));
        Reply::Changed
    }

    /// Text was typed into a prompt.
    pub fn typed(&mut self, _purpose: Purpose, _text: &str, seen: &Seen<'_>) {
        self.refresh(seen);
    }

    /// Takes over how the table is to be arranged, where something is said about it.
    pub fn arrange(&mut self, layout: &Layout) {
        let table = &mut self.table;
        table.sort = layout.sort.unwrap_or(table.sort);
        table.tree = layout.tree.unwrap_or(table.tree);
        table.threads = layout.threads.unwrap_or(table.threads);
        if let Some(columns) = &layout.columns {
            table.columns.clone_from(columns);
        }
    }

    /// How the table is arranged.
    #[must_use]
    pub fn arranged(&self) -> Layout {
        let table = &self.table;
        Layout {
            sort: Some(table.sort),
            tree: Some(table.tree),
            threads: Some(table.threads),
            columns: Some(table.columns.clone()),
            ..Layout::default()
        }
    }

    /// The selected process.
    #[must_use]
    pub fn selected<'s>(&self, seen: &Seen<'s>) -> Option<&'s ProcessRates> {
        self.table.process(seen.job.frame())
    }

    fn sort_by(&mut self, column: Column, seen: &Seen<'_>) {
        if self.table.sort.column != column {
            self.table.sort = Sort { column, reversed: false };
        }
        self.refresh(seen);
    }
}

/// Rows of the table that are visible, header not counted.
fn visible(seen: &Seen<'_>) -> usize {
    usize::from(seen.body.height.saturating_sub(1))
}
