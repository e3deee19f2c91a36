//! The process table: order, tree, filter, search, selection, and what is asked before a process is signalled.

use super::signals;
use super::{Reply, Seen, lines};
use crate::rates::frame::ProcessRates;
use crate::sample::ProcessId;
use crate::tui::arrangement::Layout;
use crate::tui::keys::Action;
use crate::tui::popup::{Choice, Item, Menu, Popup, Prompt, Purpose};
use crate::tui::processes::{COLUMNS, Column, Placed, Sort, Table};

/// Rows above the processes: what is shown, and the headings.
pub const ABOVE: u16 = 2;

/// What the page remembers.
#[derive(Debug, Clone)]
pub struct Processes {
    /// Rows, order and selection.
    pub table: Table,
    /// Columns that are wanted, from left to right; those that fit are shown.
    pub columns: Vec<Column>,
    /// What was searched for last.
    pub search: String,
    /// Nothing was found.
    pub missed: bool,
    /// First line shown of a process in full.
    pub detail_top: usize,
    /// The selected process when a search began: it is selected again when the search is left.
    search_from: Option<ProcessId>,
}

impl Default for Processes {
    fn default() -> Self {
        Self {
            table: Table::default(),
            columns: COLUMNS.to_vec(),
            search: String::new(),
            missed: false,
            detail_top: 0,
            search_from: None,
        }
    }
}

impl Processes {
    /// Another frame is shown, or the body has another size.
    pub fn refresh(&mut self, seen: &Seen<'_>) {
        self.table.refresh(seen.job.frame(), seen.job.verdict());
        self.table.scroll_to_selected(visible(seen));
    }

    /// What a key does here.
    pub fn act(&mut self, action: Action, seen: &Seen<'_>) -> Reply {
        if let Some(by) = lines(action, u16::try_from(visible(seen)).unwrap_or(u16::MAX)) {
            self.select(self.table.selected.saturating_add_signed(by), seen);
            return Reply::Changed;
        }
        match action {
            Action::NextSort => self.sort_by(self.table.sort.column.next(), seen),
            Action::SortMenu => return Reply::Open(self.sort_menu()),
            Action::Sort(column) => self.sort_by(column, seen),
            Action::Reverse => {
                self.table.sort.reversed = !self.table.sort.reversed;
                self.refresh(seen);
            }
            Action::Tree => {
                self.table.tree = !self.table.tree;
                self.refresh(seen);
            }
            Action::Threads => {
                self.table.threads = !self.table.threads;
                self.refresh(seen);
            }
            Action::Filter => return Reply::Open(Popup::Prompt(Prompt::new(Purpose::Filter, &self.table.filter))),
            Action::SearchNext if !self.search.is_empty() => self.search_next(seen),
            Action::Search | Action::SearchNext => {
                self.search_from = self.selected(seen).map(|process| process.id);
                return Reply::Open(Popup::Prompt(Prompt::new(Purpose::Search, "")));
            }
            Action::Kill => return signals::signal(self.selected(seen), seen),
            Action::NiceLess => return signals::nice(self.selected(seen), false, seen),
            Action::NiceMore => return signals::nice(self.selected(seen), true, seen),
            Action::Enter => return self.open(seen),
            _ => return Reply::Ignored,
        }
        Reply::Changed
    }

    /// A cell of the body was clicked on: a heading sorts, a row is selected, the selected row opens.
    pub fn click(&mut self, column: u16, row: u16, seen: &Seen<'_>) -> Reply {
        let (Some(row), Some(x)) = (row.checked_sub(seen.body.y), column.checked_sub(seen.body.x)) else {
            return Reply::Ignored;
        };
        let Some(row) = row.checked_sub(ABOVE) else {
            if row + 1 == ABOVE {
                let column = self.placed(seen.body.width).at(x);
                let again = self.table.sort.column == column;
                self.sort_by(column, seen);
                self.table.sort.reversed = again && !self.table.sort.reversed;
                self.refresh(seen);
            }
            return Reply::Changed;
        };
        let row = self.table.top + usize::from(row);
        if row >= self.table.rows.len() {
            return Reply::Changed;
        }
        if row == self.table.selected {
            return self.open(seen);
        }
        self.select(row, seen);
        Reply::Changed
    }

    /// Text was typed into a prompt.
    pub fn typed(&mut self, purpose: Purpose, text: &str, seen: &Seen<'_>) {
        match purpose {
            Purpose::Filter => {
                text.clone_into(&mut self.table.filter);
                self.refresh(seen);
            }
            Purpose::Search => {
                text.clone_into(&mut self.search);
                let from = seen.job.frame().and_then(|frame| self.table.row_of(frame, self.search_from?));
                self.search_on(from.unwrap_or(0), seen);
            }
            Purpose::Pid => {}
        }
    }

    /// Goes to the next match.
    pub fn search_next(&mut self, seen: &Seen<'_>) {
        self.search_on(self.table.selected + 1, seen);
    }

    /// Takes over how the table is to be arranged, where something is said about it.
    pub fn arrange(&mut self, layout: &Layout) {
        let table = &mut self.table;
        table.sort = layout.sort.unwrap_or(table.sort);
        table.tree = layout.tree.unwrap_or(table.tree);
        table.threads = layout.threads.unwrap_or(table.threads);
        if let Some(columns) = &layout.columns {
            // The command line is always there, always last.
            self.columns = columns.iter().copied().filter(|column| *column != Column::Command).collect();
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
            columns: Some(self.columns.clone()),
            ..Layout::default()
        }
    }

    /// The selected process.
    #[must_use]
    pub fn selected<'s>(&self, seen: &Seen<'s>) -> Option<&'s ProcessRates> {
        self.table.process(seen.job.frame())
    }

    /// The columns that a table of this width has room for.
    #[must_use]
    pub fn placed(&self, width: u16) -> Placed {
        Placed::choose(&self.columns, self.table.sort.column, width)
    }

    /// Selects the first match at or below a row; that row where nothing is looked for.
    fn search_on(&mut self, from: usize, seen: &Seen<'_>) {
        let Some(frame) = seen.job.frame() else { return };
        let found = if self.search.is_empty() { Some(from) } else { self.table.find(frame, &self.search, from) };
        self.missed = found.is_none();
        if let Some(row) = found {
            self.select(row, seen);
        }
    }

    fn select(&mut self, row: usize, seen: &Seen<'_>) {
        self.table.select(seen.job.frame(), row);
        self.table.scroll_to_selected(visible(seen));
    }

    fn open(&mut self, seen: &Seen<'_>) -> Reply {
        if self.selected(seen).is_none() {
            return Reply::Changed;
        }
        self.detail_top = 0;
        Reply::Open(Popup::Detail)
    }

    fn sort_by(&mut self, column: Column, seen: &Seen<'_>) {
        if self.table.sort.column != column {
            self.table.sort = Sort { column, reversed: false };
        }
        self.refresh(seen);
    }

    fn sort_menu(&self) -> Popup {
        let items = ('a'..='p').zip(Column::ALL).map(|(key, column)| Item {
            key: Some(key),
            text: column.meaning().to_owned(),
            choice: Choice::Act(Action::Sort(column)),
        });
        let selected = Column::ALL.iter().position(|column| *column == self.table.sort.column).unwrap_or(0);
        Popup::Menu(Menu { title: "Sort by".to_owned(), items: items.collect(), selected })
    }
}

/// Rows of the table that are visible, those above the processes not counted.
fn visible(seen: &Seen<'_>) -> usize {
    usize::from(seen.body.height.saturating_sub(ABOVE))
}
