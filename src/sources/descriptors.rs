//! How many files of `/proc` may stay open, and what is done with those beyond that.
//!
//! A kept descriptor makes a read three times as cheap, but descriptors are limited (`ulimit -n`), and the kernel charges the
//! memory behind each to our control group. So a kept file needs a [`Permit`]. A file without one is opened for each read.
//! There is a budget for what is read once a tick and one for what is read in each round of the sampler, so that neither leaves
//! nothing to the other.
//! What does not belong to the job's processes (host, control group, storage, log, NVML, py-spy, terminal) is not counted: for
//! these [`RESERVE`] descriptors stay free.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit, setrlimit};

use super::Roots;
use super::cgroup::CgroupReader;
use super::files::{KeptFile, ReadFailure, numbers_in};

/// Descriptors that stay free for everything besides the job's processes. Without NVML and the screen 25 are in use; the rest is
/// for NVML (two per GPU), the terminal, py-spy's pipes, and one or two folders that each source thread lists.
const RESERVE: usize = 48;
/// Fewer free descriptors than this do not even do without a GPU, a screen and py-spy.
const LEAST_DESCRIPTORS: usize = 40;
/// Most files that are kept open, however many descriptors there are: 43 MiB of kernel memory.
const MOST_KEPT: usize = 8192;
/// One in so many of them is for the sampler.
const ROUNDS_PART: usize = 3;
/// So many descriptors are enough for jobs of some hundred processes, which take eight each.
const ENOUGH_DESCRIPTORS: u64 = 4096;
/// Memory that the kernel charges to the control group for a kept file of `/proc` that has been read, bytes. Measured with 2,500
/// files on Linux 6.18 (`memory.kmem.usage_in_bytes`): 1,406 once it is open, for `proc_inode_cache`, `dentry`, `filp` and
/// `seq_file` of `/proc/slabinfo`, and a page once it is read, for its text (`seq_buf_alloc`, fs/seq_file.c, GFP_KERNEL_ACCOUNT).
const CHARGED_BYTES: u64 = 5500;
/// Kept files may take this part of the memory limit of our own control group.
const PART_OF_MEMORY: u64 = 8;

/// Those of this process. All attached jobs share them, as they share the limit.
static BUDGETS: OnceLock<Budgets> = OnceLock::new();

fn budgets() -> &'static Budgets {
    BUDGETS.get_or_init(Budgets::of_process)
}

#[derive(Debug)]
struct Budgets {
    tick: Budget,
    rounds: Budget,
    /// The descriptors are what there are too few of, not the memory.
    by_limit: bool,
    /// Limit on descriptors when the program began.
    began_with: Rlimit,
}

/// How many more files may be kept open.
#[derive(Debug)]
struct Budget {
    total: usize,
    left: AtomicUsize,
    /// A file did not get a permit.
    scarce: AtomicBool,
}

/// What a file is kept open for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// It is read once a tick.
    Tick,
    /// It is read many times a second.
    Rounds,
}

/// Leave to keep one file open, given back when dropped.
#[derive(Debug)]
pub struct Permit(&'static Budget);

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.left.fetch_add(1, Ordering::Relaxed);
    }
}

impl Budgets {
    /// Raises the soft limit on descriptors as far as it is of use, and counts what there is. A limit that cannot be raised leaves
    /// fewer kept files.
    fn of_process() -> Self {
        let began_with = getrlimit(Resource::Nofile);
        let wanted = (MOST_KEPT + RESERVE) as u64;
        let wanted = began_with.maximum.map_or(wanted, |most| most.min(wanted));
        if began_with.current.is_some_and(|current| current < wanted) {
            let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum: began_with.maximum });
        }
        let limit = getrlimit(Resource::Nofile).current;
        // Inherited ones included; those for listing the folder are gone again.
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
        // Not `then_some`: a permit that is made and dropped gives back what was never taken.
        taken.then(|| Permit(self))
    }
}

/// How many files may be kept with so many descriptors, of which `open` are in use, and so much memory; and whether the
/// descriptors are what limits it.
fn kept(limit: Option<u64>, open: usize, memory_bytes: Option<u64>) -> (usize, bool) {
    let number = |limit: u64| usize::try_from(limit).unwrap_or(usize::MAX);
    let by_memory = memory_bytes.map_or(MOST_KEPT, |bytes| number(bytes / PART_OF_MEMORY / CHARGED_BYTES));
    // The standard streams are in the reserve.
    let by_limit = limit.map_or(MOST_KEPT, |limit| number(limit).saturating_sub(RESERVE + open.saturating_sub(3)));
    (by_memory.min(by_limit).min(MOST_KEPT), by_limit < by_memory.min(MOST_KEPT))
}

