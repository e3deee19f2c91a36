//! What trainmon can read here, what it cannot, and the command that fixes it.
//!
//! A check gives a state, a sentence, and a fix. [`findings`] and [`kernel_files::of_process`] list the checks.

mod host;
mod kernel_files;

use std::borrow::Cow;
use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use serde::Serialize;

use trainmon_base::errors::{self, Failure, shorten};
use trainmon_base::text::{named_enum, sanitize};
use trainmon_sample::gpu::special_words;
use trainmon_sample::{GpuReading, GpuSample, ProcessId, SourceState, SourceStatus};
use trainmon_sources::py_spy::{self, OWN_READER, OwnReader, PySpy};
use trainmon_sources::{Roots, SourceOptions, gpu, simulated_gpu};

/// How long the driver may take to answer: seconds without persistence mode, and longer than the trial of its library.
const GPU_TIMEOUT: Duration = Duration::from_secs(6);
/// A driver that takes longer than this is not waited for in silence.
const TELL_AFTER: Duration = Duration::from_secs(1);

/// No more of what the kernel's files say is repeated, characters: under another root they may hold anything.
const DETAIL_MAX: usize = 600;

named_enum! {
    /// The result of one check.
    pub enum State {
        /// Readable.
        Ok = "ok",
        /// Readable in part, or with a condition.
        Limited = "limited",
        /// Refused by the kernel.
        Denied = "denied",
        /// Not there.
        Absent = "absent",
        /// Does not answer.
        Hung = "hung",
    }
}

/// One check with its result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DoctorFinding {
    /// What was checked.
    pub what: &'static str,
    /// The result.
    pub state: State,
    /// In words.
    pub detail: String,
    /// The command or setting that fixes it.
    pub fix: Option<String>,
}

/// What a check gives: its result, a sentence, and what fixes it.
pub type Told = (State, Cow<'static, str>, Option<Cow<'static, str>>);

/// A check without a fix.
pub fn told(state: State, detail: impl Into<Cow<'static, str>>) -> Told {
    (state, detail.into(), None)
}

/// A check with what fixes it.
pub fn fixed(state: State, detail: impl Into<Cow<'static, str>>, fix: impl Into<Cow<'static, str>>) -> Told {
    (state, detail.into(), Some(fix.into()))
}

fn with_status(state: State, status: &SourceStatus) -> Told {
    (state, status.to_string().into(), status.fix.as_deref().map(|fix| fix.to_owned().into()))
}

fn finding((what, (state, detail, fix)): (&'static str, Told)) -> DoctorFinding {
    let clean = |text: Cow<'static, str>| shorten(&sanitize(&text), DETAIL_MAX);
    DoctorFinding { what, state, detail: clean(detail), fix: fix.map(clean) }
}

/// What is checked.
#[derive(Debug, Clone)]
pub struct DoctorOptions<'o> {
    /// Where `/proc` and `/sys` are.
    pub roots: Roots,
    /// The process to look into, if one is named.
    pub pid: Option<u32>,
    /// Whether trainmon may read what only a tracer may.
    pub ptrace: bool,
    /// The py-spy that was named.
    pub py_spy: Option<&'o Path>,
    /// Where programs are searched: the variable PATH.
    pub path: Option<OsString>,
}

/// What is said of GPUs other than NVIDIA's.
const UNCONFIRMED: &str =
    "; without NVML: checked against the kernel's documents, AMD also against files of real cards, not yet on a GPU";

/// What the drivers of the GPUs report. They may hang.
pub fn gpus(options: SourceOptions) -> impl FnOnce() -> Result<GpuSample, SourceStatus> + Send + 'static {
    move || gpu::open(&options)?.read(simulated_gpu::monotonic_ns())
}

/// Looks at everything; `terminal` is what is known of that. `gpu` may hang; it gets a thread of its own.
///
/// # Errors
/// There is no such process.
pub fn findings(
    options: &DoctorOptions<'_>,
    gpu: impl FnOnce() -> Result<GpuSample, SourceStatus> + Send + 'static,
    terminal: Told,
) -> Result<Vec<DoctorFinding>, Failure> {
    let Roots { proc, sys } = &options.roots;
    let own = kernel_files::own_rights(proc);
    let gpus = within(GPU_TIMEOUT, gpu);
    let read: Vec<Arc<str>> =
        gpus.iter().flatten().flat_map(|gpus| &gpus.devices).flat_map(|gpu| gpu.files.clone()).collect();
    let mut all = vec![
        ("host", host::host()),
        ("kernel", kernel_files::kernel(proc)),
        ("rights", kernel_files::rights(own)),
        ("yama", kernel_files::yama(proc, own)),
        ("processes", kernel_files::hidepid(proc, own)),
        ("descriptors", kernel_files::descriptors()),
        ("pressure", kernel_files::pressure(proc, own)),
        ("cgroup", kernel_files::cgroup(&sys.join("fs/cgroup"))),
        ("nvml", nvml(gpus)),
        ("py-spy", py_spy(options)),
        ("terminal", terminal),
    ];
    if let Some(pid) = options.pid {
        all.extend(kernel_files::of_process(proc, pid, own, options.ptrace, &read)?);
    }
    Ok(all.into_iter().map(finding).collect())
}

