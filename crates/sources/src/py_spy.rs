//! Python stacks of a running process, through the external program py-spy. Blocking: run it on a thread of its own.
//!
//! Always in py-spy's non-blocking mode, which reads the target's memory and never stops it. One window is one run of
//! py-spy; costs and failures were measured for 0.3.14 to 0.4.3. Where it cannot read a process, Python 3.15 and later have a reader
//! of their own ([`own_reader`]).

pub mod child;
pub mod collapsed;
pub mod find;
mod install;
mod locals;
mod own_reader;
mod reader_program;
pub mod refusal;
mod source_lines;
mod supervisor;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

pub use own_reader::{OWN_READER, OwnReader};
pub use reader_program::Taken;
pub use refusal::Refusal;
pub use supervisor::{run_part, supervise_with};

use super::clock::monotonic_ns;
use super::process::main_tids;
use super::trusted_program::TrustedProgram;
use child::ChildEnding;
use reader_program::ReaderProgram;
use trainmon_base::trust;
use trainmon_sample::{LocalsSample, ProcessId, SourceState, StackWindow};

/// How long `--version` may take; a shell wrapper (pyenv) takes a few tenths of a second.
const VERSION_TIME: Duration = Duration::from_secs(2);
/// How much longer than its window a run may take: on an overloaded machine the start alone takes seconds.
const EXTRA_TIME: Duration = Duration::from_secs(10);
/// Bytes read of py-spy's messages.
const MESSAGES: u64 = 4096;
/// The oldest version known to support `--full-filenames` with `--nonblocking` and `--threads`.
const OLDEST: (u32, u32, u32) = (0, 3, 6);

/// The py-spy program, ready to run.
#[derive(Debug)]
pub struct PySpy {
    program: ReaderProgram,
    /// Its version (`0.4.3`).
    pub version: String,
}

/// The py-spy that would run, without running it: `wanted` (from `--py-spy`) if given, otherwise the one beside
/// trainmon or on `path` (PATH).
///
/// # Errors
/// [`SourceState::Absent`] if there is no py-spy, or none that may run.
pub fn locate(path: Option<OsString>, wanted: Option<&Path>) -> Result<PathBuf, Refusal> {
    first_of(Path::new("/proc"), None, path, wanted, trust::privileged(), |program| Ok(program.path))
}

/// The first program that may run and that `attempt` accepts; else why the very first was refused.
fn first_of<T>(
    proc_root: &Path,
    target: Option<ProcessId>,
    path: Option<OsString>,
    wanted: Option<&Path>,
    privileged: bool,
    attempt: impl Fn(TrustedProgram) -> Result<T, Refusal>,
) -> Result<T, Refusal> {
    if let Some(path) = wanted {
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
        if !find::is_program(&path) {
            let reason = format!("cannot run {}, named by --py-spy: not a program", shown(&path));
            return Err(Refusal::lasting(SourceState::Absent, reason));
        }
        // What was named by hand is the user's to install.
        let named = find::Executable { path, of_target: false };
        return find::choose(&named, privileged).and_then(attempt).map_err(Refusal::without_install);
    }
    let candidates = find::candidates(proc_root, target, path, privileged);
    let mut first = None;
    for candidate in &candidates {
        match find::choose(candidate, privileged).and_then(&attempt) {
            Ok(found) => return Ok(found),
            Err(refusal) => first = first.or(Some(refusal)),
        }
    }
    let absent = || Refusal::lasting(SourceState::Absent, "py-spy is not installed");
    Err(first.unwrap_or_else(|| absent().fixed_by(install::install_command())))
}

impl PySpy {
    /// Finds py-spy: `wanted` (from `--py-spy`) if given; otherwise beside trainmon, on PATH, beside the target's
    /// interpreter, then in `~/.local/bin`. The program found is held open and executed from then on.
    ///
    /// # Errors
    /// [`SourceState::Absent`] unless one runs, is recent enough and may run with trainmon's rights.
    pub fn find(proc_root: &Path, target: ProcessId, wanted: Option<&Path>) -> Result<Self, Refusal> {
        Self::find_as(trust::privileged(), proc_root, target, wanted)
    }

    fn find_as(
        privileged: bool,
        proc_root: &Path,
        target: ProcessId,
        wanted: Option<&Path>,
    ) -> Result<Self, Refusal> {
        let path = std::env::var_os("PATH");
        first_of(proc_root, Some(target), path, wanted, privileged, Self::try_program)
    }

