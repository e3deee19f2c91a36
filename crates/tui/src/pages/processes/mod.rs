//! The page of the job's processes: a table with an order, a tree, a filter and a search, and actions on a process.

mod columns;
mod detail;
mod order;
mod rows;
mod signals;
mod tree;
mod view;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::action::Action;
use super::{Content, Reply};
use crate::widgets::{Drawn, Hit, Menu, MenuItem, Prompt, PromptKind, Scene};
pub use columns::{COLUMNS, ProcessColumn};
pub use order::Sort;
use rows::ProcessTable;
use trainmon_rates::frame::ProcessRates;
use trainmon_sample::ProcessId;

/// State of the page.
#[derive(Debug, Clone)]
pub struct Processes {
    /// Rows, order and selection.
    pub(crate) table: ProcessTable,
    /// Wanted columns, from left to right; those that fit are shown.
    pub(crate) columns: Vec<ProcessColumn>,
    /// The last search.
    search: String,
    /// Whether the search found nothing.
    missed: bool,
    /// The selected process when a search began: it is selected again when the search is canceled.
    search_from: Option<ProcessId>,
}

impl Default for Processes {
    fn default() -> Self {
        Self {
            table: ProcessTable::default(),
            columns: COLUMNS.to_vec(),
            search: String::new(),
            missed: false,
            search_from: None,
        }
    }
}

impl Content for Processes {
    fn draw(&self, buf: &mut Buffer, area: Rect, scene: &Scene<'_>, top: usize, drawn: &mut Drawn) {
        view::draw(buf, area, self, scene, top, drawn);
    }

    fn refresh(&mut self, scene: &Scene<'_>) {
        self.table.refresh(scene.frame(), scene.verdict());
    }

    fn select_by(&mut self, rows: isize, scene: &Scene<'_>) -> bool {
        self.table.select(scene.frame(), self.table.selected.saturating_add_signed(rows));
        true
    }

    fn act(&mut self, action: Action, scene: &Scene<'_>) -> Reply {
        let table = &mut self.table;
        match action {
            Action::NextSort => table.sort = Sort { column: table.sort.column.next(), reversed: false },
            Action::SortMenu => return Reply::Menu(self.sort_menu()),
            Action::Sort(word) => match word.parse() {
                Ok(column) if column != table.sort.column => table.sort = Sort { column, reversed: false },
                _ => {}
            },
            Action::Reverse => table.sort.reversed = !table.sort.reversed,
            Action::Tree => table.tree = !table.tree,
            Action::Threads => table.threads = !table.threads,
            Action::Filter => return Reply::Prompt(Prompt::new(PromptKind::Filter, &table.filter)),
            Action::SearchNext if !self.search.is_empty() => self.search_on(self.table.selected + 1, scene),
            Action::Search | Action::SearchNext => {
                self.search_from = self.selected(scene).map(|process| process.id);
                return Reply::Prompt(Prompt::new(PromptKind::Search, ""));
            }
            Action::Kill => return signals::signal(self.selected(scene), scene).unwrap_or_else(Reply::Notice),
            Action::Enter => return self.open(scene),
            _ => return Reply::Changed,
        }
        self.refresh(scene);
        Reply::Changed
    }

    /// A click on a heading sorts; on a row, it selects; on the selected row, it opens the process.
    fn click(&mut self, hit: Hit, scene: &Scene<'_>) -> Reply {
        match hit {
            Hit::Heading(place) => {
                let column = ProcessColumn::ALL.get(place).copied().unwrap_or_default();
                let sort = self.table.sort;
                self.table.sort = Sort { column, reversed: column == sort.column && !sort.reversed };
                self.refresh(scene);
            }
            Hit::Row(row) if row == self.table.selected => return self.open(scene),
            Hit::Row(row) if row < self.table.rows.len() => self.table.select(scene.frame(), row),
            _ => {}
        }
        Reply::Changed
    }

    fn detail(&self, buf: &mut Buffer, scene: &Scene<'_>, top: usize, drawn: &mut Drawn) {
        detail::draw(buf, self, scene, top, drawn);
    }

    fn typed(&mut self, purpose: PromptKind, text: &str, scene: &Scene<'_>) {
        match purpose {
            PromptKind::Filter => {
                text.clone_into(&mut self.table.filter);
                self.refresh(scene);
            }
            PromptKind::Search => {
                text.clone_into(&mut self.search);
                let from = scene.frame().and_then(|frame| self.table.row_of(frame, self.search_from?));
                self.search_on(from.unwrap_or(0), scene);
            }
            PromptKind::Pid => {}
        }
    }
}

impl Processes {
    /// The selected process.
    fn selected<'s>(&self, scene: &Scene<'s>) -> Option<&'s ProcessRates> {
        self.table.process(scene.frame())
    }

    /// Selects the first match at or below a row; that row if the search is empty.
    fn search_on(&mut self, from: usize, scene: &Scene<'_>) {
        let Some(frame) = scene.frame() else { return };
        let found = if self.search.is_empty() { Some(from) } else { self.table.find(frame, &self.search, from) };
        self.missed = found.is_none();
        if let Some(row) = found {
            self.table.select(Some(frame), row);
        }
    }

    fn open(&self, scene: &Scene<'_>) -> Reply {
        if self.selected(scene).is_none() { Reply::Changed } else { Reply::Detail }
    }

    fn sort_menu(&self) -> Menu<Reply> {
        let item = |(key, column): (char, ProcessColumn)| MenuItem {
            key,
            text: column.spec().meaning.to_owned(),
            choice: Reply::Act(Action::Sort(column.spec().word)),
        };
        let items = ('a'..='p').zip(ProcessColumn::ALL).map(item).collect();
        Menu { title: "Sort by".to_owned(), items, selected: self.table.sort.column.place() }
    }
}
