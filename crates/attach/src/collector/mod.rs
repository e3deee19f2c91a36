//! When to read what, on which thread: the only folder that knows time. It assembles samples, and neither parses what the
//! sources read nor judges it.
//!
//! ```text
//!  tm-job      samples the loop's thread and the workers 20 to 50 times a second, and once a tick reads the job's
//!              processes, the host and the cgroup (kernel memory: these reads do not block)
//!  tm-gpu …    one for each `AskedSource` of `sources`: NVML, disks and mounts. Read once a tick, one call
//!              at a time, never waited for longer than a moment
//!  tm-stacks   py-spy (or what replaces it), one run after another, as often as needed
//!  tm-counts   how far the training processes' loops have come, in the memory of their Python
//!  tm-hosts    the host's other processes, while they are shown
//!  tm-ending   sleeps until the job ends, and reads how it did
//!  tm-outlook  how the run will go on, where jobs are followed for days
//!  tm-software once, the versions of what the job runs on
//!       │
//!       ▼
//!  Values: the latest value of each source, with its state (fresh, stale, hung, gone, absent, denied)
//!       │
//!       ▼
//!  Collector::next() assembles a `Sample`, on the caller's (async) thread
//! ```

mod budget;
mod counts;
mod effort;
mod ending;
mod latest;
mod other_processes;
mod outlook;
mod software;
mod stacks;
mod threads;

use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, eventfd};
use rustix::process::{Resource, getrlimit};

use trainmon_base::heap::ENOUGH_ADDRESSES;
use trainmon_base::trust::rights;
use trainmon_sample::{OwnSample, ProcessId, Sample};
use trainmon_sources::SourceOptions;
use trainmon_sources::files::KeptFile;
use trainmon_sources::job::{AttachError, JobReader};
use trainmon_sources::{clock, descriptors, task_files};

pub use effort::Demand;
use effort::Effort;
use latest::Latest;

/// How long a finished tick waits for sources that are a little late, milliseconds: NVML's PCIe counters take 20 ms
/// each (the window of nvmlDeviceGetPcieThroughput).
const GRACE_MS: u64 = 60;

/// How long the last tick waits for what is known of the job's end: its output may be on a server that does not answer.
const ENDING: Duration = Duration::from_secs(1);

/// A lost driver, or a kernel that refused, is tried again after this time.
const RETRY: Duration = Duration::from_secs(30);

/// How long shutting down waits for a running py-spy to be ended.
const STACKS_END: Duration = Duration::from_millis(500);

/// Address space that must be free before a thread is started, bytes: the heap grows to 17 MiB with a small job, and
/// each thread's stack takes 2 MiB.
const HEADROOM: u64 = 24 << 20;

/// What to collect.
#[derive(Debug, Clone)]
pub struct CollectorOptions {
    /// Where the sources are.
    pub sources: SourceOptions,
    /// The process to attach to.
    pub pid: u32,
    /// Time between two samples.
    pub interval: Duration,
    /// Never open files that need ptrace attach rights.
    pub no_ptrace: bool,
    /// Never start py-spy.
    pub no_stacks: bool,
    /// The py-spy program, if named by the user.
    pub py_spy: Option<PathBuf>,
    /// Also read what says how the run will go on.
    pub outlook: bool,
}

/// What the collector and its source threads share.
#[derive(Debug)]
struct Shared {
    options: CollectorOptions,
    latest: Latest,
    /// Tells the threads to end.
    stop: AtomicBool,
    /// How closely they watch.
    effort: Effort,
    /// The host's other processes are wanted.
    other_processes_wanted: AtomicBool,
    /// Wakes the thread that waits for the job's end: it cannot be unparked from where it waits.
    wake_ending: Option<OwnedFd>,
}

impl Shared {
    fn new(options: CollectorOptions) -> Arc<Self> {
        Arc::new(Self {
            options,
            latest: Latest::default(),
            stop: AtomicBool::new(false),
            effort: Effort::default(),
            other_processes_wanted: AtomicBool::new(false),
            wake_ending: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).ok(),
        })
    }

    /// Has the thread that waits for the job's end look whether it has come, or is to stop.
    fn wake_ending(&self) {
        if let Some(wake) = &self.wake_ending {
            // It fails only where it was woken very often already.
            let _ = rustix::io::write(wake, &1_u64.to_ne_bytes());
        }
    }
}

/// Collects samples from source threads that it owns. Dropping it stops them; a thread that hangs in a driver call is
/// left behind and ends with the program.
#[derive(Debug)]
pub struct Collector {
    shared: Arc<Shared>,
    stacks_thread: Option<JoinHandle<()>>,
    counts_thread: Option<JoinHandle<()>>,
    other_processes_thread: Option<JoinHandle<()>>,
    outlook_thread: Option<JoinHandle<()>>,
    watches_ending: bool,
    target: ProcessId,
    command: Arc<str>,
    own_stat: Option<KeptFile>,
    next_tick: u64,
}

