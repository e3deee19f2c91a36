//! What a comparison says, of whatever kind the runs are: every format lays this out.

use crate::outputs::report::Section;

/// A comparison in reading order.
pub struct ComparisonPage {
    /// The names of both files.
    pub(in crate::outputs) title: String,
    /// The class that gives it its color.
    pub(in crate::outputs) accent: &'static str,
    /// What changed, in a sentence or two.
    pub(in crate::outputs) answer: String,
    /// What to know of the answer: its doubt first.
    pub(in crate::outputs) more: Vec<String>,
    /// What to bear in mind.
    pub(in crate::outputs) cautions: Vec<String>,
    /// Everything else.
    pub(in crate::outputs) sections: Vec<Section>,
}
