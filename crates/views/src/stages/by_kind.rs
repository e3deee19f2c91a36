//! The stages inside a loop that does not train by gradient on what a loader makes: environments and updates, trees, answers. Their
//! shares are those of the loop's stacks.

use super::{SHOWN, Stage, StageKind};
use trainmon_base::text::format::number;
use trainmon_diagnosis::diagnosis::Verdict;
use trainmon_libraries::{JobKind, StepUnit};
use trainmon_waits::taxonomy::Activity;

/// Names and activities of the stages, in the order in which a step passes them. What is not listed belongs to the stage without
/// activities.
type LoopParts = &'static [(&'static str, &'static [Activity])];

const INPUT: &[Activity] = &[
    Activity::Waiting,
    Activity::Receiving,
    Activity::QueueWait,
    Activity::Load,
    Activity::Decode,
    Activity::Transform,
    Activity::Collate,
    Activity::Copy,
];
const MODEL: &[Activity] = &[Activity::Forward, Activity::Generate];
const SAVING: &[Activity] = &[Activity::Checkpoint];
const LEARNING: &[Activity] =
    &[Activity::Fit, Activity::Forward, Activity::Backward, Activity::Optimizer, Activity::Generate];

fn parts(kind: JobKind) -> Option<LoopParts> {
    Some(match kind {
        JobKind::Training => return None,
        JobKind::Boosting => &[("data", INPUT), ("own code", &[]), ("trees", &[Activity::Fit])],
        JobKind::Fitting => &[("data", INPUT), ("own code", &[]), ("fit", &[Activity::Fit])],
        JobKind::ReinforcementLearning => &[
            ("environments", &[Activity::Environment]),
            ("policy", MODEL),
            ("update", &[Activity::Backward, Activity::Optimizer]),
            ("own code", &[]),
        ],
        JobKind::Inference => &[("inputs", INPUT), ("model", MODEL), ("own code", &[])],
        JobKind::Serving => &[("handlers", &[]), ("model", &[Activity::Forward, Activity::Generate, Activity::Fit])],
        JobKind::DataPreparation => &[("read", INPUT), ("functions", &[]), ("write", SAVING)],
        JobKind::Search => &[("own code", &[]), ("fit", LEARNING), ("storage", SAVING)],
    })
}

/// What comes in, if its rate is known: requests, or trials.
fn arriving(verdict: &Verdict) -> Option<Stage> {
    let unit = verdict.steps.unit;
    let per_s = if matches!(unit, StepUnit::Request | StepUnit::Trial) { verdict.steps.per_s? } else { return None };
    Some(Stage::new(StageKind::Queue, unit.word(), None, format!("{}/s", number(Some(per_s)))))
}

/// The stages of such a loop; `None` if it trains, or without stacks.
pub(super) fn stages(verdict: &Verdict) -> Option<Vec<Stage>> {
    let parts = parts(verdict.job.kind?)?;
    let activities = &verdict.main_thread.as_ref()?.activities;
    let listed = |word: &str| parts.iter().flat_map(|(_, listed)| *listed).any(|activity| activity.word() == word);
    let shares = parts.iter().map(|(name, of)| {
        let is_of = |word: &str| if of.is_empty() { !listed(word) } else { of.iter().any(|one| one.word() == word) };
        let share: f64 = activities.iter().filter(|(word, _)| is_of(word)).map(|(_, share)| share).sum();
        (*name, share)
    });
    let inside = shares.filter(|(_, share)| *share >= SHOWN);
    let inside: Vec<Stage> = inside.map(|(name, share)| Stage::new(StageKind::Loop, name, Some(share), "")).collect();
    if inside.is_empty() { None } else { Some(arriving(verdict).into_iter().chain(inside).collect()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainmon_diagnosis::diagnosis::verdict::{Class, MainThread};

    fn verdict(kind: JobKind, activities: &[(Activity, f64)]) -> Verdict {
        let activities = activities.iter().map(|(activity, share)| (activity.word().to_owned(), *share)).collect();
        let mut verdict = Verdict { class: Class::Cpu, ..Verdict::default() };
        verdict.job.kind = Some(kind);
        verdict.main_thread = Some(MainThread { activities, ..MainThread::default() });
        verdict
    }

    fn told(verdict: &Verdict) -> Option<Vec<(String, Option<f64>)>> {
        Some(stages(verdict)?.into_iter().map(|stage| (stage.name, stage.busy)).collect())
    }

    #[test]
    fn each_kind_has_its_own_stages() {
        use Activity::{Backward, Environment, Fit, Forward, Optimizer, Python, Report, Transform};
        let told = |kind, activities: &[(Activity, f64)]| told(&verdict(kind, activities));
        let is = |name: &str, share| (name.to_owned(), Some(share));
        let rl = [(Environment, 0.25), (Forward, 0.25), (Backward, 0.25), (Optimizer, 0.125), (Python, 0.125)];
        let stages = told(JobKind::ReinforcementLearning, &rl).unwrap();
        assert_eq!(
            stages,
            [is("environments", 0.25), is("policy", 0.25), is("update", 0.375), is("own code", 0.125)]
        );
        let boosting = told(JobKind::Boosting, &[(Fit, 0.75), (Python, 0.25), (Report, 0.01)]).unwrap();
        assert_eq!(boosting, [is("own code", 0.26), is("trees", 0.75)]);
        let preparation = told(JobKind::DataPreparation, &[(Transform, 0.02), (Python, 0.98)]).unwrap();
        assert_eq!(preparation, [is("functions", 0.98)]);
        assert_eq!(told(JobKind::Training, &[(Forward, 1.0)]), None);
        assert_eq!(told(JobKind::Search, &[]), None, "no stacks");
    }

    #[test]
    fn what_comes_in_has_its_rate() {
        let mut server = verdict(JobKind::Serving, &[(Activity::Forward, 0.5), (Activity::Python, 0.5)]);
        (server.steps.per_s, server.steps.unit) = (Some(15.0), StepUnit::Request);
        let first = stages(&server).unwrap().swap_remove(0);
        assert_eq!((&*first.name, first.busy, &*first.word), ("requests", None, "15/s"));
        server.steps.unit = StepUnit::Step;
        assert_eq!(stages(&server).unwrap()[0].name, "handlers");
    }
}
