use std::os::unix::fs::symlink;

use proptest::prelude::*;

use super::*;

/// A sysfs with nvme0n1 (p1, p2), sda (1), sdb (1), md0 over both partitions of the latter, dm-0 (`vg-lv`) over md0,
/// and loop0 over a file.
fn sysfs() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let sys = folder.path();
    let device = |path: &str, number: &str| {
        let full = sys.join("devices").join(path);
        fs::create_dir_all(full.join("slaves")).unwrap();
        let name = path.rsplit('/').next().unwrap();
        fs::write(full.join("dev"), format!("{number}\n")).unwrap();
        fs::create_dir_all(sys.join("class/block")).unwrap();
        fs::create_dir_all(sys.join("dev/block")).unwrap();
        symlink(format!("../../devices/{path}"), sys.join("class/block").join(name)).unwrap();
        symlink(format!("../../devices/{path}"), sys.join("dev/block").join(number)).unwrap();
        full
    };
    device("pci/block/nvme0n1", "259:0");
    for (name, number) in [("nvme0n1p1", "259:1"), ("nvme0n1p2", "259:2")] {
        fs::write(device(&format!("pci/block/nvme0n1/{name}"), number).join("partition"), "1\n").unwrap();
    }
    for (disk, minor) in [("sda", 0), ("sdb", 16)] {
        device(&format!("pci/block/{disk}"), &format!("8:{minor}"));
        let partition = device(&format!("pci/block/{disk}/{disk}1"), &format!("8:{}", minor + 1));
        fs::write(partition.join("partition"), "1\n").unwrap();
    }
    let md = device("virtual/block/md0", "9:0");
    for member in ["sda1", "sdb1"] {
        symlink(format!("../../../../class/block/{member}"), md.join("slaves").join(member)).unwrap();
    }
    let dm = device("virtual/block/dm-0", "253:0");
    symlink("../../md0", dm.join("slaves/md0")).unwrap();
    fs::create_dir(dm.join("dm")).unwrap();
    fs::write(dm.join("dm/name"), "vg-lv\n").unwrap();
    let image = device("virtual/block/loop0", "7:0");
    fs::create_dir(image.join("loop")).unwrap();
    fs::write(image.join("loop/backing_file"), "/share/image.sif\n").unwrap();
    fs::create_dir_all(sys.join("fs/btrfs/uuid-1/devices")).unwrap();
    for member in ["sda", "sdb"] {
        symlink(format!("../../../../class/block/{member}"), sys.join("fs/btrfs/uuid-1/devices").join(member))
            .unwrap();
    }
    folder
}

fn mount(fs_type: &str, number: (u32, u32), point: &str, source: &str, options: &str) -> Mount {
    Mount {
        id: u64::from(number.0) * 1000 + u64::from(number.1),
        number,
        root: b"/".to_vec(),
        point: point.into(),
        fs_type: fs_type.into(),
        source: source.into(),
        super_options: options.into(),
    }
}

fn own() -> Vec<Mount> {
    vec![
        mount("ext4", (259, 2), "/", "/dev/nvme0n1p2", "rw"),
        mount("xfs", (253, 0), "/var/lib/docker", "/dev/mapper/vg-lv", "rw"),
        mount("nfs4", (0, 50), "/share", "server:/share", "rw"),
    ]
}

fn under(mount: &Mount) -> (MountKind, Vec<String>) {
    let sys = sysfs();
    let (kind, disks) = Topology::new(sys.path()).under(mount, &own());
    (kind, disks.iter().map(ToString::to_string).collect())
}

fn local(disks: &[&str]) -> (MountKind, Vec<String>) {
    (MountKind::Local, disks.iter().map(ToString::to_string).collect())
}

#[test]
fn partitions_belong_to_their_disk() {
    let sys = sysfs();
    let mut topology = Topology::new(sys.path());
    for _ in 0..2 {
        assert_eq!(&*topology.names(b"nvme0n1p2").1, "nvme0n1");
        assert_eq!(&*topology.names(b"nvme0n1").1, "nvme0n1");
        assert_eq!(&*topology.names(b"unheard-of").1, "unheard-of");
    }
}

#[test]
fn mounts_are_followed_down_to_whole_disks() {
    assert_eq!(under(&mount("ext4", (259, 2), "/", "/dev/root", "rw")), local(&["nvme0n1"]));
    assert_eq!(under(&mount("xfs", (253, 0), "/d", "/dev/mapper/vg-lv", "rw")), local(&["sda", "sdb"]));
    // The number of a device that sysfs does not show (another container): the source's name helps.
    assert_eq!(under(&mount("xfs", (0, 77), "/d", "/dev/mapper/vg-lv", "rw")), local(&["sda", "sdb"]));
    assert_eq!(under(&mount("btrfs", (0, 40), "/d", "/dev/sdb", "rw")), local(&["sda", "sdb"]));
    assert_eq!(under(&mount("bcachefs", (0, 41), "/d", "/dev/sda1:/dev/sdb1", "rw")), local(&["sda", "sdb"]));
    assert_eq!(under(&mount("zfs", (0, 42), "/d", "tank/data", "rw")), local(&[]));
    assert_eq!(under(&mount("nfs4", (0, 50), "/d", "s:/e", "rw")), (MountKind::Network, vec![]));
    assert_eq!(under(&mount("tmpfs", (0, 51), "/d", "tmpfs", "rw")), (MountKind::Memory, vec![]));
}

