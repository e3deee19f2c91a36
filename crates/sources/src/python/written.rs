//! What a native loop writes down while it runs: CatBoost's has no Python that counts, but it adds a line to a file for each tree.

use std::path::Path;

use crate::fields::{keyed_number, lines, number};
use crate::files::{KeptFile, numbers_in, read_once};

/// The code that runs the loop, and the file that it writes, unless its user asks for none (`allow_writing_files=False`).
pub(super) const CODE: &str = "catboost/core.py";
pub(super) const TIME_LEFT: &str = "time_left.tsv";
/// Most descriptors looked at, and the length of a few lines, bytes.
const DESCRIPTORS: usize = 1024;
const FEW_LINES: u64 = 256;

/// The number that begins the last whole line of the file that the process has open: the trees before the newest one.
pub(super) fn last_number(proc_root: &Path, pid: u32) -> Option<i64> {
    let folder = proc_root.join(pid.to_string());
    let (descriptor, path) = numbers_in(&folder.join("fd")).take(DESCRIPTORS).find_map(|descriptor| {
        let path = std::fs::read_link(folder.join(format!("fd/{descriptor}"))).ok()?;
        (path.file_name()? == TIME_LEFT).then_some((descriptor, path))
    })?;
    let info = read_once(folder.join(format!("fdinfo/{descriptor}")), 4096).ok()?;
    let written = keyed_number(&info, b"pos:")?;
    let file = KeptFile::open_regular(folder.join("root").join(path.strip_prefix("/").ok()?)).ok()?;
    let mut room = [0; FEW_LINES as usize];
    let count = file.read_at(&mut room, written.saturating_sub(FEW_LINES)).ok()?;
    let end = room.get(..count)?.iter().rposition(|&byte| byte == b'\n')?;
    let last = lines(room.get(..end)?).last()?;
    number(last.split(|&byte| byte == b'\t').next()?)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_last_whole_line_counts() {
        let folder = tempfile::tempdir().unwrap();
        let last = |text: &str| {
            let process = folder.path().join("7");
            fs::create_dir_all(process.join("fd")).unwrap();
            fs::create_dir_all(process.join("fdinfo")).unwrap();
            let at = format!("{}/{TIME_LEFT}", folder.path().display());
            fs::write(&at, text).unwrap();
            fs::write(process.join("fdinfo/5"), format!("pos:\t{}\nflags:\t0100001\n", text.len())).unwrap();
            let _ = std::os::unix::fs::symlink("/", process.join("root"));
            let _ = std::os::unix::fs::symlink(&at, process.join("fd/5"));
            last_number(folder.path(), 7)
        };
        assert_eq!(last("iter\tPassed\tRemaining\n0\t54\t109\n1\t99\t99\n"), Some(1));
        assert_eq!(last("iter\tPassed\tRemaining\n0\t54\t109\n1\t9"), Some(0), "half a line");
        assert_eq!(last("iter\tPassed\tRemaining\n"), None);
        assert_eq!(last(""), None);
        assert_eq!(last(&"1\t2\n".repeat(1000)), Some(1));
        assert_eq!(last(&"1".repeat(1000)), None);
        assert_eq!(last_number(folder.path(), 8), None, "no such process");
    }
}
