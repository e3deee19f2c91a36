//! What kind of job it is, which library runs its loop, and which one hands out its batches: by the functions in its stacks.

use serde::{Deserialize, Serialize};

use trainmon_libraries::{JobKind, JobSetting, Library};

use super::thresholds::*;

thresholds! {
    RUNS_THE_LOOP = 0.30, "of the loop's samples", "a library that is called now and then takes less of the time";
    LEARNS_AT_ALL = 0.10, "of the loop's samples", "what a job prepares data for takes a smaller part than that, if it is in the same loop";
    HANDS_OUT = 0.03, "of the loop's samples", "a loop that hardly waits for its batches still has to take them";
}

/// What a job does, and with what.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct JobDoes {
    /// Its kind; null if nothing shows it.
    pub kind: Option<JobKind>,
    /// The library that runs its loop, as its users write it; null if that is the user's own code, or not in the table.
    pub library: Option<String>,
    /// What runs it again and again, if that has another name: a search, or a server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within: Option<String>,
    /// What computes in it, if that has settings of its own: one of the library's ways to compute, or the library that a search runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub computes: Option<String>,
    /// The library that hands out its batches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loader: Option<String>,
}

impl JobDoes {
    /// By the libraries that run the loop or hand out its batches, each with the part of the loop's samples in which `part_in` saw it,
    /// and by what the code itself does.
    pub(super) fn new(part_in: impl Fn(&str) -> f64, by_code: Option<JobKind>) -> Self {
        let trains = by_code.is_some_and(JobKind::learns);
        let all = || Library::ALL.iter().filter(|library| library.runs_a_loop());
        let learns = trains || all().any(|library| library.kind.learns() && part_in(library.name) >= LEARNS_AT_ALL);
        // A training loop that predicts, answers questions about itself or prepares data now and then stays one.
        let fits = |library: &Library| match library.kind {
            JobKind::Inference | JobKind::Serving => !trains,
            JobKind::DataPreparation => !learns && by_code.is_none(),
            _ => true,
        };
        // What is built on a library that runs the loop is in some of its functions only.
        let runs_its_base =
            |library: &Library| library.base().is_some_and(|base| part_in(base.name) >= RUNS_THE_LOOP);
        let running = |least: f64| -> Vec<&'static Library> {
            let least = |library: &Library| if runs_its_base(library) { HANDS_OUT.value } else { least };
            all().filter(|library| part_in(library.name) >= least(library) && fits(library)).collect()
        };
        let mut found = running(RUNS_THE_LOOP.value);
        // What a library does for a smaller part may still be all that the loop does with its data.
        if found.is_empty() && !trains && (learns || by_code.is_some()) {
            found = running(LEARNS_AT_ALL.value);
        }
        if found.is_empty() && by_code.is_none() {
            found = running(HANDS_OUT.value);
            found.retain(|library| library.kind.learns());
        }
        // In the order of the table: outer ones first.
        let around = found.iter().rev().find(|library| library.kind.is_around()).copied();
        let inside = found.iter().rev().find(|library| !library.kind.is_around()).copied();
        let acts = by_code == Some(JobKind::ReinforcementLearning);
        let loaders = Library::ALL.iter().filter(|library| library.hands_out_batches());
        let loader = loaders.rev().find(|library| part_in(library.name) >= HANDS_OUT);
        // A loader with workers of its own feeds a model, even if the model leaves no frames.
        let by_loader =
            loader.filter(|loader| loader.setting(JobSetting::Workers).is_some()).map(|loader| loader.kind);
        let kind = around.or(inside).map(|library| library.kind);
        let named = match (around, inside) {
            (Some(around), _) if around.kind == JobKind::Search => Some(around),
            (around, inside) => inside.or(around),
        };
        let library = named.and_then(Library::shown);
        let other = |row: Option<&'static Library>| row.map(|row| row.name).filter(|name| library != Some(*name));
        Self {
            kind: kind.filter(|kind| !(acts && *kind == JobKind::Training)).or(by_code).or(by_loader),
            library: library.map(str::to_owned),
            within: other(around).map(str::to_owned),
            computes: other(way_to_compute(&part_in, inside).or(inside)).map(str::to_owned),
            loader: loader.map(|loader| loader.name.to_owned()),
        }
    }

    /// The rows of what runs the loop, the one first whose settings count first: outside of a search there is more to share.
    fn rows(&self) -> impl Iterator<Item = &'static Library> {
        let row = |name: &Option<String>| Library::named(name.as_deref()?);
        let (library, within, computes) = (row(&self.library), row(&self.within), row(&self.computes));
        let is_search = |row: &&Library| row.kind == JobKind::Search;
        let search = within.or(library).filter(is_search);
        [search, computes, library].into_iter().flatten()
    }

    /// The row of the library that runs the loop.
    pub fn library(&self) -> Option<&'static Library> {
        self.rows().next()
    }

    /// The row of the library that hands out its batches.
    pub fn feeder(&self) -> Option<&'static Library> {
        Library::named(self.loader.as_deref()?)
    }

    /// What a setting is called there: `None` if it has torch's name, empty if it does not exist. Settings of a loader are those of the
    /// library that hands out the batches, if it has its own.
    pub fn setting(&self, wanted: JobSetting) -> Option<&'static str> {
        let is_of_loader = JobSetting::NAMES.iter().any(|(setting, _)| *setting == wanted);
        let feeder = if is_of_loader { self.feeder() } else { None };
        feeder.into_iter().chain(self.rows()).find_map(|row| row.setting(wanted))
    }
}

