//! Two traces side by side: how long a step takes, what each part of it contributes to the change, and which kernels, operators,
//! calls and copies changed most.

mod answer;
mod cautions;
mod json;
mod tables;

use super::{ComparisonPage, StepResult, accent, reaches, result_of, title};
use crate::diagnosis::Verdict;
use crate::history::step_series::{NoSteps, StepChange};
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
    steps: Result<StepChange, NoSteps>,
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
        let steps = StepChange::of_profiles([of_before, of_after]);
        Self { before, after, limit, steps, change }
    }

    /// Whether the second trace is slower by the limit; `None` where that is not certain.
    ///
    /// # Errors
    /// Why the traces cannot be compared, in one line.
    pub fn is_slower_by(&self, limit: f64) -> Result<Option<bool>, String> {
        self.steps.map(|change| reaches(change, limit)).map_err(|why| self.unknown(why))
    }

    fn result(&self) -> StepResult {
        self.steps.map_or(StepResult::Unknown, |change| result_of(change, self.limit))
    }

    fn sides(&self) -> [&ComparedTrace<'t>; 2] {
        [&self.before, &self.after]
    }

    /// What changed, and how certain that is.
    pub fn summary(&self) -> String {
        [self.answer(), self.doubt().unwrap_or_default()].join(" ").trim_end().to_owned()
    }

    /// All that it says, for a format to lay out.
    pub fn page(&self) -> ComparisonPage {
        ComparisonPage {
            title: title(&self.before.name, &self.after.name),
            accent: accent(Some(self.after.verdict)),
            answer: self.answer(),
            more: self.doubt().into_iter().collect(),
            cautions: self.cautions(),
            sections: self.sections(),
        }
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
