//! Block devices: `/proc/diskstats`, and from sysfs the whole disks below a partition, a device-mapper, md or loop
//! device, or a mounted file system.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use procfs::DiskStat;

use trainmon_sample::{BlockDevice, MountKind};

use super::fields::{lines, text};
use super::files::read_once;
use super::mounts::{Mount, device_number, kind_of, mount_of, option};

/// Lines of diskstats read, far more than any known machine has.
const MOST_BLOCK_DEVICES: usize = 4096;
/// How deep stacks of device-mapper, md and loop devices are followed.
const MOST_STACKED: u32 = 8;
/// Whole disks listed for one mount.
const MOST_DISKS: usize = 64;

/// The block devices in diskstats that have seen I/O. Memory-backed ones (`ram`, `zram`) are skipped: they are not
/// disks, whatever their counters say.
pub(crate) fn disk_lines(text: &[u8]) -> impl Iterator<Item = DiskStat> {
    let moved = |disk: &DiskStat| {
        (disk.reads | disk.merged | disk.sectors_read | disk.time_reading) != 0
            || (disk.writes | disk.writes_merged | disk.sectors_written | disk.time_writing) != 0
            || (disk.in_progress | disk.time_in_progress | disk.weighted_time_in_progress) != 0
    };
    let is_memory = |disk: &DiskStat| {
        let digits = ["ram", "zram"].iter().find_map(|kind| disk.name.strip_prefix(kind));
        digits.is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_digit()))
    };
    // Line by line, so that one odd line does not cost the others.
    lines(text)
        .filter_map(|line| DiskStat::from_line(std::str::from_utf8(line).ok()?).ok())
        .filter(move |disk| moved(disk) && !is_memory(disk))
        .take(MOST_BLOCK_DEVICES)
}

/// Turns a diskstats line and its names into the sample's form.
pub fn device(disk: &DiskStat, (name, whole): Names) -> BlockDevice {
    BlockDevice {
        name,
        number: (disk.major.cast_unsigned(), disk.minor.cast_unsigned()),
        whole,
        reads: disk.reads,
        read_sectors: disk.sectors_read,
        read_ms: disk.time_reading,
        writes: disk.writes,
        written_sectors: disk.sectors_written,
        write_ms: disk.time_writing,
        busy_ms: disk.time_in_progress,
        weighted_ms: disk.weighted_time_in_progress,
    }
}

/// A block device's own name, and the name of the whole disk it belongs to (its own name for a whole disk).
pub type Names = (Arc<str>, Arc<str>);

/// What sysfs says about block devices. Answers are cached: block devices rarely change on a running machine.
#[derive(Debug, Default)]
pub struct Topology {
    sys: PathBuf,
    names: HashMap<Vec<u8>, Names>,
}

impl Topology {
    /// Reads below this mount point of sysfs.
    pub fn new(sys: &Path) -> Self {
        Self { sys: sys.to_path_buf(), names: HashMap::new() }
    }

    /// The names of a block device.
    pub fn names(&mut self, name: &[u8]) -> Names {
        if let Some(known) = self.names.get(name) {
            return known.clone();
        }
        let device = text(name);
        let whole = self.parent(name).map_or_else(|| Arc::clone(&device), |parent| text(&parent));
        if self.names.len() >= MOST_BLOCK_DEVICES {
            self.names.clear();
        }
        self.names.insert(name.to_vec(), (Arc::clone(&device), Arc::clone(&whole)));
        (device, whole)
    }

    fn class(&self, name: &[u8]) -> PathBuf {
        self.sys.join("class/block").join(OsStr::from_bytes(&sysfs_name(name)))
    }

    /// The disk of a partition: sysfs puts the partition's folder inside its disk's folder.
    fn parent(&self, name: &[u8]) -> Option<Vec<u8>> {
        let class = self.class(name);
        class.join("partition").symlink_metadata().ok()?;
        let link = fs::read_link(class).ok()?;
        let parent = link.parent()?.file_name()?.as_bytes();
        (!parent.is_empty()).then(|| kernel_name(parent))
    }

    /// The kernel's name for a device number.
    fn name_of(&self, number: (u32, u32)) -> Option<Vec<u8>> {
        let link = fs::read_link(self.sys.join(format!("dev/block/{}:{}", number.0, number.1))).ok()?;
        Some(kernel_name(link.file_name()?.as_bytes()))
    }

    /// The disks and the kind of storage under a mount. `own` is trainmon's own mountinfo, which resolves folders named
    /// by container runtimes and loop devices.
    pub fn under(&mut self, mount: &Mount, own: &[Mount]) -> (MountKind, Vec<Arc<str>>) {
        let mut descent = Descent { topology: self, own, disks: Vec::new() };
        let kind = descent.mount(mount, MOST_STACKED);
        (kind, descent.disks)
    }

    fn number_of(&self, name: &[u8]) -> Option<(u32, u32)> {
        device_number(read_once(self.class(name).join("dev"), 64).ok()?.trim_ascii())
    }

    /// All block devices of the btrfs file system that contains `name` (`/sys/fs/btrfs/UUID/devices`).
    fn btrfs_members(&self, name: &[u8]) -> Vec<Vec<u8>> {
        let folder = self.sys.join("fs/btrfs");
        names_in(&folder)
            .into_iter()
            .map(|uuid| names_in(&folder.join(OsStr::from_bytes(&uuid)).join("devices")))
            .find(|members| members.iter().any(|member| member == name))
            .unwrap_or_else(|| vec![name.to_vec()])
    }
}

