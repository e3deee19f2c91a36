//! Two traces side by side: how long a step takes, what each part of it contributes to the change, and which kernels, operators,
//! calls and copies changed most.

mod answer;
mod cautions;
mod json;
mod tables;

use json::TraceJson;

use super::{AnyComparison, Compared};
use crate::report::Section;
use trainmon_diagnosis::diagnosis::Verdict;
use trainmon_diagnosis::history::step_series::{NoSteps, StepChange};
use trainmon_profiles::account::ProfileAccount;
use trainmon_profiles::comparison::{Per, ProfileChange};

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
    compared: Compared,
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
        let names = [&before, &after].map(|side| side.name.clone());
        let steps = StepChange::of_profiles([of_before, of_after]).map_err(|NoSteps(run)| {
            let name = names.get(run).map_or("", String::as_str);
            format!("The {}s cannot be compared: {name} covers no time.", before.account.noun())
        });
        Self { before, after, compared: Compared { names, limit, steps }, change }
    }

    /// What there is to say of the profiles of two runs, whose steps and verdicts are compared as a whole: the answer and its cautions,
    /// then the tables.
    pub(super) fn of_runs(&self) -> Vec<Section> {
        tables::sections_of_runs(self)
    }

    fn sides(&self) -> [&ComparedTrace<'t>; 2] {
        [&self.before, &self.after]
    }
}

impl AnyComparison for TraceComparison<'_> {
    type Side = TraceJson;

    fn compared(&self) -> &Compared {
        &self.compared
    }

    fn verdict(&self) -> Option<&Verdict> {
        Some(self.after.verdict)
    }

    fn answer(&self) -> String {
        answer::answer(self)
    }

    fn doubt(&self) -> Option<String> {
        answer::doubt(self)
    }

    fn cautions(&self) -> Vec<String> {
        cautions::listed(self.sides(), self.change.per)
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
