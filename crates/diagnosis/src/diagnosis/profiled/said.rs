//! What a verdict says, the parts that its sentences are made of, and all advice that they end with.

use super::super::culprits::{Culprit, CulpritKind, ShareOf};
use super::super::parts::Advice;
use super::NAMED_LOSS;
use trainmon_base::stats::{percent, round};
use trainmon_base::text::is_one_of;
use trainmon_profiles::account::{IdleReason, IdleRow, ProfileAccount, ProfileSource};
use trainmon_waits::taxonomy::Purpose;

/// What a verdict says.
#[derive(Debug, Default)]
pub(super) struct Words {
    pub summary: String,
    pub advice: Vec<Advice>,
    pub culprits: Vec<Culprit>,
}

impl Words {
    pub fn new(summary: String, advice: Vec<Advice>) -> Self {
        Self { summary, advice, culprits: Vec::new() }
    }

    pub fn blaming(self, culprits: impl IntoIterator<Item = Culprit>) -> Self {
        Self { culprits: culprits.into_iter().collect(), ..self }
    }
}

/// What to do, and why.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fix {
    title: &'static str,
    why: &'static str,
}

impl Fix {
    /// As advice.
    pub fn plain(self) -> Advice {
        advice(self.title, self.why, None)
    }

    /// Whether it is to compile the model.
    pub fn is_compilation(self) -> bool {
        self.title.contains("torch.compile")
    }

    /// As advice with what it gains at most.
    pub fn gaining(self, gain: f64) -> Advice {
        advice(self.title, self.why, Some(gain))
    }
}

/// A table of [`Fix`]es, a row each: its name, what to do, and why.
macro_rules! fixes {
    ($($NAME:ident: $title:literal, $why:literal;)*) => {
        $(pub(super) const $NAME: Fix = Fix { title: $title, why: $why };)*
    };
}

