//! How many files of `/proc` may stay open, and what happens beyond that.
//!
//! Reading a kept descriptor is three times as fast as opening the file, but descriptors are limited (`ulimit -n`), and
//! the kernel charges the memory behind each one to trainmon's control group. So keeping a file open takes a
//! [`Permit`]; a file without one is opened for each read. Files read once a tick and files read in each round of the
//! sampler have separate budgets, so that neither starves the other. Descriptors that do not belong to the job's
//! processes (host, control group, storage, log, NVML, py-spy, terminal) are not counted: [`RESERVE`] stays free for
//! them.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit, setrlimit};

use super::Roots;
use super::cgroup::CgroupReader;
use super::files::{KeptFile, ReadFailure, numbers_in};

/// Descriptors kept free for everything except the job's processes. Without NVML and the screen 25 are in use. The rest
/// is for NVML (two per GPU), the terminal, py-spy's pipes, and one or two folders that each source thread lists.
const RESERVE: usize = 48;
/// With fewer free descriptors than this trainmon does not work even without a GPU, a screen and py-spy.
const LEAST_DESCRIPTORS: usize = 40;
/// Most files kept open, however many descriptors are available: 43 MiB of kernel memory.
const MOST_KEPT: usize = 8192;
/// The sampler gets one in this many.
const ROUNDS_PART: usize = 3;
/// It keeps two of a thread open: `syscall` and `wchan`.
const FILES_OF_WAITS: usize = 2;
/// Room for the waits of fewer threads than this is said, even if the job has no more now.
const FEW_THREADS: usize = 8;
/// This many descriptors are enough for jobs of some hundred processes, at eight each.
const ENOUGH_DESCRIPTORS: u64 = 4096;
/// Memory that the kernel charges to the control group for a kept file of `/proc` once it has been read, bytes.
/// Measured with 2,500 files on Linux 6.18 (`memory.kmem.usage_in_bytes`): 1,406 when opened, for `proc_inode_cache`,
/// `dentry`, `filp` and `seq_file` in `/proc/slabinfo`, and a page when read, for its text (`seq_buf_alloc`,
/// fs/seq_file.c, GFP_KERNEL_ACCOUNT).
const CHARGED_BYTES: u64 = 5500;
/// Kept files may take this fraction of the memory limit of trainmon's control group: one part in eight.
const PART_OF_MEMORY: u64 = 8;

/// This process's budgets. All attached jobs share them, because they share the limit.
static BUDGETS: OnceLock<Budgets> = OnceLock::new();

fn budgets() -> &'static Budgets {
    BUDGETS.get_or_init(Budgets::of_process)
}

#[derive(Debug)]
struct Budgets {
    tick: Budget,
    rounds: Budget,
    /// The limit on descriptors binds, not the memory.
    by_limit: bool,
    /// The descriptor limit when trainmon started.
    began_with: Rlimit,
}

/// How many more files may be kept open.
#[derive(Debug)]
struct Budget {
    total: usize,
    left: AtomicUsize,
    /// Some file did not get a permit.
    scarce: AtomicBool,
}

/// What a file is kept open for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// Read once a tick.
    Tick,
    /// Read many times a second.
    Rounds,
}

/// Permission to keep one file open, returned on drop.
#[derive(Debug)]
pub struct Permit(&'static Budget);

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.left.fetch_add(1, Ordering::Relaxed);
    }
}

impl Budgets {
    /// Raises the soft limit on descriptors as far as useful, and computes the budgets. If the limit cannot be raised,
    /// fewer files are kept open.
    fn of_process() -> Self {
        let began_with = getrlimit(Resource::Nofile);
        let wanted = (MOST_KEPT + RESERVE) as u64;
        let wanted = began_with.maximum.map_or(wanted, |most| most.min(wanted));
        if began_with.current.is_some_and(|current| current < wanted) {
            let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum: began_with.maximum });
        }
        let limit = getrlimit(Resource::Nofile).current;
        // Includes inherited ones; those used to list the folder are closed again.
        let open = numbers_in(Path::new("/proc/self/fd")).count();
        let memory = CgroupReader::for_process(&Roots::default(), std::process::id()).read().memory_limit_bytes;
        let (total, by_limit) = kept(limit, open, memory);
        let rounds = total / ROUNDS_PART;
        Self { tick: Budget::new(total - rounds), rounds: Budget::new(rounds), by_limit, began_with }
    }

    fn budget(&self, purpose: Use) -> &Budget {
        match purpose {
            Use::Tick => &self.tick,
            Use::Rounds => &self.rounds,
        }
    }
}

