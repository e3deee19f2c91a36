//! `/proc/PID/mountinfo` (proc(5)): which mounts exist, which one a path is on, and what kind of storage a file-system
//! type means.
//!
//! Nothing here touches a mounted file system: a server that does not answer must not hang trainmon.
//!
//! Parsed by hand: the procfs crate (0.18) leaves the kernel's escapes in paths, splits overlay options at escaped
//! commas, rejects the whole file for one odd line or one invalid UTF-8 byte, and reads without a bound.

use trainmon_sample::MountKind;

use super::fields::{Fields, lines, number};

/// Mounts kept per mountinfo; container hosts have several thousand.
const MOST_MOUNTS: usize = 16_384;

/// One line of mountinfo. Paths are raw bytes, unescaped.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Mount {
    /// Mount ID, the `mnt_id` of `/proc/PID/fdinfo/N`.
    pub id: u64,
    /// Major and minor number of the superblock (`st_dev` of its files); major 0 if there is no block device.
    pub number: (u32, u32),
    /// Folder inside the file system that is the root of this mount (bind mounts, cgroup name spaces).
    pub root: Vec<u8>,
    /// Mount point, relative to the process's root.
    pub point: Vec<u8>,
    /// Type (`ext4`, `nfs4`, `fuse.s3fs`…).
    pub fs_type: Vec<u8>,
    /// Source (`/dev/sda1`, `server:/export`).
    pub source: Vec<u8>,
    /// Options of the superblock (`rw,upperdir=…`; cgroup v1: the controllers).
    pub super_options: Vec<u8>,
}

/// Parses mountinfo, skipping malformed lines.
pub(crate) fn parse_mountinfo(text: &[u8]) -> Vec<Mount> {
    lines(text).filter_map(parse_line).take(MOST_MOUNTS).collect()
}

/// Parses `36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue`, with any number of optional
/// fields before the hyphen.
fn parse_line(line: &[u8]) -> Option<Mount> {
    let mut fields = Fields::new(line);
    let id = fields.number()?;
    fields.number::<u64>()?;
    let number = device_number(fields.next()?)?;
    let (root, point) = (unescape(fields.next()?), unescape(fields.next()?));
    fields.next()?;
    fields.find(|field| *field == b"-")?;
    let fs_type = unescape(fields.next()?);
    let source = unescape(fields.next()?);
    // A source may be empty, which leaves one field less (proc(5) mentions `none`, the kernel also allows an empty
    // string).
    let (source, super_options) = match fields.next() {
        Some(options) => (source, unescape(options)),
        None => (Vec::new(), source),
    };
    Some(Mount { id, number, root, point, fs_type, source, super_options })
}

/// `MAJOR:MINOR`.
pub(crate) fn device_number(field: &[u8]) -> Option<(u32, u32)> {
    let colon = field.iter().position(|&byte| byte == b':')?;
    let part = |bytes: Option<&[u8]>| number(bytes?);
    Some((part(field.get(..colon))?, part(field.get(colon + 1..))?))
}

/// Undoes the kernel's octal escapes of blank, tab, newline, backslash and `#` (fs/proc_namespace.c, `mangle`).
pub(crate) fn unescape(field: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&byte, after)) = rest.split_first() {
        let escaped = match rest {
            [b'\\', a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', tail @ ..] => {
                Some((((a - b'0') << 6) | ((b - b'0') << 3) | (c - b'0'), tail))
            }
            _ => None,
        };
        let (byte, after) = escaped.unwrap_or((byte, after));
        out.push(byte);
        rest = after;
    }
    out
}

/// The rest of `path` after `folder`, without the leading slash; `None` if `path` is not inside it.
pub fn below<'p>(path: &'p [u8], folder: &[u8]) -> Option<&'p [u8]> {
    let folder = folder.strip_suffix(b"/").unwrap_or(folder);
    match path.strip_prefix(folder)? {
        [] => Some(&[]),
        [b'/', rest @ ..] => Some(rest),
        _ => None,
    }
}

/// The mount that `path` is on: the longest mount point that contains it, and among several mounts at one point the
/// last, which hides the others. `number`, the kernel's device number for the file, decides between mounts if it
/// matches any (a bind mount hidden under another one; overlay and btrfs show numbers of their own).
pub(crate) fn mount_of<'m>(mounts: &'m [Mount], path: &[u8], number: Option<(u32, u32)>) -> Option<&'m Mount> {
    let longest = |wanted: &dyn Fn(&Mount) -> bool| {
        mounts
            .iter()
            .filter(|mount| wanted(mount) && below(path, &mount.point).is_some())
            .max_by_key(|mount| mount.point.len())
    };
    number.and_then(|number| longest(&|mount| mount.number == number)).or_else(|| longest(&|_| true))
}