/// The way down from a mount to the disks under it.
struct Descent<'a> {
    topology: &'a mut Topology,
    own: &'a [Mount],
    disks: Vec<Arc<str>>,
}

impl Descent<'_> {
    fn mount(&mut self, mount: &Mount, depth: u32) -> MountKind {
        let kind = kind_of(mount);
        let (Some(depth), MountKind::Local) = (depth.checked_sub(1), kind) else { return kind };
        let Topology { sys, .. } = &*self.topology;
        let names = match mount.fs_type.as_slice() {
            b"overlay" => return self.overlay(mount, depth),
            // The kernel does not list a pool's devices in any file.
            b"zfs" => return kind,
            b"btrfs" => {
                device_name(&mount.source, sys).map(|name| self.topology.btrfs_members(&name)).unwrap_or_default()
            }
            _ => {
                let by_number = if mount.number.0 == 0 { None } else { self.topology.name_of(mount.number) };
                by_number.map_or_else(|| device_names(&mount.source, sys), |name| vec![name])
            }
        };
        self.devices(&names, depth)
    }

    fn devices(&mut self, names: &[Vec<u8>], depth: u32) -> MountKind {
        names.iter().take(MOST_DISKS).fold(MountKind::Local, |kind, name| match self.device(name, depth) {
            MountKind::Local => kind,
            other => other,
        })
    }

    /// Adds the whole disks under a block device.
    fn device(&mut self, name: &[u8], depth: u32) -> MountKind {
        let Some(depth) = depth.checked_sub(1) else { return MountKind::Local };
        let (_, whole) = self.topology.names(name);
        if whole.as_bytes() != name {
            return self.device(whole.as_bytes(), depth);
        }
        let class = self.topology.class(name);
        let slaves = names_in(&class.join("slaves"));
        if !slaves.is_empty() {
            return self.devices(&slaves, depth);
        }
        // A loop device sits on its file's file system: container images on a shared file system are common.
        if let Ok(file) = read_once(class.join("loop/backing_file"), 8192)
            && let Some(below) = mount_of(self.own, file.trim_ascii_end(), None)
            && below.number != self.topology.number_of(name).unwrap_or_default()
        {
            return self.mount(below, depth);
        }
        if self.disks.len() < MOST_DISKS && !self.disks.contains(&whole) {
            self.disks.push(whole);
        }
        MountKind::Local
    }

    /// An overlay names its folders as its mounter saw them. If trainmon shares that view (trainmon on the host, the
    /// job in a container), the mounts under them are known; from inside the container we only know that it is the
    /// node's storage.
    fn overlay(&mut self, mount: &Mount, depth: u32) -> MountKind {
        let options = &mount.super_options;
        let lower = option(options, b"lowerdir").unwrap_or_default().split(|&byte| byte == b':');
        let folders = option(options, b"upperdir").into_iter().chain(lower).filter(|folder| folder.starts_with(b"/"));
        let mut kind = MountKind::Local;
        let mut seen: Vec<u64> = Vec::new();
        for folder in folders.take(MOST_DISKS) {
            let Some(below) = mount_of(self.own, folder, None) else { continue };
            if below.fs_type == b"overlay" || seen.contains(&below.id) {
                continue;
            }
            seen.push(below.id);
            let under = self.mount(below, depth);
            // With a writable layer in memory over an image on a shared file system, the slower one decides.
            if matches!(under, MountKind::Network | MountKind::Fuse) {
                kind = under;
            }
        }
        kind
    }
}

/// bcachefs lists its block devices in the source: `/dev/sda:/dev/sdb`.
fn device_names(source: &[u8], sys: &Path) -> Vec<Vec<u8>> {
    source.split(|&byte| byte == b':').filter_map(|one| device_name(one, sys)).take(MOST_DISKS).collect()
}

/// The kernel's name for `/dev/NAME`; `/dev/mapper/NAME` is looked up by its device-mapper name in sysfs.
fn device_name(source: &[u8], sys: &Path) -> Option<Vec<u8>> {
    let name = source.strip_prefix(b"/dev/")?;
    if let Some(mapped) = name.strip_prefix(b"mapper/") {
        let class = sys.join("class/block");
        return names_in(&class).into_iter().filter(|name| name.starts_with(b"dm-")).find(|name| {
            let path = class.join(OsStr::from_bytes(name)).join("dm/name");
            read_once(path, 512).is_ok_and(|found| found.trim_ascii() == mapped)
        });
    }
    (!name.is_empty()).then(|| name.to_vec())
}

/// sysfs writes `!` for a `/` in a device name (`cciss/c0d0`).
fn sysfs_name(name: &[u8]) -> Vec<u8> {
    name.iter().map(|&byte| if byte == b'/' { b'!' } else { byte }).collect()
}

fn kernel_name(name: &[u8]) -> Vec<u8> {
    name.iter().map(|&byte| if byte == b'!' { b'/' } else { byte }).collect()
}

fn names_in(folder: &Path) -> Vec<Vec<u8>> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut names: Vec<Vec<u8>> =
        entries.flatten().take(MOST_BLOCK_DEVICES).map(|entry| kernel_name(entry.file_name().as_bytes())).collect();
    names.sort_unstable();
    names
}

#[cfg(test)]
mod tests;
