//! Where a process's cgroups are in the file system: `/proc/PID/cgroup` joined with mountinfo (cgroups(7)).
//!
//! Both files show paths relative to the reader's own cgroup namespace. Inside a container a group may therefore read
//! as `/`, or as `/../…` if it belongs to another container. trainmon tries the mounts it sees itself, then those of
//! the process through `/proc/PID/root`, where the process's own container has its groups mounted. A group found in
//! neither stays unknown: showing another container's limits would be worse than showing none.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::Roots;
use crate::fields::lines;
use crate::files::{READ_LIMIT, read_once};
use crate::mounts::{Mount, below, parse_mountinfo};

/// Deeper groups are ignored; container platforms nest about ten levels.
const MOST_DEPTH: usize = 64;

/// The hierarchy of one controller, seen from the process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Hierarchy {
    /// The unified hierarchy.
    pub(super) v2: bool,
    /// Path from `/proc/PID/cgroup`.
    pub(super) path: Vec<u8>,
    /// The group's folder and its ancestors' folders up to the mount, the group's first. Never empty.
    pub(super) folders: Vec<PathBuf>,
}

/// The hierarchies that limit a job.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Hierarchies {
    pub(super) cpu: Option<Hierarchy>,
    pub(super) memory: Option<Hierarchy>,
    pub(super) io: Option<Hierarchy>,
    /// v1's freezer and the unified hierarchy: both can freeze.
    pub(super) freezers: [Option<Hierarchy>; 2],
    /// `v1` or `v2` by what is mounted; `hybrid` where both are mounted and some controllers still belong to v1.
    pub(super) version: Option<Arc<str>>,
}

impl Hierarchies {
    /// Whether no hierarchy was found.
    pub(super) fn is_empty(&self) -> bool {
        self.cpu.is_none() && self.memory.is_none() && self.io.is_none()
    }
}

/// The empty list of v1 controllers in the unified hierarchy's line.
const UNIFIED: &str = "";

/// Finds the groups of a process whose `/proc/PID/cgroup` is `membership`.
pub(super) fn find(roots: &Roots, pid: u32, membership: &[u8]) -> Hierarchies {
    let process = roots.proc.join(pid.to_string());
    let own = View::read(&roots.proc.join("self/mountinfo"), PathBuf::from("/"));
    let theirs = View::read(&process.join("mountinfo"), process.join("root"));
    let views = [own, theirs];
    let mounted = |v2: bool| views.iter().flat_map(|view| &view.mounts).any(|mount| is_hierarchy(mount, v2));
    let place = |v1_name: &str| views.iter().find_map(|view| view.place(membership, v1_name));
    let version = match (mounted(false), mounted(true)) {
        (true, true) => Some("hybrid"),
        (true, false) => Some("v1"),
        (false, true) => Some("v2"),
        (false, false) => None,
    };
    Hierarchies {
        cpu: place("cpu"),
        memory: place("memory"),
        io: place("blkio"),
        freezers: [place("freezer").filter(|found| !found.v2), place(UNIFIED)],
        version: version.map(Into::into),
    }
}

/// Whether this is a unified mount, or a v1 mount of a controller that can limit a job (systemd's own named hierarchy
/// cannot).
fn is_hierarchy(mount: &Mount, v2: bool) -> bool {
    if v2 {
        return mount.fs_type == b"cgroup2";
    }
    mount.fs_type == b"cgroup" && ["cpu", "memory", "blkio"].iter().any(|name| has_controller(mount, name))
}

fn has_controller(mount: &Mount, name: &str) -> bool {
    mount.super_options.split(|&byte| byte == b',').any(|option| option == name.as_bytes())
}

/// The mounts that a process sees, and the folder through which trainmon reaches them.
struct View {
    mounts: Vec<Mount>,
    root: PathBuf,
}

impl View {
    fn read(path: &Path, root: PathBuf) -> Self {
        let mut mounts = parse_mountinfo(&read_once(path, READ_LIMIT).unwrap_or_default());
        mounts.retain(|mount| matches!(mount.fs_type.as_slice(), b"cgroup" | b"cgroup2"));
        Self { mounts, root }
    }

    /// The v1 hierarchy of a controller where it exists, else the unified one.
    fn place(&self, membership: &[u8], v1_name: &str) -> Option<Hierarchy> {
        let v1 = self.mounts.iter().filter(|mount| mount.fs_type == b"cgroup" && has_controller(mount, v1_name));
        let v2 = self.mounts.iter().filter(|mount| mount.fs_type == b"cgroup2");
        let v1_path = group_path(membership, Some(v1_name));
        if let Some(path) = v1_path
            && v1.clone().next().is_some()
        {
            return v1.filter_map(|mount| self.folders(mount, path, false)).next();
        }
        let path = group_path(membership, None)?;
        v2.filter_map(|mount| self.folders(mount, path, true)).next()
    }

    fn folders(&self, mount: &Mount, path: &[u8], v2: bool) -> Option<Hierarchy> {
        let inside = below(path, &mount.root)?;
        if inside.split(|&byte| byte == b'/').any(|part| part == b"..") {
            return None;
        }
        // The mount point is absolute: joining it unchanged would drop the root.
        let point = mount.point.strip_prefix(b"/").unwrap_or(&mount.point);
        let top = self.root.join(OsStr::from_bytes(point));
        let leaf = if inside.is_empty() { top.clone() } else { top.join(OsStr::from_bytes(inside)) };
        // The folder may be missing in a container that shows its own group as the root under the host's path. The
        // ancestors that exist are then valid.
        let folders: Vec<PathBuf> = leaf
            .ancestors()
            .take_while(|folder| folder.starts_with(&top))
            .filter(|folder| folder.join("cgroup.procs").symlink_metadata().is_ok())
            .take(MOST_DEPTH)
            .map(Path::to_path_buf)
            .collect();
        (!folders.is_empty()).then(|| Hierarchy { v2, path: path.to_vec(), folders })
    }
}

/// The path in the line `ID:CONTROLLERS:PATH` with that controller, or in v2's `0::PATH`. Paths may contain colons.
pub(super) fn group_path<'m>(membership: &'m [u8], v1_name: Option<&str>) -> Option<&'m [u8]> {
    lines(membership).find_map(|line| {
        let mut parts = line.splitn(3, |&byte| byte == b':');
        let (id, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
        let wanted = match v1_name {
            Some(name) => controllers.split(|&byte| byte == b',').any(|controller| controller == name.as_bytes()),
            None => id == b"0" && controllers.is_empty(),
        };
        // The kernel appends this to a group that was removed while it had members.
        wanted.then(|| path.strip_suffix(b" (deleted)").unwrap_or(path))
    })
}
