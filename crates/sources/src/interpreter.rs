//! The interpreter of a Python process, as far as its file's name tells, and whether it may be run from here: what reads or asks a
//! process often must have the version of it.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::fields::lines;
use super::files::{READ_LIMIT, read_once};
use super::maps::mapping;
use super::namespaces;
use super::software::python_of;
use super::trusted_program::{TrustedProgram, is_binary};
use trainmon_base::text::fit;
use trainmon_base::trust::{self, Untrusted};

/// What the kernel adds to the path of a file that is gone.
const DELETED: &str = " (deleted)";
/// Names the interpreter, and so the library, of a virtual environment.
const VENV: &str = "pyvenv.cfg";
/// Longest path shown, terminal cells.
const WIDTH: usize = 160;

/// A process's interpreter.
#[derive(Debug)]
pub struct Interpreter {
    /// Its path as the process sees it, without the kernel's remark about a file that is gone.
    pub path: PathBuf,
    /// Whether its file was replaced since the process started.
    pub is_gone: bool,
    /// `python3.14t`, or that of the library that holds the interpreter.
    version: String,
    /// The process's folder below `/proc`.
    folder: PathBuf,
}

/// Why an interpreter must not be run from here.
#[derive(Debug, thiserror::Error)]
pub enum NotRun {
    /// Its file is another one by now, or no program.
    #[error("{} was replaced since the job started", fit(&.0.to_string_lossy(), WIDTH))]
    Replaced(PathBuf),
    /// Another user may have written it.
    #[error("{0}, so it is not run")]
    Untrusted(Untrusted),
    /// It imports from a library that cannot be checked.
    #[error("{} has no library of its own beside it, so it is not run with more rights", fit(&.0.to_string_lossy(), WIDTH))]
    Elsewhere(PathBuf),
}

impl Interpreter {
    /// The one that a process runs; `None` if it is no Python.
    pub fn find(proc_root: &Path, pid: u32) -> Option<Self> {
        let folder = proc_root.join(pid.to_string());
        let path = fs::read_link(folder.join("exe")).ok()?;
        let bytes = path.as_os_str().as_bytes();
        let kept = bytes.strip_suffix(DELETED.as_bytes());
        let path = PathBuf::from(OsStr::from_bytes(kept.unwrap_or(bytes)));
        let is_gone = kept.is_some();
        let name = path.file_name()?.to_string_lossy().into_owned();
        if !name.starts_with("python") {
            return None;
        }
        let version = if python_of(&path).is_some() { name } else { library(&folder).unwrap_or(name) };
        Some(Self { path, is_gone, version, folder })
    }

    /// Its minor version: 14 of `python3.14t`.
    pub fn minor(&self) -> Option<u32> {
        python_of(Path::new(&self.version))?.strip_prefix("3.")?.parse().ok()
    }

    /// Whether it was built without a GIL: `python3.14t`, Ubuntu's `python3.13-nogil`, `libpython3.14t.so`.
    pub fn is_free_threaded(&self) -> bool {
        let after = self
            .version
            .strip_prefix("python3.")
            .unwrap_or_default()
            .trim_start_matches(|c: char| c.is_ascii_digit());
        after.starts_with('t') || after.starts_with("-nogil")
    }

    /// Whether its process sees the files and the processes that are seen here.
    pub fn sees_the_same(&self, proc_root: &Path) -> bool {
        let namespace = |kind| namespaces::is_same(proc_root, &self.folder, kind) == Some(true);
        let roots = (fs::metadata("/"), fs::metadata(self.folder.join("root")));
        let same_root =
            matches!(roots, (Ok(ours), Ok(theirs)) if (ours.dev(), ours.ino()) == (theirs.dev(), theirs.ino()));
        namespace("mnt") && namespace("pid") && same_root
    }

