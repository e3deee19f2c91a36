//! The model itself runs on the CPU.

use super::*;

thresholds! {
    ONE_CPU = 0.70, "cores", "a single busy thread";
    SEVERAL_CPUS = 1.5, "cores", "more than one thread can use plus what runtime and queue threads add";
}

const BY_CORES: ConfidenceRamp = ConfidenceRamp { least: 0.60, most: 0.90, from: ONE_CPU, to: SEVERAL_CPUS };

pub(super) const CAUSE: CauseSpec = CauseSpec {
    headline: "the model trains on the CPU",
    brief: "the model trains on the CPU",
    meaning: "the model itself runs on the CPU, and no GPU is in use",
    rule: &[
        "the job uses no GPU",
        "the loop works on the host at least `busy` of the time",
        "it steps, has workers, or computes on at least `compute_threads`",
        "less certain if one thread computes for longer than `goes_round`, reads nothing, and its memory does not \
         grow",
    ],
    judge: |case| {
        // A compiled step hides what it does: it may be loading.
        if !case.computes_on_cpu() || case.main.stacks.as_ref().is_some_and(LoopStacks::is_compiled) {
            return None;
        }
        if may_be_set_up(case) {
            return case.window.goes_round().then(|| Judgment::new(Cause::CpuTraining, EVEN_CHANCE));
        }
        let judgment = Judgment::new(Cause::CpuTraining, BY_CORES.at(case.main.cores()));
        let words = "the machine has a GPU that the job does not use";
        Some(judgment.less_sure_if(case.window.gpu_seen, INFERRED, words))
    },
    signals: &[MAIN_TIME, STEPS, CPUS, DEVICE],
    source: "torch's CPU kernels share their work among threads; a single thread cannot use more than one CPU",
    limits: "a GPU that cannot be seen (no driver in reach) makes a GPU job look like this. Preprocessing \
        with a machine-learning library can look like it too",
    advice: advice![
        "Validate less often" => "validation takes a good part of the loop's time", if validates, of Validation, gains without_validation;
        "Validate less often, or on part of the set"
            => "validation takes a good part of the loop's time", if validates_by_its_own_code, gains without_validation;
        "Move the model and its inputs to the GPU with .to(\"cuda\")"
            => "the CPU computes the steps; check torch.cuda.is_available()", if moves_to_gpu;
        "Train on the GPU" => "the CPU computes, and this machine has a GPU", if with_gpu, of Device;
        Nothing "Check that the installed torch is a CUDA build"
            => "a CPU-only build runs without any warning; torch.version.cuda is empty then", if moves_to_gpu;
        "Generate faster" => "generating takes most of the time", if generates, of Generation, gains without_generation;
        "Step environments in processes" => "their steps take most of the time, one after the other", if steps_environments, of Environments, gains environments_in_processes;
        "Run callbacks, metrics and logs only every N steps"
            => "they take a good part of each step", if reports_beside_its_model, gains without_reports;
        "Make the loop's own work cheaper, or do it ahead in another process"
            => "it takes about as much of each step as the model", if works_beside_more_than_reports, gains without_own_work;
        Nothing "Use another algorithm" => "this one computes nearly all of the time", of Algorithm;
        Nothing "Use fewer threads"
            => "as many threads as CPUs compute and leave CPUs free: they wait for each other", if threads_leave_cpus_free, of FewerThreads;
        Nothing "Use fewer threads for trees as small as these"
            => "each tree takes so little time that threads cost more than they share: measure with one", if shares_small_trees, of FewerThreads;
        "Use all CPUs" => "the job leaves CPUs free", if leaves_cpus_free, of Threads, gains on_all_cpus;
        Nothing "Look for an option of the library that sets its threads or processes"
            => "the job leaves CPUs free", if may_use_more_cpus;
        Nothing "Use a machine with more CPUs, or compute less"
            => "the job uses most of these, and no GPU takes this work over as it is", if fills_cpus_for_good;
        Nothing "Use a machine with a GPU, if the library can compute on one"
            => "the CPU computes the steps, and trainmon sees no GPU here (`trainmon doctor`)", if lacks_gpu;
        Nothing "Use a smaller model, or smaller inputs"
            => "without a GPU, only less work makes a step shorter", if lacks_gpu;
    ],
    special_case,
    place: CulpritPlace::Loop,
    bound: |_, _| None,
    wastes_cpu: true,
    ..CauseSpec::in_class(Class::Cpu)
};

/// One busy thread, and no sign of a training loop: no steps, no workers, no model in the stacks.
pub(super) fn may_be_set_up(case: &RuleInput<'_>) -> bool {
    let stacks = case.main.stacks.as_ref();
    let model = stacks.map_or(0.0, |stacks| stacks.shares.of_model());
    model < LOST_WAIT
        && !stacks.is_some_and(LoopStacks::trains)
        && !case.known.has_stepped
        && case.window.workers.is_none()
        && case.main.cores() < COMPUTE_THREADS
}

/// The step is one compiled call: its data set and its model are both inside.
pub(in crate::diagnosis) const A_COMPILED_STEP: CauseSpec = CauseSpec {
    advice: advice![
        Nothing "Map and prefetch in parallel: num_parallel_calls=tf.data.AUTOTUNE, prefetch(tf.data.AUTOTUNE)"
            => "if the data set is the slow part: a loop over it that does nothing shows how fast it is";
    ],
    special_case: |_| None,
    ..CAUSE
};

/// A library grows trees.
const TREES: CauseSpec = CauseSpec {
    headline: "the trees grow on the CPU",
    brief: "the trees grow on the CPU",
    meaning: "the trees grow on the CPU, and no GPU is in use",
    special_case: |_| None,
    ..CAUSE
};

/// A library fits a model to a table.
const A_TABLE: CauseSpec = CauseSpec {
    headline: "the model is fitted on the CPU",
    brief: "the model is fitted on the CPU",
    meaning: "the library computes on the CPU",
    special_case: |_| None,
    ..CAUSE
};

/// A policy acts and learns.
const A_POLICY: CauseSpec = CauseSpec {
    headline: "the policy runs on the CPU",
    brief: "the policy runs on the CPU",
    meaning: "the policy itself runs on the CPU, and no GPU is in use",
    special_case: |_| None,
    ..CAUSE
};

/// A trained model predicts or generates.
const A_TRAINED_MODEL: CauseSpec = CauseSpec {
    headline: "the model runs on the CPU",
    brief: "the model runs on the CPU",
    special_case: |_| None,
    ..CAUSE
};

fn special_case(window: &Features) -> Option<&'static CauseSpec> {
    match window.does.kind? {
        JobKind::Boosting => Some(&TREES),
        JobKind::Fitting => Some(&A_TABLE),
        JobKind::ReinforcementLearning => Some(&A_POLICY),
        JobKind::Inference | JobKind::Serving => Some(&A_TRAINED_MODEL),
        JobKind::Training | JobKind::DataPreparation | JobKind::Search => None,
    }
}
