//! What a verdict can say without a cause: the phases without training, and the two classes without causes.

use super::*;

pub(super) const STATES: &[CauseSpec] = &[
    CauseSpec {
        name: "balanced",
        headline: "nothing holds it back",
        brief: "nothing costs more than a few percent",
        meaning: "nothing costs the loop more than a few percent",
        rule: &[
            "the loop loses less than `lost_wait` to waits for data and less than `checkpoint` to saving",
            "the GPU is idle less than `dry` of the time, or the host neither works nor waits much for anything",
        ],
        signals: &[MAIN_WAIT, DEVICE],
        source: "with so little idle time of the GPU, the most that anything could gain is 1 / (1 - idle)",
        limits: "several small losses add up; they are listed as other findings",
        ..CauseSpec::in_class(Class::Balanced)
    },
    CauseSpec {
        name: "unknown",
        headline: "too little could be seen",
        brief: "too little could be seen",
        meaning: "the process does not look like training, or what it waits for cannot be read",
        rule: &[
            "no workers, no machine-learning library or NumPy, and no GPU in use",
            "or the loop was not found, cannot be read, or waits for something that is neither data nor the GPU",
        ],
        signals: &[MAIN_WAIT, DEVICE],
        source: "a guess would cost more than an honest gap, so the missing signals are listed",
        limits: "a loop without workers, library or GPU looks like any other program",
        advice: advice![
            "Run `trainmon doctor --pid PID`"
                => "it lists what cannot be read from here, and the command that fixes it";
        ],
        ..CauseSpec::in_class(Class::Unknown)
    },
    CauseSpec {
        name: "init",
        headline: "starting up",
        brief: "starting up, not training yet",
        meaning: "the job sets itself up: imports, dataset, model, first batches",
        rule: &[
            "nothing has stepped yet, and the process is younger than `starting`, or leaves the GPU unused (less \
             than `device_unused`), or its memory still grows by `growing`",
            "or workers are starting, or make the first batch",
        ],
        signals: &[STEPS, MAIN_TIME, DEVICE],
        source: "importing torch adds 200 to 500 MiB of memory in a few seconds; the memory of a running loop does \
            not grow",
        limits: "without a GPU, a dataset index that takes minutes to build looks like the loop's work once the \
            process is old",
        ..CauseSpec::in_class(Class::Idle)
    },
    CauseSpec {
        name: "compile",
        headline: "compiling the model",
        brief: "compiling the model",
        meaning: "torch.compile works on the first steps, or again after shapes changed",
        rule: &["with stacks: the loop is in torch/_dynamo or torch/_inductor at least `phase` of the time"],
        signals: &[MAIN_STACKS],
        source: "torch.compile documentation: compilation happens at the first call, and again for new shapes",
        limits: "needs stacks: without them, compiling looks like work of the loop",
        advice: advice![
            Nothing "If it comes back during training, keep shapes stable"
                => "each new shape compiles again: mark_dynamic, dynamic=True, or pad to few shapes \
                    (TORCH_LOGS=recompiles)";
        ],
        ..CauseSpec::in_class(Class::Idle)
    },
    CauseSpec {
        name: "validation",
        headline: "validating",
        brief: "validating, taking no steps",
        meaning: "the loop runs its validation set and takes no steps",
        rule: &[
            "with stacks: at least `all_along` of the time, the loop is below a framework's evaluation loop, a \
             function under no_grad, or a function of the user that is named for it and runs a model",
            "no loop that takes steps calls it",
            "meanwhile there is no backward pass and no optimizer, and no batch is taken outside of it",
        ],
        signals: &[MAIN_STACKS],
        source: "frames of Lightning's evaluation loop, the evaluate of the HF Trainer, or user functions with \
            such names",
        limits: "needs stacks. Validation inline in the loop, under no name of its own, counts as training",
        advice: advice![
            "Validate less often, or on part of the set"
                => "the model learns nothing meanwhile";
        ],
        ..CauseSpec::in_class(Class::Idle)
    },
    CauseSpec {
        name: "idle",
        headline: "alive, but not training",
        brief: "alive, but not training",
        meaning: "the job is alive, but neither computes nor waits for data: it is done, hung, or waiting for \
            input",
        rule: &[
            "the job uses less than `inactive`, the GPU is unused (less than `device_unused` of the time), and \
             nothing steps",
            "it has stepped before, or is older than `starting`",
        ],
        signals: &[MAIN_TIME, STEPS, DEVICE],
        source: "any training loop uses more CPU time than that, if only to launch kernels",
        limits: "hung and finished look the same from outside; stacks show where the loop is",
        ..CauseSpec::in_class(Class::Idle)
    },
    CauseSpec {
        name: "hung",
        headline: "hung, nothing moves",
        brief: "hung: nothing moves",
        meaning: "the loop waits for something that does not come, and nothing in its wait chain moves",
        rule: &[
            "the rules of idle hold, and the loop has stepped since trainmon attached; at least `all_along` of its \
             wait leads to nothing that works",
            "or, with stacks: it is in a collective at least `phase` of the time",
        ],
        signals: &[CHAIN, MAIN_STACKS, DEVICE],
        source: "something has to run to end a wait: if nothing within reach runs, nothing will end it",
        limits: "a loop that hung before trainmon attached may as well be done, so it is reported as idle",
        advice: advice![
            Nothing "Run `py-spy dump --pid PID` on this and every other rank"
                => "the rank that is somewhere else is the one that the others wait for";
            "Restart from the last checkpoint"
                => "nothing is left that could end this wait";
        ],
        ..CauseSpec::in_class(Class::Idle)
    },
    CauseSpec {
        name: "stopped",
        headline: "stopped or frozen",
        brief: "stopped by a signal or a debugger, or frozen",
        meaning: "the process is stopped, or its cgroup is frozen (`docker pause`)",
        rule: &["the process is in state T or t, or its cgroup or one above it is frozen"],
        signals: &["/proc/PID/stat: the state letter", "cgroup.events of v2, freezer.state of v1"],
        source: "proc(5): T is stopped by a signal, t by a tracer; cgroup-v2.rst: `frozen`",
        limits: "a debugger that stops the process only for a moment is not reported",
        advice: advice![
            "Let the process continue: kill -CONT PID"
                => "a signal or a debugger has stopped it";
        ],
        ..CauseSpec::in_class(Class::Idle)
    },
    CauseSpec {
        name: "finished",
        headline: "has ended",
        brief: "the process has ended",
        meaning: "the process has ended",
        rule: &["the PID is gone, or belongs to a process that started later"],
        signals: &["/proc/PID/stat: the start time"],
        source: "a PID can be given to another process; its start time cannot",
        limits: "only its parent knows how it ended, and its exit status",
        ..CauseSpec::in_class(Class::Idle)
    },
];
