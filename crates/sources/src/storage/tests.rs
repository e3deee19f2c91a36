use std::fs;
use std::os::unix::fs::symlink;
use std::sync::Arc;

use super::*;
use crate::mountstats::tests::TEXT as MOUNTSTATS;
use trainmon_sample::MountKind;

const SECOND: u64 = 1_000_000_000;

#[test]
fn devices_mounts_and_nfs_counters_of_a_tree() {
    let folder = tempfile::tempdir().unwrap();
    let roots = Roots { proc: folder.path().join("proc"), sys: folder.path().join("sys") };
    let process = roots.proc.join("7");
    fs::create_dir_all(process.join("fd")).unwrap();
    fs::create_dir_all(process.join("fdinfo")).unwrap();
    fs::write(roots.proc.join("diskstats"), "   8 0 sda 1 0 8 1 0 0 0 0 0 1 1\n   8 1 sda1 1 0 8 1 0 0 0 0 0 1 1\n")
        .unwrap();
    fs::create_dir_all(roots.sys.join("class/block")).unwrap();
    fs::create_dir_all(roots.sys.join("devices/block/sda/sda1")).unwrap();
    fs::write(roots.sys.join("devices/block/sda/sda1/partition"), "1\n").unwrap();
    for (name, target) in [("sda", "block/sda"), ("sda1", "block/sda/sda1")] {
        symlink(format!("../../devices/{target}"), roots.sys.join("class/block").join(name)).unwrap();
    }
    let mountinfo =
        "40 27 0:50 / /mnt/my\\040data rw - nfs4 server:/export rw\n27 1 8:1 / / rw - ext4 /dev/sda1 rw\n";
    fs::write(process.join("mountinfo"), mountinfo).unwrap();
    fs::write(process.join("maps"), "").unwrap();
    symlink("/mnt/my data/a.tar", process.join("fd/3")).unwrap();
    symlink("/mnt/my data", process.join("fd/4")).unwrap();
    symlink("/home/u/b.bin", process.join("fd/5")).unwrap();
    fs::write(process.join("mountstats"), MOUNTSTATS).unwrap();
    let mut reader = StorageReader::new(&roots);
    for round in 1..4 {
        let sample = reader.read(SECOND * round, &[7], false).unwrap();
        let names: Vec<_> = sample.devices.iter().map(|device| (&*device.name, &*device.whole)).collect();
        assert_eq!(names, [("sda", "sda"), ("sda1", "sda")]);
        let mounts = sample.mounts.unwrap();
        assert_eq!(mounts.len(), 2);
        assert_eq!(
            (&*mounts[0].mount_point, mounts[0].kind, mounts[0].files),
            ("/mnt/my data", MountKind::Network, 2)
        );
        let nfs = (mounts[0].nfs_read_bytes, mounts[0].nfs_read_ops, mounts[0].nfs_read_rtt_ms);
        assert_eq!(nfs, (Some(500), Some(50), Some(1250)));
        assert_eq!((&*mounts[1].mount_point, mounts[1].nfs_read_ops), ("/", None));
        assert_eq!(mounts[1].disks, [Arc::from("sda")]);
    }
    fs::remove_file(process.join("mountstats")).unwrap();
}

#[test]
fn a_device_that_appears_gets_its_own_name() {
    let folder = tempfile::tempdir().unwrap();
    let roots = Roots { proc: folder.path().to_path_buf(), sys: folder.path().join("sys") };
    let mut reader = StorageReader::new(&roots);
    assert_eq!(reader.read(0, &[], false).unwrap().devices, []);
    let mut reader = StorageReader::new(&roots);
    for names in [&["sda", "sdc"][..], &["sda", "sdb", "sdc"], &["sdb"]] {
        let lines: String = names.iter().map(|name| format!("8 0 {name} 1 0 8 1 0 0 0 0 0 1 1\n")).collect();
        fs::write(roots.proc.join("diskstats"), lines).unwrap();
        let sample = reader.read(0, &[], false).unwrap();
        assert_eq!(sample.devices.iter().map(|device| &*device.name).collect::<Vec<_>>(), names);
        assert_eq!(sample.mounts, None);
    }
}

#[test]
fn this_machine() {
    let mut reader = StorageReader::new(&Roots::default());
    let sample = reader.read(SECOND, &[std::process::id()], false).unwrap();
    assert!(sample.devices.iter().all(|device| !device.name.starts_with("zram")));
    for device in &sample.devices {
        assert!(device.name.starts_with(&*device.whole) || device.whole.contains('!'), "{device:?}");
    }
}
