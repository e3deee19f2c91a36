//! What a verdict can say without a cause: phases in which nothing is held back, and the two classes without causes.

use super::*;

pub(super) const STATES: &[CauseSpec] = &[
    CauseSpec {
        name: "balanced",
        headline: "no resource costs more than a few percent",
        brief: "nothing costs more than a few percent",
        meaning: "nothing costs the loop more than a few percent",
        rule: &[
            "the loop loses less than `lost_wait` to batches and less than `checkpoint` to saving",
            "the device is idle less than `dry`, or the host neither works nor waits much, whatever for",
        ],
        signals: &[MAIN_WAIT, DEVICE],
        source: "a device that is idle for so little leaves 1 / (1 - idle) as the most that anything could bring",
        limits: "several small losses add up: the findings list them",
        ..CauseSpec::in_class(Class::Balanced)
    },
    CauseSpec {
        name: "unknown",
        headline: "too little could be seen",
        brief: "too little could be seen",
        meaning: "the process does not look like training, or what it waits for may not be read",
        rule: &[
            "no data workers, no library of machine learning or NumPy, no device in use; or",
            "the main thread was not seen, may not be read, or waits for something that is neither a batch nor the \
             device",
        ],
        signals: &[MAIN_WAIT, DEVICE],
        source: "a guess would cost more than an honest gap: the signals that were missing are listed",
        limits: "a loop without workers, library or device looks like any other program",
        advice: advice![
            "Run `trainmon doctor --pid PID`"
                => "it says what cannot be seen from here and the command that mends it";
        ],
        ..CauseSpec::in_class(Class::Unknown)
    },
    CauseSpec {
        name: "init",
        headline: "starting up",
        brief: "starting up: not training yet",
        meaning: "the job sets itself up: imports, data set, model, first batches",
        rule: &["nothing has stepped yet, and the process is younger than `starting`, the device unused \
                 (`device_unused`), or memory still grows by `growing`; or workers are starting, or make the first batch"],
        signals: &[STEPS, MAIN_TIME, DEVICE],
        source: "importing torch adds 200 to 500 MiB of memory in some seconds; a loop's memory stands still",
        limits: "without a GPU, a data set index that is built for minutes looks like work of the loop once the process is old",
        ..CauseSpec::in_class(Class::Idle)
    },
    CauseSpec {
        name: "compile",
        headline: "compiling the model",
        brief: "not training now",
        meaning: "torch.compile works on the first steps, or again after a change of shapes",
        rule: &["with stacks: the main thread lies in torch/_dynamo or torch/_inductor at least `phase` of its time"],
        signals: &[MAIN_STACKS],
        source: "torch.compile documentation: compilation happens at the first call, and again for new shapes",
        limits: "needs stacks: without them it looks like work of the main thread",
        advice: advice![
            "If it comes back during training: mark_dynamic, dynamic=True, or pad to few shapes (TORCH_LOGS=recompiles)"
                => "each new shape compiles again";
        ],
        ..CauseSpec::in_class(Class::Idle)
    },
    CauseSpec {
        name: "validation",
        headline: "validating",
        brief: "not training now",
        meaning: "the loop runs its validation set: no steps are taken",
        rule: &[
            "with stacks: the main thread lies at least `all_along` of its time below an evaluation loop of a framework, \
             a function under no_grad, or one of the user that is named for it and runs a model; no loop that takes steps \
             calls it",
            "meanwhile there is no backward pass, no optimizer, and no batch is taken outside of it",
        ],
        signals: &[MAIN_STACKS],
        source: "frames of Lightning's evaluation loop, the evaluate of the HF Trainer, or user functions of such names",
        limits: "needs stacks; a loop with validation inline under no name of its own counts as training",
        advice: advice![
            "Validate less often, or on a part of the set" => "the model does not learn meanwhile";
        ],
        ..CauseSpec::in_class(Class::Idle)
    },
    CauseSpec {
        name: "idle",
        headline: "alive, but not training",
        brief: "not training now",
        meaning: "the job is alive, but neither computes nor waits for data: done, hung or waiting for input",
        rule: &[
            "the job uses less than `inactive`, the device is unused (`device_unused`), and nothing steps",
            "it has stepped before, or is older than `starting`",
        ],
        signals: &[MAIN_TIME, STEPS, DEVICE],
        source: "any training loop uses more CPU time than that, if only to launch",
        limits: "hung and finished look alike from outside; stacks of the main thread say where it stands",
        ..CauseSpec::in_class(Class::Idle)
    },
    CauseSpec {
        name: "hung",
        headline: "hung: nothing moves",
        brief: "not training now",
        meaning: "the loop waits for something that does not come: nothing in its wait chain moves",
        rule: &[
            "as for idle, and it has stepped since trainmon looks; at least `all_along` of its wait leads to nobody that works",
            "or, with stacks: it stands in a collective at least `phase` of its time",
        ],
        signals: &[CHAIN, MAIN_STACKS, DEVICE],
        source: "whoever ends a wait has to run for it: where nobody in reach does, nothing will end it",
        limits: "a loop that hung before trainmon looked may as well be done: that is said as idle",
        advice: advice![
            "See where each process stands: `py-spy dump --pid PID` for it and for the other ranks"
                => "the one that stands elsewhere is the one that the others wait for";
            "Restart from the last checkpoint" => "a wait that nobody will end does not end by itself";
        ],
        ..CauseSpec::in_class(Class::Idle)
    },
    CauseSpec {
        name: "stopped",
        headline: "stopped by a signal or a debugger, or frozen",
        brief: "stopped by a signal or a debugger, or frozen",
        meaning: "the process is stopped, or its control group is frozen (`docker pause`)",
        rule: &["the process is in state T or t, or its control group or one above it is frozen"],
        signals: &["/proc/PID/stat: the state letter", "cgroup.events of v2, freezer.state of v1"],
        source: "proc(5): T is stopped by a signal, t by a tracer; cgroup-v2.rst: `frozen`",
        limits: "a debugger that stops it for a moment only is not reported",
        advice: advice![
            "Let the process go on: kill -CONT PID" => "it is stopped by a signal or a debugger";
        ],
        ..CauseSpec::in_class(Class::Idle)
    },
    CauseSpec {
        name: "finished",
        headline: "has ended",
        brief: "the target has ended",
        meaning: "the process has ended",
        rule: &["the PID is gone, or belongs to a process that started later"],
        signals: &["/proc/PID/stat: the start time"],
        source: "a PID can be given to another process; its start time cannot",
        limits: "how it ended, and its exit status, is known to its parent only",
        ..CauseSpec::in_class(Class::Idle)
    },
];
