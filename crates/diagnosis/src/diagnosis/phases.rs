//! Whether the job trains at all. If it does not, it has no bottleneck.

use trainmon_waits::Wait;
use trainmon_waits::stacks::Activity;

use super::causes::throttled::is_held_down;
use super::causes::{Cause, Judgment, Known};
use super::class::{Class, Phase};
use super::features::{Chain, Features, LoopStacks, LoopThread};
use super::requests;
use super::thresholds::*;
use trainmon_base::stats::percent;
use trainmon_libraries::JobKind;
use trainmon_waits::taxonomy::Purpose;

thresholds! {
    LONG_SILENCE = 15.0, "s", "a loop with steps of a second or less does not pause for this long";
    STEPS_LEFT_OUT = 5.0, "of the longest step", "the end of an epoch, or an evaluation, takes the time of several steps";
    VALIDATES_FOR = 8.0, "s", "two short windows: a shorter validation alternates with training, and costs the loop a part of its time";
}

/// The judgment on a job that does not train, or of which too little can be read.
pub(super) fn not_training(window: &Features, known: Known) -> Result<&LoopThread, Judgment> {
    let unknown = |why: &str| Judgment::state(Phase::Unknown, Class::Unknown, 0.0).doubt(why);
    if !window.alive {
        return Err(Judgment::state(Phase::Finished, Class::Idle, CERTAIN));
    }
    if window.stopped > LARGER_HALF {
        return Err(Judgment::state(Phase::Stopped, Class::Idle, CERTAIN));
    }
    if window.main_has_left {
        return Err(unknown("the process's first thread has ended, and trainmon does not follow the others"));
    }
    if let Some(judgment) = without_loop(window) {
        return Err(judgment);
    }
    let Some(main) = &window.main else { return Err(unknown("the training loop has not been sampled yet")) };
    if main.waits(Wait::Unknown) > LARGER_HALF {
        return Err(unknown("cannot read what the loop waits for"));
    }
    if !(window.has_library || window.gpu.is_some() || window.gpu_held || window.steps.count.is_some()) {
        return Err(unknown(NO_TRAINING));
    }
    if only_others_compute(window) {
        return Err(unknown(&format!("{ONLY_CHILDREN}{}", limit_of_others(window))));
    }
    if let Some((share, sure)) = requests::waits(window, known.has_trained) {
        let words = format!("waits for requests {} of the time", percent(share));
        return Err(Judgment::state(Phase::Idle, Class::Idle, sure).meaning(words));
    }
    let by_stacks = main.stacks.as_ref().and_then(|stacks| by_stacks(window, stacks, known));
    let phase = by_stacks.or_else(|| other_phase(window, main, known));
    phase.map_or(Ok(main), |(phase, sure)| Err(Judgment::state(phase, Class::Idle, sure)))
}

/// The judgment on an imported recording that shows a GPU or a host, and nothing of the loop. What the GPU does says that time is
/// lost, never why.
fn without_loop(window: &Features) -> Option<Judgment> {
    if !window.unwatched || window.main.is_some() {
        return None;
    }
    let gpu = window.gpu.as_ref();
    let busy = gpu.map(|gpu| {
        let subject = match gpu.users.len() {
            0 | 1 => "the GPU is".to_owned(),
            several => format!("the {several} GPUs are"),
        };
        format!("on average {subject} busy {} of the time, but ", percent(gpu.busy))
    });
    let busy = busy.unwrap_or_default();
    let judgment = Judgment::state(Phase::Unknown, Class::Unknown, 0.0).doubt(format!(
        "{busy}the imported files do not show what the training loop does: import a trace of it too, or watch it with `trainmon \
         record --pid PID -o run.tmz`"
    ));
    match gpu {
        Some(gpu) if is_held_down(gpu) => {
            Some(judgment.other(Cause::Throttled, PERHAPS, "the GPU is throttled while it works"))
        }
        _ => Some(judgment),
    }
}

const NO_TRAINING: &str = "this does not look like training (no machine-learning library, no workers, no GPU in use)";
const ONLY_CHILDREN: &str = "this does not look like training: child processes do most of the computing, and there is no \
                             machine-learning library and no GPU in use";