/// The row for most of what the library inside computes, if it has one.
fn way_to_compute(part_in: impl Fn(&str) -> f64, inside: Option<&'static Library>) -> Option<&'static Library> {
    let inside = inside?;
    let ways = Library::ALL.iter().filter(|way| way.computes() && way.shown() == inside.shown());
    let most = ways.max_by(|a, b| part_in(a.name).total_cmp(&part_in(b.name)))?;
    (part_in(most.name) >= RUNS_THE_LOOP).then_some(most)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a job does whose loop is in these libraries, for these percents of its samples.
    fn does(parts: &[(&str, u32)], by_code: Option<JobKind>) -> JobDoes {
        for (name, _) in parts {
            assert!(Library::named(name).is_some(), "{name}");
        }
        let part = |name: &str| parts.iter().find(|(known, _)| *known == name).map_or(0, |(_, part)| *part);
        JobDoes::new(|name| f64::from(part(name)) / 100.0, by_code)
    }

    fn said(does: &JobDoes) -> (Option<JobKind>, Option<&str>, Option<&str>) {
        (does.kind, does.library.as_deref(), does.within.as_deref())
    }

    #[test]
    fn a_job_that_learns_does_not_prepare_data() {
        use JobKind::*;
        assert_eq!(said(&does(&[("pandas", 90)], None)), (Some(DataPreparation), Some("pandas"), None));
        assert_eq!(said(&does(&[("pandas", 90)], Some(Training))), (Some(Training), None, None));
        assert_eq!(said(&does(&[("Polars", 60)], Some(Inference))), (Some(Inference), None, None));
        assert_eq!(said(&does(&[("pandas", 75), ("LightGBM", 20)], None)), (Some(Boosting), Some("LightGBM"), None));
        assert_eq!(
            said(&does(&[("pandas", 95), ("LightGBM", 4)], None)),
            (Some(DataPreparation), Some("pandas"), None)
        );
        assert_eq!(said(&does(&[("pandas", 40), ("datasets", 90)], None)).1, Some("datasets"));
        assert_eq!(
            said(&does(&[("Transformers", 25)], Some(Inference))),
            (Some(Inference), Some("Transformers"), None)
        );
    }

    #[test]
    fn searches_and_servers_are_around_other_work() {
        use JobKind::*;
        let search = does(&[("Optuna", 99), ("scikit-learn", 90)], None);
        assert_eq!(said(&search), (Some(Search), Some("Optuna"), None));
        assert_eq!(search.computes.as_deref(), Some("scikit-learn"));
        assert!(search.setting(JobSetting::Threads).is_some_and(|words| words.contains("trials")));
        let grid = does(
            &[("scikit-learn search", 99), ("scikit-learn", 95), ("scikit-learn support vector machines", 90)],
            None,
        );
        assert_eq!(said(&grid), (Some(Search), Some("scikit-learn"), Some("scikit-learn search")));
        assert_eq!(grid.computes.as_deref(), Some("scikit-learn support vector machines"));
        assert!(grid.setting(JobSetting::Threads).is_some_and(|words| words.contains("n_jobs")));
        assert_eq!(grid.setting(JobSetting::Device), Some(""));
        let server = does(&[("http.server", 100), ("Flask", 80), ("Transformers", 70)], Some(Inference));
        assert_eq!(said(&server), (Some(Serving), Some("Transformers"), Some("Flask")));
        assert_eq!(said(&does(&[("uvicorn", 100)], None)), (Some(Serving), Some("uvicorn"), None));
        // Metrics that a training job serves.
        assert_eq!(said(&does(&[("http.server", 100)], Some(Training))), (Some(Training), None, None));
    }

    #[test]
    fn an_estimator_has_the_settings_of_its_way_to_compute() {
        let threads = |way: &str| does(&[("scikit-learn", 99), (way, 90)], None).setting(JobSetting::Threads);
        assert_eq!(threads("scikit-learn support vector machines"), None);
        assert!(threads("scikit-learn estimators with n_jobs").is_some());
        let trainer = does(&[("Hugging Face Trainer", 99), ("TRL fine-tuning", 5)], Some(JobKind::Training));
        assert_eq!(trainer.library.as_deref(), Some("TRL"));
        assert_eq!(trainer.setting(JobSetting::Workers), Some("dataloader_num_workers"));
    }

    #[test]
    fn a_loop_that_acts_and_trains_is_reinforcement_learning() {
        let acts = Some(JobKind::ReinforcementLearning);
        assert_eq!(does(&[], acts).kind, acts);
        assert_eq!(does(&[("Lightning", 90)], acts).kind, acts);
        assert_eq!(said(&does(&[("Gymnasium", 15)], acts)), (acts, None, None));
        assert_eq!(said(&does(&[("Gymnasium", 40)], acts)), (acts, Some("Gymnasium"), None));
    }

    #[test]
    fn settings_are_those_of_the_loader_unless_the_library_has_its_own() {
        let of = |parts: &[(&str, u32)]| does(parts, Some(JobKind::Training));
        let grain = of(&[("Grain DataLoader", 40)]);
        assert_eq!(said(&grain), (Some(JobKind::Training), None, None));
        assert_eq!(grain.setting(JobSetting::Workers), Some("worker_count"));
        let torch = of(&[("PyTorch DataLoader", 40)]);
        assert_eq!(torch.setting(JobSetting::Workers), None);
        let trainer = of(&[("Hugging Face Trainer", 99), ("PyTorch DataLoader", 40), ("WebDataset", 40)]);
        assert_eq!(trainer.loader.as_deref(), Some("WebDataset"));
        assert_eq!(trainer.setting(JobSetting::Workers), Some("dataloader_num_workers"));
        assert_eq!(of(&[("DALI", 2)]).loader, None);
    }
}
