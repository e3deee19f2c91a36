//! Counts a job's calls of the GPU's runtime from outside: launches, copies, allocations, and how long calls wait for the GPU.
//!
//! The kernel puts breakpoints at the functions into the memory of that one process (uprobes) and runs small programs where they
//! are hit (BPF). `perf_event_open` counts them as well, but takes an event for each call of each thread, and to close one takes the
//! kernel 60 to 90 ms (measured on Linux 6.18), during which the others go on to cost the job time. A link of BPF puts in and takes
//! out all places of a file at once, and programs count by thread.
//!
//! ```text
//! libraries (which files have which calls) → kernel (tables, programs, links) → windows, by the schedule → counts
//! ```
//!
//! A job that is traced is left alone. Everything in the kernel belongs to descriptors of this process, and goes with it.

mod bpf;
mod cost;
mod elf;
mod kernel;
mod libraries;
mod program;
mod schedule;
mod symbols;
mod windows;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::io::Errno;

use cost::HitCost;
use kernel::{CountedRow, KernelCounter, ProbeGroup};
use libraries::ProbedFile;
use schedule::HIT_S;
use symbols::{CallLayer, KnownCall};
use windows::GroupWindows;

use trainmon_base::text::sudo_command;
use trainmon_sample::probe_counts::{GpuCallKind, ProbeCounts, ProbeRow};
use trainmon_sources::Roots;
use trainmon_sources::fields::keyed_number;
use trainmon_sources::files::{READ_LIMIT, ReadFailure, read_once};
use trainmon_sources::process::stat_of;

/// Between two looks.
const STEPS_EVERY: Duration = Duration::from_millis(1);
/// Between two looks at whether the job is there.
const STATE_LOOKS: Duration = Duration::from_millis(50);

/// Why nothing was counted, in one line each.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// The process is gone.
    #[error("process {0} has ended")]
    Ended(u32),
    /// It may not be done.
    #[error("only root may count a job's calls: {}", sudo_command(&format!("profile --pid {pid} --probe")))]
    Denied {
        /// Its PID.
        pid: u32,
    },
    /// The kernel has no uprobes.
    #[error("the kernel has no uprobes (CONFIG_UPROBE_EVENTS), so calls cannot be counted from outside")]
    NoUprobes,
    /// The kernel cannot put many of them in at once.
    #[error("the kernel is too old to count calls from outside: Linux 6.6 or later can, if it was built with BPF")]
    OldKernel,
    /// A debugger has it.
    #[error("process {pid} is traced by process {tracer}, perhaps a debugger: its calls are not counted meanwhile")]
    Traced {
        /// Its PID.
        pid: u32,
        /// The PID of what traces it.
        tracer: u64,
    },
    /// It does not use a GPU by CUDA or HIP.
    #[error(
        "process {0} has no library of CUDA or HIP loaded, so there are no launches to count: does it train on CPUs?"
    )]
    NoLibrary(u32),
    /// It was given up.
    #[error("given up: the job goes on, and no probe is left in it")]
    GivenUp,
    /// The system's answer.
    #[error("cannot count calls: {0}")]
    System(#[from] io::Error),
}

/// What there is to count in a job.
#[derive(Debug)]
pub struct ProbeTarget {
    pid: u32,
    files: Vec<ProbedFile>,
    calls: Vec<KnownCall>,
    /// Returns can be probed.
    returns: bool,
}

