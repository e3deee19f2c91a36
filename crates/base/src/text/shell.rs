//! Commands that a person can paste into a shell as they are.

use std::env;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Folders in which sudo finds a program on every distribution. Red Hat's `secure_path` has no `/usr/local`, and none has a
/// virtual environment or a home directory.
const FOUND_BY_SUDO: [&str; 4] = ["/usr/sbin", "/usr/bin", "/sbin", "/bin"];

/// What Linux adds to the path of a running program whose file was replaced.
const REPLACED: &str = " (deleted)";

/// This program under sudo with these arguments: `sudo trainmon --pid 7`, with its full path where sudo would not find it.
pub fn sudo_command(args: &str) -> String {
    format!("sudo {} {args}", own_name(env::current_exe().ok().as_deref()))
}

/// What sudo knows the program in this file by.
fn own_name(file: Option<&Path>) -> String {
    let name = || "trainmon".to_owned();
    let Some(text) = file.and_then(Path::to_str) else { return name() };
    let file = Path::new(text.strip_suffix(REPLACED).unwrap_or(text));
    let finds = |folder: &&str| Path::new(folder).join("trainmon").canonicalize().is_ok_and(|found| found == file);
    if FOUND_BY_SUDO.iter().any(finds) { name() } else { shell_word(file) }
}

/// A path as one word of a shell command.
pub fn shell_word(path: &Path) -> String {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"/._-+,:@%=".contains(byte);
    let bytes = path.as_os_str().as_bytes();
    let text = path.to_string_lossy();
    if !bytes.is_empty() && bytes.iter().all(plain) {
        text.into_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_words_of_a_shell() {
        assert_eq!(shell_word(Path::new("/opt/py-spy/bin")), "/opt/py-spy/bin");
        assert_eq!(shell_word(Path::new("/it's mine/$x")), r"'/it'\''s mine/$x'");
    }

    #[test]
    fn sudo_gets_a_full_path_where_it_would_not_find_the_program() {
        assert_eq!(own_name(None), "trainmon");
        assert_eq!(own_name(Some(Path::new("/home/me/venv/bin/trainmon"))), "/home/me/venv/bin/trainmon");
        assert_eq!(own_name(Some(Path::new("/home/my files/trainmon (deleted)"))), "'/home/my files/trainmon'");
        assert!(sudo_command("--pid 7").starts_with("sudo /"), "a test is in no folder of sudo's");
    }
}