/// The value of `key=value` among comma-separated mount options. A backslash escapes a comma inside the value
/// (overlayfs writes them so).
pub fn option<'o>(options: &'o [u8], key: &[u8]) -> Option<&'o [u8]> {
    let mut start = 0;
    let mut escaped = false;
    for (at, &byte) in options.iter().enumerate().chain(std::iter::once((options.len(), &b','))) {
        if byte == b',' && !escaped {
            let one = options.get(start..at)?;
            if let Some(value) = one.strip_prefix(key).and_then(|rest| rest.strip_prefix(b"=")) {
                return Some(value);
            }
            start = at + 1;
        }
        escaped = byte == b'\\' && !escaped;
    }
    None
}

/// File systems whose storage is on another machine (or, for 9p, virtiofs and hypervisors' shared folders, on the
/// host). Names as registered in the kernel (`register_filesystem`, or the vendor's module).
const NETWORK: &str = "\
    nfs nfs4 cifs smb3 smbfs afs coda ncpfs ceph lustre lustre_lite gpfs mmfs 9p virtiofs beegfs fhgfs pvfs2 \
    orangefs panfs wekafs glusterfs yrfs cpfs aifs pohmelfs davfs s3fs acfs vboxsf vmhgfs prl_fs dvs quobyte";

/// FUSE programs whose storage is remote: the subtype after `fuse.` (mount.fuse3(8)), or the source column for programs
/// without one (Mountpoint for Amazon S3).
const NETWORK_FUSE: &str = "\
    glusterfs s3fs sshfs gcsfuse goofys mountpoint-s3 juicefs rclone blobfuse blobfuse2 ceph ceph-fuse \
    alluxio-fuse alluxio dfuse hf3fs curvefs seaweedfs weed hdfs fuse_dfs mfs moosefs lizardfs saunafs cvmfs \
    cvmfs2 vmhgfs-fuse ossfs ossfs2 cosfs obsfs lustre quobyte";

/// Kept in memory (Documentation/filesystems/tmpfs.rst, ramfs-rootfs-initramfs.rst; hugetlbfs).
const MEMORY: &str = "tmpfs ramfs hugetlbfs devtmpfs rootfs";

/// On block devices of this machine. `zfs`, `btrfs` and `bcachefs` manage theirs themselves; `overlay` and `aufs` sit
/// on folders of another local file system unless that file system is known. `fuseblk` is ntfs-3g and the like.
const LOCAL: &str = "\
    ext2 ext3 ext4 xfs btrfs zfs bcachefs f2fs jfs reiserfs reiser4 nilfs2 ntfs ntfs3 vfat msdos exfat squashfs \
    erofs cramfs iso9660 udf minix hfs hfsplus ufs ocfs2 gfs2 fuseblk overlay aufs";

/// The kind of storage behind a type and a source column. Types missing from the tables count as local if their
/// superblock has a block device's number.
pub fn kind_of(mount: &Mount) -> MountKind {
    let fs_type = mount.fs_type.as_slice();
    let among = |table: &str, name: &[u8]| table.split_ascii_whitespace().any(|entry| entry.as_bytes() == name);
    let tables = [(LOCAL, MountKind::Local), (NETWORK, MountKind::Network), (MEMORY, MountKind::Memory)];
    if let Some((_, kind)) = tables.into_iter().find(|(table, _)| among(table, fs_type)) {
        return kind;
    }
    let program = match fs_type {
        // `JuiceFS:name`, `mountpoint-s3`.
        b"fuse" => mount.source.split(|&byte| byte == b':').next(),
        _ => fs_type.strip_prefix(b"fuse."),
    };
    match program {
        Some(program) if among(NETWORK_FUSE, &program.to_ascii_lowercase()) => MountKind::Network,
        Some(_) => MountKind::Fuse,
        None if mount.number.0 != 0 => MountKind::Local,
        None => MountKind::Other,
    }
}

