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
        if !case.computes_on_cpu() {
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
    limits: "a GPU that cannot be seen (no NVML, another vendor's) makes a GPU job look like this. Preprocessing \
        with a machine-learning library can look like it too",
    advice: advice![
        "Move the model and its inputs to the GPU with .to(\"cuda\")"
            => "the CPU computes the steps; check torch.cuda.is_available()", if with_gpu;
        Nothing "Check that the installed torch is a CUDA build"
            => "a CPU-only build runs without any warning; torch.version.cuda is empty then", if with_gpu;
        Nothing "Use a machine with a GPU, if the library can compute on one"
            => "the CPU computes the steps, and trainmon sees no GPU here (`trainmon doctor`)", if without_gpu;
        Nothing "Use a smaller model, or smaller inputs"
            => "without a GPU, only less work makes a step shorter", if without_gpu;
    ],
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