/// The job shows no sign of machine learning, and its children do most of its computing: a pool that renders, converts or
/// simulates.
fn only_others_compute(window: &Features) -> bool {
    let is_known = window.learns || window.does.kind.is_some();
    let learns = is_known || window.gpu.is_some() || window.gpu_held || window.steps.count.is_some();
    let pool = window.workers.as_ref().is_some_and(|workers| workers.unnamed);
    let own = window.main.as_ref().and_then(|main| main.cpu_pct).zip(window.cpu.job);
    !learns && pool && own.is_some_and(|(own, all)| own / 100.0 < LARGER_HALF.value * all)
}

/// What limits such children, as the end of a sentence; empty if that is not clear.
fn limit_of_others(window: &Features) -> &'static str {
    let cpu = &window.cpu;
    let full = cpu.full.is_some_and(|full| full >= CORES_FULL) && cpu.job.unwrap_or(0.0) > cpu.others.unwrap_or(0.0);
    let enough = window.workers.as_ref().is_some_and(|workers| workers.count as f64 >= cpu.usable());
    if full && enough { "; they fill the CPUs it may use" } else { "" }
}

/// A validation that may end at any moment: so far it is too short to be a phase.
pub(super) fn validates_briefly(known: Known) -> bool {
    known.validated_s > 0.0 && known.validated_s < VALIDATES_FOR.value
}

/// The phase that the stacks show, and the confidence in it: importing, compiling, validating.
fn by_stacks(window: &Features, stacks: &LoopStacks, known: Known) -> Option<(Phase, Threshold)> {
    let most = |activity: Activity| stacks.shares.get(activity) >= PHASE;
    // Metrics at each step may be under no_grad too: a validation goes on for seconds, and nothing else happens meanwhile.
    let validates = || stacks.validating(known.has_trained) >= ALL_ALONG && !stacks.trains_meanwhile();
    let lasts = known.validated_s >= VALIDATES_FOR.value;
    match () {
        () if most(Activity::Import) && window.workers.is_none() => Some((Phase::Init, SURE)),
        () if most(Activity::Compile) => Some((Phase::Compile, SURE)),
        () if lasts && validates() => Some((Phase::Validation, SURE)),
        // A job that has shown no training so far may train in a second.
        () if !known.has_trained && validates() => Some((Phase::Validation, EVEN_CHANCE)),
        () => None,
    }
}

/// Whether something was seen that only a training loop does.
pub(super) fn is_proven(window: &Features, known: Known) -> bool {
    let stacks = window.loop_stacks();
    let model = stacks.is_some_and(|stacks| {
        let acts = stacks.shares.get(Activity::Environment);
        stacks.trains()
            || stacks.fits_aside()
            || acts + stacks.shares.of_model() - stacks.shares.get(Activity::Copy) >= HARDLY
    });
    let device = window.gpu.as_ref().is_some_and(|gpu| gpu.job_busy >= DEVICE_UNUSED);
    known.has_stepped
        || window.is_stepping()
        || window.workers.is_some()
        || device
        || window.communicates
        || model
        || window.does.kind == Some(JobKind::Serving)
        || window.does.kind == Some(JobKind::DataPreparation) && !may_prepare_training(window)
        || waits_in_turn(window)
}

/// A young process that prepares data and has a library for training loaded may train next.
fn may_prepare_training(window: &Features) -> bool {
    let young = window.age_s.is_some_and(|age| age < STARTING);
    window.does.kind == Some(JobKind::DataPreparation) && window.learns && young
}

/// Known processes end most of the loop's waits, and it continues after each: a loop, however little it computes itself. A rank
/// waits for the others in a collective, so they must have been seen computing.
fn waits_in_turn(window: &Features) -> bool {
    let setting_up = window.age_s.is_none_or(|age| age < STARTING) && window.is_growing();
    let works = window.chain.as_ref().is_some_and(|chain| chain.share(Purpose::Process) >= LARGER_HALF);
    goes_on(window).is_some() && waits_for_somebody(window) && !setting_up && (works || !window.communicates)
}

/// The chain of a loop that continues after its waits again and again.
fn goes_on(window: &Features) -> Option<&Chain> {
    window.chain.as_ref().filter(|chain| chain.renewed >= ALL_ALONG)
}

/// Whether most of the loop's time ends at something known.
fn waits_for_somebody(window: &Features) -> bool {
    let parts = || window.waits_elsewhere().filter(|part| *part != Purpose::Sleep);
    let known = |chain: &Chain| parts().map(|part| chain.share(part)).sum::<f64>();
    window.chain.as_ref().is_some_and(|chain| known(chain) >= LARGER_HALF)
}

