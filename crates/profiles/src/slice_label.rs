//! What a slice of a drawing is called: the call, operator or function, with what it is within and where it is in the code.

use super::account::IdleReason;
use super::kernel_names::kernel_name;
use super::names::NameId;
use super::places::{self, shown};
use super::threads::OpenSpan;
use super::timeline::TraceTimeline;

/// What a thread does in a step, outside of all that is recorded.
pub const NO_OPERATOR: &str = "in no operator";

/// What a name is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SliceLabel {
    /// What it is.
    pub name: NameId,
    /// The operator around it.
    pub operator: Option<NameId>,
    /// The function of the user's code around it.
    pub function: Option<NameId>,
    /// It is a kernel, whose name is made readable.
    pub is_kernel: bool,
}

impl SliceLabel {
    /// A name alone.
    pub fn new(name: NameId) -> Self {
        Self { name, operator: None, function: None, is_kernel: false }
    }

    /// What a thread does, where this is its innermost span.
    pub(crate) fn of_level(level: &OpenSpan<'_>) -> Self {
        let name = match level.reason() {
            IdleReason::InputWait => level.batch.unwrap_or(level.span.name),
            IdleReason::Operator => level.operator.map_or(level.span.name, |operator| operator.name),
            _ => level.span.name,
        };
        // A wait for a batch is one, whatever makes the batch.
        let operator = if level.batch.is_some() { None } else { level.operator.map(|operator| operator.name) };
        Self { operator, function: level.function, ..Self::new(name) }
    }

    /// As a person reads it.
    pub fn text(&self, timeline: &TraceTimeline) -> String {
        let (mut name, facts) = (timeline.names.text(self.name), timeline.names.facts(self.name));
        if facts.waits_for_batch {
            // The class of the loader says no more than that.
            name = name.split_once('#').map_or(name, |(loader, _)| loader);
        } else if facts.step {
            name = NO_OPERATOR;
        }
        if self.is_kernel {
            return kernel_name(name);
        }
        let own = places::of_function(name);
        let mut text = own.as_ref().map_or_else(|| shown(name), |own| format!("{} ({})", own.function, own.at));
        if let Some(operator) = self.operator.filter(|operator| *operator != self.name) {
            text += &format!(" in {}", shown(timeline.names.text(operator)));
        }
        if let Some(place) = self.function.and_then(|function| places::of_function(timeline.names.text(function)))
            && own.is_none()
        {
            text += &format!(", {}", place.at);
        }
        text
    }
}