/// The answer of a call that may hang, or none when it takes longer than `time_out`. The thread of a call that hangs is
/// left to itself.
fn within<T: Send + 'static>(time_out: Duration, call: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let (send, receive) = sync_channel(1);
    let spawned = std::thread::Builder::new().name("doctor-gpu".to_owned()).spawn(move || {
        // The receiver may have stopped waiting.
        let _ = send.send(call());
    });
    spawned.ok()?;
    receive.recv_timeout(TELL_AFTER).ok().or_else(|| {
        errors::note("waiting for the driver of the GPUs");
        receive.recv_timeout(time_out.saturating_sub(TELL_AFTER)).ok()
    })
}

fn nvml(answer: Option<Result<GpuSample, SourceStatus>>) -> Told {
    match answer {
        None => with_status(State::Hung, &gpu::hangs(GPU_TIMEOUT.as_secs())),
        Some(Ok(gpus)) if gpus.devices.is_empty() => told(State::Absent, "the driver reports no GPU"),
        Some(Ok(gpus)) => {
            let driver = gpus.driver.map(|driver| format!("driver {driver}; ")).unwrap_or_default();
            let name = |gpu: &GpuReading| {
                let special: Vec<_> = special_words(gpu.vgpu, gpu.confidential, gpu.mps.is_some()).collect();
                let special = if special.is_empty() { String::new() } else { format!(" ({})", special.join(", ")) };
                format!("{} {}{special}", gpu.index, gpu.name.as_deref().unwrap_or("?"))
            };
            let beside = gpus.devices.iter().find_map(|gpu| gpu.gpm_beside.as_deref());
            let beside = beside.map(|other| format!("; no SM activity: {other} may hold the counters"));
            let names = gpus.devices.iter().map(name).collect::<Vec<_>>().join(", ");
            let is_confirmed = gpus.devices.iter().all(|gpu| gpu.files.is_empty());
            let remark = if is_confirmed { "" } else { UNCONFIRMED };
            // NVIDIA's, and sums over processes, take a second reading.
            let is_unread = |gpu: &&GpuReading| !gpu.files.is_empty() && !gpu.of_processes && gpu.hides_its_use();
            let unread = gpus.devices.iter().filter(is_unread).map(|gpu| gpu.index.to_string()).collect::<Vec<_>>();
            let (state, unread) = match unread.as_slice() {
                [] => (State::Ok, String::new()),
                unread => (State::Limited, format!("; how busy it is cannot be read: GPU {}", unread.join(", "))),
            };
            told(state, driver + &names + &unread + remark + &beside.unwrap_or_default())
        }
        Some(Err(error)) => {
            let state = match error.state {
                SourceState::Absent => State::Absent,
                SourceState::Denied => State::Denied,
                SourceState::Hung => State::Hung,
                _ => State::Limited,
            };
            with_status(state, &error)
        }
    }
}

/// The py-spy that would be used for a process, or its own Python's reader, unless a py-spy is named.
fn of_job(options: &DoctorOptions<'_>, process: ProcessId) -> Result<String, py_spy::Refusal> {
    let proc = &options.roots.proc;
    let refusal = match PySpy::find(proc, process, options.py_spy) {
        Ok(found) => return Ok(format!("{}, version {}", found.path().display(), found.version)),
        Err(refusal) => refusal,
    };
    if options.py_spy.is_some() || OwnReader::find(proc, process).is_err() {
        return Err(refusal);
    }
    Ok(format!("not needed: {OWN_READER} takes stacks ({})", refusal.status))
}

/// The py-spy that would be used: for a process, also the one beside its interpreter, or what its own Python has instead.
fn py_spy(options: &DoctorOptions<'_>) -> Told {
    let found = match options.pid {
        Some(pid) => of_job(options, ProcessId { pid, start_ticks: 0 }),
        None => py_spy::locate(options.path.clone(), options.py_spy).map(|program| program.display().to_string()),
    };
    match found {
        Ok(found) => told(State::Ok, found),
        Err(refusal) => with_status(State::Absent, &refusal.status),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_card_that_does_not_tell_its_use_is_no_success() {
        let card = |utilization_pct, of_processes| GpuReading {
            files: vec!["/dev/dri/renderD128".into()],
            utilization_pct,
            of_processes,
            ..GpuReading::default()
        };
        for (gpu, state) in [
            (card(Some(0), false), State::Ok),
            (card(None, true), State::Ok),
            (GpuReading { asleep: true, ..card(None, false) }, State::Ok),
            (card(None, false), State::Limited),
        ] {
            let gpus = GpuSample { devices: vec![gpu], ..GpuSample::default() };
            let (found, detail, _) = nvml(Some(Ok(gpus)));
            assert_eq!(found, state, "{detail}");
            assert_eq!(detail.contains("how busy it is cannot be read: GPU 0"), state == State::Limited, "{detail}");
        }
    }
}