fixes! {
    RAISE_BATCH_TO_FILL: "Raise the batch size", "kernels with fewer blocks than the GPU has multiprocessors leave some of them idle";
    FUSE_TO_FILL: "Fuse small kernels with torch.compile", "one kernel then does the work of several";
    FUSE_ELEMENTWISE: "Fuse elementwise operators with torch.compile", "the data is then read and written once instead of once per operator";
    USE_BF16: "Use bf16", "half of the bytes have to be moved";
    USE_TENSOR_CORES: "Use bf16 autocast, or torch.set_float32_matmul_precision(\"high\")", "tensor cores do the matrix products";
    FUSE_KERNELS: "Fuse small kernels with torch.compile", "the GPU then moves less data between kernels";
    WORKERS_AHEAD: "Make batches in workers: num_workers=4, persistent_workers=True", "workers prepare the next batches while the GPU computes";
    WORKERS: "Make batches in workers: num_workers=4, persistent_workers=True", "they are then ready when the loop needs them";
    TRANSFORM_ON_GPU: "Move the costly transforms to the GPU", "the loop then has less to do for each batch";
    SEE_WORKERS: "See what the workers do: trainmon diagnose --pid PID while the job runs", "whether they lack CPUs, wait for the disk, or decode";
    MORE_WORKERS: "Raise num_workers while CPUs are free", "more batches are then made at the same time";
    OVERLAP_COLLECTIVES: "Overlap the collectives with computation", "DDP does with gradient_as_bucket_view=True and smaller bucket_cap_mb, FSDP with forward_prefetch=True";
    COMPARE_RANKS: "Compare the ranks: trainmon diagnose rank*.json", "a collective also waits for the last rank to enter: the traces of all ranks tell the two apart";
    EQUAL_BATCHES: "Give all ranks batches of equal cost in each step", "each rank is late now and then, so it is the work of a step that differs, not one rank";
    COMMUNICATE_LESS: "Communicate less: larger batches per rank, no_sync() while gradients accumulate", "the same exchange then serves more work";
    READ_LATER: "Copy results with non_blocking=True into pinned memory, and read them a step later", "a copy to pageable memory blocks the thread that would give the GPU its next work";
    PIN_TO_LAUNCH: "Pin the memory: pin_memory=True, then non_blocking=True", "a copy from pageable memory blocks the thread that would give the GPU its next work";
    COPY_ONCE: "Copy once instead of many small times", "each copy that blocks costs a wait, however small it is";
    PIN: "Pin the memory: pin_memory=True, then non_blocking=True", "pinned memory is copied at the link's full rate, while kernels run";
    COPY_STREAM: "Copy the next batch on a separate CUDA stream", "copies from pinned memory overlap with the kernels of the step";
    CAPTURE_MORE: "Capture more of the step in CUDA graphs", "what is launched one by one still costs the host more than the GPU";
    COMPILE: "Use torch.compile(mode=\"reduce-overhead\") or CUDA graphs", "they launch many kernels at once, without Python between them";
    FUSE_OPTIMIZER: "Use a fused optimizer: AdamW(…, fused=True)", "one kernel replaces several for each parameter";
    RAISE_BATCH: "Raise the batch size", "fewer, longer kernels then do the same work";
    WHOLE_STEPS: "Record whole steps: the trace ends or begins within one", "what the GPU waits for then is in it";
    STACKS_OF_GAPS: "Record with torch.profiler.profile(with_stack=True)", "the trace then names the Python functions of these gaps";
    STACKS_OF_OPERATOR: "Record with torch.profiler.profile(with_stack=True)", "the trace then names the functions that run there";
    STACKS: "Record with torch.profiler.profile(with_stack=True)", "the trace then names the Python functions";
    OUT_OF_LOOP: "Take this work out of the loop: less often, in another thread, or on the GPU", "the GPU has nothing to do while the loop does it";
    LESS_WORK: "Take this work out of the loop, or make it cheaper", "no operator runs meanwhile";
    CONSTANT_SIZES: "Keep the sizes of tensors constant, or set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True", "the allocator then reuses its memory instead of asking the driver for more";
    WARM_UP: "Profile some steps later: warm up for more steps first", "first launches load code; they belong to no step";
    NO_SLEEP_ON_GPU: "Remove the sleep, or wait in another thread", "the GPU has nothing to do meanwhile";
    NO_SLEEP: "Remove the sleep, or wait in another thread", "the loop does nothing meanwhile";
    AFTER_COMPILING: "Profile some steps after compilation: torch.profiler.schedule(wait=1, warmup=2, active=3)", "code is compiled once for each set of shapes; if it never ends, TORCH_LOGS=recompiles says why";
    WHOLE_FILE: "Copy the whole file, or record again", "a GPU's events are at its end";
    FOLLOW_WAIT: "See what it waits for: trainmon diagnose --pid PID while the job runs", "a trace has only the threads that it was recorded for";
    SAVE_ASIDE: "Save less often, or in another thread: torch.distributed.checkpoint.async_save", "the loop then goes on while the state is written";
    FUSE_OPTIMIZER_ON_HOST: "Use foreach or a fused optimizer: AdamW(…, fused=True)", "few calls then update all parameters";
    RUN_GRAPHS: "Profile some steps that run the graphs", "graphs are made once, and run many times";
    LATER_STEPS: "Profile some steps after the first ones: torch.profiler.schedule(wait=1, warmup=2, active=3)", "the first steps create the GPU's context and start the profiler";
    RECORD_HOST: "Record the host as well: activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]", "the trace then shows what the host did while the GPU was idle";
    RECORD_GPU: "Record the GPU: activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]", "without its kernels, a launch looks like work";
    USE_GPU: "Move model and batches to a GPU: .to(\"cuda\")", "operators are the larger part of the loop's time";
    COMPILE_FOR_CPU: "Use torch.compile, or bf16 where the CPU has it", "fused operators read and write less memory";
    SOME_STEPS: "Profile some steps: torch.profiler.schedule(wait=1, warmup=2, active=3)", "a trace of whole steps shows where their time goes";
    READ_SELDOM: "Read the value every so many steps, not in each one", "`.item()` waits until the GPU has computed it; keep sums on the GPU and read them when they are logged";
    DECIDE_ON_GPU: "Decide on the GPU: torch.where instead of `if tensor:`", "a condition on a tensor waits until the GPU has computed it";
    SORT: "Sort, and compare each value with the next, instead of torch.unique", "the size of its result is only known on the GPU, so the host waits for it; a sort has a fixed size";
    NO_MASK: "Use torch.where or a multiplication instead of a boolean mask", "the number of selected elements is only known on the GPU, so the host waits for it; the loss functions' ignore_index needs no mask";
    OUTPUT_SIZE: "Give repeat_interleave its output_size", "without it the size of its result is read back from the GPU";
    COPY_LATER: "Copy results with non_blocking=True into pinned memory, and read them a step later", "`.cpu()` waits until the GPU has computed the result and copied it";
    COMPARE_ON_GPU: "Compare on the GPU, and read the answer at the end of an epoch", "the comparison's answer is read back from the GPU";
}

