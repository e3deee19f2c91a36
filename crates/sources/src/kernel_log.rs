//! Whether the kernel's log says that it killed a process because memory ran out.
//!
//! `/dev/kmsg` gives one record a read, the oldest first (Documentation/ABI/testing/dev-kmsg). Where `kernel.dmesg_restrict`
//! is 1, reading it needs rights. Its PIDs are those of the initial PID namespace.

use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;

/// Longest record, bytes (PRINTKRB_RECORD_MAX in kernel/printk/internal.h is 1024, with escapes up to four times as long).
const RECORD: usize = 8 << 10;
/// Most records that are read: the default buffer holds some thousands.
const MOST_RECORDS: u32 = 100_000;
/// The initial PID namespace (PROC_PID_INIT_INO, include/linux/proc_ns.h).
const INITIAL_NAMESPACE: &str = "pid:[4026531836]";

/// What the kernel writes before the PID of a process that it kills (mm/oom_kill.c, `__oom_kill_process`).
const KILLED: [&[u8]; 2] = [b"Out of memory: Killed process ", b"Memory cgroup out of memory: Killed process "];

/// Whether the log says so of this process, since that moment, microseconds after boot; `None` if it cannot be read.
pub fn killed_for_memory(proc_root: &Path, pid: u32, since_us: u64) -> Option<bool> {
    let namespace = fs::read_link(proc_root.join("self/ns/pid")).ok()?;
    if namespace.to_str() != Some(INITIAL_NAMESPACE) {
        return None;
    }
    let mut log = File::options().read(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed()).open("/dev/kmsg");
    let log = log.as_mut().ok()?;
    let mut record = vec![0; RECORD];
    for _ in 0..MOST_RECORDS {
        match log.read(&mut record) {
            Ok(0) => break,
            Ok(length) => {
                if record
                    .get(..length)
                    .and_then(killed)
                    .is_some_and(|(at_us, killed)| killed == pid && at_us >= since_us)
                {
                    return Some(true);
                }
            }
            // A record that was overwritten before it was read.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            Err(_) => return None,
        }
    }
    Some(false)
}

/// When, microseconds after boot, and which process was killed, if a record (`PRIORITY,SEQUENCE,MICROSECONDS,FLAGS;MESSAGE`) says so.
/// Only the kernel's own records count: programs may write others.
fn killed(record: &[u8]) -> Option<(u64, u32)> {
    let message = record.iter().position(|byte| *byte == b';')?;
    let mut head = record.get(..message)?.split(|byte| *byte == b',');
    let mut number = || std::str::from_utf8(head.next()?).ok()?.parse::<u64>().ok();
    let (priority, at_us) = (number()?, number().and_then(|_| number())?);
    // The facility is in the bits above the level: 0 is the kernel (syslog(3)).
    if priority >= 8 {
        return None;
    }
    let text = record.get(message + 1..)?;
    let pid = KILLED.iter().find_map(|begin| text.strip_prefix(*begin))?;
    let digits = pid.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let pid = std::str::from_utf8(pid.get(..digits)?).ok()?.parse().ok()?;
    Some((at_us, pid))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_kernel_names_what_it_killed_and_programs_cannot() {
        for (record, expected) in [
            (
                "3,1200,98765432,-;Out of memory: Killed process 4242 (python) total-vm:1kB, anon-rss:1kB\n",
                Some((98_765_432, 4242)),
            ),
            ("3,1,5,-;Memory cgroup out of memory: Killed process 7 (pt_data_worker)\n KEY=x\n", Some((5, 7))),
            ("11,1,5,-;Out of memory: Killed process 7 (python)\n", None),
            ("3,1,5,-;oom_reaper: reaped process 7 (python)\n", None),
            ("3,1,5;Out of memory: Killed process x\n", None),
            ("3,1;Out of memory: Killed process 7\n", None),
            ("", None),
        ] {
            assert_eq!(killed(record.as_bytes()), expected, "{record}");
        }
    }

    #[test]
    fn in_another_namespace_nothing_is_known() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("self/ns")).unwrap();
        std::os::unix::fs::symlink("pid:[4026532000]", root.path().join("self/ns/pid")).unwrap();
        assert_eq!(killed_for_memory(root.path(), 1, 0), None);
    }

    proptest! {
        #[test]
        fn any_record_is_survived(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = killed(&bytes);
        }
    }
}
