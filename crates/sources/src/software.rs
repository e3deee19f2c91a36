//! Which Python and which torch a process runs, by the names of its files and by two small files beside them. Nothing of it is
//! executed.
//!
//! The files may lie on a file system that hangs, so this is no work for a thread that something waits for.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::fields::{lines, text};
use super::files::{KeptFile, READ_LIMIT, read_once};
use super::maps::mapping;
use trainmon_sample::Software;

/// More than any of these files needs to name its version.
const VERSION_FILE_MOST: usize = 4 << 10;
/// Longest version kept, bytes.
const LONGEST_VERSION: usize = 48;

/// What the process runs on, as far as it can be read.
pub fn read(proc_root: &Path, pid: u32) -> Software {
    let folder = proc_root.join(pid.to_string());
    let maps = read_once(folder.join("maps"), READ_LIMIT).unwrap_or_default();
    let mapped = || lines(&maps).filter_map(mapping).map(|mapping| Path::new(OsStr::from_bytes(mapping.file)));
    let executable = std::fs::read_link(folder.join("exe")).ok();
    let root = folder.join("root");
    let python = executable.iter().map(PathBuf::as_path).chain(mapped()).find_map(|path| {
        let minor = python_of(path)?;
        Some((release(&root, path, minor).unwrap_or_else(|| minor.to_owned())).into())
    });
    let torch = mapped().find_map(torch_folder).and_then(|torch| {
        let version = read_in(&root, &torch.join("version.py"))?;
        version_after(&version, b"__version__ =")
    });
    Software { python, torch: torch.map(|version| version.as_str().into()) }
}

/// `3.11` of an executable `python3.11` or a library `libpython3.11.so.1.0`.
pub(super) fn python_of(path: &Path) -> Option<&str> {
    let name = path.file_name()?.to_str()?;
    let version = name.strip_prefix("lib").unwrap_or(name).strip_prefix("python")?;
    let minor = version.strip_prefix("3.")?;
    let digits = minor.find(|c: char| !c.is_ascii_digit()).unwrap_or(minor.len());
    (digits > 0).then(|| version.get(..digits + 2)).flatten()
}

/// `3.11.2`, from the header that is installed beside the interpreter (`PREFIX/bin`, `PREFIX/lib`), if it is.
fn release(root: &Path, path: &Path, minor: &str) -> Option<String> {
    let prefix = path.parent()?.parent()?;
    let header = read_in(root, &prefix.join(format!("include/python{minor}/patchlevel.h")))?;
    version_after(&header, b"#define PY_VERSION ").filter(|release| release.starts_with(minor))
}

/// The package of a mapped `torch/lib/libtorch….so`.
fn torch_folder(path: &Path) -> Option<&Path> {
    let is_torch = path.file_name()?.as_bytes().starts_with(b"libtorch");
    let package = path.parent().filter(|lib| is_torch && lib.ends_with("torch/lib"))?;
    package.parent()
}

/// The begin of a file of the process, by its path in the process's own root.
fn read_in(root: &Path, path: &Path) -> Option<Vec<u8>> {
    let file = KeptFile::open_regular(root.join(path.strip_prefix("/").ok()?)).ok()?;
    let mut buffer = Vec::new();
    Some(file.read_up_to(&mut buffer, VERSION_FILE_MOST).ok()?.to_vec())
}

