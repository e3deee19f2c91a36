//! Whether the job trains at all. Where it does not, no bottleneck is looked for.

use crate::rates::Wait;
use crate::rates::stacks::Activity;

use super::causes::{Judgement, Known};
use super::class::{Class, Phase};
use super::features::{Chain, Features, LoopStacks, LoopThread, PathPart};
use super::requests;
use super::stats::percent;
use super::thresholds::*;

thresholds! {
    LONG_SILENCE = 15.0, "s", "steps of a second and less do not stop for so long";
    STEPS_LEFT_OUT = 5.0, "of the longest step", "an epoch's end, or an evaluation, takes several steps' time";
}

/// The judgement on a job that does not train, or of which too little can be seen.
pub(super) fn not_training(window: &Features, known: Known) -> Result<&LoopThread, Judgement> {
    let unknown = |why: &str| Judgement::state(Phase::Unknown, Class::Unknown, 0.0).doubt(why);
    if !window.alive {
        return Err(Judgement::state(Phase::Finished, Class::Idle, CERTAIN));
    }
    if window.stopped > LARGER_HALF {
        return Err(Judgement::state(Phase::Stopped, Class::Idle, CERTAIN));
    }
    if window.main_has_left {
        return Err(unknown(
            "the main thread has ended while other threads of the process go on, and only it is followed",
        ));
    }
    let Some(main) = &window.main else { return Err(unknown("the main thread was not seen yet")) };
    if main.waits(Wait::Unknown) > LARGER_HALF {
        return Err(unknown("what the main thread waits for may not be read"));
    }
    if !(window.has_library || window.gpu.is_some() || window.gpu_held || window.steps.count.is_some()) {
        return Err(unknown(NO_TRAINING));
    }
    if only_others_compute(window) {
        return Err(unknown(&format!("{NO_TRAINING}{}", limit_of_others(window))));
    }
    if let Some((share, sure)) = requests::waits(window, known.has_trained) {
        let words = format!("waits for requests {} of the time", percent(share));
        return Err(Judgement::state(Phase::Idle, Class::Idle, sure).meaning(words));
    }
    let by_stacks = main.stacks.as_ref().and_then(|stacks| by_stacks(window, stacks, known));
    let phase = by_stacks.map(|phase| (phase, SURE)).or_else(|| other_phase(window, main, known));
    phase.map_or(Ok(main), |(phase, sure)| Err(Judgement::state(phase, Class::Idle, sure)))
}

const NO_TRAINING: &str =
    "it does not look like training: no machine-learning library, no data workers, no GPU in use";

/// Nothing of machine learning is seen in the job, and most of what it computes its children do: a pool that renders, converts or
/// simulates.
fn only_others_compute(window: &Features) -> bool {
    let learns = window.learns || window.gpu.is_some() || window.gpu_held || window.steps.count.is_some();
    let pool = window.workers.as_ref().is_some_and(|workers| workers.unnamed);
    let own = window.main.as_ref().and_then(|main| main.cpu_pct).zip(window.cpu.job);
    !learns && pool && own.is_some_and(|(own, all)| own / 100.0 < LARGER_HALF.value * all)
}

/// What limits such children, in words that go on with a sentence; nothing where that is not clear.
fn limit_of_others(window: &Features) -> &'static str {
    let cpu = &window.cpu;
    let full = cpu.full.is_some_and(|full| full >= CORES_FULL) && cpu.job.unwrap_or(0.0) > cpu.others.unwrap_or(0.0);
    let enough = window.workers.as_ref().is_some_and(|workers| workers.count as f64 >= cpu.usable());
    if full && enough { "; its child processes fill the CPUs that it may use" } else { "" }
}

/// A phase that the stacks name: importing, compiling, validating.
fn by_stacks(window: &Features, stacks: &LoopStacks, known: Known) -> Option<Phase> {
    let most = |activity: Activity| stacks.shares.get(activity) >= PHASE;
    match () {
        () if most(Activity::Import) && window.workers.is_none() => Some(Phase::Init),
        () if most(Activity::Compile) => Some(Phase::Compile),
        // Metrics at each step may be under no_grad too: a validation goes on for seconds, and nothing else happens meanwhile.
        () if stacks.validating(known.has_trained) >= ALL_ALONG && !stacks.trains_meanwhile() => {
            Some(Phase::Validation)
        }
        () => None,
    }
}

/// Something was seen that only a loop does.
pub(super) fn is_proven(window: &Features, known: Known) -> bool {
    let stacks = window.loop_stacks();
    let model = stacks.is_some_and(|stacks| {
        let shares =
            [Activity::Forward, Activity::Backward, Activity::Optimizer].map(|activity| stacks.shares.get(activity));
        stacks.trains() || shares.iter().sum::<f64>() >= HARDLY
    });
    let device = window.gpu.as_ref().is_some_and(|gpu| gpu.job_busy >= DEVICE_UNUSED);
    known.has_stepped
        || window.is_stepping()
        || window.workers.is_some()
        || device
        || window.communicates
        || model
        || waits_in_turn(window)
}