impl Collector {
    /// Attaches to the process and starts the source threads.
    ///
    /// # Errors
    /// [`AttachError`] if the process cannot be watched. Missing sources are not an error: their state reports it.
    pub fn attach(options: CollectorOptions) -> Result<Self, AttachError> {
        let attach = || JobReader::attach(&options.sources.roots.proc, options.pid, options.no_ptrace);
        let job = rights::with_rights(attach).map_err(|error| AttachError::Failed(options.pid, error))??;
        let target = job.target;
        let command = job.command();
        let shared = Shared::new(options);
        let [stacks_thread, counts_thread] =
            threads::start(job, &shared).map_err(|error| AttachError::NoThread(why_no_thread(&error)))?;
        let watches_ending = ending::start(&shared, target).is_some();
        let outlook_thread = if shared.options.outlook { outlook::start(&shared) } else { None };
        Ok(Self {
            shared,
            stacks_thread,
            counts_thread,
            other_processes_thread: None,
            outlook_thread,
            watches_ending,
            target,
            command,
            own_stat: KeptFile::open("/proc/self/stat").ok(),
            next_tick: 0,
        })
    }

    /// The attached process.
    pub fn target(&self) -> ProcessId {
        self.target
    }

    /// Command line of the attached process at the time of attaching, raw.
    pub fn command(&self) -> &str {
        &self.command
    }

    /// Sets how closely to watch the job from now on.
    pub fn want(&self, demand: Demand) {
        if self.shared.effort.set(demand) {
            wake(self.stacks_thread.as_ref());
            wake(self.counts_thread.as_ref());
        }
    }

    /// Reports that something has changed: the training process's stacks are taken next, without a pause.
    pub(crate) fn want_at_once(&self) {
        self.shared.effort.ask_at_once();
        wake(self.stacks_thread.as_ref());
    }

    /// Sets whether the busiest processes outside the job are wanted from now on: a scan of the host every two seconds,
    /// or less often if that would cost more than 1% of a CPU.
    pub(crate) fn want_other_processes(&mut self, wanted: bool) {
        other_processes::want(wanted, &self.shared, &mut self.other_processes_thread);
    }

    /// Waits for the next tick and assembles its sample. Cancel safe.
    ///
    /// If the job's own files hang, the sample still comes, a little late, and its states say so.
    pub async fn next(&mut self) -> Sample {
        let interval = self.shared.options.interval;
        let late = interval + Duration::from_secs(1);
        let tick = self.next_tick;
        let arrived = tokio::time::timeout(late, self.reached(|values| values.job_tick() >= Some(tick))).await;
        if arrived.is_ok() {
            let grace = Duration::from_millis(GRACE_MS);
            // What comes later is used at the next tick; the state shows its age.
            let _ = tokio::time::timeout(grace, self.reached(|values| values.complete(tick))).await;
        }
        let has_ended = |values: &latest::Values| values.sample.job.as_ref().is_some_and(|job| !job.alive);
        if self.watches_ending && has_ended(&self.shared.latest.values()) {
            let _ = tokio::time::timeout(ENDING, self.reached(|values| values.ending_read)).await;
        }
        let mut values = self.shared.latest.values();
        // It may be known before the job's own files say so.
        let ending = if has_ended(&values) { values.sample.ending.clone() } else { None };
        self.next_tick = values.job_tick().map_or(tick, |answered| answered.max(tick)) + 1;
        let now_ns = clock::monotonic_ns();
        let interval_ns = u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX);
        Sample {
            sequence: self.next_tick - 1,
            unix_ms: i64::try_from(clock::unix_us() / 1000).unwrap_or(i64::MAX),
            monotonic_ns: now_ns,
            boottime_ns: clock::boottime_ns(),
            stacks: values.stacks.take(),
            ending,
            sources: values.sources(now_ns, interval_ns),
            own: self.own(),
            ..values.sample.clone()
        }
    }

    async fn reached(&self, condition: impl Fn(&latest::Values) -> bool) {
        loop {
            let changed = self.shared.latest.changed.notified();
            if condition(&self.shared.latest.values()) {
                return;
            }
            changed.await;
        }
    }

    fn own(&self) -> OwnSample {
        let mut room = [0_u8; 512];
        let line = self.own_stat.as_ref().and_then(|file| file.read_line(&mut room).ok());
        let stat = line.and_then(task_files::stat);
        let tick_ns = 1_000_000_000 / u64::from(clock::ticks_per_second());
        OwnSample {
            cpu_ns: Some(clock::own_cpu_ns()),
            children_cpu_ns: stat.map(|stat| stat.children_ticks.saturating_mul(tick_ns)),
            rss_bytes: stat.map(|stat| {
                let pages = stat.rss_pages.saturating_mul(rustix::param::page_size() as u64);
                pages.saturating_add(descriptors::charged_bytes())
            }),
        }
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        wake(self.stacks_thread.as_ref());
        wake(self.counts_thread.as_ref());
        wake(self.other_processes_thread.as_ref());
        wake(self.outlook_thread.as_ref());
        self.shared.wake_ending();
        // The thread ends a running py-spy: it checks `stop` every 40 ms. py-spy must not outlive trainmon.
        let until = Instant::now() + STACKS_END;
        while self.stacks_thread.as_ref().is_some_and(|thread| !thread.is_finished()) && Instant::now() < until {
            thread::sleep(Duration::from_millis(5));
        }
    }
}