/// The quoted version in the line that begins so.
fn version_after(file: &[u8], begin: &[u8]) -> Option<String> {
    let line = lines(file).find_map(|line| line.strip_prefix(begin))?;
    let mut parts = line.split(|byte| matches!(byte, b'"' | b'\''));
    let version = text(parts.nth(1)?);
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '+' | '-' | '_');
    let is_version = version.len() <= LONGEST_VERSION
        && version.starts_with(|c: char| c.is_ascii_digit())
        && version.chars().all(plain);
    is_version.then(|| version.to_string())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use proptest::prelude::*;

    use super::*;

    /// A process whose root holds these files, with this executable and these mapped files.
    fn process(executable: &str, mapped: &[&str], files: &[(&str, &str)]) -> (tempfile::TempDir, Software) {
        let proc_root = tempfile::tempdir().unwrap();
        let folder = proc_root.path().join("7");
        fs::create_dir_all(folder.join("root")).unwrap();
        symlink(executable, folder.join("exe")).unwrap();
        let maps: String = mapped.iter().map(|path| format!("1000-2000 r-xp 0 08:01 5    {path}\n")).collect();
        fs::write(folder.join("maps"), maps).unwrap();
        for (path, content) in files {
            let path = folder.join("root").join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        let software = read(proc_root.path(), 7);
        (proc_root, software)
    }

    fn versions(software: &Software) -> (Option<&str>, Option<&str>) {
        (software.python.as_deref(), software.torch.as_deref())
    }

    const TORCH: &str = "/v/lib/python3.12/site-packages/torch/lib/libtorch_cpu.so";
    const VERSION: (&str, &str) = (
        "v/lib/python3.12/site-packages/torch/version.py",
        "from typing import Optional\n\n__all__ = ['__version__', 'cuda']\n__version__ = '2.6.0+cu124'\ncuda = '12.4'\n",
    );

    #[test]
    fn versions_are_read_beside_the_mapped_files() {
        let header = ("usr/include/python3.12/patchlevel.h", "/* 3.9 */\n#define PY_VERSION      \t\"3.12.4+\"\n");
        let (_folder, software) = process("/usr/bin/python3.12", &["[heap]", TORCH], &[VERSION, header]);
        assert_eq!(versions(&software), (Some("3.12.4+"), Some("2.6.0+cu124")));
    }

    #[test]
    fn without_those_files_the_names_say_less() {
        let library = "/opt/lib/libpython3.11.so.1.0";
        let (_folder, software) = process("/opt/app", &["/a/libtorch_cpu.so", library, TORCH], &[]);
        assert_eq!(versions(&software), (Some("3.11"), None));
        // The header of another version does not count, nor does one that says something else.
        for said in ["#define PY_VERSION \"3.12.1\"\n", "#define PY_VERSION 3\n", "#define PY_VERSION \"3.11.<b>\"\n"]
        {
            let (_folder, software) =
                process("/opt/app", &[library], &[("opt/include/python3.11/patchlevel.h", said)]);
            assert_eq!(versions(&software), (Some("3.11"), None), "{said}");
        }
        let (_folder, software) = process("/usr/bin/pythonista", &["/usr/bin/python", "/x/python3.so"], &[]);
        assert!(software.is_unknown());
        assert!(read(Path::new("/nonexistent"), 7).is_unknown());
    }

    #[test]
    fn a_pipe_or_an_endless_file_in_place_of_a_version_does_no_harm() {
        let (folder, _) = process("/usr/bin/python3.12", &[TORCH], &[VERSION]);
        let file = folder.path().join("7/root").join(VERSION.0);
        fs::remove_file(&file).unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, &file, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
        assert_eq!(versions(&read(folder.path(), 7)), (Some("3.12"), None));
        fs::remove_file(&file).unwrap();
        symlink("/dev/zero", &file).unwrap();
        assert_eq!(versions(&read(folder.path(), 7)), (Some("3.12"), None));
        fs::remove_file(&file).unwrap();
        fs::write(&file, "#".repeat(1 << 20) + "\n" + VERSION.1).unwrap();
        assert_eq!(versions(&read(folder.path(), 7)), (Some("3.12"), None));
    }

    proptest! {
        #[test]
        fn any_content_is_survived(content in proptest::collection::vec(any::<u8>(), 0..200), version in ".{0,60}") {
            let _ = version_after(&content, b"__version__ =");
            let said = version_after(format!("__version__ = '{version}'\n").as_bytes(), b"__version__ =");
            prop_assert!(said.is_none_or(|said| said.len() <= LONGEST_VERSION && version.starts_with(&said)));
        }
    }
}
