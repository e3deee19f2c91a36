//! A row of a log as it was written: what is left of a tick in a CSV file.

use std::collections::HashMap;
use std::sync::Arc;

/// A row. Columns are found by their names, so those of other versions do no harm.
#[derive(Debug, Clone, Default)]
pub struct LogRow {
    /// Place of each column.
    pub columns: Arc<HashMap<String, usize>>,
    /// Its fields.
    pub fields: Vec<String>,
}

impl LogRow {
    /// The words in a column; empty if it has no words.
    pub fn text(&self, column: &str) -> &str {
        self.columns.get(column).and_then(|place| self.fields.get(*place)).map_or("", |field| field.trim())
    }

    /// The number in a column; `None` if it was not measured.
    pub fn number(&self, column: &str) -> Option<f64> {
        self.text(column).parse::<f64>().ok().filter(|number| number.is_finite())
    }
}