impl ProbeTarget {
    /// A process by its PID.
    ///
    /// # Errors
    /// Why its calls cannot be counted, or had better not be.
    pub fn find(roots: &Roots, pid: u32) -> Result<Self, ProbeError> {
        let folder = roots.proc.join(pid.to_string());
        let failed = |failure: ReadFailure| match failure {
            ReadFailure::Denied => ProbeError::Denied { pid },
            failure if failure.is_gone() => ProbeError::Ended(pid),
            failure => ProbeError::System(failure.into()),
        };
        check_state(&roots.proc, pid)?;
        let status = read_once(folder.join("status"), READ_LIMIT).map_err(failed)?;
        let tracer = keyed_number(&status, b"TracerPid:").unwrap_or(0);
        if tracer != 0 {
            return Err(ProbeError::Traced { pid, tracer });
        }
        let sources = roots.sys.join("bus/event_source/devices");
        if sources.is_dir() && !sources.join("uprobe").exists() {
            return Err(ProbeError::NoUprobes);
        }
        let files = libraries::probed_files(&folder).map_err(failed)?;
        if files.is_empty() {
            // Of another user's process, root alone sees the files.
            check_state(&roots.proc, pid)?;
            return Err(ProbeError::NoLibrary(pid));
        }
        let all = files.iter().flat_map(|file| file.calls.iter().map(|found| found.call));
        let calls = all.collect::<BTreeSet<_>>().into_iter().collect();
        let filtered = keyed_number(&status, b"Seccomp:").unwrap_or(0) != 0;
        let release = rustix::system::uname();
        let returns = !(filtered && kills_at_returns(&release.release().to_string_lossy()));
        Ok(Self { pid, files, calls, returns })
    }

    /// Whether hits of a call cost more.
    fn is_stepped(&self, row: &ProbeRow, layer: CallLayer) -> bool {
        let mut all = self.files.iter().flat_map(|file| &file.calls);
        all.any(|found| found.call.name == row.call && found.call.layer == layer && found.stepped)
    }
}

/// Whether this kernel ends processes with filters of system calls, as those in containers, where a return is probed: a return is a
/// system call since 6.11, which filters knew nothing of until 6.14 (commit cf6cb56ef244, "seccomp: passthrough uretprobe").
fn kills_at_returns(release: &str) -> bool {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|number| number.parse().unwrap_or(0));
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    ((6, 11)..(6, 14)).contains(&version)
}

/// Counts for so long. `wanted` says whether to go on.
///
/// # Errors
/// Why nothing was counted. The job goes on in each case.
pub fn count(
    proc_root: &Path,
    target: &ProbeTarget,
    length: Duration,
    wanted: &dyn Fn() -> bool,
) -> Result<ProbeCounts, ProbeError> {
    let pid = target.pid;
    let failed = |error: io::Error| failure(error, pid);
    let counter = KernelCounter::load().map_err(failed)?;
    let cost = HitCost::measured();
    let hit_s = cost.most_s().max(HIT_S);
    let mut groups = vec![GroupWindows::new(ProbeGroup::Calls, hit_s)];
    if target.returns {
        groups.push(GroupWindows::new(ProbeGroup::Waits, hit_s));
    }
    let begun = Instant::now();
    let ended = go_through_windows(proc_root, target, &counter, &mut groups, (begun, length), wanted)?;
    if ended {
        groups.iter_mut().try_for_each(|group| group.end(&counter)).map_err(failed)?;
    }
    let [calls, waits, lost] = counter.tally().map_err(failed)?;
    let windows = |nth: usize| groups.get(nth).map(|group| group.windows().to_vec()).unwrap_or_default();
    let rows = rows(&counter.rows().map_err(failed)?, &groups, &target.calls);
    let mut lost_s: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    for (row, layer) in rows.iter().filter(|(row, _)| row.kind != GpuCallKind::Sync) {
        let hit_s = cost.of_hit(target.is_stepped(row, *layer));
        let lost_s = lost_s.entry(row.tid).or_insert_with(|| vec![0.0; row.by_window.len()]);
        lost_s.iter_mut().zip(&row.by_window).for_each(|(lost_s, count)| *lost_s += *count as f64 * hit_s);
    }
    Ok(ProbeCounts {
        elapsed_s: begun.elapsed().as_secs_f64(),
        calls: windows(0),
        waits: windows(1),
        rows: named(proc_root, pid, without_twice_counted(rows)),
        lost_s: lost_s.into_iter().collect(),
        hits: calls + waits,
        hit_s,
        lost,
    })
}

