//! Other processes use the CPUs that the job needs.

use super::*;

pub(super) const CAUSE: CauseSpec = CauseSpec {
    headline: "other processes use the CPUs",
    brief: "other processes use the CPUs",
    meaning: "other processes use the CPUs that the job needs",
    rule: &[
        SHORT_OF_CPU,
        "the job's threads queue for a CPU at least `run_delay` of the time they could run",
        "other processes use at least `neighbour`, and at least `of_the_job`",
        "queueing is the larger part of the wait. If the workers' own time per batch would leave more than \
         `larger_half` of it, or the loop queues for less than that share of the time it could run, this is \
         another finding and not the cause",
    ],
    judge: |case| match starvation::queueing(case).filter(|queueing| queueing.behind_others) {
        Some(queueing) => Some(without_them(Judgment::new(Cause::NoisyNeighbour, queueing.confidence), case)),
        None if starvation::others_hold(&case.window.cpu) => starvation::queues_alone(case, Cause::NoisyNeighbour),
        None => None,
    },
    signals: &[CPUS, WORKER_TIME, MAIN_TIME],
    source: "the time on a run queue while the CPUs work for other processes; processes that only take what the \
        job leaves free make nothing queue",
    limits: "processes that the job started and disowned count as other processes; so do other containers on the \
        machine, whose names may be hidden. A hypervisor that takes CPU time away (steal) is another finding",
    advice: advice![
        "Move the other processes to other CPUs, or stop them"
            => "they use the CPUs that the job waits for";
        "Reserve CPUs for the job"
            => "a cpuset, Slurm --exclusive or a Kubernetes pod of class Guaranteed keeps other processes out";
    ],
    bound: |_, window| starvation::without_queueing(window),
    sharpen,
    culprits: &[culprits::cpu_users],
    ..CauseSpec::in_class(Class::Cpu)
};

/// Names the processes.
fn sharpen(first: &mut Advice, window: &Features) {
    if let Some((who, several)) = culprits::cpu_users_in_words(window) {
        first.title = format!("Move {who} to other CPUs, or stop {}", if several { "them" } else { "it" });
    }
}

/// Adds what would still hold the loop back without the other processes: the workers' own time for a batch, without their queueing,
/// may be longer than the loop's step. If that is the larger part of the wait, it becomes the cause, and the processes a finding.
fn without_them(judgment: Judgment, case: &RuleInput<'_>) -> Judgment {
    let (Some(fed), Some(_)) = (Loop::from_window(case.window), case.slow_workers()) else { return judgment };
    let fed = fed.undisturbed(case.window);
    let step_s = fed.step_with(fed.workers);
    let left_s = step_s - fed.floor_s();
    if left_s < LOST_WAIT.value * step_s {
        return judgment;
    }
    let sure = rule_input::LOST.at(left_s / step_s.max(f64::MIN_POSITIVE));
    let undisturbed = RuleInput { sure, undisturbed: true, known: Known::default(), ..case.clone() };
    let of_loader = Cause::ALL.iter().filter(|cause| cause.spec().class == Class::DataLoader);
    let left = of_loader.into_iter().find_map(|cause| cause.judge(&undisturbed)).unwrap_or_default();
    // The larger part of the wait is what to change first.
    if left_s > LARGER_HALF.value * (fed.step_s - fed.floor_s()) && left.cause.is_some() {
        let words = "other processes use CPUs too: queueing behind them is the smaller part of the wait";
        let left = Judgment { confidence: left.confidence * INFERRED.value, ..left };
        return left.beside(Cause::NoisyNeighbour, judgment.confidence * GUESSED.value, words);
    }
    let confidence = (left.confidence * INFERRED.value).min(judgment.confidence);
    let cause = left.cause.unwrap_or(Cause::TooFewWorkers);
    let words = format!("without the other processes, the loop would still wait: {}", cause.spec().headline);
    judgment.beside(cause, confidence, words)
}
