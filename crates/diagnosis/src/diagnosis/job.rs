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
    /// The library that runs the other again and again: a search, or a server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within: Option<String>,
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
        let part = |least: f64| move |part: f64| part >= least;
        let running = |is_enough: &dyn Fn(f64) -> bool| -> Vec<&'static Library> {
            all().filter(|library| is_enough(part_in(library.name)) && fits(library)).collect()
        };
        let mut found = running(&part(RUNS_THE_LOOP.value));
        // What a library does for a smaller part may still be all that the loop does with its data.
        if found.is_empty() && !trains && (learns || by_code.is_some()) {
            found = running(&part(LEARNS_AT_ALL.value));
        }
        // In the order of the table: outer ones first.
        let around = found.iter().rev().find(|library| library.kind.is_around());
        let inside = found.iter().rev().find(|library| !library.kind.is_around());
        let within = around.filter(|_| inside.is_some());
        let kind = around.or(inside).map(|library| library.kind);
        let acts = by_code == Some(JobKind::ReinforcementLearning);
        let loaders = Library::ALL.iter().filter(|library| library.hands_out_batches());
        let loader = loaders.rev().find(|library| part_in(library.name) >= HANDS_OUT);
        let name = |library: &&'static Library| library.name.to_owned();
        Self {
            kind: kind.filter(|kind| !(acts && *kind == JobKind::Training)).or(by_code),
            library: inside.or(around).map(name),
            within: within.map(name),
            loader: loader.as_ref().map(name),
        }
    }

    /// The row of the library that runs the loop.
    pub fn library(&self) -> Option<&'static Library> {
        Library::named(self.library.as_deref()?)
    }

    /// The row of the library that hands out its batches.
    pub fn feeder(&self) -> Option<&'static Library> {
        Library::named(self.loader.as_deref()?)
    }

    /// What a setting is called there: `None` if it has torch's name, empty if it does not exist. Settings of a loader are those of the
    /// library that hands out the batches, unless the one that runs the loop makes the loader.
    pub fn setting(&self, wanted: JobSetting) -> Option<&'static str> {
        let of_loader = || {
            let is_of_loader = JobSetting::NAMES.iter().any(|(setting, _)| *setting == wanted);
            if is_of_loader { self.feeder()?.setting(wanted) } else { None }
        };
        self.library().and_then(|library| library.setting(wanted)).or_else(of_loader)
    }
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
        assert_eq!(said(&search), (Some(Search), Some("scikit-learn"), Some("Optuna")));
        let server = does(&[("http.server", 100), ("Flask", 80), ("Transformers", 70)], Some(Inference));
        assert_eq!(said(&server), (Some(Serving), Some("Transformers"), Some("Flask")));
        assert_eq!(said(&does(&[("uvicorn", 100)], None)), (Some(Serving), Some("uvicorn"), None));
        // Metrics that a training job serves.
        assert_eq!(said(&does(&[("http.server", 100)], Some(Training))), (Some(Training), None, None));
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