/// Leave to keep one more file open; `None` where there are enough.
pub fn permit(purpose: Use) -> Option<Permit> {
    budgets().budget(purpose).permit()
}

/// How many files may be kept open for this, once one did not get a permit.
pub fn scarce(purpose: Use) -> Option<usize> {
    let budget = budgets().budget(purpose);
    budget.scarce.load(Ordering::Relaxed).then_some(budget.total)
}

/// Memory of the kernel that the kept files take, bytes.
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
    ("the memory limit of trainmon's own control group leaves room for few open files".to_owned(), None)
}

/// Whether there are enough descriptors for everything besides the job's processes; if not, why, and the command that fixes it.
/// Not all that is opened each tick can say so, and tokio panics where it finds none for its signals.
pub fn check() -> Result<(), (String, String)> {
    budgets();
    let limit =
        getrlimit(Resource::Nofile).current.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
    let open = numbers_in(Path::new("/proc/self/fd")).count();
    // A folder that cannot be listed has no numbers.
    if limit.saturating_sub(open) >= LEAST_DESCRIPTORS && (open > 0 || limit > RESERVE) {
        Ok(())
    } else {
        Err(too_few())
    }
}

/// What limits the number of open files so that it may be felt, and the command that fixes it.
pub fn shortage() -> Option<(String, String)> {
    let hard = getrlimit(Resource::Nofile).maximum?;
    (hard < ENOUGH_DESCRIPTORS).then(|| {
        let (_, fix) = too_few();
        (format!("at most {hard} file descriptors (ulimit -Hn)"), fix)
    })
}

/// That no descriptor is free, and the command that allows more in the shell that trainmon is started from. The soft limit has
/// been raised to the hard one already, which only root can raise.
pub fn too_few() -> (String, String) {
    let limit = getrlimit(Resource::Nofile).current.map_or_else(String::new, |limit| format!(" (ulimit -n {limit})"));
    let wanted = (MOST_KEPT + RESERVE).next_power_of_two();
    let is_root = rustix::process::geteuid().is_root();
    let fix =
        if is_root { format!("ulimit -n {wanted}") } else { format!("sudo prlimit --pid $$ --nofile={wanted}") };
    (format!("too few file descriptors{limit}"), fix)
}

/// Gives a program that we have started the limit on descriptors that we were started with: ours may be higher, and programs
/// that use select(2) end at descriptor 1024.
///
/// Failing does no harm: the program then has more descriptors than it asked for, or has ended.
pub fn restore_limit(child: Pid) {
    // Before the first permit nothing has been raised.
    if let Some(budgets) = BUDGETS.get() {
        let _ = prlimit(Some(child), Resource::Nofile, budgets.began_with);
    }
}

/// A file of a process that is kept open where that is permitted, and opened for each read otherwise. Reads by path may hit the
/// next owner of a PID: whoever reads has to compare the start time.
#[derive(Debug)]
pub struct ThriftyFile {
    path: PathBuf,
    kept: Option<(KeptFile, Permit)>,
}

impl ThriftyFile {
    /// Opens the file, and keeps it open where that is wanted and permitted. Whether it can be opened without a free
    /// descriptor is found out by the first read.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn open(path: PathBuf, keep: Option<Use>) -> Result<Self, ReadFailure> {
        let kept = match KeptFile::open(&path) {
            Ok(file) => keep.and_then(permit).map(|permit| (file, permit)),
            Err(ReadFailure::Exhausted) => None,
            Err(failure) => return Err(failure),
        };
        Ok(Self { path, kept })
    }

    /// Hands the open file to `read`.
    ///
    /// # Errors
    /// Those of `read`, or of opening the file.
    pub fn with<T>(&self, read: impl FnOnce(&KeptFile) -> Result<T, ReadFailure>) -> Result<T, ReadFailure> {
        match &self.kept {
            Some((file, _)) => read(file),
            None => read(&KeptFile::open(&self.path)?),
        }
    }

    /// Keeps the file open from now on where that is permitted, or closes it until it is read.
    pub fn set_kept(&mut self, keep: Option<Use>) {
        let open = |permit| Some((KeptFile::open(&self.path).ok()?, permit));
        self.kept = match self.kept.take() {
            None => keep.and_then(permit).and_then(open),
            kept => kept.filter(|_| keep.is_some()),
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