impl Budget {
    fn new(total: usize) -> Self {
        Self { total, left: AtomicUsize::new(total), scarce: AtomicBool::new(false) }
    }

    fn permit(&'static self) -> Option<Permit> {
        let taken = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok();
        if !taken {
            self.scarce.store(true, Ordering::Relaxed);
        }
        // Not `then_some`: a permit created and dropped would return what was never taken.
        taken.then(|| Permit(self))
    }
}

/// How many files may be kept open under this descriptor limit, with `open` descriptors in use and this much memory;
/// and whether the descriptors are the tighter limit.
fn kept(limit: Option<u64>, open: usize, memory_bytes: Option<u64>) -> (usize, bool) {
    let number = |limit: u64| usize::try_from(limit).unwrap_or(usize::MAX);
    let by_memory = memory_bytes.map_or(MOST_KEPT, |bytes| number(bytes / PART_OF_MEMORY / CHARGED_BYTES));
    // The reserve includes the standard streams.
    let by_limit = limit.map_or(MOST_KEPT, |limit| number(limit).saturating_sub(RESERVE + open.saturating_sub(3)));
    (by_memory.min(by_limit).min(MOST_KEPT), by_limit < by_memory.min(MOST_KEPT))
}

/// Permission to keep one more file open; `None` once the budget is used up.
pub(crate) fn permit(purpose: Use) -> Option<Permit> {
    budgets().budget(purpose).permit()
}

/// The budget for this use, once a file did not get a permit.
pub fn scarce(purpose: Use) -> Option<usize> {
    let budget = budgets().budget(purpose);
    budget.scarce.load(Ordering::Relaxed).then_some(budget.total)
}

/// Most threads whose waits can be sampled, if the limit on descriptors leaves next to no room for them.
pub fn room_for_waits() -> Option<usize> {
    let budgets = budgets();
    let threads = budgets.rounds.total / FILES_OF_WAITS;
    (budgets.by_limit && threads < FEW_THREADS).then_some(threads)
}

/// Kernel memory taken by the kept files, bytes.
pub fn charged_bytes() -> u64 {
    let kept = |budget: &Budget| budget.total.saturating_sub(budget.left.load(Ordering::Relaxed)) as u64;
    let budgets = budgets();
    CHARGED_BYTES.saturating_mul(kept(&budgets.tick) + kept(&budgets.rounds))
}

/// Why no more files are kept open, and the command that fixes it.
pub fn reason() -> (String, Option<String>) {
    if budgets().by_limit {
        let (reason, fix) = too_few();
        return (reason, Some(fix));
    }
    ("the memory limit of trainmon's control group allows only a few open files".to_owned(), None)
}

/// Whether there are enough descriptors for everything except the job's processes; if not, why, and the command that
/// fixes it. Not everything opened in a tick can report this, and tokio panics without a descriptor for its signals.
pub fn check() -> Result<(), (String, String)> {
    budgets();
    let limit =
        getrlimit(Resource::Nofile).current.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
    let open = numbers_in(Path::new("/proc/self/fd")).count();
    // A folder that cannot be listed yields no numbers.
    if limit.saturating_sub(open) >= LEAST_DESCRIPTORS && (open > 0 || limit > RESERVE) {
        Ok(())
    } else {
        Err(too_few())
    }
}

/// The limit on open files, if it is low enough to matter, and the command that fixes it.
pub fn shortage() -> Option<(String, String)> {
    let hard = getrlimit(Resource::Nofile).maximum?;
    (hard < ENOUGH_DESCRIPTORS).then(|| {
        let (_, fix) = too_few();
        (format!("at most {hard} file descriptors (ulimit -Hn)"), fix)
    })
}

/// Says that no descriptor is free, with the command that allows more in the shell that starts trainmon. trainmon has
/// already raised the soft limit to the hard one, which only root can raise.
pub(crate) fn too_few() -> (String, String) {
    let limit = getrlimit(Resource::Nofile).current.map_or_else(String::new, |limit| format!(" (ulimit -n {limit})"));
    let wanted = (MOST_KEPT + RESERVE).next_power_of_two();
    let is_root = rustix::process::geteuid().is_root();
    let fix =
        if is_root { format!("ulimit -n {wanted}") } else { format!("sudo prlimit --pid $$ --nofile={wanted}") };
    (format!("too few file descriptors{limit}"), fix)
}

