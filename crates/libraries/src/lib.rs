//! Libraries that run a loop for their user: how each is recognized, what it counts, what its functions do, and what its
//! options are called.
//!
//! What belongs here: facts about libraries, with the version in which they were read. What does not: stacks, times, any
//! judgment of a run, and sentences. A program whose library is not in the table is judged by what is seen of it.

pub mod code;
mod table;

use std::fmt;

use trainmon_base::text::named_enum;

pub use code::Code;

named_enum! {
    /// What a job does.
    pub enum JobKind {
        /// Fits a model by its gradient, batch after batch.
        Training = "training",
        /// Grows trees.
        Boosting = "boosting",
        /// Fits a model to a table in memory, by an algorithm of its own.
        Fitting = "fitting",
        /// Acts in environments, and updates a policy.
        ReinforcementLearning = "reinforcement-learning",
        /// Runs a trained model: on a set of inputs, or to generate text.
        Inference = "inference",
        /// Answers requests with a model.
        Serving = "serving",
        /// Makes or transforms data.
        DataPreparation = "data-preparation",
        /// Trains again and again with other settings.
        Search = "search",
    }
}

impl JobKind {
    /// Whether a GPU can take its work over as it is: what grows trees or fits tables needs another library, or an option of it.
    pub fn moves_to_gpu(self) -> bool {
        matches!(self, Self::Training | Self::Inference | Self::Serving)
    }

    /// Whether it calls other work again and again, and what that is says more: trials of a search, requests to a server.
    pub fn is_around(self) -> bool {
        matches!(self, Self::Search | Self::Serving)
    }

    /// Whether a model, of whatever kind, learns.
    pub fn learns(self) -> bool {
        matches!(self, Self::Training | Self::Boosting | Self::Fitting | Self::ReinforcementLearning)
    }
}

named_enum! {
    /// What a loop counts.
    #[derive(Default)]
    pub enum StepUnit {
        /// Steps of an optimizer, or turns of a loop.
        #[default]
        Step = "steps",
        /// Trees of a boosted or random forest.
        Tree = "trees",
        /// Steps of environments, those of a vector counted one by one.
        EnvironmentStep = "environment steps",
        /// Rows of a table or examples of a data set.
        Row = "rows",
        /// Passes over the data.
        Iteration = "iterations",
        /// Trials of a search.
        Trial = "trials",
        /// Batches of texts, words or sentences.
        Batch = "batches",
        /// Tokens of generated text, those of all texts of a batch.
        Token = "tokens",
        /// Requests to a server.
        Request = "requests",
    }
}

impl StepUnit {
    /// One of them: `step`, `tree`.
    pub fn one(self) -> &'static str {
        match self {
            Self::Batch => "batch",
            other => other.word().trim_end_matches('s'),
        }
    }

    /// What a time is of: `a step`, `an iteration`.
    pub fn each(self) -> String {
        let article = if matches!(self, Self::EnvironmentStep | Self::Iteration) { "an" } else { "a" };
        format!("{article} {}", self.one())
    }

    /// How often, as the heading of a chart: `trees/s`.
    pub fn per_s(self) -> &'static str {
        match self {
            Self::Step => "steps/s",
            Self::Tree => "trees/s",
            Self::EnvironmentStep => "environment steps/s",
            Self::Row => "rows/s",
            Self::Iteration => "iterations/s",
            Self::Trial => "trials/s",
            Self::Batch => "batches/s",
            Self::Token => "tokens/s",
            Self::Request => "requests/s",
        }
    }
}

impl fmt::Display for StepUnit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// What a function of a library does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LibraryPart {
    /// The forward pass of a model.
    Forward,
    /// The optimizer.
    Optimizer,
    /// The library's own computing: trees, a solver.
    Fit,
    /// Not an activity: what has settings of its own among the library's ways to compute.
    Computes,
    /// Makes completions or actions with the model.
    Generate,
    /// Steps or resets an environment.
    Environment,
    /// Waits for environments in other processes.
    EnvironmentWait,
    /// Waits for tasks in other processes, which need not be those of the job.
    TaskWait,
    /// Hands out samples: everything below makes them.
    Samples,
    /// Hands out batches that it makes elsewhere, or below.
    Batches,
    /// Calls a function of the user's for each row or group of a table.
    EachRow,
    /// Moves a batch to the GPU.
    Copy,
    /// Saves state.
    Checkpoint,
    /// Logs, computes metrics, calls back.
    Report,
    /// Its evaluation loop.
    Validation,
}