/// The command that takes another profile, and one with Python's functions.
pub(super) const AGAIN: &str = "trainmon profile PID";
pub(super) const WITH_STACKS: &str = "trainmon profile PID --stacks";

/// What replaces advice on how to record a trace where trainmon took the profile: what to do there, and why.
const OF_TAKEN: [(Fix, Fix); 15] = [
    (COMPARE_RANKS, RANKS_TAKEN),
    (WHOLE_STEPS, LONGER_TAKEN),
    (STACKS_OF_GAPS, GAPS_TAKEN),
    (STACKS_OF_OPERATOR, OPERATOR_TAKEN),
    (STACKS, STACKS_TAKEN),
    (WARM_UP, WARM_TAKEN),
    (AFTER_COMPILING, COMPILED_TAKEN),
    (WHOLE_FILE, WHOLE_TAKEN),
    (FOLLOW_WAIT, WAIT_TAKEN),
    (SEE_WORKERS, WORKERS_TAKEN),
    (RUN_GRAPHS, GRAPHS_TAKEN),
    (LATER_STEPS, LATER_TAKEN),
    (RECORD_HOST, HOST_TAKEN),
    (RECORD_GPU, GPU_TAKEN),
    (SOME_STEPS, SOME_TAKEN),
];

fixes! {
    RANKS_TAKEN: "Profile all ranks: trainmon profile PID --all-ranks", "a collective also waits for the last rank to enter: the profiles of all ranks tell the two apart";
    LONGER_TAKEN: "Record whole steps: trainmon profile PID --for 2s", "what the GPU waits for then is in it";
    GAPS_TAKEN: "Name the code: trainmon profile PID --stacks", "the profile then names the Python functions of these gaps";
    OPERATOR_TAKEN: "Name the code: trainmon profile PID --stacks", "the profile then names the functions that run there";
    STACKS_TAKEN: "Name the code: trainmon profile PID --stacks", "the profile then names the Python functions";
    WARM_TAKEN: "Profile some steps later: trainmon profile PID", "first launches load code; they belong to no step";
    COMPILED_TAKEN: "Profile some steps after compilation: trainmon profile PID", "code is compiled once for each set of shapes; if it never ends, TORCH_LOGS=recompiles says why";
    WHOLE_TAKEN: "Profile it again: trainmon profile PID", "a GPU's events are at the end";
    WAIT_TAKEN: "See what it waits for: trainmon diagnose --pid PID", "a profile has only the threads of one process";
    WORKERS_TAKEN: "See what the workers do: trainmon diagnose --pid PID", "whether they lack CPUs, wait for the disk, or decode";
    GRAPHS_TAKEN: "Profile some steps that run the graphs: trainmon profile PID", "graphs are made once, and run many times";
    LATER_TAKEN: "Profile some steps after the first ones: trainmon profile PID", "the first steps create the GPU's context and start the profiler";
    HOST_TAKEN: "Profile it again: trainmon profile PID", "the profile then shows what the host did while the GPU was idle";
    GPU_TAKEN: "Ask torch whether it can record the GPU: torch.profiler.supported_activities()", "without its kernels, a launch looks like work";
    SOME_TAKEN: "Profile some steps: trainmon profile PID --for 5s", "a profile of whole steps shows where their time goes";
}

