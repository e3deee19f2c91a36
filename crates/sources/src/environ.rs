//! The environment that a process was started with: the content of `/proc/PID/environ`.

/// The value of a variable. Of several the first counts, as for getenv(3) and for Python (`convertenviron` in
/// Modules/posixmodule.c).
pub fn variable<'a>(environ: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let value = |entry: &'a [u8]| entry.strip_prefix(name.as_bytes())?.strip_prefix(b"=");
    environ.split(|&byte| byte == 0).find_map(value)
}