/// A setting that advice is about, by the name that PyTorch's DataLoader or torch gives it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobSetting {
    /// `num_workers`.
    Workers,
    /// `persistent_workers=True`.
    Persistent,
    /// `prefetch_factor`.
    Prefetch,
    /// `pin_memory=True`.
    Pin,
    /// The GPU: a whole advice.
    Device,
    /// The number of threads or processes that compute: a whole advice.
    Threads,
    /// The same where there are more threads than CPUs: a whole advice.
    FewerThreads,
    /// Another way to compute the same: a whole advice.
    Algorithm,
    /// How completions are generated: a whole advice.
    Generation,
    /// How often it validates: a whole advice.
    Validation,
    /// How often it saves: a whole advice.
    Saving,
    /// Environments in processes of their own: a whole advice.
    Environments,
    /// Whole columns instead of a function that is called for each row or group: a whole advice.
    Columns,
    /// Not a setting: all others are those of the library with this name.
    SameAs,
}

impl JobSetting {
    /// All with the name that advice uses.
    pub const NAMES: [(Self, &'static str); 4] = [
        (Self::Workers, "num_workers"),
        (Self::Persistent, "persistent_workers"),
        (Self::Prefetch, "prefetch_factor"),
        (Self::Pin, "pin_memory"),
    ];
}

/// A variable of the library's loop that counts.
#[derive(Debug, Clone, Copy)]
pub struct Counter {
    /// The function whose local variable it is.
    pub code: Code,
    /// Its name.
    pub variable: &'static str,
    /// What it counts.
    pub unit: StepUnit,
    /// A variable beside it that holds the number at which it begins anew.
    pub total: Option<&'static str>,
}

/// One library.
#[derive(Debug, Clone, Copy)]
pub struct Library {
    /// Its row, in words.
    pub name: &'static str,
    /// What its users call it, if that is another name; empty for what comes with Python and is no library.
    pub shown_as: Option<&'static str>,
    /// What a job does whose loop it runs.
    pub kind: JobKind,
    /// Functions one of which is in every stack of its loop.
    pub runs: Code,
    /// Variables that count, the best first.
    pub counters: &'static [Counter],
    /// What its functions do.
    pub parts: &'static [(LibraryPart, Code)],
    /// What a setting is called there. Empty: it has no such setting, and advice on it does not fit. A setting that is not listed has
    /// torch's name.
    pub settings: &'static [(JobSetting, &'static str)],
    /// Its documentation of these settings.
    pub page: &'static str,
}

impl Library {
    /// All of them; a later row may run inside an earlier one.
    pub const ALL: &'static [Self] = table::LIBRARIES;