/// Opens and closes windows until the time is over. Whether the process ended before.
fn go_through_windows(
    proc_root: &Path,
    target: &ProbeTarget,
    counter: &KernelCounter,
    groups: &mut [GroupWindows],
    (begun, length): (Instant, Duration),
    wanted: &dyn Fn() -> bool,
) -> Result<bool, ProbeError> {
    let mut looked = begun;
    loop {
        let mut all_closed = true;
        for nth in 0..groups.len() {
            let others = groups.iter().enumerate().any(|(other, group)| other != nth && group.is_counting());
            if let Some(group) = groups.get_mut(nth) {
                group.step(counter, target, begun, length, others).map_err(|error| failure(error, target.pid))?;
                all_closed &= group.is_closed();
            }
        }
        let over = begun.elapsed() >= length;
        if all_closed && over {
            return Ok(false);
        }
        if !wanted() {
            return Err(ProbeError::GivenUp);
        }
        if looked.elapsed() >= STATE_LOOKS {
            looked = Instant::now();
            match check_state(proc_root, target.pid) {
                Err(ProbeError::Ended(_)) if groups.iter().any(|group| !group.windows().is_empty()) => {
                    return Ok(true);
                }
                state => state?,
            }
        }
        std::thread::sleep(STEPS_EVERY);
    }
}