/// The confidence that ranks wait for one that never arrives: they take no steps and only wait, on the CPU or in a kernel at low
/// power.
fn stands_in_collective(window: &Features, main: &LoopThread, known: Known) -> Option<Threshold> {
    let several = window.ranks > 1 || window.communicates || !window.ranks_gone.is_empty();
    let stepping = window.is_stepping();
    let in_kernel = window.gpu.as_ref().is_some_and(|gpu| gpu.job_busy >= ALWAYS_BUSY && gpu.low_power());
    // A GPU that draws much power computes, perhaps in a validation without counted steps.
    let computes = window.gpu.as_ref().is_some_and(|gpu| gpu.job_busy >= LOST_WAIT && !gpu.low_power());
    let waits = main.shares.device_sync + main.shares.other >= ALL_ALONG;
    if !several || stepping || computes || !(waits || in_kernel) {
        return None;
    }
    if !window.ranks_gone.is_empty() {
        return Some(LIKELY);
    }
    let long = LONG_SILENCE.value.max(STEPS_LEFT_OUT.value * known.longest_step_s);
    known.since_step_s.is_some_and(|since| since >= long).then_some(LIKELY)
}

/// The phase that the counters show, and the confidence in it.
fn other_phase(window: &Features, main: &LoopThread, known: Known) -> Option<(Phase, Threshold)> {
    let stepping = window.is_stepping();
    let unused = window.gpu.as_ref().map(|gpu| gpu.job_busy < DEVICE_UNUSED);
    let old = window.age_s.is_some_and(|age| age > STARTING);
    let young = window.age_s.is_some_and(|age| age < STARTING);
    let fed = window.workers.as_ref().is_some_and(|workers| workers.busy + workers.io_wait > LOST_WAIT)
        && main.shares.input_wait > LARGER_HALF;
    // Another tool's record of a loop that waits does not show whether the job computes elsewhere.
    let seen = !window.profiled || window.cpu.job.is_some();
    let quiet =
        seen && window.cpu.job.unwrap_or(0.0) * 100.0 < INACTIVE && main.running < HARDLY && unused != Some(false);
    let collective = main.share(Activity::Collective) >= PHASE;
    let waits_in_turn = waits_in_turn(window);
    if let Some(sure) = stands_in_collective(window, main, known) {
        return Some((Phase::Hung, sure));
    }
    if quiet && !stepping && !fed && (collective || !waits_in_turn) {
        // Nothing that the loop waits for was found, so nothing moves; or it waits in a collective that other ranks never enter.
        let still = window
            .chain
            .as_ref()
            .is_some_and(|chain| chain.share(Purpose::Unknown) + chain.share(Purpose::Sleep) >= ALL_ALONG);
        let phase = match () {
            () if collective || still && known.has_stepped => Phase::Hung,
            () if old || known.has_stepped || still => Phase::Idle,
            () => Phase::Init,
        };
        // A loop that goes on after each wait may be training on data that is slow to come, or retrying in the middle of a step.
        let long_wait = phase != Phase::Hung && (waits_for_somebody(window) || goes_on(window).is_some());
        return Some((phase, if long_wait { EVEN_CHANCE } else { SURE }));
    }
    if known.has_stepped || stepping {
        return None;
    }
    // Busy, but not with what a training loop does: imports, data set set-up, compilation, the first samples. Without workers, a
    // wait for a disk is a wait for data. A working model proves a loop.
    let by_library = window.does.library.is_some() && !may_prepare_training(window);
    let trains = by_library || main.stacks.as_ref().is_some_and(|stacks| stacks.trains() || stacks.has_work_done());
    let told = main.stacks.is_some() || window.loads_by_reads();
    let loads = !told && main.shares.input_wait - main.disk() >= HARDLY;
    // Imports read files too, but memory grows with them.
    let reads = main.reading >= LARGER_HALF && !(young && window.is_growing());
    if window.workers.is_none() && !trains && !waits_in_turn {
        match unused {
            // Samples that are made or read while the GPU rests all along are the first ones.
            Some(true) => return Some((Phase::Init, LIKELY)),
            None if young && !loads && !reads && !window.goes_round() => return Some((Phase::Init, LIKELY)),
            _ => {}
        }
    }
    // No index was handed out in the whole window: this is the first batch, or a very long step.
    if fed && window.steps.count == Some(0) && unused != Some(false) {
        return Some((Phase::Init, EVEN_CHANCE));
    }
    // Workers are starting: the loop waits for its first batches.
    let starting = window.workers.as_ref().is_some_and(|workers| workers.new > 0);
    starting.then_some((Phase::Init, LIKELY))
}
