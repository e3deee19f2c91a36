//! Which windows an advice fits: nothing is advised that the window's own numbers speak against.

use super::*;
use crate::diagnosis::account::OF_TWO;
use crate::diagnosis::features::ChainPath;
use trainmon_waits::taxonomy::{Edge, End};

thresholds! {
    SEVERAL = 1.2, "CPUs", "more than one thread uses, with what the runtime adds";
    SMALL_TREES = 100.0, "trees/s", "starting and joining threads takes a good part of ten milliseconds with several levels in them";
    FREE_BEYOND = 0.75, "of the CPUs left to the job", "more threads or processes of the job could use the rest";
}

/// The machine has a GPU that trainmon knows of.
pub(in crate::diagnosis) fn with_gpu(window: &Features) -> bool {
    window.gpu.is_some() || window.gpu_held || window.gpu_seen
}

pub(super) fn without_gpu(window: &Features) -> bool {
    !with_gpu(window)
}

/// The machine has a GPU, and the loop's model is moved there by the user's own code: no library has a setting for it.
pub(super) fn moves_to_gpu(window: &Features) -> bool {
    let by_library = window.does.setting(JobSetting::Device).is_some();
    with_gpu(window) && !by_library && window.does.kind.is_none_or(JobKind::moves_to_gpu)
}

/// The machine has no GPU, and the model could use one as it is.
pub(super) fn lacks_gpu(window: &Features) -> bool {
    let never = window.does.setting(JobSetting::Device) == Some("");
    without_gpu(window) && !never && window.does.kind.is_none_or(JobKind::moves_to_gpu)
}

/// A good part of the CPUs that others leave the job is free.
pub(super) fn leaves_cpus_free(window: &Features) -> bool {
    window.cpu.job.is_some_and(|job| job <= FREE_BEYOND.value * window.cpu.left())
}

/// As many threads as CPUs are active, compute in several at once, and yet leave CPUs free: they wait for each other.
pub(super) fn threads_leave_cpus_free(window: &Features) -> bool {
    let several = window.main.as_ref().is_some_and(|main| main.cores() >= SEVERAL);
    let as_many = window.cpu.active_threads.is_some_and(|threads| threads.round() >= window.cpu.usable());
    several && as_many && leaves_cpus_free(window) && !shares_small_trees(window)
}

/// There is no GPU, or none that takes the job's work over as it is.
fn stays_on_cpus(window: &Features) -> bool {
    without_gpu(window) && window.does.kind.is_some_and(|kind| !kind.moves_to_gpu())
}

fn uses_most_cpus(window: &Features) -> bool {
    let used = window.cpu.job.or(window.main.as_ref().map(LoopThread::cores));
    used.is_some_and(|used| used > FREE_BEYOND.value * window.cpu.left())
}

/// The job uses most of the CPUs that others leave it, and its work stays there.
pub(super) fn fills_cpus_for_good(window: &Features) -> bool {
    stays_on_cpus(window) && uses_most_cpus(window)
}

/// Its work stays on the CPUs, some are free, and the library is not in the table.
pub(super) fn may_use_more_cpus(window: &Features) -> bool {
    stays_on_cpus(window) && !uses_most_cpus(window) && window.does.library.is_none()
}

/// Several threads share trees that take too little time each to be shared.
pub(super) fn shares_small_trees(window: &Features) -> bool {
    let several = window.main.as_ref().is_some_and(|main| main.cores() >= SEVERAL);
    let counted = window.steps.counted.as_ref().filter(|counted| counted.unit == StepUnit::Tree);
    several && counted.is_some_and(|counted| counted.per_s >= SMALL_TREES)
}

/// Callbacks, logs and metrics take a good part of the loop's time.
pub(super) fn reports_long(window: &Features) -> bool {
    takes(window, Activity::Report)
}

/// The same, or enough of it for a second limit.
pub(super) fn reports_beside_its_model(window: &Features) -> bool {
    window.loop_stacks().is_some_and(|stacks| stacks.shares.get(Activity::Report) >= OF_TWO)
}

/// The workers are seen decoding for longer than they transform.
pub(super) fn workers_decode_most(window: &Features) -> bool {
    with_workers(window) && decodes_most(window)
}

/// A library calls a function of the user's for each row or group. It takes time to call it as well, which shows no frame.
pub(super) fn calls_for_each_row(window: &Features) -> bool {
    window.loop_stacks().is_some_and(|stacks| stacks.for_each_row() >= OF_TWO)
}

/// A library other than torch hands out the batches, and has its own setting for processes or threads that make them.
pub(super) fn has_a_loaders_workers(window: &Features) -> bool {
    window.does.loader.is_some() && window.does.setting(JobSetting::Workers).is_some_and(|name| !name.is_empty())
}

/// The loop generates text or actions for a good part of the time.
pub(super) fn generates(window: &Features) -> bool {
    takes(window, Activity::Generate)
}

/// The loop steps environments for a good part of the time.
pub(super) fn steps_environments(window: &Features) -> bool {
    takes(window, Activity::Environment)
}

/// The loop is in a validation for a good part of the time.
pub(super) fn validates(window: &Features) -> bool {
    window.loop_stacks().is_some_and(|stacks| stacks.validates() >= CLEARLY_LOST)
}