/// The advice on a profile. Of one that trainmon took, the next one is a command away.
pub(super) fn advice_on(account: &ProfileAccount, advice: Advice) -> Advice {
    if account.is_of_file() {
        return advice;
    }
    let taken = OF_TAKEN.iter().find(|(of_file, _)| of_file.title == advice.title && of_file.why == advice.why);
    let (title, why) = taken.map_or((advice.title.as_str(), advice.why.as_str()), |(_, fix)| (fix.title, fix.why));
    Advice { title: with_pid(title, account), why: why.to_owned(), ..advice }
}

/// A command with the PID of the process that was profiled, where that is known, and the way in which it was asked.
pub(super) fn with_pid(command: &str, account: &ProfileAccount) -> String {
    let way = if account.source == ProfileSource::Injected { " --inject" } else { "" };
    let command = command.replace(AGAIN, &format!("{AGAIN}{way}"));
    account.pid.map_or(command.clone(), |pid| command.replace("PID", &pid.to_string()))
}

/// Advice with what it gains at most.
pub(super) fn advice(title: impl Into<String>, why: &str, gain: Option<f64>) -> Advice {
    let speedup_at_most = gain.map(|gain| round(gain.max(1.0), 2));
    Advice { title: title.into(), why: why.to_owned(), speedup_at_most, predicted_step_ms: None }
}

/// What tells a collective's own time from waits for a late rank; where the ranks were compared, what helps those that are late in
/// turn.
pub(super) fn of_ranks(account: &ProfileAccount) -> Option<Advice> {
    let Some(across) = &account.across_ranks else { return Some(COMPARE_RANKS.plain()) };
    let in_turn = across.skew >= NAMED_LOSS.value && across.in_turn_words().is_some();
    in_turn.then(|| EQUAL_BATCHES.plain())
}

/// A line of code to blame: `train_step (train.py:41)`.
pub(super) fn line(function: Option<&String>, at: Option<&String>, share: f64) -> Option<Culprit> {
    let at = at?;
    let name = function.map_or_else(|| at.clone(), |function| format!("{function} ({at})"));
    let share = Some(round(share, 3));
    Some(Culprit { kind: CulpritKind::Line, pid: None, name, more: 0, share, unit: Some(ShareOf::Time) })
}

/// ` (train.py:41)`.
pub(super) fn place(at: Option<&String>) -> String {
    at.map(|at| format!(" ({at})")).unwrap_or_default()
}

/// `json.dumps`, `aten::add`: what a row is of, for a sentence.
pub(super) fn named(row: &IdleRow) -> String {
    let name = match &row.function {
        Some(function) if row.reason == Some(IdleReason::Python) => function,
        _ => &row.name,
    };
    format!("`{name}`")
}

/// `, most of it in X` where X takes at least half of what is lost, else `; the largest part, 18%, in X`. Less than a tenth is not
/// worth a word.
pub(super) fn most_of(lost: f64, part: f64, what: &str) -> String {
    if part < lost / 10.0 {
        String::new()
    } else if part >= lost / 2.0 {
        format!(", most of it in {what}")
    } else {
        format!("; the largest part, {}, in {what}", percent(part))
    }
}

/// A loop that blocks in a function, and what that waits for: ` in X`.
pub(super) fn blocks_in(what: Purpose, share: &str, place: &str) -> String {
    match what {
        Purpose::Sleep => format!("sleeps {share} of the time{place}"),
        Purpose::Thread => format!("waits for another thread {share} of the time{place}"),
        Purpose::Process => format!("waits for a child process {share} of the time{place}"),
        _ => format!("waits for a socket or pipe {share} of the time{place}"),
    }
}

/// A built-in function that waits, with the function that calls it: `sleep`, called by `report`.
pub(super) fn called(row: &IdleRow) -> String {
    let mut words = row.name.split(['<', '>', '\'', ' ']);
    let built_in =
        words.find(|word| !is_one_of("built-in function method", word) && !word.is_empty()).unwrap_or_default();
    match &row.function {
        Some(function) => format!("`{built_in}`, called by `{function}`"),
        None => format!("`{built_in}`"),
    }
}
