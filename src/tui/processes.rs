//! Everything about the process table that is not drawing: its columns, its order, tree, filter and selection.

mod columns;
mod doing;
mod order;
mod table;
mod tree;

pub use columns::{COLUMNS, Column, Placed};
pub use doing::Doing;
pub use order::Sort;
pub use table::{Entry, Row, Table};
pub use tree::Branch;