/// Gives a child program the descriptor limit that trainmon was started with: trainmon's own may be higher, and
/// programs that use select(2) fail beyond descriptor 1024.
///
/// Failing does no harm: the program then has more descriptors than it asked for, or has ended.
pub(crate) fn restore_limit(child: Pid) {
    // Nothing was raised before the first permit.
    if let Some(budgets) = BUDGETS.get() {
        let _ = prlimit(Some(child), Resource::Nofile, budgets.began_with);
    }
}

/// A file of a process, kept open if permitted, otherwise opened for each read. A read by path may hit the PID's next
/// owner, so the reader must compare the start time.
#[derive(Debug)]
pub struct ThriftyFile {
    path: PathBuf,
    kept: Option<(KeptFile, Permit)>,
}

impl ThriftyFile {
    /// Opens the file, and keeps it open if wanted and permitted. If no descriptor is free, the first read reports it.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub fn open(path: PathBuf, keep: Option<Use>) -> Result<Self, ReadFailure> {
        let kept = match KeptFile::open(&path) {
            Ok(file) => keep.and_then(permit).map(|permit| (file, permit)),
            Err(ReadFailure::Exhausted) => None,
            Err(failure) => return Err(failure),
        };
        Ok(Self { path, kept })
    }

    /// Passes the open file to `read`.
    ///
    /// # Errors
    /// Those of `read`, or of opening the file.
    pub fn with<T>(&self, read: impl FnOnce(&KeptFile) -> Result<T, ReadFailure>) -> Result<T, ReadFailure> {
        match &self.kept {
            Some((file, _)) => read(file),
            None => read(&KeptFile::open(&self.path)?),
        }
    }

    /// Keeps the file open from now on if permitted, or closes it until the next read.
    pub(crate) fn set_kept(&mut self, keep: Option<Use>) {
        let open = |permit| Some((KeptFile::open(&self.path).ok()?, permit));
        self.kept = match self.kept.take() {
            None => keep.and_then(permit).and_then(open),
            kept if keep.is_some() => kept,
            _ => None,
        };
    }

    /// Whether it is kept open.
    pub fn is_kept(&self) -> bool {
        self.kept.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reserve_stays_free() {
        for (limit, open, memory, expected) in [
            (Some(20_000), 3, None, (MOST_KEPT, false)),
            (None, 3, None, (MOST_KEPT, false)),
            (Some(1024), 3, None, (1024 - RESERVE, true)),
            (Some(1024), 103, None, (924 - RESERVE, true)),
            (Some(64), 10, None, (64 - RESERVE - 7, true)),
            (Some(32), 3, None, (0, true)),
            (Some(4096), 3, None, (4096 - RESERVE, true)),
            (Some(20_000), 3, Some(32 << 20), (762, false)),
            (Some(1024), 3, Some(1 << 40), (1024 - RESERVE, true)),
            (Some(1024), 3, Some(32 << 20), (762, false)),
        ] {
            assert_eq!(kept(limit, open, memory), expected, "{limit:?} {open} {memory:?}");
        }
    }

    #[test]
    fn permits_are_given_back() {
        let budget: &'static Budget = Box::leak(Box::new(Budget::new(1)));
        let first = budget.permit();
        assert!(first.is_some() && !budget.scarce.load(Ordering::Relaxed));
        for _ in 0..3 {
            assert!(budget.permit().is_none() && budget.scarce.load(Ordering::Relaxed));
        }
        drop(first);
        let second = budget.permit();
        assert!(second.is_some() && budget.permit().is_none());
    }

    #[test]
    fn a_program_that_we_start_has_the_limit_that_we_began_with() {
        let began_with = budgets().began_with;
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let pid = Pid::from_child(&child);
        // As if ours had been another one when it was started.
        let other = Rlimit { current: Some(99), maximum: began_with.maximum };
        prlimit(Some(pid), Resource::Nofile, other).unwrap();
        restore_limit(pid);
        let now = prlimit(Some(pid), Resource::Nofile, began_with).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(now.current, began_with.current);
    }

    #[test]
    fn a_file_that_is_not_kept_is_read_all_the_same() {
        let mut file = ThriftyFile::open("/proc/self/stat".into(), None).unwrap();
        let length = |file: &ThriftyFile| file.with(|file| file.read(&mut Vec::new()).map(<[u8]>::len)).unwrap();
        assert!(!file.is_kept() && length(&file) > 0);
        file.set_kept(Some(Use::Tick));
        assert!(file.is_kept() && length(&file) > 0);
        file.set_kept(None);
        assert!(!file.is_kept() && length(&file) > 0);
    }
}
