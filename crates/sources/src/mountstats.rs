//! `/proc/PID/mountstats`: the NFS client's counters for each mount (net/sunrpc/stats.c, fs/nfs/super.c; the format
//! that nfsiostat(8) reads). They come from the client's memory: the server is not asked.

use std::os::unix::ffi::OsStrExt;

use procfs::FromBufRead;
use procfs::process::{MountStat, MountStats};

use super::mounts::{is_nfs, unescape};

/// Reads from one NFS mount since it was mounted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NfsReads {
    /// Bytes read from the server, for reads of applications and read-ahead alike (fifth number of `bytes:`).
    pub bytes: Option<u64>,
    /// READ operations.
    pub ops: Option<u64>,
    /// Total round-trip time of all of them, milliseconds.
    pub rtt_ms: Option<u64>,
}

/// The counters of each NFS mount, with its mount point. Among mounts at one point the last hides the others.
pub(crate) fn nfs_reads(text: &[u8]) -> Vec<(String, NfsReads)> {
    // Lossy: a path that is not UTF-8 must not stop the reading.
    let mounts = MountStats::from_buf_read(String::from_utf8_lossy(text).as_bytes());
    let reads = |mount: MountStat| {
        let point = unescape(mount.mount_point.as_os_str().as_bytes());
        let counted = if is_nfs(mount.fs.as_bytes()) { mount.statistics? } else { return None };
        let read = counted.per_op_stats.get("READ");
        let reads = NfsReads {
            bytes: Some(counted.bytes.server_read),
            ops: read.map(|read| read.operations),
            rtt_ms: read.and_then(|read| u64::try_from(read.cum_resp_time.as_millis()).ok()),
        };
        Some((String::from_utf8_lossy(&point).into_owned(), reads))
    };
    mounts.into_iter().flatten().filter_map(reads).collect()
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;

    pub(crate) const TEXT: &str = "device proc mounted on /proc with fstype proc
device server:/export mounted on /mnt/my\\040data with fstype nfs4 statvers=1.1
\topts:\trw,vers=4.2,rsize=1048576
\tage:\t1234
\tcaps:\tcaps=0x3ffdf,wtmult=512,dtsize=32768,bsize=0,namlen=255
\tsec:\tflavor=1,pseudoflavor=1
\tevents:\t1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27
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
        let reads = NfsReads { bytes: Some(500), ops: Some(50), rtt_ms: Some(1250) };
        assert_eq!(nfs_reads(TEXT.as_bytes()), [("/mnt/my data".to_owned(), reads)]);
    }

    proptest! {
        #[test]
        fn counters_round_trip(bytes: u64, ops: u64, rtt: u64) {
            let text = TEXT
                .replace("400 500 600", &format!("400 {bytes} 600"))
                .replace("READ: 50 51 0 9000 800000 5 1250", &format!("READ: {ops} 51 0 9000 800000 5 {rtt}"));
            let expected = NfsReads { bytes: Some(bytes), ops: Some(ops), rtt_ms: Some(rtt) };
            prop_assert_eq!(nfs_reads(text.as_bytes()), [("/mnt/my data".to_owned(), expected)]);
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes: Vec<u8>) {
            let _ = nfs_reads(&bytes);
        }

        #[test]
        fn mangled_text_never_panics(at in 0..TEXT.len(), byte: u8) {
            let mut bytes = TEXT.as_bytes().to_vec();
            bytes[at] = byte;
            let _ = nfs_reads(&bytes);
        }
    }
}
