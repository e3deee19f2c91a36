//! `/proc/PID/mountstats`: what the NFS client counts for each mount (net/sunrpc/stats.c, fs/nfs/super.c; the format
//! that nfsiostat(8) reads). The counters come from the client's memory: nothing is asked of the server.
//!
//! Parsed by hand: it is read on each tick where data lies on NFS, and the procfs crate (0.18) keeps every operation's counters
//! in maps, leaves escapes in paths and wants all sections of each mount, or gives up the file.

use super::fields::{Fields, lines, number};
use super::mounts::unescape;

/// Reading from one NFS mount since it was mounted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NfsReads {
    /// Bytes read from the server, for reads of applications and read-ahead alike (fifth number of `bytes:`).
    pub bytes: Option<u64>,
    /// READ operations.
    pub ops: Option<u64>,
    /// Milliseconds of all their round trips.
    pub rtt_ms: Option<u64>,
}

/// The counters of each NFS mount in the text whose mount point is one of `points`, by its place in `points`.
pub fn nfs_reads(text: &[u8], points: &[&[u8]]) -> Vec<Option<NfsReads>> {
    let mut found: Vec<Option<NfsReads>> = vec![None; points.len()];
    let mut current: Option<usize> = None;
    for line in lines(text) {
        if line.starts_with(b"device ") {
            current = nfs_mount_point(line).and_then(|point| points.iter().position(|wanted| *wanted == point));
            if let Some(place) = current.and_then(|at| found.get_mut(at)) {
                // A mount on top of another at the same point comes later and hides it.
                *place = Some(NfsReads::default());
            }
            continue;
        }
        let Some(Some(reads)) = current.and_then(|at| found.get_mut(at)) else { continue };
        let mut fields = Fields::of(line);
        match fields.next() {
            // normal read, normal write, direct read, direct write, server read, server write, pages read, written.
            Some(b"bytes:") => reads.bytes = fields.nth(4).and_then(number),
            // ops, transmissions, timeouts, bytes sent, bytes received, queue ms, round-trip ms, execute ms, errors.
            Some(b"READ:") => {
                reads.ops = fields.number();
                reads.rtt_ms = fields.nth(5).and_then(number);
            }
            _ => {}
        }
    }
    found
}

/// `device server:/export mounted on /mnt with fstype nfs4 statvers=1.1`; blanks in paths are escaped.
fn nfs_mount_point(line: &[u8]) -> Option<Vec<u8>> {
    let mut fields = Fields::of(line).skip(2);
    (fields.next()? == b"mounted" && fields.next()? == b"on").then_some(())?;
    let point = fields.next()?;
    (fields.next()? == b"with" && fields.next()? == b"fstype" && matches!(fields.next()?, b"nfs" | b"nfs4"))
        .then(|| unescape(point))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;

    pub(in crate::sources) const TEXT: &str = "device proc mounted on /proc with fstype proc
device server:/export mounted on /mnt/my\\040data with fstype nfs4 statvers=1.1
\topts:\trw,vers=4.2,rsize=1048576
\tage:\t1234
\tevents:\t1 2 3
\tbytes:\t100 200 300 400 500 600 700 800
\tRPC iostats version: 1.1  p/v: 100003/4 (nfs)
\txprt:\ttcp 0 1 2
\tper-op statistics
\t        NULL: 1 1 0 44 24 0 0 0 0
\t        READ: 50 51 0 9000 800000 5 1250 1300 0
\t       WRITE: 7 7 0 1 1 1 1 1 0
device /dev/sda1 mounted on /other with fstype ext4
\tbytes:\t9 9 9 9 9 9 9 9
";

    #[test]
    fn reads_of_one_mount() {
        let found = nfs_reads(TEXT.as_bytes(), &[b"/other", b"/mnt/my data", b"/none"]);
        assert_eq!(found, [None, Some(NfsReads { bytes: Some(500), ops: Some(50), rtt_ms: Some(1250) }), None]);
    }

    proptest! {
        #[test]
        fn counters_round_trip(bytes: u64, ops: u64, rtt: u64) {
            let text = format!(
                "device s:/e mounted on /m with fstype nfs statvers=1.1\n\tbytes:\t1 2 3 4 {bytes} 6 7 8\n\t        READ: {ops} 1 0 2 3 4 {rtt} 5\n"
            );
            let expected = NfsReads { bytes: Some(bytes), ops: Some(ops), rtt_ms: Some(rtt) };
            prop_assert_eq!(nfs_reads(text.as_bytes(), &[b"/m"]), vec![Some(expected)]);
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes: Vec<u8>) {
            let _ = nfs_reads(&bytes, &[b"/m"]);
        }

        #[test]
        fn mangled_text_never_panics(at in 0..TEXT.len(), byte: u8) {
            let mut bytes = TEXT.as_bytes().to_vec();
            bytes[at] = byte;
            let _ = nfs_reads(&bytes, &[b"/mnt/my data"]);
        }
    }
}