#[test]
fn overlays_lie_where_their_layers_lie() {
    let docker = "rw,lowerdir=/var/lib/docker/overlay2/l/A:/var/lib/docker/overlay2/l/B,upperdir=/var/lib/docker/overlay2/x/diff";
    assert_eq!(under(&mount("overlay", (0, 60), "/", "overlay", docker)), local(&["sda", "sdb"]));
    let shared = "rw,lowerdir=/share/images/a,upperdir=/tmp/u";
    let (kind, disks) = under(&mount("overlay", (0, 60), "/", "overlay", shared));
    assert_eq!((kind, disks), (MountKind::Network, vec!["nvme0n1".to_owned()]));
    // Seen from inside the container: the layers' folders are on the overlay itself as far as we can tell.
    let inside = vec![mount("overlay", (0, 60), "/", "overlay", docker)];
    let sys = sysfs();
    assert_eq!(Topology::new(sys.path()).under(&inside[0], &inside), (MountKind::Local, vec![]));
}

#[test]
fn an_image_on_a_share_is_network_storage() {
    assert_eq!(under(&mount("squashfs", (7, 0), "/", "/dev/loop0", "ro")), (MountKind::Network, vec![]));
}

#[test]
fn circles_end() {
    let sys = sysfs();
    let slaves = sys.path().join("devices/virtual/block/md0/slaves");
    symlink("../../dm-0", slaves.join("dm-0")).unwrap();
    let (kind, disks) = Topology::new(sys.path()).under(&mount("xfs", (253, 0), "/d", "x", "rw"), &own());
    assert_eq!((kind, disks.len()), (MountKind::Local, 2));
}

#[test]
fn diskstats_without_idle_and_memory_devices() {
    let text = b"   7       0 loop0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0
 259       0 nvme0n1 23529 5197 7204466 27951 12185 89414 32736616 168098 3 16692 199443 24903 35 9640592 3386 126 6
 253       0 zram0 5 0 5 5 0 0 0 0 0 5 5
   8       1 sda1 1 2 3 4
";
    let found: Vec<_> = disk_lines(text).collect();
    assert_eq!(found.len(), 1);
    let device = device(&found[0], ("nvme0n1".into(), "nvme0n1".into()));
    assert_eq!((device.number, device.reads, device.read_sectors, device.read_ms), ((259, 0), 23529, 7204466, 27951));
    assert_eq!((device.writes, device.written_sectors, device.write_ms), (12185, 32736616, 168098));
    assert_eq!((device.busy_ms, device.weighted_ms), (16692, 199443));
}

proptest! {
    #[test]
    fn diskstats_round_trip(major in 0_u32..1 << 12, minor in 0_u32..1 << 20, name in "[a-z]{3}[0-9]{0,2}!?[a-z0-9]", counters: [u64; 11]) {
        prop_assume!(counters.iter().any(|&c| c != 0) && !name.starts_with("ram"));
        let columns = counters.map(|c| c.to_string()).join(" ");
        let text = format!("{major:4} {minor:7} {name} {columns} 1 2 3 4\n");
        let found: Vec<_> = disk_lines(text.as_bytes()).collect();
        prop_assert_eq!(found.len(), 1);
        prop_assert_eq!((found[0].name.as_str(), found[0].merged, found[0].writes_merged), (&*name, counters[1], counters[5]));
        let seen = device(&found[0], ("".into(), "".into()));
        let [reads, _, read_sectors, read_ms, writes, _, written_sectors, write_ms, _, busy_ms, weighted_ms] = counters;
        let expected = BlockDevice { number: (major, minor), reads, read_sectors, read_ms, writes, written_sectors, write_ms,
            busy_ms, weighted_ms, ..BlockDevice::default() };
        prop_assert_eq!(seen, expected);
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes: Vec<u8>, source: Vec<u8>) {
        prop_assert!(disk_lines(&bytes).count() <= MOST_BLOCK_DEVICES);
        let mut topology = Topology::new(Path::new("/nowhere"));
        let mut odd = mount("overlay", (0, 1), "/", "x", "rw");
        odd.super_options = bytes;
        odd.source = source.clone();
        let _ = topology.under(&odd, &own());
        odd.fs_type = b"btrfs".to_vec();
        let _ = topology.under(&odd, &own());
        let _ = topology.names(&source);
    }
}