fn failure(error: io::Error, pid: u32) -> ProbeError {
    match Errno::from_io_error(&error) {
        Some(Errno::PERM | Errno::ACCESS) => ProbeError::Denied { pid },
        Some(Errno::SRCH) => ProbeError::Ended(pid),
        Some(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => ProbeError::OldKernel,
        _ => ProbeError::System(error),
    }
}

/// A row of a call, and whose call it is.
type LayeredRow = (ProbeRow, CallLayer);

fn rows(counted: &[CountedRow], groups: &[GroupWindows], calls: &[KnownCall]) -> Vec<LayeredRow> {
    let row = |row: &CountedRow| {
        let call = calls.get(row.call as usize)?;
        let group = groups.iter().find(|group| group.counts(call.kind))?;
        Some((
            ProbeRow {
                kind: call.kind,
                call: call.name,
                tid: row.tid,
                thread: String::new(),
                count: row.count,
                by_window: group.by_window((row.tid, row.call)),
                waited_ns: row.waited_ns + group.unfinished_ns((row.tid, row.call)),
            },
            call.layer,
        ))
    };
    counted.iter().filter_map(row).collect()
}

/// A call of the runtime goes on into the driver, and would count twice. So of each thread the runtime's calls count, or the driver's if
/// they are more: compiled kernels and libraries call it directly. Of calls that wait, the outer one alone was counted.
fn without_twice_counted(rows: Vec<LayeredRow>) -> Vec<ProbeRow> {
    let mut totals: BTreeMap<(u32, GpuCallKind), [u64; 2]> = BTreeMap::new();
    for (row, layer) in &rows {
        let [runtime, driver] = totals.entry((row.tid, row.kind)).or_default();
        *(if *layer == CallLayer::Runtime { runtime } else { driver }) += row.count;
    }
    let counts = |(row, layer): &LayeredRow| {
        let [runtime, driver] = totals.get(&(row.tid, row.kind)).copied().unwrap_or_default();
        // A window may begin or end between the two.
        let same = driver <= runtime + runtime / 50 + 8;
        row.kind == GpuCallKind::Sync || (*layer == CallLayer::Runtime) == (runtime > 0 && same)
    };
    rows.iter().filter(|row| counts(row)).map(|(row, _)| row.clone()).collect()
}

/// The rows with the names of their threads.
fn named(proc_root: &Path, pid: u32, mut rows: Vec<ProbeRow>) -> Vec<ProbeRow> {
    for row in &mut rows {
        let path = proc_root.join(format!("{pid}/task/{}/comm", row.tid));
        let name = read_once(path, READ_LIMIT).unwrap_or_default();
        row.thread = String::from_utf8_lossy(name.trim_ascii_end()).into_owned();
    }
    rows
}

/// Whether the process is there.
fn check_state(proc_root: &Path, pid: u32) -> Result<(), ProbeError> {
    match stat_of(proc_root, pid).map(|stat| stat.state) {
        None | Some('Z' | 'X') => Err(ProbeError::Ended(pid)),
        Some(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// What is found of a process with this status, in a system whose kernel has these sources of events.
    fn found(status: &str, events: &[&str]) -> Result<ProbeTarget, ProbeError> {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("proc/12");
        fs::create_dir_all(&folder).unwrap();
        let stat = "12 (python) S 1 1 1 0 -1 0 1 0 0 0 250 50 0 0 20 0 4 0 99 9000000 512 1 1\n";
        fs::write(folder.join("stat"), stat).unwrap();
        fs::write(folder.join("status"), status).unwrap();
        fs::write(folder.join("maps"), "1000-2000 r-xp 0 fe:00 7 /lib/libc.so.6\n").unwrap();
        for name in events {
            fs::create_dir_all(root.path().join("sys/bus/event_source/devices").join(name)).unwrap();
        }
        ProbeTarget::find(&Roots { proc: root.path().join("proc"), sys: root.path().join("sys") }, 12)
    }

    #[test]
    fn what_cannot_be_counted_is_refused_in_one_line() {
        let traced = found("Name:\tpython\nTracerPid:\t7\n", &["uprobe"]).unwrap_err();
        assert!(matches!(traced, ProbeError::Traced { pid: 12, tracer: 7 }), "{traced}");
        let without = found("TracerPid:\t0\n", &["software"]).unwrap_err();
        assert!(matches!(without, ProbeError::NoUprobes), "{without}");
        let cpu = found("TracerPid:\t0\n", &["uprobe"]).unwrap_err();
        assert!(matches!(cpu, ProbeError::NoLibrary(12)), "{cpu}");
        let roots = Roots { proc: "/nonexistent".into(), sys: "/nonexistent".into() };
        let ended = ProbeTarget::find(&roots, 12).unwrap_err();
        assert!(matches!(ended, ProbeError::Ended(12)), "{ended}");
        let denied = ProbeError::Denied { pid: 12 }.to_string();
        assert!(denied.contains("sudo ") && denied.ends_with("profile --pid 12 --probe"), "{denied}");
        for error in [traced, without, cpu, ended, ProbeError::OldKernel, ProbeError::GivenUp] {
            assert!(!error.to_string().contains('\n'), "{error}");
        }
    }

    #[test]
    fn returns_are_left_alone_where_a_filter_would_kill_the_job() {
        for (release, kills) in [
            ("6.10.14-amd64", false),
            ("6.11.0-19-generic", true),
            ("6.13.7", true),
            ("6.14.0", false),
            ("5.15.0-1", false),
            ("7", false),
        ] {
            assert_eq!(kills_at_returns(release), kills, "{release}");
        }
    }

    #[test]
    fn a_call_that_goes_on_into_the_driver_counts_once() {
        let row = |kind, call, tid, count| ProbeRow {
            kind,
            call,
            tid,
            thread: String::new(),
            count,
            by_window: Vec::new(),
            waited_ns: 0,
        };
        let launch = |call, tid, count| row(GpuCallKind::Launch, call, tid, count);
        let rows = vec![
            (launch("cudaLaunchKernel", 1, 1000), CallLayer::Runtime),
            (launch("cuLaunchKernel", 1, 1001), CallLayer::Driver),
            // Compiled kernels beside those of the runtime.
            (launch("cudaLaunchKernel", 2, 100), CallLayer::Runtime),
            (launch("cuLaunchKernel", 2, 900), CallLayer::Driver),
            (launch("cuLaunchKernel", 3, 5), CallLayer::Driver),
            (row(GpuCallKind::Sync, "cudaStreamSynchronize", 1, 3), CallLayer::Runtime),
            (row(GpuCallKind::Sync, "cuCtxSynchronize", 1, 2), CallLayer::Driver),
        ];
        let kept: Vec<_> =
            without_twice_counted(rows).into_iter().map(|row| (row.tid, row.call, row.count)).collect();
        assert_eq!(
            kept,
            [
                (1, "cudaLaunchKernel", 1000),
                (2, "cuLaunchKernel", 900),
                (3, "cuLaunchKernel", 5),
                (1, "cudaStreamSynchronize", 3),
                (1, "cuCtxSynchronize", 2)
            ]
        );
    }
}