/// Somebody who is known ends most of the loop's waits, and it goes on after them again and again: a loop, however little it
/// computes itself. A rank waits for the others in a collective: that they compute must have been seen.
fn waits_in_turn(window: &Features) -> bool {
    let setting_up = window.age_s.is_none_or(|age| age < STARTING) && window.is_growing();
    let works = window.chain.as_ref().is_some_and(|chain| chain.share(PathPart::Process) >= LARGER_HALF);
    goes_on(window).is_some() && waits_for_somebody(window) && !setting_up && (works || !window.communicates)
}

/// The loop goes on after its waits again and again: its chain.
fn goes_on(window: &Features) -> Option<&Chain> {
    window.chain.as_ref().filter(|chain| chain.renewed >= ALL_ALONG)
}

/// Most of the loop's time ends at somebody who is known.
fn waits_for_somebody(window: &Features) -> bool {
    let parts = || window.waits_elsewhere().filter(|part| *part != PathPart::Sleep);
    let known = |chain: &Chain| parts().map(|part| chain.share(part)).sum::<f64>();
    window.chain.as_ref().is_some_and(|chain| known(chain) >= LARGER_HALF)
}

/// Ranks that wait for one that does not come, and how surely: they do not step, and only wait, in the host or in a kernel at low power.
fn stands_in_collective(window: &Features, main: &LoopThread, known: Known) -> Option<Threshold> {
    let several = window.trainers > 1 || window.communicates || !window.ranks_gone.is_empty();
    let stepping = window.is_stepping();
    let in_kernel = window.gpu.as_ref().is_some_and(|gpu| gpu.job_busy >= ALWAYS_BUSY && gpu.low_power());
    // A device that draws much computes, be it for a validation that no step is counted in.
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

/// A phase that the counters tell, and how surely.
fn other_phase(window: &Features, main: &LoopThread, known: Known) -> Option<(Phase, Threshold)> {
    let stepping = window.is_stepping();
    let unused = window.gpu.as_ref().map(|gpu| gpu.job_busy < DEVICE_UNUSED);
    let old = window.age_s.is_some_and(|age| age > STARTING);
    let young = window.age_s.is_some_and(|age| age < STARTING);
    let fed = window.workers.as_ref().is_some_and(|workers| workers.busy + workers.io_wait > LOST_WAIT)
        && main.shares.input_wait > LARGER_HALF;
    let quiet = window.cpu.job.unwrap_or(0.0) * 100.0 < INACTIVE && main.running < HARDLY && unused != Some(false);
    let collective = main.share(Activity::Collective) >= PHASE;
    let waits_in_turn = waits_in_turn(window);
    if let Some(sure) = stands_in_collective(window, main, known) {
        return Some((Phase::Hung, sure));
    }
    if quiet && !stepping && !fed && (collective || !waits_in_turn) {
        // Nothing that the loop waits for could be found, so nothing moves; or it stands in a collective that others left out.
        let still = window
            .chain
            .as_ref()
            .is_some_and(|chain| chain.share(PathPart::Unknown) + chain.share(PathPart::Sleep) >= ALL_ALONG);
        let phase = match () {
            () if collective || still && known.has_stepped => Phase::Hung,
            () if old || known.has_stepped || still => Phase::Idle,
            () => Phase::Init,
        };
        // Who sleeps and looks again may be retrying in the middle of a step, as under a lock.
        let looks_again = goes_on(window).is_some_and(|chain| chain.share(PathPart::Sleep) >= LARGER_HALF);
        let long_wait = phase != Phase::Hung && (waits_for_somebody(window) || looks_again);
        return Some((phase, if long_wait { EVEN_CHANCE } else { SURE }));
    }
    if known.has_stepped || stepping {
        return None;
    }
    // Busy, but with nothing that a training loop does: imports, data set set-up, compilation, the first samples. Waits for a
    // disk are waits for data where there are no workers; a model at work is proof of a loop.
    let trains = main.stacks.as_ref().is_some_and(LoopStacks::trains);
    let told = main.stacks.is_some() || window.loads_by_reads();
    let loads = !told && main.shares.input_wait - main.disk() >= HARDLY;
    // Imports read files too, but memory grows with them.
    let reads = main.reading >= LARGER_HALF && !(young && window.is_growing());
    if window.workers.is_none() && !trains && !waits_in_turn {
        match unused {
            // Whoever makes or reads samples beside a GPU that rests all the time makes the first ones.
            Some(true) => return Some((Phase::Init, LIKELY)),
            None if young && !loads && !reads && !window.goes_round() => return Some((Phase::Init, LIKELY)),
            _ => {}
        }
    }
    // No index was handed out in all the window: the first batch is being made, or it is a step of such a length.
    if fed && window.steps.count == Some(0) && unused != Some(false) {
        return Some((Phase::Init, EVEN_CHANCE));
    }
    // Workers are starting: the loop waits for its first batches.
    let starting = window.workers.as_ref().is_some_and(|workers| workers.new > 0);
    starting.then_some((Phase::Init, LIKELY))
}
