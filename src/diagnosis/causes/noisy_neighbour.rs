//! Other processes hold the CPUs that the job needs.

use super::*;

pub(super) const CAUSE: CauseSpec = CauseSpec {
    headline: "other processes hold the cores",
    brief: "other processes hold the CPUs",
    meaning: "other processes use the CPUs that the job needs",
    rule: &[
        SHORT_OF_CPU,
        "the job's threads queue for a CPU at least `run_delay` of their runnable time",
        "other processes use at least `neighbour`, and `of_the_job` and more",
        "the larger part of the wait is queueing: where the workers' own time for a batch would leave more than \
         `larger_half` of it, or the main thread queues less than that of its runnable time, they are a finding \
         beside another",
    ],
    judge: |case| match starvation::queueing(case).filter(|queueing| queueing.neighbours) {
        Some(queueing) => Some(without_them(Judgement::new(Cause::NoisyNeighbour, queueing.confidence), case)),
        None if starvation::others_hold(case) => starvation::queues_alone(case, Cause::NoisyNeighbour),
        None => None,
    },
    signals: &[CPUS, WORKER_TIME, MAIN_TIME],
    source: "time on a run queue while the CPUs work for others; neighbours that only take what the job leaves free \
             make nobody queue",
    limits: "processes that the job started and disowned count as others; so do other containers on the machine, \
             which may not be visible by name; a hypervisor that takes CPU time away (steal) is a finding beside \
             another",
    advice: advice![
        "Stop or move the other processes, or pin them to other CPUs" => "they hold the cores that the job waits for";
        "Reserve CPUs for the job (cpuset, Slurm --exclusive, a Kubernetes pod of class Guaranteed)"
            => "the next neighbour is then kept out as well";
    ],
    bound: |_, window| starvation::without_queueing(window),
    culprits: &[culprits::cpu_users],
    ..CauseSpec::in_class(Class::Cpu)
};

/// Adds what would still hold the loop back without the neighbors: the workers' own time for a batch, without their queueing, may
/// be longer than the loop's step. If that is the larger part of the wait, it becomes the cause and the neighbors a finding.
fn without_them(judgement: Judgement, case: &RuleInput<'_>) -> Judgement {
    let fed = Loop::of(case.window).map(|fed| fed.undisturbed(case.window));
    let Some(fed) = fed.filter(|_| case.slow_workers().is_some()) else { return judgement };
    let step_s = fed.step_with(fed.workers);
    let left_s = step_s - fed.floor_s();
    if left_s < LOST_WAIT.value * step_s {
        return judgement;
    }
    let sure = rule_input::LOST.at(left_s / step_s.max(f64::MIN_POSITIVE));
    let undisturbed = RuleInput { sure, undisturbed: true, known: Known::default(), ..case.clone() };
    let of_loader = Cause::ALL.iter().filter(|cause| cause.spec().class == Class::DataLoader);
    let left = of_loader.into_iter().find_map(|cause| cause.judge(&undisturbed)).unwrap_or_default();
    // The larger part of the wait is what to change first.
    if left_s > LARGER_HALF.value * (fed.step_s - fed.floor_s()) && left.cause.is_some() {
        let words = "other processes hold CPUs as well: the smaller part of the wait is queueing for them";
        let left = Judgement { confidence: left.confidence * INFERRED.value, ..left };
        return left.beside(Cause::NoisyNeighbour, judgement.confidence * GUESSED.value, words);
    }
    let confidence = (left.confidence * INFERRED.value).min(judgement.confidence);
    let words = "without the other processes this would still hold the loop back";
    judgement.beside(left.cause.unwrap_or(Cause::TooFewWorkers), confidence, words)
}