/// The same, and no library has a setting for it.
pub(super) fn validates_by_its_own_code(window: &Features) -> bool {
    validates(window) && window.does.setting(JobSetting::Validation).is_none()
}

/// The loop's own code takes a large part of its time beside the model.
fn works_beside_its_model(window: &Features) -> bool {
    window.loop_stacks().is_some_and(|stacks| stacks.beside_the_model().is_some())
}

/// The same, and that is not mostly callbacks, logs and metrics.
pub(super) fn works_beside_more_than_reports(window: &Features) -> bool {
    works_beside_its_model(window) && !reports_beside_its_model(window)
}

fn takes(window: &Features, activity: Activity) -> bool {
    window.loop_stacks().is_some_and(|stacks| stacks.shares.get(activity) >= CLEARLY_LOST)
}

pub(super) fn with_workers(window: &Features) -> bool {
    window.workers.is_some()
}

pub(super) fn without_workers(window: &Features) -> bool {
    window.workers.is_none()
}

/// The workers are seen decoding for longer than they transform.
pub(super) fn decodes_most(window: &Features) -> bool {
    let stages = window.workers.as_ref().and_then(|workers| workers.stages);
    stages.is_some_and(|stages| stages.decode > stages.transform)
}

pub(super) fn transforms(window: &Features) -> bool {
    !decodes_most(window)
}

pub(super) fn transforms_beside_a_gpu(window: &Features) -> bool {
    transforms(window) && with_gpu(window)
}

pub(super) fn decodes_beside_a_gpu(window: &Features) -> bool {
    decodes_most(window) && with_gpu(window)
}

pub(super) fn without_stacks(window: &Features) -> bool {
    window.loop_stacks().is_none()
}

/// The workers are not those of a known loader.
pub(super) fn with_unnamed_workers(window: &Features) -> bool {
    window.workers.as_ref().is_some_and(|workers| workers.unnamed)
}

pub(super) fn without_unnamed_workers(window: &Features) -> bool {
    !with_unnamed_workers(window)
}

/// The loop is seen at metrics and logs, or its stacks cannot be read.
pub(super) fn may_report(window: &Features) -> bool {
    window.loop_stacks().is_none_or(|stacks| stacks.shares.get(Activity::Report) >= LOST_WAIT)
}

pub(super) fn may_report_with_gpu(window: &Features) -> bool {
    may_report(window) && with_gpu(window)
}

/// All servers that the batches or the loop wait for are on this machine, and the data lies on no mount of another one.
pub(super) fn served_here(window: &Features) -> bool {
    let servers = culprits::addresses(window);
    let elsewhere = window.io.network || window.io.fuse;
    !elsewhere && !servers.is_empty() && servers.iter().all(|server| culprits::is_loopback(&server.name))
}

pub(super) fn served_elsewhere(window: &Features) -> bool {
    !served_here(window)
}

/// The loop asks again and again whether the other process is done, as for a file in a folder.
pub(super) fn polls(window: &Features) -> bool {
    let longest = window.chain.as_ref().and_then(|chain| chain.longest(Purpose::Process));
    longest.is_some_and(|way| way.hops.iter().any(|hop| hop.by == Edge::Polls))
}

/// It starts commands and waits for their end, as with `subprocess.run`.
pub(super) fn runs_commands(window: &Features) -> bool {
    let longest = window.chain.as_ref().and_then(|chain| chain.longest(Purpose::Process));
    let ends = |way: &ChainPath| way.end == End::Children || way.hops.last().is_some_and(|hop| hop.by == Edge::Child);
    longest.is_some_and(ends)
}

/// A library has its work done by processes of its own, which it keeps busy.
pub(super) fn works_in_processes(window: &Features) -> bool {
    let kinds = [JobKind::Search, JobKind::Fitting, JobKind::Boosting];
    window.does.kind.is_some_and(|kind| kinds.contains(&kind))
}

/// It sends requests to the other process.
pub(super) fn requests(window: &Features) -> bool {
    !polls(window) && !runs_commands(window)
}

/// It reads a pipe that a program other than Python fills, such as a decompressor.
pub(super) fn reads_a_program(window: &Features) -> bool {
    let Some(chain) = &window.chain else { return false };
    let last = chain.longest(Purpose::Process).and_then(|way| way.hops.last());
    let program = last.filter(|hop| hop.by == Edge::Reads).and_then(|hop| chain.peer(hop.pid));
    program.is_some_and(|peer| !peer.comm.starts_with("python"))
}

/// Neither its stacks, nor its options, nor the tensor cores say that the run uses mixed precision.
pub(super) fn may_be_full_precision(window: &Features) -> bool {
    !window.mixed_precision && !tensor_cores_work(window)
}

/// The tensor cores work, but nothing says in which precision: PyTorch also uses them for float32 convolutions, as TF32
/// (torch.backends.cudnn.allow_tf32 is on by default).
pub(super) fn may_be_tf32(window: &Features) -> bool {
    !window.mixed_precision && tensor_cores_work(window)
}

fn tensor_cores_work(window: &Features) -> bool {
    window.gpu.as_ref().is_some_and(|gpu| gpu.tensor_active.is_some_and(|active| active >= HARDLY))
}

pub(super) fn mixed_precision(window: &Features) -> bool {
    window.mixed_precision
}