/// How many bytes of address space are left, if limited (`ulimit -v`).
fn addresses_left() -> Option<u64> {
    let limit = getrlimit(Resource::As).current?;
    // The first field of statm is the size in pages (proc(5)).
    let statm = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = statm.split(' ').next()?.parse().ok()?;
    Some(limit.saturating_sub(pages.saturating_mul(rustix::param::page_size() as u64)))
}

/// Starts a source thread.
fn spawn(
    name: &str,
    shared: &Arc<Shared>,
    watch: impl FnOnce(&Shared) + Send + 'static,
) -> io::Result<JoinHandle<()>> {
    let shared = Arc::clone(shared);
    start_thread(name, move || watch(&shared))
}

/// Starts a thread if enough address space is left for what all threads allocate: a failed allocation ends the program.
fn start_thread(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    if addresses_left().is_some_and(|left| left < HEADROOM) {
        return Err(io::ErrorKind::WouldBlock.into());
    }
    thread::Builder::new().name(name.into()).spawn(work)
}

/// Makes a pausing thread check the demand again.
fn wake(thread: Option<&JoinHandle<()>>) {
    if let Some(thread) = thread {
        thread.thread().unpark();
    }
}

/// Why no thread can be started, and the command that allows it. EAGAIN is the answer in all these cases
/// (pthread_create(3)).
pub fn why_no_thread(error: &io::Error) -> String {
    let limit = |resource| getrlimit(resource).current;
    let is_again = error.kind() == io::ErrorKind::WouldBlock;
    match (limit(Resource::As), limit(Resource::Nproc)) {
        (Some(bytes), _) if is_again && bytes < ENOUGH_ADDRESSES => {
            let kib = bytes >> 10;
            format!(
                "the address space is limited to {} MiB (ulimit -v {kib}); run `ulimit -v unlimited` first",
                kib >> 10
            )
        }
        (_, Some(most)) if is_again => format!(
            "too many processes and threads of this user (ulimit -u {most}) or in this control group (pids.max); \
             raise that limit, or end some of them"
        ),
        _ if is_again => {
            "too many processes and threads in this control group (pids.max); raise the limit".to_owned()
        }
        _ => error.to_string(),
    }
}

/// Pauses for as long as `wanted` says. That may change meanwhile: changing it, or setting `stop`, wakes this thread.
fn rest(stop: &AtomicBool, wanted: impl Fn() -> Duration) {
    let begun = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        match wanted().checked_sub(begun.elapsed()).filter(|left| !left.is_zero()) {
            Some(left) => thread::park_timeout(left),
            None => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command};

    use super::*;

    /// A shell that keeps a CPU busy, ended on drop.
    struct Busy(Child);

    impl Busy {
        fn start() -> Self {
            Self(Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap())
        }
    }

    impl Drop for Busy {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    pub(super) fn options(pid: u32) -> CollectorOptions {
        CollectorOptions {
            sources: SourceOptions {
                nvml_lib: Some("/nowhere/libnvidia-ml.so.1".into()),
                ..SourceOptions::default()
            },
            pid,
            interval: Duration::from_millis(200),
            no_ptrace: true,
            no_stacks: true,
            py_spy: None,
            outlook: false,
        }
    }

    #[test]
    fn other_processes_are_in_the_samples_while_they_are_wanted() {
        let (job, other_process) = (Busy::start(), Busy::start());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut collector = Collector::attach(options(job.0.id())).unwrap();
            assert!(collector.next().await.other_processes.is_none());
            collector.want_other_processes(true);
            let until = Instant::now() + Duration::from_secs(60);
            loop {
                assert!(Instant::now() < until);
                let Some(seen) = collector.next().await.other_processes else { continue };
                assert!(seen.processes.iter().all(|process| process.id.pid != job.0.id()), "{seen:?}");
                let busy = seen.processes.iter().find(|process| process.id.pid == other_process.0.id());
                if busy.is_some_and(|busy| busy.command.starts_with("sh -c while") && seen.window_ns > 0) {
                    break;
                }
            }
            collector.want_other_processes(false);
            while collector.next().await.other_processes.is_some() {
                assert!(Instant::now() < until);
            }
        });
    }
}