/// Whether its counters are in `/proc/PID/mountstats`.
pub(crate) fn is_nfs(fs_type: &[u8]) -> bool {
    matches!(fs_type, b"nfs" | b"nfs4")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TEXT: &str = r"22 27 0:21 / /proc rw,relatime - proc proc rw
27 1 259:2 / / rw,relatime shared:1 - ext4 /dev/nvme0n1p2 rw,discard
40 27 0:50 / /mnt/my\040data rw,relatime shared:9 master:2 - nfs4 server:/export\040one rw,vers=4.2
41 27 259:9 /sub /data rw - xfs /dev/nvme1n1p1 rw
42 41 259:7 / /data rw - xfs /dev/nvme2n1 rw
43 27 0:60 / /empty rw - tmpfs  rw
garbage
";

    #[test]
    fn lines_of_mountinfo() {
        let mounts = parse_mountinfo(TEXT.as_bytes());
        assert_eq!(mounts.len(), 6);
        assert_eq!(mounts[2].point, b"/mnt/my data");
        assert_eq!(mounts[2].source, b"server:/export one");
        assert_eq!(mounts[2].number, (0, 50));
        assert_eq!((mounts[5].source.as_slice(), mounts[5].super_options.as_slice()), (&b""[..], &b"rw"[..]));
    }

    #[test]
    fn the_longest_and_last_mount_wins() {
        let mounts = parse_mountinfo(TEXT.as_bytes());
        let id = |path: &str, number| mount_of(&mounts, path.as_bytes(), number).unwrap().id;
        assert_eq!(id("/data/a", None), 42);
        assert_eq!(id("/data/a", Some((259, 9))), 41);
        assert_eq!(id("/data/a", Some((0, 99))), 42);
        assert_eq!(id("/database/a", None), 27);
        assert_eq!(id("/mnt/my data/x", None), 40);
        assert_eq!(id("/", None), 27);
    }

    #[test]
    fn kinds_by_type_and_source() {
        let kind = |fs_type: &str, source: &str, major| {
            kind_of(&Mount { fs_type: fs_type.into(), source: source.into(), number: (major, 1), ..Mount::default() })
        };
        assert_eq!(kind("ext4", "/dev/sda1", 8), MountKind::Local);
        assert_eq!(kind("btrfs", "/dev/sda1", 0), MountKind::Local);
        assert_eq!(kind("nfs4", "server:/x", 0), MountKind::Network);
        assert_eq!(kind("lustre", "10.0.0.1@tcp:/fs", 0), MountKind::Network);
        assert_eq!(kind("fuse.glusterfs", "server:/v", 0), MountKind::Network);
        assert_eq!(kind("fuse.juicefs", "JuiceFS:x", 0), MountKind::Network);
        assert_eq!(kind("fuse", "mountpoint-s3", 0), MountKind::Network);
        assert_eq!(kind("fuse.squashfuse", "image.sif", 0), MountKind::Fuse);
        assert_eq!(kind("fuseblk", "/dev/sdb1", 8), MountKind::Local);
        assert_eq!(kind("tmpfs", "tmpfs", 0), MountKind::Memory);
        assert_eq!(kind("madeup", "x", 0), MountKind::Other);
        assert_eq!(kind("madeup", "/dev/x", 9), MountKind::Local);
    }

    #[test]
    fn options_with_escaped_commas() {
        let options = br"rw,lowerdir=/a\,b:/c,upperdir=/u";
        assert_eq!(option(options, b"lowerdir"), Some(&br"/a\,b:/c"[..]));
        assert_eq!(option(options, b"upperdir"), Some(&b"/u"[..]));
        assert_eq!(option(options, b"workdir"), None);
    }

    fn escape(path: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        for &byte in path {
            if matches!(byte, b' ' | b'\t' | b'\n' | b'\\' | b'#') {
                out.extend(format!("\\{byte:03o}").bytes());
            } else {
                out.push(byte);
            }
        }
        out
    }

    proptest! {
        #[test]
        fn paths_round_trip(path in proptest::collection::vec(1_u8.., 1..40)) {
            prop_assert_eq!(unescape(&escape(&path)), path);
        }

        #[test]
        fn mounts_round_trip(
            id in 0..u64::MAX, major: u32, minor: u32, path in proptest::collection::vec(1_u8.., 1..40),
            optional in proptest::collection::vec("(shared|master):[0-9]{1,3}", 0..3),
        ) {
            let point = [b"/".as_slice(), &path].concat();
            let mut line = format!("{id} 1 {major}:{minor} / ").into_bytes();
            line.extend(escape(&point));
            line.extend(format!(" rw {} - ext4 /dev/x rw\n", optional.join(" ")).bytes());
            let mounts = parse_mountinfo(&line);
            prop_assert_eq!(mounts.len(), 1);
            prop_assert_eq!(&mounts[0].point, &point);
            prop_assert_eq!((mounts[0].id, mounts[0].number), (id, (major, minor)));
            prop_assert!(mount_of(&mounts, &[point.as_slice(), b"/file"].concat(), None).is_some());
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes: Vec<u8>, key: Vec<u8>) {
            let _ = (parse_mountinfo(&bytes), unescape(&bytes), option(&bytes, &key), below(&bytes, &key));
        }

        #[test]
        fn mangled_lines_never_panic(at in 0..TEXT.len(), byte: u8) {
            let mut bytes = TEXT.as_bytes().to_vec();
            bytes[at] = byte;
            for mount in parse_mountinfo(&bytes) {
                let _ = kind_of(&mount);
            }
        }
    }
}
