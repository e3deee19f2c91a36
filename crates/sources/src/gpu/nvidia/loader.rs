//! Where the dynamic loader would find a library by name, so that the file can be checked first (`ld.so(8)`): the
//! folders of `LD_LIBRARY_PATH`, the cache that `ldconfig` writes, and the default folders.

use std::env;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::files::read_once;

/// The loader's cache.
const CACHE: &str = "/etc/ld.so.cache";
/// Caches of workstations with everything installed have about 300 KB.
const CACHE_MOST: usize = 8 << 20;
/// Folders that are always searched.
const FOLDERS: [&str; 5] = ["/lib64", "/usr/lib64", "/lib", "/usr/lib", "/usr/local/lib"];
/// Folders below which Debian's loader and Ubuntu's search first, in one that is called after the CPU: `/lib/aarch64-linux-gnu`.
const FOLDERS_BY_CPU: [&str; 2] = ["/lib", "/usr/lib"];

/// Paths where the loader would look for a library, in its order, whether or not they exist: those from the
/// environment, and those of the system.
pub(super) fn places(name: &Path) -> (Vec<PathBuf>, Vec<PathBuf>) {
    let named = env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let cache = read_once(CACHE, CACHE_MOST).unwrap_or_default();
    let folders = FOLDERS.iter().map(|folder| Path::new(folder).join(name));
    let cpu = format!("{}-linux-gnu", env::consts::ARCH);
    let of_cpu = FOLDERS_BY_CPU.iter().map(|folder| Path::new(folder).join(&cpu).join(name));
    let of_system = in_cache(&cache, name.as_os_str().as_bytes()).chain(of_cpu).chain(folders);
    (in_folders(&named, name).collect(), of_system.collect())
}

/// The library's path in each folder of a list like `LD_LIBRARY_PATH`; an empty entry is the current folder.
fn in_folders<'a>(list: &'a OsStr, name: &'a Path) -> impl Iterator<Item = PathBuf> + 'a {
    // An empty list has no entry, not an empty one.
    let list = if list.is_empty() { None } else { Some(list.as_bytes()) };
    let folders = list.into_iter().flat_map(|list| list.split(|&byte| byte == b':' || byte == b';'));
    folders.map(move |folder| {
        Path::new(if folder.is_empty() { OsStr::new(".") } else { OsStr::from_bytes(folder) }).join(name)
    })
}

/// The paths of a library among the strings of a cache; they are absolute and end in NUL. Some may be for another
/// architecture, which only the file shows.
fn in_cache<'a>(cache: &'a [u8], name: &'a [u8]) -> impl Iterator<Item = PathBuf> + 'a {
    cache.split(|&byte| byte == 0).filter_map(move |text| {
        let folder = text.strip_suffix(name)?.strip_suffix(b"/")?;
        // The first string follows the table, whose bytes may be anything but end somewhere before a slash.
        let begin = folder.iter().rposition(|byte| !(b' '..=b'~').contains(byte)).map_or(0, |at| at + 1);
        let path = text.get(begin..)?;
        path.starts_with(b"/").then(|| PathBuf::from(OsStr::from_bytes(path)))
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn folders_of_a_list_in_their_order() {
        let found: Vec<_> = in_folders(OsStr::new("/a::/b/c"), Path::new("x.so")).collect();
        assert_eq!(found, ["/a/x.so", "./x.so", "/b/c/x.so"].map(PathBuf::from));
        assert_eq!(in_folders(OsStr::new(""), Path::new("x.so")).count(), 0);
    }

    #[test]
    fn paths_of_a_cache() {
        let cache = b"glibc-ld.so.cache1.1\x03\0\0\x01/usr/lib/libx.so.1\0libx.so.1\0/usr/lib32/libx.so.1\0/lib/mylibx.so.1\0";
        let found: Vec<_> = in_cache(cache, b"libx.so.1").collect();
        assert_eq!(found, ["/usr/lib/libx.so.1", "/usr/lib32/libx.so.1"].map(PathBuf::from));
    }

    #[test]
    fn what_the_loader_has_loaded_here_is_found() {
        let (_, found) = places(Path::new("libc.so.6"));
        assert!(found.iter().any(|path| path.exists()), "{found:?}");
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_cache(cache in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = in_cache(&cache, b"x").count();
        }
    }
}