    /// Opens it to be run: for another user's process, and by root, only where no other user can have written it.
    ///
    /// # Errors
    /// Why not.
    pub fn open(&self) -> Result<TrustedProgram, NotRun> {
        let replaced = |_: io::Error| NotRun::Replaced(self.path.clone());
        let is_ours =
            fs::metadata(&self.folder).is_ok_and(|folder| folder.uid() == rustix::process::geteuid().as_raw());
        let is_free = is_ours && !trust::privileged();
        let file = if is_free { File::open(&self.path).map_err(replaced)? } else { self.trusted()? };
        let theirs = fs::metadata(self.folder.join("exe")).map_err(replaced)?;
        let ours = file.metadata().map_err(replaced)?;
        if (theirs.dev(), theirs.ino()) != (ours.dev(), ours.ino()) || !is_binary(&file) {
            return Err(NotRun::Replaced(self.path.clone()));
        }
        Ok(TrustedProgram { path: self.path.clone(), held: Some(file.into()), clean: true })
    }

    /// The same where others may have written it: the interpreter, and the library that it imports from. By Python's own search
    /// (`Modules/getpath.py`) that is the one beside it, if that has the landmarks and no `pyvenv.cfg` names another.
    fn trusted(&self) -> Result<File, NotRun> {
        let file = trust::open(&self.path).map_err(NotRun::Untrusted)?;
        let elsewhere = || NotRun::Elsewhere(self.path.clone());
        let folder = self.path.parent().ok_or_else(elsewhere)?;
        let prefix = folder.parent().ok_or_else(elsewhere)?;
        if folder.join(VENV).exists() || prefix.join(VENV).exists() {
            return Err(elsewhere());
        }
        let minor = self.minor().ok_or_else(elsewhere)?;
        let version = format!("python3.{minor}{}", if self.is_free_threaded() { "t" } else { "" });
        let libraries = ["lib", "lib64"].map(|name| prefix.join(name).join(&version));
        let has = |landmark: &str| libraries.iter().find(|library| library.join(landmark).exists());
        let pure = has("os.py").ok_or_else(elsewhere)?;
        let binary = has("lib-dynload").ok_or_else(elsewhere)?;
        trust::open(&pure.join("os.py")).map_err(NotRun::Untrusted)?;
        trust::folder(&binary.join("lib-dynload")).map_err(NotRun::Untrusted)?;
        Ok(file)
    }
}

/// `python3.14t.so.1.0` of a mapped `libpython3.14t.so.1.0`.
fn library(folder: &Path) -> Option<String> {
    let maps = read_once(folder.join("maps"), READ_LIMIT).ok()?;
    lines(&maps).filter_map(mapping).find_map(|mapping| {
        let path = Path::new(OsStr::from_bytes(mapping.file));
        python_of(path)?;
        path.file_name()?.to_str()?.strip_prefix("lib").map(str::to_owned)
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// A process with this program and these mapped files.
    fn of(program: &str, mapped: &[&str]) -> Option<(Option<u32>, bool, bool)> {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("7");
        fs::create_dir(&folder).unwrap();
        symlink(program, folder.join("exe")).unwrap();
        let maps: String = mapped.iter().map(|path| format!("1000-2000 r-xp 0 08:01 5    {path}\n")).collect();
        fs::write(folder.join("maps"), maps).unwrap();
        Interpreter::find(root.path(), 7).map(|python| (python.minor(), python.is_free_threaded(), python.is_gone))
    }

    #[test]
    fn the_name_tells_the_version_and_the_build() {
        for (program, mapped, expected) in [
            ("/usr/bin/python3.14", &[][..], Some((Some(14), false, false))),
            ("/opt/env/bin/python3.14t", &[], Some((Some(14), true, false))),
            ("/usr/bin/python3.13-nogil", &[], Some((Some(13), true, false))),
            ("/usr/bin/python3.15d", &[], Some((Some(15), false, false))),
            ("/usr/bin/python3.14 (deleted)", &[], Some((Some(14), false, true))),
            ("/conda/bin/python3", &["[heap]", "/conda/lib/libpython3.15t.so.1.0"], Some((Some(15), true, false))),
            ("/conda/bin/python", &["/conda/lib/libpython3.so"], Some((None, false, false))),
            ("/usr/bin/perl", &["/usr/lib/libpython3.15.so.1.0"], None),
        ] {
            assert_eq!(of(program, mapped), expected, "{program}");
        }
    }

    #[test]
    fn a_process_that_is_gone_has_none() {
        assert!(Interpreter::find(Path::new("/nonexistent"), 7).is_none());
    }
}