    /// The program's path.
    pub fn path(&self) -> &Path {
        &self.program.program.path
    }

    fn try_program(program: TrustedProgram) -> Result<Self, Refusal> {
        let absent =
            |reason: String| Refusal::lasting(SourceState::Absent, reason).fixed_by(install::upgrade_command());
        let name = shown(&program.path);
        let never = AtomicBool::new(false);
        let ran = child::run(&program, &["--version"], VERSION_TIME, collapsed::LARGEST_STACKS as u64, &never)
            .map_err(|error| absent(format!("cannot start {name}: {error}")))?;
        match ran.ending {
            ChildEnding::Exited(status) if status.success() => {}
            ChildEnding::Exited(_) => {
                return Err(absent(format!("{name} failed: {}", refusal::said(&ran.err(MESSAGES)))));
            }
            _ => {
                let reason = format!("{name} --version took longer than {} s", VERSION_TIME.as_secs());
                return Err(Refusal::passing(SourceState::Hung, reason));
            }
        }
        let said = ran.out(MESSAGES);
        let Some((version, numbers)) = version_of(&said) else {
            return Err(absent(format!("{name} is not py-spy: it says {}", refusal::said(&said))));
        };
        if numbers < OLDEST {
            let (major, minor, patch) = OLDEST;
            return Err(absent(format!("{name} is version {version}, older than {major}.{minor}.{patch}")));
        }
        let version = version.to_owned();
        Ok(Self { version, program: ReaderProgram { program, name: find::NAME, refuse: Refusal::of_words } })
    }

    /// Samples one process for some seconds. `None` if `stop` was set meanwhile, which is noticed within about 40 ms.
    ///
    /// # Errors
    /// If there is nothing to read, access is refused, or py-spy failed or hung. Also, for good, if the process was
    /// found stopped afterwards but was running before.
    pub fn record(
        &self,
        proc_root: &Path,
        process: ProcessId,
        seconds: u32,
        rate_hz: u32,
        stop: &AtomicBool,
    ) -> Result<Option<Taken<StackWindow>>, Refusal> {
        let (seconds, rate_hz) = (seconds.max(1), rate_hz.max(1));
        let (duration, rate, pid) = (seconds.to_string(), rate_hz.to_string(), process.pid.to_string());
        let arguments = [
            "record",
            "--nonblocking",
            "--format",
            "raw",
            "--full-filenames",
            "--duration",
            &duration,
            "--rate",
            &rate,
            "--idle",
            "--threads",
            "--output",
            child::DOCUMENT,
            "--pid",
            &pid,
        ];
        self.program.window(proc_root, process, &arguments, seconds, stop)
    }

    /// Reads the whole numbers among the local variables of one process, once. `None` if `stop` was set meanwhile.
    ///
    /// # Errors
    /// Same as [`Self::record`].
    pub fn locals(
        &self,
        proc_root: &Path,
        process: ProcessId,
        stop: &AtomicBool,
    ) -> Result<Option<Taken<LocalsSample>>, Refusal> {
        let pid = process.pid.to_string();
        let arguments = ["dump", "--nonblocking", "--locals", "--json", "--pid", &pid];
        let began_ns = monotonic_ns();
        let Some(ran) = self.program.run(proc_root, process, &arguments, EXTRA_TIME, stop)? else { return Ok(None) };
        let document = ran.out(locals::LARGEST_LOCALS as u64);
        let read = locals::parse(document.as_bytes(), process, &main_tids(proc_root, process), began_ns);
        let nothing = || Refusal::passing(SourceState::Absent, "py-spy returned no variables");
        let cpu = ran.cpu;
        let what = read.ok_or_else(|| Refusal { cpu, ..nothing() })?;
        Ok(Some(Taken { what, cpu }))
    }
}

/// The version in `py-spy 0.4.3`, as text and as numbers.
fn version_of(said: &str) -> Option<(&str, (u32, u32, u32))> {
    let version = said.trim().strip_prefix("py-spy ")?.split_whitespace().next()?;
    let version = version.get(..version.len().min(32))?;
    let mut numbers = version.split(|c: char| !c.is_ascii_digit()).map_while(|number| number.parse().ok());
    Some((version, (numbers.next()?, numbers.next()?, numbers.next().unwrap_or(0))))
}

fn shown(path: &Path) -> String {
    trainmon_base::text::fit(&path.to_string_lossy(), 120)
}

#[cfg(test)]
mod tests;
