//! Two traces side by side: how long a step takes, what each part of it contributes to the change, and which kernels, operators,
//! calls and copies changed most.

mod answer;
mod cautions;
mod json;
mod tables;

use json::TraceJson;

use super::{SideBySide, needed_s};
use crate::diagnosis::Verdict;
use crate::history::step_series::{NoSteps, StepChange};
use crate::outputs::report::Section;
use crate::profiles::account::ProfileAccount;
use crate::profiles::comparison::{Per, ProfileChange};

/// One of the two traces.
#[derive(Debug)]
pub struct ComparedTrace<'t> {
    /// Its file.
    pub name: String,
    /// The verdict on it.
    pub verdict: &'t Verdict,
    /// What ran in it.
    pub account: &'t ProfileAccount,
}

/// Both traces.
#[derive(Debug)]
pub struct TraceComparison<'t> {
    before: ComparedTrace<'t>,
    after: ComparedTrace<'t>,
    /// How much longer steps may take: 0.05 is 5%.
    limit: Option<f64>,
    /// By how much steps differ, or why that is not known.
    steps: Result<StepChange, String>,
    change: ProfileChange,
}

impl<'t> TraceComparison<'t> {
    /// Compares, with so many rows of each table at most. With a limit it is also known whether steps take longer by so much:
    /// 0.05 is 5%.
    pub fn new(before: ComparedTrace<'t>, after: ComparedTrace<'t>, limit: Option<f64>, rows: usize) -> Self {
        let accounts = [before.account, after.account];
        let change = ProfileChange::between(accounts, rows);
        let lengths_s = accounts.map(|account| lengths_s(account, change.per));
        let [of_before, of_after] = &lengths_s;
        let steps = StepChange::of_profiles([of_before, of_after]).map_err(|NoSteps(run)| {
            let name = [&before.name, &after.name].into_iter().nth(run).map_or("", String::as_str);
            format!("The traces cannot be compared: {name} covers no time.")
        });
        Self { before, after, limit, steps, change }
    }

    fn sides(&self) -> [&ComparedTrace<'t>; 2] {
        [&self.before, &self.after]
    }
}

impl SideBySide for TraceComparison<'_> {
    type Side = TraceJson;

    fn names(&self) -> [&str; 2] {
        self.sides().map(|side| side.name.as_str())
    }

    fn verdict(&self) -> Option<&Verdict> {
        Some(self.after.verdict)
    }

    fn limit(&self) -> Option<f64> {
        self.limit
    }

    fn steps(&self) -> Result<StepChange, &str> {
        self.steps.as_ref().copied().map_err(String::as_str)
    }

    fn needed_s(&self) -> Option<f64> {
        needed_s(self.steps().ok()?, self.limit)
    }

    fn answer(&self) -> String {
        answer::answer(self)
    }

    fn doubt(&self) -> Option<String> {
        answer::doubt(self)
    }

    fn cautions(&self) -> Vec<String> {
        cautions::of(self.sides(), self.change.per)
    }

    fn sections(&self) -> Vec<Section> {
        tables::sections(self)
    }

    fn sides_json(&self) -> [TraceJson; 2] {
        self.sides().map(TraceJson::new)
    }

    fn profile_change(&self) -> Option<&ProfileChange> {
        Some(&self.change)
    }
}

/// The length of each step, seconds; of the window where no steps are compared.
fn lengths_s(account: &ProfileAccount, per: Per) -> Vec<f64> {
    let lengths_ms = match per {
        Per::Step if account.step_lengths_ms.is_empty() => account.step_ms.into_iter().collect(),
        Per::Step => account.step_lengths_ms.clone(),
        Per::Window => vec![account.window_ms],
    };
    lengths_ms.into_iter().map(|ms| ms / 1000.0).collect()
}

#[cfg(test)]
#[path = "traces_tests.rs"]
mod tests;