    /// Its name of a setting: `None` if that is torch's, empty if it has none.
    pub fn setting(&self, wanted: JobSetting) -> Option<&'static str> {
        let own = |wanted| self.settings.iter().find(|(setting, _)| *setting == wanted).map(|(_, name)| *name);
        own(wanted).or_else(|| Self::named(own(JobSetting::SameAs)?)?.setting(wanted))
    }

    /// As its users write it; `None` for what comes with Python.
    pub fn shown(&self) -> Option<&'static str> {
        Some(self.shown_as.unwrap_or(self.name)).filter(|name| !name.is_empty())
    }

    /// The library on which it is built, if it has that one's settings.
    pub fn base(&self) -> Option<&'static Self> {
        let (_, name) = self.settings.iter().find(|(setting, _)| *setting == JobSetting::SameAs)?;
        Self::named(name)
    }

    /// Whether it is one of a library's ways to compute.
    pub fn computes(&self) -> bool {
        self.has_part(LibraryPart::Computes)
    }

    fn has_part(&self, wanted: LibraryPart) -> bool {
        self.parts.iter().any(|(part, _)| *part == wanted)
    }

    /// Whether it runs a loop, rather than a part of one.
    pub fn runs_a_loop(&self) -> bool {
        !self.runs.files.is_empty()
    }

    /// Whether batches come from it: it hands them out, or samples to a loop that another library runs.
    pub fn hands_out_batches(&self) -> bool {
        self.has_part(LibraryPart::Batches) || self.has_part(LibraryPart::Samples) && !self.runs_a_loop()
    }

    /// The library with this name.
    pub fn named(name: &str) -> Option<&'static Self> {
        Self::ALL.iter().find(|library| library.name == name)
    }

    /// The library whose loop this function runs.
    pub fn running(file: &str, function: &str) -> Option<&'static Self> {
        Self::ALL.iter().find(|library| library.runs.is_at(file, function))
    }

    /// The library from which a loop takes batches in this function.
    pub fn handing_out(file: &str, function: &str) -> Option<&'static Self> {
        let of_samples =
            || Self::of_part(LibraryPart::Samples, file, function).filter(|library| !library.runs_a_loop());
        Self::of_part(LibraryPart::Batches, file, function).or_else(of_samples)
    }

    /// The row for what a library computes in this function.
    pub fn computing(file: &str, function: &str) -> Option<&'static Self> {
        Self::of_part(LibraryPart::Computes, file, function)
    }

    fn of_part(wanted: LibraryPart, file: &str, function: &str) -> Option<&'static Self> {
        let is_at = |(part, code): &(LibraryPart, Code)| *part == wanted && code.is_at(file, function);
        Self::ALL.iter().find(|library| library.parts.iter().any(is_at))
    }

    /// What a function does, if a library in the table says so.
    pub fn part(file: &str, function: &str) -> Option<LibraryPart> {
        let parts = Self::ALL.iter().flat_map(|library| library.parts);
        let mut does = parts.filter(|(part, _)| *part != LibraryPart::Computes);
        does.find(|(_, code)| code.is_at(file, function)).map(|(part, _)| *part)
    }

    /// Whether a variable of this file's functions holds tokens, before and after some are added.
    pub fn has_tokens(file: &str, variable: &str) -> bool {
        let mut counters = Self::ALL.iter().flat_map(|library| library.counters);
        counters.any(|counter| {
            let is_in = || counter.code.files.split(", ").any(|tail| code::is_in(file, tail));
            counter.unit == StepUnit::Token && counter.variable == variable && is_in()
        })
    }

    /// The counters of the function, with their places in the table: the first one that rises counts.
    pub fn counters(file: &str, function: &str) -> impl Iterator<Item = (usize, &'static Counter)> {
        let counters = Self::ALL.iter().flat_map(|library| library.counters).enumerate();
        counters.filter(move |(_, counter)| counter.code.is_at(file, function))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_library_has_a_name_of_its_own_and_a_page() {
        for library in Library::ALL {
            let same = Library::ALL.iter().filter(|other| other.name == library.name).count();
            assert_eq!(same, 1, "{}", library.name);
            assert!(library.page.starts_with("https://"), "{}", library.name);
        }
    }

    #[test]
    fn the_library_that_people_configure_comes_after_what_it_runs_on() {
        let place = |name| Library::ALL.iter().position(|library| library.name == name);
        for names in [
            ["Accelerate", "Hugging Face Trainer"],
            ["Transformers", "Hugging Face Trainer"],
            ["Hugging Face Trainer", "TRL"],
            ["Ignite", "MONAI"],
            ["pandas", "scikit-learn"],
            ["http.server", "Flask"],
        ] {
            let [first, then] = names.map(place);
            assert!(first.is_some() && first < then, "{names:?}");
        }
    }

    #[test]
    fn libraries_on_top_of_another_have_its_settings() {
        let setting = |name: &str, setting| Library::named(name).and_then(|library| library.setting(setting));
        for name in ["Hugging Face Trainer", "TRL", "sentence-transformers"] {
            assert_eq!(setting(name, JobSetting::Workers), Some("dataloader_num_workers"), "{name}");
        }
        assert_eq!(setting("Hugging Face Trainer", JobSetting::Generation), None);
        assert!(setting("TRL", JobSetting::Generation).is_some());
        for library in Library::ALL {
            let mut same = library.settings.iter().filter(|(setting, _)| *setting == JobSetting::SameAs);
            assert!(same.all(|(_, name)| Library::named(name).is_some_and(|other| other.name != library.name)));
        }
    }

    #[test]
    fn batches_come_from_the_loader_that_a_loop_calls() {
        let name = |file, function| Library::handing_out(file, function).map(|library| library.name);
        assert_eq!(name("/v/site-packages/grain/_src/python/data_loader.py", "__next__"), Some("Grain DataLoader"));
        assert_eq!(name("/v/site-packages/nvidia/dali/plugin/base_iterator.py", "_get_outputs"), Some("DALI"));
        assert_eq!(name("/home/me/data_loader.py", "__next__"), None);
    }

    #[test]
    fn scikit_learn_fits_where_it_computes_and_not_around_what_users_wrote() {
        let part = |file: &str| Library::part(&format!("/v/site-packages/sklearn/{file}"), "fit");
        assert_eq!(part("ensemble/_forest.py"), Some(LibraryPart::Fit));
        assert_eq!(part("svm/_base.py"), Some(LibraryPart::Fit));
        assert_eq!(part("pipeline.py"), None);
        assert_eq!(part("model_selection/_search.py"), None);
    }

    #[test]
    fn a_loop_is_recognized_by_file_and_function() {
        let trainer = "/v/lib/python3.11/site-packages/transformers/trainer.py";
        let name = |file, function| Library::running(file, function).map(|library| library.name);
        assert_eq!(name(trainer, "Trainer._inner_training_loop"), Some("Hugging Face Trainer"));
        assert_eq!(name(trainer, "TrainingArguments"), None);
        assert_eq!(name("/home/me/mytransformers/trainer.py", "_inner_training_loop"), None);
        assert_eq!(name("/v/site-packages/lightgbm/engine.py", "train"), Some("LightGBM"));
    }

    #[test]
    fn what_is_counted_has_its_unit() {
        let mut counters = Library::counters("/v/site-packages/xgboost/training.py", "train");
        assert_eq!(counters.next().map(|(_, counter)| (counter.variable, counter.unit)), Some(("i", StepUnit::Tree)));
        assert_eq!(StepUnit::Tree.each(), "a tree");
        assert_eq!(StepUnit::Batch.each(), "a batch");
        assert_eq!(StepUnit::EnvironmentStep.each(), "an environment step");
    }
}
