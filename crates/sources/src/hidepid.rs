//! The mount option of `/proc` that hides other users' processes (proc(5)).

use std::path::Path;

use super::files::{READ_LIMIT, read_once};
use super::mounts::{self, parse_mountinfo};

/// The option of the `/proc` mounted at `proc_root`, or at `/proc` if nothing is mounted there: `hidepid=2`, or
/// `hidepid=invisible` (since Linux 5.8). `None` if nothing is hidden.
pub fn option(proc_root: &Path) -> Option<String> {
    let text = read_once(proc_root.join("self/mountinfo"), READ_LIMIT).ok()?;
    let mounts = parse_mountinfo(&text);
    // The last mount at a point is on top.
    let at = |point: &[u8]| mounts.iter().rfind(|mount| mount.point == point);
    let mount = at(proc_root.as_os_str().as_encoded_bytes()).or_else(|| at(b"/proc"))?;
    let value = mounts::option(&mount.super_options, b"hidepid").filter(|value| !matches!(*value, b"0" | b"off"))?;
    Some(format!("hidepid={}", String::from_utf8_lossy(value)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_topmost_mount_of_proc_counts() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("self")).unwrap();
        let of = |options: &[&str]| {
            let at = root.path().display();
            let line = |option: &&str| format!("22 28 0:21 / {at} rw,nosuid shared:12 - proc proc rw{option}\n");
            let other = "23 28 0:22 / /elsewhere rw - proc proc rw,hidepid=2\n".to_owned();
            let lines: String = options.iter().map(line).chain([other]).collect();
            std::fs::write(root.path().join("self/mountinfo"), lines).unwrap();
            option(root.path())
        };
        assert_eq!(of(&[""]), None);
        assert_eq!(of(&[",hidepid=0"]), None);
        assert_eq!(of(&[",hidepid=off"]), None);
        assert_eq!(of(&[",gid=30,hidepid=invisible"]).as_deref(), Some("hidepid=invisible"));
        assert_eq!(of(&["", ",hidepid=2"]).as_deref(), Some("hidepid=2"));
        assert_eq!(of(&[",hidepid=2", ""]), None);
        assert_eq!(option(Path::new("/nowhere")), None);
    }
}
